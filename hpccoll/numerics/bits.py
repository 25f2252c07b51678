"""What the order of summation does to a result: the bits that real ranks get, computed without MPI.

The summation trees of a schedule are evaluated with the operator that the engines use, so the
values are the engines' to the bit; only a NaN is no more than a NaN. How far they are from the
exact sum, which `math.fsum` gives, is told in units of the unit roundoff u of the element type.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import fsum
from typing import Any

import numpy as np

from hpccoll.datatypes import OPERATORS, SIGNIFICAND, Array, Operator, bits
from hpccoll.layout import Message, natural
from hpccoll.partition import Partition
from hpccoll.summation import Program, Trees, Use

CHUNK = 1 << 22
"""Values that are computed at a time, so that a large number of ranks needs little memory."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """In which types vectors are kept and summed.

    Attributes
    ----------
    storage
        The caller's type.
    wide
        The type of all partial results, which are rounded to `storage` once, at the end.
    """

    storage: np.dtype[Any]
    wide: np.dtype[Any]

    @property
    def roundoff(self) -> float:
        """Return u: the largest relative error of rounding to the caller's type."""
        return 2.0 ** -SIGNIFICAND[self.storage.name]

    def bound(self, depth: Array, exact: "Exact") -> Array:
        """Return the error that a tree of this depth has at most, to first order, per element.

        Each of the `depth` additions above an input rounds once, by u: d*u*sum|x|. In a wider type
        with roundoff w, one rounding of the sum comes on top: d*w*(1+u)*sum|x| + u*|sum|.

        References
        ----------
        Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 2002, section 4.2,
        doi:10.1137/1.9780898718027.
        """
        own = self.roundoff
        if self.wide == self.storage:
            limit: Array = depth * own * exact.magnitude
        else:
            wide = 2.0 ** -SIGNIFICAND[self.wide.name]
            limit = depth * wide * (1 + own) * exact.magnitude + own * np.abs(exact.high)
        return limit


@dataclass(frozen=True, slots=True)
class Sums:
    """What the ranks hold at the end.

    Attributes
    ----------
    values
        Shape ``(variants, count)``: where ranks hold a block in several variants, the lowest rank's
        is the first one; where in fewer than elsewhere, the first one is repeated.
    holders
        By block, and of each of its variants, the ranks that hold it.
    """

    values: Array
    partition: Partition
    holders: tuple[tuple[tuple[int, ...], ...], ...]

    def on(self, rank: int) -> Array:
        """Return what a rank has in its result."""
        border = self.partition.border
        parts = [
            self.values[variant, border(block) : border(block + 1)]
            for block, variants in enumerate(self.holders)
            for variant, ranks in enumerate(variants)
            if rank in ranks
        ]
        return np.concatenate(parts) if parts else self.values[0, :0]


