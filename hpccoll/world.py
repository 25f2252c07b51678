"""The ranks: MPI is started here, in one place, and described for the records."""

import atexit
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from hpccoll.datatypes import Array
from hpccoll.errors import UsageError
from hpccoll.launch import Launch, check_library, check_size

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
    hosts, cores
        Per rank: the host's name and the cores that it may use.
    thread_level
        What MPI provided, in words, and why it was asked for.
    """

    comm: "MPI.Comm"
    node: "MPI.Comm"
    hosts: tuple[str, ...]
    cores: tuple[tuple[int, ...], ...]
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
        """Say on which host more ranks than cores run, if any."""
        for host in dict.fromkeys(self.hosts):
            there = [cores for h, cores in zip(self.hosts, self.cores, strict=True) if h == host]
            cores = len(set().union(*there))
            if len(there) > cores:
                return f"{len(there)} ranks share {cores} core{'s' * (cores > 1)} on {host}"
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

    def slowest(self, times: Array) -> Array:
        """Return, on rank 0, the element-wise maximum over all ranks."""
        from mpi4py import MPI

        result = times.copy() if self.rank == 0 else times
        self.comm.Reduce(times, result, MPI.MAX, 0)
        return result


def start(launch: Launch) -> World:
    """Start MPI and return the world.

    Raises
    ------
    UsageError
        The launcher and the MPI library don't belong together.
    """
    import mpi4py

    crowded = launch.crowded
    mpi4py.rc.thread_level = "multiple" if crowded else "funneled"
    mpi4py.rc.initialize = False
    from mpi4py import MPI

    vendor, numbers = MPI.get_vendor()
    number = ".".join(map(str, numbers))
    check_library(launch, vendor, number)
    levels = {
        MPI.THREAD_SINGLE: "single",
        MPI.THREAD_FUNNELED: "funneled",
        MPI.THREAD_SERIALIZED: "serialized",
        MPI.THREAD_MULTIPLE: "multiple",
    }
    provided = MPI.Init_thread(MPI.THREAD_MULTIPLE if crowded else MPI.THREAD_FUNNELED)
    atexit.register(MPI.Finalize)
    comm = MPI.COMM_WORLD.Dup()
    library = f"{vendor} {number}"
    check_size(launch, library, comm.size)
    facts: list[Any] = comm.allgather((os.uname().nodename, tuple(sorted(os.sched_getaffinity(0)))))
    return World(
        comm=comm,
        node=comm.Split_type(MPI.COMM_TYPE_SHARED),
        hosts=tuple(host for host, _ in facts),
        cores=tuple(cores for _, cores in facts),
        library=library,
        library_version=MPI.Get_library_version().rstrip("\0").strip(),
        standard=".".join(map(str, MPI.Get_version())),
        thread_level=levels[provided],
        thread_reason="more ranks than cores" if crowded else "no more ranks than cores",
    )
