"""Scratch memory: temporaries that live at different times share their place."""

from dataclasses import replace

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
    live: list[tuple[int, int, int]] = []
    scratch = 0
    for space in sorted(first, key=first.__getitem__):
        size = -(-temporaries[space - SCRATCH - 1] // align) * align
        live = [(low, high, end) for low, high, end in live if end >= first[space]]
        offset = 0
        for low, high, _ in sorted(live):
            if low - offset >= size:
                break
            offset = max(offset, high)
        offsets[space] = offset
        live.append((offset, offset + size, last[space]))
        scratch = max(scratch, offset + size)
    return tuple(_placed(i, offsets) for i in instructions), scratch


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
