"""The catalogue: what is entered where, how a choice is spelled, and what wrong spellings say."""

import pytest

from hpccoll import obligations as proving
from hpccoll import registry, verify
from hpccoll.collectives import COLLECTIVES
from hpccoll.errors import UnsupportedError, UsageError
from hpccoll.registry import Choice, Parameter, algorithm, catalogue, find
from hpccoll.schedule import Recv, Round, Send
from hpccoll.shapes import Requirement, power_of_two
from hpccoll.spelling import choose

RING = Choice(find("allreduce", "ring"))


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


def several(rank, size, factors=(2, 3), chunks=1):
    """Do nothing, with a list and a number as parameters."""
    yield from ()


def test_choose_combines_parameters_and_reads_lists(enter):
    enter("allreduce", several, minimum={"factors": 2})
    (choice,) = choose("allreduce", "several:factors=3x4")
    assert choice.values == {"factors": (3, 4), "chunks": 1}
    swept = choose("allreduce", "several:chunks=1..2:factors=2x2x2")
    assert [choice.label for choice in swept] == [
        "several:factors=2x2x2",
        "several:chunks=2:factors=2x2x2",
    ]


@pytest.mark.parametrize(
    "text", ["ring", "ring:segments=4", "rabenseifner", "several:chunks=2:factors=4x5"]
)
def test_label_is_the_spelling_that_chooses_the_same(enter, text):
    enter("allreduce", several)
    (choice,) = choose("allreduce", text)
    assert choice.label == text
    assert choose("allreduce", choice.label)[0].values == choice.values


def test_label_leaves_defaults_out():
    assert choose("allreduce", "ring:segments=1")[0].label == "ring"
    (choice,) = choose("allreduce", "two-level:across=circulant:inside=binomial")
    assert choice.label == "two-level"


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


def composed(rank, size, nodes, inside=RING, chunks=1):
    """Do what the part does."""
    return inside.schedule(rank, size)


def test_the_placement_is_no_parameter(enter):
    entry = enter("allreduce", composed, name="made-of-ring").algorithm
    assert entry.placed
    assert list(entry.parameters) == ["inside", "chunks"]
    (choice,) = choose("allreduce", "made-of-ring:inside=tree:chunks=2")
    assert [*choice.schedule(1, 4)] == [*choose("allreduce", "tree")[0].schedule(1, 4)]
    labels = {case[0].label for case in proving.obligations(entry, range(1, 9))}
    assert {"made-of-ring", "made-of-ring:inside=tree", "made-of-ring:chunks=2"} <= labels


# What the model chooses


def test_the_model_chooses_what_is_not_given_and_keeps_what_is(entry):
    free, few, many = Choice(entry), 8, 1 << 30
    if not entry.chosen:
        assert free.resolved(16, many) is free
        return
    least, most = free.resolved(16, few), free.resolved(16, many)
    assert set(least.parameters) == set(most.parameters) == set(entry.chosen)
    assert least.parameters != most.parameters
    assert {**free.values, **least.parameters} == least.values
    for choice in (least, most):
        assert choose(entry.collective.name, choice.label)[0].values == choice.values
        assert choice.resolved(16, few) is choice


def test_a_parameter_that_the_model_else_chooses_is_always_spelled_out():
    for segments in range(1, 5):
        (choice,) = choose("bcast", f"chain:segments={segments}:fanout=1")
        assert choice.label == f"chain:segments={segments}"
        assert choice.resolved(9, 1 << 20).values == {"segments": segments, "fanout": 1}
    assert choose("bcast", "chain:fanout=1")[0].label == "chain"


def test_what_the_model_chooses_depends_on_what_is_given():
    chosen = {
        fanout: choose("bcast", f"chain:fanout={fanout}")[0].resolved(64, 1 << 24).parameters
        for fanout in (1, 32)
    }
    assert all(parameters["fanout"] == fanout for fanout, parameters in chosen.items())
    assert chosen[1]["segments"] != chosen[32]["segments"]


@pytest.mark.parametrize("chosen", [("chunks",), ("segments",)])
def test_the_model_chooses_only_parameters_that_are_there_and_that_it_knows(enter, chosen):
    with pytest.raises(ValueError, match=rf"several: the model can't choose {chosen[0]}"):
        algorithm("allreduce", rounds="0", sent="0", chosen=chosen, time="alpha")(several)


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


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (2, "factors takes a list such as 3x4, got 2"),
        ((2, 1), "factors must be at least 2, got 1"),
    ],
)
def test_list_parameter_checks_shape_and_every_number(value, message):
    with pytest.raises(UsageError, match=message):
        Parameter("factors", (2, 2), 2).check(value)


def test_minimum_of_a_parameter_holds():
    with pytest.raises(UsageError, match="radix must be at least 2, got 1"):
        choose("allgather", "bruck:radix=1")


def test_alias_finds_the_algorithm_and_its_own_name_is_the_label():
    (choice,) = choose("allreduce", "halving-doubling")
    assert choice.algorithm is find("allreduce", "rabenseifner")
    assert choice.label == "rabenseifner"


def test_unknown_collective_lists_the_valid_ones():
    with pytest.raises(UsageError, match="did you mean allreduce") as error:
        catalogue("allreduced")
    assert all(name in str(error.value) for name in COLLECTIVES)


@pytest.mark.parametrize("ask", ["schedule", "check"])
def test_unmet_requirement_names_it_the_size_and_two_ways_out(ask):
    choice = Choice(find("allgather", "recursive-doubling"))
    with pytest.raises(UnsupportedError) as error:
        choice.check(12) if ask == "check" else choice.schedule(0, 12)
    message = str(error.value)
    assert message.startswith(
        "recursive-doubling needs a power-of-two number of ranks, got 12; use"
    )
    assert message.endswith(", or 8 ranks")
    others = {a.name for a in catalogue("allgather") if a.supports(12)}
    assert all(name in message for name in others)


