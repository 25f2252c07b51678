"""A request as the command line makes it, to be changed by tests."""

from hpccoll import parsing

DEFAULTS = {
    "algorithm": "all",
    "no_library": False,
    "min_bytes": None,
    "max_bytes": None,
    "factor": None,
    "size_list": None,
    "dtype": "float32",
    "op": "sum",
    "root_text": "0",
    "no_check": False,
    "in_place": False,
    "repetitions": 100,
    "warmup": 5,
    "time_budget": 2.0,
    "seed": 0,
    "timeout": 60.0,
}
"""What the command line passes if nothing is given."""


def build(name="allreduce", **given):
    """Build a request from what is given on the command line."""
    return parsing.build(name, **DEFAULTS | given)
