"""GOAL files: their grammar, matching, dependencies, and that they take as many steps as proven."""

import re
from collections import defaultdict, deque

import pytest

from hpccoll.choice import Choice
from hpccoll.errors import UnsupportedError
from hpccoll.export import goal
from hpccoll.layout import Message
from hpccoll.spelling import choose
from hpccoll.verify import prove

OPERATION = re.compile(
    r"(?P<label>[a-zA-Z]\w*): (?:(?P<way>send|recv) (?P<bytes>\d+)b (?P<word>to|from) "
    r"(?P<peer>\d+) tag (?P<tag>\d+)|calc (?P<time>\d+))"
)
REQUIRES = re.compile(r"([a-zA-Z]\w*) requires ([a-zA-Z]\w*)")


def parsed(text):
    """Return every rank's operations and what they require; anything else is an error."""
    lines = [line for line in text.splitlines() if line and not line.startswith("//")]
    size = int(re.fullmatch(r"num_ranks (\d+)", lines.pop(0))[1])
    ranks, rank = {}, None
    for line in lines:
        if opened := re.fullmatch(r"rank (\d+) \{", line):
            rank = int(opened[1])
            assert rank not in ranks
            ranks[rank] = ({}, defaultdict(set))
        elif line == "}":
            rank = None
        elif found := OPERATION.fullmatch(line):
            operations, _ = ranks[rank]
            assert found["label"] not in operations
            assert (
                found["way"] is None
                or found["word"] == {"send": "to", "recv": "from"}[found["way"]]
            )
            operations[found["label"]] = found.groupdict()
        else:
            label, other = REQUIRES.fullmatch(line).groups()
            operations, required = ranks[rank]
            # Only what stands above can be required, so there are no cycles.
            assert list(operations).index(other) < list(operations).index(label)
            required[label].add(other)
    assert sorted(ranks) == [*range(size)]
    return ranks


def simulated(ranks):
    """Run the operations: a message takes a step when both ends are ready; return the last step."""
    done, left = {}, {(r, label) for r, (operations, _) in ranks.items() for label in operations}
    posted = defaultdict(deque)

    def ready(rank, label):
        before = [(rank, other) for other in ranks[rank][1][label]]
        return max((done[b] for b in before), default=0) if all(b in done for b in before) else None

    for rank, (operations, _) in ranks.items():
        for label, found in operations.items():
            if found["way"]:
                ends = (rank, int(found["peer"]))
                ends = ends if found["way"] == "send" else ends[::-1]
                posted[(*ends, found["tag"], found["way"])].append((rank, label))
    pairs = []
    for (source, target, tag, way), sends in posted.items():
        receives = posted.get((source, target, tag, "recv"), ())
        if way == "send":
            assert len(sends) == len(receives)
            pairs += zip(sends, receives, strict=True)
        else:
            assert (source, target, tag, "send") in posted
    for (r, a), (t, b) in pairs:
        assert ranks[r][0][a]["bytes"] == ranks[t][0][b]["bytes"]
    while left:
        before = len(left)
        for rank, label in sorted(left):
            if not ranks[rank][0][label]["way"] and (at := ready(rank, label)) is not None:
                done[rank, label] = at
        for ends in pairs:
            times = [ready(*end) for end in ends]
            if None not in times and ends[0] not in done:
                done.update(dict.fromkeys(ends, max(times) + 1))
        left -= set(done)
        assert len(left) < before, f"never run: {sorted(left)}"
    return max(done.values(), default=0)


@pytest.mark.parametrize("size", [1, 2, 3, 6, 8])
def test_it_runs_in_the_steps_of_the_proof_and_sends_its_bytes(entry, size):
    if not entry.supports(size):
        return
    choice = Choice(entry)
    root = size - 1 if entry.collective.rooted else 0
    counts = prove(choice, size, root).counts
    ranks = parsed(goal.text(choice, size, Message(3 * choice.vector(size), 4, root)))
    assert simulated(ranks) == counts.steps
    sent = [  # in blocks of 12 bytes: a few signals count nothing
        sum(int(o["bytes"]) for o in operations.values() if o["way"] == "send") // 12
        for operations, _ in ranks.values()
    ]
    assert max(sent) == counts.sent


@pytest.mark.parametrize("count", [0, 1, 5, 7])
def test_both_sides_drop_messages_whose_blocks_are_all_empty(entry, count):
    size = max(s for s in range(1, 9) if entry.supports(s))
    simulated(parsed(goal.text(Choice(entry), size, Message(count, 8))))


def test_a_round_requires_the_whole_round_before():
    """Rank 1 of a ring of 3: its second message waits for both of the first and the reduction."""
    (choice,) = choose("allreduce", "ring")
    operations, required = parsed(goal.text(choice, 3, Message(300, 4)))[1]
    ways = [found["way"] or "calc" for found in operations.values()]
    assert ways == ["send", "recv", "calc"] * 4
    labels = list(operations)
    assert required[labels[2]] == set(labels[:2])
    assert required[labels[3]] == required[labels[4]] == {labels[2]}
    times = [found["time"] for found in operations.values() if found["time"]]
    assert times == [str(400 // goal.BYTES_PER_NANOSECOND)] * 2 + ["0"] * 2


def test_signals_are_sent_and_channels_are_tags(enter):
    from hpccoll.schedule import Recv, Round, Send

    def asks(rank, size):
        if rank:
            yield Round(Recv(0))
            yield Round(Send(0, rank, channel=7))
        else:
            yield Round(*(Send(r) for r in range(1, size)))
            yield Round(*(Recv(r, r, channel=7) for r in range(1, size)))

    choice = enter("allgather", asks)
    ranks = parsed(goal.text(choice, 3, Message(6, 4)))
    assert simulated(ranks) == 2
    found = [(o["bytes"], o["tag"]) for o in ranks[1][0].values()]
    assert found == [(str(goal.SIGNAL_BYTES), "0"), ("8", "7")]


def test_what_the_simulator_cannot_count_is_refused():
    (choice,) = choose("bcast", "binomial")
    with pytest.raises(UnsupportedError, match="at most 4294967295 bytes, this has 4294967296"):
        goal.text(choice, 2, Message(1 << 30, 4))
