"""The ranks: MPI is started here, in one place, and described for the records."""

import atexit
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from hpccoll.datatypes import Array, mpi_datatype
from hpccoll.errors import UsageError
from hpccoll.launch import Launch, check_library, check_size
from hpccoll.placement import Placement

if TYPE_CHECKING:
    from mpi4py import MPI

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class World:
    """The communicator of all ranks, a duplicate that nobody else uses, and facts about it.

    Attributes
    ----------
    node
        Communicator of the ranks of this rank's node.
    placement
        Which ranks share a node, as MPI sees it.
    hosts, machines, cores
        Per rank: the host's name, what identifies the machine behind it, and the cores that it may
        use. Containers of one machine are several hosts, and share its cores.
    thread_level
        What MPI provided, in words, and why it was asked for.
    """

    comm: "MPI.Intracomm"
    node: "MPI.Comm"
    hosts: tuple[str, ...]
    machines: tuple[str, ...]
    cores: tuple[tuple[int, ...], ...]
    placement: Placement
    library: str
    library_version: str
    standard: str
    thread_level: str
    thread_reason: str

    @property
    def rank(self) -> int:
        """Return this process's rank."""
        return int(self.comm.rank)

    @property
    def size(self) -> int:
        """Return the number of ranks."""
        return int(self.comm.size)

    @property
    def nodes(self) -> int:
        """Return the number of hosts."""
        return len(set(self.hosts))

    @property
    def oversubscribed(self) -> str | None:
        """Say on which machine more ranks than cores run, if any."""
        for machine in dict.fromkeys(self.machines):
            there = [rank for rank, other in enumerate(self.machines) if other == machine]
            cores = len(set().union(*(self.cores[rank] for rank in there)))
            if len(there) > cores:
                hosts = dict.fromkeys(self.hosts[rank] for rank in there)
                where = ", ".join(hosts) + ", one machine" * (len(hosts) > 1)
                return f"{len(there)} ranks share {cores} core{'s' * (cores > 1)} on {where}"
        return None

    def first(self, make: Callable[[], T]) -> T | None:
        """Call `make` on rank 0 and return what it does there, None elsewhere.

        Raises
        ------
        UsageError
            On every rank alike, if rank 0 does.
        """
        made, problem = None, None
        if self.rank == 0:
            try:
                made = make()
            except UsageError as error:
                problem = str(error)
        problem = self.comm.bcast(problem)
        if problem is not None:
            raise UsageError(problem)
        return made

    def datatype(self, dtype: "np.dtype[Any]") -> "MPI.Datatype | None":
        """Return the library's own type for `dtype`, None where it has none."""
        from mpi4py import MPI

        name = mpi_datatype(dtype)
        found = None if name is None else getattr(MPI, name, MPI.DATATYPE_NULL)
        return None if found == MPI.DATATYPE_NULL else found

    def agreed(self, *numbers: float) -> list[float]:
        """Return rank 0's numbers on every rank.

        One message of a fixed length, for this is called between the blocks of a measurement.
        """
        buffer = np.array(numbers, np.float64)
        self.comm.Bcast(buffer, 0)
        values: list[float] = buffer.tolist()
        return values

    def gathered(self, values: Array) -> Array:
        """Return, on rank 0, a row per value with every rank's; elsewhere nothing."""
        rows = np.empty((self.size if self.rank == 0 else 0, len(values)))
        self.comm.Gather(values, rows if self.rank == 0 else None, 0)
        return rows.T

    def slowest(self, times: Array) -> Array:
        """Return, on rank 0, the element-wise maximum over all ranks."""
        from mpi4py import MPI

        result = times.copy() if self.rank == 0 else times
        self.comm.Reduce(times, result, MPI.MAX, 0)
        return result


LEVELS = ("single", "funneled", "serialized", "multiple")
"""MPI's thread levels, in their order."""


def start(launch: Launch, thread_level: str | None = None) -> World:
    """Start MPI and return the world.

    Parameters
    ----------
    thread_level
        One of `LEVELS`. By default *funneled*: *multiple*, which mpi4py asks for, makes some
        libraries' small messages several times slower. But where ranks share cores *multiple*, for
        some libraries' waits don't yield below it.

    Raises
    ------
    UsageError
        The launcher and the MPI library don't belong together.
    """
    import mpi4py

    crowded = launch.crowded
    level = thread_level or ("multiple" if crowded else "funneled")
    reason = "more ranks than cores" if crowded else "no more ranks than cores"
    mpi4py.rc.initialize = False
    from mpi4py import MPI

    vendor, numbers = MPI.get_vendor()
    number = ".".join(map(str, numbers))
    check_library(launch, vendor, number)
    levels = dict(zip(LEVELS, _levels(), strict=True))
    provided = MPI.Init_thread(levels[level])
    atexit.register(MPI.Finalize)
    comm = MPI.COMM_WORLD.Dup()
    check_size(launch, vendor, number, comm.size)
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    here = (os.uname().nodename, _machine(), tuple(sorted(os.sched_getaffinity(0))))
    facts: list[Any] = comm.allgather(here)
    return World(
        comm=comm,
        node=node,
        hosts=tuple(host for host, _, _ in facts),
        machines=tuple(machine for _, machine, _ in facts),
        cores=tuple(cores for _, _, cores in facts),
        placement=Placement(comm.allgather(node.bcast(comm.rank))),
        library=f"{vendor} {number}",
        library_version=MPI.Get_library_version().rstrip("\0").strip(),
        standard=".".join(map(str, MPI.Get_version())),
        thread_level=next(name for name, value in levels.items() if value == provided),
        thread_reason="as asked" if thread_level else reason,
    )


def _machine() -> str:
    """Return what all hosts of one machine have in common, and those of others haven't."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return os.uname().nodename


def _levels() -> list[int]:
    from mpi4py import MPI

    return [
        MPI.THREAD_SINGLE,
        MPI.THREAD_FUNNELED,
        MPI.THREAD_SERIALIZED,
        MPI.THREAD_MULTIPLE,
    ]
