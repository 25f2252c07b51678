"""Launchers by their environment, and which library understands which."""

import signal
from threading import get_ident

import pytest

from hpccoll import launch
from hpccoll.errors import UsageError
from hpccoll.launch import HYDRA, OPEN_MPI, SRUN, Launch, check_library, check_size, detect

# What each launcher sets for rank 2 of 4, two ranks per node.

OMPI = {
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_RANK": "2",
    "PMIX_NAMESPACE": "prterun-host-1@1",
}
MPIEXEC = {"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "2", "MPI_LOCALRANKID": "0"}
STEP = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "2",
    "SLURM_LOCALID": "0",
    "SLURM_NTASKS": "4",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_TASKS_ON_NODE": "2",
}
SRUN_PMIX = STEP | {"PMIX_RANK": "2", "PMIX_NAMESPACE": "slurm.pmix.7.0"}
SRUN_PMI2 = STEP | {"PMI_RANK": "2", "PMI_SIZE": "4", "PMI_FD": "9"}
BATCH = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_TASKS_ON_NODE": "8"}
"""A batch script's own shell."""
DAEMON = STEP | {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_TASKS_ON_NODE": "1"}
"""What ranks inherit from the daemon that mpirun started on their node with srun."""
PRTERUN = {"PMIX_RANK": "2", "PMIX_NAMESPACE": "prterun-host-1@1", "PRTE_LAUNCHED": "1"}
OTHER_PMI = {"PMI_RANK": "2", "PMI_SIZE": "4", "PMI_LOCAL_SIZE": "2"}
OTHERS = {"PATH": "/usr/bin", "HOME": "/", "OMP_NUM_THREADS": "8", "OMPI_MCA_btl": "^ofi"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param(OMPI, Launch(OPEN_MPI, 2, 4, 2, True, False), id="Open MPI"),
        pytest.param(OMPI | BATCH, Launch(OPEN_MPI, 2, 4, 2, True, False), id="Open MPI in a job"),
        pytest.param(OMPI | DAEMON, Launch(OPEN_MPI, 2, 4, 2, True, False), id="Open MPI by srun"),
        pytest.param(MPIEXEC, Launch(HYDRA, 2, 4, 2, False, True), id="Hydra"),
        pytest.param(MPIEXEC | BATCH, Launch(HYDRA, 2, 4, 2, False, True), id="Hydra in a job"),
        pytest.param(MPIEXEC | DAEMON, Launch(HYDRA, 2, 4, 2, False, True), id="Hydra by srun"),
        pytest.param(SRUN_PMIX, Launch(SRUN, 2, 4, 2, True, False), id="srun --mpi=pmix"),
        pytest.param(SRUN_PMI2, Launch(SRUN, 2, 4, 2, False, True), id="srun --mpi=pmi2"),
        pytest.param(STEP, Launch(SRUN, 2, 4, 2, False, False), id="srun --mpi=none"),
        pytest.param(PRTERUN, Launch("a PMIx launcher", 2, 0, 0, True, False), id="prterun"),
        pytest.param(OTHER_PMI, Launch("a PMI launcher", 2, 4, 2, False, True), id="another PMI"),
        pytest.param(BATCH, Launch(None, 0, 1, 1, False, False), id="a batch script alone"),
        pytest.param({}, Launch(None, 0, 1, 1, False, False), id="none"),
    ],
)
def test_the_environment_tells_launcher_rank_and_sizes(environment, expected):
    assert detect(environment) == expected
    assert detect(environment | OTHERS) == expected


# Which library finds its ranks under which launcher

LIBRARIES = ("Open MPI", "MPICH", "Intel MPI", "MVAPICH")
RIGHT = {
    OPEN_MPI: (OMPI, {"Open MPI", "Intel MPI"}),
    HYDRA: (MPIEXEC, {"MPICH", "Intel MPI", "MVAPICH"}),
    "srun --mpi=pmix": (SRUN_PMIX, {"Open MPI", "Intel MPI"}),
    "srun --mpi=pmi2": (SRUN_PMI2, {"MPICH", "Intel MPI", "MVAPICH"}),
    "srun --mpi=none": (STEP, set()),
    "a PMIx launcher": (PRTERUN, {"Open MPI", "Intel MPI"}),
    "a PMI launcher": (OTHER_PMI, {"MPICH", "Intel MPI", "MVAPICH"}),
}


