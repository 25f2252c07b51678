"""How far rounding may carry a norm from its reference, bounded row by row.

A sum of absolute value a (that of its terms) and depth d is off by at most ``d u a``; the norm
divides that by s, the root of variance and epsilon; and computing it in the accumulation type adds
errors of its own. With ``k_a = rms(a) / s`` and ``k_s = rms(sum) / s``, to first order:

- a sum that is rounded to the storage type in every step: ``d u k_a``;
- one in float32 that is rounded once: ``u k_s + d u32 k_a``;
- bias and residual, added to it: ``u k_a`` each;
- the statistics and the norm: ``(12 + log2 H) u_acc k_s + 4 u_acc``. Welford's update has H in the
  place of ``log2 H``, every merge of shards adds ``4 u_acc k_s``, and ``E[x**2] - mean**2`` adds
  ``2 (log2 H + 2) u_acc k_s**2``.

Neither an average of the rows' conditions nor the root of d, which holds for random errors, gives
a bound: both are exceeded on rows with outliers in float16.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hpccoll.datatypes import SIGNIFICAND, Array
from hpccoll.layernorm.norms import CHAN_SHARDS, Norm, accumulation
from hpccoll.layernorm.reference import Reference, ReferenceGradients

ILL_CONDITIONED = 0.5
"""From this tolerance on a row's result is noise, and no verdict on it means anything."""


@dataclass(frozen=True, slots=True)
class Rounding:
    """Where an order of operations rounds.

    Attributes
    ----------
    storage
        Type of the rows that ranks hold and send, and of the result.
    depth
        Additions on the longest path from a rank's part to the sum: p - 1 of a chain, a ring or
        the order of the ranks, ceil(log2(p)) of a tree, recursive doubling or halving.
    float32
        The sum is carried in float32 and rounded to the storage type once.
    shards
        Parts of the hidden dimension whose moments are merged.
    """

    storage: np.dtype[Any]
    depth: int
    float32: bool = False
    shards: int = 1

    @property
    def wide(self) -> bool:
        """Tell whether sums have more digits than what is stored."""
        return self.float32 and self.storage.itemsize == 2


def unit_roundoff(of: np.dtype[Any]) -> float:
    """Return the largest relative error of rounding to the type: 2**-24 for float32."""
    return float(2.0 ** -SIGNIFICAND[of.name])


def largest(of: np.dtype[Any]) -> float:
    """Return the largest finite number of the type."""
    return float((2 - 2 * unit_roundoff(of)) * 2.0 ** _exponent(of))


def tolerance(
    expected: Reference, gamma: Array, norm: Norm, rounding: Rounding, additions: int = 0
) -> Array:
    """Return the largest relative L2 error that rounding explains, shape (T,).

    Rows that may overflow, and those whose variance is out of the range of the accumulation type,
    have an infinite tolerance. Rows with an infinity or without numbers have one of 0: their
    result must have the same elements that are no numbers.

    Parameters
    ----------
    additions
        How many of bias and residual are added to the sum by `hpccoll.layernorm.norms.add_to`.
    """
    rows = sum_error(expected.total, expected.magnitude, rounding, additions)
    length = lengths(expected.y)
    with np.errstate(all="ignore"):
        error = norm_error(rows, expected.total, expected.rstd, norm, rounding)
        relative = error * largest_factor(gamma) / length + output_roundoff(rounding.storage)
    bounded: Array = np.where(np.isfinite(expected.magnitude).all(axis=1), relative, 0.0)
    return np.where(np.isnan(bounded), np.inf, bounded)


def sum_error(total: Array, magnitude: Array, rounding: Rounding, additions: int) -> Array:
    """Return a bound on the rms of a sum's rounding errors, shape (T,); infinite on overflow."""
    u, depth = unit_roundoff(rounding.storage), rounding.depth
    with np.errstate(all="ignore"):
        if rounding.wide and depth:
            u32 = unit_roundoff(np.dtype(np.float32))
            error = u * rms(total) + depth * u32 * rms(magnitude)
        else:
            error = depth * u * rms(magnitude)
        error += additions * u * rms(magnitude)
    peak = magnitude.max(axis=1, initial=0.0)
    return np.where(peak > largest(rounding.storage), np.inf, error)


def sum_roundoff(rounding: Rounding) -> float:
    """Return what sums over the ranks round off, relative to the terms' absolute values."""
    u = unit_roundoff(rounding.storage)
    if rounding.wide and rounding.depth:
        return u + rounding.depth * unit_roundoff(np.dtype(np.float32))
    return rounding.depth * u


def largest_factor(gamma: Array) -> float:
    """Return the most by which gamma takes an rms error of standardised rows to an L2 error."""
    return float(np.sqrt(gamma.size) * np.abs(gamma.astype(np.float64)).max())


