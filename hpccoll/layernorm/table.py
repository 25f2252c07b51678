"""The tables for people: verdicts, resources and times of every order."""

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from hpccoll.columns import UNCLEAR, Column, against, figures, microseconds, row, titles
from hpccoll.layernorm.candidates import segments
from hpccoll.layernorm.program import PHASES
from hpccoll.layernorm.rank import OPERATIONS
from hpccoll.layernorm.verdict_table import order_column, wrapped
from hpccoll.stats import compare
from hpccoll.table import sections
from hpccoll.units import format_size

if TYPE_CHECKING:
    from hpccoll.layernorm.candidates import Candidate
    from hpccoll.layernorm.comparison import Comparison
    from hpccoll.layernorm.request import Request
    from hpccoll.layernorm.resources import Resources
    from hpccoll.layernorm.timing import Timing
    from hpccoll.sampling import Loop
    from hpccoll.world import World

EQUAL, WITHIN, DIFFERENT = "=", "<", "!"
"""Stand beside a counted number that is that of the formula, within its bound, or isn't."""

BOUNDS = (
    f"{WITHIN} beside a number: no more than the formula says, which counts all sums as float32;",
    "      but one rank's part, and the complete sum, are sent in the type of the rows",
)
"""Explains bounds."""

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


def header(request: "Request", world: "World", loop: "Loop", without: str) -> str:
    """Return what stands above the tables: what is compared, where, and with what."""
    norm, terms = request.norm, [n for n in ("bias", "residual") if getattr(request, n)]
    many, parts = "s" * (world.size > 1), segments(request, world.size)
    accumulate = ", summed in float32" if request.accumulate == "float32" else ""
    lines = [
        f"{norm.kind} of a sum over {world.size} rank{many} on {world.nodes} "
        f"node{'s' * (world.nodes > 1)}: {request.tokens} tokens of {request.hidden}, "
        f"{request.dtype.name}{accumulate}",
        f"{world.library}, threads: {world.thread_level} ({world.thread_reason})",
        f"norm   {norm.method}, eps {norm.eps:g}; added once: {' and '.join(terms) or 'nothing'}",
        f"n      {format_size(request.bytes)}, one rank's rows",
        "       " + ", ".join(f"{of} {choice.label}" for of, choice in request.choices.items()),
        f"       fused: {parts} segment{'s' * (parts > 1)}",
        "engine " + ("native" if loop.native else f"python: {without}"),
    ]
    if world.oversubscribed:
        lines.append(
            f"note   {world.oversubscribed}: ranks wait for their turn, so compare ratios only"
        )
    if request.tokens < world.size:
        lines.append(
            f"note   fewer tokens than ranks: {world.size - request.tokens} of {world.size} ranks "
            "have no rows of their own in sequence-parallel"
        )
    if world.size == 1:
        lines.append(
            "note   one rank sums nothing, so all orders are the same; to start more: "
            "mpirun -n 4 hpccoll layernorm"
        )
    return "\n".join([*lines, ""])


def costs(compared: "Comparison") -> str:
    """Return the tables of what was counted and what was measured."""
    return "\n".join([*_resources(compared), "", *_times_of(compared), ""])


def _resources(compared: "Comparison") -> list[str]:
    columns = (order_column([one.label for one in compared.made]), *_RESOURCES)
    request, pairs = compared.request, zip(compared.made, compared.used, strict=True)
    return [
        "RESOURCES, counted",
        f"{EQUAL} beside a number: just what the formula says; {DIFFERENT} something else",
        *(() if all(used.formula.exact for used in compared.used) else BOUNDS),
        "sent, recv of the rank with most; all: sent by all ranks; path: the most that a rank",
        "      sends or receives in a step, added up over the steps that follow one another",
        f"norms in norms of all rows ({OPERATIONS[request.norm.kind]} T H operations), of the rank "
        "with most, and of all ranks",
        "extra of the rank with most, besides input, output and residual",
        "",
        titles(columns),
        *(row(columns, _counted(request, one, used)) for one, used in pairs),
    ]


