"""The conditions of a run: engine, skew, overhead and binding, measured once and said with it."""

from dataclasses import dataclass

from hpccoll.cost import ASSUMED
from hpccoll.request import Request
from hpccoll.sampling import Loop
from hpccoll.segmentation import Pieces
from hpccoll.units import format_size
from hpccoll.world import World


@dataclass(frozen=True, slots=True)
class Conditions:
    """What is said of a run besides its numbers; times are in seconds.

    Attributes
    ----------
    without_native
        Why the native engine doesn't run, empty if it does.
    skew, skew_p99
        How far apart ranks leave the barrier; None where their clocks can't be compared.
    clock_error
        Of the ranks' clocks against rank 0's, the largest; 0 where all share one.
    empty, library
        What the loop takes for an empty plan, and for one call of the library, an MPI_Iprobe.
    unbound
        Ranks that may use more than one core.
    placement
        Of those algorithms that ask for it, in words; empty where none does.
    pieces
        In which pieces messages within a node were found fastest.
    model
        What the model that chooses parameters was told of the machine; empty where none chooses.
    """

    engine: str
    without_native: str
    sync: str
    barrier: str
    touch: bool
    cold: bool
    skew: float | None
    skew_p99: float | None
    clock_error: float
    empty: float
    library: float
    unbound: int
    ranks: int
    placement: str = ""
    pieces: Pieces | None = None
    model: str = ""

    @classmethod
    def measured(cls, request: Request, world: World, loop: Loop, without: str) -> "Conditions":
        """Measure what the loop itself costs, on all ranks together."""
        skew, skew_p99 = loop.skew() or (None, None)
        return cls(
            engine="native" if loop.native else "python",
            without_native=without,
            sync=request.sync,
            barrier=loop.barrier,
            touch=request.touch,
            cold=request.cold,
            skew=skew,
            skew_p99=skew_p99,
            clock_error=max(world.comm.allgather(loop.clock.error)),
            empty=loop.overhead(loop.empty()),
            library=loop.overhead(loop.probe()),
            unbound=sum(len(cores) > 1 for cores in world.cores),
            ranks=world.size,
            placement=_placement(request, world),
            pieces=request.segmentation.pieces,
            model="" if request.machine is ASSUMED else str(request.machine),
        )

    def notes(self) -> list[str]:
        """Return lines for the table's header."""
        lines = []
        if self.engine == "python":
            reason = "" if self.without_native == "as asked" else f": {self.without_native}"
            lines.append(
                f"engine python{reason}\n"
                "       at small sizes hpccoll's algorithms mostly wait for the interpreter"
            )
        else:
            lines.append("engine native")
        begin = {
            "barrier": f"{self.barrier}; {self._apart()}",
            "window": f"at an agreed time; clocks are right to {_us(self.clock_error)} us",
            "none": "back to back, without synchronisation",
        }[self.sync]
        lines.append(f"begin  {begin}")
        lines.append(f"       {self._buffers()}")
        lines.append(f"       {self._overhead()}")
        if self.pieces:
            lines += _pieces(self.pieces)
        if self.model:
            lines.append(f"model  {self.model}")
        if self.placement:
            lines.append(f"nodes  {self.placement}")
        if self.unbound:
            lines.append(f"note   {self.unbound} of {self.ranks} ranks aren't bound to a core")
        return lines

    def _apart(self) -> str:
        if self.skew is None or self.skew_p99 is None:
            return "how far apart ranks leave it needs the native engine on several nodes"
        return f"ranks leave it {_us(self.skew)} us apart (p99 {_us(self.skew_p99)})"

    def _buffers(self) -> str:
        if self.cold:
            return "between calls buffers are touched and leave the caches"
        return "between calls buffers are touched" if self.touch else "buffers aren't touched"

    def _overhead(self) -> str:
        return (
            f"overhead: empty plan {_us(self.empty)} us, one call of the library "
            f"(MPI_Iprobe) {_us(self.library)} us"
        )

    def record(self) -> dict[str, object]:
        """Return the fields for the run record."""
        return {
            "engine": self.engine,
            "engine_reason": self.without_native or None,
            "sync": self.sync,
            "barrier": self.barrier,
            "touch": self.touch,
            "cold": self.cold,
            "skew_us": {"p50": _scaled(self.skew), "p99": _scaled(self.skew_p99)},
            "clock_error_us": self.clock_error * 1e6,
            "overhead_us": {
                "empty_plan": self.empty * 1e6,
                "library_iprobe": self.library * 1e6,
            },
            "unbound_ranks": self.unbound,
            "model": self.model or None,
            "pieces": self.pieces.record() if self.pieces else None,
        }


def _pieces(pieces: Pieces) -> list[str]:
    """Say in which pieces messages go."""
    cuts = [
        f"{format_size(above)} to {format_size(most)} in pieces of {format_size(length)}"
        for above, most, length in pieces.ranges()
    ]
    first, *rest = cuts
    lines = [f"pieces within a node, messages go as was found fastest: {first}"]
    return lines + [f"       {line}" for line in rest]


def _placement(request: Request, world: World) -> str:
    """Say which algorithms ask for the nodes of the ranks, and what they are told."""
    choices, _ = request.supported(world.size)
    names = dict.fromkeys(choice.algorithm.name for choice in choices if choice.algorithm.placed)
    if not names or request.placement is None:
        return ""
    said = f"{', '.join(names)}: {request.placement}"
    if request.placement == world.placement:
        return said
    return f"{said}\n       as --nodes {request.nodes} says; really {world.placement}"


def _scaled(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e6


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.2f}"
