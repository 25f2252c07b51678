"""Sweeps as job arrays: every cell is measured once, however elements end."""

import os
import re
import signal
from collections import Counter
from pathlib import Path
from time import sleep

import pytest
from cluster import ENDED, until
from submission import Sweep

CHAPTER = (Path(__file__).parents[2] / "docs" / "sweep.md").read_text()
EXAMPLE = re.search(r"```toml\n(.*?)```", CHAPTER, re.DOTALL)[1].replace(
    "[base]\n", '[base]\nthread-level = "multiple"\nsegment = "none"\n'
)
"""The chapter's sweep file, with what spares shared cores."""
LONG = """\
[base]
ranks = 2
nodes = 2
algorithm = "ring"
min-bytes = "8"
max-bytes = "16KiB"
repetitions = 1000000
target-ci = 1e-9
time-budget = 0.3
thread-level = "multiple"
segment = "none"
[axes]
collective = ["allreduce", "allgather"]
dtype = ["float32", "float64", "int32", "int64"]
"""
"""Elements that run long enough to be hit; none ends before its time budget."""
FEW = LONG.replace('"allreduce", "allgather"', '"allreduce"').replace("0.3", "0.1")
SHORT = """\
[base]
collective = "allreduce"
ranks = 2
nodes = 2
sizes = "8"
time-budget = 0.1
thread-level = "multiple"
segment = "none"
[axes]
algorithm = ["ring", "tree"]
"""


@pytest.fixture
def sweep(slurm, environment, tmp_path):
    """Return a function that makes a sweep of a text, for MPICH unless said."""

    def sweep(text, mpi="mpich", folder=tmp_path):
        folder.mkdir(exist_ok=True)
        return Sweep(slurm, environment(mpi), folder, text)

    return sweep


def test_the_sweep_of_the_chapter_runs_throttled_and_is_collected(slurm, sweep):
    made = sweep(EXAMPLE)
    *arrays, collector = made.submit("--throttle", "2", "--shared")
    assert len(arrays) == 2, "one for 2 ranks, one for 4"
    most = dict.fromkeys(arrays, 0)
    while slurm.states(collector)["N/A"] not in ENDED:
        for array in arrays:
            running = list(slurm.states(array).values()).count("RUNNING")
            most[array] = max(most[array], running)
        sleep(0.5)
    assert slurm.wait(collector)["N/A"] == "COMPLETED", made.output()
    assert set(most.values()) == {2}
    _, cells = made.assert_every_cell_is_there_once()
    assert len({cell[0] for cell in cells}) == 24
    assert {word for word, _ in made.status().values()} == {"done"}
    assert made.resume() == [], "there is nothing to resume"
    again = made.call("submit", made.file)
    assert again.returncode == 2
    assert "was submitted already; hpccoll sweep resume" in again.stderr


# Elements that are ended


@pytest.fixture
def hit(slurm):
    """Return functions that end an element, by its job and index, each in another way."""

    def processes(job, index, program):
        of = {"SLURM_ARRAY_JOB_ID": job, "SLURM_ARRAY_TASK_ID": index}
        return [p.number for p in slurm.processes(**of) if p.words[0].endswith(program)]

    def rank(job, index):
        (first, *_) = processes(job, index, "python3")
        os.kill(first, signal.SIGKILL)

    def script(job, index):
        # It has become the launcher.
        os.kill(min(processes(job, index, "srun")), signal.SIGKILL)

    def cancelled(job, index):
        slurm.slurm("scancel", f"{job}_{index}")

    def out_of_time(job, index):
        slurm.tell_to_end(f"{job}_{index}")

    def node(job, index):
        slurm.slurm("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=test")

    return [rank, script, cancelled, out_of_time, node]


def test_of_elements_that_are_ended_in_any_way_nothing_is_lost_and_nothing_twice(slurm, sweep, hit):
    made = sweep(LONG)
    jobs = made.submit("--throttle", "2", "--shared")
    kept = []
    for end in hit:
        # Whichever has something to lose.
        index = until(lambda: made.unfinished(kept))
        end(jobs[0], index)
        kept.append(index)
    *ended, _ = kept
    # What ran on the node starts again, by itself after two minutes.
    requeued = until(lambda: slurm.requeued(jobs[0]))
    assert kept[-1] in requeued
    assert until(lambda: made.status()[kept[-1]][0] == "pending")
    for index in requeued:
        slurm.slurm("scontrol", "update", f"JobId={jobs[0]}_{index}", "StartTime=now")
    assert made.wait(jobs) == "FAILED"
    assert "4 of 8 elements aren't done; hpccoll sweep resume runs them" in made.output()
    status = made.status()
    assert {index for index, (word, _) in status.items() if word == "failed"} == set(ended)
    assert {word for word, _ in status.values()} == {"failed", "done"}
    for index in ended:
        assert re.search(r"kept of it: \d+ size", status[index][1]), status
    killed, _, _, in_order = (status[index][1] for index in ended)
    assert "killed" in killed
    assert "ended in order by SIGUSR1" in in_order
    again = made.resume()
    assert set(slurm.states(again[0])) == set(ended)
    assert made.wait(again) == "COMPLETED", made.output()
    records, _ = made.assert_every_cell_is_there_once()
    runs = {r["sweep"]["index"]: r["continued"] for r in records if r["type"] == "run"}
    assert {str(index) for index, continued in runs.items() if continued} >= set(ended)


