"""Open MPI: the component coll/tuned, whose choices a communicator takes over when it is made."""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

from hpccoll.errors import UnsupportedError
from hpccoll.selection.family import Case
from hpccoll.selection.probe import Probe
from hpccoll.selection.tool_interface import Settings, ToolInterface, Variable, held

IGNORE = 0
"""The number with which no algorithm is forced."""
HIGHEST = 100
"""The highest priority of a component."""
NOBODY = 1000
"""Added to the largest number of a function: no algorithm has it."""


class OpenMpi:
    """See `hpccoll.selection.family.Family`."""

    rule = "set while its communicator is made, with coll/tuned before all other components"

    def __init__(self, interface: ToolInterface) -> None:
        self._interface, self._variables = interface, interface.variables

    @classmethod
    def offers(cls, interface: ToolInterface) -> bool:
        """Tell whether this is Open MPI."""
        return "coll_tuned_use_dynamic_rules" in interface.variables

    def numbers(self, function: str) -> dict[str, int]:
        """Return the library's names and numbers."""
        numbers = self._algorithm(function).numbers
        return {name: number for name, number in numbers.items() if number != IGNORE}

    def _algorithm(self, function: str) -> Variable:
        name = _prefix(function)
        try:
            return self._variables[name]
        except KeyError:
            raise UnsupportedError(f"this Open MPI has no variable {name}") from None

    def parameters(self, function: str) -> dict[str, Variable]:
        """Return segmentsize, the fanouts and what else there is for the function."""
        prefix = _prefix(function) + "_"
        found = {
            name.removeprefix(prefix): variable
            for name, variable in self._variables.items()
            if name.startswith(prefix)
        }
        return {key: variable for key, variable in found.items() if key != "count"}

    def at_creation(self, function: str, number: int, parameters: Settings) -> Settings:
        """Return dynamic rules, the components' priorities, and the algorithm."""
        priorities = {"coll_tuned_priority": HIGHEST, "coll_han_priority": 0}
        return [
            (self._variables["coll_tuned_use_dynamic_rules"], True),
            # Of several nodes HAN, above coll/tuned, would call it for parts of the work.
            *((self._variables[n], p) for n, p in priorities.items() if n in self._variables),
            (self._algorithm(function), number),
            *parameters,
        ]

    def in_calls(self, function: str, number: int, parameters: Settings) -> Settings:
        """Return the parameters: some are read when the function is called."""
        return parameters

    def prove(self, function: str, probe: Probe) -> str:
        """Force a number that no algorithm has: the function must fail on that communicator.

        The library's interface refuses such a number, so it is put where the variable lies.
        """
        variable, numbers = self._algorithm(function), list(self.numbers(function).values())
        nobody = max(numbers) + NOBODY
        with held(self.at_creation(function, numbers[0], [])):
            place = self._storage(variable, numbers)
            place.value = nobody
            try:
                comm = probe.ranks()
            finally:
                place.value = numbers[0]
        if not probe.refused(comm):
            raise UnsupportedError(
                f"{variable.name} doesn't decide what {function} does here: it works with the "
                f"number {nobody}, which no algorithm has; another component serves it"
            )
        return f"{function} fails where {variable.name} is {nobody}, which no algorithm has"

    def _storage(self, variable: Variable, numbers: list[int]) -> ctypes.c_int:
        """Return the variable's own memory, after seeing that what is written there arrives."""
        find = self._interface.internal("mca_base_var_find_by_name")
        get_value = self._interface.internal("mca_base_var_get_value")
        index, place = ctypes.c_int(), ctypes.POINTER(ctypes.c_int)()
        failed = find(variable.name.encode(), ctypes.byref(index))
        if failed or get_value(index, ctypes.byref(place), None, None) or not place:
            raise UnsupportedError(f"where {variable.name} lies can't be found")
        for number in (*numbers[-1:], *numbers[:1]):
            variable.write(number)
            if place[0] != number:
                raise UnsupportedError(f"where {variable.name} lies can't be found")
        return place.contents

    def otherwise(self, function: str, name: str, case: Case) -> str | None:
        """Say what coll/tuned runs instead of an algorithm that doesn't fit a message."""
        in_place = case.message.in_place
        if function.startswith("MPI_Alltoall") and in_place:
            return "in place Open MPI runs one algorithm for all names"
        if name == "knomial" and case.values.get("knomial_radix", 2) < 2:
            return "with a knomial_radix below 2 Open MPI doesn't come to an end"
        found = FALLBACKS.get((function, name))
        if found is None or not found.where(case):
            return None
        return f"Open MPI runs {found.instead} instead where {found.condition}"


