"""One time for all ranks: every rank's clock as a straight line of rank 0's.

Ranks of one node share a clock. Node leaders learn the offset and the drift of their clocks by
ping-pongs along a binomial tree, log2(nodes) steps deep: a leader that knows its own line gives it
to the next, so each measures only against its parent.

References
----------
Hunold, Carpen-Amarie, Hierarchical clock synchronization in MPI, CLUSTER 2018,
doi:10.1109/CLUSTER.2018.00050.
"""

from dataclasses import dataclass
from time import sleep
from typing import TYPE_CHECKING, Any

import numpy as np

from hpccoll.datatypes import Array

if TYPE_CHECKING:
    from mpi4py import MPI

    from hpccoll.engines.native import Native

EXCHANGES = 100
"""Ping-pongs per point; the quickest one counts."""
POINTS = 10
"""Points through which a line is laid."""
PAUSE = 0.02
"""Seconds between two points, so that a drift shows."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Rank 0's time as ``slope * (own time - origin) + offset``.

    Attributes
    ----------
    error
        How far the line was from a second measurement, in seconds; 0 where the clock is shared.
    """

    slope: float = 1.0
    origin: float = 0.0
    offset: float = 0.0
    error: float = 0.0

    def to_global(self, times: Array) -> Array:
        """Return rank 0's times for this rank's own."""
        result: Array = self.slope * (times - self.origin) + self.offset
        return result

    def to_local(self, times: Array) -> Array:
        """Return this rank's own times for rank 0's."""
        result: Array = (times - self.offset) / self.slope + self.origin
        return result


def synchronize(native: "Native", comm: "MPI.Comm", node: "MPI.Comm") -> Clock:
    """Return every rank's clock, measured by the node leaders and shared within nodes.

    Parameters
    ----------
    node
        Ranks that share a clock.
    """
    leaders = [rank for rank in comm.allgather(comm.rank if node.rank == 0 else -1) if rank >= 0]
    clock = Clock()
    if node.rank == 0:
        clock = _along_tree(native, leaders, leaders.index(comm.rank))
    shared: Clock = node.bcast(clock)
    return shared


def _along_tree(native: "Native", leaders: list[int], place: int) -> Clock:
    comm, clock = native.comm, Clock()
    distance = 1
    while distance < len(leaders):
        if distance <= place < 2 * distance:
            parent = leaders[place - distance]
            points = [_measure(native, parent, client=True) for _ in range(POINTS)]
            check = _measure(native, parent, client=True)
            theirs: Clock = comm.recv(source=parent)
            clock = _fitted(points, check, theirs)
        elif place < distance and place + distance < len(leaders):
            child = leaders[place + distance]
            for _ in range(POINTS + 1):
                _measure(native, child, client=False)
            comm.send(clock, dest=child)
        distance *= 2
    return clock


def _measure(native: "Native", peer: int, client: bool) -> tuple[float, float]:
    """Return an own time and the peer's time at that moment, from the quickest ping-pong."""
    times = np.zeros((EXCHANGES, 3))
    native.extension.ping_pong(native.library, peer, client, times)
    if client:
        sleep(PAUSE)
    quickest = times[np.argmin(times[:, 2] - times[:, 0])]
    return float(quickest[0] + quickest[2]) / 2, float(quickest[1])


def _fitted(points: list[tuple[float, float]], check: tuple[float, float], theirs: Clock) -> Clock:
    own: Any = np.array([point[0] for point in points])
    parent: Any = theirs.to_global(np.array([point[1] for point in points]))
    origin, base = own.mean(), parent.mean()
    # Differences, not times since boot: their squares would lose the microseconds.
    slope = float(((own - origin) * (parent - base)).sum() / ((own - origin) ** 2).sum())
    line = Clock(slope, float(origin), float(base))
    expected = line.to_global(np.array([check[0]]))[0]
    found = theirs.to_global(np.array([check[1]]))[0]
    return Clock(slope, float(origin), float(base), abs(float(expected - found)) + theirs.error)
