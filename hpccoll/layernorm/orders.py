"""The orders of reduce, norm and broadcast, each as what one rank does.

Rows are tokens T of H elements. Rank r holds its part x of a sum over all ranks; what is wanted is
the norm of that sum, plus a bias and a residual, as y on every rank.
"""

from collections.abc import Callable
from dataclasses import dataclass

from hpccoll.layernorm import shards
from hpccoll.layernorm.rank import Rank

Does = Callable[[Rank], None]


@dataclass(frozen=True, slots=True)
class Order:
    """An order of operations.

    Attributes
    ----------
    fixed
        The algorithms that belong to it by definition, by collective.
    collectives
        Those that it calls, in turn.
    needs
        ``bias`` or ``residual``, where the order is about one.
    """

    name: str
    does: Does
    collectives: tuple[str, ...]
    fixed: tuple[tuple[str, str], ...] = ()
    needs: str = ""


def allreduce_layernorm(rank: Rank) -> None:
    """Sum on every rank, and let every rank normalise the same rows."""
    rank.collective("allreduce", rank.x, rank.y)
    rank.add(rank.y)
    rank.normalize(rank.y)


def reduce_layernorm_bcast(rank: Rank) -> None:
    """Sum at the root, normalise there, and broadcast the result."""
    rank.collective("reduce", rank.x, rank.y)
    if rank.is_root:
        rank.add(rank.y)
        rank.normalize(rank.y)
    rank.collective("bcast", None, rank.y)


def fused(rank: Rank) -> None:
    """Sum along a chain, segment by segment; the root normalises each and sends it back."""
    rank.reduce_normalize_bcast()


def sequence_parallel(rank: Rank) -> None:
    """Give every rank the sum of its rows, normalise these, and gather all."""
    rows = rank.rows
    own = rank.y[rows.part]
    rank.collective("reduce-scatter", rank.x, own, counts=rows.elements)
    rank.add(own, rows.part)
    rank.normalize(own)
    rank.collective("allgather", None, rank.y, counts=rows.elements, in_place=True)


def hidden_parallel(rank: Rank) -> None:
    """Give every rank the sum of its columns; the moments of all shards make the statistics."""
    _hidden(rank, exchange=True)


def hidden_shards_alone(rank: Rank) -> None:
    """Do so without exchanging the moments: a group norm of as many groups as ranks."""
    _hidden(rank, exchange=False)


def _hidden(rank: Rank, exchange: bool) -> None:
    columns = rank.columns
    packed = rank.array(rank.x.size)
    shard = rank.array(*columns.shape)
    shards.pack(rank, rank.x, packed)
    rank.collective("reduce-scatter", packed, shard, counts=columns.elements)
    rank.add(shard, columns=columns.part)
    if exchange:
        shards.normalize(rank, shard)
    else:
        rank.normalize(shard, columns=columns.part)
    rank.collective("allgather", shard, packed, counts=columns.elements)
    shards.unpack(rank, packed, rank.y)


def one_shot(rank: Rank) -> None:
    """Get all ranks' parts, sum them in the order of the ranks, and normalise."""
    parts = rank.array(rank.size, *rank.x.shape)
    rank.collective("allgather", rank.x, parts, counts=(rank.x.size,) * rank.size)
    rank.sum(parts, rank.y)
    rank.add(rank.y)
    rank.normalize(rank.y)


def gather_layernorm_bcast(rank: Rank) -> None:
    """Do so at the root alone, and broadcast the result."""
    parts = rank.array(rank.size if rank.is_root else 0, *rank.x.shape)
    rank.collective("gather", rank.x, parts, counts=(rank.x.size,) * rank.size)
    if rank.is_root:
        rank.sum(parts, rank.y)
        rank.add(rank.y)
        rank.normalize(rank.y)
    rank.collective("bcast", None, rank.y)


# Wrong: the norm stands in another place


def layernorm_reduce_bcast(rank: Rank) -> None:
    """Normalise every rank's part, sum the results at the root, and broadcast."""
    _normalized_first(rank)
    rank.collective("bcast", None, rank.y)


def layernorm_mean(rank: Rank) -> None:
    """Do so with the mean in the place of the sum."""
    _normalized_first(rank, average=True)
    rank.collective("bcast", None, rank.y)


