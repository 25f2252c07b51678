"""Clocks: lines that are laid through points, and put one behind the other."""

from itertools import pairwise

import numpy as np
import pytest

from hpccoll.clocks import STEEPEST, Clock, Point, fitted

SINCE_BOOT = 1e6
"""Seconds: what a clock shows after eleven days, where squares have lost the microseconds."""
NANOSECONDS = 2e-9


def times(*seconds):
    return np.array(seconds, float)


@pytest.mark.parametrize("slope", [1.0, 1 + 50e-6, 1 - 50e-6])
@pytest.mark.parametrize("offset", [0.0, 12.5, -SINCE_BOOT])
def test_to_local_undoes_to_global(slope, offset):
    clock = Clock(slope, SINCE_BOOT, offset)
    moments = SINCE_BOOT + np.linspace(0, 100, 1001)
    np.testing.assert_allclose(
        clock.to_local(clock.to_global(moments)), moments, rtol=0, atol=NANOSECONDS
    )


def test_a_shared_clock_changes_nothing():
    moments = SINCE_BOOT + np.linspace(0, 1, 11)
    assert (Clock().to_global(moments) == moments).all()
    assert (Clock().to_local(moments) == moments).all()
    assert Clock().error == 0


def test_to_global_is_the_line_as_it_is_defined():
    clock = Clock(slope=2.0, origin=10.0, offset=100.0)
    assert clock.to_global(times(10, 11, 15)).tolist() == [100, 102, 110]


class Machine:
    """A clock that shows ``drift * true + offset`` of the true time."""

    def __init__(self, drift, offset):
        self.drift, self.offset = drift, offset

    def shows(self, true):
        return self.drift * true + self.offset


def points(own, parent, start, number=10, pause=0.02, trip=1e-9):
    """Return what ping-pongs give whose two ways take equally long."""
    moments = [start + pause * i for i in range(number)]
    return [Point(own.shows(moment), parent.shows(moment), trip) for moment in moments]


@pytest.mark.parametrize("drift", [1.0, 1 + 20e-6, 1 - 100e-6])
@pytest.mark.parametrize("offset", [0.0, 3e5, -1e6 + 1])
def test_offset_and_drift_are_found_to_nanoseconds_long_after_boot(drift, offset):
    own, root = Machine(drift, offset), Machine(1.0, 0.0)
    clock = fitted(points(own, root, SINCE_BOOT), Clock())
    assert clock.slope == pytest.approx(1 / drift, abs=1e-8)
    for later in (0.0, 0.1, 0.22):
        found = clock.to_global(times(own.shows(SINCE_BOOT + later)))[0]
        assert found == pytest.approx(SINCE_BOOT + later, rel=0, abs=NANOSECONDS)


def test_lines_compose_along_the_tree():
    # Each measures only against its parent, and gets rank 0's time all the same.
    machines = [Machine(1.0, 0.0), Machine(1 + 30e-6, 5e5), Machine(1 - 40e-6, -2e5)]
    clock = Clock()
    for parent, own in pairwise(machines):
        clock = fitted(points(own, parent, SINCE_BOOT), clock)
    found = clock.to_global(times(machines[-1].shows(SINCE_BOOT + 0.1)))[0]
    assert found == pytest.approx(SINCE_BOOT + 0.1, rel=0, abs=2 * NANOSECONDS)


def unequal(rng, own, parent, moment, quickest=20e-6):
    """Return what a ping-pong gives whose ways take at least their share of the quickest trip."""
    out, back = quickest / 2 + rng.exponential(quickest, 2) * (rng.random() < 0.8)
    sent, came = own.shows(moment), own.shows(moment + out + back)
    return Point((sent + came) / 2, parent.shows(moment + out), came - sent)


@pytest.mark.parametrize("seed", range(50))
def test_the_error_is_within_the_bound_and_stays_so_as_points_are_added(seed):
    rng = np.random.default_rng(seed)
    own, root = Machine(1 + rng.normal(0, 10e-6), -50.0), Machine(1.0, 0.0)
    moments = [SINCE_BOOT + 0.02 * i for i in range(10)] + [SINCE_BOOT + i for i in range(2, 60)]
    found = []
    for moment in moments:
        found.append(unequal(rng, own, root, moment))
        if len(found) >= 10:
            clock = fitted(found, Clock(error=5e-6))
            error = clock.to_global(times(own.shows(moment)))[0] - moment
            assert clock.error >= 5e-6 + 10e-6
            assert abs(error) <= clock.error


def test_a_drift_that_noise_may_have_made_is_none():
    rng = np.random.default_rng(1)
    own, root = Machine(1.0, -50.0), Machine(1.0, 0.0)
    for _ in range(100):
        found = [unequal(rng, own, root, SINCE_BOOT + 0.02 * i, 1e-3) for i in range(10)]
        later = own.shows(SINCE_BOOT + 10)
        clock = fitted(found, Clock())
        assert abs(clock.to_global(times(later))[0] - (SINCE_BOOT + 10)) < 10 * STEEPEST + 1e-3


def test_quick_round_trips_count_for_more():
    own, root = Machine(1.0, 0.0), Machine(1.0, 5.0)
    quick, slow = points(own, root, 0.0, 1, trip=1e-6), points(own, root, 0.02, 1, trip=1e-3)
    slow = [Point(point.own, point.parents + 4e-4, point.trip) for point in slow]
    clock = fitted([*quick, *slow], Clock())
    assert clock.to_global(times(10.0))[0] == pytest.approx(15.0, rel=0, abs=1e-8)
