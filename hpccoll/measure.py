"""Measuring: all algorithms of one size interleaved, samples kept, results checked.

A sample is the time of one call on the slowest rank. The calls of one size are made in blocks; in
every block each algorithm has its turn, in an order that is shuffled anew, because a shared machine
drifts. Results are checked in untimed calls before and after.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil
from random import Random
from typing import Any

import numpy as np

from hpccoll.candidates import Candidate, Candidates, candidates, memory
from hpccoll.check import LeftEarly, Mismatch, Pattern
from hpccoll.clock import now
from hpccoll.datatypes import Array
from hpccoll.errors import EngineError
from hpccoll.layout import Message, check_message
from hpccoll.registry import LIBRARY, Value
from hpccoll.request import Request
from hpccoll.sampling import NOTHING, Loop, Times, Touched, touched
from hpccoll.selection.selections import REFUSED, Selection, Selections
from hpccoll.stats import Summary, Verdict, compare, relative_half_width, summarize
from hpccoll.straggler import Straggler, straggler
from hpccoll.units import format_size
from hpccoll.world import World

BLOCKS = 10
"""Turns that every algorithm of a size has, at least, if the time allows."""
AGREED = 10
"""Calls whose moments are agreed on at once: one that is late makes those after it late, too."""
STOPS = ("", "target", "repetitions", "time budget")
"""The rules that end the repetitions of a size, none of them first."""
TURN = 0.005
"""Seconds of an algorithm's turn: short, so that all see the same state of the machine."""
BARRIER_DELAY = 1e-3
"""Seconds by which a rank comes late to a barrier that is checked."""
LATE = 1e-6
"""A call that begins more than this after the agreed moment doesn't count."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured of one algorithm with one message; times are in seconds.

    Attributes
    ----------
    label
        The algorithm with its parameters, as it is chosen on the command line.
    parameters, chosen
        The parameters' values, and the names of those that the model chose for this message.
    samples
        The slowest rank's times, in the order of the calls.
    first
        Time of the very first call, which the samples leave out.
    stopped_by
        Which rule ended the repetitions: ``target``, ``repetitions`` or ``time budget``.
    target_met
        The median's interval is as narrow as asked.
    late
        Calls that began after the agreed moment. They are left out, unless all were `all_late`.
    operator
        Name of the operator that ran.
    baseline
        Label of what it is compared with, itself if that is what others are.
    skew
        Median of how far apart ranks leave the barrier in this run.
    canary
        Medians of a fixed spin and of one barrier, made between the blocks.
    check
        ``ok``, ``failed`` or ``skipped``.
    verdict
        The comparison with the baseline, None for a baseline itself and without it.
    selection
        How an algorithm of the library's own was selected, None for all others.
    """

    collective: str
    algorithm: str
    label: str
    parameters: dict[str, Value]
    engine: str
    function: str
    bytes: int
    message: Message
    latency: Summary
    samples: tuple[float, ...]
    first: float
    warmup: int
    stopped_by: str
    target_met: bool
    late: int
    skew: float | None
    canary: tuple[float, float]
    check: str
    mismatches: tuple[Mismatch | LeftEarly, ...]
    operator: str
    baseline: str = LIBRARY
    verdict: Verdict | None = None
    straggler: Straggler | None = None
    chosen: tuple[str, ...] = ()
    selection: Selection | None = None
    all_late: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """What was measured with one message, on rank 0, and why some of the library's weren't."""

    message: Message
    measured: list[Measurement]
    skipped: dict[str, str]


@dataclass(slots=True)
class _Series:
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


def check_request(request: Request, world: World) -> None:
    """Check before anything is measured that the request can be met by these ranks.

    Raises
    ------
    UsageError
        A root, late rank or algorithm doesn't fit the number of ranks, or the largest size doesn't
        fit into memory. Every rank raises it alike.
    """
    request.arrival.check(world.size)
    request.check_terms(world.size)
    choices, _ = request.supported(world.size)
    request.shares.check(world.size)
    for size in request.sizes:
        check_message(request.collective, world.size, request.message(size, 0, world.size))
    largest = max(request.sizes)
    messages = [request.message(largest, root, world.size) for root in request.roots(world.size)]
    memory(request, choices, world, messages)


