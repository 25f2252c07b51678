"""Inputs that expose faults, and the exact result that they must give.

Every rank plays a different role at every position: the role of rank r at position i is ``(i + r +
h(i)) mod p`` with a hash h, and a rank's value is a term of the role and of h(i). Over all ranks
each role occurs once, so the exact result follows from i alone, independently of any MPI library
and without anybody's data: a missing or doubled rank, a swapped or stale block, and data from
another call all change it. Terms are small integers, so sums are exact in the element type
whatever their order; products are of powers of two, with the terms as exponents. Where a type is
too narrow for that many ranks, only some roles have a term of their own.
"""

from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import Any

import numpy as np

from hpccoll.collectives import ALL, ROOT, Collective
from hpccoll.datatypes import Array, Operator
from hpccoll.layout import INPUT, Layout, Region
from hpccoll.partition import Partition

CHUNK = 1 << 18
"""Elements that are generated at a time, so that a check needs little memory."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first wrong element of a rank: its index in the full vector, and the two values."""

    rank: int
    index: int
    expected: str
    got: str
    wrong: int
    of_input: bool = False

    def __str__(self) -> str:
        place = f"index {self.index}" + " of its input" * self.of_input
        return (
            f"rank {self.rank}, {place}: expected {self.expected}, got {self.got} "
            f"({self.wrong} wrong in all)"
        )


@dataclass(frozen=True)
class Pattern:
    """Inputs of `size` ranks and their exact result.

    Attributes
    ----------
    seed
        Another seed gives other inputs, so that what an earlier call left behind is found.
    """

    collective: Collective
    dtype: np.dtype[Any]
    operator: Operator
    size: int
    count: int
    root: int
    seed: int

    @property
    def _exponents(self) -> bool:
        return self.collective.reduces and self.operator.name == "prod"

    @cached_property
    def _limit(self) -> int:
        """The largest sum of terms over all ranks that the type represents exactly."""
        if self.dtype.kind == "f":
            exact = np.finfo(self.dtype)
            limit = exact.maxexp - 1 if self._exponents else 1 << (exact.nmant + 1)
        else:
            bits = np.iinfo(self.dtype)
            limit = bits.bits - 1 - (bits.min < 0) if self._exponents else int(bits.max)
        return min(limit, 1 << 40)

    @property
    def _adds(self) -> bool:
        """Whether all ranks' terms are added up, as values or as exponents."""
        return self.collective.reduces and self.operator.name in ("sum", "prod")

    @cached_property
    def _active(self) -> int:
        """How many roles have a term of their own."""
        if 2 * self.size * (self.size if self._adds else 1) <= self._limit:
            return self.size
        most = isqrt(self._limit // 2) if self._adds else self._limit // 2
        return min(self.size, max(1, most))

    @cached_property
    def _bases(self) -> int:
        """How many values the part of a term has that depends on the position."""
        share = self._limit // self._active if self._adds else self._limit
        return share - self._active + 1

    def _base(self, start: int, stop: int) -> Array:
        mixed = np.arange(start, stop, dtype=np.uint64) + np.uint64(self.seed << 40)
        for multiplier in (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93):
            mixed *= np.uint64(multiplier)
            mixed ^= mixed >> np.uint64(32)
        return (mixed % np.uint64(self._bases)).astype(np.int64)

    def inputs(self, rank: int, start: int, stop: int) -> Array:
        """Return elements `start` to `stop` of the full vector of `rank`."""
        base = self._base(start, stop)
        role = (np.arange(start, stop) + base + rank) % self.size
        # An idle role must not be the smallest term, or a minimum would hang on no rank.
        idle = base + self._active - 1 if self.operator.name == "min" else 0
        terms = np.where(role < self._active, base + role, idle)
        return self._values(terms)

    def expected(self, start: int, stop: int) -> Array:
        """Return elements `start` to `stop` of the exact result."""
        if self.collective.contributors != ALL:
            return self._contributed(start, stop)
        base = self._base(start, stop)
        active = self._active
        if self.operator.name == "min":
            return self._values(base)
        if self.operator.name == "max":
            return self._values(base + active - 1)
        return self._values(active * base + active * (active - 1) // 2)

    def _contributed(self, start: int, stop: int) -> Array:
        if self.collective.contributors == ROOT:
            return self.inputs(self.root, start, stop)
        border = Partition(self.count, self.size).border
        parts = [
            self.inputs(rank, max(start, border(rank)), min(stop, border(rank + 1)))
            for rank in range(self.size)
            if border(rank) < stop and border(rank + 1) > start and border(rank) < border(rank + 1)
        ]
        return np.concatenate(parts) if parts else np.empty(0, self.dtype)

    def _values(self, terms: Array) -> Array:
        if self._exponents:
            one = np.ones(len(terms), self.dtype)
            return (
                np.ldexp(one, terms) if self.dtype.kind == "f" else one << terms.astype(self.dtype)
            )
        return terms.astype(self.dtype)

    def fill(self, rank: int, place: Layout, spaces: list[Array]) -> None:
        """Write the input of `rank` into its buffers, and a wrong value everywhere else."""
        for space in spaces[1:]:
            space.fill(self._poison)
        region = place.held
        for low in range(0, region.count, CHUNK):
            high = min(low + CHUNK, region.count)
            target = spaces[region.space][region.offset + low : region.offset + high]
            target[:] = self.inputs(rank, place.held_start + low, place.held_start + high)

    @property
    def _poison(self) -> Any:
        return np.nan if self.dtype.kind == "f" else np.iinfo(self.dtype).max

    def mismatch(self, rank: int, place: Layout, spaces: list[Array]) -> Mismatch | None:
        """Compare what `rank` got to the exact result; its input must be as it was, too."""
        result = self._first(rank, place.result, place.result_start, spaces, result=True)
        if result or place.held.space != INPUT:
            return result
        return self._first(rank, place.held, place.held_start, spaces, result=False)

    def _first(
        self, rank: int, region: Region, start: int, spaces: list[Array], result: bool
    ) -> Mismatch | None:
        first, wrong = None, 0
        for low in range(0, region.count, CHUNK):
            high = min(low + CHUNK, region.count)
            got = spaces[region.space][region.offset + low : region.offset + high]
            window = (start + low, start + high)
            right = self.expected(*window) if result else self.inputs(rank, *window)
            if np.array_equal(got, right):
                continue
            places = np.flatnonzero(got != right)
            wrong += len(places)
            if first is None:
                at = int(places[0])
                first = (start + low + at, str(right[at]), str(got[at]))
        return None if first is None else Mismatch(rank, *first, wrong, of_input=not result)
