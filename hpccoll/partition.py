"""Where blocks lie: the borders of a vector that is cut into blocks.

Block ``b`` of ``n`` covers elements ``count*b//n`` to ``count*(b+1)//n``. With this rule every
finer grid contains the borders of the coarse one, so segments, two levels and the reduce-scatter
inside an allreduce agree on sizes for every count (the rule "the first ``count mod n`` blocks are
one longer" doesn't have that property).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Partition:
    """A vector of ``count`` elements cut into ``blocks`` blocks, some of which may be empty."""

    count: int
    blocks: int

    def border(self, block: int) -> int:
        """Return the first element of `block`; ``border(blocks)`` is the count."""
        return self.count * block // self.blocks

    def size(self, block: int) -> int:
        """Return the number of elements in `block`."""
        return self.border(block + 1) - self.border(block)

    @property
    def even(self) -> bool:
        """Tell whether all blocks have the same size."""
        return self.count % self.blocks == 0
