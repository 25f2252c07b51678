"""Algorithms of two levels: any nodes, any parts, and levels within levels."""

from dataclasses import replace
from random import Random

import pytest

from hpccoll import verify
from hpccoll.choice import Choice
from hpccoll.combinators import FINER, among, refined
from hpccoll.cost import evaluate
from hpccoll.errors import UnsupportedError, UsageError, VerificationError
from hpccoll.placement import Placement, even, place
from hpccoll.registry import catalogue, find, plain
from hpccoll.schedule import Send
from hpccoll.spelling import choose

PLACED = [entry for entry in catalogue() if entry.placed]
IDS = [f"{entry.collective.name}-{entry.name}" for entry in PLACED]
every_one = pytest.mark.parametrize("placed", PLACED, ids=IDS)


def by_chance(size, seed):
    """Return a placement whose nodes are of any sizes, their ranks in any order."""
    chance = Random(f"{size} {seed}")
    most = chance.randint(1, size)
    return Placement(chance.randrange(most) for _ in range(size))


def some_parts(entry, seed):
    """Return parts by chance, each with its default parameters."""
    chance = Random(seed)
    return {
        name: Choice(chance.choice(plain(part.algorithm.collective.name)))
        for name, part in Choice(entry).parts.items()
    }


def test_both_are_there_for_every_collective_that_they_suit():
    names = ("allreduce", "reduce-scatter", "allgather", "bcast", "reduce")
    assert {(e.collective.name, e.name) for e in PLACED} == {
        (name, level) for name in names for level in ("two-level", "multi-leader")
    }


@every_one
def test_any_nodes_and_any_parts_are_proven_and_give_the_defined_result(placed, call):
    done = 0
    for seed in range(40):
        chance = Random(seed)
        size = chance.randint(1, 14)
        choice = Choice(placed, some_parts(placed, seed), by_chance(size, seed))
        if not choice.supports(size):
            continue
        done += 1
        root = chance.randrange(size) if placed.collective.rooted else 0
        verify.prove(choice, size, root)
        count = chance.choice([0, 1, size, 3 * size + 1, 50])
        found = call(choice, size, count, root, in_place=bool(seed % 2))
        assert found.right, (choice.label, choice.nodes, root, count)
    assert done > 20


def sends(choice, size):
    """Yield (source, target) of every message."""
    for rank in range(size):
        for step in choice.schedule(rank, size):
            yield from ((rank, a.peer) for a in step.actions if isinstance(a, Send))


@every_one
@pytest.mark.parametrize("seed", range(6))
def test_nodes_are_crossed_by_leaders_or_in_lanes_only(placed, seed):
    size = 11
    nodes = by_chance(size, seed)
    place_of = {rank: ranks.index(rank) for ranks in nodes.members for rank in ranks}
    crossing = [
        (place_of[source], place_of[target])
        for source, target in sends(Choice(placed, nodes=nodes), size)
        if nodes.nodes[source] != nodes.nodes[target]
    ]
    lanes = 1 if placed.name == "two-level" else nodes.lanes
    assert all(one == other < lanes for one, other in crossing)
    assert {one for one, _ in crossing} == set(range(lanes if nodes.count > 1 else 0))


@every_one
def test_without_a_placement_there_are_two_halves(placed):
    for size in (1, 2, 5):
        assert Choice(placed).placement(size) == even(size, min(2, size))


def test_a_placement_of_other_ranks_is_refused():
    choice = Choice(find("allreduce", "two-level"), nodes=even(4, 2))
    with pytest.raises(UsageError, match="4 ranks were placed on nodes, but there are 5"):
        choice.schedule(0, 5)


def test_only_those_who_ask_are_placed():
    for entry in catalogue("allreduce"):
        choice = Choice(entry).on(even(6, 3))
        assert choice.nodes == (even(6, 3) if entry.placed else None)


# Closed forms


@every_one
@pytest.mark.parametrize("name", ["rounds", "messages", "sent", "reduced"])
def test_closed_forms_are_those_of_the_defaults_on_equal_nodes(placed, name):
    wrong = replace(placed, **{name: f"({getattr(placed, name)}) + 1"})
    for text in ("1", "2", "3", "6", "cyclic:2"):
        with pytest.raises(VerificationError, match=rf"counted .* {name}, but"):
            verify.prove(Choice(wrong, nodes=place(text, 6)), 6)
    verify.prove(Choice(wrong, nodes=place("4", 6)), 6)


