"""Advice: which algorithm to use for which sizes, by how much it wins, and if that is clear."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, TypeVar

from hpccoll.columns import span
from hpccoll.units import format_size

Entry = TypeVar("Entry")

_NAMED = 3
"""Algorithms that a line names; of more there is only the number."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to use for one size and root, and how its time compares to the alternative's.

    Attributes
    ----------
    against
        The alternative, empty where there is none.
    ties
        Further algorithms that don't differ clearly from the one to use, the fastest first.
    """

    size: int
    use: str
    against: str = ""
    ratio: float = 1.0
    clear: bool = True
    ties: tuple[str, ...] = ()
    root: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Contender(Generic[Entry]):
    """An algorithm whose result is right, its median time, and what was measured."""

    name: str
    time: float
    library: bool
    entry: Entry


def advise(
    size: int,
    root: int | None,
    contenders: Iterable[Contender[Entry]],
    same: Callable[[Entry, Entry], bool],
) -> Advice | None:
    """Compare the fastest with the library, or where it is or lacks that, with the next.

    `same` tells whether two measurements have no clear difference.
    """
    ordered = sorted(contenders, key=lambda contender: contender.time)
    if not ordered:
        return None
    best, *rest = ordered
    rival = next((other for other in rest if other.library), rest[0] if rest else None)
    if rival is None or not rival.time:
        return Advice(size, best.name, root=root)
    ties = [other for other in rest if same(other.entry, best.entry)]
    return Advice(
        size=size,
        use=best.name,
        against="the library" if rival.library else rival.name,
        ratio=best.time / rival.time,
        clear=rival not in ties,
        ties=tuple(other.name for other in ties if other is not rival),
        root=root,
    )


def lines(items: Iterable[Advice]) -> list[str]:
    """Return a line per range of sizes with the same advice; of several roots, each has its own.

    Ties are those at all sizes of the range.
    """
    by_root = sorted(items, key=lambda item: item.root or 0)
    several = len({item.root for item in by_root}) > 1
    runs = groupby(by_root, key=lambda item: (item.root, item.use, item.against, item.clear))
    return [_line(list(run), several) for _, run in runs]


def _line(run: Sequence[Advice], several: bool) -> str:
    first = run[0]
    ties = [name for name in first.ties if all(name in item.ties for item in run)]
    sizes = span(format_size(first.size), format_size(run[-1].size))
    where = f"root {first.root}, {sizes}" if several else sizes
    return f"  {where:<22} {_names([first.use, *ties]):<24} {_words(run)}"


def _words(run: Sequence[Advice]) -> str:
    first, ratios = run[0], [item.ratio for item in run]
    if not first.against:
        return "the only one measured"
    factor = span(f"{min(ratios):.2f}", f"{max(ratios):.2f}")
    unclear = "" if first.clear else ", not a clear difference"
    return f"takes {factor} of the time of {first.against}{unclear}"


def _names(names: Sequence[str]) -> str:
    """Join names by "or"."""
    if len(names) > _NAMED:
        names = [*names[: _NAMED - 1], f"{len(names) - _NAMED + 1} more"]
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last
