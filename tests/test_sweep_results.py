"""Results of elements: whole or not there, continued, never mixed. Nothing here starts MPI."""

import errno
import json
import os

import pytest

from hpccoll.errors import IncompleteError, UsageError
from hpccoll.layernorm.judge import CONTRADICTS, NO_VERDICT
from hpccoll.sweep import collect, log, status
from hpccoll.sweep import results as files
from hpccoll.sweep.attempt import Attempt
from hpccoll.sweep.plan import Allocation, Element, Plan
from hpccoll.sweep.results import Results

RUN = {"type": "run", "schema": 1, "start": "then"}


def planned(name="named", elements=3):
    return Plan(name, "bench", tuple(Element(i, Allocation(2), {"n": i}) for i in range(elements)))


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "its results"
    folder.mkdir()
    return Results(folder, planned())


def cells(size, root=None, check="ok"):
    """Return the records of one message: two algorithms, one skipped."""
    about = {"bytes": size, "root": root}
    return [
        {"type": "measurement", "algorithm": "ring", "check": check, **about},
        {"type": "measurement", "algorithm": "tree", "check": "ok", **about},
        {"type": "skipped", "algorithm": "library", "reason": "none", **about},
    ]


def start(results, index=0, sizes=(), force=False, root=None):
    """Return an attempt that has measured some sizes."""
    attempt = Attempt(results, results.plan.elements[index], force)
    attempt.log.begins("a run")
    attempt.write(RUN)
    for size in sizes:
        if (size, root or 0) not in attempt.measured:
            attempt.write(*cells(size, root))
    return attempt


def end(attempt):
    """Finish an attempt and return its last words."""
    words = attempt.finish()
    attempt.log.ends(words)
    attempt.close()
    return words


def ended(results, index=0, sizes=(8, 16)):
    """Have an element done."""
    return end(start(results, index, sizes))


def names(results):
    return sorted(path.name for path in results.directory.iterdir())


def measured(results, index=0):
    """Return the sizes of an element's result, and which run each is from."""
    content = results.result(results.plan.elements[index])
    assert content is not None
    assert content.whole
    return [(group[0]["bytes"], {record["run"] for record in group}) for group in content.groups]


# Whole or not there


def test_a_result_is_there_only_once_it_is_whole(results):
    attempt = start(results, sizes=(8, 16))
    element = results.plan.elements[0]
    assert results.result(element) is None
    assert end(attempt) == "done: 6 records"
    assert names(results) == ["element-0000.jsonl", "element-0000.log"]
    content = results.result(element)
    assert content.whole
    assert [record["algorithm"] for record in content.records] == ["ring", "tree", "library"] * 2
    assert content.run["sweep"] == {
        "name": "named",
        "plan": results.plan.hash,
        "elements": 3,
        "index": 0,
        "ranks": 2,
        "nodes": None,
        "mpi": None,
        "options": {"n": 0},
    }


def test_a_result_cut_anywhere_is_no_whole_one_and_has_no_half_a_group(results):
    ended(results)
    element, path = results.plan.elements[0], results.path(results.plan.elements[0])
    text = path.read_bytes()
    for length in range(len(text)):
        path.write_bytes(text[:length])
        content = results.result(element)
        assert content is None or not content.whole
        for group in content.groups if content else ():
            assert [record["algorithm"] for record in group] == ["ring", "tree", "library"]
        assert status.state(results, element).word == status.FAILED


def test_a_torn_result_is_measured_again_and_replaced(results):
    ended(results)
    path = results.path(results.plan.elements[0])
    path.write_bytes(path.read_bytes()[:-10])
    assert ended(results) == "done: 6 records"
    assert [size for size, _ in measured(results)] == [8, 16]


