"""Sums of floats that have the same bits in whatever order and groups their terms are added.

A float is a whole number of units, the unit being the smallest subnormal. The bits of that number
are cut into absolute bins of W bits: bin i has the bits W*i to W*i + W - 1. How a term is cut
depends on the term alone. An accumulator has an index and three fields, which are whole numbers:
what the terms have in bins `index`, `index` - 1 and `index` - 2, each term with its sign, added up.
The index of a term is the bin that the leading bit of its exponent's range falls into, so that it
grows with the magnitude. Merging keeps the larger index, aligns the fields by whole bins, drops
those below the third, and adds integers. Nothing is rounded, and where a term is cut off follows
from the largest term alone. So an accumulator is a function of the multiset of its terms, and
neither the algorithm, the number and order of ranks, nor the cutting of messages can change it.

====================  =============  =============
of                    float32        float64
====================  =============  =============
accumulator           3 x int32      3 x int64
bits of a bin, W      14             46
bits of a field       30             62
index of a number     1 to 19        1 to 45
====================  =============  =============

The lowest two bits of every word hold a third of the index. A term has less than 2**W in a field,
which `TERMS` = 2**15 of them can't bring to 2**(W + 15), and a field goes to 2**(W + 15) - 1: no
carry is ever needed. A term's own bits, 24 or 53, always fit into its three bins.

The result is the value of the three fields rounded once, to nearest even. Other values:

- Index 0 stands for -0: the sum is -0 if all terms are, as IEEE 754 has it; any other zero is +0.
- Index 63 is above that of every number, so that numbers are dropped beside it. Its fields count
  the terms that are +inf, -inf and NaN. A NaN, or infinities of both signs, give the canonical NaN.
- There is no intermediate overflow; the sum is infinite only if its rounded value is too large.

Accuracy. Of n terms, the largest magnitude M, the exact sum S, the unit roundoff u (2**-24 or
2**-53): M is at least 2**(W*index) units, or subnormal, and then nothing is dropped. Every other
term loses less than 2**(W*(index - 2)) units, hence less than M * 2**(-2*W), and the result is
rounded by at most u of what is left. So

    abs(result - S) <= u * abs(S) + (1 + u) * (n - 1) * 2**(-2*W) * M,

with 2**(-2*W) = u/16 of float32 and 2**-39 * u of float64. For n > 2 that is less than the plain
sum's bound, (n - 1) * u * sum(abs(x)), which every order of additions has (Jeannerod, Rump, SIAM J.
Matrix Anal. Appl. 34(2), 2013, doi:10.1137/120894488): abs(S) and M are at most sum(abs(x)), and
1 + (n - 1)/16 is less than n - 1. Of two terms the plain sum rounds once and is the nearest float;
this one can be off by u/16 of the larger term more.

References
----------
Demmel, Nguyen, ARITH 2013, doi:10.1109/ARITH.2013.9: bins that are the same for all terms.
Ahrens, Nguyen, Demmel, UCB/EECS-2016-121: accumulators of three bins, and merging them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

TERMS = 1 << 15
"""Terms that a sum can have."""

MINUS_ZERO, SPECIAL = 0, 63
"""Indices that aren't a bin's."""

_SPARE = 18
"""Bits of a word beside those of a bin: 15 for the number of terms, a sign, 2 of the index."""
_THIRDS = np.array([4, 2, 0])
"""Where the bits of the index begin that the words hold."""

ACCUMULATORS = {
    "float32": np.dtype([("words", np.int32, 3)]),
    "float64": np.dtype([("words", np.int64, 3)]),
}
"""The accumulators' types by the name of their terms' type."""


@dataclass(frozen=True, slots=True)
class _Format:
    """How a float type is cut.

    Attributes
    ----------
    bits, width
        Of a word, and of a bin.
    fraction
        Bits of a float's fraction.
    unit
        Exponent of the smallest subnormal.
    """

    bits: int
    width: int
    fraction: int
    unit: int

    @property
    def word(self) -> np.dtype[Any]:
        """Return the unsigned type of a word."""
        return np.dtype(f"u{self.bits // 8}")


def _format(of: np.dtype[Any]) -> _Format:
    """Return the format of a float type."""
    about, bits = np.finfo(of), 8 * of.itemsize
    return _Format(bits, bits - _SPARE, about.nmant, int(about.minexp) - about.nmant)


def encode(values: Array, into: Array) -> None:
    """Make an accumulator of every float.

    Parameters
    ----------
    values
        float32 or float64, shape ``(n,)``.
    into
        Their `ACCUMULATORS`, shape ``(n,)``.
    """
    form = _format(values.dtype)
    word = form.word.type
    bits, top, hidden = values.view(form.word), word(1 << form.bits - 1), word(1 << form.fraction)
    fraction, biased = bits & (hidden - word(1)), (bits & ~top) >> word(form.fraction)
    significand = fraction | (biased != 0) * hidden
    exponent = np.maximum(biased, word(1))
    index = (exponent + word(form.fraction - 1)) // word(form.width)
    shift = word(form.width) * index + word(1) - exponent
    rest, spare = significand << (word(form.bits) - shift), word(_SPARE)
    digits = (significand >> shift, rest >> spare, rest << word(form.width) >> spare)
    fields = np.stack(digits, axis=1).astype(np.int64)
    fields[bits >= top] *= -1
    index[bits == top] = MINUS_ZERO
    special = biased == biased.dtype.type((1 << form.bits - 1 - form.fraction) - 1)
    index[special] = SPECIAL
    kinds = (fraction == 0) & (bits < top), (fraction == 0) & (bits >= top), fraction != 0
    fields[special] = np.stack(kinds, axis=1)[special]
    _store(fields, index.astype(np.int64), into)


def merge(left: Array, right: Array, out: Array | None = None) -> Array:
    """Add the sums of two arrays of accumulators; `out` may be either of them."""
    (one, high), (other, low) = _loaded(left), _loaded(right)
    index = np.maximum(high, low)
    out = np.empty_like(left) if out is None else out
    _store(_aligned(one, index - high) + _aligned(other, index - low), index, out)
    return out


def decode(accumulators: Array, into: Array) -> None:
    """Round every accumulator to a float, once, to nearest even.

    Parameters
    ----------
    accumulators
        Shape ``(n,)``.
    into
        Floats of their terms' type, shape ``(n,)``.
    """
    form = _format(into.dtype)
    fields, index = _loaded(accumulators)
    special = index == SPECIAL
    plus, minus, nan = (fields[special] != 0).T
    with np.errstate(over="ignore"):  # that is how a sum becomes infinite
        whole = _ROUNDED[into.dtype.name](np.where(special[:, None], 0, fields))
        exponent = form.unit + form.width * (np.where(special, 0, index) - 2)
        into[:] = np.ldexp(whole, exponent).astype(into.dtype)
    into[index == MINUS_ZERO] = -0.0
    into[special] = np.where(nan | (plus & minus), np.nan, np.where(plus, np.inf, -np.inf))


def _loaded(accumulators: Array) -> tuple[Array, Array]:
    """Return the fields, shape ``(n, 3)``, and the indices, both int64."""
    words = accumulators["words"].astype(np.int64)
    return words >> 2, ((words & 3) << _THIRDS).sum(axis=1)


def _store(fields: Array, index: Array, into: Array) -> None:
    into["words"] = fields << 2 | index[:, None] >> _THIRDS & 3


def _aligned(fields: Array, down: Array) -> Array:
    """Return fields `down` bins further down; those that leave the three bins are dropped."""
    padded = np.concatenate([np.zeros_like(fields), fields], axis=1)
    places = 3 + np.arange(3) - np.minimum(down, 3)[:, None]
    return np.take_along_axis(padded, places, axis=1)


def _rounded_float32(fields: Array) -> Array:
    """Return, in float64, numbers that round to the same float32 as the fields' values.

    From 2**52 on the value's lowest six bits become 32 unless they are zero. That is exact in
    float64, and on the same side of whatever float32 or middle between two is near.
    """
    whole = (fields[:, 0] << 28) + (fields[:, 1] << 14) + fields[:, 2]
    coarse = whole & ~63 | (whole & 63 != 0) << 5
    coarse = np.where(np.abs(whole) < 1 << 52, whole, coarse)
    return coarse.astype(np.float64)


def _rounded_float64(fields: Array) -> Array:
    """Return the float64 nearest to the fields' values, without bounds of the exponent.

    Sums below the smallest normal number are whole numbers of units, so `ldexp` is exact there.
    """
    negative = _carried(fields)[:, 0] < 0
    top, middle, bottom = _carried(np.where(negative[:, None], -fields, fields)).T
    # The same in digits of 52, 51 and 51 bits, each of them exact in float64.
    digits = (top >> 10, (top & 1023) << 41 | middle >> 5, (middle & 31) << 46 | bottom)
    first, second, third = (digit.astype(np.float64) for digit in digits)
    first, second = first * 2.0**102, second * 2.0**51
    tail = second + third
    rest = third - (tail - second)
    nearest = first + tail
    error = tail - (nearest - first)
    # What is left over decides only where the rounding before it was a tie.
    other = nearest + 2 * error
    tie = (error * rest > 0) & (other - nearest == 2 * error)
    magnitude: Array = np.where(tie, other, nearest)
    return magnitude * np.where(negative, -1, 1)


def _carried(fields: Array) -> Array:
    """Return fields of float64 of the same value, the lower two from 0 to 2**46 - 1."""
    top, middle, bottom = fields.T
    middle = middle + (bottom >> 46)
    mask = (1 << 46) - 1
    return np.stack([top + (middle >> 46), middle & mask, bottom & mask], axis=1)


_ROUNDED: dict[str, Callable[[Array], Array]] = {
    "float32": _rounded_float32,
    "float64": _rounded_float64,
}
