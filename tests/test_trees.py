"""The shapes of trees, and the schedule of the n-block broadcast, against their definitions."""

import pytest

from hpccoll.algorithms import circulant_blocks, double_tree, trees
from hpccoll.schedule import Combine, Recv, Send, clocked
from hpccoll.shapes import ceil_log, circulant_skips

SIZES = [*range(1, 20), 31, 32, 33, 63, 64]


def shapes(size):
    """Yield all places of every kind of tree on so many ranks."""
    kinds = {
        "chain": lambda rank: trees.chains(rank, size, 1),
        "chains": lambda rank: trees.chains(rank, size, 3),
        "binary": lambda rank: trees.kary(rank, range(size), 2),
        "5-ary": lambda rank: trees.kary(rank, range(size), 5),
        "in order": lambda rank: trees.in_order(rank, size),
        "first": lambda rank: double_tree.places(rank, size)[0],
        "second": lambda rank: double_tree.places(rank, size)[1],
    }
    for name, place in kinds.items():
        yield name, [place(rank) for rank in range(size)]


@pytest.mark.parametrize("size", SIZES)
def test_both_ends_of_every_edge_know_it_and_all_ranks_hang_from_the_root(size):
    for name, places in shapes(size):
        reached = [0]
        for rank in reached:
            for edge in places[rank].children:
                parent = places[edge.peer].parent
                assert parent == trees.Edge(rank, edge.first), name
                above = places[rank].parent
                assert edge.first > (above.first if above else -1), name
                reached.append(edge.peer)
        assert sorted(reached) == list(range(size)), name
        assert places[0].parent is None


@pytest.mark.parametrize("size", SIZES)
def test_last_is_the_latest_first_clock_of_all(size):
    for name, places in shapes(size):
        if name not in ("first", "second"):
            latest = max((place.parent.first for place in places[1:]), default=-1)
            assert {place.last for place in places} == {latest}, name
    both = [place for rank in range(size) for place in double_tree.places(rank, size)]
    latest = max((place.parent.first for place in both if place.parent), default=-1)
    assert {place.last for place in both} == {latest}


@pytest.mark.parametrize("radix", [2, 3, 7])
@pytest.mark.parametrize("size", SIZES)
def test_a_kary_tree_is_as_low_as_it_can_be_and_its_subtrees_are_ranges(size, radix):
    places = [trees.kary(rank, range(size), radix) for rank in range(size)]
    fits, height = 1, 0
    while fits < size:
        height += 1
        fits += radix**height
    assert places[0].last == height - 1

    def below(rank):
        return sorted([rank, *(r for edge in places[rank].children for r in below(edge.peer))])

    for rank in range(size):
        assert below(rank) == list(range(rank, rank + len(below(rank))))
        assert len(places[rank].children) <= radix


@pytest.mark.parametrize("size", SIZES)
def test_in_order_a_rank_stands_between_its_subtrees(size):
    places = [trees.in_order(rank, size) for rank in range(size)]

    def below(rank):
        left = [r for e in places[rank].children if e.peer < rank for r in below(e.peer)]
        right = [r for e in places[rank].children if e.peer > rank for r in below(e.peer)]
        return [*left, rank, *right]

    assert below(0) == list(range(size))
    assert max(len(place.children) for place in places) <= 2


@pytest.mark.parametrize("size", SIZES)
def test_two_trees_share_the_work_and_a_rank_does_one_thing_at_a_time(size):
    for rank in range(size):
        places = double_tree.places(rank, size)
        busy = [len(place.children) for place in places if place.children]
        assert len(busy) <= 1 or rank == 0
        sends = [edge.first % 2 for place in places for edge in place.children]
        receives = [place.parent.first % 2 for place in places if place.parent]
        assert len(set(sends)) == len(sends)
        assert len(set(receives)) == len(receives)
        assert places[0].last <= 2 * ceil_log(size) - 1


@pytest.mark.parametrize("size", [1, 2, 7, 12])
def test_up_and_down_is_up_and_then_down_at_the_root_without_a_pause(size):
    blocks = range(4)
    for _, places in shapes(size):
        root = places[0]
        rounds = dict(clocked(trees.up_and_down(root, blocks)))
        for child in root.children:
            got = [t for t, step in rounds.items() for a in step.actions if a in combined(child)]
            gave = [t for t, step in rounds.items() for a in step.actions if a in sent(child)]
            assert len(got) == len(gave) == len(blocks)
            assert gave[0] == root.last + 1 + child.first
            assert all(t <= root.last + root.stride * i for i, t in enumerate(got))


def combined(edge):
    return [Combine(edge.peer, block, "right") for block in range(4)]


def sent(edge):
    return [Send(edge.peer, block) for block in range(4)]


@pytest.mark.parametrize("size", [2, 6, 8, 16, 22, 64])
def test_bine_partners_are_nearer_than_binomial_ones(size):
    def distance(one, other):
        return min((one - other) % size, (other - one) % size)

    bine = sum(
        distance(rank, action.peer)
        for rank in range(size)
        for step in trees.bine(rank, size, lambda _: 0)
        for action in step.actions
        if isinstance(action, Recv)
    )
    binomial = sum(distance(rank, rank & (rank - 1)) for rank in range(1, size))
    assert bine <= binomial


def base_block(rank, size):
    """Return the last of the skips that sum to a rank, the largest possible taken first."""
    *skips, _ = circulant_skips(size)
    last = len(skips)
    for number in reversed(range(len(skips))):
        if skips[number] <= rank:
            rank, last = rank - skips[number], number
    return last


@pytest.mark.parametrize("size", SIZES)
def test_base_blocks_of_ranges_are_those_of_their_ranks(size):
    skips = circulant_skips(size)
    for start in range(size):
        for stop in range(start, size + 1):
            found = circulant_blocks._base_blocks(skips, start, stop)
            assert found == sum({1 << base_block(rank, size) for rank in range(start, stop)})


@pytest.mark.parametrize("size", SIZES[1:])
def test_a_phase_brings_a_new_block_through_every_skip(size):
    # One of the phase itself, and of each of those before it another: their remainders differ.
    phase = ceil_log(size)
    for rank in range(1, size):
        received = circulant_blocks._receives(rank, size)
        assert sum(block >= 0 for block in received) == 1
        assert sorted(block % phase for block in received) == list(range(phase))


@pytest.mark.parametrize("size", [1000, 2**20 + 7])
def test_many_ranks_cost_little(size):
    for rank in (0, 1, size // 3, size - 1):
        rounds = list(circulant_blocks.broadcast(rank, size, 4))
        received = [a.blocks for r in rounds for a in r.actions if isinstance(a, Recv)]
        assert sorted(received) == ([0, 1, 2, 3] if rank else [])
        assert trees.kary(rank, range(size), 2).last == size.bit_length() - 2
