"""The table for people, from made-up measurements."""

import re
from types import SimpleNamespace

import pytest

from hpccoll import columns, table
from hpccoll.check import Mismatch
from hpccoll.collectives import COLLECTIVES
from hpccoll.datatypes import OPERATORS
from hpccoll.datatypes import dtype as numpy_dtype
from hpccoll.irregular import Shares
from hpccoll.layout import Message
from hpccoll.registry import LIBRARY
from hpccoll.stats import SAME, Summary, Verdict

WORLD = SimpleNamespace(
    size=4,
    nodes=1,
    library="Some MPI 1.0",
    thread_level="funneled",
    thread_reason="no more ranks than cores",
    oversubscribed=None,
)


def request_of(
    name="allreduce",
    roots=1,
    choices=("ring",),
    in_place=False,
    counts="equal",
    operator=OPERATORS["sum"],
):
    """Return what the table needs to know of a request."""
    return SimpleNamespace(
        collective=COLLECTIVES[name],
        dtype=numpy_dtype("float32"),
        operator=operator,
        in_place=in_place,
        choices=choices,
        roots=lambda size: range(roots),
        shares=Shares(counts),
    )


def measured(label, us, size=1024, width=0.1, wrong=False, root=0, **fields):
    """Return a measurement with a median in microseconds and an interval `width` to either side.

    Its samples lie evenly, three times as far apart; without a width there are only two.
    """
    seconds = us * 1e-6
    latency = Summary(
        samples=100,
        min=seconds * 0.9,
        p50=seconds,
        mean=seconds,
        p90=seconds * 1.5,
        p99=seconds * 2,
        max=seconds * 4,
        ci_low=None if width is None else seconds * (1 - width),
        ci_high=None if width is None else seconds * (1 + width),
    )
    steps = (0, 0) if width is None else range(-9, 10, 2)
    values = {
        "collective": "allreduce",
        "algorithm": label.split(":")[0],
        "label": label,
        "baseline": LIBRARY,
        "parameters": {},
        "chosen": (),
        "engine": "native",
        "bytes": size,
        "message": Message(size // 4, 4, root),
        "latency": latency,
        "samples": tuple(seconds * (1 + step / 3 * (width or 0)) for step in steps),
        "check": "failed" if wrong else "ok",
        "mismatches": (Mismatch(1, 3, "4.0", "nan", 2),) if wrong else (),
        "skew": None,
        "late": 0,
        "all_late": False,
        "canary": (3e-6, 0.0),
        "verdict": None,
        "straggler": None,
    }
    return SimpleNamespace(**values | fields)


def verdict(word):
    """Return a verdict of which only the word counts."""
    return Verdict(1.0, word, 0.5, 0.5)


FASTER, SLOWER, NO_DIFFERENCE = map(verdict, ("faster", "slower", SAME))
LATE = SimpleNamespace(rank=3, host="node7", share=0.92, behind=4.2e-6)


GROUPS = [
    [
        measured("ring", 8.0, 64, verdict=SLOWER),
        measured("tree", 4.0, 64, verdict=SLOWER, skew=0.9e-6),
        measured(LIBRARY, 2.0, 64, skew=0.9e-6),
    ],
    [
        measured("ring", 10.0, 1 << 20, verdict=FASTER, straggler=LATE),
        measured("tree", 1.0, 1 << 20, wrong=True, verdict=FASTER),
        measured("ring:segments=4", 10.2, 1 << 20, verdict=FASTER),
        measured(LIBRARY, 20.0, 1 << 20),
    ],
    [
        measured("ring", 1999.5, 2 << 20, verdict=NO_DIFFERENCE),
        measured("tree", 4000.0, 2 << 20, width=None, verdict=NO_DIFFERENCE),
        measured(LIBRARY, 2100.0, 2 << 20),
    ],
]
SKIPPED = {"bruck": "bruck needs a power-of-two number of ranks, got 6; use 4 ranks"}

NOTES = ["sync   a dissemination barrier; ranks leave it 0.900 us apart"]

WHOLE = """\
allreduce, float32 sum, out of place, 4 ranks on 1 node
Some MPI 1.0, threads: funneled (no more ranks than cores)
bytes  bytes of one rank's vector
times  us; a sample is one call on its slowest rank
algbw  GB/s (1e9 bytes/s) of the median; busbw = algbw * 2*(p-1)/p
lib    the MPI library's MPI_Allreduce
t/lib  median divided by the library's; ~ where samples differ no more than by chance (rank test, 5 %)
sync   a dissemination barrier; ranks leave it 0.900 us apart

   bytes algorithm              median us     95 % interval     p99     max   algbw   busbw t/lib          check
-------- ---------------------- ---------- ---------------- ------- ------- ------- ------- ------------ -------
    64 B library *                   2.00!      1.80 - 2.20    4.00    8.00  0.0320  0.0480  1.00             ok
         tree                        4.00!      3.60 - 4.40    8.00    16.0  0.0160  0.0240  2.00 slower      ok
         ring                        8.00       7.20 - 8.80    16.0    32.0 0.00800  0.0120  4.00 slower      ok

   1 MiB tree                        1.00      0.900 - 1.10    2.00    4.00    1049    1573  0.05         failed
         ring *                      10.0       9.00 - 11.0    20.0    40.0     105     157  0.50 faster      ok
         ring:segments=4             10.2       9.18 - 11.2    20.4    40.8     103     154  0.51 faster      ok
         library                     20.0       18.0 - 22.0    40.0    80.0    52.4    78.6  1.00             ok
         rank 3 on node7 is the last in 92 % of calls, 4.20 us after the next: ring

   2 MiB ring *                      2000       1800 - 2199    3999    7998    1.05    1.57  0.95 ~           ok
         library                     2100       1890 - 2310    4200    8400   0.999    1.50  1.00             ok
         tree                        4000                 -    8000   16000   0.524   0.786  1.90 ~           ok

! a median under 5 times the 0.900 us by which ranks leave the barrier apart: much of it
  is waiting for late ranks, so rank nothing by it

use
  64 B                   library                  takes 0.50 of the time of tree
  1 MiB                  ring or ring:segments=4  takes 0.50 of the time of the library
  2 MiB                  ring                     takes 0.95 of the time of the library, not a clear difference

findings
  allreduce ring: 2 MiB takes 99.98 times as long as 2 calls of 1 MiB (p < 0.001)
  allreduce library: 2 MiB takes 52.50 times as long as 2 calls of 1 MiB (p < 0.001)

skipped
  bruck: bruck needs a power-of-two number of ranks, got 6; use 4 ranks

WRONG RESULTS
  tree of 1 MiB: rank 1, index 3: expected 4.0, got nan (2 wrong in all)
"""  # noqa: E501 - the table is wider than code may be


def whole(request, groups, skipped, notes=()):
    """Return all that is printed for some measurements."""
    parts = [table.header(request, WORLD, notes)]
    parts += [table.group(request, WORLD, group) + "\n" for group in groups]
    return "\n".join([*parts, table.closing(groups, skipped)]) + "\n"


def test_the_whole_table_looks_like_this():
    assert whole(request_of(), GROUPS, SKIPPED, NOTES) == WHOLE


# Rows


def rows(group, request=None):
    """Return the cells of every row, split at blanks."""
    return [row.split() for row in table.group(request or request_of(), WORLD, group).split("\n")]


def names(group, request=None):
    """Return the algorithms in the order of the rows."""
    known = {entry.label for entry in group}
    return [next(cell for cell in row if cell in known) for row in rows(group, request)]


def test_rows_are_sorted_by_their_median():
    group = [measured("a", 3), measured("b", 1), measured(LIBRARY, 2), measured("c", 2.5)]
    assert names(group) == ["b", LIBRARY, "c", "a"]


def test_the_winner_alone_is_marked():
    group = [measured("a", 3), measured("b", 1), measured(LIBRARY, 2)]
    assert [table.WINNER in row for row in rows(group)] == [True, False, False]


@pytest.mark.parametrize("wrong", [{"a"}, {"a", "b"}, {"a", "b", LIBRARY}])
def test_a_wrong_result_never_wins(wrong):
    times = {"a": 1, "b": 2, LIBRARY: 3}
    group = [measured(label, us, wrong=label in wrong) for label, us in times.items()]
    best = next((entry for entry in group if entry.label not in wrong), None)
    assert table.winner(group) is best
    marked = [name for name, row in zip(names(group), rows(group), strict=True) if "*" in row]
    assert marked == ([best.label] if best else [])
    assert [row[-1] for row in rows(group)] == [entry.check for entry in group]


def against(group):
    """Return what the rows say of the library."""
    start = sum(column.width + 1 for column in table._COLUMNS[:8])
    lines = table.group(request_of(), WORLD, group).split("\n")
    return [line[start : start + table._COLUMNS[8].width].strip() for line in lines]


def test_the_ratio_is_to_the_library_with_the_verdict_in_a_word():
    group = [
        measured("a", 3, verdict=SLOWER),
        measured("b", 1, verdict=FASTER),
        measured("c", 2.1, verdict=NO_DIFFERENCE),
        measured(LIBRARY, 2),
    ]
    assert against(group) == ["0.50 faster", "1.00", "1.05 ~", "1.50 slower"]


def test_the_widest_ratios_fit():
    group = [measured("a", us, verdict=SLOWER) for us in (99.994, 100, 9999)]
    assert against([*group, measured(LIBRARY, 1)])[1:] == [
        "99.99 slower",
        "100 slower",
        "9999 slower",
    ]


def test_without_the_library_there_is_no_ratio():
    assert against([measured("a", 3), measured("b", 1)]) == ["-", "-"]


def test_a_wrong_result_is_neither_faster_nor_slower():
    group = [measured("a", 1, verdict=FASTER, wrong=True), measured(LIBRARY, 2)]
    assert against(group) == ["0.50", "1.00"]
    group = [measured("a", 1, verdict=FASTER), measured(LIBRARY, 2, wrong=True)]
    assert against(group) == ["-", "-"]


def test_no_row_is_wider_than_the_rule():
    for group in GROUPS:
        for line in table.group(request_of(), WORLD, group).split("\n"):
            assert len(line) <= 112


@pytest.mark.parametrize(("skew", "mark"), [(None, ""), (0.0, ""), (0.39e-6, ""), (0.41e-6, "!")])
def test_a_median_near_the_skew_of_the_barrier_is_marked(skew, mark):
    group = [measured("a", 2, skew=skew)]
    assert rows(group)[0][4] == f"2.00{mark}"
    assert ("leave the barrier apart" in table.closing([group], {})) == bool(mark)


# Stragglers


def stragglers(*group):
    """Return the lines about late ranks."""
    lines = table.group(request_of(), WORLD, group).split("\n")
    return [line.strip() for line in lines if "is the last" in line]


def late(rank=3, share=0.9, behind=1e-6):
    """Return a straggler."""
    return SimpleNamespace(rank=rank, host="node7", share=share, behind=behind)


def test_without_a_straggler_nothing_is_said_of_one():
    assert stragglers(measured("a", 1), measured("b", 2)) == []


def test_late_calls_are_left_out_or_if_there_are_no_others_marked():
    in_time, some = measured("a", 1), measured("b", 2, late=50)
    only = measured("c", 3, late=100, all_late=True)
    assert "agreed moment" not in table.closing([[in_time]], {})
    text = table.closing([[in_time, some, only]], {})
    assert "50 of 250 calls began after the agreed moment; they don't count" in text
    assert "1 of 3 rows have only calls that began after the agreed moment" in text


def test_a_rank_that_is_late_in_several_algorithms_has_one_line():
    found = stragglers(
        measured("a", 1, straggler=late(share=0.804, behind=2e-6)),
        measured("b", 2, straggler=late(share=0.92, behind=1e-6)),
        measured("c", 3),
    )
    assert found == [
        "rank 3 on node7 is the last in 80 to 92 % of calls, 1.00 to 2.00 us after the next: a, b"
    ]


def test_every_late_rank_has_a_line():
    found = stragglers(
        measured("a", 1, straggler=late(rank=2)), measured("b", 2, straggler=late(rank=1))
    )
    assert [line.split(" on ")[0] for line in found] == ["rank 1", "rank 2"]
    assert found[0].endswith("is the last in 90 % of calls, 1.00 us after the next: b")


def test_only_the_first_row_has_the_size():
    first, second = table.group(request_of(), WORLD, GROUPS[0][:2]).split("\n")
    assert first.startswith("    64 B ")
    assert second.startswith("         ")


def test_rows_of_several_roots_say_which():
    group = [measured("ring", 1, root=2)]
    assert "ring root 2 *" in table.group(request_of("bcast", roots=4), WORLD, group)
    assert "root" not in table.group(request_of("bcast"), WORLD, group)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0, "0"), (0.00004, "0.0000"), (0.0004, "0.0004"), (0.00123, "0.00123")),
        *((0.5, "0.500"), (1, "1.00"), (9.999, "10.0"), (12.34, "12.3"), (99.94, "99.9")),
        *((99.96, "100"), (99.9999, "100"), (100, "100"), (123.4, "123"), (123456.7, "123457")),
    ],
)
def test_numbers_have_three_figures_or_all_before_the_point(value, text):
    assert columns.figures(value) == text


