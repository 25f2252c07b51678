"""Bine (binomial negabinary) butterflies: Swing's partners, with blocks that lie side by side."""

from hpccoll.combinators import fold, reverse
from hpccoll.registry import algorithm
from hpccoll.schedule import Combine, Ranges, Recv, Round, Rounds, Send, span
from hpccoll.shapes import (
    bit_reverse,
    ceil_log,
    halves,
    negabinary_partner,
    power_of_two,
    power_of_two_below,
)


def _gathered(rank: int, step: int, size: int) -> Ranges:
    """Return the blocks that a rank has gathered before `step`: 2**step neighbours, around it."""
    before = 2 * (4 ** (step // 2) - 1) // 3
    start = rank + before - 2**step + 1 if rank % 2 else rank - before
    return span(start, 2**step, size)


@algorithm("allgather", name="bine", requires=power_of_two, rounds="log2(p)", sent="n*(p-1)/p")
def allgather(rank: int, size: int) -> Rounds:
    """Double the gathered range every round with partners 1, -1, 3, -5, … away.

    References
    ----------
    De Sensi, Pasqualoni, Piarulli, Bonato, Ba, Turisini, Domke, Hoefler, SC 2025,
    doi:10.1145/3712285.3759835.
    """
    for step in range(ceil_log(size)):
        peer = negabinary_partner(rank, step, size)
        yield Round(
            Send(peer, _gathered(rank, step, size)), Recv(peer, _gathered(peer, step, size))
        )


@algorithm(
    "reduce-scatter",
    name="bine",
    requires=power_of_two,
    commutative=True,
    rounds="log2(p)",
    sent="n*(p-1)/p",
    reduced="n*(p-1)/p",
)
def reduce_scatter(rank: int, size: int) -> Rounds:
    """Halve the range of blocks every round with partners …, -5, 3, -1, 1 away.

    References
    ----------
    De Sensi, Pasqualoni, Piarulli, Bonato, Ba, Turisini, Domke, Hoefler, SC 2025,
    doi:10.1145/3712285.3759835.
    """
    return reverse(allgather(rank, size), Combine)


def _place(rank: int, size: int) -> int:
    """Return the block that a rank ends with if every round's blocks are to lie side by side.

    It is found from the digits in base -2 of a number that equals the rank, or its negative if the
    rank is even, modulo `size`.
    """
    bits = ceil_log(size)
    negative = sum(1 << bit for bit in range(1, bits, 2))
    number = rank if rank % 2 else -rank
    # Adding the digits of negative weight and taking them away again, without carry, changes base.
    negabinary = (number + negative ^ negative) & size - 1
    return bit_reverse(negabinary ^ negabinary >> 1, bits)


def _halving_doubling(rank: int, size: int) -> Rounds:
    window, place, path = range(size), _place(rank, size), []
    for step in range(ceil_log(size)):
        peer = negabinary_partner(rank, step, size)
        low, high = halves(window)
        window, given = (low, high) if place in low else (high, low)
        yield Round(Send(peer, given), Combine(peer, window))
        path.append((peer, window, given))
    for peer, kept, given in reversed(path):
        yield Round(Send(peer, kept), Recv(peer, given))


@algorithm(
    "allreduce",
    name="bine",
    commutative=True,
    blocks=power_of_two_below,
    rounds="2*l + 2*(p>P)",
    messages="2*l + (p>P)",
    sent="2*n*(P-1)/P + n*(p>P)",
    reduced="n*(P-1)/P + n*(p>P)",
)
def allreduce(rank: int, size: int) -> Rounds:
    """Reduce-scatter, then allgather, halves of the vector with partners 1, -1, 3, -5, … away.

    References
    ----------
    De Sensi, Pasqualoni, Piarulli, Bonato, Ba, Turisini, Domke, Hoefler, SC 2025,
    doi:10.1145/3712285.3759835.
    """
    everything = range(power_of_two_below(size))
    folded = fold(_halving_doubling, lambda size: everything, back=lambda rank, size: everything)
    return folded(rank, size)
