"""Scratch memory: temporaries that live at different times share their place."""

from bisect import bisect_left
from dataclasses import replace
from heapq import heappop, heappush

from hpccoll.layout import SCRATCH, Region
from hpccoll.plan import (
    Convert,
    Copy,
    Instruction,
    PostRecv,
    PostSend,
    Reduce,
    Scale,
    Wait,
    reads,
    writes,
)

ALIGNMENT = 64
"""Pieces of scratch start at multiples of this many bytes."""


def allocate(
    instructions: list[Instruction], temporaries: list[int], itemsize: int
) -> tuple[tuple[Instruction, ...], int]:
    """Give temporaries that live at different times the same place in scratch.

    A temporary lives from the first instruction that touches it to the last one, and as long as a
    message that it belongs to is in flight.

    Parameters
    ----------
    temporaries
        Their elements; number k is space ``SCRATCH + 1 + k`` in `instructions`.

    Returns
    -------
    The instructions with places in scratch, and the elements of scratch.
    """
    align = max(1, ALIGNMENT // itemsize)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    flying: dict[int, int] = {}
    for index, instruction in enumerate(instructions):
        if isinstance(instruction, Wait):
            last.update({flying.pop(slot): index for slot in instruction.slots if slot in flying})
            continue
        for region in (*reads(instruction), *writes(instruction)):
            if region.space > SCRATCH:
                first.setdefault(region.space, index)
                last[region.space] = index
                if isinstance(instruction, PostSend | PostRecv):
                    flying[instruction.slot] = region.space
    offsets: dict[int, int] = {}
    gaps = _Gaps()
    live: list[tuple[int, int, int]] = []
    for space in sorted(first, key=first.__getitem__):
        while live and live[0][0] < first[space]:
            gaps.release(*heappop(live)[1:])
        size = -(-temporaries[space - SCRATCH - 1] // align) * align
        offsets[space] = gaps.take(size)
        heappush(live, (last[space], offsets[space], size))
    scratch = gaps.end
    return tuple(_placed(i, offsets) for i in instructions), scratch


class _Gaps:
    """Scratch that is free: pieces of it below `end`, and all that is beyond."""

    def __init__(self) -> None:
        self.end = 0
        self._free: list[tuple[int, int]] = []

    def take(self, size: int) -> int:
        """Return the lowest place of `size` elements."""
        for index, (start, stop) in enumerate(self._free):
            if stop - start >= size or stop == self.end:
                self._free[index : index + 1] = [(start + size, stop)] * (start + size < stop)
                self.end = max(self.end, start + size)
                return start
        self.end += size
        return self.end - size

    def release(self, start: int, size: int) -> None:
        """Give a place back, and join it with its neighbours."""
        index = bisect_left(self._free, (start,))
        stop = start + size
        if index < len(self._free) and self._free[index][0] == stop:
            stop = self._free.pop(index)[1]
        if index and self._free[index - 1][1] == start:
            index -= 1
            start = self._free.pop(index)[0]
        self._free[index:index] = [(start, stop)] * (start < stop)


def _placed(instruction: Instruction, offsets: dict[int, int]) -> Instruction:
    def placed(region: Region) -> Region:
        if region.space <= SCRATCH:
            return region
        return Region(SCRATCH, offsets[region.space] + region.offset, region.count)

    if isinstance(instruction, Wait | Scale | Convert):
        return instruction
    if all(region.space <= SCRATCH for region in (*reads(instruction), *writes(instruction))):
        return instruction
    if isinstance(instruction, PostSend | PostRecv):
        return replace(instruction, region=placed(instruction.region))
    if isinstance(instruction, Copy):
        return Copy(placed(instruction.into), placed(instruction.source))
    return Reduce(placed(instruction.into), placed(instruction.left), placed(instruction.right))
