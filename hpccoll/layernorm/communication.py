"""The collectives of one rank, bound to buffers before they are called, and what they move.

An order of operations asks for collectives by name; hpccoll's own plans run them, or the MPI
library. Everything that a call needs is made when it is bound: calling it allocates nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hpccoll.bind import bind
from hpccoll.buffers import working
from hpccoll.choice import Choice
from hpccoll.collectives import COLLECTIVES
from hpccoll.conversions import bind_partial
from hpccoll.datatypes import OPERATORS, Array, bits
from hpccoll.engines.call import Call
from hpccoll.engines.library import LibraryCall
from hpccoll.engines.python import PythonCall
from hpccoll.errors import UnsupportedError
from hpccoll.layernorm.traffic import Traffic, traffic
from hpccoll.layernorm.workspace import Workspace
from hpccoll.layout import Layout, Message, Region, layout
from hpccoll.plan import Convert, Copy, Plan, PostRecv, PostSend, Reduce, Scale
from hpccoll.registry import LIBRARY
from hpccoll.sampling import Loop
from hpccoll.spelling import choose
from hpccoll.world import World

SUM = OPERATORS["sum"]
Between = Callable[[Array, int], None]
"""What is done to some rows, of which the second argument is the first's number."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A collective bound to buffers.

    Attributes
    ----------
    choice
        The algorithm, None for the library.
    message
        Its elements are partial results.
    itemsize
        Bytes of one of the caller's elements.
    traffic
        What it moves; None for the library, whose messages nobody sees.
    extra
        Bytes that were allocated for it.
    """

    collective: str
    choice: Choice | None
    message: Message
    itemsize: int
    call: Call
    traffic: Traffic | None
    extra: int

    @property
    def label(self) -> str:
        """Return the algorithm as it is chosen, or that it is the library's."""
        return self.choice.label if self.choice else LIBRARY

    @property
    def widens(self) -> bool:
        """Tell whether partial results are wider than the caller's elements."""
        return self.message.itemsize != self.itemsize


