"""One time for all ranks: every rank's clock as a straight line of rank 0's.

Ranks of one node share a clock. Node leaders learn the offset and the drift of their clocks by
ping-pongs along a binomial tree, log2(nodes) steps deep: a leader that knows its own line gives it
to the next, so each measures only against its parent. They go on learning as a run goes on.

References
----------
Hunold, Carpen-Amarie, Hierarchical clock synchronization in MPI, CLUSTER 2018,
doi:10.1109/CLUSTER.2018.00050.
"""

from collections.abc import Sequence
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
"""Points through which the first line is laid."""
PAUSE = 0.02
"""Seconds between two of them, so that a drift shows."""
CLEAR = 3.0
"""Standard errors that a drift must have to be told from noise."""
STEEPEST = 500e-6
"""The largest drift: the most by which NTP slews a clock, and far above that of any quartz."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Rank 0's time as ``slope * (own time - origin) + offset``.

    Attributes
    ----------
    error
        How far it may be wrong, in seconds, by the round trips; 0 where the clock is shared.
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


@dataclass(frozen=True, slots=True)
class Point:
    """An own time, the parent's time at that moment, and the round trip that told it, in seconds.

    However unequal its two ways were, the parent's time is wrong by half of a round trip at most.
    """

    own: float
    parents: float
    trip: float


class Synchronizer:
    """What this rank has found out so far about its clock.

    Parameters
    ----------
    node
        Ranks that share a clock.
    """

    def __init__(self, native: "Native", comm: "MPI.Comm", node: "MPI.Comm") -> None:
        self._native, self._node = native, node
        leaders = comm.allgather(comm.rank if node.rank == 0 else -1)
        self._leaders = [rank for rank in leaders if rank >= 0]
        self._points: list[Point] = []
        self._served: set[int] = set()

    def clock(self) -> Clock:
        """Return every rank's clock, measured by the node leaders and shared within nodes.

        The first call takes several points. Each later one adds one, and so keeps the offset right
        and learns the drift: a line through a fifth of a second soon leaves microseconds behind.
        """
        clock = Clock()
        if self._node.rank == 0:
            clock = self._along_tree(self._leaders.index(self._native.comm.rank))
        shared: Clock = self._node.bcast(clock)
        return shared

    def _along_tree(self, place: int) -> Clock:
        comm, leaders, clock = self._native.comm, self._leaders, Clock()
        distance = 1
        while distance < len(leaders):
            if distance <= place < 2 * distance:
                parent = leaders[place - distance]
                for _ in range(comm.recv(source=parent)):
                    self._points.append(_measure(self._native, parent))
                clock = fitted(self._points, comm.recv(source=parent))
            elif place < distance and place + distance < len(leaders):
                self._serve(leaders[place + distance], clock)
            distance *= 2
        return clock

    def _serve(self, child: int, clock: Clock) -> None:
        comm = self._native.comm
        number = 1 if child in self._served else POINTS
        self._served.add(child)
        comm.send(number, dest=child)
        for _ in range(number):
            _measure(self._native, child, client=False)
        comm.send(clock, dest=child)


def _measure(native: "Native", peer: int, client: bool = True) -> Point:
    """Return the quickest of some ping-pongs with a peer; it is of use to the client."""
    times = np.zeros((EXCHANGES, 3))
    native.extension.ping_pong(native.library, peer, client, times)
    if client:
        sleep(PAUSE)
    sent, theirs, came = map(float, times[np.argmin(times[:, 2] - times[:, 0])])
    return Point((sent + came) / 2, theirs, came - sent)


def fitted(points: Sequence[Point], theirs: Clock) -> Clock:
    """Return the line through points; the quicker a round trip was, the more its point counts.

    Parameters
    ----------
    theirs
        The parent's clock.
    """
    own: Any = np.array([point.own for point in points])
    # Differences, not times since boot: their squares would lose the microseconds.
    ahead: Any = theirs.to_global(np.array([point.parents for point in points])) - own
    trips: Any = np.array([point.trip for point in points])
    weights: Any = 1 / np.maximum(trips, 1e-9) ** 2
    weights /= weights.sum()
    origin, offset = float(weights @ own), float(weights @ ahead)
    drift, doubt = _drift(own - origin, ahead - offset, weights)
    error = float(weights @ trips) / 2 + doubt * float(own[-1] - origin) + theirs.error
    return Clock(1 + drift, origin, origin + offset, error)


def _drift(times: Array, offsets: Array, weights: Array) -> tuple[float, float]:
    """Return the slope of weighted points around 0, and how much it may be wrong.

    It is 0 where it can't be told from noise.
    """
    spread = float(weights @ times**2)
    if len(times) < 3 or not spread:
        return 0.0, 0.0
    drift = float(weights @ (times * offsets)) / spread
    scatter = float(weights @ (offsets - drift * times) ** 2) / (len(times) - 2)
    noise = CLEAR * float(np.sqrt(scatter / spread))
    if noise < abs(drift) <= STEEPEST:
        return drift, noise
    return 0.0, min(abs(drift) + noise, STEEPEST)
