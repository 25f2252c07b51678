"""A sweep whose processes are killed at any moment has, once it is done, every cell once."""

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from time import monotonic, sleep

import pytest
import sweep_child
from sweep_child import ELEMENTS, PLAN, SIZES

from hpccoll.sweep.collect import collect
from hpccoll.sweep.results import Results
from hpccoll.sweep.status import states

LIMIT = 60.0
"""Seconds in which the sweep must be done; kills become rarer, so that it ends."""


@pytest.fixture
def child(tmp_path):
    """Return a function that starts a process which runs what isn't done; killed at the end."""
    started = []

    def child():
        command = [sys.executable, sweep_child.__file__, str(tmp_path)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        started.append(process)
        return process

    yield child
    for process in started:
        process.kill()
        process.wait()
        process.stderr.close()


def cells(results, path):
    """Collect the results, and return element, size, algorithm and values of every record."""
    collect(results, path, force=False, partial=False)
    records = [json.loads(line) for line in Path(path).read_text().splitlines()]
    return [
        (record["element"], record["bytes"], record["algorithm"], record["samples_us"][0])
        for record in records
        if record["type"] == "measurement"
    ]


def test_whatever_is_killed_the_collected_cells_are_those_of_an_undisturbed_run(child, tmp_path):
    results, random = Results(tmp_path, PLAN), Random(1)
    began, kills = monotonic(), 0
    while not all(state.done for state in states(results)):
        assert monotonic() - began < LIMIT, f"not done after {kills} kills"
        # One or two at once, and the longer it takes the longer they live.
        processes = [child() for _ in range(random.choice((1, 1, 2)))]
        sleep(0.15 + random.random() * (0.2 + kills / 20))
        for process in processes:
            ended = process.poll()
            assert ended in (0, None), process.communicate()[1].decode()
            process.kill()
            process.wait()
            kills += ended is None
    undisturbed = {
        (index, size, cell["algorithm"], cell["samples_us"][0])
        for index in range(ELEMENTS)
        for size in SIZES
        for cell in sweep_child.cells(index, size)
    }
    found = cells(results, tmp_path / "all.jsonl")
    assert len(found) == len(set(found))
    assert set(found) == undisturbed
    assert kills > 5, "nothing was killed"
    contents = map(results.result, PLAN.elements)
    assert any(len(content.runs) > 1 for content in contents), "no run continued a killed one"
