"""The command ``layernorm`` as an element of a sweep: what it is asked, and what it will need."""

from collections.abc import Mapping
from typing import Any

from hpccoll.launch import Launch
from hpccoll.layernorm.request import Request, build
from hpccoll.layernorm.session import Files, memory, run
from hpccoll.placement import even
from hpccoll.session import Continuation, Echo
from hpccoll.sweep.plan import START, Allocation, Estimate
from hpccoll.world import World

JUDGING = 5e-7
"""Seconds that an element of the rows takes of one order with one input, until it is judged:
assumed."""

_ELSEWHERE = ("output", "report", "source", "force")
"""Options that are no part of a request."""


def request(options: Mapping[str, Any]) -> Request:
    """Return the request that the options of ``layernorm`` spell, those about its output left out.

    Raises
    ------
    UsageError
        Some value is unknown, can't be read, or doesn't fit the others.
    """
    return build(**{name: value for name, value in options.items() if name not in _ELSEWHERE})


def check(allocation: Allocation, options: Mapping[str, Any]) -> Estimate:
    """Check an element as a launch would, and estimate what it needs.

    The time is that of a start, of judging and of the budgets; the memory is that of what all
    orders share and of judging on one node, without the orders' scratch memory.

    Raises
    ------
    UsageError
        A launch would refuse the options.
    """
    ranks, nodes = allocation.ranks, allocation.nodes or 1
    asked = request(options)
    asked.check_ranks(even(ranks, nodes))
    local = -(-ranks // nodes)
    return Estimate(_seconds(asked), sum(memory(asked, rank) for rank in range(local)))


def _seconds(asked: Request) -> float:
    calls = len(asked.possible()[0]) * (1 + asked.library) * len(asked.inputs)
    directions = 1 + asked.backward
    judging = JUDGING * calls * directions * asked.tokens * asked.hidden
    return START + judging + directions * asked.time_budget


def session(
    options: Mapping[str, Any],
    world: World,
    launch: Launch,
    echo: Echo,
    continuation: Continuation,
) -> None:
    """Compare what the options ask for, on all ranks together (`hpccoll.layernorm.session.run`)."""
    run(request(options), world, launch, Files(None, None, force=False), echo, continuation)
