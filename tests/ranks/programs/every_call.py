"""Make every call that there is on these ranks, by every engine; report as JSON what was wrong."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, product
from random import Random

import numpy as np

from hpccoll.bind import bind
from hpccoll.buffers import allocate
from hpccoll.check import Pattern
from hpccoll.collectives import COLLECTIVES, Collective
from hpccoll.datatypes import OPERATORS
from hpccoll.engines.library import LibraryCall
from hpccoll.engines.native import Native
from hpccoll.engines.python import PythonCall
from hpccoll.launch import detect
from hpccoll.layout import Message, layout
from hpccoll.registry import LIBRARY, Choice, catalogue
from hpccoll.sampling import choose_engine
from hpccoll.verify import placements
from hpccoll.world import World, start

SMALL = 5
"""Up to this many ranks every root is tried, and parameters other than the defaults."""
OPS = ("sum", "max", "prod")
DTYPES = ("float32", "int32", "float64", "int16")


@dataclass(frozen=True)
class Case:
    """One call; `choice` is None for the library's own."""

    collective: Collective
    choice: Choice | None
    count: int
    root: int
    in_place: bool
    op: str
    dtype: str

    @property
    def label(self) -> str:
        return self.choice.label if self.choice else LIBRARY

    def __str__(self) -> str:
        place = "in place" if self.in_place else "out of place"
        nodes = f", {self.choice.nodes}" if self.choice and self.choice.nodes else ""
        return (
            f"{self.collective.name} {self.label}, {self.count} {self.dtype}, {self.op}, "
            f"root {self.root}, {place}{nodes}"
        )


def choices(collective: Collective, size: int) -> Iterator[Choice]:
    """Yield the algorithms for `size` ranks, on few ranks with two more values per parameter."""
    for entry in catalogue(collective.name):
        if not entry.supports(size):
            continue
        yield Choice(entry)
        for parameter in entry.parameters.values() if size <= SMALL else ():
            if isinstance(parameter.default, int):
                for more in (1, 2):
                    yield Choice(entry, {parameter.name: parameter.default + more})


def cases(size: int) -> Iterator[Case]:
    """Yield all calls; every algorithm meets the operators and types in an order of its own."""
    counts = sorted({0, 1, size - 1, size, 37, 5000})
    spread = range(size) if size <= SMALL else (0, 1, size // 2, size - 1)
    for collective in COLLECTIVES.values():
        roots = spread if collective.rooted else (0,)
        places = (True,) if collective.one_buffer else (False, True)
        for choice in (None, *choices(collective, size)):
            pairs = list(product(OPS, DTYPES))
            Random(f"{collective.name} {choice and choice.label} {size}").shuffle(pairs)
            messages = product(roots, places, counts)
            turns = zip(messages, cycle(pairs), cycle(placements(size)), strict=False)
            for (root, in_place, count), (op, dtype), nodes in turns:
                placed = choice and choice.on(nodes)
                yield Case(collective, placed, count, root, in_place, op, dtype)


def wrong(case: Case, seed: int, world: World, native: Native | None) -> str | None:
    """Make one call and say what was wrong about it on this rank; without `native`, in Python."""
    rank, size, dtype, operator = world.rank, world.size, np.dtype(case.dtype), OPERATORS[case.op]
    message = Message(case.count, dtype.itemsize, case.root, case.in_place)
    place = layout(case.collective, rank, size, message)
    plan = bind(case.choice, rank, size, message) if case.choice else None
    spaces = allocate(place, plan.scratch if plan else 0, dtype)
    pattern = Pattern(case.collective, dtype, operator, size, case.count, case.root, seed)
    pattern.fill(rank, place, spaces)
    if plan and native:
        call = native.plan(plan, spaces, operator)
    elif plan:
        call = PythonCall(plan, spaces, operator, world.comm)
    else:
        arguments = (case.collective, message, place, spaces, operator)
        datatype = world.datatype(dtype)
        if native:
            call = native.collective(*arguments, datatype)
        else:
            call = LibraryCall(*arguments, world.comm, datatype)
    call()
    found = pattern.mismatch(rank, place, spaces)
    return f"{call.engine} ({'native' if native else 'python'}): {case}: {found}" if found else None


def main() -> None:
    world = start(detect())
    native, without = choose_engine(world, "auto")
    engines = [None, native] if native else [None]
    calls, called, found = 0, set(), []
    for case, engine in product(cases(world.size), engines):
        if words := wrong(case, calls, world, engine):
            found.append(words)
        calls += 1
        called.add((case.collective.name, case.label))
    everyone = world.comm.gather(found)
    if everyone is not None:
        report = {
            "calls": calls,
            "called": sorted(called),
            "without native": without,
            "failures": [words for rank in everyone for words in rank],
        }
        json.dump(report, sys.stdout)


if __name__ == "__main__":
    main()
