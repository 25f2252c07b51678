"""The kernel benchmark: hpccoll's reductions beside numpy's, interleaved, without MPI."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

import numpy as np

from hpccoll.clock import now
from hpccoll.columns import Column, figures, row, titles
from hpccoll.datatypes import Array, Operator
from hpccoll.engines import kernels
from hpccoll.units import format_size

ROUNDS = 21
"""Turns of each contender; the median counts."""
SHARE = 0.002
"""Seconds of one turn, about."""

_COLUMNS = (
    Column("bytes", 10),
    Column("hpccoll GB/s", 12),
    Column("numpy GB/s", 12),
    Column("ratio", 7),
)


@dataclass(frozen=True, slots=True)
class Speed:
    """Bytes per second of ``a = a op b``: three bytes move per byte of a vector."""

    size: int
    own: float
    numpy: float


def measure(
    sizes: tuple[int, ...], dtype: "np.dtype[np.generic]", operator: Operator
) -> Iterator[Speed]:
    """Measure sizes, in bytes of one vector, in turns of the two contenders."""
    for size in sizes:
        count = size // dtype.itemsize
        if not count:
            continue
        left, right = (np.ones(count, dtype) for _ in range(2))
        repeat = max(1, int(SHARE / max(_own(dtype, operator, left, right, 1), 1e-7)))
        own, theirs = [], []
        for _ in range(ROUNDS):
            own.append(_own(dtype, operator, left, right, repeat))
            theirs.append(_numpy(operator, left, right, repeat))
        yield Speed(size, 3 * size / median(own), 3 * size / median(theirs))


def _own(
    dtype: "np.dtype[np.generic]", operator: Operator, left: Array, right: Array, repeat: int
) -> float:
    return kernels.reduce(dtype.name, operator.name, left, left, right, repeat) / repeat


def _numpy(operator: Operator, left: Array, right: Array, repeat: int) -> float:
    # numpy has no function of its own for a small matrix product: then the python engine's.
    ufunc = getattr(np, _UFUNCS.get(operator.name, ""), operator.ufunc)
    with np.errstate(all="ignore"):
        begin = now()
        for _ in range(repeat):
            ufunc(left, right, out=left)
        return (now() - begin) / repeat


_UFUNCS = {
    "sum": "add",
    "prod": "multiply",
    "min": "minimum",
    "max": "maximum",
    "band": "bitwise_and",
    "bor": "bitwise_or",
    "bxor": "bitwise_xor",
    "land": "logical_and",
    "lor": "logical_or",
    "lxor": "logical_xor",
}


def header(dtype: "np.dtype[np.generic]", operator: Operator) -> str:
    """Return what stands above the table."""
    lines = [
        f"kernels, {dtype.name} {operator.name}, {kernels.kernel_target()}: a = a op b on one core",
        "bytes  of one vector; GB/s (1e9 bytes/s) read and written: three times that per reduction",
        "ratio  hpccoll's speed divided by that of numpy's own function, its call included",
    ]
    return "\n".join([*lines, "", titles(_COLUMNS)])


def line(speed: Speed) -> str:
    """Return a row of the table."""
    cells = (
        format_size(speed.size),
        figures(speed.own / 1e9),
        figures(speed.numpy / 1e9),
        f"{speed.own / speed.numpy:.2f}",
    )
    return row(_COLUMNS, cells)
