"""The timed calls: when they end, and which calls count for how much."""

from types import SimpleNamespace

import numpy as np
import pytest

from hpccoll import turns
from hpccoll.arrival import Arrival
from hpccoll.candidates import Candidate
from hpccoll.clocks import Clock
from hpccoll.datatypes import OPERATORS
from hpccoll.layout import Message
from hpccoll.sampling import Times
from hpccoll.turns import LATE, Series, Turns

NARROW, WIDE = [1.0] * 20, [1.0, 2.0] * 10
AGREED = 100.0 + np.arange(4)


class World:
    """This rank, and one other whose values are `other` where they are larger."""

    def __init__(self, rank=0, other=None):
        self.rank, self.size, self.other = rank, 2, other
        self.hosts = ("here", "here")
        self.comm = SimpleNamespace(bcast=lambda value: value)

    def agreed(self, *numbers):
        return [float(number) for number in numbers]

    def slowest(self, times):
        if self.rank or self.other is None:
            return times
        return np.maximum(times, self.other.pop(0))

    def gathered(self, values):
        return np.array([values, values]).T if self.rank == 0 else np.empty((0, len(values)))


def turns_with(samples=(), world=None, loop=None, **asked):
    """Return turns with a series for every list of samples."""
    request = {
        "touch": False,
        "min_repetitions": 10,
        "repetitions": 100,
        "target_ci": 0.02,
        "time_budget": 2.0,
        "sync": "barrier",
        "arrival": Arrival(),
        "per_rank": False,
        "seed": 0,
        "collective": SimpleNamespace(name="allreduce"),
    }
    candidate = Candidate("ring", "ring", {}, (), None, OPERATORS["sum"])
    series = [Series(candidate, samples=list(own)) for own in samples or [()]]
    return Turns(SimpleNamespace(**request | asked), world or World(), loop, Message(4, 4), series)


@pytest.mark.parametrize(
    ("samples", "done", "elapsed", "rule"),
    [
        ([WIDE], 10, 0.0, ""),
        ([NARROW], 10, 0.0, "target"),
        ([NARROW, WIDE], 10, 0.0, ""),
        ([NARROW, NARROW], 10, 0.0, "target"),
        # Never before the least repetitions, whatever else holds.
        ([NARROW], 9, 0.0, ""),
        ([NARROW], 9, 99.0, ""),
        ([WIDE], 10, 2.0, ""),
        ([WIDE], 10, 2.1, "time budget"),
        ([WIDE], 99, 0.0, ""),
        ([WIDE], 100, 0.0, "repetitions"),
        ([WIDE], 100, 2.1, "repetitions"),
        ([NARROW], 100, 2.1, "target"),
        # Too few samples have no interval, which is never narrow.
        ([[1.0] * 5], 10, 0.0, ""),
    ],
)
def test_repetitions_end_by_the_first_rule_that_holds(samples, done, elapsed, rule):
    assert turns_with(samples)._stop(done, elapsed) == rule


@pytest.mark.parametrize(
    ("samples", "done", "elapsed", "rule"),
    [([WIDE], 9, 0.0, ""), ([WIDE], 10, 0.0, "told to end"), ([WIDE], 10, 2.1, "time budget")],
)
def test_a_job_that_is_told_to_end_makes_the_least_repetitions_and_no_more(
    monkeypatch, samples, done, elapsed, rule
):
    monkeypatch.setattr(turns, "told_to_end", lambda: "SIGUSR1")
    assert turns_with(samples)._stop(done, elapsed) == rule


def test_fewer_repetitions_than_the_least_are_the_least():
    assert turns_with([WIDE], repetitions=5)._stop(5, 0.0) == "repetitions"
    assert turns_with([WIDE], repetitions=5)._stop(4, 99.0) == ""


def test_one_rank_decides():
    assert turns_with([NARROW], world=World(rank=1))._stop(100, 99.0) == ""


def test_the_target_is_the_share_that_was_asked_for():
    samples = [0.9, 1.0, 1.1] * 10
    assert turns_with([samples], target_ci=0.05)._stop(10, 0.0) == ""
    assert turns_with([samples], target_ci=0.2)._stop(10, 0.0) == "target"


