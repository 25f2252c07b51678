"""Costs of orders: the formulas against what plans and schedules count, without MPI."""

import numpy as np
import pytest

from hpccoll.bind import bind
from hpccoll.conversions import bind_partial
from hpccoll.layernorm import costs
from hpccoll.layernorm.communication import Bound, in_elements
from hpccoll.layernorm.traffic import traffic
from hpccoll.layout import Message
from hpccoll.plan import check_in_flight
from hpccoll.spelling import choose

SIZES = (1, 2, 3, 4, 5, 7, 8)


def bound(of, name, message, itemsize=None):
    (choice,) = choose(of, name)
    return Bound(of, choice, message, itemsize or message.itemsize, None, None, 0)


def traffics(of, name, message, size, itemsize=None):
    (choice,) = choose(of, name)
    make = bind_partial if itemsize else bind
    plans = [make(choice, rank, size, message) for rank in range(size)]
    return [traffic(plan, itemsize or message.itemsize, message.itemsize) for plan in plans]


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
def test_the_formula_of_a_root_is_what_its_trees_count(size):
    message = Message(60, 4)
    found = costs.formula("reduce-layernorm-bcast", binomials(message), size)
    moved = [
        up + down
        for up, down in zip(
            traffics("reduce", "binomial", message, size),
            traffics("bcast", "binomial", message, size),
            strict=True,
        )
    ]
    assert found.exact
    assert found.sent == max(one.sent for one in moved)
    assert found.received == max(one.received for one in moved)
    assert found.total == sum(one.sent for one in moved)
    assert costs.counted(binomials(message), size) == costs.Path(int(found.rounds), int(found.path))


def binomials(message, itemsize=None):
    return [
        bound("reduce", "binomial", message, itemsize),
        bound("bcast", "binomial", Message(60, itemsize or message.itemsize)),
    ]


# Partial results that are wider


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("of", "name"),
    [
        ("allreduce", "ring"),
        ("allreduce", "recursive-doubling"),
        ("allreduce", "one-shot"),
        ("allreduce", "chain:segments=3"),
        ("reduce-scatter", "direct"),
        ("reduce", "binomial"),
        ("reduce", "rabenseifner"),
    ],
)
@pytest.mark.parametrize("count", [24, 1 << 12, 7])
def test_a_path_of_wider_partial_results_lies_between_those_of_either_type(of, name, size, count):
    message = Message(count * size, 4)
    part, moved = bound(of, name, message, 2), traffics(of, name, message, size, 2)
    counted = costs.path(part, size)
    narrow, wide = (costs.path(bound(of, name, Message(count * size, b)), size) for b in (2, 4))
    assert counted.rounds == wide.rounds
    assert narrow.bytes <= counted.bytes <= wide.bytes
    assert counted.bytes >= max(max(one.sent, one.received) for one in moved)
    assert sum(one.sent for one in moved) == sum(one.received for one in moved)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("of", "name"),
    [
        ("allreduce", "one-shot"),
        ("allreduce", "ring"),
        ("allreduce", "ring:segments=2"),
        ("allreduce", "circulant"),
        ("reduce-scatter", "direct"),
        ("reduce-scatter", "pairwise"),
        ("reduce-scatter", "ring"),
    ],
)
def test_formulas_know_what_a_ring_sends_as_partial_results_and_else_are_bounds(of, name, size):
    message = Message(12 * size, 4)
    part = bound(of, name, message, 2)
    order = "allreduce-layernorm" if of == "allreduce" else "sequence-parallel"
    found = costs.formula(order, [part], size)
    sent = [one.sent for one in traffics(of, name, message, size, 2)]
    assert found.exact == (name != "circulant" or size <= 3)
    assert (found.sent == max(sent) == min(sent)) == found.exact
    assert (found.path == costs.path(part, size).bytes) == found.exact
    assert found.sent >= max(sent)
    assert found.path >= costs.path(part, size).bytes


@pytest.mark.parametrize("size", SIZES)
def test_where_a_tree_sends_partial_results_its_formula_is_a_bound(size):
    parts = binomials(Message(60, 4), 2)
    found = costs.formula("reduce-layernorm-bcast", parts, size)
    up = traffics("reduce", "binomial", Message(60, 4), size, 2)
    down = traffics("bcast", "binomial", Message(60, 2), size)
    total = sum(one.sent for one in (*up, *down))
    assert found.exact == (size <= 3)  # else an inner rank sends the sum of several
    assert (total == found.total) == found.exact
    assert total <= found.total
    assert costs.counted(parts, size).bytes <= found.path


def test_unequal_shares_have_no_formula():
    parts = [
        bound("reduce-scatter", "ring", Message(35, 4, counts=(10, 10, 15))),
        bound("allgather", "ring", Message(35, 4, counts=(10, 10, 15))),
    ]
    found = costs.formula("sequence-parallel", parts, 3)
    assert {found.rounds, found.sent, found.total, found.path} == {None}


def test_the_librarys_messages_are_not_counted():
    part = Bound("allreduce", None, Message(8, 4), 4, None, None, 0)
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
    assert traffic(plan, 4, 4) == traffic(in_rows, 20, 20)
    assert (plan.layout.input, plan.layout.output) == (35, 35)
    offsets = [s.region.offset for s in plan.instructions if hasattr(s, "region")]
    assert offsets
    assert not np.any(np.array(offsets) % 5)


@pytest.mark.parametrize("rank", range(4))
def test_so_is_one_with_conversions(rank):
    (choice,) = choose("allreduce", "chain:segments=3")
    in_rows = bind_partial(choice, rank, 4, Message(7, 20))
    plan = in_elements(in_rows, 5)
    check_in_flight(plan)
    assert traffic(plan, 2, 4) == traffic(in_rows, 10, 20)
    assert plan.landing == 5 * in_rows.landing
