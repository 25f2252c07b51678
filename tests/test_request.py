"""What is measured on how many ranks, and what they don't allow."""

import re

import numpy as np
import pytest
from requested import build

from hpccoll.collectives import COLLECTIVES
from hpccoll.errors import UnsupportedError, UsageError
from hpccoll.placement import Placement
from hpccoll.reproducible import TERMS


@pytest.mark.parametrize("name", [c.name for c in COLLECTIVES.values() if c.rooted])
def test_roots_are_one_rank_or_all(name):
    assert build(name).roots(4) == range(1)
    assert list(build(name, root_text="3").roots(4)) == [3]
    assert list(build(name, root_text="all").roots(4)) == [0, 1, 2, 3]
    with pytest.raises(UsageError, match="--root 4 is out of range: 4 ranks are numbered 0 to 3"):
        build(name, root_text="4").roots(4)


@pytest.mark.parametrize("name", [c.name for c in COLLECTIVES.values() if not c.rooted])
def test_without_roots_there_is_one_round_of_measurements(name):
    assert list(build(name, root_text="all").roots(4)) == [0]


def test_of_the_whole_catalogue_what_cannot_run_is_skipped_with_its_reason():
    asked = build("allgather")
    for size in range(1, 17):
        able, skipped = asked.supported(size)
        assert all(choice.algorithm.supports(size) for choice in able)
        assert len(able) + len(skipped) == len(asked.choices)
        assert set(skipped).isdisjoint(choice.label for choice in able)
        assert ("recursive-doubling" in skipped) == (size & (size - 1) != 0)
        for label, reason in skipped.items():
            assert reason.startswith(f"{label} needs ")
            assert re.search(rf", got {size}(?: on \d+ nodes?)?; use ", reason)


def test_an_algorithm_that_was_named_is_never_skipped():
    asked = build("allgather", algorithm="ring,recursive-doubling")
    assert len(asked.supported(8)[0]) == 2
    with pytest.raises(UnsupportedError, match=r"got 6; use --algorithm .*ring or .*, or 4 ranks"):
        asked.supported(6)


# Nodes


def test_algorithms_that_ask_for_nodes_are_told_those_of_the_machine():
    real = Placement([0, 1, 1, 0])
    asked = build(algorithm="two-level,ring").placed(real)
    assert asked.placement == real
    assert [choice.nodes for choice in asked.choices] == [real, None]


def test_algorithms_that_ask_for_nodes_are_told_what_was_asked_for_instead():
    asked = build(algorithm="two-level", nodes="cyclic:3").placed(Placement([0] * 5))
    assert asked.placement == asked.choices[0].nodes == Placement([0, 1, 2, 0, 1])
    with pytest.raises(UsageError, match="--nodes 2x3 places 6 ranks, but there are 5 ranks"):
        build(nodes="2x3").placed(Placement([0] * 5))


@pytest.mark.parametrize("nodes", [[0] * 4, range(4)], ids=["one node", "one rank on each"])
def test_where_there_is_one_level_only_two_are_measured_if_they_are_named(nodes):
    able, skipped = build().placed(Placement(nodes)).supported(4)
    assert set(skipped) == {"two-level", "multi-leader"}
    assert "needs several nodes with several ranks, got 4 on" in skipped["two-level"]
    assert not any(choice.algorithm.placed for choice in able)
    able, skipped = build(algorithm="two-level").placed(Placement(nodes)).supported(4)
    assert ([choice.label for choice in able], skipped) == (["two-level"], {})
    _, skipped = build().placed(Placement([0, 0, 1, 1])).supported(4)
    assert skipped == {}


def test_a_part_that_these_nodes_do_not_allow_is_refused():
    asked = build("allgather", algorithm="two-level:across=recursive-doubling")
    with pytest.raises(UnsupportedError, match="got 3 nodes; use across="):
        asked.placed(Placement([0, 1, 2, 2])).supported(4)


def test_a_reproducible_sum_runs_beside_the_plain_one_where_something_is_reduced():
    assert [operator.name for operator in build(op="rsum").operators] == ["rsum", "sum"]
    assert [operator.name for operator in build(op="max").operators] == ["max"]
    assert len(build("allgather", op="rsum").operators) == 1


def test_more_ranks_than_a_reproducible_sum_has_room_for_are_refused():
    build(op="rsum").check_terms(TERMS)
    build("allgather", op="rsum").check_terms(TERMS + 1)
    with pytest.raises(UsageError, match="adds up at most 32768 ranks, got 32769; use --op sum"):
        build(op="rsum").check_terms(TERMS + 1)


def test_partial_results_have_the_type_that_is_sent():
    def partial(name="allreduce", **given):
        asked = build(name, **given)
        return asked.partial(asked.operator)

    assert partial() == np.float32
    assert partial(dtype="float16") == np.float16
    assert partial(dtype="float16", accumulate="float32") == np.float32
    assert partial(op="rsum").itemsize == 12
    assert partial(op="rsum", dtype="float64").itemsize == 24
    assert partial("allgather", op="rsum") == np.float32
    asked = build(op="rsum")
    assert asked.partial(asked.operators[1]) == np.float32
