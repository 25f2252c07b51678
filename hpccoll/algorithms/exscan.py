"""Exclusive scan: rank r ends with the vectors of the ranks before r reduced, rank 0 with nothing.

What a rank passes on is its own vector and on its left what it knows of those before. Where it is
needed beside the result, it stands in scratch.
"""

from hpccoll.algorithms import scan
from hpccoll.registry import algorithm
from hpccoll.schedule import (
    DATA,
    LEFT,
    Action,
    Combine,
    Copy,
    Recv,
    Reduce,
    Round,
    Rounds,
    Send,
    embed,
)

ONWARD = 1
"""Scratch: the own vector, and on its left what came from before."""
RECEIVED = 2
"""Scratch: what has just come."""


@algorithm(
    "exscan",
    aliases=("chain",),
    blocks=1,
    clocked=True,
    chosen=("segments",),
    time="(p-2+S)*(alpha + n*beta/S)",
    rounds="(p-2+S)*(p>1)",
    messages="S*(p>1)",
    sent="n*(p>1)",
    reduced="n*(p>2)",
)
def linear(rank: int, size: int, segments: int = 3) -> Rounds:
    """Pass the sum of all ranks before on to the next rank, segment by segment.

    References
    ----------
    Sanders, Träff, EuroPVM/MPI 2006, doi:10.1007/11846802_15.
    """
    first, last = rank == 0, rank + 1 == size
    if not (first or last):
        yield Round(Copy(range(segments), ONWARD, DATA), at=rank - 1)
    for piece in range(segments + 1):
        actions: list[Action] = []
        if piece and not last:
            actions.append(Send(rank + 1, piece - 1, buffer=DATA if first else ONWARD))
        if piece < segments and not first:
            actions.append(Recv(rank - 1, piece))
            actions += [Reduce(piece, ONWARD, DATA, LEFT)] * (not last)
        if actions:
            yield Round(*actions, at=rank + piece)


def _shift(rank: int, size: int) -> Rounds:
    """Pass the vectors on to the next rank."""
    yield Round(*_sent(rank + 1, size), *[Recv(rank - 1, 0)] * (rank > 0))


def _sent(peer: int, size: int, buffer: int = DATA) -> list[Action]:
    return [Send(peer, 0, buffer=buffer)] if peer < size else []


@algorithm(
    "exscan",
    blocks=1,
    rounds="1*(p>1) + log2(p-1)",
    sent="n*(p>1) + n*log2(p-1)",
    reduced="n*log2(p-1)",
)
def shift_scan(rank: int, size: int) -> Rounds:
    """Pass the vectors on to the next rank, and scan them there by recursive doubling.

    References
    ----------
    Träff, arXiv:2507.04785.
    """
    yield from _shift(rank, size)
    if rank:
        yield from embed(scan.recursive_doubling(rank - 1, size - 1), ranks=range(1, size))


def _shift_and_keep(rank: int, size: int) -> Rounds:
    """Pass the vectors on to the next rank; ranks that send two further keep their own, too."""
    keeps = rank > 0 and rank + 2 < size
    if keeps:
        yield Round(Copy(0, ONWARD, DATA))
    yield from _shift(rank, size)
    if keeps:
        yield Round(Reduce(0, ONWARD, DATA, LEFT))


@algorithm(
    "exscan",
    blocks=1,
    rounds="L",
    sent="n*L",
    reduced="n*max(1*(p>2), 2*L - 3 - (P<p and 2*p<=3*P))",
)
def recursive_doubling(rank: int, size: int) -> Rounds:
    """Double the ranks that a partial sum covers every round, with and without the own vector.

    References
    ----------
    Träff, arXiv:2507.04785.
    """
    yield from _shift_and_keep(rank, size)
    distance = 2
    while distance < size:
        actions = _sent(rank + distance, size, ONWARD if rank else DATA)
        if rank >= distance and rank + 2 * distance < size:
            actions.append(Recv(rank - distance, 0, buffer=RECEIVED))
            actions += [Reduce(0, into, RECEIVED, LEFT) for into in (DATA, ONWARD)]
        elif rank >= distance:
            actions.append(Combine(rank - distance, 0, LEFT))
        yield Round(*actions)
        distance *= 2


@algorithm(
    "exscan",
    aliases=("123-doubling",),
    blocks=1,
    rounds="log2(ceil(4*(p-1)/3))",
    sent="n*log2(ceil(4*(p-1)/3))",
    reduced="n*max(1*(p>2), log2(ceil(4*(p-3)/3)))",
)
def doubling_123(rank: int, size: int) -> Rounds:
    """Pass partial sums on by 1, 2, 3, 6, 12, … ranks, the own vector only by 1 and 2.

    References
    ----------
    Träff, arXiv:2507.04785.
    """
    yield from _shift_and_keep(rank, size)
    distance = 2
    while distance < size:
        first = int(distance > 2)  # rank 0 has no sum of those before it
        own = ONWARD if rank and distance == 2 else DATA
        actions = _sent(rank + distance, size, own) if rank >= first else []
        if rank >= distance + first:
            actions.append(Combine(rank - distance, 0, LEFT))
        yield Round(*actions)
        distance = distance * 2 if first else 3
