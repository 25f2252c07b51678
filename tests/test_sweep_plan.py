"""Plans: elements by allocation, checked and hashed, and how their command lines are spelled."""

import json
import re
import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpccoll.cli import cli, elements
from hpccoll.errors import IncompleteError, UsageError
from hpccoll.sweep import plan, planning
from hpccoll.sweep.plan import Allocation, Element, Estimate, Plan
from hpccoll.sweep.sweep_file import parse

DOCS = (Path(__file__).parent.parent / "docs" / "sweep.md").read_text(encoding="utf-8")
BASE = {"collective": "allreduce", "sizes": ("8", "1KiB"), "algorithm": "ring"}
CONTENT = {
    "base": {"collective": "allreduce", "sizes": ["8", "1KiB"]},
    "axes": {"algorithm": ["ring", "tree"], "ranks": [2, 4], "in-place": [False, True]},
}


def made(**changes):
    """Return the plan of a sweep file's content."""
    file = parse({**CONTENT, **changes}, "named")
    return planning.plan(file, partial(elements.check, file.command))


def problem(**base):
    """Return what is said of an element with these settings."""
    settings = {"collective": "allreduce", "ranks": 2, **base}
    with pytest.raises(UsageError) as at:
        made(base={key: value for key, value in settings.items() if value is not None}, axes={})
    return str(at.value)


# Elements


def test_elements_of_one_allocation_come_together_and_every_one_is_there():
    found = made()
    assert [element.index for element in found.elements] == list(range(8))
    assert [element.allocation.ranks for element in found.elements] == [2] * 4 + [4] * 4
    assert [plan.ranges(group.indices) for group in found.groups] == ["0-3", "4-7"]
    assert {
        (e.options["algorithm"], e.options["in-place"], e.allocation.ranks) for e in found.elements
    } == {
        (algorithm, in_place, ranks)
        for algorithm in ("ring", "tree")
        for in_place in (False, True)
        for ranks in (2, 4)
    }


def test_nodes_and_mpi_are_part_of_the_allocation():
    found = made(axes={"nodes": [1, 2], "mpi": ["openmpi", "mpich"], "ranks": [4]})
    assert [group.allocation for group in found.groups] == [
        Allocation(4, 1, "openmpi"),
        Allocation(4, 1, "mpich"),
        Allocation(4, 2, "openmpi"),
        Allocation(4, 2, "mpich"),
    ]
    assert str(found.groups[2].allocation) == "4 ranks, 2 nodes, openmpi"


def test_an_estimate_grows_with_sizes_roots_budget_and_ranks():
    def estimate(**base):
        settings = {"collective": "bcast", "ranks": 2, "sizes": "8", **base}
        return made(base=settings, axes={}).elements[0].estimate

    start = estimate(**{"time-budget": 1}).seconds - 1
    assert start > 0
    assert estimate(**{"time-budget": 3}).seconds == start + 3
    assert estimate(**{"time-budget": 1, "sizes": ["8", "16", "1KiB"]}).seconds == start + 3
    assert estimate(**{"time-budget": 1, "ranks": 6, "root": "all"}).seconds == start + 6
    # Input and output of four ranks on a node: of an allreduce each has a vector of both.
    assert estimate(collective="allreduce", ranks=8, nodes=2, sizes=["8", "1MiB"]).memory == 8 << 20
    # What is gathered is the root's alone: a vector, and every rank's quarter.
    assert estimate(collective="gather", ranks=4, sizes="4KiB").memory == 4096 + 4096


