"""The proof: every algorithm passes it, and every kind of wrong schedule is named precisely."""

from dataclasses import replace

import pytest

from hpccoll import verify
from hpccoll.choice import Choice
from hpccoll.errors import UnsupportedError, VerificationError
from hpccoll.obligations import obligations
from hpccoll.registry import find
from hpccoll.schedule import DATA, RIGHT, Combine, Copy, Recv, Reduce, Round, Send
from hpccoll.symbolic import Execution


def test_every_algorithm_is_proven_on_1_to_64_ranks(entry):
    proven = {verify.prove(*asked).size for asked in obligations(entry, range(1, 65))}
    assert proven == {size for size in range(1, 65) if entry.supports(size)}


@pytest.mark.parametrize("size", [1, 2, 3, 12, 13, 64])
def test_rotation_renames_the_ranks(size):
    verify.prove_rotation(size)


def test_wrong_rotation_is_found(monkeypatch):
    def mirrored(generate, root):
        return lambda rank, size: generate((root - rank) % size, size)

    monkeypatch.setattr(verify, "rotate", mirrored)
    with pytest.raises(VerificationError, match="rotation to root 1 of 4 misplaces rank"):
        verify.prove_rotation(4)


def test_unsupported_size_is_not_a_failed_proof():
    with pytest.raises(UnsupportedError):
        verify.prove(Choice(find("allgather", "recursive-doubling")), 6)


def test_counterexample_names_algorithm_parameters_size_and_root():
    entry = replace(find("reduce", "binomial"), rounds="L+1")
    words = r"^reduce binomial on 4 ranks, root 3: counted 2 rounds, but L\+1 is 3 \(n = 1 blocks\)"
    with pytest.raises(VerificationError, match=words):
        verify.prove(Choice(entry), 4, 3)
    entry = replace(find("allreduce", "ring"), rounds="0")
    with pytest.raises(
        VerificationError, match=r"^allreduce ring:segments=2 on 4 ranks: counted 9"
    ):
        verify.prove(Choice(entry, {"segments": 2}), 4)


@pytest.mark.parametrize("name", ["rounds", "messages", "sent", "reduced"])
def test_every_closed_form_is_compared_to_what_was_counted(entry, name):
    changed = replace(entry, **{name: f"({getattr(entry, name)}) + 1"})
    with pytest.raises(VerificationError, match=f"counted .* {name}, but .* is"):
        verify.prove(Choice(changed), 4)


# Execution: what can go wrong on the way. Each case gives the rounds of every rank, all of which
# hold blocks 0 to 2 in DATA.

