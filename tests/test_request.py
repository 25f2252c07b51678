"""What the command line may ask for, and what it is told otherwise."""

import re

import numpy as np
import pytest

from hpccoll import request
from hpccoll.arrival import Arrival
from hpccoll.bind import Segmentation
from hpccoll.collectives import COLLECTIVES
from hpccoll.errors import UnsupportedError, UsageError
from hpccoll.placement import Placement
from hpccoll.registry import Choice, catalogue
from hpccoll.reproducible import TERMS

KIB, MIB = 1 << 10, 1 << 20

DEFAULTS = {
    "algorithm": "all",
    "no_library": False,
    "min_bytes": None,
    "max_bytes": None,
    "factor": None,
    "size_list": None,
    "dtype": "float32",
    "op": "sum",
    "root_text": "0",
    "no_check": False,
    "in_place": False,
    "repetitions": 100,
    "warmup": 5,
    "time_budget": 2.0,
    "seed": 0,
    "timeout": 60.0,
}
"""What the command line passes if nothing is given."""


def build(name="allreduce", **given):
    """Build a request from what is given on the command line."""
    return request.build(name, **DEFAULTS | given)


WRONG = [
    ({"name": "allredcue"}, "unknown collective 'allredcue'; did you mean allreduce? (choose from"),
    ({"algorithm": "rign"}, "unknown allreduce algorithm 'rign'; did you mean ring? (choose from"),
    ({"algorithm": ""}, "unknown allreduce algorithm '' (choose from"),
    ({"algorithm": "ring,"}, "unknown allreduce algorithm '' (choose from"),
    ({"algorithm": "ring:segment=2"}, "did you mean segments? (choose from segments)"),
    ({"algorithm": "ring:segments"}, "write parameters as name:key=value"),
    ({"algorithm": "ring:segments=x"}, "is not a number, a list (3x4) or a range (1..8)"),
    ({"algorithm": "ring:segments=0"}, "segments must be at least 1, got 0"),
    ({"algorithm": "ring:segments=2x2"}, "segments takes one number, got 2x2"),
    ({"algorithm": "rabenseifner:k=2"}, "rabenseifner has no parameters"),
    ({"algorithm": "library", "no_library": True}, "leaves out the library"),
    ({"size_list": "8", "min_bytes": "8"}, "give either --sizes or --min-bytes, --max-bytes and"),
    ({"size_list": "8", "max_bytes": "8"}, "give either --sizes or --min-bytes, --max-bytes and"),
    ({"size_list": "8", "factor": 2}, "give either --sizes or --min-bytes, --max-bytes and"),
    ({"size_list": "8", "min_bytes": ""}, "give either --sizes or --min-bytes, --max-bytes and"),
    ({"size_list": "8x"}, "write a whole number of bytes"),
    ({"size_list": "8,"}, "write a whole number of bytes"),
    ({"size_list": ""}, "write a whole number of bytes"),
    ({"min_bytes": ""}, "write a whole number of bytes"),
    ({"max_bytes": "1.5K"}, "write a whole number of bytes"),
    (
        {"size_list": "8,10"},
        "10 B isn't a whole number of float32 elements (4 B each); use 8 or 12",
    ),
    ({"min_bytes": "2"}, "2 B isn't a whole number of float32 elements (4 B each); use 0 or 4"),
    ({"size_list": "12", "dtype": "float64"}, "float64 elements (8 B each); use 8 or 16"),
    ({"min_bytes": "8", "max_bytes": "4"}, "8 B is above --max-bytes 4 B; give a larger --max-byt"),
    ({"min_bytes": "32M"}, "32 MiB is above --max-bytes 16 MiB; give a larger --max-bytes"),
    ({"dtype": "float16x"}, "unknown dtype 'float16x'; did you mean"),
    ({"op": "mean"}, "unknown operator 'mean' (choose from sum, prod, min, max, avg, band,"),
    ({"op": "maxx"}, "unknown operator 'maxx'; did you mean max? (choose from"),
    *(
        (
            {"op": op, "dtype": "complex64"},
            f"{op} is defined for integer types and float types, not for complex64: complex numbers"
            " have no order; choose another --dtype, or from sum, prod, avg",
        )
        for op in ("min", "max")
    ),
    (
        {"op": "avg", "dtype": "int32"},
        "avg is defined for float types and complex types, not for int32: it is a sum and one "
        "division, which integers don't have; choose another --dtype, or from sum, prod, min, max,",
    ),
    (
        {"op": "band"},
        "band is defined for integer types, not for float32; choose another --dtype, or from sum,",
    ),
    (
        {"op": "rsum", "dtype": "int32"},
        "rsum is defined for float32 and float64, not for int32: the plain sum of integers is "
        "reproducible; choose another --dtype, or from sum, prod, min, max, band,",
    ),
    (
        {"op": "rsum", "dtype": "float16", "accumulate": "float32"},
        "not for float16; choose another",
    ),
    *(
        ({"accumulate": "float32", "dtype": d}, f"is for float16 and bfloat16, not for {d}")
        for d in ("float32", "float64", "int16")
    ),
    *(
        (
            {"arrival": text},
            f"arrival pattern {text!r} can't be read; write none, random:50us, late:RANK:1ms or",
        )
        for text in ("", "late", "late:1ms", "random:50", "ramp:1:50us", "soon:1ms")
    ),
    (
        {"nodes": "two"},
        "--nodes takes a number of nodes (2), nodes and ranks on each (2x4), cyclic",
    ),
    (
        {"nodes": "2", "algorithm": "ring"},
        "--nodes is for multi-leader and two-level, none of which is measured",
    ),
    ({"segment": "0"}, "--segment must be at least one byte"),
    ({"segment": "4x"}, "write a whole number of bytes"),
    ({"name": "bcast", "root_text": "first"}, "--root takes a rank or 'all', got 'first'"),
    ({"name": "bcast", "root_text": "-1"}, "--root takes a rank or 'all', got '-1'"),
    ({"name": "bcast", "root_text": ""}, "--root takes a rank or 'all', got ''"),
    ({"root_text": "2"}, "allreduce has no root; leave out --root 2"),
]


