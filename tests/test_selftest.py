"""The self-test: what each fault does, that all are found, and that a poor check is caught."""

import sys
from functools import reduce

import numpy as np
import pytest

from hpccoll import selftest
from hpccoll.buffers import allocate
from hpccoll.check import Pattern
from hpccoll.collectives import COLLECTIVES, ROOT
from hpccoll.datatypes import DTYPES, OPERATORS, bits, dtype, kind
from hpccoll.faults import AGAIN, ALONE, FAULTS, NO_INPUT, ONE_BUFFER, ONLY_THE_ROOT, Victim
from hpccoll.layout import Message, layout
from hpccoll.selftest import CONTROL, FOUND, MISSED, Report, examine

BY_NAME = {fault.name: fault for fault in FAULTS}
NEEDS_SEVERAL = ("a missing rank", "a rank counted twice", "two blocks swapped", "no communication")


def right(pattern, rank):
    """Return the right result of a rank."""
    spans = layout(pattern.collective, rank, pattern.size, pattern.message).result_spans
    return np.concatenate([pattern.expected(rank, span.start, span.stop) for span in spans])


def victim(pattern, rank):
    """Return a rank with the right result."""
    message = Message(pattern.count, pattern.dtype.itemsize, pattern.root)
    place = layout(pattern.collective, rank, pattern.size, message)
    spaces = allocate(place, 0, pattern.dtype)
    pattern.fill(rank, place, spaces)
    called = Victim(pattern, rank, place, spaces)
    called.result[:] = right(pattern, rank)
    return called


def pattern(of="allreduce", op="sum", name="int32", size=4, count=64, root=0):
    """Return the pattern of a call, in words."""
    return Pattern(COLLECTIVES[of], dtype(name), OPERATORS[op], size, count, root, seed=3)


def damaged(made, fault, rank=2):
    """Return a victim with a fault, and the result that was right."""
    called = victim(made, rank)
    before = called.result.copy()
    BY_NAME[fault].put(called)
    return called, before


def report_on(size):
    """Return the report on all cases, with right results."""
    report = Report(size)
    for number, (made, _) in enumerate(selftest._cases(size, report)):
        examine(victim(made, selftest._victim(made, number)), True, report)
    return report


def calls(operators):
    """Return the number of types that the operators are defined for, all together."""
    return sum(operator.defined_for(dtype(name)) for name in DTYPES for operator in operators)


# What is tested


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
def test_every_fault_is_found_in_every_call(size):
    report = report_on(size)
    assert report.missed == []
    without_result = {"barrier", "exscan"} if size == 1 else {"barrier"}
    for of, collective in COLLECTIVES.items():
        operators = OPERATORS.values() if collective.reduces else [OPERATORS["sum"]]
        able = [o for o in operators if collective.averages or not o.average]
        number = 0 if of in without_result else calls(able)
        assert report.counts[CONTROL, of, FOUND] == number
        for fault in BY_NAME:
            verdicts = {v: n for (f, c, v), n in report.counts.items() if (f, c) == (fault, of)}
            assert sum(verdicts.values()) == number, "nothing is dropped silently"
            assert set(verdicts) <= {FOUND, ALONE, AGAIN, ONLY_THE_ROOT, ONE_BUFFER, NO_INPUT}
            if size > 1 and number and collective.contributors != ROOT:
                assert verdicts[FOUND] >= number * 0.4


def test_every_algorithm_and_root_has_its_turn():
    cases = list(selftest._cases(4, Report(4)))
    algorithms = {(made.collective.name, choice.label) for made, choice in cases}
    able = selftest.catalogue()
    able = [a for a in able if a.supports(4) and a.collective.moves_data]
    assert algorithms == {(a.collective.name, a.name) for a in able}
    assert {made.root for made, _ in cases if made.collective.rooted} == set(range(4))


def test_the_victim_has_a_result_that_came_from_others():
    for number in range(12):
        assert selftest._victim(pattern("reduce", root=2), number) == 2
        assert selftest._victim(pattern("bcast", root=2), number) != 2
    assert {selftest._victim(pattern(), number) for number in range(12)} == {0, 1, 2, 3}
    assert selftest._victim(pattern("bcast", size=1), 5) == 0


