"""Gradients of a norm, of whole rows or of shards of the hidden dimension.

For the saved rows and statistics they are linear in the gradient of the norm's output: so, unlike
the norm, they may be computed before a reduction as well as after it.
"""

import numpy as np

from hpccoll.datatypes import Array
from hpccoll.layernorm.norms import Norm, Statistics, converted, parts, standardized


def backward(
    grad: Array, rows: Array, stats: Statistics, gamma: Array, norm: Norm
) -> tuple[Array, Array, Array | None]:
    """Return the gradients of the rows, of gamma and of beta, as `backward_apply` does."""
    sums = backward_sums(grad, rows, stats, gamma, norm)
    return backward_apply(grad, rows, stats, gamma, norm, sums, rows.shape[1])


def backward_sums(grad: Array, rows: Array, stats: Statistics, gamma: Array, norm: Norm) -> Array:
    """Return what the gradient needs of every row: sums over the columns, or a shard of them.

    With ``g = grad * gamma`` and the standardised row x: the sum of ``g * x`` and, for LayerNorm,
    that of ``g``. The sums of all shards, added, are those of the whole row.

    Returns
    -------
    array
        Shape (2, T), or (1, T) for RMSNorm, of the accumulation type.
    """
    of = stats.rstd.dtype
    sums, gamma = np.empty((1 + norm.centred, len(rows)), of), gamma.astype(of)
    with np.errstate(all="ignore"):
        for chunk, part in parts(rows):
            g = converted(grad[chunk], of) * gamma
            sums[1:, chunk] = g.sum(axis=1)
            g *= standardized(part, stats, chunk)
            sums[0, chunk] = g.sum(axis=1)
    return sums


def backward_apply(
    grad: Array,
    rows: Array,
    stats: Statistics,
    gamma: Array,
    norm: Norm,
    sums: Array,
    hidden: int,
) -> tuple[Array, Array, Array | None]:
    """Return the gradients of the columns given, from the sums over whole rows.

    ``rstd * (g - mean(g) - x * mean(g * x))``, without ``mean(g)`` for RMSNorm: exact with the
    epsilon inside the root.

    Parameters
    ----------
    sums
        What `backward_sums` gave for the whole rows, of `hidden` elements each.

    Returns
    -------
    tuple
        The gradient of the rows, in their type; those of gamma and beta, shape (H,), in the
        accumulation type; RMSNorm has no beta (None).
    """
    of = stats.rstd.dtype
    means, gamma = sums / of.type(hidden), gamma.astype(of)
    dx = np.empty(rows.shape, rows.dtype)
    dgamma, dbeta = np.zeros((2, rows.shape[1]), of)
    with np.errstate(all="ignore"):
        for chunk, part in parts(rows):
            upstream = converted(grad[chunk], of)
            x = standardized(part, stats, chunk)
            dgamma += (upstream * x).sum(axis=0)
            dbeta += upstream.sum(axis=0)
            g = upstream * gamma
            for mean in means[1:, chunk]:
                g -= mean[:, np.newaxis]
            g -= x * means[0, chunk, np.newaxis]
            dx[chunk] = g * stats.rstd[chunk, np.newaxis]
    return dx, dgamma, dbeta if norm.centred else None
