"""The proofs of many algorithms on many numbers of ranks, and their sum in words."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hpccoll.choice import Algorithm
from hpccoll.errors import VerificationError
from hpccoll.obligations import EVERY_ROOT_UP_TO, VARIED_UP_TO, obligations
from hpccoll.verify import prove

PLACED = (
    " Two levels: on one node, on equal and uneven ones, one rank on each, ranks in turn and by "
    "chance; their costs with the default parts on equal nodes."
)


@dataclass(frozen=True, slots=True)
class Report:
    """What was proven of one algorithm over all its obligations, or the counterexamples."""

    algorithm: Algorithm
    proofs: int
    messages: int
    sizes: tuple[int, ...]
    excluded: tuple[int, ...]
    failures: tuple[str, ...]

    def line(self) -> str:
        """Return what was proven, or the first counterexample, in words."""
        entry = self.algorithm
        name = f"{entry.collective.name:<15} {entry.name:<28}"
        if self.failures:
            more = f" ({len(self.failures) - 1} more)" if len(self.failures) > 1 else ""
            return f"{name} WRONG  {self.failures[0]}{more}"
        claims = ["data", "no deadlock", "costs"]
        if entry.collective.reduces and not entry.commutative:
            claims.append("operand order")
        if entry.collective.name == "allreduce" and entry.same_bits:
            claims.append("same bits")
        without = f"; {len(self.excluded)} numbers of ranks excluded" if self.excluded else ""
        return (
            f"{name} proven {self.proofs:>4} cases, {self.messages:>7} messages: "
            f"{', '.join(claims)}{without}"
        )


def prove_all(entries: Iterable[Algorithm], sizes: Iterable[int]) -> Iterator[Report]:
    """Prove every obligation of the algorithms; failures are reported, not raised."""
    sizes = tuple(sizes)
    for entry in entries:
        proofs = messages = 0
        failures = []
        for choice, size, root in obligations(entry, sizes):
            try:
                proof = prove(choice, size, root)
            except VerificationError as error:
                failures.append(str(error))
            else:
                proofs += 1
                messages += proof.counts.total
        supported = tuple(size for size in sizes if entry.supports(size))
        excluded = tuple(size for size in sizes if not entry.supports(size))
        yield Report(entry, proofs, messages, supported, excluded, tuple(failures))


def conclusion(reports: Iterable[Report], sizes: range) -> str:
    """Return a sentence on everything that was proven, and how far each part reaches."""
    reports = tuple(reports)
    wrong = sum(bool(report.failures) for report in reports)
    cases = sum(report.proofs for report in reports)
    if wrong:
        return f"\n{wrong} of {len(reports)} algorithms are wrong; {cases} cases were proven."
    return (
        f"\nAll {len(reports)} algorithms are right on {sizes[0]} to {sizes[-1]} ranks ({cases} "
        "cases). "
        f"Other parameters than the defaults: up to {VARIED_UP_TO} ranks. Every root: up to "
        f"{EVERY_ROOT_UP_TO} ranks; beyond, root 0 and the proof that rotation only renames ranks."
        + PLACED
        * any(report.algorithm.placed for report in reports)
    )