# What each fault does


@pytest.mark.parametrize("fault", BY_NAME)
@pytest.mark.parametrize("of", [of for of in COLLECTIVES if of != "barrier"])
def test_a_fault_changes_something_and_everything_is_restored(fault, of):
    made = pattern(of, size=4)
    if BY_NAME[fault].impossible(made):
        return
    rank = 0 if of in ("reduce", "gather") else 2
    called, before = damaged(made, fault, rank)
    assert (called.result.tolist() == before.tolist()) == (fault == "an overwritten input")
    report, again = Report(4), victim(made, rank)
    examine(again, True, report)
    assert again.result.tolist() == before.tolist()
    assert made.mismatch(rank, again.place, again.spaces) is None


@pytest.mark.parametrize("name", DTYPES)
def test_one_element_is_changed(name):
    called, before = damaged(pattern(name=name), "one wrong element")
    assert (called.result != before).sum() == 1


@pytest.mark.parametrize("name", DTYPES)
def test_one_bit_is_the_least_change_that_there_is(name):
    called, before = damaged(pattern(name=name), "one bit of one element")
    words, before = bits(called.result), bits(before)
    assert np.flatnonzero(words != before).size == 1
    changed = words != before
    assert abs(int(words[changed][0]) - int(before[changed][0])) == 1


def test_faults_of_reductions():
    made = pattern()
    inputs = [made.inputs(rank, 0, made.count) for rank in range(4)]
    assert (
        damaged(made, "a missing rank")[0].result.tolist()
        == sum(inputs[rank] for rank in (0, 1, 2)).tolist()
    )
    twice = damaged(made, "a rank counted twice")[0].result
    assert twice.tolist() == (sum(inputs) + inputs[3]).tolist()
    assert damaged(made, "no communication")[0].result.tolist() == (inputs[2] * 4).tolist()
    extreme = pattern(op="max")
    largest = reduce(np.maximum, [extreme.inputs(rank, 0, 64) for rank in (0, 1, 2)])
    assert damaged(extreme, "a missing rank")[0].result.tolist() == largest.tolist()
    average = pattern(op="avg", name="float64")
    own = average.inputs(2, 0, 64)
    assert damaged(average, "no communication")[0].result.tolist() == own.tolist()


def test_faults_of_blocks():
    called, before = damaged(pattern(), "two blocks swapped")
    order = [*range(32), *range(48, 64), *range(32, 48)]
    assert called.result.tolist() == before[order].tolist()
    called, before = damaged(pattern(), "a block of zeros")
    assert called.result.tolist() == before[:48].tolist() + [0] * 16
    scattered = pattern("reduce-scatter")
    called, _ = damaged(scattered, "two blocks swapped")
    assert called.result.tolist() == right(scattered, 3).tolist()


def test_faults_of_gathering():
    made = pattern("allgather")
    called, before = damaged(made, "a rank counted twice")
    assert called.result.tolist() == before[:48].tolist() + before[32:48].tolist()
    called, before = damaged(made, "a missing rank")
    assert called.result.tolist() == before[:48].tolist() + [2**31 - 1] * 16
    called, before = damaged(made, "no communication")
    assert called.result.tolist() == before[32:48].tolist() * 4


def test_a_broadcast_without_communication_leaves_what_was_there():
    called, _ = damaged(pattern("bcast"), "no communication")
    assert called.result.tolist() == [2**31 - 1] * 64


def test_an_overwritten_input_leaves_the_result():
    called, before = damaged(pattern(), "an overwritten input")
    assert called.result.tolist() == before.tolist()
    assert (called.input != called.pattern.inputs(2, 0, 64)).sum() == 1


# What can't be, and what a poor check misses


