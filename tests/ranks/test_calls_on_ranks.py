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
IRREGULAR = {"linear", "random:1", "one-empty", "one-huge"}
VARIANTS = {
    ("allreduce", "ring:segments=2"),
    ("reduce-scatter", "ring:segments=3"),
    ("allgather", "bruck:radix=3"),
    ("allgather", "bruck:radix=4"),
}


DTYPES = {"int8", "int64", "uint16", "float16", "bfloat16", "float32", "float64", "complex64"}


@pytest.mark.parametrize("ranks", range(1, 10))
def test_every_call_gives_the_exact_result(launcher, ranks):
    job = launcher.run(ranks, "every_call", limit=WHOLE_CATALOGUE)
    assert job.code == 0, job.err
    report = json.loads(job.out)
    assert report["failures"] == []
    called = {tuple(call) for call in report["called"]}
    able = [a for a in catalogue() if a.supports(ranks)]
    for collective in COLLECTIVES.values():
        names = {a.name for a in able if a.collective is collective} | {LIBRARY}
        ordered = {a.name for a in able if a.collective is collective and not a.commutative}
        for name in names:
            patterns = {
                pattern
                for of, label, pattern, _ in called
                if (of, label) == (collective.name, name)
            }
            assert patterns == {"equal", *(IRREGULAR if collective.irregular else ())}
        if collective.reduces:
            assert {
                label for of, label, _, op in called if (of, op) == (collective.name, "matmul2x2")
            } == ordered | {LIBRARY}
    for reduces in (True, False):
        assert {dtype for of, dtype in report["dtypes"] if of == reduces} >= DTYPES
    labels = {call[:2] for call in called}
    assert labels >= (VARIANTS if ranks <= SMALL else set())
    built = any(Path(hpccoll.engines.__path__[0]).glob("_native?.*.so"))
    assert (report["without native"] == "") == built
    assert report["engines"] == 1 + built
