"""A schedule in the XML of MSCCL, which runs it on GPUs inside NCCL's interface.

A thread block of the file takes the messages to one peer or from one peer, or local work, so that
none waits for another but for data. MSCCL's operators are commutative, so the sides of operands are
dropped; the order in which partial results are reduced is kept.

References
----------
Cowan, Maleki, Musuvathi, Saarikivi, Xiong, ASPLOS 2023, doi:10.1145/3575693.3575724; the format and
its limits are those of the runtime's own reader, https://github.com/microsoft/msccl.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import quoteattr

from hpccoll.bind import bind
from hpccoll.choice import Choice
from hpccoll.errors import UnsupportedError
from hpccoll.export.dataflow import (
    COPY,
    LOCAL,
    RECEIVE,
    RECEIVE_REDUCE,
    REDUCE,
    SEND,
    Line,
    Operation,
    operations,
)
from hpccoll.layout import Message, Region
from hpccoll.messages import PACK_BYTES
from hpccoll.plan import Plan
from hpccoll.segmentation import Segmentation
from hpccoll.verify import execute

COLLECTIVES = {
    "allreduce": "allreduce",
    "reduce-scatter": "reduce_scatter",
    "allgather": "allgather",
    "bcast": "broadcast",
    "reduce": "reduce",
    "alltoall": "alltoall",
}
"""What MSCCL calls the collectives that it has."""
MOST_STEPS = 256
MOST_CHUNKS = 71
MOST_PEERS = 32
MOST_THREAD_BLOCKS = 216
"""Limits of the runtime: of a thread block, a step, a channel and a GPU."""
_CHUNK = PACK_BYTES + 1
"""Bytes of a chunk for binding: so long that separate ranges become messages and aren't packed."""
_BUFFERS = "ios"
_TYPES = {SEND: "s", RECEIVE: "r", RECEIVE_REDUCE: "rrc", REDUCE: "re", COPY: "cpy"}


def text(choice: Choice, size: int, root: int = 0) -> str:
    """Return the schedules of all ranks; a block of the schedule is a chunk.

    Raises
    ------
    UnsupportedError
        The algorithm isn't defined for `size` ranks, or MSCCL can't express it.
    VerificationError
        The schedule can't be executed; the message is the counterexample.
    """
    entry = choice.algorithm
    if entry.collective.name not in COLLECTIVES:
        raise UnsupportedError(
            f"MSCCL has no {entry.collective.name}, only {', '.join(COLLECTIVES)}; "
            "use --format json or goal"
        )
    execute(choice, size, root)
    message = Message(choice.vector(size), _CHUNK, root)
    segmentation = Segmentation(MOST_CHUNKS * _CHUNK)
    plans = [bind(choice, rank, size, message, segmentation) for rank in range(size)]
    programs = [_program(plan) for plan in plans]
    _check_limits(programs)
    where = f" root {root}" if entry.collective.rooted else ""
    attributes = {
        "name": f"{choice.label}{where}"[:63],
        "proto": "Simple",
        "nchannels": 1 + max((line[2] for program in programs for line in program), default=0),
        "nchunksperloop": max(max(plan.layout.input, plan.layout.output) for plan in plans),
        "ngpus": size,
        "coll": COLLECTIVES[entry.collective.name],
        "inplace": int(all(plan.layout.in_place for plan in plans)),
    }
    gpus = [
        line for plan, program in zip(plans, programs, strict=True) for line in _gpu(plan, program)
    ]
    return "\n".join([f"<algo{_attributes(attributes)}>", *gpus, "</algo>", ""])


@dataclass(frozen=True, slots=True)
class _Step:
    """A step of a thread block; without a `kind` it only waits.

    Attributes
    ----------
    waits
        Thread block, by its line, and step that must be over before.
    awaited
        Another thread block waits for this step.
    """

    kind: str
    source: Region | None
    target: Region | None
    waits: tuple[Line, int] | None
    awaited: bool


Program = dict[Line, list[_Step]]
"""A GPU's thread blocks."""


