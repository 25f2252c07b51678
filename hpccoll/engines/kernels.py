"""The extension's reduction kernels by themselves, without MPI."""

from importlib import import_module
from typing import Any

from hpccoll.datatypes import Array
from hpccoll.errors import UnsupportedError


def extension() -> Any:
    """Return the extension that has the kernels alone.

    Raises
    ------
    UnsupportedError
        It was not built.
    """
    try:
        return import_module("hpccoll.engines._kernels")
    except ImportError as error:
        raise UnsupportedError(
            f"the native engine was not built when hpccoll was installed ({error}); install a C "
            "compiler and hpccoll again"
        ) from None


def reduce(
    dtype: str, operator: str, into: Array, left: Array, right: Array, repeat: int = 1
) -> float:
    """Reduce ``into = left op right`` and return the seconds that `repeat` times took.

    Parameters
    ----------
    into, left, right
        Contiguous arrays of the same number of bytes; `into` may be `left` or `right`.

    Raises
    ------
    ValueError
        The operator isn't defined for the type.
    """
    width = {"bfloat16": 2}.get(dtype) or int("".join(c for c in dtype if c.isdigit())) // 8
    addresses = (into.ctypes.data, left.ctypes.data, right.ctypes.data)
    seconds: float = extension().reduce(dtype, operator, *addresses, into.nbytes // width, repeat)
    return seconds


def convert(source: Array, into: Array) -> None:
    """Convert elements to the type of `into`, a contiguous array of as many as `source`.

    Raises
    ------
    ValueError
        There is no kernel for these types.
    """
    names = (source.dtype.name, into.dtype.name)
    extension().convert(*names, into.ctypes.data, source.ctypes.data, source.size)


def targets() -> list[str]:
    """Return the instruction sets that this processor and build have, the best first."""
    chosen = kernel_target()
    found = []
    for name in ("avx512", "avx2", "baseline"):
        try:
            select_target(name)
        except ValueError:
            continue
        found.append(name)
    select_target(chosen)
    return found


def kernel_target() -> str:
    """Return the instruction set in use."""
    target: str = extension().target()
    return target


def select_target(name: str) -> None:
    """Use another instruction set from now on.

    Raises
    ------
    ValueError
        This processor or build hasn't it.
    """
    extension().target(name)
