"""The command line: what it prints, loads and returns. Nothing here starts MPI."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hpccoll
from hpccoll import cli, listing
from hpccoll.collectives import COLLECTIVES
from hpccoll.engines.kernels import extension
from hpccoll.errors import UnsupportedError
from hpccoll.registry import catalogue

ROOT = Path(hpccoll.__file__).parent.parent
COMMANDS = (
    *("bench", "launcher", "layernorm", "list", "merge", "numerics", "selftest", "show", "sweep"),
    "verify",
)
LAUNCHERS = re.compile("OMPI_|PMI_|PMIX_|SLURM_|MPI_LOCAL")


def python(code, *arguments, **variables):
    """Run code in a Python of its own, which no launcher has started."""
    environment = {k: v for k, v in os.environ.items() if not LAUNCHERS.match(k)}
    return subprocess.run(
        [sys.executable, *code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
        cwd=ROOT,
        env=environment | variables,
    )


def run(*arguments, **variables):
    """Run the command line."""
    return python(["-m", "hpccoll"], *arguments, **variables)


def script(code, *arguments, **variables):
    """Run code that calls the command line's ``main``."""
    return python(["-c", code], *arguments, **variables)


def succeed(*arguments):
    """Return what a command prints that succeeds without a word of complaint."""
    found = run(*arguments)
    assert (found.returncode, found.stderr) == (0, "")
    return found.stdout


