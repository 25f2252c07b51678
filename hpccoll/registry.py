"""The catalogue: `algorithm` enters a schedule generator, everything else reads it from here."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeAlias, TypeVar

from hpccoll.collectives import COLLECTIVES, Collective, collective
from hpccoll.combinators import forward, rotate
from hpccoll.cost import ASSUMED, CANDIDATES, Machine, fastest
from hpccoll.errors import UnsupportedError, UsageError, unknown
from hpccoll.placement import Placement, even
from hpccoll.schedule import Rounds
from hpccoll.shapes import Requirement

Value: TypeAlias = "int | tuple[int, ...] | Choice"
Generator = TypeVar("Generator", bound=Callable[..., Rounds])
Result = TypeVar("Result")

LIBRARY = "library"
"""The name under which the MPI library's own collective is chosen."""
ACROSS = "across"
"""The part that runs across nodes, of an algorithm that is made of others; others run on each."""


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
        if isinstance(value, Choice):
            return
        if isinstance(value, tuple) != isinstance(self.default, tuple):
            shape = "a list such as 3x4" if isinstance(self.default, tuple) else "one number"
            raise UsageError(f"{self.name} takes {shape}, got {format_value(value)}")
        least = min(value, default=self.minimum) if isinstance(value, tuple) else value
        if least < self.minimum:
            raise UsageError(f"{self.name} must be at least {self.minimum}, got {least}")


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
        names = list(inspect.signature(function).parameters)[1:]
        return function(size, **{name: given[name] for name in names if name in given})


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
        others = [a.name for a in catalogue(entry.collective.name) if a.supports(size)]
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
                requires, of = part.algorithm.requires, part.algorithm.collective.name
                needs = requires.sentence if requires else "its own number of ranks"
                got = f"{ranks} {'node' if name == ACROSS else 'rank'}{'s' * (ranks > 1)}"
                others = [a.name for a in plain(of) if a.supports(ranks)]
                yield (
                    f"{self.algorithm.name}:{name}={format_value(part)} needs {needs}, got {got}"
                    f"{'' if name == ACROSS else ' on a node'}; use {name}={' or '.join(others)}"
                )


_ENTRIES: dict[str, dict[str, Algorithm]] = {name: {} for name in COLLECTIVES}


def algorithm(
    of: str,
    *,
    name: str | None = None,
    rounds: str,
    sent: str,
    messages: str | None = None,
    reduced: str = "0",
    blocks: int | Callable[..., int] | None = None,
    minimum: Mapping[str, int] | None = None,
    requires: Requirement | None = None,
    commutative: bool = False,
    clocked: bool = False,
    same_bits: bool = True,
    pieces: Callable[..., int] | None = None,
    aliases: tuple[str, ...] = (),
    chosen: tuple[str, ...] = (),
    time: str = "",
) -> Callable[[Generator], Generator]:
    """Enter a generator ``(rank, size, **parameters)`` of rounds into the catalogue.

    Parameters
    ----------
    of
        Name of the collective.
    name
        Name of the algorithm; default: the function's.
    messages
        Closed form; default: as many as rounds.
    blocks
        Natural blocks, as a number or a function of the number of ranks (and of parameters that it
        names); default: those that the caller of the collective sees.
    minimum
        Least value of a parameter; default 1.

    The other parameters are attributes of `Algorithm`. The function's keyword parameters become the
    tunables, its docstring's first line and References are printed; ``nodes`` is the placement. A
    default that is a `Choice` makes another algorithm a part of this one: ``across`` for as many
    ranks as there are nodes, any other for those of a node.
    """

    def enter(generate: Generator) -> Generator:
        summary, source = _describe(generate)
        own = name or generate.__name__.replace("_", "-")
        entry = Algorithm(
            collective(of),
            own,
            generate,
            summary,
            source,
            parameters=_parameters(generate, minimum or {}),
            natural=_natural(blocks, collective(of)),
            rounds=rounds,
            messages=rounds if messages is None else messages,
            sent=sent,
            reduced=reduced,
            requires=requires,
            commutative=commutative,
            clocked=clocked,
            same_bits=same_bits,
            placed="nodes" in inspect.signature(generate).parameters,
            pieces=pieces,
            aliases=aliases,
            chosen=chosen,
            time=time,
        )
        if strange := set(chosen) - (entry.parameters.keys() & CANDIDATES.keys()):
            raise ValueError(f"{own}: the model can't choose {', '.join(sorted(strange))}")
        taken = {n for a in _ENTRIES[of].values() for n in (a.name, *a.aliases)} | {LIBRARY, "all"}
        if again := taken & {own, *aliases}:
            raise ValueError(f"{of} has an algorithm called {', '.join(sorted(again))} already")
        _ENTRIES[of][own] = entry
        return generate

    return enter


