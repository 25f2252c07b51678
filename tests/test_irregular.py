"""Irregular sizes: the shares of every pattern, and the elements that follow from them."""

from itertools import accumulate, pairwise

import pytest

from hpccoll.collectives import COLLECTIVES
from hpccoll.errors import UsageError
from hpccoll.irregular import HUGE, Shares, parse

SIZES = (1, 2, 3, 4, 7, 64)
PATTERNS = ("linear", "random", "random:1", "random:7", "one-empty", "one-huge")
IRREGULAR = [of for of in COLLECTIVES.values() if of.irregular]


def shares(pattern, size):
    return parse(pattern, COLLECTIVES["allgather"]).shares(size)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_rank_has_a_share_and_not_all_are_nothing(pattern, size):
    found = shares(pattern, size)
    assert len(found) == size
    assert min(found) >= 0 < sum(found)


@pytest.mark.parametrize("size", SIZES)
def test_patterns_are_what_they_are_called(size):
    assert [b - a for a, b in pairwise(shares("linear", size))] == [1] * (size - 1)
    assert sorted(shares("one-empty", size)) == ([0] * (size > 1) + [1] * (size - (size > 1)))
    *others, huge = sorted(shares("one-huge", size))
    assert size == 1 or huge == HUGE * sum(others)


def test_random_shares_follow_from_their_seed_alone():
    assert shares("random:3", 9) == shares("random:3", 9) != shares("random:4", 9)
    assert shares("random", 9) == shares("random:0", 9)


@pytest.mark.parametrize("of", IRREGULAR, ids=lambda of: of.name)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_counts_make_the_whole_vector_in_proportion_to_the_shares(pattern, of):
    for size in SIZES:
        for count in (0, 1, size, 1000):
            asked = parse(pattern, of)
            found = asked.counts(of, count, size)
            assert len(found) == of.natural(size)
            assert sum(found) == count * of.vectors(size)
            # Every vector is divided alike, and no border is a whole element off.
            vector, given = found[:size], asked.shares(size)
            assert found == vector * of.vectors(size)
            for border, share in zip(accumulate(vector), accumulate(given), strict=True):
                assert 0 <= count * share / sum(given) - border < 1


def test_shares_are_listed_in_words_the_first_and_the_last_of_many():
    of = COLLECTIVES["gather"]
    assert parse("one-empty", of).words(3) == "one-empty: those of the ranks are as 1 : 0 : 1"
    assert parse("linear", of).words(9).endswith("as 1 : 2 : 3 : 4 : 5 : 6 : 7 : … : 9")


def test_equal_blocks_are_left_to_the_rule():
    for of in COLLECTIVES.values():
        asked = parse("equal", of)
        assert asked == Shares()
        assert asked.regular
        assert asked.counts(of, 10, 4) is None


@pytest.mark.parametrize("of", [of for of in COLLECTIVES.values() if not of.irregular])
def test_other_collectives_have_no_blocks_to_cut(of):
    with pytest.raises(UsageError, match=f"{of.name} has no blocks .* leave out --counts"):
        parse("linear", of)


def test_a_file_has_one_share_per_rank(tmp_path):
    path = tmp_path / "shares.txt"
    path.write_text("3 0\n5\n")
    of = COLLECTIVES["gather"]
    asked = parse(str(path), of)
    assert asked.shares(3) == (3, 0, 5)
    assert asked.counts(of, 16, 3) == (6, 0, 10)
    asked.check(3)
    with pytest.raises(UsageError, match="has 3 shares, for 4 ranks; give one per rank"):
        asked.check(4)


@pytest.mark.parametrize("text", ["", "0 0 0", "1 -2 3", "1.5 2", "a b"])
def test_a_file_of_anything_else_is_refused(tmp_path, text):
    path = tmp_path / "shares.txt"
    path.write_text(text)
    with pytest.raises(UsageError, match="must have whole numbers, one share per rank"):
        parse(str(path), COLLECTIVES["gather"])


@pytest.mark.parametrize("text", ["liner", "random:", "random:x", "linear:2", "no such file"])
def test_an_unknown_pattern_is_refused_and_the_known_are_listed(text):
    with pytest.raises(UsageError, match=r"unknown pattern of counts .*choose from equal, linear"):
        parse(text, COLLECTIVES["gather"])
