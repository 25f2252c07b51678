"""How the elements of a sweep are spelled on their command's command line, and run."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpccoll.errors import UsageError, unknown
from hpccoll.sweep import planning, sweep_file
from hpccoll.sweep.plan import Allocation, Estimate, Option, Plan

if TYPE_CHECKING:
    from hpccoll.launch import Launch
    from hpccoll.session import Continuation
    from hpccoll.world import World

COMMANDS = ("bench", "layernorm")
"""The commands that can be swept: each has a module in `hpccoll.sweep`."""

KEYS = {"nodes": "placement"}
"""Options that have another key in a sweep file, where their own name means something else."""

_OF_THE_SWEEP = ("output", "force", "format", "report", "from")
"""Options about where results go or come from, which the sweep decides."""


@dataclass(frozen=True, slots=True)
class Words:
    """An element's command line.

    Attributes
    ----------
    words
        The arguments of the command.
    options
        What the command makes of them.
    """

    command: str
    words: tuple[str, ...]
    options: Mapping[str, Any]

    def __str__(self) -> str:
        """Return it as it would be typed into a shell."""
        return shlex.join(["hpccoll", self.command, *self.words])


def spell(name: str, options: Mapping[str, Option]) -> Words:
    """Return the command line of an element.

    Raises
    ------
    UsageError
        The command has no such key, or refuses a value.
    """
    if name not in COMMANDS:
        raise UsageError(unknown("command of a sweep", name, COMMANDS))
    command: click.Command = import_module(f"hpccoll.cli.{name}").command
    words = _words(command, options)
    try:
        context = command.make_context(name, list(words))
    except click.UsageError as error:
        raise UsageError(error.format_message()) from None
    return Words(name, words, context.params)


def _words(command: click.Command, options: Mapping[str, Option]) -> tuple[str, ...]:
    parameters = _parameters(command)
    named, positional = list[str](), list[str]()
    for key, value in options.items():
        if key not in parameters:
            raise UsageError(unknown("key", key, parameters))
        parameter = parameters[key]
        if isinstance(parameter, click.Option):
            named += _option(parameter, key, value)
        else:
            positional.append(_text(key, value))
    return (*named, "--", *positional) if positional else tuple(named)


def _parameters(command: click.Command) -> dict[str, click.Parameter]:
    """Return the command's parameters by their keys in a sweep file."""
    found = {}
    for parameter in command.params:
        names = [name[2:] for name in parameter.opts if name.startswith("--")]
        name = names[0] if names else parameter.opts[0]
        if name not in _OF_THE_SWEEP:
            found[KEYS.get(name, name)] = parameter
    return found


def _option(option: click.Option, key: str, value: Option) -> list[str]:
    """Return an option's words, each name with its value in one, so that none is taken apart."""
    name = max(option.opts, key=len)
    if option.is_flag:
        if not isinstance(value, bool):
            raise UsageError(f"{key} is true or false, got {value!r}")
        return [name] if value else option.secondary_opts[:1]
    if option.multiple:
        several = value if isinstance(value, tuple) else (value,)
        return [f"{name}={_text(key, one)}" for one in several]
    return [f"{name}={_text(key, value)}"]


def _text(key: str, value: Option) -> str:
    if isinstance(value, bool):
        raise UsageError(f"{key} takes a value, got {value!r}")
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def check(name: str, allocation: Allocation, options: Mapping[str, Option]) -> Estimate:
    """Check an element as its command would, and return what it will need.

    Raises
    ------
    UsageError
        The command would refuse it.
    """
    spelled = spell(name, options)
    found: Estimate = import_module(f"hpccoll.sweep.{name}").check(allocation, spelled.options)
    return found


def plan(file: Path) -> Plan:
    """Return the plan of a sweep file.

    Raises
    ------
    UsageError
        It can't be read, or an element can't run; the message names the file.
    """
    described = sweep_file.read(file)
    try:
        return planning.plan(described, partial(check, described.command))
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from None


def session(spelled: Words, world: "World", launch: "Launch", continuation: "Continuation") -> None:
    """Run an element's command on all ranks together."""
    module = import_module(f"hpccoll.sweep.{spelled.command}")
    module.session(spelled.options, world, launch, click.echo, continuation)
