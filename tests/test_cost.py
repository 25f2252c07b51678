"""Closed forms: their letters, and exactness."""

from fractions import Fraction
from itertools import pairwise
from math import ceil, floor, log

import pytest

from hpccoll.cost import ASSUMED, CANDIDATES, LETTERS, Machine, evaluate, fastest
from hpccoll.shapes import ceil_log, circulant_skips, power_of_two_below, subtree


@pytest.mark.parametrize("p", range(1, 40))
def test_letters_are_what_they_are_said_to_be(p):
    assert evaluate("p", p) == p
    assert evaluate("n", p, 77) == 77
    assert evaluate("l", p) == floor(log(p, 2) + 1e-9)
    assert evaluate("L", p) == ceil(log(p, 2) - 1e-9)
    assert evaluate("P", p) == 2 ** evaluate("l", p)
    assert evaluate("e", p) == p - evaluate("P", p)
    assert evaluate("E", p) == (ceil(log(p - evaluate("P", p), 2) - 1e-9) if p & (p - 1) else 0)
    assert evaluate("S", p, parameters={"segments": 3}) == 3
    assert evaluate("S", p) == 1
    assert evaluate("k", p, parameters={"radix": 5}) == max(2, min(5, p))
    assert evaluate("Lk", p, parameters={"radix": 3}) == ceil(log(p, 3) - 1e-9)


@pytest.mark.parametrize("radix", [3, 4, 8])
@pytest.mark.parametrize("p", range(2, 70))
def test_letters_of_a_fold_follow_the_radix(p, radix):
    k, power, exponent, extra, digits = (
        evaluate(letter, p, parameters={"radix": radix}) for letter in ("k", "P", "l", "e", "E")
    )
    assert power == k**exponent <= p < power * k
    assert power + extra == p
    assert all(((k - 1) * k**j < extra) == (j < digits) for j in range(8))


def test_parameters_stand_for_themselves_and_an_empty_list_for_the_prime_factors():
    assert evaluate("2*window", 5, parameters={"window": 3}) == 6
    assert evaluate("n/window", 5, 7, {"window": 3}) == Fraction(7, 3)
    assert evaluate("len(factors) + sum(factors)", 12, parameters={"factors": (3, 4)}) == 9
    assert evaluate("len(factors) + sum(factors)", 12, parameters={"factors": ()}) == 3 + 7


def test_any_parameter_has_its_own_name_and_functions_are_exact():
    assert evaluate("min(fanout, p-1)*n", 5, 7, {"fanout": 3}) == 21
    assert [evaluate("log(x, 3)", 2, parameters={"x": x}) for x in (1, 3, 9, 10)] == [0, 1, 2, 3]


def test_every_letter_is_explained():
    for letter in ("p", "n", "l", "L", "P", "e", "E", "S", "k", "Lk"):
        assert f"{letter} " in LETTERS


def test_results_are_exact_fractions_of_any_size():
    assert evaluate("2*n*(p-1)/p", 3, 10) == Fraction(40, 3)
    assert evaluate("n/p", 3, 10**30) * 3 == 10**30


def test_forms_see_no_builtins():
    with pytest.raises(NameError):
        evaluate("open('x')", 2)


@pytest.mark.parametrize("size", range(1, 70))
def test_circulant_skips_at_most_double_up_to_the_size(size):
    skips = circulant_skips(size)
    assert (skips[0], skips[-1]) == (1, size)
    assert len(skips) - 1 == ceil_log(size)
    assert all(low < high <= 2 * low for low, high in pairwise(skips))


@pytest.mark.parametrize("size", range(1, 40))
def test_subtrees_of_the_binomial_tree_partition_what_is_below_their_parent(size):
    assert subtree(0, size) == range(size)
    for rank in range(1, size):
        parent = rank & (rank - 1)
        assert set(subtree(rank, size)) < set(subtree(parent, size))
        children = [r for r in range(1, size) if r & (r - 1) == rank]
        below = [r for child in children for r in subtree(child, size)]
        assert sorted([rank, *below]) == list(subtree(rank, size))


@pytest.mark.parametrize("size", range(1, 40))
def test_power_of_two_below_is_the_largest_one(size):
    core = power_of_two_below(size)
    assert core <= size < 2 * core
    assert core & (core - 1) == 0


# The model


def test_the_assumed_machine_is_what_it_is_said_to_be():
    said = "alpha = 2 us a step, o = 0.5 us a further message of a step, beta = 0.1 ns a byte"
    assert str(ASSUMED) == said
    expected = [ASSUMED.alpha, ASSUMED.overhead, ASSUMED.beta]
    assert [evaluate(name, 2) for name in ("alpha", "o", "beta")] == expected


def test_a_measured_machine_takes_the_assumed_ones_place():
    machine = Machine(Fraction(3), Fraction(5), Fraction(7))
    assert [evaluate(name, 2, machine=machine) for name in ("alpha", "o", "beta")] == [3, 5, 7]


def test_slower_links_want_more_segments():
    slow = Machine(ASSUMED.alpha, ASSUMED.overhead, 100 * ASSUMED.beta)
    chosen = [
        fastest(CHAIN, 4, 1 << 20, ["segments"], {}, machine)["segments"]
        for machine in (ASSUMED, slow)
    ]
    # Ten times as many, to the nearest candidates.
    assert chosen[1] in (8 * chosen[0], 16 * chosen[0])


CHAIN = "(p-2+S)*(alpha + n*beta/S)"


@pytest.mark.parametrize("p", [2, 5, 64, 1000])
@pytest.mark.parametrize("n", [0, 8, 1 << 14, 1 << 24, 1 << 30])
def test_segments_of_a_chain_are_those_nearest_to_the_known_optimum(p, n):
    (segments,) = fastest(CHAIN, p, n, ["segments"], {}).values()
    optimum = ((p - 2) * n * float(ASSUMED.beta / ASSUMED.alpha)) ** 0.5
    largest = CANDIDATES["segments"][-1]
    assert segments in CANDIDATES["segments"]
    assert min(optimum, largest) / 2 <= segments <= max(1, 2 * optimum)


@pytest.mark.parametrize(("p", "n"), [(1, 0), (7, 8), (64, 1 << 20)])
def test_no_other_candidates_take_less_time(p, n):
    time = "Lk*S*(alpha + (k-2)*o + (k-1)*n*beta/S)"
    chosen = fastest(time, p, n, ["segments", "radix"], {})
    least = evaluate(time, p, n, chosen)
    for segments in CANDIDATES["segments"]:
        for radix in CANDIDATES["radix"]:
            other = {"segments": segments, "radix": radix}
            assert (least, *chosen.values()) <= (evaluate(time, p, n, other), *other.values())


def test_a_given_parameter_counts_in_the_time():
    time = "(S + fanout)*(alpha + fanout*n*beta/S)"
    narrow, wide = (
        fastest(time, 9, 1 << 20, ["segments"], {"segments": 3, "fanout": fanout})["segments"]
        for fanout in (1, 16)
    )
    assert narrow < wide
