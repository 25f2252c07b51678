"""Which number the rank of every role contributes, and what all roles give together.

A design turns the hash of a position into that position's base. The term of a role follows from the
base and the role; and so does the result over all roles, from the base alone. Every design is such
that another base, a role that is left out, or one in the place of another gives another result,
at that position or, where a type is too narrow for all roles, at others. All terms and results are
integers from 0 to less than a limit, but for matrices, which are words.
"""

from collections.abc import Callable
from math import isqrt
from typing import Protocol

import numpy as np

from hpccoll.datatypes import Array

MOST = 1 << 40
"""Terms are below this, so that they can be added up in 64 bits."""


class Design(Protocol):
    """The terms of one operator.

    Attributes
    ----------
    bases
        Number of bases.
    """

    bases: int

    def terms(self, base: Array, role: Array) -> Array:
        """Return what the role contributes at every position."""

    def result(self, base: Array) -> Array:
        """Return what all roles give together."""


class Added:
    """Terms are added up, as values or as exponents: base + role, and 0 for idle roles."""

    def __init__(self, limit: int, size: int) -> None:
        fits = 2 * size * size <= limit
        self.active = size if fits else min(size, max(1, isqrt(limit // 2)))
        self.bases = limit // self.active - self.active + 1

    def terms(self, base: Array, role: Array) -> Array:
        """Return what the role contributes at every position."""
        return np.where(role < self.active, base + role, 0)

    def result(self, base: Array) -> Array:
        """Return what all roles give together."""
        return self.active * base + self.active * (self.active - 1) // 2


class Extreme:
    """The smallest or the largest term, and the term itself where nothing is reduced."""

    def __init__(self, limit: int, size: int, smallest: bool = False) -> None:
        self.active = min(size, max(1, limit // 2))
        self.bases = limit - self.active + 1
        self._smallest = smallest

    def terms(self, base: Array, role: Array) -> Array:
        """Return what the role contributes at every position."""
        # An idle role must not be the smallest term, or a minimum would hang on no rank.
        idle = base + self.active - 1 if self._smallest else 0
        return np.where(role < self.active, base + role, idle)

    def result(self, base: Array) -> Array:
        """Return what all roles give together."""
        return base if self._smallest else base + self.active - 1


class Bits:
    """Every role has a bit of its own: only it clears (and) or sets it. The base stands above."""

    def __init__(self, limit: int, size: int, name: str) -> None:
        width = (limit + 1).bit_length() - 1
        self.active = min(size, width // 2)
        # The last base is left out: all bits set would be the value that stands for "not written".
        self.bases = (1 << width - self.active) - 1
        self._name = name

    def terms(self, base: Array, role: Array) -> Array:
        """Return what the role contributes at every position."""
        own = np.where(role < self.active, 1 << np.minimum(role, self.active), 0)
        above = base << self.active
        if self._name == "band":
            return above + (1 << self.active) - 1 - own
        return own + above if self._name == "bor" else own + np.where(role == 0, above, 0)

    def result(self, base: Array) -> Array:
        """Return what all roles give together."""
        return (base << self.active) + (0 if self._name == "band" else (1 << self.active) - 1)


class Truths:
    """One role decides: role 0 is false (and) or true (or), by the base, where all others agree.

    Of the exclusive or, every second role changes the result as well. There are two true numbers
    that have no bit in common; but one rank's own number is its result as it is, so that is 1.
    """

    bases = 4

    def __init__(self, size: int, name: str) -> None:
        self._name = name
        self._odd = size // 2 % 2
        self._true = min(size, 2)

    def terms(self, base: Array, role: Array) -> Array:
        """Return what the role contributes at every position."""
        decides = {"land": True, "lor": False, "lxor": role % 2 == 1}[self._name]
        truth = np.where(role == 0, base % 2 == 1, decides)
        return np.where(truth, 1 + (base // 2 + role) % self._true, 0)

    def result(self, base: Array) -> Array:
        """Return what all roles give together."""
        return (base + self._odd) % 2 if self._name == "lxor" else base % 2


class Matrices:
    """Every role has a matrix of its own for every base, that can be inverted: none can vanish.

    The result depends on the order of the roles, so there is none that follows from the base alone.
    """

    bases = MOST

    def terms(self, base: Array, role: Array) -> Array:
        """Return what the role contributes at every position."""
        mixed = base.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed += (role.astype(np.uint64) + np.uint64(1)) * np.uint64(0xD6E8FEB86659FD93)
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        # An odd diagonal and an even entry beside it make the determinant odd.
        odd, even = np.uint64(0x0001_0000_0000_0001), np.uint64(0x0000_0000_0001_0000)
        terms: Array = (mixed | odd) & ~even
        return terms

    def result(self, base: Array) -> Array:
        """Raise, for there is no such result."""
        raise NotImplementedError("the product depends on the order of the roles")


_DESIGNS: dict[str, Callable[[int, int, str], Design]] = {
    **dict.fromkeys(("sum", "prod", "avg", "rsum"), lambda limit, size, _: Added(limit, size)),
    **dict.fromkeys(("min", "max"), lambda limit, size, name: Extreme(limit, size, name == "min")),
    **dict.fromkeys(("band", "bor", "bxor"), Bits),
    **dict.fromkeys(("land", "lor", "lxor"), lambda _, size, name: Truths(size, name)),
    "matmul2x2": lambda _limit, _size, _name: Matrices(),
}


def design(name: str | None, limit: int, size: int) -> Design:
    """Return the design for an operator's name, None where nothing is reduced.

    Parameters
    ----------
    limit
        What terms and results must stay below.
    """
    limit = min(limit, MOST)
    return _DESIGNS[name](limit, size, name) if name else Extreme(limit, size)
