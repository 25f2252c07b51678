"""What a report says of a comparison, read from its records."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from hpccoll.columns import figures
from hpccoll.errors import UsageError
from hpccoll.layernorm.judge import CONTRADICTS, NO_VERDICT
from hpccoll.layernorm.verdict_table import UNTOLD, word
from hpccoll.results import SCHEMA, Record

EVERYWHERE, FUSED, SHARED = "allreduce-layernorm", "fused", "sequence-parallel"
"""The orders whose costs are compared in words."""


@dataclass(frozen=True, slots=True)
class Results:
    """The records of one run.

    Attributes
    ----------
    orders
        Input by input, each with all orders.
    backward
        Of the backward passes.
    skipped
        Orders that were left out.
    """

    run: Record
    orders: Sequence[Record]
    backward: Sequence[Record]
    skipped: Sequence[Record]

    @property
    def labels(self) -> list[str]:
        """Return the orders, in their order."""
        return list(dict.fromkeys(one["label"] for one in self.orders))

    @property
    def inputs(self) -> list[str]:
        """Return the inputs, in their order; the first was timed."""
        return list(dict.fromkeys(one["input"] for one in self.orders))

    @property
    def timed(self) -> list[Record]:
        """Return the records of the first input, which have all that was counted and measured."""
        return [one for one in self.orders if one["input"] == self.orders[0]["input"]]

    def of(self, label: str) -> list[Record]:
        """Return the records of one order, input by input."""
        return [one for one in self.orders if one["label"] == label]

    @property
    def contradictions(self) -> list[Record]:
        """Return what isn't as theory says, of both passes."""
        return [one for one in (*self.orders, *self.backward) if one["verdict"] == CONTRADICTS]


def results(records: Iterable[Record]) -> Results:
    """Sort records by their type.

    Raises
    ------
    UsageError
        They aren't those of one comparison of orders.
    """
    kinds: dict[str, list[Record]] = {"run": [], "order": [], "backward": [], "skipped": []}
    for record in records:
        kind = record.get("type")
        if kind not in kinds:
            raise UsageError(f"a record of type {kind!r} isn't of hpccoll layernorm; {_REMEDY}")
        kinds[kind].append(record)
    runs = kinds["run"]
    if len(runs) != 1 or runs[0].get("schema") != SCHEMA or not kinds["order"]:
        raise UsageError(
            f"a report needs one run of schema {SCHEMA} with at least one order, found "
            f"{len(runs)} and {len(kinds['order'])} orders; {_REMEDY}"
        )
    for one in kinds["order"]:
        if missing := sorted(_NEEDED - one.keys()):
            raise UsageError(f"an order's record has no {', '.join(missing)}; {_REMEDY}")
    return Results(runs[0], kinds["order"], kinds["backward"], kinds["skipped"])


_NEEDED = frozenset(
    {"label", "input", "correct", "told", "verdict", "deviation_over_bound", "path", "latency_us"}
)
_REMEDY = "give a file that hpccoll layernorm -o FILE wrote"


def read(path: Path) -> Results:
    """Read the JSON Lines of a comparison, or raise `UsageError` where they can't be read."""
    try:
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path} isn't JSON Lines: {error}; {_REMEDY}") from None
    return results(record if isinstance(record, dict) else {} for record in records)


def verdict_of(record: Record) -> str:
    """Return the word that tables have for a verdict."""
    return word(record["verdict"], record["correct"], record["told"])


def number(value: float | str) -> float:
    """Return a recorded number, of which JSON has no infinity; what isn't a number is that too."""
    return inf if isinstance(value, str) else value


def headline(found: Results) -> str:
    """Say in one sentence which orders are right, and what the fused one saves."""
    return "; ".join(filter(None, (_right_and_wrong(found), _saved(found)))) + "."


