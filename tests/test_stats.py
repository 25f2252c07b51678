"""Statistics against their definitions."""

import math
from fractions import Fraction
from itertools import combinations
from random import Random
from time import process_time

import pytest

from hpccoll.stats import (
    FASTER,
    NEGLIGIBLE,
    SAME,
    SLOWER,
    compare,
    exact_p_value,
    median,
    median_interval,
    normal_p_value,
    quantile,
    rank,
    relative_half_width,
    summarize,
)

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


# The width of an interval


@pytest.mark.parametrize("n", [6, 7, 100])
def test_the_half_width_is_the_summarys_by_its_median(n):
    samples = Random(n).sample(range(1, 1000), n)
    found = summarize(samples)
    assert relative_half_width(samples) == (found.ci_high - found.ci_low) / 2 / found.p50


@pytest.mark.parametrize("samples", [[], [1.0], [1.0, 2.0, 3.0, 4.0, 5.0], [0.0] * 10])
def test_without_an_interval_or_a_median_there_is_no_width(samples):
    assert relative_half_width(samples) is None


def test_samples_that_are_all_alike_have_no_width():
    assert relative_half_width([2.0] * 10) == 0


# The rank test


def u_by_pairs(samples, baseline):
    """Return U by its definition."""
    return sum((x > y) + (x == y) / 2 for x in samples for y in baseline)


def p_by_enumeration(samples, baseline):
    """Return the share of all ways to deal the samples out that are as uneven."""
    pooled, n, m = [*samples, *baseline], len(samples), len(baseline)
    distance = abs(u_by_pairs(samples, baseline) - n * m / 2)
    as_far = 0
    for chosen in combinations(range(n + m), n):
        own = [pooled[i] for i in chosen]
        other = [pooled[i] for i in range(n + m) if i not in chosen]
        as_far += abs(u_by_pairs(own, other) - n * m / 2) >= distance
    return as_far / math.comb(n + m, n)


def some(seed, n, values):
    """Return n numbers; the fewer values, the more ties."""
    random = Random(f"{seed} {n} {values}")
    return [random.randrange(values) for _ in range(n)]


SHAPES = [(1, 1), (1, 7), (2, 3), (3, 3), (4, 5), (5, 4), (6, 6), (7, 2)]


@pytest.mark.parametrize("values", [1, 2, 4, 1000])
@pytest.mark.parametrize(("n", "m"), SHAPES)
def test_few_samples_are_compared_exactly(n, m, values):
    for seed in range(4):
        samples, baseline = some(seed, n, values), some(-seed, m, values)
        found = compare(samples, baseline)
        assert found.p_value == pytest.approx(p_by_enumeration(samples, baseline), abs=1e-12)
        assert found.a12 == u_by_pairs(samples, baseline) / (n * m)


@pytest.mark.parametrize("values", [3, 30, 10**6])
def test_ranks_give_the_statistic_of_the_definition(values):
    samples, baseline = some(0, 40, values), some(1, 25, values)
    u, ties = rank(samples, baseline)
    pooled = [*samples, *baseline]
    assert u == u_by_pairs(samples, baseline)
    assert ties == [pooled.count(value) for value in sorted(set(pooled))]


def test_the_test_gives_published_numbers():
    # Hollander, Wolfe, Nonparametric Statistical Methods, 1973: permeability of a membrane.
    term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46]
    early = [1.15, 0.88, 0.90, 0.74, 1.21]
    assert rank(term, early)[0] == 35
    assert compare(term, early).p_value == pytest.approx(2 * 0.1272, abs=1e-4)
    # Chambers et al., Graphical Methods for Data Analysis, 1983: ozone in May and in August.
    may = [41, 36, 12, 18, 28, 23, 19, 8, 7, 16, 11, 14, 18, 14, 34, 6, 30, 11, 1, 11, 4, 32, 23]
    may += [45, 115, 37]
    august = [39, 9, 16, 78, 35, 66, 122, 89, 110, 44, 28, 65, 22, 59, 23, 31, 44, 21, 9, 45, 168]
    august += [73, 76, 118, 84, 85]
    assert rank(may, august)[0] == 127.5
    assert compare(may, august).p_value == pytest.approx(0.0001208, abs=5e-8)
    assert compare(may, august).word == FASTER
    assert compare(august, may).word == SLOWER


