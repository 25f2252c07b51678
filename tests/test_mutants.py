"""Algorithms broken on purpose: the proof, or the data in loopback, must find every one.

Not every change makes a schedule wrong (two rounds may commute), so only changes are made that do.
"""

from dataclasses import replace

import pytest

from hpccoll import verify
from hpccoll.bind import bind
from hpccoll.choice import Choice
from hpccoll.errors import PlanError, VerificationError
from hpccoll.layout import INPUT, OUTPUT, SCRATCH, Message, Region
from hpccoll.plan import Copy, PostRecv, PostSend, Reduce, Wait, check_in_flight, reads, writes
from hpccoll.registry import find
from hpccoll.schedule import LEFT, RIGHT, Combine, Recv, Round, Send, ranges

SIZES = (4, 5)


def mutant(entry, edit):
    """Return `entry` with ``edit(rank, place, action)`` applied to every message.

    `place` counts the messages that a rank sends to, or receives from, one peer on one channel.
    The edit returns the action that takes its place, or None.
    """

    def generate(rank, size, **parameters):
        seen = {}
        for step in entry.generate(rank, size, **parameters):
            actions = []
            for action in step.actions:
                if isinstance(action, Send | Recv | Combine):
                    key = (isinstance(action, Send), action.peer, action.channel)
                    place = seen[key] = seen.get(key, -1) + 1
                    action = edit(rank, place, action)
                if action is not None:
                    actions.append(action)
            yield Round(*actions, at=step.at)

    return replace(entry, generate=generate)


def messages(entry, size):
    """Yield (rank, place, action) of every end of every message."""
    found = []

    def note(rank, place, action):
        found.append((rank, place, action))
        return action

    noted = mutant(entry, note)
    for rank in range(size):
        list(Choice(noted).schedule(rank, size))
    return found


def only_at(target, change):
    """Return an edit that applies `change` at one (rank, place, action) only."""

    def edit(rank, place, action):
        return change(action) if (rank, place, action) == target else action

    return edit


def refuted(entry, size):
    """Tell whether the proof refuses an algorithm."""
    try:
        verify.prove(Choice(entry), size)
    except VerificationError:
        return True
    return False


def supported(entry):
    # Halves of which the costs are known: other nodes may get what they don't need.
    return [size for size in ((4, 6) if entry.placed else SIZES) if entry.supports(size)]


def survivors(entry, changes):
    """Return the broken versions that the proof accepts, over every message and given change."""
    return [
        (size, target, changed)
        for size in supported(entry)
        for target in messages(entry, size)
        for changed in changes(entry, size, *target)
        if not refuted(mutant(entry, only_at(target, lambda action, new=changed: new)), size)
    ]


def other_peers(entry, size, rank, place, action):
    for peer in range(size):
        if peer not in (rank, action.peer):
            yield replace(action, peer=peer)


def other_names(entry, size, rank, place, action):
    """Exchange one name for its neighbour, or two, at one end of the message; or name one."""
    grid = Choice(entry).grid(size)
    names = [block for part in ranges(action.blocks) for block in part]
    if not names:
        yield replace(action, blocks=0)
        return
    yield replace(action, blocks=(*names[:-1], (names[-1] + 1) % grid) if grid > 1 else ())
    if len(names) > 1:
        yield replace(action, blocks=(*names[:-2], names[-1], names[-2]))


def nothing(entry, size, rank, place, action):
    yield None


@pytest.mark.parametrize("changes", [other_peers, other_names, nothing])
def test_proof_finds_a_change_at_one_end_of_any_message(entry, changes):
    assert survivors(entry, changes) == []


def test_proof_finds_a_round_that_one_rank_leaves_out(entry):
    def without(rank, number):
        def generate(r, size, **parameters):
            rounds = entry.generate(r, size, **parameters)
            return iter([s for i, s in enumerate(rounds) if (r, i) != (rank, number)])

        return replace(entry, generate=generate)

    for size in supported(entry):
        for rank in range(size):
            for number, step in enumerate(Choice(entry).schedule(rank, size)):
                if step.actions:
                    assert refuted(without(rank, number), size), (size, rank, number)