@every_one
def test_the_costs_of_other_parts_are_at_most_those_of_all_parts(placed):
    size, nodes = 12, even(12, 4)
    for seed in range(10):
        choice = Choice(placed, some_parts(placed, seed), nodes)
        if not choice.supports(size):
            continue
        counts = verify.prove(choice, size).counts
        ranks = {name: 4 if name == "across" else 3 for name in choice.parts}
        steps = sum(
            evaluate(part.algorithm.rounds, ranks[name], 0, part.values)
            for name, part in choice.parts.items()
        )
        # A gather or scatter inside is no parameter.
        assert counts.steps <= steps + 2


def test_same_bits_are_claimed_only_if_the_parts_have_them():
    entry = find("allreduce", "two-level")
    assert Choice(entry).same_bits
    differing = Choice(replace(find("allreduce", "ring"), same_bits=False))
    assert not Choice(entry, {"across": differing}).same_bits


# Three levels


def nested(of, name, **given):
    return Choice(find(of, name), **given)


@pytest.mark.parametrize("outer", ["two-level", "multi-leader"])
@pytest.mark.parametrize("inner", ["two-level", "multi-leader"])
def test_nodes_in_racks_are_three_levels(outer, inner, call):
    size, nodes = 14, even(14, 5)
    for entry in (find(of, outer) for of in ("allreduce", "allgather", "reduce-scatter")):
        racks = nested(entry.collective.name, inner, nodes=Placement([0, 1, 1, 0, 1]))
        choice = Choice(entry, {"across": racks}, nodes)
        verify.prove(choice, size)
        assert call(choice, size, 3 * size + 1).right


@pytest.mark.parametrize("inner", ["two-level", "multi-leader"])
def test_sockets_in_nodes_are_three_levels(inner, call):
    size, nodes, sockets = 15, even(15, 3), Placement([0, 1, 1, 0, 1])
    parts = {
        "inside": nested("reduce", inner, nodes=sockets),
        "back": nested("bcast", inner, nodes=sockets),
    }
    choice = Choice(find("allreduce", "two-level"), parts, nodes)
    verify.prove(choice, size)
    assert call(choice, size, 40).right


@pytest.mark.parametrize("root", range(6))
def test_a_root_in_any_node_of_any_rack(root, call):
    nodes, racks = Placement([0, 1, 2, 2, 0, 1]), Placement([0, 0, 1])
    for of in ("bcast", "reduce"):
        across = nested(of, "two-level", nodes=racks)
        choice = Choice(find(of, "two-level"), {"across": across}, nodes)
        verify.prove(choice, 6, root)
        assert call(choice, 6, 13, root).right


# Parts that aren't defined for the nodes


def test_a_part_that_the_nodes_do_not_allow_is_named_with_others():
    (choice,) = choose("allgather", "two-level:across=recursive-doubling")
    assert choice.on(even(8, 4)).supports(8)
    odd = choice.on(even(8, 3))
    assert not odd.supports(8)
    for ask in (lambda: odd.check(8), lambda: odd.schedule(0, 8)):
        with pytest.raises(UnsupportedError) as error:
            ask()
        assert str(error.value).startswith(
            "two-level:across=recursive-doubling needs a power-of-two number of ranks, got 3 nodes;"
            " use across=bruck or circulant"
        )


def test_a_part_inside_is_asked_about_every_node():
    (choice,) = choose("allgather", "multi-leader:inside=recursive-doubling")
    choice.on(place("0,0,1,2,2,2,2", 7)).check(7)
    with pytest.raises(UnsupportedError, match="ranks, got 3 ranks on a node; use inside="):
        choice.on(place("0,0,1,2,2,2", 6)).check(6)


# What they are built from


def test_a_grid_is_as_fine_as_all_its_parts_unless_that_is_too_fine():
    assert refined(4, 6, 1) == 12
    assert refined(5) == 5
    assert refined(7, 11, 13, 17) == 17 * FINER


def test_pieces_that_do_not_divide_the_grid_are_nearly_equal():
    entry = find("allreduce", "two-level")
    ring, nodes = Choice(find("allreduce", "ring")), even(9, 3)
    parts = {"across": ring, "back": Choice(find("bcast", "scatter-allgather-ring"))}
    uneven = Placement([0] * 7 + [1] * 11 + [2] * 13 + [3] * 17 + [4] * 5)
    for placement in (nodes, uneven):
        choice = Choice(entry, parts, placement)
        grid = choice.grid(placement.size)
        assert grid % max(placement.sizes) == 0
        assert grid <= FINER * max(placement.sizes)
        verify.prove(choice, placement.size)


def test_ranks_that_are_no_members_do_nothing():
    part = Choice(find("allreduce", "ring"))
    assert list(among((1, 3), 2, part, [range(2)])) == []
    assert [a.peer for s in among((1, 3), 3, part, [range(2)]) for a in s.actions] == [1] * 4
