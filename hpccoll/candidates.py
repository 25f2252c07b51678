"""What competes in one measurement: every algorithm, and the library, bound to the same buffers."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from hpccoll.bind import bind
from hpccoll.buffers import allocate, check_memory, working
from hpccoll.choice import Choice
from hpccoll.conversions import bind_partial
from hpccoll.datatypes import Array, Operator
from hpccoll.engines.call import Call
from hpccoll.engines.library import LibraryCall, function_of
from hpccoll.engines.python import PythonCall
from hpccoll.layout import Layout, Message, layout
from hpccoll.parameter import Value
from hpccoll.plan import Plan
from hpccoll.registry import LIBRARY
from hpccoll.request import Request
from hpccoll.sampling import Loop
from hpccoll.selection.selections import REFUSED, Selection, Selections
from hpccoll.units import format_size
from hpccoll.world import World


@dataclass(frozen=True, slots=True)
class Candidate:
    """An algorithm, or the library, ready to be called.

    Attributes
    ----------
    label
        The algorithm as it was asked for.
    operator, baseline
        The operator that runs, and the label of what it is compared with.
    parameters, chosen
        The values that run, and the names of those that the model chose.
    selection
        Of the library's own algorithms: how it was selected.
    """

    algorithm: str
    label: str
    parameters: dict[str, Value]
    chosen: tuple[str, ...]
    call: Call
    operator: Operator
    baseline: str = LIBRARY
    selection: Selection | None = None

    @property
    def context(self) -> Callable[[], AbstractContextManager[None]]:
        """Return what makes the context of its calls."""
        return self.selection.in_calls if self.selection else nullcontext


@dataclass(frozen=True, slots=True)
class Candidates:
    """All of them, and what they share.

    Attributes
    ----------
    spaces
        The caller's input and output.
    everything
        These and the plans' own.
    skipped
        Why algorithms of the library can't be called with this message, by label.
    """

    calls: tuple[Candidate, ...]
    place: Layout
    spaces: list[Array]
    everything: list[Array]
    skipped: dict[str, str] = field(default_factory=dict)


def memory(
    request: Request, choices: Sequence[Choice], world: World, messages: Sequence[Message]
) -> None:
    """Check on every node that the largest of the messages' buffers can be had.

    Raises
    ------
    UsageError
        On every rank alike, if any node lacks memory.
    """
    size = max(message.count * message.itemsize for message in messages)
    what = f"{request.collective.name} of {format_size(size)}"
    need = 0
    for message in messages:
        place = layout(request.collective, world.rank, world.size, message)
        types = {request.dtype, *map(request.partial, request.operators)}
        own = (place.input + place.output) * sum(each.itemsize for each in types)
        # Before plans are bound: they take long where a size is far too large.
        check_memory(world, own, what)
        resolved = _resolved(request, choices, world, message)
        for operator in request.operators:
            plans = _plans(request, operator, resolved, world, message)
            scratch, landing = _room(plans)
            own += scratch * request.partial(operator).itemsize + landing * request.dtype.itemsize
        need = max(need, own)
    check_memory(world, need, what)


def candidates(
    request: Request,
    choices: Sequence[Choice],
    selections: Selections,
    world: World,
    loop: Loop,
    message: Message,
) -> Candidates:
    """Allocate the buffers of one message and bind everything that competes to them."""
    place = layout(request.collective, world.rank, world.size, message)
    user = allocate(place, 0, request.dtype)[:2]
    calls, everything = list[Candidate](), list(user)
    for operator in request.operators:
        own, spaces = _algorithms(request, operator, choices, world, loop, message, user)
        calls += own
        everything += spaces
    function = function_of(request.collective, message, world.size)
    selected, skipped = selections.of(function, message)
    if lacks := library_lacks(request, world):
        skipped |= {selection.choice.label: f"{REFUSED}{lacks}" for selection in selected}
    else:
        theirs = (request, loop, message, place, user)
        if request.library:
            call = _library(*theirs, world)
            calls.append(Candidate(LIBRARY, LIBRARY, {}, (), call, request.operator))
        calls += [
            _forced(selection, _library(*theirs, world, selection), request.operator)
            for selection in selected
        ]
    return Candidates(tuple(calls), place, user, everything, skipped)


def library_lacks(request: Request, world: World) -> str | None:
    """Say what the MPI library hasn't to do the same, if anything."""
    if len(request.operators) > 1:
        return f"{world.library} has no reproducible sum"
    if world.datatype(request.dtype) is None:
        return f"{world.library} has no type for {request.dtype.name}"
    return None


def _algorithms(
    request: Request,
    operator: Operator,
    choices: Sequence[Choice],
    world: World,
    loop: Loop,
    message: Message,
    user: list[Array],
) -> tuple[list[Candidate], list[Array]]:
    """Bind all algorithms with one operator; return them and what they share but the caller's."""
    resolved = _resolved(request, choices, world, message)
    plans = _plans(request, operator, resolved, world, message)
    place = layout(request.collective, world.rank, world.size, message)
    spaces = working(user, place, *_room(plans), request.partial(operator))
    *_, baseline = request.operators
    calls = [
        Candidate(
            choice.algorithm.name,
            request.label(choice, operator),
            running.values,
            tuple(name for name in running.parameters if name not in choice.parameters),
            _own(plan, operator, spaces, world, loop),
            operator,
            LIBRARY if baseline is request.operator else request.label(choice, baseline),
        )
        for choice, running, plan in zip(choices, resolved, plans, strict=True)
    ]
    return calls, [space for space in spaces if not any(space is theirs for theirs in user)]


def _forced(selection: Selection, call: Call, operator: Operator) -> Candidate:
    choice = selection.choice
    return Candidate(
        choice.algorithm,
        choice.label,
        dict(choice.parameters),
        (),
        call,
        operator,
        selection=selection,
    )


def _own(
    plan: Plan,
    operator: Operator,
    spaces: list[Array],
    world: World,
    loop: Loop,
) -> Call:
    if loop.native:
        return loop.native.plan(plan, spaces, operator)
    return PythonCall(plan, spaces, operator, world.comm)


def _library(
    request: Request,
    loop: Loop,
    message: Message,
    place: Layout,
    spaces: list[Array],
    world: World,
    selection: Selection | None = None,
) -> Call:
    datatype = world.datatype(request.dtype)
    assert datatype is not None
    comm = selection.comm if selection else world.comm
    arguments = (request.collective, message, place, spaces, request.operator)
    if loop.native:
        native = loop.native.on(comm) if selection else loop.native
        try:
            return native.collective(*arguments, datatype)
        except AttributeError:  # no function for so large a count: mpi4py works round that
            pass
    return LibraryCall(*arguments, comm, datatype)


def _resolved(
    request: Request, choices: Sequence[Choice], world: World, message: Message
) -> list[Choice]:
    """Return the choices with what the model chooses for this message."""
    size = message.count * message.itemsize
    return [choice.resolved(world.size, size, request.machine) for choice in choices]


def _plans(
    request: Request,
    operator: Operator,
    choices: Sequence[Choice],
    world: World,
    message: Message,
) -> list[Plan]:
    partial = request.partial(operator)
    wide = replace(message, itemsize=partial.itemsize)
    make = bind if partial == request.dtype else bind_partial
    return [make(c, world.rank, world.size, wide, request.segmentation) for c in choices]


def _room(plans: Sequence[Plan]) -> tuple[int, int]:
    """Return the elements of scratch and of landings that the plans need."""
    scratch, landing = ([plan.scratch for plan in plans], [plan.landing for plan in plans])
    return max([0, *scratch]), max([0, *landing])
