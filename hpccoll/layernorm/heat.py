"""The heat map of a report: orders by inputs, coloured by error over tolerance."""

from itertools import pairwise
from math import ceil, isinf, log10

from hpccoll.export.canvas import Canvas, width
from hpccoll.layernorm.judge import CONTRADICTS, NO_VERDICT
from hpccoll.layernorm.reading import Results, number, verdict_of
from hpccoll.layernorm.verdict_table import UNTOLD
from hpccoll.results import Record

CELL_WIDTH, CELL_HEIGHT, TOP, LEGEND = 72.0, 18.0, 24.0, 34.0
GAP, SIZE = 8.0, 10.0
INK = "currentColor"
UNJUDGED = "#9a9a9a"

_WITHIN = ((-2.0, (107, 165, 212)), (0.0, (222, 236, 245)))
_BEYOND = ((0.0, (253, 219, 199)), (0.5, (214, 96, 77)), (1.0, (103, 0, 31)))
"""Stops of the colours: of logarithms up to 0, and of parts of the largest logarithm."""


def label_room(found: Results) -> float:
    """Return the room that the orders' names need on the left of a chart."""
    return max(width(f"✓ {label}", SIZE) for label in found.labels) + GAP


def label(canvas: Canvas, room: float, y: float, judged: Record) -> None:
    """Write an order's name, and whether theory calls it right."""
    mark = "✓" if judged["correct"] else "✗"
    canvas.text(room - GAP, y, f"{judged['label']} {mark}", fill=INK, text_anchor="end")


def decades(found: Results) -> int:
    """Return the power of ten at which the scale of colours ends; at least 1."""
    ratios = (ratio(one) for one in found.orders)
    return max([1, *(ceil(log10(each)) for each in ratios if each > 0 and not isinf(each))])


def ratio(judged: Record) -> float:
    """Return the measured error over the tolerance, of the worst row."""
    return number(judged["deviation_over_bound"])


def colour(value: float, most: int) -> tuple[int, int, int]:
    """Return the colour of a ratio: blue up to 1, from orange to dark red at ``10**most``."""
    logarithm = log10(min(max(value, 1e-2), 10.0**most))
    if value <= 1:
        return _between(_WITHIN, logarithm)
    return _between(_BEYOND, logarithm / most)


def _between(
    stops: tuple[tuple[float, tuple[int, int, int]], ...], at: float
) -> tuple[int, int, int]:
    for (low, one), (high, other) in pairwise(stops):
        if at <= high:
            part = (at - low) / (high - low)
            red, green, blue = (round(a + part * (b - a)) for a, b in zip(one, other, strict=True))
            return red, green, blue
    return stops[-1][1]


def spelled(colours: tuple[int, int, int]) -> str:
    """Return a colour as SVG has it."""
    return "#" + "".join(f"{one:02x}" for one in colours)


def ink_on(colours: tuple[int, int, int]) -> str:
    """Return black or white, whichever is read better on a colour (ITU-R BT.601 luma)."""
    red, green, blue = colours
    return "#000" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "#fff"


def short(value: float) -> str:
    """Write a ratio in the room of a cell: ``0.05``, ``3.1``, ``42``, ``5e5``."""
    if isinf(value):
        return "∞"
    if value >= 100:
        return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
    return f"{value:.2g}" if value >= 0.01 or not value else "<0.01"


def heat_map(canvas: Canvas, found: Results, top: float) -> tuple[float, float]:
    """Draw the map; return its width and where it ends.

    A cell is hatched where the input can't tell the order from a correct one, grey where there is
    no verdict, and framed where the result contradicts theory.
    """
    room, most = label_room(found), decades(found)
    for column, name in enumerate(found.inputs):
        x = room + (column + 0.5) * CELL_WIDTH
        canvas.text(x, top + TOP - GAP, name, fill=INK, text_anchor="middle")
    for line, name in enumerate(found.labels):
        y = top + TOP + line * CELL_HEIGHT
        judged = {one["input"]: one for one in found.of(name)}
        label(canvas, room, y + 13, next(iter(judged.values())))
        for column, given in enumerate(found.inputs):
            if given in judged:
                _cell(canvas, room + column * CELL_WIDTH, y, judged[given], most)
    end = top + TOP + len(found.labels) * CELL_HEIGHT + GAP
    right = _legend(canvas, room, end, most)
    return max(room + len(found.inputs) * CELL_WIDTH, right) + 1, end + LEGEND


