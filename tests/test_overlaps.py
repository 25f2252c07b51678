"""Regions are found by what they overlap."""

from random import Random

import pytest

from hpccoll.layout import Region
from hpccoll.overlaps import Overlaps


@pytest.mark.parametrize("seed", range(5))
def test_all_that_overlaps_is_found_and_nothing_else(seed):
    rng = Random(seed)

    def region():
        length = rng.choice([0, 1, 2, 7, 8, 30])
        return Region(rng.randrange(2), rng.randrange(40), length)

    index, there = Overlaps(), {}
    for number in range(300):
        if there and rng.random() < 0.4:
            gone = rng.choice(list(there))
            index.remove(there.pop(gone), gone)
        else:
            there[number] = region()
            index.add(there[number], number)
        asked = region()
        expected = {n for n, one in there.items() if one.overlaps(asked)}
        found = list(index.find(asked))
        assert len(found) == len(set(found))
        assert set(found) == expected
        assert index.any(asked) == bool(expected)
