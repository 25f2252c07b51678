"""The native engine: plans and library calls handed to the C extension, which runs and times them.

The extension is built without any MPI. The functions' addresses are taken from the library that
mpi4py has loaded, the handles from mpi4py's objects.
"""

import ctypes
import os
from array import array
from collections.abc import Sequence
from importlib import import_module
from mmap import mmap
from tempfile import mkstemp
from typing import TYPE_CHECKING, Any

import numpy as np

from hpccoll.collectives import Collective
from hpccoll.datatypes import Array, Operator
from hpccoll.engines.call import describe
from hpccoll.engines.library import (
    ARGUMENTS,
    arguments,
    in_place_argument,
    mpi_operator,
    neighbours,
    receive_buffer,
)
from hpccoll.engines.rows import PROBE, WAIT, WAIT_REDUCE, rows
from hpccoll.errors import EngineError, UnsupportedError
from hpccoll.layout import INPUT, OUTPUT, USER, Layout, Message
from hpccoll.plan import Plan

if TYPE_CHECKING:
    from mpi4py import MPI

SPINS = 2000
"""Polls before a yield where every rank has a core of its own."""
SPINS_CROWDED = 20
"""The same where ranks share cores: the awaited rank may need this one's."""

_STATUS = 128
"""Bytes of a status, and more: no library's is longer, and the value for "ignore" differs."""
_FUNCTIONS = ("MPI_Isend", "MPI_Irecv", "MPI_Test", "MPI_Iprobe", "MPI_Error_string")


def extension() -> Any:
    """Return the extension for the width of this library's handles.

    Raises
    ------
    UnsupportedError
        It was not built.
    """
    from mpi4py import MPI

    name = f"hpccoll.engines._native{MPI._sizeof(MPI.Comm)}"
    try:
        return import_module(name)
    except ImportError as error:
        raise UnsupportedError(
            f"the native engine was not built when hpccoll was installed ({error}); install a C "
            "compiler and hpccoll again, or use --engine python"
        ) from None


