"""Judging orders: right results pass, and every damage that rounding can't explain is found."""

import numpy as np
import pytest

from hpccoll import datatypes
from hpccoll.layernorm.inputs import Inputs
from hpccoll.layernorm.judge import AGREES, CONTRADICTS, NO_VERDICT, Judge
from hpccoll.layernorm.norms import Norm
from hpccoll.layernorm.tolerance import Rounding

SIZE = 4
ROUNDING = Rounding(np.dtype(np.float32), SIZE - 1)


def judge(name="iid", tokens=6, dtype="float32", **given):
    return Judge(Inputs(name, tokens, 64, datatypes.dtype(dtype), SIZE, **given), Norm(), False)


def verdict(judge, rows, order="allreduce-layernorm", rounding=ROUNDING, digests=("a",) * SIZE):
    return judge.judge(order, order, rounding, rows, digests)


def test_the_sum_in_the_order_of_the_ranks_agrees_to_the_bit():
    found = judge()
    one = verdict(found, [found.in_order])
    assert (one.verdict, one.reason, one.bit_equal, one.same_bits) == (AGREES, "", 1.0, True)
    assert one.over_bound <= 1


@pytest.mark.parametrize("damage", [1e-2, np.nan, np.inf])
def test_one_damaged_element_contradicts(damage):
    found = judge()
    rows = found.in_order.copy()
    rows[3, 5] += damage
    one = verdict(found, [rows])
    assert one.verdict == CONTRADICTS
    assert "times as far off" in one.reason


def test_a_damaged_rank_contradicts_even_if_the_first_is_right():
    found = judge()
    rows = found.in_order.copy()
    rows[0] = 0
    one = verdict(found, [found.in_order, rows], digests="aaab")
    assert (one.verdict, one.same_bits) == (CONTRADICTS, False)


def test_a_wrong_order_that_gives_the_right_result_contradicts():
    found = judge()
    assert verdict(found, [found.in_order], "layernorm-mean").verdict == CONTRADICTS


def test_an_input_that_cannot_tell_says_so():
    found = judge("replicated")
    one = verdict(found, [found.in_order], "bcast-reduce-layernorm")
    assert (one.verdict, one.told) == (AGREES, False)
    assert "all ranks have the same rows" in one.reason


def test_ill_conditioned_rows_have_no_verdict():
    pytest.importorskip("ml_dtypes")
    found = judge("large-mean", dtype="bfloat16")
    rounding = Rounding(found.inputs.dtype, SIZE - 1)
    one = verdict(found, [found.in_order], rounding=rounding)
    assert (one.verdict, one.ill_conditioned) == (NO_VERDICT, 6)
    assert "ill-conditioned" in one.reason


def test_without_rows_there_is_no_verdict():
    found = judge(tokens=0)
    one = verdict(found, [found.in_order])
    assert (one.verdict, one.reason) == (NO_VERDICT, "there are no rows")
