"""How the command line is read: its words become a request, before MPI starts."""

from typing import Any

import numpy as np

from hpccoll import datatypes, irregular
from hpccoll.arrival import parse as parse_arrival
from hpccoll.choice import Choice
from hpccoll.collectives import Collective, collective
from hpccoll.datatypes import Operator
from hpccoll.errors import UsageError
from hpccoll.library_choice import PREFIX, LibraryChoice, library_choices
from hpccoll.placement import check as check_placement
from hpccoll.registry import LIBRARY, catalogue
from hpccoll.request import Request
from hpccoll.segmentation import Segmentation
from hpccoll.spelling import choose
from hpccoll.units import format_size, parse_size

ALL = "all"
AUTO, WHOLE = "auto", "none"
"""Values of ``--segment`` besides a size."""


def algorithms(of: Collective, text: str) -> tuple[tuple[Choice, ...], bool]:
    """Return the own choices that ``--algorithm`` spells, and whether they are the catalogue."""
    names = [name for name in _names(text) if name != LIBRARY and not name.startswith(PREFIX)]
    if names == [ALL]:
        return tuple(Choice(entry) for entry in catalogue(of.name)), True
    choices = [choice for name in names for choice in choose(of.name, name)]
    return tuple({choice.label: choice for choice in choices}.values()), False


def forced(text: str) -> tuple[LibraryChoice, ...]:
    """Return the library's own algorithms that ``--algorithm`` spells."""
    names = [name for name in _names(text) if name.startswith(PREFIX)]
    choices = [choice for name in names for choice in library_choices(name)]
    return tuple({choice.label: choice for choice in choices}.values())


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def sizes(
    given: str | None,
    least: str | None,
    most: str | None,
    factor: int | None,
    dtype: np.dtype[Any],
) -> tuple[int, ...]:
    """Return the sizes that ``--sizes``, or else ``-b``, ``-e`` and ``-f``, spell.

    Raises
    ------
    UsageError
        Both are given, a size can't be read or isn't a multiple of the element size, or the
        smallest is above the largest.
    """
    if given is not None:
        if (least, most, factor) != (None, None, None):
            raise UsageError("give either --sizes or --min-bytes, --max-bytes and --factor")
        found = sorted({parse_size(size) for size in given.split(",")})
    else:
        low = parse_size("8" if least is None else least)
        high = parse_size("16MiB" if most is None else most)
        found = _series(low, high, factor or 2, dtype)
    for size in found:
        if size % dtype.itemsize:
            near = size // dtype.itemsize * dtype.itemsize
            raise UsageError(
                f"a size of {format_size(size)} isn't a whole number of {dtype.name} elements "
                f"({dtype.itemsize} B each); use {near} or {near + dtype.itemsize}"
            )
    return tuple(found)


def _series(least: int, most: int, factor: int, dtype: np.dtype[Any]) -> list[int]:
    if least > most:
        raise UsageError(
            f"--min-bytes {format_size(least)} is above --max-bytes {format_size(most)}; "
            "give a larger --max-bytes"
        )
    found = [least]
    while (following := found[-1] * factor or dtype.itemsize) <= most:
        found.append(following)
    return found


def root(text: str, of: Collective) -> int | None:
    """Return the root that ``--root`` spells, None for all."""
    if text == ALL:
        return None
    if not text.isdecimal():
        raise UsageError(f"--root takes a rank or 'all', got {text!r}")
    if int(text) and not of.rooted:
        raise UsageError(f"{of.name} has no root; leave out --root {text}")
    return int(text)


def build(
    name: str,
    *,
    algorithm: str,
    no_library: bool,
    min_bytes: str | None,
    max_bytes: str | None,
    factor: int | None,
    size_list: str | None,
    dtype: str | None,
    op: str,
    root_text: str,
    no_check: bool,
    arrival: str = "none",
    segment: str = AUTO,
    window: int = 2,
    counts: str = "equal",
    nodes: str | None = None,
    **rest: Any,
) -> Request:
    """Return the request that the command line spells.

    Raises
    ------
    UsageError
        Some value is unknown, can't be read, or doesn't fit the others.
    """
    of = collective(name)
    choices, every = algorithms(of, algorithm)
    if no_library and LIBRARY in _names(algorithm):
        raise UsageError("--no-library leaves out the library that --algorithm names")
    if nodes is not None:
        check_nodes(nodes, choices)
    element = datatypes.dtype(dtype or default_type(op if of.reduces else "sum"))
    if rest.get("in_place") and not of.moves_data:
        raise UsageError(f"{of.name} has no buffers; leave out --in-place")
    if rest.get("accumulate") == "float32" and element.name not in ("float16", "bfloat16"):
        raise UsageError(
            f"--accumulate float32 is for float16 and bfloat16, not for {element.name}"
        )
    if rest.get("accumulate") == "float32" and not of.reduces:
        raise UsageError(f"--accumulate is for reductions; {of.name} reduces nothing")
    return Request(
        collective=of,
        choices=choices,
        every=every,
        library=not no_library,
        sizes=_sizes(of, (size_list, min_bytes, max_bytes, factor), element),
        dtype=element,
        operator=_operator(of, op, element),
        root=root(root_text, of),
        check=not no_check,
        arrival=parse_arrival(arrival),
        segmentation=_segmentation(segment, window),
        measured_pieces=segment == AUTO,
        shares=irregular.parse(counts, of),
        nodes=nodes,
        forced=forced(algorithm),
        **rest,
    )


def check_nodes(nodes: str, choices: tuple[Choice, ...]) -> None:
    """Raise `UsageError` if ``--nodes`` can't be read or concerns none of the choices."""
    check_placement(nodes)
    if not any(choice.algorithm.placed for choice in choices):
        names = sorted({entry.name for entry in catalogue() if entry.placed})
        raise UsageError(f"--nodes is for {' and '.join(names)}, none of which is asked for")


def default_type(op: str) -> str:
    """Return the element type where none is given: the operator's only one, or float32."""
    return (*datatypes.operator(op).only, "float32")[0]


def _sizes(
    of: Collective,
    given: tuple[str | None, str | None, str | None, int | None],
    element: np.dtype[Any],
) -> tuple[int, ...]:
    if of.moves_data:
        return sizes(*given, element)
    if given != (None, None, None, None):
        raise UsageError(f"{of.name} moves no data; leave out the sizes")
    return (0,)


def _operator(of: Collective, op: str, element: np.dtype[Any]) -> Operator:
    if not of.reduces:
        return datatypes.operator(op)
    found = datatypes.operator_for(op, element)
    if found.average and not of.averages:
        raise UsageError(f"{of.name} has no average: not all ranks contribute; use --op sum")
    return found


def _segmentation(segment: str, window: int) -> Segmentation:
    if segment in (AUTO, WHOLE):
        return Segmentation(window=window)
    length = parse_size(segment)
    if length < 1:
        raise UsageError("--segment must be at least one byte")
    return Segmentation(length, window)
