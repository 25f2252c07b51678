"""The tables for people: verdicts, resources and times of every order."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from textwrap import wrap
from typing import TYPE_CHECKING

from hpccoll.columns import Column, against, figures, microseconds, row, titles
from hpccoll.layernorm.candidates import segments
from hpccoll.layernorm.judge import CONTRADICTS, NO_VERDICT
from hpccoll.layernorm.program import PHASES
from hpccoll.layernorm.rank import OPERATIONS
from hpccoll.layernorm.theory import theory
from hpccoll.stats import compare
from hpccoll.table import sections
from hpccoll.units import format_size

if TYPE_CHECKING:
    from hpccoll.layernorm.candidates import Candidate
    from hpccoll.layernorm.comparison import Comparison
    from hpccoll.layernorm.judge import Judgement
    from hpccoll.layernorm.request import Request
    from hpccoll.layernorm.resources import Resources
    from hpccoll.layernorm.timing import Timing
    from hpccoll.sampling import Loop
    from hpccoll.world import World

WIDTH = 100
"""Columns that text is wrapped to."""

EQUAL, DIFFERENT = "=", "!"
"""Stand beside a counted number that is that of the formula, or isn't."""

_ORDER = Column("order", 28, left=True)
_VERDICTS = (
    Column("theory", 6, left=True),
    Column("deviation", 9),
    Column("predicted", 9),
    Column("median", 9),
    Column("predicted", 9),
    Column("/bound", 6),
    Column("bits", 6),
    Column("verdict", 11, left=True),
)
_RESOURCES = (
    Column("rounds ", 7),
    Column("sent/n ", 8),
    Column("recv/n ", 8),
    Column("all/n ", 7),
    Column("path/n ", 8),
    Column("norms", 6),
    Column("all", 6),
    Column("extra/n", 7),
    Column("residual/n", 10),
)
_TIMES = (
    Column("median us", 9),
    Column("95 % interval", 17),
    *(Column(title, 9) for title in ("collective", "norm", "rest")),
    Column("t/first", 13, left=True),
)


def _order(labels: Sequence[str]) -> Column:
    return replace(_ORDER, width=max([_ORDER.width, *map(len, labels)]))


def header(request: "Request", world: "World", loop: "Loop", without: str) -> str:
    """Return what stands above the tables: what is compared, where, and with what."""
    norm, terms = request.norm, [n for n in ("bias", "residual") if getattr(request, n)]
    many = "s" * (world.size > 1)
    accumulate = ", summed in float32" if request.accumulate == "float32" else ""
    lines = [
        f"{norm.kind} of a sum over {world.size} rank{many} on {world.nodes} "
        f"node{'s' * (world.nodes > 1)}: {request.tokens} tokens of {request.hidden}, "
        f"{request.dtype.name}{accumulate}",
        f"{world.library}, threads: {world.thread_level} ({world.thread_reason})",
        f"norm   {norm.method}, eps {norm.eps:g}; added once: {' and '.join(terms) or 'nothing'}",
        f"n      {format_size(request.bytes)}, one rank's rows",
        "       " + ", ".join(f"{of} {choice.label}" for of, choice in request.choices.items()),
        f"       fused: {segments(request, world.size)} segments",
        "engine " + ("native" if loop.native else f"python: {without}"),
    ]
    if world.oversubscribed:
        lines.append(
            f"note   {world.oversubscribed}: ranks wait for their turn, so compare ratios only"
        )
    if world.size == 1:
        lines.append(
            "note   one rank sums nothing, so all orders are the same; to start more: "
            "mpirun -n 4 hpccoll layernorm"
        )
    return "\n".join([*lines, ""])


# Verdicts


def verdicts(judged: Sequence["Judgement"], request: "Request") -> str:
    """Return the table of results, input by input, and what its columns mean."""
    columns = (_order([one.label for one in judged]), *_VERDICTS)
    lines = [
        "RESULTS",
        "deviation  from the exact result: relative L2 of the worst row, and of the median row",
        "predicted  the deviation that theory gives for these very numbers",
        "/bound     measured minus predicted, over what rounding explains; of the worst row",
        "bits       share of elements that are, to the bit, those of the sum in rank order",
        "",
    ]
    for name in request.inputs:
        lines += [f"input {name}", titles(columns)]
        lines += [row(columns, _verdict(one)) for one in judged if one.input == name]
        lines.append("")
    return "\n".join([*lines, *_reasons(judged)])


