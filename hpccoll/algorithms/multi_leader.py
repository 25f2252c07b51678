"""Two levels with many leaders: the i-th ranks of all nodes are a lane, and all lanes run at once.

Each lane carries its share of the vector across the nodes, so that all ranks of a node, and all its
rails, send at once. There are as many lanes as the smallest node has ranks; what other ranks give
and get travels inside their node.
"""

from hpccoll.algorithms.two_level import (
    ALLGATHER,
    ALLREDUCE,
    BCAST,
    GATHER,
    REDUCE,
    REDUCE_SCATTER,
    SCATTER,
    own,
    per_rank,
    together,
)
from hpccoll.choice import Choice
from hpccoll.combinators import Names, Schedule, among, refined, reverse, sparing
from hpccoll.placement import Placement
from hpccoll.registry import algorithm
from hpccoll.schedule import Recv, Round, Rounds, Send


def _vector(nodes: Placement, across: Choice, **inside: Choice) -> int:
    """Return the names that a vector consists of: as many for every lane."""
    segments = (part.grid(size) // size for part in inside.values() for size in nodes.sizes)
    return nodes.lanes * refined(across.grid(nodes.count), *segments)


def _cut(nodes: Placement, names: int) -> list[Names]:
    """Return the names of every lane."""
    each = names // nodes.lanes
    return [range(i * each, (i + 1) * each) for i in range(nodes.lanes)]


def _within(nodes: Placement, rank: int, part: Schedule, lanes: list[Names]) -> Rounds:
    """Run a schedule inside the rank's node, where ranks without a lane own nothing."""
    local = nodes.local(rank)
    empty: list[Names] = [()] * (len(local) - nodes.lanes)
    return among(local, rank, part, lanes + empty)


def _across(nodes: Placement, rank: int, part: Schedule, shares: list[list[Names]]) -> Rounds:
    """Run a schedule across the nodes in the rank's lane; `shares` are all lanes' shares."""
    lane = nodes.local(rank).index(rank)
    return among(nodes.lane(lane), rank, part, shares[lane]) if lane < nodes.lanes else iter(())


@algorithm(
    "allreduce",
    name="multi-leader",
    aliases=("split-rail",),
    commutative=True,
    blocks=1,
    pieces=_vector,
    rounds="2*Lq + 2*LN",
    sent="2*n*(p-1)/p",
    reduced="n*(p-1)/p",
)
def multi_leader_allreduce(
    rank: int,
    size: int,
    nodes: Placement,
    inside: Choice = REDUCE_SCATTER,
    across: Choice = ALLREDUCE,
    back: Choice = ALLGATHER,
) -> Rounds:
    """Reduce-scatter inside every node, allreduce across nodes in lanes, allgather inside.

    References
    ----------
    Bayatpour, Chakraborty, Subramoni, Lu, Panda, SC 2017, doi:10.1145/3126908.3126954.
    """
    lanes = _cut(nodes, _vector(nodes, across, inside=inside, back=back))
    yield from _within(nodes, rank, inside, lanes)
    yield from _across(nodes, rank, across, [[names] for names in lanes])
    yield from _within(nodes, rank, back, lanes)


@algorithm(
    "bcast",
    name="multi-leader",
    aliases=("split-rail",),
    blocks=1,
    pieces=_vector,
    rounds="2*Lq + LN",
    sent="2*n*(q-1)/q + n/q*LN",
)
def multi_leader_bcast(
    rank: int,
    size: int,
    nodes: Placement,
    inside: Choice = SCATTER,
    across: Choice = BCAST,
    back: Choice = ALLGATHER,
) -> Rounds:
    """Scatter inside the root's node, broadcast across nodes in lanes, allgather inside.

    References
    ----------
    Träff, Hunold, arXiv:1910.13373.
    """
    lanes = _cut(nodes, _vector(nodes, across, inside=inside, back=back))
    if nodes.nodes[rank] == 0:
        yield from _within(nodes, rank, inside, lanes)
    yield from _across(nodes, rank, across, [[names] for names in lanes])
    yield from sparing(0, rank, _within(nodes, rank, back, lanes))


@algorithm(
    "reduce",
    name="multi-leader",
    aliases=("split-rail",),
    commutative=True,
    blocks=1,
    pieces=_vector,
    rounds="2*Lq + LN",
    messages="Lq + (p>1)",
    sent="n*(N>1) if q==1 else n*(q-1)/q + n/q*max(q - 2**(Lq-1), 2**(Lq-2), 1)",
    reduced="n*(q-1)/q + n/q*LN",
)
def multi_leader_reduce(
    rank: int,
    size: int,
    nodes: Placement,
    inside: Choice = REDUCE_SCATTER,
    across: Choice = REDUCE,
    back: Choice = GATHER,
) -> Rounds:
    """Reduce-scatter inside every node, reduce across nodes in lanes, gather in the root's node.

    References
    ----------
    Träff, Hunold, arXiv:1910.13373.
    """
    lanes = _cut(nodes, _vector(nodes, across, inside=inside, back=back))
    yield from _within(nodes, rank, inside, lanes)
    yield from _across(nodes, rank, across, [[names] for names in lanes])
    if nodes.nodes[rank] == 0:
        yield from _within(nodes, rank, back, lanes)


# Every rank's block travels on one lane: its own or, in larger nodes, that of a rank beside it.


def _blocks(nodes: Placement, pieces: int) -> list[list[Names]]:
    """Return, per lane and node, the names of the blocks that travel there."""
    return [
        [together(own(rank, pieces) for rank in ranks[i :: nodes.lanes]) for ranks in nodes.members]
        for i in range(nodes.lanes)
    ]


def _handed_in(nodes: Placement, rank: int, pieces: int) -> Rounds:
    """Let ranks without a lane give their block to the one that has it."""
    local, lanes = nodes.local(rank), nodes.lanes
    place = local.index(rank)
    if place >= lanes:
        yield Round(Send(local[place % lanes], own(rank, pieces)))
    elif guests := local[place + lanes :: lanes]:
        yield Round(*(Recv(guest, own(guest, pieces)) for guest in guests))


@algorithm(
    "allgather",
    name="multi-leader",
    aliases=("split-rail",),
    pieces=per_rank,
    rounds="LN + Lq",
    sent="n*(p-1)/p",
)
def multi_leader_allgather(
    rank: int, size: int, nodes: Placement, across: Choice = ALLGATHER, inside: Choice = ALLGATHER
) -> Rounds:
    """Allgather across nodes in lanes, then inside every node.

    References
    ----------
    Träff, Hunold, arXiv:1910.13373.
    """
    pieces = per_rank(nodes, across, inside)
    blocks = _blocks(nodes, pieces)
    yield from _handed_in(nodes, rank, pieces)
    yield from _across(nodes, rank, across, blocks)
    yield from _within(nodes, rank, inside, [together(lane) for lane in blocks])


@algorithm(
    "reduce-scatter",
    name="multi-leader",
    aliases=("split-rail",),
    commutative=True,
    pieces=per_rank,
    rounds="Lq + LN",
    sent="n*(p-1)/p",
    reduced="n*(p-1)/p",
)
def multi_leader_reduce_scatter(
    rank: int,
    size: int,
    nodes: Placement,
    inside: Choice = REDUCE_SCATTER,
    across: Choice = REDUCE_SCATTER,
) -> Rounds:
    """Reduce-scatter inside every node, then across nodes in lanes.

    References
    ----------
    Träff, Hunold, arXiv:1910.13373.
    """
    pieces = per_rank(nodes, across, inside)
    blocks = _blocks(nodes, pieces)
    yield from _within(nodes, rank, inside, [together(lane) for lane in blocks])
    yield from _across(nodes, rank, across, blocks)
    yield from reverse(_handed_in(nodes, rank, pieces), Recv)