@pytest.fixture
def refuse(monkeypatch, capsys):
    """Return what a command complains of that can't be carried out as it was written.

    It is called in this process, because there are many of them.
    """

    def fail(launch):
        raise

    monkeypatch.setattr(cli, "_die", fail)
    for name in filter(LAUNCHERS.match, os.environ):
        monkeypatch.delenv(name)

    def refuse(*arguments):
        monkeypatch.setattr(sys, "argv", ["hpccoll", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        said = capsys.readouterr()
        assert (end.value.code, said.out) == (2, "")
        return said.err

    return refuse


# Help


def test_help_names_every_command_in_a_sentence():
    text = succeed("--help")
    for command in COMMANDS:
        assert re.search(rf"^  {command}  +[A-Z]", text, re.MULTILINE)


def test_without_a_command_there_is_help():
    found = run()
    assert found.returncode == 2
    assert "Usage: hpccoll" in found.stdout + found.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command):
    text = succeed(command, "--help")
    assert text.startswith(f"Usage: hpccoll {command} [OPTIONS]")
    assert max(map(len, text.split("\n"))) <= 100


def test_help_of_bench_says_what_size_in_place_and_baseline_mean():
    text = " ".join(succeed("bench", "-h").split())
    for of in COLLECTIVES.values():
        for words in (of.bytes_are, of.in_place, of.baselines):
            assert words in text


def test_the_version_is_the_packages():
    assert hpccoll.__version__ in succeed("--version")


# What is loaded

LOADED = """
import sys
from hpccoll.cli import main
for arguments in sys.argv[1:]:
    sys.argv = ["hpccoll", *arguments.split()]
    try:
        main()
    except SystemExit:
        print("loaded:", *{"numpy", "mpi4py", "matplotlib"} & set(sys.modules), file=sys.stderr)
"""


def test_what_measures_nothing_loads_neither_numpy_nor_mpi():
    commands = [
        *("--help", "bench --help", "list --help", "show --help", "verify --help"),
        "numerics --help",
        *(
            "list",
            "list --markdown",
            "show ring",
            "show ring --format svg",
            "verify -p 1:3 --beyond 0",
            "nonsense",
            "show nonsense",
        ),
    ]
    found = script(LOADED, *commands)
    loaded = [line for line in found.stderr.split("\n") if line.startswith("loaded:")]
    assert dict(zip(commands, loaded, strict=True)) == dict.fromkeys(commands, "loaded:")


# Usage


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("nonsense", "No such command 'nonsense'"),
        ("bench", "Missing argument 'COLLECTIVE'"),
        ("list allredcue", "unknown collective 'allredcue'; did you mean allreduce?"),
        ("verify allredcue", "unknown collective 'allredcue'; did you mean allreduce?"),
        ("verify -a rign", "unknown algorithm 'rign'; did you mean ring?"),
        *((f"verify -p {p}", "--ranks takes a number or a range such as 1:64") for p in ("0", "x")),
        *((f"verify -p {p}", f"1:64, got '{p}'") for p in ("5:3", "1:", ":4", "0:3", "1-4")),
        ("numerics", "Missing argument 'COLLECTIVE'"),
        ("numerics allredcue", "unknown collective 'allredcue'; did you mean allreduce?"),
        ("numerics bcast", "numerics is for allreduce, reduce-scatter, reduce, whose results are"),
        ("numerics scan", "whose results are sums of all ranks"),
        ("numerics allreduce -a rign", "unknown allreduce algorithm 'rign'; did you mean ring?"),
        ("numerics allreduce -a library", "only hpccoll's own algorithms have known trees"),
        ("numerics allreduce -a ring,library", "only hpccoll's own algorithms have known trees"),
        ("numerics reduce -a bine -p 5", "bine needs an even number of ranks, got 5"),
        *(
            (f"numerics allreduce -p {p}", "--ranks takes 8, 4,8, 2..16 or 2..64*2, from 1 on")
            for p in ("0", "0..4", "3x4", "auto")
        ),
        ("numerics allreduce -p 5..3", "the range 5..3 has no end or no values"),
        ("numerics allreduce -p 1:64", "'1:64' is not a number, a list (3x4) or a range (1..8)"),
        ("numerics allreduce --root 1", "allreduce has no root; leave out --root 1"),
        ("numerics reduce -p 2..8 --root 2", "root 2 is out of range: 2 ranks are numbered 0 to 1"),
        ("numerics allreduce -t int32", "use --dtype float16, bfloat16, float32, float64, not int"),
        ("numerics allreduce -t complex64", "numerics is about rounding"),
        ("numerics allreduce -t flaot32", "unknown dtype 'flaot32'; did you mean float32?"),
        ("numerics allreduce --accumulate float32", "is for float16 and bfloat16, not for float32"),
        ("numerics allreduce --count 0", "0 is not in the range x>=1"),
        ("numerics allreduce --input nromal", "unknown input 'nromal'; did you mean normal?"),
        ("numerics allreduce --input none.npy", "none.npy can't be read: No such file"),
        ("numerics allreduce -a two-level --nodes 9", "--nodes 9: 8 ranks can be on 1 to 8 nodes"),
        ("numerics allreduce -a ring --nodes 2", "--nodes is for multi-leader and two-level, none"),
        ("numerics allreduce --tree -p 33", "trees are written for up to 32 ranks, got 33"),
        ("numerics allreduce --tree --format jsonl", "--tree writes text"),
        ("show", "Missing argument '[COLLECTIVE] ALGORITHM"),
        ("show a b c", "show takes a collective and an algorithm, got a b c"),
        ("show rign", "unknown algorithm 'rign'; did you mean ring? (choose from"),
        ("show bcast rign", "unknown bcast algorithm 'rign'"),
        ("show allgatherr ring", "unknown collective 'allgatherr'; did you mean allgather?"),
        ("show bcast binomial -p 4 --root 4", "root 4 is out of range: 4 ranks are numbered 0 to"),
        ("show two-level -p 4 --nodes 5", "--nodes 5: 4 ranks can be on 1 to 4 nodes"),
        ("show two-level -p 4 --nodes x", "--nodes takes a number of nodes (2), nodes and ranks"),
        (
            "show allreduce two-level:across=rign",
            "unknown allreduce algorithm 'rign'; did you mean",
        ),
        ("bench bcast --nodes 2x", "--nodes takes a number of nodes (2), nodes and ranks"),
        ("bench bcast -a binomial --nodes 2", "--nodes is for multi-leader and two-level, none of"),
        ("show ring:segments=0", "segments must be at least 1, got 0"),
        ("show ring -p 0", "0 is not in the range x>=1"),
        ("show ring --format pdf", "'pdf' is not one of"),
        ("show ring -o ring.pdf", "ring.pdf: the suffix doesn't say the format; use .txt, .svg"),
        ("show ring --bytes 8", "--bytes and --dtype are for --format goal"),
        ("show ring --format goal --bytes 6", "6 B isn't a whole number of float32 elements"),
        ("show ring --format goal --bytes 8,16", "size '8,16' can't be read"),
        ("show ring --format goal -t float", "unknown dtype 'float'"),
        ("bench allreduce --sizes 8x", "size '8x' can't be read; write a whole number of bytes"),
        ("bench allreduce -f 1", "1 is not in the range x>=2"),
        ("bench allreduce --format xml", "'xml' is not one of"),
        ("bench allreduce --op min -t complex64", "complex numbers have no order; choose another"),
        ("bench allreduce --op avg -t int32", "which integers don't have; choose another --dtype"),
        ("bench allreduce --accumulate float32", "is for float16 and bfloat16, not for float32"),
        ("bench allreduce --arrival late:1ms", "write none, random:50us, late:RANK:1ms or ramp"),
        ("bench allreduce --segment 0", "--segment must be at least one byte"),
        ("bench allreduce --window 0", "0 is not in the range x>=1"),
        ("bench allreduce --sync flags", "'flags' is not one of"),
        ("bench allreduce --engine c", "'c' is not one of"),
        ("bench kernels --op band", "band is defined for integer types, not for float32"),
        ("bench kernels --op avg", "avg has no kernel of its own: it is a sum and one division"),
        ("bench kernels --op rsum", "rsum has kernels for its accumulators, not for float32"),
        ("bench allreduce --op rsum -t int32", "rsum is defined for float32 and float64, not for"),
        ("bench kernels --sizes 6", "6 B isn't a whole number of float32 elements"),
        ("merge", "Missing argument"),
        ("merge nowhere.jsonl", "nowhere.jsonl"),
    ],
)
def test_wrong_usage_is_refused_once_with_exit_code_2(refuse, arguments, message):
    said = refuse(*arguments.split())
    assert message in said
    assert said.count(message) == 1


