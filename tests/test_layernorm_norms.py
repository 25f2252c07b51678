"""LayerNorm and RMSNorm: the definition, every method, shards, and the edges of the types."""

import math
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from hpccoll.datatypes import bits, dtype
from hpccoll.errors import UsageError
from hpccoll.layernorm.metrics import relative_l2
from hpccoll.layernorm.norms import (
    METHODS,
    NORMS,
    Moments,
    Norm,
    Statistics,
    accumulation,
    add_to,
    apply,
    finish,
    merge,
    moments,
    normalize,
    statistics,
)

FLOATS = ("float16", "bfloat16", "float32", "float64")
EVERY = [Norm(method=method) for method in METHODS] + [Norm("rmsnorm")]
TOKENS, HIDDEN = 37, 200


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def make(rng, name="float32", shape=(TOKENS, HIDDEN), mean=0.5):
    return (rng.standard_normal(shape) + mean).astype(dtype(name))


def defined(rows, gamma, beta, norm):
    """Compute the norm row by row with exact sums."""
    result = []
    for row in rows.astype(np.float64).tolist():
        mean = math.fsum(row) / len(row) if norm.kind == "layernorm" else 0.0
        root = math.sqrt(math.fsum((x - mean) ** 2 for x in row) / len(row) + norm.eps)
        result.append([g * (x - mean) / root for x, g in zip(row, gamma.tolist(), strict=True)])
    return np.array(result) + (0 if beta is None else beta.astype(np.float64))


@pytest.mark.parametrize("norm", EVERY, ids=str)
@pytest.mark.parametrize("name", FLOATS)
def test_a_norm_is_its_definition(rng, norm, name):
    rows, gamma, beta = make(rng, name), make(rng, name, HIDDEN), make(rng, name, HIDDEN)
    y, _ = normalize(rows, gamma, beta, norm)
    assert y.dtype == rows.dtype
    roundoff = {"float16": 2**-11, "bfloat16": 2**-8, "float32": 2**-18, "float64": 2**-47}[name]
    assert relative_l2(y, defined(rows, gamma, beta, norm)).max() < roundoff


@pytest.mark.parametrize("norm", EVERY, ids=str)
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_rows_of_16_bits_are_computed_in_float32_and_rounded_once(rng, norm, name):
    rows, gamma, beta = make(rng, name), make(rng, name, HIDDEN), make(rng, name, HIDDEN)
    wide = (values.astype(np.float32) for values in (rows, gamma, beta))
    y, stats = normalize(rows, gamma, beta, norm)
    assert stats.rstd.dtype == accumulation(rows.dtype) == np.float32
    expected = normalize(*wide, norm)[0].astype(rows.dtype)
    assert np.array_equal(bits(y), bits(expected))


@pytest.mark.parametrize(
    ("norm", "hidden"),
    [*((norm, hidden) for norm in EVERY for hidden in (1, 3, 128, 1000)), (Norm(), 70000)],
    ids=str,
)
@pytest.mark.parametrize("name", ["bfloat16", "float32"])
def test_a_rows_bits_depend_on_nothing_but_the_row(rng, norm, hidden, name):
    rows = make(rng, name, (41, hidden))
    gamma, beta = make(rng, name, hidden), make(rng, name, hidden)
    whole, stats = normalize(rows, gamma, beta, norm)
    for borders in [(0, 1, 41), (0, 13, 14, 41), tuple(range(42))]:
        for start, stop in pairwise(borders):
            some, own = normalize(rows[start:stop], gamma, beta, norm)
            assert np.array_equal(bits(some), bits(whole[start:stop]))
            assert np.array_equal(bits(own.rstd), bits(stats.rstd[start:stop]))


def test_the_layout_of_the_rows_changes_no_bit(rng):
    rows, gamma, beta = make(rng), make(rng, shape=HIDDEN), make(rng, shape=HIDDEN)
    expected, _ = normalize(rows, gamma, beta, Norm())
    columnwise, _ = normalize(np.asfortranarray(rows), gamma, beta, Norm())
    within = np.zeros((TOKENS, 2 * HIDDEN), np.float32)[:, :HIDDEN]
    within[:] = rows
    assert np.array_equal(bits(columnwise), bits(expected))
    assert np.array_equal(bits(normalize(within, gamma, beta, Norm())[0]), bits(expected))


def test_a_norm_in_place_is_the_norm(rng):
    rows, gamma, beta = make(rng), make(rng, shape=HIDDEN), make(rng, shape=HIDDEN)
    expected, _ = normalize(rows, gamma, beta, Norm())
    returned, _ = normalize(rows, gamma, beta, Norm(), out=rows)
    assert returned is rows
    assert np.array_equal(bits(rows), bits(expected))


