"""Elements launched from here, one after the other: a workstation, or inside an allocation."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hpccoll.errors import UsageError, unknown
from hpccoll.progress import Progress
from hpccoll.sweep import log
from hpccoll.sweep.plan import Element
from hpccoll.sweep.results import Results
from hpccoll.sweep.status import FAILURE, State, state

PLACES = ("ranks", "nodes", "mpi")
"""What a launcher's words may have in braces."""
GRACE = 10.0
"""Seconds that a launcher has to end in order before it is killed."""
LIMIT_FACTOR, LIMIT_MORE = 3.0, 60.0
"""The limit of an element's time: so many times its estimate, and so many seconds."""


@dataclass(frozen=True, slots=True)
class Launching:
    """How elements are launched.

    Attributes
    ----------
    launcher
        A command with ``{ranks}``, ``{nodes}`` and ``{mpi}``; no shell reads it.
    plan
        The plan's file.
    limit
        Seconds that an element may take, None to take it from its estimate.
    force
        Run what is done anew.
    """

    launcher: str
    plan: Path
    results: Results
    limit: float | None = None
    force: bool = False

    def command(self, element: Element) -> list[str]:
        """Return the words that launch an element.

        Raises
        ------
        UsageError
            The launcher can't be read, or asks for what the element doesn't say.
        """
        try:
            words = shlex.split(self.launcher)
        except ValueError as error:
            raise UsageError(f"--launcher {self.launcher!r} can't be read: {error}") from None
        if not words:
            raise UsageError("--launcher is empty; give a command, such as 'mpirun -n {ranks}'")
        launch = [self._filled(word, element) for word in words]
        run = [sys.executable, "-m", "hpccoll", "sweep", "run", str(self.plan)]
        run += ["--index", str(element.index), "--directory", str(self.results.directory)]
        return [*launch, *run, *["--force"] * self.force]

    def _filled(self, word: str, element: Element) -> str:
        def value(found: re.Match[str]) -> str:
            if found[1] not in PLACES:
                raise UsageError("--launcher: " + unknown("place", found[1], PLACES))
            given = getattr(element.allocation, found[1])
            if given is None:
                raise UsageError(
                    f"--launcher has {{{found[1]}}}, but element {element.index} doesn't say its "
                    f"{found[1]}; give the key in the sweep file"
                )
            return str(given)

        return re.sub(r"\{(\w*)\}", value, word)

    def seconds(self, element: Element) -> float | None:
        """Return how long an element may take."""
        if self.limit is not None or element.estimate is None:
            return self.limit
        return LIMIT_FACTOR * element.estimate.seconds + LIMIT_MORE


def check(launching: Launching, elements: Sequence[Element]) -> None:
    """Check that a launcher tells the elements apart and can launch all.

    Raises
    ------
    UsageError
        It can't be read, or would launch elements of several allocations alike.
    """
    for element in elements:
        launching.command(element)
    for place in PLACES:
        values = {getattr(element.allocation, place) for element in elements}
        if len(values) > 1 and f"{{{place}}}" not in launching.launcher:
            raise UsageError(
                f"the elements differ in their {place}, so --launcher must have {{{place}}} "
                f"where it belongs, got {launching.launcher!r}"
            )


def run_all(
    launching: Launching, elements: Sequence[Element], echo: Callable[[str], object]
) -> list[State]:
    """Launch elements one after the other, and return the states of those that failed.

    Raises
    ------
    UsageError
        The launcher can't be started.
    """
    failed, progress = [], Progress(len(elements), "elements run")
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for element in elements:
            reason = run_one(launching, element)
            found = state(launching.results, element)
            failed += [found] if reason else []
            progress.clear()
            echo(f"element {element.index}: {found.word}, {found.reason or reason}")
            progress.step()
    finally:
        signal.signal(signal.SIGTERM, before)
    return failed


def run_one(launching: Launching, element: Element) -> str | None:
    """Launch one element; return why it failed, after that is in its log as well."""
    path = launching.results.log(element)
    launching.results.make()
    before = len(log.lines(path))
    printed, command = launching.results.printed(element), launching.command(element)
    reason = _launch(command, printed, launching.seconds(element))
    said = {line.what for line in log.lines(path)[before:]}
    if not reason and not state(launching.results, element).done:
        reason = f"its launcher ended without a result: {last_words(printed)}"
    if reason and log.ENDS not in said:
        outside = log.Log(path, log.OUTSIDE)
        if log.BEGINS not in said:
            outside.begins(
                f"{element.name} of {launching.results.plan.name}: {shlex.join(command)}"
            )
        outside.ends(FAILURE + reason)
        outside.close()
    return reason


def _launch(command: Sequence[str], printed: Path, limit: float | None) -> str | None:
    """Run a command, its words going to a file; return why it failed, None if it didn't."""
    with printed.open("wb") as output:
        try:
            launched = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise UsageError(
                f"the launcher {command[0]!r} can't be started: {error.strerror}; "
                "give another --launcher"
            ) from None
        try:
            code = launched.wait(limit)
            if code < 0:
                return f"its launcher was killed by {signal.Signals(-code).name}"
        except subprocess.TimeoutExpired:
            return f"it took longer than its limit of {limit:g} s"
        finally:
            _end(launched)
    return f"exit code {code}: {last_words(printed)}" if code else None


def _end(launched: "subprocess.Popen[bytes]") -> None:
    """End a launcher that is still there, and all that it launched in its session."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if launched.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(launched.pid, number)
            with suppress(subprocess.TimeoutExpired):
                launched.wait(GRACE)


def last_words(printed: Path) -> str:
    """Return the last line of what an element's launch printed."""
    lines = [line.strip() for line in printed.read_text(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line), "it printed nothing")
