"""Where a rank's input and result lie, against each collective's definition."""

from itertools import product

import definitions
import pytest

from hpccoll.collectives import COLLECTIVES
from hpccoll.errors import UsageError
from hpccoll.layout import INPUT, OUTPUT, Message, Region, check_message, layout

SIZES = (1, 2, 3, 5, 8)


@pytest.fixture(params=COLLECTIVES)
def of(request):
    """Return every collective."""
    return COLLECTIVES[request.param]


def cases(of):
    """Yield every (size, root, count, elements of the ranks' blocks) to try."""
    for size in SIZES:
        for root in range(size if of.rooted else 1):
            for count in sorted({0, 1, size - 1, size, 37}):
                yield size, root, count, None
            if of.irregular:
                yield size, root, 3 * size, [3 * size] + [0] * (size - 1)
                yield size, root, size * (size - 1) // 2, list(range(size))


def each(of, in_place):
    """Yield rank, layout, and the elements that the rank has before and after by definition."""
    for size, root, count, counts in cases(of):
        if in_place and of.name == "alltoall" and (counts or count % size):
            continue
        cut = definitions.cut(count, size, counts)
        given = counts and tuple(counts) * of.vectors(size)
        for rank in range(size):
            place = layout(of, rank, size, Message(count, 4, root, in_place, counts=given))
            held = list(definitions.HELD[of.name](rank, root, cut))
            yield rank == root, place, held, list(definitions.RESULT[of.name](rank, root, cut))


def elements(spans):
    """Return the elements of ranges, in order."""
    return [element for span in spans for element in span]


@pytest.mark.parametrize("in_place", [False, True])
def test_regions_hold_the_elements_of_the_definition(of, in_place):
    for _, place, held, result in each(of, in_place):
        assert elements(place.held_spans) == held
        assert elements(place.result_spans) == result
        assert (place.held.count, place.result.count) == (len(held), len(result))


@pytest.mark.parametrize("in_place", [False, True])
def test_regions_lie_within_their_spaces_and_nothing_is_left_over(of, in_place):
    for _, place, held, result in each(of, in_place):
        space = {INPUT: place.input, OUTPUT: place.output}
        for region in (place.held, place.result):
            assert 0 <= region.offset <= region.offset + region.count <= space[region.space]
        both = (len(held), len(result))
        assert place.input + place.output == (max(both) if place.in_place else sum(both))


def test_out_of_place_input_and_result_have_a_buffer_each(of):
    for _, place, held, result in each(of, in_place=False):
        if of.one_buffer:
            continue
        assert not place.in_place
        assert place.held == Region(INPUT, 0, len(held))
        assert place.result == Region(OUTPUT, 0, len(result))


def test_in_place_the_input_lies_in_the_output_where_a_rank_has_both(of):
    for is_root, place, held, result in each(of, in_place=True):
        if held and result:
            assert place.in_place
        elif of.name in ("reduce", "gather", "scatter"):
            assert not place.in_place or is_root
        if place.in_place:
            assert place.input == 0
            assert place.held.space == place.result.space == OUTPUT
        else:
            assert place.held == Region(INPUT, 0, len(held))
            assert place.result == Region(OUTPUT, 0, len(result))


def test_in_place_input_and_result_lie_as_mpi_says(of):
    for _, place, held, result in each(of, in_place=True):
        if not held or not result:
            continue
        if of.name == "scatter":  # the root's block stays in its input
            assert (place.held.offset, place.result.offset) == (0, result[0])
        elif of.name in ("allgather", "gather"):  # the own block lies at its place already
            assert (place.held.offset, place.result.offset) == (held[0], 0)
        else:
            assert place.held.offset == place.result.offset == 0


def test_a_broadcast_has_one_buffer_whatever_is_asked():
    of = COLLECTIVES["bcast"]
    for asked, always in zip(each(of, in_place=False), each(of, in_place=True), strict=True):
        assert asked == always


def test_what_is_received_in_place_must_be_as_long_as_what_it_replaces(of):
    for size, root, count, counts in cases(of):
        given = counts and tuple(counts) * of.vectors(size)
        message = Message(count, 4, root, in_place=True, counts=given)
        lengths = {len(part) for part in definitions.cut(count, size, counts)}
        if of.name == "alltoall" and len(lengths) > 1:
            with pytest.raises(UsageError, match="all blocks must be equal; use sizes that"):
                check_message(of, size, message)
        else:
            check_message(of, size, message)


def test_regions_overlap_if_they_share_an_element():
    regions = [Region(s, o, c) for s in (INPUT, OUTPUT) for o in range(4) for c in range(4)]

    def inside(region):
        return {(region.space, region.offset + i) for i in range(region.count)}

    for one, other in product(regions, regions):
        if one.count and other.count:
            assert one.overlaps(other) == bool(inside(one) & inside(other))
