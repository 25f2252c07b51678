"""Bine trees: binomial trees over short distances, which stand on negabinary numbers.

At step s a holder's partner is 1, -1, 3, -5, 11, … ranks away, as s is 0, 1, 2, …; from the last
step down to step 0 every holder hands its partner what the partner's subtree needs. Where the
number of ranks isn't a power of two, who was reached before is left out, so the tree is found for
all ranks at once, and memoised.

References
----------
De Sensi, Pasqualoni, Piarulli, Bonato, Ba, Turisini, Domke, Hoefler, SC 2025,
doi:10.1145/3712285.3759835.
"""

from dataclasses import dataclass
from functools import cache

from hpccoll.schedule import Ranges, ranges
from hpccoll.shapes import ceil_log


@dataclass(frozen=True, slots=True)
class Tree:
    """A bine tree over an even number of ranks, with root 0.

    Attributes
    ----------
    parent
        By rank; the root's is itself.
    children
        By rank, in the order in which they are reached.
    below
        By rank, the ranks of the subtree that it leads.
    """

    parent: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]
    below: tuple[Ranges, ...]


@cache
def bine_tree(size: int) -> Tree:
    """Return the tree over `size` ranks."""
    parent = {0: 0}
    for step in reversed(range(ceil_log(size))):
        for holder in tuple(parent):
            parent.setdefault(_partner(holder, step, size), holder)
    children: list[list[int]] = [[] for _ in range(size)]
    subtrees = [{rank} for rank in range(size)]
    for rank, above in list(parent.items())[1:]:
        children[above].append(rank)
    for rank, above in list(parent.items())[:0:-1]:  # a subtree is complete before its parent's
        subtrees[above] |= subtrees[rank]
    return Tree(
        tuple(parent[rank] for rank in range(size)),
        tuple(map(tuple, children)),
        tuple(ranges(tuple(sorted(subtree))) for subtree in subtrees),
    )


def _partner(rank: int, step: int, size: int) -> int:
    distance: int = (1 - (-2) ** (step + 1)) // 3
    return (rank - distance if rank % 2 else rank + distance) % size
