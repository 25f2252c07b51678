"""What every collective is defined to do, in one line each, apart from what hpccoll says of it.

A full vector is divided among the ranks: `cut` has one range of elements per rank. An alltoall's
full vector has a vector for every rank, one behind the other, each of them cut alike.
"""

from itertools import pairwise

import numpy as np

from hpccoll.collectives import COLLECTIVES


def cut(count, size, counts=None):
    """Divide `count` elements among the ranks, evenly or as `counts` says."""
    borders = np.cumsum([0, *counts]) if counts else [count * r // size for r in range(size + 1)]
    return [range(int(a), int(b)) for a, b in pairwise(borders)]


HELD = {
    "allreduce": lambda rank, root, cut: whole(cut),
    "reduce-scatter": lambda rank, root, cut: whole(cut),
    "allgather": lambda rank, root, cut: cut[rank],
    "bcast": lambda rank, root, cut: whole(cut) if rank == root else (),
    "reduce": lambda rank, root, cut: whole(cut),
    "gather": lambda rank, root, cut: cut[rank],
    "scatter": lambda rank, root, cut: whole(cut) if rank == root else (),
    "alltoall": lambda rank, root, cut: [rank * len(whole(cut)) + i for i in whole(cut)],
    "scan": lambda rank, root, cut: whole(cut),
    "exscan": lambda rank, root, cut: whole(cut),
    "sendrecv": lambda rank, root, cut: [rank * len(whole(cut)) + i for i in whole(cut)],
    "barrier": lambda rank, root, cut: (),
}
"""The elements of the full vector that a rank has before the call, in order."""

RESULT = {
    "allreduce": lambda rank, root, cut: whole(cut),
    "reduce-scatter": lambda rank, root, cut: cut[rank],
    "allgather": lambda rank, root, cut: whole(cut),
    "bcast": lambda rank, root, cut: whole(cut),
    "reduce": lambda rank, root, cut: whole(cut) if rank == root else (),
    "gather": lambda rank, root, cut: whole(cut) if rank == root else (),
    "scatter": lambda rank, root, cut: cut[rank],
    "alltoall": lambda rank, root, cut: [
        source * len(whole(cut)) + i for source in range(len(cut)) for i in cut[rank]
    ],
    "scan": lambda rank, root, cut: whole(cut),
    "exscan": lambda rank, root, cut: whole(cut) if rank else (),
    "sendrecv": lambda rank, root, cut: [
        (rank - 1) % len(cut) * len(whole(cut)) + i for i in whole(cut)
    ],
    "barrier": lambda rank, root, cut: (),
}
"""The elements of the full vector that a rank has after the call, in order."""

REDUCED = {
    "allreduce": lambda rank, size: range(size),
    "reduce-scatter": lambda rank, size: range(size),
    "reduce": lambda rank, size: range(size),
    "scan": lambda rank, size: range(rank + 1),
    "exscan": lambda rank, size: range(rank),
}
"""The ranks whose inputs a rank's result is reduced from."""

LONG = ("alltoall", "sendrecv")
"""The full vector has a vector for every rank."""

assert set(HELD) == set(RESULT) == set(COLLECTIVES) >= set(REDUCED)


def allowed(of, count, size, in_place):
    """Return the elements nearest to `count` that a call can have.

    What an alltoall receives in place replaces what it sends, so all blocks must be equal.
    """
    return count // size * size if in_place and of == "alltoall" else count


def whole(cut):
    """Return the elements of the vector that `cut` divides."""
    return range(cut[-1].stop)


def length(of, cut):
    """Return the elements of the full vector."""
    return cut[-1].stop * (len(cut) if of in LONG else 1)


def source(of, element, root, cut):
    """Return the rank whose input an element is, where nothing is reduced."""
    if of in ("bcast", "scatter"):
        return root
    if of in LONG:
        return element // cut[-1].stop
    return next(rank for rank, own in enumerate(cut) if element in own)


def inputs(of, cut):
    """Return a full vector of every rank, of integers that tell where they come from."""
    size, count = len(cut), length(of, cut)
    if of not in REDUCED:
        return np.arange(size * count).reshape(size, count)
    # Powers of 3 times odd numbers: no two partial sums of one position are equal.
    return np.array([(2 * np.arange(count) + 1) * 3 ** min(rank, 30) for rank in range(size)])


def held(of, vectors, rank, root, cut):
    """Return a rank's input; `vectors` has a full vector of every rank."""
    return vectors[rank][list(HELD[of](rank, root, cut))]


def result(of, vectors, rank, root, cut, reduce=np.add.reduce):
    """Return a rank's result."""
    elements = list(RESULT[of](rank, root, cut))
    if of in REDUCED and elements:
        return reduce(vectors[list(REDUCED[of](rank, len(cut)))][:, elements])
    return vectors[[source(of, i, root, cut) for i in elements], elements]