def evaluate(of: Trees, vectors: Array, operator: Operator, wide: np.dtype[Any]) -> Sums:
    """Compute the results of all ranks, to the bit.

    Parameters
    ----------
    vectors
        The ranks' inputs, shape ``(size, count)``.
    wide
        Type of the partial results.
    """
    message = Message(vectors.shape[1], vectors.itemsize, of.root)
    whole = natural(of.choice.algorithm.collective, of.size, message)
    partition = whole.finer(len(of.results))
    programs = of.programs(operator.commutative)
    variants = max(len(program.results) for program in programs)
    values = np.empty((variants, message.count), vectors.dtype)
    holders = {use.block: use.holders for uses in programs.values() for use in uses}
    with np.errstate(over="ignore", invalid="ignore"):
        for program, uses in programs.items():
            for elements, ranks in _parts(uses, partition, CHUNK // (2 * of.size) + 1):
                results = _run(program, vectors, elements, ranks, operator, wide)
                for variant in range(variants):
                    number = variant if variant < len(results) else 0
                    values[variant, elements] = results[number].astype(vectors.dtype)
    return Sums(values, partition, tuple(holders[block] for block in range(len(of.results))))


def _parts(
    uses: Sequence[Use], partition: Partition, chunk: int
) -> Iterator[tuple[Array, list[Array]]]:
    """Yield elements of the blocks, and by input the rank that it comes from at each of them."""
    border = partition.border
    blocks = [np.arange(border(use.block), border(use.block + 1)) for use in uses]
    elements = np.concatenate(blocks)
    use_of = np.repeat(np.arange(len(uses)), [len(block) for block in blocks])
    inputs = np.array([use.inputs for use in uses]).T
    for low in range(0, len(elements), chunk):
        part = use_of[low : low + chunk]
        yield elements[low : low + chunk], [ranks[part] for ranks in inputs]


def _run(
    program: Program,
    vectors: Array,
    elements: Array,
    ranks: Sequence[Array],
    operator: Operator,
    wide: np.dtype[Any],
) -> list[Array]:
    values = [vectors[rank, elements].astype(wide) for rank in ranks]
    for left, right in program.steps:
        values.append(operator.ufunc(values[left], values[right]))
    return [values[number] for number in program.results]


def in_rank_order(vectors: Array, operator: Operator, arithmetic: Arithmetic) -> Array:
    """Return ``((x0 op x1) op x2) op ...``, the sum that one process alone would compute."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = reduce(operator.ufunc, vectors.astype(arithmetic.wide))
        result: Array = total.astype(arithmetic.storage)
    return result


def shared_out(leaves: Array, size: int, arithmetic: Arithmetic) -> Array:
    """Return the inputs of `size` ranks that divide the same `leaves` among themselves.

    Every rank sums its own share in order, in the type of the partial results, and rounds the sum
    to the caller's type, which is what a collective is called with.
    """
    border = Partition(len(leaves), size).border
    shares = [leaves[border(rank) : border(rank + 1)] for rank in range(size)]
    return np.stack([in_rank_order(share, OPERATORS["sum"], arithmetic) for share in shares])


def comparable(data: Array) -> Array:
    """Return the bits of floats; all NaNs have the same."""
    clean = data.copy()
    clean[np.isnan(clean)] = np.nan
    return bits(clean)


def share(equal: Array) -> float:
    """Return the share of elements at which something is true."""
    return float(np.mean(equal))


# Errors


@dataclass(frozen=True, slots=True)
class Exact:
    """The exact sum of every element over the ranks, as ``high + low``, and that of the magnitudes.

    All are NaN where an input isn't finite or the sum is beyond float64.
    """

    high: Array
    low: Array
    magnitude: Array

    @property
    def known(self) -> Array:
        """Tell where there is an exact sum."""
        return np.isfinite(self.magnitude)


def exact(vectors: Array) -> Exact:
    """Return the exact sums of ranks' inputs, shape ``(size, count)``.

    References
    ----------
    Shewchuk, Discrete & Computational Geometry 18, 1997, doi:10.1007/PL00009321.
    """
    columns = vectors.astype(np.float64).T.tolist()
    high, low, magnitude = np.array([_exactly(column) for column in columns]).T
    return Exact(high, low, magnitude)


def _exactly(column: list[float]) -> tuple[float, float, float]:
    try:
        high = fsum(column)
        # What float64 can't hold of the sum: float64 itself is measured against it.
        return high, fsum([*column, -high]), fsum(map(abs, column))
    except (OverflowError, ValueError):  # beyond float64, or infinities of both signs
        return np.nan, np.nan, np.nan


@dataclass(frozen=True, slots=True)
class Errors:
    """How far sums are from the exact ones, relative to the sum of the magnitudes, in units of u.

    Attributes
    ----------
    largest, rms
        Over all elements and all variants that ranks hold; None where no element has an error.
    of_bound
        The largest share of its bound that an element's error reaches; above 1 the bound is
        exceeded.
    overflowed
        Elements whose exact sum is finite and whose computed one isn't; they have no error.
    """

    largest: float | None
    rms: float | None
    of_bound: float | None
    overflowed: int


def errors(sums: Sums, depths: Sequence[int], of: Exact, arithmetic: Arithmetic) -> Errors:
    """Compare sums to the exact ones; `depths` has the depth of every block."""
    values = sums.values.astype(np.float64)
    lengths = [sums.partition.size(block) for block in range(len(depths))]
    bound = arithmetic.bound(np.repeat(depths, lengths), of)
    computed = np.isfinite(values) & of.known
    with np.errstate(invalid="ignore"):
        error = np.abs((values - of.high) - of.low)
    overflowed = int((of.known & ~np.isfinite(values).all(axis=0)).sum())
    if not computed.any():
        return Errors(None, None, None, overflowed)
    relative = _ratio(error, of.magnitude)[computed] / arithmetic.roundoff
    used = _ratio(error, bound)[computed]
    rms = float(np.sqrt(np.mean(relative**2)))
    return Errors(float(relative.max()), rms, float(used.max()), overflowed)


def _ratio(number: Array, of: Array) -> Array:
    """Divide; nothing of nothing is nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient: Array = np.where(number == 0, 0.0, number / of)
    return quotient
