"""Allreduce: every rank ends with the vector reduced over all ranks."""

from hpccoll.algorithms import allgather, reduce_scatter
from hpccoll.combinators import fold
from hpccoll.registry import algorithm
from hpccoll.schedule import LEFT, RIGHT, Combine, Recv, Round, Rounds, Send, embed
from hpccoll.shapes import power_of_two_below


@algorithm(
    "allreduce",
    commutative=True,
    rounds="(S+1)*(p-1)",
    sent="2*n*(p-1)/p",
    reduced="n*(p-1)/p",
)
def ring(rank: int, size: int, segments: int = 1) -> Rounds:
    """Reduce-scatter around a ring, then allgather around it.

    References
    ----------
    Patarasuk, Yuan, JPDC 69(2), 2009, doi:10.1016/j.jpdc.2008.09.002.
    """
    yield from reduce_scatter.ring(rank, size, segments)
    yield from embed(
        allgather.ring(rank, size),
        windows=lambda part: range(part.start * segments, part.stop * segments),
    )


def _doubling(rank: int, size: int) -> Rounds:
    for k in range(size.bit_length() - 1):
        peer = rank ^ 1 << k
        yield Round(Send(peer, 0), Combine(peer, 0, LEFT if peer < rank else RIGHT))


@algorithm(
    "allreduce",
    blocks=1,
    rounds="l + 2*(p>P)",
    messages="l + (p>P)",
    sent="n*l + n*(p>P)",
    reduced="n*l + n*(p>P)",
)
def recursive_doubling(rank: int, size: int) -> Rounds:
    """Exchange and reduce whole vectors with rank XOR 2**k.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    return fold(_doubling, lambda size: 0, back=lambda rank, size: 0)(rank, size)


def _halving_doubling(rank: int, size: int) -> Rounds:
    windows = yield from reduce_scatter.halving_near_first(rank, size)
    for peer, kept, given in reversed(windows):
        yield Round(Send(peer, kept), Recv(peer, given))


@algorithm(
    "allreduce",
    aliases=("halving-doubling",),
    blocks=power_of_two_below,
    rounds="2*l + 2*(p>P)",
    messages="2*l + (p>P)",
    sent="2*n*(P-1)/P + n*(p>P)",
    reduced="n*(P-1)/P + n*(p>P)",
)
def rabenseifner(rank: int, size: int) -> Rounds:
    """Reduce-scatter by recursive halving, then allgather by recursive doubling.

    References
    ----------
    Rabenseifner, ICCS 2004, doi:10.1007/978-3-540-24685-5_1.
    """
    everything = range(power_of_two_below(size))
    folded = fold(_halving_doubling, lambda size: everything, back=lambda rank, size: everything)
    return folded(rank, size)


@algorithm(
    "allreduce",
    commutative=True,
    rounds="2*L",
    sent="2*n*(p-1)/p",
    reduced="n*(p-1)/p",
)
def circulant(rank: int, size: int) -> Rounds:
    """Reduce-scatter and allgather on a circulant graph, optimal in rounds and bytes for any p.

    References
    ----------
    Träff, arXiv:2410.14234.
    """
    yield from reduce_scatter.circulant(rank, size)
    yield from allgather.circulant(rank, size)
