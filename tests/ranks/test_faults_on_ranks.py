"""Faults: what is wrong on one rank or in one message is found by `bench` and named."""

import json
import re

import pytest

MISMATCH = re.compile(
    r"rank (\d+), index (\d+): expected (\d+), got (-?\d+) \((\d+) wrong in all\)"
)
COUNT = 240
FAULTS = {
    "swapped": ("allgather", "ring", "auto"),
    "unreduced": ("allreduce", "recursive-doubling", "auto"),
    "lost": ("bcast", "binomial", "python"),
    "stale": ("allreduce", "tree", "python"),
}


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_faults_are_found_and_named(launcher, tmp_path, ranks):
    commands = [
        [
            *(fault, "bench", collective, "-a", algorithm, "--sizes", f"{4 * COUNT}"),
            *("--segment", "none"),  # a fault is to hit a whole message
            *(
                "--dtype",
                "int32",
                "--engine",
                engine,
                "--repetitions",
                "3",
                "-o",
                f"{tmp_path}/{fault}.jsonl",
            ),
        ]
        for fault, (collective, algorithm, engine) in FAULTS.items()
    ]
    job = launcher.run(ranks, "commands", json.dumps(commands))
    assert job.code == 1, job.err
    assert json.loads(job.out.splitlines()[-1]) == [1] * len(FAULTS)
    assert job.err.count("1 result is wrong") == len(FAULTS)
    found = {fault: _mismatches(tmp_path / f"{fault}.jsonl") for fault in FAULTS}
    assert all(job.out.count(rows[0][0]) == 1 for rows in found.values())
    last = ranks - 1
    # In the checks at start and end: where, and how many elements are wrong.
    assert [row[1:3] for row in found["swapped"]] == [(last, COUNT * (ranks - 2) // ranks)] * 2
    assert {row[-1] for row in found["swapped"]} == {2 * COUNT // ranks}
    for fault in ("unreduced", "lost"):
        assert [row[1:3] for row in found[fault]] == [(last, 0)] * 2
        assert {row[-1] for row in found[fault]} == {COUNT}
    assert all(row[3] != row[4] for rows in found.values() for row in rows)
    assert {row[4] for row in found["lost"]} == {2**31 - 1}, "what nobody wrote"
    # Right at the start, but another result is expected at the end.
    assert [row[1:3] for row in found["stale"]] == [(rank, 0) for rank in range(ranks)]


def _mismatches(path):
    """Return, from the one failed row, each mismatch and its numbers; the library must be right."""
    _run, own, library = map(json.loads, path.read_text().splitlines())
    assert (own["check"], library["check"]) == ("failed", "ok")
    assert library["mismatches"] == []
    return [(words, *map(int, MISMATCH.fullmatch(words).groups())) for words in own["mismatches"]]


@pytest.mark.parametrize("engine", ["auto", "python"])
def test_a_call_that_hangs_ends_the_job_and_every_rank_says_where(launcher, engine):
    words = ("bench", "allreduce", "-a", "ring", "--sizes", "1000", "--engine", engine)
    job = launcher.run(3, "faults", "unanswered", *words, "--timeout", "2", limit=20)
    assert job.code == 1
    assert job.seconds < 10
    told = dict(re.findall(r"\[rank (\d)\] (.*)\n", job.err))
    assert sorted(told) == ["0", "1", "2"]
    # Rank 2 has sent before it waits, so rank 0 goes on for one round and rank 1 for two.
    for rank, number, peer in (("2", 1, 1), ("0", 2, 2), ("1", 3, 0)):
        assert "allreduce ring of 1000 B did not end within 2 s" in told[rank]
        assert f"in round {number}, waiting for " in told[rank]
        assert f"receive from rank {peer} (" in told[rank]


@pytest.mark.parametrize("fault", ["raises before MPI starts", "raises in a call"])
def test_an_exception_on_one_rank_ends_the_job_with_its_traceback(launcher, tmp_path, fault):
    output = tmp_path / "results.jsonl"
    words = ("bench", "allgather", "--sizes", "1000", "--engine", "python", "-o", output)
    job = launcher.run(3, "faults", fault, *words, limit=20)
    assert job.code == 1
    assert job.seconds < 10
    assert re.findall(r"\[rank \d\]", job.err) == ["[rank 1]"]
    assert job.err.count("Traceback") == 1
    assert job.err.count("RuntimeError: a fault of this test") == 1
    assert output.exists() == (fault == "raises in a call")


def test_only_rank_0_is_heard_on_standard_output(launcher):
    words = ("bench", "bcast", "--sizes", "8", "--repetitions", "1")
    job = launcher.run(3, "faults", "every rank talks", *words)
    assert (job.code, job.err) == (0, ""), job.err
    assert job.out.count("this is rank") == job.out.count("this is rank 0") == 1
