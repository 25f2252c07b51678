"""Summation trees: their form, their depth, and that nothing but sums of all ranks has one."""

import re
from math import log2

import pytest

from hpccoll.choice import Choice
from hpccoll.errors import UnsupportedError, VerificationError
from hpccoll.registry import catalogue
from hpccoll.schedule import LEFT, RIGHT, Combine, Round, Send
from hpccoll.shapes import ceil_log
from hpccoll.spelling import choose
from hpccoll.summation import DRAWN_UP_TO, drawn, trees

REDUCTIONS = ("allreduce", "reduce", "reduce-scatter")
ENTRIES = [entry for of in REDUCTIONS for entry in catalogue(of)]
IDS = [f"{entry.collective.name}-{entry.name}" for entry in ENTRIES]


def planted(of, name, size, root=0):
    """Return the trees of an algorithm as it is spelled."""
    (choice,) = choose(of, name)
    return trees(choice, size, root)


def texts(of, name, size, root=0):
    """Return, by block, the trees that ranks hold."""
    found = planted(of, name, size, root)
    return [{found.text(value) for value in results} for results in found.results]


def depths(of, name, size):
    """Return the depths of all blocks."""
    found = planted(of, name, size)
    return {found.depth(block) for block in range(len(found.results))}


@pytest.mark.parametrize("of", ["allreduce", "reduce-scatter"])
@pytest.mark.parametrize("size", [1, 2, 3, 8, 13])
def test_a_ring_adds_one_rank_after_the_other_to_a_block_that_goes_around(of, size):
    assert depths(of, "ring", size) == {size - 1}
    expected = []
    for block in range(size):
        text = str((block + 1) % size)
        for step in range(2, size + 1):
            text = f"({text}+{(block + step) % size})"
        expected.append({text})
    assert texts(of, "ring", size) == expected


@pytest.mark.parametrize("size", [2, 4, 8, 64])
@pytest.mark.parametrize("name", ["recursive-doubling", "rabenseifner", "tree", "bine", "swing"])
def test_trees_that_halve_the_ranks_are_as_deep_as_the_logarithm(name, size):
    assert depths("allreduce", name, size) == {int(log2(size))}


@pytest.mark.parametrize("size", [3, 5, 6, 7, 12, 33])
@pytest.mark.parametrize(("of", "name"), [("reduce", "binomial"), ("allreduce", "circulant")])
def test_other_numbers_of_ranks_round_the_logarithm_up(of, name, size):
    assert depths(of, name, size) == {ceil_log(size)}


@pytest.mark.parametrize(
    ("of", "name"), [("reduce", "linear"), ("reduce", "chain"), ("allreduce", "one-shot")]
)
def test_chains_are_as_deep_as_there_are_other_ranks(of, name):
    assert depths(of, name, 9) == {8}


def test_recursive_doubling_is_written_as_the_tree_that_it_is():
    assert texts("allreduce", "recursive-doubling", 4) == [{"((0+1)+(2+3))"}]


def test_a_root_moves_the_ranks_of_a_tree():
    assert texts("reduce", "linear", 4, root=1) == [{"(((1+2)+3)+0)"}]


def leaves(text):
    return [int(number) for number in re.findall(r"\d+", text)]


@pytest.mark.parametrize("reduction", ENTRIES, ids=IDS)
def test_every_tree_has_every_rank_once_and_in_order_where_that_is_promised(reduction):
    for size in filter(reduction.supports, range(1, 10)):
        found = trees(Choice(reduction), size)
        for results in found.results:
            assert results
            for value in results:
                ranks = leaves(found.text(value))
                assert sorted(ranks) == list(range(size))
                assert reduction.commutative or ranks == sorted(ranks)


@pytest.mark.parametrize("reduction", ENTRIES, ids=IDS)
def test_the_holders_of_a_block_are_those_that_the_contract_names(reduction):
    for size in filter(reduction.supports, (1, 2, 4, 6)):
        choice = Choice(reduction)
        found = trees(choice, size)
        natural = choice.blocks(size)
        pieces = len(found.results) // natural
        for block, results in enumerate(found.results):
            held = sorted(rank for ranks in results.values() for rank in ranks)
            wanted = reduction.collective.wanted
            assert held == [
                rank for rank in range(size) if block // pieces in wanted(rank, size, 0, natural)
            ]


