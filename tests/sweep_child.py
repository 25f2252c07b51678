"""A process that runs elements as rank 0 would, without MPI: what the tests of kills kill."""

import sys
from pathlib import Path
from time import sleep

from hpccoll.sweep.attempt import Attempt
from hpccoll.sweep.plan import Allocation, Element, Plan
from hpccoll.sweep.results import Results
from hpccoll.sweep.status import states

ELEMENTS, SIZES = 200, (8, 64, 512, 4096)
PLAN = Plan(
    "kills", "bench", tuple(Element(i, Allocation(1), {"seed": i}) for i in range(ELEMENTS))
)


def cells(seed, size):
    """Return what is measured of one size, long enough for a write to be cut."""
    return [
        {"type": "measurement", "algorithm": name, "bytes": size, "root": None, "check": "ok"}
        | {"samples_us": [seed * size] * 200}
        for name in ("ring", "tree", "library")
    ]


def run(results, element):
    """Run an element; a size takes a moment."""
    attempt = Attempt(results, element)
    attempt.log.begins("a run")
    attempt.write({"type": "run", "schema": 1})
    for size in SIZES:
        if (size, 0) not in attempt.measured:
            sleep(0.002)
            attempt.write(*cells(element.options["seed"], size))
    attempt.log.ends(attempt.finish())
    attempt.close()


def main(directory):
    """Run what isn't done."""
    results = Results(Path(directory), PLAN)
    for state in states(results):
        if not state.done:
            run(results, state.element)


if __name__ == "__main__":
    main(sys.argv[1])
