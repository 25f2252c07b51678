"""The python engine: a plan run with mpi4py and array operations, readable rather than fast."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hpccoll.datatypes import Array, Operator
from hpccoll.layout import SPACES, Region
from hpccoll.plan import Plan, PostRecv, PostSend, Reduce, Wait

if TYPE_CHECKING:
    from mpi4py import MPI


class PythonCall:
    """A plan bound to buffers: everything that can be made ready before the call is.

    Parameters
    ----------
    spaces
        Input, output and scratch, one-dimensional contiguous arrays of one dtype.
    """

    engine = "python"
    function = "MPI_Isend, MPI_Irecv"

    def __init__(
        self, plan: Plan, spaces: Sequence[Array], operator: Operator, comm: "MPI.Comm"
    ) -> None:
        from mpi4py import MPI

        self._plan = plan
        self._at = 0
        self._requests: list[Any] = [MPI.REQUEST_NULL] * plan.slots
        self._steps = [self._bound(step, spaces, operator, comm) for step in plan.instructions]

    def _bound(
        self, step: object, spaces: Sequence[Array], operator: Operator, comm: "MPI.Comm"
    ) -> Callable[[], None]:
        from mpi4py import MPI

        def view(region: Region) -> Array:
            return spaces[region.space][region.offset : region.offset + region.count]

        requests = self._requests
        if isinstance(step, PostSend | PostRecv):
            post = comm.Isend if isinstance(step, PostSend) else comm.Irecv
            buffer, peer, channel, slot = view(step.region), step.peer, step.channel, step.slot

            def start() -> None:
                requests[slot] = post(buffer, peer, channel)

            return start
        if isinstance(step, Wait):
            count = len(step.slots)

            def wait() -> None:
                MPI.Request.Waitall(requests[:count])

            return wait
        if isinstance(step, Reduce):
            reduce = operator.ufunc
            left, right, into = view(step.left), view(step.right), view(step.into)
            return lambda: reduce(left, right, out=into)
        target, source = view(step.into), view(step.source)  # type: ignore[attr-defined]

        def copy() -> None:
            target[:] = source

        return copy

    def __call__(self) -> None:
        """Run the plan."""
        for self._at, step in enumerate(self._steps):  # noqa: B020
            step()

    def position(self) -> str:
        """Say which round and which messages the call is waiting for."""
        table = self._plan.instructions
        step = table[self._at] if table else None
        if not isinstance(step, Wait):
            return f"at instruction {self._at} of {len(table)}, not waiting for a message"
        posted: dict[int, PostSend | PostRecv] = {}
        for earlier in table[: self._at]:
            if isinstance(earlier, PostSend | PostRecv):
                posted[earlier.slot] = earlier
        messages = [
            f"{'send to' if isinstance(posted[slot], PostSend) else 'receive from'} "
            f"rank {posted[slot].peer} ({posted[slot].region.count} elements of "
            f"{SPACES[posted[slot].region.space]})"
            for slot in step.slots
        ]
        return f"in round {step.round}, waiting for " + " and ".join(messages)
