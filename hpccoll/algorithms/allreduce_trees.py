"""Allreduce up and down the same trees: a segment goes down as soon as it is complete."""

from hpccoll.algorithms import double_tree, trees
from hpccoll.registry import algorithm
from hpccoll.schedule import Rounds, merge


@algorithm(
    "allreduce",
    aliases=("pipeline",),
    blocks=1,
    clocked=True,
    chosen=("segments",),
    time="(S-1 + 2*ceil((p-1)/fanout)) * (alpha + o + (1+min(fanout, p-1))*n*beta/S)",
    rounds="(S-1 + 2*ceil((p-1)/fanout))*(p>1)",
    messages="S*max(min(fanout, p-1), (p>1) + (p-1>fanout))",
    sent="n*max(min(fanout, p-1), (p>1) + (p-1>fanout))",
    reduced="n*min(fanout, p-1)",
)
def chain(rank: int, size: int, segments: int = 3, fanout: int = 1) -> Rounds:
    """Reduce along chains of neighbours to rank 0, and pass each result back along them.

    References
    ----------
    Pješivac-Grbović, Angskun, Bosilca, Fagg, Gabriel, Dongarra, Cluster Computing 10(2), 2007,
    doi:10.1007/s10586-007-0012-0.
    """
    return trees.up_and_down(trees.chains(rank, size, fanout), range(segments))


@algorithm(
    "allreduce",
    aliases=("binary",),
    blocks=1,
    clocked=True,
    minimum={"radix": 2},
    chosen=("segments",),
    time="(S-3 + 2*log(p*(k-1)+1, k)) * (alpha + (k-1)*o + (k+1)*n*beta/S)",
    rounds="(S-3 + 2*log(p*(k-1)+1, k))*(p>1)",
    messages="S*max(min(k, p-1), (p>1) + min(k, ceil((p-1)/k)-1))",
    sent="n*max(min(k, p-1), (p>1) + min(k, ceil((p-1)/k)-1))",
    reduced="n*min(k, p-1)",
)
def kary(rank: int, size: int, segments: int = 3, radix: int = 2) -> Rounds:
    """Reduce up a tree with as many children as the radix says, and pass each result back down.

    References
    ----------
    Pješivac-Grbović, Angskun, Bosilca, Fagg, Gabriel, Dongarra, Cluster Computing 10(2), 2007,
    doi:10.1007/s10586-007-0012-0.
    """
    return trees.up_and_down(trees.kary(rank, range(size), radix), range(segments))


@algorithm(
    "allreduce",
    blocks=2,
    clocked=True,
    commutative=True,
    chosen=("segments",),
    time="2*(S+2*L) * (alpha + o + n*beta/S)",
    rounds="2*S+4*L-4+2*(p%4==0 or p%4==3 or p==2) if p>1 else 0",
    messages="S*(2*(p>1) + (p>2) + (p>3))",
    sent="n/2*(2*(p>1) + (p>2) + (p>3))",
    reduced="n*(p>1)",
)
def two_tree(rank: int, size: int, segments: int = 3) -> Rounds:
    """Reduce each half of the vector up its own binary tree, and pass each result back down.

    Every rank is a leaf of one of the trees.

    References
    ----------
    Sanders, Speck, Träff, Parallel Computing 35(12), 2009, doi:10.1016/j.parco.2009.09.001.
    """
    first, second = double_tree.places(rank, size)
    halves = range(segments), range(segments, 2 * segments)
    return merge(trees.up_and_down(first, halves[0]), trees.up_and_down(second, halves[1]))
