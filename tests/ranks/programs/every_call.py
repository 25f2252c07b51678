"""Make every call that there is on these ranks, by every engine; report as JSON what was wrong."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, product
from random import Random

from hpccoll.bind import bind
from hpccoll.buffers import allocate
from hpccoll.check import Pattern
from hpccoll.choice import Choice
from hpccoll.collectives import COLLECTIVES, Collective
from hpccoll.datatypes import OPERATORS, dtype
from hpccoll.engines.library import LibraryCall
from hpccoll.engines.native import Native
from hpccoll.engines.python import PythonCall
from hpccoll.errors import UsageError
from hpccoll.irregular import Shares
from hpccoll.launch import detect
from hpccoll.layout import Message, check_message, layout
from hpccoll.obligations import placements
from hpccoll.registry import LIBRARY, catalogue
from hpccoll.sampling import choose_engine
from hpccoll.world import World, start

SMALL = 5
"""Up to this many ranks every root is tried, and parameters other than the defaults."""
OPS = ("sum", "max", "prod")
DTYPES = (
    *("int8", "uint16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex64"),
)
"""Some of every kind and width."""
EQUAL = Shares()
IRREGULAR = ("linear", "random:1", "one-empty", "one-huge")


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
    shares: Shares = EQUAL

    @property
    def label(self) -> str:
        return self.choice.label if self.choice else LIBRARY

    def __str__(self) -> str:
        place = "in place" if self.in_place else "out of place"
        nodes = f", {self.choice.nodes}" if self.choice and self.choice.nodes else ""
        return (
            f"{self.collective.name} {self.label}, {self.count} {self.dtype}, {self.op}, "
            f"root {self.root}, {place}, counts {self.shares.pattern}{nodes}"
        )

    def message(self, size: int) -> Message:
        """Return what the call is made with."""
        return Message(
            self.count,
            dtype(self.dtype).itemsize,
            self.root,
            self.in_place,
            ordered=self.collective.reduces and not OPERATORS[self.op].commutative,
            counts=self.shares.counts(self.collective, self.count, size),
        )


def variants(collective: Collective, size: int) -> Iterator[Choice]:
    """Yield the algorithms with two more values per parameter."""
    for entry in catalogue(collective.name):
        for parameter in entry.parameters.values():
            if isinstance(parameter.default, int):
                for more in (1, 2):
                    choice = Choice(entry, {parameter.name: parameter.default + more})
                    if choice.supports(size):
                        yield choice


def operands(collective: Collective, size: int) -> Iterator[tuple[str, str]]:
    """Yield operators with the types that have them, again and again in an order of chance."""
    found = [
        (op, name)
        for op, name in product(OPS if collective.reduces else OPS[:1], DTYPES)
        if OPERATORS[op].defined_for(dtype(name))
    ]
    Random(f"{collective.name} {size}").shuffle(found)
    return cycle(found)


def cases(size: int) -> Iterator[Case]:
    """Yield all calls; the operators and types take turns with the algorithms and messages.

    Other parameters, irregular blocks and an operator that isn't commutative take part in fewer.
    """
    counts = sorted({0, 1, size - 1, 37, 120 * size})
    spread = range(size) if size <= SMALL else (0, size - 1)
    for collective in COLLECTIVES.values():
        roots = spread if collective.rooted else (0,)
        places = (True,) if collective.one_buffer else (False, True)
        if not collective.moves_data:
            counts, places = [0], (False,)
        able = [Choice(entry) for entry in catalogue(collective.name) if entry.supports(size)]
        pairs = operands(collective, size)
        for choice in (None, *able):
            messages = product(roots, places, counts)
            turns = zip(messages, pairs, cycle(placements(size)), strict=False)
            for (root, in_place, count), (op, name), nodes in turns:
                placed = choice and choice.on(nodes)
                yield Case(collective, placed, count, root, in_place, op, name)
            for pattern, root in product(IRREGULAR if collective.irregular else (), {0, roots[-1]}):
                yield Case(collective, choice, 37, root, False, "sum", "int32", Shares(pattern))
            if collective.reduces and not (choice and choice.algorithm.commutative):
                for root in roots:
                    yield Case(collective, choice, 37, root, False, "matmul2x2", "uint64")
        for choice in variants(collective, size) if size <= SMALL else ():
            for count in (1, 37):
                yield Case(collective, choice, count, roots[-1], False, "sum", "int32")


def possible(case: Case, world: World) -> bool:
    """Tell whether a message can be exchanged in place, and the library has a type for it."""
    try:
        check_message(case.collective, world.size, case.message(world.size))
    except UsageError:
        return False
    return bool(case.choice) or world.datatype(dtype(case.dtype)) is not None


def wrong(case: Case, seed: int, world: World, native: Native | None) -> str | None:
    """Make one call and say what was wrong about it on this rank; without `native`, in Python."""
    rank, size, operator = world.rank, world.size, OPERATORS[case.op]
    element = dtype(case.dtype)
    message = case.message(size)
    place = layout(case.collective, rank, size, message)
    plan = bind(case.choice, rank, size, message) if case.choice else None
    spaces = allocate(place, plan.scratch if plan else 0, element)
    pattern = Pattern(
        case.collective, element, operator, size, case.count, case.root, seed, message.counts
    )
    pattern.fill(rank, place, spaces)
    if plan and native:
        call = native.plan(plan, spaces, operator)
    elif plan:
        call = PythonCall(plan, spaces, operator, world.comm)
    else:
        arguments = (case.collective, message, place, spaces, operator)
        datatype = world.datatype(element)
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
    calls, called, dtypes, found = 0, set(), set(), []
    able = [case for case in cases(world.size) if possible(case, world)]
    for case, engine in product(able, engines):
        if words := wrong(case, calls, world, engine):
            found.append(words)
        calls += 1
        called.add((case.collective.name, case.label, case.shares.pattern, case.op))
        if case.choice and case.count > 1:
            dtypes.add((case.collective.reduces, case.dtype))
    everyone = world.comm.gather(found)
    if everyone is not None:
        report = {
            "calls": calls,
            "engines": len(engines),
            "called": sorted(called),
            "dtypes": sorted(dtypes),
            "without native": without,
            "failures": [words for rank in everyone for words in rank],
        }
        json.dump(report, sys.stdout)


if __name__ == "__main__":
    main()