def _prefix(function: str) -> str:
    return f"coll_tuned_{function.removeprefix('MPI_').lower()}_algorithm"


@dataclass(frozen=True, slots=True)
class Fallback:
    """What an algorithm does instead of itself, and where: in code, and in words."""

    instead: str
    where: Callable[[Case], bool]
    condition: str


def _fewer_than_ranks(case: Case) -> bool:
    return case.message.count < case.size


def _few_or_ordered(case: Case) -> bool:
    return case.message.ordered or case.message.count < 1 << case.size.bit_length() - 1


def _ordered(case: Case) -> bool:
    return case.message.ordered


def _odd(case: Case) -> bool:
    return case.size % 2 == 1


def _no_power_of_two(case: Case) -> bool:
    return case.size & (case.size - 1) != 0


def _less_than_a_segment_per_rank(case: Case) -> bool:
    count, itemsize = case.message.count, case.message.itemsize
    length = case.values.get("segmentsize", 0)
    if not itemsize <= length < count * itemsize:
        return True
    elements, rest = divmod(length, itemsize)
    return count < case.size * (elements + (rest > itemsize // 2))


def _halves_below_a_segment(case: Case) -> bool:
    smaller = case.message.count // 2
    length = max(case.values.get("segmentsize", 0), 0)
    return smaller == 0 or length > smaller * case.message.itemsize


def _large(case: Case) -> bool:
    return case.message.count > 2**31 - 1


_FEW = "a vector has fewer elements than ranks"
_FEW_OR_ORDERED = (
    "a vector has fewer elements than the largest power of two of the ranks, or the operator isn't "
    "commutative"
)

FALLBACKS = {
    ("MPI_Allreduce", "ring"): Fallback("recursive_doubling", _fewer_than_ranks, _FEW),
    ("MPI_Allreduce", "segmented_ring"): Fallback(
        "ring",
        _less_than_a_segment_per_rank,
        "a vector has less than a segment per rank; "
        "give one: library:segmented_ring:segmentsize=BYTES",
    ),
    ("MPI_Allreduce", "rabenseifner"): Fallback("basic_linear", _few_or_ordered, _FEW_OR_ORDERED),
    ("MPI_Reduce", "rabenseifner"): Fallback("linear", _few_or_ordered, _FEW_OR_ORDERED),
    ("MPI_Reduce_scatter_block", "recursive_halving"): Fallback(
        "basic_linear", _ordered, "the operator isn't commutative"
    ),
    ("MPI_Allgather", "recursive_doubling"): Fallback(
        "bruck", _no_power_of_two, "the number of ranks is no power of two"
    ),
    ("MPI_Allgather", "neighbor"): Fallback("ring", _odd, "the number of ranks is odd"),
    ("MPI_Allgatherv", "neighbor"): Fallback("ring", _odd, "the number of ranks is odd"),
    ("MPI_Bcast", "split_binary_tree"): Fallback(
        "pipeline", _halves_below_a_segment, "half of a vector is less than a segment"
    ),
    ("MPI_Bcast", "scatter_allgather"): Fallback("basic_linear", _fewer_than_ranks, _FEW),
    ("MPI_Bcast", "scatter_allgather_ring"): Fallback("basic_linear", _fewer_than_ranks, _FEW),
    ("MPI_Reduce_scatter_block", "recursive_doubling"): Fallback(
        "basic_linear", _large, "a vector has more than 2**31 - 1 elements"
    ),
}
"""Where version 5.0 silently runs something else.

These conditions stand in the library's code, and can't be asked for.
"""
