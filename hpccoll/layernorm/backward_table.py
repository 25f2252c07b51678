"""The table of the backward passes."""

from typing import TYPE_CHECKING

from hpccoll.columns import Column, figures, microseconds, row, titles
from hpccoll.layernorm.judge import AGREES
from hpccoll.layernorm.verdict_table import small

if TYPE_CHECKING:
    from hpccoll.layernorm.backward_judge import BackwardJudgement
    from hpccoll.layernorm.comparison import Comparison

_COLUMNS = (
    Column("placement", 26, left=True),
    Column("theory", 6, left=True),
    Column("rows", 8),
    Column("gamma", 8),
    Column("predicted", 9),
    Column("beta", 8),
    Column("/bound", 7),
    Column("sent/n", 6),
    Column("us", 7),
    Column("verdict", 11, left=True),
)


def table(compared: "Comparison") -> str:
    """Return the table of gradients, input by input."""
    lines = [
        "BACKWARD",
        "rows, gamma, beta  deviations of the gradients: relative L2, of rows that of the worst",
        "predicted          gamma's deviation as theory gives it",
        "/bound             measured minus predicted, over what rounding explains; of the worst",
        "",
    ]
    sent = {one.label: max(t.sent for t in one.traffic) for one in compared.backward}
    times = {
        one.label: timing.latency.p50
        for one, timing in zip(compared.backward, compared.backward_timings, strict=True)
    }
    for name in compared.request.inputs:
        lines += [f"input {name}", titles(_COLUMNS)]
        for one in compared.backward_judged:
            if one.input == name:
                n = compared.request.bytes
                moved = figures(sent[one.name] / n) if n else "-"
                time = microseconds(times[one.name]) if name == compared.request.inputs[0] else ""
                lines.append(row(_COLUMNS, _cells(one, moved, time)))
        lines.append("")
    why = {one.label: one.placement.why for one in compared.backward}
    return "\n".join([*lines, *(f"  {name}: {reason}" for name, reason in why.items()), ""])


def _cells(one: "BackwardJudgement", sent: str, time: str) -> tuple[str, ...]:
    same = "" if one.same_bits else ", bits differ"
    return (
        one.name,
        "right" if one.correct else "wrong",
        small(one.dx.deviation),
        small(one.dgamma.deviation),
        small(one.dgamma.predicted),
        small(one.dbeta.deviation) if one.dbeta else "-",
        "-" if one.over_bound is None else figures(one.over_bound),
        sent,
        time,
        (one.verdict if one.verdict == AGREES else one.verdict.upper()) + same,
    )