class Native:
    """The extension bound to a communicator.

    Parameters
    ----------
    crowded
        Ranks share cores.
    """

    def __init__(self, comm: "MPI.Intracomm", crowded: bool) -> None:
        from mpi4py import MPI

        self.extension = extension()
        self.comm, self._crowded = comm, crowded
        # Found through mpi4py's own module, tracing tools in between see the calls.
        self._loaded = ctypes.CDLL(MPI.__file__, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
        self.library = self.extension.Library(
            {name: self.function(name) for name in _FUNCTIONS},
            MPI._addressof(comm),
            MPI._addressof(MPI.BYTE),
            SPINS_CROWDED if crowded else SPINS,
        )

    def on(self, comm: "MPI.Intracomm") -> "Native":
        """Return the extension bound to another communicator of the same ranks."""
        return Native(comm, self._crowded)

    def plan(
        self,
        plan: Plan,
        spaces: Sequence[Array],
        operator: Operator,
    ) -> "NativePlan":
        """Return a plan bound to buffers.

        Parameters
        ----------
        spaces
            Those of the plan, one-dimensional contiguous arrays.
        """
        return NativePlan(self, plan, spaces, operator)

    def collective(
        self,
        collective: Collective,
        message: Message,
        place: Layout,
        spaces: Sequence[Array],
        operator: Operator,
        datatype: "MPI.Datatype",
    ) -> "NativeCollective":
        """Return the library's collective bound to buffers."""
        return NativeCollective(self, collective, message, place, spaces, operator, datatype)

    def nothing(self, probe: bool = False) -> Any:
        """Return a program without instructions: what it takes is the loop's own time.

        With `probe` it makes one call of the library, an MPI_Iprobe.
        """
        table = array("q", [PROBE, *(0,) * 10] if probe else [])
        return self.extension.Program(
            self.library, table, 0, (0, 0, 0), "float32", "sum", None, 1.0, (4, 0)
        )

    def function(self, name: str) -> int:
        """Return the address of an MPI function.

        Raises
        ------
        AttributeError
            The library hasn't it.
        """
        address = ctypes.cast(getattr(self._loaded, name), ctypes.c_void_p).value
        assert address is not None
        return address


class _NativeCall:
    """What programs and collectives have in common."""

    handle: Any
    comm: "MPI.Intracomm"

    def __call__(self) -> None:
        """Perform the call once."""
        try:
            self.handle.run()
        except RuntimeError as error:
            raise self.error(error) from None

    def error(self, error: RuntimeError) -> EngineError:
        """Say which rank, round and peer an MPI function failed for."""
        text = error.args[-1]
        return EngineError(f"rank {self.comm.rank}, {self.position()}: {text}")

    def position(self) -> str:
        """Say what the call is waiting for."""
        raise NotImplementedError


class NativePlan(_NativeCall):
    """A plan as a table of addresses; see `Native.plan`."""

    engine = "native"
    function = "MPI_Isend, MPI_Irecv, MPI_Test"

    def __init__(
        self,
        native: Native,
        plan: Plan,
        spaces: Sequence[Array],
        operator: Operator,
    ) -> None:
        self.comm, self._plan = native.comm, plan
        self._kept = spaces
        dtype, narrow = spaces[0].dtype, spaces[USER].dtype if spaces[USER:] else None
        self._rows, self._origins = rows(plan, [space.itemsize for space in spaces])
        self.handle = native.extension.Program(
            native.library,
            array("q", [number for row in self._rows for number in row]),
            plan.slots,
            tuple(space.ctypes.data for space in spaces),
            dtype.name,
            "sum" if operator.average else operator.name,
            narrow.name if narrow else None,
            float(plan.size),
            (dtype.itemsize, narrow.itemsize if narrow else 0),
        )

    def position(self) -> str:
        """Say which round and which messages the call is waiting for."""
        at = self.handle.at
        number = self._origins[at] if at < len(self._origins) else 0
        slots = [
            row[1]
            for row, o in zip(self._rows[at:], self._origins[at:], strict=True)
            if o == number and row[0] in (WAIT, WAIT_REDUCE)
        ]
        return describe(self._plan, number, slots or None)


class NativeCollective(_NativeCall):
    """The library's own collective, called from the extension; see `Native.collective`.

    Raises
    ------
    AttributeError
        A number doesn't fit into 32 bits, and the library has no function for large counts.
    """

    engine = "library"

    def __init__(
        self,
        native: Native,
        collective: Collective,
        message: Message,
        place: Layout,
        spaces: Sequence[Array],
        operator: Operator,
        datatype: "MPI.Datatype",
    ) -> None:
        from mpi4py import MPI

        self.comm = native.comm
        given = arguments(collective, message, place, self.comm.rank, self.comm.size)
        wide = given.largest >= 1 << 31
        self.function = given.function + "_c" * wide
        lists = {
            name: array("q" if wide else "i", getattr(given, name))
            for name in ("out_counts", "out_offsets", "in_counts", "in_offsets")
        }
        received = receive_buffer(given, spaces)
        status = np.empty(_STATUS, np.uint8)
        self._kept = [*spaces, received, datatype, status, *lists.values()]
        words = {name: data.buffer_info()[0] for name, data in lists.items()}
        function = native.extension.user_function() if collective.reduces else None
        words |= _words(collective, place, spaces, received, datatype, self.comm)
        words["operator"] = MPI._handleof(mpi_operator(operator, function))
        words |= {"root": message.root, "count": given.count, "block": given.block}
        words |= {"held": given.held, "result": given.result}
        words["right"], words["left"] = neighbours(self.comm)
        words |= {"tag": 0, "status": status.ctypes.data}
        self.handle = native.extension.Collective(
            native.library,
            native.function(self.function),
            array("q", [_signed(words[name]) for name in ARGUMENTS[given.function].split()]),
            received.dtype.name,
            received.ctypes.data,
            given.result if message.average else 0,
            float(self.comm.size),
        )

    def position(self) -> str:
        """Say which function the call is in."""
        return f"inside {self.function}"


def _words(
    collective: Collective,
    place: Layout,
    spaces: Sequence[Array],
    received: Array,
    datatype: "MPI.Datatype",
    comm: "MPI.Intracomm",
) -> dict[str, int]:
    """Return buffers and handles as MPI's functions take them."""
    from mpi4py import MPI

    words = {
        "send": spaces[OUTPUT if place.in_place else INPUT].ctypes.data,
        "receive": received.ctypes.data,
        "type": MPI._handleof(datatype),
        "comm": MPI._handleof(comm),
    }
    if unused := in_place_argument(collective, place):
        words[unused] = int(MPI.IN_PLACE)
    return words


def _signed(word: int) -> int:
    return word - (1 << 64) if word >= 1 << 63 else word


class Barrier:
    """hpccoll's own barrier: flags in shared memory within a node, messages between node leaders.

    It polls, so that ranks leave it close together, and the library's own barrier is no part of the
    result.
    """

    def __init__(self, native: Native, node: "MPI.Comm") -> None:
        self._flags = _shared(16 * 64 * node.size, node)
        leaders = native.comm.allgather(native.comm.rank if node.rank == 0 else -1)
        mine = node.allgather(native.comm.rank)[0]
        leaders = [rank for rank in leaders if rank >= 0]
        self.handle = native.extension.Barrier(
            native.library,
            self._flags.ctypes.data,
            node.rank,
            node.size,
            leaders.index(mine),
            array("i", leaders),
        )


def _shared(size: int, node: "MPI.Comm") -> Array:
    """Return zeroed memory that all ranks of a node share.

    The file behind it has no name any more when this returns, so nothing stays behind however the
    job ends.
    """
    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    if node.rank == 0:
        file, path = mkstemp(prefix="hpccoll-", dir=folder)
        os.truncate(file, size)
    path = node.allgather(path if node.rank == 0 else "")[0]
    if node.rank:
        file = os.open(path, os.O_RDWR)
    memory = mmap(file, size)
    os.close(file)
    node.Barrier()
    if node.rank == 0:
        os.unlink(path)
    return np.frombuffer(memory, np.uint8)
