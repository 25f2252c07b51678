"""Proofs of many algorithms, and the report on them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from multiprocessing import get_context
from signal import SIG_IGN, SIGINT, signal
from typing import Any

from hpccoll.errors import VerificationError
from hpccoll.obligations import BUDGET, DRAWN_UP_TO, VARIED_UP_TO, drawn, obligations
from hpccoll.registry import Algorithm
from hpccoll.verify import EVERY_ROOT_UP_TO, prove


@dataclass(frozen=True, slots=True)
class Report:
    """What was proven of one algorithm over all its obligations, or the counterexamples."""

    algorithm: Algorithm
    proofs: int
    messages: int
    sizes: tuple[int, ...]
    excluded: tuple[int, ...]
    failures: tuple[str, ...]
    beyond: tuple[int, ...] = ()

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
        also = f"; also on {', '.join(map(str, self.beyond))}" if self.beyond else ""
        without = f"; {len(self.excluded)} numbers of ranks excluded" if self.excluded else ""
        return (
            f"{name} proven {self.proofs:>4} cases, {self.messages:>7} messages: "
            f"{', '.join(claims)}{also}{without}"
        )


def prove_one(entry: Algorithm, sizes: Iterable[int], beyond: Iterable[int] = ()) -> Report:
    """Prove every obligation of an algorithm; failures are reported, not raised."""
    sizes, beyond = tuple(sizes), tuple(beyond)
    proofs = messages = 0
    failures = []
    for choice, size, root in obligations(entry, sizes, beyond):
        try:
            proof = prove(choice, size, root)
        except VerificationError as error:
            failures.append(str(error))
        else:
            proofs += 1
            messages += proof.counts.total
    supported = tuple(size for size in sizes if entry.supports(size))
    excluded = tuple(size for size in sizes if not entry.supports(size))
    return Report(entry, proofs, messages, supported, excluded, tuple(failures), beyond)


def prove_all(
    entries: Iterable[Algorithm],
    sizes: Iterable[int],
    draws: int = 0,
    seed: int = 0,
    jobs: int = 1,
) -> Iterator[Report]:
    """Yield the report of every algorithm, in their order.

    Parameters
    ----------
    draws
        Further numbers of ranks, beyond `sizes`, that are drawn for each.
    jobs
        Processes that share the work.
    """
    sizes = tuple(sizes)
    tasks = [(entry, sizes, drawn(entry, draws, max(sizes), seed)) for entry in entries]
    if jobs == 1 or len(tasks) < 2:
        yield from (prove_one(*task) for task in tasks)
        return
    # Forked, the processes know algorithms that were entered since this one started. An algorithm
    # is a function, which can't be sent: only its number and what is found of it are.
    _TASKS[:] = tasks
    with get_context("fork").Pool(min(jobs, len(tasks)), _ignore_interrupts) as pool:
        found = pool.imap(_prove_task, range(len(tasks)))
        for (entry, *_), findings in zip(tasks, found, strict=True):
            yield Report(entry, *findings)


_TASKS: list[tuple[Algorithm, tuple[int, ...], tuple[int, ...]]] = []
"""What the processes of `prove_all` choose from."""


def _prove_task(number: int) -> tuple[Any, ...]:
    """Return the report of a task, the algorithm left out."""
    report = prove_one(*_TASKS[number])
    return tuple(getattr(report, field.name) for field in fields(Report))[1:]


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the process that shares out the work: it ends the others."""
    signal(SIGINT, SIG_IGN)


def conclusion(reports: Iterable[Report], sizes: range, draws: int = 0, seed: int = 0) -> str:
    """Return what was proven in all, and how far each part reaches, a line each."""
    reports = tuple(reports)
    wrong = sum(bool(report.failures) for report in reports)
    cases = sum(report.proofs for report in reports)
    if wrong:
        return f"\n{wrong} of {len(reports)} algorithms are wrong; {cases} cases were proven."
    lines = [
        f"\nAll {len(reports)} algorithms are right on {sizes[0]} to {sizes[-1]} ranks: "
        f"{cases} cases.",
        f"other parameters than the defaults: up to {VARIED_UP_TO} ranks",
        f"every root: up to {EVERY_ROOT_UP_TO} ranks; beyond, root 0, and that rotation only "
        "renames ranks",
    ]
    if draws:
        lines.append(
            f"beyond: {draws} numbers of ranks for each, drawn up to {DRAWN_UP_TO} with seed "
            f"{seed}\n  from those whose proof has at most {BUDGET} messages or blocks in them"
        )
    if any(report.algorithm.placed for report in reports):
        lines.append(
            "two levels: on one node, on equal and uneven ones, one rank on each, ranks in turn "
            "and by chance;\n  their costs with the default parts on equal nodes"
        )
    return "\n".join(lines)
