"""Where blocks lie: the borders of a vector that is cut into blocks.

Block ``b`` of ``n`` covers elements ``count*b//n`` to ``count*(b+1)//n``. With this rule every
finer grid contains the borders of the coarse one, so segments, two levels and the reduce-scatter
inside an allreduce agree on sizes for every count (the rule "the first ``count mod n`` blocks are
one longer" doesn't have that property). Irregular collectives name the sizes of their blocks; the
rule then holds inside each.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate


@dataclass(frozen=True)
class Partition:
    """A vector of ``count`` elements cut into ``blocks`` blocks, some of which may be empty.

    Attributes
    ----------
    counts
        Elements of each natural block, of which there are as many as divide `blocks`; None where
        they follow from the rule.
    """

    count: int
    blocks: int
    counts: tuple[int, ...] | None = None

    @cached_property
    def _borders(self) -> tuple[int, ...]:
        assert self.counts is not None
        return tuple(accumulate(self.counts, initial=0))

    def border(self, block: int) -> int:
        """Return the first element of `block`; ``border(blocks)`` is the count."""
        if self.counts is None:
            return self.count * block // self.blocks
        pieces = self.blocks // len(self.counts)
        natural, piece = divmod(block, pieces)
        inside = self.counts[natural] * piece // pieces if piece else 0
        return self._borders[natural] + inside

    def size(self, block: int) -> int:
        """Return the number of elements in `block`."""
        return self.border(block + 1) - self.border(block)

    def finer(self, blocks: int) -> "Partition":
        """Return the same vector cut into `blocks` blocks, a multiple of those here."""
        return Partition(self.count, blocks, self.counts)

    @property
    def even(self) -> bool:
        """Tell whether all blocks have the same size."""
        if self.counts is None:
            return self.count % self.blocks == 0
        return len(set(self.counts)) <= 1


class Window:
    """Blocks that lie side by side in a buffer, in the order of their names.

    Parameters
    ----------
    natural
        Names of natural blocks, a range that may have a step.
    pieces
        Blocks of the partition per natural block.
    """

    def __init__(self, partition: Partition, natural: range, pieces: int) -> None:
        self._partition, self._natural, self._pieces = partition, natural, pieces
        border = partition.border
        runs = [natural] if natural.step == 1 else [range(b, b + 1) for b in natural]
        self.spans = tuple(
            range(border(run.start * pieces), border(run.stop * pieces)) for run in runs
        )
        self._starts = tuple(accumulate(map(len, self.spans), initial=0))

    def __contains__(self, block: int) -> bool:
        return block // self._pieces in self._natural

    def __iter__(self) -> Iterator[int]:
        pieces = self._pieces
        return (n * pieces + piece for n in self._natural for piece in range(pieces))

    def __len__(self) -> int:
        return len(self._natural) * self._pieces

    @property
    def count(self) -> int:
        """Return the elements of all blocks."""
        return self._starts[-1]

    @property
    def contiguous(self) -> bool:
        """Tell whether the blocks lie side by side in the full vector, too."""
        return self._natural.step == 1

    def offset(self, block: int) -> int:
        """Return the elements in the buffer before `block`, which is in it."""
        natural = block // self._pieces
        run = 0 if self.contiguous else (natural - self._natural.start) // self._natural.step
        inside = self._partition.border(block) - self.spans[run].start
        return self._starts[run] + inside


def pieces(spans: Iterable[range], low: int, high: int) -> Iterator[range]:
    """Yield what elements `low` to `high` of a buffer are in the full vector.

    Parameters
    ----------
    spans
        The elements of the full vector that fill the buffer, in order.
    """
    start = 0
    for span in spans:
        part = span[max(0, low - start) : max(0, high - start)]
        if part:
            yield part
        start += len(span)
