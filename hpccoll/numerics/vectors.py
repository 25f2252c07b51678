"""Vectors to be summed: made by chance, each kind with another difficulty, or read from a file."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np

from hpccoll.datatypes import SIGNIFICAND, Array
from hpccoll.errors import UsageError, unknown

Make: TypeAlias = Callable[[int, int, int, str], Array]

SUFFIX = ".npy"
"""How the names of files end."""
EXPONENTS = (-20, 10)
"""The least and the largest power of 2 by which `scaled` multiplies: what float16 can hold."""


def _each(rank: int, count: int, seed: int) -> np.random.Generator:
    """Return the source of chance of one rank, the same for any number of ranks."""
    return np.random.default_rng([seed, rank, count])


def uniform(size: int, count: int, seed: int, dtype: str) -> Array:
    """Draw uniformly from 0 to 1: nothing cancels, and partial sums grow."""
    return np.stack([_each(rank, count, seed).random(count) for rank in range(size)])


def normal(size: int, count: int, seed: int, dtype: str) -> Array:
    """Draw from the standard normal distribution, as gradients and partial products are."""
    return np.stack([_each(rank, count, seed).standard_normal(count) for rank in range(size)])


def offset(size: int, count: int, seed: int, dtype: str) -> Array:
    """Draw from the normal distribution with mean 100: partial sums lose the small differences."""
    vectors: Array = normal(size, count, seed, dtype) + 100
    return vectors


def scaled(size: int, count: int, seed: int, dtype: str) -> Array:
    """Draw from the normal distribution, each times 2**k with k from -20 to 10 by chance."""
    vectors = []
    for rank in range(size):
        rng = _each(rank, count, seed)
        factors = 2.0 ** rng.integers(*EXPONENTS, count, endpoint=True)
        vectors.append(rng.standard_normal(count) * factors)
    return np.stack(vectors)


def cancelling(size: int, count: int, seed: int, dtype: str) -> Array:
    """Draw as `scaled`; the last rank has what brings the sum close to 0.

    So wide a range of magnitudes shows the order even where 16-bit floats are summed in float32,
    which holds the sums of a few numbers of like magnitude exactly.
    """
    vectors = scaled(size, count, seed, dtype)
    if size > 1:
        vectors[-1] = -vectors[:-1].sum(axis=0)
    return vectors


def integers(size: int, count: int, seed: int, dtype: str) -> Array:
    """Draw integers so small that every partial sum is exact: no order may change a bit.

    Where a type is too narrow for so many ranks, the last ones have 0.
    """
    limit = 1 << SIGNIFICAND[dtype]
    most = max(1, min(limit // size, 1 << 20))
    vectors = [_each(r, count, seed).integers(-most, most + 1, count) for r in range(size)]
    drawn: Array = np.stack(vectors).astype(np.float64)
    drawn[limit:] = 0
    return drawn


KINDS: dict[str, Make] = {
    make.__name__: make for make in (uniform, normal, offset, scaled, cancelling, integers)
}
"""What can be made, by name."""


def make(kind: str, size: int, count: int, seed: int, dtype: np.dtype[np.generic]) -> Array:
    """Return a vector per rank, shape ``(size, count)``, of one of `KINDS` or from a file.

    The vector of a rank is the same for any number of ranks (of ``cancelling`` but the last one's,
    of ``integers`` not at all). A file must have `count` columns and at least `size` rows.
    """
    if kind.endswith(SUFFIX):
        vectors = read(kind)[:size]
    else:
        vectors = KINDS[kind](size, count, seed, dtype.name)
    with np.errstate(over="ignore"):  # what the type can't hold is infinite, and reported as such
        rounded: Array = vectors.astype(dtype)
    return rounded


def check(kind: str) -> None:
    """Raise `UsageError` if there is no such kind; files are checked by `read`."""
    if not kind.endswith(SUFFIX) and kind not in KINDS:
        raise UsageError(unknown("input", kind, [*KINDS, f"FILE{SUFFIX}"]))


def read(name: str) -> Array:
    """Return the vectors in a file of numpy's, one per row.

    Raises
    ------
    UsageError
        It can't be read, or isn't a matrix of real numbers with an element.
    """
    try:
        found: Array = np.load(Path(name), allow_pickle=False)
    except OSError as error:
        raise UsageError(f"{name} can't be read: {error.strerror or error}; {_WANTED}") from None
    except (ValueError, EOFError) as error:
        raise UsageError(f"{name} isn't a file of numpy's ({error}); {_WANTED}") from None
    if not isinstance(found, np.ndarray) or found.ndim != 2 or found.dtype.kind not in "fiu":
        shape = getattr(found, "shape", "several arrays")
        raise UsageError(f"{name} has {shape} of {getattr(found, 'dtype', 'any type')}; {_WANTED}")
    if not found.size:
        raise UsageError(f"{name} has no elements; {_WANTED}")
    return found


_WANTED = "save a matrix of real numbers, a row per rank, with numpy.save"
