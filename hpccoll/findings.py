"""Findings: measurements of one run that contradict each other.

A collective should not be slower than another way to the same result: a longer message, two shorter
ones, or other collectives one after the other. Where one is, something is to be gained: a better
algorithm, a protocol limit, a better pin. Sizes are measured one after the other on a machine that
drifts, so only what the rank test finds clear *and* is at least a tenth is told, and the test's
level is divided by the number of its uses (Bonferroni): in 95 of 100 runs noise gives no finding at
all.

References
----------
Träff, Gropp, Thakur, TPDS 21(5), 2010, doi:10.1109/TPDS.2009.120.
Hunold, Carpen-Amarie, Lübbe, Träff, "PGMPI", 2016, arXiv:1606.00215.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby, pairwise
from typing import Protocol

from hpccoll.stats import LEVEL, SLOWER, Summary, compare
from hpccoll.units import format_size

MOST = 8
"""Findings that are told in full."""

FACTOR = 1.1
"""The least ratio that is told: less is within the drift of a machine from size to size."""

GUIDELINES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("allreduce", ("reduce", "bcast")),
    ("allreduce", ("reduce-scatter", "allgather")),
    ("allgather", ("allreduce",)),
    ("reduce", ("allreduce",)),
    ("reduce-scatter", ("allreduce",)),
)
"""A collective, and others that reach its result with vectors of the same size.

The others hold more than is wanted, or reach it in two steps; an allgather is the allreduce of
vectors that are zero but for each rank's own part.
"""


class _Message(Protocol):
    @property
    def root(self) -> int: ...


class _Measured(Protocol):
    """What a finding needs to know of a measurement; times are in seconds."""

    @property
    def collective(self) -> str: ...
    @property
    def algorithm(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def engine(self) -> str: ...
    @property
    def bytes(self) -> int: ...
    @property
    def message(self) -> _Message: ...
    @property
    def latency(self) -> Summary: ...
    @property
    def samples(self) -> Sequence[float]: ...
    @property
    def check(self) -> str: ...


@dataclass(frozen=True, slots=True)
class _Claim:
    """That `samples` should not be slower than `baseline`, and the words if they are.

    `ratio` is that of the medians, or near it. Claims of one `subject` and `kind` are told
    together, the worst of them in full.
    """

    subject: str
    kind: str
    what: str
    against: str
    ratio: float
    samples: Sequence[float]
    baseline: Sequence[float]


@dataclass(frozen=True, slots=True)
class _Violation:
    claim: _Claim
    factor: float
    p_value: float


def findings(measurements: Iterable[_Measured]) -> list[str]:
    """Return what the measurements contradict each other in, a sentence each, the worst first."""
    right = [entry for entry in measurements if entry.check != "failed" and entry.samples]
    claims = [*_monotony(right), *_splitting(right), *_composition(right)]
    violations = sorted(_violations(claims), key=lambda found: -found.factor)
    together: dict[tuple[str, str], list[_Violation]] = {}
    for found in violations:
        together.setdefault((found.claim.subject, found.claim.kind), []).append(found)
    sentences = [_sentence(group) for group in together.values()]
    left = len(sentences) - MOST
    return sentences[:MOST] + ([f"and {left} more"] if left > 0 else [])


def _violations(claims: Sequence[_Claim]) -> Iterator[_Violation]:
    for claim in claims:
        if claim.ratio < FACTOR:
            continue
        verdict = compare(claim.samples, claim.baseline, LEVEL / len(claims))
        if verdict.word == SLOWER and verdict.ratio is not None and verdict.ratio >= FACTOR:
            yield _Violation(claim, verdict.ratio, verdict.p_value)


def _sentence(group: Sequence[_Violation]) -> str:
    worst, others = group[0], len({found.claim.what for found in group}) - 1
    claim = worst.claim
    also = f", and so at {others} more size{'s' * (others > 1)}" if others else ""
    p_value = "p < 0.001" if worst.p_value < 0.001 else f"p = {worst.p_value:.3f}"
    times = f"takes {worst.factor:.2f} times as long as"
    return f"{claim.subject}: {claim.what} {times} {claim.against} ({p_value}){also}"


def _claim(
    kind: str,
    entry: _Measured,
    against: str,
    median: float,
    baseline: Sequence[float],
) -> _Claim:
    root = f" root {entry.message.root}" if entry.message.root else ""
    return _Claim(
        subject=f"{entry.collective} {entry.label}{root}",
        kind=kind,
        what=format_size(entry.bytes),
        against=against,
        ratio=entry.latency.p50 / median if median else 0.0,
        samples=entry.samples,
        baseline=baseline,
    )


def _key(entry: _Measured) -> tuple[str, str, int]:
    return entry.label, entry.engine, entry.message.root


def _series(measurements: Sequence[_Measured]) -> Iterator[list[_Measured]]:
    """Yield the measurements of each algorithm, by ascending size."""

    def key(entry: _Measured) -> tuple[str, tuple[str, str, int]]:
        return entry.collective, _key(entry)

    ordered = sorted(measurements, key=lambda entry: (key(entry), entry.bytes))
    for _, group in groupby(ordered, key):
        yield list(group)


def _monotony(measurements: Sequence[_Measured]) -> Iterator[_Claim]:
    """Claim that no message takes longer than a longer one."""
    for series in _series(measurements):
        for small, large in combinations(series, 2):
            if small.bytes < large.bytes:
                against = format_size(large.bytes)
                yield _claim("monotony", small, against, large.latency.p50, large.samples)


def _splitting(measurements: Sequence[_Measured]) -> Iterator[_Claim]:
    """Claim that a message takes no longer than in pieces of the next smaller size."""
    for series in _series(measurements):
        for small, large in pairwise(series):
            pieces, rest = divmod(large.bytes, small.bytes) if small.bytes else (0, 0)
            if pieces > 1 and not rest:
                against = f"{pieces} calls of {format_size(small.bytes)}"
                baseline = [pieces * sample for sample in small.samples]
                yield _claim("splitting", large, against, pieces * small.latency.p50, baseline)


def _composition(measurements: Sequence[_Measured]) -> Iterator[_Claim]:
    """Claim that a collective takes no longer than others that reach its result."""
    cells = {(entry.collective, entry.bytes, _key(entry)): entry for entry in measurements}
    for (name, size, key), entry in cells.items():
        for collective, others in GUIDELINES:
            parts = [cells[cell] for other in others if (cell := (other, size, key)) in cells]
            if name == collective and len(parts) == len(others):
                median = sum(part.latency.p50 for part in parts)
                baseline = [sum(times) for times in zip(*(p.samples for p in parts), strict=False)]
                against = " + ".join(others)
                yield _claim(against, entry, against, median, baseline)
