"""The watchdog: a call that doesn't end ends the job, and every rank says what it waits for."""

import os
import sys
from math import ceil
from threading import Event, Thread
from time import sleep

from hpccoll.clock import now
from hpccoll.engines.call import Call

GRACE = 1.0
"""Seconds between a rank's words and its end, at least, so that the others can speak as well."""


class Watchdog:
    """Watch the calls of one rank from a thread of their own.

    The thread sleeps until the deadline of the call that it saw last, so it doesn't disturb what is
    measured. It ends the process without MPI, which may be what hangs: the launcher then ends the
    other ranks.

    Attributes
    ----------
    since
        When the current call, or the wait for it, began; the loop that makes the calls sets it.
    call
        The current call, or None between calls.
    label
        What is being measured, in words.
    """

    def __init__(self, timeout: float, rank: int) -> None:
        self.timeout = timeout
        self.since = now()
        self.call: Call | None = None
        self.label = ""
        self._rank = rank
        self._stop = Event()
        self._thread = Thread(target=self._watch, daemon=True, name="watchdog")

    def __enter__(self) -> "Watchdog":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def pause(self) -> None:
        """Stop watching until `since` is set again."""
        self.since = float("inf")

    def _watch(self) -> None:
        remaining = self.timeout
        while not self._stop.wait(remaining):
            since = self.since
            remaining = self.timeout if since == float("inf") else since + self.timeout - now()
            if remaining <= 0:
                self._bark()

    def _bark(self) -> None:
        where = self.call.position() if self.call else "between calls, waiting for other ranks"
        sys.stderr.write(
            f"hpccoll: [rank {self._rank}] {self.label} did not end within {self.timeout:g} s: "
            f"{where}\n"
        )
        sys.stderr.flush()
        # Together with the others of this node: a launcher kills those that are left, and some
        # report that signal instead of this exit code.
        end = ceil((now() + GRACE) / GRACE) * GRACE
        sleep(end - now())
        os._exit(1)
