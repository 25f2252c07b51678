"""Binding: the data of every plan, where blocks live, and what must not be copied or touched."""

import sys
from collections import Counter

import definitions
import numpy as np
import pytest

from hpccoll import bind as binding
from hpccoll import messages, scratch, segmentation, verify
from hpccoll.bind import bind
from hpccoll.choice import Choice
from hpccoll.cost import evaluate
from hpccoll.engines import loopback
from hpccoll.layout import INPUT, SCRATCH, Message
from hpccoll.obligations import variants
from hpccoll.plan import Copy, PostRecv, PostSend, Reduce, Wait, check_in_flight, reads, writes
from hpccoll.registry import find
from hpccoll.schedule import DATA, LEFT, RIGHT, Combine, Recv, Round, Send, ranges, span
from hpccoll.schedule import Copy as CopyBlocks
from hpccoll.schedule import Reduce as ReduceBlocks
from hpccoll.segmentation import Segmentation
from hpccoll.spelling import choose

SIZES = [*range(1, 9)]
FEW = [1, 2, 5, 8]


def only(text, of="allreduce"):
    (choice,) = choose(of, text)
    return choice


def roots(entry, size):
    return sorted({0, size - 1}) if entry.collective.rooted else [0]


def counts(size):
    return sorted({0, 1, size - 1, 3 * size + 1})


@pytest.mark.parametrize("in_place", [False, True], ids=["out of place", "in place"])
def test_plans_give_the_defined_result(entry, in_place, call):
    for size in filter(entry.supports, SIZES):
        for choice in variants(entry, size):
            varied = choice.label != entry.name
            for root in roots(entry, size)[-1:] if varied else roots(entry, size):
                for asked in [3 * size + 1] if varied else counts(size):
                    count = definitions.allowed(entry.collective.name, asked, size, in_place)
                    found = call(choice, size, count, root, in_place)
                    assert found.right, (choice.label, size, root, count)


def spaces(plan):
    return (plan.layout.input, plan.layout.output, plan.scratch)


@pytest.mark.parametrize("in_place", [False, True], ids=["out of place", "in place"])
def test_plans_stay_inside_their_spaces_and_never_write_the_input(entry, in_place):
    for size in filter(entry.supports, FEW):
        for root in roots(entry, size):
            for count in counts(size):
                message = Message(count, 4, root, in_place)
                for rank in range(size):
                    plan = bind(Choice(entry), rank, size, message)
                    for step in plan.instructions:
                        for region in (*reads(step), *writes(step)):
                            end = region.offset + region.count
                            assert 0 <= region.offset <= end <= spaces(plan)[region.space]
                        assert not any(r.space == INPUT and r.count for r in writes(step))


def test_reductions_overlap_their_operands_wholly_or_not_at_all(entry):
    # A kernel that works in vectors may not see a result shifted against its operand.
    for size in filter(entry.supports, FEW):
        for rank in range(size):
            for step in bind(Choice(entry), rank, size, Message(3 * size + 1, 8)).instructions:
                if isinstance(step, Reduce):
                    assert step.left.count == step.right.count == step.into.count > 0
                    for operand in (step.left, step.right):
                        assert operand == step.into or not operand.overlaps(step.into)


def test_both_ends_of_every_message_agree_in_order_and_length(entry):
    for size in filter(entry.supports, FEW):
        for count in counts(size):
            ends = {PostSend: {}, PostRecv: {}}
            for rank in range(size):
                for step in bind(Choice(entry), rank, size, Message(count, 4096)).instructions:
                    if isinstance(step, PostSend | PostRecv):
                        pair = (
                            (rank, step.peer) if isinstance(step, PostSend) else (step.peer, rank)
                        )
                        queue = ends[type(step)].setdefault((*pair, step.channel), [])
                        queue.append(step.region.count)
            assert ends[PostSend] == ends[PostRecv]
            # What names blocks that have no elements isn't sent; what names none is.
            empty = sum(lengths.count(0) for lengths in ends[PostSend].values())
            assert empty == sum(signals(Choice(entry), rank, size) for rank in range(size))


