"""What a norm of the sum over all ranks is, exactly enough to judge float64 by it.

Sums over the ranks are compensated: an error-free transformation carries along what each float64
addition rounds off, so that the total is as good as one of 106 bits. The mean is corrected by the
mean of what it leaves, so that a large mean costs the norm no digits.

References
----------
Ogita, Rump, Oishi, Accurate Sum and Dot Product, SIAM J. Sci. Comput. 26(6), 2005,
doi:10.1137/030601818.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hpccoll.datatypes import Array
from hpccoll.layernorm.norms import Norm, chunks


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum of rows, element by element.

    Attributes
    ----------
    high, low
        The float64 nearest to the sum but for a unit, and what remains; shape (T, H).
    magnitude
        The sum of the absolute values, shape (T, H).
    """

    high: Array
    low: Array
    magnitude: Array

    @property
    def total(self) -> Array:
        """Return the sum, rounded once, shape (T, H)."""
        return _collapsed(self.high, self.low)


@dataclass(frozen=True, slots=True)
class Reference:
    """The norm of a sum in float64.

    Attributes
    ----------
    total, standardized, y
        Shape (T, H): the sum, ``(total - mean) * rstd``, and that by gamma plus beta.
    mean, rstd
        Shape (T,): the mean, None for RMSNorm, and the reciprocal of the root.
    magnitude
        Shape (T, H): the sum of the summands' absolute values, of which rounding errors are parts.
    """

    total: Array
    standardized: Array
    y: Array
    mean: Array | None
    rstd: Array
    magnitude: Array


@dataclass(frozen=True, slots=True)
class ReferenceGradients:
    """Gradients in float64: of the rows (T, H), gamma (H,) and beta (H,), None for RMSNorm.

    Attributes
    ----------
    upstream
        The sum of all ranks' gradients of the norm's output.
    """

    dx: Array
    dgamma: Array
    dbeta: Array | None
    upstream: Sum


def exact_sum(terms: Iterable[Array]) -> Sum:
    """Return the sum of terms that broadcast to the shape of the first, (T, H)."""
    remaining = iter(terms)
    high = next(remaining).astype(np.float64)
    low, magnitude = np.zeros(high.shape), np.abs(high)
    with np.errstate(all="ignore"):
        for term in remaining:
            whole = np.broadcast_to(term, high.shape)
            for chunk in chunks(high):
                part = whole[chunk].astype(np.float64)
                high[chunk], error = _two_sum(high[chunk], part)
                low[chunk] += error
                magnitude[chunk] += np.abs(part)
    return Sum(high, low, magnitude)


def reference(terms: Iterable[Array], gamma: Array, beta: Array | None, norm: Norm) -> Reference:
    """Return the norm of the sum of the terms: the ranks' parts, the residual and the bias."""
    summed = exact_sum(terms)
    with np.errstate(all="ignore"):
        standardized, mean, rstd = standardize(summed.high, norm, summed.low)
        y = standardized * gamma.astype(np.float64)
        if beta is not None:
            y += beta.astype(np.float64)
    return Reference(summed.total, standardized, y, mean, rstd, summed.magnitude)


def standardize(
    rows: Array, norm: Norm, low: Array | None = None
) -> tuple[Array, Array | None, Array]:
    """Return float64 rows, plus `low`, standardised; their means; and the reciprocal roots.

    However large the mean, an element is off by a few units of its own.
    """
    standardized, mean, rstd = np.empty(rows.shape), np.zeros(len(rows)), np.empty(len(rows))
    with np.errstate(all="ignore"):
        for chunk in chunks(rows):
            part, error = rows[chunk], np.zeros(1) if low is None else low[chunk]
            if norm.centred:
                part, mean[chunk] = _centred(part, error)
            else:
                part = _collapsed(part, error)
            rstd[chunk] = 1 / np.sqrt(np.square(part).mean(axis=1) + norm.eps)
            standardized[chunk] = part * rstd[chunk, np.newaxis]
    return standardized, mean if norm.centred else None, rstd


def reference_gradients(
    forward: Reference, upstream: Iterable[Array], gamma: Array, norm: Norm
) -> ReferenceGradients:
    """Return the gradients that the sum of the ranks' upstream gradients gives."""
    summed = exact_sum(upstream)
    total, standardized = summed.total, forward.standardized
    with np.errstate(all="ignore"):
        g = total * gamma.astype(np.float64)
        dx = g - standardized * (g * standardized).mean(axis=1, keepdims=True)
        if norm.centred:
            dx -= g.mean(axis=1, keepdims=True)
        dx *= forward.rstd[:, np.newaxis]
        dgamma, dbeta = (total * standardized).sum(axis=0), total.sum(axis=0)
    return ReferenceGradients(dx, dgamma, dbeta if norm.centred else None, summed)


def _centred(rows: Array, low: Array) -> tuple[Array, Array]:
    """Return the rows plus `low` less their mean, and the mean."""
    mean = rows.mean(axis=1)
    difference, error = _two_sum(rows, -mean[:, np.newaxis])
    centred = _collapsed(difference, error + low)
    # The mean was rounded; what it left is small, so its own mean is as good as exact.
    left = centred.mean(axis=1)
    return centred - left[:, np.newaxis], mean + left


def _two_sum(left: Array, right: Array) -> tuple[Array, Array]:
    """Return the rounded sum and its error, exactly (Knuth, TAOCP 2, section 4.2.2)."""
    total = left + right
    virtual = total - left
    return total, (left - (total - virtual)) + (right - virtual)


def _collapsed(high: Array, low: Array) -> Array:
    """Return ``high + low``: without a low part high itself, whose zero may be negative.

    The low part of an infinity is no number and means nothing.
    """
    return np.where((low != 0) & np.isfinite(high), high + low, high)
