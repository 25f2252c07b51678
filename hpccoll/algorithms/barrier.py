"""Barrier: no rank leaves before all have come. Messages are signals, which name no block."""

from hpccoll.algorithms import knomial
from hpccoll.combinators import fold
from hpccoll.registry import algorithm
from hpccoll.schedule import Recv, Round, Rounds, Send


@algorithm("barrier", rounds="2*(p>1)", messages="p-1", sent="0")
def linear(rank: int, size: int) -> Rounds:
    """Signal rank 0, which signals back when all have come.

    References
    ----------
    Pješivac-Grbović, Angskun, Bosilca, Fagg, Gabriel, Dongarra, Cluster Computing 10(2), 2007,
    doi:10.1007/s10586-007-0012-0.
    """
    if rank:
        yield Round(Send(0))
        yield Round(Recv(0))
    elif size > 1:
        yield Round(*(Recv(peer) for peer in range(1, size)))
        yield Round(*(Send(peer) for peer in range(1, size)))


@algorithm("barrier", rounds="(2*p-1)*(p>1)", messages="2*(p>1)", sent="0")
def double_ring(rank: int, size: int) -> Rounds:
    """Pass a signal twice around a ring: to collect all ranks, and to release them.

    References
    ----------
    Pješivac-Grbović, Angskun, Bosilca, Fagg, Gabriel, Dongarra, Cluster Computing 10(2), 2007,
    doi:10.1007/s10586-007-0012-0.
    """
    left, right = (rank - 1) % size, (rank + 1) % size
    if size == 1:
        return
    if rank:
        yield Round(Recv(left))
    yield Round(Send(right))
    yield Round(Recv(left))
    if right:
        yield Round(Send(right))


def _doubling(rank: int, size: int) -> Rounds:
    for k in range(size.bit_length() - 1):
        peer = rank ^ 1 << k
        yield Round(Send(peer), Recv(peer))


@algorithm("barrier", rounds="l + 2*(p>P)", messages="l + (p>P)", sent="0")
def recursive_doubling(rank: int, size: int) -> Rounds:
    """Exchange signals with rank XOR 2**k.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    return fold(_doubling, lambda size: (), back=lambda rank, size: ())(rank, size)


@algorithm(
    "barrier",
    aliases=("bruck",),
    minimum={"radix": 2},
    rounds="Lk",
    messages=knomial.CHILDREN,
    sent="0",
)
def dissemination(rank: int, size: int, radix: int = 2) -> Rounds:
    """Signal the ranks 1, 2, …, radix - 1 times radix**i further on in round i.

    References
    ----------
    Hensgen, Finkel, Manber, International Journal of Parallel Programming 17(1), 1988,
    doi:10.1007/BF01379320.
    """
    distance = 1
    while distance < size:
        hops = range(distance, min(radix * distance, size), distance)
        yield Round(
            *(Send((rank + hop) % size) for hop in hops),
            *(Recv((rank - hop) % size) for hop in hops),
        )
        distance *= radix


@algorithm(
    "barrier",
    minimum={"radix": 2},
    rounds="2*Lk",
    messages=knomial.CHILDREN,
    sent="0",
)
def tree(rank: int, size: int, radix: int = 2) -> Rounds:
    """Collect signals up a k-nomial tree, then release all ranks down it.

    References
    ----------
    Mellor-Crummey, Scott, ACM TOCS 9(1), 1991, doi:10.1145/103727.103729.
    """
    yield from knomial.up(rank, size, radix, lambda _: ())
    yield from knomial.down(rank, size, radix, lambda _: ())
