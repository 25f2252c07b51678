"""Which node each rank is on: how it is spelled, shown, and what follows from it."""

from random import Random

import pytest

from hpccoll.errors import UsageError
from hpccoll.placement import LISTED, Placement, check, even, place


def by_chance(size, seed):
    """Return a placement whose nodes are of any sizes, their ranks in any order."""
    chance = Random(f"{size} {seed}")
    most = chance.randint(1, size)
    return Placement(chance.randrange(most) for _ in range(size))


@pytest.mark.parametrize("size", [1, 2, 7, 12, 30])
def test_even_nodes_are_contiguous_and_differ_by_one_rank_at_most(size):
    for count in range(1, size + 1):
        found = even(size, count)
        assert found.count == count
        assert [rank for ranks in found.members for rank in ranks] == list(range(size))
        assert max(found.sizes) - min(found.sizes) <= 1


def test_labels_only_tell_nodes_apart():
    found = Placement(["b", "a", "b", "c"])
    assert found == Placement([7, 3, 7, 0])
    assert found.nodes == (0, 1, 0, 2)
    assert found.members == ((0, 2), (1,), (3,))
    assert (found.size, found.count, found.sizes, found.lanes) == (4, 3, {1, 2}, 1)


@pytest.mark.parametrize("seed", range(5))
def test_a_lane_is_one_rank_of_every_node_and_local_ranks_share_one(seed):
    found = by_chance(13, seed)
    for i in range(found.lanes):
        assert [found.nodes[rank] for rank in found.lane(i)] == list(range(found.count))
    for rank in range(13):
        assert found.local(rank) == tuple(
            other for other in range(13) if found.nodes[other] == found.nodes[rank]
        )


@pytest.mark.parametrize("seed", range(5))
def test_rotating_keeps_which_ranks_share_a_node(seed):
    found = by_chance(9, seed)
    for root in range(9):
        turned = found.rotated(root)
        assert turned.nodes[0] == 0
        for one in range(9):
            for other in range(9):
                together = found.nodes[(one + root) % 9] == found.nodes[(other + root) % 9]
                assert (turned.nodes[one] == turned.nodes[other]) == together


def test_one_level_is_flat():
    assert Placement([0] * 4).flat
    assert Placement(range(4)).flat
    assert Placement([0]).flat
    assert not Placement([0, 0, 1]).flat


@pytest.mark.parametrize(
    ("text", "size", "nodes"),
    [
        ("2", 5, (0, 0, 1, 1, 1)),
        ("1", 3, (0, 0, 0)),
        ("3", 3, (0, 1, 2)),
        ("2x3", 6, (0, 0, 0, 1, 1, 1)),
        ("cyclic:2", 5, (0, 1, 0, 1, 0)),
        ("0,0,1,1,1", 5, (0, 0, 1, 1, 1)),
        ("9,4,9", 3, (0, 1, 0)),
    ],
)
def test_a_placement_is_spelled(text, size, nodes):
    assert place(text, size).nodes == nodes


@pytest.mark.parametrize("size", [1, 2, 6, 11])
def test_every_spelling_gives_the_placement_back(size):
    several = [by_chance(size, seed) for seed in range(20)]
    several += [even(size, count) for count in range(1, size + 1)]
    several += [place(f"cyclic:{count}", size) for count in range(1, size + 1)]
    for found in several:
        assert place(found.spelling, size) == found


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ((0, 0, 1, 1), "2x2"),
        ((0, 0, 0), "1x3"),
        ((0, 0, 1, 1, 1), "2"),
        ((0, 1, 0, 1), "cyclic:2"),
        ((0, 1, 1, 0), "0,1,1,0"),
    ],
)
def test_a_regular_placement_has_a_short_spelling(nodes, text):
    assert Placement(nodes).spelling == text


@pytest.mark.parametrize("text", ["", "x", "2x", "x4", "2x4x1", "cyclic:", "block:2", "0,", "-1"])
def test_what_cannot_be_read_is_refused_with_what_can(text):
    with pytest.raises(UsageError, match=r"--nodes takes a number of nodes \(2\), nodes and ranks"):
        check(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2x4", "--nodes 2x4 places 8 ranks, but there are 6 ranks"),
        ("0,0,1", "--nodes 0,0,1 places 3 ranks, but there are 6 ranks"),
        ("7", "--nodes 7: 6 ranks can be on 1 to 6 nodes"),
        ("0", "--nodes 0: 6 ranks can be on 1 to 6 nodes"),
        ("cyclic:7", "--nodes cyclic:7: 6 ranks can be on 1 to 6 nodes"),
    ],
)
def test_what_does_not_fit_the_ranks_is_refused(text, message):
    with pytest.raises(UsageError) as error:
        place(text, 6)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "size", "words"),
    [
        ("1", 1, "1 node: 0"),
        ("2", 5, "2 nodes: 0-1 | 2-4"),
        ("0,1,0,0,1", 5, "2 nodes: 0,2-3 | 1,4"),
        ("cyclic:2", 12, "2 nodes: 0,2,4,6,… | 1,3,5,7,…"),
    ],
)
def test_a_placement_is_shown_by_the_ranks_of_every_node(text, size, words):
    assert str(place(text, size)) == words


def test_of_many_nodes_the_first_are_listed():
    words = str(even(100, 50))
    assert words.startswith("50 nodes: 0-1 | 2-3 | ")
    assert words.count("|") == LISTED
    assert words.endswith(" | …")
