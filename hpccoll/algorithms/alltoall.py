"""Alltoall: every rank has a block for every rank; block s*p + d goes from rank s to rank d."""

from hpccoll.registry import algorithm
from hpccoll.schedule import Recv, Round, Rounds, Send
from hpccoll.shapes import power_of_two_below


@algorithm("alltoall", rounds="p-1", sent="n*(p-1)/p")
def pairwise(rank: int, size: int) -> Rounds:
    """Exchange blocks with rank XOR i in round i, or send to rank + i and receive from rank - i.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    paired = size == power_of_two_below(size)
    for step in range(1, size):
        to, source = (rank ^ step,) * 2 if paired else ((rank + step) % size, (rank - step) % size)
        yield Round(Send(to, rank * size + to), Recv(source, source * size + rank))


@algorithm("alltoall", rounds="1*(p>1)", messages="p-1", sent="n*(p-1)/p")
def linear(rank: int, size: int) -> Rounds:
    """Exchange blocks with all ranks at once.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    if size > 1:
        peers = [(rank + shift) % size for shift in range(1, size)]
        yield Round(
            *(Send(peer, rank * size + peer) for peer in peers),
            *(Recv(peer, peer * size + rank) for peer in reversed(peers)),
        )
