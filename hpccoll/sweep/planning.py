"""From a sweep file to its plan: every element checked as its command would check it."""

from collections.abc import Callable, Iterable, Mapping

from hpccoll.errors import UsageError
from hpccoll.sweep.plan import Allocation, Element, Estimate, Option, Plan
from hpccoll.sweep.sweep_file import Settings, SweepFile

ALLOCATION = ("ranks", "nodes", "mpi")
"""The keys that are no options of the command."""

Check = Callable[[Allocation, Mapping[str, Option]], Estimate]
"""Raises `UsageError` where the command would, and returns what an element will need."""


def plan(file: SweepFile, check: Check) -> Plan:
    """Return the plan of a sweep file.

    Elements of one allocation come together, in the order of the allocations' first elements.

    Raises
    ------
    UsageError
        An element can't run; the message names it and its key.
    """
    split = [_split(settings) for settings in file.settings]
    places = {allocation: None for allocation, _ in split}
    ordered = [one for place in places for one in split if one[0] == place]
    elements = [
        Element(index, allocation, options, _checked(index, allocation, options, check))
        for index, (allocation, options) in enumerate(ordered)
    ]
    return Plan(file.name, file.command, tuple(elements))


def _split(settings: Settings) -> tuple[Allocation, Settings]:
    """Return what an element runs on, and the options of its command."""
    if "ranks" not in settings:
        raise UsageError("no number of ranks: give the key 'ranks' in base, axes or zip")
    ranks, nodes = _number(settings, "ranks"), None
    if "nodes" in settings:
        nodes = _number(settings, "nodes")
        if nodes > ranks:
            raise UsageError(f"key 'nodes': {ranks} ranks can't be on {nodes} nodes")
    mpi = settings.get("mpi")
    if mpi is not None and (not isinstance(mpi, str) or not mpi):
        raise UsageError(f"key 'mpi': give the name of an MPI library, got {mpi!r}")
    options = {key: value for key, value in settings.items() if key not in ALLOCATION}
    return Allocation(ranks, nodes, mpi), options


def _number(settings: Settings, key: str) -> int:
    value = settings[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"key {key!r}: give a whole number from 1 on, got {value!r}")
    return value


def _checked(
    index: int, allocation: Allocation, options: Mapping[str, Option], check: Check
) -> Estimate:
    try:
        return check(allocation, options)
    except UsageError as error:
        keys = " and ".join(map(repr, _culprits(allocation, options, check)))
        named = f", key{'s' * (' and ' in keys)} {keys}" if keys else ""
        raise UsageError(f"element {index} ({allocation}){named}: {error}") from None


def _culprits(allocation: Allocation, options: Mapping[str, Option], check: Check) -> Iterable[str]:
    """Yield the keys without which the element could run."""
    for left_out in options:
        try:
            check(allocation, {key: options[key] for key in options if key != left_out})
        except UsageError:
            continue
        yield left_out
