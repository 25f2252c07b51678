"""Element types and operators, whose results are defined to the bit."""

import math
import operator as python
import struct
import subprocess
import sys
from itertools import permutations, product

import numpy as np
import pytest

from hpccoll.datatypes import (
    DTYPES,
    OPERATORS,
    bits,
    divide,
    dtype,
    kind,
    mpi_datatype,
    operator,
    operator_for,
    part,
)
from hpccoll.errors import UsageError

INTEGERS = [f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32, 64)]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
HALVES = FLOATS[:2]
COMPLEX = ["complex64", "complex128"]
DEFINED = {
    **dict.fromkeys(("sum", "prod"), INTEGERS + FLOATS + COMPLEX),
    **dict.fromkeys(("min", "max"), INTEGERS + FLOATS),
    "avg": FLOATS + COMPLEX,
    **dict.fromkeys(("band", "bor", "bxor", "land", "lor", "lxor"), INTEGERS),
}
PAIRS = [(op, name) for op, names in DEFINED.items() for name in names]
DEFINED |= {"matmul2x2": ("uint64",), "rsum": ("float32", "float64")}
MEANINGS = {
    "sum": python.add,
    "avg": python.add,  # the division comes at the end
    "prod": python.mul,
    "min": min,
    "max": max,
    "band": python.and_,
    "bor": python.or_,
    "bxor": python.xor,
    "land": lambda a, b: int(bool(a) and bool(b)),
    "lor": lambda a, b: int(bool(a) or bool(b)),
    "lxor": lambda a, b: int(bool(a) != bool(b)),
}
NAN = {"float16": 0x7E00, "bfloat16": 0x7FC0, "float32": 0x7FC00000, "float64": 0x7FF8 << 48}


@pytest.mark.parametrize("name", DTYPES)
def test_a_name_is_numpys_own(name):
    assert dtype(name).name == name
    names = {"integer": INTEGERS, "float": FLOATS, "complex": COMPLEX}
    assert name in names[kind(dtype(name))]


def test_bfloat16_is_loaded_only_when_asked_for():
    code = "import sys, hpccoll.datatypes; print('ml_dtypes' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert found.stdout.split() == [b"False"]


def test_without_its_package_bfloat16_is_refused_with_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(UsageError, match=r"pip install 'hpccoll\[bfloat16\]'"):
        dtype("bfloat16")


@pytest.mark.parametrize(("op", "name"), PAIRS)
def test_an_operator_reduces_in_the_element_type_into_a_given_place(op, name):
    values = [2, 3, 5, 0, 0], [4, 3, 1, 2, 0]
    meant = [MEANINGS[op](*pair) for pair in zip(*values, strict=True)]
    for alias in (None, 0, 1):
        operands = [np.array(each, dtype(name)) for each in values]
        into = np.empty(5, dtype(name)) if alias is None else operands[alias]
        result = operator(op).ufunc(*operands, out=into)
        assert result is into
        assert into.tolist() == meant
    operands = [np.array(each, dtype(name)) for each in values]
    new = operator(op).ufunc(*operands)
    assert (new.dtype, new.tolist()) == (dtype(name), meant)
    assert [each.tolist() for each in operands] == list(values), "the operands stay"


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_has_mpis_name(name):
    own = None if name in ("matmul2x2", "rsum") else name.upper()
    assert operator(name).mpi == ("SUM" if name == "avg" else own)
    assert operator(name).average == (name == "avg")


@pytest.mark.parametrize("op", OPERATORS)
def test_an_operator_is_had_for_the_types_that_it_is_defined_for(op):
    kinds = dict.fromkeys(kind(dtype(name)) for name in DEFINED[op])
    defined = " and ".join(operator(op).only or [f"{kind} types" for kind in kinds])
    for name in DTYPES:
        if name in DEFINED[op]:
            assert operator_for(op, dtype(name)) is OPERATORS[op]
            continue
        with pytest.raises(UsageError) as at:
            operator_for(op, dtype(name))
        others = ", ".join(other for other in OPERATORS if name in DEFINED[other])
        message = str(at.value)
        assert message.startswith(f"{op} is defined for {defined}, not for {name}")
        assert message.endswith(f"; choose another --dtype, or from {others}")
        assert ("which integers don't have" in message) == (op == "avg")
        plain = "the plain sum of integers is reproducible" in message
        assert plain == (op == "rsum" and kind(dtype(name)) == "integer")


