"""The picture of a schedule as SVG: ranks are lanes, rounds are columns, messages are arrows.

Between the columns stands what every rank holds: one cell per block, filled as high as inputs have
been reduced into it. A round is a step of the critical path. The drawing needs no library, and it
is legible without colour.
"""

from collections.abc import Iterator, Sequence
from math import ceil, sqrt

from hpccoll.choice import Choice
from hpccoll.export import arrows, strips
from hpccoll.export.canvas import GREY, INK, Canvas, number, width
from hpccoll.export.columns import Column, columns
from hpccoll.export.words import heading, legend
from hpccoll.trace import Arrow, Trace, watch

LABELLED_UP_TO = 16
"""Up to this number of ranks messages are labelled with their blocks."""

_LANE = "#f3f3ef"
_MARGIN = 24.0
_RANKS = 46.0
_LEAST_WIDTH = 640.0
_SHAPE = 1.6
"""Width to height of the drawing, about, where there are enough rounds to choose."""


def text(choice: Choice, size: int, root: int = 0) -> str:
    """Return the picture of the schedules of all ranks.

    Raises
    ------
    UnsupportedError
        The algorithm isn't defined for `size` ranks.
    VerificationError
        The schedule can't be executed; the message is the counterexample.
    """
    choice.check(size)
    moves_data = choice.algorithm.collective.moves_data
    shape = strips.strip(size, choice.grid(size) if moves_data else size)
    return _Picture(watch(choice, size, root, shape is not None), shape).svg()


