"""Index arithmetic: checked against the definitions."""

from math import prod

import pytest

from hpccoll.shapes import (
    Folding,
    bit_reverse,
    even,
    factorizations,
    negabinary_partner,
    parts,
    power_below,
    prime_factors,
    radix_within,
    rotated,
)

RADICES = (2, 3, 4, 7)


@pytest.mark.parametrize("radix", RADICES)
@pytest.mark.parametrize("size", range(1, 70))
def test_folding_puts_every_rank_into_one_group_of_neighbours(size, radix):
    folding = Folding(size, radix)
    groups = [folding.group(number) for number in range(folding.core)]
    assert [rank for group in groups for rank in group] == list(range(size))
    assert folding.core == power_below(size, radix)
    assert folding.core + folding.extra == size
    for number, group in enumerate(groups):
        assert group.start == folding.leader(number)
        assert all(folding.number(rank) == number for rank in group)


@pytest.mark.parametrize("radix", RADICES)
@pytest.mark.parametrize("size", range(2, 70))
def test_folding_has_as_few_groups_as_there_can_be(size, radix):
    if radix > size:
        return
    folding = Folding(size, radix)
    lengths = [len(folding.group(number)) for number in range(folding.core)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] <= radix
    assert sum(1 for length in lengths if 1 < length < radix) <= 1


@pytest.mark.parametrize("radix", RADICES)
def test_power_below_is_the_largest_one(radix):
    for size in range(1, 300):
        power = power_below(size, radix)
        assert power <= size < power * radix
        assert power in [radix**exponent for exponent in range(10)]


def test_a_radix_is_at_most_the_number_of_ranks_and_at_least_two():
    assert [radix_within(size, 4) for size in range(1, 7)] == [2, 2, 3, 4, 4, 4]


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_parts_are_equal_and_make_up_the_window(count):
    pieces = parts(range(5, 17), count)
    assert [block for piece in pieces for block in piece] == list(range(5, 17))
    assert {len(piece) for piece in pieces} == {12 // count}


def test_others_of_a_group_begin_with_the_next_one():
    for rank in (3, 7, 11, 15):
        others = rotated(range(3, 16, 4), rank)
        assert sorted([*others, rank]) == [3, 7, 11, 15]
        assert others[0] == (rank + 4 if rank < 15 else 3)


@pytest.mark.parametrize("bits", range(8))
def test_bit_reverse_turns_the_digits_around(bits):
    for number in range(1 << bits):
        digits = [number >> bit & 1 for bit in range(bits)]
        reverse = bit_reverse(number, bits)
        assert [reverse >> bit & 1 for bit in range(bits)] == digits[::-1]
        assert reverse < 1 << bits


def test_prime_factors_are_primes_with_the_product():
    for number in range(1, 500):
        factors = prime_factors(number)
        assert prod(factors) == number
        assert list(factors) == sorted(factors)
        assert all(prime_factors(factor) == (factor,) for factor in factors)


def test_factorizations_are_all_lists_with_the_product():
    for number in range(1, 65):
        found = factorizations(number)
        assert len(set(found)) == len(found)
        assert all(prod(factors) == number and 1 not in factors for factors in found)
        # A list begins with one of the divisors above 1, and goes on with what is left.
        rest = [number // d for d in range(2, number + 1) if number % d == 0]
        assert len(found) == (sum(len(factorizations(r)) for r in rest) if rest else 1)


@pytest.mark.parametrize("size", range(2, 70, 2))
def test_partners_of_an_even_number_of_ranks_meet_each_other(size):
    for step in range(size.bit_length()):
        for rank in range(size):
            partner = negabinary_partner(rank, step, size)
            assert negabinary_partner(partner, step, size) == rank
            assert partner % 2 != rank % 2


def test_partners_are_the_partial_sums_of_powers_of_minus_two_away():
    for step in range(10):
        assert negabinary_partner(0, step, 4096) == sum((-2) ** i for i in range(step + 1)) % 4096


def test_even():
    assert [p for p in range(1, 10) if even.met(p)] == [1, 2, 4, 6, 8]
