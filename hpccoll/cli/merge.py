"""`hpccoll merge`."""

import click

from hpccoll.cli import options

_EPILOG = """\b
Files are what `hpccoll bench -o FILE` writes, a launch each, of one MPI library and one number of
ranks; they may be of several collectives. Launches differ where the fastest and the slowest of
them do by the rank test, or without samples, where their 95 % intervals don't overlap. An
algorithm is called faster or slower than the library where it is in every launch.
"""


@click.command("merge", epilog=_EPILOG)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@options.output()
@options.force()
@options.style("table", "jsonl")
def command(files: tuple[str, ...], output: str | None, force: bool, style: str) -> None:
    """Merge result files of several launches: median, spread, and whether launches differ.

    \b
    for i in 1 2 3; do mpirun -n 4 hpccoll bench allreduce -o run$i.jsonl; done
    hpccoll merge run1.jsonl run2.jsonl run3.jsonl
    """  # noqa: D301 - click reads the backspace as "don't wrap"
    from pathlib import Path

    from hpccoll import merge, merge_table, results

    launches = merge.read_all(files)
    merged = merge.merge(launches)
    records = list(merge.records(launches, merged))
    if output is not None:
        with results.Writer(Path(output), force) as writer:
            for record in records:
                writer.write(record)
    if style == "jsonl":
        click.echo("\n".join(map(results.to_json, records)))
    else:
        click.echo(merge_table.text(launches, merged))
