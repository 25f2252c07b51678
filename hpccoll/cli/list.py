"""`hpccoll list`."""

import click


@click.command("list")
@click.argument("collective", required=False)
@click.option("--markdown", is_flag=True, help="The table of the README.")
def command(collective: str | None, markdown: bool) -> None:
    """List all algorithms: what they do, cost and need, and where they come from."""
    from hpccoll import collectives, listing

    if collective is not None:
        collectives.collective(collective)
    click.echo(listing.markdown() if markdown else listing.text(collective))
