import re

import pytest

from hpccoll.choice import Choice
from hpccoll.draw import text
from hpccoll.errors import UnsupportedError
from hpccoll.placement import place
from hpccoll.regular import regular
from hpccoll.spelling import choose
from hpccoll.trace import watch
from hpccoll.verify import prove

MESSAGE = re.compile(r"\d+ (?:→\+?|\+←) \d+")
EVERY = re.compile(r"every r\S* (?:→\+?|\+←) r")


def drawn(of, name, size, root=0, width=100):
    (choice,) = choose(of, name)
    return text(choice, size, root, width)


@pytest.mark.parametrize("size", [1, 2, 3, 6, 8])
def test_every_message_is_listed_and_the_last_round_is_the_critical_path(entry, size):
    if not entry.supports(size):
        return
    counts = prove(Choice(entry), size).counts
    picture = text(Choice(entry), size)
    alike = 0 if "│" in picture else size * len(EVERY.findall(picture))
    assert len(MESSAGE.findall(picture)) + alike == counts.total
    assert [int(n) for n in re.findall(r"round (\d+)", picture)] == [*range(1, counts.steps + 1)]


@pytest.mark.parametrize("size", [1, 2, 3, 6, 8])
def test_at_the_end_every_wanted_block_is_complete(entry, size):
    root = size - 1 if entry.collective.rooted else 0
    if not entry.supports(size):
        return
    width = max(30, 2 * Choice(entry).grid(size))
    panels = re.findall(r" (\d+) │([^│]+)│", text(Choice(entry), size, root, width))
    rows = dict(panels[-size:])
    for rank in range(size):
        wanted = entry.collective.wanted(rank, size, root, entry.blocks(size))
        assert all(rows[str(rank)][block] == "█" for block in wanted)


@pytest.mark.parametrize(
    ("of", "name"),
    [("allreduce", "ring"), ("allreduce", "circulant"), ("allgather", "bruck:radix=3")],
)
def test_what_every_rank_does_is_what_each_is_seen_to_do(of, name):
    size = 9
    rounds = re.split(r"\nround \d+", drawn(of, name, size, width=30))[1:]
    for title, *rows in (panel.splitlines() for panel in rounds):
        listed = [m for row in rows for m in re.findall(r"(\d) (→\+?) (\d)  (\S+)", row)]
        found = {(int(s), kind, int(t), _numbers(blocks)) for s, kind, t, blocks in listed}
        said = re.findall(r"every r (→\+?) (r\S*)  blocks? (\S+)", title)
        expanded = {
            (r, kind, _at(r, peer, size), _span(*(_at(r, e, size) for e in ends.split("..")), size))
            for kind, peer, ends in said
            for r in range(size)
        }
        assert found == expanded


@pytest.mark.parametrize(
    ("of", "name"),
    [
        *(("alltoall", f"bruck:radix={radix}") for radix in (2, 3)),
        *(("alltoall", "pairwise"), ("alltoall", "linear:window=2"), ("barrier", "dissemination")),
    ],
)
@pytest.mark.parametrize("size", [5, 9])
def test_every_message_of_an_alltoall_or_barrier_can_be_said_of_all_ranks(of, name, size):
    (choice,) = choose(of, name)
    trace = watch(choice, size, states=False)
    for arrows in trace.arrows.values():
        patterns, others = regular(trace, arrows)
        assert others == []
        said = {
            (r, (r + pattern.shift) % size, _pairs(r, pattern, size))
            for pattern in patterns
            for r in range(size)
        }
        named = [(a.source, a.target, [b for part in a.blocks for b in part]) for a in arrows]
        assert said == {(source, target, tuple(blocks)) for source, target, blocks in named}


def _pairs(rank, pattern, size):
    return tuple((rank + s) % size * size + (rank + d) % size for s, d in pattern.pairs)


def test_regular_rounds_of_an_alltoall_name_source_and_destination_of_its_blocks():
    lines = drawn("alltoall", "bruck", 9).splitlines()
    assert "81 blocks: what rank s has for rank d is block 9s+d, or s:d" in lines
    assert lines[-2:] == [
        "round 3   every r → r+4  blocks r-3:r+4, r-2:r+4, …, r:r+4",
        "round 4   every r → r-1  block r:r-1",
    ]


def _at(rank, expression, size):
    return (rank + int(expression[1:] or 0)) % size


def _span(first, *last):
    *end, size = last
    return frozenset((first + i) % size for i in range(((end or [first])[0] - first) % size + 1))


def _numbers(blocks):
    ends = [[int(end) for end in part.split("-")] for part in blocks.split(",")]
    return frozenset(b for part in ends for b in range(part[0], part[-1] + 1))