def test_a_product_of_matrices_is_that_of_their_entries_and_keeps_the_order():
    random = np.random.default_rng(5)
    left, right = random.integers(0, 2**64, (2, 100), np.uint64)
    for x, y, z in zip(left, right, operator("matmul2x2").ufunc(left, right), strict=True):
        a, b, c = (
            [[int(m) >> 32 * i + 16 * j & 0xFFFF for j in (0, 1)] for i in (0, 1)]
            for m in (x, y, z)
        )
        for i in (0, 1):
            for j in (0, 1):
                assert c[i][j] == sum(a[i][k] * b[k][j] for k in (0, 1)) % 2**16
    assert not operator("matmul2x2").commutative
    assert (
        operator("matmul2x2").ufunc(left, right) != operator("matmul2x2").ufunc(right, left)
    ).any()


@pytest.mark.parametrize("op", OPERATORS)
def test_commutative_is_what_the_order_does_not_change(op):
    of = dtype((*operator(op).only, "int16")[0])
    one, other = np.random.default_rng(3).integers(0, 2**64, (2, 50), np.uint64).astype(of)
    either = (operator(op).reduced(of, pair) for pair in ((one, other), (other, one)))
    assert operator(op).commutative == np.array_equal(*either)


@pytest.mark.parametrize("op", OPERATORS)
def test_idempotent_is_what_a_second_time_does_not_change(op):
    of = dtype((*operator(op).only, "int16")[0])
    one, other = np.array([6, 0, 5, 0], of), np.array([3, 2, 0, 0], of)
    once, twice = (operator(op).reduced(of, [one, *[other] * times]) for times in (1, 2))
    assert operator(op).idempotent == np.array_equal(once, twice)


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_wrap_around(name):
    top, width = np.iinfo(name).max, np.iinfo(name).bits
    for op, values in {"sum": (top, 1), "prod": (top, 3)}.items():
        result = operator(op).ufunc(*(np.array([value], name) for value in values))
        assert (int(result[0]) - MEANINGS[op](*values)) % 2**width == 0


# 16-bit floats


def rounded(name, value):
    """Return the bits of a float32 value rounded to a 16-bit type, without numpy's conversions."""
    if math.isnan(value):
        return NAN[name]
    if name == "float16":
        try:
            return int.from_bytes(struct.pack("<e", value), "little")
        except OverflowError:
            return 0x7C00 | (value < 0) << 15
    word = int.from_bytes(struct.pack("<f", value), "little")
    return (word + 0x7FFF + (word >> 16 & 1)) >> 16


def operands(name, count=2000):
    """Return two arrays of a float type: special values in all pairs, then random bits."""
    of = dtype(name)
    unsigned = np.dtype(f"u{of.itemsize}")
    quiet = NAN[name]
    numbers = np.array([0, 1, 1.5, np.inf], of).view(unsigned).tolist()
    plus = [*numbers, 1, 2, numbers[3] - 1, numbers[3] + 1, quiet, quiet | 1]
    special = plus + [word | 1 << 8 * of.itemsize - 1 for word in plus]
    found = np.array(list(product(special, special)), unsigned).T
    random = np.random.default_rng(3).integers(0, np.iinfo(unsigned).max, (2, count), unsigned)
    return [np.concatenate(both).view(of) for both in zip(found, random, strict=True)]


@pytest.mark.parametrize("op", ["sum", "prod"])
@pytest.mark.parametrize("name", HALVES)
@np.errstate(all="ignore")
def test_halves_are_computed_in_float32_and_rounded_once(name, op):
    left, right = operands(name)
    single = MEANINGS[op](left.astype(np.float32), right.astype(np.float32))
    found = operator(op).ufunc(left, right)
    assert bits(found).tolist() == [rounded(name, value) for value in single.tolist()]


