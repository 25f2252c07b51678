"""The documentation's pages are what the code says now."""

import re
from pathlib import Path

import pytest

import hpccoll
from hpccoll.choice import Choice
from hpccoll.collectives import COLLECTIVES
from hpccoll.listing import costs
from hpccoll.pages import PICTURED, pages
from hpccoll.registry import catalogue
from hpccoll.shapes import Requirement

DOCS = Path(hpccoll.__file__).parent.parent / "docs"


@pytest.fixture(scope="module")
def written():
    return dict(pages())


def test_the_committed_pages_are_what_the_code_gives(written):
    stale = [
        path
        for path, text in written.items()
        if not (DOCS / path).is_file() or (DOCS / path).read_text(encoding="utf-8") != text
    ]
    assert not stale, "run `hpccoll list --pages docs` and commit what it writes"


def test_no_picture_is_left_of_an_algorithm_that_is_gone(written):
    committed = {f"pictures/{path.name}" for path in (DOCS / "pictures").glob("*.svg")}
    assert committed == {path for path in written if path.endswith(".svg")}


def section(written, entry):
    page = written[f"{entry.collective.name}.md"]
    found = re.search(rf"^### {entry.name}\n(.*?)(?=^### |\Z)", page, re.DOTALL | re.MULTILINE)
    return found[1]


def test_a_section_has_everything_of_an_algorithm(entry, written):
    found = section(written, entry)
    assert entry.summary in found
    assert entry.source in found
    assert entry.requires is None or entry.requires.sentence in found
    assert ("commutative operator" in found) == entry.commutative
    assert all(f"Parameter `{name}`" in found for name in entry.parameters)
    assert all(f"`{cost.form}`" in found for cost in costs(Choice(entry), 1))
    (picture,) = re.findall(r"!\[.*\]\((.*)\)", found)
    assert picture in written


def test_every_collective_has_a_page_with_its_contract(written):
    for name in {entry.collective.name for entry in catalogue()}:
        page, contract = written[f"{name}.md"], COLLECTIVES[name]
        assert page.count("\n### ") == len(catalogue(name))
        for words in (contract.bytes_are, contract.in_place, contract.busbw, contract.baselines):
            assert words in page


def test_the_rest_of_a_docstring_is_printed(written):
    (entry,) = (e for e in catalogue("alltoall") if e.name == "bruck")
    assert "Blocks have names, so that nothing is rotated" in section(written, entry)
    assert "References" not in section(written, entry)


def test_an_algorithm_that_needs_other_ranks_is_shown_with_the_nearest(enter):
    def seven(rank, size):
        yield from ()

    needs = Requirement("seven ranks", lambda size: size == 7)
    enter("reduce", seven, requires=needs)
    with_it = dict(pages())
    assert f"isn't defined for {PICTURED} ranks, so 7 are shown" in with_it["reduce.md"]
    assert "![reduce seven on 7 ranks](pictures/reduce-seven.svg)" in with_it["reduce.md"]
    assert "on 7 ranks" in with_it["pictures/reduce-seven.svg"]
