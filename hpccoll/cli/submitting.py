"""What `hpccoll sweep submit` and `resume` do with Slurm, and print of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hpccoll.errors import UsageError

if TYPE_CHECKING:
    from hpccoll.sweep.results import Results
    from hpccoll.sweep.slurm import Settings


def submit(
    file: Path,
    output: str | None,
    directory: str | None,
    *,
    words: tuple[str, ...],
    throttle: int,
    mpi: str,
    pythons: Sequence[str],
    shared: bool,
    time_limit: float | None,
    collect: str | None,
    dry_run: bool,
    force: bool,
) -> None:
    """Submit a sweep file for the first time.

    Raises
    ------
    UsageError
        It was submitted before, or Slurm refuses it.
    """
    from hpccoll.cli import elements
    from hpccoll.sweep import slurm, submitted
    from hpccoll.sweep.plan import results_of, write
    from hpccoll.sweep.results import Results

    plan = Path(output) if output else file.with_suffix(".json")
    results = Results(Path(directory) if directory else results_of(plan), elements.plan(file))
    if submitted.read(results):
        raise UsageError(
            f"{file} was submitted already; hpccoll sweep resume {plan} submits what is missing or "
            "failed, --directory starts anew elsewhere"
        )
    collected = Path(collect) if collect else plan.with_suffix(".jsonl")
    settings = slurm.Settings(
        output=str(collected.absolute()),
        throttle=throttle,
        mpi=mpi,
        pythons=_named(pythons),
        shared=shared,
        limit=time_limit,
        options=words,
    )
    todo = frozenset(range(len(results.plan.elements)))
    if dry_run:
        _print(plan, results, settings, todo)
        return
    write(plan, results.plan, force)
    _submit(plan, results, settings, todo)


def resume(results: "Results", plan: Path) -> bool:
    """Submit what is missing or failed and doesn't wait or run; return False if none ever was.

    Raises
    ------
    UsageError
        Slurm doesn't say what waits, or refuses it.
    """
    from hpccoll.sweep import slurm, submitted
    from hpccoll.sweep.status import FAILED, MISSING, summary

    jobs = submitted.read(results)
    if not jobs:
        return False
    found = submitted.states(results, jobs)
    todo = frozenset(state.element.index for state in found if state.word in (FAILED, MISSING))
    click.echo(summary(found))
    if todo:
        running, collectors = submitted.unfinished(jobs)
        for job in collectors:  # it would collect before the elements that are submitted now
            slurm.call("scancel", job)
            click.echo(f"job {job}: cancelled, another will collect")
        _submit(plan, results, jobs[-1].settings, todo, running)
    return True


def _named(pythons: Sequence[str]) -> Mapping[str, str]:
    pairs = [text.partition("=") for text in pythons]
    for name, _, path in pairs:
        if not name or not path:
            raise UsageError(
                f"--python is NAME=PATH, got {name!r}; as in --python mpich=/opt/python"
            )
    return {name: path for name, _, path in pairs}


def _print(plan: Path, results: "Results", settings: "Settings", todo: frozenset[int]) -> None:
    from hpccoll.sweep import slurm

    made = slurm.arrays(plan, results, settings, todo)
    for array in made:
        click.echo(_described("not submitted", array.indices, array.words))
    jobs = [f"JOB{number}" for number in range(1, len(made) + 1)]
    click.echo(_described("not submitted", (), slurm.collector(plan, results, settings, jobs)))


def _submit(
    plan: Path,
    results: "Results",
    settings: "Settings",
    todo: frozenset[int],
    running: Sequence[str] = (),
) -> None:
    from hpccoll.sweep import slurm, submitted

    def tell(job: str, indices: Sequence[int], words: Sequence[str]) -> None:
        submitted.add(results, settings, job, indices, words)
        click.echo(_described(f"job {job}", indices, words))

    results.make()  # Slurm makes none for its output
    slurm.submit(plan, results, settings, todo, tell, running)


def _described(job: str, indices: Sequence[int], words: Sequence[str]) -> str:
    import shlex

    from hpccoll.sweep.plan import ranges

    what = f"elements {ranges(indices)}" if indices else "collects when they are through"
    return f"{job}: {what}\n  {shlex.join(words)}"
