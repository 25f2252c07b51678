"""Places: where the blocks of a schedule live while a plan is made of it.

A block is read from the caller's input until it is first written. Its home is its place in the
output, if the output has one; otherwise it lives in a temporary.
"""

from collections.abc import Sequence

from hpccoll.layout import INPUT, OUTPUT, SCRATCH, Message, Region, layout, natural
from hpccoll.partition import Window
from hpccoll.regions import joined
from hpccoll.registry import Choice
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
        """Return the blocks' places in the output, or None if it has none for them now."""
        if buffer != DATA or not all(b in self.home for part in names for b in part):
            return None
        if any(self._taken.get(b, 0) > self.round for part in names for b in part):
            return None
        size, offset = self.partition.size, self.home.offset
        if self.home.contiguous:
            return joined(Region(OUTPUT, offset(part.start), self.count((part,))) for part in names)
        return joined(Region(OUTPUT, offset(b), size(b)) for part in names for b in part)

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