def _natural(blocks: int | Callable[..., int] | None, of: Collective) -> Callable[..., int]:
    if blocks is None:
        return of.natural
    return (lambda size: blocks) if isinstance(blocks, int) else blocks


def _describe(generate: Callable[..., Rounds]) -> tuple[str, str]:
    text = inspect.getdoc(generate) or ""
    summary = text.split("\n", 1)[0]
    if not summary:
        raise ValueError(f"{generate.__name__} needs a docstring: its first line is what users see")
    found = re.search(r"References\n-+\n(.+)", text, re.DOTALL)
    return summary, " ".join(found.group(1).split()) if found else ""


def _parameters(
    generate: Callable[..., Rounds], minimum: Mapping[str, int]
) -> dict[str, Parameter]:
    found = list(inspect.signature(generate).parameters.values())[2:]
    keywords = [p for p in found if p.name != "nodes"]
    if bare := [p.name for p in keywords if p.default is p.empty]:
        raise ValueError(f"{generate.__name__}: {', '.join(bare)} needs a default")
    return {p.name: Parameter(p.name, p.default, minimum.get(p.name, 1)) for p in keywords}


def catalogue(of: str | None = None) -> tuple[Algorithm, ...]:
    """Return all algorithms, or those of one collective, in the order of their names."""
    import hpccoll.algorithms

    for module in iter_modules(hpccoll.algorithms.__path__):
        import_module(f"hpccoll.algorithms.{module.name}")
    chosen = COLLECTIVES if of is None else (collective(of).name,)
    return tuple(_ENTRIES[name][entry] for name in chosen for entry in sorted(_ENTRIES[name]))


def plain(of: str) -> tuple[Algorithm, ...]:
    """Return the algorithms of one collective that can be parts of others: they need no nodes."""
    return tuple(entry for entry in catalogue(of) if not entry.placed)


def choice_of(generate: Callable[..., Rounds]) -> Choice:
    """Return the algorithm that a generator was entered as, for a default of another's part."""
    entries = (entry for by_name in _ENTRIES.values() for entry in by_name.values())
    return Choice(next(entry for entry in entries if entry.generate is generate))


def find(of: str, name: str) -> Algorithm:
    """Return the algorithm of a collective by its name or alias.

    Raises
    ------
    UsageError
        There is none of that name; the message suggests the nearest and lists the valid ones.
    """
    entries = catalogue(of)
    for entry in entries:
        if name in (entry.name, *entry.aliases):
            return entry
    names = [n for entry in entries for n in (entry.name, *entry.aliases)]
    raise UsageError(unknown(f"{of} algorithm", name, [*names, LIBRARY]))


def spelled(name: str, value: Value) -> str:
    """Return the spelling of a parameter and its value behind an algorithm's name."""
    return f":{name}={format_value(value)}"


def format_value(value: Value) -> str:
    """Return the spelling of a parameter's value; an empty list leaves it to the algorithm."""
    if isinstance(value, Choice):
        return value.label.replace(":", "/")
    return "x".join(map(str, value)) or "auto" if isinstance(value, tuple) else str(value)
