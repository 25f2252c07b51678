"""How messages are cut: whole, by a length that was asked for, or in pieces found fastest."""

import numpy as np
import pytest

from hpccoll import segmentation
from hpccoll.bind import bind
from hpccoll.choice import Choice
from hpccoll.conversions import bind_partial
from hpccoll.engines import loopback
from hpccoll.layout import Message
from hpccoll.placement import Placement
from hpccoll.plan import PostRecv, PostSend
from hpccoll.segmentation import LARGEST_PIECE, Pieces, Segmentation
from hpccoll.spelling import choose

PIECES = Pieces(((100, None), (200, 64), (400, 64), (800, None), (1600, 256)), Placement("aab"))


@pytest.mark.parametrize(
    ("size", "piece"),
    [(1, None), (100, None), (101, 64), (400, 64), (401, None), (1600, 256), (1601, None)],
)
def test_a_message_goes_in_the_pieces_of_the_first_size_that_it_fits(size, piece):
    assert PIECES.of(size, 0, 1) == piece
    assert Segmentation(pieces=PIECES).piece(size, 0, 1) == (piece or LARGEST_PIECE)


def test_messages_to_another_node_go_whole():
    assert PIECES.of(400, 1, 2) is None
    assert Segmentation(pieces=PIECES).piece(400, 1, 2) == LARGEST_PIECE


def test_a_piece_is_never_longer_than_what_was_asked_for():
    assert Segmentation(32, pieces=PIECES).piece(400, 0, 1) == 32
    assert Segmentation(128, pieces=PIECES).piece(1600, 0, 1) == 128


def test_without_pieces_a_message_is_cut_by_the_length_asked_for():
    assert Segmentation(500).piece(1 << 20, 0, 1) == 500
    assert Segmentation(1 << 40).piece(1 << 40, 0, 1) == segmentation.LARGEST_PIECE


def test_what_is_cut_alike_is_said_once():
    assert PIECES.ranges() == [(100, 400, 64), (800, 1600, 256)]
    assert PIECES.record() == [
        {"above": 100, "up_to": 400, "piece": 64},
        {"above": 800, "up_to": 1600, "piece": 256},
    ]


def test_a_message_no_longer_than_its_piece_is_not_called_cut():
    assert Pieces(((512, 256),), Placement("a")).ranges() == [(256, 512, 256)]


@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_pieces_within_nodes_change_no_result(entry, size):
    if not entry.supports(size) or not entry.collective.moves_data:
        pytest.skip(f"not defined for {size} ranks, or without data")
    choice, message = Choice(entry), Message(120, 8)
    nodes = Placement(rank < size // 2 for rank in range(size))
    outputs = []
    for pieces in (((1, None),), ((64, 24), (1 << 20, 40))):
        plans = [
            bind(choice, rank, size, message, Segmentation(pieces=Pieces(pieces, nodes)))
            for rank in range(size)
        ]
        vectors = [
            np.arange(plan.layout.held.count) * size + rank for rank, plan in enumerate(plans)
        ]
        outputs.append(loopback.run(plans, vectors))
    for whole, cut in zip(*outputs, strict=True):
        np.testing.assert_array_equal(whole, cut)


def test_only_messages_within_a_node_are_cut():
    (choice,) = choose("allgather", "ring")
    cut = Segmentation(pieces=Pieces(((1 << 20, 16),), Placement("aabb")))
    plan = bind(choice, 1, 4, Message(64, 8), cut)
    received = [m for m in plan.instructions if isinstance(m, PostRecv)]
    sent = [m for m in plan.instructions if isinstance(m, PostSend)]
    assert {m.peer for m in received} == {0}
    assert {m.region.count * 8 for m in received} == {16}
    assert {m.peer for m in sent} == {2}
    assert {m.region.count * 8 for m in sent} == {64 * 8 // 4}


@pytest.mark.parametrize("entry_of", [("allreduce", "ring"), ("allreduce", "rabenseifner")])
def test_both_ends_cut_alike_where_partial_results_have_a_type_of_their_own(entry_of):
    (choice,), size, message = choose(*entry_of), 6, Message(120, 4)
    cut = Segmentation(pieces=Pieces(((64, 24), (1 << 20, 40)), Placement("ababab")))
    plans = [bind_partial(choice, rank, size, message, cut) for rank in range(size)]
    vectors = [np.full(120, rank + 1, np.float16) for rank in range(size)]
    outputs = loopback.run(plans, vectors, partial=np.dtype(np.float32))
    for output in outputs:
        np.testing.assert_array_equal(output, np.full(120, 21, np.float16))
