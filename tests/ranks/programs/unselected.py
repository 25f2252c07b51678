"""Run ``hpccoll WORDS`` with a library whose algorithm isn't set when it should be."""

from unittest import mock

from hpccoll import cli
from hpccoll.selection.mpich import Mpich
from hpccoll.selection.open_mpi import OpenMpi

SWITCHES = ("_ALGORITHM", "use_dynamic_rules")
"""How variables end without which nothing is selected."""


def without(family, method):
    """Leave out the settings that select an algorithm."""
    original = getattr(family, method)

    def settings(*arguments):
        return [s for s in original(*arguments) if not s[0].name.endswith(SWITCHES)]

    return mock.patch.object(family, method, settings)


if __name__ == "__main__":
    with without(OpenMpi, "at_creation"), without(Mpich, "in_calls"):
        cli.main()
