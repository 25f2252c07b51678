"""The loopback engine: every algorithm's data on 1 to 64 ranks, and what it must not let pass."""

from dataclasses import replace

import definitions
import numpy as np
import pytest
from conftest import run_in_loopback

from hpccoll import datatypes
from hpccoll.bind import bind
from hpccoll.choice import Choice
from hpccoll.engines import loopback
from hpccoll.errors import HangError
from hpccoll.layout import INPUT, OUTPUT, SCRATCH, Message, Region
from hpccoll.plan import Copy, PostRecv, PostSend, Wait
from hpccoll.registry import find

MANY = (9, 12, 16, 17, 33, 64)
"""Numbers of ranks beyond those of the binder's own tests."""
FEW = (1, 2, 3, 4, 5, 8, 9)


@pytest.mark.parametrize("in_place", [False, True], ids=["out of place", "in place"])
def test_every_algorithm_gives_the_defined_result_on_up_to_64_ranks(entry, in_place):
    for size in filter(entry.supports, MANY[:4] if in_place else MANY):
        root = size // 2 if entry.collective.rooted else 0
        count = definitions.allowed(entry.collective.name, 2 * size + 1, size, in_place)
        assert run_in_loopback(Choice(entry), size, count, root, in_place).right, size


def irregular(size):
    """Yield elements of the ranks' blocks: none in some, all in one, none at all."""
    yield [rank % 3 for rank in range(size)]
    yield [(5 * rank + 3) % 7 for rank in range(size)]
    yield [0] * (size - 1) + [4]
    yield [3] + [0] * (size - 1)
    yield [0] * size


@pytest.mark.parametrize("in_place", [False, True], ids=["out of place", "in place"])
def test_blocks_of_any_sizes_give_the_defined_result(entry, in_place):
    contract = entry.collective
    if not contract.irregular or (in_place and contract.vectors(2) > 1):
        return  # what an alltoall receives in place can only replace as much
    for size in filter(entry.supports, FEW):
        for counts in irregular(size):
            for root in {0, size - 1} if contract.rooted else {0}:
                made = run_in_loopback(
                    Choice(entry), size, sum(counts), root, in_place, counts=counts
                )
                assert made.right, (size, counts, root)


@pytest.mark.parametrize("radix", [2, 3, 4])
@pytest.mark.parametrize("size", [2, 3, 5, 8, 9])
def test_bruck_alltoall_in_place_is_right_with_every_radix(size, radix):
    choice = Choice(find("alltoall", "bruck"), {"radix": radix})
    for count in (0, size, 4 * size):
        assert run_in_loopback(choice, size, count, in_place=True).right


def test_alltoall_in_place_by_pairs_needs_room_for_two_blocks_at_most():
    # One block is copied to its place while the next one arrives.
    choice = Choice(find("alltoall", "pairwise-replace"))
    for size in (2, 3, 5, 8, 17):
        for rank in range(size):
            plan = bind(choice, rank, size, Message(8 * size, 8, in_place=True))
            assert plan.scratch <= 2 * 8


def table(*ranks):
    """Return plans of hand-written instructions; every space has 4 elements."""
    empty = bind(Choice(find("allreduce", "tree")), 0, 1, Message(4, 8))
    return [
        replace(empty, rank=rank, size=len(ranks), instructions=steps, scratch=4)
        for rank, steps in enumerate(ranks)
    ]


def whole(space):
    return Region(space, 0, 4)


def send(peer, space=INPUT, slot=0, channel=0):
    return PostSend(slot, peer, whole(space), channel, 1)


def receive(peer, space=OUTPUT, slot=0, channel=0):
    return PostRecv(slot, peer, whole(space), channel, 1)


WAIT = Wait((0,), 1)
INPUTS = [np.arange(4) + 10 * rank for rank in range(3)]


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ([(receive(1), WAIT), (receive(0), WAIT)], "rank 0 waits in round 1; rank 1 waits"),
        ([(send(1), WAIT), (send(0), WAIT)], "rank 0 waits in round 1; rank 1 waits"),
        ([(send(1), WAIT), ()], "rank 0 waits in round 1"),
        ([(send(1, channel=1), WAIT), (receive(0), WAIT)], "rank 0 waits"),
        (
            [(send(1), WAIT, receive(1), WAIT), (send(0), WAIT, receive(0), WAIT)],
            "rank 0 waits in round 1; rank 1 waits in round 1",
        ),
    ],
)
def test_plans_that_hang_raise_and_name_who_waits(ranks, words):
    with pytest.raises(HangError, match=words):
        loopback.run(table(*ranks), INPUTS[: len(ranks)])


