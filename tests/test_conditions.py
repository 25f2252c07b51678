"""Conditions: what is said above the table of how was measured."""

import json
from types import SimpleNamespace

import pytest

from hpccoll import conditions as module
from hpccoll.choice import Choice
from hpccoll.conditions import Conditions
from hpccoll.cost import ASSUMED
from hpccoll.placement import Placement
from hpccoll.registry import find
from hpccoll.segmentation import Pieces


def conditions(**given):
    """Return the conditions of a plain run, but for what is given."""
    plain = {
        "engine": "native",
        "without_native": "",
        "sync": "barrier",
        "barrier": "a barrier",
        "touch": True,
        "cold": False,
        "skew": 0.25e-6,
        "skew_p99": 1.5e-6,
        "clock_error": 0.04e-6,
        "empty": 0.03e-6,
        "library": 0.1e-6,
        "unbound": 0,
        "ranks": 4,
    }
    return Conditions(**plain | given)


def notes(**given):
    return "\n".join(conditions(**given).notes())


def test_the_notes_of_a_plain_run():
    assert conditions().notes() == [
        "engine native",
        "begin  a barrier; ranks leave it 0.25 us apart (p99 1.50)",
        "       between calls buffers are touched",
        "       overhead: empty plan 0.03 us, one call of the library (MPI_Iprobe) 0.10 us",
    ]


def test_the_python_engine_says_why_and_what_that_means():
    said = notes(engine="python", without_native="the native engine was not built")
    assert said.startswith("engine python: the native engine was not built\n")
    assert "mostly wait for the interpreter" in said


def test_the_python_engine_as_asked_needs_no_reason():
    said = notes(engine="python", without_native="as asked")
    assert said.startswith("engine python\n")
    assert "as asked" not in said
    assert "mostly wait for the interpreter" in said


def test_the_native_engine_says_nothing_of_the_interpreter():
    assert "interpreter" not in notes()


@pytest.mark.parametrize(
    ("sync", "words", "absent"),
    [
        ("barrier", "a barrier; ranks leave it 0.25 us apart (p99 1.50)", "agreed"),
        ("window", "begin  at an agreed time; clocks are right to 0.04 us", "a barrier"),
        ("none", "begin  back to back, without synchronisation", "a barrier"),
    ],
)
def test_how_calls_begin_is_said_for_every_way(sync, words, absent):
    assert words in notes(sync=sync)
    assert absent not in notes(sync=sync)


@pytest.mark.parametrize(
    ("touch", "cold", "words"),
    [
        (True, False, "between calls buffers are touched"),
        (False, False, "buffers aren't touched"),
        (True, True, "between calls buffers are touched and leave the caches"),
    ],
)
def test_what_happens_to_buffers_between_calls_is_said(touch, cold, words):
    assert words in notes(touch=touch, cold=cold)


@pytest.mark.parametrize(("unbound", "said"), [(0, False), (1, True), (4, True)])
def test_ranks_without_a_core_of_their_own_are_counted(unbound, said):
    assert (f"note   {unbound} of 4 ranks aren't bound to a core" in notes(unbound=unbound)) == said
    assert ("note" in notes(unbound=unbound)) == said


def test_the_record_is_json_in_microseconds():
    record = conditions(without_native="as asked", engine="python").record()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["skew_us"]["p99"] == pytest.approx(1.5)
    assert record["clock_error_us"] == pytest.approx(0.04)
    assert record["overhead_us"] == {
        "empty_plan": pytest.approx(0.03),
        "library_iprobe": pytest.approx(0.1),
    }
    assert (record["engine"], record["engine_reason"]) == ("python", "as asked")
    assert conditions().record()["engine_reason"] is None


# Nodes


def said_of(asked, real, *names, of="allreduce", nodes=None):
    """Return what is said of the placement of ranks."""
    choices = tuple(Choice(find(of, name)).on(asked) for name in names)
    request = SimpleNamespace(supported=lambda size: (choices, {}), placement=asked, nodes=nodes)
    return module._placement(request, SimpleNamespace(size=asked.size, placement=real))


def test_the_nodes_are_said_of_those_who_ask_for_them():
    nodes = Placement([0, 0, 1, 1, 1])
    assert said_of(nodes, nodes, "ring") == ""
    assert said_of(nodes, nodes, "ring", "two-level") == "two-level: 2 nodes: 0-1 | 2-4"
    both = said_of(nodes, nodes, "multi-leader", "two-level", "two-level")
    assert both == "multi-leader, two-level: 2 nodes: 0-1 | 2-4"
    assert "nodes  two-level: 2" in notes(placement=said_of(nodes, nodes, "two-level"))


def test_nodes_that_were_asked_for_are_not_taken_for_the_machines():
    said = said_of(Placement([0, 0, 1, 1]), Placement([0] * 4), "two-level", nodes="2")
    assert said.startswith("two-level: 2 nodes: 0-1 | 2-3\n")
    assert said.endswith(" as --nodes 2 says; really 1 node: 0-3")


def test_pieces_are_said_and_recorded():
    pieces = Pieces(((512, 256), (1024, None), (4096, 1920), (8192, 1920)), Placement([0, 0]))
    assert conditions(pieces=pieces).notes()[-2:] == [
        "pieces within a node, messages go as was found fastest: 256 B to 512 B in pieces of 256 B",
        "       1920 B to 8 KiB in pieces of 1920 B",
    ]
    assert conditions(pieces=pieces).record()["pieces"] == pieces.record()
    assert conditions().record()["pieces"] is None


def test_what_the_model_was_told_is_said_and_recorded():
    told = str(ASSUMED)
    assert conditions(model=told).notes()[-1] == f"model  {told}"
    assert conditions(model=told).record()["model"] == told
    assert conditions().record()["model"] is None
