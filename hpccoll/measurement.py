"""What is known of one algorithm, or of all, after measuring one message."""

from dataclasses import dataclass

from hpccoll.check import LeftEarly, Mismatch
from hpccoll.layout import Message
from hpccoll.parameter import Value
from hpccoll.registry import LIBRARY
from hpccoll.selection.selections import Selection
from hpccoll.stats import Summary, Verdict
from hpccoll.straggler import Straggler


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured of one algorithm with one message; times are in seconds.

    Attributes
    ----------
    label
        The algorithm with its parameters, as it is chosen on the command line.
    parameters, chosen
        The parameters' values, and the names of those that the model chose for this message.
    samples
        The slowest rank's times, in the order of the calls.
    first
        Time of the very first call, which the samples leave out.
    stopped_by
        Which rule ended the repetitions: ``target``, ``repetitions``,
        ``time budget`` or ``told to end``.
    target_met
        The median's interval is as narrow as asked.
    late
        Calls that began after the agreed moment. They are left out, unless all were `all_late`.
    operator
        Name of the operator that ran.
    baseline
        Label of what it is compared with, itself if that is what others are.
    skew
        Median of how far apart ranks leave the barrier in this run.
    canary
        Medians of a fixed spin and of one barrier, made between the blocks.
    check
        ``ok``, ``failed`` or ``skipped``.
    verdict
        The comparison with the baseline, None for a baseline itself and without it.
    selection
        How an algorithm of the library's own was selected, None for all others.
    """

    collective: str
    algorithm: str
    label: str
    parameters: dict[str, Value]
    engine: str
    function: str
    bytes: int
    message: Message
    latency: Summary
    samples: tuple[float, ...]
    first: float
    warmup: int
    stopped_by: str
    target_met: bool
    late: int
    skew: float | None
    canary: tuple[float, float]
    check: str
    mismatches: tuple[Mismatch | LeftEarly, ...]
    operator: str
    baseline: str = LIBRARY
    verdict: Verdict | None = None
    straggler: Straggler | None = None
    chosen: tuple[str, ...] = ()
    selection: Selection | None = None
    all_late: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """What was measured with one message, on rank 0, and why some of the library's weren't."""

    message: Message
    measured: list[Measurement]
    skipped: dict[str, str]