REFUSED = [
    ({"algorithm": "rign"}, "element 0 (2 ranks), key 'algorithm': unknown allreduce algorithm"),
    ({"algoritm": "ring"}, "element 0 (2 ranks), key 'algoritm': unknown key 'algoritm'; did you"),
    ({"min_bytes": 8}, "key 'min_bytes': unknown key 'min_bytes'; did you mean min-bytes?"),
    ({"size-list": 8}, "key 'size-list': unknown key"),
    ({"repetitions": 0}, "key 'repetitions': Invalid value for '--repetitions'"),
    ({"repetitions": "many"}, "key 'repetitions': Invalid value for '--repetitions'"),
    ({"sizes": "7"}, "key 'sizes': a size of 7 B isn't a whole number of float32 elements"),
    ({"dtype": "int8", "op": "avg"}, "keys 'dtype' and 'op': "),
    (
        {"collective": "allgather", "algorithm": "recursive-doubling", "ranks": 3},
        "(3 ranks), key 'algorithm': recursive-doubli",
    ),
    ({"collective": "bcast", "root": 2}, "key 'root': --root 2 is out of range: 2 ranks"),
    ({"placement": "3", "algorithm": "two-level"}, "key 'placement': --nodes 3: 2 ranks can be on"),
    ({"in-place": "yes"}, "key 'in-place': in-place is true or false, got 'yes'"),
    ({"sizes": True}, "key 'sizes': sizes takes a value, got True"),
    ({"output": "mine.jsonl"}, "key 'output': unknown key 'output'"),
    ({"format": "csv"}, "key 'format': unknown key 'format'"),
    ({"help": True}, "key 'help': unknown key 'help'"),
    ({"arrival": "late:5:1ms"}, "key 'arrival': "),
    ({"collective": "allredcue"}, "element 0 (2 ranks): unknown collective 'allredcue'; did you"),
    ({"collective": None}, "element 0 (2 ranks): Missing argument 'COLLECTIVE'"),
    ({"collective": "kernels"}, "unknown collective 'kernels'"),
    ({"ranks": None}, "no number of ranks: give the key 'ranks'"),
    ({"ranks": 0}, "key 'ranks': give a whole number from 1 on, got 0"),
    ({"ranks": True}, "key 'ranks': give a whole number from 1 on, got True"),
    ({"ranks": "2"}, "key 'ranks': give a whole number from 1 on, got '2'"),
    ({"nodes": 3}, "key 'nodes': 2 ranks can't be on 3 nodes"),
    ({"mpi": 5}, "key 'mpi': give the name of an MPI library, got 5"),
]


@pytest.mark.parametrize(("base", "message"), REFUSED)
def test_an_element_that_its_command_would_refuse_is_named_with_its_key(base, message):
    assert message in problem(**base)


def test_the_element_at_fault_is_the_one_that_is_named():
    with pytest.raises(UsageError, match=r"element 3 \(3 ranks\), key 'algorithm'"):
        made(
            base={"collective": "allgather"},
            axes={"algorithm": ["ring", "recursive-doubling"], "ranks": [2, 3]},
        )


def test_a_command_that_cannot_be_swept_is_refused():
    with pytest.raises(UsageError, match="unknown command of a sweep 'bensh'; did you mean bench"):
        made(command="bensh")


# Command lines


def spelled(**options):
    return elements.spell("bench", {"collective": "allreduce", **options})


def test_values_reach_the_command_as_they_are():
    found = spelled(sizes=("8", "1KiB"), repetitions=7, touch=False, cold=False, dtype="float64")
    assert found.options["collective"] == "allreduce"
    assert found.options["size_list"] == "8,1KiB"
    assert found.options["repetitions"] == 7
    assert found.options["touch"] is False
    assert found.options["cold"] is False
    assert found.options["dtype"] == "float64"


@pytest.mark.parametrize(
    "name", ["-x", "--force", "a b", "it's", '"', "; rm -rf .", "$(id)", "`id`", "é*"]
)
def test_a_name_is_one_word_whatever_its_characters(name):
    found = spelled(dtype=name)
    assert found.options["dtype"] == name
    assert f"--dtype={name}" in found.words
    assert shlex.split(str(found)) == ["hpccoll", "bench", *found.words]
    assert spelled(collective=name).options["collective"] == name


def test_the_option_nodes_of_bench_is_the_key_placement():
    assert spelled(placement="2x4").options["nodes"] == "2x4"
    with pytest.raises(UsageError, match="unknown key 'nodes'"):
        spelled(nodes="2x4")


# Hash and file


def test_the_hash_is_of_the_content_and_not_of_how_it_is_written():
    found = made()
    assert found.hash == made().hash
    other = {key: found.elements[0].options[key] for key in reversed(found.elements[0].options)}
    first = replace(found.elements[0], options=other, estimate=None)
    assert replace(found, elements=(first, *found.elements[1:])).hash == found.hash


@pytest.mark.parametrize(
    "change",
    [
        lambda p: replace(p, name="other"),
        lambda p: replace(p, command="other"),
        lambda p: replace(p, version="other"),
        lambda p: replace(p, elements=p.elements[:-1]),
        lambda p: replace(
            p, elements=(replace(p.elements[0], allocation=Allocation(3)), *p.elements[1:])
        ),
        lambda p: replace(
            p, elements=(replace(p.elements[0], allocation=Allocation(2, 1)), *p.elements[1:])
        ),
        lambda p: replace(
            p, elements=(replace(p.elements[0], options=BASE | {"a": 1}), *p.elements[1:])
        ),
        lambda p: replace(
            p, elements=(replace(p.elements[0], options=BASE | {"a": True}), *p.elements[1:])
        ),
        lambda p: replace(
            p, elements=(replace(p.elements[0], options=BASE | {"a": "1"}), *p.elements[1:])
        ),
    ],
)
def test_any_other_content_has_another_hash(change):
    found = Plan(
        "named", "bench", (Element(0, Allocation(2), BASE), Element(1, Allocation(4), BASE))
    )
    kin = {
        replace(
            found, elements=(replace(found.elements[0], options=BASE | {"a": v}), found.elements[1])
        ).hash
        for v in (1, True, "1")
    }
    assert len(kin) == 3
    assert change(found).hash != found.hash


