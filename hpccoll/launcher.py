"""Which launcher starts the ranks of a Slurm job so that an MPI library finds them all."""

import shutil
import subprocess
import sys
from collections.abc import Container
from pathlib import Path

from hpccoll.errors import UsageError
from hpccoll.launch import flavour

AUTO = "auto"
MPIRUN = "mpirun"
FLAVOURS = ("pmi2", "pmix")
"""The interfaces through which libraries find srun's ranks, as ``srun --mpi`` names them."""
CHOICES = (AUTO, *FLAVOURS, MPIRUN)

LIMIT = 60.0
"""Seconds that another program may take to answer; a controller that is away takes none."""


def launcher(choice: str = AUTO) -> tuple[str, ...]:
    """Return the words that start a command on every rank of the job that they are run in.

    A rank that fails ends its step: without that the others wait for it until the time is up.

    Parameters
    ----------
    choice
        One of `CHOICES`; by default what belongs to the library that mpi4py loads here.

    Raises
    ------
    UsageError
        It isn't there, or mpi4py loads no library here.
    """
    found = chosen(_vendor(), _offered()) if choice == AUTO else choice
    if found == MPIRUN:
        return (_mpirun(),)
    return ("srun", "--kill-on-bad-exit=1", f"--mpi={found}")


def chosen(vendor: str, offered: Container[str]) -> str:
    """Return which of `CHOICES` a vendor's library needs where srun offers these interfaces."""
    needed = flavour(vendor)
    return needed if needed in offered else MPIRUN


def _vendor() -> str:
    import mpi4py

    mpi4py.rc.initialize = False
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise UsageError(
            f"mpi4py loads no MPI library here ({str(error).splitlines()[0]}); load its module, or "
            f"name the launcher: --mpi {', '.join(CHOICES[1:])}"
        ) from None
    return str(MPI.get_vendor()[0])


def _offered() -> frozenset[str]:
    """Return srun's interfaces; some versions print them to the one stream, some to the other."""
    try:
        listed = subprocess.run(
            ["srun", "--mpi=list"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    return frozenset(listed.stdout.replace(",", " ").split())


def _mpirun() -> str:
    """Return the launcher of this Python's environment, or else the one on PATH."""
    beside = Path(sys.executable).with_name(MPIRUN)
    found = str(beside) if beside.exists() else shutil.which(MPIRUN)
    if found is None:
        raise UsageError(
            "there is no mpirun beside this Python or on PATH; load the module of its MPI library, "
            "or use srun: --mpi pmi2 for MPICH and Intel MPI, --mpi pmix for Open MPI"
        )
    return found