class _Picture:
    def __init__(self, trace: Trace, shape: strips.Strip | None) -> None:
        self.trace, self.shape = trace, shape
        self.strip = shape.width if shape else 6.0
        self.canvas = Canvas()
        self.most = arrows.received_at_most(trace)
        self.marked = trace.size <= LABELLED_UP_TO and self.most <= arrows.LABELS_PER_RANK
        self.labelled = self.marked and trace.grid > 1
        self.lane = self._lane()
        self.columns, self.notes = columns(trace)
        self.curve = 52.0 + 1.5 * min(trace.size, 40)
        self.systems = self._systems()
        drawing = 2 * _MARGIN + _RANKS + self.strip + self._widest()
        self.width = max(drawing, _LEAST_WIDTH)
        if self.columns:  # a small drawing fills the width
            self.curve += min((self.width - drawing) / len(self.systems[0]), 2 * self.curve)
        self.held: list[Sequence[int]] = [()] * trace.size

    # Measures

    def _lane(self) -> float:
        size = self.trace.size
        least = 34.0 if size <= 8 else 28.0 if size <= 16 else max(2.0, min(14.0, 900 / size))
        inside = self.shape.height + 6 if self.shape else 0.0
        return max(least, inside, self.most * arrows.ROW + 6 if self.marked else 0.0)

    def _messages(self, column: Column) -> list[Arrow]:
        return self.trace.arrows.get(column.first, [])

    def _width(self, column: Column) -> float:
        """Return the width of a column with the strip behind it."""
        if not column.shown:
            return max(36.0, width(column.name, 9) + 8) + self.strip
        ends = arrows.room(self.trace, self._messages(column), self.labelled, self.marked)
        said = 0.0 if self.labelled else width(column.said, 9) + 8
        return max(self.curve + ends + 12, said - self.strip) + self.strip

    def _systems(self) -> list[list[Column]]:
        """Break the columns into lines, as in music, so that the drawing has a good shape."""
        whole = sum(map(self._width, self.columns))
        height = self.trace.size * self.lane + 64
        lines = max(1, round(sqrt(whole / height / _SHAPE)))
        each = max(1, ceil(len(self.columns) / lines))
        return [self.columns[s : s + each] for s in range(0, max(1, len(self.columns)), each)]

    def _widest(self) -> float:
        return max(sum(map(self._width, system)) for system in self.systems)

    # Drawing

    def svg(self) -> str:
        """Draw everything and return the document."""
        trace = self.trace
        y = heading(self.canvas, trace, _MARGIN, self.width - 2 * _MARGIN)
        self._hold(0)
        for system in self.systems:
            y = self._system(system, y)
        notes = [*self.notes, *self._left_out()]
        at = (_MARGIN, y + 8)
        y = legend(self.canvas, trace, self.marked, notes, at, self.width - 2 * _MARGIN)
        entry = trace.choice.algorithm
        title = f"{entry.collective.name} {trace.choice.label} on {trace.size} ranks"
        return self.canvas.svg(self.width, y + 8, title, entry.summary)

    def _left_out(self) -> Iterator[str]:
        if not self.shape:
            yield f"{self.trace.cells} blocks are too many to draw what ranks hold"
        if self.trace.size <= LABELLED_UP_TO and not self.marked:
            yield f"no labels: a rank receives up to {self.most} messages in a round"

    def _system(self, system: list[Column], y: float) -> float:
        """Draw one line of columns below `y` and return where it ends."""
        top = y + 34
        x = _MARGIN + _RANKS
        self._lanes(top, x + self.strip + sum(map(self._width, system)))
        self.canvas.text(_MARGIN, top - 18, "rank", fill=GREY)
        self._strips(x, top)
        if system == self.systems[0]:
            self._start(x + self.strip / 2, top)
        for column in system:
            begin = x + self.strip
            x += self._width(column)
            self._heads(column, begin, x, top)
            if column.shown:
                self._arrows(column, begin, x, top)
            for step in range(column.first, column.last + 1):
                self._hold(step)
            self._strips(x, top)
        return top + self.trace.size * self.lane + 4

    def _lanes(self, top: float, right: float) -> None:
        bands = "".join(
            f"M{number(_MARGIN)} {number(top + rank * self.lane)}"
            f"H{number(right + 8)}v{number(self.lane)}H{number(_MARGIN)}z"
            for rank in range(0, self.trace.size, 2)
        )
        self.canvas.path(bands, fill=_LANE)
        every = max(1, ceil(9 / self.lane))
        size = min(11.0, max(7.0, self.lane - 4))
        with self.canvas.group(font_size=size, fill=INK, text_anchor="end", font_weight="bold"):
            for rank in range(0, self.trace.size, every):
                y = top + (rank + 0.5) * self.lane + size * 0.36
                self.canvas.text(_MARGIN + _RANKS - 12, y, str(rank))

    def _start(self, middle: float, top: float) -> None:
        last = self.trace.cells - 1
        with self.canvas.group(text_anchor="middle", fill=INK):
            self.canvas.text(middle, top - 18, "start", font_weight="bold", font_size=11)
            if self.shape and last and self.strip >= 40:
                moves_data = self.trace.choice.algorithm.collective.moves_data
                name = f"{'blocks' if moves_data else 'ranks'} 0–{last}"
                self.canvas.text(middle, top - 6, name, font_size=9, fill=GREY)

    def _strips(self, x: float, top: float) -> None:
        if self.shape:
            at = (x, top + (self.lane - self.shape.height) / 2)
            strips.draw(self.canvas, self.trace, self.shape, at, self.lane, self.held)

    def _heads(self, column: Column, begin: float, end: float, top: float) -> None:
        """Write a column's name, and what all ranks do alike if there is room."""
        canvas, middle = self.canvas, (begin + end) / 2
        with canvas.group(text_anchor="middle", fill=INK if column.shown else GREY):
            if not column.shown:
                canvas.text(middle, top + self.trace.size * self.lane / 2, "⋯", font_size=22)
                canvas.text(middle, top - 18, column.name, font_size=9)
                return
            canvas.text(middle, top - 18, column.name, font_weight="bold", font_size=11)
            if column.said and width(column.said, 9) <= end - begin + self.strip - 4:
                canvas.text(middle, top - 6, column.said, font_size=9, fill=GREY)

    def _arrows(self, column: Column, begin: float, end: float, top: float) -> None:
        messages = self._messages(column)
        ends = arrows.room(self.trace, messages, self.labelled, self.marked)
        zone = arrows.Zone(
            begin + 3,
            end - ends - 6,
            lambda rank: top + (rank + 0.5) * self.lane,
            self.lane - 4,
            self.labelled,
            self.marked,
        )
        arrows.draw(self.canvas, self.trace, zone, messages)

    def _hold(self, step: int) -> None:
        """Let every rank hold what it holds after `step`."""
        for rank in range(self.trace.size):
            if (found := self.trace.inputs.get((step, rank))) is not None:
                self.held[rank] = found
