"""A plan's instructions as they are issued: each after the waits that its data needs.

Local work can be put off, so that it is done while later messages are in flight. Nothing here looks
at all messages in flight, or at all that is pending, for each instruction: a round may have
thousands of them.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from heapq import heappop, heappush

from hpccoll.layout import Region
from hpccoll.overlaps import Overlaps
from hpccoll.plan import Instruction, PostRecv, PostSend, Wait, reads, writes


class Instructions:
    """The instructions of one rank, growing.

    Attributes
    ----------
    issued
        Those that are in the plan.
    flying
        Per slot the message that nothing has waited for yet, in the order of posting.
    slots
        How many messages were in flight at most.
    """

    def __init__(self) -> None:
        self.issued: list[Instruction] = []
        self.flying: dict[int, PostSend | PostRecv] = {}
        self.slots = 0
        self._free: list[int] = []
        self._posted: dict[int, int] = {}
        self._sends, self._receives = Overlaps(), Overlaps()
        self._pending: list[Instruction] = []
        self._touched: tuple[Overlaps, Overlaps] | None = None
        self._flushed = 0

    def emit(self, instruction: Instruction) -> None:
        """Append an instruction, after the waits that what it touches needs."""
        slots = {slot for region in reads(instruction) for slot in self._receives.find(region)}
        for region in writes(instruction):
            slots.update(self._receives.find(region), self._sends.find(region))
        self.wait(sorted(slots, key=self._posted.__getitem__))
        if isinstance(instruction, PostSend | PostRecv):
            instruction = self._post(instruction)
        self.issued.append(instruction)

    def _post(self, message: PostSend | PostRecv) -> PostSend | PostRecv:
        """Give a message the lowest slot that is free."""
        if self._free:
            slot = heappop(self._free)
        else:
            slot, self.slots = self.slots, self.slots + 1
        self._posted[slot] = len(self.issued)
        self._in_flight(message).add(message.region, slot)
        posted = self.flying[slot] = replace(message, slot=slot)
        return posted

    def _in_flight(self, message: PostSend | PostRecv) -> Overlaps:
        return self._receives if isinstance(message, PostRecv) else self._sends

    def wait(self, slots: Iterable[int]) -> None:
        """Append a wait for messages in flight, if there are any."""
        slots = tuple(slots)
        if slots:
            self.issued.append(Wait(slots, max(self.flying[s].round for s in slots)))
            for slot in slots:
                message = self.flying.pop(slot)
                self._in_flight(message).remove(message.region, slot)
                heappush(self._free, slot)

    def wait_for(self, wanted: Callable[[PostSend | PostRecv], bool]) -> None:
        """Append a wait for those messages in flight that `wanted` picks."""
        self.wait(slot for slot, post in self.flying.items() if wanted(post))

    def receiving(self, region: Region) -> bool:
        """Tell whether a message that is in flight is received into a part of `region`."""
        return self._receives.any(region)

    def defer(self, instruction: Instruction) -> None:
        """Put local work off."""
        self._pending.append(instruction)
        self._touched = None

    @property
    def last(self) -> Instruction | None:
        """Return what was put off last and is pending."""
        return self._pending[-1] if self._pending else None

    def replace_last(self, instruction: Instruction) -> None:
        """Put other local work off instead of the last."""
        self._pending.pop()
        self.defer(instruction)

    def take(self) -> list[Instruction]:
        """Return all that is pending, for the caller to emit."""
        taken, self._pending, self._touched = self._pending, [], None
        return taken

    def prepare(self, instruction: Instruction) -> None:
        """Append the pending instructions that must run before `instruction`."""
        self.flush(self.needed(instruction))

    def needed(self, instruction: Instruction) -> int:
        """Return how many pending instructions must run before `instruction`."""
        if not self._pending:
            return 0
        if self._touched is None:
            self._touched = _touched(self._pending)
            self._flushed = 0
        read, written = self._touched
        found = [n for region in writes(instruction) for n in read.find(region)]
        for region in (*reads(instruction), *writes(instruction)):
            found += written.find(region)
        return max(0, max(found, default=0) - self._flushed)

    def flush(self, count: int | None = None) -> None:
        """Append pending instructions, the first `count` of them or all."""
        flushed = self._pending[:count]
        for instruction in flushed:
            self.emit(instruction)
        del self._pending[:count]
        self._flushed += len(flushed)


def _touched(pending: list[Instruction]) -> tuple[Overlaps, Overlaps]:
    """Return what instructions read and what they write, numbered from 1 on."""
    read, written = Overlaps(), Overlaps()
    for number, instruction in enumerate(pending, 1):
        for of, regions in ((read, reads(instruction)), (written, writes(instruction))):
            for region in regions:
                of.add(region, number)
    return read, written
