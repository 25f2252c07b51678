"""Algorithms from files and from installed packages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).parents[1] / "docs" / "your-own-algorithm.md"
PLUGIN = TUTORIAL.read_text().split("<!-- plugin -->\n```python\n")[1].split("```")[0]


@pytest.fixture
def hpccoll(tmp_path):
    def run(*arguments, path=""):
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, [str(path), os.environ.get("PYTHONPATH")]))
        }
        return subprocess.run(
            [sys.executable, "-m", "hpccoll", *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            env=environment,
        )

    return run


@pytest.fixture
def plugin(tmp_path):
    def write(text=PLUGIN, name="mine.py"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


def test_list_show_and_verify_take_a_file(hpccoll, plugin):
    listed = hpccoll("list", "allgather", "--plugin", plugin())
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "Pass blocks around a ring in both directions at once." in listed.stdout
    shown = hpccoll("show", "two-way-ring", "-p", "4", "--plugin", plugin())
    assert shown.stdout.startswith("allgather two-way-ring, 4 ranks")
    proven = hpccoll("verify", "allgather", "-p", "1:9", "--beyond", "0", "--plugin", plugin())
    (line,) = (line for line in proven.stdout.splitlines() if "two-way-ring" in line)
    assert "proven    9 cases" in line


def test_a_wrong_algorithm_gets_its_counterexample(hpccoll, plugin):
    wrong = plugin(PLUGIN.replace("(right + step) % size)", "(right - step) % size)"))
    found = hpccoll("verify", "allgather", "-p", "5", "--plugin", wrong)
    assert found.returncode == 1
    assert (
        "allgather two-way-ring on 5 ranks: rank 1, round 2: receive from 2 block 1 meets"
        in found.stdout
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", ": enters no algorithm; decorate a generator"),
        ("\nx = 1 / 0\n", ", line 2: ZeroDivisionError: division by zero"),
        ("x = = 1\n", ", line 1: SyntaxError: invalid syntax"),
        (PLUGIN.replace("two_way_ring", "ring"), "allgather has an algorithm called ring already"),
        (PLUGIN.replace('("allgather"', '("allgathers"'), "did you mean allgather?"),
    ],
)
def test_a_plugin_that_cannot_be_used_says_where_and_why(hpccoll, plugin, text, message):
    found = hpccoll("list", "--plugin", plugin(text))
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith("hpccoll: --plugin ")
    assert message in found.stderr
    assert "Traceback" not in found.stderr


def test_a_missing_file_is_said(hpccoll, tmp_path):
    found = hpccoll("list", "--plugin", str(tmp_path / "none.py"))
    assert found.returncode == 2
    assert found.stderr.endswith("none.py: there is no such file\n")


def test_an_installed_package_is_found_by_its_entry_point(hpccoll, plugin, tmp_path):
    plugin(name="some_package.py")
    package = tmp_path / "some_package-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: some-package\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[hpccoll.algorithms]\nmine = some_package\n")
    listed = hpccoll("list", "allgather", path=tmp_path)
    assert "two-way-ring" in listed.stdout
    plugin("import nothing_like_this\n", "some_package.py")
    broken = hpccoll("list", path=tmp_path)
    assert broken.returncode == 2
    assert "the installed plugin mine (some_package) failed: ModuleNotFoundError" in broken.stderr