def test_the_file_is_on_the_disk_before_it_has_the_results_name(results, monkeypatch):
    calls = []
    fsync, link = os.fsync, os.link
    monkeypatch.setattr(os, "fsync", lambda file: (calls.append("fsync"), fsync(file)))
    monkeypatch.setattr(os, "link", lambda *paths: (calls.append("link"), link(*paths)))
    ended(results)
    assert calls == ["fsync", "link", "fsync"]


# Continued


def test_what_a_killed_run_measured_is_taken_over_and_says_which_run_it_is_from(results):
    first = start(results, sizes=(8, 16))
    first.close()
    second = start(results, sizes=(8, 16, 32))
    assert second.measured == {(8, 0), (16, 0)}
    second.close()
    third = start(results, sizes=(8, 16, 32, 64))
    assert end(third) == "done: 12 records"
    assert measured(results) == [
        (8, {first.run}),
        (16, {first.run}),
        (32, {second.run}),
        (64, {third.run}),
    ]
    content = results.result(results.plan.elements[0])
    assert set(content.runs) == {first.run, second.run, third.run}
    assert all("continued" not in run for run in content.run["continued"])
    assert names(results) == ["element-0000.jsonl", "element-0000.log"]


def test_a_group_without_its_end_is_measured_again(results):
    first = start(results, sizes=(8, 16))
    first.close()
    (partial,) = results.partials(results.plan.elements[0])
    text = partial.read_text()
    for length in range(text.index('"type": "group"'), len(text)):
        partial.write_text(text[:length])
        attempt = Attempt(results, results.plan.elements[0])
        assert attempt.measured in ({(8, 0)}, set())
        assert (8, 0) in attempt.measured or length < text.index("\n", text.index('"group"')) + 1
        attempt.close()


def test_every_root_of_a_size_is_a_message_of_its_own(results):
    first = start(results)
    for root in (0, 1):
        first.write(*cells(8, root))
    first.close()
    second = start(results)
    assert second.measured == {(8, 0), (8, 1)}
    second.close()


def test_a_run_that_is_killed_before_it_takes_over_loses_nothing(results):
    first = start(results, sizes=(8,))
    first.close()
    element = results.plan.elements[0]
    second = Attempt(results, element)
    second.close()
    third = start(results)
    third.close()
    (path,) = [p for p in results.partials(element) if p.name.endswith(third.run)]
    header, *_ = path.read_text().splitlines(keepends=True)
    path.write_text(header)  # killed after the first line
    fourth = Attempt(results, element)
    assert fourth.measured == {(8, 0)}
    fourth.close()


def test_force_measures_everything_anew_and_replaces_the_result(results):
    ended(results)
    attempt = start(results, sizes=(8,), force=True)
    assert attempt.measured == frozenset()
    assert [size for size, _ in measured(results)] == [8, 16]
    end(attempt)
    assert measured(results) == [(8, {attempt.run})]


def comparison(verdict="agrees"):
    """Return the records of a comparison: about no message."""
    return [
        {"type": "order", "label": "fused", "verdict": "agrees"},
        {"type": "order", "label": "one-shot", "verdict": verdict},
    ]


def test_a_group_about_no_message_is_made_anew(results):
    killed = start(results)
    killed.write(*comparison())
    killed.close()
    assert status.state(results, results.plan.elements[0]).reason.endswith("unseen here")
    attempt = start(results)
    assert attempt.measured == frozenset()
    attempt.write(*comparison())
    assert end(attempt) == "done: 2 records"
    content = results.result(results.plan.elements[0])
    assert {record["run"] for record in content.records} == {attempt.run}
    assert names(results) == ["element-0000.jsonl", "element-0000.log"]


# Two at once


def test_of_two_runs_at_once_the_first_is_the_result_and_the_other_says_so(results):
    one, two = start(results, sizes=(8,)), start(results)
    assert two.measured == {(8, 0)}
    two.close()
    two = start(results, sizes=(8, 16))
    one.write(*cells(16))
    assert end(two) == "done: 6 records"
    assert end(one) == "another run was done first: this one's duplicate is discarded"
    assert measured(results) == [(8, {one.run}), (16, {two.run})]
    assert names(results) == ["element-0000.jsonl", "element-0000.log"]