WRONG_ON_THE_WAY = {
    "both receive first": (
        [[Round(Recv(1, 0)), Round(Send(1, 0))], [Round(Recv(0, 0)), Round(Send(0, 0))]],
        "deadlock: rank 0, round 1: waits to receive from 1 block 0; "
        "rank 1, round 1: waits to receive from 0 block 0",
    ),
    "both send first, which only eager buffers would save": (
        [[Round(Send(1, 0)), Round(Recv(1, 1))], [Round(Send(0, 1)), Round(Recv(0, 0))]],
        "deadlock: rank 0, round 1: waits to send to 1 block 0; "
        "rank 1, round 1: waits to send to 0 block 1",
    ),
    "a ring of synchronous sends in rounds of their own": (
        [
            [Round(Send((r + 1) % 6, r % 3)), Round(Recv((r - 1) % 6, (r - 1) % 3))]
            for r in range(6)
        ],
        "rank 3, round 1: waits to send to 4 block 0; and 2 more ranks",
    ),
    "nobody receives": (
        [[Round(), Round(Send(1, (0, 2)))], []],
        "deadlock: rank 0, round 2: waits to send to 1 block 0,2",
    ),
    "a signal that nobody sends": (
        [[], [Round(Recv(0))]],
        "deadlock: rank 1, round 1: waits to receive from 0 (signal)",
    ),
    "other channel": (
        [[Round(Send(1, 0, channel=1))], [Round(Recv(0, 0))]],
        "deadlock: rank 0, round 1: waits to send to 1 block 0; rank 1, round 1: waits to receive",
    ),
    "other names at the two ends": (
        [[Round(), Round(Send(1, range(2)))], [Round(Recv(0, range(1, 3)))]],
        "rank 1, round 1: receive from 0 block 1-2 meets send to 1 block 0-1 of rank 0, round 2",
    ),
    "same names in another order": (
        [[Round(Send(1, (0, 1)))], [Round(Recv(0, (1, 0)))]],
        "rank 1, round 1: receive from 0 block 1,0 meets send to 1 block 0-1 of rank 0, round 1",
    ),
    "scratch that was never written": (
        [[Round(Send(1, 2, buffer=1))], [Round(Recv(0, 2))]],
        "rank 0, round 1: block 2 of scratch 1 is used but was never received",
    ),
    "a copy of nothing": (
        [[Round(Copy(1, DATA, 4))]],
        "rank 0, round 1: block 1 of scratch 4 is used but was never received",
    ),
    "a reduction into nothing": (
        [[Round(Reduce(1, 2, DATA))]],
        "rank 0, round 1: block 1 of scratch 2 is used but was never received",
    ),
    "the own input twice": (
        [[Round(Copy(0, 1, DATA)), Round(Reduce(0, DATA, 1))]],
        "rank 0, round 2: block 0 would contain the input of rank 0 twice",
    ),
    "a contribution twice": (
        [
            [Round(Send(1, 1)), Round(Send(1, 1))],
            [Round(Combine(0, 1)), Round(Combine(0, 1))],
        ],
        "rank 1, round 2: block 1 would contain the input of rank 0 twice",
    ),
    "two receives into one place": (
        [
            [Round(Recv(1, range(2)), Recv(2, range(1, 3)))],
            [Round(Send(0, range(2)))],
            [Round(Send(0, range(1, 3)))],
        ],
        "rank 0, round 1: two receives of one round both land in block 1",
    ),
    "a peer beyond the last rank": (
        [[Round(Send(2, 0))], []],
        "rank 0, round 1: send to 2 block 0: no such peer",
    ),
    "a negative peer": (
        [[], [Round(Combine(-1, 0))]],
        "rank 1, round 1: combine from -1 block 0: no such peer",
    ),
    "oneself": (
        [[Round(Send(0, 0), Recv(0, 0))]],
        "rank 0, round 1: send to 0 block 0: no such peer",
    ),
    "a block beyond the grid": (
        [[Round(Send(1, (0, range(2, 5))))], []],
        "rank 0, round 1: send to 1 block 0,2-4: block 4 of 3",
    ),
    "a negative block": (
        [[Round(Send(1, -1))], []],
        "rank 0, round 1: send to 1 block -1: block -1 of 3",
    ),
}


@pytest.mark.parametrize("case", WRONG_ON_THE_WAY)
def test_wrong_schedule_gives_rank_round_and_block(case):
    schedules, message = WRONG_ON_THE_WAY[case]
    with pytest.raises(VerificationError) as error:
        Execution([iter(s) for s in schedules], [range(3)] * len(schedules), 3)
    assert message in str(error.value)


def test_block_that_a_rank_does_not_have_is_named():
    with pytest.raises(VerificationError) as error:
        Execution([iter([Round(Send(1, (0, 1)))]), iter([Round(Recv(0, (0, 1)))])], [(0,), ()], 2)
    assert str(error.value) == "rank 0, round 1: block 1 is used but was never received"


def test_sends_read_the_values_of_the_start_of_the_round():
    exchange = [iter([Round(Recv(1 - r, 0), Send(1 - r, 0))]) for r in range(2)]
    execution = Execution(exchange, [(0,), (0,)], 1)
    assert execution.value(0, 0) == execution.terms.leaf(1)
    assert execution.value(1, 0) == execution.terms.leaf(0)


def test_local_work_runs_after_receives_in_the_order_written():
    rounds = [
        iter([Round(Send(1, 0))]),
        iter([Round(Copy(0, 1, DATA), Reduce(0, 1, 2), Recv(0, 0, buffer=2))]),
    ]
    execution = Execution(rounds, [(0,), (0,)], 1)
    terms = execution.terms
    assert execution.ranks[1].buffers[1][0] == terms.reduce(terms.leaf(0), terms.leaf(1))


def test_rounds_of_two_ranks_need_not_agree():
    sender = [Round(Send(1, b)) for b in range(3)]
    receiver = [Round(), Round(Recv(0, 0)), Round(), Round(Recv(0, 1)), Round(Recv(0, 2))]
    Execution([iter(sender), iter(receiver)], [range(3), ()], 3)


