"""Up a k-nomial tree and down again."""

from collections.abc import Iterator

from hpccoll.combinators import reverse
from hpccoll.registry import algorithm
from hpccoll.schedule import RIGHT, Combine, Ranges, Recv, Round, Rounds, Send, embed, span

CHILDREN = "((k-1)*(Lk-1) + ceil(p/k**(Lk-1)) - 1)"
"""Children of the root, who has most."""


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


def _reduce(rank: int, size: int, radix: int) -> Rounds:
    for _, parent, children in _levels(rank, size, radix):
        if parent is not None:
            yield Round(Send(parent, 0))
        elif children:
            yield Round(*(Combine(child, 0, RIGHT) for child in children))


def _gather(rank: int, size: int, radix: int) -> Rounds:
    for reach, parent, children in _levels(rank, size, radix):
        if parent is not None:
            yield Round(Send(parent, range(rank, min(rank + reach, size))))
        elif children:
            yield Round(*(Recv(c, range(c, min(c + reach, size))) for c in children))


def _complete(rank: int, size: int, radix: int) -> Rounds:
    """Give every child what it hasn't gathered itself."""

    def missing(child: int, reach: int) -> Ranges:
        held = min(child + reach, size) - child
        return span(child + held, size - held, size)

    for reach, parent, children in reversed(list(_levels(rank, size, radix))):
        if parent is not None:
            yield Round(Recv(parent, missing(rank, reach)))
        elif children:
            yield Round(*(Send(child, missing(child, reach)) for child in children))


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
    yield from _reduce(rank, size, radix)
    yield from reverse(_reduce(rank, size, radix), Recv)


@algorithm(
    "reduce-scatter",
    minimum={"radix": 2},
    name="tree",
    rounds="2*Lk",
    messages=CHILDREN,
    sent="n + n*(max(min(k**(Lk-1), p - k**(Lk-1)), k**(Lk-2)) - 1)/p if p>1 else 0",
    reduced=f"n*{CHILDREN}",
)
def reduce_scatter(rank: int, size: int, radix: int = 2) -> Rounds:
    """Reduce up a k-nomial tree, then scatter down it.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    yield from embed(_reduce(rank, size, radix), windows=lambda _: range(size))
    yield from reverse(_gather(rank, size, radix), Recv)


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
    yield from _gather(rank, size, radix)
    yield from _complete(rank, size, radix)
