"""Reduce to root 0 (the registry rotates to other roots)."""

from hpccoll.algorithms.reduce_scatter import halving_near_first
from hpccoll.combinators import fold
from hpccoll.registry import algorithm
from hpccoll.schedule import RIGHT, Combine, Recv, Round, Rounds, Send
from hpccoll.shapes import ceil_log, power_of_two_below


@algorithm("reduce", blocks=1, rounds="L", messages="1*(p>1)", sent="n*(p>1)", reduced="n*L")
def binomial(rank: int, size: int) -> Rounds:
    """Halve the number of partial results every round.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    for k in range(ceil_log(size)):
        distance = 1 << k
        if rank & distance:
            yield Round(Send(rank - distance, 0))
            return
        if rank + distance < size:
            yield Round(Combine(rank + distance, 0, RIGHT))


def _halving_gather(rank: int, size: int) -> Rounds:
    windows = yield from halving_near_first(rank, size)
    for peer, kept, given in reversed(windows):
        if peer < rank:
            yield Round(Send(peer, kept))
            return
        yield Round(Recv(peer, given))


@algorithm(
    "reduce",
    blocks=power_of_two_below,
    rounds="2*l + (p>P)",
    messages="l + (p>1)",
    sent="n*(P-1)/P + n/2*(p>1)",
    reduced="n*(P-1)/P + n*(p>P)",
)
def rabenseifner(rank: int, size: int) -> Rounds:
    """Reduce-scatter by recursive halving, then gather the blocks at the root.

    References
    ----------
    Rabenseifner, ICCS 2004, doi:10.1007/978-3-540-24685-5_1.
    """
    return fold(_halving_gather, lambda size: range(power_of_two_below(size)))(rank, size)
