"""Merging result files, and `bin/bench --launches`, which makes them. Nothing here starts MPI."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

import hpccoll
from hpccoll import merge, merge_table
from hpccoll.errors import UsageError
from hpccoll.registry import LIBRARY
from hpccoll.results import SCHEMA
from hpccoll.stats import FASTER, SAME, SLOWER, summarize

ROOT = Path(hpccoll.__file__).parent.parent
RUN = {
    "type": "run",
    "schema": SCHEMA,
    "ranks": 4,
    "library": "Some MPI 1.0",
    "library_version": "Some MPI, version 1.0",
    "hosts": ["here"] * 4,
}


def measured(us, label="ring", size=1024, seed=0, noise=0.02, n=30, kept=True, **fields):
    """Return the record of a measurement with noisy samples around a time in microseconds."""
    random = Random(f"{label} {size} {seed} {us}")
    samples = [round(us * random.lognormvariate(0, noise), 4) for _ in range(n)]
    latency = {
        name: value
        for name in ("min", "p50", "mean", "p90", "p99", "max", "ci_low", "ci_high")
        for value in [getattr(summarize(samples), name)]
    }
    record = {
        "type": "measurement",
        "collective": "allreduce",
        "algorithm": label,
        "parameters": {},
        "engine": "native",
        "ranks": 4,
        "nodes": 1,
        "bytes": size,
        "count": size // 4,
        "dtype": "float32",
        "op": "sum",
        "root": None,
        "in_place": False,
        "latency_us": latency,
        "check": "ok",
        "mismatches": [],
    }
    return record | ({"samples_us": samples} if kept else {}) | fields


@pytest.fixture
def write(tmp_path):
    """Write a file of records, or of lines as they are, and return its path."""

    def write(*records, name="run.jsonl", run=RUN, end="\n"):
        path = tmp_path / name
        lines = [line if isinstance(line, str) else json.dumps(line) for line in records]
        path.write_text("\n".join([json.dumps(run), *lines]) + end)
        return str(path)

    return write


@pytest.fixture
def launches(write):
    """Read launches that are given as lists of records."""

    def launches(*each):
        paths = [write(*records, name=f"{i}.jsonl") for i, records in enumerate(each)]
        return merge.read_all(paths)

    return launches


# Reading


def test_what_bench_writes_is_read(write):
    skipped = {"type": "skipped", "collective": "allreduce", "algorithm": "mesh", "reason": "no"}
    launch = merge.read(write(measured(1), skipped))
    assert (launch.run, launch.measured, launch.skipped) == (RUN, (measured(1),), (skipped,))


@pytest.mark.parametrize("line", ["{", "nonsense", "[]", "1", '{"type"', '{"bytes": 8}', ""])
def test_a_line_that_is_no_record_is_refused_with_its_number(write, line):
    path = write(measured(1), line, measured(2))
    with pytest.raises(UsageError) as at:
        merge.read(path)
    assert str(at.value).startswith(f"{path}, line 3 is no record of hpccoll;")


def test_a_torn_last_line_is_reported(write):
    path = write(measured(1), json.dumps(measured(2))[:-20], end="")
    with pytest.raises(UsageError) as at:
        merge.read(path)
    assert str(at.value) == (
        f"{path}, line 3 is cut off, since the launch ended while it was written; "
        "run that launch again, or delete the line"
    )


def test_a_whole_last_line_needs_no_end(write):
    assert len(merge.read(write(measured(1), measured(2), end="")).measured) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": SCHEMA + 1}, f"has schema {SCHEMA + 1}, but this hpccoll reads schema"),
        ({"schema": None}, "has schema None"),
        ({"type": "merged"}, "is merged already; give the files that it was made of"),
        ({"type": "measurement", **measured(1)}, "doesn't start with the record of a run"),
    ],
)
def test_a_file_of_another_kind_is_refused(write, change, message):
    with pytest.raises(UsageError, match=message):
        merge.read(write(run=RUN | change))


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "empty").write_text("")
    with pytest.raises(UsageError, match="doesn't start with the record of a run"):
        merge.read(str(tmp_path / "empty"))


def test_a_file_of_another_command_is_refused(write):
    with pytest.raises(UsageError, match=r"line 2 is of type 'order', .*; give files of bench -o"):
        merge.read(write({"type": "order", "label": "fused"}))


def test_a_file_of_two_runs_is_refused(write):
    with pytest.raises(UsageError, match="line 3 starts another run; give each its own file"):
        merge.read(write(measured(1), RUN, measured(2)))


def test_what_a_measurement_lacks_is_named(write):
    record = {name: value for name, value in measured(1).items() if name not in ("op", "check")}
    with pytest.raises(UsageError, match="line 2 is a measurement without check, op"):
        merge.read(write(record))


def test_a_file_that_is_not_there_or_given_twice_is_refused(write, tmp_path):
    with pytest.raises(UsageError, match="can't be read: No such file"):
        merge.read(str(tmp_path / "nowhere"))
    path = write(measured(1))
    with pytest.raises(UsageError, match="is given twice"):
        merge.read_all([path, f"{tmp_path}/./run.jsonl"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ranks": 8}, "differ in their number of ranks: 4 and 8; merge only launches"),
        ({"library_version": "2.0"}, "MPI library: Some MPI, version 1.0 and 2.0; merge only"),
    ],
)
def test_launches_of_something_else_are_refused(write, change, message):
    paths = [write(name="a"), write(name="b"), write(name="c", run=RUN | change)]
    with pytest.raises(UsageError, match=message) as at:
        merge.read_all(paths)
    assert str(at.value).startswith(f"{paths[0]} and {paths[2]} ")


# Merging


def test_a_cell_has_the_median_over_launches_of_their_medians(launches):
    (found,) = merge.merge(launches([measured(10)], [measured(30)], [measured(12)]))
    own = sorted(measured(us)["latency_us"]["p50"] for us in (10, 30, 12))
    assert [each * 1e6 for each in found.medians] == pytest.approx(own)
    assert found.median * 1e6 == pytest.approx(own[1])
    assert found.cell["bytes"] == 1024


@pytest.mark.parametrize("name", merge.CELL)
def test_what_differs_in_a_field_of_the_cell_is_not_merged(launches, name):
    assert len(merge.merge(launches([measured(1)], [measured(1)]))) == 1
    other = measured(1, **{name: {"segments": 2} if name == "parameters" else 7})
    assert len(merge.merge(launches([measured(1)], [other]))) == 2


def test_launches_that_lack_a_cell_are_not_counted(launches):
    found = merge.merge(launches([measured(1), measured(1, "tree")], [measured(2)]))
    assert [len(entry.records) for entry in found] == [2, 1]


@pytest.mark.parametrize("kept", [True, False])
def test_launches_that_differ_by_more_than_their_noise_are_told(launches, kept):
    def differ(*us, noise=0.02, n=30):
        records = (
            [measured(time, seed=i, noise=noise, n=n, kept=kept)] for i, time in enumerate(us)
        )
        (found,) = merge.merge(launches(*records))
        return found.differ

    assert differ(10) is None
    assert differ(10, 10.01, 10) is False
    assert differ(10, 10, 12) is True
    assert differ(10, 10, 12, noise=0.9) is False
    assert differ(10, 100, n=3) is (False if kept else None)


def test_noise_seldom_makes_launches_differ(launches):
    told = 0
    for trial in range(100):
        records = ([measured(10, seed=f"{trial} {i}", noise=0.2)] for i in range(5))
        told += merge.merge(launches(*records))[0].differ
    assert told <= 8


@pytest.mark.parametrize("kept", [True, False])
def test_an_algorithm_is_faster_where_it_is_in_every_launch(launches, kept):
    def word(*pairs):
        each = [
            [measured(us, seed=i, kept=kept), measured(library, LIBRARY, seed=i, kept=kept)]
            for i, (us, library) in enumerate(pairs)
        ]
        ring, library = merge.merge(launches(*each))
        assert (library.ratio, library.word) == (None, None)
        assert ring.ratio == ring.median / library.median
        return ring.word

    assert word((10, 20), (30, 60)) == FASTER
    assert word((20, 10), (60, 30)) == SLOWER
    assert word((10, 20), (10, 10.001)) == SAME
    assert word((10, 20), (20, 10)) == SAME


def test_a_library_of_another_message_or_with_wrong_results_is_no_baseline(launches):
    for fields in ({"size": 2048}, {"root": 1}, {"dtype": "int32"}, {"check": "failed"}):
        found = merge.merge(launches([measured(1), measured(2, LIBRARY, **fields)]))
        assert [(entry.ratio, entry.word) for entry in found] == [(None, None)] * 2


def test_the_worst_check_counts(launches):
    for checks, worst in (
        (("ok", "ok"), "ok"),
        (("ok", "skipped"), "skipped"),
        (("skipped", "failed"), "failed"),
    ):
        (found,) = merge.merge(launches(*([measured(1, check=check)] for check in checks)))
        assert found.check == worst


def test_a_merged_file_holds_the_runs_and_every_cell(launches):
    read = launches(
        [measured(10), measured(20, LIBRARY)],
        [measured(12), measured(20, LIBRARY)],
        [measured(20, LIBRARY)],
    )
    head, ring, library = merge.records(read, merge.merge(read))
    assert head == {
        "type": "merged",
        "schema": 1,
        "files": [launch.path for launch in read],
        "runs": [RUN] * 3,
    }
    low, high = (measured(us)["latency_us"]["p50"] for us in (10, 12))
    assert ring["type"] == library["type"] == "merged-measurement"
    assert {name: ring[name] for name in merge.CELL} == {
        name: measured(10).get(name) for name in merge.CELL
    }
    assert ring["launches"] == 2
    assert ring["launch_medians_us"] == [low, high, None]
    assert (ring["smallest_us"], ring["largest_us"]) == pytest.approx((low, high), abs=1e-3)
    assert ring["median_us"] == pytest.approx((low + high) / 2, abs=1e-3)
    assert (ring["launches_differ"], ring["verdict"], ring["check"]) == (True, FASTER, "ok")
    assert 0.5 < ring["ratio"] < 0.6
    assert (library["ratio"], library["verdict"]) == (None, None)


# The table


def table(read):
    """Return the printed lines."""
    return merge_table.text(read, merge.merge(read)).split("\n")


def test_the_whole_table_looks_like_this(launches):
    def exact(us, *names, **fields):
        return measured(us, *names, noise=0, **fields)

    read = launches(
        [exact(10), exact(10, "tree"), exact(20, LIBRARY), exact(4, "mesh", check="failed")],
        [exact(14), exact(14, "tree"), exact(20, LIBRARY), exact(4, "mesh")],
        [exact(11), exact(22, LIBRARY)],
    )
    whole = """\
