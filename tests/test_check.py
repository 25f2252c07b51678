"""The check of results: the expected result is exact, and every fault changes it."""

import operator as python
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import accumulate
from typing import Any

import definitions
import numpy as np
import pytest

from hpccoll import check
from hpccoll.check import Pattern
from hpccoll.collectives import COLLECTIVES
from hpccoll.datatypes import COMPLEX, DTYPES, OPERATORS, bits, converted, divide, kind, part
from hpccoll.datatypes import dtype as datatype
from hpccoll.layout import INPUT, SCRATCH, Message, layout

SIZES = (1, 2, 3, 5, 9, 64, 200)
COUNT = 40
PYTHON = {
    "sum": python.add,
    "avg": python.add,
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
"""The operators on Python's numbers, which don't overflow."""
IDEMPOTENT = ("min", "max", "band", "bor", "land", "lor")
LOGICAL = ("land", "lor", "lxor")
PAIRS = [
    (op, name)
    for op, operator in OPERATORS.items()
    for name in DTYPES
    if operator.defined_for(datatype(name))
]
SOME = ("float32", "int32", "float64", "int64", "float16", "bfloat16", "complex64")
SIGNIFICAND = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


MOVING = [of for of in COLLECTIVES if of not in definitions.REDUCED and of != "barrier"]
"""The collectives that reduce nothing."""


def pattern(
    of="allreduce", dtype="float32", op="sum", size=5, count=COUNT, root=0, seed=1, counts=None
):
    """Return the pattern of a call, in words."""
    given = counts and tuple(counts) * COLLECTIVES[of].vectors(size)
    return Pattern(COLLECTIVES[of], datatype(dtype), OPERATORS[op], size, count, root, seed, given)


def cut(made):
    """Return the elements of every rank's block."""
    counts = made.counts and made.counts[: made.size]
    return definitions.cut(made.count, made.size, counts)


def whole(made):
    """Return the elements of the full vector."""
    return definitions.length(made.collective.name, cut(made))


def vectors(made):
    """Return the full vector of every rank."""
    return [made.inputs(rank, 0, whole(made)) for rank in range(made.size)]


def results(made, rank):
    """Return the elements of the full vector that a rank has at the end."""
    return list(definitions.RESULT[made.collective.name](rank, made.root, cut(made)))


def right(made, rank=0):
    """Return a full vector of which a rank's result is a part."""
    return made.expected(rank, 0, whole(made))


def operands(made):
    """Return the ranks' vectors in the type of partial results."""
    return [converted(each, made.operator.partial(made.dtype)) for each in vectors(made)]


def reduced(made, inputs):
    """Return what a reduction of `operands` gives, which may not fit into the type."""
    with np.errstate(all="ignore"):
        result = converted(reduce(made.operator.ufunc, inputs), made.dtype)
        if made.operator.average:
            divide(result, made.size)
    return result


def from_the_right(ufunc):
    """Return the operator for operands that come in reverse."""
    return lambda right, left: ufunc(left, right)


def tree(ufunc, operands):
    """Reduce neighbours, then their results, and so on."""
    while len(operands) > 1:
        pairs = [ufunc(*operands[i : i + 2]) for i in range(0, len(operands) - 1, 2)]
        operands = pairs + operands[len(operands) & ~1 :]
    return operands[0]


# The expected result


def orders(operator, inputs):
    """Yield reductions of the ranks' operands in several bracketings, and orders if they may be."""
    yield reduce(operator.ufunc, inputs)
    yield reduce(from_the_right(operator.ufunc), reversed(inputs))
    yield tree(operator.ufunc, inputs)
    if operator.commutative:
        yield reduce(operator.ufunc, reversed(inputs))
        yield tree(operator.ufunc, inputs[1:] + inputs[:1])


@pytest.mark.parametrize(("op", "dtype"), PAIRS)
def test_a_reduction_in_any_order_is_the_expected_one_to_the_bit(op, dtype):
    for size in SIZES:
        made = pattern(dtype=dtype, op=op, size=size)
        expected = right(made)
        assert expected.dtype == datatype(dtype)
        with np.errstate(all="raise"):
            for found in orders(OPERATORS[op], operands(made)):
                assert found.dtype == OPERATORS[op].partial(expected.dtype)
                found = converted(found, expected.dtype).copy()
                if op == "avg":
                    divide(found, size)
                if kind(found.dtype) == COMPLEX and op == "prod":
                    found, expected = found + 0, expected + 0  # the sign of a zero is left open
                assert found.tobytes() == expected.tobytes(), size


@pytest.mark.parametrize(("op", "dtype"), [pair for pair in PAIRS if pair[0] in PYTHON])
def test_the_expected_result_is_that_of_unbounded_numbers(op, dtype):
    """What unbounded arithmetic gives fits into the type, and so does every partial result."""
    number = complex if kind(datatype(dtype)) == COMPLEX else lambda x: int(x.item())
    for size in SIZES:
        made = pattern(dtype=dtype, op=op, size=size)
        columns = zip(*([number(x) for x in vector] for vector in vectors(made)), strict=True)
        for column, expected in zip(columns, right(made), strict=True):
            # Nothing is negative, and no factor is zero: partial results don't exceed the whole.
            assert min(map(abs, column)) >= (op == "prod")
            result = reduce(PYTHON[op], column)
            if op == "avg":
                assert complex(expected) == complex(made.dtype.type(result / size)), size
            else:
                assert number(expected) == result, size


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("op", ["sum", "avg"])
@pytest.mark.parametrize("dtype", [name for name in DTYPES if "int" not in name])
def test_every_partial_sum_of_floats_is_exact(dtype, op, size):
    made = pattern(dtype=dtype, op=op, size=size)
    real = part(datatype(dtype))
    exact = 2 ** SIGNIFICAND[real.name]
    totals = sum(vector.astype(complex) for vector in vectors(made))
    for parts in (totals.real, totals.imag):
        assert parts.max() <= exact
        assert parts.tolist() == parts.astype(int).tolist()


@pytest.mark.parametrize("size", SIZES[1:])
@pytest.mark.parametrize("dtype", [name for name in DTYPES if "int" not in name])
def test_averages_of_different_sums_are_different(dtype, size):
    """Otherwise a fault of the sum could vanish in the division."""
    made = pattern(dtype=dtype, op="avg", size=size)
    sums = np.arange(max(0, made._limit - 1000), made._limit).astype(made.dtype)
    divide(sums, size)
    assert len(np.unique(sums.astype(complex))) == len(sums)


@pytest.mark.parametrize("of", [*MOVING, *definitions.REDUCED])
@pytest.mark.parametrize("op", ["sum", "max", "bxor"])
def test_every_rank_is_expected_to_have_what_the_definition_makes_of_the_inputs(of, op):
    for size in (1, 2, 5):
        for count, counts in ((0, None), (1, None), (37, None), (size + 7, [7] + [1] * size)):
            if counts and not COLLECTIVES[of].irregular:
                continue
            root = size - 1 if COLLECTIVES[of].rooted else 0
            counts = counts and counts[:size]
            count = sum(counts) if counts else count
            made = pattern(of, "int32", op, size, count, root, counts=counts)
            inputs = np.array(vectors(made), "int32")
            reduction = partial(reduce, OPERATORS[op].ufunc)
            for rank in range(size):
                if not (elements := results(made, rank)):
                    continue
                defined = definitions.result(of, inputs, rank, root, cut(made), reduction)
                assert np.array_equal(right(made, rank)[elements], defined), (size, rank)


@pytest.mark.parametrize("of", [*MOVING, *definitions.REDUCED])
@pytest.mark.parametrize("op", OPERATORS)
def test_chunks_are_parts_of_the_whole(of, op):
    made = pattern(of, dict(reversed(PAIRS))[op], op)
    last = made.size - 1
    result = right(made, last)
    for start, stop in ((0, 1), (0, 7), (7, 8), (8, 16), (9, 31), (13, 40), (39, 40), (11, 11)):
        assert np.array_equal(made.expected(last, start, stop), result[start:stop])
        for rank, vector in enumerate(vectors(made)):
            assert np.array_equal(made.inputs(rank, start, stop), vector[start:stop])


# What tells ranks, positions and calls apart


def distinct(made):
    """Return for every position how many values the ranks have there."""
    return [len(set(column)) for column in zip(*vectors(made), strict=True)]


@pytest.mark.parametrize("size", [2, 3, 5, 9, 64])
@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        *(("sum", "float32"), ("sum", "int32"), ("sum", "complex64"), ("avg", "float32")),
        *(("min", "float32"), ("min", "int32"), ("max", "float32"), ("max", "int32")),
    ],
)
def test_every_rank_has_a_value_of_its_own_at_every_position(dtype, op, size):
    assert set(distinct(pattern(dtype=dtype, op=op, size=size))) == {size}


