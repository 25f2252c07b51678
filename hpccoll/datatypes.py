"""Element types and operators: their names, and what numpy and MPI call them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpccoll.errors import UsageError, unknown

Array = NDArray[Any]

DTYPES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64"),
)
"""Names of the element types, as numpy spells them."""


@dataclass(frozen=True, slots=True)
class Operator:
    """A reduction operator.

    Attributes
    ----------
    ufunc
        ``ufunc(left, right, out=into)``.
    mpi
        Name of the constant in ``mpi4py.MPI``.
    """

    name: str
    ufunc: Callable[..., Any]
    mpi: str


OPERATORS = {
    operator.name: operator
    for operator in (
        Operator("sum", np.add, "SUM"),
        Operator("prod", np.multiply, "PROD"),
        Operator("min", np.minimum, "MIN"),
        Operator("max", np.maximum, "MAX"),
    )
}
"""Every operator by its name."""


def dtype(name: str) -> np.dtype[Any]:
    """Return the numpy type called `name`, or raise `UsageError`."""
    if name not in DTYPES:
        raise UsageError(unknown("dtype", name, DTYPES))
    return np.dtype(name)


def operator(name: str) -> Operator:
    """Return the operator called `name`, or raise `UsageError`."""
    if name not in OPERATORS:
        raise UsageError(unknown("operator", name, OPERATORS))
    return OPERATORS[name]
