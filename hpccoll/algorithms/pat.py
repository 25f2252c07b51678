"""Parallel aggregated trees: every block descends a binomial tree of its own, farthest rank first.

A rank at offset o from a block's owner hands it on to the ranks at offsets o + 2**j, for all 2**j
below the lowest set bit of o. All trees have the same shape, so that one message carries the blocks
of many.
"""

from collections.abc import Iterator

from hpccoll.combinators import reverse
from hpccoll.registry import algorithm
from hpccoll.schedule import Combine, Recv, Round, Rounds, Send
from hpccoll.shapes import ceil_log


def _edges(size: int, aggregation: int) -> Iterator[tuple[int, range]]:
    """Yield for every round the distance, and the offsets of the blocks that are handed on.

    While there are fewer blocks than one message may carry, all are handed on at once. Then the
    subtrees that they stand at are traversed depth first and in step, so that a block that is only
    passed on need not be kept for long.
    """
    most = 1 << aggregation.bit_length() - 1
    subtree = 1 << ceil_log(size)
    while subtree > 1 and (1 << ceil_log(size)) // subtree < most:
        subtree //= 2
        yield subtree, range(0, size - subtree, 2 * subtree)
    for target in range(1, min(subtree, size)):
        distance = target & -target
        yield distance, range(target - distance, size - distance, subtree)


ROUNDS = "min(L, log2(aggregation+1) - 1) + min(p, 2**max(0, L+1 - log2(aggregation+1))) - 1"


@algorithm("allgather", name="pat", rounds=ROUNDS, sent="n*(p-1)/p")
def allgather(rank: int, size: int, aggregation: int = 8) -> Rounds:
    """Send every block down a binomial tree, in messages of at most `aggregation` blocks.

    References
    ----------
    Jeaugey, arXiv:2506.20252.
    """

    def blocks(r: int, offsets: range) -> tuple[int, ...]:
        return tuple((r - offset) % size for offset in offsets)

    for distance, offsets in _edges(size, aggregation):
        source = (rank - distance) % size
        yield Round(
            Send((rank + distance) % size, blocks(rank, offsets)),
            Recv(source, blocks(source, offsets)),
        )


@algorithm(
    "reduce-scatter",
    name="pat",
    commutative=True,
    rounds=ROUNDS,
    sent="n*(p-1)/p",
    reduced="n*(p-1)/p",
)
def reduce_scatter(rank: int, size: int, aggregation: int = 8) -> Rounds:
    """Reduce every block up a binomial tree, in messages of at most `aggregation` blocks.

    References
    ----------
    Jeaugey, arXiv:2506.20252.
    """
    return reverse(allgather(rank, size, aggregation), Combine)


@algorithm("allgather", rounds="L", sent="n*(p-1)/p")
def sparbit(rank: int, size: int) -> Rounds:
    """Send all blocks at hand half as far every round; none needs to be moved at the end.

    References
    ----------
    Loch, Koslovski, arXiv:2109.08751.
    """
    return allgather(rank, size, size)
