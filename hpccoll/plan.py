"""Plans: one rank's schedule as a flat table of instructions on regions of memory.

A plan knows offsets and nothing of MPI. Offsets and counts are in elements. Of the spaces, `INPUT`
is the caller's send buffer and is only read; `OUTPUT` is the receive buffer (in place: the only
buffer); `SCRATCH` is the plan's own. Where partial results have a type of their own, all three are
the plan's, and the caller's buffers are two more (`hpccoll.conversions`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from hpccoll.errors import PlanError
from hpccoll.layout import Layout, Region


@dataclass(frozen=True, slots=True)
class PostSend:
    """Start sending `region`; complete when a `Wait` names the slot."""

    slot: int
    peer: int
    region: Region
    channel: int
    round: int


@dataclass(frozen=True, slots=True)
class PostRecv:
    """Start receiving into `region`; complete when a `Wait` names the slot."""

    slot: int
    peer: int
    region: Region
    channel: int
    round: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Complete the messages in `slots`, all of `round`."""

    slots: tuple[int, ...]
    round: int


@dataclass(frozen=True, slots=True)
class Reduce:
    """``into = left op right``; `into` may be either operand.

    Each of the three may be the caller's elements where partial results have another type.
    """

    into: Region
    left: Region
    right: Region


@dataclass(frozen=True, slots=True)
class Copy:
    """``into = source``; the two may overlap."""

    into: Region
    source: Region


@dataclass(frozen=True, slots=True)
class Convert:
    """``into = source``, one of the two the caller's elements and the other partial results."""

    into: Region
    source: Region


@dataclass(frozen=True, slots=True)
class Scale:
    """Divide `region` by the number of ranks: the end of an average."""

    region: Region


Instruction: TypeAlias = PostSend | PostRecv | Wait | Reduce | Copy | Convert | Scale


@dataclass(frozen=True, slots=True)
class Plan:
    """One rank's table.

    Attributes
    ----------
    layout
        Where the caller's data and the result lie.
    scratch, landing
        Partial results in scratch, and the caller's elements that are received beside the output.
    slots
        Messages that are in flight at most.
    packed
        Elements that are copied only because a message's blocks don't lie side by side.
    """

    rank: int
    size: int
    instructions: tuple[Instruction, ...]
    layout: Layout
    scratch: int
    slots: int
    packed: int
    landing: int = 0


def reads(instruction: Instruction) -> tuple[Region, ...]:
    """Return the regions that an instruction reads when it executes."""
    if isinstance(instruction, Reduce):
        return (instruction.left, instruction.right)
    if isinstance(instruction, Copy | Convert):
        return (instruction.source,)
    return (instruction.region,) if isinstance(instruction, PostSend | Scale) else ()


def writes(instruction: Instruction) -> tuple[Region, ...]:
    """Return the regions that an instruction writes when it executes."""
    if isinstance(instruction, Reduce | Copy | Convert):
        return (instruction.into,)
    return (instruction.region,) if isinstance(instruction, PostRecv | Scale) else ()


def check_in_flight(plan: Plan) -> None:
    """Check that nothing reads what is being received or writes what is in flight.

    Raises
    ------
    PlanError
        Names the instruction and the message.
    """
    flying: dict[int, PostSend | PostRecv] = {}
    for number, instruction in enumerate(plan.instructions):
        if isinstance(instruction, Wait):
            for slot in instruction.slots:
                if flying.pop(slot, None) is None:
                    raise PlanError(
                        f"rank {plan.rank}, instruction {number}: nothing is in slot {slot}"
                    )
            continue
        for message, region in _conflicts(instruction, flying):
            raise PlanError(
                f"rank {plan.rank}, instruction {number}: {instruction} touches {region}, "
                f"which {message} still uses"
            )
        if isinstance(instruction, PostSend | PostRecv):
            if instruction.slot in flying:
                raise PlanError(f"rank {plan.rank}, instruction {number}: slot is in use")
            flying[instruction.slot] = instruction
    if flying:
        raise PlanError(f"rank {plan.rank}: never waits for {list(flying.values())}")


def _conflicts(
    instruction: Instruction, flying: dict[int, PostSend | PostRecv]
) -> Iterator[tuple[PostSend | PostRecv, Region]]:
    for message in flying.values():
        touched = writes(instruction)
        if isinstance(message, PostRecv):
            touched += reads(instruction)
        for region in touched:
            if region.overlaps(message.region):
                yield message, region
