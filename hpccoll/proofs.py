"""The proofs of many algorithms on many numbers of ranks, and their sum in words."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hpccoll.choice import Algorithm
from hpccoll.errors import VerificationError
from hpccoll.obligations import (
    BUDGET,
    DRAWN_UP_TO,
    EVERY_ROOT_UP_TO,
    VARIED_UP_TO,
    Drawn,
    draw,
    obligations,
)
from hpccoll.processes import each
from hpccoll.verify import prove

PLACED = (
    " Two levels: on one node, on equal and uneven ones, one rank on each, ranks in turn and by "
    "chance; their costs with the default parts on equal nodes."
)


@dataclass(frozen=True, slots=True)
class Findings:
    """What proving an algorithm found: how much is proven, and the counterexamples."""

    proofs: int
    messages: int
    excluded: int
    drawn: Drawn
    failures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """What was found of one algorithm over all its obligations."""

    algorithm: Algorithm
    findings: Findings

    def line(self) -> str:
        """Return what was proven, or the first counterexample, in words."""
        entry, found = self.algorithm, self.findings
        name = f"{entry.collective.name:<15} {entry.name:<28}"
        if found.failures:
            more = f" ({len(found.failures) - 1} more)" if len(found.failures) > 1 else ""
            return f"{name} WRONG  {found.failures[0]}{more}"
        claims = ["data", "no deadlock", "costs"]
        if entry.collective.reduces and not entry.commutative:
            claims.append("operand order")
        if entry.collective.name == "allreduce" and entry.same_bits:
            claims.append("same bits")
        also = f"; also on {', '.join(map(str, found.drawn.sizes))}" if found.drawn.sizes else ""
        without = f"; {found.excluded} numbers of ranks excluded" if found.excluded else ""
        return (
            f"{name} proven {found.proofs:>4} cases, {found.messages:>7} messages: "
            f"{', '.join(claims)}{also}{without}"
        )


def find(entry: Algorithm, sizes: Sequence[int], drawn: Drawn) -> Findings:
    """Prove every obligation of an algorithm; failures are kept, not raised."""
    proofs = messages = 0
    failures = []
    for choice, size, root in obligations(entry, sizes, drawn.sizes):
        try:
            proof = prove(choice, size, root)
        except VerificationError as error:
            failures.append(str(error))
        else:
            proofs += 1
            messages += proof.counts.total
    excluded = sum(not entry.supports(size) for size in sizes)
    return Findings(proofs, messages, excluded, drawn, tuple(failures))


def prove_all(
    entries: Iterable[Algorithm],
    sizes: Iterable[int],
    draws: int = 0,
    seed: int = 0,
    jobs: int = 1,
) -> Iterator[Report]:
    """Prove every algorithm, and yield the reports in their order.

    Parameters
    ----------
    draws
        So many numbers of ranks beyond `sizes` are drawn, with `seed`, for each algorithm.
    jobs
        Processes that share the work.
    """
    entries, sizes = tuple(entries), tuple(sizes)

    def work(number: int) -> Findings:
        entry = entries[number]
        return find(entry, sizes, draw(entry, draws, max(sizes), seed))

    # Only findings come from another process: an algorithm is a function, which can't be sent.
    findings = each(work, len(entries), jobs)
    yield from map(Report, entries, findings)


def conclusion(
    reports: Iterable[Report], sizes: Sequence[int], draws: int = 0, seed: int = 0
) -> str:
    """Return a sentence on everything that was proven, and how far each part reaches."""
    reports = tuple(reports)
    wrong = sum(bool(report.findings.failures) for report in reports)
    cases = sum(report.findings.proofs for report in reports)
    if wrong:
        return f"\n{wrong} of {len(reports)} algorithms are wrong; {cases} cases were proven."
    return (
        f"\nAll {len(reports)} algorithms are right on {sizes[0]} to {sizes[-1]} ranks ({cases} "
        "cases). "
        f"Other parameters than the defaults: up to {VARIED_UP_TO} ranks. Every root: up to "
        f"{EVERY_ROOT_UP_TO} ranks; beyond, root 0 and the proof that rotation only renames ranks."
        + PLACED * any(report.algorithm.placed for report in reports)
        + (
            _about_drawn([report.findings.drawn for report in reports], draws, seed)
            if draws
            else ""
        )
    )


def _about_drawn(drawn: Sequence[Drawn], draws: int, seed: int) -> str:
    proven, left_out = sum(len(d.sizes) for d in drawn), sum(d.left_out for d in drawn)
    return (
        f" Beyond: {draws} numbers of ranks of each up to {DRAWN_UP_TO}, drawn with seed {seed}; "
        f"{proven} were proven with the defaults, {left_out} left out whose proof has more than "
        f"{BUDGET:,} messages or blocks in messages."
    )
