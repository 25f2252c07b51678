"""Places: where the blocks of a schedule live while a plan is made of it.

A block is read from the caller's input until it is first written. Its home is its place in the
output, if the output has one; otherwise it lives in a temporary.
"""

from collections.abc import Iterable, Sequence

from hpccoll.layout import INPUT, OUTPUT, SCRATCH, Message, Region, layout
from hpccoll.partition import Partition
from hpccoll.regions import joined
from hpccoll.registry import Choice
from hpccoll.schedule import DATA, Ranges


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
    temporaries
        Elements of each temporary; number k is space ``SCRATCH + 1 + k``.
    """

    def __init__(self, choice: Choice, rank: int, size: int, message: Message) -> None:
        contract, natural = choice.algorithm.collective, choice.blocks(size)
        grid = choice.grid(size)
        pieces = grid // natural
        self.partition = Partition(message.count, grid)
        self.held = _scaled(contract.held(rank, size, message.root, natural), pieces)
        self.wanted = _scaled(contract.wanted(rank, size, message.root, natural), pieces)
        self.layout = layout(contract, rank, size, message)
        in_place = self.layout.in_place
        self.home = max(self.held, self.wanted, key=len) if in_place else self.wanted
        start, space = (self.home, OUTPUT) if in_place else (self.held, INPUT)
        self.where = {(DATA, b): (space, self.distance(start, b)) for b in self.held}
        self.temporaries: list[int] = []

    def distance(self, window: range, block: int) -> int:
        """Return the elements between the start of `window` and `block`."""
        return self.partition.border(block) - self.partition.border(window.start)

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
        """Return the blocks' places in the output, or None if it has none for them."""
        if buffer != DATA or not all(b in self.home for part in names for b in part):
            return None
        return joined(
            Region(OUTPUT, self.distance(self.home, part.start), self.count((part,)))
            for part in names
        )

    def move_home(self, blocks: Iterable[int]) -> None:
        """Record that blocks now live where the result wants them."""
        for block in blocks:
            self.where[DATA, block] = (OUTPUT, self.distance(self.wanted, block))

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


def _scaled(window: range, pieces: int) -> range:
    return range(window.start * pieces, window.stop * pieces)