def test_requirement_that_no_smaller_size_meets_still_gives_a_message(enter):
    choice = enter("allreduce", several, requires=Requirement("at least 5 ranks", lambda p: p > 4))
    with pytest.raises(UnsupportedError, match=r"several needs at least 5 ranks, got 2; use --alg"):
        choice.check(2)


@pytest.mark.parametrize("name", ["mixed-radix", "bcube"])
def test_requirement_on_a_parameter_holds_and_names_its_value(name):
    (choice,) = choose("allreduce", f"{name}:factors=3x4")
    assert [size for size in range(1, 65) if choice.supports(size)] == [12]
    with pytest.raises(UnsupportedError) as error:
        choice.check(13)
    message = str(error.value)
    assert message.startswith(
        f"{name}:factors=3x4 needs factors whose product is the number of ranks, got 13; use"
    )
    assert message.endswith(", or 12 ranks")
    assert name in message.split("--algorithm")[1]


def test_one_number_is_a_list_where_a_list_is_asked():
    (choice,) = choose("allreduce", "mixed-radix:factors=12")
    assert choice.values == {"factors": (12,)}
    assert choice.label == "mixed-radix:factors=12"
    choice.check(12)
    (choice,) = choose("allreduce", "mixed-radix:factors=auto")
    assert choice.label == "mixed-radix"
    with pytest.raises(UsageError, match="factors must be at least 2, got 1"):
        choose("allreduce", "mixed-radix:factors=12x1")


def test_blocks_may_depend_on_parameters(enter):
    def radical(rank, size, radix=2):
        """Do nothing."""
        yield from ()

    choice = enter("allreduce", radical, blocks=lambda size, radix: size * radix)
    assert choice.blocks(5) == 10
    assert [c.grid(5) for c in choose("allreduce", "radical:radix=1..3")] == [5, 10, 15]


def test_name_of_an_algorithm_may_differ_from_its_function(enter):
    def generate(rank, size):
        """Do nothing."""
        yield from ()

    algorithm("allreduce", name="other-name", rounds="0", sent="0")(generate)
    try:
        assert find("allreduce", "other-name").generate is generate
    finally:
        del registry._ENTRIES["allreduce"]["other-name"]


def test_power_of_two():
    assert [p for p in range(1, 70) if power_of_two.met(p)] == [1, 2, 4, 8, 16, 32, 64]


@pytest.mark.parametrize(
    ("name", "aliases"),
    [("ring", ()), ("halving_doubling", ()), ("new", ("ring",)), ("library", ()), ("all", ())],
)
def test_a_name_is_given_once(name, aliases):
    def generate(rank, size):
        """Do nothing."""

    generate.__name__ = name
    before = catalogue("allreduce")
    with pytest.raises(ValueError, match=r"has an algorithm called .* already"):
        algorithm("allreduce", rounds="0", sent="0", aliases=aliases)(generate)
    assert catalogue("allreduce") == before


def test_same_name_in_two_collectives_is_fine():
    assert find("allreduce", "ring") is not find("allgather", "ring")


def test_docstring_is_required():
    def silent(rank, size):
        yield from ()

    with pytest.raises(ValueError, match="silent needs a docstring"):
        algorithm("allreduce", rounds="0", sent="0")(silent)


def test_parameter_without_a_default_is_refused():
    def bare(rank, size, radix):
        """Do nothing."""

    with pytest.raises(ValueError, match="bare: radix needs a default"):
        algorithm("allreduce", rounds="0", sent="0")(bare)


def test_entry_has_a_summary_a_source_and_closed_forms(entry):
    assert entry.summary.endswith(".")
    # Imperative: a capitalised verb, and not its third person ("Passes …").
    verb = entry.summary.split()[0]
    assert verb[0].isupper()
    assert not verb.endswith("s") or verb.endswith("ss")
    assert any(of in entry.source for of in ("doi:", "arXiv:", "Open MPI", "MPICH"))
    assert all((entry.rounds, entry.messages, entry.sent, entry.reduced))
    assert any(entry.supports(size) for size in range(2, 65))


def direct(rank, size, burst=1):
    """Send the own block to everybody, one peer per round.

    References
    ----------
    Nobody, doi:10.0/0.
    """
    for shift in range(1, size):
        to, source = (rank + shift) % size, (rank - shift) % size
        yield Round(Send(to, rank), Recv(source, source))


def test_one_decorated_function_is_known_everywhere(enter, call):
    choice = enter("allgather", direct, rounds="p-1", sent="n*(p-1)/p")
    entry = choice.algorithm
    assert entry in catalogue("allgather")
    assert entry in catalogue()
    assert find("allgather", "direct") is entry
    assert (entry.summary, entry.source) == (
        "Send the own block to everybody, one peer per round.",
        "Nobody, doi:10.0/0.",
    )
    assert [c.label for c in choose("allgather", "direct:burst=1..2")] == [
        "direct",
        "direct:burst=2",
    ]
    proofs = [verify.prove(*asked) for asked in proving.obligations(entry, range(1, 10))]
    assert {proof.size for proof in proofs} == set(range(1, 10))
    assert call(choice, 5, 13).right


def test_entered_algorithms_leave_again(enter):
    assert "direct" not in registry._ENTRIES["allgather"]


def test_obligations_of_a_list_parameter_are_its_default_and_all_factorizations(enter):
    entry = enter("allreduce", several).algorithm
    lists = {choice.values["factors"] for choice, _, _ in proving.obligations(entry, [4])}
    assert lists == {(2, 3), (4,), (2, 2)}
