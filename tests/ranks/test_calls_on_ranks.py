"""Engines: every algorithm and the library's own collectives give the exact result on real ranks.

That the input is as it was is part of what `hpccoll.check.Pattern` compares.
"""

import json
from pathlib import Path

import pytest

import hpccoll.engines
from hpccoll.collectives import COLLECTIVES
from hpccoll.registry import LIBRARY, catalogue

SMALL = 5
WHOLE_CATALOGUE = 180.0
"""Seconds for all algorithms, on more ranks than cores."""
VARIANTS = {
    ("allreduce", "ring:segments=2"),
    ("reduce-scatter", "ring:segments=3"),
    ("allgather", "bruck:radix=3"),
    ("allgather", "bruck:radix=4"),
}


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 8, 9])
def test_every_call_gives_the_exact_result(launcher, ranks):
    job = launcher.run(ranks, "every_call", limit=WHOLE_CATALOGUE)
    assert job.code == 0, job.err
    report = json.loads(job.out)
    assert report["failures"] == []
    called = {tuple(pair) for pair in report["called"]}
    able = {(a.collective.name, a.name) for a in catalogue() if a.supports(ranks)}
    libraries = {(collective, LIBRARY) for collective in COLLECTIVES}
    assert called >= able | libraries | (VARIANTS if ranks <= SMALL else set())
    built = any(Path(hpccoll.engines.__path__[0]).glob("_native?.*.so"))
    assert (report["without native"] == "") == built
    once = sum(_calls(collective, ranks) for collective, _ in called)
    assert report["calls"] == once * (1 + built)


def _calls(collective: str, ranks: int) -> int:
    """Return how many calls one algorithm needs: counts, in and out of place, roots."""
    counts = len({0, 1, ranks - 1, ranks, 37, 5000})
    places = 1 if collective == "bcast" else 2
    roots = ranks if ranks <= SMALL else 4
    return counts * places * (roots if collective in ("bcast", "reduce") else 1)
