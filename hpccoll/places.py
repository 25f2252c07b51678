"""Places: where the blocks of a schedule live while a plan is made of it.

A block is read from the caller's input until it is first written. Its home is its place in the
output, if the output has one; otherwise it lives in a temporary.
"""

from collections.abc import Sequence

from hpccoll.choice import Choice
from hpccoll.layout import INPUT, OUTPUT, SCRATCH, Message, Region, layout, natural
from hpccoll.partition import Window
from hpccoll.regions import joined
from hpccoll.schedule import DATA, Ranges, Round, Send, ranges


class Places:
    """Where one rank's blocks live.

    Attributes
    ----------
    held, wanted
        The blocks that the rank has at the start and must have at the end.
    home
        The blocks that have a place in the output, where they lie side by side.
    where
        Space and offset of a buffer's block.
    gathered
        Blocks without a home that are received in parts and sent on together, and their temporary.
    round
        The round that is being bound.
    temporaries
        Elements of each temporary; number k is space ``SCRATCH + 1 + k``.
    """

    def __init__(
        self, choice: Choice, rank: int, size: int, message: Message, rounds: Sequence[Round]
    ) -> None:
        contract, blocks = choice.algorithm.collective, choice.blocks(size)
        grid = choice.grid(size)
        self.partition = natural(contract, size, message).finer(grid)
        self.held, self.wanted = (
            Window(self.partition, of(rank, size, message.root, blocks), grid // blocks)
            for of in (contract.held, contract.wanted)
        )
        self.layout = layout(contract, rank, size, message)
        in_place = self.layout.in_place
        self.home = self.wanted
        if in_place and len(self.held) > len(self.wanted):
            self.home = self.held
        start = OUTPUT if in_place else INPUT
        first = 0 if self.home is self.held else self.layout.held.offset
        self.where = {(DATA, b): (start, first + self.held.offset(b)) for b in self.held}
        self.temporaries: list[int] = []
        self.gathered = None if contract.reduces else self._gathered(rounds)
        self.round = 0
        self._taken = self._tenants(rounds) if in_place else {}

    def _tenants(self, rounds: Sequence[Round]) -> dict[int, int]:
        """Return until which round blocks' homes are taken by others that are still to be sent.

        That is so in place, where what an alltoall receives replaces what it sends.
        """
        if len(self.held) != len(self.wanted) or list(self.held) == list(self.wanted):
            return {}
        last = {
            block: number
            for number, step in enumerate(rounds, 1)
            for action in step.actions
            if isinstance(action, Send) and action.buffer == DATA
            for part in ranges(action.blocks)
            for block in part
        }
        return {
            new: last[old] for old, new in zip(self.held, self.wanted, strict=True) if old in last
        }

    def _gathered(self, rounds: Sequence[Round]) -> tuple[range, Region] | None:
        """Return the blocks of the rank's only message, if it receives parts of them alone."""
        messages = [
            (isinstance(action, Send), ranges(action.blocks))
            for step in rounds
            for action in step.actions
        ]
        sent = [names for is_sent, names in messages if is_sent]
        parts = [part for is_sent, names in messages if not is_sent for part in names]
        if len(sent) != 1 or len(sent[0]) != 1 or not parts:
            return None
        (whole,) = sent[0]
        inside = all(whole.start <= part.start and part.stop <= whole.stop for part in parts)
        if not inside or any(block in self.home for block in whole):
            return None
        return whole, self.temporary(self.count((whole,)))

    def goal(self, block: int) -> tuple[int, int]:
        """Return space and offset of a wanted block's place in the result."""
        return OUTPUT, self.layout.result.offset + self.wanted.offset(block)

    def count(self, names: Ranges) -> int:
        """Return the elements of blocks."""
        border = self.partition.border
        return sum(border(part.stop) - border(part.start) for part in names)

    def temporary(self, count: int) -> Region:
        """Return a new temporary."""
        self.temporaries.append(count)
        return Region(SCRATCH + len(self.temporaries), 0, count)

    def located(self, buffer: int, names: Ranges) -> list[Region]:
        """Return where blocks live now, in order, neighbours joined and empty ones left out."""
        places = (
            Region(*self.where[buffer, block], self.partition.size(block))
            for part in names
            for block in part
            if self.partition.size(block)
        )
        return joined(places)

    def homes(self, buffer: int, names: Ranges) -> list[Region] | None:
        """Return the places that the blocks belong at, or None if they have none now."""
        if buffer == DATA and self.gathered and all(part[0] in self.gathered[0] for part in names):
            return [self._among_gathered(part) for part in names]
        if buffer != DATA or not all(b in self.home for part in names for b in part):
            return None
        if any(self._taken.get(b, 0) > self.round for part in names for b in part):
            return None
        size, offset = self.partition.size, self.home.offset
        if self.home.contiguous:
            return joined(Region(OUTPUT, offset(part.start), self.count((part,))) for part in names)
        return joined(Region(OUTPUT, offset(b), size(b)) for part in names for b in part)

    def _among_gathered(self, part: range) -> Region:
        assert self.gathered
        whole, place = self.gathered
        before = self.count((range(whole.start, part.start),))
        return Region(place.space, place.offset + before, self.count((part,)))

    def settle(self, buffer: int, names: Ranges, regions: Sequence[Region]) -> None:
        """Record that blocks now live in `regions`, which they fill in order."""
        stream = iter(regions)
        region = next(stream, None)
        used = 0
        for part in names:
            for block in part:
                size = self.partition.size(block)
                if region is not None and size and used == region.count:
                    region, used = next(stream), 0
                if region is None or not size:
                    self.where[buffer, block] = (SCRATCH, 0)
                    continue
                self.where[buffer, block] = (region.space, region.offset + used)
                used += size
