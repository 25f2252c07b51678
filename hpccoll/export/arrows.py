"""Messages of one round, drawn as arrows between lanes and labelled with their blocks."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hpccoll.export.canvas import INK, Canvas, number, width
from hpccoll.schedule import Ranges
from hpccoll.trace import COPIED, LEFT_OF_OWN, Arrow, Trace

COPY, REDUCE, SIGNAL = "#0072b2", "#d55e00", "#555555"
LABEL = 10.0
"""Font size of labels."""
LABELS_PER_RANK = 5
"""Where a rank receives more messages than this in one round, they have no labels."""
ROW = 12.0
"""Height of a label."""
_MARK = 12.0
HEAD = 6.0


@dataclass(frozen=True, slots=True)
class Zone:
    """Where the messages of a round are drawn: curves from `start` to `end`, then labels.

    Attributes
    ----------
    centre
        The middle of a rank's lane.
    room
        The height of a lane that arrows may end in.
    """

    start: float
    end: float
    centre: Callable[[int], float]
    room: float
    labelled: bool
    marked: bool


def received_at_most(trace: Trace) -> int:
    """Return the most messages that a rank receives in one round."""
    return max(
        (len(of) for step in trace.arrows.values() for of in by_target(step).values()), default=0
    )


def by_target(arrows: Iterable[Arrow]) -> dict[int, list[Arrow]]:
    """Return messages by the rank that receives them, each rank's by their source."""
    found: dict[int, list[Arrow]] = defaultdict(list)
    for arrow in sorted(arrows, key=lambda arrow: arrow.source):
        found[arrow.target].append(arrow)
    return found


def room(trace: Trace, arrows: Sequence[Arrow], labelled: bool, marked: bool) -> float:
    """Return the width that heads, marks and labels of a round need."""
    marks = _MARK if marked and any(a.kind != COPIED for a in arrows) else 0.0
    words = max((width(label(a, trace.grid), LABEL) for a in arrows), default=0.0)
    return HEAD + marks + (words if labelled else 0.0)


def label(arrow: Arrow, grid: int) -> str:
    """Return the blocks of a message, as ranges; nothing if there is only one block."""
    into = f"s{arrow.scratch}:" if arrow.scratch else ""
    return into + (shortened(arrow.blocks) if grid > 1 else "")


def shortened(blocks: Ranges) -> str:
    """Return names of blocks as ranges; long lists are cut, evenly spaced ones by their sense.

    >>> shortened((range(0, 4), range(7, 8)))
    '0–3,7'
    >>> shortened(tuple(range(b, b + 1) for b in range(0, 14, 2)))
    '0,2,…,12'
    """
    names = [str(b.start) if len(b) == 1 else f"{b.start}–{b.stop - 1}" for b in blocks]
    if len(names) < 4:
        return ",".join(names)
    if len({b.start - a.start for a, b in pairwise(blocks)}) == 1:
        return f"{names[0]},{names[1]},…,{names[-1]}"
    total = sum(map(len, blocks))
    return f"{names[0]},{names[1]},… ({total})"


def draw(canvas: Canvas, trace: Trace, zone: Zone, arrows: Sequence[Arrow]) -> None:
    """Draw the messages of a round."""
    lines: dict[str, str] = defaultdict(str)
    heads: dict[str, str] = defaultdict(str)
    marks: list[tuple[float, str]] = []
    labels: list[tuple[float, float, str]] = []
    for target, received in by_target(arrows).items():
        pitch = min(ROW, zone.room / len(received))
        for place, arrow in enumerate(received):
            y = zone.centre(target) + (place - (len(received) - 1) / 2) * pitch
            colour = _colour(arrow)
            lines[colour] += _curve(zone.start, zone.centre(arrow.source), zone.end, y)
            heads[colour] += head(zone.end, y)
            x = zone.end + HEAD
            if zone.marked and arrow.kind != COPIED:
                marks.append((y, arrow.kind))
                x += _MARK
            if zone.labelled and (words := label(arrow, trace.grid)):
                labels.append((x, y + LABEL * 0.36, words))
    for colour, data in lines.items():
        dashes = {"stroke_dasharray": "4 3"} if colour == SIGNAL else {}
        canvas.path(data, stroke=colour, stroke_width=_stroke(len(arrows)), **dashes)
    for colour, data in heads.items():
        canvas.path(data, fill=colour)
    for y, kind in marks:
        mark(
            canvas, zone.end + HEAD + _MARK / 2 - 1, y, kind, not trace.choice.algorithm.commutative
        )
    if labels:
        with canvas.group(font_size=LABEL, fill=INK):
            for x, y, words in labels:
                canvas.text(x, y, words)


def mark(canvas: Canvas, x: float, y: float, kind: str, ordered: bool) -> None:
    """Draw the sign of a reduction; where order counts, the received operand's half is dark."""
    r = 4.0
    circle = f"M{number(x - r)} {number(y)}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 -{2 * r} 0z"
    plus = f"M{number(x - r)} {number(y)}h{2 * r}M{number(x)} {number(y - r)}v{2 * r}"
    canvas.path(circle, fill="#fff")
    if ordered:
        sweep = 0 if kind == LEFT_OF_OWN else 1
        canvas.path(f"M{number(x)} {number(y - r)}a{r} {r} 0 0 {sweep} 0 {2 * r}z", fill="#f0a35e")
    canvas.path(circle + plus, stroke=REDUCE, stroke_width=1.2)


def _colour(arrow: Arrow) -> str:
    if not arrow.blocks:
        return SIGNAL
    return COPY if arrow.kind == COPIED else REDUCE


def _stroke(count: int) -> float:
    return 1.4 if count <= 32 else 0.9 if count <= 128 else 0.4


def _curve(x0: float, y0: float, x1: float, y1: float) -> str:
    middle = number((x0 + x1) / 2)
    a, b = number(y0), number(y1)
    return f"M{number(x0)} {a}C{middle} {a} {middle} {b} {number(x1)} {b}"


def head(x: float, y: float) -> str:
    """Return the path of an arrow's head behind (x, y)."""
    return f"M{number(x + 4)} {number(y)}l-5.5 -2.8v5.6z"
