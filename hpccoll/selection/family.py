"""What families of MPI libraries have in common: how an algorithm is found, forced and shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from hpccoll.layout import Message
from hpccoll.selection.probe import Probe
from hpccoll.selection.tool_interface import Settings, Variable


@dataclass(frozen=True, slots=True)
class Case:
    """The facts of a call on which a library's fallback to another algorithm can depend.

    Attributes
    ----------
    values
        Of the variables that belong to the function's algorithms.
    """

    message: Message
    size: int
    values: Mapping[str, int]


class Family(Protocol):
    """How a family of MPI libraries lets algorithms be chosen while a program runs."""

    rule: str
    """When the variables are set and read, in words."""

    def numbers(self, function: str) -> dict[str, int]:
        """Return the library's names for the algorithms of an MPI function, and their numbers.

        Raises
        ------
        UnsupportedError
            It has none that can be chosen.
        """

    def parameters(self, function: str) -> dict[str, Variable]:
        """Return the variables of an MPI function's algorithms by the end of their names."""

    def prove(self, function: str, probe: Probe) -> str:
        """Show that the choice decides what `function` does, and return in words what shows it.

        Raises
        ------
        UnsupportedError
            It doesn't, or it can't be shown.
        """

    def at_creation(self, function: str, number: int, parameters: Settings) -> Settings:
        """Return what has to be set while the communicator is made."""

    def in_calls(self, function: str, number: int, parameters: Settings) -> Settings:
        """Return what has to be set during the calls."""

    def otherwise(self, function: str, name: str, case: Case) -> str | None:
        """Say what the library is known to do instead in this case, without a word."""
