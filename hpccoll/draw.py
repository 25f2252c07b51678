"""The picture of a schedule in text: what it costs and, round by round, who sends what to whom."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import zip_longest
from textwrap import wrap

from hpccoll.cost import LETTERS, evaluate
from hpccoll.registry import Choice
from hpccoll.schedule import DATA, RIGHT, Combine, Message, Ranges, ranges
from hpccoll.symbolic import Counts, Execution

DETAILED_UP_TO = 16
"""Up to this number of ranks every message is listed beside the state of every block."""

_MEANING = {
    "→": "s → t: t receives from s",
    "→+": "s →+ t: t receives from s and reduces; s's operand stands left of t's",
    "+←": "t +← s: t receives from s and reduces; s's operand stands right of t's",
}


@dataclass(frozen=True, slots=True)
class _Arrow:
    """A message; `kind` tells what its target does with it."""

    source: int
    target: int
    kind: str
    blocks: Ranges
    scratch: int

    def text(self, grid: int) -> str:
        parts = (str(b.start) if len(b) == 1 else f"{b.start}-{b.stop - 1}" for b in self.blocks)
        names = "  signal" if not self.blocks else "" if grid == 1 else "  " + ",".join(parts)
        into = f" into scratch {self.scratch}" if self.scratch else ""
        return _ends(str(self.source), self.kind, str(self.target)) + names + into


@dataclass(frozen=True, slots=True)
class _Pattern:
    """Every rank r sends to rank r + shift `count` blocks, from its own first one + start on."""

    kind: str
    shift: int
    count: int
    start: int


@dataclass(slots=True)
class _Film:
    """What is seen of an execution: messages by step and, if detailed, blocks by step and rank."""

    choice: Choice
    size: int
    grid: int
    detailed: bool
    arrows: dict[int, list[_Arrow]] = field(default_factory=lambda: defaultdict(list))
    rows: dict[tuple[int, int], str] = field(default_factory=dict)
    counts: Counts | None = None

    def delivered(self, step: int, source: int, target: int, receive: Message) -> None:
        kind = "→"
        if isinstance(receive, Combine):
            ordered = not self.choice.algorithm.commutative
            kind = "+←" if ordered and receive.side == RIGHT else "→+"
        scratch = receive.buffer - DATA
        self.arrows[step].append(_Arrow(source, target, kind, ranges(receive.blocks), scratch))

    def finished(self, step: int, rank: int, execution: Execution) -> None:
        complete = self.size if self.choice.algorithm.collective.reduces else 1
        if self.detailed:
            values = [execution.value(rank, block) for block in range(self.grid)]
            inputs = [0 if v is None else execution.terms.mask[v].bit_count() for v in values]
            marks = {0: "·", complete: "█"}
            self.rows[step, rank] = "".join(marks.get(count, f"{count:x}") for count in inputs)


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
    film = _watch(choice, size, root, width)
    body = _columns(list(_panels(film, width)), width) if film.detailed else _listing(film, width)
    lines = [*_heading(film, root, width), "", *_legend(film, width), "", *body]
    return "\n".join(lines).rstrip()


def _watch(choice: Choice, size: int, root: int, width: int) -> _Film:
    """Execute the schedules of all ranks and return what was seen."""
    grid, natural = choice.grid(size), choice.algorithm.blocks(size)
    film = _Film(choice, size, grid, size <= DETAILED_UP_TO and grid <= width // 2)
    held = [choice.algorithm.collective.held(rank, size, root, natural) for rank in range(size)]
    start = [range(h.start * grid // natural, h.stop * grid // natural) for h in held]
    schedules = [choice.schedule(rank, size, root) for rank in range(size)]
    film.counts = Execution(schedules, start, grid, watcher=film).counts
    for arrows in film.arrows.values():
        arrows.sort(key=lambda a: (min(a.source, a.target), max(a.source, a.target), a.source))
    return film


def _heading(film: _Film, root: int, width: int) -> Iterator[str]:
    entry = film.choice.algorithm
    ranks = f"{film.size} ranks" if film.size > 1 else "1 rank"
    where = f", root {root}" if entry.collective.rooted else ""
    yield f"{entry.collective.name} {film.choice.label}, {ranks}{where}"
    if entry.placed:
        yield f"on {film.choice.placement(film.size)}"
    for paragraph in (entry.summary, entry.source):
        yield from wrap(paragraph, width)
    yield from ("", *_costs(film, width), "", _blocks(film))
    if entry.collective.reduces:
        order = ", from the root on" if where and root else ""
        ordered = f"any; operands keep the order of the ranks{order}"
        yield f"operator: {'must be commutative' if entry.commutative else ordered}"


def _costs(film: _Film, width: int) -> Iterator[str]:
    entry, counts = film.choice.algorithm, film.counts
    assert counts
    table = (
        (1, "  ", "rounds on the critical path", entry.rounds, counts.steps),
        (1, "  ", "messages sent per rank, at most", entry.messages, counts.messages),
        (film.grid, " n", "bytes sent per rank, at most", entry.sent, counts.sent),
        (film.grid, " n", "bytes reduced per rank, at most", entry.reduced, counts.reduced),
    )
    declared = film.choice.as_declared(film.size)
    for divisor, unit, what, form, counted in table:
        value = Fraction(counted, divisor)
        line = f"  {value!s:>5}{unit}  {what:<31}"
        yield f"{line}  = {form}" if declared else line.rstrip()
    if not declared:
        yield "  counted; the formulas are of the default parts on nodes of equally many ranks"
    letters = _letters(" ".join(row[3] for row in table if declared), film)
    yield from wrap(letters, width, initial_indent="  ", subsequent_indent="  ")


def _letters(forms: str, film: _Film) -> str:
    """Explain the letters in closed forms, and those in the explanations, with their values."""
    used = {*re.findall(r"[A-Za-z]\w*", forms), "n"}
    clauses: list[str] = []
    for clause in reversed(LETTERS.split(", ")):
        letter = clause.split()[0]
        if letter in used:
            used |= set(re.findall(r"[A-Za-z]\w*", clause))
            nodes = film.choice.placement(film.size).count
            value = evaluate(letter, film.size, 0, film.choice.values, nodes)
            clauses.insert(0, clause if letter in "pn" else f"{clause} = {value}")
    return ", ".join(clauses)


def _blocks(film: _Film) -> str:
    contract = film.choice.algorithm.collective
    if film.grid == 1:
        return "one block: the whole vector"
    own = range(1) in (contract.held(0, 2, 0, 2), contract.wanted(0, 2, 0, 2))
    pieces = film.grid // film.choice.algorithm.blocks(film.size)
    mine = "block r is" if pieces == 1 else f"blocks {pieces}r to {pieces}r+{pieces - 1} are"
    return f"{film.grid} blocks: equal parts of the vector" + f"; {mine} rank r's own" * own


def _legend(film: _Film, width: int) -> Iterator[str]:
    kinds = {arrow.kind for step in film.arrows.values() for arrow in step}
    meanings = [meaning for kind, meaning in _MEANING.items() if kind in kinds] or ["no messages"]
    if any(_regular(film, arrows)[0] for arrows in film.arrows.values()):
        meanings.append("every r: all ranks do the same; ranks and blocks wrap around")
    if film.detailed:
        digits = ", digit: inputs reduced so far (hex)" if "+" in "".join(kinds) else ""
        meanings.append(f"│…│: a rank's blocks after the round; · nothing{digits}, █ complete")
    for meaning in meanings:
        yield from wrap(meaning, width, subsequent_indent="  ")


def _panels(film: _Film, width: int) -> Iterator[list[str]]:
    """Draw every rank's blocks at the start and after every round, beside what it received."""
    rows: dict[int, str] = {}
    for step in range(max(film.arrows, default=0) + 1):
        rows |= {r: film.rows[step, r] for r in range(film.size) if (step, r) in film.rows}
        arrows = film.arrows.get(step, [])
        every = [_every(film, [pattern]) for pattern in _regular(film, arrows)[0]]
        panel = [_line(step, step, every) if step else "start"]
        for rank, row in rows.items():
            received = [[arrow.text(film.grid)] for arrow in arrows if arrow.target == rank]
            first, *more = [*_columns(received, width - film.grid - 8)] or [""]
            panel.append(f"{rank:>4} │{row}│  {first}".rstrip())
            panel += (" " * (film.grid + 8) + line for line in more)
        yield [*panel, ""]


