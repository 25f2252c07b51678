"""The library's own algorithms that were asked for: which can be selected, and why not others."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from hpccoll.engines.library import function_of
from hpccoll.errors import UnsupportedError, UsageError, unknown
from hpccoll.layout import Message
from hpccoll.library_choice import ALL, LibraryChoice
from hpccoll.request import Request
from hpccoll.sampling import Loop
from hpccoll.selection.family import Case, Family
from hpccoll.selection.mpich import Mpich
from hpccoll.selection.open_mpi import OpenMpi
from hpccoll.selection.probe import Probe, of_function
from hpccoll.selection.tool_interface import Settings, ToolInterface, held

if TYPE_CHECKING:
    from mpi4py import MPI

REFUSED = "not selectable here: "
"""Begins every reason."""


def detect(library: str) -> Family:
    """Return how the running library lets algorithms be chosen.

    Parameters
    ----------
    library
        Its name and version, for the message.

    Raises
    ------
    UnsupportedError
        It doesn't, as far as hpccoll knows.
    """
    interface = ToolInterface()
    for family in (OpenMpi, Mpich):
        if family.offers(interface):
            return family(interface)
    if library.startswith("Open MPI"):
        raise UnsupportedError(f"{library} runs without its component coll/tuned")
    if library.startswith("Intel"):
        raise UnsupportedError(
            f"{library} numbers its algorithms without naming them, and takes numbers that don't "
            "exist, so that nothing shows a choice; set I_MPI_ADJUST_... for a whole run instead"
        )
    raise UnsupportedError(
        f"hpccoll knows how Open MPI and MPICH let algorithms be chosen, but not {library}"
    )


@dataclass(frozen=True, slots=True)
class Selection:
    """One of the library's algorithms, selected for an MPI function and shown to be in effect.

    Attributes
    ----------
    comm
        The communicator for its calls.
    in_calls
        Makes the context in which it must be called.
    variables
        What is set, by the library's names.
    proof
        What shows that the choice decides.
    otherwise
        Says for a message what the library would run instead, None if the algorithm itself.
    """

    choice: LibraryChoice
    function: str
    comm: "MPI.Intracomm"
    in_calls: Callable[[], AbstractContextManager[None]]
    variables: dict[str, int]
    proof: str
    otherwise: Callable[[Message], str | None]

    def record(self) -> dict[str, object]:
        """Return the fields for a measurement's record."""
        return {
            "algorithm": self.choice.name,
            "variables": self.variables,
            "proof": self.proof,
        }


@dataclass(slots=True)
class Selections:
    """The selections of one run by function, and why others weren't possible, by label."""

    rule: str = ""
    selected: dict[str, list[Selection]] = field(default_factory=dict)
    reasons: dict[str, dict[str, str]] = field(default_factory=dict)

    def of(self, function: str, message: Message) -> tuple[list[Selection], dict[str, str]]:
        """Return what can be called with a message, and why others can't."""
        able, reasons = [], dict(self.reasons.get(function, {}))
        for selection in self.selected.get(function, []):
            reason = selection.otherwise(message)
            if reason is None:
                able.append(selection)
            else:
                reasons[selection.choice.label] = REFUSED + reason
        return able, reasons

    @property
    def labels(self) -> list[str]:
        """Return all that may be measured."""
        every = (s.choice.label for found in self.selected.values() for s in found)
        return list(dict.fromkeys(every))

    def notes(self) -> list[str]:
        """Return lines for the table's header."""
        proofs = {s.proof: None for found in self.selected.values() for s in found}
        if not proofs:
            return []
        return [f"forced {self.rule}", *(f"       shown: {proof}" for proof in proofs)]

    def free(self) -> None:
        """Free the communicators, on all ranks together."""
        for selection in (s for found in self.selected.values() for s in found):
            selection.comm.Free()


