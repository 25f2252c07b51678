"""A schedule of all ranks as JSON, for programs of others.

The document is one object. Blocks are written as ranges ``[first, end]``, the end excluded.

``format``, ``version``
    ``"hpccoll schedule"`` and 1. A change that a reader would notice raises the version; further
    fields don't.
``collective``, ``algorithm``, ``parameters``, ``ranks``, ``root``
    What the schedule is of; lists of numbers are parameters such as ``3x4``.
``commutative``
    Whether the operator must be commutative.
``blocks``, ``natural_blocks``
    Blocks that the schedule names, and blocks of the contract; the first is a multiple of the
    second, and block b of the contract consists of as many successive ones.
``steps``
    Length of the critical path.
``held``, ``wanted``
    By rank: the blocks that it has at the start, and must have at the end.
``schedules``
    By rank, its rounds: ``clock`` (equal at both ends of a message where the schedule promises
    clocks), ``step`` (place on the critical path at which the round ends) and ``actions``.

An action has ``do``, one of ``send``, ``receive``, ``combine`` (with ``peer``, ``blocks``,
``buffer``, ``channel``), ``reduce`` and ``copy`` (with ``blocks``, ``into``, ``source``);
``combine`` and ``reduce`` have a ``side``: where the received or the source's operand stands.
Buffer 0 is the collective's data. What the actions mean is said in `hpccoll.schedule`.
"""

import json
from collections.abc import Iterator

from hpccoll.choice import Choice
from hpccoll.parameter import format_value
from hpccoll.schedule import (
    Action,
    Blocks,
    Combine,
    Copy,
    Recv,
    Reduce,
    Send,
    clocked,
    ranges,
)
from hpccoll.trace import Trace, watch

FORMAT = "hpccoll schedule"
VERSION = 1

_VERBS = {Send: "send", Recv: "receive", Combine: "combine", Reduce: "reduce", Copy: "copy"}


def text(choice: Choice, size: int, root: int = 0) -> str:
    """Return the schedules of all ranks; each round is one line.

    Raises
    ------
    UnsupportedError
        The algorithm isn't defined for `size` ranks.
    VerificationError
        The schedule can't be executed; the message is the counterexample.
    """
    trace = watch(choice, size, root, states=False)
    fields = [
        f"  {json.dumps(name)}: {json.dumps(value, default=format_value)},"
        for name, value in _head(trace)
    ]
    ranks = ",\n".join("    [\n" + ",\n".join(_rounds(trace, r)) + "\n    ]" for r in range(size))
    return "\n".join(["{", *fields, '  "schedules": [', ranks, "  ]", "}\n"])


def _head(trace: Trace) -> Iterator[tuple[str, object]]:
    choice, size = trace.choice, trace.size
    entry = choice.algorithm
    natural = choice.blocks(size)
    yield "format", FORMAT
    yield "version", VERSION
    yield "collective", entry.collective.name
    yield "algorithm", entry.name
    yield "parameters", choice.values
    yield "ranks", size
    yield "root", trace.root
    yield "commutative", entry.commutative
    yield "blocks", trace.grid
    yield "natural_blocks", natural
    yield "steps", trace.steps
    for name, window in (("held", entry.collective.held), ("wanted", entry.collective.wanted)):
        natural_names = (window(rank, size, trace.root, natural) for rank in range(size))
        yield name, [_pieces(names, trace.grid // natural) for names in natural_names]


def _pieces(natural: range, pieces: int) -> list[list[int]]:
    return _names(tuple(range(block * pieces, (block + 1) * pieces) for block in natural))


def _rounds(trace: Trace, rank: int) -> Iterator[str]:
    rounds = clocked(trace.choice.schedule(rank, trace.size, trace.root))
    for (clock, step), end in zip(rounds, trace.ends[rank], strict=True):
        actions = [_action(action) for action in step.actions]
        yield "      " + json.dumps({"clock": clock, "step": end, "actions": actions})


def _action(action: Action) -> dict[str, object]:
    found: dict[str, object] = {"do": _VERBS[type(action)]}
    for name in ("peer", "blocks", "buffer", "channel", "into", "source", "side"):
        if hasattr(action, name):
            value = getattr(action, name)
            found[name] = _names(value) if name == "blocks" else value
    return found


def _names(blocks: Blocks) -> list[list[int]]:
    return [[part.start, part.stop] for part in ranges(blocks)]
