"""What is given to Slurm for a sweep, and what is made of its answers; Slurm itself is a stub."""

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpccoll.cli import cli
from hpccoll.errors import UsageError
from hpccoll.sweep import plan, slurm, submitted
from hpccoll.sweep.plan import Allocation, Element, Estimate, Plan
from hpccoll.sweep.results import Results
from hpccoll.sweep.slurm import Settings
from hpccoll.sweep.status import FAILED, MISSING, PENDING, RUNNING

ALLOCATIONS = (Allocation(2, 2, "mpich"), Allocation(5, 2, "openmpi"))
NAME = 'a "b"; rm -rf $HOME %j'
"""What no shell may see, and sbatch would replace."""
PYTHONS = {"mpich": "/opt/mpich/python", "openmpi": "/opt/open mpi/python"}


@pytest.fixture
def results(tmp_path):
    """Return the results of a sweep of two allocations of three elements each."""
    elements = [
        Element(index, ALLOCATIONS[index // 3], {}, Estimate(30.0 + index, 0)) for index in range(6)
    ]
    directory = tmp_path / NAME
    directory.mkdir()
    return Results(directory, Plan(NAME, "bench", tuple(elements)))


class Slurm:
    """Answers as Slurm's commands do, by the first word, and keeps the calls."""

    def __init__(self, monkeypatch, **answers):
        self.answers = {"scontrol": "MaxArraySize = 1001", "sbatch": "7;here"} | answers
        self.calls = []
        monkeypatch.setattr(slurm, "call", self)
        monkeypatch.setattr(submitted, "call", self)

    def __call__(self, *words):
        self.calls.append(words)
        if "launcher" in words:
            return "srun\n--mpi=pmi2"
        answer = self.answers[words[0]]
        if isinstance(answer, UsageError):
            raise answer
        return answer


def settings(**more):
    return Settings(output="all.jsonl", pythons=PYTHONS, **more)


def test_elements_of_one_allocation_are_one_array(monkeypatch, results):
    Slurm(monkeypatch)
    todo = frozenset({0, 1, 2, 3, 5})
    made = slurm.arrays(Path("plan.json"), results, settings(throttle=4), todo)
    assert [array.indices for array in made] == [(0, 1, 2), (3, 5)]
    one, other = (array.words for array in made)
    assert {"--array=0-2%4", "--ntasks=2", "--nodes=2", "--ntasks-per-node=1"} <= set(one)
    assert {"--array=3,5%4", "--ntasks=5", "--nodes=2", "--ntasks-per-node=3"} <= set(other)
    assert "--exclusive" in one


def test_an_element_is_told_to_end_after_the_time_that_it_may_take(monkeypatch, results):
    Slurm(monkeypatch)
    made = slurm.arrays(Path("plan.json"), results, settings(limit=1000.0), frozenset({0}))
    (time,) = [word for word in made[0].words if word.startswith("--time=")]
    (signal,) = [word for word in made[0].words if word.startswith("--signal=B:USR1@")]
    minutes, lead = int(time.partition("=")[2]), int(signal.rpartition("@")[2])
    # Slurm sends it up to a minute before it is due.
    assert 60 * minutes - lead - 60 >= 1000 > 60 * (minutes - 1) - lead - 60


def test_every_library_has_its_python_and_the_index_is_the_last_word(monkeypatch, results):
    Slurm(monkeypatch)
    made = slurm.arrays(Path("plan.json"), results, settings(shared=True), frozenset(range(6)))
    for array, python in zip(made, PYTHONS.values(), strict=True):
        script = array.words.index(str(slurm.SCRIPT))
        launch = ("srun", "--mpi=pmi2", python, "-m", "hpccoll", "sweep", "run")
        assert array.words[script + 1 : script + 8] == launch
        assert array.words[-3:] == ("--directory", str(results.directory), "--index")
        assert "--exclusive" not in array.words
    with pytest.raises(UsageError, match="add --python openmpi=PATH"):
        slurm.arrays(
            Path("plan.json"), results, Settings("", pythons={"mpich": "x"}), frozenset({3})
        )


def test_names_reach_sbatch_as_they_are_and_its_patterns_are_kept_from_them(monkeypatch, results):
    Slurm(monkeypatch)
    (array,) = slurm.arrays(Path("plan.json"), results, settings(), frozenset({0}))
    assert f"--job-name={NAME}" in array.words
    (output,) = [word for word in array.words if word.startswith("--output=")]
    assert output.endswith("rm -rf $HOME %%j/slurm-%A_%a.out")
    assert NAME not in slurm.SCRIPT.read_text()


def test_the_script_becomes_its_words_whatever_they_are(tmp_path):
    python = "import sys; print(sys.argv[1:])"
    words = ["/bin/bash", slurm.SCRIPT, "python3", "-c", python, NAME, "--index"]
    for environment, more in (({"SLURM_ARRAY_TASK_ID": "3"}, ["3"]), ({}, [])):
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            check=True,
            env={"PATH": "/usr/bin:/bin"} | environment,
        )
        assert done.stdout == f"{[NAME, '--index', *more]}\n"


def test_an_index_that_arrays_cant_have_is_refused(monkeypatch, results):
    Slurm(monkeypatch, scontrol="A = 1\nMaxArraySize            = 5\n")
    with pytest.raises(UsageError, match=r"element 5, but .* below 5 \(MaxArraySize\); split"):
        slurm.arrays(Path("plan.json"), results, settings(), frozenset(range(6)))
    assert slurm.arrays(Path("plan.json"), results, settings(), frozenset({4}))


def test_the_collector_waits_for_all_arrays_however_they_end(monkeypatch, results):
    stub = Slurm(monkeypatch)
    told = []
    slurm.submit(
        Path("plan.json"), results, settings(), frozenset({0, 3}), lambda *job: told.append(job)
    )
    assert [(job, indices) for job, indices, _ in told] == [("7", (0,)), ("7", (3,)), ("7", ())]
    assert "--dependency=afterany:7:7" in stub.calls[-1]
    assert stub.calls[-1][-2:] == ("--output", "all.jsonl")


def test_what_still_runs_is_waited_for_by_the_next_collection(monkeypatch, results):
    stub = Slurm(monkeypatch, squeue="3 0 RUNNING None\n5 N/A PENDING Dependency")
    for job, indices in (("2", (1,)), ("3", (0,)), ("4", ()), ("5", ())):
        submitted.add(results, settings(), job, indices, ("sbatch",))
    assert submitted.unfinished(submitted.read(results)) == (["3"], ["5"])
    slurm.submit(Path("p.json"), results, settings(), frozenset({1}), lambda *job: None, ["3"])
    assert "--dependency=afterany:3:7" in stub.calls[-1]


def test_jobs_that_were_submitted_before_one_is_refused_are_known(monkeypatch, results):
    stub = Slurm(monkeypatch)

    def tell(job, indices, words):
        submitted.add(results, settings(), job, indices, words)
        stub.answers["sbatch"] = UsageError("sbatch failed: no such partition")

    with pytest.raises(UsageError, match="no such partition"):
        slurm.submit(Path("plan.json"), results, settings(), frozenset({0, 3}), tell)
    assert [job.indices for job in submitted.read(results)] == [(0,)]


def test_another_plan_is_overwritten_by_a_submission_only_if_that_is_wanted(monkeypatch, tmp_path):
    Slurm(monkeypatch)
    file, path = tmp_path / "sweep.toml", tmp_path / "sweep.json"
    file.write_text('[base]\ncollective = "bcast"\nranks = 2', encoding="utf-8")
    path.write_text("something else", encoding="utf-8")
    words = ["sweep", "submit", str(file)]
    refused = CliRunner().invoke(cli, words).exception
    assert "exists; choose another --output, or overwrite it with --force" in str(refused)
    assert path.read_text(encoding="utf-8") == "something else"
    assert CliRunner().invoke(cli, [*words, "--force"]).exit_code == 0
    assert plan.read(path).name == "sweep"


def test_what_runs_or_waits_is_what_slurm_says_of_the_sweeps_own_jobs(monkeypatch, results):
    queue = "7 0 RUNNING None\n7 1 PENDING JobArrayTaskLimit\n9 4 RUNNING None\n7 5 COMPLETING None"
    Slurm(monkeypatch, squeue=queue)
    submitted.add(results, settings(), "7", (0, 1, 2), ("sbatch",))
    jobs = submitted.read(results)
    assert submitted.queued(jobs) == {
        0: (RUNNING, "job 7_0"),
        1: (PENDING, "job 7_1: JobArrayTaskLimit"),
    }
    (results.directory / "slurm-7_2.out").write_text("first\nno module named hpccoll\n\n")
    words = [(state.word, state.reason) for state in submitted.states(results, jobs)]
    assert words[2] == (FAILED, "job 7_2 is over: no module named hpccoll")
    assert [word for word, _ in words] == [RUNNING, PENDING, FAILED, MISSING, MISSING, MISSING]


def test_settings_are_kept_for_a_resumption(results):
    given = settings(throttle=3, mpi="pmix", limit=5.0, options=("--partition=a b",))
    made = submitted.add(results, given, "7", (0,), ("sbatch", "x y"))
    assert submitted.read(results) == [made]
    with (results.directory / "submitted.jsonl").open("a") as file:
        file.write('{"job": "8", "ind')
    with pytest.raises(UsageError, match="has a torn line, so a job of this sweep isn't known"):
        submitted.read(results)


def test_the_jobs_of_another_plan_are_refused(results):
    submitted.add(results, settings(), "7", (0,), ("sbatch",))
    other = Results(results.directory, Plan("other", "bench", results.plan.elements))
    with pytest.raises(UsageError, match="is of another plan"):
        submitted.read(other)


def test_a_command_that_fails_is_named_with_its_own_words():
    with pytest.raises(UsageError, match="sh failed: no"):
        slurm.call("sh", "-c", "echo no >&2; exit 3")
    with pytest.raises(UsageError, match=r"no-such-command can't be run: .* every --python"):
        slurm.call("no-such-command")