@pytest.mark.parametrize(("given", "message"), WRONG, ids=[str(given) for given, _ in WRONG])
def test_a_wrong_request_is_refused_with_a_remedy(given, message):
    with pytest.raises(UsageError) as at:
        build(**given)
    assert message in str(at.value)


def test_the_defaults_ask_for_everything():
    asked = build()
    assert asked.choices == tuple(map(Choice, catalogue("allreduce")))
    assert asked.every
    assert asked.library
    assert asked.check
    assert (asked.dtype, asked.operator.name) == (np.dtype("float32"), "sum")
    assert asked.roots(4) == range(1)


@pytest.mark.parametrize(
    "given",
    [
        *({"op": "avg", "dtype": d} for d in ("float16", "float64", "complex64")),
        *({"op": op, "dtype": "uint8"} for op in ("band", "bor", "bxor", "land", "lor", "lxor")),
        {"accumulate": "float32", "dtype": "float16"},
        *({"op": "rsum", "dtype": d} for d in (None, "float64")),
        # An operator that isn't used needs no type that has it.
        {"name": "bcast", "op": "min", "dtype": "complex64"},
        {"name": "allgather", "op": "avg", "dtype": "int8"},
        {"name": "allgather", "op": "rsum", "dtype": "int8"},
    ],
    ids=str,
)
def test_what_is_defined_is_accepted(given):
    asked = build(**given)
    assert asked.operator.name == given.get("op", "sum")
    assert asked.accumulate == given.get("accumulate", "storage")


def test_messages_are_cut_and_ranks_come_late_only_where_that_is_asked():
    assert build().segmentation == Segmentation()
    assert build(segment="4KiB", window=3).segmentation == Segmentation(4 * KIB, 3)
    assert build(window=3).segmentation == Segmentation(window=3)
    assert build().arrival == Arrival()
    assert build(arrival="late:2:1ms").arrival == Arrival("late", 1e-3, 2)


def test_switches_leave_out_library_and_check():
    asked = build(algorithm="ring", no_library=True, no_check=True)
    assert not asked.library
    assert not asked.check


# Sizes


def test_the_default_sizes_are_powers_of_two_from_8_bytes_to_16_mib():
    assert build().sizes == tuple(1 << exponent for exponent in range(3, 25))


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        ({"min_bytes": "1K", "max_bytes": "8K"}, (KIB, 2 * KIB, 4 * KIB, 8 * KIB)),
        ({"min_bytes": "1K", "max_bytes": "9K", "factor": 3}, (KIB, 3 * KIB, 9 * KIB)),
        ({"min_bytes": "8", "max_bytes": "100", "factor": 10}, (8, 80)),
        ({"min_bytes": "8", "max_bytes": "8"}, (8,)),
        ({"min_bytes": "0", "max_bytes": "16"}, (0, 4, 8, 16)),
        ({"min_bytes": "0", "max_bytes": "0"}, (0,)),
        ({"min_bytes": "0", "max_bytes": "16", "dtype": "float64"}, (0, 8, 16)),
        ({"size_list": "64K,8,1M,8"}, (8, 64 * KIB, MIB)),
        ({"size_list": "0"}, (0,)),
        ({"size_list": "3", "dtype": "int8"}, (3,)),
    ],
    ids=str,
)
def test_sizes_ascend_once_each(given, sizes):
    assert build(**given).sizes == sizes


# Algorithms


def labels(**given):
    """Return how the chosen algorithms are spelled."""
    return [choice.label for choice in build(**given).choices]


def test_algorithms_are_chosen_in_the_order_of_their_names_and_once():
    assert labels(algorithm="tree,ring,tree,ring:segments=1") == ["tree", "ring"]
    assert labels(algorithm=" tree , ring ") == ["tree", "ring"]


def test_ranges_of_parameters_are_choices_of_their_own():
    expected = ["ring", "ring:segments=2", "ring:segments=4"]
    assert labels(algorithm="ring:segments=1..4*2") == expected


def test_the_library_alone_can_be_chosen():
    asked = build(algorithm="library")
    assert (asked.choices, asked.every, asked.library) == ((), False, True)


# Numbers of ranks


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
