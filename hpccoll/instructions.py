"""A plan's instructions as they are issued: each after the waits that its data needs.

Local work can be put off, so that it is done while later messages are in flight.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count

from hpccoll.plan import Instruction, PostRecv, PostSend, Wait, reads, writes


class Instructions:
    """The instructions of one rank, growing.

    Attributes
    ----------
    issued
        Those that are in the plan.
    pending
        Local work that is put off, in order.
    flying
        Per slot the message that nothing has waited for yet.
    slots
        How many messages were in flight at most.
    """

    def __init__(self) -> None:
        self.issued: list[Instruction] = []
        self.pending: list[Instruction] = []
        self.flying: dict[int, PostSend | PostRecv] = {}
        self.slots = 0

    def emit(self, instruction: Instruction) -> None:
        """Append an instruction, after the waits that what it touches needs."""
        written, read = writes(instruction), reads(instruction)
        self.wait(
            [
                slot
                for slot, post in self.flying.items()
                if any(region.overlaps(post.region) for region in written)
                or (
                    isinstance(post, PostRecv)
                    and any(region.overlaps(post.region) for region in read)
                )
            ]
        )
        if isinstance(instruction, PostSend | PostRecv):
            slot = next(slot for slot in count() if slot not in self.flying)
            instruction = self.flying[slot] = replace(instruction, slot=slot)
            self.slots = max(self.slots, slot + 1)
        self.issued.append(instruction)

    def wait(self, slots: Iterable[int]) -> None:
        """Append a wait for messages in flight, if there are any."""
        slots = tuple(slots)
        if slots:
            self.issued.append(Wait(slots, max(self.flying[s].round for s in slots)))
            for slot in slots:
                del self.flying[slot]

    def wait_for(self, wanted: Callable[[PostSend | PostRecv], bool]) -> None:
        """Append a wait for those messages in flight that `wanted` picks."""
        self.wait(slot for slot, post in self.flying.items() if wanted(post))

    def defer(self, instruction: Instruction) -> None:
        """Put local work off."""
        self.pending.append(instruction)

    def prepare(self, instruction: Instruction) -> None:
        """Append the pending instructions that must run before `instruction`."""
        self.flush(self.needed(instruction))

    def needed(self, instruction: Instruction) -> int:
        """Return how many pending instructions must run before `instruction`."""
        for index in range(len(self.pending) - 1, -1, -1):
            earlier = self.pending[index]
            touched = [*reads(earlier), *writes(earlier)]
            if any(new.overlaps(old) for new in writes(instruction) for old in touched) or any(
                new.overlaps(old) for new in reads(instruction) for old in writes(earlier)
            ):
                return index + 1
        return 0

    def flush(self, count: int | None = None) -> None:
        """Append pending instructions, the first `count` of them or all."""
        for instruction in self.pending[:count]:
            self.emit(instruction)
        del self.pending[:count]
