"""`hpccoll show`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hpccoll.cli import options

if TYPE_CHECKING:
    from hpccoll.layout import Message

_EPILOG = """\b
Formats (with -o, the suffix of FILE says which):
  text       .txt   costs and, round by round, who sends what to whom
  svg        .svg   the picture: ranks are lanes, rounds are columns
  json       .json  all rounds of all ranks, for programs of your own
  goal       .goal  for the network simulator LogGOPSim
  msccl-xml  .xml   for MSCCL, which runs it on GPUs
"""


@click.command("show", epilog=_EPILOG)
@click.argument("names", nargs=-1, required=True, metavar="[COLLECTIVE] ALGORITHM")
@options.plugin
@click.option("-p", "--ranks", type=click.IntRange(1), default=6, show_default=True)
@options.root
@options.nodes()
@options.style(
    *("text", "svg", "json", "goal", "msccl-xml"),
    default=None,
    meaning="See below.  [default: text]",
)
@click.option("--bytes", "length", metavar="SIZE", help="Of goal: the vector.  [default: 1MiB]")
@click.option("-t", "--dtype", metavar="TYPE", help="Of goal: its elements.  [default: float32]")
@options.output("Write to a file.")
@options.force()
def command(
    names: tuple[str, ...],
    ranks: int,
    root: int,
    nodes: str | None,
    style: str | None,
    length: str | None,
    dtype: str | None,
    output: str | None,
    force: bool,
) -> None:
    """Show what an algorithm does, round by round.

    ALGORITHM is written as for bench: name[:key=value]. Where several collectives have it, text
    shows it in all that this number of ranks allows, or in COLLECTIVE; other formats and files show
    the first.
    """
    from hpccoll.errors import UsageError
    from hpccoll.export.formats import format_of, render
    from hpccoll.layout import Message
    from hpccoll.placement import place
    from hpccoll.spelling import named

    if len(names) > 2:
        raise UsageError(f"show takes a collective and an algorithm, got {' '.join(names)}")
    if root >= ranks:
        raise UsageError(
            f"root {root} is out of range: {ranks} ranks are numbered 0 to {ranks - 1}"
        )
    style = style or (format_of(Path(output)) if output else "text")
    if style != "goal" and (length or dtype):
        raise UsageError("--bytes and --dtype are for --format goal; blocks have no size")
    choices = named(names[-1], names[0] if len(names) == 2 else None)
    if nodes is not None:
        choices = [choice.on(place(nodes, ranks)) for choice in choices]
    able = [choice for choice in choices if choice.supports(ranks)]
    if not able:
        choices[0].check(ranks)
    message = _message(length, dtype, root) if style == "goal" else Message(0, 1, root)
    if output is None:
        shown = able if style == "text" else able[:1]
        click.echo("\n".join(render(style, choice, ranks, message) for choice in shown), nl=False)
        return
    _write(Path(output), render(style, able[0], ranks, message), force)
    entry = able[0].algorithm
    click.echo(f"{output}: {entry.collective.name} {able[0].label}, {ranks} ranks")


def _message(length: str | None, dtype: str | None, root: int) -> "Message":
    from hpccoll import datatypes, parsing
    from hpccoll.layout import Message
    from hpccoll.units import parse_size

    element = datatypes.dtype(dtype or "float32")
    (size,) = parsing.sizes(str(parse_size(length or "1MiB")), None, None, None, element)
    return Message(size // element.itemsize, element.itemsize, root)


def _write(path: Path, text: str, force: bool) -> None:
    from hpccoll.errors import unwritable

    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise unwritable(path, error) from None
