"""Tables of a sweep for people: its plan, and how its elements stand."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hpccoll.buffers import format_gib
from hpccoll.columns import Column, row, titles
from hpccoll.sweep.plan import Element, Estimate, Group, Plan, ranges
from hpccoll.sweep.status import State, summary

_INDEX = Column("index", 5)
_STATE, _REASON = Column("state", 8, left=True), Column("result or reason", 30, left=True)


def plan(made: Plan) -> str:
    """Return the elements, the groups of equal allocation, and what all will need."""
    about, labels = _labels(made)
    columns = (_INDEX, _label(labels))
    rows = [row(columns, (str(index), label)) for index, label in enumerate(labels)]
    total = sum(_need(element).seconds for element in made.elements)
    return "\n".join(
        [
            f"sweep {made.name} of {made.command}, plan {made.hash[:12]}",
            f"all elements: {about}",
            "",
            titles(columns),
            *rows,
            "",
            "groups of equal allocation",
            *map(_group, made.groups),
            f"all one after the other: {_duration(total)}; times are the time budgets and what "
            "comes before them,",
            "memory is at least that of inputs and outputs, scratch memory comes on top",
        ]
    )


def _labels(made: Plan) -> tuple[str, list[str]]:
    """Return what all elements have in common, and what each has of its own."""
    found = [_settings(element) for element in made.elements]
    keys = dict.fromkeys(key for settings in found for key in settings)
    alike = [key for key in keys if all(one.get(key) == found[0].get(key) for one in found)]
    own = [
        _spelled({key: value for key, value in settings.items() if key not in alike})
        for settings in found
    ]
    return _spelled({key: found[0][key] for key in alike}), own


def _settings(element: Element) -> dict[str, Any]:
    record = element.record()
    places = {key: record[key] for key in ("ranks", "nodes", "mpi") if record[key] is not None}
    return {**places, **record["options"]}


def _spelled(settings: Mapping[str, Any]) -> str:
    return shlex.join(f"{key}={_value(value)}" for key, value in settings.items())


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _label(labels: Iterable[str]) -> Column:
    return Column("element", max([7, *map(len, labels)]), left=True)


def _group(group: Group) -> str:
    needs = [_need(element) for element in group.elements]
    longest = max(need.seconds for need in needs)
    memory = max(need.memory for need in needs)
    return (
        f"  {group.allocation}: elements {ranges(group.indices)}, {_duration(longest)} each at "
        f"most, {format_gib(memory)} of memory per node"
    )


def _need(element: Element) -> Estimate:
    return element.estimate or Estimate(0.0, 0)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 7200 else f"about {seconds / 3600:.1f} h"


def status(made: Plan, found: Sequence[State]) -> str:
    """Return a row for each element, and a count of the states."""
    _, labels = _labels(made)
    columns = (_INDEX, _label(labels), _STATE, _REASON)
    rows = [
        row(columns, (str(state.element.index), label, state.word, state.reason))
        for state, label in zip(found, labels, strict=True)
    ]
    return "\n".join([titles(columns), *rows, "", summary(found)])
