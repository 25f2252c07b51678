"""Sweeps as job arrays of Slurm: an array for each allocation, and a job that collects.

Slurm's commands are called with lists of words. Nothing of a sweep is put into a script: the batch
script is always the same, and becomes the command that it is given.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

from hpccoll.errors import UsageError
from hpccoll.launcher import AUTO
from hpccoll.sweep.local import Launching
from hpccoll.sweep.plan import Allocation, Group, ranges
from hpccoll.sweep.results import Results

SCRIPT = Path(__file__).with_name("job.sbatch")
LIMIT = 120.0
"""Seconds in which a command of Slurm's must answer."""
LEAD = 60
"""Seconds before the end of its time at which an element is told to end."""
RESOLUTION = 60
"""Seconds by which Slurm may tell it earlier."""
COLLECTION = 10
"""Minutes that collecting may take."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How elements are submitted.

    Attributes
    ----------
    output
        The file into which the results are collected.
    throttle
        Elements of one array that run at once.
    mpi
        How ranks find each other, see `hpccoll.launcher`.
    pythons
        By the names of the plan's MPI libraries: the Python that runs their elements.
    shared
        Other jobs may run on an element's nodes.
    limit
        Seconds that an element may take, None to take it from its estimate.
    options
        More words for sbatch.
    """

    output: str
    throttle: int = 1
    mpi: str = AUTO
    pythons: Mapping[str, str] = field(default_factory=dict)
    shared: bool = False
    limit: float | None = None
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Array:
    """A job array: the indices of its elements, and the words that submit it."""

    indices: tuple[int, ...]
    words: tuple[str, ...]


def call(*words: str) -> str:
    """Run a command of Slurm's or of another Python, and return what it prints.

    Raises
    ------
    UsageError
        It can't be run, or fails; the message has its own words.
    """
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    except OSError as error:
        raise UsageError(
            f"{words[0]} can't be run: {error.strerror}; submit where Slurm's commands and "
            "every --python are"
        ) from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"{words[0]} didn't answer within {LIMIT:g} s; try again later") from None
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
        raise UsageError(f"{words[0]} failed: {said}")
    return done.stdout.strip()


def arrays(plan: Path, results: Results, settings: Settings, todo: frozenset[int]) -> list[Array]:
    """Return the job arrays that run some elements of a plan, one for each allocation.

    Raises
    ------
    UsageError
        No Python is named for an MPI library, or Slurm's arrays can't have so large an index.
    """
    found = []
    for group in results.plan.groups:
        indices = tuple(index for index in group.indices if index in todo)
        if indices:
            words = _array(plan, results, settings, group, indices)
            found.append(Array(indices, tuple(words)))
    _check_size(max(todo))
    return found


def _array(
    plan: Path, results: Results, settings: Settings, group: Group, indices: Sequence[int]
) -> Iterator[str]:
    yield from ("sbatch", "--parsable", f"--job-name={results.plan.name}")
    yield f"--array={ranges(indices)}%{settings.throttle}"
    yield from _nodes(group.allocation)
    yield f"--time={_minutes(plan, results, settings, group)}"
    yield f"--signal=B:USR1@{LEAD}"
    # What is lost with its node starts again, and goes on with what it had measured.
    yield from ("--requeue", "--open-mode=append", f"--output={_folder(results)}/slurm-%A_%a.out")
    yield from () if settings.shared else ("--exclusive",)
    yield from (*settings.options, str(SCRIPT))
    python = _python(group.allocation, settings)
    yield from call(python, "-m", "hpccoll", "launcher", "--mpi", settings.mpi).splitlines()
    yield from (python, "-m", "hpccoll", "sweep", "run", str(plan.absolute()))
    yield from ("--directory", str(results.directory.absolute()), "--index")


def _folder(results: Results) -> str:
    """Return the folder of the results as sbatch, which replaces some words in it, reads it."""
    return str(results.directory.absolute()).replace("%", "%%")


def printed(results: Results, job: str, index: int) -> Path:
    """Return the file with what an element of a job array printed."""
    return results.directory / f"slurm-{job}_{index}.out"


def _nodes(allocation: Allocation) -> Iterator[str]:
    yield f"--ntasks={allocation.ranks}"
    if allocation.nodes:
        yield f"--nodes={allocation.nodes}"
        # Slurm would fill one node after the other.
        yield f"--ntasks-per-node={ceil(allocation.ranks / allocation.nodes)}"


def _minutes(plan: Path, results: Results, settings: Settings, group: Group) -> int:
    """Return the time that every element of a group gets: what it may take, and that to end in."""
    launching = Launching("", plan, results, settings.limit)
    seconds = max(launching.seconds(element) or 0.0 for element in group.elements)
    return ceil((seconds + LEAD + RESOLUTION) / 60)


def _python(allocation: Allocation, settings: Settings) -> str:
    if allocation.mpi is None or not settings.pythons:
        return sys.executable
    if allocation.mpi not in settings.pythons:
        raise UsageError(
            f"no Python is named for the MPI library {allocation.mpi}; add "
            f"--python {allocation.mpi}=PATH, a Python whose mpi4py loads it"
        )
    return settings.pythons[allocation.mpi]


def _check_size(largest: int) -> None:
    lines = (line.split("=") for line in call("scontrol", "show", "config").splitlines())
    limit = next((int(line[1]) for line in lines if line[0].strip() == "MaxArraySize"), None)
    if limit is not None and largest >= limit:
        raise UsageError(
            f"the sweep has an element {largest}, but the indices of this Slurm's arrays are below "
            f"{limit} (MaxArraySize); split the sweep file"
        )


def collector(plan: Path, results: Results, settings: Settings, jobs: Sequence[str]) -> list[str]:
    """Return the words that submit the job which collects when other jobs are through.

    However they are through: after success alone, one failed element would keep it waiting for
    ever, where it can say which that is.
    """
    return [
        *("sbatch", "--parsable", f"--job-name={results.plan.name}-collect"),
        *(f"--dependency=afterany:{':'.join(jobs)}", "--ntasks=1", f"--time={COLLECTION}"),
        *(f"--output={_folder(results)}/collect-%j.out", *settings.options, str(SCRIPT)),
        *(sys.executable, "-m", "hpccoll", "sweep", "collect", str(plan.absolute())),
        *("--directory", str(results.directory.absolute()), "--output", settings.output),
    ]


def submit(
    plan: Path,
    results: Results,
    settings: Settings,
    todo: frozenset[int],
    submitted: Callable[[str, Sequence[int], Sequence[str]], object],
    running: Sequence[str] = (),
) -> None:
    """Submit elements, and the job that collects, and tell of each job as soon as it is there.

    Parameters
    ----------
    submitted
        Is called with the job's number, the indices of its elements, and the words.
    running
        Jobs submitted earlier that the collection waits for as well.

    Raises
    ------
    UsageError
        Slurm refuses one of them, or see `arrays`; those before it stay submitted.
    """
    jobs = list(running)
    made = [(array.indices, array.words) for array in arrays(plan, results, settings, todo)]
    for indices, words in made:
        jobs.append(call(*words).partition(";")[0])  # a cluster's name follows where there is one
        submitted(jobs[-1], indices, words)
    words = tuple(collector(plan, results, settings, jobs))
    submitted(call(*words).partition(";")[0], (), words)
