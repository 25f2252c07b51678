"""`--op rsum` on real ranks: the bits of the sum, whatever computes it; and what it is beside."""

import json
import re
from pathlib import Path

import pytest

import hpccoll.engines
from hpccoll.registry import catalogue

CALLS = 120.0
"""Seconds for all algorithms, on more ranks than cores."""


def test_engine_algorithm_ranks_and_segments_change_no_bit(launcher):
    bits = {"float32": set(), "float64": set()}
    built = any(Path(hpccoll.engines.__path__[0]).glob("_native?.*.so"))
    for ranks in (2, 3, 5):
        job = launcher.run(ranks, "reproducible", 2, limit=CALLS)
        assert job.code == 0, job.err
        for dtype, found in json.loads(job.out).items():
            called = [
                entry
                for entry in catalogue()
                if entry.collective.name in ("allreduce", "reduce", "reduce-scatter", "scan")
                and entry.supports(ranks)
            ]
            assert len(found) == len(called) * (1 + built) * 2 * 2
            bits[dtype] |= set(found.values())
    assert [len(found) for found in bits.values()] == [1, 1]


@pytest.mark.parametrize("engine", ["auto", "python"])
def test_every_algorithm_is_measured_beside_its_plain_sum(launcher, engine, tmp_path):
    output = tmp_path / "results.jsonl"
    words = ["--op", "rsum", "--sizes", "4KiB", "--engine", engine, "--repetitions", "8"]
    words += ["-a", "ring,tree,library:all", "-o", output]
    job = launcher.hpccoll(3, "bench", "allreduce", *words)
    assert (job.code, job.err) == (0, "")
    records = [json.loads(line) for line in output.read_text().splitlines()]
    measured = {(r["algorithm"], r["op"]): r for r in records if r["type"] == "measurement"}
    assert set(measured) == {(name, op) for name in ("ring", "tree") for op in ("rsum", "sum")}
    assert {r["check"] for r in measured.values()} == {"ok"}
    for name in ("ring", "tree"):
        medians = [measured[name, op]["latency_us"]["p50"] for op in ("rsum", "sum")]
        ratio = measured[name, "rsum"]["verdict"]["ratio"]
        assert ratio == pytest.approx(medians[0] / medians[1], rel=1e-3)
        assert measured[name, "sum"]["verdict"] is None
        (row,) = re.findall(rf"^[ \d]*(?:KiB)? +{name} .* ok$", job.out, re.MULTILINE)
        assert f" {ratio:.2f} " in row
    skipped = {r["algorithm"]: r["reason"] for r in records if r["type"] == "skipped"}
    assert "no reproducible sum" in skipped["library"]
    assert all("not selectable here" in reason for name, reason in skipped.items() if ":" in name)
    assert "t/plain" in job.out
