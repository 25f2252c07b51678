"""`hpccoll list`."""

import click


@click.command("list")
@click.argument("collective", required=False)
@click.option("--markdown", is_flag=True, help="The table of the README.")
@click.option(
    "--library",
    is_flag=True,
    help="Instead, the MPI library's own that can be chosen by name; starts MPI to ask it.",
)
def command(collective: str | None, markdown: bool, library: bool) -> None:
    """List all algorithms: what they do, cost and need, and where they come from."""
    from hpccoll import collectives, listing

    if collective is not None:
        collectives.collective(collective)
    if library:
        from hpccoll import launch, world
        from hpccoll.selection import names

        click.echo(names.text(world.start(launch.detect()).library, collective))
        return
    click.echo(listing.markdown() if markdown else listing.text(collective))
