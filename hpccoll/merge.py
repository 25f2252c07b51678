"""Merging: result files of several launches of one benchmark, the launch being a factor.

Times change from launch to launch (placement, memory, other jobs) by more than repetitions within
one show. So the median of a launch is one observation, and what counts is the median over launches
and how far they lie apart.

References
----------
Hunold, Carpen-Amarie, TPDS 27(12), 2016, arXiv:1505.07734.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpccoll.errors import UsageError
from hpccoll.registry import LIBRARY
from hpccoll.results import SCHEMA, Record
from hpccoll.stats import FASTER, LEVEL, SAME, SLOWER, compare, median

MERGED_SCHEMA = 1

SETTINGS = (
    *("counts", "sync", "arrival", "touch", "cold", "accumulate", "segment", "window"),
    "placement",
)
"""How blocks were cut, and how was measured: fields that may be absent."""

QUESTION = ("collective", "ranks", "nodes", "dtype", "op", "in_place", *SETTINGS)
"""The fields that one table is about."""

MESSAGE = (*QUESTION, "bytes", "root")
"""The fields that are alike for all algorithms that are compared with each other."""

CELL = (*MESSAGE, "algorithm", "parameters", "chosen_by_model", "engine")
"""The fields that say which launches' measurements are of the same thing."""

_ALIKE = {"library_version": "MPI library", "ranks": "number of ranks"}
_NEEDED = {*CELL, "latency_us", "check"} - {*SETTINGS, "chosen_by_model"}
_KINDS = ("measurement", "skipped", "ended", "group", "end")
"""What follows the record of a run; elements of a sweep have the last two."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One result file."""

    path: str
    run: Record
    measured: tuple[Record, ...]
    skipped: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Merged:
    """One cell over all launches that measured it; times are in seconds.

    Attributes
    ----------
    records
        The measurements by the number of their launch.
    differ
        The fastest and the slowest launch differ by more than the noise within them; None with one
        launch, or where the records can't tell.
    ratio, word
        Median divided by the library's, and ``faster`` or ``slower`` where every launch that
        measured both says so, else ``no difference``. None for the library itself and without it.
    """

    records: Mapping[int, Record]
    differ: bool | None
    ratio: float | None = None
    word: str | None = None

    @property
    def cell(self) -> Record:
        """Return the fields `CELL`."""
        return {name: next(iter(self.records.values())).get(name) for name in CELL}

    @property
    def medians(self) -> list[float]:
        """Return the launches' medians, ascending."""
        return sorted(record["latency_us"]["p50"] * 1e-6 for record in self.records.values())

    @property
    def median(self) -> float:
        """Return the median over launches of the launches' medians."""
        return median(self.medians)

    @property
    def check(self) -> str:
        """Return the worst of the launches' checks."""
        checks = {record["check"] for record in self.records.values()}
        return next((word for word in ("failed", "skipped") if word in checks), "ok")

    @property
    def samples(self) -> list[float]:
        """Return the samples of all launches, or the medians of those that didn't keep them."""
        return [
            sample * 1e-6
            for record in self.records.values()
            for sample in record.get("samples_us") or [record["latency_us"]["p50"]]
        ]


# Reading


def read_all(paths: Sequence[str]) -> list[Launch]:
    """Read result files that belong together.

    Raises
    ------
    UsageError
        A file can't be read, has another schema, a torn line or another shape, is given twice, or
        differs from the first in MPI library or number of ranks.
    """
    seen: set[Path] = set()
    for path in paths:
        if (found := Path(path).resolve()) in seen:
            raise UsageError(f"{path} is given twice; a launch counts once")
        seen.add(found)
    launches = [read(path) for path in paths]
    first = launches[0]
    for other in launches[1:]:
        for name, words in _ALIKE.items():
            one, two = first.run.get(name), other.run.get(name)
            if one != two:
                raise UsageError(
                    f"{first.path} and {other.path} differ in their {words}: {_brief(one)} and "
                    f"{_brief(two)}; merge only launches of the same benchmark"
                )
    return launches


