"""What of a sweep was submitted to Slurm, in a file beside its results, and how it stands there."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hpccoll.errors import UsageError
from hpccoll.sweep import status
from hpccoll.sweep.local import last_words
from hpccoll.sweep.results import Results
from hpccoll.sweep.slurm import Settings, call, printed
from hpccoll.sweep.status import FAILED, MISSING, PENDING, RUNNING, State

_WAITING = {"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"}


@dataclass(frozen=True, slots=True)
class Submitted:
    """One job: its number, the indices of its elements, none if it collects, and how it was made.

    Attributes
    ----------
    words
        Those that submitted it.
    """

    job: str
    indices: tuple[int, ...]
    words: tuple[str, ...]
    settings: Settings


def _path(results: Results) -> Path:
    return results.directory / "submitted.jsonl"


def add(
    results: Results, settings: Settings, job: str, indices: Sequence[int], words: Sequence[str]
) -> Submitted:
    """Add a job that was submitted just now, so that it is known however this process ends."""
    made = Submitted(job, tuple(indices), tuple(words), settings)
    with _path(results).open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(made) | {"plan": results.plan.hash}) + "\n")
    return made


def read(results: Results) -> list[Submitted]:
    """Return the jobs that were submitted, none where there is no file.

    Raises
    ------
    UsageError
        The folder has another plan's results, or a line is torn.
    """
    path = _path(results)
    if not path.exists():
        return []
    try:
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except ValueError:
        raise UsageError(
            f"{path} has a torn line, so a job of this sweep isn't known; when squeue shows none, "
            "delete the line"
        ) from None
    if any(record["plan"] != results.plan.hash for record in records):
        raise UsageError(f"{path} is of another plan; choose another --directory")
    return [_submitted(record) for record in records]


def _submitted(record: dict[str, Any]) -> Submitted:
    settings = record["settings"]
    made = Settings(**settings | {"options": tuple(settings["options"])})
    return Submitted(record["job"], tuple(record["indices"]), tuple(record["words"]), made)


def states(results: Results, jobs: Sequence[Submitted]) -> list[State]:
    """Return how every element stands, in its files and in Slurm.

    Raises
    ------
    UsageError
        Slurm doesn't say what runs or waits.
    """
    found = status.states(results, queued(jobs))
    return [_over(results, jobs, one) if one.word == MISSING else one for one in found]


def queued(jobs: Iterable[Submitted]) -> dict[int, tuple[str, str]]:
    """Return which elements run or wait, by their index, in which job, and why they wait."""
    arrays = {job.job: job.indices for job in jobs if job.indices}
    found = {}
    for job, index, state, reason in _queue() if arrays else ():
        if job in arrays and int(index) in arrays[job]:
            waits = state in _WAITING
            about = f"job {job}_{index}" + f": {reason}" * waits
            found[int(index)] = (PENDING if waits else RUNNING, about)
    return found


def unfinished(jobs: Iterable[Submitted]) -> tuple[list[str], list[str]]:
    """Return which arrays still have elements that run or wait, and which jobs wait to collect."""
    there = {job for job, *_ in _queue()}
    left = [job for job in jobs if job.job in there]
    return [job.job for job in left if job.indices], [job.job for job in left if not job.indices]


def _queue() -> list[list[str]]:
    """Return job, index in its array, state and reason of all that this user has in the queue."""
    listed = call("squeue", "--me", "--noheader", "--array", "--format=%F %K %T %r")
    return [line.split(maxsplit=3) for line in listed.splitlines()]


def _over(results: Results, jobs: Sequence[Submitted], missing: State) -> State:
    """Return how an element stands of which no run has left a word: its job may have failed."""
    index = missing.element.index
    numbers = [job.job for job in jobs if index in job.indices]
    if not numbers:
        return missing
    path = printed(results, numbers[-1], index)
    words = last_words(path) if path.exists() else "it printed nothing"
    return State(missing.element, FAILED, f"job {numbers[-1]}_{index} is over: {words}")
