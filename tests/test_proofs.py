"""Proofs of many algorithms: what is drawn beyond, and that processes share them."""

from dataclasses import replace

import pytest

from hpccoll import proofs
from hpccoll.obligations import BUDGET, DRAWN_UP_TO, drawn, obligations
from hpccoll.registry import Choice, find
from hpccoll.schedule import Recv, Round, Send
from hpccoll.verify import prove

FEW = [find("allreduce", "ring"), find("allgather", "bruck"), find("bcast", "binomial")]


def test_what_is_drawn_lies_beyond_is_supported_and_within_the_budget(entry):
    sizes = drawn(entry, 3, 64, seed=5)
    assert sizes == drawn(entry, 3, 64, seed=5)
    assert all(64 < size <= DRAWN_UP_TO and entry.supports(size) for size in sizes)
    for size in sizes[:1]:
        assert prove(Choice(entry), size).counts.total <= BUDGET


def test_other_seeds_draw_other_numbers_of_ranks():
    assert len({drawn(FEW[2], 3, 64, seed) for seed in range(5)}) > 1


def test_an_algorithm_for_powers_of_two_is_proven_beyond_on_powers_of_two():
    sizes = drawn(find("allgather", "recursive-doubling"), 9, 64, seed=0)
    assert set(sizes) <= {128, 256, 512, 1024}
    assert sizes


def test_nothing_is_drawn_beyond_the_last():
    assert drawn(FEW[0], 3, DRAWN_UP_TO, seed=0) == ()


def test_a_drawn_number_of_ranks_is_proven_with_the_defaults_and_root_0():
    asked = list(obligations(FEW[2], [2], [100]))
    assert [(size, root) for _, size, root in asked] == [(2, 0), (2, 1), (100, 0)]


@pytest.mark.parametrize("jobs", [2, 5])
def test_processes_find_what_one_finds_in_the_same_order(jobs):
    alone = list(proofs.prove_all(FEW, range(1, 6), 1, 0))
    assert list(proofs.prove_all(FEW, range(1, 6), 1, 0, jobs)) == alone
    assert [report.algorithm for report in alone] == FEW
    assert all(len(report.beyond) == 1 for report in alone)


def test_a_fault_beyond_is_found(enter):
    def short_of_breath(rank, size):
        for step in range(1, min(size, 70)):
            to, source = (rank + step) % size, (rank - step) % size
            yield Round(Send(to, rank), Recv(source, source))

    choice = enter("allgather", short_of_breath)
    entry = replace(choice.algorithm, rounds="p-1", sent="n*(p-1)/p", messages="p-1")
    right, wrong = (proofs.prove_one(entry, [3, 5], beyond) for beyond in ((), (90,)))
    assert not right.failures
    assert len(wrong.failures) == 1
    assert "on 90 ranks" in wrong.failures[0]
