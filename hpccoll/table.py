"""The table for people: each size's measurements, the fastest first, and advice at the end."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from hpccoll.registry import LIBRARY
from hpccoll.results import bandwidths
from hpccoll.units import format_size

if TYPE_CHECKING:
    from hpccoll.measure import Measurement
    from hpccoll.request import Request
    from hpccoll.world import World

WINNER = "*"
_WIDTHS = (8, 22, 9, 18, 8, 8, 7, 7, 6, 7)
_LEFT = 1
_GAP = " "
_TITLES = (
    "bytes",
    "algorithm",
    "median us",
    "95 % interval",
    "p99",
    "max",
    "algbw",
    "busbw",
    "t/lib",
    "check",
)


def header(request: "Request", world: "World") -> str:
    """Return what stands above the table: what is measured, where, and what the columns mean."""
    collective = request.collective
    operator = f" {request.operator.name}" if collective.reduces else ""
    place = "in place" if request.in_place or collective.one_buffer else "out of place"
    ranks = (
        f"{world.size} rank{'s' * (world.size > 1)} on {world.nodes} node{'s' * (world.nodes > 1)}"
    )
    lines = [
        f"{collective.name}, {request.dtype.name}{operator}, {place}, {ranks}",
        f"{world.library}, threads: {world.thread_level} ({world.thread_reason})",
        f"bytes  {collective.bytes_are}",
        "times  us; a sample is one call on its slowest rank, after a barrier",
        f"algbw  GB/s (1e9 bytes/s) of the median; busbw = algbw * {collective.busbw}",
        f"lib    the MPI library's {collective.baselines}",
        "t/lib  median divided by the library's: below 1 is faster than the library",
    ]
    if request.in_place:
        lines.append(f"in place: {collective.in_place}")
    if request.choices:
        lines.append(
            "note   hpccoll's algorithms run in the python engine: at small sizes most of their\n"
            "       time is the interpreter's"
        )
    if world.oversubscribed:
        lines.append(
            f"note   {world.oversubscribed}: ranks wait for their turn, so compare ratios only"
        )
    if world.size == 1:
        lines.append(
            "note   one rank sends nothing; to start more: "
            f"mpirun -n 4 hpccoll bench {collective.name}"
        )
    return "\n".join([*lines, "", _row(_TITLES), _row(["-" * width for width in _WIDTHS])])


def _row(cells: Sequence[str]) -> str:
    parts = [
        cell.ljust(width) if column == _LEFT else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, _WIDTHS, strict=True))
    ]
    return _GAP.join(parts).rstrip()


def group(request: "Request", world: "World", measured: Sequence["Measurement"]) -> str:
    """Return the rows of one size, the fastest first, the winner marked."""
    library = _library(measured)
    best = winner(measured)
    rows: list[str] = []
    for entry in sorted(measured, key=lambda entry: entry.latency.p50):
        times, (algbw, busbw) = entry.latency, bandwidths(request, world.size, entry)
        ratio = f"{times.p50 / library.latency.p50:.2f}" if library else "-"
        interval = "-"
        if times.ci_low is not None and times.ci_high is not None:
            interval = f"{_us(times.ci_low)} - {_us(times.ci_high)}"
        mark = f" {WINNER}" if entry is best else ""
        root = f" root {entry.message.root}" if len(request.roots(world.size)) > 1 else ""
        rows.append(
            _row(
                (
                    format_size(entry.bytes) if not rows else "",
                    entry.label + root + mark,
                    _us(times.p50),
                    interval,
                    _us(times.p99),
                    _us(times.max),
                    _figures(algbw),
                    _figures(busbw),
                    ratio,
                    entry.check,
                )
            )
        )
    return "\n".join(rows)


def _us(seconds: float) -> str:
    return _figures(seconds * 1e6)


def _figures(value: float) -> str:
    """Write a number with three figures, or all of those before the point."""
    if value >= 100 or not value:
        return f"{value:.0f}"
    return f"{value:#.3g}".rstrip(".") if value >= 0.001 else f"{value:.4f}"


def _library(measured: Iterable["Measurement"]) -> "Measurement | None":
    right = (entry for entry in measured if entry.check != "failed" and entry.latency.p50 > 0)
    return next((entry for entry in right if entry.algorithm == LIBRARY), None)


def winner(measured: Sequence["Measurement"]) -> "Measurement | None":
    """Return the fastest measurement whose result isn't wrong."""
    right = [entry for entry in measured if entry.check != "failed"]
    return min(right, key=lambda entry: entry.latency.p50, default=None)


@dataclass(frozen=True, slots=True)
class _Advice:
    """What to use for one size, and how its time compares to the alternative's."""

    size: int
    use: str
    against: str
    ratio: float
    clear: bool


def closing(groups: Sequence[Sequence["Measurement"]], skipped: Mapping[str, str]) -> str:
    """Return what stands under the table: advice, what was skipped and why, what was wrong."""
    wrong = [
        f"  {entry.label} of {format_size(entry.bytes)}: {entry.mismatches[0]}"
        for measured in groups
        for entry in measured
        if entry.check == "failed"
    ]
    sections = [
        ("use", advice(groups)),
        ("skipped", [f"  {label}: {reason}" for label, reason in skipped.items()]),
        ("WRONG RESULTS", wrong),
    ]
    return "\n\n".join("\n".join([title, *lines]) for title, lines in sections if lines)


def advice(groups: Iterable[Sequence["Measurement"]]) -> list[str]:
    """Return a line per range of sizes: which algorithm to use there, and by how much it wins.

    Where the 95 % intervals of the two medians overlap, the difference counts as unclear.
    """
    items = [item for measured in groups if (item := _advise(measured))]
    lines = []
    for (use, against, clear), run in groupby(items, key=lambda i: (i.use, i.against, i.clear)):
        members = list(run)
        first, last = format_size(members[0].size), format_size(members[-1].size)
        sizes = first if first == last else f"{first} to {last}"
        low, high = (f(i.ratio for i in members) for f in (min, max))
        factor = f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"
        if against:
            words = f"takes {factor} of the time of {against}"
            words = words if clear else f"{words}, not a clear difference"
        else:
            words = "the only one measured"
        lines.append(f"  {sizes:<22} {use:<24} {words}")
    return lines


def _advise(measured: Sequence["Measurement"]) -> _Advice | None:
    best = winner(measured)
    if best is None:
        return None
    library = _library(measured)
    rivals = [entry for entry in measured if entry is not best and entry.check != "failed"]
    rival = library if library and library is not best else winner(rivals)
    if rival is None or not rival.latency.p50:
        return _Advice(best.bytes, best.label, "", 1.0, True)
    high, low = best.latency.ci_high, rival.latency.ci_low
    clear = high is not None and low is not None and high < low
    against = "the library" if rival.algorithm == LIBRARY else rival.label
    return _Advice(best.bytes, best.label, against, best.latency.p50 / rival.latency.p50, clear)
