"""How jobs end that can't be run, that are refused, or that are interrupted."""

import json
import signal
from time import monotonic, sleep

import pytest

BENCH = ("bench", "allgather")
REFUSED = {
    "unknown option": ([*BENCH, "--nonsense"], "Error: No such option"),
    "no number": ([*BENCH, "--repetitions", "many"], "Error: Invalid value for '--repetitions'"),
    "unknown command": (["bensh"], "Error: No such command"),
    "unknown collective": (["bench", "gathr"], "unknown collective 'gathr'"),
    "unknown algorithm": ([*BENCH, "-a", "rign"], "unknown allgather algorithm 'rign'"),
    "unknown dtype": ([*BENCH, "-t", "float23"], "unknown dtype 'float23'"),
    "power of two": (
        [*BENCH, "-a", "recursive-doubling"],
        "recursive-doubling needs a power-of-two number of ranks, got 3",
    ),
    "root": (["bench", "bcast", "--root", "3"], "--root 3 is out of range: 3 ranks"),
    "memory": ([*BENCH, "--sizes", "300000GiB"], "allgather of 300000 GiB needs "),
    "no multiple": ([*BENCH, "--sizes", "1001"], "a size of 1001 B isn't a whole number"),
    "bounds": ([*BENCH, "-b", "2KiB", "-e", "8"], "--min-bytes 2 KiB is above --max-bytes 8 B"),
}


@pytest.mark.parametrize(("words", "message"), REFUSED.values(), ids=REFUSED)
def test_usage_errors_are_printed_once_and_touch_no_results(launcher, tmp_path, words, message):
    output = tmp_path / "results.jsonl"
    output.write_text("precious\n")
    more = ["-o", output, "--force"] if words[0] == "bench" else []
    _assert_refused(launcher.hpccoll(3, *words, *more), message)
    assert output.read_text() == "precious\n"


def test_results_are_not_overwritten_without_force(launcher, tmp_path):
    output = tmp_path / "results.jsonl"
    output.write_text("precious\n")
    words = (*BENCH, "--sizes", "8", "--repetitions", "1", "-o", output)
    _assert_refused(launcher.hpccoll(3, *words), f"{output} exists; choose another --output")
    assert output.read_text() == "precious\n"
    job = launcher.hpccoll(3, *words, "--force")
    assert (job.code, job.err) == (0, ""), job.err
    assert json.loads(output.read_text().splitlines()[0])["type"] == "run"


def test_a_path_that_cant_be_written_is_refused(launcher, tmp_path):
    output = tmp_path / "nowhere" / "results.jsonl"
    job = launcher.hpccoll(3, *BENCH, "-o", output)
    _assert_refused(job, f"{output} can't be written: No such file or directory")


def _assert_refused(job, message):
    assert (job.code, job.out) == (2, "")
    assert job.err.count(message) == 1, job.err
    assert job.err.count("hpccoll: ") + job.err.count("Error: ") == 1, "one message, not several"
    assert "Traceback" not in job.err
    assert "\x1b" not in job.err
    assert job.seconds < 20


def test_the_launcher_of_another_library_is_named_once_with_the_library(
    launcher, other_launcher, tmp_path
):
    output = tmp_path / "results.jsonl"
    job = other_launcher.hpccoll(2, *BENCH, "--sizes", "8", "-o", output, limit=20)
    names = ("mpiexec (Hydra)", "Open MPI") if launcher.open_mpi else ("Open MPI's mpirun", "MPICH")
    _assert_refused(job, f"started by {names[0]}, but this Python's mpi4py loads {names[1]} ")
    assert not output.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_signal_to_the_launcher_ends_the_job_and_whole_lines_stay(launcher, tmp_path, number):
    output = tmp_path / "results.jsonl"
    words = (*BENCH, "--repetitions", "1000000", "--time-budget", "0.1", "-o", output)
    with launcher.job(2, "-m", "hpccoll", *words) as job:
        deadline = monotonic() + 20
        while not (output.exists() and output.read_text().count("\n") > 6):
            assert job.process.poll() is None, "the benchmark ended by itself"
            assert monotonic() < deadline, "no results came"
            sleep(0.02)
        job.process.send_signal(number)
        began = monotonic()
        ended = job.finish(10)
    assert monotonic() - began < 10
    assert ended.code != 0
    text = output.read_text()
    lines = text[: text.rindex("\n")].split("\n")
    first, *others = (json.loads(line)["type"] for line in lines)
    assert first == "run"
    assert set(others) == {"measurement", "skipped"}
