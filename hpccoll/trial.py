"""A call of one of hpccoll's own algorithms, by which something about the machine is found."""

from typing import TYPE_CHECKING

import numpy as np

from hpccoll import datatypes
from hpccoll.bind import bind
from hpccoll.buffers import allocate
from hpccoll.datatypes import Array
from hpccoll.engines.call import Call
from hpccoll.engines.python import PythonCall
from hpccoll.layout import Message, layout
from hpccoll.segmentation import Segmentation
from hpccoll.spelling import choose

if TYPE_CHECKING:
    from mpi4py import MPI

    from hpccoll.engines.native import Native

CALLS = 15
"""Calls that are made of each."""


def trial(
    of: str, algorithm: str, size: int, cut: Segmentation, native: "Native | None", comm: "MPI.Comm"
) -> tuple[Call, list[Array]]:
    """Return a call with `size` bytes of float32, to be summed, and its buffers.

    Parameters
    ----------
    native
        The extension bound to `comm`, or None for the python engine.
    """
    (choice,) = choose(of, algorithm)
    message, dtype = Message(size // 4, 4), np.dtype(np.float32)
    plan = bind(choice, comm.rank, comm.size, message, cut)
    place = layout(choice.algorithm.collective, comm.rank, comm.size, message)
    spaces = allocate(place, plan.scratch, dtype)
    operator = datatypes.operator("sum")
    if native:
        return native.plan(plan, spaces, operator), spaces
    return PythonCall(plan, spaces, operator, comm), spaces
