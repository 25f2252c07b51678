"""How algorithms are spelled, and what wrong spellings say."""

import pytest
from generators import several

from hpccoll.errors import UsageError
from hpccoll.registry import find
from hpccoll.spelling import choose


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ring", [{}]),
        ("ring:segments=4", [{"segments": 4}]),
        ("ring:segments=1..4", [{"segments": s} for s in (1, 2, 3, 4)]),
        ("ring:segments=3..3", [{"segments": 3}]),
        ("ring:segments=1..32*2", [{"segments": s} for s in (1, 2, 4, 8, 16, 32)]),
        ("ring:segments=3..20*2", [{"segments": s} for s in (3, 6, 12)]),
    ],
)
def test_choose_reads_names_numbers_and_ranges(text, expected):
    assert [choice.parameters for choice in choose("allreduce", text)] == expected


def test_choose_combines_parameters_and_reads_lists(enter):
    enter("allreduce", several, minimum={"factors": 2})
    (choice,) = choose("allreduce", "several:factors=3x4")
    assert choice.values == {"factors": (3, 4), "chunks": 1}
    swept = choose("allreduce", "several:chunks=1..2:factors=2x2x2")
    assert [choice.label for choice in swept] == [
        "several:factors=2x2x2",
        "several:chunks=2:factors=2x2x2",
    ]


def test_choose_reads_algorithms_that_others_are_made_of():
    (choice,) = choose("allreduce", "two-level:inside=rabenseifner:across=ring/segments=4")
    parts = {
        name: (p.algorithm.collective.name, p.algorithm.name) for name, p in choice.parts.items()
    }
    assert parts == {
        "inside": ("reduce", "rabenseifner"),
        "across": ("allreduce", "ring"),
        "back": ("bcast", "binomial"),
    }
    assert choice.parts["across"].values == {"segments": 4}
    assert choice.label == "two-level:across=ring/segments=4:inside=rabenseifner"
    assert choose("allreduce", choice.label)[0].label == choice.label


def test_ranges_of_parts_are_choices_of_their_own():
    swept = choose("allreduce", "two-level:across=ring/segments=1..4*2")
    assert [choice.label for choice in swept] == [
        "two-level:across=ring",
        "two-level:across=ring/segments=2",
        "two-level:across=ring/segments=4",
    ]


def test_a_part_may_be_called_by_its_alias():
    (choice,) = choose("allreduce", "two-level:across=halving-doubling")
    assert choice.label == "two-level:across=rabenseifner"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rign", ["unknown allreduce algorithm 'rign'", "did you mean ring?", "rabenseifner, "]),
        ("", ["unknown allreduce algorithm ''", "choose from"]),
        ("zzz", ["unknown allreduce algorithm 'zzz' (choose from"]),
        ("ring:segment=2", ["unknown parameter 'segment'", "did you mean segments?"]),
        ("rabenseifner:radix=2", ["rabenseifner has no parameters, got 'radix'"]),
        ("ring:segments=0", ["segments must be at least 1, got 0"]),
        ("ring:segments=0..3", ["segments must be at least 1, got 0"]),
        ("ring:segments=3x4", ["segments takes one number, got 3x4"]),
        ("ring:segments=auto", ["segments takes one number, got auto"]),
        ("ring:segments", ["write parameters as name:key=value, got 'segments'"]),
        ("ring:", ["write parameters as name:key=value, got ''"]),
        ("ring:segments=", ["'' is not a number, a list (3x4) or a range (1..8)"]),
        ("ring:segments=two", ["'two' is not a number"]),
        ("ring:segments=-1", ["'-1' is not a number"]),
        ("ring:segments=1.5", ["'1.5' is not a number"]),
        ("ring:segments=4..1", ["the range 4..1 has no end or no values"]),
        ("ring:segments=1..8*1", ["the range 1..8*1 has no end or no values"]),
        ("ring:segments=1..8*0", ["the range 1..8*0 has no end or no values"]),
        ("ring:segments=0..8*2", ["the range 0..8*2 has no end or no values"]),
        ("ring:segments=2:segments=3", ["segments is given twice", "write a range"]),
        (
            "two-level:inside=binomal",
            ["inside: unknown reduce algorithm 'binomal'; did you mean binomial? (choose from "],
        ),
        ("two-level:across=4", ["across: unknown allreduce algorithm '4' (choose from "]),
        ("two-level:across=", ["across: unknown allreduce algorithm ''"]),
        ("two-level:across=library", ["across: unknown allreduce algorithm 'library'"]),
        ("two-level:across=multi-leader", ["unknown allreduce algorithm 'multi-leader'"]),
        ("two-level:across=ring/segment=2", ["unknown parameter 'segment'", "mean segments?"]),
        ("two-level:across=ring/segments=0", ["segments must be at least 1, got 0"]),
        ("two-level:nodes=2", ["unknown parameter 'nodes'"]),
        ("ring:segments=tree", ["'tree' is not a number"]),
    ],
)
def test_wrong_spelling_is_answered_with_what_was_found_and_the_remedy(text, words):
    with pytest.raises(UsageError) as error:
        choose("allreduce", text)
    for word in words:
        assert word in str(error.value)


def test_minimum_of_a_parameter_holds():
    with pytest.raises(UsageError, match="radix must be at least 2, got 1"):
        choose("allgather", "bruck:radix=1")


def test_alias_finds_the_algorithm_and_its_own_name_is_the_label():
    (choice,) = choose("allreduce", "halving-doubling")
    assert choice.algorithm is find("allreduce", "rabenseifner")
    assert choice.label == "rabenseifner"


def test_one_number_is_a_list_where_a_list_is_asked():
    (choice,) = choose("allreduce", "mixed-radix:factors=12")
    assert choice.values == {"factors": (12,)}
    assert choice.label == "mixed-radix:factors=12"
    choice.check(12)
    (choice,) = choose("allreduce", "mixed-radix:factors=auto")
    assert choice.label == "mixed-radix"
    with pytest.raises(UsageError, match="factors must be at least 2, got 1"):
        choose("allreduce", "mixed-radix:factors=12x1")
