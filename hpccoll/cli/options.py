"""Options that several commands have; what differs between them is a parameter."""

from collections.abc import Callable
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


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


def algorithm(meaning: str) -> Decorator:
    """Return the option that chooses algorithms."""
    return click.option(
        "-a",
        "--algorithm",
        default="all",
        show_default=True,
        metavar="NAME[,NAME...]|all",
        help=meaning,
    )


root = click.option("--root", type=click.IntRange(0), default=0, show_default=True)

engine = click.option(
    "--engine",
    type=click.Choice(["auto", "native", "python"]),
    default="auto",
    show_default=True,
    help="What runs hpccoll's algorithms; auto: native where it was built.",
)

timeout = click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="A call that takes longer has hung: the job ends and says what each rank waits for.",
)


def nodes(
    meaning: str = "How the ranks lie on nodes, as for bench.  [default: 2]",
) -> Decorator:
    """Return the option that places ranks on nodes."""
    return click.option("--nodes", metavar="N|NxR|cyclic:N|NODE,NODE...", help=meaning)


def accumulate(partial: str = "results") -> Decorator:
    """Return the option that chooses the type of what is partial."""
    return click.option(
        "--accumulate",
        type=click.Choice(["storage", "float32"]),
        default="storage",
        show_default=True,
        help=f"Type of the partial {partial} of 16-bit floats.",
    )


def time_budget(meaning: str) -> Decorator:
    """Return the option that limits the time of repetitions."""
    return click.option(
        "--time-budget",
        type=click.FloatRange(0, min_open=True),
        default=2.0,
        show_default=True,
        metavar="SECONDS",
        help=meaning,
    )


def seed(meaning: str | None = None) -> Decorator:
    """Return the option that seeds what is drawn by chance."""
    return click.option(
        "--seed", type=click.IntRange(0), default=0, show_default=True, help=meaning
    )


def style(
    *names: str, default: str | None = "table", meaning: str = "What is printed."
) -> Decorator:
    """Return the option that chooses a format by its name."""
    return click.option(
        "--format",
        "style",
        type=click.Choice(names),
        default=default,
        show_default=True,
        help=meaning,
    )


def output(
    meaning: str = "Write JSON Lines as well.", file: str = "FILE", required: bool = False
) -> Decorator:
    """Return the option that names a file to write."""
    return click.option("-o", "--output", metavar=file, required=required, help=meaning)


def force(file: str = "FILE") -> Decorator:
    """Return the option that allows to overwrite files."""
    return click.option("--force", is_flag=True, help=f"Overwrite {file}.")
