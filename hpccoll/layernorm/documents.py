"""A report as a page of HTML or Markdown; whatever comes from records is escaped."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Page:
    """The words of a report, unescaped.

    Attributes
    ----------
    headline, details
        The answer in one sentence, and what it leaves open.
    caption, titles, rows
        Of the table of orders.
    notes
        Whatever needs saying under the table.
    conditions
        Names and values.
    """

    headline: str
    details: Sequence[str]
    caption: str
    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]
    conditions: Sequence[tuple[str, str]]


TITLE = "The order of reduce, norm and broadcast"

_STYLE = """
:root { color-scheme: light dark; --ink: #222; --ground: #fff; --line: #ccc; --bad: #b2182b; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ddd; --ground: #181818; --line: #555; --bad: #ff8a75; }
}
body { color: var(--ink); background: var(--ground); max-width: 60rem; margin: 0 auto;
  padding: 1rem; font: 14px/1.4 "DejaVu Sans", Verdana, Helvetica, Arial, sans-serif; }
h1 { font-size: 1.35em; line-height: 1.3; margin: 0.2em 0 0.5em; }
h2 { font-size: 1em; margin: 1.3em 0 0.3em; break-after: avoid; }
p { margin: 0.3em 0; }
table { border-collapse: collapse; font-size: 0.86em; width: 100%; }
th, td { text-align: left; padding: 0.15em 0.6em; border-bottom: 1px solid var(--line); }
td:first-child, td:nth-child(7) { white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.wrong td:nth-child(2) { color: var(--bad); font-weight: bold; }
figure { margin: 0; break-inside: avoid; }
svg { max-width: 100%; height: auto; }
ul { margin: 0.4em 0; padding-left: 1.2em; font-size: 0.86em; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1em; font-size: 0.86em; }
dd { margin: 0; overflow-wrap: anywhere; }
dl, table { break-inside: avoid; }
@media print {
  :root { color-scheme: light; --ink: #000; --ground: #fff; --line: #bbb; --bad: #b2182b; }
  @page { size: A4; margin: 12mm; }
  body { padding: 0; font-size: 8pt; }
  rect, td { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""

NUMBERS = (2, 3)
"""The columns of the table that hold numbers."""


def html(page: Page, pictures: Sequence[tuple[str, str]]) -> str:
    """Return one page that needs no other file; pictures are titles and SVG elements."""
    drawn = [f"<h2>{escape(title)}</h2>\n<figure>\n{svg}</figure>" for title, svg in pictures]
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        f'<head><meta charset="utf-8"><title>{escape(TITLE)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style></head>",
        "<body>",
        f"<h1>{escape(page.headline)}</h1>",
        *(f"<p>{escape(line)}</p>" for line in page.details),
        f"<h2>{escape(page.caption)}</h2>",
        _table(page),
        _list(page.notes),
        *drawn,
        "<h2>Conditions</h2>",
        "<dl>",
        *(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in page.conditions),
        "</dl>",
        "</body>",
        "</html>\n",
    ]
    return "\n".join(filter(None, parts))


def _table(page: Page) -> str:
    lines = ["<table>", _row("th", page.titles, "head")]
    lines += [_row("td", cells, cells[1]) for cells in page.rows]
    return "\n".join([*lines, "</table>"])


def _row(element: str, cells: Sequence[str], kind: str) -> str:
    made = (
        f"<{element}{_class(column)}>{escape(cell)}</{element}>"
        for column, cell in enumerate(cells)
    )
    return f'<tr class="{kind}">{"".join(made)}</tr>'


def _class(column: int) -> str:
    return ' class="number"' if column in NUMBERS else ""


def _list(lines: Sequence[str]) -> str:
    if not lines:
        return ""
    return "\n".join(["<ul>", *(f"<li>{escape(line)}</li>" for line in lines), "</ul>"])


def markdown(page: Page, picture: str, titles: Sequence[str]) -> str:
    """Return the report as Markdown; its picture is another file, whose charts have titles."""
    ruler = ["--:" if column in NUMBERS else "---" for column in range(len(page.titles))]
    parts = [
        f"# {plain(page.headline)}",
        *map(plain, page.details),
        f"## {plain(page.caption)}",
        "\n".join(_cells(cells) for cells in (page.titles, ruler, *page.rows)),
        "\n".join(f"- {plain(line)}" for line in page.notes),
        "## What was measured",
        "\n".join(f"{number}. {plain(title)}" for number, title in enumerate(titles, 1)),
        f"![{plain(TITLE)}]({quote(picture)})",
        "## Conditions",
        "\n".join(f"- {plain(name)}: {plain(value)}" for name, value in page.conditions),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(plain, cells))} |"


def plain(words: str) -> str:
    """Return words that Markdown reads as words and nothing else."""
    return re.sub(r"([\\`*_{}\[\]<>|#&~!])", r"\\\1", " ".join(words.split()))
