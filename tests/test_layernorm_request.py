"""Requests of the orders of a norm: what is understood, and what is refused with a remedy."""

import re

import pytest
from click.testing import CliRunner

from hpccoll.cli import cli
from hpccoll.errors import UsageError
from hpccoll.layernorm import request as requests
from hpccoll.layernorm.inputs import INPUTS
from hpccoll.layernorm.orders import ORDERS
from hpccoll.layernorm.theory import THEORY

GIVEN = {
    "tokens": 4,
    "hidden": 8,
    "dtype": "float32",
    "norm": "layernorm",
    "method": "two-pass",
    "eps": 1e-5,
    "ordering": "all",
    "input_names": "iid",
    "algorithm": None,
    "accumulate": "storage",
    "residual": True,
    "bias": True,
    "library": False,
    "segments": None,
    "backward": False,
    "repetitions": 6,
    "time_budget": 1.0,
    "seed": 0,
}


def build(**given):
    return requests.build(**GIVEN | given)


def test_theory_knows_every_order():
    assert set(ORDERS) == set(THEORY)


def test_all_stands_for_every_order_and_input():
    request = build(input_names="all")
    assert request.orders == tuple(ORDERS)
    assert request.inputs == tuple(INPUTS)
    assert request.possible() == (request.orders, {})


def test_lists_keep_their_order_and_name_everything_once():
    request = build(ordering="fused, one-shot,fused", input_names="scaled,iid")
    assert request.orders == ("fused", "one-shot")
    assert request.inputs == ("scaled", "iid")


def test_an_order_that_needs_what_is_left_out_is_skipped_only_among_all():
    able, skipped = build(bias=False).possible()
    assert "bias-on-every-rank" not in able
    assert list(skipped) == ["bias-on-every-rank"]
    with pytest.raises(UsageError, match="leave out --no-bias"):
        build(bias=False, ordering="bias-on-every-rank")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ordering": "fusd"}, "did you mean fused"),
        ({"input_names": "none"}, "unknown input 'none'"),
        ({"dtype": "float32", "accumulate": "float32"}, "for float16 and bfloat16"),
        ({"eps": -1.0}, "eps must be finite and not negative"),
        ({"norm": "rmsnorm", "method": "chan"}, "rmsnorm has none"),
        ({"algorithm": "reduce=ring"}, "unknown reduce algorithm 'ring'"),
        ({"algorithm": "scatter=linear"}, "unknown collective of --algorithm 'scatter'"),
        ({"algorithm": "rign"}, "did you mean ring"),
        ({"algorithm": "chain:segments=1..4"}, "one value for each parameter"),
        ({"algorithm": "library"}, "use --library"),
        ({"algorithm": "reduce=library"}, "use --library"),
    ],
)
def test_what_is_refused_says_why(given, said):
    with pytest.raises(UsageError, match=said):
        build(**given)


def test_an_algorithm_is_chosen_wherever_it_exists_or_for_one_collective():
    chosen = {of: c.label for of, c in requests.algorithms("circulant,bcast=chain").items()}
    assert chosen == {
        "allreduce": "circulant",
        "reduce": "circulant",
        "bcast": "chain",
        "reduce-scatter": "circulant",
        "allgather": "circulant",
        "gather": "linear",
    }
    assert requests.algorithms(None).keys() == chosen.keys()


def test_help_names_every_order_and_input():
    said = CliRunner().invoke(cli, ["layernorm", "--help"]).output
    assert [name for name in (*ORDERS, *INPUTS) if not re.search(rf"\b{name}\b", said)] == []