def computed(found, commutative):
    """Return, by block and rank, the tree that the programs compute for it."""
    values = {}
    for program, uses in found.programs(commutative).items():
        for use in uses:
            texts = [str(rank) for rank in use.inputs]
            assert len(texts) == found.size
            for left, right in program.steps:
                texts.append(f"({texts[left]}+{texts[right]})")
            for result, ranks in zip(program.results, use.holders, strict=True):
                values |= {(use.block, rank): texts[result] for rank in ranks}
    return values


@pytest.mark.parametrize("reduction", ENTRIES, ids=IDS)
def test_programs_compute_the_trees_with_operands_on_their_sides(reduction):
    for size in filter(reduction.supports, (1, 2, 3, 4, 7, 8)):
        found = trees(Choice(reduction), size)
        assert computed(found, commutative=False) == {
            (block, rank): found.text(value)
            for block, results in enumerate(found.results)
            for value, ranks in results.items()
            for rank in ranks
        }


def unordered(text):
    """Return a tree as nested sets, so that sides don't count."""
    return eval(re.sub(r"\+", ",", text).replace("(", "frozenset((").replace(")", "))"))


@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_a_commutative_operator_merges_what_differs_in_sides_alone(size):
    found = planted("allreduce", "swing-latency", size)
    (program,) = found.programs(commutative=True)
    (results,) = found.results
    assert len(program.results) == len({unordered(found.text(value)) for value in results})
    merged = computed(found, commutative=True)
    for value, ranks in results.items():
        for rank in ranks:
            assert unordered(merged[0, rank]) == unordered(found.text(value))


@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_circulant_halves_with_the_farthest_rank_first_on_a_power_of_two(size):
    halving = texts("reduce-scatter", "recursive-halving", size)
    circulant = texts("allreduce", "circulant", size)
    for one, other in zip(halving, circulant, strict=True):
        assert set(map(unordered, one)) == set(map(unordered, other))


def test_blocks_that_differ_in_the_names_of_ranks_alone_share_a_program():
    found = planted("allreduce", "ring", 16)
    ((program, uses),) = found.programs(commutative=True).items()
    assert len(program.steps) == 15
    assert [use.inputs[0] for use in uses] == [(block + 1) % 16 for block in range(16)]


def test_a_drawing_puts_blocks_of_one_tree_together():
    assert drawn(planted("allreduce", "rabenseifner", 4)).split("\n") == [
        "allreduce rabenseifner, 4 ranks",
        "  blocks 0,1,2,3  ((0+1)+(2+3))",
    ]
    assert drawn(planted("reduce", "linear", 2, root=1)).split("\n") == [
        "reduce linear, 2 ranks, root 1",
        "  block 0  (1+0)",
    ]


def test_a_drawing_says_which_rank_holds_which_tree():
    lines = drawn(planted("allreduce", "swing-latency", 2)).split("\n")
    assert lines[1:] == ["  block 0 on rank 0  (1+0)", "  block 0 on rank 1  (0+1)"]


def test_more_ranks_than_can_be_read_are_not_drawn():
    assert drawn(planted("allreduce", "tree", DRAWN_UP_TO))
    with pytest.raises(UnsupportedError, match="up to 32 ranks, got 33; use fewer --ranks"):
        drawn(planted("allreduce", "tree", DRAWN_UP_TO + 1))


def test_a_number_of_ranks_that_an_algorithm_has_not_is_refused():
    with pytest.raises(UnsupportedError, match="bine needs an even number of ranks, got 5"):
        planted("reduce", "bine", 5)


def test_a_schedule_that_leaves_a_rank_out_has_no_tree(enter):
    def partial(rank, size):
        if rank == 1:
            yield Round(Send(0, 0))
        elif rank == 0:
            yield Round(Combine(1, 0, LEFT))

    choice = enter("reduce", partial, blocks=1)
    assert trees(choice, 2).results
    with pytest.raises(VerificationError, match="rank 0, block 0 isn't reduced over all ranks"):
        trees(choice, 3)


def test_the_side_of_the_received_operand_is_in_the_tree(enter):
    def sided(rank, size, right=1):
        if rank:
            yield Round(Send(0, 0))
        else:
            yield Round(Combine(1, 0, RIGHT if right > 1 else LEFT))

    entry = enter("reduce", sided, blocks=1).algorithm
    for right, text in ((1, "(1+0)"), (2, "(0+1)")):
        found = trees(Choice(entry, {"right": right}), 2)
        assert found.text(*found.results[0]) == text
