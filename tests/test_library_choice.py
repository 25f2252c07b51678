"""How the library's own algorithms are written, and what a request makes of them."""

import pytest

from hpccoll import parsing
from hpccoll.errors import UsageError
from hpccoll.library_choice import LibraryChoice, library_choices
from hpccoll.registry import catalogue

OPTIONS = {
    "no_library": False,
    "min_bytes": None,
    "max_bytes": None,
    "factor": None,
    "size_list": "8",
    "dtype": "float32",
    "op": "sum",
    "root_text": "0",
    "no_check": False,
    "in_place": False,
    "repetitions": 1,
    "warmup": 0,
    "time_budget": 1.0,
    "seed": 0,
    "timeout": 1.0,
}


def build(algorithm, **given):
    """Return the request of an ``--algorithm``."""
    return parsing.build("allreduce", algorithm=algorithm, **OPTIONS | given)


def test_a_range_of_a_parameter_makes_several_choices():
    found = library_choices("library:chain:segmentsize=1..4*2:chain_fanout=3")
    assert [choice.label for choice in found] == [
        f"library:chain:chain_fanout=3:segmentsize={size}" for size in (1, 2, 4)
    ]
    assert {choice.algorithm for choice in found} == {"library:chain"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("library:", "write library:NAME or library:all"),
        ("library:ring:segmentsize", "write parameters as name:key=value, got 'segmentsize'"),
        ("library:ring:segmentsize=3x4", "take numbers, not lists"),
        ("library:ring:segmentsize=1KiB", "'1KiB' is not a number"),
        ("library:ring:a=1:a=2", "a is given twice"),
    ],
)
def test_what_cant_be_read_is_said(text, words):
    with pytest.raises(UsageError, match=words):
        library_choices(text)


def test_the_librarys_algorithms_stand_beside_hpccolls_own():
    asked = build("library:ring, ring,library:all,library:ring")
    assert asked.forced == (LibraryChoice("ring"), LibraryChoice("all"))
    assert [choice.label for choice in asked.choices] == ["ring"]
    assert not asked.every


def test_the_whole_catalogue_can_stand_beside_the_librarys():
    asked = build("all,library:all")
    assert [choice.algorithm for choice in asked.choices] == list(catalogue("allreduce"))
    assert (asked.every, asked.forced) == (True, (LibraryChoice("all"),))


def test_the_default_run_may_be_left_out_but_not_when_it_is_named():
    asked = build("library:ring", no_library=True)
    assert (asked.library, asked.forced) == (False, (LibraryChoice("ring"),))
    with pytest.raises(UsageError, match="--no-library leaves out the library"):
        build("library:ring,library", no_library=True)