def test_the_first_does_not_remove_what_a_running_one_writes(results):
    one, two = start(results, sizes=(8,)), start(results, sizes=(8,))
    end(one)
    assert [path.name for path in results.partials(results.plan.elements[0])] == [
        f"element-0000.jsonl.partial-{two.run}"
    ]
    end(two)
    assert names(results) == ["element-0000.jsonl", "element-0000.log"]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_without_hard_links_a_result_is_whole_and_the_first_wins_as_well(
    results, monkeypatch, number
):
    def link(*_):
        raise OSError(number, "no links here")

    monkeypatch.setattr(os, "link", link)
    one, two = start(results, sizes=(8,)), start(results, sizes=(8, 16))
    assert end(two) == "done: 6 records"
    assert end(one) == "another run was done first: this one's duplicate is discarded"
    assert [size for size, _ in measured(results)] == [8, 16]
    assert names(results) == ["element-0000.jsonl", "element-0000.log"]


def test_a_full_disk_is_no_reason_to_rename(results, monkeypatch):
    def link(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "link", link)
    attempt = start(results, sizes=(8,))
    with pytest.raises(OSError, match="No space left"):
        attempt.finish()
    attempt.close()
    assert results.result(results.plan.elements[0]) is None
    monkeypatch.undo()
    assert ended(results, sizes=(8,)) == "done: 3 records"
    assert measured(results) == [(8, {attempt.run})]


# Other plans


def test_results_and_partial_results_of_another_plan_are_refused(results):
    ended(results)
    other = Results(results.directory, planned("other"))
    with pytest.raises(UsageError, match=r"element-0000\.jsonl is of another plan"):
        other.result(other.plan.elements[0])
    start(results, 1, sizes=(8,)).close()
    with pytest.raises(UsageError, match=r"partial-.* is of another plan"):
        Attempt(other, other.plan.elements[1])


# Log


def test_the_log_says_first_what_a_run_is_and_last_how_it_ended(results):
    ended(results)
    first, *_, last = log.lines(results.log(results.plan.elements[0]))
    assert (first.what, first.words) == (log.BEGINS, "a run")
    assert (last.what, last.words) == (log.ENDS, "done: 6 records")


def test_words_of_several_lines_are_one_line_of_the_log(tmp_path):
    written = log.Log(tmp_path / "log", "mine")
    written.ends("failed: one\ntwo\n\nthree")
    written.close()
    (line,) = log.lines(tmp_path / "log")
    assert (line.run, line.words) == ("mine", "failed: one two three")


# Status


def test_status_tells_done_running_failed_and_missing_apart(results):
    ended(results, 0)
    running = start(results, 1, sizes=(8,))
    assert [state.word for state in status.states(results)] == ["done", "running", "missing"]
    running.log.ends("failed: the disk is full")
    running.close()
    state = status.states(results)[1]
    assert (state.word, state.reason) == ("failed", "the disk is full; kept of it: 1 size")


def test_a_killed_run_is_failed_and_not_running(results):
    start(results, 0, sizes=(8, 16)).close()
    state = status.states(results)[0]
    assert state.word == "failed"
    assert "didn't say how it ended" in state.reason
    assert state.reason.endswith("; kept of it: 2 sizes")


def test_what_a_scheduler_knows_counts_for_elements_that_are_not_done(results):
    ended(results, 0)
    found = status.states(results, {0: ("running", ""), 2: ("pending", "job 7_2")})
    assert [state.word for state in found] == ["done", "missing", "pending"]
    assert status.summary(found) == "3 elements: 1 done, 1 missing, 1 pending"


def test_wrong_results_are_done_and_said(results):
    attempt = start(results)
    attempt.write(*cells(8, check="failed"))
    assert end(attempt) == "done: 3 records, 1 WRONG"
    assert status.states(results)[0].reason == "3 records, 1 WRONG"


