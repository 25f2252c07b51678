"""The reproducible sum: what an accumulator is, that order doesn't matter, and how near it is.

Exact values are fractions, so that no rounding but the one that is asked for takes part.
"""

import math
from fractions import Fraction
from functools import reduce

import numpy as np
import pytest

from hpccoll.bind import Segmentation, bind
from hpccoll.datatypes import OPERATORS, bits, converted
from hpccoll.engines import loopback
from hpccoll.layout import Message
from hpccoll.registry import Choice
from hpccoll.reproducible import ACCUMULATORS, TERMS, merge

FLOATS = ("float32", "float64")
DIGITS = {"float32": 24, "float64": 53}
WIDTH = {"float32": 14, "float64": 46}
LEAST = {"float32": -149, "float64": -1074}
"""Exponent of the smallest subnormal."""
LAST = {"float32": 19, "float64": 45}
"""The index of the largest numbers."""
NAN = {"float32": 0x7FC00000, "float64": 0x7FF8 << 48}


def encoded(values):
    """Return the accumulators of floats."""
    return converted(values, ACCUMULATORS[values.dtype.name])


def total(name, vectors):
    """Return the reproducible sum of vectors."""
    return OPERATORS["rsum"].reduced(np.dtype(name), [np.asarray(v, name) for v in vectors])


def value(accumulator, name):
    """Return the index and the exact value of an accumulator."""
    words = [int(word) for word in accumulator["words"]]
    index = sum((word & 3) << place for word, place in zip(words, (4, 2, 0), strict=True))
    high, middle, low = (word >> 2 for word in words)
    whole = ((high << WIDTH[name]) + middle << WIDTH[name]) + low
    return index, whole * Fraction(2) ** (LEAST[name] + WIDTH[name] * (index - 2))


def nearest(exact, name):
    """Return the float nearest to a fraction, ties to even, as a Python number."""
    if not exact:
        return 0.0
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length() - 1
    exponent += abs(exact) >= Fraction(2) ** (exponent + 1)
    step = Fraction(2) ** max(exponent - DIGITS[name] + 1, LEAST[name])
    found = round(exact / step) * step
    top = Fraction(2) ** (128 if name == "float32" else 1024)
    if abs(found) >= top:
        return math.inf if found > 0 else -math.inf
    return float(found)


def random_bits(name, count, seed=0):
    """Return floats of random bits: of every magnitude, and some infinities and NaN."""
    kind = np.dtype(f"u{np.dtype(name).itemsize}")
    top = np.iinfo(kind).max
    return np.random.default_rng(seed).integers(0, top, count, kind, endpoint=True).view(name)


def finite(name, count, seed=0):
    """Return finite floats of every magnitude, of which no few sum to more than the largest."""
    values = random_bits(name, 2 * count, seed) / np.dtype(name).type(64)
    return values[np.isfinite(values)][:count]


def normal(name, count, seed=0):
    return np.random.default_rng(seed).standard_normal(count).astype(name)