@pytest.mark.parametrize("divisor", [2, 3, 7, 48])
@pytest.mark.parametrize("name", HALVES)
@np.errstate(all="ignore")
def test_halves_are_divided_in_float32_and_rounded_once(name, divisor):
    (data, _) = operands(name)
    single = data.astype(np.float32) / np.float32(divisor)
    divide(data, divisor)
    assert bits(data).tolist() == [rounded(name, value) for value in single.tolist()]


@pytest.mark.parametrize("name", FLOATS[2:] + COMPLEX)
def test_a_division_rounds_once_and_complex_numbers_by_parts(name):
    of = part(dtype(name))
    values = np.arange(-50, 51).astype(of)
    data = values if name in FLOATS else values + 1j * values[::-1]
    data = data.astype(name)
    want = [float(of.type(value / 7)) for value in values.tolist()]  # of integers, in float64
    divide(data, 7)
    assert data.real.tolist() == want
    assert name in FLOATS or data.imag.tolist() == want[::-1]


# min and max of floats


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("name", FLOATS)
def test_extremes_order_zeros_and_make_every_nan_the_canonical_one(name, op):
    left, right = operands(name)
    found = operator(op).ufunc(left, right)
    for a, b, into, word in zip(left, right, found, bits(found).tolist(), strict=True):
        if math.isnan(a) or math.isnan(b):
            assert word == NAN[name]
        else:
            want = MEANINGS[op](a, b, key=lambda x: (float(x), not np.signbit(x)))
            assert (float(into), np.signbit(into)) == (float(want), np.signbit(want))


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("name", FLOATS)
def test_extremes_do_not_depend_on_the_order_to_the_bit(name, op):
    ufunc = operator(op).ufunc
    three = [operands(name)[0], operands(name)[1], operands(name)[1][::-1].copy()]
    results = {ufunc(ufunc(a, b), c).tobytes() for a, b, c in permutations(three)}
    results |= {ufunc(a, ufunc(b, c)).tobytes() for a, b, c in permutations(three)}
    assert len(results) == 1


# Complex products


@pytest.mark.parametrize("name", COMPLEX)
def test_a_complex_product_is_not_fused(name):
    """(x + xi) * (x + xi) has the real part x*x - x*x, which is 0 if both products are rounded."""
    x = 1 + 2.0 ** (-13 if name == "complex64" else -30)
    for count in (1, 3, 8, 64):
        data = np.full(count, x + 1j * x, name)
        found = operator("prod").ufunc(data, data)
        assert found.real.tolist() == [0] * count
        one = part(dtype(name)).type(x)
        assert found.imag.tolist() == [float(one * one + one * one)] * count


@pytest.mark.parametrize("name", COMPLEX)
def test_a_complex_product_is_that_of_the_parts(name):
    ar, ai, br, bi = np.random.default_rng(5).normal(size=(4, 500)).astype(part(dtype(name)))
    left, right = ((real + 1j * imag).astype(name) for real, imag in ((ar, ai), (br, bi)))
    found = operator("prod").ufunc(left, right, out=left)
    assert found.real.tolist() == (ar * br - ai * bi).tolist()
    assert found.imag.tolist() == (ar * bi + ai * br).tolist()


# MPI's names


def test_every_type_but_bfloat16_has_a_name_in_mpi():
    names = {name: mpi_datatype(dtype(name)) for name in DTYPES}
    assert [name for name, constant in names.items() if constant is None] == ["bfloat16"]
    assert len(set(names.values())) == len(DTYPES)


@pytest.mark.parametrize(
    ("find", "wrong", "near"),
    [
        *((dtype, "float23", "float32"), (dtype, "f4", None), (dtype, "", None)),
        *((operator, "sun", "sum"), (operator, "concat", None)),
    ],
)
def test_a_wrong_name_lists_the_right_ones(find, wrong, near):
    with pytest.raises(UsageError) as at:
        find(wrong)
    message = str(at.value)
    assert message.startswith(f"unknown {find.__name__} {wrong!r}")
    assert ("did you mean" in message) == (near is not None)
    assert near is None or f"did you mean {near}?" in message
    valid = DTYPES if find is dtype else OPERATORS
    assert message.endswith(f"(choose from {', '.join(valid)})")
