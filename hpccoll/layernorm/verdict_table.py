"""The table of verdicts: what every order gave, and what theory says of it."""

from collections.abc import Sequence
from dataclasses import replace
from textwrap import wrap
from typing import TYPE_CHECKING

from hpccoll.columns import Column, figures, row, titles
from hpccoll.layernorm.judge import CONTRADICTS, NO_VERDICT
from hpccoll.layernorm.theory import shows_order_of_sums, theory

if TYPE_CHECKING:
    from hpccoll.layernorm.judge import Judgement
    from hpccoll.layernorm.request import Request

UNTOLD = "can't tell"
"""The verdict on a wrong order whose result is, with this input, that of a correct one."""

WIDTH = 100
"""Columns that text is wrapped to."""

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


def order_column(labels: Sequence[str]) -> Column:
    """Return the column of the orders, wide enough for their labels."""
    return replace(_ORDER, width=max([_ORDER.width, *map(len, labels)]))


def verdicts(judged: Sequence["Judgement"], request: "Request", size: int) -> str:
    """Return the table of results, input by input, and what its columns mean."""
    columns = (order_column([one.label for one in judged]), *_VERDICTS)
    lines = [
        "RESULTS",
        "deviation  from the exact result: relative L2 of the worst row, and of the median row",
        "predicted  the deviation that theory gives for these very numbers",
        "/bound     measured minus predicted, over what rounding explains; of the worst row",
        "bits       share of elements that are, to the bit, those of the sum in rank order",
        "verdict    agrees: the result is what theory says of the order, be it right or wrong",
        "",
    ]
    for name in request.inputs:
        lines += [f"input {name}", titles(columns)]
        lines += [row(columns, _verdict(one)) for one in judged if one.input == name]
        shown, reason = shows_order_of_sums(request.input(name, size))
        lines += [] if shown else [f"bits   say nothing of the order of the additions: {reason}"]
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
        word(one.verdict, one.correct, one.told),
    )


def word(verdict: str, correct: bool, told: bool) -> str:
    """Return the word for a verdict on a correct or wrong order, which the input told or not."""
    if verdict == CONTRADICTS:
        return CONTRADICTS.upper()
    if verdict == NO_VERDICT or correct:
        return verdict
    return "agrees" if told else UNTOLD


def small(value: float) -> str:
    """Write a deviation, which may be tiny."""
    return f"{value:.2e}" if 0 < value < 0.001 else figures(value)


def _reasons(judged: Sequence["Judgement"]) -> list[str]:
    """Return why verdicts are missing, what contradicts, and whose ranks differ."""
    said: dict[tuple[str, str], list[str]] = {}
    for one in judged:
        found = word(one.verdict, one.correct, one.told)
        if one.reason:
            said.setdefault((found, one.reason), []).append(f"{one.label} of {one.input}")
        elif one.ill_conditioned:
            reason = f"of {one.ill_conditioned} of {one.rows} rows, which are ill-conditioned"
            said.setdefault((NO_VERDICT, reason), []).append(f"{one.label} of {one.input}")
        if not one.same_bits:
            reason = "not all ranks have the same bits"
            said.setdefault(("note", reason), []).append(f"{one.label} of {one.input}")
    lines = [line for (word, reason), who in said.items() for line in _said(word, reason, who)]
    return [*lines, ""] if lines else []


def _said(word: str, reason: str, who: Sequence[str]) -> list[str]:
    return [*wrapped(f"{word}: {reason}:", "", "  "), *wrapped(", ".join(who), "  ", "  ")]


def why(judged: Sequence["Judgement"]) -> str:
    """Return what theory says of every wrong order: why, and the deviation as a formula."""
    lines = ["WHY the wrong orders are wrong: Y' - Y, with z_0 the root's part plus what is added,"]
    lines += ["z_r the other parts, S their sum, n rows less their mean over their deviation"]
    first = {one.order: one for one in reversed(judged) if not one.correct}
    for order, one in reversed(first.items()):
        known = theory(order)
        lines += wrapped(f"{order}: {known.why}", "  ", "    ")
        lines += [f"    {known.deviation}", *_long_rows(one)]
    return "\n".join([*lines, ""])


def _long_rows(one: "Judgement") -> list[str]:
    """Return what closed forms say of long rows, beside what was measured."""
    if one.expected_cosine is None or one.expected_deviation is None or one.cosine is None:
        return []
    return [
        f"    {one.input}, long rows: cosine {one.expected_cosine:.3f}, deviation "
        f"{small(one.expected_deviation)}; measured {one.cosine:.3f}, "
        f"{small(one.deviation_median)}"
    ]


def wrapped(text: str, first: str, then: str) -> list[str]:
    """Return a text as lines, the first and the others indented so."""
    return wrap(text, WIDTH, initial_indent=first, subsequent_indent=then, break_on_hyphens=False)