def test_regular_rounds_that_continue_one_another_share_a_line():
    lines = drawn("allreduce", "ring", 64).splitlines()
    assert lines[-2:] == [
        "rounds 1-63   every r →+ r+1  block r-1, r-2, …, r-63",
        "rounds 64-126   every r → r+1  block r, r-1, …, r-62",
    ]


def test_many_ranks_are_listed_without_states(entry):
    picture = text(Choice(entry), 32)
    listed = len(MESSAGE.findall(picture))
    regular = "every r" in picture
    assert "│" not in picture
    assert regular or listed == prove(Choice(entry), 32).counts.total


def test_ranks_that_all_differ_are_listed_one_by_one_beyond_the_detailed_sizes():
    picture = drawn("allreduce", "rabenseifner", 20)
    (choice,) = choose("allreduce", "rabenseifner")
    assert len(MESSAGE.findall(picture)) == prove(choice, 20).counts.total


@pytest.mark.parametrize("width", [60, 100, 140])
@pytest.mark.parametrize("size", [3, 6, 40])
def test_rounds_fit_the_width(size, width):
    picture = drawn("allreduce", "rabenseifner", size, width=width)
    rounds = picture[picture.index("s → t") :].splitlines()
    assert max(map(len, rounds[3:])) <= width


def test_costs_are_shares_of_the_vector():
    picture = drawn("allreduce", "ring", 6)
    assert re.search(r"10 +rounds on the critical path += \(S\+1\)\*\(p-1\)", picture)
    assert re.search(r"5/3 n +bytes sent .*= 2\*n\*\(p-1\)/p", picture)


def test_the_operands_stand_in_their_order():
    """Rank 0 reduces what comes from rank 1 on its right, so 0 is written first both times."""
    picture = drawn("allreduce", "recursive-doubling", 2)
    assert "0 +← 1" in picture
    assert "0 →+ 1" in picture


def test_what_an_algorithm_cannot_do_is_refused():
    with pytest.raises(UnsupportedError, match="power-of-two"):
        drawn("allgather", "recursive-doubling", 6)


def test_nodes_are_shown_with_their_costs_in_letters():
    (choice,) = choose("allreduce", "two-level")
    picture = text(choice.on(place("cyclic:2", 6)), 6)
    assert "\non 2 nodes: 0,2,4 | 1,3,5\n" in picture
    assert re.search(r"6 +rounds on the critical path += 2\*Lq \+ 2\*LN", picture)
    assert "N nodes = 2, q ranks of each = 3, LN = ⌈log2 N⌉ = 1, Lq = ⌈log2 q⌉ = 2" in " ".join(
        picture.split()
    )


@pytest.mark.parametrize(("label", "nodes"), [("two-level", "4"), ("two-level:across=ring", "3")])
def test_costs_without_a_formula_are_counted(label, nodes):
    (choice,) = choose("allreduce", label)
    choice = choice.on(place(nodes, 6))
    counts, picture = prove(choice, 6).counts, text(choice, 6)
    assert re.search(
        rf"^ +{counts.steps} +rounds on the critical path +\(counted\)$", picture, re.M
    )
    assert not re.search(r" = .*Lq", picture)


def test_the_whole_picture():
    assert (
        drawn("reduce", "binomial", 3, root=1)
        == """\
reduce binomial, 3 ranks, root 1
Halve the number of partial results every round.
Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.

      2    rounds on the critical path      = L
      1    messages sent per rank, at most  = 1*(p>1)
      1 n  bytes sent per rank, at most     = n*(p>1)
      2 n  bytes reduced per rank, at most  = n*L
  p ranks, n bytes of the full vector, L = ⌈log2 p⌉ = 2

one block: the whole vector
operator: any; operands keep the order of the ranks, from the root on

t +← s: t receives from s and reduces; s's operand stands right of t's
│…│: a rank's blocks after the round; · nothing, digit: inputs reduced so far (hex), █ complete

start              round 1            round 2
   0 │1│              0 │1│              0 │1│
   1 │1│              1 │2│  1 +← 2      1 │█│  1 +← 0
   2 │1│              2 │1│              2 │1│"""
    )


def test_what_the_model_chooses_for_a_message_is_said_unless_it_is_given(entry):
    if entry.chosen:
        words = f"a message of n bytes gets the {' and '.join(entry.chosen)} for the least"
        assert words in " ".join(text(Choice(entry), 4).split())
        given = Choice(entry, {name: 2 for name in entry.chosen})
        assert words not in " ".join(text(given, 4).split())
