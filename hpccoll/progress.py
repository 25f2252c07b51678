"""Progress on a terminal: one line on standard error, gone when it is done."""

import sys


class Progress:
    """Count steps on standard error, if that is a terminal."""

    def __init__(self, total: int, what: str) -> None:
        self._total, self._done, self._what = total, 0, what
        self._shown = sys.stderr.isatty()

    def step(self) -> None:
        """Say that another step is done."""
        self._done += 1
        if self._shown and self._done < self._total:
            sys.stderr.write(f"\r{self._done} of {self._total} {self._what} …")
            sys.stderr.flush()

    def clear(self) -> None:
        """Take the line away before something else is printed."""
        if self._shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