def norm_error(rows: Array, total: Array, rstd: Array, norm: Norm, rounding: Rounding) -> Array:
    """Return a bound on the rms error of standardised rows, shape (T,).

    Parameters
    ----------
    rows
        The rms error of the rows before the norm, shape (T,).
    total, rstd
        Their values, shape (T, H), and the reciprocal roots, shape (T,).
    """
    of = accumulation(rounding.storage)
    u, hidden = unit_roundoff(of), total.shape[1]
    with np.errstate(all="ignore"):
        scale = rms(total)
        condition = scale * rstd
        error = rows * rstd + _steps(hidden, norm, rounding) * u * condition + 4 * u
        if norm.method == "one-pass":
            error += 2 * (np.log2(hidden) + 2) * u * condition**2
        squares = hidden * scale**2
        # Squares below the range of the type are lost; next to what is in range they don't count.
        lost = rstd**-2.0 * u < 2.0 ** -_exponent(of)
    return np.where((squares > largest(of)) | lost, np.inf, error)


def gradient_tolerance(
    expected: ReferenceGradients,
    forward: Reference,
    gamma: Array,
    norm: Norm,
    rounding: Rounding,
    additions: int = 0,
) -> tuple[Array, float, float]:
    """Return the largest relative L2 errors of the gradients of rows (T,), gamma and beta.

    The gradient of the rows is ``rstd`` times a projection of ``g = upstream * gamma``, so it takes
    over the error of g, and that of the standardised rows three times: once in the factor and
    twice in the projection. Those of gamma and beta add up the tokens one after another, or in
    any other order.
    """
    upstream, of = expected.upstream.total, rounding.storage
    steps = 2 * _steps(gamma.size, norm, rounding) * unit_roundoff(accumulation(of))
    with np.errstate(all="ignore"):
        rows = sum_error(forward.total, forward.magnitude, rounding, additions)
        norms = norm_error(rows, forward.total, forward.rstd, norm, rounding)
        summed = sum_error(upstream, expected.upstream.magnitude, rounding, 0)
        g = rms(upstream * gamma.astype(np.float64))
        error = largest_factor(gamma) * summed + (3 * norms + steps) * g * np.sqrt(gamma.size)
        dx = error * forward.rstd / lengths(expected.dx) + output_roundoff(of)
    return np.where(np.isnan(dx), np.inf, dx), *_parameters(expected, forward, norms, summed, of)


def _parameters(
    expected: ReferenceGradients,
    forward: Reference,
    norms: Array,
    summed: Array,
    of: np.dtype[Any],
) -> tuple[float, float]:
    """Return the tolerances of the gradients of gamma and beta.

    Parameters
    ----------
    norms, summed
        Bounds on the rms errors of the standardised rows and of the upstream gradients, per row.
    """
    upstream, standardized = expected.upstream.total, forward.standardized
    tokens, hidden = upstream.shape
    u, scale = (tokens + 1) * unit_roundoff(accumulation(of)), np.sqrt(hidden)
    with np.errstate(all="ignore"):
        products = np.abs(upstream).max(axis=1, initial=0.0) * norms
        products += np.abs(standardized).max(axis=1, initial=0.0) * summed
        gamma = scale * products.sum() + u * _length(np.abs(upstream * standardized).sum(axis=0))
        beta = scale * summed.sum() + u * _length(np.abs(upstream).sum(axis=0))
        relative = [gamma / _length(expected.dgamma)]
        relative += [0.0 if expected.dbeta is None else beta / _length(expected.dbeta)]
    dgamma, dbeta = (np.inf if np.isnan(value) else float(value) for value in relative)
    return dgamma, dbeta


def output_roundoff(of: np.dtype[Any]) -> float:
    """Return the relative error of storing a row that was computed in the accumulation type."""
    return unit_roundoff(of) if of.itemsize == 2 else 0.0


def rms(rows: Array) -> Array:
    """Return the root of the mean square of every row, shape (T,)."""
    return np.asarray(np.sqrt(np.square(rows).mean(axis=1)))


def lengths(rows: Array) -> Array:
    """Return the L2 norm of every row, shape (T,)."""
    return np.asarray(np.sqrt(np.square(rows).sum(axis=1)))


def _exponent(of: np.dtype[Any]) -> int:
    """Return the largest exponent of an IEEE format: it has all bits but the significand's."""
    return (1 << 8 * of.itemsize - SIGNIFICAND[of.name] - 1) - 1


def _steps(hidden: int, norm: Norm, rounding: Rounding) -> float:
    """Return the roundings that a row's statistics and norm add up, in units of k_s."""
    sums = hidden if norm.method == "welford" else np.log2(hidden)
    shards = max(rounding.shards, CHAN_SHARDS if norm.method == "chan" else 1)
    # Every merge rounds the mean and the squares about twice each.
    return float(12 + sums + 4 * (shards - 1))


def _length(values: Array) -> np.float64:
    return np.float64(np.sqrt(np.square(values).sum()))
