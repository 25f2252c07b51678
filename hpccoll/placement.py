"""Placement: which node each rank is on. It is part of the machine and not of an algorithm."""

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache

from hpccoll.errors import UsageError

LISTED = 8
"""Nodes that are listed one by one, at most."""
_RUNS = 4
"""Runs of neighbouring ranks that are listed of one node, at most."""


@dataclass(frozen=True, slots=True, init=False)
class Placement:
    """The node of every rank; nodes are numbered in the order of their first ranks.

    Attributes
    ----------
    nodes
        Per rank: the number of its node.
    members
        Per node: its ranks, ascending.
    """

    nodes: tuple[int, ...]
    members: tuple[tuple[int, ...], ...] = field(repr=False, compare=False)

    def __init__(self, labels: Iterable[Hashable]) -> None:
        """Number the nodes that the ranks' labels tell apart."""
        members: dict[Hashable, list[int]] = {}
        for rank, label in enumerate(labels):
            members.setdefault(label, []).append(rank)
        node = {rank: i for i, ranks in enumerate(members.values()) for rank in ranks}
        object.__setattr__(self, "nodes", tuple(node[rank] for rank in range(len(node))))
        object.__setattr__(self, "members", tuple(map(tuple, members.values())))

    @property
    def size(self) -> int:
        """Return the number of ranks."""
        return len(self.nodes)

    @property
    def count(self) -> int:
        """Return the number of nodes."""
        return len(self.members)

    @property
    def sizes(self) -> frozenset[int]:
        """Return the numbers of ranks that nodes have."""
        return frozenset(map(len, self.members))

    @property
    def lanes(self) -> int:
        """Return the number of ranks that every node has."""
        return min(self.sizes)

    @property
    def flat(self) -> bool:
        """Tell whether there is one level only: one node, or one rank on every node."""
        return self.count == 1 or self.sizes == {1}

    def local(self, rank: int) -> tuple[int, ...]:
        """Return the ranks of the node of `rank`, ascending."""
        return self.members[self.nodes[rank]]

    def lane(self, index: int) -> tuple[int, ...]:
        """Return the rank of every node that has so many lower ones beside it."""
        return tuple(ranks[index] for ranks in self.members)

    def rotated(self, root: int) -> "Placement":
        """Return the same nodes for ranks that are counted from `root` on."""
        return Placement((*self.nodes[root:], *self.nodes[:root])) if root else self

    @property
    def spelling(self) -> str:
        """Return a text that `place` reads as this placement, a short one if there is one."""
        texts = (f"{self.count}x{self.size // self.count}", f"{self.count}", f"cyclic:{self.count}")
        for text in texts[len(self.sizes) > 1 :]:
            if place(text, self.size) == self:
                return text
        return ",".join(map(str, self.nodes))

    def __str__(self) -> str:
        """Return the number of nodes and, of each, the ranks: ``2 nodes: 0-2 | 3,4``."""
        shown = [_runs(ranks) for ranks in self.members[:LISTED]]
        more = ["…"] if self.count > LISTED else []
        return f"{self.count} node{'s' * (self.count > 1)}: " + " | ".join([*shown, *more])


def _runs(ranks: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    parts = [f"{r[0]}-{r[-1]}" if len(r) > 1 else f"{r[0]}" for r in runs[:_RUNS]]
    return ",".join(parts + ["…"] * (len(runs) > _RUNS))


@cache
def even(size: int, count: int) -> Placement:
    """Return `count` nodes of contiguous ranks, as even as possible.

    >>> even(5, 2).nodes
    (0, 0, 1, 1, 1)
    """
    return Placement(((rank + 1) * count - 1) // size for rank in range(size))


def check(text: str) -> None:
    """Raise `UsageError` if no placement is spelled so (see `place`)."""
    if not re.fullmatch(r"(cyclic:)?\d+|\d+x\d+|\d+(,\d+)+", text):
        raise UsageError(
            f"--nodes takes a number of nodes (2), nodes and ranks on each (2x4), cyclic:2 for "
            f"ranks in turn, or every rank's node (0,0,1,1,1), got {text!r}"
        )


def place(text: str, size: int) -> Placement:
    """Return the placement of `size` ranks that ``--nodes`` spells.

    ``2`` is two nodes of contiguous ranks, as even as possible, ``2x4`` two nodes of four ranks,
    ``cyclic:2`` places the ranks in turn, and ``0,0,1,1,1`` names the node of every rank.

    Raises
    ------
    UsageError
        It can't be read, or isn't a placement of so many ranks.
    """
    check(text)
    ranks = f"{size} rank{'s' * (size > 1)}"
    if "," in text:
        labels = text.split(",")
        if len(labels) != size:
            raise UsageError(f"--nodes {text} places {len(labels)} ranks, but there are {ranks}")
        return Placement(map(int, labels))
    count, _, each = text.removeprefix("cyclic:").partition("x")
    if each and int(count) * int(each) != size:
        raise UsageError(
            f"--nodes {text} places {int(count) * int(each)} ranks, but there are {ranks}"
        )
    if not 1 <= int(count) <= size:
        raise UsageError(f"--nodes {text}: {ranks} can be on 1 to {size} nodes")
    if text.startswith("cyclic"):
        return Placement(rank % int(count) for rank in range(size))
    return even(size, int(count))
