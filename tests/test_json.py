"""The JSON of a schedule is the schedule."""

import json
from dataclasses import replace

import pytest

from hpccoll.choice import Choice
from hpccoll.export import json as exported
from hpccoll.schedule import Combine, Copy, Recv, Reduce, Round, Send, clocked, ranges
from hpccoll.spelling import choose
from hpccoll.symbolic import Execution
from hpccoll.verify import prove

ACTIONS = {"send": Send, "receive": Recv, "combine": Combine, "reduce": Reduce, "copy": Copy}


def imported(document):
    """Return the rounds of every rank that a document holds, by its documentation alone."""

    def action(fields):
        kind = ACTIONS[fields.pop("do")]
        fields["blocks"] = tuple(range(first, end) for first, end in fields["blocks"])
        return kind(**fields)

    return [
        [Round(*map(action, step["actions"]), at=step["clock"]) for step in rounds]
        for rounds in document["schedules"]
    ]


def original(choice, size, root):
    """Return the rounds of every rank, with clocks written out and blocks as ranges."""
    return [
        [
            Round(*(replace(a, blocks=ranges(a.blocks)) for a in step.actions), at=clock)
            for clock, step in clocked(choice.schedule(rank, size, root))
        ]
        for rank in range(size)
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 6, 8])
def test_the_schedule_comes_back(entry, size):
    if not entry.supports(size):
        return
    root = size - 1 if entry.collective.rooted else 0
    document = json.loads(exported.text(Choice(entry), size, root))
    assert imported(document) == original(Choice(entry), size, root)
    assert (document["format"], document["version"]) == ("hpccoll schedule", 1)
    assert (document["ranks"], document["root"]) == (size, root)


@pytest.mark.parametrize("size", [1, 2, 3, 6, 8])
def test_it_can_be_executed_from_what_it_says_alone(entry, size):
    if not entry.supports(size):
        return
    document = json.loads(exported.text(Choice(entry), size))
    names = {
        key: [[b for first, end in rank for b in range(first, end)] for rank in document[key]]
        for key in ("held", "wanted")
    }
    rounds = imported(document)
    execution = Execution(list(map(iter, rounds)), names["held"], document["blocks"])
    for rank, wanted in enumerate(names["wanted"]):
        assert all(execution.value(rank, block) is not None for block in wanted)
    counts = prove(Choice(entry), size).counts
    assert execution.counts == counts
    assert document["steps"] == counts.steps
    ends = [step["step"] for rank in document["schedules"] for step in rank]
    assert max(ends, default=0) == counts.steps


def test_parameters_and_segments_are_said():
    (choice,) = choose("allreduce", "ring:segments=3")
    document = json.loads(exported.text(choice, 2))
    assert document["parameters"] == {"segments": 3}
    assert (document["natural_blocks"], document["blocks"]) == (2, 6)
    assert document["commutative"] is True
