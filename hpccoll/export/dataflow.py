"""The plan of a rank as operations that run beside one another, and what each must wait for.

Operations of one line (the messages to a peer, those from a peer, local work) run in their order.
Across lines an operation waits only for what its data need. A plan never touches what is in flight,
so the plan's own order is one in which all of them can run, whatever is sent synchronously.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from hpccoll.errors import UnsupportedError
from hpccoll.layout import Region
from hpccoll.plan import Copy, Plan, PostRecv, PostSend, Reduce, Wait

SEND, RECEIVE, REDUCE, COPY, RECEIVE_REDUCE = "send", "receive", "reduce", "copy", "receive-reduce"

Line = tuple[str, int, int]
"""Direction, peer and channel of messages; local work has a line of its own."""
LOCAL: Line = ("local", -1, 0)


@dataclass(slots=True, eq=False)
class Operation:
    """Something that reads regions and writes one.

    Attributes
    ----------
    source
        What is sent, copied or reduced.
    own
        What a reduction reduces `source`, or what it receives, with.
    begin, end
        Indices of the plan's instructions that start and complete it.
    after
        The operations that it waits for.
    """

    kind: str
    line: Line
    begin: int
    end: int
    source: Region | None = None
    own: Region | None = None
    target: Region | None = None
    after: set["Operation"] = field(default_factory=set)


def operations(plan: Plan) -> list[Operation]:
    """Return the operations of a plan, in an order in which they can run.

    The operator is taken to be commutative. A reduction of what was just received is one operation
    with the receive, if it needn't wait for a message that is in flight with it.

    Raises
    ------
    UnsupportedError
        The plan has a message without data.
    """
    found = list(_started(plan))
    readers = _order(found)
    joined: dict[Operation, Operation] = {}
    for receive in found:
        if receive.kind == RECEIVE and (reduction := _reduction(receive, readers[receive])):
            _join(receive, reduction)
            joined[reduction] = receive
    kept = [operation for operation in found if operation not in joined]
    for operation in kept:
        operation.after = {joined.get(other, other) for other in operation.after} - {operation}
    return kept


def _started(plan: Plan) -> Iterator[Operation]:
    flying: dict[int, Operation] = {}
    for index, instruction in enumerate(plan.instructions):
        if isinstance(instruction, PostSend | PostRecv):
            flying[instruction.slot] = operation = _message(instruction, index)
            yield operation
        elif isinstance(instruction, Wait):
            for slot in instruction.slots:
                flying.pop(slot).end = index
        elif isinstance(instruction, Copy):
            yield Operation(COPY, LOCAL, index, index, instruction.source, None, instruction.into)
        elif isinstance(instruction, Reduce):
            left, right, into = instruction.left, instruction.right, instruction.into
            source, own = (right, left) if into == left else (left, right)
            yield Operation(REDUCE, LOCAL, index, index, source, own, into)


def _message(post: PostSend | PostRecv, index: int) -> Operation:
    if not post.region.count:
        raise UnsupportedError("a message without data can't be expressed; use --format goal")
    if isinstance(post, PostSend):
        return Operation(SEND, (SEND, post.peer, post.channel), index, index, source=post.region)
    return Operation(RECEIVE, (RECEIVE, post.peer, post.channel), index, index, target=post.region)


def _order(found: list[Operation]) -> dict[Operation, list[Operation]]:
    """Let operations wait for those whose data they read or overwrite; return who reads whose."""
    written: dict[tuple[int, int], Operation] = {}
    reading: dict[tuple[int, int], list[Operation]] = defaultdict(list)
    readers: dict[Operation, list[Operation]] = defaultdict(list)
    for operation in found:
        for cell in {c for r in (operation.source, operation.own) if r for c in _cells(r)}:
            if writer := written.get(cell):
                operation.after.add(writer)
                if operation not in readers[writer]:
                    readers[writer].append(operation)
            reading[cell].append(operation)
        for cell in _cells(operation.target) if operation.target else ():
            operation.after |= {*reading.pop(cell, ()), written.get(cell, operation)} - {operation}
            written[cell] = operation
    return readers


def _cells(region: Region) -> Iterator[tuple[int, int]]:
    return ((region.space, cell) for cell in range(region.offset, region.offset + region.count))


def _reduction(receive: Operation, readers: list[Operation]) -> Operation | None:
    """Return the reduction that takes exactly what was received, if the two can be joined."""
    if len(readers) != 1 or readers[0].kind != REDUCE:
        return None
    (reduction,) = readers
    exact = receive.target in (reduction.source, reduction.own)
    free = all(other.end < receive.begin for other in reduction.after - {receive})
    return reduction if exact and free else None


def _join(receive: Operation, reduction: Operation) -> None:
    """Make a receive reduce what it receives."""
    other = reduction.own if reduction.source == receive.target else reduction.source
    receive.kind, receive.own, receive.target = RECEIVE_REDUCE, other, reduction.target
    receive.after |= reduction.after - {receive}