@pytest.mark.parametrize(("dtype", "values"), [("float32", 7), ("int32", 3)])
@pytest.mark.parametrize("size", [2, 3, 5, 9, 64])
def test_products_have_as_many_values_as_the_type_has_exponents_for(dtype, values, size):
    """Terms 0 to k-1 at positions' bases of as many values need about k*k exponents."""
    assert min(distinct(pattern(dtype=dtype, op="prod", size=size))) >= min(size, values)


@pytest.mark.parametrize(("op", "dtype"), PAIRS)
def test_every_rank_matters_somewhere(dtype, op):
    """Without a rank, some position of the reduction is another."""
    for size in (2, 3, 9, 64):
        made = pattern(dtype=dtype, op=op, size=size, count=24 * size)
        inputs, ufunc = operands(made), OPERATORS[op].ufunc
        # Exclusive reductions from both sides, so that the work isn't quadratic in the ranks.
        before = list(accumulate(inputs, ufunc))
        after = list(accumulate(inputs[::-1], from_the_right(ufunc)))
        expected = right(made)
        for rank in range(size):
            sides = [before[rank - 1].copy()] if rank else []
            sides += [after[size - rank - 2].copy()] if rank < size - 1 else []
            assert not np.array_equal(reduced(made, sides), expected)


@pytest.mark.parametrize(
    ("of", "op", "dtype"),
    [
        *(("allreduce", *pair) for pair in PAIRS if pair[1] in SOME),
        *((of, "sum", dtype) for of in (*MOVING, *definitions.REDUCED) for dtype in SOME),
    ],
)
def test_another_seed_gives_other_inputs_and_another_result(of, op, dtype):
    one, other = (pattern(of, dtype, op, count=100, seed=seed) for seed in (1, 2))
    # Truths are often equal by chance: only one rank's depends on the seed. Of other values about
    # every second one is, where a type has few exponents or ranks have no value of their own.
    most = 0.95 if op in LOGICAL else 0.6
    same = right(one, one.size - 1) == right(other, other.size - 1)
    assert same.mean() < most
    for mine, others in zip(vectors(one), vectors(other), strict=True):
        assert (mine == others).mean() < most


