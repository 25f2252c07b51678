"""Elements of sweeps on real ranks: done once, told to end, killed, resumed, collected."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from time import monotonic, sleep

import pytest

from hpccoll.sweep import log, plan
from hpccoll.sweep.plan import results_of
from hpccoll.sweep.results import Results

SIZES = (8, 64)
DEFAULTS = {
    "bench": {
        "collective": "allreduce",
        "sizes": list(SIZES),
        "time-budget": 0.01,
        "repetitions": 5,
        "segment": "none",
    },
    "layernorm": {"tokens": 4, "hidden": 8, "time-budget": 0.01, "repetitions": 6},
}
LIMIT = 300.0
"""Seconds that a whole sweep may take on a busy machine."""


@pytest.fixture
def planned(tmp_path):
    """Return a function that plans a sweep in a folder with an awkward name."""

    def planned(name="sweep", command="bench", **content):
        folder = tmp_path / "it's; a $(folder)"
        folder.mkdir(exist_ok=True)
        file, path = folder / f"{name}.toml", folder / f"{name}.json"
        base = DEFAULTS[command] | content.pop("base", {})
        if command == "bench" and "algorithm" not in content.get("axes", {}):
            base["algorithm"] = "ring"
        tables = {"base": base, **content}
        file.write_text(
            f'command = "{command}"\n'
            + "".join(
                f"[{table}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in keys.items())
                for table, keys in tables.items()
            )
        )
        done = subprocess.run(
            [sys.executable, "-m", "hpccoll", "sweep", "plan", file, "-o", path],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return path, Results(results_of(path), plan.read(path))

    return planned


def run(launcher, ranks, path, index, *words, **how):
    return launcher.hpccoll(ranks, "sweep", "run", path, "--index", index, *words, **how)


def ends(results, index=0):
    """Return the last words of an element's log."""
    line = log.lines(results.log(results.plan.elements[index]))[-1]
    assert line.what == log.ENDS
    return line.words


def test_an_element_is_run_once_and_again_only_by_force(launcher, planned):
    path, results = planned(base={"ranks": 2})
    first = run(launcher, 2, path, 0)
    assert (first.code, first.err) == (0, "")
    assert "element 0 of 1 of sweep: done: 4 records" in first.out
    content = results.result(results.plan.elements[0])
    assert content.whole
    assert {(r["bytes"], r["algorithm"], r["check"]) for r in content.records} == {
        (size, algorithm, "ok") for size in SIZES for algorithm in ("ring", "library")
    }
    assert (content.run["ranks"], content.run["sweep"]["ranks"]) == (2, 2)
    again = run(launcher, 2, path, 0)
    assert (again.code, again.err) == (0, "")
    assert again.out == "element 0 of 1 of sweep is done already; --force runs it anew\n"
    assert results.result(results.plan.elements[0]) == content
    forced = run(launcher, 2, path, 0, "--force")
    assert (forced.code, forced.err) == (0, "")
    assert results.result(results.plan.elements[0]).run["run"] != content.run["run"]


def test_an_element_on_other_ranks_than_it_is_for_is_refused_once_and_leaves_no_result(
    launcher, planned
):
    path, results = planned(base={"ranks": 3})
    job = run(launcher, 2, path, 0)
    message = "the element is for 3 ranks, but this launch has 2 ranks; launch it with -n 3"
    assert (job.code, job.out) == (2, "")
    assert job.err == f"hpccoll: {message}\n"
    assert ends(results) == f"failed: {message}"
    assert results.result(results.plan.elements[0]) is None
    assert results.partials(results.plan.elements[0]) == []


def test_an_element_for_another_mpi_library_or_more_nodes_is_refused(launcher, planned):
    other = "mpich/4.3" if launcher.open_mpi else "openmpi/5"
    path, _ = planned(base={"ranks": 2, "mpi": other})
    job = run(launcher, 2, path, 0)
    assert job.code == 2
    assert f"the element is for the MPI library {other}, but this launch has" in job.err
    path, _ = planned("nodes", base={"ranks": 2, "nodes": 2})
    job = run(launcher, 2, path, 0)
    assert job.code == 2
    assert "the element is for 2 ranks, 2 nodes, but this launch has 2 ranks, 1 node;" in job.err


def test_a_plan_that_is_not_there_or_another_plans_folder_is_refused_once(launcher, planned):
    path, results = planned(base={"ranks": 2})
    job = run(launcher, 2, path.with_name("none.json"), 0)
    assert job.code == 2
    assert job.err.count("can't be read: No such file") == 1
    assert run(launcher, 2, path, 1).err.count("has the elements 0 to 0, got --index 1") == 1
    assert run(launcher, 2, path, 0).code == 0
    other, _ = planned("other", base={"ranks": 2, "seed": 1})
    job = run(launcher, 2, other, 0, "--directory", results.directory)
    assert job.code == 2
    assert job.err.count("is of another plan") == 1


