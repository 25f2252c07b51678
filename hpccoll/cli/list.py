"""`hpccoll list`."""

from pathlib import Path

import click

from hpccoll.cli import options


@click.command("list")
@click.argument("collective", required=False)
@options.plugin
@click.option(
    "--markdown", is_flag=True, help="As a Markdown table; without COLLECTIVE only names."
)
@click.option(
    "--pages",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write a page per collective, with pictures, into DIR.",
)
@click.option(
    "--library",
    is_flag=True,
    help="Instead, the MPI library's own that can be chosen by name; starts MPI to ask it.",
)
def command(collective: str | None, markdown: bool, pages: Path | None, library: bool) -> None:
    """List all algorithms: what they do, cost and need, and where they come from."""
    from hpccoll import collectives, listing

    if collective is not None:
        collectives.collective(collective)
    if library:
        from hpccoll import launch, world
        from hpccoll.selection import names

        click.echo(names.text(world.start(launch.detect()).library, collective))
        return
    if pages is not None:
        _write(pages)
        return
    if markdown:
        click.echo(listing.markdown(collective) if collective else listing.index())
    else:
        click.echo(listing.text(collective))


def _write(directory: Path) -> None:
    from hpccoll.errors import unwritable_folder
    from hpccoll.pages import pages

    written = 0
    try:
        (directory / "pictures").mkdir(parents=True, exist_ok=True)
        for path, text in pages():
            (directory / path).write_text(text, encoding="utf-8")
            written += 1
    except OSError as error:
        raise unwritable_folder(error.filename, error, "--pages") from None
    click.echo(f"{written} files in {directory}")