def test_an_algorithm_is_refused_where_it_is_not_defined_and_others_are_named(refuse):
    said = refuse("show", "allgather", "recursive-doubling", "-p", "6")
    assert said.startswith("hpccoll: recursive-doubling needs ")
    others = [a.name for a in catalogue("allgather") if a.supports(6)]
    assert f", got 6; use --algorithm {' or '.join(others)}, or 4 ranks" in said


def test_exit_codes_are_those_of_the_process():
    """2 for usage that the command line refuses, and for what the core does."""
    for arguments in (["nonsense"], ["show", "allgather", "recursive-doubling", "-p", "6"]):
        found = run(*arguments)
        assert (found.returncode, found.stdout) == (2, "")
        assert "Traceback" not in found.stderr


# bench kernels


def test_bench_kernels_measures_sizes_and_starts_no_mpi():
    try:
        extension()
    except UnsupportedError as error:
        pytest.skip(str(error))
    found = script(LOADED, "bench kernels --sizes 64,1KiB -t int16 --op max")
    title, *_, titles, _rule, first, second = found.stdout.rstrip("\n").split("\n")
    assert title.startswith("kernels, int16 max, ")
    assert titles.split()[0] == "bytes"
    assert [line.split()[:2] for line in (first, second)] == [["64", "B"], ["1", "KiB"]]
    assert found.stderr == "loaded: numpy\n"


# Who speaks


def test_only_rank_0_speaks():
    ranks = [{"OMPI_COMM_WORLD_RANK": r, "OMPI_COMM_WORLD_SIZE": "2"} for r in "01"]
    for arguments in (["list", "bcast"], ["show", "rign"]):
        first, second = (run(*arguments, **rank) for rank in ranks)
        assert first.stdout + first.stderr
        assert (second.stdout, second.stderr) == ("", "")
        # The launcher passes on rank 0's exit code; another one could end rank 0 before its words.
        assert (first.returncode, second.returncode) == (0 if arguments[0] == "list" else 2, 0)


# list, show


def test_list_prints_the_catalogue():
    assert succeed("list") == listing.text() + "\n"
    assert succeed("list", "bcast") == listing.text("bcast") + "\n"


def test_the_readme_has_the_table_that_list_prints():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search("<!-- algorithms -->\n(.*)<!-- /algorithms -->", readme, re.DOTALL)
    assert found, "README.md has no place for the table"
    assert found[1].strip() == succeed("list", "--markdown").strip(), (
        "put what `hpccoll list --markdown` prints into README.md"
    )


def test_show_draws_an_algorithm_of_one_collective_or_of_all_that_have_it():
    one = succeed("show", "allgather", "ring", "-p", "3")
    assert one.startswith("allgather ring, 3 ranks\n")
    having = [a.collective.name for a in catalogue() if a.name == "ring"]
    titles = re.findall(r"^(\S+) ring, 3 ranks$", succeed("show", "ring", "-p", "3"), re.MULTILINE)
    assert titles == having


