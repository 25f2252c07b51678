"""The catalogue: what is entered where, and what is refused."""

import pytest
from generators import several

from hpccoll import registry, verify
from hpccoll.collectives import COLLECTIVES
from hpccoll.errors import UsageError
from hpccoll.obligations import obligations
from hpccoll.registry import algorithm, catalogue, find
from hpccoll.schedule import Recv, Round, Send
from hpccoll.shapes import power_of_two
from hpccoll.spelling import choose

# What the model chooses


@pytest.mark.parametrize("chosen", [("chunks",), ("segments",)])
def test_the_model_chooses_only_parameters_that_are_there_and_that_it_knows(enter, chosen):
    with pytest.raises(ValueError, match=rf"several: the model can't choose {chosen[0]}"):
        algorithm("allreduce", rounds="0", sent="0", chosen=chosen, time="alpha")(several)


def test_unknown_collective_lists_the_valid_ones():
    with pytest.raises(UsageError, match="did you mean allreduce") as error:
        catalogue("allreduced")
    assert all(name in str(error.value) for name in COLLECTIVES)


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
    proofs = [verify.prove(*asked) for asked in obligations(entry, range(1, 10))]
    assert {proof.size for proof in proofs} == set(range(1, 10))
    assert call(choice, 5, 13).right


def test_entered_algorithms_leave_again(enter):
    assert "direct" not in registry._ENTRIES["allgather"]
