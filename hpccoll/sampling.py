"""The timed loop: calls made in step with the other ranks, and what the machine does meanwhile."""

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

import numpy as np

from hpccoll.clock import now
from hpccoll.clocks import Clock, Synchronizer
from hpccoll.datatypes import Array
from hpccoll.engines.call import Call
from hpccoll.errors import EngineError, UnsupportedError
from hpccoll.layout import OUTPUT

if TYPE_CHECKING:
    from hpccoll.engines.native import Native
    from hpccoll.watchdog import Watchdog
    from hpccoll.world import World

PROBES = 500
"""Calls from which skew and overhead are taken."""


@dataclass(frozen=True, slots=True)
class Times:
    """When each of some calls began and ended on this rank, in its own clock's seconds."""

    begins: Array
    ends: Array


@dataclass(frozen=True, slots=True)
class Touched:
    """What is rewritten and read between two calls: input and output, and what fills the caches."""

    input: Array
    output: Array
    evict: Array
    in_place: bool

    def addresses(self) -> tuple[int, int, int, int, int, int, bool]:
        """Return addresses and bytes for the extension."""
        places = [
            n for a in (self.input, self.output, self.evict) for n in (a.ctypes.data, a.nbytes)
        ]
        return (*places, self.in_place)  # type: ignore[return-value]

    def touch(self) -> None:
        """Do in Python what the extension does."""
        words = self.output.view(np.uint8)
        words.max(initial=0)
        if self.in_place:
            words[:] = 0
        mine = self.input.view(np.uint8)
        np.bitwise_xor(mine, 0, out=mine)
        self.evict[::64] += 1


NOTHING = Touched(*(np.empty(0, np.uint8),) * 3, in_place=False)


def touched(spaces: Sequence[Array], in_place: bool, cold: bool) -> Touched:
    """Return what is touched for a call on `spaces`; with `cold`, also more than the last cache."""
    nothing = np.empty(0, np.uint8)
    evict = np.zeros(2 * last_cache(), np.uint8) if cold else nothing
    source = nothing if in_place else spaces[0]
    return Touched(source, spaces[OUTPUT], evict, in_place)


def last_cache() -> int:
    """Return the bytes of the largest cache of the first core, 32 MiB where nothing says it."""
    sizes = [32 << 20]
    for size in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = size.read_text().strip()
        sizes.append(int(text[:-1]) << {"K": 10, "M": 20}.get(text[-1], 0))
    return max(sizes[1:] or sizes)