def test_several_processes_of_a_command_for_one_are_refused(launcher, planned):
    path, _ = planned(base={"ranks": 2})
    for words in (("run", path, "--all"), ("status", path), ("collect", path, "-o", "x")):
        job = launcher.hpccoll(2, "sweep", *words)
        assert (job.code, job.out) == (2, "")
        assert job.err.count("which is for one process; start it without a launcher") == 1


def first_rank(job):
    """Return the process of rank 0, once it is there."""
    for process in job.processes():
        try:
            text = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
            words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        python = Path(os.fsdecode(words[0])).name.startswith("python")
        if python and {b"PMI_RANK=0", b"OMPI_COMM_WORLD_RANK=0"} & set(text):
            return process
    return None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1], ids=lambda n: n.name)
def test_a_run_that_is_told_to_end_keeps_what_it_measured_for_the_next(launcher, planned, number):
    slow = {"time-budget": 0.5, "repetitions": 1000000, "target-ci": 1e-9}
    path, results = planned(base={"ranks": 2, "sizes": [8, 16, 32, 64], **slow})
    element = results.plan.elements[0]
    with launcher.job(2, "-m", "hpccoll", "sweep", "run", path, "--index", "0") as job:
        deadline = monotonic() + LIMIT
        while not any(content.groups for content in results.earlier(element)):
            assert job.process.poll() is None, "it ended by itself"
            assert monotonic() < deadline, "no results came"
            sleep(0.01)
        os.kill(first_rank(job), number)
        ended = job.finish()
    assert ended.code == 1
    assert f"ended in order by {number.name}, with " in ended.err
    assert ends(results).startswith(f"failed: ended in order by {number.name}, with ")
    (kept,) = results.earlier(element)
    assert 0 < len(kept.groups) < 4
    assert run(launcher, 2, path, 0).code == 0
    content = results.result(element)
    assert [group[0]["bytes"] for group in content.groups] == [8, 16, 32, 64]
    assert len(content.runs) == 2
    assert content.groups[: len(kept.groups)] == kept.groups


def hpccoll(start, *words):
    """Start a command of a sweep without launcher."""
    return start(sys.executable, "-m", "hpccoll", "sweep", *words)


def test_all_goes_on_past_what_fails_and_says_so_at_the_end(start, launcher, planned):
    path, results = planned(axes={"ranks": [1, 2]}, base={"timeout": 60})
    # The element for two ranks is started on one.
    words = f"'{launcher.mpiexec}' -n 1"
    with hpccoll(start, "run", path, "--all", "--launcher", words) as job:
        done = job.finish(LIMIT)
    assert done.code == 2
    assert "the elements differ in their ranks, so --launcher must have {ranks}" in done.err
    words = f"'{launcher.mpiexec}' -n 1 env UNUSED={{ranks}}"
    with hpccoll(start, "run", path, "--all", "--launcher", words) as job:
        done = job.finish(LIMIT)
    assert done.code == 1
    assert "element 0: done, 4 records\n" in done.out
    assert "element 1: failed, the element is for 2 ranks, but this launch has 1 rank" in done.out
    assert done.out.endswith("2 elements: 1 done, 1 failed\n")
    with hpccoll(start, "resume", path, "--launcher", f"'{launcher.mpiexec}' -n {{ranks}}") as job:
        done = job.finish(LIMIT)
    assert done.code == 0
    assert done.out == "element 1: done, 4 records\n2 elements: 2 done\n"
    assert ends(results, 1) == "done: 4 records"


def test_comparisons_of_a_norm_are_run_on_their_ranks_and_collected(
    start, launcher, planned, tmp_path
):
    ordering = ["allreduce-layernorm", "layernorm-mean"]
    path, results = planned(
        command="layernorm",
        base={"ordering": ordering, "input": ["iid", "scaled"]},
        axes={"ranks": [1, 2]},
    )
    words = f"'{launcher.mpiexec}' -n {{ranks}}"
    with hpccoll(start, "run", path, "--all", "--launcher", words) as job:
        done = job.finish(LIMIT)
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("element 1: done, 4 records\n2 elements: 2 done\n")
    assert ends(results, 1) == "done: 4 records"
    output = tmp_path / "all.jsonl"
    with hpccoll(start, "collect", path, "-o", output) as job:
        assert job.finish().code == 0
    records = [json.loads(line) for line in output.read_text().splitlines()]
    ran = [record for record in records if record["type"] == "run"]
    assert [(run["ranks"], run["sweep"]["index"]) for run in ran] == [(1, 0), (2, 1)]
    found = [record for record in records if record["type"] == "order"]
    assert {record["run"] for record in found} == {run["run"] for run in ran}
    assert [(r["element"], r["input"], r["order"]) for r in found] == [
        (element, given, order)
        for element in (0, 1)
        for given in ("iid", "scaled")
        for order in ordering
    ]
    assert {record["verdict"] for record in found} == {"agrees"}


