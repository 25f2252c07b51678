"""Gather to root 0 (the registry rotates to other roots)."""

from collections.abc import Callable

from hpccoll.algorithms.bine import bine_tree
from hpccoll.registry import algorithm
from hpccoll.schedule import Blocks, Recv, Round, Rounds, Send
from hpccoll.shapes import ceil_log, even, knomial_subtree


@algorithm("gather", rounds="1*(p>1)", messages="1*(p>1)", sent="n/p*(p>1)")
def linear(rank: int, size: int) -> Rounds:
    """Send every block straight to the root, all at once.

    References
    ----------
    Chan, Heimlich, Purkayastha, van de Geijn, Concurrency and Computation 19(13), 2007,
    doi:10.1002/cpe.1206.
    """
    return linear_windowed(rank, size, size)


@algorithm("gather", rounds="ceil((p-1)/window)", messages="1*(p>1)", sent="n/p*(p>1)")
def linear_windowed(rank: int, size: int, window: int = 8) -> Rounds:
    """Send every block straight to the root, which receives a window of them at a time.

    References
    ----------
    Chan, Heimlich, Purkayastha, van de Geijn, Concurrency and Computation 19(13), 2007,
    doi:10.1002/cpe.1206.
    """
    if rank:
        yield Round(Send(0, rank))
        return
    for first in range(1, size, window):
        yield Round(*(Recv(peer, peer) for peer in range(first, min(first + window, size))))


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
    Open MPI, coll/tuned, gather algorithm 3 (linear_sync).
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


def ascend(rank: int, size: int, radix: int, blocks: Callable[[int], Blocks]) -> Rounds:
    """Hand ``blocks(child)`` up a k-nomial tree, the nearest children first."""
    for level in range(ceil_log(size, radix)):
        distance = radix**level
        if digit := rank // distance % radix:
            yield Round(Send(rank - digit * distance, blocks(rank)))
            return
        children = range(rank + distance, min(rank + radix * distance, size), distance)
        if children:
            yield Round(*(Recv(child, blocks(child)) for child in children))


@algorithm("gather", rounds="L", messages="1*(p>1)", sent="n*max(P/2, e)/p*(p>1)")
def binomial(rank: int, size: int) -> Rounds:
    """Gather subtrees of ranks up a binomial tree.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    return ascend(rank, size, 2, lambda child: knomial_subtree(child, size, 2))


@algorithm(
    "gather",
    minimum={"radix": 2},
    rounds="Lk",
    messages="1*(p>1)",
    sent="n*max(min(p - k**(Lk-1), k**(Lk-1)), k**(Lk-2))/p*(p>1)",
)
def knomial(rank: int, size: int, radix: int = 4) -> Rounds:
    """Gather subtrees of ranks up a k-nomial tree, of radix - 1 children at once.

    References
    ----------
    Wilkins et al., IEEE Cluster 2023, doi:10.1109/CLUSTER52292.2023.00013.
    """
    return ascend(rank, size, radix, lambda child: knomial_subtree(child, size, radix))


@algorithm("gather", requires=even, rounds="L", messages="1*(p>1)", sent="n/2*(p>1)")
def bine(rank: int, size: int) -> Rounds:
    """Gather subtrees of ranks up a tree whose edges are shorter than those of a binomial one.

    References
    ----------
    De Sensi, Pasqualoni, Piarulli, Bonato, Ba, Turisini, Domke, Hoefler, SC 2025,
    doi:10.1145/3712285.3759835.
    """
    tree = bine_tree(size)
    for child in reversed(tree.children[rank]):
        yield Round(Recv(child, tree.below[child]))
    if rank:
        yield Round(Send(tree.parent[rank], tree.below[rank]))