def _listing(film: _Film, width: int) -> Iterator[str]:
    """List the messages of every round; regular rounds that continue one another in one line."""
    run: list[_Pattern] = []
    for step in range(1, max(film.arrows, default=0) + 2):
        patterns, others = _regular(film, film.arrows.get(step, []))
        alone = len(patterns) == 1 and not others
        if run and not (alone and _continues(run, patterns[0], film.grid)):
            yield _line(step - len(run), step - 1, [_every(film, run)])
            run = []
        if alone:
            run += patterns
        elif patterns or others:
            yield _line(step, step, [_every(film, [pattern]) for pattern in patterns])
            cells = [[arrow.text(film.grid)] for arrow in others]
            yield from ("  " + line for line in _columns(cells, width - 2))


def _regular(film: _Film, arrows: list[_Arrow]) -> tuple[list[_Pattern], list[_Arrow]]:
    """Return what all ranks do alike, and the other messages."""
    sources: dict[_Pattern | None, set[int]] = defaultdict(set)
    for arrow in arrows:
        sources[_pattern(film, arrow)].add(arrow.source)
    patterns = [p for p, ranks in sources.items() if p and len(ranks) == film.size]
    return patterns, [arrow for arrow in arrows if _pattern(film, arrow) not in patterns]


def _pattern(film: _Film, arrow: _Arrow) -> _Pattern | None:
    """Describe a message relative to its source if its blocks are a single range mod the grid."""
    named = {block for part in arrow.blocks for block in part}
    first = [block for block in named if (block - 1) % film.grid not in named]
    shift, own = (arrow.target - arrow.source) % film.size, arrow.source * film.grid // film.size
    if len(named) == film.grid and not arrow.scratch:
        return _Pattern(arrow.kind, shift, len(named), 0)
    if len(first) != 1 or film.grid % film.size or arrow.scratch:
        return None
    return _Pattern(arrow.kind, shift, len(named), (first[0] - own) % film.grid)


