"""The library's own algorithms on real ranks: the names are its own, and what has a name ran."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hpccoll.collectives import COLLECTIVES
from hpccoll.selection.open_mpi import FALLBACKS

REPETITIONS = 6
OPTIONS = ("--warmup", "1", "--repetitions", f"{REPETITIONS}", "--min-repetitions", "1")
SIZES = (4, 24, 4096, 24000)
"""Fewer elements than ranks, and numbers that 2 and 3 ranks divide, and don't."""
FEWEST = {"gather": 3, "scatter": 3, "scan": 3, "exscan": 3, "sendrecv": 1}
"""Of the algorithms of a collective, with the library's own choice: some have only two."""


def records_of(path):
    """Return the measured and the skipped records of a file."""
    _, *records = [json.loads(line) for line in path.read_text().splitlines()]
    kinds = ("measurement", "skipped")
    return [[record for record in records if record["type"] == kind] for kind in kinds]


@pytest.fixture
def installed(launcher):
    """Return, by MPI function, the names that the library's own tool prints, in order."""
    folder = Path(sys.executable).parent
    if launcher.open_mpi:
        command = [folder / "ompi_info", "--parsable", "--level", "9", "--param", "coll", "tuned"]
        variable = r"\S*:coll_tuned_(\w+)_algorithm:enumerator:value:\d+:"
        value = variable + "(?P<value>.+)"
    else:
        command = [folder / "mpivars"]
        variable, value = r"\tMPIR_CVAR_(\w+?)(_INTRA_ALGORITHM)? *=", r"(?P<value>\w+) +- "
    printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    found = {}
    for line in printed.stdout.splitlines():
        if named := re.match(variable, line):
            selects = launcher.open_mpi or named[2]
            names = found.setdefault(f"MPI_{named[1].capitalize()}", []) if selects else []
        if listed := re.match(value, line):
            names.append(listed["value"])
    return found


