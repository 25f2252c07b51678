"""The python engine: a plan run with mpi4py and array operations, readable rather than fast."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpccoll.datatypes import Array, Operator, convert, converted, divide
from hpccoll.engines.call import describe
from hpccoll.layout import Region
from hpccoll.plan import Convert, Copy, Plan, PostRecv, PostSend, Reduce, Scale, Wait

if TYPE_CHECKING:
    from mpi4py import MPI


class PythonCall:
    """A plan bound to buffers: everything that can be made ready before the call is.

    Parameters
    ----------
    spaces
        Those of the plan, one-dimensional contiguous arrays.
    before_send
        What is done to a region before it is sent.
    """

    engine = "python"
    function = "MPI_Isend, MPI_Irecv, MPI_Waitall"

    def __init__(
        self,
        plan: Plan,
        spaces: Sequence[Array],
        operator: Operator,
        comm: "MPI.Comm",
        before_send: Callable[[Region], None] | None = None,
    ) -> None:
        from mpi4py import MPI

        self._before_send = before_send
        self._plan, self._spaces, self._operator, self._comm = plan, spaces, operator, comm
        self._at = 0
        self._requests: list[Any] = [MPI.REQUEST_NULL] * plan.slots
        self._steps = [self._bound(step) for step in plan.instructions]

    def _view(self, region: Region) -> Array:
        return self._spaces[region.space][region.offset : region.offset + region.count]

    def _bound(self, step: object) -> Callable[[], object]:
        if isinstance(step, PostSend | PostRecv):
            return self._post(step)
        if isinstance(step, Wait):
            return self._wait(step)
        if isinstance(step, Reduce):
            reduce = self._operator.ufunc
            left, right, into = map(self._view, (step.left, step.right, step.into))
            partial = self._spaces[0].dtype
            if {left.dtype, right.dtype, into.dtype} != {partial}:
                return lambda: convert(
                    reduce(converted(left, partial), converted(right, partial)), into
                )
            return lambda: reduce(left, right, out=into)
        if isinstance(step, Convert):
            theirs, ours = self._view(step.source), self._view(step.into)
            return lambda: convert(theirs, ours)
        if isinstance(step, Scale):
            data, ranks = self._view(step.region), self._plan.size
            return lambda: divide(data, ranks)
        assert isinstance(step, Copy)
        target, source = self._view(step.into), self._view(step.source)
        return lambda: np.copyto(target, source)

    def _post(self, step: PostSend | PostRecv) -> Callable[[], None]:
        requests, slot = self._requests, step.slot
        post = self._comm.Isend if isinstance(step, PostSend) else self._comm.Irecv
        # As bytes, for MPI has no name for every element type.
        buffer, peer, channel = self._view(step.region).view(np.uint8), step.peer, step.channel
        before = self._before_send if isinstance(step, PostSend) else None

        def start() -> None:
            if before:
                before(step.region)
            requests[slot] = post(buffer, peer, channel)

        return start

    def _wait(self, step: Wait) -> Callable[[], None]:
        from mpi4py import MPI

        requests, slots = self._requests, step.slots

        def wait() -> None:
            MPI.Request.Waitall([requests[slot] for slot in slots])

        return wait

    def __call__(self) -> None:
        """Run the plan."""
        for self._at, step in enumerate(self._steps):  # noqa: B020
            step()

    def position(self) -> str:
        """Say which round and which messages the call is waiting for."""
        return describe(self._plan, self._at)
