"""The files of a sweep's results: which elements are whole, and what unfinished runs have left.

A result has the record of its run in the first line, then groups, each with a line that counts its
records: those of one message, or all of a command that isn't about messages. The last line counts
all records. Until then it is a partial file with a name of its own, so what has the result's name
is whole.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpccoll.errors import UsageError, unwritable_folder
from hpccoll.sweep.plan import Element, Plan

Record = dict[str, Any]
Message = tuple[int, int]
"""Bytes and root of the message that a group is about."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a file has, as far as it is complete.

    Attributes
    ----------
    run
        The record of the run that wrote it.
    groups
        The records of each message, or of all that was compared.
    whole
        It has its last line.
    """

    run: Record
    groups: tuple[tuple[Record, ...], ...]
    whole: bool

    @property
    def records(self) -> list[Record]:
        """Return the records of all groups."""
        return [record for group in self.groups for record in group]

    @property
    def messages(self) -> dict[Message, tuple[Record, ...]]:
        """Return the groups by bytes and root, the root 0 where the collective has none.

        Groups that aren't about a message are left out: nothing can go on with them.
        """
        about = [group for group in self.groups if "bytes" in group[0]]
        return {(group[0]["bytes"], group[0]["root"] or 0): group for group in about}

    @property
    def wrong(self) -> int:
        """Return how many results were wrong."""
        return sum(map(is_wrong, self.records))

    @property
    def runs(self) -> dict[str, Record]:
        """Return the records of this run, and of those that it continued, by their names."""
        alone = {name: value for name, value in self.run.items() if name != "continued"}
        return {run["run"]: run for run in (alone, *self.run["continued"])}


def is_wrong(record: Record) -> bool:
    """Tell whether a result failed its check, or contradicts what theory says of it."""
    return record.get("check") == "failed" or record.get("verdict") == "contradicts"


@dataclass(frozen=True, slots=True)
class Results:
    """The folder of a plan's results."""

    directory: Path
    plan: Plan

    def make(self) -> None:
        """Make the folder, unless it is there.

        Raises
        ------
        UsageError
            It can't be made.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable_folder(self.directory, error, "--directory") from None

    def path(self, element: Element) -> Path:
        """Return the file of an element's result; what has this name is whole."""
        return self.directory / f"{element.name}.jsonl"

    def log(self, element: Element) -> Path:
        """Return the file that says how an element's runs began and ended."""
        return self.directory / f"{element.name}.log"

    def printed(self, element: Element) -> Path:
        """Return the file with what an element's run printed, where hpccoll launched it."""
        return self.directory / f"{element.name}.out"

    def partial(self, element: Element, run: str) -> Path:
        """Return the file that one run of an element writes until it is whole."""
        return self.directory / f"{element.name}.jsonl.partial-{run}"

    def partials(self, element: Element) -> list[Path]:
        """Return the files of runs that haven't ended, or were ended."""
        return sorted(self.directory.glob(f"{element.name}.jsonl.partial-*"))

    def result(self, element: Element) -> Content | None:
        """Return an element's result, or None if there is none.

        Raises
        ------
        UsageError
            The file is of another plan.
        """
        path = self.path(element)
        return self._own(path, read(path)) if path.exists() else None

    def earlier(self, element: Element) -> list[Content]:
        """Return what unfinished runs of an element have left (see `result`)."""
        found = [self._own(path, read(path)) for path in self.partials(element)]
        return [content for content in found if content]

    def clean(self, element: Element) -> None:
        """Remove what ended runs of an element have left; those that still run do so themselves."""
        for path in self.partials(element):
            if held(path) is False:
                path.unlink(missing_ok=True)

    def _own(self, path: Path, content: Content | None) -> Content | None:
        if content and (found := content.run["sweep"]["plan"]) != self.plan.hash:
            raise UsageError(
                f"{path} is of another plan ({found[:12]}, this is {self.plan.hash[:12]}); "
                "choose another --directory, or move the old results away"
            )
        return content


def read(path: Path) -> Content | None:
    """Return what a result or a partial file has, or None if not even its first line is complete.

    Lines after one that is torn don't count, nor do those of a group without its last line.
    """
    lines = _records(path)
    run = next(lines, None)
    if run is None or run["type"] != "run" or "sweep" not in run:
        return None
    groups, open_group, whole = list[tuple[Record, ...]](), list[Record](), False
    for record in lines:
        if record["type"] == "group" and record["records"] == len(open_group):
            groups.append(tuple(open_group))
            open_group = []
        elif record["type"] == "end":
            whole = record["records"] == sum(map(len, groups)) and not open_group
        else:
            open_group.append(record)
    return Content(run, tuple(groups), whole)


def _records(path: Path) -> Iterator[Record]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:  # another run of the element has ended meanwhile
        return
    for line in text[: text.rfind("\n") + 1].splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            return
        if not isinstance(record, dict) or "type" not in record:
            return
        yield record


def hold(file: int, shared: bool = False) -> None:
    """Lock an open file as long as this process has it open, so that others see that it runs.

    A file system without locks is no hindrance: then others can't see it.
    """
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def held(path: Path) -> bool | None:
    """Tell whether a process holds a file; None where the file system has no locks."""
    try:
        with path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


def sync(path: Path) -> None:
    """Bring a file or folder to the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
