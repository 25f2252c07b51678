"""The proofs of many algorithms, and their sum in words."""

import re
from dataclasses import replace

import pytest

from hpccoll.obligations import Drawn
from hpccoll.proofs import conclusion, prove_all
from hpccoll.registry import catalogue, find


def test_no_algorithm_needs_less_than_it_declares(entry):
    """Whoever asks for a commutative operator, or grants other bits, must really need it."""
    stricter = [{"commutative": False}] if entry.commutative and entry.collective.reduces else []
    stricter += [] if entry.same_bits else [{"same_bits": True}]
    for claim in stricter:
        claimed = replace(entry, **claim)
        (report,) = prove_all([claimed], range(1, 17))
        assert report.findings.failures
        assert all(
            re.search("order of the ranks|other bits", line) for line in report.findings.failures
        )


@pytest.mark.parametrize("jobs", [2, 3, 99])
def test_several_processes_find_the_same_in_the_same_order(jobs):
    entries = catalogue("allgather")
    alone = list(prove_all(entries, range(1, 6), draws=1, seed=7))
    assert [report.algorithm for report in alone] == list(entries)
    assert list(prove_all(entries, range(1, 6), draws=1, seed=7, jobs=jobs)) == alone


def test_a_wrong_algorithm_is_found_by_whichever_process_has_it():
    wrong = replace(find("bcast", "linear"), rounds="p")
    entries = [find("bcast", "binomial"), wrong, find("scan", "linear")]
    reports = list(prove_all(entries, range(1, 4), jobs=2))
    assert [bool(report.findings.failures) for report in reports] == [False, True, False]
    assert "WRONG" in reports[1].line()
    assert conclusion(reports, range(1, 4)).startswith("\n1 of 3 algorithms are wrong")


def test_what_is_drawn_and_what_is_left_out_is_said():
    (report,) = prove_all([find("scan", "linear")], range(1, 9), draws=2, seed=3)
    drawn = report.findings.drawn
    assert len(drawn.sizes) == 2
    assert f"also on {drawn.sizes[0]}, {drawn.sizes[1]}" in report.line()
    report = replace(report, findings=replace(report.findings, drawn=Drawn((99, 100), 31)))
    said = conclusion([report], range(1, 9), 2, 3)
    assert "drawn with seed 3; 2 were proven with the defaults, 31 left out" in said
    assert "Beyond" not in conclusion([report], range(1, 9))
