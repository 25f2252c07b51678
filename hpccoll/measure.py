"""Measuring: all algorithms of one size interleaved, samples kept, results checked.

A sample is the time of one call on the slowest rank. Results are checked in untimed calls before
and after.
"""

import re
from collections.abc import Container, Iterator
from random import Random

import numpy as np

from hpccoll.candidates import Candidates, candidates, memory
from hpccoll.check import LeftEarly, Pattern
from hpccoll.errors import EngineError
from hpccoll.layout import Message
from hpccoll.measurement import Group, Measurement
from hpccoll.request import Request
from hpccoll.sampling import NOTHING, Loop, touched
from hpccoll.selection.selections import REFUSED, Selections
from hpccoll.stats import compare, summarize
from hpccoll.straggler import straggler
from hpccoll.turns import Series, Turns
from hpccoll.world import World

BARRIER_DELAY = 1e-3
"""Seconds by which a rank comes late to a barrier that is checked."""


def check_request(request: Request, world: World) -> None:
    """Check before anything is measured that the request can be met by these ranks.

    Raises
    ------
    UsageError
        A root, late rank or algorithm doesn't fit the number of ranks, or the largest size doesn't
        fit into memory. Every rank raises it alike.
    """
    request.check_ranks(world.size)
    choices, _ = request.supported(world.size)
    largest = max(request.sizes)
    messages = [request.message(largest, root, world.size) for root in request.roots(world.size)]
    memory(request, choices, world, messages)


def measure(
    request: Request,
    selections: Selections,
    world: World,
    loop: Loop,
    skew: float | None,
    measured: Container[tuple[int, int]] = (),
) -> Iterator[Group]:
    """Measure every size and root, and yield each as it is done; only rank 0 has measurements.

    Sizes and roots that are `measured` already are left out.
    """
    choices, _ = request.supported(world.size)
    for size in request.sizes:
        for root in request.roots(world.size):
            if (size, root) in measured:
                continue
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
        touch = NOTHING
        if request.touch:
            touch = touched(ready.spaces, ready.place.in_place, request.cold)
        self.series = [Series(candidate) for candidate in ready.calls]
        self.turns = Turns(request, world, loop, message, self.series, touch)

    @property
    def checked(self) -> bool:
        """Tell whether results are checked: of a barrier, only where the ranks have one time."""
        of = self.request.collective
        return self.request.check and (of.moves_data or self.loop.one_time)

    def measure(self) -> Group:
        """Try what the library may refuse, check, warm up, sample, check again."""
        skipped = self.ready.skipped | self._refused()
        self.series[:] = [s for s in self.series if s.candidate.label not in skipped]
        return Group(self.message, self._measured() if self.series else [], skipped)

    def _refused(self) -> dict[str, str]:
        """Call the library's own algorithms once, and return the reasons of those that failed."""
        reasons = {}
        for series in self.series:
            if not series.candidate.selection:
                continue
            problem = None
            try:
                times = self.turns.run(series, 1)
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

    def _measured(self) -> list[Measurement]:
        self._check_all("start", first=True)
        warmup = self.turns.warm_up()
        stopped_by = self.turns.sample()
        self._check_all("end")
        self.loop.watchdog.pause()
        if self.world.rank:
            return []
        for series in self.series:
            # Where no call was in time: rather late ones, and said so, than none.
            series.samples = series.samples or series.delayed
        return [self._result(series, warmup, stopped_by) for series in self.series]

    def _result(self, series: Series, warmup: int, stopped_by: str) -> Measurement:
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
            bytes=self.turns.bytes,
            message=self.message,
            latency=summarize(series.samples),
            samples=tuple(series.samples),
            first=series.first,
            warmup=warmup,
            stopped_by=stopped_by,
            target_met=self.turns.narrow(series),
            late=series.late,
            all_late=series.samples is series.delayed,
            skew=self.skew if self.request.sync == "barrier" else None,
            canary=self.turns.canary,
            check=verdict,
            mismatches=tuple(series.mismatches),
            operator=series.candidate.operator.name,
            baseline=series.candidate.baseline,
            verdict=None if baseline is series else compare(series.samples, baseline.samples),
            straggler=straggler(series.ranks, self.world.hosts) if self.request.per_rank else None,
            selection=series.candidate.selection,
        )

    # Checks

    def _check_all(self, when: str, first: bool = False) -> None:
        pattern, rank, watchdog = self._pattern(when), self.world.rank, self.loop.watchdog
        for series in self.series:
            watchdog.pause()  # making and comparing large inputs takes its time
            if self.request.check or first:
                pattern.fill(rank, self.ready.place, self.ready.everything)
                times = self.turns.run(series, 1)
                elapsed = self.world.slowest(times.ends - times.begins)
                series.first = series.first or float(elapsed[0])
            if self.checked and not self.request.collective.moves_data:
                series.mismatches += self._left_early(series)
            elif self.checked:
                watchdog.pause()
                found = pattern.mismatch(rank, self.ready.place, self.ready.everything)
                everyone = self.world.comm.allgather(found)
                series.mismatches += [mismatch for mismatch in everyone if mismatch]

    def _left_early(self, series: Series) -> list[LeftEarly]:
        """Return which ranks leave a barrier that some rank comes late to before that comes."""
        found = []
        for late in sorted({0, self.world.size // 2, self.world.size - 1}):
            delay = np.array([BARRIER_DELAY * (self.world.rank == late)])
            times = self.turns.run(series, 1, delays=delay)
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


def _last_words(error: EngineError) -> str:
    """Return an MPI error's cause, without the places in the library's code that MPICH names."""
    return re.sub(r"^\w+\(\d+\)\.*: *", "", str(error).strip().splitlines()[-1])
