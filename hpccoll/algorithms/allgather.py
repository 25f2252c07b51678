"""Allgather: every rank ends with the blocks of all."""

from itertools import pairwise

from hpccoll.registry import algorithm
from hpccoll.schedule import Action, Recv, Round, Rounds, Send, span
from hpccoll.shapes import circulant_skips, even, power_of_two


@algorithm("allgather", rounds="p-1", sent="n*(p-1)/p")
def ring(rank: int, size: int) -> Rounds:
    """Pass every block once around a ring.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    for step in range(1, size):
        yield Round(
            Send((rank + 1) % size, (rank - step + 1) % size),
            Recv((rank - 1) % size, (rank - step) % size),
        )


@algorithm("allgather", requires=power_of_two, rounds="log2(p)", sent="n*(p-1)/p")
def recursive_doubling(rank: int, size: int) -> Rounds:
    """Double the gathered range every round by exchanging with rank XOR 2**k.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """

    def held(r: int, k: int) -> range:
        return range(r >> k << k, (r >> k << k) + (1 << k))

    for k in range(size.bit_length() - 1):
        peer = rank ^ 1 << k
        yield Round(Send(peer, held(rank, k)), Recv(peer, held(peer, k)))


@algorithm(
    "allgather",
    minimum={"radix": 2},
    rounds="Lk",
    messages="(k-1)*(Lk-1) + ceil(p/k**(Lk-1)) - 1 if p>1 else 0",
    sent="n*(p-1)/p",
)
def bruck(rank: int, size: int, radix: int = 2) -> Rounds:
    """Multiply the gathered range by the radix every round, for any number of ranks.

    References
    ----------
    Bruck, Ho, Kipnis, Upfal, Weathersby, IEEE TPDS 8(11), 1997, doi:10.1109/71.642949.
    """
    held = 1
    while held < size:
        exchanges: list[Action] = []
        for shift in range(held, min(radix * held, size), held):
            count = min(held, size - shift)
            exchanges += [
                Send((rank - shift) % size, span(rank, count, size)),
                Recv((rank + shift) % size, span(rank + shift, count, size)),
            ]
        yield Round(*exchanges)
        held *= radix


@algorithm("allgather", rounds="L", sent="n*(p-1)/p")
def circulant(rank: int, size: int) -> Rounds:
    """Gather along a circulant graph, in the optimal number of rounds for any p.

    References
    ----------
    Träff, arXiv:2410.14234.
    """
    skips = circulant_skips(size)
    for skip, reach in pairwise(skips):
        count = reach - skip
        yield Round(
            Send((rank - skip) % size, span(rank, count, size)),
            Recv((rank + skip) % size, span(rank + skip, count, size)),
        )


@algorithm("allgather", requires=even, rounds="p/2 if p>1 else 0", sent="n*(p-1)/p")
def neighbor_exchange(rank: int, size: int) -> Rounds:
    """Pass pairs of blocks to the left and to the right neighbour in turn.

    References
    ----------
    Chen, Zhang, Zhang, Yuan, HPC Asia 2005, doi:10.1109/HPCASIA.2005.75.
    """

    def side(r: int, step: int) -> int:
        return -1 if (r + step) % 2 else 1

    def received(r: int, step: int) -> range:
        pair = (r // 2 + side(r, step) * ((step + 1) // 2)) % (size // 2)
        return range(2 * pair, 2 * pair + 2)

    for step in range(size // 2):
        peer = (rank + side(rank, step)) % size
        if step:
            yield Round(Send(peer, received(peer, step)), Recv(peer, received(rank, step)))
        else:
            yield Round(Send(peer, rank), Recv(peer, peer))
