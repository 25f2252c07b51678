"""LayerNorm and RMSNorm of rows, whole or in shards of the hidden dimension.

A row s of H elements becomes ``gamma * (s - mean) / sqrt(var + eps) + beta`` or, for RMSNorm,
``gamma * s / sqrt(mean(s**2) + eps)``. The result is defined to the bit: rows of 16-bit floats are
converted to float32, computed in it and rounded once; a row's bits depend on nothing but the row,
so that shards of the rows give what the whole gives.

References
----------
Ba, Kiros, Hinton, Layer Normalization, arXiv:1607.06450. Zhang, Sennrich, Root Mean Square Layer
Normalization, arXiv:1910.07467.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from hpccoll.datatypes import Array
from hpccoll.errors import UsageError, unknown

NORMS = ("layernorm", "rmsnorm")
METHODS = ("two-pass", "one-pass", "welford", "chan")
"""Ways to compute a variance: about the mean, ``E[x**2] - mean**2``, Welford's running update, and
Chan's merge of the moments of `CHAN_SHARDS` parts of the row."""

CHAN_SHARDS = 8

_CHUNK = 1 << 16
"""Elements that are computed at a time, so that intermediate results stay in the cache."""


@dataclass(frozen=True, slots=True)
class Norm:
    """A norm, the method that computes its statistics, and the epsilon inside the root.

    RMSNorm has no mean to subtract, so its one method is called two-pass too.

    Raises
    ------
    UsageError
        The kind or method is unknown or they don't go together, or eps is negative or not finite.
    """

    kind: str = "layernorm"
    method: str = "two-pass"
    eps: float = 1e-5

    def __post_init__(self) -> None:
        if self.kind not in NORMS:
            raise UsageError(unknown("norm", self.kind, NORMS))
        if self.method not in METHODS:
            raise UsageError(unknown("method", self.method, METHODS))
        if self.kind == "rmsnorm" and self.method != "two-pass":
            raise UsageError(
                f"{self.method} is a method for the variance, and rmsnorm has none; "
                "choose --norm layernorm, or leave out --method"
            )
        if not 0 <= self.eps < float("inf"):
            raise UsageError(f"eps must be finite and not negative, got {self.eps}")

    @property
    def centred(self) -> bool:
        """Tell whether the mean is subtracted."""
        return self.kind == "layernorm"


@dataclass(frozen=True, slots=True)
class Moments:
    """Per row: elements counted, their mean, and the sum of squares about it.

    Attributes
    ----------
    mean, m2
        Shape (T,), of the accumulation type. RMSNorm has no mean (None) and counts squares about 0.
    """

    count: int
    mean: Array | None
    m2: Array


@dataclass(frozen=True, slots=True)
class Statistics:
    """Per row: the mean, None for RMSNorm, and the reciprocal of the root; shape (T,)."""

    mean: Array | None
    rstd: Array

    @property
    def nonfinite(self) -> Array:
        """Tell, per row, whether the variance overflowed, was negative or is no number.

        After an overflow the output is a silent 0 (or beta).
        """
        flagged: Array = (self.rstd == 0) | np.isnan(self.rstd)
        return flagged


