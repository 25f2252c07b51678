"""The picture of a schedule in text: what it costs and, round by round, who sends what to whom."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from textwrap import wrap

from hpccoll.choice import Choice
from hpccoll.listing import costs, letters
from hpccoll.regular import ends, every, regular, runs
from hpccoll.trace import COPIED, FINISHED, LEFT_OF_OWN, RIGHT_OF_OWN, Arrow, Trace, watch

DETAILED_UP_TO = 16
"""Up to this number of ranks every message is listed beside the state of every block."""

_MEANING = {
    COPIED: "s → t: t receives from s",
    LEFT_OF_OWN: "s →+ t: t receives from s and reduces; s's operand stands left of t's",
    RIGHT_OF_OWN: "t +← s: t receives from s and reduces; s's operand stands right of t's",
}


def text(choice: Choice, size: int, root: int = 0, width: int = 100) -> str:
    """Return the schedule of all ranks as lines of about `width` characters.

    A round is a step of the critical path: messages that complete at the same time, if all take
    equally long, stand together.

    Raises
    ------
    UnsupportedError
        The algorithm isn't defined for `size` ranks.
    VerificationError
        The schedule can't be executed; the message is the counterexample.
    """
    choice.check(size)
    states = size <= DETAILED_UP_TO and choice.grid(size) <= width // 2
    trace = watch(choice, size, root, states)
    body = _columns(list(_panels(trace, width)), width) if trace.states else _listing(trace, width)
    lines = [*_heading(trace, width), "", *_legend(trace, width), "", *body]
    return "\n".join(lines).rstrip()


def _heading(trace: Trace, width: int) -> Iterator[str]:
    entry = trace.choice.algorithm
    ranks = f"{trace.size} ranks" if trace.size > 1 else "1 rank"
    where = f", root {trace.root}" if entry.collective.rooted else ""
    yield f"{entry.collective.name} {trace.choice.label}, {ranks}{where}"
    if entry.placed:
        yield f"on {trace.choice.placement(trace.size)}"
    for paragraph in (entry.summary, entry.source):
        yield from wrap(paragraph, width)
    yield from ("", *_costs(trace, width), "", _blocks(trace))
    if entry.collective.reduces:
        order = ", from the root on" if where and trace.root else ""
        ordered = f"any; operands keep the order of the ranks{order}"
        yield f"operator: {'must be commutative' if entry.commutative else ordered}"


def _costs(trace: Trace, width: int) -> Iterator[str]:
    table = costs(trace.choice, trace.size, trace.counts)
    for cost in table:
        unit = " n" if cost.of_n else "  "
        form = f"= {cost.form}" if cost.form else "(counted)"
        yield f"  {cost.value!s:>5}{unit}  {cost.what:<31}  {form}"
    explained = letters(" ".join(cost.form for cost in table), trace.choice, trace.size)
    yield from wrap(explained, width, initial_indent="  ", subsequent_indent="  ")
    choice, entry = trace.choice, trace.choice.algorithm
    if free := [name for name in entry.chosen if name not in choice.parameters]:
        sentence = f"a message of n bytes gets the {' and '.join(free)} for the least {entry.time}"
        yield from wrap(sentence, width, initial_indent="  ", subsequent_indent="  ")


def _blocks(trace: Trace) -> str:
    contract = trace.choice.algorithm.collective
    if not contract.moves_data:
        return "no blocks: only signals"
    if contract.natural(trace.size) == trace.size**2 > 1:
        return f"{trace.grid} blocks: what rank s has for rank d is block {trace.size}s+d, or s:d"
    if trace.grid == 1:
        return "one block: the whole vector"
    own = range(1) in (contract.held(0, 2, 0, 2), contract.wanted(0, 2, 0, 2))
    pieces = trace.grid // trace.choice.blocks(trace.size)
    mine = "block r is" if pieces == 1 else f"blocks {pieces}r to {pieces}r+{pieces - 1} are"
    return f"{trace.grid} blocks: equal parts of the vector" + f"; {mine} rank r's own" * own


def _legend(trace: Trace, width: int) -> Iterator[str]:
    kinds = {arrow.kind for step in trace.arrows.values() for arrow in step}
    meanings = [meaning for kind, meaning in _MEANING.items() if kind in kinds] or ["no messages"]
    if any(regular(trace, arrows)[0] for arrows in trace.arrows.values()):
        meanings.append("every r: all ranks do the same; ranks and blocks wrap around")
    if trace.states:
        digits = ", digit: inputs reduced so far (hex)" if "+" in "".join(kinds) else ""
        blocks = f"a rank's blocks after the round; · nothing{digits}, █ complete"
        moves_data = trace.choice.algorithm.collective.moves_data
        arrivals = "after the round, █ for each rank that this one knows to have come"
        meanings.append(f"│…│: {blocks if moves_data else arrivals}")
    for meaning in meanings:
        yield from wrap(meaning, width, subsequent_indent="  ")


def _panels(trace: Trace, width: int) -> Iterator[list[str]]:
    """Draw every rank's blocks at the start and after every round, beside what it received."""
    rows: dict[int, str] = {}
    for step in range(trace.steps + 1):
        rows |= {
            rank: _row(trace.inputs[step, rank])
            for rank in range(trace.size)
            if (step, rank) in trace.inputs
        }
        arrows = trace.arrows.get(step, [])
        said = ["every " + every(trace, [pattern]) for pattern in regular(trace, arrows)[0]]
        panel = [_line(step, step, said) if step else "start"]
        for rank, row in rows.items():
            received = [[_message(a, trace.grid)] for a in arrows if a.target == rank]
            first, *more = [*_columns(received, width - trace.cells - 8)] or [""]
            panel.append(f"{rank:>4} │{row}│  {first}".rstrip())
            panel += (" " * (trace.cells + 8) + line for line in more)
        yield [*panel, ""]


def _row(inputs: Sequence[int]) -> str:
    marks = {0: "·", FINISHED: "█"}
    return "".join(marks.get(count, f"{count:x}") for count in inputs)


def _message(arrow: Arrow, grid: int) -> str:
    parts = (str(b.start) if len(b) == 1 else f"{b.start}-{b.stop - 1}" for b in arrow.blocks)
    names = "  signal" if not arrow.blocks else "" if grid == 1 else "  " + ",".join(parts)
    into = f" into scratch {arrow.scratch}" if arrow.scratch else ""
    return ends(str(arrow.source), arrow.kind, str(arrow.target)) + names + into


def _listing(trace: Trace, width: int) -> Iterator[str]:
    """List the messages of every round; regular rounds that continue one another in one line."""
    for run in runs(trace):
        if run.first < run.last:
            yield _line(run.first, run.last, ["every " + every(trace, run.patterns)])
            continue
        said = ["every " + every(trace, [pattern]) for pattern in run.patterns]
        yield _line(run.first, run.last, said)
        cells = [[_message(arrow, trace.grid)] for arrow in run.others]
        yield from ("  " + line for line in _columns(cells, width - 2))


def _line(first: int, last: int, said: list[str]) -> str:
    rounds = f"round {first}" if first == last else f"rounds {first}-{last}"
    return "   ".join((rounds, *said))


def _columns(cells: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Set cells of one or more lines beside and below one another."""
    wide = max((len(line) for cell in cells for line in cell), default=0) + 3
    each = max(1, (width + 3) // wide)
    for i in range(0, len(cells), each):
        for line in zip_longest(*cells[i : i + each], fillvalue=""):
            yield "".join(part.ljust(wide) for part in line).rstrip()
