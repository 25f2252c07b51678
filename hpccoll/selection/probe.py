"""A probe: a small call of one MPI function, to see whether the library refuses it."""

from typing import TYPE_CHECKING

import numpy as np

from hpccoll.buffers import allocate
from hpccoll.collectives import COLLECTIVES, Collective
from hpccoll.datatypes import OPERATORS
from hpccoll.engines.library import LibraryCall
from hpccoll.errors import EngineError, UnsupportedError
from hpccoll.layout import Message, layout
from hpccoll.sampling import Loop
from hpccoll.selection.tool_interface import Settings, held

if TYPE_CHECKING:
    from mpi4py import MPI


_PLAIN = OPERATORS["sum"], np.dtype(np.int32)
_ORDERED = OPERATORS["matmul2x2"], np.dtype(np.uint64)


def of_function(function: str) -> Collective:
    """Return the collective for which hpccoll calls an MPI function."""
    return next(each for each in COLLECTIVES.values() if function in each.baseline)


class Probe:
    """A call of an MPI function with few elements."""

    def __init__(self, function: str, loop: Loop) -> None:
        self._function, self._loop = function, loop
        self._collective = of_function(function)

    @property
    def size(self) -> int:
        """Return the number of all ranks."""
        return self._loop.world.size

    def of(self, function: str) -> "Probe":
        """Return a probe of another function."""
        return Probe(function, self._loop)

    def ranks(self, number: int | None = None) -> "MPI.Intracomm":
        """Return a new communicator of all ranks, or of the first ones, null on the others."""
        from mpi4py import MPI

        comm = self._loop.world.comm
        if number is None:
            return comm.Dup()
        return MPI.Intracomm(comm.Split(0 if comm.rank < number else MPI.UNDEFINED))

    def refused(self, comm: "MPI.Intracomm", during: Settings = (), ordered: bool = False) -> bool:
        """Make the call, tell whether it failed on all ranks of `comm`, and free that.

        Parameters
        ----------
        during
            What is set for the call, and for nothing else that hpccoll or MPI does.
        ordered
            Reduce with an operator that isn't commutative.

        Raises
        ------
        UnsupportedError
            It failed on some ranks only.
        """
        from mpi4py import MPI

        failed = None if comm == MPI.COMM_NULL else self._failed(comm, during, ordered)
        everyone = {f for f in self._loop.world.comm.allgather(failed) if f is not None}
        if comm != MPI.COMM_NULL:
            comm.Free()
        if len(everyone) > 1:
            raise UnsupportedError("a trial call failed on some ranks only")
        return True in everyone

    def _failed(self, comm: "MPI.Intracomm", during: Settings, ordered: bool) -> bool:
        operator, dtype = _ORDERED if ordered else _PLAIN
        datatype = self._loop.world.datatype(dtype)
        assert datatype is not None
        even = self._function == self._collective.baseline[0]
        message = Message(2 * comm.size + (not even), dtype.itemsize, ordered=ordered)
        place = layout(self._collective, comm.rank, comm.size, message)
        spaces = allocate(place, 0, dtype)
        call = LibraryCall(self._collective, message, place, spaces, operator, comm, datatype)
        self._loop.watchdog.label = f"a trial call of {call.function}"
        try:
            with held(during):
                self._loop.run(call, 1, barrier=False)
        except EngineError:
            return True
        finally:
            self._loop.watchdog.pause()
        return False
