"""Who this process is before MPI starts, and whether launcher and MPI library belong together.

Only the standard library is used here: every command of every rank comes through this module.
"""

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hpccoll.errors import UsageError

OPEN_MPI = "Open MPI's mpirun"
HYDRA = "mpiexec (Hydra)"
SRUN = "srun"
CLUSTER = "HPCCOLL_CLUSTER"
"""The variable that tells ranks that their hosts are emulated, by bin/cluster on one machine."""

END = signal.SIGUSR1
"""The signal that tells a job that its time is nearly up; launchers hand it on to all ranks."""

OPEN_MPI_VENDOR = "Open MPI"
"""As mpi4py names the library's vendor."""

_RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")


@dataclass(frozen=True, slots=True)
class Launch:
    """What the launcher's environment says of this process.

    Attributes
    ----------
    launcher
        In words, or None without one.
    size, local_size
        Ranks of the job and of this node, or of all nodes if they are emulated on one machine; 0
        where the launcher doesn't say.
    pmix, pmi
        Whether the launcher offers the PMIx or the PMI interface, through which libraries find the
        other ranks.
    """

    launcher: str | None
    rank: int
    size: int
    local_size: int
    pmix: bool
    pmi: bool

    @property
    def crowded(self) -> bool:
        """Tell whether this node has more ranks than the job may use cores here."""
        return self.local_size > _cores()


def detect(environment: Mapping[str, str] = os.environ) -> Launch:
    """Read the launcher's variables, the most specific launcher first.

    Under mpirun inside a Slurm job, Slurm's variables describe the daemon, so they come last.
    """
    pmix, pmi = "PMIX_RANK" in environment, "PMI_RANK" in environment

    def read(launcher: str, rank: str, size: str, local: str) -> Launch:
        total = int(environment.get(size, "0"))
        there = total if CLUSTER in environment else int(environment.get(local, total))
        return Launch(launcher, int(environment[rank]), total, there, pmix, pmi)

    if "OMPI_COMM_WORLD_RANK" in environment:
        return read(
            OPEN_MPI,
            *("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
        )
    if "MPI_LOCALNRANKS" in environment and pmi:
        return read(HYDRA, "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS")
    if "SLURM_STEP_NUM_TASKS" in environment and "SLURM_PROCID" in environment:
        return read(SRUN, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_TASKS_ON_NODE")
    if pmi:
        return read("a PMI launcher", "PMI_RANK", "PMI_SIZE", "PMI_LOCAL_SIZE")
    if pmix:
        return read("a PMIx launcher", "PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_SIZE")
    return Launch(None, 0, 1, 1, pmix, pmi)


def defer_end() -> None:
    """Let `END`, which would kill this process, wait until the job asks for it.

    It stays blocked and pending: no handler runs between what is measured, and ranks that are in
    MPI lose nothing. Call it before any thread is started.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {END})


def told_to_end() -> str | None:
    """Return the name of the signal that told this process to end since that is deferred."""
    return END.name if END in signal.sigpending() else None


def _cores() -> int:
    """Return how many cores the whole job may use on this node.

    A rank's own affinity may be its share only, so the launcher's counts: that of the nearest
    ancestor which isn't part of the rank, that is, hasn't the rank's number in its environment.
    """
    if "SLURM_CPUS_ON_NODE" in os.environ and "SLURM_STEP_ID" in os.environ:
        return int(os.environ["SLURM_CPUS_ON_NODE"])
    try:
        parent = os.getppid()
        while _part_of_rank(parent):
            parent = int(Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1])
        return len(os.sched_getaffinity(parent))
    except (OSError, ValueError):
        return len(os.sched_getaffinity(0))


def _part_of_rank(process: int) -> bool:
    try:
        variables = Path(f"/proc/{process}/environ").read_bytes()
    except PermissionError:  # another user's: a daemon of the launcher
        return False
    return any(f"\0{name}=".encode() in b"\0" + variables for name in _RANK_VARIABLES)


def check_library(launch: Launch, vendor: str, version: str) -> None:
    """Check before MPI starts that the library will find the launcher's other ranks.

    A library that doesn't understand its launcher either aborts in MPI_Init, or starts as many
    separate worlds of one rank, each of which would measure and write alone.

    Parameters
    ----------
    vendor, version
        The library, as ``mpi4py.MPI.get_vendor`` names it.

    Raises
    ------
    UsageError
        They don't belong together; the message names both and what would.
    """
    if launch.launcher is None:
        return
    open_mpi, intel = vendor == OPEN_MPI_VENDOR, vendor == "Intel MPI"
    if (launch.pmix and (open_mpi or intel)) or (launch.pmi and not open_mpi):
        return
    library = f"{vendor} {version}"
    if launch.launcher == SRUN:
        raise UsageError(
            f"this srun offers {library} no way to find the other {launch.size - 1} ranks; "
            f"use {_in_a_job(vendor)}"
        )
    own = "Open MPI's mpirun" if open_mpi else "its own mpiexec"
    raise UsageError(
        f"started by {launch.launcher}, but this Python's mpi4py loads {library}; start it with "
        f"{own}, or point MPI4PY_LIBMPI at the launcher's library"
    )


def flavour(vendor: str) -> str:
    """Return through which interface of srun's, as its ``--mpi`` says, a library finds all ranks.

    Open MPI does through PMIx alone, MPICH and those made of it through PMI-2.

    Parameters
    ----------
    vendor
        As ``mpi4py.MPI.get_vendor`` names it.
    """
    return "pmix" if vendor == OPEN_MPI_VENDOR else "pmi2"


def _in_a_job(vendor: str) -> str:
    """Return which launches find all ranks of a library in a job of Slurm."""
    return f"srun --mpi={flavour(vendor)}, or mpirun inside the job"


def check_size(
    launch: Launch,
    vendor: str,
    version: str,
    size: int,
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Check after MPI has started that the world is as large as the launcher promised.

    Where nothing launched this process, and it is alone, a job of several tasks is the promise.

    Raises
    ------
    UsageError
        It isn't; the message names what would make it so.
    """
    library, tasks = f"{vendor} {version}", int(environment.get("SLURM_NTASKS", "1"))
    if launch.launcher is None and size == 1 and tasks > 1:
        raise UsageError(
            f"this job of Slurm has {tasks} tasks, but nothing started a rank of {library} on "
            f"each; use {_in_a_job(vendor)}; for one rank alone, srun -n 1"
        )
    if launch.launcher is None or not launch.size or size == launch.size:
        return
    remedy = _in_a_job(vendor) if launch.launcher == SRUN else "the mpirun of this MPI library"
    raise UsageError(
        f"{launch.launcher} started {launch.size} ranks, but {library} sees {size}: launcher and "
        f"library don't belong together; use {remedy}"
    )