def select(request: Request, loop: Loop) -> Selections:
    """Select what was asked, for every MPI function that the sizes need, on all ranks together.

    Raises
    ------
    UsageError
        The library has an algorithm of that name for none of these functions, or no such parameter.
    """
    if not request.forced:
        return Selections()
    ranks = loop.world.size
    messages = [request.message(size, 0, ranks) for size in request.sizes]
    functions = {function_of(request.collective, message, ranks) for message in messages}
    try:
        family = detect(loop.world.library)
    except UnsupportedError as error:
        every = {choice.label: REFUSED + str(error) for choice in request.forced}
        return Selections(reasons=dict.fromkeys(functions, every))
    _check_names(family, request, sorted(functions), loop.world.library)
    made = Selections(family.rule)
    for function in sorted(functions):
        _select(made, family, function, request.forced, loop)
    return made


def _check_names(family: Family, request: Request, functions: list[str], library: str) -> None:
    """Raise `UsageError` for a name or parameter that none of the functions has."""
    names, keys = set[str](), set[str]()
    for function in functions:
        try:
            names |= set(family.numbers(function))
        except UnsupportedError:
            return
        keys |= set(family.parameters(function))
    what = f"{library} algorithm of {' or '.join(functions)}"
    for choice in request.forced:
        if choice.name != ALL and not _found(choice.name, names):
            raise UsageError(unknown(what, choice.name, sorted(names)))
        for key in choice.parameters:
            if key not in keys:
                raise UsageError(unknown(f"{library} parameter", key, sorted(keys)))


def _found(name: str, names: "set[str] | dict[str, int]") -> str | None:
    """Return the library's spelling of a name, in which ``-`` and ``_`` are alike."""
    plain = name.replace("-", "_")
    return next((own for own in names if own.replace("-", "_") == plain), None)


def _select(
    made: Selections, family: Family, function: str, choices: tuple[LibraryChoice, ...], loop: Loop
) -> None:
    """Enter the selections of one function, or why there are none."""
    reasons = made.reasons.setdefault(function, {})
    selected = made.selected.setdefault(function, [])
    try:
        numbers = family.numbers(function)
        wanted = list(_expanded(choices, numbers))
        if loop.world.size == 1:
            raise UnsupportedError("on one rank the library runs no algorithm")
        proof = family.prove(function, Probe(function, loop))
    except UnsupportedError as error:
        reasons |= {choice.label: REFUSED + str(error) for choice in choices}
        return
    for choice in wanted:
        try:
            selected.append(_selection(family, function, numbers, choice, proof, loop))
        except UnsupportedError as error:
            reasons[choice.label] = REFUSED + str(error)


def _expanded(
    choices: tuple[LibraryChoice, ...], numbers: dict[str, int]
) -> Iterator[LibraryChoice]:
    """Yield the choices in the library's spelling, all of them in place of `ALL`."""
    found: dict[str, LibraryChoice] = {}
    for choice in choices:
        names = list(numbers) if choice.name == ALL else [_found(choice.name, numbers)]
        for name in names:
            own = LibraryChoice(name or choice.name, choice.parameters)
            found.setdefault(own.label, own)
    yield from found.values()


def _selection(
    family: Family,
    function: str,
    numbers: dict[str, int],
    choice: LibraryChoice,
    proof: str,
    loop: Loop,
) -> Selection:
    if choice.name not in numbers:
        raise UnsupportedError(f"{loop.world.library} has none of this name for {function}")
    known = family.parameters(function)
    if missing := choice.parameters.keys() - known.keys():
        raise UnsupportedError(f"{function} has no parameter {', '.join(sorted(missing))}")
    parameters: Settings = [(known[key], value) for key, value in choice.parameters.items()]
    given = (function, numbers[choice.name], parameters)
    before, during = family.at_creation(*given), family.in_calls(*given)
    with held(during):
        pass  # what the library won't set ends here
    with held(before):
        comm = loop.world.comm.Dup()
    moves_data = of_function(function).moves_data
    values = {key: variable.read() for key, variable in known.items() if variable.kind is not None}

    def otherwise(message: Message) -> str | None:
        if not message.count and moves_data:
            return "without elements the library runs no algorithm"
        case = Case(message, loop.world.size, values | choice.parameters)
        return family.otherwise(function, choice.name, case)

    return Selection(
        choice=choice,
        function=function,
        comm=comm,
        in_calls=partial(held, during),
        variables={variable.name: number for variable, number in [*before, *during]},
        proof=proof,
        otherwise=otherwise,
    )
