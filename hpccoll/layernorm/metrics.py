"""How far two results are apart, row by row, and to the bit."""

from hashlib import blake2b

import numpy as np

from hpccoll.datatypes import Array, bits
from hpccoll.layernorm.norms import chunks
from hpccoll.layernorm.tolerance import lengths, unit_roundoff


def relative_l2(y: Array, expected: Array) -> Array:
    """Return the error's length over that of the expected row, shape (T,).

    No numbers where none are expected count as equal; anywhere else they are an infinite error.
    An error where zeros are expected is infinite too.
    """
    errors = np.empty(len(y))
    with np.errstate(all="ignore"):
        for chunk in chunks(y):
            got, wanted = y[chunk].astype(np.float64), expected[chunk].astype(np.float64)
            missing = np.isnan(got) != np.isnan(wanted)
            # Equal infinities have no difference.
            off = np.where((got == wanted) | np.isnan(wanted), 0.0, got - wanted)
            length = lengths(np.where(np.isnan(wanted), 0.0, wanted))
            relative = np.where(lengths(off) == 0, 0.0, lengths(off) / length)
            errors[chunk] = np.where(missing.any(axis=1) | np.isnan(relative), np.inf, relative)
    return errors


def norm_ulps(y: Array, expected: Array) -> Array:
    """Return a row's largest error in units of the last place of 1 in the type of y, shape (T,).

    Elements near 0 have a smaller unit of their own, and harmless errors of thousands of those.
    """
    errors = np.abs(y.astype(np.float64) - expected).max(axis=1, initial=0.0)
    ulps: Array = errors / (2 * unit_roundoff(y.dtype))
    return ulps


def cosine(y: Array, expected: Array) -> Array:
    """Return the cosine of the angle between rows, shape (T,); 0 / 0 is no number."""
    got, wanted = y.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        cosines: Array = (got * wanted).sum(axis=1) / (lengths(got) * lengths(wanted))
    return cosines


def bit_equal(left: Array, right: Array) -> float:
    """Return the share of elements whose bits are equal, any two NaNs too; 1 without elements."""
    equal = (bits(left) == bits(right)) | (np.isnan(left) & np.isnan(right))
    return float(equal.mean()) if equal.size else 1.0


def digest(rows: Array) -> str:
    """Return a digest of the shape and the elements' bits, which holds all NaNs for one value.

    IEEE 754 leaves open which operand's NaN a sum has.
    """
    hashed = blake2b(f"{rows.dtype.name} {rows.shape}".encode(), digest_size=16)
    for chunk in chunks(rows):
        part = np.ascontiguousarray(rows[chunk])
        missing = np.isnan(part)
        if missing.any():
            part = part.copy()
            part[missing] = np.nan
        hashed.update(bits(part).tobytes())
    return hashed.hexdigest()
