"""Borders: what makes segments and levels agree on sizes for every count."""

import pytest

from hpccoll.partition import Partition

COUNTS = [*range(40), 99, 1000, 2**31 + 1]
GRIDS = [(blocks, factor) for blocks in (1, 2, 3, 5, 8, 12) for factor in (1, 2, 3, 7)]


@pytest.mark.parametrize(("blocks", "factor"), GRIDS)
def test_finer_grid_contains_the_borders_of_the_coarse_one(blocks, factor):
    for count in COUNTS:
        coarse, fine = Partition(count, blocks), Partition(count, blocks * factor)
        for block in range(blocks + 1):
            assert fine.border(block * factor) == coarse.border(block)


@pytest.mark.parametrize("blocks", range(1, 18))
def test_blocks_cover_the_vector_and_differ_by_at_most_one(blocks):
    for count in COUNTS:
        partition = Partition(count, blocks)
        sizes = [partition.size(block) for block in range(blocks)]
        assert sum(sizes) == count == partition.border(blocks)
        assert max(sizes) - min(sizes) <= 1
        assert partition.even == (max(sizes) == min(sizes))
