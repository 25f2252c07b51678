"""Measuring: all algorithms of one size interleaved, samples kept, results checked.

A sample is the time of one call on the slowest rank. The calls of one size are made in blocks; in
every block each algorithm has its turn, in an order that is shuffled anew, because a shared machine
drifts. Results are checked in untimed calls before and after.
"""

import gc
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil
from random import Random

import numpy as np

from hpccoll.bind import bind
from hpccoll.buffers import allocate, check_memory
from hpccoll.check import Mismatch, Pattern
from hpccoll.clock import now
from hpccoll.datatypes import Array
from hpccoll.engines.call import Call
from hpccoll.engines.library import LibraryCall
from hpccoll.engines.python import PythonCall
from hpccoll.layout import Layout, Message, layout
from hpccoll.plan import Plan
from hpccoll.registry import LIBRARY, Choice, Value
from hpccoll.request import Request
from hpccoll.stats import Summary, summarize
from hpccoll.units import format_size
from hpccoll.watchdog import Watchdog
from hpccoll.world import World

BLOCKS = 10
"""Turns that every algorithm of a size has, if the time allows."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured of one algorithm with one message; times are in seconds.

    Attributes
    ----------
    label
        The algorithm with its parameters, as it is chosen on the command line.
    first
        Time of the very first call, which the samples leave out.
    stopped_by
        Which rule ended the repetitions.
    check
        ``ok``, ``failed`` or ``skipped``.
    """

    algorithm: str
    label: str
    parameters: dict[str, Value]
    engine: str
    function: str
    bytes: int
    message: Message
    latency: Summary
    first: float
    warmup: int
    stopped_by: str
    check: str
    mismatches: tuple[Mismatch, ...]


@dataclass(slots=True)
class _Candidate:
    algorithm: str
    label: str
    parameters: dict[str, Value]
    call: Call
    first: float = 0.0
    samples: list[float] = field(default_factory=list)
    mismatches: list[Mismatch] = field(default_factory=list)


def check_request(request: Request, world: World) -> None:
    """Check before anything is measured that the request can be met by these ranks.

    Raises
    ------
    UsageError
        A root or algorithm doesn't fit the number of ranks, or the largest size doesn't fit into
        memory. Every rank raises it alike.
    """
    choices, _ = request.supported(world.size)
    largest = max(request.sizes)
    need = 0
    for root in request.roots(world.size):
        message = _message(request, largest, root)
        place = layout(request.collective, world.rank, world.size, message)
        plans = [bind(choice, world.rank, world.size, message) for choice in choices]
        scratch = max([0, *(plan.scratch for plan in plans)])
        need = max(need, (place.input + place.output + scratch) * message.itemsize)
    check_memory(world, need, f"{request.collective.name} of {format_size(largest)}")


def measure(request: Request, world: World) -> Iterator[list[Measurement]]:
    """Measure every size and root; on rank 0 yield the measurements of each, elsewhere nothing."""
    choices, _ = request.supported(world.size)
    with Watchdog(request.timeout, world.rank) as watchdog:
        for size in request.sizes:
            for root in request.roots(world.size):
                message = _message(request, size, root)
                yield _Cell(request, choices, world, watchdog, message).measure()


