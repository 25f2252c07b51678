"""The table for people, from made-up measurements."""

from types import SimpleNamespace

import pytest

from hpccoll import table
from hpccoll.check import Mismatch
from hpccoll.collectives import COLLECTIVES
from hpccoll.datatypes import OPERATORS
from hpccoll.datatypes import dtype as numpy_dtype
from hpccoll.layout import Message
from hpccoll.measure import Measurement
from hpccoll.registry import LIBRARY
from hpccoll.stats import Summary

WORLD = SimpleNamespace(
    size=4,
    nodes=1,
    library="Some MPI 1.0",
    thread_level="funneled",
    thread_reason="no more ranks than cores",
    oversubscribed=None,
)


def request_of(name="allreduce", roots=1, choices=("ring",), in_place=False):
    """Return what the table needs to know of a request."""
    return SimpleNamespace(
        collective=COLLECTIVES[name],
        dtype=numpy_dtype("float32"),
        operator=OPERATORS["sum"],
        in_place=in_place,
        choices=choices,
        roots=lambda size: range(roots),
    )


def measured(label, us, size=1024, width=0.1, wrong=False, root=0):
    """Return a measurement with a median in microseconds and an interval `width` to either side."""
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
    return Measurement(
        algorithm=label.split(":")[0],
        label=label,
        parameters={},
        engine="python",
        function="",
        bytes=size,
        message=Message(size // 4, 4, root),
        latency=latency,
        first=seconds,
        warmup=1,
        stopped_by="repetitions",
        check="failed" if wrong else "ok",
        mismatches=(Mismatch(1, 3, "4.0", "nan", 2),) if wrong else (),
    )


GROUPS = [
    [measured("ring", 8.0, 64), measured("tree", 4.0, 64), measured(LIBRARY, 2.0, 64)],
    [
        measured("ring", 10.0, 1 << 20),
        measured("tree", 1.0, 1 << 20, wrong=True),
        measured(LIBRARY, 20.0, 1 << 20),
    ],
    [
        measured("ring", 1999.5, 2 << 20),
        measured("tree", 4000.0, 2 << 20, width=None),
        measured(LIBRARY, 2100.0, 2 << 20),
    ],
]
SKIPPED = {"bruck": "bruck needs a power-of-two number of ranks, got 6; use 4 ranks"}

WHOLE = """\
allreduce, float32 sum, out of place, 4 ranks on 1 node
Some MPI 1.0, threads: funneled (no more ranks than cores)
bytes  bytes of one rank's vector
times  us; a sample is one call on its slowest rank, after a barrier
algbw  GB/s (1e9 bytes/s) of the median; busbw = algbw * 2*(p-1)/p
lib    the MPI library's MPI_Allreduce
t/lib  median divided by the library's: below 1 is faster than the library
note   hpccoll's algorithms run in the python engine: at small sizes most of their
       time is the interpreter's

   bytes algorithm              median us      95 % interval      p99      max   algbw   busbw  t/lib   check
-------- ---------------------- --------- ------------------ -------- -------- ------- ------- ------ -------
    64 B library *                   2.00        1.80 - 2.20     4.00     8.00  0.0320  0.0480   1.00      ok
         tree                        4.00        3.60 - 4.40     8.00     16.0  0.0160  0.0240   2.00      ok
         ring                        8.00        7.20 - 8.80     16.0     32.0 0.00800  0.0120   4.00      ok

   1 MiB tree                        1.00       0.900 - 1.10     2.00     4.00    1049    1573   0.05  failed
         ring *                      10.0        9.00 - 11.0     20.0     40.0     105     157   0.50      ok
         library                     20.0        18.0 - 22.0     40.0     80.0    52.4    78.6   1.00      ok

   2 MiB ring *                      2000        1800 - 2199     3999     7998    1.05    1.57   0.95      ok
         library                     2100        1890 - 2310     4200     8400   0.999    1.50   1.00      ok
         tree                        4000                  -     8000    16000   0.524   0.786   1.90      ok

use
  64 B                   library                  takes 0.50 of the time of tree
  1 MiB                  ring                     takes 0.50 of the time of the library
  2 MiB                  ring                     takes 0.95 of the time of the library, not a clear difference

skipped
  bruck: bruck needs a power-of-two number of ranks, got 6; use 4 ranks

WRONG RESULTS
  tree of 1 MiB: rank 1, index 3: expected 4.0, got nan (2 wrong in all)
"""  # noqa: E501 - the table is wider than code may be


def whole(request, groups, skipped):
    """Return all that is printed for some measurements."""
    parts = [table.header(request, WORLD)]
    parts += [table.group(request, WORLD, group) + "\n" for group in groups]
    return "\n".join([*parts, table.closing(groups, skipped)]) + "\n"


def test_the_whole_table_looks_like_this():
    assert whole(request_of(), GROUPS, SKIPPED) == WHOLE


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


def test_the_ratio_is_to_the_library_and_below_one_is_faster():
    group = [measured("a", 3), measured("b", 1), measured(LIBRARY, 2)]
    assert [row[-2] for row in rows(group)] == ["0.50", "1.00", "1.50"]


def test_without_the_library_there_is_no_ratio():
    assert [row[-2] for row in rows([measured("a", 3), measured("b", 1)])] == ["-", "-"]


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
    assert table._figures(value) == text


# Advice


def advice(*groups):
    """Return the lines of advice, blanks squeezed."""
    return [" ".join(line.split()) for line in table.advice(groups)]


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


def test_a_difference_within_the_intervals_is_called_unclear():
    assert advice(pair(8, 1.0, 1.1, width=0.1)) == [
        "8 B ring takes 0.91 of the time of the library, not a clear difference"
    ]
    assert advice(pair(8, 1.0, 1.1, width=0.01)) == [
        "8 B ring takes 0.91 of the time of the library"
    ]


def test_without_intervals_no_difference_is_clear():
    (line,) = advice(pair(8, 1, 9, width=None))
    assert line.endswith("not a clear difference")


def test_clear_and_unclear_sizes_are_not_merged():
    found = advice(pair(8, 1.0, 1.1), pair(16, 1, 2))
    assert ["not a clear" in line for line in found] == [True, False]


def test_the_winner_is_compared_to_the_library_rather_than_to_the_next():
    group = [measured("ring", 1.0), measured("tree", 1.1), measured(LIBRARY, 4.0)]
    assert advice(group) == ["1 KiB ring takes 0.25 of the time of the library"]


def test_without_the_library_the_winner_is_compared_to_the_next():
    group = [measured("ring", 1.0), measured("tree", 2.0), measured("bruck", 4.0)]
    assert advice(group) == ["1 KiB ring takes 0.50 of the time of tree"]


def test_the_only_one_is_called_that():
    assert advice([measured("ring", 1.0)]) == ["1 KiB ring the only one measured"]


def test_nothing_is_advised_where_every_result_is_wrong():
    assert advice([measured("ring", 1.0, wrong=True), measured("tree", 2.0, wrong=True)]) == []


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
    assert "python engine" in table.header(request_of(), WORLD)
    assert "python engine" not in table.header(request_of(choices=()), WORLD)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_the_header_says_what_size_and_bandwidth_mean(name):
    of = COLLECTIVES[name]
    header = table.header(request_of(name, in_place=True), WORLD)
    for words in (of.bytes_are, of.busbw, of.baselines, of.in_place):
        assert words in header
    assert ("float32 sum" in header) == of.reduces