def _verdict(one: "Judgement") -> tuple[str, ...]:
    predicted = ("0", "0") if one.correct else (small(one.predicted), small(one.predicted_median))
    return (
        one.label,
        "right" if one.correct else "wrong",
        small(one.deviation),
        predicted[0],
        small(one.deviation_median),
        predicted[1],
        "-" if one.verdict == NO_VERDICT else figures(one.over_bound),
        f"{one.bit_equal:.0%}",
        _word(one),
    )


def _word(one: "Judgement") -> str:
    if one.verdict == CONTRADICTS:
        return CONTRADICTS.upper()
    if one.verdict == NO_VERDICT or one.correct:
        return one.verdict
    return "agrees" if one.told else "can't tell"


def small(value: float) -> str:
    """Write a deviation, which may be tiny."""
    return f"{value:.2e}" if 0 < value < 0.001 else figures(value)


def _reasons(judged: Sequence["Judgement"]) -> list[str]:
    """Return why verdicts are missing, what contradicts, and whose ranks differ."""
    said: dict[tuple[str, str], list[str]] = {}
    for one in judged:
        if one.reason:
            said.setdefault((_word(one), one.reason), []).append(f"{one.label} of {one.input}")
        elif one.ill_conditioned:
            reason = f"of {one.ill_conditioned} of {one.rows} rows, which are ill-conditioned"
            said.setdefault((NO_VERDICT, reason), []).append(f"{one.label} of {one.input}")
        if not one.same_bits:
            reason = "not all ranks have the same bits"
            said.setdefault(("note", reason), []).append(f"{one.label} of {one.input}")
    lines = [line for (word, reason), who in said.items() for line in _said(word, reason, who)]
    return [*lines, ""] if lines else []


def _said(word: str, reason: str, who: Sequence[str]) -> list[str]:
    return [*_wrapped(f"{word}: {reason}:", "", "  "), *_wrapped(", ".join(who), "  ", "  ")]


def why(judged: Sequence["Judgement"]) -> str:
    """Return what theory says of every wrong order: why, and the deviation as a formula."""
    lines = ["WHY the wrong orders are wrong: Y' - Y, with z_0 the root's part plus what is added,"]
    lines += ["z_r the other parts, S their sum, n rows less their mean over their deviation"]
    for order in dict.fromkeys(one.order for one in judged if not one.correct):
        known = theory(order)
        lines += _wrapped(f"{order}: {known.why}", "  ", "    ")
        lines.append(f"    {known.deviation}")
    return "\n".join([*lines, ""])


def _wrapped(text: str, first: str, then: str) -> list[str]:
    return wrap(text, WIDTH, initial_indent=first, subsequent_indent=then)


# Resources and times


def costs(compared: "Comparison") -> str:
    """Return the tables of what was counted and what was measured."""
    request, made, used, timings = (
        compared.request,
        compared.made,
        compared.used,
        compared.timings,
    )
    order = _order([one.label for one in made])
    counted, timed = (order, *_RESOURCES), (order, *_TIMES)
    lines = [
        "RESOURCES, counted",
        f"{EQUAL} beside a number: just what the formula says; {DIFFERENT} something else",
        "sent, recv of the rank with most; all: sent by all ranks; path: the most that a rank",
        "      sends or receives in a step, added up over the steps that follow one another",
        f"norms in norms of all rows ({OPERATIONS[request.norm.kind]} T H operations), of the rank "
        "with most, and of all ranks",
        "extra of the rank with most, besides input, output and residual",
        "",
        titles(counted),
        *(row(counted, _counted(request, *pair)) for pair in zip(made, used, strict=True)),
        "",
        f"TIMES, with input {request.inputs[0]}",
        "a sample is one call on its slowest rank; collective, norm, rest: medians of the rank",
        "      that spends most on norms; collectives include waiting for other ranks",
        "",
        titles(timed),
    ]
    baseline = timings[0] if timings else None
    lines += [
        row(timed, (one.label, *_timed(timing, baseline)))
        for one, timing in zip(made, timings, strict=True)
    ]
    return "\n".join([*lines, ""])


