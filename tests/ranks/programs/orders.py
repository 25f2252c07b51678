"""Run a benchmark once per seed: orders.py SEED...; print the order of the turns per seed."""

import json
import sys
from functools import cache
from unittest import mock

import pytest

from hpccoll import cli, sampling, world
from hpccoll.launch import detect

WORDS = ["bench", "allgather", "--sizes", "1000", "--repetitions", "10", "--warmup", "1"]


def order(seed: str) -> list[str]:
    """Return what was called in every turn."""
    labels: list[str] = []
    run = sampling.Loop.run

    def observed(self, call, *arguments, **options):
        if call.engine != "none":
            labels.append(self.watchdog.label)
        return run(self, call, *arguments, **options)

    sys.argv = ["hpccoll", *WORDS, "--seed", seed]
    with mock.patch.object(sampling.Loop, "run", observed), pytest.raises(SystemExit):
        cli.main()
    return labels


if __name__ == "__main__":
    world.start = cache(world.start)  # MPI can be started once only
    orders = [order(seed) for seed in sys.argv[1:]]
    everyone = world.start(detect(), None).comm.allgather(orders)
    assert all(orders == everyone[0] for orders in everyone), "ranks disagree"
    print(json.dumps(orders))
