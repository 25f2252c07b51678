"""What is compared: every order, bound to the same buffers, and with the library's collectives."""

from dataclasses import dataclass

from hpccoll.errors import UnsupportedError
from hpccoll.layernorm import costs
from hpccoll.layernorm.communication import Communication
from hpccoll.layernorm.orders import ORDERS, Order
from hpccoll.layernorm.program import Buffers, Program
from hpccoll.layernorm.rank import Rank
from hpccoll.layernorm.request import Request
from hpccoll.layernorm.tolerance import Rounding
from hpccoll.registry import LIBRARY, Choice
from hpccoll.sampling import Loop
from hpccoll.spelling import choose
from hpccoll.world import World


@dataclass(frozen=True, slots=True)
class Candidate:
    """An order, ready to be called.

    Attributes
    ----------
    label
        The order's name, and whether the library's collectives run it.
    rounding
        Where it rounds, for tolerance and prediction.
    """

    order: Order
    label: str
    library: bool
    program: Program
    rounding: Rounding


def candidates(
    request: Request, world: World, loop: Loop, buffers: Buffers
) -> tuple[list[Candidate], dict[str, str]]:
    """Bind all orders to the buffers; return also why some aren't there, by label."""
    able, skipped = request.possible()
    choices = {of: choice.on(world.placement) for of, choice in request.choices.items()}
    made: list[Candidate] = []
    for name in able:
        made.append(_candidate(request, world, loop, buffers, ORDERS[name], choices))
    for name in able if request.library else ():
        try:
            made.append(_candidate(request, world, loop, buffers, ORDERS[name], None))
        except UnsupportedError as error:
            skipped[_label(name, library=True)] = str(error)
    return made, skipped


def _label(name: str, library: bool) -> str:
    return f"{name} ({LIBRARY})" if library else name


def _candidate(
    request: Request,
    world: World,
    loop: Loop,
    buffers: Buffers,
    order: Order,
    choices: dict[str, Choice] | None,
) -> Candidate:
    library = choices is None
    if library and order.name == "reduce-layernorm-bcast-large":
        raise UnsupportedError("the library chooses its algorithms: see reduce-layernorm-bcast")
    communication = Communication(world, loop, choices, request.accumulate)
    fixed = {} if library else {of: choose(of, name)[0] for of, name in order.fixed}
    rank = Rank(communication, request.norm, buffers, fixed, lambda: segments(request, world.size))
    order.does(rank)
    rounding = Rounding(
        request.dtype,
        world.size - 1 if library else _depth(order, (choices or {}) | fixed, world.size),
        request.accumulate == "float32",
        world.size if order.name == "hidden-parallel" else 1,
    )
    return Candidate(order, _label(order.name, library), library, rank.program, rounding)


def _depth(order: Order, choices: dict[str, Choice], size: int) -> int:
    """Return how many additions a rank's part goes through at most until the sum is complete."""
    for of in order.collectives:
        if choices[of].algorithm.collective.reduces:
            return costs.depth(choices[of], size)
    return size - 1  # in the order of the ranks, or along a chain


def segments(request: Request, size: int) -> int:
    """Return into how many segments of rows the fused order cuts, at most as many as rows."""
    most = max(1, request.tokens)
    if request.segments is not None:
        return min(request.segments, most)
    chosen = choose("allreduce", "chain")[0].resolved(size, request.bytes)
    return min(int(str(chosen.values["segments"])), most)