def test_turns_are_a_tenth_of_the_repetitions_and_no_more_than_are_left():
    assert [turns_with(repetitions=95)._turn(done) for done in (0, 80, 90)] == [10, 10, 5]


# How long a call took, and whether it counts


def made(begins, took):
    return Times(np.array(begins, float), np.array(begins, float) + took)


@pytest.mark.parametrize("clock", [Clock(), Clock(1.0, 0.0, 5000.0)], ids=["own", "other"])
def test_in_a_window_time_counts_from_the_agreed_moment_and_late_calls_do_not(clock):
    begins = clock.to_local(AGREED + np.array([0, 0.5, 2, 0.1]) * LATE)
    own = turns_with(loop=SimpleNamespace(clock=clock))
    valid, durations = own._durations(made(begins, 0.25), AGREED, None)
    assert valid.tolist() == [True, True, False, True]
    assert durations == pytest.approx(0.25, abs=3 * LATE)


def test_a_call_is_late_if_any_rank_is():
    world = World(other=[np.array([0, 2, 0, 0]) * LATE])
    own = turns_with(world=world, loop=SimpleNamespace(clock=Clock()))
    valid, _ = own._durations(made(AGREED, 0.25), AGREED, None)
    assert valid.tolist() == [True, False, True, True]


def test_without_a_window_time_counts_from_the_own_beginning():
    valid, durations = turns_with()._durations(made(AGREED, 0.25), None, None)
    assert valid.all()
    assert durations.tolist() == [0.25] * 4


@pytest.mark.parametrize("starts", [None, AGREED])
def test_with_late_ranks_time_counts_from_the_last_ones_coming(starts):
    # This rank is to come 0.5 s late, the other 2 s; both are as late as they were to be.
    world = World(other=[AGREED + 2.0] if starts is None else [np.zeros(4), AGREED + 2.0])
    own = turns_with(world=world, loop=SimpleNamespace(clock=Clock()))
    valid, durations = own._durations(made(AGREED + 0.5, 4.0), starts, [0.5] * 4)
    assert valid.all()
    assert durations.tolist() == [2.5] * 4


class Loop:
    """A loop that is `lateness` late for every call, which then takes 0.25 s."""

    def __init__(self, lateness):
        self.lateness, self.clock = np.array(lateness), Clock()
        self.watchdog = SimpleNamespace(label="")

    def run(self, call, count, touch, *, barrier, starts, delays):
        assert not barrier
        return made(starts + self.lateness, 0.25)


@pytest.mark.parametrize(
    ("lateness", "late", "kept"),
    [([0, 0, 0], 0, 3), ([0, 2, 0], 1, 2), ([2, 3, 2], 3, 0)],
    ids=["none", "some", "all"],
)
def test_late_calls_are_counted_and_kept_apart(lateness, late, kept):
    own = turns_with(loop=Loop(np.array(lateness) * LATE), sync="window", per_rank=True)
    (series,) = own.series
    own._take(series, 3, "seed")
    assert series.late == late
    assert len(series.samples) == len(series.ranks) == kept
    assert series.samples == pytest.approx([0.25] * kept, abs=1e-4)
    assert series.delayed == pytest.approx([0.25] * late, abs=1e-4)


@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_agreed_moments_leave_time_for_three_calls_and_what_comes_late(monkeypatch, seconds):
    monkeypatch.setattr(turns, "now", lambda: 50.0)
    own = turns_with([[0.1, 9.0, 0.2]], loop=Loop([0]), arrival=Arrival("ramp", seconds))
    starts = own._agreed(own.series[0], 5)
    assert np.diff(starts) == pytest.approx(0.6 + 20e-6 + seconds)
    assert starts[0] >= 50.0 + 0.6 + seconds


def test_the_first_turn_is_short_where_calls_are_late(monkeypatch):
    # The first call came in time: it doesn't tell how long the others take.
    counts = []
    loop = SimpleNamespace(canary=lambda: (0.0, 0.0))
    own = turns_with(loop=loop, arrival=Arrival("late", 1.0, 1))
    monkeypatch.setattr(own, "_take", lambda series, count, seed: counts.append(count))
    monkeypatch.setattr(own, "_stop", lambda done, elapsed: "time budget" if done else "")
    assert own.sample() == "time budget"
    assert counts == [1]
