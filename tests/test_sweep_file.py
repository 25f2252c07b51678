"""Sweep files: what is crossed, what goes together, what is left out, and what is refused."""

import pytest

from hpccoll.errors import UsageError
from hpccoll.sweep import sweep_file
from hpccoll.sweep.sweep_file import parse


def settings(**content):
    return list(parse(content, "named").settings)


def test_axes_are_crossed_and_the_last_changes_fastest():
    found = settings(base={"op": "sum"}, axes={"ranks": [2, 4], "algorithm": ["ring", "tree"]})
    assert found == [
        {"op": "sum", "ranks": ranks, "algorithm": algorithm}
        for ranks in (2, 4)
        for algorithm in ("ring", "tree")
    ]


def test_the_lists_of_a_zip_go_together_and_are_crossed_with_the_axes():
    found = settings(
        axes={"ranks": [2, 4]}, zip=[{"dtype": ["int8", "float64"], "op": ["max", "sum"]}]
    )
    pairs = [{"dtype": "int8", "op": "max"}, {"dtype": "float64", "op": "sum"}]
    assert found == [{"ranks": ranks} | pair for ranks in (2, 4) for pair in pairs]


def test_several_zips_are_crossed_with_each_other():
    found = settings(zip=[{"a": [1, 2], "b": [3, 4]}, {"c": [5, 6]}])
    assert [tuple(one.values()) for one in found] == [(1, 3, 5), (1, 3, 6), (2, 4, 5), (2, 4, 6)]


def test_a_list_within_an_axis_is_one_value():
    found = settings(axes={"sizes": [["8", "1KiB"], "64KiB"]})
    assert found == [{"sizes": ("8", "1KiB")}, {"sizes": "64KiB"}]


def test_a_file_without_axes_is_one_element():
    assert settings(base={"ranks": 2}) == [{"ranks": 2}]


def test_elements_that_have_all_values_of_an_exclude_are_left_out():
    axes = {"ranks": [2, 3, 4], "algorithm": ["ring", "tree", "linear"]}
    found = settings(
        axes=axes, exclude=[{"ranks": 3, "algorithm": ["tree", "linear"]}, {"ranks": 4}]
    )
    assert found == [
        {"ranks": 2, "algorithm": "ring"},
        {"ranks": 2, "algorithm": "tree"},
        {"ranks": 2, "algorithm": "linear"},
        {"ranks": 3, "algorithm": "ring"},
    ]


def test_true_is_not_one_in_an_exclude():
    found = settings(axes={"in-place": [True, False]}, exclude=[{"in-place": True}])
    assert found == [{"in-place": False}]
    with pytest.raises(UsageError, match="matches no element"):
        settings(axes={"in-place": [True, False]}, exclude=[{"in-place": 1}])


def test_a_sweep_is_named_after_its_file_unless_it_has_a_name(tmp_path):
    path = tmp_path / "allreduce on all.toml"
    path.write_text("base.ranks = 2\n")
    assert sweep_file.read(path).name == "allreduce on all"
    path.write_text('name = "it\'s; $(mine)"\nbase.ranks = 2\n')
    assert sweep_file.read(path).name == "it's; $(mine)"


REFUSED = [
    ({"axis": {}}, "unknown field 'axis'; did you mean axes?"),
    ({"name": "two\nlines"}, "name must be a text on one line, got 'two\\nlines'"),
    ({"name": ""}, "name must be a text on one line"),
    ({"command": 3}, "command must be a text on one line, got 3"),
    ({"base": []}, "base must be a table: write [base]"),
    ({"zip": {"a": [1]}}, "zip must be tables: write [[zip]] above each"),
    ({"exclude": [3]}, "exclude must be tables"),
    ({"axes": {"ranks": 2}}, "axes, key 'ranks': give a list of values, got 2"),
    ({"zip": [{"a": 2}]}, "zip, key 'a': give a list of values, got 2"),
    ({"zip": [{"a": [1, 2], "b": [1]}]}, "equally long: a has 2, b has 1"),
    ({"base": {"a": {"b": 1}}}, "base, key 'a': a value is a text, a number, true or false"),
    ({"base": {"a": float("nan")}}, "base, key 'a': a value is a text, a number"),
    ({"axes": {"a": [[[1]]]}}, "axes, key 'a': a value is a text, a number"),
    ({"base": {"a": "x\ny"}}, "base, key 'a': 'x\\ny' has a character that can't be printed"),
    ({"axes": {"a": ["x\0"]}}, "axes, key 'a': 'x\\x00' has a character that can't be printed"),
    ({"zip": [{"a": ["\x1b[0m"]}]}, "zip, key 'a': '\\x1b[0m' has a character that can't"),
    ({"base": {"a": 1}, "axes": {"a": [1]}}, "key 'a' is given in two of base, axes and zip"),
    ({"axes": {"a": [1]}, "zip": [{"a": [1]}]}, "key 'a' is given in two of base, axes and zip"),
    ({"axes": {"a": [1, 2, 1]}}, 'two elements are the same: {"a": 1}'),
    ({"axes": {"a": []}}, "the file has no elements"),
    ({"axes": {"a": [1]}, "exclude": [{"a": 1}]}, "the file has no elements"),
    ({"axes": {"a": [1]}, "exclude": [{"a": 2}]}, 'exclude {"a": 2} matches no element'),
    ({"axes": {"a": [1]}, "exclude": [{"b": 1}]}, 'exclude {"b": 1} matches no element'),
]


@pytest.mark.parametrize(("content", "message"), REFUSED)
def test_what_a_file_cannot_mean_is_refused_with_its_key(content, message):
    with pytest.raises(UsageError) as at:
        parse(content, "named")
    assert message in str(at.value)


def test_a_file_that_is_no_toml_or_not_there_is_named(tmp_path):
    path = tmp_path / "sweep.toml"
    with pytest.raises(UsageError, match=r"sweep\.toml can't be read: No such file"):
        sweep_file.read(path)
    path.write_text("[base\n")
    with pytest.raises(UsageError, match=r"sweep\.toml is no TOML: .*line 1"):
        sweep_file.read(path)
    path.write_bytes(b'name = "\xff"\n')
    with pytest.raises(UsageError, match=r"sweep\.toml is no TOML"):
        sweep_file.read(path)
    path.write_text("axis = 3\n")
    with pytest.raises(UsageError, match=r"sweep\.toml: unknown field 'axis'"):
        sweep_file.read(path)
