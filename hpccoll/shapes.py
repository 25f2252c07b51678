"""Index arithmetic that families of algorithms share."""

from dataclasses import dataclass
from functools import cache
from typing import Protocol


def power_of_two_below(size: int) -> int:
    """Return the largest power of two that is at most `size`."""
    return 1 << (size.bit_length() - 1)


def ceil_log(size: int, radix: int = 2) -> int:
    """Return the number of digits that the numbers below `size` need in base `radix`.

    >>> [ceil_log(size) for size in (1, 2, 3, 4, 5)]
    [0, 1, 2, 2, 3]
    """
    digits, reach = 0, 1
    while reach < size:
        reach *= radix
        digits += 1
    return digits


def halves(window: range) -> tuple[range, range]:
    """Split `window` in the middle."""
    middle = (window.start + window.stop) // 2
    return range(window.start, middle), range(middle, window.stop)


@cache
def circulant_skips(size: int) -> tuple[int, ...]:
    """Return the skips 1, …, size of a circulant graph, each at least half of the next.

    References
    ----------
    Träff, arXiv:2410.14234.
    """
    skips = [size]
    while skips[0] > 1:
        skips.insert(0, (skips[0] + 1) // 2)
    return tuple(skips)


def subtree(rank: int, size: int) -> range:
    """Return the ranks below and including `rank` in the binomial tree rooted at 0."""
    extent = rank & -rank if rank else size
    return range(rank, min(rank + extent, size))


class _Predicate(Protocol):
    def __call__(self, size: int, /) -> bool: ...


@dataclass(frozen=True, slots=True)
class Requirement:
    """What an algorithm needs of the number of ranks, as a test and in words."""

    sentence: str
    met: _Predicate


power_of_two = Requirement(
    "a power-of-two number of ranks", lambda size: size == power_of_two_below(size)
)

even = Requirement("an even number of ranks", lambda size: size % 2 == 0 or size == 1)
"""One rank, which sends nothing, counts as even."""
