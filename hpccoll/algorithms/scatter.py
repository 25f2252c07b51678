"""Scatter from root 0 (the registry rotates to other roots)."""

from hpccoll.registry import algorithm
from hpccoll.schedule import Recv, Round, Rounds, Send
from hpccoll.shapes import ceil_log, subtree


@algorithm("scatter", rounds="L", sent="n*(p-1)/p")
def binomial(rank: int, size: int) -> Rounds:
    """Hand the blocks of subtrees of ranks down a binomial tree.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    for k in reversed(range(ceil_log(size))):
        distance = 1 << k
        if rank % (2 * distance) == 0 and rank + distance < size:
            yield Round(Send(rank + distance, subtree(rank + distance, size)))
        elif rank % (2 * distance) == distance:
            yield Round(Recv(rank - distance, subtree(rank, size)))
