"""The parameters of algorithms: their values, and how these are checked and spelled."""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from hpccoll.errors import UsageError


class Part(Protocol):
    """An algorithm as the value of a parameter of another that is made of it."""

    @property
    def label(self) -> str:
        """Return the spelling that chooses it."""


Value: TypeAlias = int | tuple[int, ...] | Part


@dataclass(frozen=True, slots=True)
class Parameter:
    """A tunable of an algorithm: a keyword of its generator with a default.

    Where the default is a `Choice`, the algorithm is made of others and this names one of them.
    """

    name: str
    default: Value
    minimum: int

    def read(self, value: Value) -> Value:
        """Return a value as it was written in the parameter's shape: one number may be a list.

        Raises
        ------
        UsageError
            It has the wrong shape or is too small.
        """
        if isinstance(self.default, tuple) and isinstance(value, int):
            value = (value,)
        self.check(value)
        return value

    def check(self, value: Value) -> None:
        """Raise `UsageError` if `value` has the wrong shape or is too small."""
        if not isinstance(value, int | tuple):
            return
        if isinstance(value, tuple) != isinstance(self.default, tuple):
            shape = "a list such as 3x4" if isinstance(self.default, tuple) else "one number"
            raise UsageError(f"{self.name} takes {shape}, got {format_value(value)}")
        least = min(value, default=self.minimum) if isinstance(value, tuple) else value
        if least < self.minimum:
            raise UsageError(f"{self.name} must be at least {self.minimum}, got {least}")


def spelled(name: str, value: Value | str) -> str:
    """Return the spelling of a parameter and its value behind an algorithm's name."""
    return f":{name}={format_value(value)}"


def format_value(value: Value | str) -> str:
    """Return the spelling of a parameter's value, which in a record a part has already.

    An empty list leaves the choice to the algorithm.
    """
    if isinstance(value, tuple):
        return "x".join(map(str, value)) or "auto"
    return str(value) if isinstance(value, int | str) else value.label.replace(":", "/")
