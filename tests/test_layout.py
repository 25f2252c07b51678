"""Where a rank's input and result lie, against each collective's definition."""

from itertools import product

import pytest

from hpccoll.collectives import COLLECTIVES
from hpccoll.layout import INPUT, OUTPUT, Message, Region, layout
from hpccoll.partition import Partition

SIZES = (1, 2, 3, 5, 8)


def share(count, size, rank):
    """Return the elements of one rank's block."""
    cut = Partition(count, size)
    return range(cut.border(rank), cut.border(rank) + cut.size(rank))


DEFINITIONS = {
    "allreduce": (lambda all, own, at_root: all, lambda all, own, at_root: all),
    "reduce-scatter": (lambda all, own, at_root: all, lambda all, own, at_root: own),
    "allgather": (lambda all, own, at_root: own, lambda all, own, at_root: all),
    "bcast": (lambda all, own, at_root: at_root, lambda all, own, at_root: all),
    "reduce": (lambda all, own, at_root: all, lambda all, own, at_root: at_root),
}
"""Which elements of the full vector a rank holds before, and which it has after."""


def cases():
    """Yield every (rank, size, root, count) to try, for a collective with roots."""
    for size in SIZES:
        for count in sorted({0, 1, size - 1, size, 37}):
            for rank, root in product(range(size), range(size)):
                yield rank, size, root, count


@pytest.fixture(params=COLLECTIVES)
def of(request):
    """Return every collective."""
    return COLLECTIVES[request.param]


def test_every_collective_has_a_definition_here():
    assert set(DEFINITIONS) == set(COLLECTIVES)


def each(of, in_place):
    """Yield the layout of every rank and the windows that the definition gives it."""
    for rank, size, root, count in cases():
        if root and not of.rooted:
            continue
        windows = (
            range(count),
            share(count, size, rank),
            range(count if rank == root else 0),
        )
        held, result = (window(*windows) for window in DEFINITIONS[of.name])
        has_result = of.name != "reduce" or rank == root
        place = layout(of, rank, size, Message(count, 4, root, in_place))
        yield place, held, result, has_result


@pytest.mark.parametrize("in_place", [False, True])
def test_regions_hold_the_elements_of_the_definition(of, in_place):
    for place, held, result, _ in each(of, in_place):
        for region, start, window in (
            (place.held, place.held_start, held),
            (place.result, place.result_start, result),
        ):
            assert region.count == len(window)
            assert not window or start == window.start


@pytest.mark.parametrize("in_place", [False, True])
def test_regions_lie_within_their_spaces_and_nothing_is_left_over(of, in_place):
    for place, held, result, _ in each(of, in_place):
        space = {INPUT: place.input, OUTPUT: place.output}
        for region in (place.held, place.result):
            assert 0 <= region.offset <= region.offset + region.count <= space[region.space]
        both = (len(held), len(result))
        assert place.input + place.output == (max(both) if place.in_place else sum(both))


def test_out_of_place_input_and_result_have_a_buffer_each(of):
    for place, held, result, _ in each(of, in_place=False):
        if of.one_buffer:
            continue
        assert not place.in_place
        assert place.held == Region(INPUT, 0, len(held))
        assert place.result == Region(OUTPUT, 0, len(result))


def test_in_place_the_input_lies_in_the_output_and_the_input_space_is_empty(of):
    for place, _, _, has_result in each(of, in_place=True):
        assert place.in_place == has_result
        if has_result:
            assert place.input == 0
            assert place.held.space == place.result.space == OUTPUT


def test_in_place_a_rank_without_result_keeps_its_input(of):
    for place, held, _, has_result in each(of, in_place=True):
        if not has_result:
            assert place.held == Region(INPUT, 0, len(held))
            assert (place.input, place.output) == (len(held), 0)


def test_in_place_input_and_result_lie_as_mpi_says(of):
    for place, held, result, has_result in each(of, in_place=True):
        if not has_result or not held:
            continue
        if of.name == "reduce-scatter":
            assert place.held.offset == place.result.offset == 0
        else:
            # Where the input lies in the result, it is at its own place there.
            assert place.held.offset == held.start - result.start


def test_a_broadcast_has_one_buffer_whatever_is_asked():
    of = COLLECTIVES["bcast"]
    for asked, always in zip(each(of, in_place=False), each(of, in_place=True), strict=True):
        assert asked == always


def test_blocks_of_all_ranks_make_the_vector():
    for size in SIZES:
        for count in (0, 1, size - 1, size, 37):
            places = [
                layout(COLLECTIVES["allgather"], rank, size, Message(count, 4))
                for rank in range(size)
            ]
            elements = [i for p in places for i in range(p.held_start, p.held_start + p.held.count)]
            assert elements == list(range(count))


def test_regions_overlap_if_they_share_an_element():
    regions = [Region(s, o, c) for s in (INPUT, OUTPUT) for o in range(4) for c in range(4)]

    def elements(region):
        return {(region.space, region.offset + i) for i in range(region.count)}

    for one, other in product(regions, regions):
        if one.count and other.count:
            assert one.overlaps(other) == bool(elements(one) & elements(other))