def _counted(request: "Request", one: "Candidate", used: "Resources") -> tuple[str, ...]:
    n, formula = request.bytes, used.formula
    rounds = None if used.path is None else used.path.rounds
    path = None if used.path is None else used.path.bytes
    return (
        one.label,
        _beside(rounds, formula.rounds, 1),
        _beside(used.sent, formula.sent, n),
        _beside(used.received, formula.received, n),
        _beside(used.total, formula.total, n),
        _beside(path, formula.path, n),
        _share(max(used.operations), used.least),
        _share(sum(used.operations), used.least),
        _share(max(used.extra), n),
        " ".join([_share(max(used.residual), n), *[f"x{len(used.residual)}"] * all(used.residual)]),
    )


def _beside(counted: int | None, formula: Fraction | None, unit: int) -> str:
    """Return a number and whether it is the formula's."""
    if counted is None:
        return "- "
    mark = " " if formula is None else EQUAL if counted == formula else DIFFERENT
    return (str(counted) if unit == 1 else _share(counted, unit)) + mark


def _share(number: int, unit: int) -> str:
    return figures(number / unit) if unit else "-"


def _timed(timing: "Timing", baseline: "Timing | None") -> tuple[str, ...]:
    latency = timing.latency
    low, high = latency.ci_low, latency.ci_high
    interval = "-" if low is None or high is None else f"{microseconds(low)} - {microseconds(high)}"
    return (
        microseconds(latency.p50),
        interval,
        *(microseconds(timing.phases[phase]) for phase in PHASES),
        _against(timing, baseline),
    )


def _against(timing: "Timing", baseline: "Timing | None") -> str:
    if baseline is None or timing is baseline or not baseline.latency.p50:
        return ""
    ratio = timing.latency.p50 / baseline.latency.p50
    return against(ratio, compare(timing.samples, baseline.samples).word)


def closing(compared: "Comparison") -> str:
    """Return what stands under the tables: what the fused operator saves, and what was skipped."""
    skipped = [f"{label}: {reason}" for label, reason in compared.skipped.items()]
    return sections(
        ("what a norm between reduce and broadcast saves", _saves(compared)),
        ("skipped", [line for text in skipped for line in _wrapped(text, "  ", "    ")]),
    )


def _saves(compared: "Comparison") -> list[str]:
    """Return the verdict on the orders that normalise once, from what was counted."""
    by_name = {one.label: used for one, used in zip(compared.made, compared.used, strict=True)}
    every, n = by_name.get("allreduce-layernorm"), compared.request.bytes
    if every is None or not n or every.path is None:
        return []
    lines = _wrapped(
        f"allreduce-layernorm: {_work(every)}; {_share(every.path.bytes, n)} n on the critical "
        f"path; the residual on {_holders(every)}",
        "  ",
        "    ",
    )
    for name in ONCE:
        one = by_name.get(name)
        if one is not None and one.path is not None:
            lines += _wrapped(
                f"{name}: {_work(one)}; {_share(one.path.bytes, n)} n on the critical path, "
                f"{_times(one.path.bytes, every.path.bytes)}; the residual on {_holders(one)}",
                "  ",
                "    ",
            )
    return [*lines, *_wrapped(SAVES, "  ", "  ")]


ONCE = ("reduce-layernorm-bcast", "reduce-layernorm-bcast-large", "fused", "sequence-parallel")
"""The orders that normalise every row once."""

SAVES = (
    "So the fused operator saves the other ranks the norm and the residual. It shortens no path: "
    "the root normalises all rows while the others wait, and no fewer bytes move than in an "
    "allreduce. sequence-parallel saves the same work, splits it, and moves no more bytes, if "
    "there are as many tokens as ranks."
)


def _work(one: "Resources") -> str:
    """Say how many norms are computed, and how many one after another."""
    rank, all_ranks = (_share(f(one.operations), one.least) for f in (max, sum))
    return f"{all_ranks} norms of all rows, {rank} on one rank"


def _holders(one: "Resources") -> str:
    ranks = sum(map(bool, one.residual))
    return f"{ranks} rank{'s' * (ranks != 1)}"


def _times(number: int, unit: int) -> str:
    if number == unit:
        return "the same"
    return f"{figures(number / unit)} times as many" if unit else "none before"
