"""Statistics of samples: order statistics only, so nothing is assumed about their distribution."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, comb, erfc, floor, sqrt

Z = 1.959963984540054
"""The normal distribution's 97.5 % point, for two-sided 95 % intervals."""

LEVEL = 0.05
"""Significance level of a comparison: how often equal things may be called different."""

NEGLIGIBLE = 0.06
"""Distance of A12 from 1/2 below which an effect is negligible (see `Verdict`)."""

FASTER, SLOWER, SAME = "faster", "slower", "no difference"

_NORMAL = 8
"""Samples that each side must have for the normal approximation of the rank test."""
_EXACT = 40
"""Samples of both sides together up to which the exact distribution is enumerated instead."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Statistics of one set of samples, in the samples' unit.

    `ci_low` and `ci_high` bound the median with 95 % confidence; they are None where there are too
    few samples for that.
    """

    samples: int
    min: float
    p50: float
    mean: float
    p90: float
    p99: float
    max: float
    ci_low: float | None
    ci_high: float | None


def summarize(samples: Sequence[float]) -> Summary:
    """Return the statistics of at least one sample."""
    ordered = sorted(samples)
    n = len(ordered)
    low, high = median_interval(n)
    return Summary(
        samples=n,
        min=ordered[0],
        p50=median(ordered),
        mean=sum(ordered) / n,
        p90=quantile(ordered, 0.90),
        p99=quantile(ordered, 0.99),
        max=ordered[-1],
        ci_low=None if low is None else ordered[low],
        ci_high=None if high is None else ordered[high],
    )


def median(ordered: Sequence[float]) -> float:
    """Return the median of sorted samples."""
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest of the sorted samples that at least `share` of them don't exceed."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def median_interval(n: int) -> tuple[int | None, int | None]:
    """Return the indices of the sorted samples that bound the median with 95 % confidence.

    The ranks are ⌊(n - z√n)/2⌋ and ⌈1 + (n + z√n)/2⌉, counted from 1; with fewer than six samples
    no two of them bound it.

    References
    ----------
    Hoefler, Belli, SC'15, doi:10.1145/2807591.2807644, section 3.1.3.
    """
    if n < 6:
        return None, None
    low = floor((n - Z * sqrt(n)) / 2)
    high = ceil(1 + (n + Z * sqrt(n)) / 2)
    return max(low, 1) - 1, min(high, n) - 1


def relative_half_width(samples: Sequence[float]) -> float | None:
    """Return half the width of the median's 95 % interval as a share of the median.

    It is None where there are too few samples for an interval, or the median is 0.
    """
    low, high = median_interval(len(samples))
    if low is None or high is None:
        return None
    ordered = sorted(samples)
    middle = median(ordered)
    return (ordered[high] - ordered[low]) / 2 / middle if middle else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """How samples compare to a baseline's.

    Attributes
    ----------
    ratio
        Median divided by the baseline's median; None where that is 0.
    word
        ``faster``, ``slower`` or ``no difference``.
    p_value
        How likely ranks at least this uneven are if both come from one distribution: two-sided
        Mann-Whitney U test.
    a12
        Vargha and Delaney's A: how likely a sample takes longer than one of the baseline, ties
        counted half. 0 and 1 are complete separation; under 0.06 from 1/2 is negligible.

    References
    ----------
    Mann, Whitney, Ann. Math. Stat. 18(1), 1947, doi:10.1214/aoms/1177730491.
    Vargha, Delaney, J. Educ. Behav. Stat. 25(2), 2000, doi:10.3102/10769986025002101.
    """

    ratio: float | None
    word: str
    p_value: float
    a12: float


def compare(samples: Sequence[float], baseline: Sequence[float], level: float = LEVEL) -> Verdict:
    """Compare times with a baseline's by the rank test.

    A difference is clear if the p-value is at most `level`, A12 isn't negligible, and ranks and
    medians point the same way.

    Raises
    ------
    ValueError
        One of them is empty.
    """
    if not samples or not baseline:
        raise ValueError("a comparison needs samples on both sides")
    n, m = len(samples), len(baseline)
    u, ties = rank(samples, baseline)
    a12 = u / (n * m)
    exact = min(n, m) < _NORMAL and n + m <= _EXACT
    p_value = exact_p_value(u, n, m, ties) if exact else normal_p_value(u, n, m, ties)
    own, other = median(sorted(samples)), median(sorted(baseline))
    word = SAME
    if p_value <= level and abs(a12 - 0.5) >= NEGLIGIBLE:
        if a12 < 0.5 and own < other:
            word = FASTER
        elif a12 > 0.5 and own > other:
            word = SLOWER
    return Verdict(own / other if other else None, word, p_value, a12)


def rank(samples: Sequence[float], baseline: Sequence[float]) -> tuple[float, list[int]]:
    """Return Mann and Whitney's U, and how often each value occurs, in ascending order.

    U is the number of pairs in which the sample is above the baseline's, ties counted half.
    """
    pooled = sorted([*samples, *baseline])
    last = dict(zip(pooled, range(len(pooled)), strict=True))
    first = dict(zip(reversed(pooled), reversed(range(len(pooled))), strict=True))
    n = len(samples)
    twice_ranks = sum(map(first.__getitem__, samples)) + sum(map(last.__getitem__, samples)) + 2 * n
    return (twice_ranks - n * (n + 1)) / 2, [last[value] - first[value] + 1 for value in last]


def normal_p_value(u: float, n: int, m: int, ties: Sequence[int]) -> float:
    """Return the two-sided p-value by the normal approximation.

    With the correction of the variance for ties and the correction for continuity.

    References
    ----------
    Lehmann, Nonparametrics: Statistical Methods Based on Ranks, 1975, chapter 1.
    """
    both = n + m
    tied = sum(t**3 - t for t in ties)
    variance = n * m / 12 * ((both + 1) - tied / (both * (both - 1)))
    if variance <= 0:
        return 1.0
    z = max(0.0, abs(u - n * m / 2) - 0.5) / sqrt(variance)
    return erfc(z / sqrt(2))


def exact_p_value(u: float, n: int, m: int, ties: Sequence[int]) -> float:
    """Return the share of all ways to deal the samples to both sides that have U as far from n*m/2.

    `ties` says how often each value occurs, in ascending order of the values. The numbers of ways
    by rank sum of the smaller side are built up value by value, so ties are exact as well.
    """
    fewer = min(n, m)
    ways: list[Counter[int]] = [Counter({0: 1}), *(Counter() for _ in range(fewer))]
    below = 0
    for equal in ties:
        twice_rank = 2 * below + equal + 1
        below += equal
        for dealt in range(fewer, 0, -1):
            for here in range(1, min(equal, dealt) + 1):
                for twice_sum, count in ways[dealt - here].items():
                    ways[dealt][twice_sum + here * twice_rank] += count * comb(equal, here)
    mean, distance = fewer * (n + m + 1), abs(2 * u - n * m)
    as_far = sum(count for twice, count in ways[fewer].items() if abs(twice - mean) >= distance)
    return as_far / comb(n + m, fewer)
