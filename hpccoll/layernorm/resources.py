"""What every order used, counted on all ranks."""

from collections.abc import Sequence
from dataclasses import dataclass

from hpccoll.layernorm import costs
from hpccoll.layernorm.candidates import Candidate
from hpccoll.layernorm.costs import Formula, Path
from hpccoll.layernorm.rank import OPERATIONS
from hpccoll.layernorm.request import Request
from hpccoll.layernorm.traffic import Traffic
from hpccoll.world import World


@dataclass(frozen=True, slots=True)
class Resources:
    """What an order used.

    Attributes
    ----------
    traffic
        By rank; None of the library's, which nobody sees.
    path
        The critical path, None likewise.
    operations, extra, residual
        By rank: operations of norms; bytes besides input, output and residual; bytes of residual.
    whole
        Bytes of one rank's rows, as those of the whole residual.
    least
        Operations that all ranks together need at least: one norm of every row.
    """

    traffic: tuple[Traffic, ...] | None
    path: Path | None
    formula: Formula
    operations: tuple[int, ...]
    extra: tuple[int, ...]
    residual: tuple[int, ...]
    whole: int
    least: int

    @property
    def sent(self) -> int | None:
        """Return the bytes that the busiest rank sends."""
        return None if self.traffic is None else max(one.sent for one in self.traffic)

    @property
    def received(self) -> int | None:
        """Return the most bytes that a rank receives."""
        return None if self.traffic is None else max(one.received for one in self.traffic)

    @property
    def total(self) -> int | None:
        """Return the bytes that all ranks send."""
        return None if self.traffic is None else sum(one.sent for one in self.traffic)

    @property
    def redundant(self) -> int:
        """Return the operations that are done more often than once."""
        return sum(self.operations) - self.least


def resources(request: Request, world: World, candidates: Sequence[Candidate]) -> list[Resources]:
    """Count what the candidates use, on all ranks together; rank 0 knows paths and formulas."""
    found = []
    for candidate in candidates:
        program = candidate.program
        mine = (program.traffic, program.operations, program.extra, program.residual)
        traffic, operations, extra, residual = zip(*world.comm.allgather(mine), strict=True)
        bound = program.bound if world.rank == 0 else ()
        found.append(
            Resources(
                None if None in traffic else traffic,
                costs.counted(bound, world.size),
                costs.formula(candidate.order.name, bound, world.size),
                operations,
                extra,
                residual,
                request.bytes,
                OPERATIONS[request.norm.kind] * request.tokens * request.hidden,
            )
        )
    return found
