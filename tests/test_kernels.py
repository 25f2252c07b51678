"""The reduction kernels, bit for bit against the definition, in every instruction set.

bfloat16 has no numpy dtype: its arrays hold the bits, as uint16.
"""

from itertools import product

import numpy as np
import pytest

from hpccoll.datatypes import converted
from hpccoll.engines import kernels as native
from hpccoll.errors import UnsupportedError
from hpccoll.reproducible import ACCUMULATORS, merge

try:
    native.extension()
except UnsupportedError as error:
    pytest.skip(str(error), allow_module_level=True)

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = {"complex64": "float32", "complex128": "float64"}
ARITHMETIC, ORDER = ["sum", "prod"], ["min", "max"]
BITS = ["band", "bor", "bxor", "land", "lor", "lxor"]
DEFINED = [
    *product(INTEGERS, ARITHMETIC + ORDER + BITS),
    *product(FLOATS, ARITHMETIC + ORDER),
    *product(COMPLEX, ARITHMETIC),
]
NAN = {"float16": 0x7E00, "bfloat16": 0x7FC0, "float32": 0x7FC00000, "float64": 0x7FF8 << 48}
"""The bits of the canonical quiet NaN."""
MANTISSA = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}
UFUNCS = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
    "land": np.logical_and,
    "lor": np.logical_or,
    "lxor": np.logical_xor,
}
COUNTS = [*range(71), 1000, 2049]


@pytest.fixture(autouse=True, params=native.targets())
def target(request):
    """Run a test once in every instruction set that this processor has."""
    before = native.kernel_target()
    native.select_target(request.param)
    with np.errstate(all="ignore"):
        yield request.param
    native.select_target(before)


def stored(dtype):
    """Return the numpy dtype of an array."""
    return np.dtype("uint16" if dtype == "bfloat16" else dtype)


def bits_of(array):
    """Return the elements' bits; of a complex array those of its parts."""
    if array.dtype.kind == "c":
        array = array.view(f"f{array.itemsize // 2}")
    return array.view(f"u{array.itemsize}")


