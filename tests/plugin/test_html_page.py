"""The HTML page that a run writes: of a run that ended, of one that died, and what goes wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pytest_failure_taxonomy.cli.main import main
from tests.helpers.runs import PytestRuns

SUITE = """
import os
import pytest

@pytest.mark.parametrize("text", ["<script>alert(1)</script>"])
def test_bad(text): assert [1, 2] == [1, 3], text
def test_fine(): pass
def test_last():
    if os.path.exists("dies"): os._exit(3)
"""
PAGE = "--failure-taxonomy-html=page.html"


def rows_of(path: Path) -> dict[str, list[list[object]]]:
    """Return the JSON that a page holds."""
    found = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', path.read_text("utf-8")
    )
    assert found is not None
    rows: dict[str, list[list[object]]] = json.loads(found[1])
    return rows


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["serial", "xdist"])
def test_a_run_writes_its_page_with_every_test(runs: PytestRuns, workers: tuple[str, ...]) -> None:
    """The page has the verdict and all tests, those that passed as well."""
    runs.write({"test_it.py": SUITE})
    runs.run(PAGE, *workers, plugins=("xdist",) if workers else ())
    page = runs.path / "page.html"
    assert "1 of 3 tests failed" in page.read_text("utf-8")
    assert "<script>alert(1)" not in page.read_text("utf-8")
    assert sorted(str(test[2]) for test in rows_of(page)["tests"]) == ["failed", "passed", "passed"]


@pytest.mark.linux("the watcher completes the report of a dead run there")
def test_a_run_that_dies_has_its_page(runs: PytestRuns) -> None:
    """Whoever completes the report writes the page, too, and `convert` makes the same one."""
    runs.write({"test_it.py": SUITE, "dies": ""})
    runs.run(PAGE)
    report = runs.wait_for_completion()
    assert report["completeness"] == "reconstructed"
    page = runs.path / "page.html"
    text = page.read_text("utf-8")
    assert "Running when it ended" in text
    assert "test_it.py::test_last" in text
    again = runs.path / "again.html"
    assert main(["convert", str(runs.path / "failure-report.json"), "--to", "html",
                 "-o", str(again)]) == 0  # fmt: skip
    assert again.read_text("utf-8") == text


def test_a_missing_jinja2_is_one_line_of_the_run(runs: PytestRuns) -> None:
    """The run ends as it would, and the line says what to install."""
    runs.write(
        {
            "test_it.py": "def test_fine(): pass",
            "conftest.py": "import sys\n"
            "class Absent:\n"
            "    def find_spec(name, *_):\n"
            "        if name == 'jinja2': raise ModuleNotFoundError(name=name)\n"
            "sys.meta_path.insert(0, Absent)\n"
            "sys.modules.pop('jinja2', None)\n",
        }
    )
    run = runs.run(PAGE)
    assert run.exit_status == 0
    (line,) = (each for each in run.stdout if "Jinja2" in each)
    assert line == (
        "failure taxonomy: html: the HTML page needs Jinja2, which is not installed; "
        'pip install "pytest-failure-taxonomy[html]"'
    )
    assert not (runs.path / "page.html").exists()
