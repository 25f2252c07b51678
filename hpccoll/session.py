"""A benchmark session: from a request to its output, each line written once it is measured."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hpccoll import results, table
from hpccoll.conditions import Conditions
from hpccoll.errors import CheckError, UsageError
from hpccoll.launch import Launch
from hpccoll.measure import Measurement, check_request, measure
from hpccoll.progress import Progress
from hpccoll.registry import LIBRARY
from hpccoll.request import Request
from hpccoll.results import Record, Writer
from hpccoll.sampling import Loop, choose_engine
from hpccoll.watchdog import Watchdog
from hpccoll.world import World

Echo = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Output:
    """Where results go: a JSON Lines file, if any, and the style of what is printed."""

    path: str | None
    force: bool
    style: str


def run(request: Request, world: World, launch: Launch, output: Output, echo: Echo) -> None:
    """Measure what was asked, on all ranks together; rank 0 writes.

    Raises
    ------
    UsageError
        These ranks can't do what was asked, or the output can't be written.
    CheckError
        A result was wrong.
    """
    request = request.placed(world.placement)
    check_request(request, world)
    native, without = choose_engine(world, request.engine)
    with ExitStack() as stack:
        writer = world.first(lambda: _open(output, stack))
        watchdog = stack.enter_context(Watchdog(request.timeout, world.rank))
        loop = Loop(world, native, watchdog)
        if not loop.one_time and (request.sync == "window" or request.arrival.seconds):
            raise UsageError(
                "--sync window and --arrival on several nodes need the native engine, which "
                "synchronises the clocks"
            )
        conditions = Conditions.measured(request, world, loop, without)
        record = results.run_record(request, world, launch, conditions)
        printer = _PRINTERS[output.style](request, world, echo) if world.rank == 0 else None
        skipped = _skipped(request, world)
        failed = _measure_all(request, world, loop, conditions, (record, skipped), writer, printer)
    if world.comm.bcast(failed):
        raise CheckError(f"{failed} result{' is' if failed == 1 else 's are'} wrong")


def _skipped(request: Request, world: World) -> dict[str, str]:
    """Return what was asked for and can't run here, with the reasons."""
    _, skipped = request.supported(world.size)
    if request.library and world.datatype(request.dtype) is None:
        skipped[LIBRARY] = f"{world.library} has no type for {request.dtype.name}"
    return skipped


def _measure_all(
    request: Request,
    world: World,
    loop: Loop,
    conditions: Conditions,
    said: tuple[Record, dict[str, str]],
    writer: Writer | None,
    printer: "_Printer | None",
) -> int:
    """Measure everything, write each group as it is done, and return how many were wrong."""
    record, skipped = said
    failed = 0
    if writer:
        writer.write(record)
    if printer:
        printer.begin(record, conditions.notes())
    progress = Progress(len(request.sizes) * len(request.roots(world.size)))
    for measured in measure(request, world, loop, conditions.skew):
        records = [results.measurement_record(request, world, entry) for entry in measured]
        records += [
            results.skipped_record(request, world, label, measured[0].message, reason)
            for label, reason in skipped.items()
            if measured
        ]
        if writer:
            for line in records:
                writer.write(line)
        if printer:
            progress.clear()
            printer.group(measured, records)
            progress.step()
        failed += sum(entry.check == "failed" for entry in measured)
    if printer:
        printer.end(skipped)
    return failed


def _open(output: Output, stack: ExitStack) -> Writer | None:
    if output.path is None:
        return None
    return stack.enter_context(Writer(Path(output.path), output.force))


class _Printer(Protocol):
    def __init__(self, request: Request, world: World, echo: Echo) -> None: ...

    def begin(self, record: Record, notes: Sequence[str]) -> None: ...

    def group(self, measured: Sequence[Measurement], records: Sequence[Record]) -> None: ...

    def end(self, skipped: dict[str, str]) -> None: ...


class _Table:
    def __init__(self, request: Request, world: World, echo: Echo) -> None:
        self.request, self.world, self.echo = request, world, echo
        self.groups: list[Sequence[Measurement]] = []

    def begin(self, record: Record, notes: Sequence[str]) -> None:
        self.echo(table.header(self.request, self.world, notes))

    def group(self, measured: Sequence[Measurement], records: Sequence[Record]) -> None:
        self.echo(table.group(self.request, self.world, measured) + "\n")
        self.groups.append(measured)

    def end(self, skipped: dict[str, str]) -> None:
        self.echo(table.closing(self.groups, skipped))


class _Json:
    def __init__(self, request: Request, world: World, echo: Echo) -> None:
        self.echo = echo

    def begin(self, record: Record, notes: Sequence[str]) -> None:
        self.echo(results.to_json(record))

    def group(self, measured: Sequence[Measurement], records: Sequence[Record]) -> None:
        for record in records:
            self.echo(results.to_json(record))

    def end(self, skipped: dict[str, str]) -> None:
        pass


class _Csv:
    def __init__(self, request: Request, world: World, echo: Echo) -> None:
        self.echo = echo

    def begin(self, record: Record, notes: Sequence[str]) -> None:
        self.echo(results.csv_line(results.CSV_COLUMNS))

    def group(self, measured: Sequence[Measurement], records: Sequence[Record]) -> None:
        for record in records:
            self.echo(results.to_csv(record))

    def end(self, skipped: dict[str, str]) -> None:
        pass


_PRINTERS: dict[str, type[_Printer]] = {"table": _Table, "jsonl": _Json, "csv": _Csv}
