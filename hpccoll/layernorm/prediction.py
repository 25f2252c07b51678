"""The deviation of every order from the norm of the sum, from the ranks' parts in float64.

A wrong order is a weighted sum of norms of the wrong rows, and perhaps of too many betas:
``Y' - Y = gamma * (sum_i w_i n(rows_i) - n(S)) + (k - 1) * beta``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from hpccoll.datatypes import Array
from hpccoll.layernorm.inputs import Inputs
from hpccoll.layernorm.norms import Norm
from hpccoll.layernorm.reference import Reference, standardize
from hpccoll.layernorm.theory import SUMS_OF_BETAS, theory
from hpccoll.layernorm.tolerance import (
    Rounding,
    largest_factor,
    lengths,
    norm_error,
    output_roundoff,
    sum_error,
    sum_roundoff,
    tolerance,
    unit_roundoff,
)
from hpccoll.partition import Partition


@dataclass(frozen=True, slots=True)
class Prediction:
    """What an order gives in place of the norm of the sum.

    Attributes
    ----------
    deviation
        Y' - Y, shape (T, H), in float64.
    relative
        Its L2 norm over that of Y, shape (T,).
    bound
        How far rounding may carry a measured deviation from it, in the same unit, shape (T,): of a
        correct order, whose deviation is 0, its tolerance. A deviation that isn't larger can't be
        told from 0. Infinite for a result without numbers.
    """

    deviation: Array
    relative: Array
    bound: Array


@dataclass(frozen=True, slots=True)
class _Normed:
    """Rows, or a shard of their columns, whose norm is part of a result.

    Attributes
    ----------
    magnitude
        The sum of the absolute values that the rows are the sum of.
    depth, additions
        As of a `Rounding` and its tolerance.
    first
        The first of the columns.
    """

    rows: Array
    magnitude: Array
    depth: int = 0
    additions: int = 0
    first: int = 0
    weight: float = 1.0

    @property
    def columns(self) -> slice:
        return slice(self.first, self.first + self.rows.shape[1])


def predict(
    order: str, inputs: Inputs, norm: Norm, expected: Reference, rounding: Rounding
) -> Prediction:
    """Return the deviation of the order from the reference `expected` of the inputs.

    Parameters
    ----------
    rounding
        Of the order, the depth being that of its reduction.
    """
    length = lengths(expected.y)
    if theory(order).correct:
        bound = tolerance(expected, inputs.gamma, norm, rounding, len(inputs.additions))
        return Prediction(np.zeros(expected.y.shape), np.zeros(len(length)), bound)
    deviation, bound = -expected.standardized, np.zeros(len(length))
    later = _later(order, rounding)
    for normed in _normed(order, inputs, expected, rounding):
        standardized, error = _standardized(normed, inputs, norm, rounding, later)
        deviation[:, normed.columns] += normed.weight * standardized
        bound += normed.weight * error
    deviation *= inputs.gamma.astype(np.float64)
    if order in SUMS_OF_BETAS and norm.centred:
        deviation += (inputs.size - 1) * inputs.beta.astype(np.float64)
    with np.errstate(all="ignore"):
        relative, bound = lengths(deviation) / length, bound / length
    return Prediction(deviation, relative, np.where(np.isnan(bound), np.inf, bound))


def _normed(
    order: str, inputs: Inputs, expected: Reference, rounding: Rounding
) -> Iterator[_Normed]:
    """Yield the rows whose norms the result of a wrong order is the weighted sum of."""
    size, additions = inputs.size, len(inputs.additions)
    if order in ("layernorm-reduce-bcast", "layernorm-mean"):
        weight = 1 / size if order == "layernorm-mean" else 1.0
        yield _roots(inputs, weight)
        for rank in range(1, size):
            part = inputs.partial(rank).astype(np.float64)
            yield _Normed(part, np.abs(part), weight=weight)
    elif order in ("bcast-layernorm-reduce", "layernorm-bcast-reduce"):
        yield _roots(inputs, size)
    elif order == "bcast-reduce-layernorm":
        yield replace(_roots(inputs, 1, copies=size), depth=rounding.depth)
    elif order == "hidden-shards-alone":
        shards = Partition(inputs.hidden, size)
        for shard in filter(shards.size, range(size)):
            columns = slice(shards.border(shard), shards.border(shard + 1))
            rows, magnitude = expected.total[:, columns], expected.magnitude[:, columns]
            yield _Normed(rows, magnitude, rounding.depth, additions, columns.start)
    else:
        term = inputs.bias_vector if order == "bias-on-every-rank" else inputs.residual_rows
        more = (size - 1) * (np.zeros(1) if term is None else term.astype(np.float64))
        rows, magnitude = expected.total + more, expected.magnitude + np.abs(more)
        yield _Normed(rows, magnitude, rounding.depth, additions)


def _roots(inputs: Inputs, weight: float, copies: int = 1) -> _Normed:
    """Return `copies` of the root's part, with bias and residual."""
    rows = inputs.partial(0).astype(np.float64) * copies
    magnitude = np.abs(rows)
    for term in inputs.additions:
        rows = rows + term.astype(np.float64)
        magnitude = magnitude + np.abs(term.astype(np.float64))
    return _Normed(rows, magnitude, additions=len(inputs.additions), weight=weight)


def _standardized(
    normed: _Normed, inputs: Inputs, norm: Norm, rounding: Rounding, later: float
) -> tuple[Array, Array]:
    """Return the standardised rows, and a bound on the L2 error of what they become, shape (T,).

    Parameters
    ----------
    later
        What is rounded off after the norm, relative to its result.
    """
    standardized, _, rstd = standardize(normed.rows, norm)
    own = replace(rounding, depth=normed.depth, shards=1)
    gamma = inputs.gamma[normed.columns]
    rows = sum_error(normed.rows, normed.magnitude, own, normed.additions)
    with np.errstate(all="ignore"):
        error = norm_error(rows, normed.rows, rstd, norm, own) * largest_factor(gamma)
        y = standardized * gamma.astype(np.float64)
        if norm.centred:
            y += inputs.beta[normed.columns].astype(np.float64)
        error += later * lengths(y)
    return standardized, error


def _later(order: str, rounding: Rounding) -> float:
    """Return the relative error of storing a norm and, where it comes first, of what follows."""
    later = output_roundoff(rounding.storage)
    if theory(order).norms_first:
        later += sum_roundoff(rounding)
    if order == "layernorm-mean":
        later += unit_roundoff(rounding.storage)
    return later