def test_the_approximation_is_near_the_exact_value_where_it_takes_over():
    for values in (5, 20, 1000):
        for shift in range(0, values, max(1, values // 8)):
            samples = [x + shift for x in some(0, 8, values)]
            baseline = some(1, 8, values)
            u, ties = rank(samples, baseline)
            exact, normal = exact_p_value(u, 8, 8, ties), normal_p_value(u, 8, 8, ties)
            assert normal == pytest.approx(exact, abs=0.02)
            assert compare(samples, baseline).p_value == normal


@pytest.mark.parametrize(("n", "m"), [(1, 1000), (7, 1000), (7, 34), (33, 7), (8, 8), (100, 100)])
def test_a_comparison_is_the_same_from_both_sides(n, m):
    random = Random(n)
    one = [random.lognormvariate(0, 1) for _ in range(n)]
    other = [random.lognormvariate(1, 1) for _ in range(m)]
    there, back = compare(one, other), compare(other, one)
    assert there.p_value == pytest.approx(back.p_value)
    assert there.a12 == pytest.approx(1 - back.a12)
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert {there.word, back.word} in ({FASTER, SLOWER}, {SAME})


def times(random, n, factor=1.0):
    """Return times as they are measured: skewed to the right, and ticks of a clock."""
    return [round(factor * random.lognormvariate(0, 0.2), 2) for _ in range(n)]


@pytest.mark.parametrize("n", [5, 10, 50])
def test_equal_things_are_called_different_in_five_of_a_hundred_comparisons(n):
    random, trials = Random(n), 2000
    found = [compare(times(random, n), times(random, n)) for _ in range(trials)]
    share = sum(each.p_value <= 0.05 for each in found) / trials
    assert share <= 0.065
    assert share >= (0.015 if n < 10 else 0.035)  # few samples have few p-values to choose from
    assert sum(each.word != SAME for each in found) / trials <= share


def test_a_clear_shift_is_found():
    random = Random(0)
    found = [compare(times(random, 50, 0.8), times(random, 50)) for _ in range(200)]
    assert sum(each.word == FASTER for each in found) >= 198
    assert not any(each.word == SLOWER for each in found)


def test_a_stricter_level_calls_less_a_difference():
    samples, baseline = [1, 2, 3, 4, 6], [5, 7, 8, 9, 10]
    found = compare(samples, baseline)
    assert found.word == FASTER
    assert 0.01 < found.p_value < 0.05
    assert compare(samples, baseline, level=0.01).word == SAME


def test_a_negligible_effect_is_no_difference_however_sure_it_is():
    baseline = range(10_000)
    found = compare([x + 300 for x in baseline], baseline)
    assert found.p_value < 1e-10
    assert abs(found.a12 - 0.5) < NEGLIGIBLE
    assert found.word == SAME
    assert compare([x + 800 for x in baseline], baseline).word == SLOWER


def test_ranks_and_medians_that_disagree_are_no_difference():
    # Most pairs say that the first is faster, its median is the larger one.
    samples, baseline = [1.0] * 49 + [10.0] * 51, [9.0] * 51 + [11.0] * 49
    found = compare(samples, baseline)
    assert found.ratio > 1
    assert found.a12 < 0.5 - NEGLIGIBLE
    assert found.p_value <= 0.05
    assert found.word == SAME


def test_a_baseline_of_no_time_has_no_ratio():
    assert compare([1.0] * 10, [0.0] * 10).ratio is None


@pytest.mark.parametrize("samples", [([], [1.0]), ([1.0], []), ([], [])])
def test_nothing_cannot_be_compared(samples):
    with pytest.raises(ValueError, match="needs samples on both sides"):
        compare(*samples)


def test_many_samples_are_compared_in_no_time():
    random = Random(0)
    samples, baseline = ([random.random() for _ in range(10_000)] for _ in range(2))

    def seconds():
        begin = process_time()
        compare(samples, baseline)
        return process_time() - begin

    assert min(seconds() for _ in range(5)) < 0.05