# Advice


def advice(*groups):
    """Return the lines of advice, blanks squeezed."""
    _, *lines = table.closing(groups, {}).split("\n\n")[0].split("\n")
    return [" ".join(line.split()) for line in lines]


def pair(size, ring, library, width=0.1):
    """Return a group of two."""
    return [measured("ring", ring, size, width), measured(LIBRARY, library, size, width)]


def test_sizes_with_the_same_advice_are_merged():
    found = advice(pair(8, 1, 2), pair(64, 1, 4), pair(1024, 3, 1), pair(4096, 9, 3))
    assert found == [
        "8 B to 64 B ring takes 0.25 to 0.50 of the time of the library",
        "1 KiB to 4 KiB library takes 0.33 of the time of ring",
    ]


def test_ranges_are_of_neighbouring_sizes_only():
    found = advice(pair(8, 1, 2), pair(16, 2, 1), pair(32, 1, 2))
    assert [line.split(" takes")[0] for line in found] == ["8 B ring", "16 B library", "32 B ring"]


def test_a_difference_that_may_be_chance_is_called_unclear():
    assert advice(pair(8, 1.0, 1.1, width=0.1)) == [
        "8 B ring takes 0.91 of the time of the library, not a clear difference"
    ]
    assert advice(pair(8, 1.0, 1.1, width=0.01)) == [
        "8 B ring takes 0.91 of the time of the library"
    ]


