"""The catalogue: `algorithm` enters a schedule generator, everything else reads it from here."""

import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

from hpccoll.choice import Algorithm, Choice
from hpccoll.collectives import COLLECTIVES, Collective, collective
from hpccoll.cost import CANDIDATES
from hpccoll.errors import UsageError, unknown
from hpccoll.parameter import Parameter
from hpccoll.schedule import Rounds
from hpccoll.shapes import Requirement

Generator = TypeVar("Generator", bound=Callable[..., Rounds])

LIBRARY = "library"
"""The name under which the MPI library's own collective is chosen."""

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
            others=partial(catalogue, of),
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
