"""Starting ranks with srun: wrong ways are named with the remedy; a failing rank ends the step."""

import os
import subprocess
import sys
from pathlib import Path
from time import monotonic

import cluster
import pytest
from cluster import LIBRARIES

FLAVOURS = {"mpich": "pmi2", "openmpi": "pmix"}
PROGRAMS = Path(__file__).parents[1] / "ranks" / "programs"
BENCH = ("bench", "allreduce", "-a", "ring", "--sizes", "8", "--segment", "none")


@pytest.fixture
def srun(slurm, environment):
    """Return a function that starts two ranks on two nodes with srun, and how long they took."""

    def srun(mpi, flavour, *words):
        began = monotonic()
        options = ("-N2", "-n2", "--kill-on-bad-exit=1", f"--mpi={flavour}", "python3")
        done = slurm.run("srun", *options, *words, environment=environment(mpi))
        return done, monotonic() - began

    return srun


@pytest.mark.parametrize(
    ("mpi", "flavour"),
    [("mpich", "none"), ("mpich", "pmix"), ("openmpi", "none"), ("openmpi", "pmi2")],
)
def test_ranks_that_would_not_find_each_other_are_refused_with_what_works(srun, mpi, flavour):
    done, _ = srun(mpi, flavour, "-m", "hpccoll", *BENCH)
    assert done.returncode != 0
    assert done.stdout == ""
    remedy = f"use srun --mpi={FLAVOURS[mpi]}, or mpirun inside the job"
    assert done.stderr.count(f"this srun offers {LIBRARIES[mpi]}") == 1, done.stderr
    assert remedy in done.stderr


@pytest.mark.parametrize("mpi", LIBRARIES)
def test_a_job_without_a_launcher_is_refused_with_what_works(slurm, environment, mpi):
    # One process in an allocation of two tasks, as in a batch script that forgot the launcher.
    salloc = ("salloc", "--quiet", "-N2", "-n2", "python3", "-m", "hpccoll", *BENCH)
    done = slurm.run(*salloc, environment=environment(mpi))
    assert done.returncode == 2
    assert f"use srun --mpi={FLAVOURS[mpi]}, or mpirun inside the job" in done.stderr


@pytest.mark.parametrize("mpi", LIBRARIES)
@pytest.mark.parametrize("fault", ["raises before MPI starts", "raises in a call"])
def test_an_exception_on_one_rank_ends_the_step_at_once(srun, mpi, fault):
    words = (PROGRAMS / "faults.py", fault, *BENCH, "--engine", "python")
    done, seconds = srun(mpi, FLAVOURS[mpi], *words)
    assert done.returncode != 0
    assert "hpccoll: [rank 1] failed\nTraceback" in done.stderr
    assert seconds < 20


@pytest.mark.parametrize("mpi", LIBRARIES)
def test_the_launcher_that_belongs_to_the_library_is_printed(slurm, environment, mpi):
    done = slurm.run("python3", "-m", "hpccoll", "launcher", environment=environment(mpi))
    assert done.stdout.split() == ["srun", "--kill-on-bad-exit=1", f"--mpi={FLAVOURS[mpi]}"]


# The cluster itself

CRASHING = """\
import os, sys
sys.path.insert(0, sys.argv[1])
from cluster import cluster
with cluster() as up:
    up.slurm("sbatch", "-N2", "--wrap=srun sleep 1000")
    print(up.folder, up.holder, flush=True)
    if sys.argv[2] == "raises":
        raise KeyError
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("end", ["raises", "is killed"])
def test_of_a_cluster_nothing_is_left_however_its_process_ends(slurm, end):
    folder = str(Path(__file__).parent)
    ended = subprocess.run(
        [sys.executable, "-c", CRASHING, folder, end],
        capture_output=True,
        text=True,
        timeout=cluster.LIMIT,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert ended.returncode == (1 if end == "raises" else -9), ended.stderr
    place, holder = ended.stdout.split()
    deadline = monotonic() + 10
    while Path(place).exists() or Path(f"/proc/{holder}").exists():
        assert monotonic() < deadline, "the cluster is still there"
    assert not cluster.processes(SLURM_CONF=f"{place}/etc/slurm.conf")