def test_sends_are_synchronous_even_if_their_messages_would_fit_together():
    # Rank 1 takes two messages in one round, but rank 0 starts the second after the first only.
    sender = [Round(Send(1, 0)), Round(Recv(1)), Round(Send(1, 1))]
    receiver = [Round(Recv(0, 0), Recv(0, 1)), Round(Send(0))]
    with pytest.raises(VerificationError, match="deadlock: rank 0, round 2: waits to receive"):
        Execution([iter(sender), iter(receiver)], [range(2), ()], 2)


def test_steps_are_the_critical_path_and_not_a_rank_s_own_rounds():
    size = 5
    gather = [[Round(Recv(r, r)) for r in range(1, size)]]
    gather += [[Round(Send(0, r))] for r in range(1, size)]
    counts = Execution([iter(g) for g in gather], [(r,) for r in range(size)], size).counts
    assert (counts.steps, counts.messages, counts.total) == (4, 1, 4)
    chain = [
        [Round(Recv(r - 1, 0))] * (r > 0) + [Round(Send(r + 1, 0))] * (r < 4) for r in range(5)
    ]
    assert Execution([iter(c) for c in chain], [(0,), *[()] * 4], 1).counts.steps == 4


# Results: schedules that run, and end with something else than the contract says.


def ends_early(rank, size):
    if rank == 0:
        yield Round(Send(1, 0))
    elif rank == 1:
        yield Round(Recv(0, 0))


def misses_one(rank, size):
    if rank < 2:
        yield Round(Send(1 - rank, 0), Combine(1 - rank, 0))
    else:
        yield Round()


def wrong_side(rank, size):
    if rank < 2:
        yield Round(Send(1 - rank, 0), Combine(1 - rank, 0, RIGHT))


def right_side_of_both(rank, size):
    side = {"side": RIGHT} if rank == 0 else {}
    yield Round(Send(1 - rank, 0), Combine(1 - rank, 0, **side))


def three_in_one_round(rank, size):
    """Rank 0 computes (a+b)+c and rank 1 too, but rank 2 (its own last) a+(b+c)."""
    others = [r for r in range(3) if r != rank]
    actions = [Send(r, 0) for r in others]
    received = sorted(others, key=lambda r: abs(r - rank))
    actions += [Combine(r, 0, *(() if r < rank else (RIGHT,))) for r in received]
    yield Round(*actions)


WRONG_AT_THE_END = [
    ("bcast", ends_early, 3, {"blocks": 1}, "at the end, rank 2, block 0: was never received"),
    ("allreduce", misses_one, 3, {"blocks": 1}, "rank 0, block 0: lacks the input of rank 2"),
    (
        "allreduce",
        wrong_side,
        2,
        {"blocks": 1},
        "rank 1, block 0: operands aren't in the order of the ranks",
    ),
    (
        "allreduce",
        three_in_one_round,
        3,
        {"blocks": 1},
        "at the end, rank 2, block 0: other ranks get other bits",
    ),
]


@pytest.mark.parametrize(
    ("of", "generate", "size", "declared", "message"),
    WRONG_AT_THE_END,
    ids=[case[1].__name__ for case in WRONG_AT_THE_END],
)
def test_wrong_result_is_named(enter, of, generate, size, declared, message):
    with pytest.raises(VerificationError) as error:
        verify.prove(enter(of, generate, **declared), size)
    assert message in str(error.value)


def test_equal_bits_and_order_are_asked_only_of_those_who_claim_them(enter):
    costs = {"blocks": 1, "rounds": "1", "messages": "2", "sent": "2*n", "reduced": "2*n"}
    verify.prove(enter("allreduce", three_in_one_round, same_bits=False, **costs), 3)
    costs = {"blocks": 1, "rounds": "1", "sent": "n", "reduced": "n"}
    verify.prove(enter("allreduce", right_side_of_both, **costs), 2)
    choice = enter("allreduce", wrong_side, commutative=True, **costs)
    verify.prove(choice, 2)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [(1, "blocks= declares 1 natural blocks, but allgather has 3 on 3 ranks"), (0, "no blocks")],
)
def test_blocks_that_empty_the_contract_are_refused(enter, blocks, message):
    def nothing(rank, size):
        """Do nothing, which fulfils a contract that asks for nothing."""
        for peer in range(1, size):
            if rank == 0:
                yield Round(Send(peer, 0))
            elif rank == peer:
                yield Round(Recv(0, 0))

    choice = enter("allgather", nothing, blocks=blocks, rounds="p-1", sent="n*(p-1)")
    with pytest.raises(VerificationError, match=message):
        verify.prove(choice, 3)
