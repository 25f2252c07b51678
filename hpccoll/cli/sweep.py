"""`hpccoll sweep`."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpccoll.cli import options
from hpccoll.errors import UsageError
from hpccoll.launcher import AUTO, CHOICES

if TYPE_CHECKING:
    from hpccoll.sweep.results import Results

LAUNCHER = "mpirun -n {ranks}"

_EPILOG = """\b
A sweep file is TOML: command names what elements run, bench (if nothing is said) or layernorm;
[base] has its options by their long names (collective, algorithm, sizes, ...), [axes] lists of
values to cross, [[zip]] lists that go together, [[exclude]] values of elements to leave out.
ranks, nodes and mpi say what an element runs on; the option --nodes of bench is the key
placement. Several values are a list, or in a list of an axis a list within it.

\b
[base]
collective = "allreduce"
sizes = ["8", "64KiB"]
[axes]
ranks = [2, 4]
algorithm = ["ring", "recursive-doubling", "tree"]
"""

_directory = click.option(
    "--directory",
    metavar="DIR",
    help="Where results are.  [default: the plan's name with .results]",
)
_launcher = click.option(
    "--launcher",
    default=LAUNCHER,
    show_default=True,
    metavar="COMMAND",
    help="Of ranks; with {ranks}, {nodes}, {mpi} of the element. No shell reads it.",
)
_time_limit = click.option(
    "--time-limit",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="Of one element.  [default: 3 times its estimate and a minute]",
)


@click.group("sweep", epilog=_EPILOG)
def command() -> None:
    """Run many benchmarks from one file: plan, run, status, resume, collect.

    \b
    hpccoll sweep plan sweep.toml -o sweep.json
    hpccoll sweep run sweep.json --all --launcher "mpirun -n {ranks}"
    hpccoll sweep submit sweep.toml --throttle 4
    hpccoll sweep status sweep.json
    hpccoll sweep resume sweep.json
    hpccoll sweep collect sweep.json -o all.jsonl
    """  # noqa: D301 - click reads the backspace as "don't wrap"


@command.command("plan")
@click.argument("file")
@options.output("Write the plan.", "PLAN.json")
@options.force("PLAN.json")
@click.option("--count", is_flag=True, help="Print the range of the elements' indices alone.")
def plan(file: str, output: str | None, force: bool, count: bool) -> None:
    """Check every element of the sweep file FILE, and print and write what would run."""
    from hpccoll.cli import elements
    from hpccoll.sweep import table
    from hpccoll.sweep.plan import ranges, write

    _alone()
    made = elements.plan(Path(file))
    if output is not None:
        write(Path(output), made, force)
    if count:
        click.echo(ranges(range(len(made.elements))))
    else:
        click.echo(table.plan(made))


@command.command("run")
@click.argument("plan")
@click.option("--index", type=int, metavar="N", help="Run this element, on all ranks.")
@click.option("--all", "every", is_flag=True, help="Launch all that aren't done, one by one.")
@_directory
@_launcher
@_time_limit
@click.option("--force", is_flag=True, help="Run what is done anew.")
def run(
    plan: str,
    index: int | None,
    every: bool,
    directory: str | None,
    launcher: str,
    time_limit: float | None,
    force: bool,
) -> int:
    """Run one element under mpirun or srun, or launch all of them.

    \b
    srun hpccoll sweep run sweep.json --index "$SLURM_ARRAY_TASK_ID"
    hpccoll sweep run sweep.json --all --launcher "mpirun -n {ranks}"
    """  # noqa: D301 - click reads the backspace as "don't wrap"
    if every == (index is not None):
        raise UsageError("give either --index N, for one element, or --all")
    if index is not None:
        return _run_one(Path(plan), index, directory, force)
    return _launch_all(Path(plan), directory, launcher, time_limit, force)


@command.command("submit")
@click.argument("file")
@click.argument("words", nargs=-1, metavar="[-- SBATCH OPTIONS...]")
@options.output("The plan.  [default: FILE's name]", "PLAN.json")
@_directory
@click.option(
    "--throttle",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Elements of one allocation that run at once.",
)
@click.option(
    "--mpi",
    type=click.Choice(CHOICES),
    default=AUTO,
    show_default=True,
    help="How ranks find each other, see hpccoll launcher.",
)
@click.option(
    "--python",
    "pythons",
    multiple=True,
    metavar="NAME=PATH",
    help="The Python that runs elements of the MPI library NAME.  [default: this one]",
)
@click.option("--shared", is_flag=True, help="Let other jobs run on the same nodes.")
@_time_limit
@click.option("--collect", metavar="FILE", help="Results.  [default: the plan's name with .jsonl]")
@click.option("--dry-run", is_flag=True, help="Print what would be submitted.")
@click.option("--force", is_flag=True, help="Overwrite PLAN.json.")
def submit(file: str, output: str | None, directory: str | None, **given: Any) -> None:
    """Submit the sweep file FILE to Slurm: job arrays, and a job that collects.

    \b
    hpccoll sweep submit sweep.toml --throttle 4 -- --partition=main --account=project
    """  # noqa: D301 - click reads the backspace as "don't wrap"
    from hpccoll.cli import submitting

    _alone()
    submitting.submit(Path(file), output, directory, **given)


@command.command("resume")
@click.argument("plan")
@_directory
@click.option("--launcher", metavar="COMMAND", help="Launch from here, as run --all does.")
@_time_limit
def resume(plan: str, directory: str | None, launcher: str | None, time_limit: float | None) -> int:
    """Run what is missing or failed.

    A sweep that was submitted is submitted again as it was, any other launched from here, one
    element after the other.
    """
    from hpccoll.cli import submitting

    _alone()
    if launcher is None and submitting.resume(_results(Path(plan), directory), Path(plan)):
        return 0
    return _launch_all(Path(plan), directory, launcher or LAUNCHER, time_limit, force=False)


@command.command("status")
@click.argument("plan")
@_directory
def status(plan: str, directory: str | None) -> None:
    """Print which elements are done, running, pending, failed (and why) or missing."""
    from hpccoll.sweep import submitted, table

    _alone()
    results = _results(Path(plan), directory)
    found = submitted.states(results, submitted.read(results))
    click.echo(table.status(results.plan, found))


@command.command("collect")
@click.argument("plan")
@_directory
@options.output("Write JSON Lines here.", required=True)
@options.force()
@click.option("--partial", is_flag=True, help="Leave out elements that aren't done.")
def collect(plan: str, directory: str | None, output: str, force: bool, partial: bool) -> None:
    """Write the results of all elements into one file."""
    from hpccoll.sweep import collect, status

    _alone()
    results = _results(Path(plan), directory)
    found = collect.collect(results, Path(output), force, partial)
    click.echo(f"{output}: {status.summary(found)}")


def _results(plan: Path, directory: str | None) -> "Results":
    from hpccoll.sweep.plan import read, results_of
    from hpccoll.sweep.results import Results

    return Results(Path(directory) if directory else results_of(plan), read(plan))


def _alone() -> None:
    """Raise `UsageError` where a launcher started several processes of a command for one."""
    from hpccoll.launch import detect

    if (started := detect()).launcher and started.size > 1:
        raise UsageError(
            f"{started.launcher} started {started.size} of this command, which is for one process; "
            "start it without a launcher"
        )


def _run_one(path: Path, index: int, directory: str | None, force: bool) -> int:
    from hpccoll import launch, world
    from hpccoll.cli import elements
    from hpccoll.sweep import element

    started, problem, asked = launch.detect(), None, None
    try:
        results = _results(path, directory)
        chosen = results.plan.element(index)
        asked = elements.spell(results.plan.command, chosen.options)
    except UsageError as error:  # maybe on this rank's node alone
        problem = str(error)
    ranks = world.start(started, asked.options.get("thread_level") if asked else None)
    element.check_alike(ranks, problem, results.plan.hash if asked else "")
    assert asked
    job = element.Job(results, chosen, str(asked), force)
    element.run(job, ranks, partial(elements.session, asked, ranks, started), click.echo)
    return 0


def _launch_all(
    path: Path, directory: str | None, launcher: str, limit: float | None, force: bool
) -> int:
    from hpccoll.sweep import local, status

    _alone()
    results = _results(path, directory)
    before = status.states(results)
    chosen = [state.element for state in before if force or not state.done]
    launching = local.Launching(launcher, path, results, limit, force)
    local.check(launching, chosen)
    failed = local.run_all(launching, chosen, click.echo)
    click.echo(status.summary(status.states(results)))
    return 1 if failed else 0
