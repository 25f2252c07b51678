"""In which pieces messages between ranks of a node are fastest: measured when a run starts.

A library sends a short message eagerly: it leaves at once. A longer one waits for the receiver's
consent, and on a node its bytes are then read out of the other process, which takes a call of the
kernel. Up to some size it is faster to send pieces just below that limit, each reduced while the
next is coming. The limit and that size depend on library, transport and machine, and no function
tells them, so pairs of neighbours find them out by trying.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from hpccoll.engines.call import Call
from hpccoll.placement import Placement
from hpccoll.sampling import NOTHING, Loop, Touched, touched
from hpccoll.segmentation import Pieces, Segmentation
from hpccoll.trial import CALLS, trial

if TYPE_CHECKING:
    from mpi4py import MPI

    from hpccoll.request import Request
    from hpccoll.world import World

HEADER = 128
"""Bytes that longer pieces are shorter than a power of two, where limits usually are: libraries
count their headers in."""
LENGTHS = (256, 512, *((1 << power) - HEADER for power in range(10, 17)))
"""Bytes of the pieces that are tried."""
SIZES = tuple(1 << power for power in range(9, 22))
"""Bytes of the messages that they are tried with. Longer ones are sent whole: they leave the
caches."""
MOST_PIECES = 256
"""A message isn't cut into more of them: each costs a few instructions and a slot."""
GAIN = 0.95
"""Pieces must take at most this share of the whole message's time."""


def with_pieces(request: "Request", world: "World", loop: Loop) -> "Request":
    """Return the request with the pieces that are fastest here, on all ranks together.

    Nothing is measured, and nothing cut, where ranks share cores (what is measured there is whose
    turn it is), where the python engine runs, where no node has two ranks, or where all messages
    are too short to be cut.
    """
    sizes = _sizes(request)
    pairs = max(world.comm.allgather(world.node.size)) > 1
    able = request.measured_pieces and loop.native is not None and not world.oversubscribed
    if not (able and pairs and sizes):
        return request
    found = _Trial(world, loop, request.segmentation).best(sizes)
    return replace(request, segmentation=replace(request.segmentation, pieces=found))


def _sizes(request: "Request") -> list[int]:
    """Return those of `SIZES` up to the first that the longest message of the request fits."""
    widest = max(request.partial(operator).itemsize for operator in request.operators)
    longest = max(request.sizes) // request.dtype.itemsize * widest
    return [size for size in SIZES if size < 2 * longest]


class _Trial:
    """Pairs of neighbours on a node that exchange and add up vectors.

    A rank without a neighbour calls an empty plan instead, because the times are all ranks'.
    """

    def __init__(self, world: "World", loop: Loop, plain: Segmentation) -> None:
        self.world, self.loop, self.plain = world, loop, plain
        split = world.node.Split(world.node.rank // 2, world.node.rank)
        self.pair = cast("MPI.Intracomm", split)
        assert loop.native
        self.native = loop.native.on(self.pair) if self.pair.size > 1 else None

    def best(self, sizes: Sequence[int]) -> Pieces | None:
        """Return the pieces that are faster than whole messages, None if none are."""
        lengths = [self._fastest(size) for size in sizes]
        self.pair.Free()
        found = tuple(zip(sizes, lengths, strict=True))
        return Pieces(found, self.world.placement) if any(lengths) else None

    def _fastest(self, size: int) -> int | None:
        """Return the length of the fastest pieces of such a message, None if they gain nothing."""
        lengths = [n for n in LENGTHS if n < size <= n * MOST_PIECES]
        whole, *times = self._times(size, [None, *lengths])
        best, length = min(zip(times, lengths, strict=True))
        return length if best <= GAIN * whole else None

    def _times(self, size: int, lengths: "Sequence[int | None]") -> list[float]:
        """Return median times on the slowest rank of a message of `size` bytes in such pieces."""
        calls = [self._exchange(size, length) for length in lengths]
        samples: list[list[float]] = [[] for _ in calls]
        for _ in range(CALLS):
            for (call, touch), taken in zip(calls, samples, strict=True):
                times = self.loop.run(call, 1, touch)
                taken.append(float(times.ends[0] - times.begins[0]))
        slowest = [self.world.slowest(np.array(taken)) for taken in samples]
        return self.world.agreed(*(float(np.median(times)) for times in slowest))

    def _exchange(self, size: int, length: int | None) -> tuple[Call, Touched]:
        """Return the sum of two ranks' vectors, each sent whole or in pieces to the other."""
        if self.native is None:
            return self.loop.empty(), NOTHING
        pieces = Pieces(((size, length),), Placement([0, 0])) if length else None
        cut = replace(self.plain, pieces=pieces)
        call, spaces = trial(
            "allreduce", "recursive-doubling", size, cut, self.native, self.native.comm
        )
        return call, touched(spaces, in_place=False, cold=False)