def test_ends_of_different_length_raise():
    short = PostRecv(0, 0, Region(OUTPUT, 0, 3), 0, 1)
    with pytest.raises(HangError, match="a message of 4 meets a receive of 3"):
        loopback.run(table((send(1), WAIT), (short, WAIT)), INPUTS[:2])


def test_algorithm_that_a_rank_leaves_early_hangs(entry):
    size = 4
    plans = [bind(Choice(entry), rank, size, Message(8, 8)) for rank in range(size)]
    plans[1] = replace(plans[1], instructions=())
    with pytest.raises(HangError, match="waits in round"):
        loopback.run(plans, [np.ones(plan.layout.held.count) for plan in plans])


def test_messages_of_one_channel_keep_their_order_and_channels_are_apart():
    first, second = Region(INPUT, 0, 2), Region(INPUT, 2, 2)
    low, high = Region(OUTPUT, 0, 2), Region(OUTPUT, 2, 2)
    both = Wait((0, 1), 1)
    sender = (PostSend(0, 1, first, 0, 1), PostSend(1, 1, second, 0, 1), both)
    receiver = (PostRecv(0, 0, high, 0, 1), PostRecv(1, 0, low, 0, 1), both)
    _, found = loopback.run(table(sender, receiver), INPUTS[:2])
    assert found.tolist() == [2, 3, 0, 1]
    receiver = (PostRecv(0, 0, high, 1, 1), PostRecv(1, 0, low, 0, 1), both)
    sender = (PostSend(0, 1, first, 0, 1), PostSend(1, 1, second, 1, 1), both)
    _, found = loopback.run(table(sender, receiver), INPUTS[:2])
    assert found.tolist() == [0, 1, 2, 3]


def test_bytes_in_flight_are_copied_as_late_as_possible():
    # Eager buffers would hide both: the source is overwritten, or the target read, too early.
    spoil = Copy(whole(SCRATCH), whole(OUTPUT))
    fill = Copy(whole(SCRATCH), whole(INPUT))
    sender = (fill, send(1, SCRATCH), spoil, WAIT)
    _, found = loopback.run(table(sender, (receive(0), WAIT)), INPUTS[:2])
    assert found.tolist() != INPUTS[0].tolist()
    hasty = (receive(0, SCRATCH), Copy(whole(OUTPUT), whole(SCRATCH)), WAIT)
    _, found = loopback.run(table((send(1), WAIT), hasty), INPUTS[:2])
    assert found.tolist() != INPUTS[0].tolist()


def test_a_wait_for_two_messages_lets_each_go_on():
    # Rank 0 waits for 1 and 2 together, and rank 1 needs rank 0's message before it sends.
    both = Wait((0, 1), 1)
    ranks = [
        (receive(1), send(1, slot=1), both),
        (receive(0), WAIT, send(0), WAIT),
    ]
    first, second = loopback.run(table(*ranks), INPUTS[:2])
    assert (first.tolist(), second.tolist()) == (INPUTS[1].tolist(), INPUTS[0].tolist())


@pytest.mark.parametrize(
    "dtype",
    [np.int8, np.uint16, np.int64, np.float32, np.complex128, datatypes.dtype("bfloat16")],
)
def test_what_nobody_writes_is_poison_in_every_type(dtype):
    (found,) = loopback.run(table(()), [np.zeros(4, dtype)])
    assert found.dtype == dtype
    assert not np.any(found == 0)


@pytest.mark.parametrize("operator", [np.maximum, np.multiply, np.bitwise_xor])
def test_any_ufunc_reduces(operator):
    size = 5
    choice = Choice(find("allreduce", "rabenseifner"))
    plans = [bind(choice, rank, size, Message(7, 8)) for rank in range(size)]
    inputs = [np.arange(7) + 3 * rank + 1 for rank in range(size)]
    for found in loopback.run(plans, inputs, operator):
        assert found.tolist() == operator.reduce(inputs).tolist()
