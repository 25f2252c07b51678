"""A choice: its label, what the model chooses for it, and where it is defined."""

import pytest
from generators import composed, several

from hpccoll.choice import Choice
from hpccoll.errors import UnsupportedError
from hpccoll.obligations import obligations
from hpccoll.registry import catalogue, find
from hpccoll.shapes import Requirement
from hpccoll.spelling import choose


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


def test_the_placement_is_no_parameter(enter):
    entry = enter("allreduce", composed, name="made-of-ring").algorithm
    assert entry.placed
    assert list(entry.parameters) == ["inside", "chunks"]
    (choice,) = choose("allreduce", "made-of-ring:inside=tree:chunks=2")
    assert [*choice.schedule(1, 4)] == [*choose("allreduce", "tree")[0].schedule(1, 4)]
    labels = {case[0].label for case in obligations(entry, range(1, 9))}
    assert {"made-of-ring", "made-of-ring:inside=tree", "made-of-ring:chunks=2"} <= labels


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


def test_blocks_may_depend_on_parameters(enter):
    def radical(rank, size, radix=2):
        """Do nothing."""
        yield from ()

    choice = enter("allreduce", radical, blocks=lambda size, radix: size * radix)
    assert choice.blocks(5) == 10
    assert [c.grid(5) for c in choose("allreduce", "radical:radix=1..3")] == [5, 10, 15]
