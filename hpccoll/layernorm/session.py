"""A run: judge every order with every input, then time them all, and say what came out."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from hpccoll.buffers import check_memory
from hpccoll.errors import CheckError
from hpccoll.launch import Launch
from hpccoll.layernorm import records, table
from hpccoll.layernorm.candidates import Candidate, candidates
from hpccoll.layernorm.comparison import Comparison
from hpccoll.layernorm.judge import CONTRADICTS, Judge, Judgement
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

REFERENCE = 9
"""Rows in float64 that rank 0 holds at most while it judges, in units of one rank's rows."""


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
        buffers = Buffers.allocate(inputs[0])
        made, skipped = candidates(request, world, loop, buffers)
        writer = world.first(lambda: _open(output, force, stack))
        compared = Comparison(request, made, resources(request, world, made), skipped)
        if world.rank == 0:
            echo(table.header(request, world, loop, without))
        for name in request.inputs:
            compared.judged += _judge_all(request, world, loop, buffers, made, name)
        if world.rank == 0:
            echo(table.verdicts(compared.judged, request))
        buffers.fill(inputs[0], world.rank)
        compared.timings = measure(request, loop, made)
        if world.rank == 0:
            echo(table.costs(compared))
            echo(table.closing(compared))
        if writer:
            writer.write(records.run_record(request, world, launch, _engine(loop)))
            for line in records.judged_records(compared):
                writer.write(line)
        wrong = sum(one.verdict == CONTRADICTS for one in compared.judged)
    if wrong := world.comm.bcast(wrong):
        raise CheckError(
            f"{wrong} result{' is' if wrong == 1 else 's are'} not what theory says of the order"
        )


def _engine(loop: Loop) -> str:
    return "native" if loop.native else "python"


def _check_memory(request: Request, world: World) -> None:
    """Check that the largest order's buffers can be had, and on rank 0 the exact results."""
    rows = 5 + world.size + (2 * world.size if request.accumulate == "float32" else 0)
    need = rows * request.bytes
    if world.rank == 0:
        need += REFERENCE * request.tokens * request.hidden * np.dtype(np.float64).itemsize
    what = f"{request.tokens} x {request.hidden} {request.dtype.name}"
    check_memory(world, need, what, "smaller --tokens or --hidden")


def _judge_all(
    request: Request,
    world: World,
    loop: Loop,
    buffers: Buffers,
    made: Sequence[Candidate],
    name: str,
) -> list[Judgement]:
    """Call every order once with an input, and judge what it gave; only rank 0 gets judgements."""
    inputs = request.input(name, world.size)
    wide = request.accumulate == "float32"
    judge = Judge(inputs, request.norm, wide) if world.rank == 0 else None
    buffers.fill(inputs, world.rank)
    found = []
    for candidate in made:
        buffers.y[:] = np.nan
        loop.watchdog.label = f"{candidate.label} of {name}"
        with np.errstate(all="ignore"):
            loop.run(candidate.program, 1)
        loop.watchdog.pause()
        has = world.rank == 0 or candidate.order.name not in AT_ROOT
        everyone = world.comm.allgather(digest(buffers.y) if has else None)
        digests = [one for one in everyone if one is not None]
        differs = has and everyone[world.rank] != everyone[0]
        results = world.comm.gather(buffers.y if differs else None)
        if judge and results is not None:
            rows = [buffers.y, *(one for one in results if one is not None)]
            found.append(
                judge.judge(
                    candidate.order.name, candidate.label, candidate.rounding, rows, digests
                )
            )
    return found


def _open(path: str | None, force: bool, stack: ExitStack) -> Writer | None:
    if path is None:
        return None
    return stack.enter_context(Writer(Path(path), force))
