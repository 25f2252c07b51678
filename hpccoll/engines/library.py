"""The library engine: the MPI library's own collectives, called as an application would."""

import ctypes
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hpccoll.collectives import Collective
from hpccoll.datatypes import Array, Operator, divide
from hpccoll.errors import EngineError
from hpccoll.layout import INPUT, OUTPUT, Layout, Message, natural
from hpccoll.partition import Window

if TYPE_CHECKING:
    from mpi4py import MPI

_REDUCE = "send receive count type operator comm"
_MOVE = "send block type receive block type"
ARGUMENTS = {
    "MPI_Allreduce": _REDUCE,
    "MPI_Reduce": "send receive count type operator root comm",
    "MPI_Scan": _REDUCE,
    "MPI_Exscan": _REDUCE,
    "MPI_Reduce_scatter_block": "send receive block type operator comm",
    "MPI_Reduce_scatter": "send receive out_counts type operator comm",
    "MPI_Bcast": "receive count type root comm",
    "MPI_Allgather": f"{_MOVE} comm",
    "MPI_Allgatherv": "send held type receive in_counts in_offsets type comm",
    "MPI_Gather": f"{_MOVE} root comm",
    "MPI_Gatherv": "send held type receive in_counts in_offsets type root comm",
    "MPI_Scatter": f"{_MOVE} root comm",
    "MPI_Scatterv": "send out_counts out_offsets type receive result type root comm",
    "MPI_Alltoall": f"{_MOVE} comm",
    "MPI_Alltoallv": "send out_counts out_offsets type receive in_counts in_offsets type comm",
    "MPI_Sendrecv": "send held type right tag receive result type left tag comm status",
    "MPI_Sendrecv_replace": "receive held type right tag left tag comm status",
    "MPI_Barrier": "comm",
}
"""What every function takes, in the order of the standard: fields of `Arguments`, and the rest."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The numbers that MPI's collectives are called with, in elements.

    Attributes
    ----------
    function
        The regular one where blocks are equal, else the irregular one (``v``).
    count, block
        Elements of a vector, and of a block where all are equal.
    held, result
        Elements of this rank's input and result.
    out_counts, out_offsets, in_counts, in_offsets
        Per rank what is sent to it, what comes from it, and where these lie.
    """

    function: str
    count: int
    block: int
    held: int
    result: int
    out_counts: tuple[int, ...]
    out_offsets: tuple[int, ...]
    in_counts: tuple[int, ...]
    in_offsets: tuple[int, ...]

    @property
    def largest(self) -> int:
        """Return the largest number, which may not fit into 32 bits."""
        numbers = (*self.out_offsets, *self.in_offsets, *self.out_counts, *self.in_counts)
        return max((self.count, self.held, self.result, *numbers))


def function_of(collective: Collective, message: Message, size: int) -> str:
    """Return the MPI function that is called with `message` on `size` ranks."""
    if message.in_place and collective.replacing:
        return collective.replacing
    return collective.baseline[not natural(collective, size, message).even]


