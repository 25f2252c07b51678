"""The memory in which orders take turns."""

import numpy as np

from hpccoll.layernorm.workspace import Workspace
from hpccoll.scratch import ALIGNMENT


def taken(workspace):
    workspace.begin()
    return [
        workspace.array(shape, np.dtype(of))
        for shape, of in (((3, 5), "float32"), (0, "float64"), (7, "float16"), ((2, 2), "float64"))
    ]


def test_arrays_of_one_order_never_overlap_and_those_of_the_next_begin_anew():
    trial = Workspace()
    assert not any(np.shares_memory(a, b) for a, b in zip(taken(trial), taken(trial), strict=True))
    workspace = Workspace(trial.used)
    arrays = taken(workspace)
    for number, array in enumerate(arrays):
        array[...] = number
    assert all(np.all(array == number) for number, array in enumerate(arrays))
    assert workspace.used == trial.used
    assert trial.used % ALIGNMENT == 0
    again = taken(workspace)
    assert [a.ctypes.data for a in again] == [a.ctypes.data for a in arrays]
