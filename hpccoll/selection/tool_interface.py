"""MPI's tool interface (MPI_T): the library's own variables, read and written by name.

mpi4py doesn't have it, so it is called through ctypes, in the library that mpi4py has loaded.

References
----------
MPI Forum, "MPI: A Message-Passing Interface Standard", version 4.1, chapter 15.
"""

import ctypes
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from hpccoll.errors import UnsupportedError

_TEXT = 1 << 14
"""Bytes of a name or description that are read."""


class ToolInterface:
    """The variables of the MPI library in this process; MPI must have been started.

    Raises
    ------
    UnsupportedError
        The library has no tool interface.
    """

    def __init__(self) -> None:
        from mpi4py import MPI

        # Found through mpi4py's own module: it is the library that makes the calls.
        self._library = ctypes.CDLL(MPI.__file__, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
        self._handle = {4: ctypes.c_int, 8: ctypes.c_void_p}[MPI._sizeof(MPI.Datatype)]
        self._kinds = {
            MPI._handleof(MPI.INT): ctypes.c_int,
            MPI._handleof(MPI.UNSIGNED): ctypes.c_uint,
            MPI._handleof(MPI.C_BOOL): ctypes.c_bool,
        }
        self.call("init_thread", MPI.THREAD_SINGLE, ctypes.byref(ctypes.c_int()))

    def call(self, name: str, *arguments: Any) -> None:
        """Call ``MPI_T_<name>``.

        Raises
        ------
        UnsupportedError
            The library hasn't the function, or it failed.
        """
        try:
            code = getattr(self._library, f"MPI_T_{name}")(*arguments)
        except AttributeError:
            raise UnsupportedError(f"this MPI library has no MPI_T_{name}") from None
        if code:
            raise UnsupportedError(f"MPI_T_{name} says {_words(code)}")

    def internal(self, name: str) -> Any:
        """Return a function of the library that no standard names.

        Raises
        ------
        UnsupportedError
            The library hasn't it.
        """
        try:
            return getattr(self._library, name)
        except AttributeError:
            raise UnsupportedError(f"this MPI library has no function {name}") from None

    @cached_property
    def variables(self) -> "dict[str, Variable]":
        """Return all variables by their names."""
        number = ctypes.c_int()
        self.call("cvar_get_num", ctypes.byref(number))
        found = (self._variable(index) for index in range(number.value))
        return {variable.name: variable for variable in found if variable}

    def _variable(self, index: int) -> "Variable | None":
        name, text = (ctypes.create_string_buffer(_TEXT) for _ in range(2))
        lengths = ctypes.c_int(_TEXT), ctypes.c_int(_TEXT)
        verbosity, binding, scope = (ctypes.c_int() for _ in range(3))
        datatype: Any = self._handle()
        enumeration = ctypes.c_void_p()
        try:
            self.call(
                "cvar_get_info",
                *(index, name, ctypes.byref(lengths[0]), ctypes.byref(verbosity)),
                *(ctypes.byref(datatype), ctypes.byref(enumeration)),
                *(text, ctypes.byref(lengths[1]), ctypes.byref(binding), ctypes.byref(scope)),
            )
        except UnsupportedError:  # some libraries count variables that are gone
            return None
        return Variable(
            self,
            index,
            name.value.decode(errors="replace"),
            text.value.decode(errors="replace"),
            self._kinds.get(datatype.value),
            enumeration,
        )


def _words(code: int) -> str:
    from mpi4py import MPI

    try:
        return str(MPI.Get_error_string(code)).splitlines()[0]
    except MPI.Exception:
        return f"error {code}"


class Variable:
    """A control variable: a number, or one of several named numbers.

    Parameters
    ----------
    kind
        The type of its value, None where it is no single number.
    enumeration
        The library's handle of the named values, null where it offers none.
    """

    def __init__(
        self,
        interface: ToolInterface,
        index: int,
        name: str,
        description: str,
        kind: Any,
        enumeration: ctypes.c_void_p,
    ) -> None:
        self.name, self.description, self.kind = name, description, kind
        self._interface, self._index, self._enumeration = interface, index, enumeration

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Return the numbers of the named values, in the library's order, empty without names.

        MPICH has no enumerations. It describes each value in a line "name - meaning", and numbers
        them in that order.
        """
        if not self._enumeration:
            names = re.findall(r"^\s*(\w+)\s+-\s", self.description, re.MULTILINE)
            return {name: number for number, name in enumerate(names)}
        items, length = ctypes.c_int(), ctypes.c_int(_TEXT)
        name = ctypes.create_string_buffer(_TEXT)
        self._interface.call(
            "enum_get_info", self._enumeration, ctypes.byref(items), name, ctypes.byref(length)
        )
        return dict(self._item(item) for item in range(items.value))

    def _item(self, item: int) -> tuple[str, int]:
        value, length = ctypes.c_int(), ctypes.c_int(_TEXT)
        name = ctypes.create_string_buffer(_TEXT)
        self._interface.call(
            "enum_get_item",
            *(self._enumeration, item, ctypes.byref(value), name, ctypes.byref(length)),
        )
        return name.value.decode(errors="replace"), value.value

    def read(self) -> int:
        """Return the value."""
        value = self._value()
        self._interface.call("cvar_read", self._opened, ctypes.byref(value))
        return int(value.value)

    def write(self, number: int) -> None:
        """Set the value, and see that it is set.

        Raises
        ------
        UnsupportedError
            The library doesn't let it be set now, or to this.
        """
        if self.read() == number:
            return
        value = self._value()
        value.value = number
        try:
            self._interface.call("cvar_write", self._opened, ctypes.byref(value))
        except UnsupportedError as error:
            raise UnsupportedError(f"{self.name} can't be set while MPI runs: {error}") from None
        if self.read() != number:
            raise UnsupportedError(f"{self.name} was set to {number}, but reads {self.read()}")

    def _value(self) -> Any:
        if self.kind is None:
            raise UnsupportedError(f"{self.name} is no single number")
        return self.kind()

    @cached_property
    def _opened(self) -> ctypes.c_void_p:
        handle, count = ctypes.c_void_p(), ctypes.c_int()
        self._interface.call(
            "cvar_handle_alloc", self._index, None, ctypes.byref(handle), ctypes.byref(count)
        )
        return handle


Settings = Sequence[tuple[Variable, int]]
"""Variables and what they are set to, in this order."""


@contextmanager
def held(values: Settings) -> Iterator[None]:
    """Set variables for the time of a block, and then to what they were."""
    before: list[tuple[Variable, int]] = []
    try:
        for variable, number in values:
            before.append((variable, variable.read()))
            variable.write(number)
        yield
    finally:
        for variable, number in reversed(before):
            variable.write(number)
