"""The table of merged launches: medians over launches, and how far the launches lie apart."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from hpccoll import advice
from hpccoll.collectives import COLLECTIVES
from hpccoll.columns import (
    UNCLEAR,
    Column,
    about_chosen,
    against,
    figures,
    microseconds,
    row,
    titles,
    with_chosen,
)
from hpccoll.cost import evaluate
from hpccoll.errors import UsageError
from hpccoll.findings import findings
from hpccoll.layout import Message
from hpccoll.merge import MESSAGE, QUESTION, SETTINGS, Launch, Merged, key, relation
from hpccoll.parameter import spelled
from hpccoll.registry import LIBRARY
from hpccoll.results import Record
from hpccoll.spelling import choose
from hpccoll.stats import SAME, Summary, summarize
from hpccoll.table import WINNER, sections
from hpccoll.units import format_size

_COLUMNS = (
    Column("bytes", 8),
    Column("algorithm", 26, left=True),
    Column("median us", 9),
    Column("smallest", 9),
    Column("largest", 9),
    Column("launches", 10, left=True),
    Column("algbw", 7),
    Column("busbw", 7),
    Column("t/lib", 12, left=True),
    Column("check", 7),
)

_ALIKE = ("ranks", "nodes", "dtype", *SETTINGS)
"""What cells have in common that findings compare."""

_MAY_DIFFER = ("hosts", "cores", "cpu", "kernel", "hpccoll", "mpi4py", "thread_level")
"""Fields of the run that are told where launches differ in them."""


def text(launches: Sequence[Launch], merged: Sequence[Merged]) -> str:
    """Return the tables of all that was asked, with advice, findings and what was wrong."""
    questions = list(_parts(merged, QUESTION))
    varied = [name for name in SETTINGS if len(list(_parts(merged, [name]))) > 1]
    blocks = [_header(launches)]
    for question in questions:
        messages = list(_parts(question, MESSAGE))
        first, *others = (_rows(question, message) for message in messages)
        blocks += [_title(question[0].cell, varied), f"{titles(_COLUMNS)}\n{first}", *others]
        items = (_advise(message) for message in messages)
        blocks.append(sections(("use", advice.lines(item for item in items if item))))
    blocks.append(_closing(launches, merged))
    return "\n\n".join(block for block in blocks if block)


def _parts(merged: Iterable[Merged], names: Sequence[str]) -> Iterator[list[Merged]]:
    parts: dict[str, list[Merged]] = {}
    for entry in merged:
        parts.setdefault(key(entry.cell, names), []).append(entry)
    yield from parts.values()


def _header(launches: Sequence[Launch]) -> str:
    number, run = len(launches), launches[0].run
    lines = [
        f"{number} launch{'es' * (number > 1)}, {run['library']}",
        "median     us; the median of the launches' medians; smallest and largest are theirs too",
        "launches   that measured it; differ: by more than the noise within them; ?: can't be told",
        "algbw      GB/s (1e9 bytes/s) of the median",
        "t/lib      median divided by the library's; "
        f"{UNCLEAR} where not every launch finds the same difference",
    ]
    differing = [
        name
        for name in _MAY_DIFFER
        if any(each.run.get(name) != run.get(name) for each in launches)
    ]
    if differing:
        lines.append(f"note       the launches differ in {', '.join(differing)}")
    return "\n".join(lines)


def _title(cell: Record, settings: Sequence[str]) -> str:
    place = "in place" if cell["in_place"] else "out of place"
    operator = f" {cell['op']}" if cell["op"] else ""
    ranks, nodes, of = cell["ranks"], cell["nodes"], COLLECTIVES[cell["collective"]]
    return (
        f"{of.name}, {cell['dtype']}{operator}, {place}, "
        f"{ranks} rank{'s' * (ranks > 1)} on {nodes} node{'s' * (nodes > 1)}\n"
        f"bytes      {of.bytes_are}\nbusbw      algbw * {of.busbw}\n"
        f"lib        the MPI library's {of.baselines}"
        + "".join(f"\n{name:<10} {_setting(cell[name])}" for name in settings)
    )


def _setting(value: object) -> str:
    return ", ".join(map(str, value.values())) if isinstance(value, dict) else str(value)


def _rows(question: Sequence[Merged], message: Sequence[Merged]) -> str:
    """Return the rows of one message, the fastest first, the winner marked."""
    best = _winner(message)
    roots = len({entry.cell["root"] for entry in question}) > 1
    rows: list[str] = []
    for entry in sorted(message, key=lambda entry: entry.median):
        cell, median, medians = entry.cell, entry.median, entry.medians
        algbw = cell["bytes"] / median / 1e9 if median else 0.0
        busbw = algbw * float(evaluate(COLLECTIVES[cell["collective"]].busbw, cell["ranks"]))
        root = f" root {cell['root']}" if roots else ""
        unknown = " ?" if len(medians) > 1 else ""
        differ = {None: unknown, True: " differ", False: ""}[entry.differ]
        cells = (
            format_size(cell["bytes"]) if not rows else "",
            _name(entry, message, chosen=True) + root + (f" {WINNER}" if entry is best else ""),
            microseconds(median),
            microseconds(medians[0]),
            microseconds(medians[-1]),
            f"{len(medians):>2}{differ}",
            figures(algbw),
            figures(busbw),
            _against(entry),
            entry.check,
        )
        rows.append(row(_COLUMNS, cells))
    return "\n".join(rows)


def _against(entry: Merged) -> str:
    right = entry.check != "failed"
    if entry.cell["algorithm"] == LIBRARY and right:
        return against(1.0, "")
    word = entry.word if entry.word and right else ""
    return f"{'-':>5}" if entry.ratio is None else against(entry.ratio, word)


def _label(entry: Merged) -> str:
    """Return the spelling that was asked for, defaults left out if they are known."""
    text = str(entry.cell["algorithm"]) + "".join(
        spelled(name, tuple(value) if isinstance(value, list) else value)
        for name, value in entry.cell["parameters"].items()
        if name not in _chosen(entry)
    )
    try:
        return choose(entry.cell["collective"], text)[0].label
    except UsageError:  # the library, and what another version knew
        return text


def _chosen(entry: Merged) -> list[str]:
    """Return the names of the parameters that the model chose."""
    return entry.cell["chosen_by_model"] or []


def _name(entry: Merged, message: Iterable[Merged], chosen: bool = False) -> str:
    """Return the label, and the engine where the same algorithm ran in several.

    `chosen` adds the parameters that the model chose.
    """
    label = _label(entry)
    engines = {other.cell["engine"] for other in message if _label(other) == label}
    shown = with_chosen(label, entry.cell["parameters"], _chosen(entry) if chosen else ())
    return f"{shown} ({entry.cell['engine']})" if len(engines) > 1 else shown


def _winner(merged: Iterable[Merged]) -> Merged | None:
    right = [entry for entry in merged if entry.check != "failed"]
    return min(right, key=lambda entry: entry.median, default=None)


def _advise(message: Sequence[Merged]) -> advice.Advice | None:
    contenders = (
        advice.Contender(
            _name(entry, message), entry.median, entry.cell["algorithm"] == LIBRARY, entry
        )
        for entry in message
        if entry.check != "failed"
    )
    return advice.advise(message[0].cell["bytes"], message[0].cell["root"], contenders, _same)


def _same(one: Merged, other: Merged) -> bool:
    return relation(one, other) == SAME


# What stands under the tables


@dataclass(frozen=True, slots=True)
class _Pooled:
    """A cell as findings read it: the samples of all launches together."""

    collective: str
    algorithm: str
    label: str
    engine: str
    bytes: int
    message: Message
    latency: Summary
    samples: Sequence[float]
    check: str


def _pooled(entry: Merged) -> _Pooled:
    cell, samples = entry.cell, entry.samples
    return _Pooled(
        collective=cell["collective"],
        algorithm=cell["algorithm"],
        label=_label(entry),
        engine=cell["engine"],
        bytes=cell["bytes"],
        message=Message(0, 0, cell["root"] or 0),
        latency=summarize(samples),
        samples=samples,
        check=entry.check,
    )


def _findings(merged: Sequence[Merged]) -> list[str]:
    """Return the findings among cells of one element type, operator, setting and use of buffers."""
    found: dict[str, None] = {}
    for alike in _parts(merged, _ALIKE):
        for op, in_place in {(e.cell["op"], e.cell["in_place"]): None for e in alike}:
            fitting = [
                entry
                for entry in alike
                if entry.cell["op"] in (op, None)
                and (entry.cell["in_place"] == in_place or _one_buffer(entry))
            ]
            found |= dict.fromkeys(findings(map(_pooled, fitting)))
    return list(found)


def _one_buffer(entry: Merged) -> bool:
    return COLLECTIVES[entry.cell["collective"]].one_buffer


def _closing(launches: Sequence[Launch], merged: Sequence[Merged]) -> str:
    skipped = dict.fromkeys(
        f"  {record['collective']} {record['algorithm']}: {record['reason']}"
        for record in chain.from_iterable(launch.skipped for launch in launches)
    )
    wrong = [line for entry in merged if (line := _wrong(entry))]
    return sections(
        ("findings", [f"  {sentence}" for sentence in _findings(merged)]),
        ("skipped", list(skipped)),
        ("WRONG RESULTS", wrong),
        notes=about_chosen([name for entry in merged for name in _chosen(entry)]),
    )


def _wrong(entry: Merged) -> str | None:
    failed = [record for record in entry.records.values() if record["check"] == "failed"]
    if not failed:
        return None
    where = f"in {len(failed)} of {len(entry.records)} launches"
    details = next(iter(failed[0].get("mismatches", ())), "no details")
    what = f"{entry.cell['collective']} {_label(entry)} of {format_size(entry.cell['bytes'])}"
    return f"  {what}, {where}: {details}"
