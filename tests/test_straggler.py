"""The straggler: who is the last, how often, by how much, and that chance is none."""

import numpy as np
import pytest

from hpccoll.straggler import straggler

HOSTS = ("a", "a", "b", "b")


def calls(*rows):
    return [np.array(row, float) for row in rows]


def by_chance(size, number, seed=0):
    """Return times that say nothing of a rank."""
    return list(np.random.default_rng(seed).normal(10, 1, (number, size)))


def test_the_straggler_is_the_last_in_most_calls_with_its_host():
    times = by_chance(4, 200)
    for row in times[:150]:
        row[2] = row.max() + 0.5
    found = straggler(times, HOSTS)
    assert (found.rank, found.host) == (2, "b")
    assert found.share >= 0.75


def test_share_and_distance_are_of_the_calls_in_which_it_was_the_last():
    late, other = (1, 2, 3, 9), (1, 2, 8, 3)
    times = calls(*[late] * 12, *[(1, 2, 4, 14)] * 2, *[other] * 6)
    found = straggler(times, HOSTS)
    assert (found.rank, found.share) == (3, 0.7)
    # Behind the second by 6, and twice by 10; where it wasn't the last doesn't count.
    assert found.behind == 6.0


@pytest.mark.parametrize("size", [2, 3, 8, 64, 256])
@pytest.mark.parametrize("number", [1, 20, 300])
def test_ranks_that_are_the_last_equally_often_are_no_stragglers(size, number):
    # Some rank is always the last more often than others: the more ranks, the more it stands out.
    for seed in range(10):
        assert straggler(by_chance(size, number, seed), ["here"] * size) is None


@pytest.mark.parametrize("size", [2, 16, 256])
def test_a_rank_that_is_always_the_last_is_found_in_a_few_calls(size):
    times = [np.arange(size)[::-1] + 1.0] * 8
    assert straggler(times, ["here"] * size).rank == 0


@pytest.mark.parametrize(("times", "last"), [(60, False), (72, True)])
def test_chance_ends_well_above_equal_shares(times, last):
    # Of 100 calls of 2 ranks 50 are chance, and the standard deviation is 5.
    rows = calls(*[(1, 2)] * times, *[(2, 1)] * (100 - times))
    assert (straggler(rows, ("a", "b")) is not None) == last


def test_one_rank_and_no_calls_have_no_straggler():
    assert straggler(calls([1.0], [2.0]), ("a",)) is None
    assert straggler([], HOSTS) is None


def test_one_call_of_two_ranks_says_nothing():
    assert straggler(calls((1, 2)), ("a", "b")) is None