# Faults


@dataclass
class Ranks:
    """The buffers of all ranks of a call, with the right result in place."""

    made: Pattern
    places: list[Any]
    spaces: list[Any]

    @property
    def mismatches(self):
        """Return what the check of every rank says."""
        checks = enumerate(zip(self.places, self.spaces, strict=True))
        return [self.made.mismatch(rank, place, spaces) for rank, (place, spaces) in checks]

    def deliver(self, vector):
        """Write every rank's share of a full vector where its result belongs."""
        for place, spaces in zip(self.places, self.spaces, strict=True):
            result = place.result
            share = [vector[span.start : span.stop] for span in place.result_spans]
            if share:
                spaces[result.space][result.offset :][: result.count] = np.concatenate(share)


def buffers(made, in_place=False):
    """Return the ranks of a call with their inputs, and nothing communicated."""
    message = Message(made.count, made.dtype.itemsize, made.root, in_place)
    places = [layout(made.collective, rank, made.size, message) for rank in range(made.size)]
    spaces = [[np.zeros(n, made.dtype) for n in (p.input, p.output, 3)] for p in places]
    for rank, (place, space) in enumerate(zip(places, spaces, strict=True)):
        made.fill(rank, place, space)
    return Ranks(made, places, spaces)


REDUCTIONS = [
    *(("sum", "float32"), ("sum", "int32"), ("sum", "float16"), ("sum", "bfloat16")),
    *(("sum", "complex64"), ("avg", "float32"), ("avg", "bfloat16"), ("avg", "complex128")),
    *(("max", "float32"), ("max", "int32"), ("max", "bfloat16"), ("min", "float32")),
    *(("prod", "float32"), ("prod", "complex64"), ("band", "int16"), ("bor", "uint8")),
    *(("bxor", "int32"), ("land", "int8"), ("lor", "uint64"), ("lxor", "int16")),
]
SIZE, ROOT, BLOCK = 5, 2, 37
"""Every fault is tried on these ranks, with blocks of as many elements."""
EVERY = list(range(SIZE))


def swapped(vector):
    """Exchange the second block and the third."""
    vector = vector.copy()
    vector[BLOCK : 3 * BLOCK] = np.roll(vector[BLOCK : 3 * BLOCK], BLOCK)
    return vector


def zeroed(vector):
    """Lose the second block."""
    vector = vector.copy()
    vector[BLOCK : 2 * BLOCK] = 0
    return vector


def shifted(vector):
    """Write everything one element too far."""
    return np.roll(vector, 1)


