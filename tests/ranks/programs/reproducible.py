"""Sum the same vectors reproducibly by every algorithm and engine; report every result's bits.

reproducible.py VECTORS: the first VECTORS of some; further ranks contribute zeros. Every call has
its own choice of which rank has which vector.
"""

import json
import sys
from collections.abc import Iterator
from hashlib import sha256
from itertools import product

import numpy as np

from hpccoll.bind import Segmentation
from hpccoll.buffers import allocate, working
from hpccoll.collectives import COLLECTIVES
from hpccoll.conversions import bind_partial
from hpccoll.datatypes import OPERATORS
from hpccoll.engines.native import Native
from hpccoll.engines.python import PythonCall
from hpccoll.launch import detect
from hpccoll.layout import INPUT, OUTPUT, USER, Message
from hpccoll.plan import Plan
from hpccoll.registry import Choice, catalogue
from hpccoll.sampling import choose_engine
from hpccoll.world import World, start

COUNT = 101
RSUM = OPERATORS["rsum"]


def vectors(dtype: np.dtype, number: int) -> list[np.ndarray]:
    """Return vectors of numbers of very different magnitudes, most of which cancel."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range((number + 1) // 2):
        one = np.ldexp(rng.standard_normal(COUNT), rng.integers(-40, 40, COUNT)).astype(dtype)
        found += [one, rng.standard_normal(COUNT).astype(dtype) - one]
    return found[:number]


def call(plan: Plan, mine: np.ndarray, world: World, native: Native | None) -> np.ndarray:
    """Return this rank's result of one call."""
    partial = RSUM.partial(mine.dtype)
    held, result = plan.layout.held, plan.layout.result
    user = allocate(plan.layout, 0, mine.dtype)[:2]
    user[OUTPUT].fill(np.nan)
    user[held.space][held.offset : held.offset + held.count] = mine
    spaces = working(user, plan.layout, plan.scratch, plan.landing, partial)
    for space in spaces[:USER]:
        space.fill(-1)
    if native:
        native.plan(plan, spaces, RSUM)()
    else:
        PythonCall(plan, spaces, RSUM, world.comm)()
    assert plan.layout.in_place or np.array_equal(user[INPUT], mine), "the input was changed"
    return user[OUTPUT][result.offset : result.offset + result.count]


def whole(choice: Choice, result: np.ndarray, world: World) -> np.ndarray | None:
    """Return the sum of all ranks' vectors, as rank 0 has it or the ranks' parts make it."""
    parts = world.comm.gather(result)
    if parts is None:
        return None
    of = choice.algorithm.collective.name
    return np.concatenate(parts) if of == "reduce-scatter" else parts[-1 if of == "scan" else 0]


def digest(data: np.ndarray) -> str:
    return sha256(data.tobytes()).hexdigest()


def choices(size: int) -> Iterator[Choice]:
    for name, of in COLLECTIVES.items():
        if of.averages or name == "scan":
            yield from (Choice(entry) for entry in catalogue(name) if entry.supports(size))


def main() -> None:
    world = start(detect())
    native, _ = choose_engine(world, "auto")
    rng, report = np.random.default_rng(2), {}
    for name in ("float32", "float64"):
        dtype = np.dtype(name)
        given = vectors(dtype, int(sys.argv[1]))
        given += [np.zeros(COUNT, dtype)] * (world.size - len(given))
        bits = {}
        engines = {"python": None} | ({"native": native} if native else {})
        for choice, in_place, segment in product(
            choices(world.size), (False, True), (240, 1 << 20)
        ):
            message = Message(COUNT, RSUM.partial(dtype).itemsize, in_place=in_place)
            cut = Segmentation(segment)
            plan = bind_partial(choice, world.rank, world.size, message, cut)
            for engine, made in engines.items():
                mine = given[rng.permutation(world.size)[world.rank]]
                found = whole(choice, call(plan, mine, world, made), world)
                label = f"{choice.algorithm.collective.name} {choice.label} {engine} {message}"
                bits[f"{label} {segment}"] = found is not None and digest(found)
        report[name] = bits
    if world.rank == 0:
        json.dump(report, sys.stdout)


if __name__ == "__main__":
    main()