@pytest.mark.parametrize("vendor", LIBRARIES)
@pytest.mark.parametrize("name", RIGHT)
def test_a_library_that_would_not_find_the_other_ranks_is_refused(name, vendor):
    environment, right = RIGHT[name]
    started = detect(environment)
    if vendor in right:
        check_library(started, vendor, "4.2.0")
        return
    with pytest.raises(UsageError) as at:
        check_library(started, vendor, "4.2.0")
    message = str(at.value)
    assert f"{vendor} 4.2.0" in message
    assert started.launcher in message
    if started.launcher == SRUN:
        flavour = "pmix" if vendor == "Open MPI" else "pmi2"
        assert f"use srun --mpi={flavour}, or mpirun inside the job" in message
        assert "the other 3 ranks" in message
    else:
        own = "Open MPI's mpirun" if vendor == "Open MPI" else "its own mpiexec"
        assert f"start it with {own}, or point MPI4PY_LIBMPI at the launcher's library" in message


@pytest.mark.parametrize("vendor", LIBRARIES)
def test_without_a_launcher_every_library_starts_alone(vendor):
    check_library(detect({}), vendor, "1.0")


@pytest.mark.parametrize("environment", [OMPI, MPIEXEC, SRUN_PMIX, SRUN_PMI2, OTHER_PMI])
def test_a_world_of_another_size_than_the_launchers_is_refused(environment):
    started = detect(environment)
    for vendor, flavour in (("MPICH", "pmi2"), ("Intel MPI", "pmi2"), ("Open MPI", "pmix")):
        check_size(started, vendor, "4.2.0", 4, environment)
        remedy = (
            f"srun --mpi={flavour}, or mpirun inside the job"
            if started.launcher == SRUN
            else "the mpirun of this MPI library"
        )
        for size in (1, 2, 8):
            with pytest.raises(UsageError) as at:
                check_size(started, vendor, "4.2.0", size, environment)
            assert str(at.value) == (
                f"{started.launcher} started 4 ranks, but {vendor} 4.2.0 sees {size}: launcher and "
                f"library don't belong together; use {remedy}"
            )


@pytest.mark.parametrize(("vendor", "flavour"), [("MPICH", "pmi2"), ("Open MPI", "pmix")])
def test_one_process_in_a_job_of_several_tasks_is_told_what_starts_the_others(vendor, flavour):
    with pytest.raises(UsageError) as at:
        check_size(detect(BATCH), vendor, "5.0.0", 1, BATCH)
    assert str(at.value) == (
        f"this job of Slurm has 8 tasks, but nothing started a rank of {vendor} 5.0.0 on each; "
        f"use srun --mpi={flavour}, or mpirun inside the job; for one rank alone, srun -n 1"
    )


def test_mpirun_in_a_job_may_start_fewer_ranks_than_the_job_has_tasks():
    for environment in (OMPI | BATCH, MPIEXEC | BATCH):
        check_size(detect(environment), "MPICH", "5.0.0", 4, environment)


def test_a_launcher_that_does_not_tell_its_size_is_believed():
    for size in (1, 2, 8):
        check_size(detect(PRTERUN), "Open MPI", "5.0.0", size, PRTERUN)


def test_a_process_without_launcher_is_a_world_of_one():
    check_size(detect({}), "MPICH", "4.2.0", 1, {})


# Cores


@pytest.mark.parametrize(
    ("local", "cores", "crowded"), [(2, 2, False), (3, 2, True), (1, 2, False)]
)
def test_a_node_is_crowded_with_more_ranks_than_cores(monkeypatch, local, cores, crowded):
    monkeypatch.setattr(launch, "_cores", lambda: cores)
    assert Launch(OPEN_MPI, 0, 8, local, True, False).crowded == crowded


def test_the_hosts_of_an_emulated_cluster_are_one_machine():
    for environment in (OMPI, MPIEXEC):
        assert detect(environment | {launch.CLUSTER: "main"}).local_size == 4


def test_slurm_says_how_many_cores_a_step_has(monkeypatch):
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "12345")
    assert launch._cores() == 12345


# The end


@pytest.fixture
def deferred():
    """Defer the signal for one test; what came is taken before it may kill this process."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    launch.defer_end()
    yield
    while launch.told_to_end():
        signal.sigwait({launch.END})
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def test_the_signal_to_end_waits_until_it_is_asked_for(deferred):
    assert not launch.told_to_end()
    # To this thread: those that numpy has started don't defer it.
    signal.pthread_kill(get_ident(), launch.END)
    assert [launch.told_to_end() for _ in range(2)] == ["SIGUSR1"] * 2, "asking doesn't take it"