def test_show_writes_files_in_the_format_of_their_suffix(tmp_path, refuse):
    starts = {
        "svg": "<svg ",
        "json": '{\n  "format": "hpccoll schedule"',
        "goal": "// allreduce ring, 64 KiB\n",
        "xml": '<algo name="ring" ',
        "txt": "allreduce ring, 3 ranks\n",
    }
    for suffix, start in starts.items():
        path = tmp_path / f"ring.{suffix}"
        more = ["--bytes", "64KiB", "-t", "float64"] if suffix == "goal" else []
        said = succeed("show", "ring", "-p", "3", "-o", str(path), *more)
        assert said == f"{path}: allreduce ring, 3 ranks\n"
        assert path.read_text(encoding="utf-8").startswith(start)
    before = path.read_text(encoding="utf-8")
    assert f"{path} exists; choose another --output, or overwrite it with --force" in refuse(
        "show", "tree", "-o", str(path)
    )
    assert path.read_text(encoding="utf-8") == before
    succeed("show", "tree", "-o", str(path), "--force")
    assert path.read_text(encoding="utf-8").startswith("allreduce tree")


def test_show_prints_in_every_format():
    for style, start in (("svg", "<svg "), ("json", "{"), ("goal", "//"), ("msccl-xml", "<algo ")):
        assert succeed("show", "bcast", "binomial", "--format", style).startswith(start)


def test_show_refuses_what_a_format_cannot_express(refuse):
    said = refuse("show", "allreduce", "ring:segments=300", "-p", "2", "--format", "msccl-xml")
    assert "MSCCL takes at most 256 steps of a thread block" in said


def test_list_writes_the_pages(tmp_path):
    said = succeed("list", "--pages", str(tmp_path / "new"))
    files = [path for path in (tmp_path / "new").rglob("*") if path.is_file()]
    assert said == f"{len(files)} files in {tmp_path / 'new'}\n"
    assert len(files) == len({entry.collective.name for entry in catalogue()}) + len(catalogue())


def test_list_refuses_a_folder_that_cannot_be_made(refuse, tmp_path):
    (tmp_path / "file").touch()
    assert "can't be written: " in refuse("list", "--pages", str(tmp_path / "file" / "new"))


# verify


def test_verify_proves_the_catalogue_and_says_how_far():
    said = succeed("verify", "-p", "1:4", "--beyond", "0")
    lines, (last, *_) = (part.split("\n") for part in said.strip().split("\n\n"))
    assert [line.split()[:3] for line in lines] == [
        [entry.collective.name, entry.name, "proven"] for entry in catalogue()
    ]
    assert last.startswith(f"All {len(lines)} algorithms are right on 1 to 4 ranks")


def test_verify_proves_what_was_named():
    said = succeed("verify", "allreduce", "-a", "ring,tree", "-p", "4")
    lines = said.strip().split("\n\n")[0].split("\n")
    assert [line.split()[:2] for line in lines] == [["allreduce", "ring"], ["allreduce", "tree"]]


def test_verify_says_which_numbers_of_ranks_were_drawn():
    line, _, last = succeed("verify", "scan", "-a", "linear", "-p", "1:3").strip().split("\n")
    assert re.search(r"; also on \d+, \d+$", line)
    assert "2 numbers of ranks of each up to 1024, drawn with seed 0; 2 were proven" in last
    other = succeed("verify", "scan", "-a", "linear", "-p", "1:3", "--seed", "1").split("\n")[0]
    assert other != line
    one = succeed("verify", "scan", "-a", "linear", "-p", "3")
    assert "also on" not in one
    assert "Beyond" not in one


BROKEN = """
from hpccoll.cli import main
from hpccoll.registry import algorithm
from hpccoll.schedule import Recv, Round, Send

@algorithm("allgather", rounds="1", sent="n/p")
def lazy(rank, size):
    \"""Exchange blocks with the neighbours and hope.\"""
    {body}

main()
"""
NEIGHBOURS = (
    "yield Round(Send((rank + 1) % size, rank), Recv((rank - 1) % size, (rank - 1) % size))"
)


