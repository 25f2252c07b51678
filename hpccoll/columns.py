"""Cells and rows of tables for people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hpccoll.parameter import Value, spelled
from hpccoll.stats import SAME

GAP = " "
UNCLEAR = "~"
"""Stands for "no difference" beside a ratio."""
CHOSEN = "^"
"""Stands behind parameters that the model chose."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's title and width; text is aligned left, numbers right."""

    title: str
    width: int
    left: bool = False

    def cell(self, text: str) -> str:
        """Return a text padded to the width."""
        return text.ljust(self.width) if self.left else text.rjust(self.width)


def row(columns: Sequence[Column], cells: Sequence[str]) -> str:
    """Return one row."""
    padded = (column.cell(cell) for column, cell in zip(columns, cells, strict=True))
    return GAP.join(padded).rstrip()


def titles(columns: Sequence[Column]) -> str:
    """Return the titles and the rule under them."""
    rule = ["-" * column.width for column in columns]
    return "\n".join([row(columns, [column.title for column in columns]), row(columns, rule)])


def figures(value: float) -> str:
    """Write a number with three figures, or all of those before the point."""
    if value >= 100 or not value:
        return f"{value:.0f}"
    return f"{value:#.3g}".rstrip(".") if value >= 0.001 else f"{value:.4f}"


def microseconds(seconds: float) -> str:
    """Write a time in microseconds."""
    return figures(seconds * 1e6)


def span(low: str, high: str, to: str = " to ") -> str:
    """Write a range, or one value where both ends read the same."""
    return low if low == high else f"{low}{to}{high}"


def against(ratio: float, word: str) -> str:
    """Write a ratio to the library, and whether it is a difference: ``0.71 faster``, ``1.02 ~``."""
    number = f"{ratio:.2f}" if ratio < 100 else figures(ratio)
    return f"{number:>5} {UNCLEAR if word == SAME else word}"


def with_chosen(label: str, parameters: Mapping[str, Value], chosen: Sequence[str]) -> str:
    """Return a label with what the model chose behind it, marked: ``chain:segments=16 ^``."""
    if not chosen:
        return label
    return label + "".join(spelled(name, parameters[name]) for name in chosen) + f" {CHOSEN}"


def about_chosen(chosen: Sequence[str]) -> list[str]:
    """Return what the mark says, if the model chose any parameter."""
    if not chosen:
        return []
    example = spelled(sorted(chosen)[-1], 4)
    return [f"{CHOSEN} chosen by the model for the least time; to choose: NAME{example}"]