def test_a_plan_is_read_as_it_was_written(tmp_path):
    path, found = tmp_path / "a plan.json", made()
    plan.write(path, found)
    assert plan.read(path) == found
    assert isinstance(plan.read(path).elements[0].estimate, Estimate)


def test_another_plan_is_not_overwritten_without_force(tmp_path):
    path = tmp_path / "plan.json"
    plan.write(path, made())
    plan.write(path, made())
    with pytest.raises(UsageError, match="exists; choose another --output"):
        plan.write(path, made(name="other"))
    with pytest.raises(UsageError, match="can't be written: Is a directory"):
        plan.write(tmp_path, made(), force=True)
    plan.write(path, made(name="other"), force=True)
    assert plan.read(path).name == "other"


def test_a_plan_that_is_not_as_it_was_written_is_refused(tmp_path):
    path = tmp_path / "plan.json"
    with pytest.raises(UsageError, match="can't be read: No such file"):
        plan.read(path)
    for text in ("", "{", "[]", '{"format": "other"}', made().text()[:-20]):
        path.write_text(text)
        with pytest.raises(UsageError, match="is no plan of a sweep"):
            plan.read(path)
    content = json.loads(made().text())
    for change in ({"elements": []}, {"hash": "0"}, {"name": 3}, {"elements": [3]}):
        path.write_text(json.dumps(content | change))
        with pytest.raises(UsageError, match="isn't as it was written"):
            plan.read(path)
    path.write_text(json.dumps(content | {"hpccoll": "0.0.9"}))
    with pytest.raises(UsageError, match=r"was made by hpccoll 0\.0\.9"):
        plan.read(path)


def test_an_index_that_no_element_has_is_refused():
    found = made()
    assert found.element(7).index == 7
    for index in (-1, 8):
        with pytest.raises(UsageError, match=f"has the elements 0 to 7, got --index {index}"):
            found.element(index)


# The command and its chapter


def typed(*words):
    """Run a command and return its exit code and what it printed."""
    done = CliRunner().invoke(cli, list(map(str, words)))
    return done.exit_code, done.output, done.exception


def test_the_chapters_plan_is_what_is_printed(tmp_path):
    text, example, norms = re.findall(r"```toml\n(.*?)```", DOCS, re.DOTALL)
    file = tmp_path / "allreduce.toml"
    file.write_text(text, encoding="utf-8")
    code, printed, _ = typed("sweep", "plan", file)
    assert code == 0
    shown = DOCS.split("-o allreduce.json\n")[1].split("```")[0]
    before, after = shown.split("…\n")
    assert printed.startswith(before)
    assert printed.endswith(after)
    assert typed("sweep", "plan", file, "--count")[1] == "0-23\n"
    file.write_text('base.collective = "allreduce"\n' + example, encoding="utf-8")
    assert typed("sweep", "plan", file, "--count")[1] == "0-9\n"
    file.write_text(norms, encoding="utf-8")
    assert typed("sweep", "plan", file, "--count")[1] == "0-7\n"


def test_a_plan_is_written_only_if_every_element_can_run(tmp_path):
    file, path = tmp_path / "sweep.toml", tmp_path / "sweep.json"
    file.write_text('[base]\ncollective = "allgather"\nranks = 3\nalgorithm = "recursive-doubling"')
    code, printed, error = typed("sweep", "plan", file, "-o", path)
    assert code == 1
    assert isinstance(error, UsageError)
    assert str(error).startswith(f"{file}: element 0 (3 ranks), key 'algorithm': ")
    assert printed == ""
    assert not path.exists()


def test_status_and_collect_of_a_sweep_that_has_not_begun_say_so(tmp_path):
    path = tmp_path / "plan.json"
    plan.write(path, made())
    code, printed, _ = typed("sweep", "status", path)
    assert code == 0
    assert printed.endswith("\n8 elements: 8 missing\n")
    assert isinstance(typed("sweep", "collect", path, "-o", tmp_path / "x")[2], IncompleteError)
    assert isinstance(typed("sweep", "run", path)[2], UsageError)
    assert isinstance(typed("sweep", "run", path, "--all", "--index", "1")[2], UsageError)
