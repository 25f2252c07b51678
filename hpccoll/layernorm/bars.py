"""The bars of a report: what every order takes, side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hpccoll.columns import figures
from hpccoll.export.canvas import Canvas
from hpccoll.layernorm.heat import INK, SIZE, label, label_room
from hpccoll.layernorm.reading import Results, busiest, norms
from hpccoll.results import Record

PANEL, BAR, ROW, TOP, VALUE = 146.0, 11.0, 18.0, 42.0, 46.0
"""Widths and heights; `VALUE` is the room of a number behind its bar."""
FIRST, REST = "#3b7dbd", "#a9c8e6"


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart: its title in two lines, and of every order one or two parts of a bar.

    Attributes
    ----------
    parts
        The lengths of the parts of a bar, the first one dark; None where nothing was counted.
    interval
        Where the ends of an interval are, if there is one.
    """

    title: str
    unit: str
    parts: Callable[[Record], Sequence[float] | None]
    interval: Callable[[Record], tuple[float, float] | None] = lambda _: None


def panels(found: Results) -> list[Panel]:
    """Return the charts that the records have something for."""
    n = found.run["bytes"] or 1

    def sent(one: Record) -> Sequence[float] | None:
        traffic = one["traffic"]
        return None if traffic is None else [max(each["sent"] for each in traffic) / n]

    def path(one: Record) -> Sequence[float] | None:
        return None if one["path"] is None else [one["path"]["bytes"] / n]

    def memory(one: Record) -> Sequence[float]:
        return [sum(one["residual_bytes"]) / n, sum(one["extra_bytes"]) / n]

    charts = [
        Panel("busiest rank sends", "n", sent),
        Panel("critical path", "n", path),
        Panel("norms of all rows", "one rank, all ranks", _norms),
        Panel("memory of all ranks, n", "residual, extra", memory),
    ]
    if any(one["latency_us"] for one in found.timed):
        charts.append(Panel("time", "µs, median, 95 %", _time, _interval))
    return charts


def _norms(one: Record) -> Sequence[float]:
    return [busiest(one), norms(one) - busiest(one)]


def _time(one: Record) -> Sequence[float] | None:
    latency = one["latency_us"]
    return None if latency is None else [latency["p50"]]


def _interval(one: Record) -> tuple[float, float] | None:
    latency = one["latency_us"]
    if latency is None or latency["ci_low"] is None or latency["ci_high"] is None:
        return None
    return latency["ci_low"], latency["ci_high"]


def bars(canvas: Canvas, found: Results, top: float) -> tuple[float, float]:
    """Draw all charts beside the orders' names; return their width and where they end."""
    room, charts = label_room(found), panels(found)
    for line, one in enumerate(found.timed):
        label(canvas, room, top + TOP + line * ROW + SIZE, one)
    for column, chart in enumerate(charts):
        _panel(canvas, chart, found.timed, room + column * PANEL, top)
    return room + len(charts) * PANEL, top + TOP + len(found.timed) * ROW


def _panel(canvas: Canvas, chart: Panel, orders: Sequence[Record], x: float, top: float) -> None:
    canvas.text(x, top + 14, chart.title, fill=INK, font_weight="bold")
    _unit(canvas, chart, x, top + 29)
    ends = [sum(chart.parts(one) or ()) for one in orders]
    ends += [high for one in orders if (found := chart.interval(one)) for high in found]
    scale = (PANEL - VALUE) / (max(ends) or 1)
    for line, one in enumerate(orders):
        _bar(canvas, chart, one, (x, top + TOP + line * ROW), scale)


def _unit(canvas: Canvas, chart: Panel, x: float, y: float) -> None:
    """Write the unit, or the names of a bar's parts, each behind its colour."""
    names = chart.unit.split(", ")
    if len(names) != 2:
        canvas.text(x, y, chart.unit, fill=INK)
        return
    for name, paint in zip(names, (FIRST, REST), strict=True):
        canvas.rectangle(x, y - 8, 8, 8, fill=paint)
        canvas.text(x + 11, y, name, fill=INK)
        x += 62


def _bar(
    canvas: Canvas, chart: Panel, one: Record, corner: tuple[float, float], scale: float
) -> None:
    (x, y), parts = corner, chart.parts(one)
    if parts is None:
        canvas.text(x, y + SIZE, "not seen", fill=INK, font_style="italic")
        return
    for length, paint in zip(parts, (FIRST, REST), strict=False):
        if length > 0:
            canvas.rectangle(x, y + 1, length * scale, BAR, fill=paint)
        x += length * scale
    if found := chart.interval(one):
        low, high = (corner[0] + each * scale for each in found)
        middle = y + 1 + BAR / 2
        canvas.path(
            f"M{low:.1f} {middle - 4:.1f}v8M{low:.1f} {middle:.1f}H{high:.1f}m0 -4v8", stroke=INK
        )
        x = max(x, high)
    canvas.text(x + 4, y + SIZE, figures(sum(parts)), fill=INK)
