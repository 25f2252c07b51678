"""Gather to root 0 (the registry rotates to other roots)."""

from hpccoll.algorithms import knomial as knomial_tree
from hpccoll.algorithms import scatter
from hpccoll.combinators import reverse
from hpccoll.registry import algorithm
from hpccoll.schedule import Recv, Round, Rounds, Send
from hpccoll.shapes import even, windows


@algorithm(
    "gather",
    minimum={"window": 0},
    rounds="ceil((p-1)/window) if window else 1*(p>1)",
    messages="1*(p>1)",
    sent="n/p*(p>1)",
)
def linear(rank: int, size: int, window: int = 0) -> Rounds:
    """Send every block straight to the root, which receives `window` per round (0: all at once).

    References
    ----------
    Chan, Heimlich, Purkayastha, van de Geijn, Concurrency and Computation 19(13), 2007,
    doi:10.1002/cpe.1206.
    """
    if rank:
        yield Round(Send(0, rank))
        return
    for peers in windows(size, window):
        yield Round(*(Recv(peer, peer) for peer in peers))


@algorithm(
    "gather",
    rounds="2*(p-1) + (p>1 and S>1)",
    messages="max(p-1, min(S, 2)*(p>1))",
    sent="n/p*(p>1)",
)
def linear_sync(rank: int, size: int, segments: int = 8) -> Rounds:
    """Ask one rank after the other for its first segment; the rest comes while the next is asked.

    No rank sends before the root is ready to receive, so that nothing has to be buffered there.

    References
    ----------
    Open MPI, module coll/tuned, gather algorithm 3, linear_sync.
    """

    def cut(block: int) -> tuple[int, range]:
        start = block * segments
        return start, range(start + 1, start + segments)

    if rank:
        first, rest = cut(rank)
        yield Round(Recv(0))
        yield Round(*(Send(0, part) for part in (first, rest) if part != range(0)))
        return
    late: tuple[Recv, ...] = ()
    for peer in range(1, size):
        first, rest = cut(peer)
        yield Round(Send(peer), Recv(peer, first), *late)
        late = (Recv(peer, rest),) if rest else ()
    if late:
        yield Round(*late)


@algorithm("gather", rounds="L", messages="1*(p>1)", sent="n*max(P/2, e)/p*(p>1)")
def binomial(rank: int, size: int) -> Rounds:
    """Gather subtrees of ranks up a binomial tree.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    return knomial_tree.gather(rank, size, 2)


@algorithm(
    "gather",
    minimum={"radix": 2},
    rounds="Lk",
    messages="1*(p>1)",
    sent=f"n*{knomial_tree.LARGEST}/p*(p>1)",
)
def knomial(rank: int, size: int, radix: int = 4) -> Rounds:
    """Gather subtrees of ranks up a k-nomial tree, of radix - 1 children at once.

    References
    ----------
    Wilkins et al., IEEE Cluster 2023, doi:10.1109/CLUSTER52292.2023.00013.
    """
    return knomial_tree.gather(rank, size, radix)


@algorithm("gather", requires=even, rounds="L", messages="1*(p>1)", sent="n/2*(p>1)")
def bine(rank: int, size: int) -> Rounds:
    """Gather subtrees of ranks up a tree whose edges are shorter than those of a binomial one.

    References
    ----------
    De Sensi, Pasqualoni, Piarulli, Bonato, Ba, Turisini, Domke, Hoefler, SC 2025,
    doi:10.1145/3712285.3759835.
    """
    return reverse(scatter.bine(rank, size), Recv)