@pytest.mark.parametrize("norm", EVERY, ids=str)
@pytest.mark.parametrize("borders", [(0, 50, 100, 200), (0, 1, 1, 200), (0, 0, 200, 200)])
def test_merged_moments_of_shards_are_those_of_the_rows(rng, norm, borders):
    rows = make(rng, "float64")
    shards = [moments(rows[:, start:stop], norm) for start, stop in pairwise(borders)]
    merged, whole = merge(shards), moments(rows, norm)
    assert merged.count == HIDDEN
    assert np.allclose(merged.m2, whole.m2, rtol=1e-13)
    assert np.allclose(finish(merged, norm).rstd, statistics(rows, norm).rstd, rtol=1e-13)
    if norm.centred:
        assert np.allclose(merged.mean, rows.mean(axis=1), rtol=1e-13)
    else:
        assert merged.mean is whole.mean is None


def test_one_shard_merges_to_itself(rng):
    own = moments(make(rng), Norm())
    assert merge([own]) is own


def test_merging_takes_the_shards_in_order():
    shards = [Moments(1, np.float32([x]), np.float32([0])) for x in (1e8, 1.0, -1e8)]
    swapped = [shards[0], shards[2], shards[1]]
    assert merge(shards).mean != merge(swapped).mean


def test_shards_of_the_columns_are_normalised_like_the_whole(rng):
    rows, gamma, beta = make(rng), make(rng, shape=HIDDEN), make(rng, shape=HIDDEN)
    whole, stats = normalize(rows, gamma, beta, Norm())
    for columns in (slice(0, 64), slice(64, HIDDEN)):
        part = apply(rows[:, columns], stats, gamma[columns], beta[columns])
        assert np.array_equal(bits(part), bits(whole[:, columns]))


def test_a_large_mean_costs_the_methods_different_digits(rng):
    spread = rng.standard_normal((40, 1000))
    errors = {}
    for method in METHODS:
        rows = (spread + 1e3).astype(np.float32)
        ones, zeros = np.ones(1000, np.float32), np.zeros(1000, np.float32)
        y, _ = normalize(rows, ones, zeros, Norm(method=method))
        errors[method] = np.median(relative_l2(y, defined(rows, ones, zeros, Norm())))
    assert errors["two-pass"] < 1e-4
    assert errors["chan"] < 1e-4
    assert 2 * errors["two-pass"] < errors["welford"] < 2e-3
    assert errors["one-pass"] > 5e-3


def test_a_negative_variance_of_the_one_pass_method_is_flagged(rng):
    rows = (rng.standard_normal((40, 1000)) + 1e4).astype(np.float32)
    flagged = statistics(rows, Norm(method="one-pass")).nonfinite
    assert flagged.any()
    for method in METHODS:
        if method != "one-pass":
            assert not statistics(rows, Norm(method=method)).nonfinite.any()


@pytest.mark.parametrize("norm", EVERY, ids=str)
def test_a_variance_that_overflows_is_flagged_in_its_row_alone(rng, norm):
    rows = make(rng)
    rows[3] = rng.standard_normal(HIDDEN) * 1e19
    ones = np.ones(HIDDEN, np.float32)
    y, stats = normalize(rows, ones, None, norm)
    assert np.flatnonzero(stats.nonfinite).tolist() == [3]
    if norm.method in ("two-pass", "chan"):
        assert not y[3].any(), "the silent zero that the flag is for"


@pytest.mark.parametrize("norm", [Norm(), Norm(method="chan"), Norm("rmsnorm")], ids=str)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_infinities_and_nans_stay_in_their_row(rng, norm, value):
    rows, gamma, beta = make(rng), make(rng, shape=HIDDEN), make(rng, shape=HIDDEN)
    clean, _ = normalize(rows, gamma, beta, norm)
    rows[5, 17] = value
    y, stats = normalize(rows, gamma, beta, norm)
    others = np.arange(TOKENS) != 5
    assert np.array_equal(bits(y[others]), bits(clean[others]))
    assert np.flatnonzero(stats.nonfinite).tolist() == [5]
    if norm.centred or np.isnan(value):
        assert np.isnan(y[5]).all()
    else:  # RMSNorm divides the others by infinity
        assert np.flatnonzero(np.isnan(y[5])).tolist() == [17]


@pytest.mark.parametrize("constant", [0.1, 1000.1, -3e4])
@pytest.mark.parametrize("method", ["two-pass", "welford", "chan"])
def test_a_constant_row_is_beta_up_to_its_condition(constant, method):
    rows = np.full((3, 768), constant, np.float32)
    ones, zeros = np.ones(768, np.float32), np.zeros(768, np.float32)
    y, _ = normalize(rows, ones, zeros, Norm(method=method))
    condition = 40 * 2.0**-24 * abs(constant) / math.sqrt(1e-5)
    assert np.abs(y).max() <= min(1.0, condition)


