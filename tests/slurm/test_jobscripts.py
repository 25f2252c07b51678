"""The job scripts, submitted as people do, on two nodes."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from time import monotonic, sleep

import pytest
from conftest import LIBRARIES

SCRIPTS = Path(__file__).parents[2] / "jobscripts"
SHARED = ("--thread-level", "multiple")
"""Of MPI: nodes share their cores here, and below it MPICH's waits don't yield."""
FAST = ("--sizes", "8,1KiB", "--time-budget", "0.05", "-a", "ring", "--segment", "none", *SHARED)
LONG = ("-a", "ring", "--repetitions", "1000000", "--target-ci", "1e-9", "--time-budget", "0.5")
SWEEP = """\
[base]
collective = "allreduce"
ranks = 2
nodes = 2
sizes = "8"
segment = "none"
time-budget = 0.05
thread-level = "multiple"
[axes]
algorithm = ["ring", "tree"]
"""
SHAPE = ("--nodes=2", "--ntasks-per-node=2")
APART = ("--nodes=2", "--ntasks-per-node=1")


@pytest.fixture
def submit(slurm, environment, tmp_path):
    """Return a function that submits a script in a folder of its own and waits for its end."""

    def submit(mpi, script, /, *words, options=SHAPE, **more):
        job = start(mpi, script, *words, options=options, **more)
        states = slurm.wait(job)
        return set(states.values()), log(job)

    def start(mpi, script, /, *words, options=SHAPE, **more):
        done = slurm.run(
            "sbatch",
            "--parsable",
            f"--chdir={tmp_path}",
            *options,
            SCRIPTS / f"{script}.sbatch",
            *words,
            environment=environment(mpi, **more),
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def log(job):
        return "".join(path.read_text() for path in sorted(tmp_path.glob(f"*-{job}*.out")))

    submit.start, submit.log, submit.environment = start, log, environment
    return submit


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="there is no shellcheck")
@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.sbatch")), ids=lambda path: path.name)
def test_job_scripts_have_no_findings_of_shellcheck(script):
    found = subprocess.run(["shellcheck", script], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("mpi", LIBRARIES)
def test_bench_runs_on_two_nodes(submit, tmp_path, mpi):
    states, log = submit(mpi, "bench", "allreduce", *FAST)
    assert states == {"COMPLETED"}, log
    assert f"4 ranks on 2 nodes\n{LIBRARIES[mpi]}" in log
    (path,) = tmp_path.glob("hpccoll-bench-*.jsonl")
    run, *cells = lines(path)
    assert (run["ranks"], run["nodes"], run["launcher"]) == (4, 2, "srun")
    assert [(cell["bytes"], cell["check"]) for cell in cells if cell["algorithm"] == "ring"] == [
        (8, "ok"),
        (1024, "ok"),
    ]


@pytest.mark.parametrize("mpi", LIBRARIES)
def test_bench_runs_under_the_librarys_own_launcher(submit, tmp_path, mpi):
    states, log = submit(mpi, "bench", "allreduce", *FAST, mpi="mpirun")
    assert states == {"COMPLETED"}, log
    (path,) = tmp_path.glob("hpccoll-bench-*.jsonl")
    run = lines(path)[0]
    assert (run["ranks"], run["nodes"]) == (4, 2)
    assert run["launcher"] != "srun"


@pytest.mark.parametrize("launcher", ["auto", "mpirun"])
@pytest.mark.parametrize("mpi", LIBRARIES)
def test_a_job_that_is_out_of_time_ends_in_order_and_says_so(
    slurm, submit, tmp_path, mpi, launcher
):
    words = ("allreduce", *LONG, *SHARED)
    job = submit.start(mpi, "bench", *words, options=APART, mpi=launcher)
    measured = until(lambda: [p for p in tmp_path.glob("*.jsonl") if len(lines(p)) > 2])
    slurm.tell_to_end(job)
    assert set(slurm.wait(job).values()) == {"FAILED"}
    log = submit.log(job)
    *_, last = records = lines(*measured)
    assert (last["type"], last["by"]) == ("ended", "SIGUSR1"), log
    assert f"ended in order by SIGUSR1, with {last['left']} sizes left to measure" in log
    assert len({r["bytes"] for r in records if r["type"] == "measurement"}) + last["left"] == 22
    assert "Traceback" not in log


def until(found, limit=30.0):
    """Wait until something is found, and return it."""
    deadline = monotonic() + limit
    while not (value := found()):
        assert monotonic() < deadline, "it never came"
        sleep(0.05)
    return value


def test_the_scripts_of_a_sweep_run_its_elements_and_collect_them(slurm, submit, tmp_path):
    (tmp_path / "sweep.toml").write_text(SWEEP)
    plan = ("python3", "-m", "hpccoll", "sweep", "plan", tmp_path / "sweep.toml")
    done = slurm.run(*plan, "-o", tmp_path / "plan.json", environment=submit.environment("mpich"))
    assert done.returncode == 0, done.stderr
    array = submit.start("mpich", "sweep", "plan.json", options=(*APART, "--array=0-1%1"))
    after = (f"--dependency=afterany:{array}",)
    states, log = submit("mpich", "collect", "plan.json", "all.jsonl", options=after)
    assert states == {"COMPLETED"}, log + submit.log(array)
    assert "2 elements: 2 done" in log
    measured = [line for line in lines(tmp_path / "all.jsonl") if line["type"] == "measurement"]
    assert {(line["algorithm"], line["nodes"]) for line in measured} == {
        ("ring", 2),
        ("tree", 2),
        ("library", 2),
    }


def test_compare_mpi_measures_under_both_modules_and_merges_the_launches(
    submit, environment, tmp_path
):
    folders = {mpi: environment(mpi)["PATH"].split(":")[0] for mpi in LIBRARIES}
    modules = tmp_path / "modules.sh"
    cases = "\n".join(f"    {mpi}) PATH={path}:$kept ;;" for mpi, path in folders.items())
    modules.write_text(
        "kept=$PATH\nmodule() {\n  case $2 in\n" + cases + "\n  esac\n"
        "  [[ $1 == load ]] || PATH=$kept\n}\n"
    )
    how = {"options": APART, "launches": "2", "BASH_ENV": str(modules)}
    states, log = submit("mpich", "compare-mpi", "allreduce", *FAST, **how)
    assert states == {"COMPLETED"}, log
    for mpi, library in LIBRARIES.items():
        paths = sorted(tmp_path.glob(f"hpccoll-*-{mpi}-*.jsonl"))
        assert len(paths) == 2
        assert {lines(path)[0]["library"].startswith(library) for path in paths} == {True}
    assert len(re.findall(r"2 launches", log)) == 2


def test_every_rank_of_the_gpu_script_has_a_gpu_of_its_own(submit, tmp_path):
    states, log = submit("mpich", "gpu", "allreduce", *FAST)
    assert states == {"COMPLETED"}, log
    (path,) = tmp_path.glob("hpccoll-gpu-*.jsonl")
    run = lines(path)[0]
    assert (run["ranks"], run["nodes"]) == (4, 2)
    assert re.fullmatch(r"\d", run["environment"]["CUDA_VISIBLE_DEVICES"])


def test_layernorm_runs_on_two_nodes(submit, tmp_path):
    states, log = submit("mpich", "layernorm", "--tokens", "8", "--hidden", "16")
    assert states == {"COMPLETED"}, log
    assert list(tmp_path.glob("hpccoll-layernorm-*.jsonl"))
