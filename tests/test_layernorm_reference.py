"""The reference: exact sums, and norms that a large mean costs no digits."""

import math
from fractions import Fraction

import numpy as np
import pytest

from hpccoll.layernorm.norms import Norm
from hpccoll.layernorm.reference import exact_sum, reference, standardize

BOTH = [Norm(), Norm("rmsnorm")]


def wide_range(seed, shape):
    """Return values of magnitudes from 1e-8 to 1e8."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape) * 10.0 ** rng.integers(-8, 8, shape)


def test_sums_are_those_of_fsum():
    terms = [wide_range(seed, (30, 40)) for seed in range(9)]
    terms.append(-sum(terms) * (1 + 1e-12))
    total = exact_sum(terms).total
    exact = np.vectorize(lambda *values: math.fsum(values))(*terms)
    assert np.array_equal(total, exact)
    assert not np.array_equal(sum(terms), exact)


def test_the_low_part_is_what_a_float64_leaves_out():
    terms = [wide_range(seed, (5, 6)) for seed in range(7)]
    found = exact_sum(terms)
    for index in np.ndindex(5, 6):
        exact = sum(Fraction(float(term[index])) for term in terms)
        pair = Fraction(float(found.high[index])) + Fraction(float(found.low[index]))
        assert abs(pair - exact) <= Fraction(2) ** -100 * Fraction(found.magnitude[index])


def test_a_vector_is_added_to_every_row():
    rows, vector = wide_range(1, (4, 5)), wide_range(2, 5)
    assert np.array_equal(exact_sum([rows, vector]).total, rows + vector)
    assert np.array_equal(exact_sum([rows, vector]).magnitude, abs(rows) + abs(vector))


def test_the_terms_are_left_alone():
    rows = wide_range(1, (4, 5))
    kept = rows.copy()
    exact_sum([rows, rows])
    assert np.array_equal(rows, kept)


def test_negative_zeros_infinities_and_nans_are_summed_as_ieee_754_says():
    terms = [
        np.array([[-0.0, -0.0, np.inf, np.inf, np.nan, 1.0]]),
        np.array([[-0.0, 0.0, 1.0, -np.inf, 1.0, -1.0]]),
    ]
    total = exact_sum(terms).total[0]
    assert np.signbit(total).tolist()[:2] == [True, False]
    assert total[2] == np.inf
    assert np.isnan(total[3:5]).all()
    assert total[5] == 0


@pytest.mark.parametrize("norm", BOTH, ids=str)
@pytest.mark.parametrize("mean", [0.0, 1e3, 1e9])
def test_the_norm_is_exact_to_a_few_units_whatever_the_mean(norm, mean):
    rows = mean + np.random.default_rng(1).standard_normal((3, 50))
    low = 2.0**-60 * np.random.default_rng(2).standard_normal((3, 50))
    found, _, rstd = standardize(rows, norm, low)
    for row, some in enumerate(found):
        values = [Fraction(a) + Fraction(b) for a, b in zip(rows[row], low[row], strict=True)]
        centre = sum(values) / 50 if norm.centred else Fraction(0)
        square = sum((value - centre) ** 2 for value in values) / 50
        root = math.sqrt(square + Fraction(norm.eps))
        assert rstd[row] == pytest.approx(1 / root, rel=1e-15)
        exact = [float(value - centre) / root for value in values]
        assert np.allclose(some, exact, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("norm", BOTH, ids=str)
def test_the_parts_of_a_reference_belong_together(norm):
    terms = [wide_range(seed, (6, 32)) for seed in range(3)]
    gamma, beta = wide_range(8, 32), wide_range(9, 32)
    found = reference(terms, gamma, beta, norm)
    assert np.array_equal(found.total, exact_sum(terms).total)
    assert np.array_equal(found.y, found.standardized * gamma + beta)
    shift = 0 if found.mean is None else found.mean[:, np.newaxis]
    assert np.allclose((found.total - shift) * found.rstd[:, np.newaxis], found.standardized)
    assert (found.mean is None) == (norm.kind == "rmsnorm")
    without = reference(terms, gamma, None, norm)
    assert np.array_equal(without.y, found.standardized * gamma)


def test_a_constant_row_is_exactly_beta():
    beta = wide_range(1, 7)
    found = reference([np.full((1, 7), 0.1), np.full((1, 7), 0.2)], np.ones(7), beta, Norm())
    assert np.allclose(found.y[0], beta, rtol=0, atol=1e-25)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_without_a_sum_has_no_norm_and_the_others_theirs(value):
    terms = [wide_range(seed, (3, 8)) for seed in range(2)]
    clean = reference(terms, np.ones(8), None, Norm())
    terms[1][1, 4] = value
    found = reference(terms, np.ones(8), None, Norm())
    assert np.isnan(found.y[1]).all()
    assert np.array_equal(found.y[[0, 2]], clean.y[[0, 2]])


def test_no_rows_have_a_reference():
    found = reference([np.zeros((0, 4))] * 2, np.ones(4), np.ones(4), Norm())
    assert found.y.shape == (0, 4)
    assert found.rstd.shape == found.mean.shape == (0,)
