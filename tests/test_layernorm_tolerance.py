"""The tolerance of norms: correct orders never leave it, and every mistake does on some input."""

from dataclasses import replace
from math import log2

import numpy as np
import pytest
import simulated_norms as simulated

from hpccoll.datatypes import dtype
from hpccoll.layernorm.inputs import INPUTS, Inputs
from hpccoll.layernorm.metrics import relative_l2
from hpccoll.layernorm.norms import METHODS, Norm, apply, finish, merge, moments, statistics
from hpccoll.layernorm.reference import reference
from hpccoll.layernorm.tolerance import (
    ILL_CONDITIONED,
    Rounding,
    largest,
    norm_error,
    sum_error,
    sum_roundoff,
    tolerance,
    unit_roundoff,
)

EVERY = [Norm(method=method) for method in METHODS] + [Norm("rmsnorm")]
FLOATS = ("float16", "bfloat16", "float32", "float64")


def expected(inputs, norm):
    return reference(inputs.terms, inputs.gamma, simulated.beta(inputs, norm), norm)


def bound(inputs, norm, exact, add=simulated.chain, **more):
    rounding = Rounding(inputs.dtype, simulated.DEPTH[add](inputs.size), add is simulated.wide)
    rounding = replace(rounding, **more)
    return tolerance(exact, inputs.gamma, norm, rounding, len(inputs.additions))


@pytest.mark.parametrize("norm", EVERY, ids=str)
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("kind", INPUTS)
def test_correct_orders_never_leave_their_tolerance(norm, name, kind):
    for size, hidden, added in ((1, 5, False), (2, 1, True), (3, 64, False), (8, 300, True)):
        inputs = Inputs(kind, 6, hidden, dtype(name), size, residual=added, bias=added)
        exact = expected(inputs, norm)
        for add in simulated.DEPTH:
            if add is simulated.wide and name == "float64":
                continue  # float32 isn't wider
            error = relative_l2(simulated.right(inputs, norm, add), exact.y)
            most = bound(inputs, norm, exact, add)
            assert (error <= most)[most < ILL_CONDITIONED].all()


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shards", [2, 7, 32])
def test_merged_shards_never_leave_their_tolerance(name, method, shards):
    norm = Norm(method=method)
    for kind in ("iid", "cancelling", "outliers", "large-mean", "tiny-variance"):
        inputs = Inputs(kind, 6, 96, dtype(name), 4)
        exact, rows = expected(inputs, norm), simulated.summed(inputs)
        parts = [moments(part, norm) for part in np.array_split(rows, shards, axis=1)]
        y = apply(rows, finish(merge(parts), norm), inputs.gamma, inputs.beta)
        most = bound(inputs, norm, exact, shards=shards)
        assert (relative_l2(y, exact.y) <= most)[most < ILL_CONDITIONED].all()


@pytest.mark.parametrize("method", METHODS)
def test_a_mean_of_1000_stays_within_tolerance_or_has_no_verdict(method):
    rng = np.random.default_rng(5)
    norm, hidden = Norm(method=method), 512
    gamma, beta = np.ones(hidden), np.zeros(hidden)
    for name in FLOATS:
        parts = [(rng.standard_normal((8, hidden)) + 250).astype(dtype(name)) for _ in range(4)]
        exact = reference(parts, gamma, beta, norm)
        rows = simulated.chain(parts)
        y = apply(rows, statistics(rows, norm), gamma, beta)
        most = tolerance(exact, gamma, norm, Rounding(dtype(name), 3))
        assert (relative_l2(y, exact.y) <= most)[most < ILL_CONDITIONED].all()
        if name in ("float16", "bfloat16"):
            assert (most >= ILL_CONDITIONED).all()
        elif method in ("two-pass", "chan"):
            assert (most < ILL_CONDITIONED).all()


def divided_by_one_less(inputs, norm):
    rows = simulated.summed(inputs)
    own = moments(rows, norm)
    return apply(rows, finish(replace(own, count=own.count - 1), norm), inputs.gamma, inputs.beta)


