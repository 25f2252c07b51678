"""Faults that a collective's result can have, and how each is put into a right result on purpose.

A fault changes the buffers of one rank, the victim, after a right call: it makes of the result what
a wrong implementation would have left there. Where a fault can't exist, or can't change a result,
it says why.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from hpccoll.check import Pattern
from hpccoll.collectives import ROOT
from hpccoll.datatypes import OPERATORS, Array, bits, divide
from hpccoll.layout import Layout, Region, layout
from hpccoll.partition import Partition

ALONE = "there is only one rank"
ONLY_THE_ROOT = "only the root contributes"
AGAIN = "counting a rank twice changes nothing under " + ", ".join(
    operator.name for operator in OPERATORS.values() if operator.idempotent
)
ONE_BUFFER = "there is no other buffer than the result's"
NO_INPUT = "ranks that receive have no input"


@dataclass
class Victim:
    """One rank's buffers, made when they are filled for a call.

    Attributes
    ----------
    before
        What was at the result's place before the call.
    """

    pattern: Pattern
    rank: int
    place: Layout
    spaces: list[Array]
    before: Array = field(init=False)

    def __post_init__(self) -> None:
        self.before = self.result.copy()

    def _view(self, region: Region) -> Array:
        return self.spaces[region.space][region.offset : region.offset + region.count]

    @cached_property
    def input(self) -> Array:
        """Return the rank's input, in place."""
        return self._view(self.place.held)

    @cached_property
    def result(self) -> Array:
        """Return the rank's result, in place."""
        return self._view(self.place.result)

    @property
    def other(self) -> int:
        """Return another rank: of those that the result is made of, where it has several."""
        sources = self.sources or range(self.pattern.size)
        return next((rank for rank in reversed(sources) if rank != self.rank), self.rank)

    def expected(self, pattern: Pattern, rank: int) -> Array:
        """Return the right result of `rank`, as long as this rank's."""
        place = layout(pattern.collective, rank, pattern.size, pattern.message)
        parts = [pattern.expected(rank, s.start, s.stop) for s in place.result_spans]
        whole: Array = np.concatenate(parts)[: len(self.result)]
        return whole

    def block(self, rank: int) -> Array:
        """Return the part of `rank` in the result; the whole result where that is one block."""
        if len(self.result) < self.pattern.count:
            return self.result
        return self.result[self.part(rank)]

    def part(self, rank: int) -> slice:
        """Return which elements of a whole vector are those of `rank`."""
        border = Partition(self.pattern.count, self.pattern.size).border
        return slice(border(rank), border(rank + 1))

    @property
    def sources(self) -> list[int]:
        """Return the ranks whose inputs the result is made of."""
        pattern = self.pattern
        if not pattern.collective.reduces:
            return list(range(pattern.size))
        return list(pattern.collective.sources(self.rank, pattern.size, pattern.root, 0, 1))

    def reduced(self, ranks: list[int]) -> Array:
        """Return the result that the inputs of `ranks` give, as if they were all."""
        if not ranks:
            return self.before
        pattern, (span,) = self.pattern, self.place.result_spans
        inputs = [pattern.inputs(rank, span.start, span.stop) for rank in ranks]
        with np.errstate(all="ignore"):  # it may well not fit into the type
            result = pattern.operator.reduced(pattern.dtype, inputs)
            if pattern.operator.average:
                divide(result, pattern.size)
        return result


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault: `impossible` returns why a call can't have it, `put` puts it in."""

    name: str
    put: Callable[[Victim], None]
    impossible: Callable[[Pattern], str | None] = lambda pattern: None


def _alone(pattern: Pattern) -> str | None:
    return ALONE if pattern.size == 1 else None


def _not_all_count(pattern: Pattern) -> str | None:
    return ONLY_THE_ROOT if pattern.collective.contributors == ROOT else _alone(pattern)


def _not_twice(pattern: Pattern) -> str | None:
    if pattern.collective.reduces and pattern.operator.idempotent:
        return _alone(pattern) or AGAIN
    return _not_all_count(pattern)


def _not_overwritten(pattern: Pattern) -> str | None:
    if pattern.collective.one_buffer:
        return ONE_BUFFER
    return NO_INPUT if pattern.collective.contributors == ROOT and pattern.size > 1 else None


def _element(victim: Victim) -> None:
    at = len(victim.result) // 3
    victim.result[at] = 1 if victim.result[at] == 0 else 0


def _ulp(victim: Victim) -> None:
    words = bits(victim.result)
    words[len(words) // 2 | 1] ^= words.dtype.type(1)


def _missing(victim: Victim) -> None:
    other = victim.other
    if victim.pattern.collective.reduces:
        victim.result[:] = victim.reduced([rank for rank in victim.sources if rank != other])
    else:
        victim.block(other)[:] = victim.before[victim.part(other)]


def _twice(victim: Victim) -> None:
    if victim.pattern.collective.reduces:
        victim.result[:] = victim.reduced([*victim.sources, victim.other])
    else:
        victim.block(victim.other)[:] = victim.block(victim.rank)


def _swapped(victim: Victim) -> None:
    one, other = victim.block(victim.rank), victim.block(victim.other)
    if one is other:
        one[:] = victim.expected(victim.pattern, victim.other)
    else:
        one[:], other[:] = other.copy(), one.copy()


def _silent(victim: Victim) -> None:
    pattern = victim.pattern
    if pattern.collective.reduces:
        victim.result[:] = victim.reduced([victim.rank] * max(2, len(victim.sources)))
    elif pattern.collective.contributors == ROOT:
        victim.result[:] = victim.before
    else:
        victim.result[:] = np.resize(victim.input, len(victim.result))


def _stale(victim: Victim) -> None:
    earlier = replace(victim.pattern, seed=victim.pattern.seed + 1)
    victim.result[:] = victim.expected(earlier, victim.rank)


def _zeroed(victim: Victim) -> None:
    victim.block(victim.other)[:] = 0


def _overwritten(victim: Victim) -> None:
    words = bits(victim.input)
    words[len(words) // 2] ^= words.dtype.type(1)


FAULTS = (
    Fault("one wrong element", _element),
    Fault("one bit of one element", _ulp),
    Fault("a missing rank", _missing, _not_all_count),
    Fault("a rank counted twice", _twice, _not_twice),
    Fault("two blocks swapped", _swapped, _alone),
    Fault("no communication", _silent, _alone),
    Fault("an earlier call's result", _stale),
    Fault("a block of zeros", _zeroed),
    Fault("an overwritten input", _overwritten, _not_overwritten),
)
"""Every fault. The lowest bit of a float is one unit in the last place, of an integer 1."""
