"""Compare every reduction on these ranks, by every engine, with its predicted bits; report as JSON.

Inputs nearly cancel, so that the order shows in every type, with zeros of both signs, infinities
and NaNs among them.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from hpccoll.bind import bind
from hpccoll.buffers import allocate, working
from hpccoll.choice import Choice
from hpccoll.collectives import ALL
from hpccoll.conversions import bind_partial
from hpccoll.datatypes import OPERATORS, Array, dtype
from hpccoll.engines.native import Native
from hpccoll.engines.python import PythonCall
from hpccoll.errors import UsageError
from hpccoll.launch import detect
from hpccoll.layout import Message, layout
from hpccoll.numerics import vectors
from hpccoll.numerics.bits import Arithmetic, Sums, comparable, evaluate, in_rank_order
from hpccoll.registry import catalogue
from hpccoll.sampling import choose_engine
from hpccoll.summation import trees
from hpccoll.world import World, start

ARITHMETICS = [
    *((name, name) for name in ("float16", "bfloat16", "float32", "float64")),
    *((name, "float32") for name in ("float16", "bfloat16")),
]
SUM = OPERATORS["sum"]
COUNT = 211
"""Elements: enough for the order to show, and no number of ranks divides them."""


@dataclass(frozen=True)
class Case:
    """A reduction in two types: the caller's and that of the partial results."""

    choice: Choice
    root: int
    storage: str
    wide: str

    def __str__(self) -> str:
        entry = self.choice.algorithm
        return f"{entry.collective.name} {entry.name} {self.storage} {self.wide} root {self.root}"


def cases(size: int) -> Iterator[Case]:
    """Yield every reduction of the catalogue in every arithmetic that is installed here."""
    able = [entry for entry in catalogue() if entry.supports(size)]
    for entry in (entry for entry in able if entry.collective.contributors == ALL):
        for root in {0, size - 1} if entry.collective.rooted else {0}:
            for storage, wide in ARITHMETICS:
                yield Case(Choice(entry), root, storage, wide)


def installed(case: Case) -> bool:
    """Tell whether the type of a case is there: bfloat16 comes with a package of its own."""
    try:
        dtype(case.storage)
    except UsageError:
        return False
    return True


def inputs(size: int, case: Case) -> Array:
    """Return the inputs of all ranks."""
    values = vectors.make("cancelling", size, COUNT, size, dtype(case.storage))
    rng = np.random.default_rng(size)
    for value in (0.0, -0.0, np.inf, -np.inf, np.nan):
        values[rng.random(values.shape) < 0.02] = value
    values[:, 0] = -0.0
    return values


def reduced(case: Case, data: Array, world: World, native: Native | None) -> Array:
    """Make the call and return this rank's result; without `native`, in Python."""
    rank, size, (_, count) = world.rank, world.size, data.shape
    wide, converts = dtype(case.wide), case.wide != case.storage
    message = Message(count, wide.itemsize, case.root)
    place = layout(case.choice.algorithm.collective, rank, size, message)
    plan = (bind_partial if converts else bind)(case.choice, rank, size, message)
    user = allocate(place, 0, data.dtype)[:2]
    spaces = working(user, place, plan.scratch, plan.landing, wide)
    user[place.held.space][:] = data[rank]
    if native:
        native.plan(plan, spaces, SUM)()
    else:
        PythonCall(plan, spaces, SUM, world.comm)()
    region = place.result
    return user[region.space][region.offset : region.offset + region.count]


def wrong(
    case: Case, data: Array, predicted: Sums, world: World, native: Native | None
) -> str | None:
    """Say how many elements of this rank's result haven't the predicted bits, if any."""
    found, expected = reduced(case, data, world, native), predicted.on(world.rank)
    engine = "native" if native else "python"
    if found.shape != expected.shape:
        return f"{engine} {case}: {found.size} elements, predicted {expected.size}"
    differ = int((comparable(found) != comparable(expected)).sum())
    return f"{engine} {case}: {differ} of {found.size} differ" if differ else None


def main() -> None:
    world = start(detect())
    native, without = choose_engine(world, "auto")
    engines = [native, None] if native else [None]
    able = [case for case in cases(world.size) if installed(case)]
    found, another_order = [], set()
    for case in able:
        data = inputs(world.size, case)
        of = trees(case.choice, world.size, case.root)
        predicted = evaluate(of, data, SUM, dtype(case.wide))
        types = Arithmetic(dtype(case.storage), dtype(case.wide))
        serial = comparable(in_rank_order(data, SUM, types))
        if (comparable(predicted.values) != serial).any():
            another_order.add((case.storage, case.wide))
        with np.errstate(invalid="ignore", over="ignore"):
            found += [wrong(case, data, predicted, world, engine) for engine in engines]
    everyone = world.comm.gather([words for words in found if words])
    if everyone is not None:
        report = {
            "called": [str(case) for case, _ in product(able, engines)],
            "another order has other bits": sorted(another_order),
            "without native": without,
            "failures": [words for rank in everyone for words in rank],
        }
        json.dump(report, sys.stdout)


if __name__ == "__main__":
    main()
