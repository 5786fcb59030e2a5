"""The command line as a whole: its help, and what commands take for granted."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from pytest_failure_taxonomy.cli.main import main
from tests.helpers.children import REPORT, run_child, run_pytest
from tests.helpers.reports import make_full_run, make_report

FOR_PEOPLE = ["run", "prove", "show", "merge", "convert", "history"]


def test_the_help_lists_what_people_need_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The rest stands in a list of its own, each command with one line."""
    with pytest.raises(SystemExit):
        main(["--help"])
    first, heading, rest = capsys.readouterr().out.partition(
        "\nfor harnesses and benches:\n"
    )
    listed = r"^ {4}([a-z]+) +([a-z].{10,70})$"
    assert heading
    assert [name for name, _ in re.findall(listed, first, re.MULTILINE)] == FOR_PEOPLE
    others = [name for name, _ in re.findall(listed, rest, re.MULTILINE)]
    assert len(others) == len(rest.splitlines())
    assert {"finalize", "classify", "recover", "validate", "bench", "schema"} <= set(
        others
    )


@pytest.mark.parametrize("command", ["show", "finalize"])
def test_the_report_of_the_folder_is_the_default(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    """Where there is none, a line says what to give."""
    monkeypatch.chdir(tmp_path)
    assert main([command]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(
        "failure-report.json: there is no such file; give the path of a report, the JSON file "
        "that `pytest --why` writes"
    )
    report = json.dumps(make_report(make_full_run()))
    Path("failure-report.json").write_text(report, "utf-8")
    assert main([command]) == 1
    said = capsys.readouterr()
    assert "why this run failed" in said.out + said.err


def test_packages_of_one_repository_are_merged(tmp_path: Path) -> None:
    """The tests that failed are named by their files, as seen from the top of the repository."""
    (tmp_path / ".git").mkdir()
    for name, expected in (("api", 2), ("web", 1)):
        (tmp_path / name / "tests").mkdir(parents=True)
        (tmp_path / name / "pytest.ini").write_text("[pytest]\n")
        test = f"def test_a():\n    assert 1 == {expected}\n"
        (tmp_path / name / "tests/test_x.py").write_text(test)
        run_pytest(tmp_path / name)
    command = [sys.executable, "-m", "pytest_failure_taxonomy"]
    files = [f"{name}/{REPORT}" for name in ("api", "web")]
    merge = [*command, "merge", *files, "-o", "all.json"]
    done = run_child(tmp_path, merge)
    assert done.status == 1
    assert (
        "1 of 2 tests failed: assert 1 == 2: test_a (api/tests/test_x.py:2)"
        in done.stderr
    )
    shown = run_child(tmp_path, [*command, "show", "all.json"]).stdout
    assert "final_test, web: no failure" in shown
    # Outside of a repository nobody knows how they lie to each other.
    (tmp_path / ".git").rmdir()
    for name in ("api", "web"):
        run_pytest(tmp_path / name)
    refused = run_child(tmp_path, merge)
    assert refused.status == 2
    (line,) = refused.stderr.splitlines()
    assert (
        f"({tmp_path / 'api'}, {tmp_path / 'web'}) and no common Git repository;"
        in line
    )
