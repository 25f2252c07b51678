"""The kernel benchmark: what it measures, for every type and operator, and how it is shown."""

import numpy as np
import pytest

from hpccoll import datatypes, kernels
from hpccoll.datatypes import DTYPES, OPERATORS
from hpccoll.engines import kernels as native
from hpccoll.errors import UnsupportedError
from hpccoll.kernels import Speed

try:
    native.extension()
except UnsupportedError as error:
    pytest.skip(str(error), allow_module_level=True)

FLOAT, SUM = np.dtype("float32"), OPERATORS["sum"]
DEFINED = [
    (name, operator)
    for name in DTYPES
    for operator in OPERATORS.values()
    if operator.defined_for(datatypes.dtype(name)) and not (operator.average or operator.plain)
]


@pytest.fixture
def quick(monkeypatch):
    """Make a turn as short as it can be."""
    monkeypatch.setattr(kernels, "ROUNDS", 1)
    monkeypatch.setattr(kernels, "SHARE", 0.0)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("name", "operator"), DEFINED, ids=[f"{name}-{operator.name}" for name, operator in DEFINED]
)
def test_every_operator_is_measured_for_every_type_that_has_it(name, operator):
    dtype = datatypes.dtype(name)
    found = list(kernels.measure((dtype.itemsize, 64), dtype, operator))
    assert [speed.size for speed in found] == [dtype.itemsize, 64]
    assert all(speed.own > 0 and speed.numpy > 0 for speed in found)


@pytest.mark.usefixtures("quick")
def test_sizes_without_an_element_are_left_out():
    assert [speed.size for speed in kernels.measure((0, 3, 4, 8), FLOAT, SUM)] == [4, 8]


def test_a_reduction_moves_three_bytes_per_byte_of_a_vector(monkeypatch):
    monkeypatch.setattr(kernels, "_own", lambda *_: 2e-6)
    monkeypatch.setattr(kernels, "_numpy", lambda *_: 6e-6)
    (speed,) = kernels.measure((1000,), FLOAT, SUM)
    assert (speed.own, speed.numpy) == (pytest.approx(1.5e9), pytest.approx(0.5e9))


def test_contenders_take_turns_and_the_median_turn_counts(monkeypatch):
    turns = []
    own, theirs = iter([9e-6, 1e-6, 2e-6, 50e-6]), iter([4e-6, 8e-6, 1e-6])
    monkeypatch.setattr(kernels, "ROUNDS", 3)
    monkeypatch.setattr(kernels, "_own", lambda *_: turns.append("own") or next(own))
    monkeypatch.setattr(kernels, "_numpy", lambda *_: turns.append("numpy") or next(theirs))
    (speed,) = kernels.measure((4,), FLOAT, SUM)
    assert turns == ["own", *["own", "numpy"] * 3]  # the first one finds how often to repeat
    assert (speed.own, speed.numpy) == (pytest.approx(12 / 2e-6), pytest.approx(12 / 4e-6))


def test_a_line_has_the_ratio_of_the_speeds_and_fits_under_the_titles():
    rule = kernels.header(FLOAT, SUM).split("\n")[-1]
    line = kernels.line(Speed(1 << 20, 3e10, 1.5e10))
    assert line.split() == ["1", "MiB", "30.0", "15.0", "2.00"]
    assert len(line.rstrip()) <= len(rule)


def test_the_header_says_what_is_counted_and_with_what():
    text = kernels.header(FLOAT, OPERATORS["max"])
    assert text.startswith(f"kernels, float32 max, {native.kernel_target()}: ")
    for words in ("bytes of one vector", "1e9 bytes/s", "three times", "numpy"):
        assert words in " ".join(text.split())
