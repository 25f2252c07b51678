"""Scatter from root 0 (the registry rotates to other roots)."""

from hpccoll.algorithms import knomial as knomial_tree
from hpccoll.algorithms import trees
from hpccoll.registry import algorithm
from hpccoll.schedule import Recv, Round, Rounds, Send
from hpccoll.shapes import even, windows


@algorithm(
    "scatter",
    minimum={"window": 0},
    rounds="ceil((p-1)/window) if window else 1*(p>1)",
    messages="p-1",
    sent="n*(p-1)/p",
)
def linear(rank: int, size: int, window: int = 0) -> Rounds:
    """Send every block straight from the root, `window` of them per round (0: all at once).

    References
    ----------
    Chan, Heimlich, Purkayastha, van de Geijn, Concurrency and Computation 19(13), 2007,
    doi:10.1002/cpe.1206.
    """
    if rank:
        yield Round(Recv(0, rank))
        return
    for peers in windows(size, window):
        yield Round(*(Send(peer, peer) for peer in peers))


@algorithm("scatter", rounds="L", sent="n*(p-1)/p")
def binomial(rank: int, size: int) -> Rounds:
    """Hand the blocks of subtrees of ranks down a binomial tree.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    return knomial_tree.scatter(rank, size, 2)


@algorithm(
    "scatter",
    minimum={"radix": 2},
    rounds="Lk",
    messages=knomial_tree.CHILDREN,
    sent="n*(p-1)/p",
)
def knomial(rank: int, size: int, radix: int = 4) -> Rounds:
    """Hand the blocks of subtrees of ranks down a k-nomial tree, to radix - 1 children at once.

    References
    ----------
    Wilkins et al., IEEE Cluster 2023, doi:10.1109/CLUSTER52292.2023.00013.
    """
    return knomial_tree.scatter(rank, size, radix)


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
    return trees.bine(rank, size, trees.bine_tree(size).below.__getitem__)
