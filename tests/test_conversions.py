"""Conversions in plans: that a plan with them gives what one without gives, and sends less."""

from functools import reduce

import definitions
import numpy as np
import pytest

from hpccoll.bind import Segmentation, bind
from hpccoll.contents import COMPLETE, PARTIAL, RAW, contents
from hpccoll.conversions import bind_partial
from hpccoll.datatypes import OPERATORS, converted
from hpccoll.engines import loopback
from hpccoll.layout import USER, Message
from hpccoll.plan import Convert, Copy, PostRecv, PostSend, check_in_flight, reads, writes
from hpccoll.registry import Choice, find

RSUM, FLOAT = OPERATORS["rsum"], np.dtype("float32")
BYTES = RSUM.partial(FLOAT).itemsize
COUNT = 37
SIZES = (1, 2, 3, 4, 5, 8, 9)


def plans_of(choice, size, in_place=False, segment=1 << 20, count=COUNT):
    """Return every rank's plan as it is bound, and with its conversions."""
    given = (size, Message(count, BYTES, in_place=in_place), Segmentation(segment))
    ranks = range(size)
    return tuple([make(choice, rank, *given) for rank in ranks] for make in (bind, bind_partial))


def vectors(size):
    """Return a vector of every rank: numbers whose sum depends on the order."""
    rng = np.random.default_rng(size)
    values = np.ldexp(rng.standard_normal((size, COUNT)), rng.integers(-9, 9, (size, COUNT)))
    values[0, 0], values[-1, 1] = np.nan, -0.0
    return values.astype(FLOAT)


@pytest.mark.parametrize("in_place", [False, True], ids=["out of place", "in place"])
def test_every_algorithm_gives_the_reproducible_sum_of_the_callers_elements(entry, in_place):
    if not entry.collective.reduces:
        return
    of = entry.collective.name
    for size in filter(entry.supports, SIZES):
        cut, whole = definitions.cut(COUNT, size), vectors(size)
        for segment in (24, 1 << 20):
            _, plans = plans_of(Choice(entry), size, in_place, segment)
            for plan in plans:
                check_in_flight(plan)
            inputs = [definitions.held(of, whole, rank, 0, cut) for rank in range(size)]
            for data in inputs:
                data.flags.writeable = False
            results = loopback.run(plans, inputs, RSUM.ufunc, RSUM.partial(FLOAT))
            for rank, (plan, output) in enumerate(zip(plans, results, strict=True)):
                place = plan.layout.result
                found = output[place.offset : place.offset + place.count]
                expected = definitions.result(
                    of, whole, rank, 0, cut, lambda rows: RSUM.reduced(FLOAT, list(rows))
                )
                assert found.tobytes() == expected.astype(FLOAT).tobytes(), (size, segment, rank)


@pytest.mark.parametrize("in_place", [False, True], ids=["out of place", "in place"])
def test_both_ends_of_a_message_expect_the_same_bytes(entry, in_place):
    if not entry.collective.reduces:
        return
    for size in filter(entry.supports, SIZES):
        _, plans = plans_of(Choice(entry), size, in_place)
        sent, received = {}, {}
        for plan in plans:
            for step in plan.instructions:
                if isinstance(step, PostSend | PostRecv):
                    sends = isinstance(step, PostSend)
                    ends = (plan.rank, step.peer) if sends else (step.peer, plan.rank)
                    carries = step.region.count, step.region.space >= USER
                    into = sent if sends else received
                    into.setdefault((ends, step.channel), []).append(carries)
    assert sent == received


def volume(plans):
    """Return the bytes that all ranks send."""
    regions = [s.region for p in plans for s in p.instructions if isinstance(s, PostSend)]
    return sum(region.count * (BYTES if region.space < USER else 4) for region in regions)


@pytest.mark.parametrize("name", ["ring", "recursive-doubling", "rabenseifner", "tree"])
def test_of_two_ranks_nobody_sends_a_partial_result(name):
    bound, plans = plans_of(Choice(find("allreduce", name)), 2)
    assert 3 * volume(plans) == volume(bound)


@pytest.mark.parametrize("size", [3, 4, 8])
def test_a_ring_sends_partial_results_in_all_but_its_first_and_its_last_rounds(size):
    """Of 2(p-1) rounds the first has contributions, and the last p-1 have results."""
    bound, plans = plans_of(Choice(find("allreduce", "ring")), size, count=size)
    assert volume(plans) == size * 4 * (1 + 3 * (size - 2) + size - 1)
    assert volume(bound) == size * 12 * 2 * (size - 1)
    found = contents(bound[0], True)
    assert found == [RAW, *[PARTIAL] * (size - 2), *[COMPLETE] * (size - 1)]


def test_what_a_scan_sends_on_is_no_result_of_all_ranks():
    for name in ("linear", "recursive-doubling"):
        for plan in plans_of(Choice(find("scan", name)), 4)[0]:
            assert COMPLETE not in contents(plan, completes=False)


def test_no_copy_changes_the_type_and_every_conversion_does(entry):
    if not entry.collective.reduces:
        return
    for size in filter(entry.supports, SIZES):
        for plan in plans_of(Choice(entry), size)[1]:
            for step in plan.instructions:
                wide = {region.space < USER for region in (*reads(step), *writes(step))}
                if isinstance(step, Convert):
                    assert wide == {False, True}
                elif isinstance(step, Copy):
                    assert wide == {True}


@pytest.mark.parametrize("in_place", [False, True], ids=["out of place", "in place"])
@pytest.mark.parametrize("name", ["ring", "recursive-doubling", "rabenseifner"])
def test_of_two_ranks_partial_results_never_leave_the_reduction(name, in_place):
    for plan in plans_of(Choice(find("allreduce", name)), 2, in_place)[1]:
        regions = [r for step in plan.instructions for r in (*reads(step), *writes(step))]
        assert {region.space >= USER for region in regions} == {True}


def test_accumulating_in_a_wider_float_takes_the_same_conversions():
    message, choice = Message(COUNT, 4), Choice(find("allreduce", "rabenseifner"))
    plans = [bind_partial(choice, rank, 4, message) for rank in range(4)]
    inputs = [(np.arange(COUNT) + rank).astype(np.float16) for rank in range(4)]
    found = loopback.run(plans, inputs, np.add, np.dtype(np.float32))
    expected = reduce(np.add, [converted(each, np.dtype(np.float32)) for each in inputs])
    assert all(np.array_equal(each, expected.astype(np.float16)) for each in found)
