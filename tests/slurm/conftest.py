"""The Slurm that these tests share, and environments with MPI libraries for its jobs."""

import os
import sys
from pathlib import Path

import cluster
import pytest

ENVIRONMENTS = Path(sys.executable).parents[2]

_VARIABLES = {
    # Looking for a fabric takes Open MPI a second per start; nodes of one machine have none.
    "OMPI_MCA_btl": "^ofi",
    "OMPI_MCA_mtl": "^ofi",
    # Nodes share their cores here, which the library can't know: waiting ranks must yield, and none
    # can have a core for itself.
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    # UCX finds that the nodes are one machine, and sometimes that their network has no bandwidth.
    "MPIR_CVAR_CH4_NETMOD": "ofi",
    "FI_PROVIDER": "tcp",
    # MPICH 5.0.2's collectives for shared memory sometimes hang on a busy machine by themselves.
    "MPIR_CVAR_DEVICE_COLLECTIVES": "none",
}
_UNWANTED = {"MPI4PY_LIBMPI", "MPI4PY_MPIABI"}


@pytest.fixture(scope="session")
def slurm():
    """Return a cluster of two nodes that is up until the last test."""
    reason = cluster.unable()
    if reason:
        pytest.skip(reason)
    with cluster.cluster() as up:
        yield up


@pytest.fixture(scope="session")
def environment():
    """Return a function that gives what a job's environment is under an MPI library."""

    def environment(mpi, /, **more):
        python = ENVIRONMENTS / mpi / "bin" / "python3"
        if not python.exists():
            pytest.skip(
                f"there is no environment with {cluster.LIBRARIES[mpi]} at {python.parents[1]}"
            )
        kept = {name: value for name, value in os.environ.items() if name not in _UNWANTED}
        return {**kept, **_VARIABLES, "PATH": f"{python.parent}:{cluster.PATH}", **more}

    return environment
