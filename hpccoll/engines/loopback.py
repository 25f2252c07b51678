"""The loopback engine: the plans of all ranks in one process, on real arrays, without MPI.

It finds what a proof about names can't: wrong offsets, wrong packing order, data read too late. A
message is copied as late as its waits allow, so a plan that touches bytes in flight gives wrong
results here and not only on an unlucky day.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpccoll.datatypes import INTEGER, convert, converted, divide, kind
from hpccoll.errors import HangError
from hpccoll.layout import OUTPUT, USER, Region
from hpccoll.plan import Convert, Plan, PostRecv, PostSend, Reduce, Scale, Wait

Array = NDArray[Any]


class _Rank:
    def __init__(self, plan: Plan, spaces: Sequence[Array]) -> None:
        self.plan = plan
        self.spaces = spaces
        self.next = 0
        self.open: dict[int, tuple[_Channel, int]] = {}

    @property
    def partial(self) -> np.dtype[Any]:
        return self.spaces[0].dtype

    def view(self, region: Region) -> Array:
        return self.spaces[region.space][region.offset : region.offset + region.count]


class _Channel:
    """Messages of one sender to one receiver on one channel, matched in order."""

    def __init__(self) -> None:
        self.sends: deque[Array] = deque()
        self.receives: deque[Array] = deque()
        self.delivered = 0

    def post(self, queue: "deque[Array]", region: Array) -> "tuple[_Channel, int]":
        queue.append(region)
        return self, self.delivered + len(queue)

    def deliver(self, upto: int) -> bool:
        """Deliver the first `upto` messages, and tell whether both ends of them are there."""
        while self.delivered < upto:
            if not (self.sends and self.receives):
                return False
            source, target = self.sends.popleft(), self.receives.popleft()
            if source.size != target.size:
                raise HangError(f"a message of {source.size} meets a receive of {target.size}")
            target[:] = source
            self.delivered += 1
        return True


def run(
    plans: Sequence[Plan],
    inputs: Sequence[Array],
    operator: Callable[..., Any] = np.add,
    partial: np.dtype[Any] | None = None,
) -> list[Array]:
    """Run the plans of all ranks and return every rank's output space.

    Parameters
    ----------
    inputs
        Per rank the elements that it holds, shape ``(held,)``; in place they are copied to where
        the plan expects them in the output.
    operator
        A ufunc with an ``out`` argument.
    partial
        The type of partial results, if the plans convert to it.

    Raises
    ------
    HangError
        No rank can go on, or two ends of a message differ in size.
    """
    ranks = [
        _Rank(plan, _spaces(plan, data, partial)) for plan, data in zip(plans, inputs, strict=True)
    ]
    channels: dict[tuple[int, int, int], _Channel] = {}
    while any(rank.next < len(rank.plan.instructions) for rank in ranks):
        if not any([_advance(rank, channels, operator) for rank in ranks]):
            raise HangError("; ".join(_waiting(rank) for rank in ranks if _waiting(rank)))
    return [rank.spaces[OUTPUT if partial is None else USER + OUTPUT] for rank in ranks]


def _spaces(plan: Plan, data: Array, partial: np.dtype[Any] | None) -> list[Array]:
    layout = plan.layout
    output = _unwritten(layout.output, data.dtype)
    if layout.in_place:
        output[layout.held.offset : layout.held.offset + layout.held.count] = data
    user = [data[: layout.input], output]
    if partial is None:
        return [*user, _unwritten(plan.scratch, data.dtype)]
    own = [_unwritten(count, partial) for count in (layout.input, layout.output, plan.scratch)]
    return [*own, *user, _unwritten(plan.landing, data.dtype)]


def _unwritten(count: int, of: np.dtype[Any]) -> Array:
    """Return elements that mark what nobody wrote: not-a-number, or the largest integer."""
    if kind(of) == INTEGER:
        return np.full(count, np.iinfo(of).max, of)
    return np.full(count, -1 if of.names else np.nan, of)


def _advance(
    rank: _Rank, channels: dict[tuple[int, int, int], _Channel], operator: Callable[..., Any]
) -> bool:
    start = rank.next
    table = rank.plan.instructions
    me = rank.plan.rank
    while rank.next < len(table):
        step = table[rank.next]
        if isinstance(step, PostSend):
            channel = channels.setdefault((me, step.peer, step.channel), _Channel())
            rank.open[step.slot] = channel.post(channel.sends, rank.view(step.region))
        elif isinstance(step, PostRecv):
            channel = channels.setdefault((step.peer, me, step.channel), _Channel())
            rank.open[step.slot] = channel.post(channel.receives, rank.view(step.region))
        elif isinstance(step, Wait):
            # Every slot is tried, so that one message doesn't wait for another that needs it.
            if not all(
                [channel.deliver(n) for channel, n in map(rank.open.__getitem__, step.slots)]
            ):
                break
        elif isinstance(step, Convert):
            convert(rank.view(step.source), rank.view(step.into))
        elif isinstance(step, Scale):
            divide(rank.view(step.region), rank.plan.size)
        elif isinstance(step, Reduce):
            operands = (converted(rank.view(r), rank.partial) for r in (step.left, step.right))
            convert(operator(*operands), rank.view(step.into))
        else:
            rank.view(step.into)[:] = rank.view(step.source)
        rank.next += 1
    return rank.next > start


def _waiting(rank: _Rank) -> str:
    step = rank.plan.instructions[rank.next] if rank.next < len(rank.plan.instructions) else None
    return f"rank {rank.plan.rank} waits in round {step.round}" if isinstance(step, Wait) else ""
