"""Timing all orders interleaved: samples are calls on their slowest rank, split into phases."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

import numpy as np

from hpccoll.clock import now
from hpccoll.layernorm.program import NORM, PHASES, Program
from hpccoll.layernorm.request import Request
from hpccoll.sampling import Loop
from hpccoll.stats import Summary, summarize

LEAST = 6
"""Calls of each order at least: fewer have no interval of their median."""
WARMUP = 1


@dataclass(frozen=True, slots=True)
class Timing:
    """What was measured of one order, in seconds.

    Attributes
    ----------
    samples
        The slowest rank's times, in the order of the calls.
    phases
        Medians on the rank that spends most on norms, by phase: what others wait for.
    rank
        That rank.
    """

    latency: Summary
    samples: tuple[float, ...]
    phases: dict[str, float]
    rank: int


class Timed(Protocol):
    """What can be timed: a program and its name."""

    @property
    def label(self) -> str:
        """Return the name."""

    @property
    def program(self) -> Program:
        """Return the program."""


@dataclass(slots=True)
class _Series:
    candidate: Timed
    times: list[float] = field(default_factory=list)
    phases: list[tuple[float, ...]] = field(default_factory=list)


def measure(request: Request, loop: Loop, candidates: Sequence[Timed]) -> list[Timing]:
    """Time all candidates in shuffled turns; every rank returns the same."""
    series = [_Series(candidate) for candidate in candidates]
    for one in series:
        _call(loop, one, WARMUP)
        one.times.clear()
        one.phases.clear()
    order, begin = Random(request.seed), now()
    for done in range(request.repetitions):
        late = done >= LEAST and now() - begin > request.time_budget
        if loop.world.agreed(late)[0]:
            break
        turns = list(series)
        order.shuffle(turns)
        for one in turns:
            _call(loop, one, 1)
    loop.watchdog.pause()
    return [_timing(loop, one) for one in series]


def _call(loop: Loop, series: _Series, count: int) -> None:
    loop.watchdog.label = series.candidate.label
    for _ in range(count):
        times = loop.run(series.candidate.program, 1)
        series.times.append(float(times.ends[0] - times.begins[0]))
        series.phases.append(tuple(series.candidate.program.spent[phase] for phase in PHASES))


def _timing(loop: Loop, series: _Series) -> Timing:
    everyone = loop.world.comm.allgather((series.times, np.median(series.phases, axis=0)))
    samples = np.max([times for times, _ in everyone], axis=0).tolist()
    norms = [phases[PHASES.index(NORM)] for _, phases in everyone]
    rank = int(np.argmax(norms))
    phases = dict(zip(PHASES, map(float, everyone[rank][1]), strict=True))
    return Timing(summarize(samples), tuple(samples), phases, rank)