class Communication:
    """The collectives of one rank, by hpccoll's algorithms or the library's.

    Parameters
    ----------
    choices
        An algorithm for every collective; None for the library's own.
    workspace
        Where scratch memory comes from.
    accumulate
        ``storage``, or ``float32``: reductions of 16-bit floats keep and send partial results so.
    """

    def __init__(
        self,
        world: World,
        loop: Loop,
        choices: Mapping[str, Choice] | None,
        workspace: Workspace,
        accumulate: str = "storage",
    ) -> None:
        self.world, self.loop, self.workspace = world, loop, workspace
        self.rank, self.size = world.rank, world.size
        self._choices, self._accumulate = choices, accumulate

    @property
    def own(self) -> bool:
        """Tell whether hpccoll's algorithms run, and not the library's."""
        return self._choices is not None

    def partial(self, collective: str, of: np.dtype[Any]) -> np.dtype[Any]:
        """Return the type of partial results: the caller's, or one that is wider."""
        reduces = COLLECTIVES[collective].reduces
        widens = reduces and self._accumulate == "float32" and of.itemsize == 2
        return np.dtype(np.float32) if widens else of

    def bind(
        self,
        collective: str,
        source: Array | None,
        target: Array,
        *,
        counts: Sequence[int] | None = None,
        in_place: bool = False,
        average: bool = False,
        choice: Choice | None = None,
    ) -> Bound:
        """Bind a collective with root 0.

        Parameters
        ----------
        source, target
            What the rank gives and gets, C-contiguous; in place, and of a broadcast, only the
            target. A rank that gets nothing may give any target.
        counts
            Elements of each rank's block, where the collective has blocks.
        choice
            Another algorithm than the one chosen for the collective.

        Raises
        ------
        UnsupportedError
            The library can't: it has no such type, or doesn't accumulate in another one.
        """
        of, itemsize = COLLECTIVES[collective], target.dtype.itemsize
        given = None if counts is None else tuple(counts)
        count = (target if source is None else source).size if given is None else sum(given)
        message = Message(count, itemsize, 0, in_place, average=average, counts=given)
        place = layout(of, self.rank, self.size, message)
        empty = np.empty(0, target.dtype)
        spaces = [
            source.reshape(-1) if source is not None and place.input else empty,
            target.reshape(-1) if place.output else empty,
        ]
        if self._choices is None and choice is None:
            return self._library(collective, message, place, spaces)
        chosen = (choice or (self._choices or {})[collective]).resolved(
            self.size, message.count * itemsize
        )
        return self._own(collective, chosen, message, spaces)

    def _own(self, collective: str, choice: Choice, message: Message, user: list[Array]) -> Bound:
        partial = self.partial(collective, user[1].dtype)
        wide = replace(message, itemsize=partial.itemsize)
        plan = self._plan(choice, wide, wide != message)
        spaces = self._working(plan, user, partial)
        return Bound(
            collective,
            choice,
            wide,
            message.itemsize,
            self._call(plan, spaces),
            traffic(plan, message.itemsize, wide.itemsize),
            _bytes(spaces) - _bytes(user),
        )

    def fused(self, source: Array, target: Array, segments: int, between: Between) -> Bound:
        """Bind a reduction along a chain to rank 0, and the way of its segments back along it.

        Parameters
        ----------
        segments
            Into how many segments of whole rows the vector is cut.
        between
            What rank 0 does to the rows of a segment of the target, in place, before it sends them
            on.
        """
        tokens, hidden = source.shape
        (choice,) = choose("allreduce", f"chain:segments={segments}")
        of, partial = source.dtype, self.partial("allreduce", source.dtype)
        rows = Message(tokens, hidden * partial.itemsize)
        plan = in_elements(self._plan(choice, rows, partial != of), hidden)
        user = [source.reshape(-1), target.reshape(-1)]
        spaces = self._working(plan, user, partial)

        def before(region: Region) -> None:
            # All that rank 0 sends are results, which are in the target, in the caller's type.
            part = user[1][region.offset : region.offset + region.count]
            between(part.reshape(-1, hidden), region.offset // hidden)

        call = self._call(plan, spaces)
        if self.rank == 0:
            # Between two instructions: the extension runs a plan to its end without coming back.
            call = PythonCall(plan, spaces, SUM, self.world.comm, before_send=before)
        return Bound(
            "allreduce",
            choice,
            rows,
            hidden * of.itemsize,
            call,
            traffic(plan, of.itemsize, partial.itemsize),
            _bytes(spaces) - _bytes(user),
        )

    def _plan(self, choice: Choice, message: Message, widens: bool) -> Plan:
        return (bind_partial if widens else bind)(choice, self.rank, self.size, message)

    def _working(self, plan: Plan, user: list[Array], partial: np.dtype[Any]) -> list[Array]:
        room = (plan.scratch, plan.landing)
        return working(user, plan.layout, *room, partial, self.workspace.array)

    def _call(self, plan: Plan, spaces: list[Array]) -> Call:
        """Bind a plan to buffers by the engine of this run."""
        if self.loop.native:
            return self.loop.native.plan(plan, spaces, SUM)
        return PythonCall(plan, spaces, SUM, self.world.comm)

    def _library(
        self, collective: str, message: Message, place: Layout, spaces: list[Array]
    ) -> Bound:
        of, dtype = COLLECTIVES[collective], spaces[1].dtype
        if self.partial(collective, dtype) != dtype:
            raise UnsupportedError(f"{self.world.library} accumulates in the type itself")
        if not of.reduces:  # what is only moved needs no name for its type
            spaces = [bits(space) for space in spaces]
        datatype = self.world.datatype(spaces[1].dtype)
        if datatype is None:
            raise UnsupportedError(f"{self.world.library} has no type for {dtype.name}")
        arguments = (of, message, place, spaces, SUM)
        call: Call
        try:
            if self.loop.native is None:
                raise AttributeError
            call = self.loop.native.collective(*arguments, datatype)
        except AttributeError:  # no function for so large a count: mpi4py works round that
            call = LibraryCall(*arguments, self.world.comm, datatype)
        return Bound(collective, None, message, message.itemsize, call, None, 0)


def _bytes(spaces: Sequence[Array]) -> int:
    return sum(space.nbytes for space in spaces)


def in_elements(plan: Plan, row: int) -> Plan:
    """Return a plan that counts rows as one that counts their elements, `row` of them each."""

    def scaled(region: Region) -> Region:
        return Region(region.space, region.offset * row, region.count * row)

    def moved(step: Any) -> Any:
        names = ("region", "into", "left", "right", "source")
        regions = {name: getattr(step, name) for name in names if hasattr(step, name)}
        return replace(step, **{name: scaled(region) for name, region in regions.items()})

    kinds = (PostSend, PostRecv, Reduce, Copy, Convert, Scale)
    steps = tuple(moved(s) if isinstance(s, kinds) else s for s in plan.instructions)
    place = plan.layout
    elements = replace(
        place,
        held=scaled(place.held),
        result=scaled(place.result),
        input=place.input * row,
        output=place.output * row,
    )
    room = {"scratch": plan.scratch * row, "landing": plan.landing * row}
    return replace(plan, instructions=steps, layout=elements, **room)
