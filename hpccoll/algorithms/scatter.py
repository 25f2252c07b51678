"""Scatter from root 0 (the registry rotates to other roots)."""

from collections.abc import Callable

from hpccoll.algorithms.bine import bine_tree
from hpccoll.registry import algorithm
from hpccoll.schedule import Blocks, Recv, Round, Rounds, Send
from hpccoll.shapes import ceil_log, even, knomial_subtree


@algorithm("scatter", rounds="1*(p>1)", messages="p-1", sent="n*(p-1)/p")
def linear(rank: int, size: int) -> Rounds:
    """Send every block straight from the root, all at once.

    References
    ----------
    Chan, Heimlich, Purkayastha, van de Geijn, Concurrency and Computation 19(13), 2007,
    doi:10.1002/cpe.1206.
    """
    return linear_windowed(rank, size, size)


@algorithm("scatter", rounds="ceil((p-1)/window)", messages="p-1", sent="n*(p-1)/p")
def linear_windowed(rank: int, size: int, window: int = 8) -> Rounds:
    """Send every block straight from the root, a window of them at a time.

    References
    ----------
    Chan, Heimlich, Purkayastha, van de Geijn, Concurrency and Computation 19(13), 2007,
    doi:10.1002/cpe.1206.
    """
    if rank:
        yield Round(Recv(0, rank))
        return
    for first in range(1, size, window):
        yield Round(*(Send(peer, peer) for peer in range(first, min(first + window, size))))


def descend(rank: int, size: int, radix: int, blocks: Callable[[int], Blocks]) -> Rounds:
    """Hand ``blocks(child)`` down a k-nomial tree, the farthest children first."""
    for level in reversed(range(ceil_log(size, radix))):
        distance = radix**level
        if rank % distance:
            continue
        if digit := rank // distance % radix:
            yield Round(Recv(rank - digit * distance, blocks(rank)))
            continue
        children = range(rank + distance, min(rank + radix * distance, size), distance)
        if children:
            yield Round(*(Send(child, blocks(child)) for child in children))


@algorithm("scatter", rounds="L", sent="n*(p-1)/p")
def binomial(rank: int, size: int) -> Rounds:
    """Hand the blocks of subtrees of ranks down a binomial tree.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    return descend(rank, size, 2, lambda child: knomial_subtree(child, size, 2))


@algorithm(
    "scatter",
    minimum={"radix": 2},
    rounds="Lk",
    messages="(k-1)*(Lk-1) + ceil(p/k**(Lk-1)) - 1 if p>1 else 0",
    sent="n*(p-1)/p",
)
def knomial(rank: int, size: int, radix: int = 4) -> Rounds:
    """Hand the blocks of subtrees of ranks down a k-nomial tree, to radix - 1 children at once.

    References
    ----------
    Wilkins et al., IEEE Cluster 2023, doi:10.1109/CLUSTER52292.2023.00013.
    """
    return descend(rank, size, radix, lambda child: knomial_subtree(child, size, radix))


@algorithm(
    "scatter",
    requires=even,
    rounds="L",
    messages="L - (P<p and 3*p<4*P)",
    sent="n*(p-1)/p",
)
def bine(rank: int, size: int) -> Rounds:
    """Hand the blocks of subtrees down a tree whose edges are shorter than those of a binomial one.

    References
    ----------
    De Sensi, Pasqualoni, Piarulli, Bonato, Ba, Turisini, Domke, Hoefler, SC 2025,
    doi:10.1145/3712285.3759835.
    """
    tree = bine_tree(size)
    if rank:
        yield Round(Recv(tree.parent[rank], tree.below[rank]))
    for child in tree.children[rank]:
        yield Round(Send(child, tree.below[child]))