def _program(plan: Plan) -> Program:
    """Return the steps of a plan; what waits for several others does so in steps of their own."""
    found = list(_two_addresses(operations(plan)))
    needed = _needed(found)
    awaited = {other for others in needed.values() for other in others}
    program: Program = {}
    place: dict[Operation, int] = {}
    for operation in found:
        steps = program.setdefault(operation.line, [])
        waits = [(other.line, place[other]) for other in needed[operation]]
        steps += [_Step("", None, None, waiting, False) for waiting in waits[:-1]]
        place[operation] = len(steps)
        # The runtime runs successive reductions into one place as one, with the count of the last,
        # unless they are awaited.
        flag = operation in awaited or operation.kind == REDUCE
        source = operation.own if operation.kind == RECEIVE_REDUCE else operation.source
        last = waits[-1] if waits else None
        steps.append(_Step(operation.kind, source, operation.target, last, flag))
    return program


def _two_addresses(found: list[Operation]) -> Iterator[Operation]:
    """Split a reduction into a third place into a copy and a reduction."""
    for operation in found:
        if operation.kind == REDUCE and operation.own != operation.target:
            copy = Operation(COPY, LOCAL, operation.begin, operation.end)
            copy.source, copy.target, copy.after = operation.own, operation.target, operation.after
            yield copy
        yield operation


def _needed(found: list[Operation]) -> dict[Operation, list[Operation]]:
    """Return what operations must wait for explicitly: not what the order of their line implies."""
    place = {operation: index for index, operation in enumerate(found)}
    over: dict[Operation, dict[Line, int]] = {}
    previous: dict[Line, Operation] = {}
    needed: dict[Operation, list[Operation]] = {}
    for operation in found:
        known = dict(over[previous[operation.line]]) if operation.line in previous else {}
        needed[operation] = []
        for other in sorted(operation.after, key=place.__getitem__, reverse=True):
            if known.get(other.line, -1) < place[other]:
                needed[operation].append(other)
                for line, index in over[other].items():
                    known[line] = max(index, known.get(line, -1))
        known[operation.line] = place[operation]
        over[operation], previous[operation.line] = known, operation
    return needed


def _check_limits(programs: list[Program]) -> None:
    per_channel = [
        sum(line[0] == way and line[2] == channel for line in program)
        for program in programs
        for way in (SEND, RECEIVE)
        for channel in {line[2] for line in program}
    ]
    for what, limit, found in (
        ("steps of a thread block", MOST_STEPS, [len(s) for p in programs for s in p.values()]),
        ("thread blocks of a GPU", MOST_THREAD_BLOCKS, map(len, programs)),
        ("peers of a GPU on one channel", MOST_PEERS, per_channel),
    ):
        if (most := max(found, default=0)) > limit:
            raise UnsupportedError(
                f"MSCCL takes at most {limit} {what}, this needs {most}; use fewer ranks, or "
                "--format json or goal"
            )


def _gpu(plan: Plan, program: Program) -> Iterator[str]:
    layout = plan.layout
    chunks = {"i_chunks": layout.input, "o_chunks": layout.output, "s_chunks": plan.scratch}
    number = {line: index for index, line in enumerate(program)}
    yield f"  <gpu{_attributes({'id': plan.rank, **chunks})}>"
    for line, steps in program.items():
        way, peer, channel = line
        peers = {"send": peer if way == SEND else -1, "recv": peer if way == RECEIVE else -1}
        yield f"    <tb{_attributes({'id': number[line], **peers, 'chan': channel})}>"
        for index, step in enumerate(steps):
            yield f"      <step{_attributes(_step(index, step, number))}/>"
        yield "    </tb>"
    yield "  </gpu>"


def _step(index: int, step: _Step, number: dict[Line, int]) -> dict[str, object]:
    source, target = step.source, step.target
    line, waited = step.waits or (None, -1)
    region = source or target
    return {
        "s": index,
        "type": _TYPES.get(step.kind, "nop"),
        "srcbuf": _BUFFERS[source.space] if source else "i",
        "srcoff": source.offset if source else -1,
        "dstbuf": _BUFFERS[target.space] if target else "o",
        "dstoff": target.offset if target else -1,
        "cnt": region.count if region else 0,
        "depid": number[line] if line else -1,
        "deps": waited,
        "hasdep": int(step.awaited),
    }


def _attributes(values: dict[str, object]) -> str:
    return "".join(f" {name}={quoteattr(str(value))}" for name, value in values.items())
