"""Reduce to root 0 (the registry rotates to other roots)."""

from hpccoll.algorithms import circulant_blocks, double_tree, gather, reduce_scatter, trees
from hpccoll.algorithms.knomial import ascend
from hpccoll.combinators import fold, reverse
from hpccoll.registry import algorithm
from hpccoll.schedule import RIGHT, Combine, Recv, Round, Rounds, Send, merge
from hpccoll.shapes import even, power_of_two_below


@algorithm("reduce", blocks=1, rounds="p-1", messages="1*(p>1)", sent="n*(p>1)", reduced="n*(p-1)")
def linear(rank: int, size: int) -> Rounds:
    """Receive and reduce at the root one rank's vector after the other.

    References
    ----------
    Pješivac-Grbović, Angskun, Bosilca, Fagg, Gabriel, Dongarra, Cluster Computing 10(2), 2007,
    doi:10.1007/s10586-007-0012-0.
    """
    if rank:
        yield Round(Send(0, 0))
        return
    for other in range(1, size):
        yield Round(Combine(other, 0, RIGHT))


# Trees of whole vectors


@algorithm("reduce", blocks=1, rounds="L", messages="1*(p>1)", sent="n*(p>1)", reduced="n*L")
def binomial(rank: int, size: int) -> Rounds:
    """Halve the number of partial results every round.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    return ascend(rank, size, 2)


@algorithm(
    "reduce",
    blocks=1,
    minimum={"radix": 2},
    chosen=("radix",),
    time="Lk*(alpha + (k-2)*o + (k-1)*n*beta)",
    rounds="Lk",
    messages="1*(p>1)",
    sent="n*(p>1)",
    reduced="n*((k-1)*(Lk-1) + ceil(p/k**(Lk-1)) - 1) if p>1 else 0",
)
def knomial(rank: int, size: int, radix: int = 4) -> Rounds:
    """Divide the number of partial results by the radix every round.

    References
    ----------
    Wilkins et al., IEEE Cluster 2023, doi:10.1109/CLUSTER52292.2023.00013.
    """
    return ascend(rank, size, radix)


@algorithm(
    "reduce",
    blocks=1,
    requires=even,
    commutative=True,
    rounds="L",
    messages="1*(p>1)",
    sent="n*(p>1)",
    reduced="n*(L - (P<p and 3*p<4*P))",
)
def bine(rank: int, size: int) -> Rounds:
    """Halve the number of partial results every round, with nearer ranks than binomial.

    References
    ----------
    De Sensi, Pasqualoni, Piarulli, Bonato, Ba, Turisini, Domke, Hoefler, SC 2025,
    doi:10.1145/3712285.3759835.
    """
    return reverse(trees.bine(rank, size, lambda _: 0), Combine)


# Pipelines of segments


@algorithm(
    "reduce",
    aliases=("pipeline",),
    blocks=1,
    clocked=True,
    chosen=("segments",),
    time="(S-1 + ceil((p-1)/fanout)) * (alpha + min(fanout, p-1)*n*beta/S)",
    rounds="(S-1 + ceil((p-1)/fanout))*(p>1)",
    messages="S*(p>1)",
    sent="n*(p>1)",
    reduced="n*min(fanout, p-1)",
)
def chain(rank: int, size: int, segments: int = 3, fanout: int = 1) -> Rounds:
    """Pass partial results along chains of neighbours that end at the root side by side.

    References
    ----------
    Pješivac-Grbović, Angskun, Bosilca, Fagg, Gabriel, Dongarra, Cluster Computing 10(2), 2007,
    doi:10.1007/s10586-007-0012-0.
    """
    return trees.up(trees.chains(rank, size, fanout), range(segments))


@algorithm(
    "reduce",
    aliases=("binary",),
    blocks=1,
    clocked=True,
    minimum={"radix": 2},
    chosen=("segments",),
    time="(S-2 + log(p*(k-1)+1, k)) * (alpha + (k-2)*o + k*n*beta/S)",
    rounds="(S-2 + log(p*(k-1)+1, k))*(p>1)",
    messages="S*(p>1)",
    sent="n*(p>1)",
    reduced="n*min(k, p-1)",
)
def kary(rank: int, size: int, segments: int = 3, radix: int = 2) -> Rounds:
    """Pass partial results up a tree in which every rank has as many children as the radix says.

    A subtree is a range of ranks that its first rank leads, so operands keep their order.

    References
    ----------
    Pješivac-Grbović, Angskun, Bosilca, Fagg, Gabriel, Dongarra, Cluster Computing 10(2), 2007,
    doi:10.1007/s10586-007-0012-0.
    """
    return trees.up(trees.kary(rank, range(size), radix), range(segments))


@algorithm(
    "reduce",
    blocks=1,
    clocked=True,
    chosen=("segments",),
    time="(S-1+L) * (alpha + 2*n*beta/S)",
    rounds="(S-1+L)*(p>1)",
    messages="S*(p>1)",
    sent="n*(p>1)",
    reduced="n*((p>1) + (p>3))",
)
def in_order_binary(rank: int, size: int, segments: int = 3) -> Rounds:
    """Pass partial results up a binary tree in which a rank stands between its two subtrees.

    The root has one child, and so receives the vector only once.

    References
    ----------
    Pješivac-Grbović, Angskun, Bosilca, Fagg, Gabriel, Dongarra, Cluster Computing 10(2), 2007,
    doi:10.1007/s10586-007-0012-0.
    """
    return trees.up(trees.in_order(rank, size), range(segments))


@algorithm(
    "reduce",
    blocks=2,
    clocked=True,
    commutative=True,
    chosen=("segments",),
    time="2*(S+L) * (alpha + n*beta/2/S)",
    rounds="2*S+2*L-3+(p%4==0 or p%4==3 or p==2) if p>1 else 0",
    messages="2*S*(p>1)",
    sent="n*(p>1)",
    reduced="n*(p>1)",
)
def two_tree(rank: int, size: int, segments: int = 3) -> Rounds:
    """Pass partial results of each half of the vector up its own binary tree.

    Every rank is a leaf of one of the trees.

    References
    ----------
    Sanders, Speck, Träff, Parallel Computing 35(12), 2009, doi:10.1016/j.parco.2009.09.001.
    """
    first, second = double_tree.places(rank, size)
    halves = range(segments), range(segments, 2 * segments)
    return merge(trees.up(first, halves[0]), trees.up(second, halves[1]))


@algorithm(
    "reduce",
    blocks=1,
    commutative=True,
    chosen=("segments",),
    time="(S-1+L)*(alpha + n*beta/S)",
    rounds="(S-1+L)*(p>1)",
    messages="S*(p>1)",
    sent="n*(p>1)",
    reduced="n*(S-1+L)/S*(p>1)",
)
def circulant(rank: int, size: int, segments: int = 3) -> Rounds:
    """Pass partial results along a circulant graph, in the fewest rounds possible for any p.

    References
    ----------
    Träff, arXiv:2407.18004.
    """
    return reverse(circulant_blocks.broadcast(rank, size, segments), Combine)


# A reduce-scatter, then a gather


def _halving_gather(rank: int, size: int) -> Rounds:
    windows = yield from reduce_scatter.halving_near_first(rank, size)
    for peer, kept, given in reversed(windows):
        if peer < rank:
            yield Round(Send(peer, kept))
            return
        yield Round(Recv(peer, given))


@algorithm(
    "reduce",
    blocks=power_of_two_below,
    rounds="2*l + (p>P)",
    messages="l + (p>1)",
    sent="n*(P-1)/P + n/2*(p>1)",
    reduced="n*(P-1)/P + n*(p>P)",
)
def rabenseifner(rank: int, size: int) -> Rounds:
    """Reduce-scatter by recursive halving, then gather the blocks at the root.

    References
    ----------
    Rabenseifner, ICCS 2004, doi:10.1007/978-3-540-24685-5_1.
    """
    return fold(_halving_gather, lambda size: range(power_of_two_below(size)))(rank, size)


@algorithm(
    "reduce",
    commutative=True,
    rounds="2*L",
    messages="L + (p>1)",
    sent="n*(p-1)/p + n*max(P/2, e)/p*(p>1)",
    reduced="n*(p-1)/p",
)
def circulant_gather(rank: int, size: int) -> Rounds:
    """Reduce-scatter along a circulant graph, then gather the blocks up a binomial tree.

    References
    ----------
    Träff, arXiv:2410.14234.
    """
    yield from reduce_scatter.circulant(rank, size)
    yield from gather.binomial(rank, size)
