"""Combinators: what running a schedule backwards and folding do to any schedule."""

import pytest

from hpccoll.choice import Choice
from hpccoll.combinators import fold, reverse
from hpccoll.registry import find
from hpccoll.schedule import Combine, Copy, Recv, Round, Send
from hpccoll.symbolic import Execution

GATHERED_ONCE = ("ring", "bruck", "circulant", "linear", "neighbor-exchange", "sparbit", "tree")
"""Allgathers in which no rank receives a block that it has."""


def test_reverse_turns_order_and_direction_and_leaves_local_work_out():
    rounds = [
        Round(Send(1, 0), Recv(2, (3, 4), channel=1)),
        Round(Copy(0, 1, 0), Recv(1, range(2))),
    ]
    assert list(reverse(rounds, Combine)) == [
        Round(Send(1, range(2))),
        Round(Send(2, (3, 4), channel=1), Combine(1, 0)),
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 6, 8, 13])
@pytest.mark.parametrize("name", GATHERED_ONCE)
def test_reverse_of_an_allgather_is_a_reduce_scatter(name, size):
    choice = Choice(find("allgather", name))
    if not choice.supports(size):
        pytest.skip(f"{name} isn't defined for {size} ranks")
    backwards = [reverse(choice.schedule(rank, size), Combine) for rank in range(size)]
    execution = Execution(backwards, [range(size)] * size, size)
    for rank in range(size):
        value = execution.value(rank, rank)
        assert value is not None
        assert execution.terms.mask[value] == (1 << size) - 1


@pytest.mark.parametrize("radix", [2, 3, 4])
@pytest.mark.parametrize("size", range(1, 20))
def test_fold_gives_a_schedule_the_power_of_the_radix_that_it_needs(size, radix):
    called = set()

    def inner(rank, core):
        called.add((rank, core))
        yield from ()

    for rank in range(size):
        list(fold(inner, lambda size: 0, radix=radix)(rank, size))
    (core,) = {core for _, core in called}
    assert core in [radix**exponent for exponent in range(6)]
    assert core <= size < core * radix
    assert {rank for rank, _ in called} == set(range(core))
