"""Which steps a picture shows: all of them, or of many only those that differ."""

from collections.abc import Iterator
from dataclasses import dataclass

from hpccoll.regular import Run, every, regular, runs
from hpccoll.trace import Trace

ALL_UP_TO_RANKS = 16
ALL_UP_TO_STEPS = 32
"""Up to these numbers of ranks and steps every step is shown."""
AT_MOST = 32
AT_MOST_OF_MANY_RANKS = 16
"""Columns that are shown; beyond, those in the middle are left out."""


@dataclass(frozen=True, slots=True)
class Column:
    """A step, or steps that are left out.

    Attributes
    ----------
    said
        What all ranks do alike in the step.
    """

    first: int
    last: int
    said: str = ""

    @property
    def shown(self) -> bool:
        """Tell whether this is a step that is shown."""
        return self.first == self.last

    @property
    def name(self) -> str:
        """Return the column's heading."""
        return f"round {self.first}" if self.shown else f"{self.first}–{self.last}"


def columns(trace: Trace) -> tuple[list[Column], list[str]]:
    """Return the columns of a trace, and notes on what is left out."""
    if trace.size <= ALL_UP_TO_RANKS and trace.steps <= ALL_UP_TO_STEPS:
        return [_step(trace, step) for step in range(1, trace.steps + 1)], []
    found: list[Column] = []
    notes: list[str] = []
    for run in runs(trace):
        found += _shortened(trace, run)
        if not found[-1 if run.first == run.last else -2].shown:
            notes.append(f"rounds {run.first}–{run.last}: every {every(trace, run.patterns)}")
    most = AT_MOST if trace.size <= ALL_UP_TO_RANKS else AT_MOST_OF_MANY_RANKS
    if len(found) <= most:
        return found, notes
    half = most // 2
    left_out = Column(found[half].first, found[-half - 1].last)
    note = f"rounds {left_out.name} are left out"
    return [*found[:half], left_out, *found[-half:]], [*notes, note]


def _shortened(trace: Trace, run: Run) -> Iterator[Column]:
    if run.last - run.first < 4:
        yield from (_step(trace, step) for step in range(run.first, run.last + 1))
        return
    yield _step(trace, run.first)
    yield Column(run.first + 1, run.last - 1)
    yield _step(trace, run.last)


def _step(trace: Trace, step: int) -> Column:
    patterns, others = regular(trace, trace.arrows.get(step, ()))
    said = every(trace, patterns) if len(patterns) == 1 and not others else ""
    return Column(step, step, " ".join(said.split()))
