"""`hpccoll selftest` on real ranks, and the names of types in the MPI library that is there."""

import json
import re

import pytest

from hpccoll.collectives import COLLECTIVES
from hpccoll.datatypes import DTYPES, OPERATORS, dtype
from hpccoll.faults import FAULTS

NAMES = """
import json
from mpi4py import MPI
from hpccoll.datatypes import DTYPES, dtype, mpi_datatype
sizes = {}
for name in DTYPES:
    constant = mpi_datatype(dtype(name))
    found = getattr(MPI, constant) if constant else MPI.DATATYPE_NULL
    size = None if found == MPI.DATATYPE_NULL else found.Get_size()
    sizes[name] = [size, dtype(name).itemsize]
print(json.dumps(sizes))
"""

POOR = """
import sys
from hpccoll.check import Pattern
from hpccoll.cli import main
exact = Pattern._differences
Pattern._differences = lambda self, got, right: exact(self, got[:32], right[:32])
sys.argv[1:] = ["selftest"]
main()
"""


def cells(text):
    """Return the table's cells by fault."""
    found = {}
    for line in text.splitlines():
        name, *row = re.split(r"  +", line.strip())
        if len(row) == len(COLLECTIVES):
            found[name] = row
    return found


def calls_of(collective, ranks):
    """Return how many calls there are, and how many of an operator that a rank may do twice."""
    if not any(collective.wanted(r, ranks, 0, collective.natural(ranks)) for r in range(ranks)):
        return 0, 0
    if not collective.reduces:
        return len(DTYPES), 0
    able = [
        operator
        for name in DTYPES
        for operator in OPERATORS.values()
        if operator.defined_for(dtype(name)) and (collective.averages or not operator.average)
    ]
    return len(able), sum(operator.idempotent for operator in able)


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_every_fault_is_found(launcher, ranks):
    job = launcher.hpccoll(ranks, "selftest")
    assert (job.code, job.err) == (0, ""), job.err
    table = cells(job.out)
    right = table.pop("nothing damaged")
    assert set(table) == {fault.name for fault in FAULTS}
    for number, of in enumerate(COLLECTIVES.values()):
        calls, idempotent = calls_of(of, ranks)
        assert right[number] == (f"right {calls}" if calls else "-"), of.name
        found = {row[number] for row in table.values()}
        assert f"found {calls}" in found or not calls
        once = {f"found {calls - idempotent}"} if of.reduces and ranks > 1 else set()
        assert found <= {f"found {calls}", "-"} | once, of.name
    assert job.out.count(f"damaged results on {ranks} rank") == 1
    assert ("on one rank there can't be" in job.out) == (ranks == 1)


def test_a_poor_check_fails_the_self_test(launcher):
    job = launcher.run(2, "-c", POOR)
    assert job.code == 1
    assert re.search(r"hpccoll: the self-test failed: \d+ results were judged wrongly", job.err)
    assert job.err.count("hpccoll:") == 1
    assert re.search(r"MISSED \d+ of \d+", cells(job.out)["a block of zeros"][0])


def test_the_librarys_types_have_the_elements_size(launcher):
    job = launcher.run(1, "-c", NAMES)
    assert job.code == 0, job.err
    sizes = json.loads(job.out)
    missing = {name for name, (size, _) in sizes.items() if size is None}
    assert missing <= {"float16", "bfloat16"}
    assert all(size == itemsize for size, itemsize in sizes.values() if size)
