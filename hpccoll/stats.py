"""Statistics of samples: order statistics only, so nothing is assumed about their distribution."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, sqrt

Z = 1.959963984540054
"""The normal distribution's 97.5 % point, for two-sided 95 % intervals."""


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
