"""The vocabulary: block names, translation into a larger schedule, merging by clock."""

import pytest

from hpccoll.errors import VerificationError
from hpccoll.schedule import (
    DATA,
    LEFT,
    RIGHT,
    Combine,
    Copy,
    Recv,
    Reduce,
    Round,
    Send,
    clocked,
    embed,
    merge,
    ranges,
    span,
)
from hpccoll.symbolic import Execution


def names(blocks):
    return [block for part in ranges(blocks) for block in part]


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ((), ()),
        (3, (range(3, 4),)),
        (range(2, 5), (range(2, 5),)),
        (range(2, 2), ()),
        ((1, range(4, 4), 2), (range(1, 3),)),
        ((0, 1, range(2, 4), 4), (range(0, 5),)),
        ((2, 1, 0), (range(2, 3), range(1, 2), range(0, 1))),
        ((1, 1), (range(1, 2), range(1, 2))),
        (range(0, 6, 2), (range(0, 1), range(2, 3), range(4, 5))),
        (range(2, 0, -1), (range(2, 3), range(1, 2))),
        ((range(0, 2, 5), 1), (range(0, 2),)),
    ],
)
def test_ranges_keeps_the_order_and_joins_neighbours(blocks, expected):
    found = ranges(blocks)
    assert found == expected
    assert all(part.step == 1 for part in found)
    assert ranges(found) == found


@pytest.mark.parametrize("modulus", [1, 2, 5, 8])
def test_span_is_counting_modulo_in_at_most_two_ranges(modulus):
    for start in range(-modulus, 2 * modulus):
        for count in range(modulus + 1):
            found = span(start, count, modulus)
            assert names(found) == [(start + i) % modulus for i in range(count)]
            assert len(found) <= 2


def test_clock_counts_on_from_the_last_one_that_was_set():
    rounds = [Round(), Round(at=5), Round(), Round(at=9)]
    assert [clock for clock, _ in clocked(rounds)] == [0, 5, 6, 9]


@pytest.mark.parametrize("ranks", [[7, 5, 3], lambda v: 7 - 2 * v], ids=["sequence", "function"])
def test_embed_renames_peers(ranks):
    inner = [Round(Send(0, 1), Recv(1, 2)), Round(Combine(2, 0))]
    assert list(embed(inner, ranks=ranks)) == [
        Round(Send(7, 1), Recv(5, 2)),
        Round(Combine(3, 0)),
    ]


def test_embed_refines_blocks_and_drops_actions_whose_names_all_vanish():
    def refine(block):
        return range(3 * block, 3 * block + 3) if block < 2 else ()

    inner = [
        Round(Send(1, (0, 2)), Recv(1, 2), Combine(1, (2, 3)), Copy(2, 1, DATA), Reduce(1, DATA, 1))
    ]
    (found,) = embed(inner, blocks=refine)
    assert [(type(a), names(a.blocks)) for a in found.actions] == [
        (Send, [0, 1, 2]),
        (Reduce, [3, 4, 5]),
    ]


def test_embed_maps_whole_ranges_as_it_would_map_their_blocks():
    inner = [Round(Send(1, (range(4), 7)), Recv(1, range(4, 6))), Round(Combine(1, 2))]
    by_block = embed(inner, blocks=lambda b: range(3 * b, 3 * b + 3))
    whole = embed(inner, windows=lambda part: range(3 * part.start, 3 * part.stop))
    for found, expected in zip(whole, by_block, strict=True):
        assert [ranges(a.blocks) for a in found.actions] == [
            ranges(a.blocks) for a in expected.actions
        ]
    (dropped,) = embed([Round(Send(1, 0))], windows=lambda part: ())
    assert dropped.actions == ()


def test_embed_keeps_a_signal_whatever_the_block_map():
    (found,) = embed([Round(Send(1), Recv(1))], blocks=lambda b: ())
    assert found.actions == (Send(1), Recv(1))


def test_embed_keeps_the_clock_of_a_round_that_loses_its_actions():
    rounds = [Round(Send(1, 0)), Round(Send(1, 1))]
    found = list(embed(rounds, blocks=lambda b: range(b), at=4))
    assert [(step.at, len(step.actions)) for step in found] == [(4, 0), (5, 1)]


