"""The catalogue in words."""

import re

from hpccoll.collectives import COLLECTIVES
from hpccoll.cost import LETTERS
from hpccoll.listing import LEGEND, markdown, text
from hpccoll.registry import Choice, catalogue, choose, format_value


def test_the_text_has_everything_of_an_algorithm(entry):
    section = text(entry.collective.name)
    (part,) = (p for p in section.split("\n\n") if re.match(rf"  {entry.name}\b(?!-)", p))
    assert entry.summary in part
    assert f"rounds {entry.rounds}   sent {entry.sent}" in part
    assert (f"reduced {entry.reduced}" in part) == entry.collective.reduces
    assert entry.source in part
    assert all(alias in part for alias in entry.aliases)
    assert entry.requires is None or f"needs {entry.requires.sentence}" in part
    assert f"N for the least time {entry.time}" in part or not entry.chosen
    assert ("a commutative operator" in part) == entry.commutative


def test_the_spelling_in_the_list_chooses_the_algorithm_with_its_defaults(entry):
    (line,) = (
        line
        for line in text(entry.collective.name).split("\n")
        if re.match(rf"  {entry.name}\b(?!-)", line)
    )
    spelled = re.sub(r"\[:\w+=N\]", "", line.split()[0]).replace("[", "").replace("]", "")
    (choice,) = choose(entry.collective.name, spelled)
    assert choice.algorithm is entry
    assert choice.label == entry.name


def test_letters_of_every_closed_form_are_explained(entry):
    forms = " ".join((entry.rounds, entry.sent, entry.reduced, entry.messages))
    used = set(re.findall(r"[A-Za-z]\w*", forms)) - {"if", "else", "and", "or"}
    used -= {"log2", "log", "ceil", "len", "max", "min", "sum"}
    explained = {*re.findall(r"(?:^|, )(\w+)(?: =| \w)", LETTERS), *entry.parameters}
    assert used <= explained


def test_one_collective_has_only_its_own_algorithms():
    for name in COLLECTIVES:
        headings = [line for line in text(name).split("\n") if line in COLLECTIVES]
        assert headings == [name]


def test_the_whole_text_names_every_collective_once_and_explains_the_letters():
    headings = [line for line in text().split("\n") if line in COLLECTIVES]
    assert headings == list(COLLECTIVES)
    assert " ".join(text().split("\n\n\n")[-1].split()) == LEGEND


def cells(row):
    """Return the cells of a row of a Markdown table."""
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_the_markdown_table_has_a_whole_row_per_algorithm():
    title, rule, *rows = (line for line in markdown().split("\n") if line.startswith("|"))
    assert set(cells(rule)) == {"---"}
    assert {len(cells(row)) for row in (title, rule, *rows)} == {7}
    assert all(all(cells(row)) for row in rows)
    found = [(cells(row)[0], cells(row)[1].strip("`").split("[")[0]) for row in rows]
    assert found == [(a.collective.name, a.name) for a in catalogue()]


def test_the_markdown_table_ends_with_the_legend():
    assert markdown().endswith(f"\n\n{LEGEND}")


def test_a_tunable_is_listed_with_its_default(entry):
    for parameter, (name, value) in zip(
        re.findall(r"\[:(.+?)\]", _spelling(entry)), Choice(entry).values.items(), strict=True
    ):
        assert parameter == f"{name}={'N' if name in entry.chosen else format_value(value)}"


def _spelling(entry):
    """Return the spelling of an algorithm in the Markdown table."""
    row = next(
        row
        for row in markdown().split("\n")
        if row.startswith(f"| {entry.collective.name} | `{entry.name}")
        and re.match(rf"`{entry.name}[`\[]", cells(row)[1])
    )
    return cells(row)[1]
