"""Sweeps as job arrays: every cell is measured once, however elements end."""

import json
import os
import re
import signal
from collections import Counter
from pathlib import Path
from time import monotonic, sleep

import pytest

EXAMPLE = re.search(
    r"```toml\n(.*?)```", (Path(__file__).parents[2] / "docs" / "slurm.md").read_text(), re.DOTALL
)[1]
LONG = """\
[base]
ranks = 2
nodes = 2
algorithm = "ring"
min-bytes = "8"
max-bytes = "4KiB"
repetitions = 1000000
target-ci = 1e-9
time-budget = 0.4
thread-level = "multiple"
[axes]
collective = ["allreduce", "allgather"]
dtype = ["float32", "float64", "int64"]
"""
"""Elements that run long enough to be hit; none ends before its time budget."""
SHORT = """\
[base]
collective = "allreduce"
ranks = 2
nodes = 2
sizes = "8"
time-budget = 0.1
thread-level = "multiple"
[axes]
algorithm = ["ring", "tree"]
"""


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

    def resume(self):
        """Submit what is missing or failed, and return the numbers of the jobs."""
        return self._submitted("resume", self.plan)

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

    def status(self):
        """Return the states and reasons of the elements, by index."""
        done = self.call("status", self.plan)
        assert done.returncode == 0, done.stderr
        pattern = r"^ +(\d+) .*?\b(done|running|pending|failed|missing)\b *(.*)$"
        found = re.findall(pattern, done.stdout, re.MULTILINE)
        return {int(index): (word, reason) for index, word, reason in found}

    def output(self):
        """Return what the jobs printed."""
        printed = sorted(self.results.glob("*.out"))
        return "\n".join(f"{path.name}: {path.read_text()}" for path in printed)

    def measured(self, index):
        """Return how many sizes the unfinished runs of an element have measured."""
        partial = self.results.glob(f"element-{index:04d}.jsonl.partial-*")
        return sum(path.read_text().count('"type": "group"') for path in partial)

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


@pytest.fixture
def sweep(slurm, environment, tmp_path):
    """Return a function that makes a sweep of a text, for MPICH unless said."""

    def sweep(text, mpi="mpich", folder=tmp_path):
        folder.mkdir(exist_ok=True)
        return Sweep(slurm, environment(mpi), folder, text)

    return sweep


def until(found, limit=40.0):
    """Wait until something is found, and return it."""
    deadline = monotonic() + limit
    while not (value := found()):
        assert monotonic() < deadline, "it never came"
        sleep(0.05)
    return value


def test_the_sweep_of_the_chapter_runs_throttled_and_is_collected(slurm, sweep):
    made = sweep(EXAMPLE)
    *arrays, collector = made.submit("--throttle", "4", "--shared")
    assert len(arrays) == 1
    most = 0
    while (state := slurm.states(collector)["N/A"]) in ("PENDING", "RUNNING", "COMPLETING"):
        running = list(slurm.states(arrays[0]).values()).count("RUNNING")
        most = max(most, running)
        sleep(0.1)
    assert state == "COMPLETED", made.output()
    assert 2 <= most <= 4
    _, cells = made.assert_every_cell_is_there_once()
    assert len({cell[0] for cell in cells}) == 24
    assert {word for word, _ in made.status().values()} == {"done"}
    assert made.resume() == [], "there is nothing to resume"
    again = made.call("submit", made.file)
    assert again.returncode == 2
    assert "was submitted already; hpccoll sweep resume" in again.stderr
