"""The words of a picture: what it shows and costs above, what its signs mean below."""

from collections.abc import Callable, Iterator, Sequence

from hpccoll.export import arrows, strips
from hpccoll.export.canvas import GREY, INK, JOINT, Canvas, lines, number, width
from hpccoll.listing import costs, letters
from hpccoll.trace import COPIED, LEFT_OF_OWN, RIGHT_OF_OWN, Trace

_SMALL = 10.0

Corner = tuple[float, float]


def heading(canvas: Canvas, trace: Trace, x: float, room: float) -> float:
    """Write title, summary and costs from the closed forms; return where they end."""
    entry = trace.choice.algorithm
    title = f"{entry.collective.name} {trace.choice.label}"
    ranks = f"{trace.size} ranks" if trace.size > 1 else "1 rank"
    where = f", root {trace.root}" if entry.collective.rooted else ""
    where += f", {trace.choice.placement(trace.size)}" if entry.placed else ""
    canvas.text(x, 40, title, font_size=20, font_weight="bold", fill=INK)
    canvas.text(x + 1.12 * width(title, 20) + 4, 40, f"on {ranks}{where}", font_size=15, fill=GREY)
    y = _paragraph(canvas, entry.summary, (x, 60), room, 12, INK)
    table = costs(trace.choice, trace.size, trace.counts)
    names = ("rounds", "messages", "sent", "reduced")
    facts = [
        f"{name} {cost.value}{' n' if cost.of_n else ''}" + f" = {cost.form}" * bool(cost.form)
        for name, cost in zip(names, table, strict=True)
        if cost.value or name != "reduced"
    ]
    together = "  ·  ".join(fact.replace(" ", JOINT) for fact in facts)
    y = _paragraph(canvas, together, (x, y + 2), room, 11, INK)
    explained = letters(" ".join(cost.form for cost in table), trace.choice, trace.size)
    clauses = ", ".join(clause.replace(" ", JOINT) for clause in explained.split(", "))
    per_rank = f"messages and bytes: of the rank with most; {clauses}"
    return _paragraph(canvas, per_rank, (x, y), room, _SMALL, GREY)


def _paragraph(
    canvas: Canvas, words: str, at: Corner, room: float, size: float, colour: str
) -> float:
    """Write lines from the base line `at` on and return the base line after the last one."""
    x, y = at
    for line in lines(words, room, size):
        canvas.text(x, y, line, font_size=size, fill=colour)
        y += 1.4 * size
    return y


def legend(
    canvas: Canvas, trace: Trace, marked: bool, notes: Sequence[str], at: Corner, room: float
) -> float:
    """Explain the signs that occur, and write notes and the source; return where they end."""
    x, y = at[0], at[1] + 14
    left = x
    for wide, words, sign in _signs(canvas, trace, marked):
        needs = wide + 6 + width(words, _SMALL) + 18
        if left > x and left + needs > x + room:
            left, y = x, y + 20
        sign(left, y - 4)
        canvas.text(left + wide + 6, y, words, font_size=_SMALL, fill=INK)
        left += needs
    y += 18
    for note in filter(None, (*notes, trace.choice.algorithm.source)):
        y = _paragraph(canvas, note, (x, y), room, _SMALL, GREY)
    return y


Sign = tuple[float, str, Callable[[float, float], None]]


def _signs(canvas: Canvas, trace: Trace, marked: bool) -> Iterator[Sign]:
    """Yield the width, the meaning and the drawing, at a middle line, of every sign."""
    found = [arrow for step in trace.arrows.values() for arrow in step]
    if trace.states:
        partial = any(count > 0 for inputs in trace.inputs.values() for count in inputs)
        yield 12, _whole(trace), _cell(canvas, strips.WHOLE, 1.0)
        if partial:
            yield (
                12,
                "inputs of some ranks, as high as their share",
                _cell(canvas, strips.PART, 0.5),
            )
        if any(0 in inputs for inputs in trace.inputs.values()):
            nothing = "nothing" if trace.choice.algorithm.collective.moves_data else "it isn't"
            yield 12, nothing, _cell(canvas, strips.PART, 0.0)
    if any(a.kind == COPIED and a.blocks for a in found):
        yield 26, "received", _line(canvas, arrows.COPY)
    kinds = {a.kind for a in found}
    ordered = not trace.choice.algorithm.commutative
    if kinds & {LEFT_OF_OWN, RIGHT_OF_OWN}:
        yield 26, "received and reduced", _line(canvas, arrows.REDUCE)
    if ordered and marked:
        if LEFT_OF_OWN in kinds:
            yield 10, "received operand stands left of own", _mark(canvas, LEFT_OF_OWN)
        if RIGHT_OF_OWN in kinds:
            yield 10, "received operand stands right of own", _mark(canvas, RIGHT_OF_OWN)
    if any(not a.blocks for a in found):
        yield 26, "signal without data", _line(canvas, arrows.SIGNAL)
    if marked and any(a.scratch for a in found):
        yield 0, "s1: into scratch buffer 1", lambda x, y: None


def _whole(trace: Trace) -> str:
    contract = trace.choice.algorithm.collective
    if not contract.moves_data:
        return "this rank is known to have come"
    return f"complete: reduced over all {trace.size} ranks" if contract.averages else "complete"


def _cell(canvas: Canvas, colour: str, share: float) -> Callable[[float, float], None]:
    def draw(x: float, y: float) -> None:
        canvas.rectangle(x, y - 6, 10, 12, fill="#fff")
        if share:
            canvas.rectangle(x, y + 6 - 12 * share, 10, 12 * share, fill=colour)
        canvas.rectangle(x, y - 6, 10, 12, stroke=strips.FRAME, stroke_width=0.8)

    return draw


def _line(canvas: Canvas, colour: str) -> Callable[[float, float], None]:
    def draw(x: float, y: float) -> None:
        dashes = {"stroke_dasharray": "4 3"} if colour == arrows.SIGNAL else {}
        canvas.path(f"M{number(x)} {number(y)}h20", stroke=colour, stroke_width=1.4, **dashes)
        canvas.path(arrows.head(x + 20, y), fill=colour)

    return draw


def _mark(canvas: Canvas, kind: str) -> Callable[[float, float], None]:
    return lambda x, y: arrows.mark(canvas, x + 5, y, kind, ordered=True)