def signals(choice, rank, size):
    """Return how many signals a rank sends."""
    actions = (action for step in choice.schedule(rank, size) for action in step.actions)
    return sum(isinstance(action, Send) and not ranges(action.blocks) for action in actions)


def test_waits_complete_every_message_once_and_slots_are_few(entry):
    for rank in range(8):
        plan = bind(Choice(entry), rank, 8, Message(40, 8))
        posted = [m.slot for m in plan.instructions if isinstance(m, PostSend | PostRecv)]
        waited = [s for m in plan.instructions if isinstance(m, Wait) for s in m.slots]
        assert Counter(posted) == Counter(waited)
        assert plan.slots == max(posted) + 1


# No copies, no scratch


@pytest.mark.parametrize("name", ["ring", "rabenseifner", "recursive-doubling"])
def test_allreduce_of_two_ranks_copies_nothing_and_needs_no_scratch(name):
    for rank in range(2):
        plan = bind(only(name), rank, 2, Message(1000, 4))
        assert not any(isinstance(step, Copy) for step in plan.instructions)
        assert plan.scratch == plan.packed == 0


@pytest.mark.parametrize("segments", [1, 3])
@pytest.mark.parametrize("size", SIZES[1:])
def test_ring_allreduce_copies_nothing_and_needs_no_scratch(size, segments):
    for rank in range(size):
        plan = bind(only(f"ring:segments={segments}"), rank, size, Message(1000, 4))
        assert plan.scratch == 0
        assert not any(isinstance(step, Copy) for step in plan.instructions)


@pytest.mark.parametrize("name", ["binomial", "knomial:radix=3", "bine", "linear-sync"])
@pytest.mark.parametrize("size", [2, 8, 12, 16])
def test_a_gather_copies_the_own_block_once_where_it_is_sent_on_with_others(name, size):
    choice = only(name, "gather")
    for rank in range(size):
        plan = bind(choice, rank, size, Message(100 * size, 4))
        copied = sum(step.into.count for step in plan.instructions if isinstance(step, Copy))
        receives = [step for step in plan.instructions if isinstance(step, PostRecv)]
        assert copied == (100 if any(step.region.count for step in receives) else 0)
        assert plan.packed == 0


