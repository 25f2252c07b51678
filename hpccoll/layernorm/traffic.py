"""What plans move: one rank's bytes and messages, and what each message between ranks carries.

Where partial results are wider than the caller's elements, only messages of partial results carry
them (see `hpccoll.conversions`); so every message counts in bytes of its own elements.
"""

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass

from hpccoll.bind import bind
from hpccoll.choice import Choice
from hpccoll.collectives import ALL
from hpccoll.contents import PARTIAL, contents
from hpccoll.layout import USER, Message, Region
from hpccoll.plan import Plan, PostRecv, PostSend, Reduce


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


def traffic(plan: Plan, itemsize: int, partial: int) -> Traffic:
    """Count what a plan's instructions send, receive and reduce.

    Parameters
    ----------
    itemsize, partial
        Bytes of one of the caller's elements, and of a partial result, in which reductions count.
    """
    sent = received = reduced = messages = 0
    for step in plan.instructions:
        if isinstance(step, PostSend):
            sent += _bytes(step.region, itemsize, partial)
            messages += 1
        elif isinstance(step, PostRecv):
            received += _bytes(step.region, itemsize, partial)
        elif isinstance(step, Reduce):
            reduced += step.into.count * partial
    return Traffic(sent, received, reduced, messages)


def _bytes(region: Region, itemsize: int, partial: int) -> int:
    return region.count * (itemsize if region.space >= USER else partial)


@dataclass(frozen=True, slots=True)
class Carried:
    """The elements of a message, and whether they are partial results."""

    elements: int
    partial: bool


Way = tuple[int, int, int]
"""Source, target and channel: what goes the same way arrives in the order in which it was sent."""


def carried(choice: Choice, size: int, message: Message) -> Mapping[Way, deque[Carried]]:
    """Return what all messages that have elements carry, from the plans of all ranks.

    Parameters
    ----------
    message
        Its elements are partial results.
    """
    found = defaultdict[Way, deque[Carried]](deque)
    completes = choice.algorithm.collective.contributors == ALL
    for rank in range(size):
        plan = bind(choice, rank, size, message)
        sends = [step for step in plan.instructions if isinstance(step, PostSend)]
        for send, content in zip(sends, contents(plan, completes), strict=True):
            if count := send.region.count:
                way = rank, send.peer, send.channel
                found[way].append(Carried(count, content == PARTIAL))
    return found
