"""The catalogue in words."""

import re
from pathlib import Path

from hpccoll.choice import Choice
from hpccoll.collectives import COLLECTIVES
from hpccoll.cost import LETTERS
from hpccoll.listing import LEGEND, index, markdown, text
from hpccoll.parameter import format_value
from hpccoll.registry import catalogue
from hpccoll.spelling import choose

ROOT = Path(__file__).parent.parent


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
    for name in COLLECTIVES:
        title, rule, *rows = (line for line in markdown(name).split("\n") if line.startswith("|"))
        assert set(cells(rule)) == {"---"}
        assert {len(cells(row)) for row in (title, rule, *rows)} == {6}
        assert all(all(cells(row)) for row in rows)
        found = [cells(row)[0].strip("`").split("[")[0] for row in rows]
        assert found == [a.name for a in catalogue(name)]


def test_the_markdown_table_ends_with_the_legend():
    assert markdown("bcast").endswith(f"\n\n{LEGEND}")


def test_the_index_names_every_algorithm_and_leads_to_a_page_that_is_there():
    for row, name in zip(index().split("\n")[2:], COLLECTIVES, strict=True):
        page, names = cells(row)
        assert page == f"[{name}](docs/{name}.md)"
        assert (ROOT / "docs" / f"{name}.md").exists()
        assert names.replace("`", "").split(", ") == [a.name for a in catalogue(name)]


def test_a_tunable_is_listed_with_its_default(entry):
    for parameter, (name, value) in zip(
        re.findall(r"\[:(.+?)\]", _spelling(entry)), Choice(entry).values.items(), strict=True
    ):
        assert parameter == f"{name}={'N' if name in entry.chosen else format_value(value)}"


def _spelling(entry):
    """Return the spelling of an algorithm in the Markdown table."""
    row = next(
        row
        for row in markdown(entry.collective.name).split("\n")
        if re.match(rf"\| `{entry.name}[`\[]", row)
    )
    return cells(row)[0]
