"""`hpccoll verify`."""

import os
import re

import click

from hpccoll.cli import options


@click.command("verify")
@click.argument("collective", required=False)
@options.plugin
@click.option(
    "-p", "--ranks", default="1:64", show_default=True, help="A number of ranks or a range."
)
@click.option("-a", "--algorithm", default="all", show_default=True, help="NAME[,NAME...] or all.")
@click.option(
    "--beyond",
    type=click.IntRange(0),
    metavar="N",
    help="Also prove each on N numbers of ranks beyond, up to 1024.  [default: 2 for a range]",
)
@options.seed("Of drawing.")
@click.option(
    "--jobs", type=click.IntRange(1), metavar="N", help="Processes.  [default: one per core]"
)
def command(
    collective: str | None,
    ranks: str,
    algorithm: str,
    beyond: int | None,
    seed: int,
    jobs: int | None,
) -> None:
    """Prove the algorithms for every number of ranks, without MPI.

    All ranks are executed on names instead of numbers, with synchronous sends. What is proven:
    every rank ends with the right blocks, each with every contribution once; no deadlock; the order
    of operands and equal bits on every rank, where claimed; and that steps, messages, bytes and
    reductions equal the printed formulas. Algorithms that ask for nodes are proven on a spread of
    placements. A wrong algorithm gives rank, round and block, and exit code 1.

    Of a range, each algorithm is also proven on some numbers of ranks beyond, drawn by chance;
    those on which the proof would take too long are left out and counted.
    """
    from hpccoll.proofs import conclusion, prove_all
    from hpccoll.registry import catalogue
    from hpccoll.spelling import named
    from hpccoll.verify import prove_rotation

    sizes = _sizes(ranks)
    entries = catalogue(collective)
    if algorithm != "all":
        entries = tuple(
            choice.algorithm for name in algorithm.split(",") for choice in named(name, collective)
        )
    draws = 2 * (len(sizes) > 1) if beyond is None else beyond
    jobs = jobs or len(os.sched_getaffinity(0))
    reports = []
    for report in prove_all(entries, sizes, draws, seed, jobs):
        click.echo(report.line())
        reports.append(report)
    for size in sizes:
        prove_rotation(size)
    click.echo(conclusion(reports, sizes, draws, seed))
    if any(report.findings.failures for report in reports):
        raise SystemExit(1)


def _sizes(text: str) -> range:
    from hpccoll.errors import UsageError

    found = re.fullmatch(r"(\d+)(?::(\d+))?", text)
    if not found or int(found[1]) < 1 or int(found[2] or found[1]) < int(found[1]):
        raise UsageError(f"--ranks takes a number or a range such as 1:64, got {text!r}")
    return range(int(found[1]), int(found[2] or found[1]) + 1)
