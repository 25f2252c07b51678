"""What all ranks do alike in a round, and rounds that continue one another."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hpccoll.trace import RIGHT_OF_OWN, Arrow, Trace


@dataclass(frozen=True, slots=True)
class Pattern:
    """Every rank r sends to rank r + shift `count` blocks, from its own first one + start on."""

    kind: str
    shift: int
    count: int
    start: int


@dataclass(frozen=True, slots=True)
class Run:
    """Successive steps that are described together.

    Attributes
    ----------
    patterns
        Of several steps, one for each; of a single step, all that its messages follow.
    others
        The messages of a single step that follow no pattern.
    """

    first: int
    last: int
    patterns: tuple[Pattern, ...]
    others: tuple[Arrow, ...] = ()


def runs(trace: Trace) -> Iterator[Run]:
    """Yield the steps of a trace; those that continue one another regularly as one run."""
    pending: list[Pattern] = []
    for step in range(1, trace.steps + 2):
        patterns, others = regular(trace, trace.arrows.get(step, ()))
        alone = len(patterns) == 1 and not others
        if pending and not (alone and _continues(pending, patterns[0], trace.grid)):
            yield Run(step - len(pending), step - 1, tuple(pending))
            pending = []
        if alone:
            pending += patterns
        elif patterns or others:
            yield Run(step, step, tuple(patterns), tuple(others))


def regular(trace: Trace, arrows: Iterable[Arrow]) -> tuple[list[Pattern], list[Arrow]]:
    """Return what all ranks do alike, and the other messages."""
    arrows = list(arrows)
    sources: dict[Pattern | None, set[int]] = defaultdict(set)
    for arrow in arrows:
        sources[_pattern(trace, arrow)].add(arrow.source)
    patterns = [p for p, ranks in sources.items() if p and len(ranks) == trace.size]
    return patterns, [arrow for arrow in arrows if _pattern(trace, arrow) not in patterns]


def _pattern(trace: Trace, arrow: Arrow) -> Pattern | None:
    """Describe a message relative to its source if its blocks are a single range mod the grid."""
    named = {block for part in arrow.blocks for block in part}
    first = [block for block in named if (block - 1) % trace.grid not in named]
    shift, own = (arrow.target - arrow.source) % trace.size, arrow.source * trace.grid // trace.size
    if len(named) == trace.grid and not arrow.scratch:
        return Pattern(arrow.kind, shift, len(named), 0)
    if len(first) != 1 or trace.grid % trace.size or arrow.scratch:
        return None
    return Pattern(arrow.kind, shift, len(named), (first[0] - own) % trace.grid)


def _continues(run: list[Pattern], after: Pattern, grid: int) -> bool:
    """Tell whether the next round is like the last one, its blocks moved on by a constant."""
    starts = [pattern.start for pattern in (*run[-2:], after)]
    constant = len(run) == 1 or (starts[0] - 2 * starts[1] + starts[2]) % grid == 0
    return constant and replace(after, start=run[-1].start) == run[-1]


def every(trace: Trace, run: Sequence[Pattern]) -> str:
    """Say what rank r does in successive regular steps."""
    grid = trace.grid
    sent = ends("r", run[0].kind, _plus("r", _centred(run[0].shift, trace.size)))
    if run[0].count == grid:
        return sent + "  all blocks" * (grid > 1)
    own = "r" if grid == trace.size else f"{grid // trace.size}r"
    start = _centred(run[0].start, grid)
    move = _centred(run[-1].start - run[-2].start, grid) if len(run) > 1 else 0
    names = [_plus(own, start + move * i) for i in range(len(run))]
    if (more := run[0].count - 1) > 0:
        names = [f"{a}..{_plus(own, start + move * i + more)}" for i, a in enumerate(names)]
    listed = ", ".join(names if len(names) < 4 else [*names[:2], "…", names[-1]])
    return f"{sent}  block{'s'[:more]} {listed}"


def ends(source: str, kind: str, target: str) -> str:
    """Return the two ends of a message in the order of their operands."""
    return f"{target} {kind} {source}" if kind == RIGHT_OF_OWN else f"{source} {kind} {target}"


def _centred(number: int, modulus: int) -> int:
    below = (modulus - 1) // 2
    return (number + below) % modulus - below


def _plus(name: str, number: int) -> str:
    return f"{name}{number:+d}" if number else name
