"""The table for people: each size's measurements, the fastest first, and advice at the end."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from hpccoll import advice
from hpccoll.canary import shifts
from hpccoll.columns import (
    UNCLEAR,
    Column,
    about_chosen,
    against,
    figures,
    microseconds,
    row,
    span,
    titles,
    with_chosen,
)
from hpccoll.findings import findings
from hpccoll.registry import LIBRARY
from hpccoll.results import bandwidths
from hpccoll.stats import SAME, compare
from hpccoll.units import format_size

if TYPE_CHECKING:
    from hpccoll.measurement import Measurement
    from hpccoll.request import Request
    from hpccoll.world import World

WINNER = "*"
SKEWED = "!"
SKEWS = 5
"""Exit skews of the barrier that a median must have to be told from them."""

LISTED = 4
"""Sizes of a skipped algorithm that are listed."""
_MARKS = 2
"""Characters that a row may add to a label."""

_COLUMNS = (
    Column("bytes", 8),
    Column("algorithm", 22, left=True),
    Column("median us ", 10),
    Column("95 % interval", 16),
    Column("p99", 7),
    Column("max", 7),
    Column("algbw", 7),
    Column("busbw", 7),
    Column("t/lib", 12, left=True),
    Column("check", 7),
)


def _columns(request: "Request", labels: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns, wide enough for these labels."""
    size, name, *rest, ratio, check = _COLUMNS
    width = max([name.width, *(len(label) + _MARKS for label in labels)])
    ratio = replace(ratio, title="t/plain" if _plain(request) else ratio.title)
    return size, replace(name, width=width), *rest, ratio, check


def _plain(request: "Request") -> str | None:
    """Return the operator that a reproducible one is compared with, if that is asked."""
    return request.operator.plain if request.collective.reduces else None


def _baseline(request: "Request") -> list[str]:
    """Return lines about what the last column compares with."""
    name, what = "lib", f"the MPI library's {request.collective.baselines}"
    if plain := _plain(request):
        name, what = "plain", f"the same algorithm with {plain}, whose bits depend on the order"
    return [
        f"{name:<6} {what}",
        f"{f't/{name}':<6} median divided by {'the library' if name == 'lib' else 'plain'}'s; "
        f"{UNCLEAR} where samples differ no more than by chance (rank test, 5 %)",
    ]


def header(
    request: "Request", world: "World", notes: Sequence[str] = (), labels: Sequence[str] = ()
) -> str:
    """Return what stands above the table: what is measured, where, and what the columns mean.

    `notes` are further lines about this run, `labels` those of the rows.
    """
    collective = request.collective
    operator = f" {request.operator.name}" if collective.reduces else ""
    place = "in place" if request.in_place or collective.one_buffer else "out of place"
    ranks = (
        f"{world.size} rank{'s' * (world.size > 1)} on {world.nodes} node{'s' * (world.nodes > 1)}"
    )
    what = f", {request.dtype.name}{operator}, {place}" if collective.moves_data else ""
    lines = [
        f"{collective.name}{what}, {ranks}",
        f"{world.library}, threads: {world.thread_level} ({world.thread_reason})",
        f"bytes  {collective.bytes_are}",
        "times  us; a sample is one call on its slowest rank",
        *[f"algbw  GB/s (1e9 bytes/s) of the median; busbw = algbw * {collective.busbw}"]
        * collective.moves_data,
        *_baseline(request),
    ]
    if not request.shares.regular:
        lines.append(f"blocks {request.shares.words(world.size)}")
    if request.in_place:
        lines.append(f"in place: {collective.in_place}")
    lines += notes
    if world.oversubscribed:
        lines.append(
            f"note   {world.oversubscribed}: ranks wait for their turn, so compare ratios only"
        )
    if world.size == 1:
        lines.append(
            "note   one rank sends nothing; to start more: "
            f"mpirun -n 4 hpccoll bench {collective.name}"
        )
    return "\n".join([*lines, "", titles(_columns(request, labels))])


# Rows


def group(
    request: "Request",
    world: "World",
    measured: Sequence["Measurement"],
    labels: Sequence[str] = (),
) -> str:
    """Return the rows of one size, the fastest first, the winner marked."""
    columns, best = _columns(request, labels), winner(measured)
    rows: list[str] = []
    for entry in sorted(measured, key=lambda entry: entry.latency.p50):
        times, (algbw, busbw) = entry.latency, bandwidths(request, world.size, entry)
        mark = f" {WINNER}" if entry is best else ""
        root = f" root {entry.message.root}" if len(request.roots(world.size)) > 1 else ""
        cells = (
            format_size(entry.bytes) if not rows else "",
            with_chosen(entry.label, entry.parameters, entry.chosen) + root + mark,
            microseconds(times.p50) + (SKEWED if _skewed(entry) else " "),
            _interval(entry),
            microseconds(times.p99),
            microseconds(times.max),
            figures(algbw),
            figures(busbw),
            _against(entry, measured),
            entry.check,
        )
        rows.append(row(columns, cells))
    return "\n".join([*rows, *_stragglers(measured)])


def _interval(entry: "Measurement") -> str:
    low, high = entry.latency.ci_low, entry.latency.ci_high
    return "-" if low is None or high is None else f"{microseconds(low)} - {microseconds(high)}"


def _skewed(entry: "Measurement") -> bool:
    return entry.skew is not None and entry.latency.p50 < SKEWS * entry.skew


