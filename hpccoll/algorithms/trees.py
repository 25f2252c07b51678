"""Trees of ranks with root 0, and blocks that travel down or up one of them in a pipeline.

A block crosses the edge to a rank `stride` clocks after the block before it. Both ends of an edge
know its first clock, so several trees, or both directions, can be merged.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from hpccoll.schedule import (
    LEFT,
    RIGHT,
    Blocks,
    Combine,
    Message,
    Ranges,
    Recv,
    Round,
    Rounds,
    Send,
    merge,
    ranges,
)
from hpccoll.shapes import ceil_log, negabinary_partner, power_of_two_below


@dataclass(frozen=True, slots=True)
class Edge:
    """The edge to a parent or child, and the clock at which its first block travels down."""

    peer: int
    first: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rank stands in a tree.

    Attributes
    ----------
    last
        The first clock of the edge that is the last to be used; it is the same for all ranks.
    stride
        Clocks between two blocks.
    """

    rank: int
    parent: Edge | None
    children: tuple[Edge, ...]
    last: int
    stride: int = 1


def down(place: Place, blocks: Sequence[int], at: int = 0) -> Rounds:
    """Pass blocks from the root to everybody, beginning at the clock `at`."""

    def pipeline(edge: Edge, action: Callable[[int, int], Message]) -> Rounds:
        for index, block in enumerate(blocks):
            yield Round(action(edge.peer, block), at=at + edge.first + place.stride * index)

    receives = [pipeline(place.parent, Recv)] if place.parent else []
    return merge(*receives, *(pipeline(edge, Send) for edge in place.children))


def up(place: Place, blocks: Sequence[int]) -> Rounds:
    """Reduce blocks from everybody to the root; operands keep the order where the tree does."""

    def pipeline(edge: Edge, action: Callable[[int, int], Message]) -> Rounds:
        for index, block in enumerate(blocks):
            at = place.last - edge.first + place.stride * index
            yield Round(action(edge.peer, block), at=at)

    def combine(peer: int, block: int) -> Message:
        return Combine(peer, block, LEFT if peer < place.rank else RIGHT)

    sends = [pipeline(place.parent, Send)] if place.parent else []
    return merge(*sends, *(pipeline(edge, combine) for edge in place.children))


def up_and_down(place: Place, blocks: Sequence[int]) -> Rounds:
    """Reduce blocks to the root, and pass each to everybody as soon as it is complete."""
    return merge(up(place, blocks), down(place, blocks, at=place.last + 1))


# Trees


def parts(nodes: range, number: int) -> list[range]:
    """Cut a range into at most `number` parts that differ by at most one in length.

    >>> parts(range(1, 6), 2)
    [range(1, 3), range(3, 6)]
    """
    borders = [nodes.start + len(nodes) * i // number for i in range(number + 1)]
    return [range(a, b) for a, b in pairwise(borders) if a < b]


def chains(rank: int, size: int, number: int) -> Place:
    """Return a rank's place in chains of neighbours that hang from the root side by side."""
    number = min(number, size - 1) or 1
    lines = parts(range(1, size), number)
    last = max(map(len, lines), default=0) - 1
    if rank == 0:
        return Place(rank, None, tuple(Edge(line[0], 0) for line in lines), last)
    (line,) = (line for line in lines if rank in line)
    depth = rank - line[0]
    parent = Edge(rank - 1 if depth else 0, depth)
    children = (Edge(rank + 1, depth + 1),) if rank != line[-1] else ()
    return Place(rank, parent, children, last)


def kary(rank: int, nodes: range, radix: int, parent: Edge | None = None) -> Place:
    """Return a rank's place in a tree whose subtrees are ranges of ranks, each led by its first.

    Below the first of `nodes` stand the first ranks of `radix` equal parts of the others.

    Parameters
    ----------
    parent
        The edge above the first of `nodes`.
    """
    height = ceil_log(len(nodes) * (radix - 1) + 1, radix) - 1
    last = height - 1 + (parent.first + 1 if parent else 0)
    while True:
        depth, subtrees = parent.first + 1 if parent else 0, parts(nodes[1:], radix)
        if rank == nodes[0]:
            children = tuple(Edge(part[0], depth) for part in subtrees)
            return Place(rank, parent, children, last)
        parent = Edge(nodes[0], depth)
        (nodes,) = (part for part in subtrees if rank in part)


def in_order(rank: int, size: int) -> Place:
    """Return a rank's place in a binary tree in which it stands between its two subtrees.

    The root has one child, which leads all other ranks.
    """
    path = [rank]
    while path[-1]:
        path.append(above(path[-1], size - 1))
    depth = len(path) - 1
    parent = Edge(path[1], depth - 1) if rank else None
    children = tuple(Edge(child, depth) for child in below(rank, size - 1))
    return Place(rank, parent, children, ceil_log(size) - 1)


@dataclass(frozen=True, slots=True)
class BineTree:
    """A bine tree: holders are …, 11, 5, 3, 1, 1 ranks apart when they double their number.

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
def bine_tree(size: int) -> BineTree:
    """Return the bine tree over an even number of ranks.

    Memoised, since where their number isn't a power of two, who was reached before decides.
    """
    parent = {0: 0}
    for step in reversed(range(ceil_log(size))):
        for holder in tuple(parent):
            parent.setdefault(negabinary_partner(holder, step, size), holder)
    children: list[list[int]] = [[] for _ in range(size)]
    subtrees = [{rank} for rank in range(size)]
    reached = list(parent)
    for rank in reached[1:]:
        children[parent[rank]].append(rank)
    for rank in reached[:0:-1]:  # a subtree is complete before it becomes a part of its parent's
        subtrees[parent[rank]] |= subtrees[rank]
    return BineTree(
        tuple(parent[rank] for rank in range(size)),
        tuple(map(tuple, children)),
        tuple(ranges(tuple(sorted(subtree))) for subtree in subtrees),
    )


def bine(rank: int, size: int, blocks: Callable[[int], Blocks]) -> Rounds:
    """Hand ``blocks(child)`` down a bine tree."""
    tree = bine_tree(size)
    if rank:
        yield Round(Recv(tree.parent[rank], blocks(rank)))
    for child in tree.children[rank]:
        yield Round(Send(child, blocks(child)))


# The in-order tree over nodes 1 to count, led by 0: the lowest set bit of a node is its height.


def above(node: int, count: int) -> int:
    """Return the parent of a node, 0 for the top."""
    low = node & -node
    parent = (node ^ low) | 2 * low
    return parent if parent <= count else node ^ low


def below(node: int, count: int) -> tuple[int, ...]:
    """Return the children of a node, at most two, the left one first."""
    low = node & -node if node else count + 1
    left = (node - low // 2,) if node and low > 1 else ()
    right = min(low - 1, count - node)
    return (*left, node + power_of_two_below(right)) if right else left
