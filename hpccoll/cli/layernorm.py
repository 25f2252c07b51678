"""`hpccoll layernorm`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from hpccoll.cli import options

if TYPE_CHECKING:
    from hpccoll.layernorm.report import Report

_EPILOG = """\b
Orders, R a sum over all ranks, L the norm, B a broadcast of the result:
correct
  allreduce-layernorm           R B L: every rank normalises the whole sum
  reduce-layernorm-bcast        R L B: the root does; reduce and broadcast along binomial trees
  reduce-layernorm-bcast-large  the same with algorithms for large messages
  fused                         the same segment by segment along a chain, all at once
  sequence-parallel             reduce-scatter of rows, L of each rank's rows, allgather
  hidden-parallel               reduce-scatter of columns, moments exchanged, L, allgather
  one-shot                      every rank gets all parts and sums them in the order of the ranks
  gather-layernorm-bcast        the root does, and broadcasts
wrong
  layernorm-reduce-bcast, layernorm-mean    L R B, with the sum or the mean
  bcast-layernorm-reduce, bcast-reduce-layernorm, layernorm-bcast-reduce
  hidden-shards-alone           hidden-parallel without the exchange: a group norm
  bias-on-every-rank, residual-on-every-rank

\b
Inputs: iid, replicated, scaled, cancelling, outliers, large-mean, tiny-variance, constant,
integers; no single one tells all wrong orders from right ones.

\b
Algorithms: --algorithm ring chooses it for every collective that has it, --algorithm
allreduce=recursive-doubling,reduce=chain:segments=8 for one. What belongs to an order by
definition stays: reduce-layernorm-bcast is binomial, fused a chain, one-shot direct.

\b
Exit codes: 0 every order's result is what theory says of it, 1 one isn't, 2 usage.
"""


@click.command("layernorm", epilog=_EPILOG)
@options.plugin
@click.option("--tokens", type=click.IntRange(0), default=512, show_default=True, help="Rows.")
@click.option(
    "--hidden", type=click.IntRange(1), default=1024, show_default=True, help="Elements of a row."
)
@click.option(
    "-t",
    "--dtype",
    type=click.Choice(["bfloat16", "float16", "float32", "float64"]),
    default="float32",
    show_default=True,
    help="Type of what ranks hold and send.",
)
@options.accumulate("sums")
@click.option(
    "--norm",
    type=click.Choice(["layernorm", "rmsnorm"]),
    default="layernorm",
    show_default=True,
)
@click.option(
    "--method",
    type=click.Choice(["two-pass", "one-pass", "welford", "chan"]),
    default="two-pass",
    show_default=True,
    help="How a variance is computed.",
)
@click.option("--eps", type=float, default=1e-5, show_default=True, help="Inside the root.")
@click.option(
    "--ordering",
    default="all",
    show_default=True,
    metavar="NAME[,NAME...]|all",
    help="Orders, see below.",
)
@click.option(
    "--input",
    "input_names",
    default="iid",
    show_default=True,
    metavar="NAME[,NAME...]|all",
    help="What the ranks hold, see below; the first is timed.",
)
@click.option("--residual/--no-residual", default=True, show_default=True, help="Added to the sum.")
@click.option("--bias/--no-bias", default=True, show_default=True, help="Added to the sum.")
@click.option(
    "-a",
    "--algorithm",
    metavar="[COLLECTIVE=]NAME,...",
    help="Of the collectives, see below.  [default: ring, binomial where there is a root]",
)
@click.option(
    "--segments",
    type=click.IntRange(1),
    help="Of the fused order, at most one a row.  [default: what the cost model finds fastest]",
)
@click.option("--library", is_flag=True, help="Run the orders with the library's as well.")
@click.option("--backward", is_flag=True, help="Run the backward passes as well.")
@click.option(
    "--repetitions",
    type=click.IntRange(6),
    default=100,
    show_default=True,
    help="Timed calls of each order, at most.",
)
@options.time_budget("For the timed calls of all orders together; at least six of each are made.")
@options.seed()
@options.engine
@options.timeout
@options.output()
@click.option(
    "--report",
    metavar="FILE",
    help="Write a page that says what came out; .html, or .md with a picture beside it.",
)
@click.option(
    "--from",
    "source",
    metavar="FILE",
    help="Run nothing: make the report of what -o FILE wrote. Needs no MPI.",
)
@options.force("files")
def command(
    output: str | None, report: str | None, source: str | None, force: bool, **settings: Any
) -> None:
    """Compare the orders of reduce, layer norm and broadcast: results, resources, times.

    Every rank holds its part of a sum; wanted is the norm of the sum on every rank. All orders run
    on real ranks. Each result is compared with the exact one, and with what theory predicts of the
    order. Start it under mpirun or srun: mpirun -n 4 hpccoll layernorm
    """
    from hpccoll import launch, world
    from hpccoll.layernorm import request, session
    from hpccoll.layernorm.report import Report

    page = None if report is None else Report(Path(report), force)
    if source is not None:
        _report_of(source, page)
        return
    asked = request.build(**settings)
    files = session.Files(None if output is None else Path(output), page, force)
    started = launch.detect()
    ranks = world.start(started)
    session.run(asked, ranks, started, files, click.echo)


def _report_of(source: str, page: "Report | None") -> None:
    from hpccoll.errors import UsageError
    from hpccoll.layernorm import reading

    if page is None:
        raise UsageError("--from FILE makes a report of it; say where with --report FILE")
    context = click.get_current_context()
    for option in context.command.params:
        given = context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
        if given and option.name not in ("source", "report", "force"):
            raise UsageError(f"--from FILE runs nothing; leave out {option.opts[-1]}")
    page.make(reading.read(Path(source)))
