"""Reduce-scatter: rank r ends with block r reduced over all ranks."""

from collections.abc import Generator

from hpccoll.algorithms.radix import MOST_FOLDED
from hpccoll.combinators import fold
from hpccoll.registry import algorithm
from hpccoll.schedule import LEFT, RIGHT, Combine, Recv, Round, Rounds, Send, span
from hpccoll.shapes import Folding, bit_reverse, ceil_log, circulant_skips, halves, power_of_two


@algorithm(
    "reduce-scatter",
    commutative=True,
    rounds="S*(p-1)",
    sent="n*(p-1)/p",
    reduced="n*(p-1)/p",
)
def ring(rank: int, size: int, segments: int = 1) -> Rounds:
    """Pass partial sums around a ring, each block ending at its owner.

    References
    ----------
    Patarasuk, Yuan, JPDC 69(2), 2009, doi:10.1016/j.jpdc.2008.09.002.
    """

    def name(block: int, piece: int) -> int:
        return block % size * segments + piece

    for step in range(1, size):
        for piece in range(segments):
            yield Round(
                Send((rank + 1) % size, name(rank - step, piece)),
                Combine((rank - 1) % size, name(rank - step - 1, piece)),
            )


Window = tuple[int, range, range]


def halving_near_first(rank: int, size: int) -> Generator[Round, None, list[Window]]:
    """Halve the window of blocks with partners 1, 2, 4, … away, for a power-of-two size.

    Every partial result covers contiguous ranks, so the order of operands is kept.

    Returns
    -------
    list of (peer, kept, given)
        The windows that each round kept and gave away.
    """
    window = range(size)
    windows = []
    for k in range(size.bit_length() - 1):
        peer = rank ^ 1 << k
        low, high = halves(window)
        window, given = (low, high) if rank < peer else (high, low)
        side = LEFT if peer < rank else RIGHT
        yield Round(Send(peer, given), Combine(peer, window, side))
        windows.append((peer, window, given))
    return windows


def _owned(groups: range, size: int) -> range:
    """Return the blocks of all ranks in the groups of a fold."""
    return Folding(size).window(groups)


@algorithm(
    "reduce-scatter",
    rounds="l + (p>P) + (p>2)",
    messages="l + (p>2) + (e>1)",
    sent="n if p>2 else n*(p-1)/p",
    reduced=MOST_FOLDED,
)
def butterfly(rank: int, size: int) -> Rounds:
    """Halve the blocks with near partners first, then send each block to its owner.

    The owner is the mirror image: the rank whose number has the bits in reverse order.

    References
    ----------
    Träff, EuroPVM/MPI 2005, doi:10.1007/11557265_20.
    """
    folding = Folding(size)
    bits = ceil_log(folding.core)
    yield from fold(halving_near_first, range, windows=_owned)(rank, size)
    number = folding.number(rank)
    holder = folding.leader(bit_reverse(number, bits))
    owners = folding.group(bit_reverse(number, bits)) if rank == folding.leader(number) else ()
    yield Round(
        *(Send(owner, owner) for owner in owners if owner != rank),
        *(Recv(holder, rank) for _ in range(holder != rank)),
    )


@algorithm(
    "reduce-scatter",
    requires=power_of_two,
    rounds="log2(p)",
    sent="n*(p-1)/p",
    reduced="n*(p-1)/p",
)
def noncommutative(rank: int, size: int) -> Rounds:
    """Exchange every second of the remaining blocks with rank XOR 2**k, nearest first.

    Every partial result covers contiguous ranks, and each block ends where it belongs; but the
    blocks of a message don't lie side by side.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    for k in range(ceil_log(size)):
        peer, distance = rank ^ 1 << k, 2 << k
        given, kept = (range(r % distance, size, distance) for r in (peer, rank))
        yield Round(Send(peer, given), Combine(peer, kept, LEFT if peer < rank else RIGHT))


def _doubling(rank: int, size: int) -> Rounds:
    def outside(r: int, k: int) -> tuple[range, range]:
        first = r >> k << k
        return range(first), range(first + (1 << k), size)

    for k in range(ceil_log(size)):
        peer = rank ^ 1 << k
        side = LEFT if peer < rank else RIGHT
        yield Round(Send(peer, outside(rank, k)), Combine(peer, outside(peer, k), side))


@algorithm(
    "reduce-scatter",
    rounds="l + 2*(p>P)",
    messages="l + (p>P)",
    sent="max(n*(p>P), n*l - n/p*(2*P - 1 - 2**log2(2*P-p) - (2*P-p)*(l - log2(2*P-p))))",
    reduced="n*l + 2*n/p if p>P else n*l - n*(p-1)/p",
)
def recursive_doubling(rank: int, size: int) -> Rounds:
    """Exchange all blocks but those of the own group with rank XOR 2**k, groups doubling.

    As in recursive doubling of whole vectors a receiver gets more than it will need; only blocks
    that nobody beyond the sender's group needs from it are left out.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    return fold(_doubling, range, back=lambda rank, size: rank, windows=_owned)(rank, size)


@algorithm(
    "reduce-scatter",
    commutative=True,
    rounds="L",
    sent="n*(p-1)/p",
    reduced="n*(p-1)/p",
)
def circulant(rank: int, size: int) -> Rounds:
    """Halve the number of partial blocks per round, in the optimal number of rounds for any p.

    References
    ----------
    Träff, arXiv:2410.14234.
    """
    skips = circulant_skips(size)
    for skip, reach in zip(skips[-2::-1], skips[:0:-1], strict=True):
        count = reach - skip
        yield Round(
            Send((rank + skip) % size, span(rank + skip, count, size)),
            Combine((rank - skip) % size, span(rank, count, size)),
        )
