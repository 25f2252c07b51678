"""An algorithm touches one place: its name stands in its own file, and the rest reads it there."""

import ast
import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner
from requested import build

import hpccoll
import hpccoll.algorithms
from hpccoll import pages, registry
from hpccoll.bind import bind
from hpccoll.cli import cli
from hpccoll.collectives import COLLECTIVES
from hpccoll.layout import Message
from hpccoll.registry import catalogue

PACKAGE = Path(hpccoll.__file__).parent

COMMON = {
    "chain": "a function of itertools",
    "pairwise": "a function of itertools",
    "shift": "a distance between ranks or blocks",
    "tree": "a tree of ranks",
}
"""Names that are identifiers with another meaning as well: of these only strings count."""

LARGE = ("rabenseifner", "scatter-allgather-ring")
"""What an order for large messages consists of."""

ELSEWHERE = {
    ("bine", "algorithms/trees.py"): "the tree, of which several collectives are made",
    ("kary", "algorithms/trees.py"): "the tree, of which several collectives are made",
    ("knomial", "algorithms/barrier.py"): "made of the tree, whose file is called so",
    ("knomial", "algorithms/alltoall.py"): "needs a closed form that the tree's file has",
    ("binomial", "algorithms/two_level.py"): "a part unless another is asked for",
    ("circulant", "algorithms/two_level.py"): "a part unless another is asked for",
    ("two-level", "algorithms/multi_leader.py"): "has the same parts",
    ("recursive-doubling", "algorithms/bcast.py"): "an allgather that a broadcast ends with",
    ("ring", "algorithms/bcast.py"): "an allgather that a broadcast ends with",
    ("recursive-doubling", "pieces.py"): "the exchange by which the length of pieces is measured",
    ("shift", "machine.py"): "the exchange by which a step and a byte are measured",
    ("tree", "numerics/table.py"): "additions make a tree, which has a column",
    ("linear", "irregular.py"): "a pattern of counts is called so, too",
    ("chain", "layernorm/candidates.py"): "the fused order is made of it",
    ("chain", "layernorm/communication.py"): "the fused order is made of it",
    ("one-shot", "layernorm/theory.py"): "an order is called so, too",
    **{
        (name, "layernorm/orders.py"): "orders have algorithms by definition"
        for name in ("binomial", "chain", "linear", "one-shot", *LARGE)
    },
    **{
        (name, "layernorm/request.py"): "what orders call unless another is asked for"
        for name in ("binomial", "linear", "ring")
    },
    **{
        (name, "layernorm/costs.py"): "orders have formulas with these"
        for name in ("binomial", "bruck", "circulant", "direct", "linear", "one-shot", "pairwise")
    },
    **{
        (name, "layernorm/costs.py"): "orders have formulas with these" for name in ("ring", *LARGE)
    },
}
"""Where else a name may stand, and why."""

EXAMPLES = {"cli/bench.py", "cli/layernorm.py", "cli/sweep.py"}
"""Whose help shows how algorithms are spelled."""

FOREIGN = "selection"
"""The folder in which MPI libraries' own algorithms have the names that those gave them."""


def homes():
    """Return the files in which algorithms of each name, or alias, are entered."""
    found = defaultdict(set)
    for entry in catalogue():
        for name in (entry.name, *entry.aliases):
            found[name].add(_inside(Path(sys.modules[entry.generate.__module__].__file__)))
    return found


def _inside(path):
    return path.relative_to(PACKAGE).as_posix()


@cache
def words():
    """Return (file, line, text, whether it is a string) of all code, documentation left out."""
    return [
        (_inside(path), line, text, is_string)
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text, is_string in _words(ast.parse(path.read_text(encoding="utf-8")))
    ]


def _words(tree):
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and id(node) not in documentation:
                yield line, node.value, True
            continue
        for part in ("id", "attr", "name", "arg", "asname", "module"):
            if isinstance(text := getattr(node, part, None), str):
                yield line, text, False


def elsewhere(name, own):
    """Return where a name stands besides its own files, as file and line."""
    spellings = "|".join(map(re.escape, {name, name.replace("-", "_")}))
    whole = re.compile(rf"(?<![\w-])({spellings})(?![\w-])")
    return [
        (file, line)
        for file, line, text, is_string in words()
        if file not in own | EXAMPLES and not file.startswith(FOREIGN)
        if (is_string or name not in COMMON) and whole.search(text)
    ]


@pytest.mark.parametrize("name", sorted({entry.name for entry in catalogue()}))
def test_the_name_of_an_algorithm_stands_in_its_own_file_only(name):
    found = elsewhere(name, homes()[name])
    strange = [f"{file}:{line}" for file, line in found if (name, file) not in ELSEWHERE]
    assert not strange, f"{name!r} is entered in {homes()[name]}, but {strange} know it, too"


def test_every_exception_is_needed():
    found = {(name, file) for name, own in homes().items() for file, _ in elsewhere(name, own)}
    assert set(ELSEWHERE) <= found
    plain = {text for _, _, text, is_string in words() if not is_string}
    assert set(COMMON) <= plain & set(homes())


ALONE = '''
"""An algorithm of its own file."""

from hpccoll.registry import algorithm
from hpccoll.schedule import Recv, Round, Rounds, Send


@algorithm("allgather", rounds="p-1", sent="n*(p-1)/p")
def newcomer(rank: int, size: int) -> Rounds:
    """Exchange own blocks with everybody, one distance per round.

    References
    ----------
    Nobody, doi:10.0/0.
    """
    for step in range(1, size):
        source = (rank - step) % size
        yield Round(Send((rank + step) % size, rank), Recv(source, source))
'''


@pytest.fixture
def newcomer(tmp_path, monkeypatch):
    """Put one file into the folder of algorithms, and nothing else anywhere."""
    (tmp_path / "entered_by_a_test.py").write_text(ALONE, encoding="utf-8")
    folders = [*hpccoll.algorithms.__path__, str(tmp_path)]
    monkeypatch.setattr(hpccoll.algorithms, "__path__", folders)
    yield "newcomer"
    registry._ENTRIES["allgather"].pop("newcomer", None)
    sys.modules.pop("hpccoll.algorithms.entered_by_a_test", None)


def succeed(*arguments):
    """Return what a command prints."""
    found = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


def test_one_file_is_enough_to_be_listed_shown_proven_measured_and_documented(
    newcomer, monkeypatch
):
    listed = succeed("list", "allgather")
    assert newcomer in listed
    assert "Exchange own blocks with everybody, one distance per round." in listed
    assert succeed("show", newcomer, "-p", "4").startswith("allgather newcomer, 4 ranks")
    proven = succeed("verify", "allgather", "-p", "1:5", "--beyond", "0", "--jobs", "2")
    assert re.search(rf"^allgather +{newcomer} +proven +5 cases", proven, re.MULTILINE)
    able, _ = build("allgather").supported(5)
    (choice,) = (choice for choice in able if choice.label == newcomer)
    assert bind(choice, 0, 5, Message(10, 4)).instructions
    monkeypatch.setattr(pages, "COLLECTIVES", {"allgather": COLLECTIVES["allgather"]})
    written = dict(pages.pages())
    assert f"\n### {newcomer}\n" in written["allgather.md"]
    assert f"pictures/allgather-{newcomer}.svg" in written
