"""Broadcast from root 0 (the registry rotates to other roots)."""

from dataclasses import replace

from hpccoll.algorithms import allgather, circulant_blocks, double_tree, scatter, trees
from hpccoll.algorithms import knomial as knomial_tree
from hpccoll.combinators import Generator
from hpccoll.registry import algorithm
from hpccoll.schedule import Blocks, Ranges, Recv, Round, Rounds, Send, merge, ranges
from hpccoll.shapes import even, power_of_two, subtree


@algorithm("bcast", blocks=1, rounds="1*(p>1)", messages="p-1", sent="n*(p-1)")
def linear(rank: int, size: int) -> Rounds:
    """Send the vector from the root to every other rank at once.

    References
    ----------
    Pješivac-Grbović, Angskun, Bosilca, Fagg, Gabriel, Dongarra, Cluster Computing 10(2), 2007,
    doi:10.1007/s10586-007-0012-0.
    """
    if rank:
        yield Round(Recv(0, 0))
    elif size > 1:
        yield Round(*(Send(other, 0) for other in range(1, size)))


# Trees of whole vectors


@algorithm("bcast", blocks=1, rounds="L", sent="n*L")
def binomial(rank: int, size: int) -> Rounds:
    """Double the number of ranks that have the vector every round.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    return knomial_tree.down(rank, size, 2, lambda _: 0)


@algorithm(
    "bcast",
    blocks=1,
    minimum={"radix": 2},
    chosen=("radix",),
    time="Lk*(alpha + (k-2)*o + (k-1)*n*beta)",
    rounds="Lk",
    messages="(k-1)*(Lk-1) + ceil(p/k**(Lk-1)) - 1 if p>1 else 0",
    sent="n*((k-1)*(Lk-1) + ceil(p/k**(Lk-1)) - 1) if p>1 else 0",
)
def knomial(rank: int, size: int, radix: int = 4) -> Rounds:
    """Multiply the number of ranks that have the vector by the radix every round.

    References
    ----------
    Wilkins et al., IEEE Cluster 2023, doi:10.1109/CLUSTER52292.2023.00013.
    """
    return knomial_tree.down(rank, size, radix, lambda _: 0)


@algorithm(
    "bcast",
    blocks=1,
    requires=even,
    rounds="L",
    messages="L - (P<p and 3*p<4*P)",
    sent="n*(L - (P<p and 3*p<4*P))",
)
def bine(rank: int, size: int) -> Rounds:
    """Double the number of ranks that have the vector every round, to nearer ranks than binomial.

    References
    ----------
    De Sensi, Pasqualoni, Piarulli, Bonato, Ba, Turisini, Domke, Hoefler, SC 2025,
    doi:10.1145/3712285.3759835.
    """
    return trees.bine(rank, size, lambda child: 0)


# Pipelines of segments


@algorithm(
    "bcast",
    aliases=("pipeline",),
    blocks=1,
    clocked=True,
    chosen=("segments",),
    time="(S-1 + ceil((p-1)/fanout)) * (alpha + min(fanout, p-1)*n*beta/S)",
    rounds="(S-1 + ceil((p-1)/fanout))*(p>1)",
    messages="S*min(fanout, p-1)",
    sent="n*min(fanout, p-1)",
)
def chain(rank: int, size: int, segments: int = 3, fanout: int = 1) -> Rounds:
    """Pass segments along chains of neighbours that hang from the root side by side.

    References
    ----------
    Pješivac-Grbović, Angskun, Bosilca, Fagg, Gabriel, Dongarra, Cluster Computing 10(2), 2007,
    doi:10.1007/s10586-007-0012-0.
    """
    return trees.down(trees.chains(rank, size, fanout), range(segments))


@algorithm(
    "bcast",
    aliases=("binary",),
    blocks=1,
    clocked=True,
    minimum={"radix": 2},
    chosen=("segments",),
    time="(S-2 + log(p*(k-1)+1, k)) * (alpha + (k-2)*o + k*n*beta/S)",
    rounds="(S-2 + log(p*(k-1)+1, k))*(p>1)",
    messages="S*min(k, p-1)",
    sent="n*min(k, p-1)",
)
def kary(rank: int, size: int, segments: int = 3, radix: int = 2) -> Rounds:
    """Pass segments down a tree in which every rank has as many children as the radix says.

    References
    ----------
    Pješivac-Grbović, Angskun, Bosilca, Fagg, Gabriel, Dongarra, Cluster Computing 10(2), 2007,
    doi:10.1007/s10586-007-0012-0.
    """
    return trees.down(trees.kary(rank, range(size), radix), range(segments))


@algorithm(
    "bcast",
    blocks=2,
    chosen=("segments",),
    time="(l+S)*(alpha + n*beta/S) + n*beta/2",
    rounds="(l+S)*(p>1)",
    messages="2*S + (p==4 or p>5) if p>2 else (S+1)*(p>1)",
    sent="n*(p>1) + n/2*(p==4 or p>5)",
)
def split_binary(rank: int, size: int, segments: int = 3) -> Rounds:
    """Pass each half of the vector down one half of a binary tree, then exchange the halves.

    A rank without a partner in the other half gets what it lacks from the root.

    References
    ----------
    Pješivac-Grbović, Angskun, Bosilca, Fagg, Gabriel, Dongarra, Cluster Computing 10(2), 2007,
    doi:10.1007/s10586-007-0012-0.
    """
    half = size // 2
    sides = range(1, 1 + half), range(1 + half, size)
    halves = range(segments), range(segments, 2 * segments)
    if rank == 0:
        heads = (trees.Place(0, None, (trees.Edge(side[0], 0),), 0) for side in sides if side)
        yield from merge(*map(trees.down, heads, halves))
        if size % 2 == 0:
            yield Round(Send(half, halves[1]))
        return
    own = rank > half
    yield from trees.down(trees.kary(rank, sides[own], 2, trees.Edge(0, 0)), halves[own])
    partner = rank - half if own else rank + half
    if partner < size:
        yield Round(Send(partner, halves[own]), Recv(partner, halves[not own]))
    else:
        yield Round(Recv(0, halves[1]))


@algorithm(
    "bcast",
    blocks=2,
    clocked=True,
    chosen=("segments",),
    time="2*(S+L) * (alpha + n*beta/2/S)",
    rounds="2*S+2*L-3+(p%4==0 or p%4==3 or p==2) if p>1 else 0",
    messages="2*S*(p>1)",
    sent="n*(p>1)",
)
def two_tree(rank: int, size: int, segments: int = 3) -> Rounds:
    """Pass each half of the vector down its own binary tree, every rank a leaf of one of them.

    References
    ----------
    Sanders, Speck, Träff, Parallel Computing 35(12), 2009, doi:10.1016/j.parco.2009.09.001.
    """
    first, second = double_tree.places(rank, size)
    halves = range(segments), range(segments, 2 * segments)
    return merge(trees.down(first, halves[0]), trees.down(second, halves[1]))


@algorithm(
    "bcast",
    blocks=1,
    clocked=True,
    chosen=("segments",),
    time="(S-1+L)*(alpha + n*beta/S)",
    rounds="(S-1+L)*(p>1)",
    sent="n*(S-1+L)/S*(p>1)",
)
def circulant(rank: int, size: int, segments: int = 3) -> Rounds:
    """Pass segments along a circulant graph, in the fewest rounds possible for any p.

    References
    ----------
    Träff, arXiv:2407.18004.
    """
    return circulant_blocks.broadcast(rank, size, segments)


# A scatter, then an allgather


def _scatter_then(gather: Generator, rank: int, size: int) -> Rounds:
    """Scatter down a binomial tree, then gather; leave out what a receiver has from the scatter."""

    def missing(blocks: Blocks, receiver: int) -> Ranges:
        has = subtree(receiver, size)
        return ranges(
            tuple(
                piece
                for part in ranges(blocks)
                for piece in (
                    range(part.start, min(part.stop, has.start)),
                    range(max(part.start, has.stop), part.stop),
                )
            )
        )

    yield from scatter.binomial(rank, size)
    for step in gather(rank, size):
        actions = []
        for action in step.actions:
            assert isinstance(action, Send | Recv)
            receiver = action.peer if isinstance(action, Send) else rank
            if left := missing(action.blocks, receiver):
                actions.append(replace(action, blocks=left))
        yield Round(*actions)


@algorithm("bcast", requires=power_of_two, rounds="2*L", sent="2*n*(p-1)/p")
def scatter_allgather(rank: int, size: int) -> Rounds:
    """Scatter the vector down a binomial tree, then gather it by recursive doubling.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    return _scatter_then(allgather.recursive_doubling, rank, size)


@algorithm("bcast", rounds="2*L", sent="2*n*(p-1)/p")
def scatter_allgather_circulant(rank: int, size: int) -> Rounds:
    """Scatter the vector down a binomial tree, then gather it along a circulant graph.

    References
    ----------
    Träff, arXiv:2410.14234.
    """
    return _scatter_then(allgather.circulant, rank, size)


@algorithm("bcast", rounds="L + p-1", sent="2*n*(p-1)/p")
def scatter_allgather_ring(rank: int, size: int) -> Rounds:
    """Scatter the vector down a binomial tree, then gather it around a ring.

    References
    ----------
    Barnett, Gupta, Payne, Shuler, van de Geijn, Watts, Scalable High-Performance Computing
    Conference 1994, doi:10.1109/SHPCC.1994.296665.
    """
    return _scatter_then(allgather.ring, rank, size)
