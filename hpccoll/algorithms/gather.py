"""Gather to root 0 (the registry rotates to other roots)."""

from hpccoll.registry import algorithm
from hpccoll.schedule import Recv, Round, Rounds, Send
from hpccoll.shapes import ceil_log, subtree


@algorithm("gather", rounds="L", messages="1*(p>1)", sent="n*max(P/2, e)/p*(p>1)")
def binomial(rank: int, size: int) -> Rounds:
    """Gather subtrees of ranks up a binomial tree.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    for k in range(ceil_log(size)):
        distance = 1 << k
        if rank & distance:
            yield Round(Send(rank - distance, subtree(rank, size)))
            return
        if rank + distance < size:
            yield Round(Recv(rank + distance, subtree(rank + distance, size)))


@algorithm("gather", rounds="1*(p>1)", messages="1*(p>1)", sent="n/p*(p>1)")
def linear(rank: int, size: int) -> Rounds:
    """Send every block straight to the root, all at once.

    References
    ----------
    Chan, Heimlich, Purkayastha, van de Geijn, Concurrency and Computation 19(13), 2007,
    doi:10.1002/cpe.1206.
    """
    if rank:
        yield Round(Send(0, rank))
    elif size > 1:
        yield Round(*(Recv(peer, peer) for peer in range(1, size)))
