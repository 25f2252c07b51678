"""Requests of the orders of a norm: what is understood, and what is refused with a remedy."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from hpccoll.cli import cli
from hpccoll.errors import UsageError
from hpccoll.layernorm import request as requests
from hpccoll.layernorm.backward import BACKWARD
from hpccoll.layernorm.inputs import INPUTS
from hpccoll.layernorm.orders import ORDERS
from hpccoll.layernorm.program import Buffers
from hpccoll.layernorm.rank import Rank
from hpccoll.layernorm.theory import THEORY
from hpccoll.layernorm.workspace import Workspace
from hpccoll.placement import even

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


class Recorder:
    """Stands for the communication of a rank: notes which collectives are asked for."""

    rank, size, own = 0, 2, True

    def __init__(self):
        self.workspace = Workspace()
        self.called = set()

    def bind(self, collective, *_, choice=None, **__):
        if choice is None:
            self.called.add(collective)
        return SimpleNamespace(extra=0, call=None)

    def fused(self, *_):
        return SimpleNamespace(extra=0, call=None)

    def partial(self, _collective, of):
        return of


def called(request, does, order, ranks=1):
    """Return the collectives of an order, or of its backward pass, that have no fixed algorithm."""
    recorder, fixed = Recorder(), dict(ORDERS[order].fixed)
    buffers = Buffers.allocate(request.input("iid", recorder.size))
    parts = [Rank(recorder, request.norm, buffers, fixed) for _ in range(ranks)]
    does(*parts, *[np.zeros((2, request.hidden))] * (ranks - 1))
    return recorder.called


def test_the_collectives_that_are_said_to_be_called_are_those_that_are():
    for name, order in ORDERS.items():
        request = build(ordering=name)
        assert request.called == called(request, order.does, name), name
        passes = [one for one in BACKWARD.values() if one.order == name]
        found = request.called.union(*(called(request, one.does, name, 2) for one in passes))
        assert build(ordering=name, backward=True).called == found, name


def test_algorithms_are_checked_on_the_ranks_where_they_are_called():
    build(algorithm="allgather=recursive-doubling").check_ranks(even(4, 1))
    request = {"algorithm": "allgather=recursive-doubling", "ordering": "allreduce-layernorm"}
    build(**request).check_ranks(even(3, 1))
    for refused in (request | {"ordering": "sequence-parallel"}, request | {"ordering": "all"}):
        with pytest.raises(UsageError, match="recursive-doubling needs a power-of-two number"):
            build(**refused).check_ranks(even(3, 1))
    with pytest.raises(UsageError, match="integers on 300 ranks aren't exact in bfloat16"):
        build(dtype="bfloat16", input_names="integers").check_ranks(even(300, 1))


def test_help_names_every_order_and_input():
    said = CliRunner().invoke(cli, ["layernorm", "--help"]).output
    assert [name for name in (*ORDERS, *INPUTS) if not re.search(rf"\b{name}\b", said)] == []