@pytest.mark.parametrize("size", [4, 7, 16])
def test_allgather_copies_the_own_block_once_and_no_more(entry, size):
    # With two levels a rank's own block may come back to it with the others.
    if entry.collective.name != "allgather" or entry.placed or not entry.supports(size):
        return
    count = 100_000 * size
    for rank in range(size):
        plan = bind(Choice(entry), rank, size, Message(count, 4))
        copied = sum(step.into.count for step in plan.instructions if isinstance(step, Copy))
        # A rank that a fold leaves out gets its own block back with all the others.
        back = any(
            rank in part
            for step in entry.generate(rank, size)
            for action in step.actions
            if isinstance(action, Recv)
            for part in ranges(action.blocks)
        )
        assert (copied, plan.scratch) == (0 if back else count // size, 0)


def test_one_rank_only_copies_its_input_and_in_place_does_nothing(entry):
    for in_place in (False, True):
        plan = bind(Choice(entry), 0, 1, Message(10, 8, in_place=in_place))
        result = definitions.RESULT[entry.collective.name](0, 0, definitions.cut(10, 1))
        copies = 0 if in_place or entry.collective.one_buffer or not result else 1
        assert [type(step) for step in plan.instructions] == [Copy] * copies


def test_first_reduction_reads_the_input_where_it_lies():
    plan = bind(only("ring"), 0, 4, Message(16, 8))
    first = next(step for step in plan.instructions if isinstance(step, Reduce))
    assert INPUT in (first.left.space, first.right.space)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("name", ["binomial", "rabenseifner"])
def test_ranks_that_are_not_the_root_of_a_reduce_have_no_output(name, in_place):
    for rank in range(5):
        layout = bind(only(name, "reduce"), rank, 5, Message(10, 8, 3, in_place)).layout
        assert (layout.output, layout.result.count) == ((10, 10) if rank == 3 else (0, 0))
        assert layout.in_place == (in_place and rank == 3)
        assert layout.input == (0 if layout.in_place else 10)


# Empty messages and signals


def empty_and_signal(rank, size):
    """Pass a token around, then the blocks."""
    left, right = (rank - 1) % size, (rank + 1) % size
    yield Round(Send(right, channel=1), Recv(left, channel=1))
    for step in range(1, size):
        yield Round(Send(right, (rank - step + 1) % size), Recv(left, (rank - step) % size))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_empty_messages_are_dropped_and_signals_are_sent(enter, call, count):
    size = 4
    choice = enter("allgather", empty_and_signal, rounds="p", sent="n*(p-1)/p")
    verify.prove(choice, size)
    found = call(choice, size, count)
    assert found.right
    for plan in found.plans:
        posts = [m for m in plan.instructions if isinstance(m, PostSend)]
        assert [m.region.count for m in posts if m.channel == 1] == [0]
    sent = [m for p in found.plans for m in p.instructions if isinstance(m, PostSend)]
    assert sum(m.channel == 0 for m in sent) == count * (size - 1)


# Packing


@pytest.mark.parametrize(("of", "name"), [("allgather", "bruck"), ("allreduce", "circulant")])
@pytest.mark.parametrize("size", [5, 7, 9])
def test_messages_that_wrap_around_are_packed_when_small_and_split_when_large(of, name, size, call):
    count = 4 * size
    small, large = (call(only(name, of), size, count, itemsize=i) for i in (8, 1 << 20))
    assert small.right
    assert large.right

    def sends(found):
        return sum(isinstance(m, PostSend) for p in found.plans for m in p.instructions)

    named = sum(
        isinstance(action, Send) and len(ranges(action.blocks)) > 1
        for rank in range(size)
        for step in only(name, of).schedule(rank, size)
        for action in step.actions
    )
    assert sends(large) == sends(small) + named
    assert any(plan.packed for plan in small.plans)
    if of == "allgather":
        assert not any(plan.packed for plan in large.plans)


@pytest.mark.parametrize(("excess", "lengths"), [(0, [1, 2]), (1, [1, 1, 1])])
def test_pack_limit_is_in_bytes_of_a_range_on_average(excess, lengths):
    # The last message of rank 3 is of blocks 3 and 0, which don't lie side by side.
    itemsize = messages.PACK_BYTES + excess
    plan = bind(only("bruck", "allgather"), 3, 4, Message(4, itemsize))
    sent = [m.region.count for m in plan.instructions if isinstance(m, PostSend)]
    assert sent == lengths


@pytest.mark.parametrize("size", [8, 64])
def test_blocks_of_a_bruck_alltoall_are_packed_while_they_are_short(size):
    entry = find("alltoall", "bruck")
    for count, itemsize in ((size, messages.PACK_BYTES), (size, messages.PACK_BYTES + 1)):
        plan = bind(Choice(entry), 1, size, Message(count, itemsize))
        sends = sum(isinstance(step, PostSend) for step in plan.instructions)
        rounds = evaluate(entry.rounds, size)
        assert sends == (rounds if itemsize == messages.PACK_BYTES else rounds * size // 2)


@pytest.mark.parametrize("name", ["linear", "doubling-123", "recursive-doubling", "shift-scan"])
def test_an_exscan_keeps_its_own_vector_without_a_copy(name):
    for rank in range(9):
        plan = bind(only(name, "exscan"), rank, 9, Message(100, 8))
        assert not any(isinstance(step, Copy) for step in plan.instructions)


def test_segments_cut_blocks_and_reduce_the_same():
    size, count = 4, 48
    plain = bind(only("ring"), 1, size, Message(count, 8))
    cut = bind(only("ring:segments=3"), 1, size, Message(count, 8))

    def lengths(plan, kind):
        return [
            (step.into if kind is Reduce else step.region).count
            for step in plan.instructions
            if isinstance(step, kind)
        ]

    assert lengths(plain, PostSend) == [12] * 6
    assert lengths(cut, PostSend) == [4] * 9 + [12] * 3
    assert lengths(cut, Reduce) == [4] * 9


# Exchange of one name, scratch buffers, several writers of one round


def exchange_all(rank, size):
    """Give away everything, get it back, and keep the original in scratch."""
    peer = 1 - rank
    yield Round(CopyBlocks(0, 1, DATA))
    yield Round(Send(peer, 0), Recv(peer, 0))
    yield Round(ReduceBlocks(0, DATA, 1, LEFT if rank == 0 else RIGHT))


def tripling(rank, size):
    """Receive from two others into scratch and reduce in the order of the ranks."""
    distance = 1
    while distance < size:
        digit = rank // distance % 3
        base = rank - digit * distance
        group = [base + d * distance for d in range(3)]
        yield Round(
            *(Send(peer, 0) for peer in group if peer != rank),
            *(Recv(peer, 0, buffer=1 + d) for d, peer in enumerate(group) if peer != rank),
        )
        yield Round(
            CopyBlocks(0, 1 + digit, DATA),
            CopyBlocks(0, DATA, 1),
            ReduceBlocks(0, DATA, 2, RIGHT),
            ReduceBlocks(0, DATA, 3, RIGHT),
        )
        distance *= 3


def two_ports(rank, size):
    """Combine from two peers in one round, in pieces that overlap differently."""
    a, b = (rank + 1) % 3, (rank + 2) % 3
    yield Round(
        Send(a, (0, 2)), Send(b, 0), Send(b, 2), Combine(b, (0, 2)), Combine(a, 0), Combine(a, 2)
    )
    yield Round(Send(a, 1), Send(b, 1), Combine(a, 1), Combine(b, 1))


def copied_over(rank, size):
    """Overwrite DATA with a copy of itself in the round that combines into it."""
    yield Round(CopyBlocks(range(2), 1, DATA))
    yield Round(Send(1 - rank, range(2)), CopyBlocks(0, DATA, 1), Combine(1 - rank, range(2)))


def reduced_first(rank, size):
    """Reduce from scratch into a block in the round that combines into it, too."""
    a, b = (rank + 1) % 3, (rank + 2) % 3
    yield Round(Send(a, 0), Recv(b, 0, buffer=1))
    yield Round(Send(b, 0), ReduceBlocks(0, DATA, 1), Combine(a, 0))


def received_and_combined(rank, size):
    """Receive a block and combine into it in one round: the receive lands first."""
    if rank < 2:
        yield Round(Send(2, 0))
        yield Round(Recv(2, 0))
    else:
        yield Round(CopyBlocks(0, 1, DATA))
        yield Round(Combine(1, 0, RIGHT), Recv(0, 0))
        yield Round(ReduceBlocks(0, DATA, 1, RIGHT))
        yield Round(Send(0, 0), Send(1, 0))


def strided(rank, size):
    """Name every other block."""
    for first in range(2):
        names = range(first, 4, 2)
        yield Round(Send(1 - rank, names), Combine(1 - rank, names))


AD_HOC = [
    (exchange_all, 2, {"blocks": 1, "rounds": "1", "sent": "n", "reduced": "n"}),
    (
        tripling,
        9,
        {"blocks": 1, "rounds": "2", "messages": "4", "sent": "4*n", "reduced": "4*n"},
    ),
    (
        two_ports,
        3,
        {"rounds": "2", "messages": "5", "sent": "2*n", "reduced": "2*n", "same_bits": False},
    ),
    (copied_over, 2, {"rounds": "1", "sent": "n", "reduced": "n"}),
    (reduced_first, 3, {"blocks": 1, "rounds": "2", "sent": "2*n", "reduced": "2*n"}),
    (
        received_and_combined,
        3,
        {"blocks": 1, "rounds": "2", "messages": "2", "sent": "2*n", "reduced": "2*n"},
    ),
    (strided, 2, {"blocks": 4, "rounds": "2", "sent": "n", "reduced": "n"}),
]


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(
    ("generate", "size", "declared"), AD_HOC, ids=[case[0].__name__ for case in AD_HOC]
)
def test_corners_of_the_vocabulary_are_proven_and_right(
    enter, call, generate, size, declared, in_place
):
    ordered = generate in (exchange_all, tripling)
    free = generate is reduced_first
    choice = enter(
        "allreduce",
        generate,
        commutative=not ordered,
        **({"same_bits": False} if free else {}) | declared,
    )
    verify.prove(choice, size)
    for count in (1, 2, size, 25):
        assert call(choice, size, count, in_place=in_place).right


def test_scratch_is_claimed_again_after_its_last_use():
    # Every round receives into scratch; while one part is reduced, the next message may arrive.
    for size in (4, 64):
        plan = bind(only("recursive-doubling"), 0, size, Message(1024, 8, in_place=True))
        assert plan.scratch == 2 * 1024


# Schedules made at random: the binder against the definition of a round


def random_schedule(rng, size, grid, number):
    """Return every rank's rounds; all ranks write their rounds at the same time."""
    steps = [[[] for _ in range(number)] for _ in range(size)]
    for now in range(number):
        landing = [set() for _ in range(size)]
        for _ in range(int(rng.integers(0, 2 * size))):
            a, b = map(int, rng.choice(size, 2, replace=False))
            count = int(rng.integers(1, grid + 1))
            names = span(int(rng.integers(grid)), count, grid)
            named = {block for part in names for block in part}
            source, target, channel = (int(x) for x in rng.integers(0, [2, 2, 2]))
            combine = rng.random() < 0.5
            if not combine and {(target, block) for block in named} & landing[b]:
                combine = True
            if not combine:
                landing[b] |= {(target, block) for block in named}
            side = LEFT if rng.random() < 0.5 else RIGHT
            steps[a][now].append(Send(b, names, source, channel))
            steps[b][now].append(
                Combine(a, names, side, target, channel)
                if combine
                else Recv(a, names, target, channel)
            )
        for rank in range(size):
            for _ in range(int(rng.integers(0, 2))):
                into = int(rng.integers(2))
                names = span(int(rng.integers(grid)), int(rng.integers(1, grid + 1)), grid)
                local = ReduceBlocks if rng.random() < 0.5 else CopyBlocks
                steps[rank][now].insert(
                    int(rng.integers(len(steps[rank][now]) + 1)), local(names, into, 1 - into)
                )
    start = Round(CopyBlocks(range(grid), 1, DATA))
    return [[start, *(Round(*actions) for actions in ranked)] for ranked in steps]


def interpret(schedules, vectors, grid):
    """Run rounds as they are defined, on whole vectors, and return every rank's DATA."""
    count = vectors.shape[1]
    buffers = [[vector.copy(), np.zeros_like(vector)] for vector in vectors]

    def slices(names):
        return [slice(count * b // grid, count * (b + 1) // grid) for part in names for b in part]

    for steps in zip(*schedules, strict=True):
        queues = {}
        for rank, step in enumerate(steps):
            for action in step.actions:
                if isinstance(action, Send):
                    data = [buffers[rank][action.buffer][s].copy() for s in slices(action.blocks)]
                    queues.setdefault((rank, action.peer, action.channel), []).append(data)
        for rank, step in enumerate(steps):
            got = {
                id(action): queues[action.peer, rank, action.channel].pop(0)
                for action in step.actions
                if isinstance(action, Recv | Combine)
            }
            ordered = sorted(step.actions, key=lambda action: not isinstance(action, Recv))
            for action in ordered:
                if isinstance(action, Send):
                    continue
                into = buffers[rank][getattr(action, "into", getattr(action, "buffer", DATA))]
                places = slices(ranges(action.blocks))
                if isinstance(action, Recv | Combine):
                    operands = got[id(action)]
                else:
                    operands = [buffers[rank][action.source][s].copy() for s in places]
                for place, operand in zip(places, operands, strict=True):
                    if isinstance(action, Recv | CopyBlocks):
                        into[place] = operand
                    elif action.side == LEFT:
                        into[place] = operand - into[place]
                    else:
                        into[place] = into[place] - operand
    return [data for data, _ in buffers]


def result_of(plan, output, data):
    """Return what a rank has, and the part of the full vector that it should have."""
    (span,) = plan.layout.result_spans
    return output[: plan.layout.result.count], data[span.start : span.stop]


@pytest.mark.parametrize("of", ["allreduce", "reduce", "reduce-scatter"])
@pytest.mark.parametrize("seed", range(40))
def test_random_schedules_give_what_the_definition_of_a_round_gives(enter, of, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 5))
    schedules = random_schedule(rng, size, size, int(rng.integers(1, 6)))
    monkeypatch.setattr(messages, "PACK_BYTES", int(rng.choice([0, 20, 4096])))

    def made_at_random(rank, size):
        yield from schedules[rank]

    choice = enter(of, made_at_random)
    for count in (1, size, 7 * size + 3):
        for in_place in (False, True):
            vectors = rng.integers(1, 1 << 30, (size, count))
            plans = [bind(choice, r, size, Message(count, 8, 0, in_place)) for r in range(size)]
            for plan in plans:
                check_in_flight(plan)
            inputs = [vector.copy() for vector in vectors]
            for data in inputs:
                data.flags.writeable = False
            outputs = loopback.run(plans, inputs, np.subtract)
            for rank, data in enumerate(interpret(schedules, vectors, size)):
                np.testing.assert_array_equal(*result_of(plans[rank], outputs[rank], data))


# Messages that are cut into pieces


CUTS = [(8, 1), (16, 3), (24, 2), (64, 2)]
"""Bytes of a piece, and pieces in flight."""


def cut_plans(choice, size, message, bytes_, window):
    return [bind(choice, rank, size, message, Segmentation(bytes_, window)) for rank in range(size)]


def messages_of(plans, kind):
    """Return the lengths of the messages of every sender, receiver and channel, in order."""
    queues = {}
    for plan in plans:
        for step in plan.instructions:
            if isinstance(step, kind):
                ends = (plan.rank, step.peer) if kind is PostSend else (step.peer, plan.rank)
                queues.setdefault((*ends, step.channel), []).append(step.region.count)
    return queues


@pytest.mark.parametrize("in_place", [False, True], ids=["out of place", "in place"])
def test_pieces_keep_their_limit_and_both_ends_and_the_result_are_the_same(entry, in_place, call):
    for size in filter(entry.supports, (2, 5, 8)):
        root = roots(entry, size)[-1]
        count = definitions.allowed(entry.collective.name, 7 * size + 3, size, in_place)
        message = Message(count, 8, root, in_place)
        for bytes_, window in CUTS:
            plans = cut_plans(Choice(entry), size, message, bytes_, window)
            for plan in plans:
                check_in_flight(plan)
            sent = messages_of(plans, PostSend)
            assert sent == messages_of(plans, PostRecv)
            assert max(max(lengths) for lengths in sent.values()) <= bytes_ // 8
            cut = call(Choice(entry), size, count, root, in_place, mutate=lambda _, p=plans: p)
            assert cut.right, (size, bytes_, window)


@pytest.mark.parametrize("of", ["allreduce", "reduce", "reduce-scatter"])
@pytest.mark.parametrize("seed", range(10))
def test_random_schedules_give_the_same_in_pieces(enter, of, seed, monkeypatch):
    rng = np.random.default_rng(1000 + seed)
    size = int(rng.integers(2, 5))
    schedules = random_schedule(rng, size, size, int(rng.integers(1, 6)))
    monkeypatch.setattr(messages, "PACK_BYTES", int(rng.choice([0, 20, 4096])))

    def made_at_random(rank, size):
        yield from schedules[rank]

    choice = enter(of, made_at_random)
    vectors = rng.integers(1, 1 << 30, (size, 7 * size + 3))
    defined = interpret(schedules, vectors, size)
    for bytes_, window in CUTS:
        for in_place in (False, True):
            message = Message(vectors.shape[1], 8, 0, in_place)
            plans = cut_plans(choice, size, message, bytes_, window)
            for plan in plans:
                check_in_flight(plan)
            assert messages_of(plans, PostSend) == messages_of(plans, PostRecv)
            outputs = loopback.run(plans, [vector.copy() for vector in vectors], np.subtract)
            for data, output, plan in zip(defined, outputs, plans, strict=True):
                np.testing.assert_array_equal(*result_of(plan, output, data))


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize(("bytes_", "window"), CUTS)
def test_a_pipelined_receive_needs_scratch_for_its_window_only(size, bytes_, window):
    # In place the operand has no place in the output, and what is received isn't kept.
    choice, message = only("ring"), Message(40 * size, 8, in_place=True)
    lane = scratch.ALIGNMENT // 8
    for whole, cut in zip(
        (bind(choice, rank, size, message) for rank in range(size)),
        cut_plans(choice, size, message, bytes_, window),
        strict=True,
    ):
        assert whole.scratch >= 40
        assert cut.scratch <= -(-window * (bytes_ // 8) // lane) * lane
        assert 0 < most_in_flight(cut) <= window


def most_in_flight(plan):
    """Return how many receives into scratch are in flight at most."""
    flying, most = set(), 0
    for step in plan.instructions:
        if isinstance(step, PostRecv) and step.region.space == SCRATCH:
            flying.add(step.slot)
        elif isinstance(step, Wait):
            flying.difference_update(step.slots)
        most = max(most, len(flying))
    return most


def test_the_window_is_one_part_of_scratch_for_all_later_partners_too():
    # A rank that isn't the root has no output: its first result stays where it was received.
    for bytes_, window in CUTS:
        plan = bind(only("binomial", "reduce"), 4, 8, Message(100, 8), Segmentation(bytes_, window))
        lane = scratch.ALIGNMENT // 8
        kept, turns = (-(-n // lane) * lane for n in (100, window * bytes_ // 8))
        assert plan.scratch <= kept + turns


def test_a_message_no_longer_than_a_piece_is_not_cut(entry):
    for size in filter(entry.supports, (2, 5, 8)):
        for rank in range(size):
            message = Message(40, 8)
            whole = bind(Choice(entry), rank, size, message)
            assert bind(Choice(entry), rank, size, message, Segmentation(320, 1)) == whole


def test_an_element_is_never_cut():
    plans = cut_plans(only("ring"), 2, Message(6, 16), 8, 2)
    assert {n for lengths in messages_of(plans, PostSend).values() for n in lengths} == {1}


@pytest.mark.parametrize("asked", [segmentation.LARGEST_PIECE, 1 << 40, 64])
def test_no_piece_is_larger_than_libraries_can_count(entry, monkeypatch, asked):
    # As beyond 1 GiB, with a limit that a test can reach.
    for size in filter(entry.supports, (2, 5)):
        message = Message(50, 8)
        expected = cut_plans(Choice(entry), size, message, 32, 2)
        with monkeypatch.context() as limited:
            limited.setattr(segmentation, "LARGEST_PIECE", 32)
            assert cut_plans(Choice(entry), size, message, asked, 2) == expected


def test_messages_of_several_gib_are_cut_below_2_gib():
    plan = bind(only("tree"), 0, 2, Message(5 << 28, 8))
    sent = [m.region.count * 8 for m in plan.instructions if isinstance(m, PostSend)]
    assert sum(sent) == 5 << 31
    assert max(sent) == segmentation.LARGEST_PIECE < 1 << 31


# When messages are waited for


@pytest.mark.parametrize("cut", [Segmentation(), Segmentation(16, 2)], ids=["whole", "in pieces"])
def test_no_message_is_waited_for_later_than_it_may_be(entry, cut):
    # By the end of the round after their own.
    for size in filter(entry.supports, FEW):
        for rank in range(size):
            flying = {}
            for step in bind(Choice(entry), rank, size, Message(3 * size + 1, 8), cut).instructions:
                if isinstance(step, Wait):
                    assert step.round == max(flying.pop(slot).round for slot in step.slots)
                elif isinstance(step, PostSend | PostRecv):
                    for earlier in flying.values():
                        assert step.round - earlier.round <= 1, (size, rank, step, earlier)
                    flying[step.slot] = step
            assert not flying


def posts_of(plan, number):
    """Return the types of what a round posts, in order."""
    posts = (s for s in plan.instructions if isinstance(s, PostSend | PostRecv))
    return [type(post) for post in posts if post.round == number]


LONG = binding.LONG_BYTES // 8


@pytest.mark.parametrize(
    ("count", "piece", "first"),
    [(LONG, 8 * LONG, PostSend), (LONG - 1, 8 * LONG, PostRecv), (4 * LONG, 4096, PostRecv)],
    ids=["long", "not long", "in short pieces"],
)
def test_of_a_long_exchange_the_send_is_posted_first(count, piece, first):
    cut = Segmentation(piece, 2)
    for rank in range(2):
        plan = bind(only("recursive-doubling"), rank, 2, Message(count, 8), cut)
        assert posts_of(plan, 1)[0] is first


def test_the_receive_is_posted_first_where_peers_differ():
    for rank in range(3):
        plan = bind(only("ring"), rank, 3, Message(3 * LONG, 8))
        assert [posts_of(plan, k)[0] for k in range(1, 5)] == [PostRecv] * 4


def rounds_in_flight(plan):
    """Return the most rounds whose receives are in flight at one time."""
    flying, most = {}, 0
    for step in plan.instructions:
        if isinstance(step, PostRecv):
            flying[step.slot] = step.round
        elif isinstance(step, Wait):
            for slot in step.slots:
                flying.pop(slot, None)
        most = max(most, len(set(flying.values())))
    return most


@pytest.mark.parametrize(("segments", "rounds"), [(1, 1), (2, 2), (5, 2)])
def test_two_rounds_are_in_flight_where_the_second_needs_nothing_of_the_first(segments, rounds):
    for rank in range(4):
        plan = bind(only(f"ring:segments={segments}", "reduce-scatter"), rank, 4, Message(400, 8))
        assert rounds_in_flight(plan) == rounds


def test_a_signal_comes_after_all_before_it_and_before_all_after_it(enter):
    def token(rank, size):
        """Receive a block, pass a signal on, and send a block when it has come around."""
        left, right = (rank - 1) % size, (rank + 1) % size
        yield Round(Send(right, rank), Recv(left, left))
        yield Round(Send(right), Recv(left))
        yield Round(Send(left, rank), Recv(right, right))

    plan = bind(enter("allgather", token), 0, 3, Message(300, 8))
    done = set()
    for step in plan.instructions:
        if isinstance(step, Wait):
            done.add(step.round)
        elif isinstance(step, PostSend):
            assert done >= set(range(1, step.round))


def test_plan_is_bound_for_the_algorithms_size_only():
    from hpccoll.errors import UnsupportedError

    with pytest.raises(UnsupportedError):
        bind(Choice(find("allgather", "recursive-doubling")), 0, 6, Message(6, 8))


# How long it takes


def lines_run(work):
    """Return how many lines of Python run, loops counted as often as they turn."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    ("of", "name"),
    [("allreduce", "one-shot"), ("allreduce", "two-shot"), ("alltoall", "linear")],
)
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("itemsize", [1, 1024])
def test_binding_takes_a_time_that_grows_with_the_messages_of_a_round(of, name, in_place, itemsize):
    choice = Choice(find(of, name))

    def bound(size):
        return bind(choice, 1, size, Message(100 * size, itemsize, in_place=in_place))

    few, many = (len(bound(size).instructions) for size in (20, 80))
    ran = [lines_run(lambda size=size: bound(size)) for size in (20, 80)]
    # As many times the work as there are times the instructions, and a little for searching.
    assert ran[1] / ran[0] < 1.5 * many / few
