"""The HTML page that a run writes: of a run that ended, of one that died, and what goes wrong."""

from __future__ import annotations

import json
import re
import sys
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
        r'<script type="application/json" id="data">(.*?)</script>',
        path.read_text("utf-8"),
    )
    assert found is not None
    rows: dict[str, list[list[object]]] = json.loads(found[1])
    return rows


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["serial", "xdist"])
def test_a_run_writes_its_page_with_every_test(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """The page has the verdict and all tests, those that passed as well."""
    runs.write({"test_it.py": SUITE})
    runs.run(PAGE, *workers, plugins=("xdist",) if workers else ())
    page = runs.path / "page.html"
    assert "1 of 3 tests failed" in page.read_text("utf-8")
    assert "<script>alert(1)" not in page.read_text("utf-8")
    assert sorted(str(test[2]) for test in rows_of(page)["tests"]) == [
        "failed",
        "passed",
        "passed",
    ]


@pytest.mark.slow
@pytest.mark.lowest
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


ABSENT = """
import sys
class Absent:
    def find_spec(name, *_):
        if name == "jinja2": raise ModuleNotFoundError(name=name)
sys.meta_path.insert(0, Absent)
sys.modules.pop("jinja2", None)
"""
SAID = "the HTML page needs Jinja2, which is not installed; pip install jinja2"


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.parametrize("flag", ["--failure-taxonomy-html", "--why-html"])
def test_a_missing_jinja2_is_an_error_where_the_page_was_typed(
    runs: PytestRuns, flag: str
) -> None:
    """No test runs, and the error says what to install."""
    runs.write({"test_it.py": "def test_fine(): pass", "absent.py": ABSENT})
    run = runs.run("-p", "absent", f"{flag}=page.html")
    assert run.exit_status == 4
    assert f"ERROR: {flag}: {SAID}" in run.stderr
    assert run.report["verdict"]["kind"] == "usage.error"
    assert SAID in run.report["verdict"]["message"]


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.parametrize("name", ["failure_taxonomy_html", "addopts"])
def test_a_missing_jinja2_is_a_warning_where_a_configuration_asks(
    runs: PytestRuns, name: str
) -> None:
    """Before the first test, and the run has no page; others who share the file have it."""
    value = PAGE if name == "addopts" else "page.html"
    by = "--failure-taxonomy-html" if name == "addopts" else f"ini value {name}"
    runs.write(
        {
            "test_it.py": "def test_fine(): pass",
            "absent.py": ABSENT,
            "pytest.ini": f"[pytest]\n{name} = {value}\n",
        }
    )
    run = runs.run("-p", "absent")
    assert run.exit_status == 0
    said = run.stdout.index(f"failure taxonomy: {by}: {SAID}")
    assert said < next(
        at for at, line in enumerate(run.stdout) if line.startswith("test_it.py")
    )
    assert any("1 passed, 1 warning" in line for line in run.stdout)
    assert not (runs.path / "page.html").exists()


def test_a_jinja2_that_is_lost_in_the_run_is_one_line_at_its_end(
    runs: PytestRuns,
) -> None:
    """The run ends as it would, and the line says what to install."""
    runs.write({"test_it.py": "def test_fine(): pass", "conftest.py": ABSENT})
    run = runs.run(PAGE)
    assert run.exit_status == 0
    assert f"failure taxonomy: html: {SAID}" in run.stdout
    assert not (runs.path / "page.html").exists()


def test_a_missing_jinja2_is_one_line_of_the_command(
    runs: PytestRuns,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`convert` says what to install, too."""
    runs.write({"test_it.py": SUITE})
    runs.run()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert (
        main(["convert", str(runs.path / "failure-report.json"), "--to", "html"]) == 2
    )
    assert SAID in capsys.readouterr().err
