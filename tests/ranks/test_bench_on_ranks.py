"""`hpccoll bench` on real ranks: its records, its table, and who speaks."""

import csv
import json
import re
import subprocess
from itertools import product

import pytest

from hpccoll.collectives import COLLECTIVES
from hpccoll.registry import LIBRARY, catalogue

BUSBW = {
    "allreduce": lambda p: 2 * (p - 1) / p,
    "reduce-scatter": lambda p: (p - 1) / p,
    "allgather": lambda p: (p - 1) / p,
    **dict.fromkeys(("gather", "scatter", "alltoall"), lambda p: (p - 1) / p),
    **dict.fromkeys(("bcast", "reduce", "scan", "exscan", "sendrecv"), lambda p: 1),
    "barrier": lambda p: 0,
}
FUNCTIONS = {
    "allreduce": ("MPI_Allreduce", "MPI_Allreduce"),
    "reduce-scatter": ("MPI_Reduce_scatter_block", "MPI_Reduce_scatter"),
    "allgather": ("MPI_Allgather", "MPI_Allgatherv"),
    "gather": ("MPI_Gather", "MPI_Gatherv"),
    "scatter": ("MPI_Scatter", "MPI_Scatterv"),
    "alltoall": ("MPI_Alltoall", "MPI_Alltoallv"),
    **{
        name: (f"MPI_{name.capitalize()}",) * 2
        for name in ("bcast", "reduce", "scan", "exscan", "sendrecv", "barrier")
    },
}
"""What the library's own call is where the number of ranks divides the count, and where not."""

RUN_KEYS = {
    *("type", "schema", "hpccoll", "start", "argv", "seed", "ranks", "nodes", "hosts", "cores"),
    *("library", "library_version", "launcher", "environment", "thread_level", "clock"),
    *("python", "numpy", "mpi4py", "sync", "sample"),
}
CELL_KEYS = {
    *("type", "collective", "algorithm", "parameters", "ranks", "nodes", "bytes", "count"),
    *("dtype", "op", "root", "in_place", "counts"),
}
MEASUREMENT_KEYS = CELL_KEYS | {
    *("engine", "repetitions", "latency_us", "algbw_GBps", "busbw_GBps", "check", "function"),
}
LATENCY_KEYS = {"min", "p50", "mean", "p90", "p99", "max", "ci_low", "ci_high"}
ORDERED = (("min", "ci_low", "p50", "ci_high", "max"), ("min", "p50", "p90", "p99", "max"))

SIZES = (8, 1000, 65536)
WHOLE_CATALOGUE = 180.0
"""Seconds for all algorithms, on more ranks than cores."""
REPETITIONS = 6  # the fewest that bound the median
ASKED = ("--sizes", ",".join(map(str, SIZES)))
OPTIONS = ("--warmup", "1")
OPTIONS += ("--repetitions", f"{REPETITIONS}", "--min-repetitions", f"{REPETITIONS}")


def sizes(name):
    """Return the sizes that are asked for: a barrier has none."""
    return SIZES if COLLECTIVES[name].moves_data else (0,)


def options(name):
    """Return the options that ask for few calls of these sizes."""
    return (*(ASKED if COLLECTIVES[name].moves_data else ()), *OPTIONS)


# Of a row of the table: name, median (marked or not), ratio to the library; then how sure that is.
ROW = re.compile(
    r"(\S+)(?: \*)? +([\d.]+)!? +(?:-|\S+ - \S+)(?: +[\d.e-]+){4} +([\d.]+)(?: \S+)? +ok$",
    re.MULTILINE,
)


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_every_cell_is_measured_once_and_right(launcher, tmp_path, ranks):
    files = {name: tmp_path / f"{name}.jsonl" for name in COLLECTIVES}
    commands = [
        ["", "bench", name, *options(name), "-o", str(path)] for name, path in files.items()
    ]
    job = launcher.run(ranks, "commands", json.dumps(commands), limit=WHOLE_CATALOGUE)
    assert (job.code, job.err) == (0, ""), job.err
    for (_, *words), (name, path) in zip(commands, files.items(), strict=True):
        run, *records = _records(path)
        _assert_describes_the_run(run, ranks, ["hpccoll", *words])
        _assert_complete(records, name, ranks, roots=[0])
        for record in records:
            _assert_consistent(record, ranks)