def _continues(run: list[_Pattern], after: _Pattern, grid: int) -> bool:
    """Tell whether the next round is like the last one, its blocks moved on by a constant."""
    starts = [pattern.start for pattern in (*run[-2:], after)]
    constant = len(run) == 1 or (starts[0] - 2 * starts[1] + starts[2]) % grid == 0
    return constant and replace(after, start=run[-1].start) == run[-1]


def _every(film: _Film, run: list[_Pattern]) -> str:
    """Say what every rank does in successive regular rounds."""
    ends = _ends("r", run[0].kind, _plus("r", _centred(run[0].shift, film.size)))
    if run[0].count == film.grid:
        return f"every {ends}" + "  all blocks" * (film.grid > 1)
    own = "r" if film.grid == film.size else f"{film.grid // film.size}r"
    start = _centred(run[0].start, film.grid)
    move = _centred(run[-1].start - run[-2].start, film.grid) if len(run) > 1 else 0
    names = [_plus(own, start + move * i) for i in range(len(run))]
    if (more := run[0].count - 1) > 0:
        names = [f"{a}..{_plus(own, start + move * i + more)}" for i, a in enumerate(names)]
    listed = ", ".join(names if len(names) < 4 else [*names[:2], "…", names[-1]])
    return f"every {ends}  block{'s'[:more]} {listed}"


def _line(first: int, last: int, every: list[str]) -> str:
    rounds = f"round {first}" if first == last else f"rounds {first}-{last}"
    return "   ".join((rounds, *every))


def _centred(number: int, modulus: int) -> int:
    below = (modulus - 1) // 2
    return (number + below) % modulus - below


def _plus(name: str, number: int) -> str:
    return f"{name}{number:+d}" if number else name


def _ends(source: str, kind: str, target: str) -> str:
    return f"{target} {kind} {source}" if kind == "+←" else f"{source} {kind} {target}"


def _columns(cells: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Set cells of one or more lines beside and below one another."""
    wide = max((len(line) for cell in cells for line in cell), default=0) + 3
    each = max(1, (width + 3) // wide)
    for i in range(0, len(cells), each):
        for line in zip_longest(*cells[i : i + each], fillvalue=""):
            yield "".join(part.ljust(wide) for part in line).rstrip()
