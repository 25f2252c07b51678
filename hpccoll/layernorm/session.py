"""A run: judge every order with every input, then time them all, and say what came out."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hpccoll.buffers import check_memory
from hpccoll.datatypes import Array
from hpccoll.errors import CheckError, EndedError
from hpccoll.launch import Launch
from hpccoll.layernorm import backward_table, records, table, verdict_table
from hpccoll.layernorm.backward_session import BackwardPasses
from hpccoll.layernorm.candidates import SMALLER, Candidate, candidates
from hpccoll.layernorm.comparison import Comparison
from hpccoll.layernorm.inputs import Inputs
from hpccoll.layernorm.judge import Judge
from hpccoll.layernorm.metrics import digest
from hpccoll.layernorm.orders import AT_ROOT
from hpccoll.layernorm.program import Buffers
from hpccoll.layernorm.reading import results
from hpccoll.layernorm.report import Report
from hpccoll.layernorm.request import Request
from hpccoll.layernorm.resources import resources
from hpccoll.layernorm.timing import measure
from hpccoll.results import Record, Writer
from hpccoll.sampling import Loop, choose_engine
from hpccoll.session import Continuation, Echo, Sink, ended_by
from hpccoll.watchdog import Watchdog
from hpccoll.world import World

ROWS, EXACT_ROWS = 4, 16
"""Memory in units of one rank's rows: input, output, residual and what is being drawn; and on rank
0, in float64, what results are judged by."""


@dataclass(frozen=True, slots=True)
class Files:
    """What rank 0 writes.

    Attributes
    ----------
    records
        JSON Lines.
    report
        The page of what they say.
    force
        Overwrite the records.
    """

    records: Path | None
    report: Report | None
    force: bool

    def open(self, stack: ExitStack) -> Writer | None:
        """Make all files before anything runs; return the writer of the records."""
        if self.report:
            self.report.reserve()
        if self.records is None:
            return None
        return stack.enter_context(Writer(self.records, self.force))


def run(
    request: Request,
    world: World,
    launch: Launch,
    files: Files,
    echo: Echo,
    continuation: Continuation | None = None,
) -> None:
    """Compare what was asked, on all ranks together; rank 0 writes and speaks.

    What is written is all in one, at the end: nothing that an earlier run left is taken over.

    Raises
    ------
    UsageError
        These ranks can't do what was asked, or the output can't be written.
    CheckError
        An order's result isn't what theory says of it.
    EndedError
        The continuation was told to end; nothing is written.
    """
    request.check_ranks(world.placement)
    inputs = [request.input(name, world.size) for name in request.inputs]
    _check_memory(request, world)
    native, without = choose_engine(world, request.engine)
    with ExitStack() as stack:
        watchdog = stack.enter_context(Watchdog(request.timeout, world.rank))
        watchdog.pause()
        loop = Loop(world, native, watchdog)
        compared, buffers, passes = _bound(request, world, loop, inputs[0])
        writer = world.first(lambda: _open(files, continuation, stack))
        _say(echo, world, lambda: table.header(request, world, loop, without))
        _judge(compared, world, loop, buffers, inputs, passes, echo, continuation)
        _end_if_told(world, continuation, "everything left to time")
        _time(compared, world, loop, buffers, inputs[0], passes, echo)
        if world.rank == 0:
            head = records.run_record(request, world, launch, _engine(loop))
            _write(files, writer, [head, *records.records(compared)])
    if wrong := world.comm.bcast(compared.contradictions):
        raise CheckError(
            f"{wrong} result{' is' if wrong == 1 else 's are'} not what theory says of the order"
        )


def _bound(
    request: Request, world: World, loop: Loop, inputs: Inputs
) -> tuple[Comparison, Buffers, BackwardPasses | None]:
    """Bind all orders, and the backward passes if they are wanted, and count what they use."""
    buffers = Buffers.allocate(inputs)
    made, skipped = candidates(request, world, loop, buffers)
    passes = BackwardPasses(request, world, loop, buffers) if request.backward else None
    compared = Comparison(request, made, resources(request, world, made), skipped)
    compared.backward = passes.made if passes else ()
    return compared, buffers, passes


def _judge(
    compared: Comparison,
    world: World,
    loop: Loop,
    buffers: Buffers,
    inputs: Sequence[Inputs],
    passes: BackwardPasses | None,
    echo: Echo,
    continuation: Continuation | None,
) -> None:
    for done, given in enumerate(inputs):
        _end_if_told(world, continuation, f"{len(inputs) - done} inputs left to judge")
        judge_all(compared, world, loop, buffers, given, passes)
    judged, request = compared.judged, compared.request
    _say(echo, world, lambda: verdict_table.verdicts(judged, request, world.size))
    if any(not one.correct for one in judged):
        _say(echo, world, lambda: verdict_table.why(judged))


def _time(
    compared: Comparison,
    world: World,
    loop: Loop,
    buffers: Buffers,
    inputs: Inputs,
    passes: BackwardPasses | None,
    echo: Echo,
) -> None:
    buffers.fill(inputs, world.rank)
    compared.timings = measure(compared.request, loop, compared.made)
    _say(echo, world, lambda: table.costs(compared))
    if passes:
        passes.fill(inputs)
        compared.backward_timings = measure(compared.request, loop, passes.made)
        _say(echo, world, lambda: backward_table.table(compared))
    _say(echo, world, lambda: table.closing(compared))


def _end_if_told(world: World, continuation: Continuation | None, left: str) -> None:
    """Raise `EndedError` on all ranks if a run of a sweep was told to end, with so much left."""
    if continuation and (told := ended_by(world, continuation)):
        raise EndedError(f"ended in order by {told}, with {left}")


def _say(echo: Echo, world: World, text: Callable[[], str]) -> None:
    if world.rank == 0 and (said := text()):
        echo(said)


def _engine(loop: Loop) -> str:
    return "native" if loop.native else "python"


def _check_memory(request: Request, world: World) -> None:
    """Check that what all orders share can be had."""
    check_memory(world, memory(request, world.rank), request.words, SMALLER)


def memory(request: Request, rank: int) -> int:
    """Return the bytes that a rank needs for what all orders share, and rank 0 to judge them."""
    exact = EXACT_ROWS * request.tokens * request.hidden * np.dtype(np.float64).itemsize
    return ROWS * request.bytes + (exact if rank == 0 else 0)


def judge_all(
    compared: Comparison,
    world: World,
    loop: Loop,
    buffers: Buffers,
    inputs: Inputs,
    passes: BackwardPasses | None,
) -> None:
    """Call everything once with an input, and judge what it gave; only rank 0 gets judgements."""
    request = compared.request
    wide = request.accumulate == "float32"
    judge = Judge(inputs, request.norm, wide) if world.rank == 0 else None
    buffers.fill(inputs, world.rank)
    for candidate in compared.made:
        rows, digests = _results(candidate, world, loop, buffers)
        if judge:
            order, label = candidate.order.name, candidate.label
            compared.judged.append(judge.judge(order, label, candidate.rounding, rows, digests))
    if passes:
        compared.backward_judged += passes.judge_all(inputs, judge)


def _results(
    candidate: Candidate, world: World, loop: Loop, buffers: Buffers
) -> tuple[list[Array], list[str]]:
    """Call an order once; return all differing rows, this rank's first, and the digests of all."""
    buffers.y[:] = np.nan
    loop.watchdog.label = candidate.label
    with np.errstate(all="ignore"):
        loop.run(candidate.program, 1)
    loop.watchdog.pause()
    has = world.rank == 0 or candidate.order.name not in AT_ROOT
    everyone = world.comm.allgather(digest(buffers.y) if has else None)
    differs = has and everyone[world.rank] != everyone[0]
    others = world.comm.gather(buffers.y if differs else None) or []
    rows = [buffers.y, *(one for one in others if one is not None)]
    return rows, [one for one in everyone if one is not None]


def _open(files: Files, continuation: Continuation | None, stack: ExitStack) -> Sink | None:
    return continuation.writer if continuation else files.open(stack)


def _write(files: Files, writer: Sink | None, lines: Sequence[Record]) -> None:
    if writer:
        head, *rest = lines
        writer.write(head)
        writer.write(*rest)
    if files.report:
        files.report.write(results(lines))
