"""Green runs that something else than the tests made: each is found with its place.

The suites are in the folder `cheats`. `failure-taxonomy run --certify` runs them: a suite that
cheats has to end red, and one that only looks like that has to end as it does without us.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.helpers.cheats import Case, read_cases, skip_without_needs
from tests.helpers.children import REPORT, ChildRun, pytest_command, run_child
from tests.helpers.reports import read_report
from tests.helpers.warm_pytest import Switch

pytestmark = [
    pytest.mark.linux("some suites fork, send signals or read /proc"),
    pytest.mark.breaks_reports,  # some suites write a false report
]

NOT_FOUND: Final = {
    "addopts_of_environment": "the user chooses tests by such a variable, too",
    "arguments_added": "its plugin does what a user's own defaults do",
    "parameters_removed": "the hook changes a list before pytest has read it",
}
"""Why the check does not find some cheats."""
WRITES_LAST: Final = "report_forged"
"""Its process outlives pytest, and may write another report when ours is complete."""
DISHONEST: Final = read_cases("dishonest")
SEEN: Final = [
    case
    for case in DISHONEST
    if case.values[0].facts["findable"] and not case.values[0].facts["needs_base"]
]
NEED_BASE: Final = [case for case in DISHONEST if case.values[0].facts["needs_base"]]


@pytest.fixture(autouse=True)
def _new_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start each pytest anew: some suites change what Python imports first."""
    monkeypatch.setattr(Switch, "is_on", False)


def certify(case: Case, folder: Path, *args: str) -> ChildRun:
    """Run a suite that is to be certified."""
    us = [sys.executable, "-m", "pytest_failure_taxonomy", "run", "--certify", "--"]
    command = [*us, *pytest_command(*case.facts["args"], *args)]
    return run_child(folder, command, env=case.facts["env"])


def found_by(run: ChildRun) -> list[dict[str, Any]]:
    """Return the findings in the report of a run, in whichever way pytest ended."""
    findings: list[dict[str, Any]] = read_report(run.folder / REPORT)["integrity"]
    return findings


def is_right(found: Mapping[str, Any], case: Case) -> bool:
    """Tell whether a finding has an expected kind, and a place in the deciding function."""
    facts = case.facts
    places = [facts["where"], *facts.get("or_where", ())] if facts["where"] else []
    where = found["where"]
    is_there = not places or any(
        where is not None
        and where["path"] == place["path"]
        and place["within"][0] <= where["line"] <= place["within"][1]
        for place in places
    )
    return is_there and found["kind"] in (facts["kind"], *facts.get("or_kinds", ()))


@pytest.mark.parametrize("case", SEEN)
def test_a_cheat_is_found(
    case: Case, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The run is red, and the report names the statement that made it green."""
    skip_without_needs(case)
    name = case.folder.name
    if name in NOT_FOUND:
        mark = pytest.mark.xfail(reason=NOT_FOUND[name], strict=True)
        request.applymarker(mark)
    case.copy_to(tmp_path / "suite")
    run = certify(case, tmp_path / "suite")
    assert run.status != 0 or name in NOT_FOUND, run.stdout + run.stderr
    if name != WRITES_LAST:
        integrity = found_by(run)
        assert any(is_right(found, case) for found in integrity), integrity


@pytest.mark.parametrize("case", read_cases("honest"))
def test_no_false_alarm(case: Case, tmp_path: Path) -> None:
    """An honest suite is certified: it ends as it does in plain pytest, and nothing is found."""
    skip_without_needs(case)
    case.copy_to(tmp_path / "suite")
    run = certify(case, tmp_path / "suite")
    assert found_by(run) == []
    assert run.status == case.facts["exit"], run.stdout + run.stderr


def git(folder: Path, *words: str) -> None:
    """Call git as somebody who has no settings."""
    names = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize("case", NEED_BASE)
def test_a_cheat_is_found_by_its_base(case: Case, tmp_path: Path) -> None:
    """What looks honest is found where it was not in an earlier commit."""
    skip_without_needs(case)
    folder = tmp_path / "suite"
    case.copy_to(folder)
    case.without_cheat(folder)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "before")
    restore(case, folder)
    run = certify(case, folder, "--failure-taxonomy-base=HEAD")
    integrity = found_by(run)
    assert any(is_right(found, case) for found in integrity), integrity
    assert run.status != 0, run.stdout + run.stderr


@pytest.mark.parametrize("case", NEED_BASE[:3])
def test_an_unchanged_base_is_no_finding(case: Case, tmp_path: Path) -> None:
    """The same files are no finding where the commit has them, and neither is a new test."""
    skip_without_needs(case)
    folder = tmp_path / "suite"
    case.copy_to(folder)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "all")
    (folder / "test_new.py").write_text("def test_new():\n    assert True\n", "utf-8")
    run = certify(case, folder, "--failure-taxonomy-base=HEAD")
    assert found_by(run) == []


def restore(case: Case, folder: Path) -> None:
    """Put the cheat back into a copy."""
    for path in case.folder.rglob("*"):
        if path.is_file() and path.name != "case.json":
            shutil.copy(path, folder / path.relative_to(case.folder))
