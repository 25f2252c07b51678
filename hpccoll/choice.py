"""An algorithm as the catalogue has it, and the choice of one with values for its parameters."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TypeVar

from hpccoll.collectives import Collective
from hpccoll.combinators import forward, rotate
from hpccoll.cost import ASSUMED, Machine, fastest
from hpccoll.errors import UnsupportedError, UsageError
from hpccoll.parameter import Parameter, Value, format_value, spelled
from hpccoll.placement import Placement, even
from hpccoll.schedule import Rounds
from hpccoll.shapes import Requirement

Result = TypeVar("Result")

ACROSS = "across"
"""The part that runs across nodes, of an algorithm that is made of others; others run on each."""


@cache
def _further(function: Callable[..., object]) -> tuple[str, ...]:
    """Return the names of a function's parameters but the first."""
    return tuple(inspect.signature(function).parameters)[1:]


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One entry of the catalogue.

    Attributes
    ----------
    generate
        ``(rank, size, **parameters)`` → the rank's rounds, for root 0.
    natural
        Number of ranks → natural blocks of the vector; ``segments`` multiplies it. Parameters that
        it names as well are passed.
    rounds, messages, sent, reduced
        Closed forms (see `hpccoll.cost`): steps on the critical path, and per rank at most:
        messages sent, bytes sent, bytes reduced.
    commutative
        The algorithm needs a commutative operator.
    clocked
        Both ends of every message have the same clock, so that the schedule can be merged.
    same_bits
        Of a reduction whose result every rank gets: all get the same bits.
    placed
        The generator also takes ``nodes``, the `Placement` of the ranks. Its closed forms are those
        of the default parts where all nodes have equally many ranks.
    pieces
        ``(nodes, **parameters)`` → names that a natural block consists of, if not ``segments``.
    chosen
        Parameters that, where they aren't given, get the values for which `time` is least.
    time
        Closed form of the seconds that the model expects (see `hpccoll.cost`).
    others
        Returns all algorithms of the collective: a refusal names those that would do.
    """

    collective: Collective
    name: str
    generate: Callable[..., Rounds]
    summary: str
    source: str
    parameters: Mapping[str, Parameter]
    natural: Callable[..., int]
    rounds: str
    messages: str
    sent: str
    reduced: str
    requires: Requirement | None = None
    commutative: bool = False
    clocked: bool = False
    same_bits: bool = True
    placed: bool = False
    pieces: Callable[..., int] | None = None
    aliases: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
    time: str = ""
    others: Callable[[], tuple["Algorithm", ...]] = tuple

    @property
    def made_of(self) -> dict[str, str]:
        """Return the parameters that name other algorithms, and of which collective."""
        parts = {p.name: p.default for p in self.parameters.values()}
        return {
            name: part.algorithm.collective.name
            for name, part in parts.items()
            if isinstance(part, Choice)
        }

    def supports(self, size: int, values: Mapping[str, Value] | None = None) -> bool:
        """Tell whether the algorithm is defined for `size` ranks (other `values` than default)."""
        return self.requires is None or self._applied(self.requires.met, size, values)

    def blocks(self, size: int, values: Mapping[str, Value] | None = None) -> int:
        """Return the number of natural blocks on `size` ranks; `values` as in `supports`."""
        return self._applied(self.natural, size, values)

    def _applied(
        self, function: Callable[..., Result], size: int, values: Mapping[str, Value] | None
    ) -> Result:
        """Call a function of the number of ranks with those parameters that it names as well."""
        given = {p.name: p.default for p in self.parameters.values()} | dict(values or {})
        return function(size, **{name: given[name] for name in _further(function) if name in given})


@dataclass(frozen=True, slots=True)
class Choice:
    """An algorithm with values for its parameters.

    Attributes
    ----------
    nodes
        The placement of the ranks, for an algorithm that asks for it. Default: the two halves of
        the ranks are two nodes.
    """

    algorithm: Algorithm
    parameters: Mapping[str, Value] = field(default_factory=dict)
    nodes: Placement | None = None

    @property
    def label(self) -> str:
        """Return the spelling that chooses this, defaults left out: ``ring:segments=4``."""
        defaults = self.algorithm.parameters
        return self.algorithm.name + "".join(
            spelled(name, value)
            for name, value in sorted(self.parameters.items())
            if name in self.algorithm.chosen
            or format_value(value) != format_value(defaults[name].default)
        )

    @property
    def _free(self) -> list[str]:
        """Return its own parameters that are left to the model."""
        return [name for name in self.algorithm.chosen if name not in self.parameters]

    @property
    def free(self) -> bool:
        """Tell whether a parameter, or one of a part's, is left to the model."""
        return bool(self._free) or any(part.free for part in self.parts.values())

    def resolved(self, size: int, n: int, machine: Machine = ASSUMED) -> "Choice":
        """Return the choice with what the model chooses for a vector of `n` bytes on `size` ranks.

        Without a message (to draw or to prove a schedule) these parameters have their defaults.
        """
        entry = self.algorithm
        chosen: dict[str, Value] = {}
        if free := self._free:
            chosen |= fastest(entry.time, size, n, free, self.values, machine)
        for name, part in self.parts.items():
            resolved = part.resolved(max(self._ranks(name, size)), n, machine)
            if resolved is not part:
                chosen[name] = resolved
        return replace(self, parameters={**self.parameters, **chosen}) if chosen else self

    def blocks(self, size: int) -> int:
        """Return the number of natural blocks on `size` ranks."""
        return self.algorithm.blocks(size, self.parameters)

    def grid(self, size: int) -> int:
        """Return the number of blocks that the schedule names on `size` ranks."""
        pieces = self.values.get("segments", 1)
        if self.algorithm.pieces:
            pieces = self.algorithm.pieces(self.placement(size), **self.values)
        assert isinstance(pieces, int)
        return self.blocks(size) * pieces

    def vector(self, size: int) -> int:
        """Return the number of blocks of one rank's vector, whose bytes are the size."""
        return self.grid(size) // self.algorithm.collective.vectors(size)

    @property
    def values(self) -> dict[str, Value]:
        """Return every parameter's value, defaults included."""
        return {p.name: p.default for p in self.algorithm.parameters.values()} | dict(
            self.parameters
        )

    @property
    def parts(self) -> "dict[str, Choice]":
        """Return the algorithms that this one is made of, by their parameters."""
        return {name: part for name, part in self.values.items() if isinstance(part, Choice)}

    @property
    def same_bits(self) -> bool:
        """Tell whether all ranks that get a reduced block get the same bits."""
        return self.algorithm.same_bits and all(part.same_bits for part in self.parts.values())

    def on(self, nodes: Placement) -> "Choice":
        """Return the same for ranks that are placed so."""
        return replace(self, nodes=nodes) if self.algorithm.placed else self

    def placement(self, size: int) -> Placement:
        """Return the placement of the ranks."""
        nodes = self.nodes or even(size, min(2, size))
        if nodes.size != size:
            raise UsageError(f"{nodes.size} ranks were placed on nodes, but there are {size}")
        return nodes

    def _ranks(self, part: str, size: int) -> list[int]:
        """Return the numbers of ranks among which a part runs."""
        nodes = self.placement(size)
        return [nodes.count] if part == ACROSS else sorted(nodes.sizes)

    def as_declared(self, size: int) -> bool:
        """Tell whether the closed forms hold (see `Algorithm.placed`)."""
        if not self.algorithm.placed:
            return True
        default = self.label == self.algorithm.name
        return default and len(self.placement(size).sizes) == 1

    def schedule(self, rank: int, size: int, root: int = 0, ordered: bool = False) -> Rounds:
        """Return the rounds of `rank`.

        Parameters
        ----------
        ordered
            Keep the operands in the order of the ranks, so that the root can't be rotated: what is
            reduced at rank 0 is sent on.

        Raises
        ------
        UnsupportedError
            The algorithm isn't defined for `size` ranks.
        """
        self.check(size)
        collective = self.algorithm.collective
        given: dict[str, Value | Placement] = {**self.values}
        if self.algorithm.placed:
            given["nodes"] = self.placement(size).rotated(root if collective.rooted else 0)

        def generate(rank: int, size: int) -> Rounds:
            return self.algorithm.generate(rank, size, **given)

        if not (collective.rooted and root):
            return generate(rank, size)
        if ordered and collective.reduces:
            return forward(generate, root, self.grid(size))(rank, size)
        return rotate(generate, root, self.grid(size) if collective.irregular else None)(rank, size)

    def supports(self, size: int) -> bool:
        """Tell whether the algorithm with these parameters is defined for `size` ranks."""
        return self.algorithm.supports(size, self.parameters) and not any(self._unmet(size))

    def check(self, size: int) -> None:
        """Raise `UnsupportedError` if the algorithm isn't defined for `size` ranks."""
        entry = self.algorithm
        for problem in self._unmet(size):
            raise UnsupportedError(problem)
        if entry.supports(size, self.parameters):
            return
        assert entry.requires is not None
        others = [a.name for a in entry.others() if a.supports(size)]
        fewer = max((s for s in range(1, size) if self.supports(s)), default=None)
        remedies = [f"--algorithm {' or '.join(others)}"] if others else []
        remedies += [f"{fewer} rank{'s' if fewer > 1 else ''}"] if fewer else []
        remedy = f"; use {', or '.join(remedies)}" if remedies else ""
        raise UnsupportedError(f"{self.label} needs {entry.requires.sentence}, got {size}{remedy}")

    def _unmet(self, size: int) -> Iterator[str]:
        """Yield, in words, what parts aren't defined for."""
        for name, part in self.parts.items():
            for ranks in self._ranks(name, size):
                if part.supports(ranks):
                    continue
                requires = part.algorithm.requires
                needs = requires.sentence if requires else "its own number of ranks"
                got = f"{ranks} {'node' if name == ACROSS else 'rank'}{'s' * (ranks > 1)}"
                others = [
                    a.name for a in part.algorithm.others() if not a.placed and a.supports(ranks)
                ]
                yield (
                    f"{self.algorithm.name}:{name}={format_value(part)} needs {needs}, got {got}"
                    f"{'' if name == ACROSS else ' on a node'}; use {name}={' or '.join(others)}"
                )