def widened(bits):
    """Return the float32 values of bfloat16 bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def narrowed(values):
    """Round float32 to bfloat16 bits: to the nearer neighbour, on a tie to the even one."""
    low = values.view(np.uint32) & np.uint32(0xFFFF0000)
    high = low + np.uint32(0x10000)
    # The neighbour above the largest finite value stands at 2**128 for rounding.
    ends = [end.view(np.float32).astype(np.float64) for end in (low, high)]
    ends = [np.where(np.isinf(end), np.copysign(2.0**128, end), end) for end in ends]
    below, above = np.abs(values - ends[0]), np.abs(ends[1] - values)
    up = (below > above) | ((below == above) & (low >> 16 & 1 == 1))
    rounded = np.where(up & np.isfinite(values), high, low) >> 16
    return np.where(np.isnan(values), NAN["bfloat16"], rounded).astype(np.uint16)


def canonical(dtype, bits):
    """Return float bits with every NaN the canonical one."""
    infinity = np.uint64(NAN[dtype]) & ~np.uint64(1 << MANTISSA[dtype] - 1)
    magnitude = bits & bits.dtype.type(np.iinfo(bits.dtype).max >> 1)
    return np.where(magnitude > infinity, bits.dtype.type(NAN[dtype]), bits)


def specials(dtype):
    """Return the bits of zeros, ones, subnormals, largest, infinities and NaN, in both signs."""
    tiny, quiet = 1 << MANTISSA[dtype], NAN[dtype]
    infinity = quiet & ~(tiny >> 1)
    plus = [0, 1, 2, tiny - 1, tiny, tiny + 1, infinity // 2, infinity - 1, infinity]
    plus += [infinity + 1, quiet, quiet + 1]
    sign = 1 << (8 * stored(dtype).itemsize - 1)
    kind = np.dtype(f"u{stored(dtype).itemsize}")
    return np.array(plus + [value | sign for value in plus], kind)


def pairs(dtype, count):
    """Return two operands: as many pairs of special values as fit, random bits behind."""
    if dtype in COMPLEX:
        return [found.view(dtype) for found in pairs(COMPLEX[dtype], 2 * count)]
    kind = np.dtype(f"u{stored(dtype).itemsize}")
    if dtype in FLOATS:
        special = specials(dtype)
    else:
        top = np.iinfo(kind).max
        special = np.array([0, 1, 2, 3, top >> 1, (top >> 1) + 1, top - 1, top], kind)
    rng = np.random.default_rng(count)
    chosen = rng.permutation(np.array(list(product(special, special)), kind))[:count].T
    operands = rng.integers(0, np.iinfo(kind).max, (2, count), kind, endpoint=True)
    operands[:, : chosen.shape[1]] = chosen
    return [operand.view(stored(dtype)) for operand in operands]


def extreme(dtype, operator, left, right):
    """Return min or max by the bits: ordered as sign and magnitude, -0 below +0, NaN above all."""
    a, b = bits_of(left), bits_of(right)
    signed = [bits.view(f"i{bits.itemsize}") for bits in (a, b)]
    mask = np.iinfo(signed[0].dtype).max
    key_a, key_b = (np.where(bits < 0, bits ^ mask, bits) for bits in signed)
    found = np.where(key_a <= key_b if operator == "min" else key_a >= key_b, a, b)
    nans = [canonical(dtype, bits) == NAN[dtype] for bits in (a, b)]
    return np.where(nans[0] | nans[1], a.dtype.type(NAN[dtype]), found)


def expected(dtype, operator, left, right):
    """Return the bits of the defined result, every NaN canonical."""
    if dtype in FLOATS and operator in ORDER:
        return extreme(dtype, operator, left, right)
    if dtype == "bfloat16":
        return narrowed(UFUNCS[operator](widened(left), widened(right)))
    if dtype in COMPLEX and operator == "prod":
        ar, ai, br, bi = left.real, left.imag, right.real, right.imag
        parts = np.stack([ar * br - ai * bi, ar * bi + ai * br], axis=-1)
        return canonical(COMPLEX[dtype], bits_of(parts.reshape(-1)))
    found = bits_of(UFUNCS[operator](left, right).astype(left.dtype))
    return found if dtype in INTEGERS else canonical(COMPLEX.get(dtype, dtype), found)


def at(offset, array):
    """Return a copy that begins `offset` bytes behind an aligned address."""
    raw = np.zeros(array.nbytes + offset, np.uint8)
    raw[offset:] = array.view(np.uint8)
    return raw[offset:].view(array.dtype)


def comparable(dtype, operator, array):
    """Return the bits; a NaN's sign and payload count where the kernels define them."""
    bits = bits_of(array)
    defined = dtype in [*INTEGERS, "float16", "bfloat16"] or operator in ORDER
    return bits if defined else canonical(COMPLEX.get(dtype, dtype), bits)


@pytest.mark.parametrize(("dtype", "operator"), DEFINED)
def test_every_count_alignment_and_aliasing_gives_the_defined_bits(dtype, operator):
    for count in COUNTS:
        left, right = pairs(dtype, count)
        right_bits = expected(dtype, operator, left, right)
        a, b, c = at(1, left), at(2, right), at(3, np.zeros_like(left))
        for into, x, y in ((c, a, b), (a.copy(), None, b), (b.copy(), a, None)):
            native.reduce(dtype, operator, into, into if x is None else x, into if y is None else y)
            found = comparable(dtype, operator, into)
            assert np.array_equal(found, right_bits), (dtype, operator, count)


@pytest.mark.parametrize(("dtype", "operator"), DEFINED)
def test_nothing_outside_the_result_is_written(dtype, operator):
    for count in range(71):
        left, right = pairs(dtype, count + 2)
        into = left.copy()
        native.reduce(dtype, operator, into[1:-1], left[1:-1], right[1:-1])
        assert bits_of(into[[0, -1]]).tolist() == bits_of(left[[0, -1]]).tolist()