def test_of_two_samples_no_difference_is_clear():
    (line,) = advice(pair(8, 1, 9, width=None))
    assert line.endswith("not a clear difference")


def test_what_ties_with_the_winner_is_named_too():
    group = [measured("ring", 1.0), measured("tree", 1.01), measured(LIBRARY, 4.0)]
    assert advice(group) == ["1 KiB ring or tree takes 0.25 of the time of the library"]
    group.insert(0, measured("bruck", 1.02))
    assert advice(group) == ["1 KiB ring, tree or bruck takes 0.25 of the time of the library"]
    group.insert(0, measured("mesh", 1.03))
    assert advice(group) == ["1 KiB ring, tree or 2 more takes 0.25 of the time of the library"]


def test_a_wrong_result_ties_with_nothing():
    group = [measured("ring", 1), measured("tree", 1.01, wrong=True), measured(LIBRARY, 4)]
    assert advice(group) == ["1 KiB ring takes 0.25 of the time of the library"]


def test_a_range_names_the_ties_of_all_its_sizes():
    tie, slower = measured("tree", 1.01, 8), measured("tree", 2.0, 16)
    assert advice([*pair(8, 1, 4), tie], [*pair(16, 1, 4), slower]) == [
        "8 B to 16 B ring takes 0.25 of the time of the library"
    ]


