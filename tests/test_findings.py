"""Findings, from made-up measurements: what is there is told, noise is not."""

from random import Random
from types import SimpleNamespace

import pytest

from hpccoll import findings as module
from hpccoll.collectives import COLLECTIVES
from hpccoll.findings import FACTOR, GUIDELINES, MOST, findings
from hpccoll.registry import LIBRARY
from hpccoll.stats import summarize

RANDOM = Random(0)


def measured(us, size=1024, of="allreduce", label="ring", n=30, noise=0.02, **fields):
    """Return a measurement with noisy samples around a time in microseconds."""
    samples = tuple(us * 1e-6 * RANDOM.lognormvariate(0, noise) for _ in range(n))
    values = {
        "collective": of,
        "algorithm": label.split(":")[0],
        "label": label,
        "engine": "native",
        "bytes": size,
        "message": SimpleNamespace(root=0),
        "latency": summarize(samples),
        "samples": samples,
        "check": "ok",
    }
    return SimpleNamespace(**values | fields)


def series(*us, **fields):
    """Return measurements of sizes 1 KiB, 2 KiB, 4 KiB and so on."""
    return [measured(time, 1024 << i, **fields) for i, time in enumerate(us)]


def test_a_consistent_run_has_no_findings():
    assert findings([]) == []
    assert findings(series(1, 1.5, 2.5, 4.5, 8.5, 16)) == []


def test_a_longer_message_that_is_faster_is_told():
    (found,) = findings(series(6, 12, 6, noise=0.0001))
    assert found == "allreduce ring: 2 KiB takes 2.00 times as long as 4 KiB (p < 0.001)"


def test_the_worst_size_speaks_for_all_of_an_algorithm():
    (found,) = findings(series(10, 13, 8, noise=0.0001))
    assert found == (
        "allreduce ring: 2 KiB takes 1.62 times as long as 4 KiB (p < 0.001), and so at 1 more size"
    )
    found = findings([*series(10, 5), *series(10, 5, label="tree"), *series(10, 5, of="bcast")])
    assert len(found) == 3


def test_a_message_that_its_pieces_beat_is_told():
    (found,) = findings(series(10, 30, noise=0.0001))
    assert found == "allreduce ring: 2 KiB takes 1.50 times as long as 2 calls of 1 KiB (p < 0.001)"
    assert findings(series(10, 19)) == []


def test_sizes_that_no_whole_number_divides_are_not_pieces():
    assert findings([measured(10, 1000), measured(30, 1500)]) == []
    assert findings([measured(10, 0), measured(30, 1500)]) == []


@pytest.mark.parametrize(("of", "others"), GUIDELINES)
@pytest.mark.parametrize("label", ["ring", LIBRARY])
def test_a_collective_that_others_replace_is_told(of, others, label):
    parts = [measured(10, of=other, label=label, noise=0.0001) for other in others]
    whole = measured(15 * len(others), of=of, label=label, noise=0.0001)
    assert findings([whole, *parts]) == [
        f"{of} {label}: 1 KiB takes 1.50 times as long as {' + '.join(others)} (p < 0.001)"
    ]
    assert findings([measured(9 * len(others), of=of, label=label), *parts]) == []


def test_others_of_another_size_algorithm_engine_or_root_replace_nothing():
    whole = measured(99)
    reduce, bcast = (measured(1, of=of) for of in ("reduce", "bcast"))
    assert len(findings([whole, reduce, bcast])) == 1
    for other in (
        measured(1, of="bcast", label="tree"),
        measured(1, 2048, of="bcast"),
        measured(1, of="bcast", engine="python"),
        measured(1, of="bcast", message=SimpleNamespace(root=1)),
    ):
        assert findings([whole, reduce, other]) == []


def test_the_guidelines_are_about_collectives_there_are():
    for of, others in GUIDELINES:
        assert {of, *others} <= set(COLLECTIVES)


def test_the_worst_comes_first_and_too_many_are_counted():
    entries = [
        entry
        for number in range(MOST + 3)
        for entry in series(10 + number, 5, label=f"a{number}", noise=0.0001)
    ]
    found = findings(entries)
    assert [line.split(":")[0] for line in found[:2]] == ["allreduce a10", "allreduce a9"]
    assert len(found) == MOST + 1
    assert found[-1] == "and 3 more"


def test_a_root_is_named_and_roots_are_not_compared():
    root = {"message": SimpleNamespace(root=2)}
    (found,) = findings(series(10, 5, of="bcast", **root))
    assert found.startswith("bcast ring root 2: 1 KiB")
    assert findings([measured(10), measured(5, 2048, **root)]) == []


def test_a_wrong_result_is_no_witness():
    assert findings([measured(10), measured(5, 2048, check="failed")]) == []


def test_less_than_the_factor_is_not_told():
    assert FACTOR == 1.1
    assert findings(series(10.5, 10, noise=0.0001)) == []
    assert len(findings(series(11.5, 10, noise=0.0001))) == 1


def test_what_the_test_does_not_find_is_not_told():
    assert findings(series(20, 10, n=3)) == []
    assert findings(series(20, 10, noise=2, n=10)) == []


def test_the_more_is_compared_the_stricter_is_the_test():
    few = series(20, 10, n=5)  # the least p-value of 5 and 5 samples is 0.008
    assert len(findings(few)) == 1
    assert findings([*few, *series(*range(1, 10), label="tree")]) == []


def test_noise_alone_is_rarely_told():
    RANDOM.seed(0)
    runs, told = 200, 0
    for _ in range(runs):
        # Short messages all take the same time, and much noise makes the factor no hurdle.
        told += bool(findings(series(*[10] * 8, noise=0.5, n=20)))
    assert told / runs <= 0.05


def test_only_what_the_medians_suggest_is_tested(monkeypatch):
    monkeypatch.setattr(module, "compare", None)
    assert findings(series(*[1.2**i for i in range(22)], n=20)) == []
