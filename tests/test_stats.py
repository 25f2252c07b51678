"""Statistics against their definitions."""

import math
from fractions import Fraction
from random import Random

import pytest

from hpccoll.stats import median, median_interval, quantile, summarize

CONFIDENCE = Fraction(95, 100)


def coverage(n, low, high):
    """Return the probability that the median lies between two order statistics of n samples.

    Each sample is below the median with probability 1/2. The interval contains the median if more
    than `low` of them (counted from 0) are below and no more than `high`.
    """
    return Fraction(sum(math.comb(n, below) for below in range(low + 1, high + 1)), 2**n)


def test_the_interval_covers_the_median_with_95_percent():
    for n in range(6, 201):
        low, high = median_interval(n)
        assert 0 <= low < high < n
        assert coverage(n, low, high) >= CONFIDENCE, n


def test_the_interval_is_symmetric_and_hardly_wider_than_it_must_be():
    for n in range(6, 201):
        low, high = median_interval(n)
        assert low + high == n - 1
        assert low + 3 >= high - 3 or coverage(n, low + 3, high - 3) < CONFIDENCE, n


@pytest.mark.parametrize("n", range(1, 6))
def test_fewer_than_six_samples_bound_nothing(n):
    assert coverage(n, 0, n - 1) < CONFIDENCE
    assert median_interval(n) == (None, None)
    found = summarize([1.0] * n)
    assert (found.ci_low, found.ci_high) == (None, None)


@pytest.mark.parametrize("n", range(1, 30))
def test_half_of_the_samples_lie_on_either_side_of_the_median(n):
    ordered = sorted(Random(n).randrange(100) for _ in range(n))
    found = median(ordered)
    assert 2 * sum(x < found for x in ordered) <= n
    assert 2 * sum(x > found for x in ordered) <= n


def test_the_median_of_an_even_number_lies_in_the_middle_of_two():
    assert median([1, 2, 4, 8]) == 3
    assert median([1, 2, 4]) == 2


@pytest.mark.parametrize("percent", [1, 50, 90, 99, 100])
@pytest.mark.parametrize("n", [1, 2, 3, 9, 10, 11, 99, 100, 101, 1000])
def test_a_quantile_is_the_smallest_sample_that_the_share_does_not_exceed(n, percent):
    ordered = sorted(Random(n).sample(range(10 * n), n))
    share = Fraction(percent, 100)
    reached = (x for x in ordered if sum(y <= x for y in ordered) >= share * n)
    assert quantile(ordered, percent / 100) == next(reached)


@pytest.mark.parametrize("n", [1, 5, 6, 7, 100])
def test_a_summary_does_not_depend_on_the_order_of_the_samples(n):
    samples = [float(x * x) for x in range(n)]
    shuffled = Random(0).sample(samples, n)
    assert summarize(shuffled) == summarize(samples)


@pytest.mark.parametrize("n", [1, 5, 6, 7, 100])
def test_a_summary_holds_what_its_names_say(n):
    ordered = [float(x * x) for x in range(n)]
    found = summarize(ordered)
    assert (found.samples, found.min, found.max) == (n, ordered[0], ordered[-1])
    assert found.p50 == median(ordered)
    assert found.mean == math.fsum(ordered) / n
    assert (found.p90, found.p99) == (quantile(ordered, 0.9), quantile(ordered, 0.99))
    if n >= 6:
        low, high = median_interval(n)
        assert (found.ci_low, found.ci_high) == (ordered[low], ordered[high])
        assert found.ci_low <= found.p50 <= found.ci_high