def arguments(
    collective: Collective, message: Message, place: Layout, rank: int, size: int
) -> Arguments:
    """Return what the library's collective is called with on `rank`."""
    blocks = natural(collective, size, message)

    def shares(
        of: Callable[[int, int, int, int], range],
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        names = of(rank, size, message.root, blocks.blocks)
        window = Window(blocks, names, 1)
        return tuple(map(blocks.size, names)), tuple(map(window.offset, names))

    return Arguments(
        function_of(collective, message, size),
        message.count,
        blocks.size(0),
        place.held.count,
        place.result.count,
        *shares(collective.held),
        *shares(collective.wanted),
    )


def neighbours(comm: "MPI.Comm") -> tuple[int, int]:
    """Return the ranks right and left of this one, around the communicator."""
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


def in_place_argument(collective: Collective, place: Layout) -> str | None:
    """Return which argument MPI_IN_PLACE stands for: the one of the buffer that isn't used."""
    if not place.in_place or collective.one_buffer or collective.replacing:
        return None
    return "receive" if collective.stays else "send"


@cache
def mpi_operator(operator: Operator, function: int | None = None) -> "MPI.Op":
    """Return the operator as the library knows it, made for it where MPI has none.

    Parameters
    ----------
    function
        Address of a C function that does what an ``MPI_User_function`` does; default: in Python.
    """
    from mpi4py import MPI

    if operator.mpi is not None:
        found: MPI.Op = getattr(MPI, operator.mpi)
        return found
    if function is None:
        return MPI.Op.Create(partial(_reduce_bytes, operator), commute=operator.commutative)
    loaded = ctypes.CDLL(MPI.__file__, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    made = MPI.Op()
    address = ctypes.c_void_p(MPI._addressof(made))
    if loaded.MPI_Op_create(ctypes.c_void_p(function), int(operator.commutative), address):
        raise EngineError(f"MPI_Op_create failed for {operator.name}")
    return made


def _reduce_bytes(operator: Operator, source: Any, both: Any, datatype: "MPI.Datatype") -> None:
    (name,) = operator.only
    left, right = (np.frombuffer(memory, name) for memory in (source, both))
    operator.ufunc(left, right, out=right)


def receive_buffer(given: Arguments, spaces: Sequence[Array]) -> Array:
    """Return what the function receives into: of an exscan's rank 0, which has no result, too."""
    if given.function == "MPI_Exscan" and not given.result:
        return np.empty(given.count, spaces[OUTPUT].dtype)
    return spaces[OUTPUT]


class LibraryCall:
    """The library's collective bound to buffers and called through mpi4py.

    Parameters
    ----------
    spaces
        Input and output, one-dimensional contiguous arrays of one dtype.
    """

    engine = "library"

    def __init__(
        self,
        collective: Collective,
        message: Message,
        place: Layout,
        spaces: Sequence[Array],
        operator: Operator,
        comm: "MPI.Intracomm",
        datatype: "MPI.Datatype",
    ) -> None:
        from mpi4py import MPI

        given = arguments(collective, message, place, comm.rank, comm.size)
        self.function = given.function
        in_place = in_place_argument(collective, place)
        kept: Any = spaces[OUTPUT if place.in_place else INPUT]
        received: Any = receive_buffer(given, spaces)
        source: Any = MPI.IN_PLACE if in_place == "send" else [kept, datatype]
        target: Any = MPI.IN_PLACE if in_place == "receive" else [received, datatype]
        outgoing: Any = [kept, given.out_counts, given.out_offsets, datatype]
        incoming: Any = [received, given.in_counts, given.in_offsets, datatype]
        if in_place == "send":
            outgoing = MPI.IN_PLACE
        op, root = mpi_operator(operator), message.root
        right, left = neighbours(comm)
        calls: dict[str, Callable[[], None]] = {
            "MPI_Allreduce": lambda: comm.Allreduce(source, target, op),
            "MPI_Reduce": lambda: comm.Reduce(source, target, op, root),
            "MPI_Scan": lambda: comm.Scan(source, target, op),
            "MPI_Exscan": lambda: comm.Exscan(source, target, op),
            "MPI_Reduce_scatter_block": lambda: comm.Reduce_scatter_block(source, target, op),
            "MPI_Reduce_scatter": lambda: comm.Reduce_scatter(source, target, given.out_counts, op),
            "MPI_Bcast": lambda: comm.Bcast(target, root),
            "MPI_Allgather": lambda: comm.Allgather(source, target),
            "MPI_Allgatherv": lambda: comm.Allgatherv(source, incoming),
            "MPI_Gather": lambda: comm.Gather(source, target, root),
            "MPI_Gatherv": lambda: comm.Gatherv(source, incoming, root),
            "MPI_Scatter": lambda: comm.Scatter(source, target, root),
            "MPI_Scatterv": lambda: comm.Scatterv(outgoing, target, root),
            "MPI_Alltoall": lambda: comm.Alltoall(source, target),
            "MPI_Alltoallv": lambda: comm.Alltoallv(outgoing, incoming),
            "MPI_Sendrecv": lambda: comm.Sendrecv(source, right, 0, target, left, 0),
            "MPI_Sendrecv_replace": lambda: comm.Sendrecv_replace(target, right, 0, left, 0),
            "MPI_Barrier": comm.Barrier,
        }
        result = place.result
        self._averaged = None
        if message.average:
            self._averaged = spaces[OUTPUT][: result.count]
        self._rank, self._ranks, self._failure = comm.rank, comm.size, MPI.Exception
        self._call = calls[self.function]

    def __call__(self) -> None:
        """Call the library; MPI has no average, so the division is part of the call."""
        try:
            self._call()
        except self._failure as error:
            raise EngineError(f"rank {self._rank}, {self.position()}: {error}") from None
        if self._averaged is not None:
            divide(self._averaged, self._ranks)

    def position(self) -> str:
        """Say which function the call is in."""
        return f"inside {self.function}"