@pytest.mark.parametrize("eps", [0.0, 1e-12])
def test_a_constant_row_without_epsilon_is_no_number_or_beta(eps):
    rows, ones = np.full((1, 64), 2.0, np.float32), np.ones(64, np.float32)
    y, _ = normalize(rows, ones, ones, Norm(eps=eps))
    assert np.isnan(y).all() if eps == 0 else (y == 1).all()


@pytest.mark.parametrize("name", ["float32", "float16"])
def test_subnormal_rows_are_divided_by_the_root_of_epsilon(rng, name):
    tiny = {"float32": 1e-40, "float16": 1e-6}[name]
    rows = (rng.standard_normal((4, 256)) * tiny).astype(dtype(name))
    ones = np.ones(256, rows.dtype)
    y, stats = normalize(rows, ones, None, Norm("rmsnorm", eps=1e-5))
    assert np.allclose(stats.rstd, 1e-5**-0.5, rtol=1e-6)
    exact = rows.astype(np.float64) / math.sqrt(1e-5)
    smallest = {"float32": 2.0**-149, "float16": 2.0**-24}[name]
    assert (np.abs(y.astype(np.float64) - exact) <= np.maximum(smallest, 2e-3 * abs(exact))).all()
    assert y.any()


@pytest.mark.parametrize("norm", EVERY, ids=str)
@pytest.mark.parametrize("name", FLOATS)
def test_one_column_and_no_rows_are_rows_like_others(norm, name):
    one = np.array([[3.0], [-2.0]], dtype(name))
    beta = np.array([0.25], one.dtype)
    y, _ = normalize(one, np.ones(1, one.dtype), beta, norm)
    standardized = [[0.0], [0.0]] if norm.centred else [[1.0], [-1.0]]
    assert np.allclose(y.astype(np.float64), np.array(standardized) + 0.25, atol=1e-2)
    none, stats = normalize(np.zeros((0, 5), one.dtype), np.ones(5), np.zeros(5), norm)
    assert none.shape == (0, 5)
    assert stats.rstd.shape == (0,)


def test_negative_zeros_keep_their_sign():
    rows = np.array([[-0.0, 1.0, -1.0, 0.0]], np.float32)
    ones = np.ones(4, np.float32)
    y, _ = normalize(rows, ones, None, Norm("rmsnorm"))
    assert np.signbit(y).tolist() == [[True, False, True, False]]
    zeros = np.full((2, 3), -0.0, np.float32)
    assert np.signbit(add_to(zeros, [])).all()
    assert np.signbit(add_to(zeros, [zeros[0], zeros])).all()
    assert not np.signbit(add_to(zeros, [np.zeros(3, np.float32)])).any()


@pytest.mark.parametrize("name", FLOATS)
def test_bias_and_residual_are_added_in_order_and_rounded_once(rng, name):
    rows, bias, residual = make(rng, name), make(rng, name, HIDDEN), make(rng, name)
    wide = [values.astype(accumulation(rows.dtype)) for values in (rows, bias, residual)]
    expected = ((wide[0] + wide[1]) + wide[2]).astype(rows.dtype)
    assert np.array_equal(bits(add_to(rows, [bias, residual])), bits(expected))
    assert add_to(rows, [bias, residual], out=rows) is rows
    assert np.array_equal(bits(rows), bits(expected))


def test_epsilon_stands_inside_the_root():
    rows = np.array([[1e-3, -1e-3]])
    stats = statistics(rows, Norm(eps=3e-6))
    assert isinstance(stats, Statistics)
    assert stats.rstd[0] == pytest.approx(1 / math.sqrt(1e-6 + 3e-6), rel=1e-14)


@pytest.mark.parametrize(
    ("kind", "method", "eps", "said"),
    [
        ("batchnorm", "two-pass", 0.0, r"unknown norm 'batchnorm'.*layernorm, rmsnorm"),
        ("layernorm", "three-pass", 0.0, r"unknown method .* did you mean"),
        ("rmsnorm", "welford", 0.0, r"rmsnorm has none; choose --norm layernorm"),
        ("layernorm", "two-pass", -1e-5, r"eps must be finite and not negative, got -1e-05"),
        ("layernorm", "two-pass", math.nan, r"eps must be finite"),
    ],
)
def test_a_norm_that_isnt_defined_says_why(kind, method, eps, said):
    with pytest.raises(UsageError, match=said):
        Norm(kind, method, eps)


def test_the_names_are_those_that_can_be_made():
    assert [Norm(kind).kind for kind in NORMS] == list(NORMS)


def test_norms_need_no_package_for_bfloat16():
    modules = "norms gradients inputs reference metrics tolerance theory prediction expectation"
    lines = [f"import hpccoll.layernorm.{module}" for module in modules.split()]
    code = "\n".join([*lines, "import sys", "print({'ml_dtypes', 'mpi4py'} & set(sys.modules))"])
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stdout.strip() == "set()"
