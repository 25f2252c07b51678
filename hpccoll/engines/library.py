"""The library engine: the MPI library's own collectives, called as an application would."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hpccoll.collectives import Collective
from hpccoll.datatypes import Array, Operator, divide
from hpccoll.errors import EngineError
from hpccoll.layout import Layout, Message
from hpccoll.partition import Partition

if TYPE_CHECKING:
    from mpi4py import MPI


class LibraryCall:
    """The library's collective bound to buffers.

    The regular call is used where blocks are equal, the irregular one (``v``) where they aren't.

    Parameters
    ----------
    spaces
        Input and output, one-dimensional contiguous arrays of one dtype.
    op
        Used instead of the operator's own.
    """

    engine = "library"

    def __init__(
        self,
        collective: Collective,
        message: Message,
        place: Layout,
        spaces: Sequence[Array],
        operator: Operator,
        comm: "MPI.Comm",
        datatype: "MPI.Datatype",
        op: "MPI.Op | None" = None,
    ) -> None:
        from mpi4py import MPI

        blocks = Partition(message.count, comm.size)
        self.function = collective.baseline[not blocks.even]
        counts = [blocks.size(rank) for rank in range(comm.size)]
        source: Any = MPI.IN_PLACE if place.in_place else [spaces[0], datatype]
        target: Any = [spaces[1], datatype]
        op = op or getattr(MPI, operator.mpi)
        root = message.root
        gathered = [spaces[1], counts, datatype]
        calls: dict[str, Callable[[], None]] = {
            "MPI_Allreduce": lambda: comm.Allreduce(source, target, op),
            "MPI_Reduce_scatter_block": lambda: comm.Reduce_scatter_block(source, target, op),
            "MPI_Reduce_scatter": lambda: comm.Reduce_scatter(source, target, counts, op),
            "MPI_Allgather": lambda: comm.Allgather(source, target),
            "MPI_Allgatherv": lambda: comm.Allgatherv(source, gathered),
            "MPI_Bcast": lambda: comm.Bcast(target, root),
            "MPI_Reduce": lambda: comm.Reduce(source, target, op, root),
        }
        result = place.result
        self._averaged = spaces[1][: result.count] if operator.average else None
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
