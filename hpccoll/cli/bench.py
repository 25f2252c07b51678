"""`hpccoll bench`."""

from typing import Any

import click

from hpccoll.cli import options
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
Operators: sum, prod; min, max (not complex); avg (floats and complex: a sum and one division);
band, bor, bxor, land, lor, lxor (integers); matmul2x2 (uint64: a 2x2 matrix of 16-bit integers),
which is not commutative: algorithms that change the order of the ranks refuse it. rsum (float32,
float64): a sum with the same bits for any algorithm, number and order of ranks, and --segment;
every algorithm is measured with the plain sum, too, which it is compared with.
Types: int8 to int64, uint8 to uint64, float16, bfloat16, float32, float64, complex64, complex128.

\b
Of two-level and multi-leader the algorithms that they are made of are parameters; those have
their own behind slashes: two-level:inside=binomial:across=ring/segments=4. Ranks are on the nodes
where they run; to try what other nodes would do, --nodes 2 makes two of contiguous ranks, 2x4 two
of four ranks each, cyclic:2 places ranks in turn, and 0,0,1,1,1 names the node of every rank.

\b
The MPI library's own algorithms: library:NAME forces one of Open MPI's or MPICH's and measures it
in the same run beside the library's own choice, which is plain library; library:all forces all in
turn; library:NAME:segmentsize=65536 sets a parameter. hpccoll list --library prints the names and
parameters that the library has. A trial call shows first that the choice decides what runs. Where
it doesn't, or the library would silently run something else, the row is skipped with the reason:
no row has a name that didn't run.

\b
Exit codes: 0 all results right, 1 a check failed or a call hung, 2 usage.
"""


@click.command("bench", epilog=_EPILOG)
@click.argument("collective")
@options.plugin
@options.algorithm(
    "Algorithms, as name[:key=value]; values: 4, lists 3x4, ranges 1..4 or 1..32*2, names. "
    "library:NAME and library:all are the MPI library's, see below."
)
@options.nodes(
    "Place ranks on nodes otherwise than they are, for two-level and multi-leader; see below."
)
@click.option("--no-library", is_flag=True, help="Leave out the MPI library's own collective.")
@click.option("-b", "--min-bytes", metavar="SIZE", help="Smallest size.  [default: 8]")
@click.option("-e", "--max-bytes", metavar="SIZE", help="Largest size.  [default: 16MiB]")
@click.option("-f", "--factor", type=click.IntRange(2), help="From size to size.  [default: 2]")
@click.option(
    "--sizes", "size_list", metavar="SIZE[,SIZE...]", help="These sizes, instead of -b, -e and -f."
)
@click.option("-t", "--dtype", help="Element type.  [default: float32, or the operator's only one]")
@click.option("--op", default="sum", show_default=True, help="Operator, see below.")
@click.option(
    "--root", "root_text", default="0", show_default=True, metavar="0|N|all", help="Root rank."
)
@click.option("--in-place", is_flag=True, help="Input and result share a buffer; see below.")
@click.option(
    "--counts",
    default="equal",
    show_default=True,
    metavar="PATTERN",
    help="Sizes of the ranks' blocks: equal, linear, random[:SEED], one-empty, one-huge, or a file "
    "of shares, one per rank.",
)
@click.option(
    "--repetitions", type=click.IntRange(1), default=1000, show_default=True, help="At most."
)
@click.option(
    "--min-repetitions", type=click.IntRange(1), default=10, show_default=True, help="At least."
)
@click.option(
    "--target-ci",
    type=click.FloatRange(0, min_open=True),
    default=0.02,
    show_default=True,
    metavar="SHARE",
    help="Stop when the median's 95 % interval is within this share of it, for all algorithms.",
)
@options.time_budget("For all algorithms of one size together; then no more repetitions are made.")
@click.option(
    "--warmup",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    help="Untimed calls before, at most; no more than fit into a tenth of the budget.",
)
@options.engine
@click.option(
    "--thread-level",
    type=click.Choice(["single", "funneled", "serialized", "multiple"]),
    help="Of MPI.  [default: funneled, or multiple where ranks share cores]",
)
@click.option(
    "--sync",
    type=click.Choice(["barrier", "window", "none"]),
    default="barrier",
    show_default=True,
    help="How ranks begin a call: after hpccoll's own barrier, at an agreed time, or back to back.",
)
@click.option(
    "--arrival",
    default="none",
    show_default=True,
    metavar="PATTERN",
    help="Ranks come late: random:50us, late:RANK:1ms, ramp:100us; time counts from the last.",
)
@click.option(
    "--touch/--no-touch",
    default=True,
    show_default=True,
    help="Between calls, rewrite the input and read the result, as an application does.",
)
@click.option("--cold", is_flag=True, help="Between calls, fill the caches with something else.")
@options.accumulate()
@click.option(
    "--segment",
    default="auto",
    show_default=True,
    metavar="SIZE|auto|none",
    help="Longest piece of a message; auto: what is found fastest within a node.",
)
@click.option(
    "--window",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="Pieces that a receive has in flight.",
)
@click.option("--per-rank", is_flag=True, help="Say which rank is the last, and by how much.")
@click.option("--keep-samples", is_flag=True, help="Put every sample into the file.")
@options.seed("Of shuffling.")
@click.option("--no-check", is_flag=True, help="Don't check the results.")
@options.timeout
@options.output()
@options.force()
@click.option(
    "--top",
    type=click.IntRange(1),
    metavar="N",
    help="Of each size, print the N fastest and the library only; FILE has all.  [default: all, on "
    "a terminal, too, so that a log and a screen say the same and no row is missed unasked]",
)
@options.style("table", "jsonl", "csv")
def command(
    collective: str,
    output: str | None,
    force: bool,
    style: str,
    top: int | None,
    thread_level: str | None,
    **options: Any,
) -> None:
    """Measure the algorithms of COLLECTIVE beside the MPI library's own, and check the results.

    COLLECTIVE is one of those below. Start it under mpirun or srun: mpirun -n 4 hpccoll bench
    allreduce. Instead of a collective, kernels measures the reduction kernels of the native engine
    beside numpy's; of the options, sizes, -t and --op count.
    """
    if collective == "kernels":
        _kernels(options)
        return
    from hpccoll import launch, parsing, session, world

    asked = parsing.build(collective, **options)
    written = session.Output(output, force, style, top)
    started = launch.detect()
    ranks = world.start(started, thread_level)
    session.run(asked, ranks, started, written, click.echo)


def _kernels(options: dict[str, Any]) -> None:
    from hpccoll import datatypes, kernels, parsing
    from hpccoll.errors import UsageError

    dtype = datatypes.dtype(options["dtype"] or parsing.default_type(options["op"]))
    operator = datatypes.operator_for(options["op"], dtype)
    if operator.average:
        raise UsageError("avg has no kernel of its own: it is a sum and one division; use --op sum")
    if operator.plain:
        raise UsageError(
            f"{operator.name} has kernels for its accumulators, not for {dtype.name}; measure them "
            f"with hpccoll bench allreduce --op {operator.name}"
        )
    sizes = parsing.sizes(
        options["size_list"], options["min_bytes"], options["max_bytes"], options["factor"], dtype
    )
    click.echo(kernels.header(dtype, operator))
    for speed in kernels.measure(sizes, dtype, operator):
        click.echo(kernels.line(speed))
