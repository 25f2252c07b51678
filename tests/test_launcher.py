"""Which launcher belongs to an MPI library in a job of Slurm."""

import subprocess
from types import SimpleNamespace

import pytest

from hpccoll import launcher
from hpccoll.errors import UsageError


@pytest.mark.parametrize(
    ("vendor", "offered", "choice"),
    [
        ("MPICH", {"none", "pmi2"}, "pmi2"),
        ("Intel MPI", {"none", "pmi2", "pmix"}, "pmi2"),
        ("Open MPI", {"none", "pmi2", "pmix"}, "pmix"),
        ("Open MPI", {"none", "pmi2"}, "mpirun"),
        ("MPICH", {"none", "pmix"}, "mpirun"),
        ("Open MPI", set(), "mpirun"),
    ],
)
def test_srun_starts_what_finds_its_ranks_and_mpirun_the_rest(vendor, offered, choice):
    assert launcher.chosen(vendor, offered) == choice


@pytest.mark.parametrize("flavour", launcher.FLAVOURS)
def test_an_interface_that_is_named_is_taken(flavour):
    words = launcher.launcher(flavour)
    assert words == ("srun", "--kill-on-bad-exit=1", f"--mpi={flavour}")


def test_srun_is_asked_what_it_offers_on_either_stream(monkeypatch):
    listed = "MPI plugin types are...\n\tpmix\n\tnone\n\tpmi2\nspecific versions: pmix_v3,pmix_v4\n"
    asked = []

    def run(words, **how):
        asked.append((words, how["stderr"]))
        return SimpleNamespace(stdout=listed)

    monkeypatch.setattr(subprocess, "run", run)
    assert {"pmix", "none", "pmi2", "pmix_v4"} <= launcher._offered()
    assert asked == [(["srun", "--mpi=list"], subprocess.STDOUT)]


def test_without_srun_nothing_is_offered(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert launcher._offered() == frozenset()


def test_the_mpirun_beside_this_python_comes_before_that_on_path(monkeypatch, tmp_path):
    beside, elsewhere = tmp_path / "environment", tmp_path / "elsewhere"
    for folder in (beside, elsewhere):
        folder.mkdir()
        (folder / "mpirun").touch(mode=0o755)
    monkeypatch.setattr("sys.executable", str(beside / "python3"))
    monkeypatch.setenv("PATH", str(elsewhere))
    assert launcher.launcher("mpirun") == (str(beside / "mpirun"),)
    (beside / "mpirun").unlink()
    assert launcher.launcher("mpirun") == (str(elsewhere / "mpirun"),)
    (elsewhere / "mpirun").unlink()
    with pytest.raises(UsageError, match="no mpirun beside this Python or on PATH; load"):
        launcher.launcher("mpirun")
