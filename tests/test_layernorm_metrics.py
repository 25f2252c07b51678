"""Metrics of results: distances of rows, and their bits."""

import numpy as np
import pytest

from hpccoll.datatypes import bits, dtype
from hpccoll.layernorm.metrics import bit_equal, cosine, digest, norm_ulps, relative_l2

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("y", "expected", "error"),
    [
        ([3.0, 4.0], [3.0, 4.0], 0.0),
        ([3.0, 4.5], [3.0, 4.0], 0.1),
        ([0.0, 0.0], [0.0, 0.0], 0.0),
        ([0.0, 1.0], [0.0, 0.0], INF),
        ([NAN, 4.0], [NAN, 4.0], 0.0),
        ([NAN, 4.4], [NAN, 4.0], 0.1),
        ([NAN, 4.0], [3.0, 4.0], INF),
        ([3.0, 4.0], [NAN, 4.0], INF),
        ([NAN, NAN], [NAN, NAN], 0.0),
        ([INF, 4.0], [INF, 4.0], 0.0),
        ([INF, 4.0], [-INF, 4.0], INF),
        ([3.0, INF], [3.0, 4.0], INF),
    ],
)
def test_the_relative_error_of_a_row(y, expected, error):
    found = relative_l2(np.array([y, [1.0, 1.0]]), np.array([expected, [1.0, 1.0]]))
    assert found.tolist() == pytest.approx([error, 0.0], rel=1e-12)


@pytest.mark.parametrize("of", ["float16", "bfloat16", "float32", "float64"])
def test_a_norm_ulp_is_the_last_place_of_one(of):
    one = np.ones((1, 3), dtype(of))
    above = one.copy()
    bits(above)[0, 1:2] += 1
    bits(above)[0, 2:3] += 5
    assert norm_ulps(above, one.astype(np.float64)).tolist() == [5.0]
    assert norm_ulps(one[:0], one[:0].astype(np.float64)).tolist() == []


def test_the_cosine_sees_angles_and_no_factors():
    rows = np.array([[1.0, 0.0], [2.0, 2.0], [0.0, 3.0]])
    assert np.allclose(cosine(5 * rows, rows), 1)
    assert np.allclose(cosine(rows, rows[:, ::-1]), [0, 1, 0])
    assert np.isnan(cosine(np.zeros((1, 2)), rows[:1])).all()


@pytest.mark.parametrize("of", ["float16", "bfloat16", "float32", "float64"])
def test_bits_are_equal_where_values_and_signs_are_and_all_nans_are_one(of):
    left = np.array([[1.0, -0.0, NAN, 2.0]], dtype(of))
    right = np.array([[1.0, 0.0, NAN, 3.0]], dtype(of))
    bits(right)[0, 2:3] |= 1
    assert bit_equal(left, right) == 0.5
    assert bit_equal(left, left) == 1.0
    assert bit_equal(left[:0], left[:0]) == 1.0


@pytest.mark.parametrize("of", ["float16", "bfloat16", "float32", "float64"])
def test_a_digest_holds_all_nans_for_one_and_nothing_else(of):
    rows = np.array([[1.0, 0.0], [NAN, 2.0]], dtype(of))
    payload, sign, value = rows.copy(), rows.copy(), rows.copy()
    bits(payload)[1, 0:1] |= 1
    sign[0, 1] = -0.0
    bits(value)[1, 1:2] += 1
    assert digest(payload) == digest(rows)
    assert not np.array_equal(bits(payload), bits(rows))
    others = [digest(rows.reshape(4, 1)), digest(sign), digest(value), digest(rows[::-1])]
    assert len({digest(rows), *others}) == 5


def test_a_digest_leaves_the_rows_alone():
    rows = np.array([[NAN, 1.0]])
    bits(rows)[0, 0:1] |= 1
    kept = bits(rows).copy()
    digest(rows)
    assert np.array_equal(bits(rows), kept)
