"""The report on the order of summation: a table for people, and records for programs."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from textwrap import wrap

from hpccoll.choice import Choice
from hpccoll.columns import Column, about_chosen, figures, row, span, titles, with_chosen
from hpccoll.datatypes import SIGNIFICAND
from hpccoll.numerics.report import Across, Figures, Outcome, Report
from hpccoll.numerics.request import Request
from hpccoll.numerics.vectors import SUFFIX
from hpccoll.parameter import format_value
from hpccoll.results import Record

WIDTH = 100
MATRIX_UP_TO = 14
"""Groups up to which the shares of equal bits between them are printed as a matrix."""

_COLUMNS = (
    Column("ranks", 5),
    Column("algorithm", 22, left=True),
    Column("depth", 8),
    Column("max error", 9),
    Column("rms error", 9),
    Column("of bound", 8),
    Column("rank order", 10),
    Column("bits", 4),
)
_AGREE = Column("ranks agree", 11)
"""The last column of an allreduce, whose result every rank has."""


def text(report: Report) -> str:
    """Return everything that was found, for a terminal."""
    blocks = [_header(report.request), _rows(report)]
    for outcome in report.outcomes:
        blocks += _matrix(outcome, alone=len(report.outcomes) == 1)
    if report.across:
        blocks.append(_across(report.across, report.request))
    blocks += ["\n".join(_notes(report))] if any(_notes(report)) else []
    return "\n\n".join(blocks)


def _header(request: Request) -> str:
    of, arithmetic = request.collective, request.arithmetic
    name, wide = arithmetic.storage.name, arithmetic.wide.name
    exponent = SIGNIFICAND[name]
    root = f", root {request.root}" if of.rooted else ""
    source = f", seed {request.seed}"
    if request.inputs.endswith(SUFFIX):
        source = ", a row per rank" + " (on fewer ranks, the first ones)" * (len(request.sizes) > 1)
    bound = f"d*u*sum|x| of a tree of depth d, u = 2**-{exponent} = {2.0**-exponent:.3g}"
    if arithmetic.wide != arithmetic.storage:
        bound = (
            f"d*w*(1+u)*sum|x| + u*|sum|, d: depth, u = 2**-{exponent} of {name}, "
            f"w = 2**-{SIGNIFICAND[wide]} of {wide}"
        )
    lines = [
        f"{of.name} sum, {name}, partial results in {wide}{root}",
        f"inputs       {request.count} elements per rank, {request.inputs}{source}",
        "depth        of a block's tree: additions above an input, at most; over all blocks",
        f"error        |computed - exact sum| / sum|x|, in units of u = 2**-{exponent}",
        "of bound     the largest share that an element's error reaches of its bound,",
        f"             {bound}",
        "rank order   elements with the bits of ((x0+x1)+x2)+...",
        "bits         algorithms with the same number give the same bits in all elements",
    ]
    if of.name == "allreduce":
        lines.append("ranks agree  elements of which all ranks hold the same bits")
    return "\n".join(lines)


def _rows(report: Report) -> str:
    labels = [
        with_chosen(f.label, f.parameters, f.chosen) for o in report.outcomes for f in o.figures
    ]
    columns = [
        replace(c, width=max(c.width, *map(len, labels))) if c.left and labels else c
        for c in (*_COLUMNS, *[_AGREE] * (report.request.collective.name == "allreduce"))
    ]
    sections = ["\n".join(row(columns, cells) for cells in _cells(o)) for o in report.outcomes]
    chosen = sorted({n for o in report.outcomes for f in o.figures for n in f.chosen})
    return "\n".join([titles(columns), "\n\n".join(sections), *about_chosen(chosen)])


def _cells(outcome: Outcome) -> Iterator[list[str]]:
    for number, found in enumerate(outcome.figures):
        low, high = map(str, found.depths)
        yield [
            str(outcome.size) if not number else "",
            with_chosen(found.label, found.parameters, found.chosen),
            span(low, high, "-"),
            _number(found.errors.largest),
            _number(found.errors.rms),
            _percent(found.errors.of_bound),
            _percent(found.as_in_rank_order),
            str(found.group),
            *[_percent(found.agreed)] * (found.agreed is not None),
        ]


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1e}" if 0 < value < 0.001 else figures(value)


def _percent(share: float | None) -> str:
    """Write a share; 0 and 100 % are only said of none and all, and nothing above is rounded to it.

    No element may have an error: then there is no share.
    """
    if share is None:
        return "-"
    if share in (0, 1):
        return f"{100 * share:.0f} %"
    percent = 100 * share
    return f"{min(max(percent, 0.1), 99.9) if share < 1 else max(percent, 100.1):.1f} %"


def _matrix(outcome: Outcome, alone: bool) -> list[str]:
    groups = sorted({found.group for found in outcome.figures})
    if not alone or len(groups) < 2:
        return []
    if len(groups) > MATRIX_UP_TO:
        return [
            f"{len(groups)} groups of bits are too many for a table of each two; choose fewer with "
            "--algorithm, or use --format jsonl"
        ]
    names = [Column("bits", 4), *(Column(str(group), 6) for group in groups)]
    lines = ["Elements with equal bits, between groups:", titles(names)]
    for one in groups:
        shares = [outcome.equal.get((min(one, o), max(one, o)), 1.0) for o in groups]
        lines.append(row(names, [str(one), *map(_percent, shares)]))
    return ["\n".join(lines)]


def _across(across: Sequence[Across], request: Request) -> str:
    most = request.sizes[-1]
    explained = (
        f"Elements with the same bits on all these numbers of ranks, for the same data: {most} "
        "vectors are shared out as evenly as possible, in order; every rank sums its own in order, "
        f"rounds that to {request.arithmetic.storage.name}, and the ranks' sums are reduced. On "
        f"{most} ranks each has one vector."
    )
    width = max(len(found.label) for found in across)
    lines = wrap(explained, WIDTH)
    for found in across:
        lines.append(f"  {found.label:<{width}}  {_percent(found.equal):>7}  on {_sizes(found)}")
    return "\n".join(lines)


def _sizes(found: Across) -> str:
    first, last = found.sizes[0], found.sizes[-1]
    if len(found.sizes) > 2 and found.sizes == tuple(range(first, last + 1)):
        return f"{first} to {last} ranks"
    return f"{', '.join(map(str, found.sizes))} ranks"


def _notes(report: Report) -> Iterator[str]:
    for outcome in report.outcomes:
        ranks = f"{outcome.size} rank{'s' * (outcome.size > 1)}"
        if outcome.without_sum:
            yield (
                f"note     {ranks}: {outcome.without_sum} elements have no finite exact sum, so no "
                "error; their bits are compared, any NaN as equal to any other"
            )
        for found in outcome.figures:
            if found.errors.overflowed:
                yield (
                    f"note     {ranks}, {found.label}: {found.errors.overflowed} sums overflow and "
                    "have no error"
                )
        for label, reason in outcome.skipped.items():
            yield f"skipped  {ranks}, {label}: {reason}"
    for where in report.exceeded:
        yield f"EXCEEDED {where}: an error is above its bound"


# Records


def records(report: Report) -> Iterator[Record]:
    """Yield everything that was found, for programs: JSON Lines without any figure left out."""
    request, arithmetic = report.request, report.request.arithmetic
    yield {
        "type": "numerics",
        "collective": request.collective.name,
        "op": "sum",
        "dtype": arithmetic.storage.name,
        "partial_results": arithmetic.wide.name,
        "count": request.count,
        "input": request.inputs,
        "seed": request.seed,
        "root": request.root if request.collective.rooted else None,
        "nodes": request.nodes,
        "unit_roundoff": arithmetic.roundoff,
    }
    for outcome in report.outcomes:
        for found in outcome.figures:
            yield _record(outcome, found)
        for (one, other), equal in outcome.equal.items():
            yield {"type": "equal", "ranks": outcome.size, "bits": [one, other], "share": equal}
        for label, reason in outcome.skipped.items():
            yield {
                "type": "skipped",
                "ranks": outcome.size,
                "algorithm": label,
                "reason": reason,
            }
    for across in report.across:
        yield {
            "type": "across",
            "algorithm": across.label,
            "ranks": list(across.sizes),
            "vectors": request.sizes[-1],
            "share": across.equal,
        }


def _record(outcome: Outcome, found: Figures) -> Record:
    return {
        "type": "algorithm",
        "ranks": outcome.size,
        "algorithm": found.label,
        "parameters": {
            name: format_value(value) if isinstance(value, Choice) else value
            for name, value in found.parameters.items()
        },
        "chosen_by_model": list(found.chosen),
        "least_depth": found.depths[0],
        "largest_depth": found.depths[1],
        "errors": asdict(found.errors),
        "without_sum": outcome.without_sum,
        "as_in_rank_order": found.as_in_rank_order,
        "ranks_agree": found.agreed,
        "bits": found.group,
    }
