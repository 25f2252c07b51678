"""The inputs of norms: each is what its name says, on any rank, from the seed alone."""

from dataclasses import replace

import numpy as np
import pytest

from hpccoll.datatypes import SIGNIFICAND, bits, dtype
from hpccoll.errors import UsageError
from hpccoll.layernorm.inputs import INPUTS, OUTLIER_CHANNELS, Inputs
from hpccoll.layernorm.norms import add_to

TOKENS, HIDDEN, SIZE = 64, 512, 4


def make(name, of="float64", size=SIZE, **more):
    return Inputs(name, TOKENS, HIDDEN, dtype(of), size, **more)


def parts(inputs):
    return np.array([inputs.partial(rank) for rank in range(inputs.size)]).astype(np.float64)


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("of", ["float16", "bfloat16", "float32", "float64"])
def test_all_arrays_are_finite_and_of_the_storage_type_and_shape(name, of):
    inputs = make(name, of, residual=True, bias=True)
    rows = [inputs.partial(0), inputs.partial(3), inputs.upstream(1), inputs.residual_rows]
    columns = [inputs.bias_vector, inputs.gamma, inputs.beta]
    for array, shape in [(a, (TOKENS, HIDDEN)) for a in rows] + [(a, (HIDDEN,)) for a in columns]:
        assert array.dtype == dtype(of)
        assert array.shape == shape
        assert array.flags.c_contiguous
        assert np.isfinite(array).all()


@pytest.mark.parametrize("name", INPUTS)
def test_the_seed_determines_every_array(name):
    one, same, other = (make(name, seed=seed, residual=True, bias=True) for seed in (3, 3, 4))
    for get in (
        lambda inputs: inputs.partial(2),
        lambda inputs: inputs.residual_rows,
        lambda inputs: inputs.bias_vector,
        lambda inputs: inputs.gamma,
        lambda inputs: inputs.beta,
        lambda inputs: inputs.upstream(2),
    ):
        assert np.array_equal(get(one), get(same))
        assert not np.array_equal(get(one), get(other))


@pytest.mark.parametrize("name", sorted(set(INPUTS) - {"replicated"}))
def test_ranks_differ(name):
    inputs = make(name)
    assert not np.array_equal(inputs.partial(1), inputs.partial(2))
    assert not np.array_equal(inputs.upstream(1), inputs.upstream(2))


def test_what_is_left_out_is_none_and_not_added():
    assert make("iid").residual_rows is make("iid").bias_vector is None
    assert make("iid").additions == ()
    both = make("iid", residual=True, bias=True)
    assert [term.shape for term in both.additions] == [(HIDDEN,), (TOKENS, HIDDEN)]
    assert len(list(both.terms)) == SIZE + 2


def test_replicated_parts_are_equal():
    assert (parts(make("replicated")) == make("replicated").partial(0)).all()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 64])
def test_scaled_parts_grow_from_1_to_64(size):
    spread = parts(make("scaled", size=size)).std(axis=(1, 2))
    assert spread[0] == pytest.approx(1, rel=0.02)
    if size > 1:
        assert spread[-1] == pytest.approx(64, rel=0.02)
        ratios = spread[1:] / spread[:-1]
        assert np.allclose(ratios, 64 ** (1 / (size - 1)), rtol=0.04)


@pytest.mark.parametrize("size", [1, 2, 8])
def test_cancelling_parts_leave_a_small_rest(size):
    each = parts(make("cancelling", size=size))
    assert each.sum(axis=0).std() == pytest.approx(0.04, rel=0.05)
    if size > 1:
        assert each[0].std() == pytest.approx(np.sqrt(size - 1), rel=0.05)


def test_outliers_are_the_same_few_channels_on_all_ranks_and_the_residual():
    inputs = make("outliers", residual=True)
    for rows in (*parts(inputs), inputs.residual_rows):
        spread = rows.std(axis=0)
        large = np.flatnonzero(spread > 100)
        assert len(large) == OUTLIER_CHANNELS
        assert np.array_equal(large, np.flatnonzero(inputs.partial(0).std(axis=0) > 100))
        assert np.allclose(spread[large], 300, rtol=0.4)


def test_a_large_mean_and_a_tiny_variance_are_as_large_and_tiny_as_said():
    assert parts(make("large-mean")).mean() == pytest.approx(100, abs=0.01)
    assert parts(make("large-mean")).std() == pytest.approx(1, rel=0.02)
    assert parts(make("tiny-variance")).var() == pytest.approx(1e-6, rel=0.02)


def test_constant_rows_stay_constant_with_bias_and_residual():
    inputs = make("constant", residual=True, bias=True)
    for rows in (*parts(inputs), add_to(inputs.partial(0), inputs.additions)):
        assert (rows == rows[:, :1]).all()
        assert len(set(rows[:, 0])) == TOKENS


@pytest.mark.parametrize("of", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("size", [1, 2, 8, 100])
def test_sums_of_integers_are_exact_in_any_order(of, size):
    inputs = make("integers", of, size, residual=True, bias=True)
    magnitude = sum(np.abs(term.astype(np.float64)) for term in inputs.terms)
    assert magnitude.max() <= 2 ** SIGNIFICAND[of]
    for term in inputs.terms:
        assert (term.astype(np.float64) % 1 == 0).all()
        assert term.any()


def test_more_ranks_than_a_type_has_integers_for_are_refused():
    with pytest.raises(UsageError, match=r"255 ranks aren't exact in bfloat16; .*--dtype float32"):
        make("integers", "bfloat16", 255)
    assert make("integers", "bfloat16", 254).partial(0).any()


@pytest.mark.parametrize("name", ["iid", "scaled", "tiny-variance", "outliers"])
def test_the_bias_is_two_hundredths_of_the_residual_and_that_as_large_as_a_part(name):
    inputs = make(name, residual=True, bias=True)
    part = np.sqrt(np.mean(np.square(parts(inputs))))
    assert np.sqrt(np.mean(np.square(inputs.residual_rows))) == pytest.approx(part, rel=0.15)
    assert np.sqrt(np.mean(np.square(inputs.bias_vector))) == pytest.approx(0.02 * part, rel=0.15)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "normal"}, r"unknown input 'normal'.*choose from iid"),
        ({"hidden": 0}, r"hidden dimension of at least 1, got 64 and 0"),
        ({"tokens": -1}, r"at least 0 tokens.*got -1 and 512"),
    ],
)
def test_inputs_that_cant_be_made_say_why(change, said):
    with pytest.raises(UsageError, match=said):
        replace(make("iid"), **change)


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize(("tokens", "hidden", "size"), [(0, 5, 3), (2, 1, 3), (2, 3, 1), (1, 1, 1)])
def test_the_smallest_shapes_can_be_made(name, tokens, hidden, size):
    inputs = Inputs(name, tokens, hidden, dtype("float32"), size, residual=True, bias=True)
    assert [term.shape[-1] for term in inputs.terms] == [hidden] * (size + 2)
    assert inputs.partial(size - 1).shape == (tokens, hidden)


def test_a_part_is_the_same_for_any_number_of_ranks():
    few, many = make("iid", size=2), make("iid", size=9)
    assert np.array_equal(bits(few.partial(1)), bits(many.partial(1)))
