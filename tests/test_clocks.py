"""Clocks: lines that are laid through points, and put one behind the other."""

from itertools import pairwise

import numpy as np
import pytest

from hpccoll.clocks import Clock, _fitted

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


def points(own, parent, start, number=10, pause=0.02):
    """Return what ping-pongs would give that take no time."""
    moments = [start + pause * i for i in range(number)]
    return [(own.shows(moment), parent.shows(moment)) for moment in moments]


@pytest.mark.parametrize("drift", [1.0, 1 + 20e-6, 1 - 100e-6])
@pytest.mark.parametrize("offset", [0.0, 3e5, -1e6 + 1])
def test_offset_and_drift_are_found_to_nanoseconds_long_after_boot(drift, offset):
    own, root = Machine(drift, offset), Machine(1.0, 0.0)
    *measured, check = points(own, root, SINCE_BOOT, 11)
    clock = _fitted(measured, check, Clock())
    assert clock.slope == pytest.approx(1 / drift, abs=1e-8)
    for later in (0.0, 0.1, 0.22):
        found = clock.to_global(times(own.shows(SINCE_BOOT + later)))[0]
        assert found == pytest.approx(SINCE_BOOT + later, rel=0, abs=NANOSECONDS)
    assert clock.error <= NANOSECONDS


def test_lines_compose_along_the_tree():
    # Each measures only against its parent, and gets rank 0's time all the same.
    machines = [Machine(1.0, 0.0), Machine(1 + 30e-6, 5e5), Machine(1 - 40e-6, -2e5)]
    clock = Clock()
    for parent, own in pairwise(machines):
        *measured, check = points(own, parent, SINCE_BOOT, 11)
        clock = _fitted(measured, check, clock)
    found = clock.to_global(times(machines[-1].shows(SINCE_BOOT + 0.1)))[0]
    assert found == pytest.approx(SINCE_BOOT + 0.1, rel=0, abs=2 * NANOSECONDS)


def test_the_error_is_the_distance_of_the_check_added_to_the_parents():
    own, root = Machine(1.0, 7.0), Machine(1.0, 0.0)
    *measured, (mine, theirs) = points(own, root, 100.0, 11)
    clock = _fitted(measured, (mine, theirs + 3e-6), Clock(error=2e-6))
    assert clock.error == pytest.approx(5e-6, rel=1e-3)


def test_noise_of_single_points_is_averaged():
    rng = np.random.default_rng(1)
    own, root = Machine(1 + 10e-6, -50.0), Machine(1.0, 0.0)
    noisy = [(a, b + rng.normal(0, 1e-7)) for a, b in points(own, root, SINCE_BOOT)]
    clock = _fitted(noisy, noisy[-1], Clock())
    middle = clock.to_global(times(own.shows(SINCE_BOOT + 0.09)))[0] - (SINCE_BOOT + 0.09)
    assert abs(middle) < 3 * 1e-7 / np.sqrt(len(noisy))
