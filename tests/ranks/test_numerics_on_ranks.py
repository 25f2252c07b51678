"""Numerics: what is predicted without MPI is what real ranks get, to the bit."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

import hpccoll.engines
from hpccoll.collectives import ALL
from hpccoll.registry import catalogue

ALL_REDUCTIONS = 180.0
"""Seconds for all reductions in all arithmetics, on more ranks than cores."""
HALVES = ["float16", *["bfloat16"] * (find_spec("ml_dtypes") is not None)]
ARITHMETICS = [
    *((name, name) for name in (*HALVES, "float32", "float64")),
    *((name, "float32") for name in HALVES),
]


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_every_reduction_gives_the_predicted_bits(launcher, ranks):
    job = launcher.run(ranks, "predicted_bits", limit=ALL_REDUCTIONS)
    assert job.code == 0, job.err
    report = json.loads(job.out)
    assert report["failures"] == []
    # Two ranks have one order alone; on more, agreeing with the prediction says something.
    expected = sorted(map(list, ARITHMETICS)) if ranks > 2 else []
    assert report["another order has other bits"] == expected
    built = any(Path(hpccoll.engines.__path__[0]).glob("_native?.*.so"))
    assert (report["without native"] == "") == built
    entries = [e for e in catalogue() if e.collective.contributors == ALL and e.supports(ranks)]
    calls = [
        f"{entry.collective.name} {entry.name} {storage} {wide} root {root}"
        for entry in entries
        for root in ({0, ranks - 1} if entry.collective.rooted else {0})
        for storage, wide in ARITHMETICS
    ]
    assert sorted(report["called"]) == sorted(calls * (1 + built))
