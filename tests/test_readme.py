"""The README says what is true: its table, and its recipe for adding an algorithm."""

import re
from pathlib import Path

import numpy as np
import pytest

from hpccoll import listing, registry, spelling
from hpccoll.bind import bind
from hpccoll.engines import loopback
from hpccoll.layout import Message
from hpccoll.obligations import obligations
from hpccoll.verify import prove

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def between(marker: str) -> str:
    found = re.search(rf"<!-- {marker} -->\n(.*?)\n<!-- /{marker} -->", README, re.DOTALL)
    assert found, f"README.md has no part between the markers '{marker}'"
    return found[1]


def test_the_table_is_what_list_prints():
    assert between("algorithms") == listing.index()


@pytest.fixture
def added(tmp_path, monkeypatch):
    """Put the README's example into a file of the algorithms' folder, and nothing else anywhere."""
    import hpccoll.algorithms

    code = between("example").removeprefix("```python\n").removesuffix("\n```")
    (tmp_path / "readme_example.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(
        hpccoll.algorithms, "__path__", [*hpccoll.algorithms.__path__, str(tmp_path)]
    )
    before = {name: dict(entries) for name, entries in registry._ENTRIES.items()}
    names = {entry.name for entry in registry.catalogue()}
    yield "direct"
    assert "direct" in names, "the example's file was not found"
    registry._ENTRIES.clear()
    registry._ENTRIES.update(before)


def test_the_example_is_listed_proven_and_run_from_one_place(added):
    assert f"`{added}`" in listing.index()
    (choice,) = spelling.choose("allgather", added)
    for case in obligations(choice.algorithm, range(1, 17)):
        prove(*case)
    for size in (1, 2, 5, 8):
        message = Message(2 * size + 1, 8)
        whole = np.arange(message.count)
        plans = [bind(choice, rank, size, message) for rank in range(size)]
        shares = [
            np.concatenate([whole[s.start : s.stop] for s in plan.layout.held_spans])
            for plan in plans
        ]
        for output in loopback.run(plans, shares):
            assert np.array_equal(output, whole)
