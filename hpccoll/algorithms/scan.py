"""Scan: rank r ends with the vectors of the ranks up to r reduced."""

from hpccoll.registry import algorithm
from hpccoll.schedule import LEFT, Combine, Round, Rounds, Send


@algorithm(
    "scan",
    aliases=("chain",),
    blocks=1,
    clocked=True,
    chosen=("segments",),
    time="(p-2+S)*(alpha + n*beta/S)",
    rounds="(p-2+S)*(p>1)",
    messages="S*(p>1)",
    sent="n*(p>1)",
    reduced="n*(p>1)",
)
def linear(rank: int, size: int, segments: int = 3) -> Rounds:
    """Pass the sum of all ranks up to one on to the next rank, segment by segment.

    References
    ----------
    Sanders, Träff, EuroPVM/MPI 2006, doi:10.1007/11846802_15.
    """
    for piece in range(segments + 1):
        actions: list[Send | Combine] = []
        if piece and rank + 1 < size:
            actions.append(Send(rank + 1, piece - 1))
        if rank and piece < segments:
            actions.append(Combine(rank - 1, piece, LEFT))
        if actions:
            yield Round(*actions, at=rank + piece)


@algorithm("scan", blocks=1, rounds="L", messages="L", sent="n*L", reduced="n*L")
def recursive_doubling(rank: int, size: int) -> Rounds:
    """Double the number of ranks that a partial result covers every round.

    References
    ----------
    Hillis, Steele, CACM 29(12), 1986, doi:10.1145/7902.7903.
    """
    distance = 1
    while distance < size:
        actions: list[Send | Combine] = []
        if rank + distance < size:
            actions.append(Send(rank + distance, 0))
        if rank >= distance:
            actions.append(Combine(rank - distance, 0, LEFT))
        yield Round(*actions)
        distance *= 2


@algorithm(
    "scan",
    blocks=1,
    rounds="2*l - (p>1 and 2*p<3*P)",
    messages="l",
    sent="n*l",
    reduced="n*l",
)
def binomial(rank: int, size: int) -> Rounds:
    """Reduce up a binomial tree, then pass what stands left of each subtree down it.

    References
    ----------
    Sanders, Träff, EuroPVM/MPI 2006, doi:10.1007/11846802_15.
    """
    # The last rank of a group leads it. Up: left halves of groups to right ones, whose sum covers
    # the group then. Down: groups that have the sum from rank 0 on to the left half after them.
    extent = 1
    while 2 * extent <= size:
        yield from _lead(rank, size, extent, rank // extent % 2)
        extent *= 2
    while extent := extent // 2:
        yield from _lead(rank, size, extent, (rank // extent + 1) % 2)


def _lead(rank: int, size: int, extent: int, receives: int) -> Rounds:
    """Send, or receive and reduce, between the leaders of neighbouring groups of ranks."""
    if (rank + 1) % extent:
        return
    if receives and rank >= extent:
        yield Round(Combine(rank - extent, 0, LEFT))
    elif not receives and rank + extent < size:
        yield Round(Send(rank + extent, 0))