def had(entry, size, send):
    """Tell whether the receiver has the last block from the start: two levels may bring it back."""
    pieces = Choice(entry).grid(size) // entry.blocks(size)
    held = entry.collective.held(send.peer, size, 0, entry.blocks(size))
    return entry.placed and (ranges(send.blocks)[-1].stop - 1) // pieces in held


SENDS_MORE_THAN_NEEDED = {("reduce-scatter", "recursive-doubling")}
"""By definition; and ranks who send as much as others, so that no count tells either."""


def test_proof_finds_a_block_that_both_ends_leave_out(entry):
    # Nothing is matched wrongly here: only the contract, or the count of bytes, tells.
    def shorter(sender, receiver, place):
        def edit(rank, at, action):
            end = (rank, action.peer) if isinstance(action, Send) else (action.peer, rank)
            if (*end, at) != (sender, receiver, place):
                return action
            names = [block for part in ranges(action.blocks) for block in part]
            return replace(action, blocks=tuple(names[:-1]))

        return edit

    if (entry.collective.name, entry.name) in SENDS_MORE_THAN_NEEDED:
        return
    for size in supported(entry):
        for rank, place, action in messages(entry, size):
            if isinstance(action, Send) and ranges(action.blocks) and not had(entry, size, action):
                broken = mutant(entry, shorter(rank, action.peer, place))
                assert refuted(broken, size), (size, rank, place, action)


def test_proof_finds_a_swapped_operand_of_those_who_keep_the_order(entry):
    def swap(entry, size, rank, place, action):
        if isinstance(action, Combine):
            yield replace(action, side=RIGHT if action.side == LEFT else LEFT)

    if entry.collective.reduces and not entry.commutative:
        assert survivors(entry, swap) == []


# Plans: what no proof about names can find.


def replaced(plan, index, *instead):
    table = plan.instructions
    return replace(plan, instructions=(*table[:index], *instead, *table[index + 1 :]))


def swapped(plan):
    """Send a message from where another block of the same length lies."""
    for index, post in enumerate(plan.instructions):
        if isinstance(post, PostSend) and post.region.count:
            region = post.region
            offset = region.offset - region.count if region.offset else region.count
            if offset >= 0 and offset + region.count <= spaces(plan)[region.space]:
                return replaced(plan, index, replace(post, region=replace(region, offset=offset)))
    return None


def unreduced(plan):
    """Drop a reduction."""
    for index, instruction in enumerate(plan.instructions):
        if isinstance(instruction, Reduce):
            return replaced(plan, index)
    return None


def stale(plan):
    """Receive the last message into a place that nobody reads."""
    for index in reversed(range(len(plan.instructions))):
        post = plan.instructions[index]
        if isinstance(post, PostRecv) and post.region.count:
            beside = Region(SCRATCH, plan.scratch, post.region.count)
            wrong = replaced(plan, index, replace(post, region=beside))
            return replace(wrong, scratch=plan.scratch + post.region.count)
    return None


def has_one_block(entry):
    return entry.blocks(4) == 1


def sends_all_it_has(entry, in_place):
    """Tell whether nothing is ever sent but all that a rank has, beside which nothing lies."""
    plans = [bind(Choice(entry), rank, 4, Message(32, 8, in_place=in_place)) for rank in range(4)]
    return entry.collective.name == "gather" or all(
        step.region == plan.layout.held
        and step.region.count == (plan.layout.input, plan.layout.output)[step.region.space]
        for plan in plans
        for step in plan.instructions
        if isinstance(step, PostSend)
    )


def spaces(plan):
    return (plan.layout.input, plan.layout.output, plan.scratch)


@pytest.mark.parametrize("break_plan", [swapped, unreduced, stale])
@pytest.mark.parametrize("in_place", [False, True])
def test_loopback_finds_one_wrong_instruction_of_one_rank(entry, call, break_plan, in_place):
    broken = 0
    for size in supported(entry):
        for rank in range(size):
            choice, count = Choice(entry), 8 * size
            plan = bind(choice, rank, size, Message(count, 8, in_place=in_place))
            if (wrong := break_plan(plan)) is None:
                continue
            broken += 1

            def mutate(plans, wrong=wrong):
                return [wrong if plan.rank == wrong.rank else plan for plan in plans]

            found = call(choice, size, count, in_place=in_place, mutate=mutate)
            assert not found.right, (size, rank)
    harmless = (
        not entry.collective.moves_data
        or (break_plan is swapped and has_one_block(entry))
        or (break_plan is unreduced and not entry.collective.reduces)
        or (break_plan is swapped and sends_all_it_has(entry, in_place))
    )
    assert broken or harmless