def test_every_root_is_measured_in_place(launcher, tmp_path):
    names, ranks = ("bcast", "reduce"), 3
    commands = [
        ["", "bench", n, *options(n), "--root", "all", "--in-place", "-o", f"{tmp_path}/{n}"]
        for n in names
    ]
    job = launcher.run(ranks, "commands", json.dumps(commands))
    assert (job.code, job.err) == (0, ""), job.err
    for name in names:
        _, *records = _records(tmp_path / name)
        _assert_complete(records, name, ranks, roots=range(ranks))
        assert all(record["in_place"] for record in records)
        for record in records:
            _assert_consistent(record, ranks)


def _records(path):
    text = path.read_text()
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def _assert_describes_the_run(run, ranks, argv):
    assert set(run) >= RUN_KEYS
    assert (run["type"], run["schema"], run["ranks"], run["nodes"]) == ("run", 1, ranks, 1)
    assert len(run["hosts"]) == len(run["cores"]) == ranks
    assert all(cores for cores in run["cores"])
    assert run["argv"] == argv
    assert run["library"].split()[0] in run["library_version"]
    assert run["launcher"] in ("Open MPI's mpirun", "mpiexec (Hydra)")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", run["start"])


def _assert_complete(records, name, ranks, roots):
    """Every algorithm, size and root once, measured or, where undefined, skipped with a reason."""
    roots = roots if COLLECTIVES[name].rooted else [None]
    # All ranks are on one node, where two levels are one.
    entries = [(e.name, e.supports(ranks) and not e.placed) for e in catalogue(name)]
    cells = product([*entries, (LIBRARY, True)], sizes(name), roots)
    expected = [(label, able, size, root) for (label, able), size, root in cells]
    found = [(r["algorithm"], r["type"] == "measurement", r["bytes"], r["root"]) for r in records]
    assert sorted(found) == sorted(expected)
    for record in records:
        if record["type"] == "skipped":
            assert set(record) == CELL_KEYS | {"reason"}
            assert re.search(rf"needs .*, got {ranks}", record["reason"])


def _assert_consistent(record, ranks):
    name = record["collective"]
    assert (record["ranks"], record["nodes"], record["dtype"]) == (ranks, 1, "float32")
    assert record["bytes"] == 4 * record["count"]
    assert record["op"] == ("sum" if COLLECTIVES[name].reduces else None)
    if record["type"] == "skipped":
        return
    assert set(record) >= MEASUREMENT_KEYS
    assert record["check"] == "ok"
    assert record["repetitions"] == REPETITIONS
    assert record["stopped_by"] in ("repetitions", "target")
    times = record["latency_us"]
    assert set(times) == LATENCY_KEYS
    assert times["min"] > 0
    for names in ORDERED:
        assert [times[n] for n in names] == sorted(times[n] for n in names)
    assert times["min"] <= times["mean"] <= times["max"]
    # Times are rounded to 0.1 ns.
    assert record["algbw_GBps"] == pytest.approx(record["bytes"] / times["p50"] / 1e3, rel=1e-3)
    assert record["busbw_GBps"] == pytest.approx(record["algbw_GBps"] * BUSBW[name](ranks))
    if record["algorithm"] == LIBRARY:
        assert record["engine"] == "library"
        assert record["function"] == FUNCTIONS[name][record["count"] % ranks > 0]
    else:
        assert record["engine"] != "library"


def test_sizes_grow_by_the_factor(launcher, tmp_path):
    output = tmp_path / "results.jsonl"
    words = ("bench", "bcast", "-b", "8", "-e", "600", "-f", "4", "-a", "binomial")
    job = launcher.hpccoll(0, *words, "--repetitions", "1", "-o", output)
    assert job.code == 0, job.err
    _, *records = _records(output)
    sizes = [record["bytes"] for record in records if record["algorithm"] == "binomial"]
    assert sizes == [8, 32, 128, 512]