def test_verify_gives_a_counterexample_of_a_wrong_algorithm_and_exit_code_1():
    found = script(
        BROKEN.format(body=NEIGHBOURS),
        "verify",
        "allgather",
        "-p",
        "2:3",
        "-a",
        "lazy,ring",
    )
    assert (found.returncode, found.stderr) == (1, "")
    wrong, right, _, last = found.stdout.rstrip("\n").split("\n")
    # With two ranks the neighbour is everybody; with three, rank 0 lacks the block of rank 1. Of
    # the numbers of ranks beyond, two are drawn.
    assert re.fullmatch(
        r"allgather +lazy +WRONG  allgather lazy on 3 ranks: "
        r"at the end, rank 0, block 1: was never received \(2 more\)",
        wrong,
    )
    assert right.split()[:3] == ["allgather", "ring", "proven"]
    assert last.startswith("1 of 2 algorithms are wrong")


def test_verify_finds_a_deadlock():
    body = "yield Round(Recv((rank + 1) % size, (rank + 1) % size))"
    found = script(BROKEN.format(body=body), "verify", "allgather", "-p", "2", "-a", "lazy")
    assert found.returncode == 1
    assert "WRONG  allgather lazy on 2 ranks: " in found.stdout
    assert "rank 0" in found.stdout


def test_a_fault_in_the_program_gives_a_traceback_with_its_rank_and_exit_code_1():
    body = "yield Round(Send(1 // (size - 2), rank))"
    found = script(BROKEN.format(body=body), "verify", "allgather", "-p", "2", "-a", "lazy")
    assert found.returncode == 1
    assert found.stderr.startswith("hpccoll: [rank 0] failed\nTraceback (most recent call last)")
    assert "ZeroDivisionError" in found.stderr


# numerics


def test_numerics_prints_a_table_and_says_what_its_columns_mean():
    text = succeed("numerics", "allreduce", "-a", "ring,tree", "-p", "4,8", "--count", "64")
    for title in ("depth", "error", "of bound", "rank order", "bits", "ranks agree"):
        assert re.search(rf"^{title} ", text, re.MULTILINE), title
    assert len(re.findall(r"^ {4}[48 ] (ring|tree) ", text, re.MULTILINE)) == 4
    assert "Elements with the same bits on all these numbers of ranks" in text


def test_numerics_writes_trees():
    text = succeed("numerics", "reduce", "-a", "binomial", "-p", "4", "--tree")
    assert text == "reduce binomial, 4 ranks, root 0\n  block 0  ((0+1)+(2+3))\n"


def test_numerics_prints_json_lines():
    lines = succeed("numerics", "reduce-scatter", "-a", "ring", "--format", "jsonl").splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["numerics", "algorithm"]


def test_numerics_does_the_same_twice_and_something_else_with_another_seed():
    words = ("numerics", "allreduce", "-a", "ring", "--count", "100", "--format", "jsonl")
    assert succeed(*words) == succeed(*words) != succeed(*words, "--seed", "1")


@pytest.mark.parametrize(
    ("rows", "words", "message"),
    [
        (np.ones((8, 4)), ["--count", "5"], "x.npy has 4 columns; leave out --count 5"),
        (
            np.ones((4, 4)),
            [],
            "x.npy has 4 rows, but the largest number of ranks is 8; use",
        ),
        (np.ones(8), [], "x.npy has (8,) of float64; save a matrix of real numbers"),
        (np.ones((8, 4), complex), [], "x.npy has (8, 4) of complex128; save a matrix"),
        (np.ones((8, 0)), [], "x.npy has no elements; save a matrix"),
        (b"no array", [], "x.npy isn't a file of numpy's"),
        (b"", [], "x.npy isn't a file of numpy's"),
    ],
    ids=["columns", "rows", "vector", "complex", "empty", "bytes", "nothing"],
)
def test_numerics_refuses_a_file_that_does_not_fit(refuse, tmp_path, rows, words, message):
    path = tmp_path / "x.npy"
    if isinstance(rows, bytes):
        path.write_bytes(rows)
    else:
        np.save(path, rows)
    assert message in refuse("numerics", "allreduce", "--input", str(path), *words)


ABOVE = """
import sys
from hpccoll.numerics import bits as numerics
from hpccoll.cli import main
numerics.Arithmetic.bound = lambda self, depth, exact: 0 * exact.magnitude
sys.argv = ["hpccoll", "numerics", "allreduce", "-a", "ring"]
main()
"""


def test_numerics_says_where_a_bound_is_exceeded_with_exit_code_1():
    found = script(ABOVE)
    assert found.returncode == 1
    assert "EXCEEDED ring on 8 ranks: an error is above its bound" in found.stdout
    assert "errors are above their bounds: ring on 8 ranks" in found.stderr
