"""Gradients of the norms: against finite differences, by their invariants, and in shards."""

from itertools import pairwise

import numpy as np
import pytest
import simulated_norms

from hpccoll.datatypes import bits, dtype
from hpccoll.layernorm.gradients import backward, backward_apply, backward_sums
from hpccoll.layernorm.inputs import INPUTS, Inputs
from hpccoll.layernorm.metrics import relative_l2
from hpccoll.layernorm.norms import Norm, normalize, statistics
from hpccoll.layernorm.reference import reference, reference_gradients
from hpccoll.layernorm.tolerance import ILL_CONDITIONED, Rounding, gradient_tolerance

TOKENS, HIDDEN = 6, 40
BOTH = [Norm(), Norm("rmsnorm")]


def drawn(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def gradients(norm, dtype=np.float64):
    rows, grad = drawn(1, TOKENS, HIDDEN).astype(dtype), drawn(2, TOKENS, HIDDEN).astype(dtype)
    gamma = (1 + 0.3 * drawn(3, HIDDEN)).astype(dtype)
    stats = statistics(rows, norm)
    return rows, grad, gamma, stats, backward(grad, rows, stats, gamma, norm)


@pytest.mark.parametrize("norm", [*BOTH, Norm(eps=0.5), Norm("rmsnorm", eps=0.5)], ids=str)
def test_gradients_are_finite_differences(norm):
    rows, grad, gamma, _, (dx, dgamma, dbeta) = gradients(norm)
    beta = drawn(4, HIDDEN) if norm.centred else None

    def loss(rows, gamma, beta):
        return float((grad * normalize(rows, gamma, beta, norm)[0]).sum())

    def difference(values, index, place):
        step = 1e-6
        above, below = values[place].copy(), values[place].copy()
        above[index] += step
        below[index] -= step
        ends = [[*values[:place], end, *values[place + 1 :]] for end in (above, below)]
        return (loss(*ends[0]) - loss(*ends[1])) / (2 * step)

    values = [rows, gamma, beta]
    for place, gradient in enumerate((dx, dgamma, dbeta)):
        if gradient is None:
            continue
        for flat in range(0, gradient.size, 7):
            index = np.unravel_index(flat, gradient.shape)
            assert difference(values, index, place) == pytest.approx(gradient[index], abs=2e-7)


def test_rmsnorm_has_no_gradient_of_beta():
    assert gradients(Norm("rmsnorm"))[-1][2] is None


@pytest.mark.parametrize("eps", [0.0, 1e-5, 0.3])
def test_the_gradient_is_orthogonal_to_ones_and_but_for_epsilon_to_the_rows(eps):
    norm = Norm(eps=eps)
    rows, grad, gamma, stats, (dx, _, _) = gradients(norm)
    assert np.allclose(dx.sum(axis=1), 0, atol=1e-13)
    centred = rows - stats.mean[:, np.newaxis]
    standardized = centred * stats.rstd[:, np.newaxis]
    closed = eps * stats.rstd**2 * (grad * gamma * standardized).sum(axis=1)
    assert np.allclose((dx * centred).sum(axis=1), closed, atol=1e-13)


@pytest.mark.parametrize("norm", BOTH, ids=str)
@pytest.mark.parametrize("borders", [(0, 10, 20, 40), (0, 39, 39, 40)])
def test_gradients_of_hidden_shards_are_those_of_the_whole(norm, borders):
    rows, grad, gamma, stats, (dx, dgamma, dbeta) = gradients(norm)
    shards = [slice(*ends) for ends in pairwise(borders)]
    held = [(grad[:, c], rows[:, c], stats, gamma[c], norm) for c in shards]
    sums = sum(backward_sums(*shard) for shard in held)
    assert sums.shape == (2 if norm.centred else 1, TOKENS)
    parts = [backward_apply(*shard, sums, HIDDEN) for shard in held]
    assert np.allclose(np.concatenate([part[0] for part in parts], axis=1), dx, atol=1e-14)
    assert np.allclose(np.concatenate([part[1] for part in parts]), dgamma, atol=1e-13)
    if norm.centred:
        assert np.allclose(np.concatenate([part[2] for part in parts]), dbeta, atol=1e-13)


@pytest.mark.parametrize("norm", BOTH, ids=str)
def test_gradients_of_some_rows_are_those_of_the_whole_and_the_parameters_add_up(norm):
    rows, grad, gamma, _, (dx, dgamma, _) = gradients(norm, np.float32)
    shares = []
    for some in (slice(0, 2), slice(2, TOKENS)):
        own = statistics(rows[some], norm)
        part, share, _ = backward(grad[some], rows[some], own, gamma, norm)
        assert np.array_equal(bits(part), bits(dx[some]))
        shares.append(share)
    assert np.allclose(sum(shares), dgamma, atol=1e-5)
    assert not np.allclose(shares[0], dgamma, atol=0.1)


@pytest.mark.parametrize("norm", BOTH, ids=str)
def test_gradients_may_be_reduced_before_or_after_the_norm(norm):
    rows, _, gamma, stats, _ = gradients(norm)
    upstream = [drawn(10 + rank, TOKENS, HIDDEN) for rank in range(4)]
    before = backward(sum(upstream), rows, stats, gamma, norm)
    each = [backward(grad, rows, stats, gamma, norm) for grad in upstream]
    assert np.allclose(sum(dx for dx, _, _ in each), before[0], atol=1e-13)
    assert np.allclose(sum(dgamma for _, dgamma, _ in each), before[1], atol=1e-13)


@pytest.mark.parametrize("norm", BOTH, ids=str)
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_gradients_of_16_bits_are_computed_in_float32(norm, name):
    of = dtype(name)
    rows, grad, gamma = (drawn(n, TOKENS, HIDDEN).astype(of) for n in (1, 2, 3))
    dx, dgamma, _ = backward(grad, rows, statistics(rows, norm), gamma[0], norm)
    wide = [values.astype(np.float32) for values in (grad, rows, gamma)]
    expected = backward(*wide[:2], statistics(wide[1], norm), wide[2][0], norm)
    assert np.array_equal(bits(dx), bits(expected[0].astype(of)))
    assert dgamma.dtype == np.float32
    assert np.array_equal(dgamma, expected[1])


def test_no_rows_have_no_gradients():
    rows = np.zeros((0, 3), np.float32)
    dx, dgamma, dbeta = backward(
        rows, rows, statistics(rows, Norm()), np.ones(3, np.float32), Norm()
    )
    assert dx.shape == (0, 3)
    assert not dgamma.any()
    assert not dbeta.any()


@pytest.mark.parametrize("norm", BOTH, ids=str)
def test_the_reference_has_the_gradients_of_its_norm(norm):
    inputs = Inputs("iid", TOKENS, HIDDEN, np.dtype(np.float64), 3, residual=True, bias=True)
    beta = inputs.beta if norm.centred else None
    forward = reference(inputs.terms, inputs.gamma, beta, norm)
    upstream = [inputs.upstream(rank) for rank in range(3)]
    found = reference_gradients(forward, upstream, inputs.gamma, norm)
    rows = sum(inputs.terms)
    own = backward(sum(upstream), rows, statistics(rows, norm), inputs.gamma, norm)
    assert np.allclose(found.dx, own[0], atol=1e-13)
    assert np.allclose(found.dgamma, own[1], atol=1e-13)
    assert (found.dbeta is None) == (own[2] is None)
    if norm.centred:
        assert np.allclose(found.dbeta, own[2], atol=1e-13)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("norm", BOTH, ids=str)
def test_gradients_never_leave_their_tolerance(norm, name):
    judged = 0
    for kind in INPUTS:
        # Alone and with nothing added, storing the gradient is all that rounds in 16 bits.
        for size, hidden, added in ((1, 9, False), (3, 128, True), (8, 512, True)):
            inputs = Inputs(kind, 40, hidden, dtype(name), size, residual=added, bias=added)
            judged += judge(inputs, norm)
    assert judged > 30


def judge(inputs, norm):
    """Assert that no row that has a verdict is off by more; return the number of those rows."""
    beta = inputs.beta if norm.centred else None
    forward = reference(inputs.terms, inputs.gamma, beta, norm)
    upstream = [inputs.upstream(rank) for rank in range(inputs.size)]
    expected = reference_gradients(forward, upstream, inputs.gamma, norm)
    rows = simulated_norms.summed(inputs)
    dx, dgamma, dbeta = backward(
        simulated_norms.chain(upstream), rows, statistics(rows, norm), inputs.gamma, norm
    )
    rounding = Rounding(inputs.dtype, inputs.size - 1)
    additions = len(inputs.additions)
    tolerances = gradient_tolerance(expected, forward, inputs.gamma, norm, rounding, additions)
    verdict = tolerances[0] < ILL_CONDITIONED
    assert (relative_l2(dx, expected.dx) <= tolerances[0])[verdict].all()
    for found, exact, most in zip(
        (dgamma, dbeta), (expected.dgamma, expected.dbeta), tolerances[1:], strict=True
    ):
        if found is not None and most < ILL_CONDITIONED:
            assert relative_l2(found[np.newaxis], exact[np.newaxis])[0] <= most
    return verdict.sum()


def test_half_the_upstream_gradient_is_out_of_tolerance():
    inputs = Inputs("iid", TOKENS, HIDDEN, dtype("bfloat16"), 4)
    forward = reference(inputs.terms, inputs.gamma, inputs.beta, Norm())
    expected, some = (
        reference_gradients(forward, map(inputs.upstream, range(n)), inputs.gamma, Norm())
        for n in (4, 2)
    )
    rounding = Rounding(inputs.dtype, 3)
    dx, dgamma, dbeta = gradient_tolerance(expected, forward, inputs.gamma, Norm(), rounding)
    assert (relative_l2(some.dx, expected.dx) > dx).all()
    assert relative_l2(some.dgamma[np.newaxis], expected.dgamma[np.newaxis])[0] > dgamma
    assert relative_l2(some.dbeta[np.newaxis], expected.dbeta[np.newaxis])[0] > dbeta
