"""What is compared: every order, bound to the same buffers, and with the library's collectives."""

from dataclasses import dataclass

from hpccoll.buffers import check_memory
from hpccoll.choice import Choice
from hpccoll.errors import UnsupportedError
from hpccoll.layernorm import costs
from hpccoll.layernorm.communication import Communication
from hpccoll.layernorm.orders import ORDERS, Order
from hpccoll.layernorm.program import Buffers, Program
from hpccoll.layernorm.rank import Rank
from hpccoll.layernorm.request import Request
from hpccoll.layernorm.tolerance import Rounding
from hpccoll.layernorm.workspace import Workspace
from hpccoll.registry import LIBRARY
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
    """Bind all orders to the buffers; return also why some aren't there, by label.

    Raises
    ------
    UsageError
        On every rank alike: an order's memory can't be had, or an algorithm isn't defined for so
        many ranks.
    """
    able, skipped = request.possible()
    names = [(name, False) for name in able]
    names += [(name, True) for name in able if request.library]
    trial = Workspace()
    size, running = 0, list[tuple[str, bool]]()
    for name, library in names:
        trial.begin()
        try:
            _candidate(request, world, loop, buffers, trial, ORDERS[name], library)
        except UnsupportedError as error:
            if not library:
                raise
            skipped[_label(name, library)] = str(error)
        else:
            size, running = max(size, trial.used), [*running, (name, library)]
    check_memory(world, size, f"the largest order of {request.words}", SMALLER)
    workspace, made = Workspace(size), list[Candidate]()
    for name, library in running:
        workspace.begin()
        made.append(_candidate(request, world, loop, buffers, workspace, ORDERS[name], library))
    return made, skipped


SMALLER = "smaller --tokens or --hidden"
"""What needs less memory."""


def _label(name: str, library: bool) -> str:
    return f"{name} ({LIBRARY})" if library else name


def _candidate(
    request: Request,
    world: World,
    loop: Loop,
    buffers: Buffers,
    workspace: Workspace,
    order: Order,
    library: bool,
) -> Candidate:
    if library and order.name == "reduce-layernorm-bcast-large":
        raise UnsupportedError("the library chooses its algorithms: see reduce-layernorm-bcast")
    choices = None if library else running_choices(request, world)
    communication = Communication(world, loop, choices, workspace, request.accumulate)
    fixed = {} if library else {of: choose(of, name)[0] for of, name in order.fixed}
    rank = Rank(communication, request.norm, buffers, fixed, segments(request, world.size))
    order.does(rank)
    rounding = Rounding(
        request.dtype,
        world.size - 1 if library else _depth(order, (choices or {}) | fixed, world.size),
        request.accumulate == "float32",
        world.size if order.name == "hidden-parallel" else 1,
    )
    return Candidate(order, _label(order.name, library), library, rank.program, rounding)


def running_choices(request: Request, world: World) -> dict[str, Choice]:
    """Return the algorithms of the collectives, which may ask where the ranks are."""
    return {of: choice.on(world.placement) for of, choice in request.choices.items()}


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