class Loop:
    """Makes calls and notes when they began and ended.

    Attributes
    ----------
    native
        The extension, or None where it wasn't built or wasn't asked for.
    barrier
        How ranks are brought into step, in words.
    clock
        This rank's clock against rank 0's.
    """

    def __init__(self, world: "World", native: "Native | None", watchdog: "Watchdog") -> None:
        self.world, self.native, self.watchdog = world, native, watchdog
        self._wait: Callable[[], object] = world.comm.Barrier
        self._barrier: Any = None
        self.barrier = "MPI_Barrier"
        self.clock = Clock()
        if native:
            from hpccoll.engines.native import Barrier

            self._barrier = Barrier(native, world.node)
            self._wait = self._barrier.handle.wait
            self.barrier = "hpccoll's own barrier, polled"
            self._synchronizer = Synchronizer(native, world.comm, world.node)
            self.synchronize()

    def synchronize(self) -> None:
        """Learn anew how this rank's clock stands against rank 0's, on all ranks together."""
        if self.native:
            self.clock = self._synchronizer.clock()

    def run(
        self,
        call: Call,
        count: int,
        touch: Touched = NOTHING,
        barrier: bool = True,
        starts: Array | None = None,
        delays: Array | None = None,
    ) -> Times:
        """Make `count` calls.

        Parameters
        ----------
        barrier
            Bring the ranks into step before every call.
        starts
            Own times at which the calls begin, at the earliest.
        delays
            Seconds by which this rank comes late to each call.
        """
        times = Times(np.empty(count), np.empty(count))
        self.watchdog.call, self.watchdog.since = call, now()
        collecting = gc.isenabled()
        gc.disable()
        try:
            if self.native and hasattr(call, "handle"):
                self._run_native(call, count, times, touch, barrier, starts, delays)
            else:
                self._run_python(call, count, times, touch, barrier, starts, delays)
        finally:
            if collecting:
                gc.enable()
        self.watchdog.call = None
        return times

    def _run_native(
        self, call: Any, count: int, times: Times, touch: Touched, barrier: bool, *when: Any
    ) -> None:
        assert self.native
        handle = self._barrier.handle if barrier else None
        try:
            self.native.extension.sample(
                call.handle, handle, count, times.begins, times.ends, *when, touch.addresses()
            )
        except RuntimeError as error:
            raise call.error(error) from None

    def _run_python(
        self,
        call: Call,
        count: int,
        times: Times,
        touch: Touched,
        barrier: bool,
        starts: Array | None,
        delays: Array | None,
    ) -> None:
        watchdog, wait = self.watchdog, self._wait
        # In-place results grow from call to call; what overflows is no concern of the timing.
        with np.errstate(all="ignore"):
            for i in range(count):
                touch.touch()
                watchdog.call = None
                if barrier:
                    wait()
                watchdog.call = call
                if starts is not None:
                    _until(starts[i])
                if delays is not None:
                    _until(now() + delays[i])
                watchdog.since = times.begins[i] = now()
                call()
                times.ends[i] = now()

    # What is said about the loop itself

    @property
    def one_time(self) -> bool:
        """Tell whether the ranks' clocks can be compared: they share one, or were synchronised."""
        return self.native is not None or self.world.nodes == 1

    def skew(self) -> tuple[float, float] | None:
        """Return median and 99 % point, in seconds, of how far apart ranks leave the barrier.

        It is None where the ranks' clocks can't be compared.
        """
        if not self.one_time:
            return None
        times = self.clock.to_global(self.run(_Empty(self.native), PROBES).begins)
        everyone = np.array(self.world.comm.allgather(times))
        apart = np.sort(everyone.max(0) - everyone.min(0))
        return float(np.median(apart)), float(apart[int(0.99 * PROBES)])

    def overhead(self, call: Call) -> float:
        """Return the median time of a call on this rank, in seconds."""
        times = self.run(call, PROBES)
        return float(np.median(times.ends - times.begins))

    def empty(self) -> Call:
        """Return a call that does nothing."""
        return _Empty(self.native)

    def probe(self) -> Call:
        """Return a call that calls the library once, for an MPI_Iprobe."""
        return _Empty(self.native, self.world)

    def canary(self) -> tuple[float, float]:
        """Return the seconds of a fixed spin and of one barrier: the machine's state just now.

        The barrier is 0 where ranks share cores: it depends on whose turn it is.
        """
        if not self.native:
            begin = now()
            sum(range(200))
            return now() - begin, 0.0
        spin = float(self.native.extension.spin())
        if self.world.oversubscribed:
            return spin, 0.0
        begins = self.run(_Empty(self.native), 20).begins
        return spin, float((begins[-1] - begins[0]) / 19)


class _Empty:
    """A call that does nothing: what is timed then is the loop."""

    engine = "none"
    function = "nothing"

    def __init__(self, native: "Native | None", probing: "World | None" = None) -> None:
        self._probing = probing
        if native:
            self.handle = native.nothing(probe=probing is not None)

    def __call__(self) -> None:
        """Do nothing, or only probe."""
        if self._probing:
            self._probing.comm.Iprobe(0, 0)

    def error(self, error: RuntimeError) -> EngineError:
        """Say that the barrier failed: nothing else is called here."""
        return EngineError(f"in a barrier: {error.args[-1]}")

    def position(self) -> str:
        """Say that there is nothing to wait for but the others."""
        return "in an empty call, waiting for other ranks"


def _until(moment: float) -> None:
    while now() < moment:
        sleep(0)


def choose_engine(world: "World", engine: str) -> "tuple[Native | None, str]":
    """Return the extension if all ranks have it and it is wanted, and why not otherwise.

    Parameters
    ----------
    engine
        ``auto``, ``native`` or ``python``.

    Raises
    ------
    UnsupportedError
        On every rank alike, if ``native`` was asked for and a rank lacks it.
    """
    if engine == "python":
        return None, "as asked"
    from hpccoll.engines.native import Native

    problem, native = None, None
    try:
        native = Native(world.comm, world.oversubscribed is not None)
    except (UnsupportedError, AttributeError, OSError) as error:  # not built, or not this MPI
        problem = str(error)
    missing = [text for text in world.comm.allgather(problem) if text]
    if not missing:
        return native, ""
    if engine == "native":
        raise UnsupportedError(missing[0])
    return None, missing[0]
