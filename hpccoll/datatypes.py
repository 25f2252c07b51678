"""Element types and operators: their names, what numpy and MPI call them, and their exact results.

An operator's result is defined to the bit, alike for the reference here and for the native engine's
kernels, so that the two can be compared by their bits:

- Integers wrap around. The logical operators take any value but 0 as true and give 0 or 1.
- float16 and bfloat16 are added, multiplied and divided in float32, and rounded once, to nearest
  even; a NaN becomes the canonical one.
- A complex product is ``(ar*br - ai*bi, ar*bi + ai*br)``, each operation rounded by itself: no
  fused multiply-add. A complex sum or division is that of the parts.
- matmul2x2 takes a uint64 as a 2x2 matrix of four 16-bit integers, row by row from the lowest bits
  on, and multiplies modulo 2**16: associative and not commutative.
- rsum is a sum of float32 or float64 with the same bits for any algorithm, number and order of
  ranks, and cutting of messages: `hpccoll.reproducible` defines it, and its partial results.
- min and max of floats put -0 below +0 and give the canonical quiet NaN if either operand is NaN,
  so that they are commutative and associative to the bit.

Only the sign and payload of a NaN that float32, float64 or complex arithmetic gives are left open.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpccoll import reproducible
from hpccoll.errors import UsageError, unknown

Array = NDArray[Any]

DTYPES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)
"""Names of the element types, as numpy and ml_dtypes spell them."""

INTEGER, FLOAT, COMPLEX = "integer", "float", "complex"

SIGNIFICAND = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
"""Bits of the floats' significands, by the type."""

_NAN = {"float16": 0x7E00, "bfloat16": 0x7FC0, "float32": 0x7FC00000, "float64": 0x7FF8 << 48}
"""The bits of the canonical quiet NaN."""

_MPI = {
    "float16": "FLOAT16_T",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "complex64": "C_FLOAT_COMPLEX",
    "complex128": "C_DOUBLE_COMPLEX",
}


def dtype(name: str) -> np.dtype[Any]:
    """Return the type called `name`.

    Raises
    ------
    UsageError
        There is none of that name, or the package that has it isn't installed.
    """
    if name not in DTYPES:
        raise UsageError(unknown("dtype", name, DTYPES))
    if name != "bfloat16":
        return np.dtype(name)
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        raise UsageError(
            "bfloat16 needs the package ml_dtypes, which isn't installed; "
            "install it with: pip install 'hpccoll[bfloat16]'"
        ) from None
    found: np.dtype[Any] = np.dtype(bfloat16)
    return found


def kind(of: np.dtype[Any]) -> str:
    """Return `INTEGER`, `FLOAT` or `COMPLEX`."""
    # To numpy, bfloat16 is of no kind of number.
    return {"i": INTEGER, "u": INTEGER, "c": COMPLEX}.get(of.kind, FLOAT)


