"""Up a k-nomial tree and down again."""

from collections.abc import Callable, Iterator

from hpccoll.registry import algorithm
from hpccoll.schedule import (
    RIGHT,
    Blocks,
    Combine,
    Message,
    Recv,
    Round,
    Rounds,
    Send,
    embed,
    span,
)

CHILDREN = "((k-1)*(Lk-1) + ceil(p/k**(Lk-1)) - 1)"
"""Children of the root, who has most."""
LARGEST = "max(min(k**(Lk-1), p - k**(Lk-1)), k**(Lk-2))"
"""Ranks of the largest subtree below the root."""


def _levels(rank: int, size: int, radix: int) -> Iterator[tuple[int, int | None, range]]:
    """Yield reach, parent and children of `rank` level by level upwards.

    Reach is the number of ranks, neighbours all, below and including one on the level. Only the
    last level has a parent, and no children.
    """
    reach = 1
    while reach < size:
        if digit := rank // reach % radix:
            yield reach, rank - digit * reach, range(0)
            return
        yield reach, None, range(rank, min(rank + radix * reach, size), reach)[1:]
        reach *= radix


def up(
    rank: int,
    size: int,
    radix: int,
    blocks: Callable[[range], Blocks],
    receive: Callable[[int, Blocks], Message] = Recv,
) -> Rounds:
    """Hand blocks up a k-nomial tree to rank 0, from the nearest children first.

    Parameters
    ----------
    blocks
        The ranks of a subtree → what its first rank hands up.
    """
    for reach, parent, children in _levels(rank, size, radix):
        if parent is not None:
            yield Round(Send(parent, blocks(_below(rank, reach, size))))
        elif children:
            yield Round(*(receive(c, blocks(_below(c, reach, size))) for c in children))


def down(rank: int, size: int, radix: int, blocks: Callable[[range], Blocks]) -> Rounds:
    """Hand blocks down a k-nomial tree from rank 0, to the farthest children first.

    Parameters
    ----------
    blocks
        The ranks of a subtree → what its first rank is handed.
    """
    for reach, parent, children in reversed(list(_levels(rank, size, radix))):
        if parent is not None:
            yield Round(Recv(parent, blocks(_below(rank, reach, size))))
        elif children:
            yield Round(*(Send(c, blocks(_below(c, reach, size))) for c in children))


def _below(rank: int, reach: int, size: int) -> range:
    return range(rank, min(rank + reach, size))


def gather(rank: int, size: int, radix: int) -> Rounds:
    """Gather the own blocks of subtrees up the tree."""
    return up(rank, size, radix, lambda subtree: subtree)


def scatter(rank: int, size: int, radix: int) -> Rounds:
    """Hand the own blocks of subtrees down the tree."""
    return down(rank, size, radix, lambda subtree: subtree)


def ascend(rank: int, size: int, radix: int) -> Rounds:
    """Reduce one block up the tree to rank 0, in the order of the ranks."""
    return up(rank, size, radix, lambda _: 0, lambda peer, vector: Combine(peer, vector, RIGHT))


@algorithm(
    "allreduce",
    aliases=("knomial", "reduce-bcast"),
    minimum={"radix": 2},
    name="tree",
    blocks=1,
    rounds="2*Lk",
    messages=CHILDREN,
    sent=f"n*{CHILDREN}",
    reduced=f"n*{CHILDREN}",
)
def allreduce(rank: int, size: int, radix: int = 2) -> Rounds:
    """Reduce up a k-nomial tree, then broadcast down it.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    yield from ascend(rank, size, radix)
    yield from down(rank, size, radix, lambda _: 0)


@algorithm(
    "reduce-scatter",
    minimum={"radix": 2},
    name="tree",
    rounds="2*Lk",
    messages=CHILDREN,
    sent=f"n + n*({LARGEST} - 1)/p if p>1 else 0",
    reduced=f"n*{CHILDREN}",
)
def reduce_scatter(rank: int, size: int, radix: int = 2) -> Rounds:
    """Reduce up a k-nomial tree, then scatter down it.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    yield from embed(ascend(rank, size, radix), windows=lambda _: range(size))
    yield from scatter(rank, size, radix)


@algorithm(
    "allgather",
    aliases=("gather-bcast",),
    minimum={"radix": 2},
    name="tree",
    rounds="2*Lk",
    messages=CHILDREN,
    sent=f"n*({CHILDREN} - (p-1)/p)",
)
def allgather(rank: int, size: int, radix: int = 2) -> Rounds:
    """Gather up a k-nomial tree, then give every rank what it lacks down the tree.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    yield from gather(rank, size, radix)
    yield from down(rank, size, radix, lambda held: span(held.stop, size - len(held), size))