def early(plan):
    """Yield the plan with an instruction moved before the `Wait` whose messages it needs."""
    table = plan.instructions
    for index, wait in enumerate(table):
        if not isinstance(wait, Wait):
            continue
        posted = {m.slot: m for m in table[:index] if isinstance(m, PostSend | PostRecv)}
        received = [m.region for m in map(posted.get, wait.slots) if isinstance(m, PostRecv)]
        for later in range(index + 1, len(table)):
            step = table[later]
            touched = (*reads(step), *writes(step))
            if any(new.overlaps(old) for new in touched for old in received):
                moved = (*table[:index], step, *table[index:later], *table[later + 1 :])
                yield replace(plan, instructions=moved)
                break


def test_in_flight_check_finds_an_instruction_before_its_wait(entry):
    found = 0
    for size in supported(entry):
        for rank in range(size):
            plan = bind(Choice(entry), rank, size, Message(8 * size, 8))
            check_in_flight(plan)
            for wrong in early(plan):
                found += 1
                with pytest.raises(PlanError, match=f"rank {rank}, instruction"):
                    check_in_flight(wrong)
    assert found or not any(uses_what_it_receives(entry, size) for size in supported(entry))


def uses_what_it_receives(entry, size):
    """Tell whether any rank reduces, or sends on what it has received."""
    for rank in range(size):
        received = set()
        for step in Choice(entry).schedule(rank, size):
            named = {kind: set() for kind in (Send, Recv, Combine)}
            for action in step.actions:
                if isinstance(action, Combine) and ranges(action.blocks):
                    return True
                if isinstance(action, Send | Recv):
                    named[type(action)] |= {b for part in ranges(action.blocks) for b in part}
            if named[Send] & received:
                return True
            received |= named[Recv]
    return False


SENT = PostSend(0, 1, Region(OUTPUT, 0, 4), 0, 1)
RECEIVED = PostRecv(0, 1, Region(OUTPUT, 0, 4), 0, 1)
DONE = Wait((0,), 1)


def into(*place):
    return Copy(Region(*place), Region(INPUT, 0, place[-1]))


def out_of(*place):
    return Copy(Region(SCRATCH, 0, place[-1]), Region(*place))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([SENT, out_of(OUTPUT, 0, 4), DONE], None),
        ([SENT, into(OUTPUT, 4, 4), DONE], None),
        ([SENT, into(OUTPUT, 3, 1), DONE], "instruction 1: .* which PostSend.* still uses"),
        ([SENT, DONE, into(OUTPUT, 3, 1)], None),
        ([RECEIVED, out_of(INPUT, 3, 1), DONE], None),
        ([RECEIVED, out_of(OUTPUT, 4, 1), DONE], None),
        ([RECEIVED, out_of(OUTPUT, 3, 1), DONE], "instruction 1: .* which PostRecv.* still uses"),
        ([RECEIVED, into(OUTPUT, 0, 1), DONE], "instruction 1: .* which PostRecv.* still uses"),
        ([SENT, replace(RECEIVED, slot=1), Wait((0, 1), 1)], "instruction 1: PostRecv.*PostSend"),
        ([SENT, replace(SENT, slot=1), Wait((1, 0), 1)], None),
        ([SENT, SENT, DONE], "instruction 1: slot is in use"),
        ([SENT, DONE, DONE], "instruction 2: nothing is in slot 0"),
        ([SENT, DONE, SENT], "never waits for .*PostSend"),
    ],
)
def test_in_flight_check_allows_reading_what_is_sent_and_nothing_else(table, words):
    empty = bind(Choice(find("allreduce", "tree")), 0, 1, Message(8, 8))
    plan = replace(empty, instructions=tuple(table))
    if words is None:
        check_in_flight(plan)
    else:
        with pytest.raises(PlanError, match=words):
            check_in_flight(plan)
