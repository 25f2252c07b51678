"""Options that several commands have."""

import click


def _load(_context: click.Context, _option: click.Parameter, paths: tuple[str, ...]) -> None:
    from hpccoll import plugins

    plugins.load(paths)


plugin = click.option(
    "--plugin",
    multiple=True,
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=_load,
    help="A Python file with more algorithms; may be given several times.",
)
