"""What competes in one measurement: every algorithm, and the library, bound to the same buffers."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

import numpy as np

from hpccoll.bind import bind
from hpccoll.buffers import allocate, check_memory
from hpccoll.choice import Choice
from hpccoll.datatypes import Array
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
        These and the scratch memory.
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
        wide = (place.input + place.output) * _wide(request).itemsize if _widens(request) else 0
        own = (place.input + place.output) * request.dtype.itemsize
        # Before plans are bound: they take long where a size is far too large.
        check_memory(world, own + wide, what)
        plans = _plans(request, _resolved(request, choices, world, message), world, message)
        need = max(need, own + wide + _scratch(plans) * _wide(request).itemsize)
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
    resolved = _resolved(request, choices, world, message)
    plans = _plans(request, resolved, world, message)
    spaces = allocate(place, _scratch(plans), _wide(request))
    user = allocate(place, 0, request.dtype)[:2] if _widens(request) else spaces[:2]
    calls = [
        Candidate(
            choice.algorithm.name,
            choice.label,
            running.values,
            tuple(name for name in running.parameters if name not in choice.parameters),
            _own(request, world, loop, plan, spaces, user if _widens(request) else None),
        )
        for choice, running, plan in zip(choices, resolved, plans, strict=True)
    ]
    function = function_of(request.collective, message, world.size)
    selected, skipped = selections.of(function, message)
    if world.datatype(request.dtype) is None:
        reason = f"{REFUSED}{world.library} has no type for {request.dtype.name}"
        skipped |= {selection.choice.label: reason for selection in selected}
    else:
        bound = (request, loop, message, place, user)
        if request.library:
            calls.append(Candidate(LIBRARY, LIBRARY, {}, (), _library(*bound, world)))
        calls += [_forced(selection, _library(*bound, world, selection)) for selection in selected]
    return Candidates(tuple(calls), place, user, [*user, *spaces[2:]], skipped)


def _forced(selection: Selection, call: Call) -> Candidate:
    choice = selection.choice
    return Candidate(choice.algorithm, choice.label, dict(choice.parameters), (), call, selection)


def _own(
    request: Request,
    world: World,
    loop: Loop,
    plan: Plan,
    spaces: list[Array],
    user: list[Array] | None,
) -> Call:
    if loop.native:
        return loop.native.plan(plan, spaces, request.operator, user)
    return PythonCall(plan, spaces, request.operator, world.comm, user)


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


def _widens(request: Request) -> bool:
    """Tell whether partial results are kept and sent in a wider type than the caller's."""
    return request.collective.reduces and request.accumulate == "float32"


def _wide(request: Request) -> "np.dtype[np.generic]":
    return np.dtype(np.float32) if _widens(request) else request.dtype


def _resolved(
    request: Request, choices: Sequence[Choice], world: World, message: Message
) -> list[Choice]:
    """Return the choices with what the model chooses for this message."""
    size = message.count * message.itemsize
    return [choice.resolved(world.size, size, request.machine) for choice in choices]


def _plans(
    request: Request, choices: Sequence[Choice], world: World, message: Message
) -> list[Plan]:
    wide = replace(message, itemsize=_wide(request).itemsize)
    return [bind(c, world.rank, world.size, wide, request.segmentation) for c in choices]


def _scratch(plans: Sequence[Plan]) -> int:
    return max([0, *(plan.scratch for plan in plans)])
