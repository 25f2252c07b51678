"""Run several hpccoll commands in one job: commands.py JSON, a list of [FAULT or "", *WORDS].

The last line of rank 0 is the list of exit codes; the job's exit code is the largest of them.
"""

import json
import sys
from functools import cache

import faults

from hpccoll import sampling, world
from hpccoll.cli import main


def run(fault: str, words: list[str]) -> int:
    """Run one command, with a fault if one is named, and return its exit code."""
    sys.argv = ["hpccoll", *words]
    with faults.injected(fault):
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0)
    raise AssertionError("main returns only by SystemExit")


if __name__ == "__main__":
    world.start = cache(world.start)  # MPI can be started once only
    sampling.PROBES = 50  # more ranks than cores take their time
    codes = [run(fault, words) for fault, *words in json.loads(sys.argv[1])]
    print(json.dumps(codes), flush=True)
    sys.exit(max(codes))