@pytest.mark.parametrize("operator", ARITHMETIC + ORDER)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_all_values_of_16_bit_floats(dtype, operator):
    every = np.arange(1 << 16, dtype=np.uint16).view(stored(dtype))
    for other in specials(dtype):
        right = np.full(1 << 16, other).view(stored(dtype))
        into = np.empty_like(every)
        native.reduce(dtype, operator, into, every, right)
        assert np.array_equal(bits_of(into), expected(dtype, operator, every, right)), hex(other)


@pytest.mark.parametrize("operator", ORDER)
@pytest.mark.parametrize("dtype", FLOATS)
def test_min_and_max_do_not_depend_on_the_order(dtype, operator):
    left, right = pairs(dtype, 2000)
    third = left[::-1].copy()

    def combine(a, b):
        into = np.empty_like(a)
        native.reduce(dtype, operator, into, a, b)
        return into

    found = bits_of(combine(combine(left, right), third))
    for other in (combine(left, combine(right, third)), combine(combine(third, left), right)):
        assert np.array_equal(bits_of(other), found)


@pytest.mark.parametrize(
    ("dtype", "operator"), [*product(FLOATS, BITS), *product(COMPLEX, ORDER + BITS)]
)
def test_what_is_not_defined_is_refused(dtype, operator):
    a = np.zeros(4, stored(dtype))
    with pytest.raises(ValueError, match=operator):
        native.reduce(dtype, operator, a, a, a)


# The reproducible sum: the kernels against the reference in numpy


def terms(dtype, count, seed):
    """Yield operands: random bits with all special values, close together, and cancelling."""
    rng = np.random.default_rng(seed)
    yield pairs(dtype, count)[seed % 2]
    near = rng.standard_normal(count).astype(dtype)
    yield near
    yield np.ldexp(near, rng.integers(-60, 60, count)).astype(dtype)
    yield np.ldexp(near, np.finfo(dtype).minexp - 3).astype(dtype)
    yield -pairs(dtype, count)[1 - seed % 2]


@pytest.mark.parametrize("dtype", ACCUMULATORS)
def test_accumulators_are_made_and_merged_as_the_reference_does(dtype):
    of = ACCUMULATORS[dtype]
    for count in (*range(40), 2049):
        operands = []
        for values in (v for seed in (0, 1) for v in terms(dtype, count, seed)):
            found, right = at(1, np.zeros(count, of)), converted(values, of)
            native.convert(at(2, values), found)
            assert found.tobytes() == right.tobytes(), count
            operands.append(right)
        for left, right in product(operands, operands):
            into = left.copy()
            native.reduce(of.name, "rsum", into, into, right)
            assert into.tobytes() == merge(left, right).tobytes(), count


@pytest.mark.parametrize("dtype", ACCUMULATORS)
def test_sums_are_rounded_as_the_reference_does(dtype):
    of, rng = ACCUMULATORS[dtype], np.random.default_rng(7)
    top = np.dtype(of["words"].base).itemsize * 8 - 3  # the bits of a field
    for count in (*range(40), 5000):
        fields = rng.integers(-(1 << top), 1 << top, (count, 3)) >> rng.integers(
            0, top + 1, (count, 3)
        )
        fields[::5] = rng.integers(0, 2, fields[::5].shape)
        index = rng.choice([0, 1, 2, 3, 10, 19, 63], count)
        fields[index == 0] = 0
        fields[index == 1, 2] = 0
        sums = np.zeros(count, of)
        sums["words"] = fields << 2 | index[:, None] >> np.array([4, 2, 0]) & 3
        found = at(1, np.zeros(count, dtype))
        native.convert(at(2, sums), found)
        assert found.tobytes() == converted(sums, np.dtype(dtype)).tobytes()


def test_what_is_not_converted_is_refused():
    with pytest.raises(ValueError, match="float32 isn't converted to float64"):
        native.convert(np.zeros(1, "float32"), np.zeros(1, "float64"))