def _brief(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 100 else text[:99] + "…"


def read(path: str) -> Launch:
    """Read one result file (see `read_all`)."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from None
    lines, whole = text.splitlines(), text.endswith("\n")
    records = [
        _record(path, number, line, torn=number == len(lines) and not whole)
        for number, line in enumerate(lines, 1)
    ]
    run = _run(path, records[0] if records else {})
    kinds: dict[str, list[Record]] = {"measurement": [], "skipped": []}
    for number, record in enumerate(records[1:], 2):
        if record["type"] == "run":
            raise UsageError(f"{path}, line {number} starts another run; give each its own file")
        if record["type"] not in _KINDS:
            raise UsageError(
                f"{path}, line {number} is of type {record['type']!r}, which no benchmark writes; "
                "give files of bench -o"
            )
        kinds.setdefault(record["type"], []).append(record)
    return Launch(path, run, tuple(kinds["measurement"]), tuple(kinds["skipped"]))


def _record(path: str, number: int, line: str, torn: bool) -> Record:
    try:
        record = json.loads(line)
        kind = record["type"]
    except (ValueError, TypeError, KeyError):
        torn_off = "is cut off, since the launch ended while it was written"
        raise UsageError(
            f"{path}, line {number} {torn_off if torn else 'is no record of hpccoll'}; run that "
            "launch again, or delete the line"
        ) from None
    if kind == "measurement" and (missing := sorted(_NEEDED - record.keys())):
        raise UsageError(f"{path}, line {number} is a measurement without {', '.join(missing)}")
    return dict(record)


def _run(path: str, record: Record) -> Record:
    kind = record.get("type")
    if kind == "merged":
        raise UsageError(f"{path} is merged already; give the files that it was made of")
    if kind != "run":
        raise UsageError(f"{path} doesn't start with the record of a run; give files of bench -o")
    if record.get("schema") != SCHEMA:
        raise UsageError(
            f"{path} has schema {record.get('schema')}, but this hpccoll reads schema {SCHEMA}; "
            "merge it with the hpccoll that wrote it"
        )
    return record


# Merging


def merge(launches: Sequence[Launch]) -> list[Merged]:
    """Return every cell of all launches, in the order in which they were first measured."""
    cells: dict[str, dict[int, Record]] = {}
    for number, launch in enumerate(launches):
        for record in launch.measured:
            cells.setdefault(key(record, CELL), {})[number] = record
    found = [Merged(records, _differ(list(records.values()))) for records in cells.values()]
    libraries = {
        key(entry.cell, MESSAGE): entry for entry in found if entry.cell["algorithm"] == LIBRARY
    }
    return [_beside(entry, libraries.get(key(entry.cell, MESSAGE))) for entry in found]


def key(record: Record, names: Iterable[str]) -> str:
    """Return some fields as a key of a dictionary."""
    return json.dumps([record.get(name) for name in names], sort_keys=True)


def _differ(records: Sequence[Record]) -> bool | None:
    """Tell whether the slowest launch is clearly slower than the fastest, of all their pairs."""
    if len(records) < 2:
        return None
    ordered = sorted(records, key=lambda record: float(record["latency_us"]["p50"]))
    pairs = len(records) * (len(records) - 1) // 2
    word = _word(ordered[-1], ordered[0], LEVEL / pairs)
    return None if word is None else word == SLOWER


def _word(record: Record, baseline: Record, level: float) -> str | None:
    """Compare two measurements by their samples, or else by their intervals."""
    if record.get("samples_us") and baseline.get("samples_us"):
        return compare(record["samples_us"], baseline["samples_us"], level).word
    one, two = record["latency_us"], baseline["latency_us"]
    if None in (one["ci_low"], one["ci_high"], two["ci_low"], two["ci_high"]):
        return None
    if one["ci_high"] < two["ci_low"]:
        return FASTER
    return SLOWER if one["ci_low"] > two["ci_high"] else SAME


def relation(entry: Merged, baseline: Merged) -> str:
    """Return ``faster`` or ``slower`` if every launch of both says so, else ``no difference``."""
    shared = entry.records.keys() & baseline.records.keys()
    words = {_word(entry.records[n], baseline.records[n], LEVEL) for n in shared}
    return words.pop() or SAME if len(words) == 1 else SAME


def _beside(entry: Merged, library: Merged | None) -> Merged:
    """Return the cell with its verdict against the library."""
    if library is None or library is entry or library.check == "failed" or not library.median:
        return entry
    ratio = entry.median / library.median
    return Merged(entry.records, entry.differ, ratio, relation(entry, library))


# Writing


def records(launches: Sequence[Launch], merged: Iterable[Merged]) -> Iterator[Record]:
    """Yield the lines of a merged file."""
    yield {
        "type": "merged",
        "schema": MERGED_SCHEMA,
        "files": [launch.path for launch in launches],
        "runs": [launch.run for launch in launches],
    }
    for entry in merged:
        medians = [
            None if record is None else record["latency_us"]["p50"]
            for record in map(entry.records.get, range(len(launches)))
        ]
        yield {
            "type": "merged-measurement",
            **entry.cell,
            "launches": len(entry.records),
            "median_us": round(entry.median * 1e6, 4),
            "smallest_us": round(entry.medians[0] * 1e6, 4),
            "largest_us": round(entry.medians[-1] * 1e6, 4),
            "launch_medians_us": medians,
            "launches_differ": entry.differ,
            "ratio": None if entry.ratio is None else round(entry.ratio, 4),
            "verdict": entry.word,
            "check": entry.check,
        }