def measure(
    request: Request, selections: Selections, world: World, loop: Loop, skew: float | None
) -> Iterator[Group]:
    """Measure every size and root, and yield each as it is done; only rank 0 has measurements."""
    choices, _ = request.supported(world.size)
    for size in request.sizes:
        for root in request.roots(world.size):
            message = request.message(size, root, world.size)
            loop.synchronize()
            ready = candidates(request, choices, selections, world, loop, message)
            yield _Cell(request, world, loop, skew, message, ready).measure()


class _Cell:
    """All algorithms with one message."""

    def __init__(
        self,
        request: Request,
        world: World,
        loop: Loop,
        skew: float | None,
        message: Message,
        ready: Candidates,
    ) -> None:
        self.request, self.world, self.loop, self.skew = request, world, loop, skew
        self.message, self.ready = message, ready
        self.bytes = message.count * message.itemsize
        self.touch = NOTHING
        if request.touch:
            self.touch = touched(ready.spaces, ready.place.in_place, request.cold)
        self.series = [_Series(candidate) for candidate in ready.calls]
        self.canaries: list[tuple[float, float]] = []

    @property
    def checked(self) -> bool:
        """Tell whether results are checked: of a barrier, only where the ranks have one time."""
        of = self.request.collective
        return self.request.check and (of.moves_data or self.loop.one_time)

    def measure(self) -> Group:
        """Try what the library may refuse, check, warm up, sample, check again."""
        skipped = self.ready.skipped | self._refused()
        self.series = [series for series in self.series if series.candidate.label not in skipped]
        return Group(self.message, self._measured() if self.series else [], skipped)

    def _refused(self) -> dict[str, str]:
        """Call the library's own algorithms once, and return the reasons of those that failed."""
        reasons = {}
        for series in self.series:
            if not series.candidate.selection:
                continue
            self._name(series)
            problem = None
            try:
                times = self._run(series, 1)
            except EngineError as error:
                problem = _last_words(error)
            self.loop.watchdog.pause()
            problems = [text for text in self.world.comm.allgather(problem) if text]
            if problems:
                reasons[series.candidate.label] = (
                    f"{REFUSED}{self.world.library} says: {problems[0]}"
                )
            else:
                series.first = float(self.world.slowest(times.ends - times.begins)[:1].sum())
        return reasons

    def _run(self, series: _Series, count: int, touch: Touched = NOTHING, **how: Any) -> Times:
        with series.candidate.context():
            return self.loop.run(series.candidate.call, count, touch, **how)

    def _measured(self) -> list[Measurement]:
        self._check_all("start", first=True)
        warmup = self._warm_up()
        stopped_by = self._sample()
        self._check_all("end")
        self.loop.watchdog.pause()
        if self.world.rank:
            return []
        for series in self.series:
            # Where no call was in time: rather late ones, and said so, than none.
            series.samples = series.samples or series.delayed
        return [self._result(series, warmup, stopped_by) for series in self.series]

    def _result(self, series: _Series, warmup: int, stopped_by: str) -> Measurement:
        verdict = "failed" if series.mismatches else "ok" if self.checked else "skipped"
        by_label = {each.candidate.label: each for each in self.series}
        baseline = by_label.get(series.candidate.baseline, series)
        return Measurement(
            collective=self.request.collective.name,
            algorithm=series.candidate.algorithm,
            label=series.candidate.label,
            parameters=series.candidate.parameters,
            chosen=series.candidate.chosen,
            engine=series.candidate.call.engine,
            function=series.candidate.call.function,
            bytes=self.bytes,
            message=self.message,
            latency=summarize(series.samples),
            samples=tuple(series.samples),
            first=series.first,
            warmup=warmup,
            stopped_by=stopped_by,
            target_met=self._narrow(series),
            late=series.late,
            all_late=series.samples is series.delayed,
            skew=self.skew if self.request.sync == "barrier" else None,
            canary=(_median([c[0] for c in self.canaries]), _median([c[1] for c in self.canaries])),
            check=verdict,
            mismatches=tuple(series.mismatches),
            operator=series.candidate.operator.name,
            baseline=series.candidate.baseline,
            verdict=None if baseline is series else compare(series.samples, baseline.samples),
            straggler=straggler(series.ranks, self.world.hosts) if self.request.per_rank else None,
            selection=series.candidate.selection,
        )

    def _narrow(self, series: _Series) -> bool:
        width = relative_half_width(series.samples)
        return width is not None and width <= self.request.target_ci

    # Checks

    def _check_all(self, when: str, first: bool = False) -> None:
        pattern, rank, watchdog = self._pattern(when), self.world.rank, self.loop.watchdog
        for series in self.series:
            watchdog.pause()  # making and comparing large inputs takes its time
            if self.request.check or first:
                pattern.fill(rank, self.ready.place, self.ready.everything)
                self._name(series)
                times = self._run(series, 1)
                elapsed = self.world.slowest(times.ends - times.begins)
                series.first = series.first or float(elapsed[0])
            if self.checked and not self.request.collective.moves_data:
                series.mismatches += self._left_early(series)
            elif self.checked:
                watchdog.pause()
                found = pattern.mismatch(rank, self.ready.place, self.ready.everything)
                everyone = self.world.comm.allgather(found)
                series.mismatches += [mismatch for mismatch in everyone if mismatch]

    def _left_early(self, series: _Series) -> list[LeftEarly]:
        """Return which ranks leave a barrier that some rank comes late to before that comes."""
        found = []
        for late in sorted({0, self.world.size // 2, self.world.size - 1}):
            delay = np.array([BARRIER_DELAY * (self.world.rank == late)])
            self._name(series)
            times = self._run(series, 1, delays=delay)
            clock = self.loop.clock
            mine = [float(clock.to_global(t)[0]) for t in (times.begins, times.ends)]
            everyone = self.world.comm.allgather((*mine, clock.error))
            came, error = everyone[late][0], 2 * max(e for _, _, e in everyone)
            found += [
                LeftEarly(rank, late, came - left)
                for rank, (_, left, _) in enumerate(everyone)
                if left + error < came
            ]
        return found

    def _pattern(self, when: str) -> Pattern:
        request, message = self.request, self.message
        seed = Random(f"{request.seed} {message} {when}").getrandbits(20)
        return Pattern(
            request.collective,
            request.dtype,
            request.operator,
            self.world.size,
            message.count,
            message.root,
            seed,
            message.counts,
        )

    # Timed calls

    def _warm_up(self) -> int:
        """Make the untimed calls that fit into a tenth of the budget; return their number."""
        total = sum(series.first for series in self.series)
        fitting = int(self.request.time_budget / 10 / total) if total else self.request.warmup
        count = int(self.world.agreed(min(self.request.warmup, fitting))[0])
        for series in self.series:
            self._name(series)
            self._run(series, count, self.touch)
        return count

    def _sample(self) -> str:
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
        if all(self._narrow(series) for series in self.series):
            return "target"
        if done >= self.request.repetitions:
            return "repetitions"
        return "time budget" if elapsed > self.request.time_budget else ""

    def _name(self, series: _Series) -> None:
        self.loop.watchdog.label = (
            f"{self.request.collective.name} {series.candidate.label} of {format_size(self.bytes)}"
        )

    def _take(self, series: _Series, count: int, seed: str) -> None:
        """Make `count` calls and add the slowest rank's times, on rank 0."""
        if self.request.sync == "window" and count > AGREED:
            for part in range(0, count, AGREED):
                self._take(series, min(AGREED, count - part), f"{seed} {part}")
            return
        self._name(series)
        delays = self.request.arrival.delays(self.world.rank, self.world.size, count, seed)
        starts = self._agreed(series, count) if self.request.sync == "window" else None
        times = self._run(
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

    def _agreed(self, series: _Series, count: int) -> Array:
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


def _last_words(error: EngineError) -> str:
    """Return an MPI error's cause, without the places in the library's code that MPICH names."""
    return re.sub(r"^\w+\(\d+\)\.*: *", "", str(error).strip().splitlines()[-1])


def _median(values: list[float]) -> float:
    return float(np.median(values)) if values else 0.0
