"""The collectives of one rank, bound to buffers before they are called, and what they move.

An order of operations asks for collectives by name; hpccoll's own plans run them, or the MPI
library. Everything that a call needs is made when it is bound: calling it allocates nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hpccoll.bind import bind
from hpccoll.collectives import COLLECTIVES
from hpccoll.datatypes import OPERATORS, Array, bits
from hpccoll.engines.call import Call
from hpccoll.engines.library import LibraryCall
from hpccoll.engines.python import PythonCall
from hpccoll.errors import UnsupportedError
from hpccoll.layernorm.workspace import Workspace
from hpccoll.layout import Layout, Message, Region, layout
from hpccoll.plan import Copy, Plan, PostRecv, PostSend, Reduce, Scale
from hpccoll.registry import LIBRARY, Choice
from hpccoll.sampling import Loop
from hpccoll.spelling import choose
from hpccoll.world import World

SUM = OPERATORS["sum"]
Between = Callable[[Array, int], None]
"""What is done to some rows, of which the second argument is the first's number."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one rank moves in a call, counted from its plan, in bytes and messages."""

    sent: int = 0
    received: int = 0
    reduced: int = 0
    messages: int = 0

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(
            self.sent + other.sent,
            self.received + other.received,
            self.reduced + other.reduced,
            self.messages + other.messages,
        )


@dataclass(frozen=True, slots=True)
class Bound:
    """A collective bound to buffers.

    Attributes
    ----------
    choice
        The algorithm, None for the library.
    traffic
        What it moves; None for the library, whose messages nobody sees.
    extra
        Bytes that were allocated for it.
    """

    collective: str
    choice: Choice | None
    message: Message
    call: Call
    traffic: Traffic | None
    extra: int

    @property
    def label(self) -> str:
        """Return the algorithm as it is chosen, or that it is the library's."""
        return self.choice.label if self.choice else LIBRARY


def traffic(plan: Plan, itemsize: int) -> Traffic:
    """Count what a plan's instructions send, receive and reduce."""
    sent = received = reduced = messages = 0
    for step in plan.instructions:
        if isinstance(step, PostSend):
            sent += step.region.count
            messages += 1
        elif isinstance(step, PostRecv):
            received += step.region.count
        elif isinstance(step, Reduce):
            reduced += step.into.count
    return Traffic(sent * itemsize, received * itemsize, reduced * itemsize, messages)


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

    def widens(self, collective: str, of: np.dtype[Any]) -> bool:
        """Tell whether partial results are kept and sent in a wider type than the caller's."""
        reduces = COLLECTIVES[collective].reduces
        return reduces and self._accumulate == "float32" and of.itemsize == 2

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
        return self._own(collective, chosen, message, place, spaces)

    def _own(
        self,
        collective: str,
        choice: Choice,
        message: Message,
        place: Layout,
        spaces: list[Array],
    ) -> Bound:
        wide = np.dtype(np.float32)
        if self.widens(collective, spaces[1].dtype):
            message = replace(message, itemsize=wide.itemsize)
            plan = bind(choice, self.rank, self.size, message)
            counts = (place.input, place.output, plan.scratch)
            buffers = [self.workspace.array(count, wide) for count in counts]
            call = self.call(plan, buffers, spaces)
            extra = sum(buffer.nbytes for buffer in buffers)
        else:
            plan = bind(choice, self.rank, self.size, message)
            buffers = [*spaces, self.workspace.array(plan.scratch, spaces[1].dtype)]
            call, extra = self.call(plan, buffers), buffers[2].nbytes
        return Bound(collective, choice, message, call, traffic(plan, message.itemsize), extra)

    def fused(self, source: Array, target: Array, segments: int, between: Between) -> Bound:
        """Bind a reduction along a chain to rank 0, and the way of its segments back along it.

        Parameters
        ----------
        segments
            Into how many segments of whole rows the vector is cut.
        between
            What rank 0 does to the rows of a segment, in place, before it sends them on.
        """
        tokens, hidden = source.shape
        (choice,) = choose("allreduce", f"chain:segments={segments}")
        of = np.dtype(np.float32) if self.widens("allreduce", source.dtype) else source.dtype
        message = Message(tokens, hidden * of.itemsize)
        plan = in_elements(bind(choice, self.rank, self.size, message), hidden)
        user = [source.reshape(-1), target.reshape(-1)]
        widens = of != source.dtype
        wide = [self.workspace.array(space.size, of) for space in user] if widens else []
        spaces = [*(wide or user), self.workspace.array(plan.scratch, of)]

        def before(region: Region) -> None:
            part = spaces[region.space][region.offset : region.offset + region.count]
            between(part.reshape(-1, hidden), region.offset // hidden)

        call = self.call(plan, spaces, user if wide else None)
        if self.rank == 0:
            # Between two instructions: the extension runs a plan to its end without coming back.
            call = PythonCall(
                plan, spaces, SUM, self.world.comm, user if wide else None, before_send=before
            )
        extra = sum(space.nbytes for space in (*wide, spaces[2]))
        return Bound("allreduce", choice, message, call, traffic(plan, of.itemsize), extra)

    def call(self, plan: Plan, spaces: list[Array], user: list[Array] | None = None) -> Call:
        """Bind a plan to buffers by the engine of this run."""
        if self.loop.native:
            return self.loop.native.plan(plan, spaces, SUM, user)
        return PythonCall(plan, spaces, SUM, self.world.comm, user)

    def _library(
        self, collective: str, message: Message, place: Layout, spaces: list[Array]
    ) -> Bound:
        of, dtype = COLLECTIVES[collective], spaces[1].dtype
        if self.widens(collective, dtype):
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
        return Bound(collective, None, message, call, None, 0)


def in_elements(plan: Plan, row: int) -> Plan:
    """Return a plan that counts rows as one that counts their elements, `row` of them each."""

    def scaled(region: Region) -> Region:
        return Region(region.space, region.offset * row, region.count * row)

    def moved(step: Any) -> Any:
        names = ("region", "into", "left", "right", "source")
        regions = {name: getattr(step, name) for name in names if hasattr(step, name)}
        return replace(step, **{name: scaled(region) for name, region in regions.items()})

    kinds = (PostSend, PostRecv, Reduce, Copy, Scale)
    steps = tuple(moved(s) if isinstance(s, kinds) else s for s in plan.instructions)
    place = plan.layout
    elements = replace(
        place,
        held=scaled(place.held),
        result=scaled(place.result),
        input=place.input * row,
        output=place.output * row,
    )
    return replace(plan, instructions=steps, layout=elements, scratch=plan.scratch * row)
