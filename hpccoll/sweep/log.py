"""An element's log: a line when a run begins, one when it ends, and how."""

import os
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from hpccoll.sweep.results import hold

BEGINS, ENDS = "begins", "ends"
OUTSIDE = "launcher"
"""Stands for the run's name where its launcher ended without a word of the run itself."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a log: when, which run, whether it begins or ends, and the words."""

    time: str
    run: str
    what: str
    words: str


class Log:
    """The log of one run. Several runs of an element may write to it at once."""

    def __init__(self, path: Path, run: str) -> None:
        self._run = run
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        hold(self._file, shared=True)

    def begins(self, words: str) -> None:
        """Say what the run is."""
        self._write(BEGINS, words)

    def ends(self, words: str) -> None:
        """Say how it ended."""
        self._write(ENDS, words)

    def _write(self, what: str, words: str) -> None:
        time = datetime.now(timezone.utc).isoformat(timespec="seconds")
        line = " ".join(f"{time} {self._run} {what} {words}".split())
        os.write(self._file, f"{line}\n".encode())

    def close(self) -> None:
        """Close the file; from now on nobody sees that the run is there."""
        os.close(self._file)


def lines(path: Path) -> list[Line]:
    """Return the whole lines of a log, none where there is no log."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    split = (line.split(" ", 3) for line in text.splitlines())
    return [Line(*parts) for parts in split if len(parts) == 4]