def epsilon_outside_the_root(inputs, norm):
    rows = simulated.summed(inputs)
    stats = statistics(rows, replace(norm, eps=0.0))
    rstd = (1 / (1 / stats.rstd.astype(np.float64) + norm.eps)).astype(stats.rstd.dtype)
    return apply(rows, replace(stats, rstd=rstd), inputs.gamma, inputs.beta)


def rmsnorm_in_its_place(inputs, norm):
    rows = simulated.summed(inputs)
    stats = statistics(rows, Norm("rmsnorm", eps=norm.eps))
    return apply(rows, stats, inputs.gamma, inputs.beta)


def one_rank_dropped(inputs, norm):
    return simulated.right(replace(inputs, size=inputs.size - 1), norm)


MISTAKES = {
    **simulated.WRONG,
    **{
        mistake.__name__: mistake
        for mistake in (
            divided_by_one_less,
            epsilon_outside_the_root,
            rmsnorm_in_its_place,
            one_rank_dropped,
        )
    },
}


def told(mistake, kind, name="float32"):
    """Tell whether a row that has a verdict is out of its tolerance."""
    inputs = Inputs(kind, 8, 256, dtype(name), 4, residual=True, bias=True)
    exact = expected(inputs, Norm())
    most = bound(inputs, Norm(), exact)
    error = relative_l2(MISTAKES[mistake](inputs, Norm()), exact.y)
    return bool((error > most)[most < ILL_CONDITIONED].any())


@pytest.mark.parametrize("mistake", MISTAKES)
def test_every_mistake_is_told_by_some_input(mistake):
    assert any(told(mistake, kind) for kind in INPUTS)


def test_no_input_alone_tells_every_mistake_in_bfloat16():
    for kind in INPUTS:
        assert not all(told(mistake, kind, "bfloat16") for mistake in MISTAKES)


def test_epsilon_outside_the_root_needs_a_tiny_variance():
    assert told("epsilon_outside_the_root", "tiny-variance", "bfloat16")
    assert not told("epsilon_outside_the_root", "iid", "bfloat16")


def test_one_row_of_outliers_has_its_own_tolerance():
    """A mean over the rows would be too small for it, and too large for the others."""
    rows = np.random.default_rng(0).standard_normal((4, 512))
    rows[2, 0] += 1e4
    parts = [rows.astype(np.float32), (-0.999 * rows).astype(np.float32)]
    gamma = np.ones(512, np.float32)
    exact = reference(parts, gamma, None, Norm())
    found = tolerance(exact, gamma, Norm(), Rounding(np.dtype(np.float32), 1))
    assert (found < ILL_CONDITIONED).all()
    exact_scaled = reference([part[2:3] for part in parts], gamma, None, Norm())
    assert found[2] == tolerance(exact_scaled, gamma, Norm(), Rounding(np.dtype(np.float32), 1))[0]


def test_the_bound_of_a_sum_is_that_of_its_depth():
    total, magnitude = np.full((1, 4), 1.0), np.full((1, 4), 5.0)
    half, single = dtype("bfloat16"), dtype("float32")
    assert sum_error(total, magnitude, Rounding(half, 3), 0)[0] == 3 * 2.0**-8 * 5
    assert sum_error(total, magnitude, Rounding(half, 3), 2)[0] == 5 * 2.0**-8 * 5
    wide = 2.0**-8 * 1 + 3 * 2.0**-24 * 5
    assert sum_error(total, magnitude, Rounding(half, 3, True), 0)[0] == wide
    assert sum_error(total, magnitude, Rounding(single, 3, True), 0)[0] == 3 * 2.0**-24 * 5
    assert sum_error(total, magnitude, Rounding(half, 0, True), 0)[0] == 0
    assert sum_roundoff(Rounding(half, 3)) == 3 * 2.0**-8
    assert sum_roundoff(Rounding(half, 3, True)) == 2.0**-8 + 3 * 2.0**-24


