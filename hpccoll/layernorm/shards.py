"""Shards of the hidden dimension: their place in messages, and statistics of whole rows."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from hpccoll.datatypes import Array
from hpccoll.layernorm.norms import Moments, Statistics, accumulation, apply, finish, merge, moments
from hpccoll.layernorm.program import NORM, REST
from hpccoll.layernorm.rank import Rank


def pack(rank: Rank, rows: Array, packed: Array) -> None:
    """Copy rows so that every rank's columns lie side by side."""
    _copy(rank, [(side, columns) for columns, side in _places(rank, rows, packed)])


def unpack(rank: Rank, packed: Array, rows: Array) -> None:
    """Copy back what `pack` did."""
    _copy(rank, _places(rank, rows, packed))


def _copy(rank: Rank, pairs: list[tuple[Array, Array]]) -> None:
    def run() -> None:
        for target, source in pairs:
            np.copyto(target, source)

    rank.step(REST, run)


def _places(rank: Rank, rows: Array, packed: Array) -> list[tuple[Array, Array]]:
    """Return every rank's columns in the rows, and their place in the packed elements."""
    tokens = rows.shape[0]
    return [
        (rows[:, a:b], packed[tokens * a : tokens * b].reshape(tokens, b - a))
        for a, b in pairwise(rank.columns.borders)
    ]


def exchange(rank: Rank, shard: Array) -> Callable[[], Statistics]:
    """Exchange the moments of all shards, and return what gives the statistics of whole rows.

    Every rank gathers the moments and merges them in the order of the ranks, so that all have the
    same bits.
    """
    norm, of = rank.norm, accumulation(shard.dtype)
    kinds, tokens = 1 + norm.centred, shard.shape[0]
    own = rank.array(kinds, tokens, of=of)
    everyone = rank.array(rank.size, kinds, tokens, of=of)
    widths = [b - a for a, b in pairwise(rank.columns.borders)]

    def take() -> None:
        found = moments(shard, norm)
        own[-1] = found.m2
        if found.mean is not None:
            own[0] = found.mean

    def merged() -> Statistics:
        parts = [
            Moments(width, some[0] if norm.centred else None, some[-1])
            for width, some in zip(widths, everyone, strict=True)
        ]
        return finish(merge(parts), norm)

    if shard.size:  # without columns there is no mean
        rank.step(NORM, take)
    rank.collective("allgather", own, everyone, counts=(own.size,) * rank.size)
    return merged


def normalize(rank: Rank, shard: Array) -> None:
    """Normalise this rank's columns with the statistics of whole rows, in place."""
    rank.count(shard.size)
    merged, part = exchange(rank, shard), rank.columns.part
    gamma = rank.buffers.gamma[part]
    beta = rank.buffers.beta[part] if rank.norm.centred else None
    if shard.size:
        rank.step(NORM, lambda: apply(shard, merged(), gamma, beta, out=shard))