def test_embed_shifts_channels_scratch_buffers_and_clocks_but_never_data():
    inner = [
        Round(Send(1, 0, buffer=1, channel=2), Recv(1, 0), at=3),
        Round(Reduce(0, DATA, 2), Copy(0, 1, DATA)),
    ]
    first, second = embed(inner, channel=10, buffer=5, at=100)
    assert [(a.buffer, a.channel) for a in first.actions] == [(6, 12), (DATA, 10)]
    assert [(a.into, a.source) for a in second.actions] == [(DATA, 7), (6, DATA)]
    assert (first.at, second.at) == (103, 104)


def test_embed_without_a_shift_leaves_clocks_to_the_surrounding_schedule():
    assert [step.at for step in embed([Round(), Round(at=4)])] == [None, 4]


def test_merge_makes_one_round_of_equal_clocks_in_the_order_of_the_schedules():
    left = [Round(Send(1, 0), at=0), Round(Send(1, 1), at=2)]
    right = [Round(Recv(1, 2), at=1), Round(Recv(1, 3), at=2), Round(Recv(1, 4), at=7)]
    assert [(step.at, step.actions) for step in merge(left, right)] == [
        (0, (Send(1, 0),)),
        (1, (Recv(1, 2),)),
        (2, (Send(1, 1), Recv(1, 3))),
        (7, (Recv(1, 4),)),
    ]


@pytest.mark.parametrize("again", [2, 1])
def test_merge_refuses_a_clock_that_does_not_advance(again):
    with pytest.raises(VerificationError, match=f"clock {again} follows clock 2"):
        list(merge([Round(at=2), Round(at=again)], [Round(at=0)]))


def test_merge_of_nothing_is_nothing():
    assert list(merge()) == list(merge([], [])) == []


def chain(order, rank, blocks):
    """Pipeline `blocks` along the ranks of `order`: a clock per block and position."""
    place, end = order.index(rank), len(order) - 1
    for clock in range(end + len(blocks) - 1):
        actions = []
        if place and 0 <= clock - place + 1 < len(blocks):
            actions.append(Recv(order[place - 1], blocks[clock - place + 1]))
        if place < end and 0 <= clock - place < len(blocks):
            actions.append(Send(order[place + 1], blocks[clock - place]))
        if actions:
            yield Round(*actions, at=clock)


def two_chains(rank, size, gap=0):
    """Pipeline the low half of the blocks upwards and the high half along a shuffled order.

    `gap` lets the second chain start later, as ranks do that wait for a folded neighbour.
    """
    other = [0, *range(size - 1, 0, -1)]
    low, high = range(size), range(size, 2 * size)
    return merge(
        chain(list(range(size)), rank, low), embed(chain(other, rank, high), at=gap, channel=1)
    )


@pytest.mark.parametrize("gap", [0, 1, 5])
@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_merged_clocked_chains_run_without_deadlock_and_keep_equal_clocks(size, gap):
    blocks = range(2 * size)
    held = [blocks, *[()] * (size - 1)]
    schedules = [two_chains(rank, size, gap) for rank in range(size)]
    execution = Execution(schedules, held, len(blocks), clocks=True)
    values = {execution.value(rank, b) for rank in range(size) for b in blocks}
    assert values == {execution.value(0, 0)}


def test_unequal_clocks_of_a_message_are_refused_only_where_clocks_are_promised():
    def schedules():
        return [iter([Round(Send(1, 0), at=0)]), iter([Round(Recv(0, 0), at=2)])]

    assert Execution(schedules(), [(0,), ()], 1).value(1, 0) is not None
    with pytest.raises(VerificationError, match="rank 1, round 1: clock 2 meets clock 0 of rank 0"):
        Execution(schedules(), [(0,), ()], 1, clocks=True)


@pytest.mark.parametrize(("side", "ordered"), [(LEFT, True), (RIGHT, False)])
def test_side_of_a_combine_is_the_side_of_the_received_operand(side, ordered):
    rounds = [iter([Round(Send(1, 0))]), iter([Round(Combine(0, 0, side))])]
    execution = Execution(rounds, [(0,), (0,)], 1)
    # "low" is -1 for a value that was not reduced in the order of the ranks.
    assert (execution.terms.low[execution.value(1, 0)] == 0) is ordered