def cancelling(name, count, seed=0):
    """Return numbers of which most are there with the other sign, too."""
    half = normal(name, count // 2, seed) * np.dtype(name).type(1e6)
    values = np.concatenate([half, -half + normal(name, count // 2, seed + 1)])
    return np.random.default_rng(seed).permutation(values.astype(name))


def subnormal(name, count, seed=0):
    """Return numbers of few units: subnormal ones and the smallest above them."""
    units = np.random.default_rng(seed).integers(-(2 ** DIGITS[name]), 2 ** DIGITS[name], count)
    return np.ldexp(units.astype(name), LEAST[name])


KINDS = (finite, normal, cancelling, subnormal)


@pytest.mark.parametrize("name", FLOATS)
@np.errstate(all="ignore")
def test_an_accumulator_has_the_exact_value_of_its_float_in_the_bin_of_its_exponent(name):
    values = np.concatenate([finite(name, 3000), subnormal(name, 100), np.zeros(1, name)])
    for number, accumulator in zip(values.tolist(), encoded(values), strict=True):
        index, exact = value(accumulator, name)
        assert exact == Fraction(number)
        exponent = max(math.frexp(number)[1] if number else -2000, LEAST[name] + DIGITS[name])
        assert index == (exponent - 1 - LEAST[name]) // WIDTH[name]
    largest = np.array([np.finfo(name).max], name)
    assert value(encoded(largest)[0], name)[0] == LAST[name]


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("values", KINDS)
@np.errstate(all="ignore")
def test_the_bins_that_are_kept_follow_from_the_largest_term_alone(values, name):
    """A sum's value is that of its terms, each cut off towards zero below the third bin."""
    for seed in range(20):
        terms = values(name, 40, seed)
        index, exact = value(reduce(merge, (encoded(terms[i : i + 1]) for i in range(40)))[0], name)
        assert index == max(value(each, name)[0] for each in encoded(terms))
        step = Fraction(2) ** (LEAST[name] + WIDTH[name] * (index - 2))
        assert exact == sum(math.trunc(Fraction(term) / step) * step for term in terms.tolist())


@pytest.mark.parametrize("name", FLOATS)
@np.errstate(all="ignore")
def test_a_sum_is_rounded_once_to_nearest_even(name):
    rng, width = np.random.default_rng(1), WIDTH[name]
    count, field = 4000, 1 << width + 15
    fields = rng.integers(-field, field, (count, 3)) >> rng.integers(0, width + 16, (count, 3))
    fields[::4, 1:] = rng.integers(-1, 2, (count // 4, 2))  # near ties, and on them
    fields[1::4, 2] = 0
    index = rng.integers(1, LAST[name] + 1, count)
    fields[index == 1, 2] = 0  # there is nothing below the smallest subnormal
    accumulators = np.empty(count, ACCUMULATORS[name])
    accumulators["words"] = fields << 2 | index[:, None] >> np.array([4, 2, 0]) & 3
    found = converted(accumulators, np.dtype(name))
    for accumulator, rounded in zip(accumulators, found.tolist(), strict=True):
        assert rounded == nearest(value(accumulator, name)[1], name)
    assert np.isinf(found).any()
    assert ((found != 0) & (np.abs(found) < np.finfo(name).smallest_normal)).any()


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("sign", [1, -1])
def test_no_field_overflows_with_as_many_terms_as_are_allowed(name, sign):
    """All bits of the number are set, wherever they fall into its bins."""
    ones = (2 ** DIGITS[name] - 1) * 2.0 ** -DIGITS[name]
    for exponent in range(-WIDTH[name], WIDTH[name]):
        accumulator = encoded(np.array([sign * math.ldexp(ones, exponent)], name))
        _, one = value(accumulator[0], name)
        for _ in range(TERMS.bit_length() - 1):
            accumulator = merge(accumulator, accumulator)
        assert value(accumulator[0], name)[1] == TERMS * one


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("values", [random_bits, *KINDS])
@np.errstate(all="ignore")
def test_no_order_and_no_grouping_changes_a_bit(values, name):
    rng = np.random.default_rng(2)
    vectors = encoded(values(name, 17 * 200)).reshape(17, 200)
    expected = reduce(merge, vectors)
    for _ in range(10):
        rest = [vectors[i] for i in rng.permutation(17)]
        while len(rest) > 1:
            one, other = (rest.pop(rng.integers(len(rest))) for _ in range(2))
            rest.append(merge(one, other))
        assert rest[0].tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", FLOATS)
def test_zeros_infinities_and_nan_are_those_of_ieee_754(name):
    inf, nan, top = math.inf, math.nan, float(np.finfo(name).max)
    cases = [
        ((0.0, 0.0), 0.0),
        ((-0.0, 0.0), 0.0),
        ((-0.0, -0.0), -0.0),
        ((-0.0,), -0.0),
        ((1.0, -1.0), 0.0),
        ((-1.0, 1.0, -0.0), 0.0),
        ((inf, 1.0, inf), inf),
        ((-inf, -top), -inf),
        ((inf, -inf), nan),
        ((inf, nan), nan),
        ((-nan, 1.0), nan),
        ((top, top), inf),
        ((-top, -top), -inf),
        ((top, top, -top), top),  # nothing overflows on the way
    ]
    for terms, right in cases:
        found = total(name, [[term] for term in terms])
        want = np.array([right], name)
        wanted = NAN[name] if math.isnan(right) else int(bits(want)[0])
        assert int(bits(found)[0]) == wanted, terms


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("values", KINDS)
@pytest.mark.parametrize("count", [2, 3, 10, 1000])
@np.errstate(all="ignore")
def test_the_error_is_within_the_bound_and_from_three_terms_on_within_the_plain_sums(
    values, name, count
):
    unit = Fraction(1, 2 ** DIGITS[name])
    for seed in range(20):
        terms = values(name, count, seed)
        exact = sum(map(Fraction, terms.tolist()))
        found = Fraction(float(total(name, terms.reshape(-1, 1))[0]))
        largest = Fraction(float(np.abs(terms).max()))
        dropped = (count - 1) * largest / 4 ** WIDTH[name]
        error, magnitudes = abs(found - exact), sum(abs(Fraction(t)) for t in terms.tolist())
        assert error <= unit * abs(exact) + (1 + unit) * dropped
        assert count < 3 or error <= (count - 1) * unit * magnitudes


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("values", [normal, cancelling])
def test_where_no_bit_is_dropped_it_is_the_correctly_rounded_sum(values, name):
    terms = values("float32", 1000).astype(name)
    if name == "float32":
        terms = np.round(terms * 4).astype(name)
    found = float(total(name, terms.reshape(-1, 1))[0])
    assert found == float(np.dtype(name).type(math.fsum(terms.tolist())))


LOCAL = 8
"""Vectors that the ranks have in all, some of them several."""


def sum_of(vectors):
    """Return the merged accumulators of some vectors, None of none."""
    return reduce(merge, vectors) if len(vectors) else None


def shares(vectors, order, size):
    """Return what every rank contributes: the sums of its vectors, after a permutation."""
    return [reduce(merge, vectors[order[rank::size]]) for rank in range(size)]


def test_algorithm_ranks_their_order_and_segments_change_no_bit(entry):
    if not entry.collective.reduces:
        return
    count, rng = 37, np.random.default_rng(4)
    vectors = encoded(random_bits("float32", LOCAL * count, seed=5)).reshape(LOCAL, count)
    whole = reduce(merge, vectors)
    for size in filter(entry.supports, range(1, LOCAL + 1)):
        inputs = shares(vectors, rng.permutation(LOCAL), size)
        for segment in (12, 60, 1 << 20):
            cut = Segmentation(segment)
            plans = [bind(Choice(entry), r, size, Message(count, 12), cut) for r in range(size)]
            for plan, output in zip(plans, loopback.run(plans, inputs, merge), strict=True):
                sources = entry.collective.sources(plan.rank, size, 0, 0, 1)
                # Of a scan, the last rank alone has the sum of all.
                part = whole if len(sources) == size else sum_of(inputs[: sources.stop])
                for span in filter(None, plan.layout.result_spans):
                    found = output[: len(span)].tobytes()
                    assert found == part[span.start : span.stop].tobytes(), (size, segment)


def test_a_plain_sum_is_changed_by_the_order():
    """Without accumulators the inputs of the test above would be seen to differ."""
    vectors = normal("float32", LOCAL * 37).reshape(LOCAL, 37)
    assert not np.array_equal(reduce(np.add, vectors), reduce(np.add, vectors[::-1]))