def test_the_table_is_printed_once_without_escape_codes_and_its_ratios_are_right(launcher):
    words = ("bench", "allgather", "--sizes", "1000,4000", "--repetitions", "5")
    job = launcher.hpccoll(3, *words)
    assert (job.code, job.err) == (0, ""), job.err
    assert "\x1b" not in job.out
    assert job.out.count("allgather, float32, out of place, 3 ranks on 1 node") == 1
    assert len(re.findall(r"^ +bytes algorithm", job.out, re.MULTILINE)) == 1
    assert job.out.count("recursive-doubling needs a power-of-two number of ranks, got 3") == 1
    medians = {}
    for name, median, ratio in ROW.findall(job.out):
        medians.setdefault(name, []).append((float(median), float(ratio)))
    able = [e.name for e in catalogue("allgather") if e.supports(3) and not e.placed]
    assert sorted(medians) == sorted([*able, LIBRARY])
    for name, found in medians.items():
        assert len(found) == 2, name
        for (median, ratio), (library, one) in zip(found, medians[LIBRARY], strict=True):
            assert one == 1
            assert ratio == pytest.approx(median / library, rel=0.02, abs=0.006)


def test_a_shortened_table_lacks_slower_rows_and_the_file_has_all(launcher, tmp_path):
    path = tmp_path / "all.jsonl"
    words = ("bench", "allgather", "--sizes", "1000", "--repetitions", "5", "-o", path)
    job = launcher.hpccoll(0, *words, "--top", "2")
    assert (job.code, job.err) == (0, ""), job.err
    _, *records = _records(path)
    times = {r["algorithm"]: r["latency_us"]["p50"] for r in records if r["type"] == "measurement"}
    shown = {name for name, _, _ in ROW.findall(job.out)}
    # Equal medians may stand in either order; the library is shown besides, unless it is fast.
    assert LIBRARY in shown
    assert len(shown - {LIBRARY}) in (1, 2)
    fastest = sorted(times.values())[:2]
    assert all(times[name] <= fastest[-1] for name in shown - {LIBRARY})
    left_out = len(times) - len(shown)
    assert left_out > 0
    assert f"and {left_out} slower\n" in job.out
    assert f"--top left out {left_out} of {len(times)} rows; {path} has all" in job.out


def test_data_on_standard_output_is_data_only(launcher):
    words = ("bench", "reduce", "--sizes", "8", "--repetitions", "1", "--format")
    commands = [["", *words, style] for style in ("jsonl", "csv")]
    job = launcher.run(3, "commands", json.dumps(commands))
    assert (job.code, job.err) == (0, ""), job.err
    rows = 1 + len(catalogue("reduce"))
    *lines, _codes = job.out.splitlines()
    records, table = lines[: 1 + rows], lines[1 + rows :]
    able = [entry.supports(3) and not entry.placed for entry in catalogue("reduce")]
    kinds = ["measurement" if measured else "skipped" for measured in able]
    found = [json.loads(line)["type"] for line in records]
    assert found == ["run", *sorted([*kinds, "measurement"])]
    assert len(table) == 1 + rows
    assert len({len(cells) for cells in csv.reader(table)}) == 1


def test_without_a_launcher_one_rank_says_how_to_start_more(launcher):
    job = launcher.hpccoll(0, "bench", "allreduce", "--sizes", "8", "--repetitions", "1")
    assert (job.code, job.err) == (0, ""), job.err
    assert "1 rank on 1 node" in job.out
    assert "to start more: mpirun -n 4 hpccoll bench allreduce" in job.out


def test_nothing_waits_for_standard_input(launcher):
    words = ("bench", "bcast", "--sizes", "8", "--repetitions", "1")
    job = launcher.hpccoll(2, *words, stdin=subprocess.PIPE, limit=20)
    assert (job.code, job.err) == (0, ""), job.err


def test_calls_are_made_in_an_order_that_the_seed_decides(launcher):
    job = launcher.run(3, "orders", 1, 1, 2)
    assert job.code == 0, job.err
    first, again, other = json.loads(job.out.splitlines()[-1])
    # How often the order is drawn anew depends on the time that calls take.
    shared = min(map(len, (first, again, other)))
    assert shared >= 40
    assert first[:shared] == again[:shared]
    assert first[:shared] != other[:shared]


