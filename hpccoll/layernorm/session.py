"""A run: judge every order with every input, then time them all, and say what came out."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from hpccoll.buffers import check_memory
from hpccoll.datatypes import Array
from hpccoll.errors import CheckError
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
from hpccoll.layernorm.request import Request
from hpccoll.layernorm.resources import resources
from hpccoll.layernorm.timing import measure
from hpccoll.results import Writer
from hpccoll.sampling import Loop, choose_engine
from hpccoll.watchdog import Watchdog
from hpccoll.world import World

Echo = Callable[[str], object]

ROWS, EXACT_ROWS = 4, 16
"""Memory in units of one rank's rows: input, output, residual and what is being drawn; and on rank
0, in float64, what results are judged by."""


def run(
    request: Request, world: World, launch: Launch, output: str | None, force: bool, echo: Echo
) -> None:
    """Compare what was asked, on all ranks together; rank 0 writes and speaks.

    Raises
    ------
    UsageError
        These ranks can't do what was asked, or the output can't be written.
    CheckError
        An order's result isn't what theory says of it.
    """
    inputs = [request.input(name, world.size) for name in request.inputs]
    _check_memory(request, world)
    native, without = choose_engine(world, request.engine)
    with ExitStack() as stack:
        watchdog = stack.enter_context(Watchdog(request.timeout, world.rank))
        watchdog.pause()
        loop = Loop(world, native, watchdog)
        compared, buffers, passes = _bound(request, world, loop, inputs[0])
        writer = world.first(lambda: _open(output, force, stack))
        _say(echo, world, lambda: table.header(request, world, loop, without))
        _judge(compared, world, loop, buffers, inputs, passes, echo)
        _time(compared, world, loop, buffers, inputs[0], passes, echo)
        if writer:
            writer.write(records.run_record(request, world, launch, _engine(loop)))
            for line in records.records(compared):
                writer.write(line)
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
) -> None:
    for given in inputs:
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


def _say(echo: Echo, world: World, text: Callable[[], str]) -> None:
    if world.rank == 0 and (said := text()):
        echo(said)


def _engine(loop: Loop) -> str:
    return "native" if loop.native else "python"


def _check_memory(request: Request, world: World) -> None:
    """Check that what all orders share can be had, and on rank 0 the exact results."""
    need = ROWS * request.bytes
    if world.rank == 0:
        need += EXACT_ROWS * request.tokens * request.hidden * np.dtype(np.float64).itemsize
    check_memory(world, need, request.words, SMALLER)


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


def _open(path: str | None, force: bool, stack: ExitStack) -> Writer | None:
    if path is None:
        return None
    return stack.enter_context(Writer(Path(path), force))
