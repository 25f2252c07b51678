"""Swing: partners 1, -1, 3, -5, 11, … away, which are near in hops on a ring or torus."""

from functools import cache

from hpccoll.combinators import fold, reverse
from hpccoll.registry import algorithm
from hpccoll.schedule import Action, Combine, Ranges, Recv, Round, Rounds, Send, ranges, span
from hpccoll.shapes import ceil_log, negabinary_partner


@cache
def _offsets(size: int) -> tuple[Ranges, ...]:
    """Return the offsets of the blocks that rank 0 sends at each step of a reduce-scatter.

    A block is sent when its owner can still be reached by the partner's later steps. Where the
    number of ranks isn't a power of two there may be several such steps; only the last one counts.
    """
    steps = []
    reached = {0}
    for step in reversed(range(ceil_log(size))):
        partner = negabinary_partner(0, step, size)
        # The partner's number is odd, so that what it reaches is mirrored.
        new = {(partner - offset) % size for offset in reached} - reached
        steps.append(ranges(tuple(sorted(new))))
        reached |= new
    return tuple(reversed(steps))


def _blocks(sender: int, step: int, size: int) -> Ranges:
    """Return the blocks that `sender` gives away at a step of a reduce-scatter."""
    return tuple(
        piece
        for part in _offsets(size)[step]
        for start in (sender - part.stop + 1 if sender % 2 else sender + part.start,)
        for piece in span(start, len(part), size)
    )


@algorithm(
    "allgather",
    name="swing",
    rounds="log2(p - p%2)",
    messages="p-1 if p%2 else L",
    sent="n*(p-1)/p",
)
def allgather(rank: int, size: int) -> Rounds:
    """Gather with partners 1, -1, 3, -5, … away in reverse order.

    The last of an odd number of ranks exchanges blocks with each of the others directly.

    References
    ----------
    De Sensi, Bonato, Saam, Hoefler, NSDI 2024, arXiv:2401.09356.
    """
    paired = size - size % 2
    steps = ceil_log(paired)
    for step in reversed(range(steps)):
        if rank == paired:
            helped = range(step, paired, steps)
            yield Round(*(Send(r, rank) for r in helped), *(Recv(r, r) for r in helped))
            continue
        peer = negabinary_partner(rank, step, paired)
        exchange: list[Action] = [
            Send(peer, _blocks(peer, step, paired)),
            Recv(peer, _blocks(rank, step, paired)),
        ]
        if paired < size and rank % steps == step:
            exchange += [Send(paired, rank), Recv(paired, paired)]
        yield Round(*exchange)


@algorithm(
    "reduce-scatter",
    name="swing",
    commutative=True,
    rounds="log2(p - p%2)",
    messages="p-1 if p%2 else L",
    sent="n*(p-1)/p",
    reduced="n*(p-1)/p",
)
def reduce_scatter(rank: int, size: int) -> Rounds:
    """Halve the blocks with partners 1, -1, 3, -5, … away.

    References
    ----------
    De Sensi, Bonato, Saam, Hoefler, NSDI 2024, arXiv:2401.09356.
    """
    return reverse(allgather(rank, size), Combine)


@algorithm(
    "allreduce",
    name="swing",
    commutative=True,
    rounds="2*log2(p - p%2)",
    messages="2*(p-1) if p%2 else 2*L",
    sent="2*n*(p-1)/p",
    reduced="n*(p-1)/p",
)
def allreduce(rank: int, size: int) -> Rounds:
    """Reduce-scatter, then allgather, with partners 1, -1, 3, -5, … away.

    References
    ----------
    De Sensi, Bonato, Saam, Hoefler, NSDI 2024, arXiv:2401.09356.
    """
    yield from reduce_scatter(rank, size)
    yield from allgather(rank, size)


def _exchange(rank: int, size: int) -> Rounds:
    for step in range(ceil_log(size)):
        peer = negabinary_partner(rank, step, size)
        yield Round(Send(peer, 0), Combine(peer, 0))


@algorithm(
    "allreduce",
    aliases=("bine-latency",),
    commutative=True,
    same_bits=False,
    blocks=1,
    rounds="l + 2*(p>P)",
    messages="l + (p>P)",
    sent="n*l + n*(p>P)",
    reduced="n*l + n*(p>P)",
)
def swing_latency(rank: int, size: int) -> Rounds:
    """Exchange and reduce whole vectors with partners 1, -1, 3, -5, … away.

    The groups that share a partial result overlap, so that the ranks' results may differ in bits.

    References
    ----------
    De Sensi, Bonato, Saam, Hoefler, NSDI 2024, arXiv:2401.09356.
    """
    return fold(_exchange, lambda size: 0, back=lambda rank, size: 0)(rank, size)
