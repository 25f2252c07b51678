"""Reduce-scatter: rank r ends with block r reduced over all ranks."""

from collections.abc import Generator

from hpccoll.combinators import fold
from hpccoll.registry import algorithm
from hpccoll.schedule import LEFT, RIGHT, Combine, Round, Rounds, Send, span
from hpccoll.shapes import circulant_skips, halves


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


def _halving_far_first(rank: int, size: int) -> Rounds:
    window = range(size)
    while len(window) > 1:
        low, high = halves(window)
        peer = rank ^ len(low)
        window, give = (low, high) if rank in low else (high, low)
        yield Round(Send(peer, give), Combine(peer, window))


@algorithm(
    "reduce-scatter",
    commutative=True,
    rounds="l + 2*(p>P)",
    messages="l + (p>P)",
    sent="n*(p-1)/p + n/p*(p>P)",
    reduced="n*(p-1)/p if p==P else n*(2*p - 2 - e + e*(l-E) + 2**E)/p",
)
def recursive_halving(rank: int, size: int) -> Rounds:
    """Exchange half of the remaining blocks per round with a partner half as far away.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """

    def blocks(block: int, core: int, size: int) -> range:
        extra = size - core
        return range(block + min(block, extra), block + 1 + min(block + 1, extra))

    return fold(_halving_far_first, range, back=lambda rank, size: rank, blocks=blocks)(rank, size)


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
