"""Two levels: inside every node, and across the nodes' leaders, which are their first ranks.

Of a node's ranks only the leader sends to other nodes, so that a byte crosses the network once for
a node, however many ranks it has. The schedules inside and across are parameters.
"""

from collections.abc import Iterable
from itertools import chain

from hpccoll.algorithms import allgather, allreduce, bcast, gather, reduce, reduce_scatter, scatter
from hpccoll.choice import Choice
from hpccoll.combinators import Names, among, refined
from hpccoll.placement import Placement
from hpccoll.registry import algorithm, choice_of
from hpccoll.schedule import Rounds

ALLGATHER = choice_of(allgather.circulant)
ALLREDUCE = choice_of(allreduce.circulant)
BCAST = choice_of(bcast.binomial)
GATHER = choice_of(gather.binomial)
REDUCE = choice_of(reduce.binomial)
REDUCE_SCATTER = choice_of(reduce_scatter.circulant)
SCATTER = choice_of(scatter.binomial)


def whole(nodes: Placement, across: Choice, **inside: Choice) -> int:
    """Return the names that a vector consists of if every part handles all of it."""
    grids = (part.grid(size) for part in inside.values() for size in nodes.sizes)
    return refined(across.grid(nodes.count), *grids)


def per_rank(nodes: Placement, across: Choice, inside: Choice) -> int:
    """Return the names that a rank's block consists of if both parts have one for each rank."""
    segments = (inside.grid(size) // size for size in nodes.sizes)
    return refined(across.grid(nodes.count) // nodes.count, *segments)


@algorithm(
    "allreduce",
    name="two-level",
    commutative=True,
    blocks=1,
    pieces=whole,
    rounds="2*Lq + 2*LN",
    messages="Lq + 2*LN",
    sent="n*Lq + 2*n*(N-1)/N",
    reduced="n*Lq + n*(N-1)/N",
)
def two_level_allreduce(
    rank: int,
    size: int,
    nodes: Placement,
    inside: Choice = REDUCE,
    across: Choice = ALLREDUCE,
    back: Choice = BCAST,
) -> Rounds:
    """Reduce inside every node to its leader, allreduce across leaders, broadcast inside.

    References
    ----------
    Luo, Wu, Bosilca, Pei, Cao, Patinyasakdikul, Zhong, Dongarra, CLUSTER 2020,
    doi:10.1109/CLUSTER49012.2020.00013.
    """
    vector = [range(whole(nodes, across, inside=inside, back=back))]
    yield from among(nodes.local(rank), rank, inside, vector)
    yield from among(nodes.lane(0), rank, across, vector)
    yield from among(nodes.local(rank), rank, back, vector)


@algorithm("bcast", name="two-level", blocks=1, pieces=whole, rounds="LN + Lq", sent="n*(LN + Lq)")
def two_level_bcast(
    rank: int, size: int, nodes: Placement, across: Choice = BCAST, inside: Choice = BCAST
) -> Rounds:
    """Broadcast across leaders, then inside every node.

    References
    ----------
    Luo, Wu, Bosilca, Pei, Cao, Patinyasakdikul, Zhong, Dongarra, CLUSTER 2020,
    doi:10.1109/CLUSTER49012.2020.00013.
    """
    vector = [range(whole(nodes, across, inside=inside))]
    yield from among(nodes.lane(0), rank, across, vector)
    yield from among(nodes.local(rank), rank, inside, vector)


@algorithm(
    "reduce",
    name="two-level",
    commutative=True,
    blocks=1,
    pieces=whole,
    rounds="Lq + LN",
    messages="1*(p>1)",
    sent="n*(p>1)",
    reduced="n*(Lq + LN)",
)
def two_level_reduce(
    rank: int, size: int, nodes: Placement, inside: Choice = REDUCE, across: Choice = REDUCE
) -> Rounds:
    """Reduce inside every node to its leader, then across leaders.

    References
    ----------
    Luo, Wu, Bosilca, Pei, Cao, Patinyasakdikul, Zhong, Dongarra, CLUSTER 2020,
    doi:10.1109/CLUSTER49012.2020.00013.
    """
    vector = [range(whole(nodes, across, inside=inside))]
    yield from among(nodes.local(rank), rank, inside, vector)
    yield from among(nodes.lane(0), rank, across, vector)


def own(rank: int, pieces: int) -> range:
    """Return the names of a rank's block."""
    return range(rank * pieces, (rank + 1) * pieces)


def together(names: Iterable[Names]) -> Names:
    """Return several blocks' names as one."""
    return tuple(chain.from_iterable(names))


def _of_nodes(nodes: Placement, pieces: int) -> list[Names]:
    """Return the names of every node's blocks."""
    return [together(own(r, pieces) for r in ranks) for ranks in nodes.members]


@algorithm(
    "allgather",
    name="two-level",
    pieces=lambda nodes, inside, across, back: per_rank(nodes, across, inside),
    rounds="2*Lq + LN",
    messages="Lq + LN",
    sent="n*Lq + n*(N-1)/N",
)
def two_level_allgather(
    rank: int,
    size: int,
    nodes: Placement,
    inside: Choice = GATHER,
    across: Choice = ALLGATHER,
    back: Choice = BCAST,
) -> Rounds:
    """Gather inside every node at its leader, allgather across leaders, broadcast inside.

    References
    ----------
    Luo, Wu, Bosilca, Pei, Cao, Patinyasakdikul, Zhong, Dongarra, CLUSTER 2020,
    doi:10.1109/CLUSTER49012.2020.00013.
    """
    pieces, local = per_rank(nodes, across, inside), nodes.local(rank)
    yield from among(local, rank, inside, [own(r, pieces) for r in local])
    yield from among(nodes.lane(0), rank, across, _of_nodes(nodes, pieces))
    yield from among(local, rank, back, [range(size * pieces)])


@algorithm(
    "reduce-scatter",
    name="two-level",
    commutative=True,
    pieces=lambda nodes, inside, across, back: per_rank(nodes, across, back),
    rounds="2*Lq + LN",
    messages="Lq + LN",
    sent="n*(p-1)/p if q==1 else n + n/p*(max(q - 2**(Lq-1), 2**(Lq-2)) - 1)",
    reduced="n*Lq + n*(N-1)/N",
)
def two_level_reduce_scatter(
    rank: int,
    size: int,
    nodes: Placement,
    inside: Choice = REDUCE,
    across: Choice = REDUCE_SCATTER,
    back: Choice = SCATTER,
) -> Rounds:
    """Reduce inside every node to its leader, reduce-scatter across leaders, scatter inside.

    References
    ----------
    Kielmann, Hofman, Bal, Plaat, Bhoedjang, PPoPP 1999, doi:10.1145/301104.301116.
    """
    pieces, local = per_rank(nodes, across, back), nodes.local(rank)
    yield from among(local, rank, inside, [range(size * pieces)])
    yield from among(nodes.lane(0), rank, across, _of_nodes(nodes, pieces))
    yield from among(local, rank, back, [own(r, pieces) for r in local])