def test_clear_and_unclear_sizes_are_not_merged():
    found = advice(pair(8, 1.0, 1.1), pair(16, 1, 2))
    assert ["not a clear" in line for line in found] == [True, False]


def test_the_winner_is_compared_to_the_library_rather_than_to_the_next():
    group = [measured("ring", 1.0), measured("tree", 2.0), measured(LIBRARY, 4.0)]
    assert advice(group) == ["1 KiB ring takes 0.25 of the time of the library"]


def test_without_the_library_the_winner_is_compared_to_the_next():
    group = [measured("ring", 1.0), measured("tree", 2.0), measured("bruck", 4.0)]
    assert advice(group) == ["1 KiB ring takes 0.50 of the time of tree"]


def test_the_only_one_is_called_that():
    assert advice([measured("ring", 1.0)]) == ["1 KiB ring the only one measured"]


def test_nothing_is_advised_where_every_result_is_wrong():
    group = [measured("ring", 1.0, wrong=True), measured("tree", 2.0, wrong=True)]
    assert table.closing([group], {}).startswith("WRONG RESULTS\n")


def test_a_wrong_result_is_no_rival():
    group = [measured("ring", 1.0), measured("tree", 2.0, wrong=True), measured("bruck", 4.0)]
    assert advice(group) == ["1 KiB ring takes 0.25 of the time of bruck"]