def _normalized_first(rank: Rank, average: bool = False) -> None:
    normalized = rank.array(*rank.x.shape)
    rank.copy(rank.x, normalized)
    if rank.is_root:
        rank.add(normalized)
    rank.normalize(normalized)
    rank.collective("reduce", normalized, rank.y, average=average)


def bcast_layernorm_reduce(rank: Rank) -> None:
    """Broadcast the root's part, normalise it everywhere, and sum the results at the root."""
    part = rank.array(*rank.x.shape)
    if rank.is_root:
        rank.copy(rank.x, part)
        rank.add(part)
    rank.collective("bcast", None, part)
    rank.normalize(part)
    rank.collective("reduce", part, rank.y)


def bcast_reduce_layernorm(rank: Rank) -> None:
    """Broadcast the root's part, sum the copies at the root, and normalise there."""
    part = rank.array(*rank.x.shape)
    if rank.is_root:
        rank.copy(rank.x, part)
    rank.collective("bcast", None, part)
    rank.collective("reduce", part, rank.y)
    if rank.is_root:
        rank.add(rank.y)
        rank.normalize(rank.y)


def layernorm_bcast_reduce(rank: Rank) -> None:
    """Normalise, broadcast the root's result, and sum the copies at the root."""
    part = rank.array(*rank.x.shape)
    rank.copy(rank.x, part)
    if rank.is_root:
        rank.add(part)
    rank.normalize(part)
    rank.collective("bcast", None, part)
    rank.collective("reduce", part, rank.y)


# Wrong: something is added, or normalised, as if a rank had the whole


def bias_on_every_rank(rank: Rank) -> None:
    """Add the bias before the sum, on every rank."""
    part = rank.array(*rank.x.shape)
    rank.copy(rank.x, part)
    rank.add_bias(part)
    rank.collective("allreduce", part, rank.y)
    rank.add_residual(rank.y)
    rank.normalize(rank.y)


def residual_on_every_rank(rank: Rank) -> None:
    """Add the residual before the sum, on every rank."""
    part = rank.array(*rank.x.shape)
    rank.copy(rank.x, part)
    rank.add_residual(part)
    rank.collective("allreduce", part, rank.y)
    rank.add_bias(rank.y)
    rank.normalize(rank.y)


_ALLREDUCE = ("allreduce",)
_ROOT = ("reduce", "bcast")
_ROOT_FIRST = ("bcast", "reduce")
_SHARDS = ("reduce-scatter", "allgather")
_BINOMIAL = (("reduce", "binomial"), ("bcast", "binomial"))
_LARGE = (("reduce", "rabenseifner"), ("bcast", "scatter-allgather-ring"))

ORDERS = {
    order.name: order
    for order in (
        Order("allreduce-layernorm", allreduce_layernorm, _ALLREDUCE),
        Order("reduce-layernorm-bcast", reduce_layernorm_bcast, _ROOT, _BINOMIAL),
        Order("reduce-layernorm-bcast-large", reduce_layernorm_bcast, _ROOT, _LARGE),
        Order("fused", fused, (), (("allreduce", "chain"),)),
        Order("sequence-parallel", sequence_parallel, _SHARDS),
        Order("hidden-parallel", hidden_parallel, _SHARDS),
        Order("one-shot", one_shot, ("allgather",), (("allgather", "linear"),)),
        Order(
            "gather-layernorm-bcast",
            gather_layernorm_bcast,
            ("gather", "bcast"),
            (("gather", "linear"), ("bcast", "binomial")),
        ),
        Order("layernorm-reduce-bcast", layernorm_reduce_bcast, _ROOT),
        Order("layernorm-mean", layernorm_mean, _ROOT),
        Order("bcast-layernorm-reduce", bcast_layernorm_reduce, _ROOT_FIRST),
        Order("bcast-reduce-layernorm", bcast_reduce_layernorm, _ROOT_FIRST),
        Order("layernorm-bcast-reduce", layernorm_bcast_reduce, _ROOT_FIRST),
        Order("hidden-shards-alone", hidden_shards_alone, _SHARDS),
        Order("bias-on-every-rank", bias_on_every_rank, _ALLREDUCE, needs="bias"),
        Order("residual-on-every-rank", residual_on_every_rank, _ALLREDUCE, needs="residual"),
    )
}
"""Every order by its name: the correct ones, the other permutations, mistakes."""

AT_ROOT = ("bcast-layernorm-reduce", "bcast-reduce-layernorm", "layernorm-bcast-reduce")
"""Orders that end at the root: only that has a result."""
