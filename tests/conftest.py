"""What several test files share: the catalogue as a parameter, and one call in loopback."""

from dataclasses import dataclass
from typing import Any

import definitions
import numpy as np
import pytest

from hpccoll import registry
from hpccoll.bind import bind
from hpccoll.choice import Choice
from hpccoll.engines import loopback
from hpccoll.layout import Message
from hpccoll.plan import check_in_flight

CATALOGUE = registry.catalogue()


def pytest_generate_tests(metafunc):
    """Run a test that asks for an `entry` once per algorithm of the catalogue."""
    if "entry" in metafunc.fixturenames:
        ids = [f"{entry.collective.name}-{entry.name}" for entry in CATALOGUE]
        metafunc.parametrize("entry", CATALOGUE, ids=ids)


@pytest.fixture
def enter():
    """Enter a generator into the catalogue for the time of one test; returns its `Choice`."""
    entered = []

    def enter(of, generate, *, rounds="0", sent="0", **declared):
        generate.__doc__ = generate.__doc__ or "Run a schedule of a test."
        registry.algorithm(of, rounds=rounds, sent=sent, **declared)(generate)
        name = declared.get("name") or generate.__name__.replace("_", "-")
        entered.append((of, name))
        return Choice(registry.find(of, name))

    yield enter
    for of, name in entered:
        del registry._ENTRIES[of][name]


@dataclass
class Call:
    """One collective call in loopback: what went in, what came out, what should have."""

    plans: list[Any]
    inputs: list[Any]
    results: list[Any]
    expected: list[Any]

    @property
    def right(self):
        """Tell whether every rank has exactly its share of the defined result."""
        return all(map(np.array_equal, self.results, self.expected))


def run_in_loopback(
    choice, size, count, root=0, in_place=False, mutate=None, itemsize=8, counts=None
):
    """Run an algorithm in loopback and return what went in and came out.

    `mutate` may replace the list of plans; `counts` has the elements of every rank's block. Inputs
    are read-only.
    """
    contract = choice.algorithm.collective
    of, cut = contract.name, definitions.cut(count, size, counts)
    given = counts and tuple(counts) * contract.vectors(size)
    message = Message(count, itemsize, root, in_place, counts=given)
    plans = [bind(choice, rank, size, message) for rank in range(size)]
    if mutate is None:
        for plan in plans:
            check_in_flight(plan)
    else:
        plans = mutate(plans)
    vectors = definitions.inputs(of, cut)
    inputs = [definitions.held(of, vectors, rank, root, cut) for rank in range(size)]
    for data in inputs:
        data.flags.writeable = False
    places = [plan.layout.result for plan in plans]
    results = [
        output[place.offset : place.offset + place.count]
        for output, place in zip(loopback.run(plans, inputs), places, strict=True)
    ]
    expected = [definitions.result(of, vectors, rank, root, cut) for rank in range(size)]
    return Call(plans, inputs, results, expected)


@pytest.fixture(scope="session")
def call():
    """Return `run_in_loopback`."""
    return run_in_loopback