def test_a_sweep_is_resumed_while_it_runs_and_collected_once(slurm, sweep):
    made = sweep(FEW)
    array, collector = made.submit("--throttle", "2", "--shared")
    index = until(lambda: made.unfinished([]))
    slurm.slurm("scancel", f"{array}_{index}")
    until(lambda: slurm.states(array)[index] == "CANCELLED")
    until(lambda: made.status()[index][0] == "failed")
    cancelled, again, last = made.resume()
    assert cancelled == collector
    assert slurm.wait(collector)["N/A"] == "CANCELLED"
    assert set(slurm.states(again)) == {index}, "what runs or waits isn't submitted again"
    assert slurm.wait(last)["N/A"] == "COMPLETED", made.output()
    made.assert_every_cell_is_there_once()


def test_a_sweep_whose_disk_was_full_goes_on_when_there_is_room(slurm, sweep):
    made = sweep(FEW)
    made.results = slurm.small / "results"
    folder = ("--directory", made.results)
    jobs = made.submit("--throttle", "4", "--shared", *folder)
    assert made.wait(jobs) == "FAILED"
    found = made.status(*folder)
    words = Counter(word for word, _ in found.values())
    assert words["failed"], found
    assert set(words) <= {"done", "failed"}, "each is whole, or says that it isn't"
    slurm.slurm("mount", "-o", "remount,size=8m", slurm.small)
    assert made.wait(made.resume(*folder)) == "COMPLETED"
    made.assert_every_cell_is_there_once()


def test_elements_whose_time_is_nearly_up_end_in_order(slurm, sweep):
    made = sweep(FEW.replace("time-budget = 0.1", "time-budget = 60"))
    # Slurm sends it up to a minute early, so about now.
    *_, collector = made.submit(
        "--shared", "--throttle", "8", "--", "--time=1", "--signal=B:USR1@45"
    )
    assert slurm.wait(collector)["N/A"] == "FAILED"
    states = made.status()
    assert {word for word, _ in states.values()} == {"failed"}
    assert all("ended in order by SIGUSR1" in reason for _, reason in states.values()), states


# Libraries


def test_elements_of_two_mpi_libraries_are_started_as_each_needs_it(sweep, environment):
    made = sweep(SHORT + 'mpi = ["mpich", "openmpi"]\n')
    pythons = [
        word
        for name in ("mpich", "openmpi")
        for path in [Path(environment(name)["PATH"].split(":")[0]) / "python3"]
        for word in ("--python", f"{name}={path}")
    ]
    assert made.run("--shared", "--throttle", "2", *pythons) == "COMPLETED", made.output()
    records, _ = made.assert_every_cell_is_there_once()
    runs = [record for record in records if record["type"] == "run"]
    libraries = Counter((run["library"].split()[0], run["launcher"]) for run in runs)
    assert libraries == {("MPICH", "srun"): 2, ("Open", "srun"): 2}


def test_elements_run_under_the_librarys_own_launcher(sweep):
    made = sweep(SHORT, mpi="openmpi")
    assert made.run("--mpi", "mpirun", "--shared", "--throttle", "2") == "COMPLETED", made.output()
    records, _ = made.assert_every_cell_is_there_once()
    launchers = {record["launcher"] for record in records if record["type"] == "run"}
    assert launchers == {"Open MPI's mpirun"}


def test_the_reason_of_elements_that_were_started_wrong_is_their_state(sweep):
    made = sweep(SHORT, mpi="openmpi")
    assert made.run("--mpi", "pmi2", "--shared") == "FAILED"
    for word, reason in made.status().values():
        assert word == "failed"
        assert "is over" in reason
    assert made.output().count("use srun --mpi=pmix, or mpirun inside the job") == 2


def test_what_would_be_submitted_is_printed_and_nothing_is_done(slurm, sweep):
    made = sweep(SHORT)
    done = made.call("submit", made.file, "--dry-run", "--throttle", "7")
    assert done.returncode == 0, done.stderr
    assert "--array=0-1%7 --ntasks=2 --nodes=2 --ntasks-per-node=1" in done.stdout
    assert "--dependency=afterany:JOB1" in done.stdout
    assert not made.plan.exists()
    assert not made.results.exists()