def nudged(vector):
    """Change one element, of complex ones the imaginary part, by the least that there is."""
    vector = vector.copy()
    bits(vector)[len(bits(vector)) // 3 | 1] += 1
    return vector


def other(made):
    """Return the result of an earlier call."""
    return right(replace(made, seed=made.seed + 1))


MISPLACED = [swapped, zeroed, shifted, nudged]


@pytest.fixture(params=REDUCTIONS, ids="-".join)
def reducing(request):
    """Return the pattern of a reduction."""
    op, dtype = request.param
    return pattern("allreduce", dtype, op, SIZE, SIZE * BLOCK)


def found(made, vector):
    """Return the ranks on which a wrong vector instead of the result is noticed."""
    ranks = buffers(made)
    ranks.deliver(right(made))
    assert ranks.mismatches == [None] * made.size
    ranks.deliver(vector)
    return [rank for rank, mismatch in enumerate(ranks.mismatches) if mismatch]


@pytest.mark.parametrize("damage", MISPLACED)
def test_a_damaged_result_of_a_reduction_is_found(reducing, damage):
    assert found(reducing, damage(right(reducing))) == EVERY


@pytest.mark.parametrize("missing", range(SIZE))
def test_a_missing_rank_is_found(reducing, missing):
    inputs = vectors(reducing)
    del inputs[missing]
    assert found(reducing, reduced(reducing, inputs)) == EVERY


@pytest.mark.parametrize("doubled", range(SIZE))
@pytest.mark.parametrize(("op", "dtype"), REDUCTIONS)
def test_a_doubled_rank_is_found_unless_the_result_is_right(op, dtype, doubled):
    made = pattern("allreduce", dtype, op, SIZE, SIZE * BLOCK)
    inputs = vectors(made)
    wrong = reduced(made, [*inputs, inputs[doubled]])
    assert found(made, wrong) == ([] if op in IDEMPOTENT else EVERY)


@pytest.mark.parametrize("doubled", range(SIZE))
def test_a_rank_in_the_place_of_another_is_found(reducing, doubled):
    inputs = vectors(reducing)
    inputs[(doubled + 1) % SIZE] = inputs[doubled]
    assert found(reducing, reduced(reducing, inputs)) == EVERY


def test_the_result_of_an_earlier_reduction_is_found(reducing):
    assert found(reducing, other(reducing)) == EVERY


@pytest.mark.parametrize("times", [1, SIZE])
@pytest.mark.parametrize("rank", range(SIZE))
def test_a_reduction_without_communication_is_found(reducing, rank, times):
    own = [reducing.inputs(rank, 0, reducing.count)] * times
    assert found(reducing, reduced(reducing, own)) == EVERY


@pytest.mark.parametrize(("op", "dtype"), [pair for pair in PAIRS if "int" not in pair[1]])
def test_a_zero_of_the_other_sign_is_wrong_but_where_the_order_decides_it(op, dtype):
    zeros = np.zeros(3, dtype=datatype(dtype))
    minus = zeros.copy()
    bits(minus)[1] |= np.array([-0.0], part(zeros.dtype)).view(bits(zeros).dtype)[0]
    at = 0 if "complex" in dtype else 1
    found = pattern(dtype=dtype, op=op)._differences(minus, zeros)
    assert found.tolist() == ([] if op == "prod" and "complex" in dtype else [at])
    assert pattern("bcast", dtype, op)._differences(minus, zeros).tolist() == [at]


@pytest.mark.parametrize("dtype", ["float32", "int32", "bfloat16", "complex64"])
@pytest.mark.parametrize("of", MOVING)
class TestMovingData:
    """Faults of collectives that reduce nothing."""

    def call(self, of, dtype):
        root = ROOT if COLLECTIVES[of].rooted else 0
        return pattern(of, dtype, "sum", SIZE, SIZE * BLOCK, root)

    def check(self, made, vector):
        """Check that a wrong vector is noticed on all ranks whose part of it is wrong."""
        differs = bits(vector != right(made))
        wrong = [rank for rank in range(SIZE) if differs[results(made, rank)].any()]
        assert wrong
        assert found(made, vector) == wrong

    @pytest.mark.parametrize("damage", MISPLACED)
    def test_a_damaged_result_is_found(self, of, dtype, damage):
        made = self.call(of, dtype)
        self.check(made, damage(right(made)))

    def test_the_result_of_an_earlier_call_is_found(self, of, dtype):
        made = self.call(of, dtype)
        self.check(made, other(made))

    @pytest.mark.parametrize("rank", range(SIZE))
    def test_one_ranks_vector_instead_is_found(self, of, dtype, rank):
        made = self.call(of, dtype)
        if of in ("bcast", "scatter") and rank == ROOT:
            assert found(made, vectors(made)[rank]) == []
        else:
            self.check(made, vectors(made)[rank])

    def test_nothing_communicated_is_found_wherever_something_was_to_come(self, of, dtype):
        made = self.call(of, dtype)
        silent = [rank for rank, found in enumerate(buffers(made).mismatches) if found is None]
        assert silent == [
            rank
            for rank in range(SIZE)
            if not results(made, rank) or (of == "bcast" and rank == ROOT)
        ]


@pytest.mark.parametrize("missing", range(SIZE))
def test_a_block_that_never_came_is_found(missing):
    made = pattern("allgather", size=SIZE, count=SIZE * BLOCK)
    ranks = buffers(made)
    vector = right(made)
    vector[missing * BLOCK : (missing + 1) * BLOCK] = made._poison
    ranks.deliver(vector)
    assert all(
        mismatch.index == missing * BLOCK and mismatch.wrong == BLOCK
        for mismatch in ranks.mismatches
    )


@pytest.mark.parametrize("doubled", range(SIZE))
def test_a_block_of_another_rank_is_found(doubled):
    """Position i of another rank's vector is what a wrong sender would have sent as its own."""
    made = pattern("allgather", size=SIZE, count=SIZE * BLOCK)
    after = (doubled + 1) % SIZE
    vector = right(made)
    vector[after * BLOCK : (after + 1) * BLOCK] = vector[doubled * BLOCK : (doubled + 1) * BLOCK]
    assert found(made, vector) == EVERY


@pytest.mark.parametrize(("op", "dtype"), PAIRS)
def test_what_was_never_written_is_never_right(op, dtype):
    for size in (1, 2, 3, 9, 64):
        for of in ("allreduce", "allgather", "bcast"):
            made = pattern(of, dtype, op, size)
            values = [right(made), *vectors(made)]
            assert not any((vector == made._poison).any() for vector in values)


# Words


def test_a_mismatch_names_rank_first_index_both_values_and_the_number():
    made = pattern("reduce-scatter", "int32", "sum", 4, 40)
    ranks = buffers(made)
    ranks.deliver(right(made))
    place, spaces = ranks.places[2], ranks.spaces[2]
    value = int(made.expected(2, 23, 24)[0])
    spaces[place.result.space][[3, 5, 9]] += 1
    assert ranks.mismatches[:2] == [None, None]
    assert ranks.mismatches[3] is None
    assert str(ranks.mismatches[2]) == (
        f"rank 2, index 23: expected {value}, got {value + 1} (3 wrong in all)"
    )


def test_a_mismatch_counts_over_chunks(monkeypatch):
    monkeypatch.setattr(check, "CHUNK", 7)
    made = pattern(dtype="int32", count=40)
    ranks = buffers(made)
    ranks.deliver(right(made))
    assert ranks.mismatches == [None] * made.size
    ranks.spaces[1][1][[6, 7, 20, 39]] += 1
    found = ranks.mismatches[1]
    assert (found.rank, found.index, found.wrong) == (1, 6, 4)


def test_an_input_that_was_overwritten_is_found():
    made = pattern(dtype="int32")
    ranks = buffers(made)
    ranks.deliver(right(made))
    ranks.spaces[3][INPUT][11] += 1
    assert [rank for rank, found in enumerate(ranks.mismatches) if found] == [3]
    assert ranks.mismatches[3].index == 11


@pytest.mark.parametrize("chunk", [5, 1 << 18])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16", "complex128"])
@pytest.mark.parametrize("of", [*MOVING, *definitions.REDUCED])
def test_filling_poisons_all_but_the_input(monkeypatch, of, dtype, in_place, chunk):
    monkeypatch.setattr(check, "CHUNK", chunk)
    made = pattern(of, dtype, size=4, count=37, root=1 if COLLECTIVES[of].rooted else 0)
    ranks = buffers(made, in_place)
    for rank, (place, spaces) in enumerate(zip(ranks.places, ranks.spaces, strict=True)):
        held = slice(place.held.offset, place.held.offset + place.held.count)
        elements = list(definitions.HELD[of](rank, made.root, cut(made)))
        assert np.array_equal(spaces[place.held.space][held], vectors(made)[rank][elements])
        rest = [np.delete(spaces[place.held.space], held)]
        rest += [spaces[s] for s in (1, SCRATCH) if s != place.held.space]
        for elements in rest:
            assert all(elements == 127 if dtype == "int8" else np.isnan(elements))
