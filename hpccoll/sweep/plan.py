"""The plan of a sweep: its elements, what each runs on, and a hash that tells it from others."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

from hpccoll import __version__
from hpccoll.errors import UsageError, unwritable

FORMAT = "hpccoll sweep"
SCHEMA = 1
START = 3.0
"""Seconds that a launch takes until its command begins: assumed."""

Scalar = str | int | float | bool
Option = Scalar | tuple[Scalar, ...]
"""An option's value; several are joined by commas."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """What an element runs on.

    Attributes
    ----------
    nodes
        Their number, None where any will do.
    mpi
        The name of an MPI library, as the site has it, None for the one that there is.
    """

    ranks: int
    nodes: int | None = None
    mpi: str | None = None

    def __str__(self) -> str:
        """Return it in words: ``8 ranks, 2 nodes, openmpi``."""
        words = [_count(self.ranks, "rank")]
        words += [] if self.nodes is None else [_count(self.nodes, "node")]
        return ", ".join(words + ([] if self.mpi is None else [self.mpi]))


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number > 1)}"


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an element will need, roughly: `seconds`, and `memory` in bytes per node."""

    seconds: float
    memory: int


@dataclass(frozen=True, slots=True)
class Element:
    """One launch of the command.

    Attributes
    ----------
    options
        By their names in the sweep file.
    estimate
        It is no part of what the plan's hash covers.
    """

    index: int
    allocation: Allocation
    options: Mapping[str, Option]
    estimate: Estimate | None = None

    @property
    def name(self) -> str:
        """Return what the names of its files begin with."""
        return f"element-{self.index:04d}"

    def record(self) -> dict[str, Any]:
        """Return what the hash covers, ready for JSON."""
        given = self.allocation
        return {
            "index": self.index,
            "ranks": given.ranks,
            "nodes": given.nodes,
            "mpi": given.mpi,
            "options": {
                key: list(value) if isinstance(value, tuple) else value
                for key, value in self.options.items()
            },
        }


@dataclass(frozen=True, slots=True)
class Group:
    """Neighbouring elements of one allocation: what one job array can run."""

    allocation: Allocation
    elements: tuple[Element, ...]

    @property
    def indices(self) -> tuple[int, ...]:
        """Return its elements' indices, ascending."""
        return tuple(element.index for element in self.elements)


@dataclass(frozen=True, slots=True)
class Plan:
    """All elements of a sweep, those of one allocation beside each other.

    Attributes
    ----------
    command
        The command of hpccoll that every element runs.
    version
        That of the hpccoll that made the plan: no other runs it.
    """

    name: str
    command: str
    elements: tuple[Element, ...]
    version: str = __version__

    @property
    def hash(self) -> str:
        """Return the SHA-256 of the canonical content, in hexadecimal digits."""
        content = json.dumps(self._content(), sort_keys=True, separators=(",", ":"))
        return sha256(content.encode()).hexdigest()

    @property
    def groups(self) -> tuple[Group, ...]:
        """Return the elements by their allocation."""
        together = groupby(self.elements, lambda element: element.allocation)
        return tuple(Group(allocation, tuple(elements)) for allocation, elements in together)

    def element(self, index: int) -> Element:
        """Return an element.

        Raises
        ------
        UsageError
            There is none with this index.
        """
        if not 0 <= index < len(self.elements):
            raise UsageError(
                f"the sweep {self.name} has the elements 0 to {len(self.elements) - 1}, "
                f"got --index {index}"
            )
        return self.elements[index]

    def _content(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "schema": SCHEMA,
            "name": self.name,
            "command": self.command,
            "hpccoll": self.version,
            "elements": [element.record() for element in self.elements],
        }

    def text(self) -> str:
        """Return the file's text."""
        content = self._content() | {"hash": self.hash}
        for entry, element in zip(content["elements"], self.elements, strict=True):
            if element.estimate:
                entry["seconds"] = element.estimate.seconds
                entry["memory"] = element.estimate.memory
        return json.dumps(content, indent=1, allow_nan=False) + "\n"


def ranges(indices: Sequence[int]) -> str:
    """Write ascending indices as job arrays take them.

    >>> ranges([0, 1, 2, 5, 7, 8])
    '0-2,5,7-8'
    """
    runs = groupby(enumerate(indices), lambda pair: pair[1] - pair[0])
    ends = [(run[0][1], run[-1][1]) for run in (list(pairs) for _, pairs in runs)]
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in ends)


def results_of(plan: Path) -> Path:
    """Return the folder of a plan's results where none is named: beside it, of its name."""
    return plan.with_suffix(".results")


def write(path: Path, plan: Plan, force: bool = False) -> None:
    """Write a plan file; one that has the same plan already stays as it is.

    Raises
    ------
    UsageError
        There is another file of this name, or it can't be written.
    """
    text = plan.text()
    try:
        if path.exists() and path.read_text(errors="replace") == text:
            return
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise unwritable(path, error) from None


def read(path: Path) -> Plan:
    """Read a plan file.

    Raises
    ------
    UsageError
        It can't be read, is no plan, isn't as it was written, or another hpccoll made it.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"the plan {path} can't be read: {error.strerror}") from None
    except ValueError:
        content = None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UsageError(
            f"{path} is no plan of a sweep; make one: hpccoll sweep plan FILE.toml -o PLAN.json"
        )
    version = content.get("hpccoll"), content.get("schema")
    if version != (__version__, SCHEMA):
        raise UsageError(
            f"{path} was made by hpccoll {version[0]}, this is hpccoll {__version__}: results of "
            "two versions are no one sweep; run the one that made it, or plan anew"
        )
    return _plan(path, content)


def _plan(path: Path, content: dict[str, Any]) -> Plan:
    try:
        elements = tuple(map(_element, content["elements"]))
        plan = Plan(content["name"], content["command"], elements)
        right = plan.hash == content["hash"]
    except (KeyError, TypeError, AttributeError):
        right = False
    if not right:
        raise UsageError(
            f"{path} isn't as it was written: its content doesn't have the hash that it names; "
            "change the sweep's TOML file and plan anew"
        )
    return plan


def _element(entry: dict[str, Any]) -> Element:
    options = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in entry["options"].items()
    }
    estimate = Estimate(entry["seconds"], entry["memory"]) if "seconds" in entry else None
    allocation = Allocation(entry["ranks"], entry["nodes"], entry["mpi"])
    return Element(entry["index"], allocation, options, estimate)