def test_a_comparison_that_is_told_to_end_leaves_nothing_and_is_made_anew(
    launcher, planned, tmp_path
):
    path, results = planned(
        command="layernorm",
        base={"ranks": 2, "tokens": 512, "hidden": 1024, "input": "all", "ordering": "fused"},
    )
    element = results.plan.elements[0]
    with launcher.job(2, "-m", "hpccoll", "sweep", "run", path, "--index", "0") as job:
        deadline = monotonic() + LIMIT
        while not (tmp_path / "job" / "stdout").read_text():
            assert job.process.poll() is None, "it ended by itself"
            assert monotonic() < deadline, "nothing was said"
            sleep(0.01)
        os.kill(first_rank(job), signal.SIGTERM)
        ended = job.finish(LIMIT)
    assert ended.code == 1
    assert "ended in order by SIGTERM, with " in ended.err
    assert ends(results).startswith("failed: ended in order by SIGTERM, with ")
    assert results.result(element) is None
    assert results.partials(element) == []
    assert run(launcher, 2, path, 0, limit=LIMIT).code == 0
    assert {record["type"] for record in results.result(element).records} == {"order"}


def test_no_shell_reads_the_launcher_or_a_name_of_the_sweep(start, launcher, planned, tmp_path):
    trap = tmp_path / "trap"
    path, results = planned(
        "x; touch trap", base={"ranks": 1, "mpi": f"$(touch '{trap}'); touch '{trap}'"}
    )
    words = f"'{launcher.mpiexec}' -n {{ranks}} env 'MINE={{mpi}} `touch {trap}`'"
    with hpccoll(start, "run", path, "--all", "--launcher", words) as job:
        done = job.finish(LIMIT)
    assert done.code == 0, done.out + done.err
    assert not trap.exists()
    assert results.result(results.plan.elements[0]).whole


def test_a_launcher_that_takes_too_long_or_says_nothing_is_in_the_log(start, planned):
    path, results = planned(base={"ranks": 1})
    for words, limit, reason in (
        ("sh -c 'exec sleep 60' sh", "0.5", "it took longer than its limit of 0.5 s"),
        ("sh -c 'echo no luck; exit 7' sh", "60", "exit code 7: no luck"),
        ("sh -c 'kill -9 $$' sh", "60", "its launcher was killed by SIGKILL"),
    ):
        more = ("--launcher", words, "--time-limit", limit)
        with hpccoll(start, "resume", path, *more) as job:
            done = job.finish(LIMIT)
        assert done.code == 1
        assert ends(results) == f"failed: {reason}"
        first = log.lines(results.log(results.plan.elements[0]))[0]
        assert (first.what, first.words.split(":")[0]) == (log.BEGINS, "element-0000 of sweep")
        assert f"element 0: failed, {reason}\n" in done.out
    with hpccoll(start, "resume", path, "--launcher", "no-such-launcher -n 2") as job:
        done = job.finish(LIMIT)
    assert done.code == 2
    assert "the launcher 'no-such-launcher' can't be started: No such file" in done.err


def test_whatever_is_killed_of_a_real_sweep_every_cell_is_there_once(
    start, launcher, planned, tmp_path
):
    seeds, random = list(range(12)), Random(7)
    path, results = planned(
        **{"[zip]": {"seed": seeds, "ranks": [1] * 10 + [2] * 2}},
        axes={"algorithm": ["ring", "tree"]},
    )
    words = ("resume", path, "--launcher", f"'{launcher.mpiexec}' -n {{ranks}}")
    kills, began = 0, monotonic()
    while any(not results.path(element).exists() for element in results.plan.elements):
        assert monotonic() - began < LIMIT
        with hpccoll(start, *words) as job:
            while kills < 8 and job.process.poll() is None:
                sleep(0.3 + random.random())
                os.kill(random.choice(job.processes() or [job.process.pid]), signal.SIGKILL)
                kills += 1
            if kills >= 8:
                job.process.wait(LIMIT)
    assert kills == 8
    output = tmp_path / "all.jsonl"
    with hpccoll(start, "collect", path, "-o", output) as job:
        done = job.finish()
    assert (done.code, done.out) == (0, f"{output}: 24 elements: 24 done\n")
    records = [json.loads(line) for line in output.read_text().splitlines()]
    found = [
        (record["element"], record["bytes"], record["algorithm"], record["ranks"])
        for record in records
        if record["type"] == "measurement"
    ]
    assert len(found) == len(set(found))
    assert set(found) == {
        (element.index, size, algorithm, element.allocation.ranks)
        for element in results.plan.elements
        for size in SIZES
        for algorithm in (element.options["algorithm"], "library")
    }
