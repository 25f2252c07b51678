"""`hpccoll numerics`."""

from typing import Any

import click

from hpccoll.cli import options

_EPILOG = """\b
Inputs:
  uniform     from 0 to 1
  normal      standard normal
  offset      normal, with mean 100
  scaled      normal, each times 2**k, k from -20 to 10 by chance
  cancelling  scaled; the last rank's bring the sum close to 0
  integers    so small that every order gives the exact sum
  FILE.npy    a matrix of numpy's, a row per rank

\b
Exit codes: 0 all errors within their bounds, 1 a bound is exceeded, 2 usage.
"""


@click.command("numerics", epilog=_EPILOG)
@click.argument("collective")
@options.plugin
@options.algorithm("Algorithms, written as for bench.")
@click.option(
    "-p",
    "--ranks",
    default="8",
    show_default=True,
    metavar="N[,N...]",
    help="Numbers of ranks; ranges: 2..16 or 2..64*2.",
)
@options.root
@options.nodes()
@click.option(
    "-t",
    "--dtype",
    default="float32",
    show_default=True,
    help="float16, bfloat16, float32 or float64.",
)
@options.accumulate()
@click.option(
    "--count", type=click.IntRange(1), help="Elements of a vector.  [default: 4096, or FILE's]"
)
@click.option(
    "--input", "inputs", default="normal", show_default=True, help="Of the ranks, see below."
)
@options.seed("Of the inputs.")
@click.option("--tree", is_flag=True, help="Write the trees instead, of up to 32 ranks.")
@options.style("table", "jsonl")
def command(collective: str, tree: bool, style: str, **given: Any) -> None:
    """Compute what the order of summation does to a result, without MPI.

    COLLECTIVE is allreduce, reduce or reduce-scatter. Every algorithm's summation trees follow from
    its schedule; evaluated in one process, they give the bits that so many real ranks would get.
    The table says how far these are from the exact sum, how far they may be, and where they are
    alike: in the order of the ranks, on all ranks, by other algorithms, on other numbers of ranks.
    """
    from hpccoll import results
    from hpccoll.errors import CheckError, UsageError
    from hpccoll.numerics import table
    from hpccoll.numerics.report import run
    from hpccoll.numerics.request import build, draw

    request = build(collective, **given)
    if tree:
        if style != "table":
            raise UsageError("--tree writes text; leave out --format jsonl")
        click.echo(draw(request))
        return
    report = run(request)
    if style == "jsonl":
        click.echo("\n".join(map(results.to_json, table.records(report))))
    else:
        click.echo(table.text(report))
    if report.exceeded:
        raise CheckError(f"errors are above their bounds: {', '.join(report.exceeded)}")
