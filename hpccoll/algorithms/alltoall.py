"""Alltoall: every rank has a block for every rank; block s*p + d goes from rank s to rank d."""

from hpccoll.algorithms.knomial import CHILDREN
from hpccoll.registry import algorithm
from hpccoll.schedule import Action, Recv, Round, Rounds, Send
from hpccoll.shapes import power_of_two_below, windows


@algorithm(
    "alltoall",
    aliases=("scattered", "linear-sync"),
    minimum={"window": 0},
    rounds="ceil((p-1)/window) if window else 1*(p>1)",
    messages="p-1",
    sent="n*(p-1)/p",
)
def linear(rank: int, size: int, window: int = 0) -> Rounds:
    """Exchange blocks with all other ranks, with `window` of them per round (0: all at once).

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    for shifts in windows(size, window):
        peers = [((rank + shift) % size, (rank - shift) % size) for shift in shifts]
        yield Round(
            *(Send(to, rank * size + to) for to, _ in peers),
            *(Recv(source, source * size + rank) for _, source in peers),
        )


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


@algorithm(
    "alltoall",
    aliases=("pairwise-sendrecv-replace",),
    rounds="p-1 + p%2*(p>1)",
    messages="p-1",
    sent="n*(p-1)/p",
)
def pairwise_replace(rank: int, size: int) -> Rounds:
    """Exchange blocks with one partner per round, so that in place two blocks of room are enough.

    The pairs are the rounds of a tournament, of which an odd number of ranks needs one more.

    References
    ----------
    Kirkman, Cambridge and Dublin Mathematical Journal 2, 1847, pp. 191-204 (the tournament);
    MPICH, MPIR_Alltoall_intra_pairwise_sendrecv_replace.
    """
    circle = size - 1 + size % 2  # with an even number, the last rank stands in the middle
    for step in range(circle if size > 1 else 0):
        if rank == circle:
            peer = step * (circle + 1) // 2 % circle
        elif (peer := (step - rank) % circle) == rank:
            peer = circle
        if peer < size:
            yield Round(Send(peer, rank * size + peer), Recv(peer, peer * size + rank))


@algorithm(
    "alltoall",
    minimum={"radix": 2},
    rounds="Lk",
    messages=CHILDREN,
    sent="n*D/p",
)
def bruck(rank: int, size: int, radix: int = 2) -> Rounds:
    """Move every block by the digits of its distance, one digit per round.

    Blocks have names, so that nothing is rotated before or after.

    References
    ----------
    Bruck, Ho, Kipnis, Upfal, Weathersby, IEEE TPDS 8(11), 1997, doi:10.1109/71.642949.
    """
    weight = 1
    while weight < size:
        exchanges: list[Action] = []
        for hop in range(weight, min(radix * weight, size), weight):
            to, source = (rank + hop) % size, (rank - hop) % size
            exchanges.append(Send(to, _travelling(rank, size, hop, weight, radix)))
            exchanges.append(Recv(source, _travelling(source, size, hop, weight, radix)))
        yield Round(*exchanges)
        weight *= radix


def _travelling(rank: int, size: int, hop: int, weight: int, radix: int) -> tuple[int, ...]:
    """Return the blocks that `rank` sends by `hop`, a digit of that weight in their distance.

    The lower digits of the distance lie behind them, the source being so far to the left.
    """
    return tuple(
        (rank - lower) % size * size + (rank + upper) % size
        for upper in range(hop, size, radix * weight)
        for lower in reversed(range(min(weight, size - upper)))
    )
