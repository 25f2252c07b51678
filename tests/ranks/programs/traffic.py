"""Count the messages of Open MPI's algorithms, with its component pml_monitoring: traffic.py.

Prints, by function, algorithm and elements, what every rank sends to every other (messages and
bytes), and the reason if hpccoll wouldn't measure it.
"""

import ctypes
import json

import numpy as np

from hpccoll import parsing
from hpccoll.buffers import allocate
from hpccoll.collectives import COLLECTIVES
from hpccoll.datatypes import OPERATORS
from hpccoll.engines.library import LibraryCall, function_of
from hpccoll.errors import EngineError
from hpccoll.launch import detect
from hpccoll.layout import Message, layout
from hpccoll.sampling import Loop
from hpccoll.selection.selections import Selection, select
from hpccoll.selection.tool_interface import ToolInterface
from hpccoll.watchdog import Watchdog
from hpccoll.world import World, start

MORE = {
    "allreduce": ["segmented_ring:segmentsize=16"],
    "bcast": ["knomial:knomial_radix=2", "chain:chain_fanout=1"],
}
"""Choices with parameters, tried beside all without."""
SIZE_CLASS = 2
"""MPI_T_PVAR_CLASS_SIZE in Open MPI's mpi.h, of the monitoring component's counters."""


class Counter:
    """A counter by the ranks that messages go to, in all communicators together."""

    def __init__(self, name: str) -> None:
        from mpi4py import MPI

        interface, index, self._ranks = ToolInterface(), ctypes.c_int(), ctypes.c_int()
        self._session, self._handle = ctypes.c_void_p(), ctypes.c_void_p()
        self._call = interface.call
        self._call("pvar_get_index", name.encode(), SIZE_CLASS, ctypes.byref(index))
        self._call("pvar_session_create", ctypes.byref(self._session))
        comm = ctypes.c_void_p(MPI._addressof(MPI.COMM_WORLD))
        places = ctypes.byref(self._handle), ctypes.byref(self._ranks)
        self._call("pvar_handle_alloc", self._session, index, comm, *places)
        self._call("pvar_start", self._session, self._handle)

    def read(self) -> list[int]:
        values = (ctypes.c_ulong * self._ranks.value)()
        self._call("pvar_read", self._session, self._handle, values)
        return values[:]


def sent(selection: Selection, message: Message, world: World, counters: list[Counter]):
    """Make a call and return what each rank sent to each, None if it failed."""
    collective = next(c for c in COLLECTIVES.values() if selection.function in c.baseline)
    place = layout(collective, world.rank, world.size, message)
    spaces = allocate(place, 0, np.dtype(np.int32))
    arguments = (collective, message, place, spaces, OPERATORS["sum"], selection.comm)
    call = LibraryCall(*arguments, world.datatype(np.dtype(np.int32)))
    assert call.function == selection.function
    world.comm.Barrier()
    before = [counter.read() for counter in counters]
    failed = False
    try:
        with selection.in_calls():
            call()
    except EngineError:
        failed = True
    after = [counter.read() for counter in counters]
    mine = (np.array(after) - np.array(before)).tolist()
    everyone = world.comm.allgather(None if failed else mine)
    return None if None in everyone else everyone


def main() -> None:
    world = start(detect())
    counters = [Counter(f"pml_monitoring_messages_{what}") for what in ("count", "size")]
    found = []
    counts = sorted({1, 2, world.size - 1, world.size, 8 * world.size, 8 * world.size + 1})
    with Watchdog(30, world.rank) as watchdog:
        for name in (name for name, of in COLLECTIVES.items() if of.moves_data):
            names = ["all", *MORE.get(name, ())]
            asked = parsing.build(
                name,
                **OPTIONS,
                algorithm=",".join(f"library:{choice}" for choice in names),
                size_list=",".join(str(4 * count) for count in counts),
            )
            made = select(asked, Loop(world, None, watchdog))
            for count in counts:
                message = Message(count, 4)
                for function, selections in made.selected.items():
                    if function_of(asked.collective, message, world.size) != function:
                        continue
                    _, reasons = made.of(function, message)
                    for selection in selections:
                        label = selection.choice.label
                        traffic = sent(selection, message, world, counters)
                        found.append((function, label, count, traffic, reasons.get(label)))
    if world.rank == 0:
        print(json.dumps(found))


OPTIONS = {
    "no_library": False,
    "min_bytes": None,
    "max_bytes": None,
    "factor": None,
    "dtype": "int32",
    "op": "sum",
    "root_text": "0",
    "no_check": False,
    "in_place": False,
    "repetitions": 1,
    "warmup": 0,
    "time_budget": 1.0,
    "seed": 0,
    "timeout": 30.0,
}

if __name__ == "__main__":
    main()
