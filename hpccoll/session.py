"""A benchmark session: from a request to its output, each line written once it is measured."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hpccoll import results, table
from hpccoll.errors import CheckError
from hpccoll.launch import Launch
from hpccoll.measure import Measurement, check_request, measure
from hpccoll.progress import Progress
from hpccoll.request import Request
from hpccoll.results import Record, Writer
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
    check_request(request, world)
    failed = 0
    with ExitStack() as stack:
        writer = world.first(lambda: _open(output, stack))
        printer = _PRINTERS[output.style](request, world, echo) if world.rank == 0 else None
        record = results.run_record(request, world, launch)
        if writer:
            writer.write(record)
        if printer:
            printer.begin(record)
        _, skipped = request.supported(world.size)
        progress = Progress(len(request.sizes) * len(request.roots(world.size)))
        for measured in measure(request, world):
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
    if world.comm.bcast(failed):
        raise CheckError(f"{failed} results are wrong")


def _open(output: Output, stack: ExitStack) -> Writer | None:
    if output.path is None:
        return None
    return stack.enter_context(Writer(Path(output.path), output.force))


class _Printer(Protocol):
    def __init__(self, request: Request, world: World, echo: Echo) -> None: ...

    def begin(self, record: Record) -> None: ...

    def group(self, measured: Sequence[Measurement], records: Sequence[Record]) -> None: ...

    def end(self, skipped: dict[str, str]) -> None: ...


class _Table:
    def __init__(self, request: Request, world: World, echo: Echo) -> None:
        self.request, self.world, self.echo = request, world, echo
        self.groups: list[Sequence[Measurement]] = []

    def begin(self, record: Record) -> None:
        self.echo(table.header(self.request, self.world))

    def group(self, measured: Sequence[Measurement], records: Sequence[Record]) -> None:
        self.echo(table.group(self.request, self.world, measured) + "\n")
        self.groups.append(measured)

    def end(self, skipped: dict[str, str]) -> None:
        self.echo(table.closing(self.groups, skipped))


class _Json:
    def __init__(self, request: Request, world: World, echo: Echo) -> None:
        self.echo = echo

    def begin(self, record: Record) -> None:
        self.echo(results.to_json(record))

    def group(self, measured: Sequence[Measurement], records: Sequence[Record]) -> None:
        for record in records:
            self.echo(results.to_json(record))

    def end(self, skipped: dict[str, str]) -> None:
        pass


class _Csv:
    def __init__(self, request: Request, world: World, echo: Echo) -> None:
        self.echo = echo

    def begin(self, record: Record) -> None:
        self.echo(results.csv_line(results.CSV_COLUMNS))

    def group(self, measured: Sequence[Measurement], records: Sequence[Record]) -> None:
        for record in records:
            self.echo(results.to_csv(record))

    def end(self, skipped: dict[str, str]) -> None:
        pass


_PRINTERS: dict[str, type[_Printer]] = {"table": _Table, "jsonl": _Json, "csv": _Csv}
