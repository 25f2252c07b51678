"""Judge every order of a norm with every input on these ranks; report as JSON what came out."""

import json
import sys
from dataclasses import asdict

from hpccoll.errors import UsageError
from hpccoll.launch import detect
from hpccoll.layernorm import request as requests
from hpccoll.layernorm.backward_session import BackwardPasses
from hpccoll.layernorm.candidates import candidates
from hpccoll.layernorm.comparison import Comparison
from hpccoll.layernorm.norms import METHODS
from hpccoll.layernorm.program import Buffers
from hpccoll.layernorm.resources import resources
from hpccoll.layernorm.session import judge_all
from hpccoll.sampling import Loop, choose_engine
from hpccoll.watchdog import Watchdog
from hpccoll.world import World, start

DEFAULTS = {
    "dtype": "float32",
    "norm": "layernorm",
    "method": "two-pass",
    "eps": 1e-5,
    "ordering": "all",
    "input_names": "all",
    "algorithm": None,
    "accumulate": "storage",
    "residual": True,
    "bias": True,
    "library": False,
    "segments": None,
    "backward": True,
    "repetitions": 6,
    "time_budget": 0.01,
    "seed": 1,
}


def settings(size: int) -> list[dict[str, object]]:
    """Return what every request differs in from the defaults; shapes that ranks divide first.

    Other methods than the default take turns on numbers of ranks.
    """
    even = {"tokens": 4 * size, "hidden": 6 * size}
    odd = {"tokens": size + 1, "hidden": 2 * size + 3}
    return [
        even | {"library": True, "segments": 4},
        odd,
        odd | {"dtype": "float64", "engine": "python", "eps": 0.0},
        odd | {"dtype": "bfloat16", "library": True},
        odd | {"dtype": "float16", "residual": False},
        even | {"dtype": "bfloat16", "accumulate": "float32", "segments": 2},
        odd | {"dtype": "float16", "accumulate": "float32"},
        odd | {"norm": "rmsnorm", "bias": False},
        odd | {"method": METHODS[1 + size % 3]},
        odd | {"algorithm": "circulant,reduce=linear,bcast=chain:segments=3"},
        {"tokens": max(1, size - 1), "hidden": 3},
        {"tokens": 1, "hidden": 1},
        {"tokens": 0, "hidden": 4},
    ]


def found(world: World, loop: Loop, given: dict[str, object]) -> dict[str, object]:
    """Judge one request's orders with all inputs."""
    request = requests.build(**DEFAULTS | given)
    inputs = []
    for name in request.inputs:
        try:
            inputs.append(request.input(name, world.size))
        except UsageError:  # integers of so many ranks in a narrow type
            continue
    buffers = Buffers.allocate(inputs[0])
    made, skipped = candidates(request, world, loop, buffers)
    passes = BackwardPasses(request, world, loop, buffers)
    compared = Comparison(request, made, resources(request, world, made), skipped)
    for one in inputs:
        judge_all(compared, world, loop, buffers, one, passes)
    return {
        "given": {name: str(value) for name, value in given.items()},
        "inputs": [one.name for one in inputs],
        "skipped": skipped,
        "orders": [asdict(one) for one in compared.judged],
        "backward": [
            asdict(one) | {"verdict": one.verdict, "over_bound": one.over_bound}
            for one in compared.backward_judged
        ],
        "backward_sent": {one.label: [t.sent for t in one.traffic] for one in passes.made},
        "used": {
            candidate.label: {
                "counted": counted(used),
                "formula": {name: as_number(getattr(used.formula, name)) for name in counted(used)},
                "exact": used.formula.exact,
                "operations": used.operations,
                "residual": used.residual,
                "sent": None if used.traffic is None else [t.sent for t in used.traffic],
                "least": used.least,
                "bytes": request.bytes,
            }
            for candidate, used in zip(made, compared.used, strict=True)
        },
    }


def counted(used) -> dict[str, int | None]:
    return {
        "rounds": used.path and used.path.rounds,
        "path": used.path and used.path.bytes,
        "sent": used.sent,
        "received": used.received,
        "total": used.total,
    }


def as_number(value):
    return None if value is None else float(value)


def main() -> None:
    world = start(detect())
    native, _ = choose_engine(world, "auto")
    report = []
    with Watchdog(60, world.rank) as watchdog:
        for given in settings(world.size):
            engine = None if given.pop("engine", "auto") == "python" else native
            report.append(found(world, Loop(world, engine, watchdog), given))
    if world.rank == 0:
        json.dump(report, sys.stdout)


if __name__ == "__main__":
    main()
