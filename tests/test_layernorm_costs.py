"""Costs of orders: the formulas against what plans and schedules count, without MPI."""

import numpy as np
import pytest

from hpccoll.bind import bind
from hpccoll.layernorm import costs
from hpccoll.layernorm.communication import Bound, in_elements, traffic
from hpccoll.layout import Message
from hpccoll.plan import check_in_flight
from hpccoll.spelling import choose

SIZES = (1, 2, 3, 4, 5, 7, 8)


def bound(of, name, message):
    (choice,) = choose(of, name)
    return Bound(of, choice, message, None, None, 0)


def traffics(of, name, message, size):
    (choice,) = choose(of, name)
    return [traffic(bind(choice, rank, size, message), message.itemsize) for rank in range(size)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("of", "name"),
    [
        ("allreduce", "ring"),
        ("allreduce", "recursive-doubling"),
        ("reduce-scatter", "ring"),
        ("allgather", "ring"),
        ("allgather", "linear"),
        ("reduce", "binomial"),
        ("bcast", "binomial"),
        ("gather", "linear"),
    ],
)
def test_all_that_is_sent_is_received_and_the_path_is_no_shorter_than_any_rank(of, name, size):
    message = Message(24 * size, 4)
    moved = traffics(of, name, message, size)
    path = costs.path(bound(of, name, message), size)
    assert sum(one.sent for one in moved) == sum(one.received for one in moved)
    assert path.bytes >= max(max(one.sent, one.received) for one in moved)
    assert (path.rounds == 0) == (size == 1)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("segments", [1, 2, 3, 6])
def test_the_formula_of_the_fused_order_is_what_its_schedule_counts(size, segments):
    part = bound("allreduce", f"chain:segments={segments}", Message(6, 80))
    found = costs.formula("fused", [part], size)
    counted = costs.path(part, size)
    moved = traffics("allreduce", part.label, part.message, size)
    assert (found.rounds, found.path) == (counted.rounds, counted.bytes)
    assert found.sent == max(one.sent for one in moved)
    assert found.received == max(one.received for one in moved)
    assert found.total == sum(one.sent for one in moved) == 2 * (size - 1) * 480


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("of", "name"), [(of, a) for of in costs.ALIKE for a in costs.ALIKE[of]])
def test_where_all_ranks_do_the_same_every_rank_moves_what_the_formula_says(of, name, size):
    part = bound(of, name, Message(12 * size, 4))
    order = "allreduce-layernorm" if of == "allreduce" else "sequence-parallel"
    found = costs.formula(order, [part], size)
    moved = traffics(of, name, part.message, size)
    assert {(one.sent, one.received) for one in moved} == {(found.sent, found.received)}
    assert sum(one.sent for one in moved) == found.total
    assert costs.counted([part], size) == costs.Path(int(found.rounds), int(found.path))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("widens", [False, True])
def test_the_formula_of_a_root_is_what_its_trees_count(size, widens):
    up, down = Message(60, 4 if widens else 2), Message(60, 2)
    parts = [bound("reduce", "binomial", up), bound("bcast", "binomial", down)]
    found = costs.formula("reduce-layernorm-bcast", parts, size)
    moved = [
        one + other
        for one, other in zip(
            traffics("reduce", "binomial", up, size),
            traffics("bcast", "binomial", down, size),
            strict=True,
        )
    ]
    assert found.sent in (None, max(one.sent for one in moved))
    assert (found.sent is None) == widens
    assert found.received == max(one.received for one in moved)
    assert found.total == sum(one.sent for one in moved)
    assert costs.counted(parts, size) == costs.Path(int(found.rounds), int(found.path))


def test_unequal_shares_have_no_formula():
    parts = [
        bound("reduce-scatter", "ring", Message(35, 4, counts=(10, 10, 15))),
        bound("allgather", "ring", Message(35, 4, counts=(10, 10, 15))),
    ]
    found = costs.formula("sequence-parallel", parts, 3)
    assert {found.rounds, found.sent, found.total, found.path} == {None}


def test_the_librarys_messages_are_not_counted():
    part = Bound("allreduce", None, Message(8, 4), None, None, 0)
    assert costs.counted([part], 4) is None
    assert costs.formula("allreduce-layernorm", [part], 4).sent is None


@pytest.mark.parametrize(
    ("of", "name", "depth"),
    [
        ("allreduce", "ring", 7),
        ("allreduce", "recursive-doubling", 3),
        ("reduce", "binomial", 3),
        ("reduce", "linear", 7),
        ("allreduce", "chain:segments=2", 7),
    ],
)
def test_depth_is_the_longest_chain_of_additions(of, name, depth):
    (choice,) = choose(of, name)
    assert costs.depth(choice, 8) == depth
    assert costs.depth(choice, 1) == 0


@pytest.mark.parametrize("rank", range(4))
def test_a_plan_of_rows_is_one_of_their_elements(rank):
    (choice,) = choose("allreduce", "chain:segments=3")
    in_rows = bind(choice, rank, 4, Message(7, 20))
    plan = in_elements(in_rows, 5)
    check_in_flight(plan)
    assert traffic(plan, 4) == traffic(in_rows, 20)
    assert (plan.layout.input, plan.layout.output) == (35, 35)
    offsets = [s.region.offset for s in plan.instructions if hasattr(s, "region")]
    assert offsets
    assert not np.any(np.array(offsets) % 5)
