"""Plans: one rank's schedule as a flat table of instructions on regions of memory.

A plan knows offsets and nothing of MPI. Offsets and counts are in elements. `INPUT` is the caller's
send buffer and is only read; `OUTPUT` is the receive buffer (in place: the only buffer); `SCRATCH`
is the plan's own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from hpccoll.errors import PlanError

INPUT = 0
OUTPUT = 1
SCRATCH = 2
SPACES = ("input", "output", "scratch")


@dataclass(frozen=True, slots=True)
class Region:
    """`count` elements of a space, from `offset` on."""

    space: int
    offset: int
    count: int

    def overlaps(self, other: "Region") -> bool:
        """Tell whether the two share an element."""
        return (
            self.space == other.space
            and self.offset < other.offset + other.count
            and other.offset < self.offset + self.count
        )


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
    """``into = left op right``; `into` may be either operand."""

    into: Region
    left: Region
    right: Region


@dataclass(frozen=True, slots=True)
class Copy:
    """``into = source``; the two may overlap."""

    into: Region
    source: Region


Instruction: TypeAlias = PostSend | PostRecv | Wait | Reduce | Copy


@dataclass(frozen=True, slots=True)
class Plan:
    """One rank's table.

    Attributes
    ----------
    input, output, scratch
        Elements that each space needs; with `in_place`, `input` is 0 and the caller's data lies in
        the output space, from `input_offset` on.
    result
        Where the result lies at the end, in the output space.
    slots
        Messages that are in flight at most.
    packed
        Elements that are copied only because a message's blocks don't lie side by side.
    """

    rank: int
    size: int
    instructions: tuple[Instruction, ...]
    input: int
    output: int
    scratch: int
    slots: int
    packed: int
    in_place: bool
    input_offset: int
    held: int
    result: Region


def reads(instruction: Instruction) -> tuple[Region, ...]:
    """Return the regions that an instruction reads when it executes."""
    if isinstance(instruction, Reduce):
        return (instruction.left, instruction.right)
    if isinstance(instruction, Copy):
        return (instruction.source,)
    return (instruction.region,) if isinstance(instruction, PostSend) else ()


def writes(instruction: Instruction) -> tuple[Region, ...]:
    """Return the regions that an instruction writes when it executes."""
    if isinstance(instruction, Reduce | Copy):
        return (instruction.into,)
    return (instruction.region,) if isinstance(instruction, PostRecv) else ()


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
                del flying[slot]
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
