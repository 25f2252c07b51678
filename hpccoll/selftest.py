"""The self-test: damages results of real calls on purpose, and tells whether the check finds it.

Every collective is called through the python engine with every element type and operator, by turns
with every algorithm. What it left on one rank, the victim, gets one fault after the other, and the
check must find each; undamaged it must find none.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count, islice, product
from typing import TYPE_CHECKING, Any

import numpy as np

from hpccoll.bind import bind
from hpccoll.buffers import allocate, working
from hpccoll.check import Pattern
from hpccoll.choice import Choice
from hpccoll.clock import now
from hpccoll.collectives import COLLECTIVES, ROOT, UP_TO, Collective
from hpccoll.conversions import bind_partial
from hpccoll.datatypes import DTYPES, OPERATORS, dtype
from hpccoll.engines.python import PythonCall
from hpccoll.errors import UsageError
from hpccoll.faults import ALONE, FAULTS, Victim
from hpccoll.placement import Placement
from hpccoll.registry import catalogue
from hpccoll.watchdog import Watchdog

if TYPE_CHECKING:
    from mpi4py import MPI

    from hpccoll.world import World

MOST = 64
"""Ranks that take part at most: the work grows with the square of their number."""
SHARE = 64
"""Elements of a result per rank: in a type that is too narrow for all ranks, each is the one that
the result depends on only at a part of the positions."""
TIMEOUT = 60.0
"""Seconds after which a call counts as hung."""

BATCH = 32
"""Calls that are made before their results are damaged."""
LISTED = 20
"""Missed faults that are listed at most."""

CONTROL = "nothing damaged"
FOUND, MISSED = "found", "MISSED"


@dataclass
class Report:
    """What was found: how often, by fault, collective and verdict.

    Attributes
    ----------
    counts
        The verdict is `FOUND`, `MISSED`, or why there is no such fault. Of the control, `FOUND`
        means that nothing was found, as it must be.
    missed
        In words, what was wrong.
    without
        Why a type was left out.
    """

    size: int
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)

    def add(self, fault: str, pattern: Pattern, verdict: str, words: str = "") -> None:
        """Count a verdict."""
        self.counts[fault, pattern.collective.name, verdict] += 1
        if verdict == MISSED:
            operator = f" {pattern.operator.name}" * pattern.collective.reduces
            call = f"{pattern.collective.name} of {pattern.dtype.name}{operator}"
            self.missed.append(f"{fault}, {call}: {words}")

    def merge(self, other: "Report") -> None:
        """Add what another rank counted."""
        self.counts += other.counts
        self.missed += other.missed

    def __str__(self) -> str:
        """Return the table: a row per fault, a column per collective."""
        rows = [["", *COLLECTIVES]]
        rows += [
            [name, *(self._cell(name, collective) for collective in COLLECTIVES)]
            for name in (CONTROL, *(fault.name for fault in FAULTS))
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, "", *self._notes()])

    def _cell(self, fault: str, collective: str) -> str:
        found, missed = (self.counts[fault, collective, verdict] for verdict in (FOUND, MISSED))
        if missed:
            return f"{'FAILED' if fault == CONTROL else MISSED} {missed} of {found + missed}"
        return f"{'right' if fault == CONTROL else FOUND} {found}" if found else "-"

    def _notes(self) -> Iterator[str]:
        tested = sum(
            number
            for (fault, _, verdict), number in self.counts.items()
            if fault != CONTROL and verdict in (FOUND, MISSED)
        )
        yield f"{tested} damaged results on {self.size} rank{'s' * (self.size > 1)}"
        alone: list[str] = []
        impossible: dict[tuple[str, str], list[str]] = {}
        for (fault, collective, verdict), number in self.counts.items():
            if verdict == ALONE:
                alone += [fault] * (fault not in alone)
            elif verdict not in (FOUND, MISSED):
                impossible.setdefault((fault, verdict), []).append(f"{collective} {number}")
        if impossible:
            yield "what can't be, with the number of calls:"
        for (fault, reason), calls in impossible.items():
            yield f"  {fault}: {', '.join(calls)}: {reason}"
        if alone:
            yield f"on one rank there can't be: {', '.join(alone)}"
            yield "to test these as well, start it on several: mpirun -n 4 hpccoll selftest"
        yield from self.without
        yield from self.missed[:LISTED]
        if len(self.missed) > LISTED:
            yield f"and {len(self.missed) - LISTED} more"


def run(world: "World") -> Report:
    """Test all ranks together, or the first `MOST`; the report is complete on rank 0."""
    size = min(world.size, MOST)
    report = Report(size)
    taking_part = world.rank < size
    comm = world.comm.Split(not taking_part)
    if taking_part:
        with Watchdog(TIMEOUT, world.rank) as watchdog, np.errstate(all="ignore"):
            _test(comm, report, watchdog, Placement(world.placement.nodes[:size]))
    if size < world.size:
        report.without.append(f"the first {size} of {world.size} ranks took part")
    comm.Free()
    for other in (world.comm.gather(report) or [])[1:]:
        report.merge(other)
    return report


def _test(comm: "MPI.Comm", report: Report, watchdog: Watchdog, nodes: Placement) -> None:
    cases = enumerate(_cases(comm.size, report))
    # Some calls at a time, and then all of their victims at once, each on its own rank.
    while batch := list(islice(cases, BATCH)):
        called = [
            _call(pattern, choice.on(nodes), comm, watchdog) for _, (pattern, choice) in batch
        ]
        watchdog.pause()
        for (number, (pattern, _)), buffers in zip(batch, called, strict=True):
            examine(buffers, comm.rank == _victim(pattern, number), report)


def _types(report: Report) -> Iterator[np.dtype[Any]]:
    for name in DTYPES:
        try:
            yield dtype(name)
        except UsageError as error:
            report.without.append(f"{name} isn't tested: {error}")


def _collectives(size: int) -> list[Collective]:
    """Return those in which some of `size` ranks get a result."""
    return [
        of
        for of in COLLECTIVES.values()
        if any(of.wanted(rank, size, 0, of.natural(size)) for rank in range(size))
    ]


def _cases(size: int, report: Report) -> Iterator[tuple[Pattern, Choice]]:
    """Yield every call; algorithms, and where there is one the root, take turns."""
    able = {
        name: [Choice(entry) for entry in catalogue(name) if entry.supports(size)]
        for name in COLLECTIVES
    }
    tested = _collectives(size)
    for collective in COLLECTIVES.values():
        if collective not in tested:
            report.without.append(f"{collective.name} isn't tested: it leaves no result")
    turns = {name: count() for name in COLLECTIVES}
    calls = product(tested, list(_types(report)), OPERATORS.values())
    for seed, (collective, of, operator) in enumerate(calls):
        if not operator.defined_for(of) or not (collective.reduces or operator.name == "sum"):
            continue
        if operator.average and not collective.averages:
            continue
        turn = next(turns[collective.name])
        root = turn % size if collective.rooted else 0
        natural = collective.natural(size)
        blocks = max(len(collective.wanted(rank, size, root, natural)) for rank in range(size))
        elements = SHARE * size * natural // max(blocks, 1) // collective.vectors(size)
        pattern = Pattern(collective, of, operator, size, elements, root, seed)
        ordered = pattern.message.ordered
        choices = [c for c in able[collective.name] if not (ordered and c.algorithm.commutative)]
        yield pattern, choices[turn % len(choices)]


def _victim(pattern: Pattern, number: int) -> int:
    """Return the rank whose result is damaged: one that has a result and, if possible, got it."""
    of, size, root = pattern.collective, pattern.size, pattern.root
    able = [rank for rank in range(size) if of.wanted(rank, size, root, of.natural(size))]
    if size > 1:
        alone = {ROOT: root, UP_TO: 0}.get(of.contributors)
        able = [rank for rank in able if rank != alone]
    return able[number % len(able)]


def _call(pattern: Pattern, choice: Choice, comm: "MPI.Comm", watchdog: Watchdog) -> Victim:
    """Make a call; every rank is a victim that could be."""
    partial = pattern.operator.partial(pattern.dtype)
    message = replace(pattern.message, itemsize=partial.itemsize)
    make = bind if partial == pattern.dtype else bind_partial
    plan = make(choice, comm.rank, comm.size, message)
    user = allocate(plan.layout, 0, pattern.dtype)[:2]
    spaces = working(user, plan.layout, plan.scratch, plan.landing, partial)
    pattern.fill(comm.rank, plan.layout, [*user, *spaces])
    victim = Victim(pattern, comm.rank, plan.layout, user)
    watchdog.label = f"{pattern.collective.name} {choice.label} of {pattern.dtype.name}"
    watchdog.call = call = PythonCall(plan, spaces, pattern.operator, comm)
    watchdog.since = now()
    call()
    watchdog.call = None
    return victim


def examine(called: Victim, victim: bool, report: Report) -> None:
    """Check one rank's result as it is and, if the rank is the victim, with every fault."""
    pattern, buffers = called.pattern, (called.input, called.result)
    wrong = pattern.mismatch(called.rank, called.place, called.spaces)
    if wrong:
        report.add(CONTROL, pattern, MISSED, str(wrong))
    if wrong or not victim:
        return
    report.add(CONTROL, pattern, FOUND)
    right = [buffer.copy() for buffer in buffers]
    for fault in FAULTS:
        if reason := fault.impossible(pattern):
            report.add(fault.name, pattern, reason)
            continue
        fault.put(called)
        found = pattern.mismatch(called.rank, called.place, called.spaces)
        report.add(fault.name, pattern, FOUND if found else MISSED, f"rank {called.rank}")
        for buffer, values in zip(buffers, right, strict=True):
            buffer[:] = values
