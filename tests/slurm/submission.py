"""A sweep of a test: its files, the commands about it, and what must be true of its results."""

import json
import re
from collections import Counter


class Sweep:
    """A sweep file in a folder of its own, and hpccoll's commands about it."""

    def __init__(self, slurm, environment, folder, text):
        self.slurm, self.environment = slurm, environment
        self.file, self.plan = folder / "a sweep.toml", folder / "a sweep.json"
        self.collected = folder / "a sweep.jsonl"
        self.results = folder / "a sweep.results"
        self.file.write_text(text)

    def call(self, *words):
        return self.slurm.run(
            "python3", "-m", "hpccoll", "sweep", *words, environment=self.environment
        )

    def submit(self, *words):
        """Submit the sweep and return the numbers of its jobs, that of the collector last."""
        return self._submitted("submit", self.file, *words)

    def resume(self, *words):
        """Submit what is missing or failed, and return the numbers of the jobs."""
        return self._submitted("resume", self.plan, *words)

    def _submitted(self, *words):
        done = self.call(*words)
        assert done.returncode == 0, done.stderr
        return re.findall(r"^job (\d+)", done.stdout, re.MULTILINE)

    def run(self, *words):
        """Submit the sweep and wait for its end."""
        return self.wait(self.submit(*words))

    def wait(self, jobs):
        """Wait for jobs, of which the last collects; return its state."""
        return self.slurm.wait(jobs[-1])["N/A"]

    def status(self, *words):
        """Return the states and reasons of the elements, by index."""
        done = self.call("status", self.plan, *words)
        assert done.returncode == 0, done.stderr
        pattern = r"^ +(\d+) .*?\b(done|running|pending|failed|missing)\b *(.*)$"
        found = re.findall(pattern, done.stdout, re.MULTILINE)
        return {index: (word, reason) for index, word, reason in found}

    def output(self):
        """Return what the jobs printed."""
        printed = sorted(self.results.glob("*.out"))
        return "\n".join(f"{path.name}: {path.read_text()}" for path in printed)

    def unfinished(self, but):
        """Return the number of an element, none of these, that has measured two sizes, as text."""
        for path in sorted(self.results.glob("element-*.jsonl.partial-*")):
            index = str(int(path.name[8:12]))
            if index not in but and path.read_text().count('"type": "group"') > 1:
                return index
        return None

    def assert_every_cell_is_there_once(self):
        records = [json.loads(line) for line in self.collected.read_text().splitlines()]
        elements = {element["index"]: element for element in records[0]["elements"]}
        cells = Counter(
            (r["element"], r["collective"], r["algorithm"], r["dtype"], r["bytes"])
            for r in records
            if r["type"] == "measurement"
        )
        assert set(cells.values()) == {1}, [cell for cell, times in cells.items() if times > 1]
        assert {cell[0] for cell in cells} == set(elements)
        for index, collective, _, dtype, _ in cells:
            options = elements[index]["options"]
            assert collective == options["collective"]
            assert dtype == options.get("dtype", "float32")
        for index, element in elements.items():
            there = {cell[2] for cell in cells if cell[0] == index}
            assert there == {element["options"]["algorithm"], "library"}
        return records, cells