3 launches, Some MPI 1.0
median     us; the median of the launches' medians; smallest and largest are theirs too
launches   that measured it; differ: by more than the noise within them; ?: can't be told
algbw      GB/s (1e9 bytes/s) of the median
t/lib      median divided by the library's; ~ where not every launch finds the same difference

allreduce, float32 sum, out of place, 4 ranks on 1 node
bytes      bytes of one rank's vector
busbw      algbw * 2*(p-1)/p
lib        the MPI library's MPI_Allreduce

   bytes algorithm                  median us  smallest   largest launches     algbw   busbw t/lib          check
-------- -------------------------- --------- --------- --------- ---------- ------- ------- ------------ -------
   1 KiB mesh                            4.00      4.00      4.00  2           0.256   0.384  0.20         failed
         ring *                          11.0      10.0      14.0  3 differ   0.0931   0.140  0.55 faster      ok
         tree                            12.0      10.0      14.0  2 differ   0.0853   0.128  0.60 faster      ok
         library                         20.0      20.0      22.0  3 differ   0.0512  0.0768  1.00             ok

use
  1 KiB                  ring or tree             takes 0.55 of the time of the library

WRONG RESULTS
  allreduce mesh of 1 KiB, in 1 of 2 launches: no details"""  # noqa: E501 - wider than code
    assert table(read) == whole.split("\n")


def test_questions_have_tables_of_their_own_and_findings_go_across(launches):
    read = launches(
        [measured(50, noise=0.001)],
        [measured(10, collective="reduce", root=0, noise=0.001)],
        [measured(10, collective="bcast", root=0, op=None, in_place=True, noise=0.001)],
    )
    lines = table(read)
    titles = [line.split(",")[0] for line in lines if line.endswith("4 ranks on 1 node")]
    assert titles == ["allreduce", "reduce", "bcast"]
    findings = lines[lines.index("findings") + 1 :]
    assert len(findings) == 1
    assert findings[0].startswith("  allreduce ring: 1 KiB takes 2.5")


def test_a_finding_is_told_once_and_only_of_the_same_type_and_operator(launches):
    def lines(**fields):
        read = launches([measured(9, op="max"), measured(9, size=2048, **fields), measured(30)])
        return [line for line in table(read) if "times as long" in line]

    assert len(lines(op="sum")) == 1
    assert lines(op="sum", dtype="int32") == []


def test_other_settings_have_tables_of_their_own_that_say_which(launches):
    wait = {"kind": "random", "seconds": 0.001}
    read = launches([measured(1, sync="barrier"), measured(9, 2048, sync="barrier")])
    assert not any(line.startswith("sync ") for line in table(read))
    read = launches(
        [measured(9, sync="barrier")],
        [measured(5, size=2048, sync="window")],
        [measured(1, size=4096, sync="window", arrival=wait)],
    )
    lines = table(read)
    assert [line for line in lines if line.startswith("sync ")] == [
        *("sync       barrier", "sync       window", "sync       window")
    ]
    assert [line for line in lines if line.startswith("arrival ")] == [
        *("arrival    None", "arrival    None", "arrival    random, 0.001")
    ]
    assert not any("times as long" in line for line in lines)


def test_rows_say_root_and_engine_where_there_are_several(launches):
    several = [measured(1, root=root, collective="bcast") for root in (0, 1)]
    assert any(" ring root 1 *" in line for line in table(launches(several)))
    assert not any(" root " in line for line in table(launches(several[:1])))
    engines = [measured(1), measured(2, engine="python")]
    assert any(" ring (native) *" in line for line in table(launches(engines)))
    assert any(" ring (python) " in line for line in table(launches(engines)))


@pytest.mark.parametrize(
    ("label", "parameters", "shown"),
    [
        ("ring", {"segments": 1}, "ring *"),
        ("ring", {"segments": 4}, "ring:segments=4 *"),
        (
            "two-level",
            {"inside": "binomial", "across": "ring/segments=2"},
            "two-level:across=ring/segments=2 *",
        ),
        ("unheard-of", {"shape": [3, 4]}, "unheard-of:shape=3x4 *"),
    ],
)
def test_parameters_stand_as_on_the_command_line(launches, label, parameters, shown):
    lines = table(launches([measured(1, label, parameters=parameters)]))
    assert any(f" {shown} " in line for line in lines)


def test_what_the_model_chose_is_marked_and_apart_from_what_was_asked_for(launches):
    free = {"parameters": {"segments": 4, "fanout": 1}, "chosen_by_model": ["segments"]}
    given = free | {"chosen_by_model": []}
    two = [measured(1, "chain", **free), measured(9, "chain", **given)]
    lines = table(launches([fields | {"collective": "bcast", "op": None} for fields in two]))
    assert any(" chain:segments=4 ^ * " in line for line in lines)
    assert any(" chain:segments=4  " in line for line in lines)
    assert any(line.startswith("^ chosen by the model") for line in lines)
    assert any("1 KiB" in line and " chain  " in line for line in lines)  # what to use


def test_what_the_launches_ran_on_is_told_where_it_differs(write):
    paths = [write(name="a"), write(name="b", run=RUN | {"hosts": ["there"] * 4})]
    read = merge.read_all(paths)
    assert "note       the launches differ in hosts" in table(read)
    assert not any(line.startswith("note") for line in table(read[:1]))


# The command


def run(*arguments):
    """Run the command line."""
    return subprocess.run(
        [sys.executable, "-m", "hpccoll", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
    )


def test_the_command_prints_and_writes(write, tmp_path):
    paths = [write(measured(us), name=f"{us}") for us in (1, 2)]
    out = tmp_path / "out.jsonl"
    found = run("merge", *paths, "-o", str(out))
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.startswith("2 launches, Some MPI 1.0\n")
    kinds = [json.loads(line)["type"] for line in out.read_text().splitlines()]
    assert kinds == ["merged", "merged-measurement"]
    again = run("merge", *paths, "-o", str(out))
    assert (again.returncode, again.stdout) == (2, "")
    assert "exists; choose another --output, or overwrite it with --force" in again.stderr
    forced = run("merge", *paths, "-o", str(out), "--force", "--format", "jsonl")
    assert forced.stdout == out.read_text()


def test_merging_starts_neither_numpy_nor_mpi(write):
    code = (
        "import sys; from hpccoll import merge, merge_table\n"
        "read = merge.read_all(sys.argv[1:]); merge_table.text(read, merge.merge(read))\n"
        "print(*{'numpy', 'mpi4py'} & set(sys.modules))"
    )
    paths = [write(measured(us), name=f"{us}") for us in (1, 2)]
    found = subprocess.run(
        [sys.executable, "-c", code, *paths],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=ROOT,
    )
    assert found.stdout.split() == []


# bin/bench --launches

MPIRUN = """\
#!/usr/bin/env bash
while [[ $1 != */python ]]; do shift; done
exec "$@"
"""
PYTHON = """\
#!/usr/bin/env bash
# Stands in for python -m hpccoll: says how it was called, and ends as `codes` wants.
here=$(dirname "$0")
echo "${*:2}" >>"$here/calls"
while (($#)); do
  [[ $1 != -o ]] || { echo result >"$2"; }
  shift
done
echo output
code=$(head -n 1 "$here/codes")
sed -i 1d "$here/codes"
exit "${code:-0}"
"""


@pytest.fixture
def bench(tmp_path):
    """Run a copy of bin/bench with stand-ins for mpirun and Python; the codes are their exits.

    Returns what it printed and how they were called, the temporary folder named TMP.
    """
    shutil.copytree(ROOT / "bin", tmp_path / "bin")
    (tmp_path / "hpccoll").mkdir()
    (tmp_path / "pyproject.toml").write_text("")
    binaries = tmp_path / ".venv" / "openmpi" / "bin"
    binaries.mkdir(parents=True)
    for name, text in (("mpirun", MPIRUN), ("python", PYTHON)):
        (binaries / name).write_text(text)
        (binaries / name).chmod(0o755)
    stamp = f"source {tmp_path}/bin/environment.sh; fingerprint >{binaries.parent}/stamp"
    subprocess.run(["bash", "-c", stamp], check=True, timeout=60)
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def bench(*arguments, codes=()):
        (binaries / "calls").write_text("")
        (binaries / "codes").write_text("".join(f"{code}\n" for code in codes))
        found = subprocess.run(
            [tmp_path / "bin" / "bench", "--mpi", "openmpi", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=tmp_path,
            env=os.environ | {"TMPDIR": str(scratch)},
        )
        calls = (binaries / "calls").read_text()
        for folder in scratch.iterdir():
            calls = calls.replace(str(folder), "TMP")
        found.calls = [
            " ".join("TMP/" + w.split("/")[-1] if str(scratch) in w else w for w in line.split())
            for line in calls.splitlines()
        ]
        found.left = sorted(path.name for folder in scratch.iterdir() for path in folder.iterdir())
        return found

    return bench


def test_one_launch_is_bench_itself(bench):
    found = bench("--launches", "1", "--", "-o", "x", codes=[1])
    assert found.calls == ["hpccoll bench allreduce -o x"]
    assert (found.returncode, found.stdout, found.stderr) == (1, "output\n", "")


def test_several_launches_are_merged(bench):
    found = bench("--launches", "2", "--", "bcast", "-e", "1MiB")
    assert found.calls == [
        "hpccoll bench bcast -e 1MiB --keep-samples -o TMP/launch-1.jsonl",
        "hpccoll bench bcast -e 1MiB --keep-samples -o TMP/launch-2.jsonl",
        "hpccoll merge -- TMP/launch-1.jsonl TMP/launch-2.jsonl",
    ]
    assert (found.returncode, found.stdout) == (0, "output\n")
    assert found.stderr == "bin/bench: launch 1 of 2\nbin/bench: launch 2 of 2\n"
    assert found.left == []


@pytest.mark.parametrize(
    "given", [("-o", "x y"), ("-ox y",), ("--output", "x y"), ("--output=x y",)]
)
def test_the_merged_results_get_the_file(bench, given):
    found = bench("--launches", "2", "--", *given, "--seed", "3", "--format", "jsonl", "--force")
    assert found.calls[0] == "hpccoll bench allreduce --seed 3 --keep-samples -o TMP/launch-1.jsonl"
    assert found.calls[2].startswith("hpccoll merge --format jsonl -o x y --force -- TMP")


def test_what_would_lose_the_results_is_refused_before_the_first_launch(bench, tmp_path):
    (tmp_path / "there").write_text("precious")
    (tmp_path / "folder").mkdir()
    for arguments, message in (
        (("-o", "there"), "there exists; choose another --output, or overwrite it with --force"),
        (("-o", "nowhere/x"), "nowhere/x can't be written; choose another --output"),
        (("-o", "folder", "--force"), "folder can't be written; choose another --output"),
        (("-o",), "-o needs a value"),
        (("--format", "csv"), "several launches are printed as table or jsonl, not as csv"),
        (("--format=csv",), "several launches are printed as table or jsonl, not as csv"),
    ):
        found = bench("--launches", "2", "--", *arguments)
        assert (found.returncode, found.calls, found.left) == (2, [], [])
        assert message in found.stderr
    assert bench("--launches", "2", "--", "-o", "there", "--force").returncode == 0


@pytest.mark.parametrize(
    ("codes", "calls", "worst"),
    [
        ((0, 0, 0), ["bench", "bench", "merge"], 0),
        ((1, 0, 0), ["bench", "bench", "merge"], 1),
        ((0, 1, 0), ["bench", "bench", "merge"], 1),
        ((2, 0), ["bench"], 2),
        ((0, 139, 0), ["bench", "bench", "merge"], 139),
        ((0, 0, 2), ["bench", "bench", "merge"], 2),
        ((1, 0, 2), ["bench", "bench", "merge"], 2),
    ],
)
def test_the_worst_exit_code_counts(bench, codes, calls, worst):
    found = bench("--launches", "2", codes=codes)
    assert [call.split()[1] for call in found.calls] == calls
    assert found.returncode == worst
    if 139 in codes:
        assert found.calls[-1] == "hpccoll merge -- TMP/launch-1.jsonl"


def test_results_that_cannot_be_merged_are_kept(bench):
    found = bench("--launches", "2", codes=[0, 0, 2])
    assert found.left == ["launch-1.jsonl", "launch-2.jsonl"]
    assert "bin/bench: the results of the launches are in " in found.stderr


@pytest.mark.parametrize("number", ["0", "-1", "x", ""])
def test_a_number_of_launches_that_is_none_is_refused(bench, number):
    found = bench("--launches", number)
    assert (found.returncode, found.calls) == (2, [])
    assert f"--launches needs a positive number, got '{number}'" in found.stderr


def test_help_of_bench_is_one_launch(bench):
    assert bench("--launches", "3", "--", "--help").calls == ["hpccoll bench --help"]
    assert "--launches N" in bench("--help").stdout


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="there is no shellcheck here")
def test_the_script_has_no_complaints():
    found = subprocess.run(
        ["shellcheck", "-x", "bin/bench"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )
    assert (found.returncode, found.stdout) == (0, "")