def _right_and_wrong(found: Results) -> str:
    if bad := found.contradictions:
        many = len(found.orders) + len(found.backward)
        names = ", ".join(dict.fromkeys(one.get("label") or one["name"] for one in bad))
        return f"{len(bad)} of {many} results contradict theory: {names}"
    kinds = [_kind(found.of(label)) for label in found.labels]
    right, wrong, untold, unknown = (
        kinds.count(kind) for kind in ("right", "wrong", UNTOLD, NO_VERDICT)
    )
    verb = "is" if right == 1 else "are"
    said = [
        (
            right + wrong,
            f"{_orders(right)} {verb} right and {wrong} wrong, each just as theory says",
        ),
        (untold, f"{_orders(untold)} wrong in theory, which these inputs can't tell"),
        (unknown, f"{_orders(unknown)} without a verdict"),
    ]
    return ", ".join(words for count, words in said if count)


def _orders(count: int) -> str:
    return f"{count} order{'' if count == 1 else 's'}"


def _kind(judged: Sequence[Record]) -> str:
    words = {verdict_of(one) for one in judged}
    if words == {NO_VERDICT}:
        return NO_VERDICT
    if judged[0]["correct"]:
        return "right"
    return "wrong" if "agrees" in words else UNTOLD


def _saved(found: Results) -> str:
    """Say what the fused order saves of what allreduce and norms everywhere take."""
    every, fused = _counted(found, EVERYWHERE), _counted(found, FUSED)
    if every is None or fused is None or found.run["ranks"] == 1:
        return ""
    kept = holders(every), holders(fused)
    residual = f" and keeps the residual on {kept[1]} of {kept[0]} ranks" if kept[0] else ""
    ratio = fused["path"]["bytes"] / every["path"]["bytes"]
    moved = (
        f"but saves no bytes: {figures(ratio)} times as many move along its path"
        if ratio > 1
        else f"and moves {figures(ratio)} times the bytes along its path"
    )
    return (
        f"the fused reduce, norm and broadcast computes {figures(norms(fused))} instead of "
        f"{figures(norms(every))} norms of all rows{residual}, {moved}"
    )


def details(found: Results) -> list[str]:
    """Say what the fused order leaves as it is, and what the better placement does."""
    every, fused, shared = (_counted(found, name) for name in (EVERYWHERE, FUSED, SHARED))
    if every is None or fused is None or found.run["ranks"] == 1:
        return []
    said = [
        f"The norm itself isn't shorter: the root of {FUSED} computes {figures(busiest(fused))} "
        f"norms of all rows, a rank of {EVERYWHERE} {figures(busiest(every))}."
    ]
    if shared:
        said.append(
            f"{SHARED} computes {figures(norms(shared))} norms of all rows, too, "
            f"{figures(busiest(shared))} on a rank, and moves "
            f"{figures(_path(found, shared))} n along its path; {EVERYWHERE} "
            f"{figures(_path(found, every))} n, {FUSED} {figures(_path(found, fused))} n."
        )
    return said


def _counted(found: Results, label: str) -> Record | None:
    """Return an order whose bytes were counted and that had something to do."""
    for one in found.timed:
        if one["label"] == label and one["path"] and one["path"]["bytes"] and least(one):
            return one
    return None


def _path(found: Results, one: Record) -> float:
    return float(one["path"]["bytes"] / found.run["bytes"])


def least(one: Record) -> int:
    """Return the operations of one norm of all rows."""
    return int(sum(one["norm_operations"]) - one["redundant_operations"])


def norms(one: Record) -> float:
    """Return the norms that all ranks compute, in norms of all rows."""
    return sum(one["norm_operations"]) / (least(one) or 1)


def busiest(one: Record) -> float:
    """Return the norms of the rank with most, in norms of all rows."""
    return float(max(one["norm_operations"]) / (least(one) or 1))


def holders(one: Record) -> int:
    """Return how many ranks keep a part of the residual."""
    return sum(map(bool, one["residual_bytes"]))