def part(of: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of a complex type's real and imaginary part, and any other type itself."""
    return np.dtype(f"f{of.itemsize // 2}") if of.kind == "c" else of


def mpi_datatype(of: np.dtype[Any]) -> str | None:
    """Return the name of the type's constant in ``mpi4py.MPI``, None where MPI has no such type.

    bfloat16 has none. float16's is an extension: a library that was built without it has
    ``DATATYPE_NULL`` there.
    """
    if kind(of) == INTEGER:
        return f"{of.name.upper()}_T"
    return _MPI.get(of.name)


def bits(data: Array) -> Array:
    """Return the elements' bits as unsigned integers; of complex elements those of the parts."""
    return data.view(f"u{part(data.dtype).itemsize}")


def _sum(left: Array, right: Array, out: Array | None = None) -> Array:
    return _canonical(np.add(left, right, out=out))


def _prod(left: Array, right: Array, out: Array | None = None) -> Array:
    if left.dtype.kind != "c":
        return _canonical(np.multiply(left, right, out=out))
    # numpy's own complex product may be fused. Either operand may be `out`: both parts come first.
    real = left.real * right.real - left.imag * right.imag
    imag = left.real * right.imag + left.imag * right.real
    out = np.empty_like(left) if out is None else out
    out.real, out.imag = real, imag
    return out


def _canonical(data: Array) -> Array:
    """Make every NaN of a 16-bit float the canonical one, in place."""
    if data.dtype.name in ("float16", "bfloat16"):
        bits(data)[np.isnan(data)] = _NAN[data.dtype.name]
    return data


def _extreme(select: Callable[..., Array]) -> Callable[..., Array]:
    """Return minimum or maximum, `select`, in the total order of the operands' bits."""

    def reduce(left: Array, right: Array, out: Array | None = None) -> Array:
        if kind(left.dtype) == INTEGER:
            return select(left, right, out=out)
        with np.errstate(invalid="ignore"):  # a signalling NaN is no more than a NaN
            nan = np.isnan(left) | np.isnan(right)
        out = np.empty_like(left) if out is None else out
        bits(out)[:] = _ordered(select(_ordered(left), _ordered(right))).view(bits(out).dtype)
        bits(out)[nan] = _NAN[out.dtype.name]
        return out

    return reduce


def _ordered(data: Array) -> Array:
    """Return floats' bits as integers in the floats' order, -0 below +0; its own inverse."""
    signed = data.view(f"i{data.itemsize}")
    ordered: Array = signed ^ (signed >> 8 * data.itemsize - 1 & np.iinfo(signed.dtype).max)
    return ordered


def _logical(combine: Callable[..., Array]) -> Callable[..., Array]:
    def reduce(left: Array, right: Array, out: Array | None = None) -> Array:
        return combine(left, right, out=np.empty_like(left) if out is None else out)

    return reduce


def _matmul2x2(left: Array, right: Array, out: Array | None = None) -> Array:
    x, y = (np.ascontiguousarray(m).view(np.uint16).reshape(-1, 2, 2) for m in (left, right))
    product = x[:, :, :1] * y[:, :1, :] + x[:, :, 1:] * y[:, 1:, :]
    out = np.empty_like(left) if out is None else out
    out[:] = product.reshape(-1).view(np.uint64)
    return out


def divide(data: Array, divisor: int) -> None:
    """Divide floats or complex numbers in place, rounded once in their type."""
    if data.dtype.kind == "c":
        divide(data.real, divisor)
        divide(data.imag, divisor)
    elif data.itemsize == 2:
        data[:] = data.astype(np.float32) / np.float32(divisor)
        _canonical(data)
    else:
        np.divide(data, data.dtype.type(divisor), out=data)


def convert(source: Array, into: Array) -> None:
    """Copy elements to another type: floats to wider ones or accumulators, and back."""
    if source.dtype == into.dtype or not (source.dtype.names or into.dtype.names):
        np.copyto(into, source, casting="same_kind")
    elif into.dtype.names:
        reproducible.encode(source, into)
    else:
        reproducible.decode(source, into)


def converted(data: Array, of: np.dtype[Any]) -> Array:
    """Return elements in a type that `convert` knows, themselves if it is theirs."""
    if data.dtype == of:
        return data
    into = np.empty(data.shape, of)
    convert(data, into)
    return into


@dataclass(frozen=True, slots=True)
class Operator:
    """A reduction operator.

    Attributes
    ----------
    ufunc
        ``ufunc(left, right, out=into)``; `into` may be either operand, or be left out.
    mpi
        Name of the constant in ``mpi4py.MPI``; None where MPI has none.
    kinds
        Kinds of types that it is defined for.
    only
        Names of the types that it is defined for, where these are not all of a kind.
    commutative
        ``a op b`` equals ``b op a``.
    average
        The result of the reduction is divided, by `divide`, by the number of ranks: once, at the
        end.
    plain
        Name of the operator that it makes reproducible: partial results are accumulators.
    idempotent
        Counting a rank twice changes nothing.
    """

    name: str
    ufunc: Callable[..., Any]
    mpi: str | None
    kinds: tuple[str, ...]
    average: bool = False
    idempotent: bool = False
    commutative: bool = True
    only: tuple[str, ...] = ()
    plain: str | None = None

    def partial(self, of: np.dtype[Any]) -> np.dtype[Any]:
        """Return the type of partial results of a type."""
        return reproducible.ACCUMULATORS[of.name] if self.plain else of

    def reduced(self, of: np.dtype[Any], operands: Iterable[Array]) -> Array:
        """Return one or more operands of a type reduced in their order, not divided."""
        partial = self.partial(of)
        return converted(reduce(self.ufunc, (converted(each, partial) for each in operands)), of)

    def defined_for(self, of: np.dtype[Any]) -> bool:
        """Tell whether the operator is defined for the type."""
        return of.name in self.only if self.only else kind(of) in self.kinds


OPERATORS = {
    operator.name: operator
    for operator in (
        Operator("sum", _sum, "SUM", (INTEGER, FLOAT, COMPLEX)),
        Operator("prod", _prod, "PROD", (INTEGER, FLOAT, COMPLEX)),
        Operator("min", _extreme(np.minimum), "MIN", (INTEGER, FLOAT), idempotent=True),
        Operator("max", _extreme(np.maximum), "MAX", (INTEGER, FLOAT), idempotent=True),
        Operator("avg", _sum, "SUM", (FLOAT, COMPLEX), average=True),
        Operator("band", np.bitwise_and, "BAND", (INTEGER,), idempotent=True),
        Operator("bor", np.bitwise_or, "BOR", (INTEGER,), idempotent=True),
        Operator("bxor", np.bitwise_xor, "BXOR", (INTEGER,)),
        Operator("land", _logical(np.logical_and), "LAND", (INTEGER,), idempotent=True),
        Operator("lor", _logical(np.logical_or), "LOR", (INTEGER,), idempotent=True),
        Operator("lxor", _logical(np.logical_xor), "LXOR", (INTEGER,)),
        Operator("matmul2x2", _matmul2x2, None, (INTEGER,), commutative=False, only=("uint64",)),
        Operator(
            "rsum", reproducible.merge, None, (FLOAT,), only=("float32", "float64"), plain="sum"
        ),
    )
}
"""Every operator by its name."""


def operator(name: str) -> Operator:
    """Return the operator called `name`, or raise `UsageError`."""
    if name not in OPERATORS:
        raise UsageError(unknown("operator", name, OPERATORS))
    return OPERATORS[name]


def operator_for(name: str, of: np.dtype[Any]) -> Operator:
    """Return the operator called `name`.

    Raises
    ------
    UsageError
        There is none of that name, or it isn't defined for the type.
    """
    found = operator(name)
    if found.defined_for(of):
        return found
    why = ""
    if found.average:
        why = ": it is a sum and one division, which integers don't have"
    elif name in ("min", "max"):
        why = ": complex numbers have no order"
    elif found.plain and kind(of) == INTEGER:
        why = f": the plain {found.plain} of integers is reproducible"
    defined = " and ".join(found.only or [f"{kind} types" for kind in found.kinds])
    having = [o.name for o in OPERATORS.values() if o.defined_for(of)]
    raise UsageError(
        f"{name} is defined for {defined}, not for {of.name}{why}; "
        f"choose another --dtype, or from {', '.join(having)}"
    )
