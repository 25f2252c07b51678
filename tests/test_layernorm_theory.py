"""What is known of the orders of a norm: predicted deviations, expected ones, and who can tell."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
import simulated_norms as simulated

from hpccoll.datatypes import bits, dtype
from hpccoll.errors import UsageError
from hpccoll.layernorm.expectation import INDEPENDENT, cosine_tells, expectation
from hpccoll.layernorm.inputs import INPUTS, Inputs
from hpccoll.layernorm.metrics import bit_equal, cosine
from hpccoll.layernorm.norms import Norm
from hpccoll.layernorm.prediction import predict
from hpccoll.layernorm.reference import reference, standardize
from hpccoll.layernorm.theory import THEORY, shows_order_of_sums, tells, theory
from hpccoll.layernorm.tolerance import ILL_CONDITIONED, Rounding, lengths, tolerance

FLOAT64 = np.dtype(np.float64)
NORM_SET = [Norm(), Norm(eps=0.0), Norm(eps=0.1), Norm("rmsnorm")]
CORRECT = [order for order, known in THEORY.items() if known.correct]


def expected(inputs, norm):
    return reference(inputs.terms, inputs.gamma, simulated.beta(inputs, norm), norm)


def predicted(order, inputs, norm, add=simulated.chain):
    rounding = Rounding(inputs.dtype, simulated.DEPTH[add](inputs.size), add is simulated.wide)
    exact = expected(inputs, norm)
    return exact, predict(order, inputs, norm, exact, rounding)


def missed(order, inputs, norm, add=simulated.chain):
    """Return the prediction, and how far the simulated deviation is from it."""
    exact, found = predicted(order, inputs, norm, add)
    deviation = simulated.WRONG[order](inputs, norm, add).astype(np.float64) - exact.y
    with np.errstate(all="ignore"):
        return found, lengths(deviation - found.deviation) / lengths(exact.y)


def test_every_order_is_either_correct_or_has_a_deviation():
    assert set(simulated.WRONG) == set(THEORY) - set(CORRECT)
    for known in THEORY.values():
        assert known.correct == (known.deviation == "0")
        assert known.why[-1] != "."
    with pytest.raises(UsageError, match=r"unknown ordering 'fussed'; did you mean fused"):
        theory("fussed")


@pytest.mark.parametrize("norm", NORM_SET, ids=str)
@pytest.mark.parametrize("order", simulated.WRONG)
def test_a_predicted_deviation_is_that_of_the_order_in_float64(order, norm):
    for kind in set(INPUTS) - {"constant"}:
        for size, hidden, added in ((1, 16, True), (3, 37, True), (4, 256, False), (5, 23, True)):
            inputs = Inputs(kind, 4, hidden, FLOAT64, size, residual=added, bias=added)
            found, error = missed(order, inputs, norm)
            assert (error <= 1e-12 * (1 + found.relative)).all()
            assert (error <= found.bound).all()


@pytest.mark.parametrize("norm", [Norm(), Norm("rmsnorm")], ids=str)
@pytest.mark.parametrize("order", simulated.WRONG)
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_rounding_never_carries_a_deviation_out_of_its_bound(order, norm, name):
    judged = 0
    for kind in INPUTS:
        inputs = Inputs(kind, 5, 96, dtype(name), 4, residual=True, bias=True)
        for add in (simulated.chain, simulated.tree):
            found, error = missed(order, inputs, norm, add)
            verdict = found.bound < ILL_CONDITIONED
            assert (error <= found.bound)[verdict].all()
            judged += verdict.sum()
    assert judged > 20


@pytest.mark.parametrize("order", simulated.WRONG)
def test_sums_in_float32_have_bounds_of_their_own(order):
    for size in (3, 8):
        inputs = Inputs("iid", 5, 96, dtype("bfloat16"), size, residual=True, bias=True)
        found, error = missed(order, inputs, Norm(), simulated.wide)
        assert (error <= found.bound).all()
        assert (found.bound < predicted(order, inputs, Norm())[1].bound).all()


@pytest.mark.parametrize("order", CORRECT)
def test_a_correct_order_has_no_deviation_and_its_tolerance_for_a_bound(order):
    inputs = Inputs("scaled", 5, 96, dtype("bfloat16"), 4, residual=True)
    exact, found = predicted(order, inputs, Norm())
    assert not found.deviation.any()
    assert not found.relative.any()
    most = tolerance(exact, inputs.gamma, Norm(), Rounding(inputs.dtype, 3), 1)
    assert np.array_equal(found.bound, most)


def test_the_closed_form_of_norms_before_the_sum():
    """It is gamma * sum_r c_r (1/s_r - 1/s) + (p-1) * beta."""
    inputs = Inputs("scaled", 6, 64, FLOAT64, 4)
    norm = Norm(eps=0.01)
    parts = simulated.parts(inputs)
    centred = [part - part.mean(axis=1, keepdims=True) for part in parts]
    roots = [np.sqrt(np.square(c).mean(axis=1, keepdims=True) + norm.eps) for c in centred]
    total = sum(centred)
    root = np.sqrt(np.square(total).mean(axis=1, keepdims=True) + norm.eps)
    weighted = sum(c * (1 / s - 1 / root) for c, s in zip(centred, roots, strict=True))
    closed = inputs.gamma * weighted + 3 * inputs.beta
    found = predicted("layernorm-reduce-bcast", inputs, norm)[1]
    assert np.allclose(found.deviation, closed, rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [2, 4, 8])
@pytest.mark.parametrize("kind", ["iid", "scaled"])
def test_the_expected_cosine_is_the_sum_of_scales_over_its_bound(size, kind):
    inputs = Inputs(kind, 4, 4096, FLOAT64, size)
    scales = np.array(inputs.scales)
    cosine_without_beta = scales.sum() / sqrt(size * np.square(scales).sum())
    parts = simulated.parts(inputs)
    norm = Norm(eps=0.0)
    wrong = sum(standardize(part, norm)[0] for part in parts)
    right = standardize(sum(parts), norm)[0]
    assert np.allclose(cosine(wrong, right), cosine_without_beta, atol=0.03)
    # Beta, p times in the one and once in the other, makes an angle of its own.
    gamma, beta = np.square(inputs.gamma).mean(), np.square(inputs.beta).mean()
    with_beta = gamma * sqrt(size) * cosine_without_beta + size * beta
    with_beta /= sqrt((gamma * size + size**2 * beta) * (gamma + beta))
    found = expectation("layernorm-reduce-bcast", inputs, norm)
    assert found.cosine == pytest.approx(with_beta, rel=1e-12)


@pytest.mark.parametrize("size", [2, 4, 8])
def test_at_equal_scales_a_sum_is_off_by_its_root_less_one_and_a_mean_by_the_rest(size):
    inputs = Inputs("iid", 4, 4096, FLOAT64, size)
    for order, off in (
        ("layernorm-reduce-bcast", sqrt(size) - 1),
        ("layernorm-mean", 1 - 1 / sqrt(size)),
    ):
        # RMSNorm has no beta, which the closed forms leave out.
        found = expectation(order, inputs, Norm("rmsnorm", eps=0.0))
        assert found.relative_l2 == pytest.approx(off, rel=1e-12)
        measured = predicted(order, inputs, Norm("rmsnorm", eps=0.0))[1].relative
        assert np.allclose(measured, off, rtol=0.05)


@pytest.mark.parametrize(("size", "hidden"), [(2, 1024), (4, 4096), (8, 1024)])
def test_shards_alone_are_off_by_three_halves_of_the_shards_over_the_columns(size, hidden):
    inputs = Inputs("iid", 300, hidden, FLOAT64, size)
    off = sqrt(1.5 * (size - 1) / hidden)
    beta = np.square(inputs.beta).mean() / np.square(inputs.gamma).mean()
    found = expectation("hidden-shards-alone", inputs, Norm(eps=0.0)).relative_l2
    assert found == pytest.approx(off / sqrt(1 + beta), rel=1e-12)
    measured = predicted("hidden-shards-alone", inputs, Norm(eps=0.0))[1].relative
    assert sqrt(np.square(measured).mean()) == pytest.approx(found, rel=0.06)


@pytest.mark.parametrize("norm", NORM_SET, ids=str)
@pytest.mark.parametrize("order", simulated.WRONG)
@pytest.mark.parametrize("kind", INPUTS)
def test_expected_and_measured_deviations_agree(norm, order, kind):
    inputs = Inputs(kind, 64, 2048, FLOAT64, 4, residual=True, bias=True)
    found = expectation(order, inputs, norm)
    simple = kind in INDEPENDENT and (norm.centred or kind != "large-mean")
    assert (found is not None) == simple
    if found is not None:
        exact, deviations = predicted(order, inputs, norm)
        cosines = cosine(exact.y + deviations.deviation, exact.y)
        assert np.median(cosines) == pytest.approx(found.cosine, abs=0.02)
        measured = sqrt(np.square(deviations.relative).mean())
        assert measured == pytest.approx(found.relative_l2, rel=0.08, abs=1e-9)


def test_correct_orders_are_expected_to_have_no_deviation():
    inputs = Inputs("iid", 4, 64, FLOAT64, 4)
    for order in CORRECT:
        found = expectation(order, inputs, Norm())
        assert (found.cosine, found.relative_l2) == (1.0, 0.0)
        assert not tells(order, inputs, Norm())[0]


@pytest.mark.parametrize("norm", NORM_SET, ids=str)
@pytest.mark.parametrize("order", simulated.WRONG)
def test_an_input_tells_an_order_if_and_only_if_the_deviation_isnt_zero(norm, order):
    # RMSNorm makes 1 or -1 of a row of one element, but for epsilon, whatever is added to it.
    shapes = [(1, 8), (2, 8), (4, 64), *[(3, 1)] * norm.centred]
    for kind in INPUTS:
        for size, hidden in shapes:
            for residual, bias in ((False, False), (True, False), (False, True)):
                inputs = Inputs(kind, 40, hidden, FLOAT64, size, residual=residual, bias=bias)
                deviation = predicted(order, inputs, norm)[1].deviation
                zero = np.abs(np.nan_to_num(deviation)).max() < 1e-13
                says, why = tells(order, inputs, norm)
                # Without epsilon, rows of one value have no norm to deviate from.
                if not np.isnan(deviation).any():
                    assert says == (not zero), (kind, size, hidden, residual, bias, why)


def test_results_without_numbers_have_no_bound():
    inputs = Inputs("iid", 2, 3, FLOAT64, 3)
    found = predicted("hidden-shards-alone", inputs, Norm(eps=0.0))[1]
    assert np.isnan(found.deviation).all()
    assert np.isinf(found.bound).all()


def test_no_rows_tell_nothing():
    inputs = Inputs("iid", 0, 8, FLOAT64, 4)
    assert tells("layernorm-mean", inputs, Norm()) == (False, "there are no rows")


def test_replicated_parts_hide_the_mean_of_norms_but_for_epsilon():
    inputs = Inputs("replicated", 4, 1024, FLOAT64, 4)
    says, why = tells("layernorm-mean", inputs, Norm(eps=0.0))
    assert not says
    assert "mean of equal norms is the norm" in why
    assert tells("layernorm-mean", inputs, Norm())[0]
    assert predicted("layernorm-mean", inputs, Norm())[1].relative.max() < 1e-5
    assert tells("layernorm-reduce-bcast", inputs, Norm(eps=0.0))[0]


def test_what_isnt_added_cant_be_added_too_often():
    inputs = Inputs("iid", 4, 64, FLOAT64, 4, bias=True)
    assert tells("bias-on-every-rank", inputs, Norm())[0]
    says, why = tells("residual-on-every-rank", inputs, Norm())
    assert not says
    assert "--residual" in why


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_an_input_shows_the_order_of_sums_if_and_only_if_bits_differ(name):
    for kind in ("iid", "scaled", "outliers", "large-mean", "integers"):
        for size in (1, 2, 3, 4, 8):
            inputs = Inputs(kind, 64, 64, dtype(name), size)
            parts = simulated.parts(inputs)
            sums = [simulated.chain(parts), simulated.chain(parts[::-1])]
            equal = bit_equal(*sums) == 1.0
            says, why = shows_order_of_sums(inputs)
            assert says == (not equal), (kind, size, why)


def test_the_cosine_is_useless_on_independent_parts_of_one_scale():
    inputs = Inputs("iid", 16, 4096, FLOAT64, 4)
    norm = Norm("rmsnorm")
    says, why = cosine_tells("layernorm-reduce-bcast", inputs, norm)
    assert not says
    assert "doesn't see a factor" in why
    exact, found = predicted("layernorm-reduce-bcast", inputs, norm)
    wrong = cosine(exact.y + found.deviation, exact.y)
    assert (1 - wrong < 0.5 / 4096).all()
    assert (found.relative > 0.9).all()
    assert cosine_tells("layernorm-reduce-bcast", replace(inputs, name="scaled"), norm)[0]
    assert not cosine_tells("layernorm-mean", replace(inputs, name="outliers"), norm)[0]


def test_cancelling_parts_turn_a_sum_of_norms_into_noise():
    inputs = Inputs("cancelling", 16, 4096, FLOAT64, 4)
    exact, found = predicted("layernorm-mean", inputs, Norm("rmsnorm"))
    assert np.abs(cosine(exact.y + found.deviation, exact.y)).max() < 0.1
    assert expectation("layernorm-mean", inputs, Norm("rmsnorm")).cosine < 0.05


def test_predictions_leave_the_inputs_alone():
    inputs = Inputs("iid", 4, 16, FLOAT64, 3)
    exact = expected(inputs, Norm())
    kept = bits(exact.standardized).copy(), bits(exact.total).copy()
    for order in THEORY:
        predict(order, inputs, Norm(), exact, Rounding(FLOAT64, 2))
    assert np.array_equal(kept[0], bits(exact.standardized))
    assert np.array_equal(kept[1], bits(exact.total))