# Notes


def test_nothing_to_say_at_the_end_prints_nothing():
    assert table.closing([], {}) == ""


def test_the_header_says_what_would_mislead():
    crowded = SimpleNamespace(**vars(WORLD) | {"oversubscribed": "4 ranks share 2 cores on here"})
    assert "4 ranks share 2 cores on here" in table.header(request_of(), crowded)
    alone = SimpleNamespace(**vars(WORLD) | {"size": 1})
    assert "one rank sends nothing" in table.header(request_of(), alone)
    assert "\nnote   of this run\n" in table.header(request_of(), WORLD, ["note   of this run"])


def test_the_header_says_how_blocks_differ():
    assert "\nblocks " not in table.header(request_of("gather"), WORLD)
    header = table.header(request_of("gather", counts="linear"), WORLD)
    assert "\nblocks linear: those of the ranks are as 1 : 2 : 3 : 4\n" in header


def test_the_header_of_a_barrier_speaks_of_no_data():
    header = table.header(request_of("barrier"), WORLD)
    assert header.startswith("barrier, 4 ranks on ")
    assert "GB/s" not in header


@pytest.mark.parametrize("name", COLLECTIVES)
def test_the_header_says_what_size_and_bandwidth_mean(name):
    of = COLLECTIVES[name]
    header = table.header(request_of(name, in_place=True), WORLD)
    for words in (of.bytes_are, f"busbw = algbw * {of.busbw}", of.baselines, of.in_place):
        if of.name == "barrier" and "algbw" in words:
            continue
        assert words in header
    assert ("float32 sum" in header) == of.reduces


# What the model chose


