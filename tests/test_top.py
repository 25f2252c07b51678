"""What a shortened table leaves out, and what it never does."""

from types import SimpleNamespace

import pytest

from hpccoll import top
from hpccoll.errors import UsageError
from hpccoll.registry import LIBRARY
from hpccoll.session import Output


def row(name, us, check="ok", baseline=LIBRARY):
    """Return what counts of a measurement."""
    latency = SimpleNamespace(p50=us)
    return SimpleNamespace(
        algorithm=name, label=name, latency=latency, check=check, baseline=baseline
    )


ROWS = [row("ring", 4), row("tree", 1), row(LIBRARY, 9), row("bruck", 3), row("swing", 2)]


def names(rows, count):
    return [entry.algorithm for entry in top.shown(rows, count)]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, {"tree", LIBRARY}),
        (3, {"tree", "swing", "bruck", LIBRARY}),
        (5, {entry.algorithm for entry in ROWS}),
        (99, {entry.algorithm for entry in ROWS}),
        (None, {entry.algorithm for entry in ROWS}),
    ],
)
def test_the_fastest_and_the_library_are_shown(count, expected):
    assert set(names(ROWS, count)) == expected
    assert len(names(ROWS, count)) == len(expected)


def test_the_library_is_one_of_the_fastest_where_it_is():
    assert set(names([row("ring", 4), row(LIBRARY, 1), row("tree", 2)], 2)) == {LIBRARY, "tree"}


def test_a_wrong_result_is_always_shown_and_is_none_of_the_fastest():
    rows = [row("ring", 4), row("tree", 2), row("slow and wrong", 9, "failed")]
    assert set(names(rows, 1)) == {"tree", "slow and wrong"}
    rows = [row("ring", 4), row("tree", 2), row("fast and wrong", 1, "failed")]
    assert set(names(rows, 1)) == {"tree", "fast and wrong"}


def test_what_a_row_is_compared_with_is_shown():
    rows = [row("ring", 1, baseline="plain ring"), row("tree", 2, baseline="plain tree")]
    rows += [
        row("plain tree", 3, baseline="plain tree"),
        row("plain ring", 4, baseline="plain ring"),
    ]
    assert set(names(rows, 1)) == {"ring", "plain ring"}


def test_all_of_equally_fast_rows_are_counted():
    assert len(names([row(str(n), 1) for n in range(4)], 2)) == 2


def test_what_is_left_out_is_said_and_where_it_is():
    assert top.line(14).split() == ["and", "14", "slower"]
    assert top.line(0) == ""
    assert top.note(28, 40, "all.jsonl") == (
        "note   --top left out 28 of 40 rows; all.jsonl has all"
    )
    assert "-o FILE" in top.note(28, 40, None)
    assert top.note(0, 40, None) == ""


@pytest.mark.parametrize("style", ["csv", "jsonl"])
def test_records_are_never_shortened(style):
    with pytest.raises(UsageError, match=f"leave it out with --format {style}"):
        Output(None, False, style, top=3)
    assert Output("all.jsonl", False, style).top is None
