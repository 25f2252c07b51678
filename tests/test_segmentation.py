"""How messages are cut: whole, by a length that was asked for, or in pieces found fastest."""

import numpy as np
import pytest

from hpccoll import segmentation
from hpccoll.bind import bind
from hpccoll.choice import Choice
from hpccoll.engines import loopback
from hpccoll.layout import Message
from hpccoll.plan import PostRecv, PostSend
from hpccoll.segmentation import LARGEST_PIECE, Pieces, Segmentation
from hpccoll.spelling import choose

PIECES = Pieces(((100, None), (200, 64), (400, 64), (800, None), (1600, 256)), frozenset({0, 1}))


@pytest.mark.parametrize(
    ("size", "piece"),
    [(1, None), (100, None), (101, 64), (400, 64), (401, None), (1600, 256), (1601, None)],
)
def test_a_message_goes_in_the_pieces_of_the_first_size_that_it_fits(size, piece):
    assert PIECES.of(size, 1) == piece
    assert Segmentation(pieces=PIECES).piece(size, 1) == (piece or LARGEST_PIECE)


def test_messages_to_another_node_go_whole():
    assert PIECES.of(400, 2) is None
    assert Segmentation(pieces=PIECES).piece(400, 2) == LARGEST_PIECE


def test_a_piece_is_never_longer_than_what_was_asked_for():
    assert Segmentation(32, pieces=PIECES).piece(400, 1) == 32
    assert Segmentation(128, pieces=PIECES).piece(1600, 1) == 128


def test_without_pieces_a_message_is_cut_by_the_length_asked_for():
    assert Segmentation(500).piece(1 << 20, 1) == 500
    assert Segmentation(1 << 40).piece(1 << 40, 1) == segmentation.LARGEST_PIECE


def test_what_is_cut_alike_is_said_once():
    assert PIECES.ranges() == [(100, 400, 64), (800, 1600, 256)]
    assert PIECES.record() == [
        {"above": 100, "up_to": 400, "piece": 64},
        {"above": 800, "up_to": 1600, "piece": 256},
    ]


def test_a_message_no_longer_than_its_piece_is_not_called_cut():
    assert Pieces(((512, 256),), frozenset()).ranges() == [(256, 512, 256)]


@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_pieces_within_nodes_change_no_result(entry, size):
    if not entry.supports(size) or not entry.collective.moves_data:
        pytest.skip(f"not defined for {size} ranks, or without data")
    choice, message = Choice(entry), Message(120, 8)
    nodes = [frozenset(range(size // 2)), frozenset(range(size // 2, size))]
    outputs = []
    for pieces in (((1, None),), ((64, 24), (1 << 20, 40))):
        plans = [
            bind(choice, rank, size, message, Segmentation(pieces=Pieces(pieces, here)))
            for here in nodes
            for rank in sorted(here)
        ]
        vectors = [
            np.arange(plan.layout.held.count) * size + rank for rank, plan in enumerate(plans)
        ]
        outputs.append(loopback.run(plans, vectors))
    for whole, cut in zip(*outputs, strict=True):
        np.testing.assert_array_equal(whole, cut)


def test_only_messages_within_a_node_are_cut():
    (choice,) = choose("allgather", "ring")
    here = frozenset({0, 1})
    cut = Segmentation(pieces=Pieces(((1 << 20, 16),), here))
    plan = bind(choice, 1, 4, Message(64, 8), cut)
    received = [m for m in plan.instructions if isinstance(m, PostRecv)]
    sent = [m for m in plan.instructions if isinstance(m, PostSend)]
    assert {m.peer for m in received} == {0}
    assert {m.region.count * 8 for m in received} == {16}
    assert {m.peer for m in sent} == {2}
    assert {m.region.count * 8 for m in sent} == {64 * 8 // 4}
