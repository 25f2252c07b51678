"""Element types and operators."""

import math

import numpy as np
import pytest

from hpccoll.datatypes import DTYPES, OPERATORS, dtype, operator
from hpccoll.errors import UsageError

MEANINGS = {"sum": sum, "prod": math.prod, "min": min, "max": max}


@pytest.mark.parametrize("name", DTYPES)
def test_a_name_is_numpys_own(name):
    assert dtype(name).name == name


def test_the_operators_are_those_with_a_meaning():
    assert set(OPERATORS) == set(MEANINGS)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("op", OPERATORS)
def test_an_operator_reduces_in_the_element_type_into_a_given_place(name, op):
    left, right = np.array([2, 3, 5], name), np.array([4, 3, 1], name)
    into = np.empty(3, name)
    result = operator(op).ufunc(left, right, out=into)
    assert result is into
    assert into.tolist() == [MEANINGS[op](pair) for pair in zip((2, 3, 5), (4, 3, 1), strict=True)]


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_has_mpis_name(name):
    assert operator(name).mpi == name.upper()


@pytest.mark.parametrize(
    ("find", "wrong", "near"),
    [
        *((dtype, "float23", "float32"), (dtype, "f4", None), (dtype, "", None)),
        *((operator, "sun", "sum"), (operator, "bxor", None)),
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
