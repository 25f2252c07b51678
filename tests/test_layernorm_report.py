"""A report of a comparison has what its records say, and nothing that they could smuggle in."""

import re
from html import unescape
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpccoll.cli import cli
from hpccoll.errors import UsageError
from hpccoll.export.canvas import Canvas
from hpccoll.layernorm import heat
from hpccoll.layernorm.reading import headline, read, results
from hpccoll.layernorm.report import Report, contents
from hpccoll.layernorm.verdict_table import small
from hpccoll.results import SCHEMA, to_json

RANKS, N = 4, 4096
NASTY = "<script>alert('x')</script> | `a` & [b](c)"


def run(**given):
    return {
        **{"type": "run", "schema": SCHEMA, "ranks": RANKS, "nodes": 1, "placement": "1x4"},
        **{"cpu": "a processor", "oversubscribed": "", "library": "a library", "engine": "native"},
        **{"tokens": 8, "hidden": 128, "bytes": N, "dtype": "float32", "accumulate": "storage"},
        "norm": {"kind": "layernorm", "method": "two-pass", "eps": 1e-5},
        **{"residual": True, "bias": True, "algorithms": {"allreduce": "ring"}, "seed": 7},
        **{"sample": "one call", "argv": ["hpccoll", "layernorm", "-o", "a b.jsonl"]},
        **{"start": "2020-01-01T00:00:00+00:00", "hpccoll": "1", "numpy": "2"},
        **given,
    }