def _times_of(compared: "Comparison") -> list[str]:
    columns = (order_column([one.label for one in compared.made]), *_TIMES)
    pairs = zip(compared.made, compared.timings, strict=True)
    baseline = compared.timings[0] if compared.timings else None
    return [
        f"TIMES, with input {compared.request.inputs[0]}",
        "a sample is one call on its slowest rank; collective, norm, rest: medians of the rank",
        "      that spends most on norms; collectives include waiting for other ranks",
        f"t/first: median over the first order's; {UNCLEAR} where samples differ no more than by "
        "chance",
        "",
        titles(columns),
        *(row(columns, (one.label, *_timed(timing, baseline))) for one, timing in pairs),
    ]


def _counted(request: "Request", one: "Candidate", used: "Resources") -> tuple[str, ...]:
    n, formula = request.bytes, used.formula
    holders = sum(map(bool, used.residual))
    rounds = None if used.path is None else used.path.rounds
    path = None if used.path is None else used.path.bytes
    return (
        one.label,
        _beside(rounds, formula.rounds, 1),
        _beside(used.sent, formula.sent, n, formula.exact),
        _beside(used.received, formula.received, n, formula.exact),
        _beside(used.total, formula.total, n, formula.exact),
        _beside(path, formula.path, n, formula.exact),
        _share(max(used.operations), used.least),
        _share(sum(used.operations), used.least),
        _share(max(used.extra), n),
        _share(max(used.residual), n) + (f" x{holders}" if holders > 1 else ""),
    )


def _beside(counted: int | None, formula: Fraction | None, unit: int, exact: bool = True) -> str:
    """Return a number and whether it is the formula's, or within that if it is only a bound."""
    if counted is None:
        return "- "
    right, holds = (EQUAL, counted == formula) if exact else (WITHIN, counted <= (formula or 0))
    mark = " " if formula is None else right if holds else DIFFERENT
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
        ("skipped", [line for text in skipped for line in wrapped(text, "  ", "    ")]),
    )


def _saves(compared: "Comparison") -> list[str]:
    """Return the verdict on the orders that normalise once, from what was counted."""
    by_name = {one.label: used for one, used in zip(compared.made, compared.used, strict=True)}
    every, n = by_name.get("allreduce-layernorm"), compared.request.bytes
    if every is None or not n or every.path is None or len(every.operations) == 1:
        return []
    lines = wrapped(
        f"allreduce-layernorm: {_work(every)}; {_share(every.path.bytes, n)} n on the critical "
        f"path; the residual on {_holders(every)}",
        "  ",
        "    ",
    )
    for name in ONCE:
        one = by_name.get(name)
        if one is not None and one.path is not None:
            lines += wrapped(
                f"{name}: {_work(one)}; {_share(one.path.bytes, n)} n on the critical path, "
                f"{_times(one.path.bytes, every.path.bytes)}; the residual on {_holders(one)}",
                "  ",
                "    ",
            )
    fewer = [
        name
        for name in ONCE[:-1]
        if (one := by_name.get(name)) and one.path and one.path.bytes < every.path.bytes
    ]
    return [*lines, *wrapped(f"{SAVES} {_moved(fewer)}", "  ", "  ")]


def _moved(fewer: Sequence[str]) -> str:
    """Say whether a root saves bytes: orders that move `fewer` than the allreduce at hand."""
    if not fewer:
        return "No order with a root moves fewer bytes along its path than this allreduce."
    return (
        f"Fewer bytes than this allreduce move along the path of {' and '.join(fewer)}, because it "
        "moves more than the least, 2 (p-1)/p n."
    )


ONCE = ("reduce-layernorm-bcast", "reduce-layernorm-bcast-large", "fused", "sequence-parallel")
"""The orders that normalise every row once."""

SAVES = (
    "A norm at the root alone saves the other ranks the norm and the residual, and no time of its "
    "own: the root normalises all rows. sequence-parallel saves as much and shares it out."
)


def _work(one: "Resources") -> str:
    """Say how many norms are computed, and how many one after another."""
    rank, all_ranks = (_share(f(one.operations), one.least) for f in (max, sum))
    return f"{all_ranks} norms of all rows, {rank} on one rank"


def _holders(one: "Resources") -> str:
    """Say how many ranks have how much of the residual."""
    ranks, whole = sum(map(bool, one.residual)), max(one.residual)
    if not ranks:
        return "no rank: there is none"
    share = "" if whole == one.whole else f", {_share(whole, one.whole)} of it on each"
    return f"{ranks} rank{'s' * (ranks != 1)}{share}"


def _times(number: int, unit: int) -> str:
    if number == unit:
        return "the same"
    return f"{figures(number / unit)} times as many" if unit else "none before"