def _against(entry: "Measurement", measured: Iterable["Measurement"]) -> str:
    right = (other for other in measured if other.check != "failed" and other.latency.p50 > 0)
    baseline = next((other for other in right if other.label == entry.baseline), None)
    if baseline is None:
        return f"{'-':>5}"
    ratio = entry.latency.p50 / baseline.latency.p50
    verdict = entry.verdict if entry.check != "failed" else None
    return against(ratio, verdict.word if verdict else "")


def _stragglers(measured: Sequence["Measurement"]) -> list[str]:
    """Return a line per rank that is the last in most calls of some algorithms."""
    found = [(entry.label, entry.straggler) for entry in measured if entry.straggler]
    lines = []
    for rank, host in sorted({(who.rank, who.host) for _, who in found}):
        its = [(label, who) for label, who in found if (who.rank, who.host) == (rank, host)]
        shares = sorted(who.share for _, who in its)
        behind = sorted(who.behind for _, who in its)
        lines.append(
            f"{'':{_COLUMNS[0].width}} rank {rank} on {host} is the last in "
            f"{span(f'{shares[0]:.0%}'[:-1], f'{shares[-1]:.0%}'[:-1])} % of calls, "
            f"{span(microseconds(behind[0]), microseconds(behind[-1]))} us after the next: "
            + ", ".join(label for label, _ in its)
        )
    return lines


def winner(measured: Sequence["Measurement"]) -> "Measurement | None":
    """Return the fastest measurement of what was asked for whose result isn't wrong."""
    return min(_contenders(measured), key=lambda entry: entry.latency.p50, default=None)


def _contenders(measured: Sequence["Measurement"]) -> list["Measurement"]:
    """Return what may be used: right, and not a plain operator instead of a reproducible one."""
    plain = {entry.baseline for entry in measured} - {LIBRARY}
    return [entry for entry in measured if entry.check != "failed" and entry.label not in plain]


# What stands under the table


def closing(groups: Sequence[Sequence["Measurement"]], skipped: Mapping[str, str]) -> str:
    """Return what stands under the table: advice, findings, what was skipped, what was wrong."""
    measured = list(chain.from_iterable(groups))
    wrong = [
        f"  {entry.label} of {format_size(entry.bytes)}: {entry.mismatches[0]}"
        for entry in measured
        if entry.check == "failed"
    ]
    advised = (_advise(group) for group in groups)
    return sections(
        ("use", advice.lines(item for item in advised if item)),
        ("findings", [f"  {sentence}" for sentence in findings(measured)]),
        ("skipped", [f"  {label}: {reason}" for label, reason in skipped.items()]),
        ("WRONG RESULTS", wrong),
        notes=[
            *about_chosen([name for entry in measured for name in entry.chosen]),
            *_about_skew(measured),
            *_about_lateness(measured),
            *shifts(entry.canary for entry in measured),
        ],
    )


def skips(cells: Iterable[tuple[str, str, int]], sizes: Sequence[int]) -> dict[str, str]:
    """Return the reasons of skipped cells by label, and which sizes where not all were skipped.

    Parameters
    ----------
    cells
        Label, reason and bytes of each.
    sizes
        All that were asked for.
    """
    found: dict[tuple[str, str], dict[str, None]] = {}
    for label, reason, size in cells:
        found.setdefault((label, reason), {})[format_size(size)] = None
    return {
        label + (f" of {_listed(list(of))}" if len(of) < len(sizes) else ""): reason
        for (label, reason), of in found.items()
    }


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED} more sizes" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def sections(*titled: tuple[str, Sequence[str]], notes: Sequence[str] = ()) -> str:
    """Return notes, and then the sections that have any lines under their titles."""
    blocks = ["\n".join([title, *lines]) for title, lines in titled if lines]
    return "\n\n".join([*notes, *blocks])


def _about_skew(measured: Sequence["Measurement"]) -> list[str]:
    skews = [entry.skew for entry in measured if entry.skew is not None and _skewed(entry)]
    if not skews:
        return []
    return [
        f"{SKEWED} a median under {SKEWS} times the {microseconds(max(skews))} us by which ranks "
        "leave the barrier apart: much of it\n  is waiting for late ranks, so rank nothing by it"
    ]


def _about_lateness(measured: Sequence["Measurement"]) -> list[str]:
    left_out = [entry for entry in measured if not entry.all_late]
    late = sum(entry.late for entry in left_out)
    calls = late + sum(entry.latency.samples for entry in left_out)
    waiting = len(measured) - len(left_out)
    lines = []
    if late:
        lines.append(
            f"note   {late} of {calls} calls began after the agreed moment; they don't count"
        )
    if waiting:
        lines.append(
            f"note   {waiting} of {len(measured)} rows have only calls that began after the agreed "
            "moment;\n       they include waiting for late ranks, so rank nothing by them"
        )
    return lines


def _advise(measured: Sequence["Measurement"]) -> advice.Advice | None:
    contenders = (
        advice.Contender(entry.label, entry.latency.p50, entry.algorithm == LIBRARY, entry)
        for entry in _contenders(measured)
    )
    if not measured:
        return None
    return advice.advise(measured[0].bytes, measured[0].message.root, contenders, _same)


def _same(one: "Measurement", other: "Measurement") -> bool:
    return compare(one.samples, other.samples).word == SAME
