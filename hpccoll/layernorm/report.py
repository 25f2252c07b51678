"""A report of one page that says what the orders give and take, from the records alone."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import join

from hpccoll.errors import UsageError, unwritable
from hpccoll.export.canvas import Canvas
from hpccoll.layernorm import documents
from hpccoll.layernorm.bars import bars
from hpccoll.layernorm.documents import Page
from hpccoll.layernorm.heat import heat_map
from hpccoll.layernorm.reading import Results, details, headline, number, verdict_of
from hpccoll.layernorm.verdict_table import small
from hpccoll.results import Record
from hpccoll.units import format_size

HTML, MARKDOWN, PICTURE = ".html", ".md", ".svg"

Draw = Callable[[Canvas, Results, float], tuple[float, float]]

HEAT = "Measured error over tolerance, of every order (down) with every input (across), worst row"
BARS = "What every order takes; n is the bytes of one rank's rows"


@dataclass(frozen=True, slots=True)
class Report:
    """A file that a report is written to, with a picture beside it if it is Markdown.

    Raises
    ------
    UsageError
        The suffix is of no format.
    """

    path: Path
    force: bool = False

    def __post_init__(self) -> None:
        if self.path.suffix not in (HTML, MARKDOWN):
            raise UsageError(
                f"--report {self.path}: the suffix says the format; use {HTML} or {MARKDOWN}"
            )

    @property
    def files(self) -> list[Path]:
        """Return all files that are written."""
        markdown = self.path.suffix == MARKDOWN
        return [self.path, self.path.with_suffix(PICTURE)] if markdown else [self.path]

    def reserve(self) -> None:
        """Make the files, empty, or raise `UsageError` where they exist or can't be made."""
        for path in self.files:
            try:
                path.open("w" if self.force else "x").close()
            except OSError as error:
                raise unwritable(path, error, "--report") from None

    def make(self, found: Results) -> None:
        """Make the files and write the report, or raise `UsageError` where they can't be made."""
        self.reserve()
        self.write(found)

    def write(self, found: Results) -> None:
        """Write the report to files that were reserved."""
        for path, text in zip(self.files, self._texts(found), strict=True):
            path.write_text(text, encoding="utf-8")

    def _texts(self, found: Results) -> list[str]:
        page = contents(found)
        if self.path.suffix == HTML:
            drawn = [(title, _picture(found, [draw], "none")) for title, draw in _CHARTS]
            return [documents.html(page, drawn)]
        picture = self.files[1].name
        titles = [title for title, _ in _CHARTS]
        return [
            documents.markdown(page, picture, titles),
            _picture(found, [draw for _, draw in _CHARTS], "#fff"),
        ]


_GAP = 16.0
"""Room under a chart."""
_CHARTS: tuple[tuple[str, Draw], ...] = ((HEAT, heat_map), (BARS, bars))


def _picture(found: Results, charts: Sequence[Draw], ground: str) -> str:
    """Return charts under one another as one SVG."""
    canvas, wide, end = Canvas(), 0.0, 0.0
    for draw in charts:
        width, end = draw(canvas, found, end)
        wide, end = max(wide, width), end + _GAP
    return canvas.svg(wide, end, "orders of reduce, norm and broadcast", headline(found), ground)


def contents(found: Results) -> Page:
    """Return everything that a report has in words."""
    given = found.inputs[0]
    titles = (
        "order",
        "theory",
        "deviation",
        "predicted",
        "against theory",
        "same bits on all ranks",
    )
    many = len(found.inputs) > 1
    return Page(
        headline=headline(found),
        details=details(found),
        caption=f"Input {given}: deviation from the exact result, relative L2 of the worst row, "
        "and what theory predicts of it",
        titles=(*titles, "all inputs") if many else titles,
        rows=[_row(one, found.of(one["label"]), many) for one in found.timed],
        notes=_notes(found),
        conditions=conditions(found),
    )


def _row(one: Record, judged: Sequence[Record], many: bool) -> tuple[str, ...]:
    same = all(each["same_bits"] for each in judged)
    cells = (
        one["label"],
        "right" if one["correct"] else "wrong",
        small(number(one["deviation"])),
        "0" if one["correct"] else small(number(one["predicted"])),
        verdict_of(one),
        "yes" if same else "NO",
    )
    return (*cells, _counts(map(verdict_of, judged))) if many else cells


def _notes(found: Results) -> list[str]:
    """Return why verdicts are missing or contradict, and what was left out."""
    said: dict[tuple[str, str], list[str]] = {}
    for one in found.orders:
        if one["reason"]:
            about = f"{verdict_of(one)}: {one['reason']}"
            said.setdefault((about, f" of {one['input']}"), []).append(one["label"])
    for one in found.skipped:
        said.setdefault((f"skipped: {one['reason']}", ""), []).append(one["label"])
    every = found.labels
    notes = [
        f"{about}: {'all orders' if who == every else ', '.join(who)}{of}"
        for (about, of), who in said.items()
    ]
    if found.backward:
        words = _counts(one["verdict"] for one in found.backward)
        notes.append(f"backward passes, gradients against theory: {words}")
    return notes


def _counts(words: Iterable[str]) -> str:
    return ", ".join(f"{word} {count}" for word, count in Counter(words).items())


def conditions(found: Results) -> list[tuple[str, str]]:
    """Return where and with what it was, by name."""
    run, norm = found.run, found.run["norm"]
    terms = [name for name in ("bias", "residual") if run[name]]
    summed = ", summed in float32" if run["accumulate"] == "float32" else ""
    repetitions = {one["repetitions"] for one in found.timed if one["latency_us"]}
    rows = [
        ("ranks", f"{run['ranks']}, nodes: {run['nodes']} ({run['placement']}), {run['cpu']}"),
        ("note", f"{run['oversubscribed']}: compare ratios of times only")
        if run["oversubscribed"]
        else ("", ""),
        ("library", f"{run['library']}, engine {run['engine']}"),
        ("rows", f"{run['tokens']} tokens of {run['hidden']}, {run['dtype']}{summed}"),
        ("n", f"{format_size(run['bytes'])}, one rank's rows"),
        ("norm", f"{norm['kind']}, {norm['method']}, eps {norm['eps']:g}"),
        ("added once", " and ".join(terms) or "nothing"),
        ("algorithms", ", ".join(f"{of} {name}" for of, name in run["algorithms"].items())),
        (
            "times",
            f"{', '.join(map(str, sorted(repetitions)))} calls of each order, interleaved; "
            f"sample: {run['sample']}; input {found.inputs[0]}",
        ),
        ("seed", str(run["seed"])),
        ("command", f"hpccoll {join(run['argv'][1:])}"),
        ("run", f"{run['start']}, hpccoll {run['hpccoll']}, numpy {run['numpy']}"),
    ]
    return [(name, value) for name, value in rows if name]
