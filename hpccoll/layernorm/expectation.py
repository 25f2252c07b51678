"""Cosine and length of an order's deviation, expected of long rows of independent values.

Such rows are vectors in a space with one axis for each independent source: the ranks' parts, the
bias and the residual. The inner product of two is the mean of their product; the norm divides a row
by the root of its square and epsilon. Sampled rows agree within some 1 / sqrt(H).
"""

from dataclasses import dataclass

import numpy as np

from hpccoll.datatypes import Array
from hpccoll.layernorm.inputs import BIAS, REST, Inputs
from hpccoll.layernorm.norms import Norm
from hpccoll.layernorm.theory import SUMS_OF_BETAS, theory

INDEPENDENT = ("iid", "replicated", "scaled", "cancelling", "large-mean", "tiny-variance")
"""Inputs whose channels are drawn independently from one distribution."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """Of a result Y': its cosine with Y, and the length of Y' - Y over that of Y."""

    cosine: float
    relative_l2: float


def expectation(order: str, inputs: Inputs, norm: Norm) -> Expectation | None:
    """Return what the order's result is expected to be; None for rows that aren't so simple.

    For parts of scales a_r without epsilon, bias, residual and beta, the cosine of
    layernorm-reduce-bcast is ``sum(a_r) / (sqrt(p) * sqrt(sum(a_r**2)))``; at equal scales its
    deviation is ``sqrt(p) - 1``, and that of the mean ``1 - 1 / sqrt(p)``.
    """
    if inputs.name not in INDEPENDENT or (inputs.name == "large-mean" and not norm.centred):
        return None
    if theory(order).correct:
        return Expectation(1.0, 0.0)
    gamma, beta = (float(np.square(v.astype(np.float64)).mean()) for v in _parameters(inputs, norm))
    right = _normed(_parts(inputs).sum(axis=0) + _additions(inputs).sum(axis=0), norm)
    square = _inner(right, right)
    length = gamma * square + beta
    if order == "hidden-shards-alone":
        return _of_shards(inputs, norm, square, gamma * square / length)
    wrong, betas = _result(order, inputs, norm), inputs.size if order in SUMS_OF_BETAS else 1
    other = gamma * _inner(wrong, wrong) + betas**2 * beta
    inner = gamma * _inner(wrong, right) + betas * beta
    distance = np.sqrt(max(0.0, (other - 2 * inner + length) / length))
    return Expectation(float(inner / np.sqrt(other * length)), float(distance))


def cosine_tells(order: str, inputs: Inputs, norm: Norm) -> tuple[bool, str]:
    """Tell whether the cosine between results shows that the order is wrong, and why (not)."""
    expected = expectation(order, inputs, norm)
    if expected is None:
        return False, "the rows aren't simple enough to expect a cosine of them"
    if expected.cosine > 0.99:
        return False, (
            f"the cosine is about {expected.cosine:.4f} though the relative L2 deviation is "
            f"{expected.relative_l2:.3g}: it doesn't see a factor"
        )
    return True, f"the cosine is about {expected.cosine:.3f}"


def _parameters(inputs: Inputs, norm: Norm) -> tuple[Array, Array]:
    return inputs.gamma, inputs.beta if norm.centred else np.zeros(1)


def _parts(inputs: Inputs) -> Array:
    """Return every rank's part as a vector: shape (p, p + 2), the last axes being the additions."""
    parts = np.diag(inputs.scales)
    if inputs.name == "replicated":
        parts = np.zeros(parts.shape)
        parts[:, 0] = inputs.scales[0]
    elif inputs.name == "cancelling":
        parts[0, 0] = REST
        parts[0, 1:] = -1.0
    return np.pad(parts, ((0, 0), (0, 2)))


def _additions(inputs: Inputs) -> Array:
    """Return the bias and the residual as vectors, zeros where they are left out."""
    scales = inputs.scale * np.array([BIAS * inputs.bias, inputs.residual])
    return np.pad(np.diag(scales), ((0, 0), (inputs.size, 0)))


def _inner(left: Array, right: Array) -> float:
    return float(left @ right)


def _normed(vector: Array, norm: Norm) -> Array:
    normed: Array = vector / np.sqrt(_inner(vector, vector) + norm.eps)
    return normed


def _result(order: str, inputs: Inputs, norm: Norm) -> Array:
    """Return the result of a wrong order before gamma and beta."""
    size, parts, (bias, residual) = inputs.size, _parts(inputs), _additions(inputs)
    own = parts.copy()
    own[0] += bias + residual
    if order in ("layernorm-reduce-bcast", "layernorm-mean"):
        summed: Array = np.sum([_normed(part, norm) for part in own], axis=0)
        return summed / size if order == "layernorm-mean" else summed
    if order in ("bcast-layernorm-reduce", "layernorm-bcast-reduce"):
        return size * _normed(own[0], norm)
    if order == "bcast-reduce-layernorm":
        return _normed(size * parts[0] + bias + residual, norm)
    more = bias if order == "bias-on-every-rank" else residual
    return _normed(own.sum(axis=0) + (size - 1) * more, norm)


def _of_shards(inputs: Inputs, norm: Norm, square: float, share: float) -> Expectation:
    """Return what means and variances of shards differ by: of independent values, 1.5 (p-1) / H.

    Parameters
    ----------
    square
        Mean square of a standardised element: below 1 where epsilon counts.
    share
        What of the result's square isn't beta's.
    """
    error = (inputs.size - 1) / inputs.hidden * (norm.centred + square**2 / 2) * share
    return Expectation(float(1 - error / 2), float(np.sqrt(error)))
