"""Every pair of ranks exchanges directly: few rounds and many messages."""

from hpccoll.algorithms.groups import reduce_in_order
from hpccoll.combinators import reverse
from hpccoll.registry import algorithm
from hpccoll.schedule import RIGHT, Combine, Recv, Round, Rounds, Send
from hpccoll.shapes import windows


@algorithm(
    "allgather",
    name="linear",
    minimum={"window": 0},
    rounds="ceil((p-1)/window) if window else 1*(p>1)",
    messages="p-1",
    sent="n*(p-1)/p",
)
def allgather(rank: int, size: int, window: int = 0) -> Rounds:
    """Send the own block to every other rank, to `window` of them per round (0: to all at once).

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    for shifts in windows(size, window):
        yield Round(
            *(Send((rank + shift) % size, rank) for shift in shifts),
            *(Recv((rank - shift) % size, (rank - shift) % size) for shift in shifts),
        )


@algorithm(
    "reduce-scatter",
    commutative=True,
    rounds="ceil((p-1)/window)",
    messages="p-1",
    sent="n*(p-1)/p",
    reduced="n*(p-1)/p",
)
def pairwise(rank: int, size: int, window: int = 1) -> Rounds:
    """Send every other rank its block, to `window` of them per round.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    return reverse(allgather(rank, size, window), Combine)


@algorithm(
    "reduce-scatter",
    aliases=("linear",),
    rounds="1*(p>1)",
    messages="p-1",
    sent="n*(p-1)/p",
    reduced="n*(p-1)/p",
)
def direct(rank: int, size: int) -> Rounds:
    """Send every other rank its block at once; each reduces what it gets in the order of the ranks.

    References
    ----------
    Shah et al., MSCCL++, arXiv:2504.09014.
    """
    yield reduce_in_order(rank, range(size), lambda block: block)


@algorithm(
    "allreduce",
    rounds="2*(p>1)",
    messages="2*(p-1)",
    sent="2*n*(p-1)/p",
    reduced="n*(p-1)/p",
)
def two_shot(rank: int, size: int) -> Rounds:
    """Send every other rank its block at once, reduce in order, and send every rank the result.

    References
    ----------
    Shah et al., MSCCL++, arXiv:2504.09014.
    """
    yield from direct(rank, size)
    yield from allgather(rank, size)


@algorithm(
    "allreduce",
    blocks=1,
    rounds="1*(p>1)",
    messages="p-1",
    sent="n*(p-1)",
    reduced="n*(p-1)",
)
def one_shot(rank: int, size: int) -> Rounds:
    """Send everybody the whole vector; every rank reduces all of them in the order of the ranks.

    References
    ----------
    Shah et al., MSCCL++, arXiv:2504.09014.
    """
    yield reduce_in_order(rank, range(size), lambda place: 0)


@algorithm(
    "allreduce",
    name="linear",
    blocks=1,
    rounds="p-1 + (p>1)",
    messages="p-1",
    sent="n*(p-1)",
    reduced="n*(p-1)",
)
def allreduce(rank: int, size: int) -> Rounds:
    """Reduce one rank after the other at rank 0, which then sends the result to all at once.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    if rank:
        yield Round(Send(0, 0))
        yield Round(Recv(0, 0))
        return
    for peer in range(1, size):
        yield Round(Combine(peer, 0, RIGHT))
    yield Round(*(Send(peer, 0) for peer in range(1, size)))
