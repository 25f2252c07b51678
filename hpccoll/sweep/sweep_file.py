"""Sweep files: TOML that says which options stay, which are crossed, and which go together.

They are data. Nothing in them reaches a shell, and what can't be written on one line is refused.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import isfinite
from pathlib import Path
from typing import Any

from hpccoll.errors import UsageError, unknown
from hpccoll.sweep.plan import Option, Scalar

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FIELDS = ("name", "command", "base", "axes", "zip", "exclude")

Settings = dict[str, Option]


@dataclass(frozen=True, slots=True)
class SweepFile:
    """What a sweep file asks for: every element's settings, in the order in which they cross."""

    name: str
    command: str
    settings: tuple[Settings, ...]


def read(path: Path) -> SweepFile:
    """Read a sweep file.

    Raises
    ------
    UsageError
        It can't be read, isn't TOML, has a field or value of another kind, or leaves no element;
        the message names the field and its key.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"the sweep file {path} can't be read: {error.strerror}") from None
    except ValueError as error:  # TOML's errors, and those of text that isn't UTF-8
        raise UsageError(f"{path} is no TOML: {error}") from None
    try:
        return parse(content, path.stem)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def parse(content: Mapping[str, Any], name: str) -> SweepFile:
    """Return what a sweep file's content asks for (see `read`); `name` is the sweep's default."""
    for field in content:
        if field not in FIELDS:
            raise UsageError(unknown("field", field, FIELDS))
    named, command = (
        _text(field, content.get(field, default))
        for field, default in (("name", name), ("command", "bench"))
    )
    crossed = _cross(_table(content, "base"), _axes(content))
    settings = tuple(_without(list(crossed), _tables(content, "exclude")))
    if not settings:
        raise UsageError("the file has no elements: an axis is empty, or all are excluded")
    _check_distinct(settings)
    return SweepFile(named, command, settings)


# Fields


def _text(field: str, value: Any) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise UsageError(f"{field} must be a text on one line, got {value!r}")
    return value


def _table(content: Mapping[str, Any], field: str) -> dict[str, Any]:
    found = content.get(field, {})
    if not isinstance(found, dict):
        raise UsageError(f"{field} must be a table: write [{field}], and its keys below")
    return found


def _tables(content: Mapping[str, Any], field: str) -> list[dict[str, Any]]:
    found = content.get(field, [])
    if not isinstance(found, list) or not all(isinstance(table, dict) for table in found):
        raise UsageError(
            f"{field} must be tables: write [[{field}]] above each, and its keys below"
        )
    return found


def _list(where: str, key: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise UsageError(f"{where}, key {key!r}: give a list of values, got {value!r}")
    return value


def _option(where: str, key: str, value: Any) -> Option:
    """Return an option's value: a scalar, or several that will be joined by commas."""
    if isinstance(value, list):
        return tuple(_scalar(where, key, one) for one in value)
    return _scalar(where, key, value)


def _scalar(where: str, key: str, value: Any) -> Scalar:
    if not isinstance(value, str | int | float) or (
        isinstance(value, float) and not isfinite(value)
    ):
        raise UsageError(
            f"{where}, key {key!r}: a value is a text, a number, true or false, got {value!r}"
        )
    if isinstance(value, str) and not value.isprintable():
        raise UsageError(
            f"{where}, key {key!r}: {value!r} has a character that can't be printed on one line; "
            "leave it out"
        )
    return value


# Crossing


def _axes(content: Mapping[str, Any]) -> list[list[Settings]]:
    """Return the axes, each a list of settings; a group that goes together is one axis."""
    crossed = [
        [{key: _option("axes", key, value)} for value in _list("axes", key, values)]
        for key, values in _table(content, "axes").items()
    ]
    return crossed + [_together(table) for table in _tables(content, "zip")]


def _together(table: Mapping[str, Any]) -> list[Settings]:
    columns = {
        key: [_option("zip", key, value) for value in _list("zip", key, values)]
        for key, values in table.items()
    }
    lengths = {key: len(values) for key, values in columns.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{key} has {length}" for key, length in lengths.items())
        raise UsageError(f"the lists of a zip must be equally long: {found}")
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _cross(base: Mapping[str, Any], axes: list[list[Settings]]) -> Iterator[Settings]:
    """Yield every combination, that of the last axis changing fastest."""
    fixed = {key: _option("base", key, value) for key, value in base.items()}
    keys = [*fixed, *(key for axis in axes for key in (axis[0] if axis else ()))]
    for key in keys:
        if keys.count(key) > 1:
            raise UsageError(f"key {key!r} is given in two of base, axes and zip; keep one")
    for chosen in product(*axes):
        merged = dict(fixed)
        for settings in chosen:
            merged |= settings
        yield merged


def _without(settings: list[Settings], excluded: Iterable[Mapping[str, Any]]) -> list[Settings]:
    """Return the settings that no table matches; each must match some."""
    for table in excluded:
        left = [one for one in settings if not _matches(one, table)]
        if len(left) == len(settings):
            raise UsageError(
                f"exclude {json.dumps(table, default=str)} matches no element that is left; "
                "correct it, or leave it out"
            )
        settings = left
    return settings


def _matches(settings: Settings, table: Mapping[str, Any]) -> bool:
    """Tell whether all keys have the table's values, or one of them where it lists some."""
    return all(
        key in settings and any(_same(settings[key], one) for one in _alternatives(key, value))
        for key, value in table.items()
    )


def _alternatives(key: str, value: Any) -> list[Option]:
    listed = value if isinstance(value, list) else [value]
    return [_option("exclude", key, one) for one in listed]


def _same(one: Option, other: Option) -> bool:
    # In Python true is 1, in TOML it isn't.
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _check_distinct(settings: Iterable[Settings]) -> None:
    seen: set[str] = set()
    for one in settings:
        text = json.dumps(one, sort_keys=True)
        if text in seen:
            raise UsageError(f"two elements are the same: {text}; remove the double value")
        seen.add(text)
