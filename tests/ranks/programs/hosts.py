"""Print what every rank sees of its host, of the barrier, of the clocks and of its network.

Hosts of bin/cluster are called node1, node2, …; the clock of nodeK is K * 1000 s ahead of the
machine's, so that what ranks find out of their clocks can be compared with the truth.
"""

import json
import os
from pathlib import Path
from time import sleep

import numpy as np

from hpccoll import world
from hpccoll.clock import now
from hpccoll.clocks import Synchronizer
from hpccoll.engines.native import Barrier, Native
from hpccoll.launch import detect

AHEAD = 1000.0
PASSES = 100
BYTES = 1 << 20


def number(ranks):
    """Return the number of this rank's host."""
    return int(ranks.hosts[ranks.rank].removeprefix("node"))


def passes(ranks, native):
    """Return, in the machine's time, when this rank came to every barrier and when it left."""
    barrier = Barrier(native, ranks.node)
    rng = np.random.default_rng(ranks.rank)
    times = []
    for _ in range(PASSES):
        sleep(float(rng.choice([0.0, 0.0, 1e-3])))
        came = now()
        barrier.handle.wait()
        times.append([came - AHEAD * number(ranks), now() - AHEAD * number(ranks)])
    return times


def clock_errors(ranks, native):
    """Return by how much this rank's idea of rank 0's clock is wrong, and may be at most."""
    synchronizer = Synchronizer(native, ranks.comm, ranks.node)
    first = int(ranks.hosts[0].removeprefix("node"))
    errors = []
    for _ in range(3):
        clock, time = synchronizer.clock(), now()
        true = time - AHEAD * (number(ranks) - first)
        errors.append([float(clock.to_global(np.array([time]))[0]) - true, clock.error])
    return errors


def sent_to_network(ranks, peer):
    """Return the bytes that leave this host while rank 0 sends `BYTES` to `peer`."""
    message = np.zeros(BYTES, np.uint8)
    ranks.comm.Barrier()
    before = _sent()
    if ranks.rank == 0:
        ranks.comm.Send(message, peer)
    elif ranks.rank == peer:
        ranks.comm.Recv(message, 0)
    # What is sent may still lie in the socket until all of it has been received.
    ranks.comm.Barrier()
    return _sent() - before


def _sent():
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, columns = line.partition(":")
        if name.strip() == "eth0":
            return int(columns.split()[8])
    raise AssertionError("there is no eth0")


def main():
    """Let all ranks find out what they see; rank 0 prints it."""
    ranks = world.start(detect())
    native = Native(ranks.comm, ranks.oversubscribed is not None)
    mark = Path("/dev/shm", f"rank{ranks.rank}")
    mark.touch()
    ranks.comm.Barrier()
    seen = {
        "host": os.uname().nodename,
        "node": ranks.node.size,
        "files": sorted(path.name for path in Path("/dev/shm").glob("rank*")),
        "passes": passes(ranks, native),
        "clock_errors": clock_errors(ranks, native),
        "sent": [sent_to_network(ranks, peer) for peer in range(1, ranks.size)],
    }
    everyone = ranks.comm.gather(seen)
    if ranks.rank == 0:
        facts = {"nodes": ranks.nodes, "level": ranks.thread_level, "ranks": everyone}
        print(json.dumps(facts | {"oversubscribed": ranks.oversubscribed}))


if __name__ == "__main__":
    main()