def _message(request: Request, size: int, root: int) -> Message:
    itemsize = request.dtype.itemsize
    return Message(size // itemsize, itemsize, root, request.in_place)


class _Cell:
    """All algorithms with one message."""

    def __init__(
        self,
        request: Request,
        choices: tuple[Choice, ...],
        world: World,
        watchdog: Watchdog,
        message: Message,
    ) -> None:
        self.request, self.world, self.watchdog, self.message = request, world, watchdog, message
        collective = request.collective
        self.place: Layout = layout(collective, world.rank, world.size, message)
        plans = [bind(choice, world.rank, world.size, message) for choice in choices]
        scratch = max([0, *(plan.scratch for plan in plans)])
        self.spaces = allocate(self.place, scratch, request.dtype)
        self.candidates = [
            self._own(choice, plan) for choice, plan in zip(choices, plans, strict=True)
        ]
        if request.library:
            call = LibraryCall(
                collective, message, self.place, self.spaces, request.operator, world.comm
            )
            self.candidates.append(_Candidate(LIBRARY, LIBRARY, {}, call))

    def _own(self, choice: Choice, plan: Plan) -> _Candidate:
        call = PythonCall(plan, self.spaces, self.request.operator, self.world.comm)
        return _Candidate(choice.algorithm.name, choice.label, choice.values, call)

    def measure(self) -> list[Measurement]:
        """Check, warm up, sample, check again."""
        self._check_all("start", first=True)
        warmup = self._warm_up()
        stopped_by = self._sample()
        self._check_all("end")
        self.watchdog.pause()
        if self.world.rank:
            return []
        return [self._result(candidate, warmup, stopped_by) for candidate in self.candidates]

    def _result(self, candidate: _Candidate, warmup: int, stopped_by: str) -> Measurement:
        verdict = "failed" if candidate.mismatches else "ok" if self.request.check else "skipped"
        return Measurement(
            algorithm=candidate.algorithm,
            label=candidate.label,
            parameters=candidate.parameters,
            engine=candidate.call.engine,
            function=candidate.call.function,
            bytes=self.message.count * self.message.itemsize,
            message=self.message,
            latency=summarize(candidate.samples),
            first=candidate.first,
            warmup=warmup,
            stopped_by=stopped_by,
            check=verdict,
            mismatches=tuple(candidate.mismatches),
        )

    # Checks

    def _check_all(self, when: str, first: bool = False) -> None:
        pattern = self._pattern(when)
        for candidate in self.candidates:
            self.watchdog.pause()  # making and comparing large inputs takes its time
            if self.request.check or first:
                pattern.fill(self.world.rank, self.place, self.spaces)
                elapsed = self._timed(candidate, 1)
                candidate.first = float(elapsed[0]) if first else candidate.first
            if self.request.check:
                self.watchdog.pause()
                found = pattern.mismatch(self.world.rank, self.place, self.spaces)
                everyone = self.world.comm.allgather(found)
                candidate.mismatches += [mismatch for mismatch in everyone if mismatch]

    def _pattern(self, when: str) -> Pattern:
        request = self.request
        seed = Random(f"{request.seed} {self.message} {when}").getrandbits(20)
        return Pattern(
            request.collective,
            request.dtype,
            request.operator,
            self.world.size,
            self.message.count,
            self.message.root,
            seed,
        )

    # Timed calls

    def _warm_up(self) -> int:
        """Make the untimed calls that fit into a tenth of the budget; return their number."""
        total = sum(candidate.first for candidate in self.candidates)
        fitting = int(self.request.time_budget / 10 / total) if total else self.request.warmup
        count: int = self.world.comm.bcast(min(self.request.warmup, fitting))
        for candidate in self.candidates:
            self._timed(candidate, count)
        return count

    def _sample(self) -> str:
        """Fill every candidate's samples; return which rule ended that."""
        wanted = self.request.repetitions
        order = Random(f"{self.request.seed} {self.message}")
        begin, done, estimate = now(), 0, sum(c.first for c in self.candidates)
        while True:
            left = self.request.time_budget - (now() - begin)
            share = int(left / estimate) if estimate else wanted
            count = max(1, min(ceil(wanted / BLOCKS), wanted - done, share))
            # One rank decides, or clocks and budgets would disagree.
            stop = "repetitions" if done >= wanted else "time budget" if done and left <= 0 else ""
            count, stop = self.world.comm.bcast((count, stop))
            if stop:
                return str(stop)
            turns = list(self.candidates)
            order.shuffle(turns)
            started = now()
            for candidate in turns:
                candidate.samples += self._timed(candidate, count).tolist()
            done += count
            estimate = (now() - started) / count

    def _timed(self, candidate: _Candidate, count: int) -> Array:
        """Make `count` calls and return, on rank 0, the slowest rank's times in seconds."""
        times = np.empty(count)
        call, barrier, watchdog = candidate.call, self.world.comm.Barrier, self.watchdog
        watchdog.label = (
            f"{self.request.collective.name} {candidate.label} "
            f"of {format_size(self.message.count * self.message.itemsize)}"
        )
        collecting = gc.isenabled()
        gc.disable()
        # In-place results grow from call to call; what overflows is no concern of the timing.
        with np.errstate(all="ignore"):
            for i in range(count):
                watchdog.call = None
                barrier()
                watchdog.call = call
                watchdog.since = start = now()
                call()
                times[i] = now() - start
        watchdog.call = None
        if collecting:
            gc.enable()
        return self.world.slowest(times)
