"""Everything that was found out in one run, on rank 0."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hpccoll.layernorm.backward_judge import BackwardJudgement
from hpccoll.layernorm.backward_session import BackwardCandidate
from hpccoll.layernorm.candidates import Candidate
from hpccoll.layernorm.judge import CONTRADICTS, Judgement
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
    backward, backward_judged, backward_timings
        The placements of the backward pass, and the same of these.
    """

    request: Request
    made: Sequence[Candidate]
    used: Sequence[Resources]
    skipped: dict[str, str]
    judged: list[Judgement] = field(default_factory=list)
    timings: Sequence[Timing] = ()
    backward: Sequence[BackwardCandidate] = ()
    backward_judged: list[BackwardJudgement] = field(default_factory=list)
    backward_timings: Sequence[Timing] = ()

    @property
    def contradictions(self) -> int:
        """Return how many results aren't what theory says of them."""
        verdicts = [one.verdict for one in self.judged]
        verdicts += [one.verdict for one in self.backward_judged]
        return verdicts.count(CONTRADICTS)
