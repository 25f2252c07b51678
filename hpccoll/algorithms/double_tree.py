"""The double binary tree: half of the vector goes through each of two trees at full speed.

References
----------
Sanders, Speck, Träff, Parallel Computing 35(12), 2009, doi:10.1016/j.parco.2009.09.001.
"""

from functools import cache

from hpccoll.algorithms.trees import Edge, Place, above, below


def places(rank: int, size: int) -> tuple[Place, Place]:
    """Return a rank's places in two binary trees; below the root it has children in only one.

    One is `trees.in_order`; the other is its mirror image or, where size is even, the same on ranks
    that are moved by one. A rank sends at most one block and receives at most one at any clock.
    """
    first, last = _arrivals(size)

    def place(tree: int) -> Place:
        clocks = first[tree]
        parent = Edge(_parent(rank, size, tree), clocks[rank]) if rank else None
        children = (Edge(child, clocks[child]) for child in _children(rank, size, tree))
        return Place(rank, parent, tuple(children), last, stride=2)

    return place(0), place(1)


def _moved(node: int, size: int, tree: int) -> int:
    """Return the rank of an in-order node in one of the trees."""
    if not (node and tree):
        return node
    return size - node if size % 2 else node % (size - 1) + 1


def _node(rank: int, size: int, tree: int) -> int:
    """Return the in-order node of a rank in one of the trees."""
    if not (rank and tree):
        return rank
    return size - rank if size % 2 else (rank - 2) % (size - 1) + 1


def _parent(rank: int, size: int, tree: int) -> int:
    return _moved(above(_node(rank, size, tree), size - 1), size, tree)


def _children(rank: int, size: int, tree: int) -> list[int]:
    return [_moved(node, size, tree) for node in below(_node(rank, size, tree), size - 1)]


def _sibling(rank: int, size: int, tree: int) -> int | None:
    children = _children(_parent(rank, size, tree), size, tree)
    return next((child for child in children if child != rank), None)


@cache
def _arrivals(size: int) -> tuple[tuple[list[int], list[int]], int]:
    """Return the clocks at which the first blocks reach every rank in each tree, and the last.

    Edges of one colour are used at even clocks, those of the other at odd ones. Memoised, since
    finding the colours takes a walk along all edges.
    """
    colours = _colours(size)

    def clocks(tree: int) -> list[int]:
        known = {0: -1}

        def arrival(rank: int) -> int:
            if rank not in known:
                clock = arrival(_parent(rank, size, tree)) + 1
                known[rank] = clock + (clock + colours[rank] + tree) % 2
            return known[rank]

        return list(map(arrival, range(size)))

    first = clocks(0), clocks(1)
    return first, max(map(max, first))


def _colours(size: int) -> dict[int, int]:
    """Return the colour, 0 or 1, of every rank's edge in the first tree; in the second it differs.

    Edges from one sender differ, too. So the colour changes on every step of a walk from a rank to
    its sibling in one tree, from there to that one's sibling in the other tree, and so on; but the
    root sends to its only child in each.
    """
    colours: dict[int, int] = {}

    def walk(rank: int | None, tree: int, colour: int) -> None:
        while rank is not None and rank not in colours:
            colours[rank] = colour
            rank, tree, colour = _sibling(rank, size, tree), 1 - tree, 1 - colour

    for start in (*_children(0, size, 0), *_children(0, size, 1), *range(1, size)):
        if start not in colours:
            walk(start, 0, 0)
            walk(_sibling(start, size, 1), 0, 1)
    return colours
