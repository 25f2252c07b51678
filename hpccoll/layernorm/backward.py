"""The backward pass of the placements of a norm: gradients of its rows, of gamma and of beta.

Rank r holds its part of the gradient of the norm's output, a sum over all ranks. For saved rows
and statistics the gradient of the rows is linear in it, so it is summed as the rows are.

References
----------
Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models,
arXiv:2205.05198: the sequence-parallel placement.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hpccoll.datatypes import Array
from hpccoll.layernorm import shards
from hpccoll.layernorm.gradients import backward, backward_apply, backward_sums
from hpccoll.layernorm.norms import Statistics, accumulation, statistics
from hpccoll.layernorm.program import NORM
from hpccoll.layernorm.rank import Rank

EVERYWHERE, ROOT, COLUMNS = "every rank", "the root", "its columns on every rank"


@dataclass(slots=True)
class Saved:
    """What the forward pass leaves to the backward pass on one rank: the sum and its statistics."""

    rows: Array
    statistics: Statistics | None = None


@dataclass(frozen=True, slots=True)
class Backward:
    """A placement of the backward pass.

    Attributes
    ----------
    order
        The order whose backward pass it is.
    does
        Adds the steps of the forward pass to its first argument, those of the backward pass to the
        second; the third, shape (2, H), receives the gradients of gamma and beta.
    parameters
        Who has the gradients of gamma and beta.
    also
        The collectives that it calls besides those of its order.
    """

    name: str
    order: str
    does: Callable[[Rank, Rank, Array], None]
    parameters: str
    why: str
    also: tuple[str, ...] = ()
    correct: bool = True


def allreduce(forward: Rank, rank: Rank, parameters: Array) -> None:
    """Sum the gradients on every rank, which all compute the same."""
    rows = forward.array(*forward.x.shape)
    forward.collective("allreduce", forward.x, rows)
    forward.add(rows)
    saved = _save(forward, rows)
    rank.collective("allreduce", rank.x, rank.y)
    _compute(rank, saved, rank.y, parameters)


def summed_again(forward: Rank, rank: Rank, parameters: Array) -> None:
    """Do so, and then sum the gradients of gamma and beta once more."""
    allreduce(forward, rank, parameters)
    rank.collective("allreduce", None, parameters, in_place=True)


def reduce_bcast(forward: Rank, rank: Rank, parameters: Array) -> None:
    """Sum the gradients at the root, which computes and broadcasts."""
    rows = forward.array(*forward.x.shape)
    forward.collective("reduce", forward.x, rows)
    rank.collective("reduce", rank.x, rank.y)
    if rank.is_root:
        forward.add(rows)
        _compute(rank, _save(forward, rows), rank.y, parameters)
    rank.collective("bcast", None, rank.y)


def sequence_parallel(forward: Rank, rank: Rank, parameters: Array) -> None:
    """Give every rank the sum for its rows, and sum the gradients of gamma and beta."""
    own_rows_only(forward, rank, parameters)
    rank.collective("allreduce", None, parameters, in_place=True)


def own_rows_only(forward: Rank, rank: Rank, parameters: Array) -> None:
    """Give every rank the sum for its rows, and leave gamma and beta at that."""
    shares = rank.rows
    rows = forward.array(*shares.shape)
    forward.collective("reduce-scatter", forward.x, rows, counts=shares.elements)
    forward.add(rows, shares.part)
    saved = _save(forward, rows)
    own = rank.y[shares.part]
    rank.collective("reduce-scatter", rank.x, own, counts=shares.elements)
    _compute(rank, saved, own, parameters)
    rank.collective("allgather", None, rank.y, counts=shares.elements, in_place=True)


def hidden_parallel(forward: Rank, rank: Rank, parameters: Array) -> None:
    """Give every rank the sum for its columns, and sum what the gradient needs of whole rows."""
    columns, of = rank.columns, accumulation(rank.x.dtype)
    packed = forward.array(rank.x.size)
    saved = Saved(forward.array(*columns.shape))
    shards.pack(forward, forward.x, packed)
    forward.collective("reduce-scatter", packed, saved.rows, counts=columns.elements)
    forward.add(saved.rows, columns=columns.part)
    merged = shards.exchange(forward, saved.rows)

    def keep() -> None:
        saved.statistics = merged()

    forward.step(NORM, keep)
    packed = rank.array(rank.x.size)
    grad = rank.array(*columns.shape)
    own, total = (rank.array(1 + rank.norm.centred, len(grad), of=of) for _ in range(2))
    gamma = rank.buffers.gamma[columns.part]
    shards.pack(rank, rank.x, packed)
    rank.collective("reduce-scatter", packed, grad, counts=columns.elements)

    def add_up() -> None:
        assert saved.statistics
        own[:] = backward_sums(grad, saved.rows, saved.statistics, gamma, rank.norm)

    def compute() -> None:
        assert saved.statistics
        found = backward_apply(
            grad, saved.rows, saved.statistics, gamma, rank.norm, total, rank.x.shape[1]
        )
        _store(found, grad, parameters[:, columns.part])

    rank.step(NORM, add_up)
    rank.collective("allreduce", own, total)
    rank.step(NORM, compute)
    rank.collective("allgather", grad, packed, counts=columns.elements)
    shards.unpack(rank, packed, rank.y)


def _save(forward: Rank, rows: Array) -> Saved:
    saved = Saved(rows)

    def keep() -> None:
        saved.statistics = statistics(rows, forward.norm)

    forward.step(NORM, keep)
    return saved


def _compute(rank: Rank, saved: Saved, grad: Array, parameters: Array) -> None:
    """Replace the gradient of the output by that of the rows."""

    def compute() -> None:
        assert saved.statistics
        found = backward(grad, saved.rows, saved.statistics, rank.buffers.gamma, rank.norm)
        _store(found, grad, parameters)

    rank.step(NORM, compute)


def _store(found: tuple[Array, Array, Array | None], dx: Array, parameters: Array) -> None:
    np.copyto(dx, found[0])
    parameters[0] = found[1]
    parameters[1] = 0 if found[2] is None else found[2]


BACKWARD = {
    one.name: one
    for one in (
        Backward(
            "allreduce-layernorm",
            "allreduce-layernorm",
            allreduce,
            EVERYWHERE,
            "every rank computes the same gradients, so nothing is left to be summed",
        ),
        Backward(
            "reduce-layernorm-bcast",
            "reduce-layernorm-bcast",
            reduce_bcast,
            ROOT,
            "only the root has gradients of gamma and beta: it must share what it makes of them",
        ),
        Backward(
            "sequence-parallel",
            "sequence-parallel",
            sequence_parallel,
            EVERYWHERE,
            "every rank has the part of its rows, and one more allreduce sums these",
            also=("allreduce",),
        ),
        Backward(
            "hidden-parallel",
            "hidden-parallel",
            hidden_parallel,
            COLUMNS,
            "every rank has all rows of its columns, so nothing is left to be summed",
            also=("allreduce",),
        ),
        Backward(
            "sequence-parallel-unsummed",
            "sequence-parallel",
            own_rows_only,
            EVERYWHERE,
            "without that allreduce every rank has the part of its own rows",
            correct=False,
        ),
        Backward(
            "allreduce-layernorm-twice",
            "allreduce-layernorm",
            summed_again,
            EVERYWHERE,
            "the sum of p equal gradients of gamma and beta is p times too large",
            correct=False,
        ),
    )
}
"""Placements of the backward pass by name, the correct ones first."""
