"""One element of a sweep, run by all ranks of a launch together."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

from hpccoll.errors import CheckError, EndedError, HpccollError, UsageError, unwritable_folder
from hpccoll.launch import told_to_end
from hpccoll.session import Continuation, Echo
from hpccoll.sweep.attempt import Attempt
from hpccoll.sweep.log import Log
from hpccoll.sweep.plan import Allocation, Element
from hpccoll.sweep.results import Results
from hpccoll.world import World

FAMILIES = {"openmpi": "Open MPI", "mpich": "MPICH", "impi": "Intel MPI", "intel": "Intel MPI"}
"""What names of MPI libraries begin with, and the vendors that mpi4py names."""

Session = Callable[[Continuation], None]
"""Runs the command on all ranks, and gives its records to the continuation."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be run.

    Attributes
    ----------
    words
        The command line of the element, for its log.
    force
        Run it anew even if it is done.
    """

    results: Results
    element: Element
    words: str
    force: bool = False

    @property
    def about(self) -> str:
        """Say which element of what this is."""
        plan = self.results.plan
        return f"element {self.element.index} of {len(plan.elements)} of {plan.name}"


def run(job: Job, world: World, session: Session, echo: Echo) -> None:
    """Run an element on all ranks together, unless it is done; rank 0 writes.

    Raises
    ------
    UsageError
        The element is for other ranks, or the folder has another plan's results or can't be
        written.
    CheckError
        A result is wrong; the element is done nevertheless.
    EndedError
        The run was told to end; what was measured is kept for the next.
    """
    attempt = world.first(lambda: _attempt(job))
    if not world.comm.bcast(attempt is not None):
        echo(f"{job.about} is done already; --force runs it anew")
        return
    try:
        if attempt:
            attempt.log.begins(_beginning(job, world, len(attempt.measured)))
        check_world(job.element.allocation, world)
        with _end_in_order() as told:
            wrong = _measured(job, world, session, attempt, told, echo)
    except BaseException as error:
        _failed(job, world, attempt, error)
        raise
    finally:
        if attempt:
            attempt.close()
    if wrong:
        raise CheckError(f"{job.about}: {wrong} result{' is' if wrong == 1 else 's are'} wrong")


def _measured(
    job: Job,
    world: World,
    session: Session,
    attempt: Attempt | None,
    told: Callable[[], str | None],
    echo: Echo,
) -> int:
    """Run the session, make its records the result, and return how many are wrong."""
    measured = world.comm.bcast(attempt.measured if attempt else None)
    with suppress(CheckError):  # the records have it, and earlier runs may have found more
        session(Continuation(attempt, measured, told))
    words = attempt.finish() if attempt else None
    if attempt and words:
        attempt.log.ends(words)
        echo(f"{job.about}: {words}")
    wrong: int = world.comm.bcast(attempt.wrong if attempt else None)
    return wrong


def check_alike(world: World, problem: str | None, plan: str) -> None:
    """Check that all ranks have read the same plan.

    Parameters
    ----------
    problem
        Why this rank couldn't, if so.
    plan
        The hash of what it read.

    Raises
    ------
    UsageError
        On every rank alike, if one couldn't, or if they have read different ones.
    """
    found: list[tuple[str | None, str]] = world.comm.allgather((problem, plan))
    if problems := [text for text, _ in found if text]:
        raise UsageError(problems[0])
    other = next((rank for rank, (_, hashed) in enumerate(found) if hashed != found[0][1]), None)
    if other is not None:
        raise UsageError(
            f"rank {other} on {world.hosts[other]} finds another plan than rank 0; put the plan "
            "where all nodes see the same file"
        )


def check_world(allocation: Allocation, world: World) -> None:
    """Raise `UsageError` if these ranks aren't what an element runs on."""
    found = Allocation(world.size, world.nodes if allocation.nodes else None)
    if (found.ranks, found.nodes) != (allocation.ranks, allocation.nodes):
        raise UsageError(
            f"the element is for {allocation}, but this launch has {found}; "
            f"launch it with -n {allocation.ranks}"
            + (f" on {allocation.nodes} nodes" if allocation.nodes else "")
        )
    name = allocation.mpi or ""
    vendors = {vendor for family, vendor in FAMILIES.items() if name.lower().startswith(family)}
    if vendors and not any(world.library.startswith(vendor) for vendor in vendors):
        raise UsageError(
            f"the element is for the MPI library {name}, but this launch has {world.library}; "
            "launch it in an environment of that library"
        )


def _attempt(job: Job) -> Attempt | None:
    """Begin a run, or return None if the element is done."""
    results, element = job.results, job.element
    try:
        results.make()
        done = results.result(element)
        if done and done.whole and not job.force:
            return None
        return Attempt(results, element, job.force)
    except OSError as error:
        raise unwritable_folder(error.filename or results.directory, error, "--directory") from None


def _beginning(job: Job, world: World, measured: int) -> str:
    kept = f"; kept of earlier runs: {measured} size{'s' * (measured > 1)}" if measured else ""
    return (
        f"{job.about}, plan {job.results.plan.hash[:12]}, for {job.element.allocation}, on "
        f"{world.size} rank{'s' * (world.size > 1)} of {world.library}: {job.words}{kept}"
    )


def _failed(job: Job, world: World, attempt: Attempt | None, error: BaseException) -> None:
    """Note how a run ended; what all ranks meet alike is rank 0's to say."""
    with suppress(OSError):  # a full disk may be what it failed of
        if attempt:
            attempt.log.ends(_words(error))
        elif not isinstance(error, UsageError | EndedError):
            log = Log(job.results.log(job.element), f"rank-{world.rank}")
            log.ends(f"{_words(error)}, on rank {world.rank}")
            log.close()


def _words(error: BaseException) -> str:
    if isinstance(error, HpccollError):
        return f"failed: {error}"
    return f"failed: {type(error).__name__}: {error}"


@contextmanager
def _end_in_order() -> Iterator[Callable[[], str | None]]:
    """Note SIGTERM, by which schedulers announce the end, instead of ending at once."""
    told: list[str] = []

    def note(number: int, _frame: FrameType | None) -> None:
        told.append(signal.Signals(number).name)

    before = signal.signal(signal.SIGTERM, note)
    try:
        yield lambda: told[0] if told else told_to_end()
    finally:
        signal.signal(signal.SIGTERM, before)
