"""What the command line may ask for, and what it is told otherwise."""

import numpy as np
import pytest
from requested import build

from hpccoll.arrival import Arrival
from hpccoll.choice import Choice
from hpccoll.errors import UsageError
from hpccoll.registry import catalogue
from hpccoll.segmentation import Segmentation

KIB, MIB = 1 << 10, 1 << 20

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
        {"op": "rsum", "dtype": "int32"},
        "rsum is defined for float32 and float64, not for int32: the plain sum of integers is "
        "reproducible; choose another --dtype, or from sum, prod, min, max, band,",
    ),
    (
        {"op": "rsum", "dtype": "float16", "accumulate": "float32"},
        "not for float16; choose another",
    ),
    (
        {"op": "band"},
        "band is defined for integer types, not for float32; choose another --dtype, or from sum,",
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
        "--nodes is for multi-leader and two-level, none of which is asked for",
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


@pytest.mark.parametrize(
    ("segment", "measured"), [("auto", True), ("none", False), ("4KiB", False)]
)
def test_pieces_are_measured_only_where_no_length_is_asked_for(segment, measured):
    assert build(segment=segment).measured_pieces is measured
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
