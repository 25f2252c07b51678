"""Parts of spaces, against sets of elements."""

from random import Random

import pytest

from hpccoll.layout import Region
from hpccoll.regions import Parts

SIZE = 12


def elements(regions):
    """Return the elements of regions, as pairs of a space and an index."""
    return {(r.space, i) for r in regions for i in range(r.offset, r.offset + r.count)}


@pytest.mark.parametrize("seed", range(20))
def test_parts_are_the_elements_that_were_added_and_not_removed(seed):
    random, parts, expected = Random(seed), Parts(), set()
    spaces = [Region(space, 0, SIZE) for space in (0, 1)]
    for _ in range(40):
        offset = random.randrange(SIZE)
        region = Region(random.randrange(2), offset, random.randrange(SIZE - offset))
        if random.random() < 0.5:
            parts.add(region)
            expected |= elements([region])
        else:
            parts.remove(region)
            expected -= elements([region])
        for space in (*spaces, region):
            assert elements(parts.common(space)) == expected & elements([space])
            assert elements(parts.missing(space)) == elements([space]) - expected


def test_neighbours_are_one_part():
    parts = Parts(Region(0, 0, 3), Region(0, 5, 2), Region(1, 3, 2))
    parts.add(Region(0, 3, 2))
    assert parts.common(Region(0, 0, SIZE)) == [Region(0, 0, 7)]
    assert parts.missing(Region(1, 0, SIZE)) == [Region(1, 0, 3), Region(1, 5, 7)]
