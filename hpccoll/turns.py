"""The timed calls of one message: in turns, until a rule ends them.

The calls are made in blocks; in every block each algorithm has its turn, in an order that is
shuffled anew, because a shared machine drifts.
"""

from dataclasses import dataclass, field
from math import ceil
from random import Random
from typing import Any

import numpy as np

from hpccoll.candidates import Candidate
from hpccoll.check import LeftEarly, Mismatch
from hpccoll.clock import now
from hpccoll.datatypes import Array
from hpccoll.launch import told_to_end
from hpccoll.layout import Message
from hpccoll.request import Request
from hpccoll.sampling import NOTHING, Loop, Times, Touched
from hpccoll.stats import relative_half_width
from hpccoll.units import format_size
from hpccoll.world import World

BLOCKS = 10
"""Turns that every algorithm of a size has, at least, if the time allows."""
AGREED = 10
"""Calls whose moments are agreed on at once: one that is late makes those after it late, too."""
STOPS = ("", "target", "repetitions", "time budget", "told to end")
"""The rules that end the repetitions of a size, none of them first."""
TURN = 0.005
"""Seconds of an algorithm's turn: short, so that all see the same state of the machine."""
LATE = 1e-6
"""A call that begins more than this after the agreed moment doesn't count."""


@dataclass(slots=True)
class Series:
    """One algorithm's samples as they come in.

    `delayed` has those that began late, `ranks` a row per call if they are wanted.
    """

    candidate: Candidate
    first: float = 0.0
    late: int = 0
    samples: list[float] = field(default_factory=list)
    delayed: list[float] = field(default_factory=list)
    ranks: list[Array] = field(default_factory=list)
    mismatches: list[Mismatch | LeftEarly] = field(default_factory=list)


class Turns:
    """The turns of all algorithms of one message, which are `series`.

    `touch` is what is touched between two calls, `canaries` what was measured between the blocks.
    """

    def __init__(
        self,
        request: Request,
        world: World,
        loop: Loop,
        message: Message,
        series: list[Series],
        touch: Touched = NOTHING,
    ) -> None:
        self.request, self.world, self.loop = request, world, loop
        self.message, self.series, self.touch = message, series, touch
        self.bytes = message.count * message.itemsize
        self.canaries: list[tuple[float, float]] = []

    @property
    def canary(self) -> tuple[float, float]:
        """Return the medians of what was measured between the blocks."""
        return _median([c[0] for c in self.canaries]), _median([c[1] for c in self.canaries])

    def run(self, series: Series, count: int, touch: Touched = NOTHING, **how: Any) -> Times:
        """Make `count` calls, and let the watchdog know of what."""
        self._name(series)
        with series.candidate.context():
            return self.loop.run(series.candidate.call, count, touch, **how)

    def narrow(self, series: Series) -> bool:
        """Tell whether the median's interval is as narrow as asked."""
        width = relative_half_width(series.samples)
        return width is not None and width <= self.request.target_ci

    def warm_up(self) -> int:
        """Make the untimed calls that fit into a tenth of the budget; return their number."""
        total = sum(series.first for series in self.series)
        fitting = int(self.request.time_budget / 10 / total) if total else self.request.warmup
        count = int(self.world.agreed(min(self.request.warmup, fitting))[0])
        for series in self.series:
            self.run(series, count, self.touch)
        return count

    def sample(self) -> str:
        """Fill every series; return which rule ended that. One rank decides, or they'd disagree."""
        order = Random(f"{self.request.seed} {self.message}")
        begin, done = now(), 0
        estimate = sum(series.first for series in self.series) / len(self.series)
        estimate += self.request.arrival.seconds + self._touching()
        while True:
            stop = self._stop(done, now() - begin)
            count = max(1, min(int(TURN / max(estimate, 1e-9)), self._turn(done)))
            count, rule = map(int, self.world.agreed(count, STOPS.index(stop)))
            if rule:
                return STOPS[rule]
            self.canaries.append(self.loop.canary())
            turns = list(self.series)
            order.shuffle(turns)
            started = now()
            for series in turns:
                self._take(series, count, f"{self.request.seed} {self.bytes} {done}")
            done += count
            estimate = (now() - started) / count / len(turns)

    def _turn(self, done: int) -> int:
        most = ceil(self.request.repetitions / BLOCKS)
        return min(most, self.request.repetitions - done)

    def _stop(self, done: int, elapsed: float) -> str:
        if self.world.rank or done < min(self.request.min_repetitions, self.request.repetitions):
            return ""
        if all(self.narrow(series) for series in self.series):
            return "target"
        if done >= self.request.repetitions:
            return "repetitions"
        if elapsed > self.request.time_budget:
            return "time budget"
        return "told to end" if told_to_end() else ""

    def _name(self, series: Series) -> None:
        self.loop.watchdog.label = (
            f"{self.request.collective.name} {series.candidate.label} of {format_size(self.bytes)}"
        )

    def _take(self, series: Series, count: int, seed: str) -> None:
        """Make `count` calls and add the slowest rank's times, on rank 0."""
        if self.request.sync == "window" and count > AGREED:
            for part in range(0, count, AGREED):
                self._take(series, min(AGREED, count - part), f"{seed} {part}")
            return
        self._name(series)
        delays = self.request.arrival.delays(self.world.rank, self.world.size, count, seed)
        starts = self._agreed(series, count) if self.request.sync == "window" else None
        times = self.run(
            series,
            count,
            self.touch,
            barrier=self.request.sync == "barrier",
            starts=None if starts is None else self.loop.clock.to_local(starts),
            delays=None if delays is None else np.array(delays),
        )
        valid, own = self._durations(times, starts, delays)
        slowest = self.world.slowest(own)
        if self.world.rank == 0:
            series.late += int((~valid).sum())
            series.delayed += slowest[~valid].tolist()
            series.samples += slowest[valid].tolist()
        if self.request.per_rank:
            rows = self.world.gathered(own)
            series.ranks += [rows[i] for i in np.flatnonzero(valid)] if len(rows) else []

    def _durations(
        self, times: Times, starts: Array | None, delays: list[float] | None
    ) -> tuple[Array, Array]:
        """Return which calls count, and how long each took on this rank."""
        valid = np.ones(len(times.begins), bool)
        if starts is None and delays is None:
            return valid, times.ends - times.begins
        begins, ends = map(self.loop.clock.to_global, (times.begins, times.ends))
        if starts is not None:
            # On rank 0, whether every rank was in time, or as late as it was to be.
            lateness = self.world.slowest(begins - starts - np.array(delays or 0.0))
            valid = lateness <= LATE
        if delays is not None:  # time counts from the last rank's coming
            starts = np.array(self.world.agreed(*self.world.slowest(begins)))
        return valid, ends - starts

    def _agreed(self, series: Series, count: int) -> Array:
        """Return the moments, in rank 0's time, at which the next calls begin."""
        recent = series.samples[-50:] or [series.first]
        # Not by the longest: one interrupted call would make all later windows as long.
        width = 3 * _median(recent) + 20e-6 + self._touching() + self.request.arrival.seconds
        begin = float(self.loop.clock.to_global(np.array([now()]))[0]) + width + 1e-3
        begin, width = self.world.agreed(begin, width)
        return np.asarray(begin + width * np.arange(count))

    def _touching(self) -> float:
        """Return a generous time for what is touched between two calls, in seconds."""
        touch = self.touch
        return 1e-9 * (touch.input.nbytes + touch.output.nbytes + touch.evict.nbytes)


def _median(values: list[float]) -> float:
    return float(np.median(values)) if values else 0.0
