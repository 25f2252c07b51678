"""Generators of rounds, to be entered into the catalogue by tests."""

from hpccoll.choice import Choice
from hpccoll.registry import find

RING = Choice(find("allreduce", "ring"))


def several(rank, size, factors=(2, 3), chunks=1):
    """Do nothing, with a list and a number as parameters."""
    yield from ()


def composed(rank, size, nodes, inside=RING, chunks=1):
    """Do what the part does."""
    return inside.schedule(rank, size)
