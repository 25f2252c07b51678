"""Arrival patterns: how they are spelled, and who comes how late."""

from itertools import pairwise

import pytest

from hpccoll.arrival import Arrival, parse
from hpccoll.errors import UsageError

SIZE, COUNT = 5, 200


def everyone(text, seed="seed"):
    """Return every rank's delays."""
    return [parse(text).delays(rank, SIZE, COUNT, seed) for rank in range(SIZE)]


@pytest.mark.parametrize(
    ("text", "arrival"),
    [
        ("none", Arrival()),
        ("random:50us", Arrival("random", 50e-6)),
        ("random:1.5ms", Arrival("random", 1.5e-3)),
        ("late:0:1ms", Arrival("late", 1e-3, 0)),
        ("late:17:2s", Arrival("late", 2.0, 17)),
        ("ramp:100us", Arrival("ramp", 100e-6)),
    ],
)
def test_a_pattern_is_a_kind_a_rank_and_a_time_with_its_unit(text, arrival):
    found = parse(text)
    assert (found.kind, found.rank) == (arrival.kind, arrival.rank)
    assert found.seconds == pytest.approx(arrival.seconds, rel=1e-15)


@pytest.mark.parametrize(
    "text",
    [
        *("", "None", "random", "random:", "random:50", "random:50ns", "random:-1us", "random:x"),
        *("late:1ms", "late:-1:1ms", "late:0:1:1ms", "ramp:0:1ms", "ramp:1.ms", "soon:1ms"),
        *("random:50us ramp:1ms", "random:1e3us"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_ways_to_write_it(text):
    with pytest.raises(UsageError) as at:
        parse(text)
    for words in (repr(text), "none, random:50us, late:RANK:1ms or ramp:100us", "us, ms or s"):
        assert words in str(at.value)


def test_without_a_pattern_there_are_no_delays():
    assert everyone("none") == [None] * SIZE


def test_late_is_one_rank_in_every_call():
    for rank, delays in enumerate(everyone("late:3:2ms")):
        assert delays == [2e-3 if rank == 3 else 0.0] * COUNT


def test_a_late_rank_must_be_one_of_the_ranks():
    parse("late:4:1ms").check(SIZE)
    parse("random:1ms").check(1)
    with pytest.raises(UsageError, match="late:5 is out of range: 5 ranks are numbered 0 to 4"):
        parse("late:5:1ms").check(SIZE)


def test_ramp_rises_by_equal_steps_from_nothing_to_its_time():
    firsts = [delays[0] for delays in everyone("ramp:100us")]
    assert (firsts[0], firsts[-1]) == (0.0, pytest.approx(100e-6))
    steps = [later - earlier for earlier, later in pairwise(firsts)]
    assert steps == pytest.approx([25e-6] * (SIZE - 1))
    assert all(delays == [delays[0]] * COUNT for delays in everyone("ramp:100us"))


def test_one_rank_alone_has_no_ramp():
    assert parse("ramp:1ms").delays(0, 1, 3, "seed") == [0.0] * 3


def test_random_is_uniform_within_its_range():
    delays = [delay for ranked in everyone("random:50us") for delay in ranked]
    assert all(0 <= delay <= 50e-6 for delay in delays)
    # 1000 of them: their mean has a standard deviation of 0.5 us, and gaps of 1 us are rare.
    assert sum(delays) / len(delays) == pytest.approx(25e-6, abs=2.5e-6)
    assert (min(delays), max(delays)) == (
        pytest.approx(0, abs=1e-6),
        pytest.approx(50e-6, abs=1e-6),
    )


def test_random_is_the_same_for_one_seed_and_differs_by_rank_and_seed():
    assert everyone("random:50us") == everyone("random:50us")
    different = {tuple(d) for s in ("a", "b") for d in everyone("random:50us", s)}
    assert len(different) == 2 * SIZE