@pytest.mark.parametrize("ranks", [2, 3])
def test_every_algorithm_of_the_library_is_measured_and_right_or_skipped_with_the_reason(
    launcher, tmp_path, installed, ranks
):
    words = [
        ["bench", name, "-a", "library:all", *_sizes_of(of), *OPTIONS]
        for name, of in COLLECTIVES.items()
    ]
    words.append([*words[0], "--engine", "python"])
    paths = [tmp_path / f"{number}.jsonl" for number in range(len(words))]
    commands = [["", *each, "-o", str(path)] for each, path in zip(words, paths, strict=True)]
    job = launcher.run(ranks, "commands", json.dumps(commands))
    assert (job.code, job.err) == (0, ""), job.err
    for (_, _, name, *_), path in zip(commands, paths, strict=True):
        measured, skipped = records_of(path)
        assert all(record["check"] == "ok" for record in measured)
        for size in SIZES if COLLECTIVES[name].moves_data else (0,):
            function = COLLECTIVES[name].baseline[size // 4 % ranks > 0]
            known = [f"library:{own}" for own in installed.get(function, ())[1:]]
            able = {r["algorithm"]: r for r in measured if r["bytes"] == size}
            unable = {r["algorithm"]: r for r in skipped if r["bytes"] == size}
            assert able.keys() - {"library"} <= set(known)
            assert not able.keys() & unable.keys()
            if unable.keys() != {"library:all"}:
                assert able.keys() | unable.keys() == {"library", *known}
            assert able.pop("library")["selection"] is None
            assert all(r["function"] == function for r in able.values())
            assert all(r["engine"] == "library" for r in able.values())
            for label, record in able.items():
                assert record["selection"]["algorithm"] == label.removeprefix("library:")
                assert record["verdict"] is not None
            for record in unable.values():
                assert re.match("not selectable here: .{10}", record["reason"])
        ran = {record["algorithm"] for record in measured}
        assert len(ran) >= FEWEST.get(name, 4), f"{name}: {ran}"


def _sizes_of(collective):
    return ["--sizes", ",".join(map(str, SIZES))] if collective.moves_data else []


def test_the_numbers_of_mpichs_names_are_those_that_it_gives_them_itself(launcher, monkeypatch):
    if launcher.open_mpi:
        pytest.skip("Open MPI says which number a name has")
    variables = json.loads(launcher.run(0, "library_numbers").out)
    for position in range(max(len(each["numbers"]) for each in variables.values())):
        expected = {}
        for name, each in variables.items():
            if position < len(each["numbers"]):
                chosen = list(each["numbers"])[position]
                monkeypatch.setenv(name, chosen)  # which MPICH reads by name
                expected[name] = each["numbers"][chosen]
        job = launcher.run(0, "library_numbers")
        assert job.code == 0, job.err
        found = json.loads(job.out)
        assert {name: found[name]["value"] for name in expected} == expected


def test_a_name_that_the_library_hasnt_is_refused_once_with_the_nearest(launcher, tmp_path):
    words = ("bench", "bcast", "-a", "library:binomail", "--sizes", "8")
    job = launcher.hpccoll(2, *words, "-o", tmp_path / "results.jsonl")
    assert job.code == 2
    assert job.err.count("algorithm of MPI_Bcast 'binomail'; did you mean binomial?") == 1
    assert "(choose from " in job.err
    assert not (tmp_path / "results.jsonl").exists()


@pytest.mark.parametrize("collective", ["allreduce", "allgather", "bcast"])
def test_a_choice_that_isnt_in_effect_is_noticed_and_not_measured(launcher, tmp_path, collective):
    output = tmp_path / "results.jsonl"
    words = ("bench", collective, "-a", "library:all", "--sizes", "24", *OPTIONS, "-o", output)
    job = launcher.run(3, "unselected", *words)
    assert job.code == 0, job.err
    measured, skipped = records_of(output)
    assert [record["algorithm"] for record in measured] == ["library"]
    assert {record["algorithm"] for record in skipped} == {"library:all"}
    assert all("doesn't decide what MPI_" in record["reason"] for record in skipped)


def test_another_component_of_open_mpi_gives_way_or_is_noticed(launcher, tmp_path, monkeypatch):
    if not launcher.open_mpi:
        pytest.skip("MPICH has no components")
    output = tmp_path / "results.jsonl"
    words = ("bench", "bcast", "-a", "library:all", "--sizes", "24", *OPTIONS, "--force")
    monkeypatch.setenv("OMPI_MCA_coll_sm_priority", "90")
    job = launcher.hpccoll(2, *words, "-o", output)
    assert job.code == 0, job.err
    measured, _ = records_of(output)
    assert len(measured) >= 8
    monkeypatch.setenv("OMPI_MCA_coll", "^tuned")
    job = launcher.hpccoll(2, *words, "-o", output)
    assert job.code == 0, job.err
    measured, skipped = records_of(output)
    assert [record["algorithm"] for record in measured] == ["library"]
    assert "runs without its component coll/tuned" in skipped[0]["reason"]


@pytest.mark.parametrize("ranks", [4, 5])
def test_open_mpi_sends_what_its_algorithms_send(launcher, monkeypatch, ranks):
    if not launcher.open_mpi:
        pytest.skip("MPICH counts no messages")
    monkeypatch.setenv("OMPI_MCA_pml_monitoring_enable", "1")
    job = launcher.run(ranks, "traffic")
    assert job.code == 0, job.err
    found = {
        (function, label.removeprefix("library:"), count): (sent, reason)
        for function, label, count, sent, reason in json.loads(job.out)
    }
    for (function, name, count), (sent, reason) in found.items():
        entry = FALLBACKS.get((function, name.partition(":")[0]))
        if entry is None:
            assert reason is None, (function, name, count)
            continue
        other, _ = found[function, entry.instead, count]
        # By its messages an algorithm is another exactly where hpccoll says that it is.
        assert (sent == other) == (reason is not None), (function, name, count, reason)
    _assert_known_traffic(found, ranks)


def _assert_known_traffic(found, ranks):
    def messages(*call):
        sent, _ = found[call]
        return [counts for counts, _ in sent]

    def to(rank, *others):
        return [others.count(other) for other in range(ranks)]

    count = 8 * ranks
    assert messages("MPI_Allreduce", "ring", count) == [
        to(rank, *[(rank + 1) % ranks] * 2 * (ranks - 1)) for rank in range(ranks)
    ]
    assert messages("MPI_Bcast", "basic_linear", count) == [
        to(0, *range(1, ranks)),
        *(to(rank) for rank in range(1, ranks)),
    ]
    chain = [to(rank, *[rank + 1] * (rank + 1 < ranks)) for rank in range(ranks)]
    assert messages("MPI_Bcast", "chain:chain_fanout=1", count) == chain
    assert messages("MPI_Bcast", "pipeline", count) == chain
    assert messages("MPI_Bcast", "chain", count) != chain
    assert messages("MPI_Bcast", "knomial:knomial_radix=2", count) != messages(
        "MPI_Bcast", "knomial", count
    )
    # 16 bytes are half of a rank's share, which only the reduction sends in pieces.
    assert messages("MPI_Allreduce", "segmented_ring:segmentsize=16", count) == [
        to(rank, *[(rank + 1) % ranks] * 3 * (ranks - 1)) for rank in range(ranks)
    ]


def test_mpich_refuses_what_an_algorithm_of_that_name_cant_do(launcher, tmp_path):
    if launcher.open_mpi:
        pytest.skip("Open MPI refuses little")
    chosen = {"allreduce": "reduce_scatter_allgather", "allgather": "recursive_doubling"}
    commands = [
        ["", "bench", of, "-a", f"library:{name}", "--sizes", "4,24", *OPTIONS, "-o", str(path)]
        for of, name in chosen.items()
        for path in [tmp_path / of]
    ]
    job = launcher.run(3, "commands", json.dumps(commands))
    assert job.code == 0, job.err
    refused = {of: [record["bytes"] for record in records_of(tmp_path / of)[1]] for of in chosen}
    # An element can't be scattered over two ranks, and three ranks don't pair.
    assert refused == {"allreduce": [4], "allgather": [4, 24]}


def test_a_forced_ring_that_mixes_up_ordered_operands_is_found_or_refused(launcher, tmp_path):
    output = tmp_path / "results.jsonl"
    words = ("bench", "allreduce", "-a", "library:ring,library:recursive_doubling", "--sizes", "4K")
    job = launcher.hpccoll(4, *words, "--op", "matmul2x2", *OPTIONS, "-o", output)
    measured, skipped = records_of(output)
    checks = {record["algorithm"]: record["check"] for record in measured}
    assert checks["library:recursive_doubling"] == checks["library"] == "ok"
    if launcher.open_mpi:
        assert (job.code, checks["library:ring"]) == (1, "failed")
        assert "1 result is wrong" in job.err
    else:
        assert (job.code, [record["algorithm"] for record in skipped]) == (0, ["library:ring"])
