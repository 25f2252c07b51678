"""`hpccoll bench`."""

from typing import Any

import click

from hpccoll.collectives import COLLECTIVES

_MEANINGS = "\n\n".join(
    f"\b\n{c.name}\n  size: {c.bytes_are}\n  in place: {c.in_place}\n  library: {c.baselines}"
    for c in COLLECTIVES.values()
)

_EPILOG = f"""\b
Sizes are whole bytes with B, KiB, MiB, GiB, K, M or G, all of them binary (1 K = 1 KiB = 1024 B).
A vector that the number of ranks doesn't divide is cut at count*b//p, never rounded.

{_MEANINGS}

\b
Exit codes: 0 all results right, 1 a check failed or a call hung, 2 usage.
"""


@click.command("bench", epilog=_EPILOG)
@click.argument("collective")
@click.option(
    "-a",
    "--algorithm",
    default="all",
    show_default=True,
    metavar="NAME[,NAME...]|all",
    help="Algorithms, as name[:key=value]; values: 4, lists 3x4, ranges 1..4 or 1..32*2.",
)
@click.option("--no-library", is_flag=True, help="Leave out the MPI library's own collective.")
@click.option("-b", "--min-bytes", metavar="SIZE", help="Smallest size.  [default: 8]")
@click.option("-e", "--max-bytes", metavar="SIZE", help="Largest size.  [default: 16MiB]")
@click.option("-f", "--factor", type=click.IntRange(2), help="From size to size.  [default: 2]")
@click.option(
    "--sizes", "size_list", metavar="SIZE[,SIZE...]", help="These sizes, instead of -b, -e and -f."
)
@click.option("-t", "--dtype", default="float32", show_default=True, help="Element type.")
@click.option("--op", default="sum", show_default=True, help="Operator: sum, prod, min or max.")
@click.option(
    "--root", "root_text", default="0", show_default=True, metavar="0|N|all", help="Root rank."
)
@click.option("--in-place", is_flag=True, help="Input and result share a buffer; see below.")
@click.option(
    "--repetitions", type=click.IntRange(1), default=100, show_default=True, help="Timed calls."
)
@click.option(
    "--warmup",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    help="Untimed calls before, at most; no more than fit into a tenth of the budget.",
)
@click.option(
    "--time-budget",
    type=click.FloatRange(0, min_open=True),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="For all algorithms of one size together; then fewer repetitions are made.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of shuffling.")
@click.option("--no-check", is_flag=True, help="Don't check the results.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="A call that takes longer has hung: the job ends and says what each rank waits for.",
)
@click.option("-o", "--output", metavar="FILE", help="Write JSON Lines as well.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option(
    "--format",
    "style",
    type=click.Choice(["table", "jsonl", "csv"]),
    default="table",
    show_default=True,
    help="What is printed.",
)
def command(collective: str, output: str | None, force: bool, style: str, **options: Any) -> None:
    """Measure the algorithms of COLLECTIVE beside the MPI library's own, and check the results.

    COLLECTIVE is allreduce, reduce-scatter, allgather, bcast or reduce. Start it under mpirun or
    srun: mpirun -n 4 hpccoll bench allreduce
    """
    from hpccoll import launch, request, session, world

    asked = request.build(collective, **options)
    started = launch.detect()
    ranks = world.start(started)
    session.run(asked, ranks, started, session.Output(output, force, style), click.echo)