def test_what_the_model_chose_is_marked_and_explained_and_advised_as_asked():
    chosen = {"parameters": {"segments": 16, "fanout": 2}, "chosen": ("segments",)}
    entry = measured("chain:fanout=2", 4, **chosen)
    rows = table.group(request_of(), WORLD, [entry, measured("ring", 9)]).split("\n")
    assert " chain:fanout=2:segments=16 ^ * " in rows[0]
    assert "^" not in rows[1]
    text = table.closing([[entry, measured("ring", 9)]], {})
    assert text.startswith("^ chosen by the model for the least time; to choose: NAME")
    assert " chain:fanout=2 " in text
    assert "^" not in table.closing([[measured("ring", 9)]], {})


SKIPS = [
    ("tree", "too few", 8),
    ("ring", "no", 8),
    ("ring", "no", 1024),
    ("tree", "too many", 1024),
    ("tree", "too many", 1024),
]


def test_skipped_algorithms_are_named_with_their_sizes_unless_it_was_all():
    assert table.skips(SKIPS, [8, 1024]) == {
        "tree of 8 B": "too few",
        "ring": "no",
        "tree of 1 KiB": "too many",
    }
    many = [("ring", "no", 8 << step) for step in range(6)]
    assert table.skips(many, range(7)) == {"ring of 8 B, 16 B, 32 B, 64 B and 2 more sizes": "no"}
    assert table.skips([], [8]) == {}


def test_columns_are_as_wide_as_the_longest_label():
    label = "library:scatter_recursive_doubling_allgather"
    group = [measured(label, 1), measured("ring", 2)]
    lines = table.group(request_of(), WORLD, group, [label]).split("\n")
    title, rule = table.header(request_of(), WORLD, [], [label]).split("\n")[-2:]
    assert lines[0].startswith(f"   1 KiB {label} * ")
    assert {len(line) for line in (title, rule, *lines)} == {len(rule)}


# A reproducible operator, and the plain one


PLAIN = [
    measured("ring", 30.0, baseline="plain ring", verdict=SLOWER),
    measured("tree", 20.0, baseline="plain tree", verdict=NO_DIFFERENCE),
    measured("plain ring", 10.0, baseline="plain ring"),
    measured("plain tree", 16.0, baseline="plain tree"),
]


def test_a_reproducible_sum_is_compared_with_the_plain_one_of_the_same_algorithm():
    asked = request_of(operator=OPERATORS["rsum"])
    text = table.group(asked, WORLD, PLAIN)
    found = [re.search(r" (\d\.\d\d) (\S*) +ok", row).groups() for row in text.split("\n")]
    assert found == [("1.00", ""), ("1.00", ""), ("1.25", "~"), ("3.00", "slower")]
    header = table.header(asked, WORLD)
    assert "t/plain" in header.split("\n")[-2]
    assert "plain  the same algorithm with sum" in header
    assert "MPI library" not in header
    assert "t/lib" not in header


def test_the_plain_sum_is_no_answer_to_what_is_asked():
    assert table.winner(PLAIN) is PLAIN[1]
    advice = table.closing([PLAIN], {}).split("use\n")[1]
    assert "plain" not in advice
    assert "tree" in advice


def test_a_collective_that_reduces_nothing_is_compared_with_the_library_whatever_the_operator():
    assert "t/lib" in table.header(request_of("allgather", operator=OPERATORS["rsum"]), WORLD)


def test_of_several_roots_each_has_its_own_advice():
    groups = [
        [measured(use, 1, size, root=root), measured(other, 9, size, root=root)]
        for size in (8, 64)
        for root, use, other in ((0, "ring", "tree"), (2, "tree", "ring"))
    ]
    advice = table.closing(groups, {}).split("use\n")[1].splitlines()[:2]
    assert [line.split("takes")[0].split() for line in advice] == [
        ["root", "0,", "8", "B", "to", "64", "B", "ring"],
        ["root", "2,", "8", "B", "to", "64", "B", "tree"],
    ]
    assert "root" not in table.closing(groups[::2], {}).split("use\n")[1].splitlines()[0]