@pytest.mark.parametrize("fault", NEEDS_SEVERAL)
def test_one_rank_is_said_not_to_have_the_faults_of_several(fault):
    text = str(report_on(1))
    line = next(line for line in text.splitlines() if line.startswith(fault))
    assert line.split()[-5:] == ["-"] * 5
    assert "mpirun -n" in text
    (told,) = (line for line in text.splitlines() if line.startswith("on one rank"))
    assert fault in told


def test_what_cannot_be_is_listed_with_its_number_and_reason():
    text = str(report_on(3))
    types = len(DTYPES)
    assert f"a missing rank: bcast {types}, scatter {types}: {ONLY_THE_ROOT}" in text
    assert f"an overwritten input: bcast {types}: {ONE_BUFFER}" in text
    assert f"an overwritten input: scatter {types}: {NO_INPUT}" in text
    idempotent = calls([operator for operator in OPERATORS.values() if operator.idempotent])
    reductions = [of for of, collective in COLLECTIVES.items() if collective.reduces]
    listed = ", ".join(f"{of} {idempotent}" for of in reductions)
    assert f"a rank counted twice: {listed}: {AGAIN}" in text
    assert "mpirun" not in text


def test_a_check_that_finds_nothing_is_caught(monkeypatch):
    monkeypatch.setattr(Pattern, "mismatch", lambda *_: None)
    report = report_on(3)
    assert {verdict for fault, _, verdict in report.counts if fault != CONTROL} & {FOUND} == set()
    assert len(report.missed) == sum(
        number for (_, _, verdict), number in report.counts.items() if verdict == MISSED
    )
    text = str(report)
    every = calls(OPERATORS.values())
    assert f"MISSED {every} of {every}" in text
    assert f"and {len(report.missed) - selftest.LISTED} more" in text


def test_a_check_with_a_tolerance_is_caught(monkeypatch):
    exact = Pattern._differences

    def tolerant(self, got, right):
        if kind(self.dtype) == "integer":
            return exact(self, got, right)
        wide = [each.astype(complex) for each in (got, right)]
        return np.flatnonzero(~np.isclose(*wide, rtol=1e-2))

    monkeypatch.setattr(Pattern, "_differences", tolerant)
    report = report_on(2)
    missed = {fault for fault, _, verdict in report.counts if verdict == MISSED}
    assert "one bit of one element" in missed
    assert "two blocks swapped" not in missed


def test_a_check_of_the_first_block_only_is_caught(monkeypatch):
    exact = Pattern._differences
    monkeypatch.setattr(
        Pattern, "_differences", lambda self, got, right: exact(self, got[:64], right[:64])
    )
    report = report_on(3)
    missed = {fault for fault, _, verdict in report.counts if verdict == MISSED}
    assert {"one wrong element", "a block of zeros"} <= missed


def test_a_result_that_is_wrong_without_any_fault_fails_the_control():
    made, report = pattern(), Report(4)
    for rank, is_victim in ((1, False), (2, True)):
        called = victim(made, rank)
        called.result[5] += 1
        examine(called, is_victim, report)
    assert report.counts == {(CONTROL, "allreduce", MISSED): 2}
    assert "nothing damaged" in report.missed[0]
    assert "rank 1, index 5" in report.missed[0]
    assert "FAILED 2 of 2" in str(report)


def test_only_the_victim_is_damaged():
    made, report = pattern(), Report(4)
    examine(victim(made, 1), False, report)
    assert not report.counts


def test_a_type_that_is_not_there_is_said_to_be_left_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    report = Report(2)
    cases = list(selftest._cases(2, report))
    assert "bfloat16" not in {made.dtype.name for made, _ in cases}
    assert [line.split()[0] for line in report.without] == ["barrier", "bfloat16"]
    assert "pip install 'hpccoll[bfloat16]'" in str(report)


def test_reports_of_ranks_are_added_up():
    one, other = Report(2), Report(2)
    one.add("a block of zeros", pattern(), FOUND)
    other.add("a block of zeros", pattern(), FOUND)
    other.add("a block of zeros", pattern(op="max"), MISSED, "rank 1")
    one.merge(other)
    assert "MISSED 1 of 3" in str(one)
    assert one.missed == ["a block of zeros, allreduce of int32 max: rank 1"]
