"""Everything that was found out in one run, on rank 0."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hpccoll.layernorm.candidates import Candidate
from hpccoll.layernorm.judge import Judgement
from hpccoll.layernorm.request import Request
from hpccoll.layernorm.resources import Resources
from hpccoll.layernorm.timing import Timing


@dataclass(slots=True)
class Comparison:
    """All orders, with what was counted, judged and measured of them.

    Attributes
    ----------
    used, timings
        In the order of the candidates `made`.
    judged
        Input by input.
    skipped
        Why orders were left out, by label.
    """

    request: Request
    made: Sequence[Candidate]
    used: Sequence[Resources]
    skipped: dict[str, str]
    judged: list[Judgement] = field(default_factory=list)
    timings: Sequence[Timing] = ()