def test_a_message_in_very_many_pieces_arrives(launcher):
    # Open MPI 5.0.11 never completes some of 128 sends that are in flight at once.
    job = launcher.hpccoll(
        2,
        *("bench", "allreduce", "-a", "recursive-doubling", "--sizes", "2MiB"),
        *("--segment", "16KiB", "--timeout", "20", "--repetitions", "50"),
    )
    assert job.code == 0, job.err
    assert len(re.findall(r" ok$", job.out, re.MULTILINE)) == 2


@pytest.mark.parametrize("asked", [(), ("--segment", "none"), ("--engine", "python")])
def test_pieces_are_measured_where_ranks_have_cores_of_their_own(launcher, tmp_path, asked):
    path = tmp_path / "pieces.jsonl"
    job = launcher.hpccoll(
        2,
        *("bench", "allgather", "-a", "ring", "--sizes", "64KiB", "-o", str(path), *asked),
        *("--timeout", "20", "--repetitions", "50"),
    )
    assert job.code == 0, job.err
    run = json.loads(path.read_text().splitlines()[0])
    pieces = run["pieces"] or []
    assert ("go as was found fastest" in job.out) == bool(pieces)
    assert all(p["piece"] <= p["above"] < p["up_to"] for p in pieces)
    if asked or run["oversubscribed"]:
        assert not pieces


@pytest.mark.parametrize(
    ("nodes", "spelling", "shown"),
    [("2", "2x2", "2 nodes: 0-1 | 2-3"), ("0,1,1,0", "0,1,1,0", "2 nodes: 0,3 | 1-2")],
)
def test_ranks_are_laid_on_nodes_for_those_who_ask(launcher, tmp_path, nodes, spelling, shown):
    label = "two-level:across=ring/segments=2"
    names = dict.fromkeys(e.collective.name for e in catalogue() if e.placed)
    files = {name: tmp_path / f"{name}.jsonl" for name in names}
    options = (*ASKED, *OPTIONS, "--nodes", nodes, "-a")
    commands = [
        ["", "bench", name, *options, "two-level,multi-leader", "-o", str(path)]
        for name, path in files.items()
    ]
    commands.append(["", "bench", "allreduce", *options, label])
    job = launcher.run(4, "commands", json.dumps(commands))
    assert (job.code, job.err) == (0, ""), job.err
    assert job.out.count(f"nodes  two-level, multi-leader: {shown}") == len(files)
    assert job.out.count(f"       as --nodes {nodes} says; really 1 node: 0-3") == len(commands)
    assert re.search(rf" {label}(?: \*)? .* ok$", job.out, re.MULTILINE)
    for path in files.values():
        run, *records = _records(path)
        assert (run["placement"], run["nodes"]) == ("1x4", 1)
        assert {record["placement"] for record in records} == {spelling}
        names = [record["algorithm"] for record in records]
        assert sorted(names) == sorted(["two-level", "multi-leader", LIBRARY] * len(SIZES))
        assert all(record["check"] == "ok" for record in records)


def test_two_levels_run_on_one_node_if_they_are_named(launcher):
    words = ("bench", "allreduce", "-a", "two-level", "--sizes", "1000", "--repetitions", "3")
    job = launcher.hpccoll(2, *words)
    assert (job.code, job.err) == (0, ""), job.err
    assert "nodes  two-level: 1 node: 0-1\n" in job.out
    assert re.search(r" two-level(?: \*)? .* ok$", job.out, re.MULTILINE)


def test_the_nodes_are_those_that_mpi_finds(launcher, monkeypatch):
    if launcher.open_mpi:
        pytest.skip("only MPICH can be made to see several nodes on one")
    monkeypatch.setenv("MPIR_CVAR_ODD_EVEN_CLIQUES", "1")
    words = ("bench", "bcast", "--root", "3", "--sizes", "1000", "--repetitions", "3")
    job = launcher.hpccoll(5, *words)
    assert (job.code, job.err) == (0, ""), job.err
    assert "nodes  multi-leader, two-level: 2 nodes: 0,2,4 | 1,3\n" in job.out
    assert (
        len(re.findall(r" (?:two-level|multi-leader)(?: \*)? .* ok$", job.out, re.MULTILINE)) == 2
    )