def order(label, correct=True, given="iid", moved=3 * N // 2, busy=RANKS, keep=RANKS, **more):
    """Return a record: `busy` ranks normalise all rows, `keep` have the residual."""
    timed = {"p50": 123.0, "ci_low": 111.0, "ci_high": 147.0}
    work = 7 * 8 * 128
    return {
        **{"type": "order", "order": label, "label": label, "input": given, "correct": correct},
        **{"verdict": "agrees", "reason": "", "told": not correct},
        **{"deviation": 0.5 * (not correct) + 1.25e-7, "predicted": 0.4375 * (not correct)},
        **{"deviation_over_bound": 0.05 if correct else 4e5, "same_bits": True},
        "traffic": [{"sent": 2 * N, "received": N}] * RANKS,
        "path": {"rounds": 6, "bytes": moved},
        "norm_operations": [work] * busy + [0] * (RANKS - busy),
        "redundant_operations": work * (busy - 1),
        "extra_bytes": [N] * RANKS,
        "residual_bytes": [N] * keep + [0] * (RANKS - keep),
        **{"latency_us": timed if given == "iid" else None, "repetitions": 17},
        **more,
    }


def comparison(*more, **given):
    return [
        run(**given),
        order("allreduce-layernorm"),
        order("fused", moved=3 * N, busy=1, keep=1),
        order("layernorm-mean", correct=False),
        *more,
    ]


def written(records, name, tmp_path):
    report = Report(tmp_path / name)
    report.make(results(records))
    return "".join(path.read_text(encoding="utf-8") for path in report.files)


@pytest.mark.parametrize("name", ["a.html", "a.md"])
def test_a_report_has_every_number_of_its_records(name, tmp_path):
    text = unescape(written(comparison(), name, tmp_path))
    for one in comparison()[1:]:
        assert one["label"] in text
        assert small(one["deviation"]) in text
        assert small(one["predicted"]) in text
        assert heat.short(one["deviation_over_bound"]) in text
    drawn = set(re.findall(r"<text[^>]*>([^<]*)</text>", text))
    assert {"2.00", "1.50", "3.00", "8.00", "5.00", "1.00", "4.00", "123"} <= drawn
    for words in ("128", "float32", "a library", "ring", "17 calls", "1e-05", "seed"):
        assert words in text
    assert "hpccoll layernorm -o 'a b.jsonl'" in text


def test_the_headline_has_what_was_counted():
    said = headline(results(comparison()))
    assert "2 orders are right and 1 wrong" in said
    assert "computes 1.00 instead of 4.00 norms" in said
    assert "the residual on 1 of 4 ranks" in said
    assert "saves no bytes: 2.00 times as many" in said
    assert said.count(".") - len(re.findall(r"\d\.\d", said)) == 1, "one sentence"


def test_the_headline_counts_what_has_no_verdict_or_is_not_told_apart():
    untold = order("layernorm-mean", correct=False, told=False)
    unknown = order("fused", verdict="no verdict")
    assert headline(results([run(ranks=1), untold, unknown])) == (
        "1 order wrong in theory, which these inputs can't tell, 1 order without a verdict."
    )


def test_the_headline_never_says_that_fewer_bytes_are_none_saved():
    records = [run(), order("allreduce-layernorm", moved=4 * N), order("fused", moved=N, busy=1)]
    assert "moves 0.250 times the bytes" in headline(results(records))


@pytest.mark.parametrize("given", [{"path": None, "traffic": None}, {"path": {"bytes": 0}}])
def test_the_headline_is_silent_on_what_was_not_counted(given, tmp_path):
    records = [run(), order("allreduce-layernorm"), order("fused", **given)]
    assert "fused" not in headline(results(records))
    assert ("not seen" in written(records, "a.html", tmp_path)) == (given["path"] is None)


def test_a_contradiction_leads_the_headline_and_is_marked(tmp_path):
    bad = order("one-shot", verdict="contradicts", reason="7 times as far off")
    text = written(comparison(bad), "a.html", tmp_path)
    assert "<h1>1 of 4 results contradict theory: one-shot" in text
    assert "CONTRADICTS: 7 times as far off: one-shot of iid" in text
    assert ">0.05 !</text>" in text


def cells(*judged):
    canvas = Canvas()
    width, height = heat.heat_map(canvas, results([run(), *judged]), 0)
    svg = canvas.svg(width, height, "t", "d")
    return svg, svg[: svg.index("error / tolerance")]


def test_colours_follow_the_ratio():
    luma = [sum(heat.colour(10.0**power, 6)) for power in range(-3, 7)]
    assert luma[0] == luma[1] < luma[2] < luma[3]
    assert luma[4:] == sorted(luma[4:], reverse=True)
    assert len(set(luma[4:])) == 6
    blue, orange = heat.colour(1, 6), heat.colour(1.01, 6)
    assert blue[2] > blue[0]
    assert orange[0] > orange[2]


@pytest.mark.parametrize("ratio", [0.0, 0.3, 30.0, 1e6, "inf", "nan"])
def test_a_cell_has_its_ratio_and_the_colour_of_it(ratio):
    one = order("fused", deviation_over_bound=ratio)
    _, drawn = cells(one)
    value = heat.ratio(one)
    assert f">{heat.short(value)}</text>" in drawn
    assert (
        f'fill="{heat.spelled(heat.colour(value, heat.decades(results([run(), one]))))}"' in drawn
    )


def test_backward_passes_are_counted_and_contradict(tmp_path):
    one = {"type": "backward", "name": "fused", "input": "iid", "verdict": "agrees"}
    text = written(comparison(one, one | {"verdict": "contradicts"}), "a.html", tmp_path)
    assert "<h1>1 of 5 results contradict theory: fused" in text
    assert "backward passes, gradients against theory: agrees 1, contradicts 1" in text


def test_an_input_that_cannot_tell_is_hatched():
    told, untold = (order("layernorm-mean", correct=False, told=told) for told in (True, False))
    assert "<path" not in cells(told)[1]
    svg, drawn = cells(untold)
    assert "<path" in drawn
    assert ">can't tell</text>" in unescape(svg)


def test_no_verdict_is_grey_and_has_no_ratio():
    svg, drawn = cells(order("fused", verdict="no verdict", deviation_over_bound=0.77))
    assert heat.UNJUDGED in drawn
    assert "0.77" not in svg
    assert ">–</text>" in drawn
    assert ">no verdict</text>" in svg


def nasty():
    bad = order(NASTY, reason=NASTY, verdict="contradicts")
    left_out = {"type": "skipped", "label": NASTY, "reason": NASTY}
    return [*comparison(bad, library=NASTY, cpu=NASTY), left_out]


@pytest.mark.parametrize("name", ["a.html", "a.md"])
def test_nothing_in_the_records_becomes_an_element(name, tmp_path):
    text = written(nasty(), name, tmp_path).replace(r"\<", "")
    assert NASTY in unescape(text) or name == "a.md"
    assert not re.findall(r"<script", text)


def test_nothing_in_the_records_becomes_markdown(tmp_path):
    written(nasty(), "a.md", tmp_path)
    text = re.sub(r"\\.", "", (tmp_path / "a.md").read_text(encoding="utf-8"))
    assert not re.findall(r"[`<]|&", text)
    assert text.count("](") == 1, "the picture is the only link"
    (bars,) = {line.count("|") for line in text.splitlines() if "|" in line}
    assert bars == len(contents(results(nasty())).titles) + 1


def test_a_page_needs_no_other_file(tmp_path):
    text = written(comparison(), "a.html", tmp_path).replace("http://www.w3.org/2000/svg", "")
    assert not re.findall(r"https?:|src=|href=|url\(|@import", text)
    assert "prefers-color-scheme: dark" in text


def test_markdown_shows_the_picture_beside_it(tmp_path):
    written(comparison(), "my report.md", tmp_path)
    assert "](my%20report.svg)" in (tmp_path / "my report.md").read_text(encoding="utf-8")
    assert (tmp_path / "my report.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize("name", ["a.pdf", "a", "html"])
def test_another_suffix_is_refused(name):
    with pytest.raises(UsageError, match=r"use \.html or \.md"):
        Report(Path(name))


def test_a_report_is_overwritten_only_by_force(tmp_path):
    written(comparison(), "a.md", tmp_path)
    (tmp_path / "a.md").unlink()
    with pytest.raises(UsageError, match=r"a\.svg exists; choose another --report"):
        Report(tmp_path / "a.md").reserve()
    Report(tmp_path / "a.md", force=True).make(results(comparison()))


def test_a_row_counts_the_verdicts_of_all_inputs():
    more = order("layernorm-mean", correct=False, told=False, given="replicated")
    page = contents(results(comparison(more)))
    assert page.titles[-1] == "all inputs"
    assert page.rows[2][-1] == "agrees 1, can't tell 1"
    assert "all inputs" not in contents(results(comparison())).titles


def test_records_are_read_back_from_their_file(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text("".join(to_json(one) + "\n" for one in comparison()), encoding="utf-8")
    assert read(path) == results(comparison())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "found 0 and 0 orders"),
        ("{", "isn't JSON Lines"),
        ("[]", "isn't of hpccoll layernorm"),
        ('{"type": "measurement"}', "'measurement' isn't of hpccoll layernorm"),
        (to_json(run()) + '\n{"type": "order"}', "has no correct"),
        (to_json(run(schema=0)), "needs one run of schema"),
    ],
)
def test_another_file_is_refused(text, words, tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=words):
        read(path)


def command(*arguments):
    """Return the error that a command line ends with, None if it ends well."""
    return CliRunner().invoke(cli, ["layernorm", *map(str, arguments)]).exception


def test_a_report_is_made_later_of_the_file(tmp_path):
    source = tmp_path / "x.jsonl"
    source.write_text("".join(to_json(one) + "\n" for one in comparison()), encoding="utf-8")
    assert command("--from", source, "--report", tmp_path / "later.html") is None
    later = (tmp_path / "later.html").read_text(encoding="utf-8")
    assert later == written(comparison(), "at once.html", tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--report", "a.pdf"], r"use \.html or \.md"),
        (["--from", "x"], "say where with --report"),
        (["--from", "x", "--report", "a.md", "--tokens", "9"], "leave out --tokens"),
        (["--from", "x", "--report", "a.md", "-o", "y"], "leave out --output"),
        (["--from", "missing", "--report", "a.md"], "missing can't be read"),
    ],
)
def test_what_no_report_can_be_made_of_is_refused_before_anything_runs(
    arguments, words, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hpccoll.world.start", lambda _: pytest.fail("MPI starts"))
    error = command(*arguments)
    assert isinstance(error, UsageError)
    assert re.search(words, str(error))
    assert not list(tmp_path.iterdir())