@pytest.mark.parametrize(("verdict", "wrong"), [(CONTRADICTS, 1), (NO_VERDICT, 0)])
def test_results_that_contradict_theory_are_wrong_and_those_without_verdict_are_not(
    results, verdict, wrong
):
    attempt = start(results)
    attempt.write(*comparison(verdict))
    assert end(attempt) == "done: 2 records" + ", 1 WRONG" * wrong
    assert status.states(results)[0].reason == "2 records" + ", 1 WRONG" * wrong


def test_where_files_cannot_be_locked_nothing_is_removed_and_nothing_is_called_running(
    results, monkeypatch
):
    def flock(*_):
        raise OSError(errno.ENOSYS, "no locks here")

    monkeypatch.setattr(files.fcntl, "flock", flock)
    killed = start(results, sizes=(8,))
    killed.close()
    ended(results, sizes=(8, 16))
    assert len(results.partials(results.plan.elements[0])) == 1
    start(results, 1).close()
    assert [state.word for state in status.states(results)] == ["done", "failed", "missing"]


# Collect


def collected(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_all_results_are_collected_behind_the_records_of_their_runs(results, tmp_path):
    for index in (2, 0, 1):
        ended(results, index)
    output = tmp_path / "all.jsonl"
    collect.collect(results, output, force=False, partial=False)
    sweep, *records = collected(output)
    assert (sweep["type"], sweep["plan"], sweep["missing"]) == ("sweep", results.plan.hash, [])
    assert [record["sweep"]["index"] for record in records if record["type"] == "run"] == [0, 1, 2]
    runs = {record["sweep"]["index"]: record["run"] for record in records if "sweep" in record}
    others = [record for record in records if record["type"] != "run"]
    assert [record["element"] for record in others] == [0] * 6 + [1] * 6 + [2] * 6
    assert all(record["run"] == runs[record["element"]] for record in others)
    assert {record["type"] for record in others} == {"measurement", "skipped"}
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


@pytest.mark.parametrize("damage", ["missing", "torn", "killed"])
def test_collecting_fails_clearly_while_an_element_is_not_done(results, tmp_path, damage):
    ended(results, 0)
    ended(results, 1)
    path = results.path(results.plan.elements[2])
    if damage == "torn":
        path.write_text("{")
    elif damage == "killed":
        start(results, 2, sizes=(8,)).close()
    output = tmp_path / "all.jsonl"
    with pytest.raises(
        IncompleteError, match=r"1 of 3 elements aren't done.*\n  element 2: (missing|failed, )"
    ):
        collect.collect(results, output, force=False, partial=False)
    assert not output.exists()
    collect.collect(results, output, force=False, partial=True)
    sweep, *records = collected(output)
    assert sweep["missing"] == [2]
    assert {record.get("element") for record in records} == {None, 0, 1}


def test_what_killed_runs_of_done_elements_have_left_is_gone_once_all_is_collected(
    results, tmp_path
):
    for index in (0, 1):
        ended(results, index)
    left = results.partial(results.plan.elements[0], "killed")
    os.link(results.path(results.plan.elements[0]), left)
    start(results, 2, sizes=(8,)).close()
    collect.collect(results, tmp_path / "all.jsonl", force=False, partial=True)
    assert not left.exists()
    assert len(results.partials(results.plan.elements[2])) == 1
    assert [size for size, _ in measured(results)] == [8, 16]


def test_a_collected_file_is_not_overwritten_without_force(results, tmp_path):
    for index in range(3):
        ended(results, index)
    output = tmp_path / "all.jsonl"
    output.write_text("precious")
    with pytest.raises(UsageError, match="exists"):
        collect.collect(results, output, force=False, partial=False)
    assert output.read_text() == "precious"
    collect.collect(results, output, force=True, partial=False)
    assert collected(output)[0]["type"] == "sweep"
