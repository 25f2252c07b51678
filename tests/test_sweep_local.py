"""Launchers of elements: their words, their limits, and what can't be launched. Without MPI."""

import sys
from pathlib import Path

import pytest

from hpccoll.errors import UsageError
from hpccoll.sweep.local import Launching, check, run_all, run_one
from hpccoll.sweep.plan import Allocation, Element, Estimate, Plan
from hpccoll.sweep.results import Results
from hpccoll.sweep.status import FAILED

ELEMENTS = (
    Element(0, Allocation(2, 1, "open mpi; $(x)"), {}, Estimate(10.0, 8)),
    Element(1, Allocation(4, 2, "mpich"), {}, None),
    Element(2, Allocation(4), {}, Estimate(20.0, 8)),
)
PLAN = Path("a plan.json")
RESULTS = Results(Path("its results"), Plan("named", "bench", ELEMENTS))


def launching(launcher, **how):
    return Launching(launcher, PLAN, RESULTS, **how)


def test_a_launcher_is_split_before_its_places_are_filled():
    command = launching("'my run' -n {ranks} -N={nodes} --env 'A={mpi} b'").command(ELEMENTS[0])
    assert command == [
        *("my run", "-n", "2", "-N=1", "--env", "A=open mpi; $(x) b"),
        *(sys.executable, "-m", "hpccoll", "sweep", "run", "a plan.json"),
        *("--index", "0", "--directory", "its results"),
    ]


def test_force_reaches_the_element():
    assert launching("mpirun", force=True).command(ELEMENTS[0])[-1] == "--force"
    assert "--force" not in launching("mpirun").command(ELEMENTS[0])


@pytest.mark.parametrize(
    ("launcher", "message"),
    [
        ("mpirun 'x", "can't be read: No closing quotation"),
        ("  ", "--launcher is empty"),
        ("mpirun -n {rank}", "unknown place 'rank'; did you mean ranks?"),
        ("mpirun -n {}", "unknown place ''"),
        ("mpirun -n {ranks} -N {nodes}", "but element 2 doesn't say its nodes"),
        (
            "mpirun -N {nodes}",
            "the elements differ in their ranks, so --launcher must have {ranks}",
        ),
        ("mpirun -n {ranks}", "the elements differ in their nodes"),
    ],
)
def test_a_launcher_that_cannot_launch_all_elements_is_refused(launcher, message):
    elements = ELEMENTS if "differ" not in message else ELEMENTS[:2]
    with pytest.raises(UsageError) as at:
        check(launching(launcher), elements)
    assert message in str(at.value)


@pytest.mark.parametrize(("launcher", "said"), [("true", "it printed nothing"), ("echo 2", "2")])
def test_an_element_whose_launcher_runs_nothing_has_failed_and_its_log_says_why(
    tmp_path, launcher, said
):
    results = Results(tmp_path / "new", RESULTS.plan)
    told = []
    (failed,) = run_all(Launching(launcher, PLAN, results), ELEMENTS[:1], told.append)
    assert failed.word == FAILED
    assert failed.reason.startswith(f"its launcher ended without a result: {said}")
    assert told == [f"element 0: failed, {failed.reason}"]


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "new"):
        with pytest.raises(UsageError, match=r"can't be written: .*; choose another --directory"):
            run_one(Launching("true", PLAN, Results(folder, RESULTS.plan)), ELEMENTS[0])


def test_an_elements_limit_is_the_one_given_or_follows_from_its_estimate():
    assert launching("mpirun", limit=5.0).seconds(ELEMENTS[0]) == 5.0
    estimated = launching("mpirun")
    assert estimated.seconds(ELEMENTS[1]) is None
    assert 10.0 < estimated.seconds(ELEMENTS[0]) < estimated.seconds(ELEMENTS[2])
