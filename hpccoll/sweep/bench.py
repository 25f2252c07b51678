"""The command ``bench`` as an element of a sweep: what it is asked, and what it will need."""

from collections.abc import Mapping
from typing import Any

from hpccoll.launch import Launch
from hpccoll.layout import layout
from hpccoll.parsing import build
from hpccoll.placement import even
from hpccoll.request import Request
from hpccoll.session import Continuation, Echo, Output, run
from hpccoll.sweep.plan import START, Allocation, Estimate
from hpccoll.world import World

_ELSEWHERE = ("collective", "thread_level", "output", "force", "style", "top")
"""Options that are no part of a request, besides the collective, which stands before it."""


def request(options: Mapping[str, Any]) -> Request:
    """Return the request that the options of ``bench`` spell, those about its output left out."""
    asked = {name: value for name, value in options.items() if name not in _ELSEWHERE}
    return build(options["collective"], **asked)


def check(allocation: Allocation, options: Mapping[str, Any]) -> Estimate:
    """Check an element as a launch would, and estimate what it needs.

    The time is that of the budgets and of a start; the memory is that of the largest size's input
    and output on one node, without the algorithms' scratch memory.

    Raises
    ------
    UsageError
        A launch would refuse the options.
    """
    ranks, nodes = allocation.ranks, allocation.nodes or 1
    asked = request(options).placed(even(ranks, nodes))
    asked.check_ranks(ranks)
    messages = len(asked.sizes) * len(asked.roots(ranks))
    return Estimate(START + messages * asked.time_budget, _memory(asked, ranks, -(-ranks // nodes)))


def _memory(asked: Request, ranks: int, local: int) -> int:
    """Return the bytes of `local` ranks' inputs and outputs, the root among them."""
    root = asked.roots(ranks)[0]
    message = asked.message(max(asked.sizes), root, ranks)
    places = [layout(asked.collective, r % ranks, ranks, message) for r in (root, root + 1)]
    first, other = (place.input + place.output for place in places)
    return (first + (local - 1) * other) * asked.dtype.itemsize


def session(
    options: Mapping[str, Any],
    world: World,
    launch: Launch,
    echo: Echo,
    continuation: Continuation,
) -> None:
    """Measure what the options ask for, on all ranks together (see `hpccoll.session.run`)."""
    output = Output(None, False, "table", options["top"])
    run(request(options), world, launch, output, echo, continuation)
