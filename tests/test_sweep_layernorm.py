"""Elements that compare the orders of a norm: how they are checked, estimated and spelled."""

import re
from functools import partial

import pytest

from hpccoll.cli import elements
from hpccoll.errors import UsageError
from hpccoll.sweep import planning
from hpccoll.sweep.sweep_file import parse


def norms(**base):
    """Return the element of a sweep of the orders of a norm."""
    base = {"ranks": 2, "tokens": 4, "hidden": 8, **base}
    file = parse({"command": "layernorm", "base": base}, "named")
    (element,) = planning.plan(file, partial(elements.check, file.command)).elements
    return element


REFUSED = [
    ({"collective": "allreduce"}, "key 'collective': unknown key 'collective'"),
    ({"output": "mine.jsonl"}, "key 'output': unknown key 'output'"),
    ({"report": "mine.html"}, "key 'report': unknown key 'report'"),
    ({"from": "mine.jsonl"}, "key 'from': unknown key 'from'"),
    ({"tokens": -1}, "key 'tokens': Invalid value for '--tokens'"),
    ({"norm": "groupnorm"}, "key 'norm': Invalid value for '--norm'"),
    ({"backward": 1}, "key 'backward': backward is true or false, got 1"),
    ({"ordering": "fusd"}, "key 'ordering': unknown ordering 'fusd'; did you mean fused?"),
    ({"norm": "rmsnorm", "method": "chan"}, "keys 'norm' and 'method': chan is a method for the"),
    (
        {"ranks": 300, "dtype": "bfloat16", "input": "integers"},
        "(300 ranks), keys 'dtype' and 'input': sums of integers on 300 ranks aren't exact",
    ),
    (
        {"ranks": 3, "algorithm": "allgather=recursive-doubling"},
        "(3 ranks), key 'algorithm': recursive-doubling needs a power-of-two number of ranks",
    ),
]


@pytest.mark.parametrize(("base", "message"), REFUSED)
def test_an_element_that_layernorm_would_refuse_is_named_with_its_key(base, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        norms(**base)


def test_an_estimate_of_a_comparison_grows_with_rows_inputs_orders_budget_and_ranks():
    base = norms().estimate
    for more in (
        {"tokens": 8},
        {"input": ["iid", "scaled"]},
        {"library": True},
        {"backward": True},
        {"time-budget": 2.5},
    ):
        assert norms(**more).estimate.seconds > base.seconds
    assert norms(ordering="fused").estimate.seconds < base.seconds
    # Two more ranks on the node have their rows; the ranks of another node have theirs there.
    rows = norms(ranks=4).estimate.memory - base.memory
    assert rows > 0
    assert rows % (2 * 4 * 8 * 4) == 0
    assert norms(ranks=4, nodes=2).estimate.memory == base.memory


def test_options_reach_a_command_without_arguments():
    found = elements.spell("layernorm", {"input": ("iid", "scaled"), "bias": False})
    assert found.options["input_names"] == "iid,scaled"
    assert found.options["bias"] is False
    assert str(found) == "hpccoll layernorm --input=iid,scaled --no-bias"
