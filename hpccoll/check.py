"""Inputs that expose faults, and the exact result that they must give.

Every rank plays a different role at every position: the role of rank r at position i is ``(i + r +
h(i)) mod p`` with a hash h, and a rank's value is a term of the role and of h(i). Over all ranks
each role occurs once, so the exact result follows from i alone, independently of any MPI library
and without anybody's data: a missing or doubled rank, a swapped or stale block, and data from
another call all change it. Terms are small integers (`hpccoll.patterns`), so sums are exact in the
element type whatever their order, and the division of an average rounds once; products are of
powers of two, with the terms as exponents; the imaginary part of a complex value is twice the real
one, and complex products are of powers of 2i. Where a type is too narrow for that many ranks, only
some roles have a term of their own.

Results are compared to the bit. Only the sign of a zero part of a complex product is left open, for
it depends on the order of multiplication; what is expected is never NaN.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hpccoll.collectives import ALL, OWNER, Collective
from hpccoll.datatypes import (
    COMPLEX,
    INTEGER,
    SIGNIFICAND,
    Array,
    Operator,
    bits,
    divide,
    kind,
    part,
)
from hpccoll.layout import INPUT, Layout, Message, Region, natural
from hpccoll.partition import Partition, pieces
from hpccoll.patterns import Design, design

CHUNK = 1 << 18
"""Elements that are generated at a time, so that a check needs little memory."""

_EXPONENT = {"float16": 15, "bfloat16": 127, "float32": 127, "float64": 1023}
"""The largest exponent, by the type."""


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


@dataclass(frozen=True, slots=True)
class LeftEarly:
    """A rank that left a barrier `seconds` before the last one, `late`, came."""

    rank: int
    late: int
    seconds: float

    def __str__(self) -> str:
        early = f"{self.seconds * 1e6:.1f} us"
        return f"rank {self.rank} left the barrier {early} before rank {self.late} came"


@dataclass(frozen=True)
class Pattern:
    """Inputs of `size` ranks and their exact result.

    Attributes
    ----------
    count, counts
        Elements of one rank's vector and, where the caller chose them, of the natural blocks.
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
    counts: tuple[int, ...] | None = None

    @property
    def _name(self) -> str | None:
        return self.operator.name if self.collective.reduces else None

    @property
    def _exponents(self) -> bool:
        return self._name == "prod"

    @property
    def _limit(self) -> int:
        """What terms and results stay below, so that the type represents them exactly."""
        if kind(self.dtype) == INTEGER:
            number = np.iinfo(self.dtype)
            return number.bits - 1 - (number.min < 0) if self._exponents else int(number.max)
        real = part(self.dtype).name
        if self._exponents:
            return _EXPONENT[real]
        limit = 1 << SIGNIFICAND[real]
        # Divided by the number of ranks, larger sums could become equal; imaginary parts are twice.
        return limit >> (self._name == "avg") + (kind(self.dtype) == COMPLEX)

    @cached_property
    def _design(self) -> Design:
        return design(self._name, self._limit, self.size)

    def _base(self, start: int, stop: int) -> Array:
        mixed = np.arange(start, stop, dtype=np.uint64) + np.uint64(self.seed << 40)
        for multiplier in (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93):
            mixed *= np.uint64(multiplier)
            mixed ^= mixed >> np.uint64(32)
        return (mixed % np.uint64(self._design.bases)).astype(np.int64)

    def inputs(self, rank: int, start: int, stop: int) -> Array:
        """Return elements `start` to `stop` of the full vector of `rank`."""
        base = self._base(start, stop)
        role = (np.arange(start, stop) + base + rank) % self.size
        return self._values(self._design.terms(base, role))

    def expected(self, rank: int, start: int, stop: int) -> Array:
        """Return elements `start` to `stop` of the exact result of `rank`."""
        if self.collective.contributors == OWNER:
            return self._contributed(start, stop)
        sources = self.collective.sources(rank, self.size, self.root, 0, 1)
        if self.collective.contributors == ALL and self.operator.commutative:
            result = self._values(self._design.result(self._base(start, stop)))
        else:
            inputs = (self.inputs(source, start, stop) for source in sources)
            result = self.operator.reduced(self.dtype, inputs)
        if self.message.average:
            divide(result, self.size)
        return result

    def _contributed(self, start: int, stop: int) -> Array:
        border = self.blocks.border
        owned = self.blocks.blocks // self.size
        parts = [
            self.inputs(
                rank, max(start, border(rank * owned)), min(stop, border((rank + 1) * owned))
            )
            for rank in range(self.size)
            if max(start, border(rank * owned)) < min(stop, border((rank + 1) * owned))
        ]
        return np.concatenate(parts) if parts else np.empty(0, self.dtype)

    @property
    def message(self) -> Message:
        """Return the message that the inputs are for, out of place."""
        reduces = self.collective.reduces
        return Message(
            self.count,
            self.dtype.itemsize,
            self.root,
            average=reduces and self.operator.average,
            ordered=reduces and not self.operator.commutative,
            counts=self.counts,
        )

    @cached_property
    def blocks(self) -> Partition:
        """Return the full vector, cut into the blocks that the caller sees."""
        return natural(self.collective, self.size, self.message)

    def _values(self, terms: Array) -> Array:
        of = kind(self.dtype)
        if self._exponents and of == INTEGER:
            powers: Array = np.ones(len(terms), self.dtype) << terms.astype(self.dtype)
            return powers
        values: Array = np.ldexp(1.0, terms) if self._exponents else terms
        if of == COMPLEX:
            turns = np.array([1, 1j, -1, -1j])[terms % 4]
            values = values * (turns if self._exponents else 1 + 2j)
        rounded: Array = values.astype(self.dtype)
        return rounded

    def fill(self, rank: int, place: Layout, spaces: list[Array]) -> None:
        """Write the input of `rank` into its buffers, and a wrong value everywhere else."""
        for space in spaces[1:]:
            space.fill(-1 if space.dtype.names else self._poison)  # of accumulators that is NaN
        region = place.held
        for low in range(0, region.count, CHUNK):
            high = min(low + CHUNK, region.count)
            target = spaces[region.space][region.offset + low : region.offset + high]
            target[:] = self._gathered(self.inputs, rank, place.held_spans, low, high)

    def _gathered(
        self,
        of: Callable[[int, int, int], Array],
        rank: int,
        spans: tuple[range, ...],
        low: int,
        high: int,
    ) -> Array:
        """Return elements `low` to `high` of a buffer that `spans` of the full vector fill."""
        parts = [of(rank, span.start, span.stop) for span in pieces(spans, low, high)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @property
    def _poison(self) -> Any:
        if kind(self.dtype) == INTEGER:
            return np.iinfo(self.dtype).max
        return complex(np.nan, np.nan) if kind(self.dtype) == COMPLEX else np.nan

    def mismatch(self, rank: int, place: Layout, spaces: list[Array]) -> Mismatch | None:
        """Compare what `rank` got to the exact result; its input must be as it was, too."""
        result = self._first(rank, place.result, place.result_spans, spaces, result=True)
        if result or place.held.space != INPUT:
            return result
        return self._first(rank, place.held, place.held_spans, spaces, result=False)

    def _first(
        self,
        rank: int,
        region: Region,
        spans: tuple[range, ...],
        spaces: list[Array],
        result: bool,
    ) -> Mismatch | None:
        first, wrong = None, 0
        for low in range(0, region.count, CHUNK):
            high = min(low + CHUNK, region.count)
            got = spaces[region.space][region.offset + low : region.offset + high]
            of = self.expected if result else self.inputs
            right = self._gathered(of, rank, spans, low, high)
            places = self._differences(got, right)
            wrong += len(places)
            if first is None and len(places):
                at = int(places[0])
                index = next(pieces(spans, low + at, low + at + 1)).start
                first = (index, str(right[at]), str(got[at]))
        return None if first is None else Mismatch(rank, *first, wrong, of_input=not result)

    def _differences(self, got: Array, right: Array) -> Array:
        """Return the indices of the elements that aren't the same to the bit."""
        zeros = kind(self.dtype) == COMPLEX and self._exponents
        one, other = bits(got + 0 if zeros else got), bits(right + 0 if zeros else right)
        if np.array_equal(one, other):
            return np.empty(0, np.intp)
        return np.flatnonzero((one != other).reshape(len(got), -1).any(axis=1))
