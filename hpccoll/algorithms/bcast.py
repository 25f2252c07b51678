"""Broadcast from root 0 (the registry rotates to other roots)."""

from collections.abc import Callable

from hpccoll.registry import algorithm
from hpccoll.schedule import Action, Blocks, Recv, Round, Rounds, Send
from hpccoll.shapes import ceil_log, subtree


def descend(rank: int, size: int, blocks: Callable[[int], Blocks]) -> Rounds:
    """Hand ``blocks(child)`` down a binomial tree, the farthest child first."""
    for k in reversed(range(ceil_log(size))):
        distance = 1 << k
        if rank % (2 * distance) == 0 and rank + distance < size:
            yield Round(Send(rank + distance, blocks(rank + distance)))
        elif rank % (2 * distance) == distance:
            yield Round(Recv(rank - distance, blocks(rank)))


@algorithm("bcast", blocks=1, rounds="L", sent="n*L")
def binomial(rank: int, size: int) -> Rounds:
    """Double the number of ranks that have the vector every round.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    return descend(rank, size, lambda child: 0)


@algorithm("bcast", rounds="L + p-1", sent="2*n*(p-1)/p")
def scatter_allgather(rank: int, size: int) -> Rounds:
    """Scatter the vector down a binomial tree, then gather it around a ring.

    The ring leaves out what its receiver already has from the scatter.

    References
    ----------
    Barnett, Gupta, Payne, Shuler, van de Geijn, Watts, Scalable High-Performance Computing
    Conference 1994, doi:10.1109/SHPCC.1994.296665.
    """
    yield from descend(rank, size, lambda child: subtree(child, size))
    left, right = (rank - 1) % size, (rank + 1) % size
    for step in range(1, size):
        out, into = (rank - step + 1) % size, (rank - step) % size
        exchange: list[Action] = []
        if out not in subtree(right, size):
            exchange.append(Send(right, out))
        if into not in subtree(rank, size):
            exchange.append(Recv(left, into))
        yield Round(*exchange)