def test_the_bound_of_a_norm_is_that_of_its_method():
    rows, total, rstd = np.array([1e-6]), np.full((1, 256), 10.0), np.array([0.5])
    rounding, u = Rounding(np.dtype(np.float32), 3), 2.0**-24
    base, steps, condition = 0.5e-6 + 4 * u, 12 + 8, 5.0

    def found(method, **more):
        return norm_error(rows, total, rstd, Norm(method=method), replace(rounding, **more))[0]

    assert found("two-pass") == pytest.approx(base + steps * u * condition)
    assert found("two-pass", shards=3) == pytest.approx(base + (steps + 8) * u * condition)
    assert found("chan") == pytest.approx(base + (steps + 4 * 7) * u * condition)
    assert found("welford") == pytest.approx(base + (12 + 256) * u * condition)
    more = 2 * (log2(256) + 2) * u * condition**2
    assert found("one-pass") == pytest.approx(base + steps * u * condition + more)


@pytest.mark.parametrize("name", FLOATS)
def test_the_properties_of_a_type_are_those_that_it_has(name):
    of = dtype(name)
    u = unit_roundoff(of)
    one = np.ones(1, of)
    assert (one + of.type(u)).astype(np.float64)[0] == 1
    assert (one + of.type(2 * u)).astype(np.float64)[0] == 1 + 2 * u
    most = np.float64(largest(of)).astype(of)
    assert np.isfinite(most)
    with np.errstate(over="ignore"):
        assert np.isinf(most * of.type(1 + 2 * u))


@pytest.mark.parametrize(
    ("name", "scale", "eps"),
    [
        ("float16", 3e4, 1e-5),  # the sum may overflow
        ("float32", 1e19, 1e-5),  # the squares overflow
        ("bfloat16", 1e19, 1e-5),
        ("float32", 1e-30, 0.0),  # the squares vanish
        ("float32", 0.0, 0.0),  # no variance at all
    ],
)
def test_rows_out_of_the_range_have_no_verdict(name, scale, eps):
    rows = (scale * np.random.default_rng(0).uniform(-1, 1, (3, 64))).astype(dtype(name))
    gamma = np.ones(64, rows.dtype)
    exact = reference([rows] * 3, gamma, None, Norm(eps=eps))
    found = tolerance(exact, gamma, Norm(eps=eps), Rounding(rows.dtype, 2))
    assert (found >= ILL_CONDITIONED).all()


def test_rows_of_subnormals_have_a_verdict_with_epsilon():
    rows = (1e-40 * np.random.default_rng(0).standard_normal((3, 64))).astype(np.float32)
    gamma, beta = np.ones(64, np.float32), np.ones(64, np.float32)
    exact = reference([rows] * 3, gamma, beta, Norm())
    found = tolerance(exact, gamma, Norm(), Rounding(rows.dtype, 2))
    assert (found < 1e-5).all()


@pytest.mark.parametrize("norm", [Norm(), Norm("rmsnorm")], ids=str)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_without_numbers_must_have_none_where_the_reference_has_none(norm, value):
    inputs = Inputs("iid", 5, 64, dtype("float16"), 3)
    parts = simulated.parts(inputs)
    parts[1][2, 7] = value
    beta = simulated.beta(inputs, norm)
    exact = reference(parts, inputs.gamma, beta, norm)
    found = tolerance(exact, inputs.gamma, norm, Rounding(inputs.dtype, 2))
    rows = simulated.chain(parts)
    y = apply(rows, statistics(rows, norm), inputs.gamma, beta)
    assert found[2] == 0
    assert (relative_l2(y, exact.y) <= found).all()
    y[2] = 0
    assert (relative_l2(y, exact.y) > found).tolist() == [False, False, True, False, False]


def test_no_rows_have_no_tolerances():
    inputs = Inputs("iid", 0, 8, dtype("float32"), 3)
    assert bound(inputs, Norm(), expected(inputs, Norm())).shape == (0,)