def accumulation(of: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type that rows of a type are computed in: float64 for itself, else float32."""
    return np.dtype(np.float64 if of == np.float64 else np.float32)


def statistics(rows: Array, norm: Norm) -> Statistics:
    """Return the statistics of the rows, shape (T, H)."""
    return finish(moments(rows, norm), norm)


def moments(rows: Array, norm: Norm) -> Moments:
    """Return the moments of the rows, or of a shard of their columns, shape (T, H)."""
    of = accumulation(rows.dtype)
    mean, m2 = np.empty(len(rows), of), np.empty(len(rows), of)
    compute = _METHOD[norm.method] if norm.centred else _squares
    # Welford's loop runs over the columns: many rows at a time make its steps worth their call.
    with np.errstate(all="ignore"):
        for chunk, part in parts(rows, _CHUNK << 6 if compute is _welford else _CHUNK):
            mean[chunk], m2[chunk] = compute(part)
    return Moments(rows.shape[1], mean if norm.centred else None, m2)


def merge(parts: Sequence[Moments]) -> Moments:
    """Merge the moments of shards from left to right; shards without columns count for nothing.

    References
    ----------
    Chan, Golub, LeVeque, The American Statistician 37(3), 1983, doi:10.1080/00031305.1983.10483115.
    """
    with np.errstate(all="ignore"):
        return reduce(_merged, [part for part in parts if part.count] or parts[:1])


def finish(moments: Moments, norm: Norm) -> Statistics:
    """Return the statistics that the moments of whole rows give."""
    of = moments.m2.dtype.type
    with np.errstate(all="ignore"):
        rstd = of(1) / np.sqrt(moments.m2 / of(moments.count) + of(norm.eps))
    return Statistics(moments.mean, rstd)


def apply(
    rows: Array, stats: Statistics, gamma: Array, beta: Array | None, out: Array | None = None
) -> Array:
    """Return the normalised rows in the type of `rows`; `out` may be `rows` itself.

    Parameters
    ----------
    rows
        Shape (T, H), or a shard of the columns with that of `gamma` and `beta`.
    beta
        Shape (H,); None adds nothing.
    """
    out = np.empty(rows.shape, rows.dtype) if out is None else out
    of = stats.rstd.dtype
    gamma, beta = gamma.astype(of), None if beta is None else beta.astype(of)
    with np.errstate(all="ignore"):
        for chunk, part in parts(rows):
            normalized = standardized(part, stats, chunk)
            normalized *= gamma
            if beta is not None:
                normalized += beta
            out[chunk] = normalized
    return out


def add_to(rows: Array, terms: Sequence[Array], out: Array | None = None) -> Array:
    """Return the rows plus the terms, from left to right, rounded once to the type of `rows`.

    Parameters
    ----------
    terms
        The bias, shape (H,), the residual, shape (T, H), or both; without any the rows are copied.
    out
        Where the result goes; may be `rows` itself.
    """
    out = np.empty(rows.shape, rows.dtype) if out is None else out
    with np.errstate(all="ignore"):
        for chunk, part in parts(rows):
            for term in terms:
                part = part + (term if term.ndim == 1 else term[chunk]).astype(part.dtype)
            out[chunk] = part
    return out


def normalize(
    rows: Array, gamma: Array, beta: Array | None, norm: Norm, out: Array | None = None
) -> tuple[Array, Statistics]:
    """Return the normalised rows, as `apply` does, and their statistics."""
    stats = statistics(rows, norm)
    return apply(rows, stats, gamma, beta, out), stats


def chunks(rows: Array, elements: int = _CHUNK) -> Iterator[slice]:
    """Yield slices of rows, of about so many elements each."""
    step = max(1, elements // max(1, rows.shape[1]))
    for first in range(0, len(rows), step):
        yield slice(first, first + step)


def parts(rows: Array, elements: int = _CHUNK) -> Iterator[tuple[slice, Array]]:
    """Yield the rows some at a time, C-contiguous and in the accumulation type.

    numpy sums in another order along an axis that isn't the contiguous one.
    """
    for chunk in chunks(rows, elements):
        yield chunk, converted(rows[chunk], accumulation(rows.dtype))


def converted(rows: Array, to: np.dtype[Any]) -> Array:
    """Return the rows C-contiguous in a type: themselves if they are."""
    return np.ascontiguousarray(rows, dtype=to)


def standardized(part: Array, stats: Statistics, chunk: slice) -> Array:
    """Return ``(part - mean) * rstd`` of rows that are the given chunk of those of `stats`."""
    rstd = stats.rstd[chunk, np.newaxis]
    if stats.mean is None:
        return part * rstd
    centred = part - stats.mean[chunk, np.newaxis]
    centred *= rstd
    return centred


def _merged(left: Moments, right: Moments) -> Moments:
    count, of = left.count + right.count, left.m2.dtype.type
    if left.mean is None or right.mean is None:
        return Moments(count, None, left.m2 + right.m2)
    delta = right.mean - left.mean
    mean = left.mean + delta * of(right.count / count)
    m2 = left.m2 + right.m2 + delta * delta * of(left.count * right.count / count)
    return Moments(count, mean, m2)


def _squares(rows: Array) -> tuple[Array, Array]:
    """Return 0 for the mean, and the sum of squares about it."""
    squares = rows * rows
    return np.zeros(len(rows), rows.dtype), squares.sum(axis=1)


def _two_pass(rows: Array) -> tuple[Array, Array]:
    mean = rows.sum(axis=1) / rows.dtype.type(max(1, rows.shape[1]))
    centred = rows - mean[:, np.newaxis]
    centred *= centred
    return mean, centred.sum(axis=1)


def _one_pass(rows: Array) -> tuple[Array, Array]:
    total = rows.sum(axis=1)
    mean = total / rows.dtype.type(max(1, rows.shape[1]))
    return mean, _squares(rows)[1] - mean * total


def _welford(rows: Array) -> tuple[Array, Array]:
    """Update mean and squares element by element.

    References
    ----------
    Welford, Technometrics 4(3), 1962, doi:10.1080/00401706.1962.10490022.
    """
    mean, m2 = np.zeros((2, len(rows)), rows.dtype)
    for k, column in enumerate(np.ascontiguousarray(rows.T), start=1):
        delta = column - mean
        mean += delta / rows.dtype.type(k)
        m2 += delta * (column - mean)
    return mean, m2


def _chan(rows: Array) -> tuple[Array, Array]:
    shards = np.array_split(rows, CHAN_SHARDS, axis=1)
    moments = [Moments(s.shape[1], *_two_pass(np.ascontiguousarray(s))) for s in shards]
    merged = merge(moments)
    assert merged.mean is not None
    return merged.mean, merged.m2


_METHOD: dict[str, Callable[[Array], tuple[Array, Array]]] = {
    "two-pass": _two_pass,
    "one-pass": _one_pass,
    "welford": _welford,
    "chan": _chan,
}