def _cell(canvas: Canvas, x: float, y: float, judged: Record, most: int) -> None:
    word, value = verdict_of(judged), ratio(judged)
    if word == NO_VERDICT:
        _mark(canvas, x, y, NO_VERDICT)
        canvas.text(x + CELL_WIDTH / 2, y + 13, "–", fill="#000", text_anchor="middle")
        return
    paint = colour(value, most)
    _filled(canvas, x, y, spelled(paint))
    if word in (UNTOLD, CONTRADICTS.upper()):
        _mark(canvas, x, y, word)
    words = short(value) + (" !" if word == CONTRADICTS.upper() else "")
    canvas.text(x + CELL_WIDTH / 2, y + 13, words, fill=ink_on(paint), text_anchor="middle")


def _filled(canvas: Canvas, x: float, y: float, paint: str) -> None:
    canvas.rectangle(x + 0.5, y + 0.5, CELL_WIDTH - 1, CELL_HEIGHT - 1, fill=paint)


def _mark(canvas: Canvas, x: float, y: float, word: str) -> None:
    """Draw what stands for a word: hatching, a grey ground, or a frame."""
    if word == NO_VERDICT:
        _filled(canvas, x, y, UNJUDGED)
    elif word == UNTOLD:
        canvas.path(_hatching(x, y), stroke="#666", stroke_width=0.8)
    else:
        canvas.rectangle(
            x + 1.5, y + 1.5, CELL_WIDTH - 3, CELL_HEIGHT - 3, stroke="#000", stroke_width=2
        )


def _hatching(x: float, y: float) -> str:
    """Return oblique lines within a cell, but not where its number stands."""
    lines, high = [], CELL_HEIGHT - 1
    for at in range(6, int(CELL_WIDTH + high), 6):
        left, right = max(0.0, at - high), min(float(at), CELL_WIDTH - 1)
        if right < CELL_WIDTH * 0.28 or left > CELL_WIDTH * 0.72:
            lines.append(
                f"M{x + left:.1f} {y + at - left:.1f}L{x + right:.1f} {y + at - right:.1f}"
            )
    return "".join(lines)


def _legend(canvas: Canvas, x: float, y: float, most: int) -> float:
    """Draw the scale and the marks; return where they end on the right."""
    canvas.text(x - GAP, y + 12, "error / tolerance", fill=INK, text_anchor="end")
    powers = [-2, -1, 0, *sorted({ceil(most * part / 4) for part in (1, 2, 3, 4)})]
    for power in powers:
        value = 10.0**power
        paint = spelled(colour(value, most))
        canvas.rectangle(x, y + 2, 34, 12, fill=paint)
        canvas.text(x + 17, y + 26, _power(power), fill=INK, text_anchor="middle", font_size=9)
        x += 36
    x += 2 * GAP
    for word in (UNTOLD, NO_VERDICT, CONTRADICTS.upper()):
        if word != NO_VERDICT:
            _filled(canvas, x, y - 1, spelled(colour(1.0, most)))
        _mark(canvas, x, y - 1, word)
        canvas.text(x + CELL_WIDTH / 2, y + 26, word, fill=INK, text_anchor="middle", font_size=9)
        x += CELL_WIDTH + GAP
    return x


def _power(power: int) -> str:
    words = {-2: "≤ 0.01", -1: "0.1", 0: "1", 1: "10"}
    return words.get(power) or f"1e{power}"
