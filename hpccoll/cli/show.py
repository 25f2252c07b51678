"""`hpccoll show`."""

import click


@click.command("show")
@click.argument("names", nargs=-1, required=True, metavar="[COLLECTIVE] ALGORITHM")
@click.option("-p", "--ranks", type=click.IntRange(1), default=6, show_default=True)
@click.option("--root", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "--nodes",
    default=None,
    metavar="N|NxR|cyclic:N|NODE,NODE...",
    help="How the ranks lie on nodes, as for bench.  [default: 2]",
)
def command(names: tuple[str, ...], ranks: int, root: int, nodes: str | None) -> None:
    """Show what an algorithm does, round by round.

    ALGORITHM is written as for bench: name[:key=value]. Where several collectives have it, all that
    this number of ranks allows are shown, or the one of COLLECTIVE.
    """
    from hpccoll import draw
    from hpccoll.errors import UsageError
    from hpccoll.placement import place
    from hpccoll.registry import named

    if len(names) > 2:
        raise UsageError(f"show takes a collective and an algorithm, got {' '.join(names)}")
    if root >= ranks:
        raise UsageError(
            f"root {root} is out of range: {ranks} ranks are numbered 0 to {ranks - 1}"
        )
    choices = named(names[-1], names[0] if len(names) == 2 else None)
    if nodes is not None:
        choices = [choice.on(place(nodes, ranks)) for choice in choices]
    able = [choice for choice in choices if choice.supports(ranks)]
    if not able:
        choices[0].check(ranks)
    click.echo("\n\n".join(draw.text(choice, ranks, root) for choice in able))
