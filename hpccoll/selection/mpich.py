"""MPICH: its control variables, which every call reads anew."""

from collections.abc import Mapping

from hpccoll.errors import UnsupportedError
from hpccoll.selection.family import Case
from hpccoll.selection.probe import Probe
from hpccoll.selection.tool_interface import Settings, ToolInterface, Variable

AUTO = "auto"
"""The name with which the library chooses by itself."""
_ENDING = "_INTRA_ALGORITHM"

REFUSALS: Mapping[str, tuple[str, bool]] = {
    "MPI_Allreduce": ("reduce_scatter_allgather", True),
    "MPI_Reduce": ("reduce_scatter_gather", True),
    "MPI_Reduce_scatter": ("pairwise", True),
    "MPI_Reduce_scatter_block": ("pairwise", True),
    "MPI_Scan": ("smp", True),
    "MPI_Allgather": ("recursive_doubling", False),
    "MPI_Allgatherv": ("recursive_doubling", False),
    "MPI_Alltoall": ("pairwise_sendrecv_replace", False),
    "MPI_Alltoallv": ("pairwise_sendrecv_replace", False),
    "MPI_Bcast": ("smp", False),
    "MPI_Barrier": ("smp", False),
}
"""An algorithm that can't be applied to a trial call, and whether its operator must be ordered.

Recursive doubling gathers on a power of two of ranks only, the alltoall by exchange is for calls in
place, and smp calls its own function for the ranks of a node, for which there is no smp.
"""
THREE = ("MPI_Allgather", "MPI_Allgatherv")
"""The trial is made by three ranks."""
SUBSTITUTE = "MPI_Allreduce"
"""Stands for functions all of whose algorithms can be applied everywhere."""

UNUSABLE: Mapping[tuple[str, str], str] = {
    ("MPI_Allreduce", "ccl"): "it is for buffers in a GPU's memory; elsewhere MPICH chooses itself",
    (
        "MPI_Reduce_scatter",
        "noncommutative",
    ): "it is for equal blocks only, for which MPI_Reduce_scatter_block is measured",
}
"""What can't be measured, and why."""


class Mpich:
    """See `hpccoll.selection.family.Family`."""

    rule = "set during its calls, with fallback an error and the device's own collectives off"

    def __init__(self, interface: ToolInterface) -> None:
        self._variables = interface.variables

    @classmethod
    def offers(cls, interface: ToolInterface) -> bool:
        """Tell whether this is MPICH, or one of its descendants that kept these variables."""
        return "MPIR_CVAR_COLLECTIVE_FALLBACK" in interface.variables

    def numbers(self, function: str) -> dict[str, int]:
        """Return the library's names and numbers."""
        variable = self._variable(_prefix(function) + _ENDING)
        numbers = dict(variable.numbers)
        if numbers.pop(AUTO, None) is None:
            raise UnsupportedError(f"{variable.name} doesn't name its values as MPICH does")
        return numbers

    def _variable(self, name: str) -> Variable:
        try:
            return self._variables[name]
        except KeyError:
            raise UnsupportedError(f"this MPICH has no variable {name}") from None

    def parameters(self, function: str) -> dict[str, Variable]:
        """Return the radixes, chunk sizes and so on, by their names in lower case."""
        prefixes = [n.removesuffix(_ENDING) + "_" for n in self._variables if n.endswith(_ENDING)]

        def owner(name: str) -> str:
            return max((p for p in prefixes if name.startswith(p)), key=len, default="")

        prefix = _prefix(function) + "_"
        return {
            name.removeprefix(prefix).lower(): variable
            for name, variable in self._variables.items()
            if owner(name) == prefix
            and variable.kind is not None
            and not name.endswith(("_ALGORITHM", "_DEVICE_COLLECTIVE"))
        }

    def at_creation(self, function: str, number: int, parameters: Settings) -> Settings:
        """Return nothing: no communicator keeps what was set."""
        return []

    def in_calls(self, function: str, number: int, parameters: Settings) -> Settings:
        """Return the algorithm, and what keeps other algorithms from being run instead."""
        device, fallback = map(
            self._variable, ("MPIR_CVAR_DEVICE_COLLECTIVES", "MPIR_CVAR_COLLECTIVE_FALLBACK")
        )
        every = device.numbers["all"]
        return [
            *([(device, device.numbers["percoll"])] if device.read() == every else []),
            (self._variable(_prefix(function) + "_DEVICE_COLLECTIVE"), False),
            (fallback, fallback.numbers["error"]),
            (self._variable(_prefix(function) + _ENDING), number),
            *parameters,
        ]

    def prove(self, function: str, probe: Probe) -> str:
        """Select what can't be applied: the call must be refused, since fallback is an error."""
        refused = self._refuses(function, probe)
        if refused is None and function == SUBSTITUTE:
            raise UnsupportedError("no algorithm of this MPICH would be refused")
        if refused is None:
            return self.prove(SUBSTITUTE, probe.of(SUBSTITUTE))
        name, does = refused
        if not does:
            raise UnsupportedError(
                f"{_prefix(function)}{_ENDING} doesn't decide what {function} does here: it "
                f"works with {name}, which can't be applied to the call"
            )
        return f"{function} refuses {name} where it can't be applied"

    def _refuses(self, function: str, probe: Probe) -> tuple[str, bool] | None:
        """Return what was selected and whether it was refused, None where nothing can be."""
        name, ordered = REFUSALS.get(function, ("", False))
        number = self.numbers(function).get(name)
        few = function in THREE and probe.size < 3
        if number is None or few:
            return None
        comm = probe.ranks(3 if function in THREE else None)
        return name, probe.refused(comm, self.in_calls(function, number, []), ordered)

    def otherwise(self, function: str, name: str, case: Case) -> str | None:
        """Say what can't be told from MPICH's own choice, or would end the job."""
        if name == "smp":
            return (
                "it calls its own function for the ranks of a node, where MPICH has no smp and "
                "chooses itself"
            )
        return UNUSABLE.get((function, name))


def _prefix(function: str) -> str:
    return f"MPIR_CVAR_{function.removeprefix('MPI_').upper()}"
