"""Index arithmetic that families of algorithms share."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import isqrt, prod
from typing import Protocol


def power_of_two_below(size: int) -> int:
    """Return the largest power of two that is at most `size`."""
    return 1 << (size.bit_length() - 1)


def power_below(size: int, radix: int) -> int:
    """Return the largest power of `radix` that is at most `size`."""
    power = 1
    while power * radix <= size:
        power *= radix
    return power


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


def nonzero_digits(count: int, radix: int) -> int:
    """Return how many digits of the numbers below `count` in base `radix` aren't 0, all together.

    >>> nonzero_digits(4, 2)
    4
    """
    digits, weight = 0, 1
    while weight < count:
        turns, rest = divmod(count, weight * radix)
        digits += count - turns * weight - min(rest, weight)
        weight *= radix
    return digits


def halves(window: range) -> tuple[range, range]:
    """Split `window` in the middle."""
    middle = (window.start + window.stop) // 2
    return range(window.start, middle), range(middle, window.stop)


def radix_within(size: int, radix: int) -> int:
    """Return a radix that is no larger than the number of ranks."""
    return max(2, min(radix, size))


def parts(window: range, count: int) -> tuple[range, ...]:
    """Split `window`, whose length `count` divides, into equal parts."""
    length = len(window) // count
    return tuple(range(start, start + length) for start in window[::length])


def rotated(ranks: Sequence[int], rank: int) -> list[int]:
    """Return the others of a group, those after `rank` first, so that not all begin with the same.

    >>> rotated(range(5), 2)
    [3, 4, 0, 1]
    """
    place = ranks.index(rank)
    return [*ranks[place + 1 :], *ranks[:place]]


def bit_reverse(number: int, bits: int) -> int:
    """Return the lowest `bits` bits of `number` in reverse order.

    >>> bit_reverse(0b0011, 4) == 0b1100
    True
    """
    reverse = 0
    for _ in range(bits):
        reverse, number = reverse << 1 | number & 1, number >> 1
    return reverse


@cache
def prime_factors(number: int) -> tuple[int, ...]:
    """Return the prime factors of a number, the smallest first.

    >>> prime_factors(60)
    (2, 2, 3, 5)
    """
    for factor in range(2, isqrt(number) + 1):
        if number % factor == 0:
            return (factor, *prime_factors(number // factor))
    return (number,) if number > 1 else ()


def factorizations(number: int) -> list[tuple[int, ...]]:
    """Return every list of factors above 1 with this product, in every order.

    >>> factorizations(6)
    [(2, 3), (3, 2), (6,)]
    """
    if number == 1:
        return [()]
    return [
        (factor, *rest)
        for factor in range(2, number + 1)
        if number % factor == 0
        for rest in factorizations(number // factor)
    ]


@dataclass(frozen=True, slots=True)
class Folding:
    """How `size` ranks become a power of the radix: groups of neighbours with one rank in each.

    The first groups have `radix` ranks, one may have fewer, and the others are single ranks. The
    first rank of every group is its leader; leaders are numbered 0 to ``core - 1`` in order.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521, section 4.
    """

    size: int
    radix: int = 2

    @property
    def core(self) -> int:
        """Return the number of leaders."""
        return power_below(self.size, self.radix)

    @property
    def extra(self) -> int:
        """Return the number of ranks that aren't leaders."""
        return self.size - self.core

    def leader(self, number: int) -> int:
        """Return the rank of leader `number`; leader ``core`` would be the first rank beyond."""
        return number + min(number * (self.radix - 1), self.extra)

    def group(self, number: int) -> range:
        """Return the ranks of group `number`, its leader first."""
        return self.window(range(number, number + 1))

    def window(self, groups: range) -> range:
        """Return the ranks of several neighbouring groups."""
        return range(self.leader(groups.start), self.leader(groups.stop))

    def number(self, rank: int) -> int:
        """Return the number of the group that `rank` is in."""
        return max(rank // self.radix, rank - self.extra)


def windows(size: int, window: int) -> Iterator[range]:
    """Yield the numbers from 1 below `size`, `window` of them at a time (0: all at once).

    >>> list(windows(6, 2))
    [range(1, 3), range(3, 5), range(5, 6)]
    """
    width = window or size
    for first in range(1, size, width):
        yield range(first, min(first + width, size))


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


def negabinary_partner(rank: int, step: int, size: int) -> int:
    """Return who `rank` of an even number of ranks meets at `step`: 1, -1, 3, -5, 11, … away.

    The distance is that of an even rank, and its negative that of an odd one.

    References
    ----------
    De Sensi, Bonato, Saam, Hoefler, NSDI 2024, arXiv:2401.09356.
    """
    distance: int = (1 - (-2) ** (step + 1)) // 3
    return (rank - distance if rank % 2 else rank + distance) % size


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


def _factored(size: int, factors: tuple[int, ...] = ()) -> bool:
    return not factors or prod(factors) == size


factored = Requirement("factors whose product is the number of ranks", _factored)
