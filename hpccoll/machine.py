"""What a step and a byte cost here, for the model that chooses parameters: measured at the start.

All ranks shift a vector to the next rank, over the run's own engine and links at once, as the
collectives do. So a slow link between two nodes counts, and so does what all share.
"""

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from hpccoll.cost import Machine
from hpccoll.sampling import Loop
from hpccoll.trial import CALLS, trial

if TYPE_CHECKING:
    from hpccoll.request import Request
    from hpccoll.world import World

SHORT, LONG = 8, 1 << 20
"""Bytes of the messages: one tells what a step costs, both together what a byte costs."""
FURTHER = Fraction(1, 4)
"""What a further message of the same step costs, as a share of a step: assumed."""


def with_machine(request: "Request", world: "World", loop: Loop) -> "Request":
    """Return the request with the machine as it is measured, on all ranks together.

    Nothing is measured where no parameter is left to the model, or where one rank is alone.
    """
    if world.size == 1 or not any(choice.free for choice in request.choices):
        return request
    step, whole = (_time(request, world, loop, size) for size in (SHORT, LONG))
    alpha = Fraction(max(1, round(step * 1e9)), 10**9)
    # Noise may make the longer message the faster one.
    beta = Fraction(max(1, round((whole - step) * 1e9)), 10**9 * LONG)
    return replace(request, machine=Machine(alpha, FURTHER * alpha, beta))


def _time(request: "Request", world: "World", loop: Loop, size: int) -> float:
    """Return the least time of a shift of `size` bytes on the slowest rank, in seconds.

    The least is the links' and the library's own time: a median of so few calls would be the
    scheduler's where ranks share cores.
    """
    call, _ = trial("sendrecv", "shift", size, request.segmentation, loop.native, world.comm)
    times = loop.run(call, CALLS)
    (least,) = world.agreed(float(world.slowest(times.ends - times.begins).min()))
    return least
