"""Contracts, against what every collective is defined to do."""

import definitions
import pytest

from hpccoll.collectives import COLLECTIVES
from hpccoll.cost import evaluate

SIZES = (1, 2, 3, 5, 8)


@pytest.fixture(params=COLLECTIVES)
def of(request):
    """Return every collective."""
    return COLLECTIVES[request.param]


def places(of):
    """Yield every (rank, size, root), with a vector of one element per rank."""
    for size in SIZES:
        for root in range(size if of.rooted else 1):
            for rank in range(size):
                yield rank, size, root, definitions.cut(size, size)


def test_blocks_before_and_after_are_the_elements_of_the_definition(of):
    for rank, size, root, cut in places(of):
        blocks = definitions.length(of.name, cut)
        for window, defined in ((of.held, definitions.HELD), (of.wanted, definitions.RESULT)):
            named = window(rank, size, root, blocks)
            assert list(named) == list(defined[of.name](rank, root, cut)), (rank, size, root)


def test_sources_of_a_block_are_the_ranks_of_the_definition(of):
    for rank, size, root, cut in places(of):
        for block in definitions.RESULT[of.name](rank, root, cut):
            found = list(of.sources(rank, size, root, block, definitions.length(of.name, cut)))
            if of.name in definitions.REDUCED:
                assert found == list(definitions.REDUCED[of.name](rank, size))
            else:
                assert found == [definitions.source(of.name, block, root, cut)]


def test_natural_blocks_are_as_many_as_there_are_or_where_there_is_no_data_one(of):
    for size in SIZES:
        vector = definitions.cut(size, size)
        expected = definitions.length(of.name, vector) if of.moves_data else 1
        assert of.natural(size) == expected
        assert of.vectors(size) * size == definitions.length(of.name, vector)


def test_only_reductions_reduce_and_only_whole_ones_can_be_averaged(of):
    assert of.reduces == (of.name in definitions.REDUCED)
    all_contribute = of.reduces and definitions.REDUCED[of.name](0, 5) == range(5)
    assert of.averages == all_contribute


def test_rooted_are_those_whose_definition_depends_on_the_root(of):
    cut = definitions.cut(3, 3)
    each = (definitions.HELD[of.name], definitions.RESULT[of.name])
    roots = {tuple(tuple(f(rank, root, cut)) for f in each for rank in range(3)) for root in (0, 1)}
    assert of.rooted == (len(roots) > 1)


def test_bus_bandwidth_counts_what_the_busiest_rank_must_at_least_send_or_receive(of):
    # Per byte of the reported size, on 4 ranks; what is reduced must go there and back.
    factors = {"allreduce": 1.5, "bcast": 1, "reduce": 1, "scan": 1, "exscan": 1, "barrier": 0}
    assert evaluate(of.busbw, p=4) == (factors | {"sendrecv": 1}).get(of.name, 0.75)
