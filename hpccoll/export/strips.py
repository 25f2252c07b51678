"""What a rank holds, drawn as a strip of cells: one per block, filled as inputs are reduced."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from hpccoll.export.canvas import Canvas, number
from hpccoll.trace import FINISHED, Trace

WHOLE, PART, FRAME = "#0072b2", "#f0a35e", "#8a8a8a"
CELLS_IN_A_ROW = 160
"""Where there are more blocks and they don't form a square, what ranks hold is not drawn."""


@dataclass(frozen=True, slots=True)
class Strip:
    """Cells in rows; block b is cell b, row by row."""

    columns: int
    rows: int
    cell_width: float
    cell_height: float

    @property
    def width(self) -> float:
        """Return the width of the strip."""
        return self.columns * self.cell_width

    @property
    def height(self) -> float:
        """Return the height of the strip."""
        return self.rows * self.cell_height


def strip(size: int, grid: int) -> Strip | None:
    """Return how `grid` blocks of a rank are drawn, None if there are none or too many."""
    height = 20.0 if size <= 16 else 9.0
    if grid == size * size and size > 2:  # of every source for every destination
        cell = max(3.0, height / size) if size <= 16 else 0.0
        return Strip(size, size, cell, cell) if cell else None
    if not 0 < grid <= CELLS_IN_A_ROW:
        return None
    return Strip(grid, 1, min(9.0, max(1.0, 84 / grid)) if grid > 1 else 14.0, height)


def draw(
    canvas: Canvas,
    trace: Trace,
    shape: Strip,
    at: tuple[float, float],
    pitch: float,
    held: Sequence[Sequence[int]],
) -> None:
    """Draw the strips of one column below one another, each rank's `pitch` below the last.

    Parameters
    ----------
    at
        The upper left corner of the first.
    held
        By rank, the inputs in every block.
    """
    x, top = at
    whole, part, frames = "", "", ""
    for rank, inputs in enumerate(held):
        base = top + rank * pitch
        frames += _box(x, base + shape.height, shape.width, shape.height)
        for count, first, end, row in _same(inputs, shape.columns):
            share = 1.0 if count == FINISHED else count / trace.size
            data = _box(
                x + first * shape.cell_width,
                base + (row + 1) * shape.cell_height,
                (end - first) * shape.cell_width,
                max(1.2, share * shape.cell_height),
            )
            whole, part = (whole + data, part) if count == FINISHED else (whole, part + data)
    canvas.path(frames, fill="#fff", stroke=FRAME, stroke_width=0.8)
    canvas.path(part, fill=PART)
    canvas.path(whole, fill=WHOLE)
    _separate(canvas, shape, at, pitch, len(held))


def _separate(
    canvas: Canvas, shape: Strip, at: tuple[float, float], pitch: float, ranks: int
) -> None:
    """Draw white lines between cells, over all lanes at once: dashes leave out what is between."""
    x, top = at
    if shape.rows > 1 or shape.cell_width < 3:
        return
    down = number((ranks - 1) * pitch + shape.height)
    gaps = "".join(
        f"M{number(x + block * shape.cell_width)} {number(top)}v{down}"
        for block in range(1, shape.columns)
    )
    dashes = f"{number(shape.height)} {number(pitch - shape.height)}"
    canvas.path(gaps, stroke="#fff", stroke_width=0.8, stroke_dasharray=dashes)


def _same(inputs: Sequence[int], columns: int) -> Iterable[tuple[int, int, int, int]]:
    """Yield the runs of cells of a row that hold as much: (inputs, first, end, row)."""
    for row in range(0, len(inputs), columns):
        at = 0
        for count, group in groupby(inputs[row : row + columns]):
            end = at + len(list(group))
            if count:
                yield count, at, end, row // columns
            at = end


def _box(x: float, bottom: float, width: float, height: float) -> str:
    w, h = number(width), number(height)
    return f"M{number(x)} {number(bottom)}h{w}v-{h}h-{w}z"
