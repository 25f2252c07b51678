"""Imports point downwards only, and those that start MPI or numpy come late."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hpccoll

PACKAGE = Path(hpccoll.__file__).parent

LAYERS = """
__main__
cli
sweep
layernorm
session selftest merge_table numerics
table merge kernels
findings advice results top
columns parsing
measure conditions
turns measurement
machine pieces
trial
candidates
selection
sampling
faults watchdog clocks
engines
buffers request
check world
arrival canary clock launcher progress stats straggler
launch
patterns
datatypes irregular
reproducible
pages
export
units
conversions
bind
landings
local_work messages
places instructions scratch contents
plan
overlaps regions
layout
draw
regular
trace summation
proofs listing plugins
verify
obligations symbolic
symbolic_rank terms
algorithms
library_choice
spelling
registry
choice
parameter
combinators collectives cost
processes
segmentation
placement
schedule partition shapes
errors
__init__
"""
"""From high to low; a module may import from lower lines only. A package stands for its modules,
which may import each other. A new module is entered in the line where it belongs."""

UPWARDS = {("registry", "algorithms")}
"""The catalogue imports the files of its entries when it is first asked."""

HEIGHT = {
    name: -number for number, line in enumerate(LAYERS.strip().split("\n")) for name in line.split()
}
FILES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


def layer_of(path):
    """Return the entry of a file in the table: its package, or the module itself."""
    return path.parts[0].removesuffix(".py")


def imported(path):
    """Yield every module of hpccoll that a file imports, wherever in the file."""
    package = ("hpccoll", *path.parts[:-1])
    for node in ast.walk(ast.parse((PACKAGE / path).read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) + 1 - node.level]) if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            # "from hpccoll import x" names a module only if there is one of that name.
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "hpccoll":
                parts = name.split(".")
                yield parts[1] if len(parts) > 1 and parts[1] in HEIGHT else "__init__"


@pytest.mark.parametrize("path", FILES, ids=str)
def test_imports_point_downwards(path):
    own = layer_of(path)
    assert own in HEIGHT, f"{path}: enter {own!r} in LAYERS of {Path(__file__).name}"
    for other in imported(path):
        if other != own and (own, other) not in UPWARDS:
            assert HEIGHT[other] < HEIGHT[own], f"{path} must not import {other}"


def test_a_new_module_is_asked_for():
    known = {layer_of(path) for path in FILES}
    assert known <= set(HEIGHT), f"enter {known - set(HEIGHT)} in LAYERS"


@pytest.mark.parametrize(
    "modules", ["registry verify draw", "cost listing", "pages export.msccl", "cli"]
)
def test_reading_schedules_starts_neither_numpy_nor_mpi(modules):
    lines = [f"import hpccoll.{module}" for module in modules.split()]
    lines += ["import sys", "from hpccoll.registry import catalogue", "assert catalogue()"]
    lines += ["print(*{'numpy', 'mpi4py', 'matplotlib'} & set(sys.modules))"]
    found = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=PACKAGE.parent,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == []
