"""A benchmark session: from a request to its output, each line written once it is measured."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Protocol

from hpccoll import results, table, top
from hpccoll.candidates import library_lacks
from hpccoll.conditions import Conditions
from hpccoll.errors import CheckError, EndedError, UsageError
from hpccoll.launch import Launch, told_to_end
from hpccoll.machine import with_machine
from hpccoll.measure import check_request, measure
from hpccoll.measurement import Measurement
from hpccoll.pieces import with_pieces
from hpccoll.progress import Progress
from hpccoll.registry import LIBRARY
from hpccoll.request import Request
from hpccoll.results import Record, Writer
from hpccoll.sampling import Loop, choose_engine
from hpccoll.selection.selections import Selections, select
from hpccoll.watchdog import Watchdog
from hpccoll.world import World

Echo = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Output:
    """Where results go: a JSON Lines file, if any, and what is printed.

    Attributes
    ----------
    top
        Of each size the table has so many of the fastest, None for all.
    """

    path: str | None
    force: bool
    style: str
    top: int | None = None

    def __post_init__(self) -> None:
        """Raise `UsageError` if other output than a table is to be shortened."""
        if self.top and self.style != "table":
            raise UsageError(f"--top shortens the table; leave it out with --format {self.style}")


class Sink(Protocol):
    """What takes the record of the run first, then those of every message at once."""

    def write(self, *records: Record) -> None:
        """Append one line each."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """How a session goes on where earlier ones of the same request ended.

    Attributes
    ----------
    writer
        What takes the records on rank 0, instead of a file of the session's own; None elsewhere.
    measured
        Bytes and roots that needn't be measured again, alike on all ranks.
    told_to_end
        Returns by what this process was told to end, if it was; asked on rank 0 between messages.
    """

    writer: Sink | None
    measured: frozenset[tuple[int, int]]
    told_to_end: Callable[[], str | None]


def run(
    request: Request,
    world: World,
    launch: Launch,
    output: Output,
    echo: Echo,
    continuation: Continuation | None = None,
) -> None:
    """Measure what was asked, on all ranks together; rank 0 writes.

    Raises
    ------
    UsageError
        These ranks can't do what was asked, or the output can't be written.
    CheckError
        A result was wrong.
    EndedError
        Told to end, by a signal, before all was measured; what was is written.
    """
    request = request.placed(world.placement)
    check_request(request, world)
    native, without = choose_engine(world, request.engine)
    with ExitStack() as stack:
        watchdog = stack.enter_context(Watchdog(request.timeout, world.rank))
        loop = Loop(world, native, watchdog)
        if not loop.one_time and (request.sync == "window" or request.arrival.seconds):
            raise UsageError(
                "--sync window and --arrival on several nodes need the native engine, which "
                "synchronises the clocks"
            )
        request = with_machine(with_pieces(request, world, loop), world, loop)
        selections = select(request, loop)
        writer = world.first(lambda: _open(output, continuation, stack))
        conditions = Conditions.measured(request, world, loop, without)
        record = results.run_record(request, world, launch, conditions)
        own = [request.label(*pair) for pair in product(request.choices, request.operators)]
        labels = [*own, *selections.labels]
        make = _PRINTERS[output.style]
        printer = make(request, world, echo, labels, output) if world.rank == 0 else None
        said = (record, _skipped(request, world))
        ends = (writer, printer, continuation)
        failed = _measure_all(request, selections, world, loop, conditions, said, *ends)
        selections.free()
    if world.comm.bcast(failed):
        raise CheckError(f"{failed} result{' is' if failed == 1 else 's are'} wrong")


def _skipped(request: Request, world: World) -> dict[str, str]:
    """Return what was asked for and can't run here, with the reasons."""
    _, skipped = request.supported(world.size)
    if request.library and (lacks := library_lacks(request, world)):
        skipped[LIBRARY] = lacks
    return skipped


def _measure_all(
    request: Request,
    selections: Selections,
    world: World,
    loop: Loop,
    conditions: Conditions,
    said: tuple[Record, dict[str, str]],
    writer: Sink | None,
    printer: "_Printer | None",
    continuation: Continuation | None,
) -> int:
    """Measure everything, write each group as it is done, and return how many were wrong."""
    record, everywhere = said
    failed, skips = 0, list[tuple[str, str, int]]()
    if writer:
        writer.write(record)
    if printer:
        printer.begin(record, [*conditions.notes(), *selections.notes()])
    measured = continuation.measured if continuation else frozenset()
    told: str | None = None
    left = len(request.sizes) * len(request.roots(world.size)) - len(measured)
    progress = Progress(left, "sizes measured")
    for group in measure(request, selections, world, loop, conditions.skew, measured):
        skipped = everywhere | group.skipped
        records = [results.measurement_record(request, world, entry) for entry in group.measured]
        records += [
            results.skipped_record(request, world, label, group.message, reason)
            for label, reason in skipped.items()
        ]
        skips += [(label, reason, records[-1]["bytes"]) for label, reason in skipped.items()]
        if writer:
            writer.write(*records)
        if printer:
            progress.clear()
            printer.group(group.measured, records)
            progress.step()
        failed += sum(entry.check == "failed" for entry in group.measured)
        left -= 1
        told = ended_by(world, continuation) if left else None
        if told:
            break
    if printer:
        printer.end(table.skips(skips, request.sizes))
    if told:
        if writer and not continuation:
            writer.write({"type": "ended", "by": told, "left": left})
        raise EndedError(f"ended in order by {told}, with {left} sizes left to measure")
    return failed


def ended_by(world: World, continuation: Continuation | None) -> str | None:
    """Return on all ranks by what rank 0 was told to end, if it was."""
    # Rank 0 decides: others may have heard of it earlier or later.
    told: str | None = world.comm.bcast(
        continuation.told_to_end() if continuation else told_to_end()
    )
    return told


def _open(output: Output, continuation: Continuation | None, stack: ExitStack) -> Sink | None:
    if continuation:
        return continuation.writer
    if output.path is None:
        return None
    return stack.enter_context(Writer(Path(output.path), output.force))


class _Printer(Protocol):
    def __init__(
        self, request: Request, world: World, echo: Echo, labels: Sequence[str], output: Output
    ) -> None: ...

    def begin(self, record: Record, notes: Sequence[str]) -> None: ...

    def group(self, measured: Sequence[Measurement], records: Sequence[Record]) -> None: ...

    def end(self, skipped: dict[str, str]) -> None: ...


class _Table:
    def __init__(
        self, request: Request, world: World, echo: Echo, labels: Sequence[str], output: Output
    ) -> None:
        self.request, self.world, self.echo, self.labels = request, world, echo, labels
        self.output = output
        self.groups: list[Sequence[Measurement]] = []
        self.left_out = 0

    def begin(self, record: Record, notes: Sequence[str]) -> None:
        self.echo(table.header(self.request, self.world, notes, self.labels))

    def group(self, measured: Sequence[Measurement], records: Sequence[Record]) -> None:
        shown = top.shown(measured, self.output.top)
        left_out = len(measured) - len(shown)
        rows = table.group(self.request, self.world, shown, self.labels)
        self.echo("\n".join(filter(None, (rows, top.line(left_out)))) + "\n")
        self.groups.append(measured)
        self.left_out += left_out

    def end(self, skipped: dict[str, str]) -> None:
        if said := top.note(self.left_out, sum(map(len, self.groups)), self.output.path):
            self.echo(said + "\n")
        self.echo(table.closing(self.groups, skipped))


class _Json:
    def __init__(
        self, request: Request, world: World, echo: Echo, labels: Sequence[str], output: Output
    ) -> None:
        self.echo = echo

    def begin(self, record: Record, notes: Sequence[str]) -> None:
        self.echo(results.to_json(record))

    def group(self, measured: Sequence[Measurement], records: Sequence[Record]) -> None:
        for record in records:
            self.echo(results.to_json(record))

    def end(self, skipped: dict[str, str]) -> None:
        pass


class _Csv:
    def __init__(
        self, request: Request, world: World, echo: Echo, labels: Sequence[str], output: Output
    ) -> None:
        self.echo = echo

    def begin(self, record: Record, notes: Sequence[str]) -> None:
        self.echo(results.csv_line(results.CSV_COLUMNS))

    def group(self, measured: Sequence[Measurement], records: Sequence[Record]) -> None:
        for record in records:
            self.echo(results.to_csv(record))

    def end(self, skipped: dict[str, str]) -> None:
        pass


_PRINTERS: dict[str, type[_Printer]] = {"table": _Table, "jsonl": _Json, "csv": _Csv}
