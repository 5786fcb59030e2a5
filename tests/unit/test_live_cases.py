"""The projects that `tests.benchmarks.accuracy.live` runs, and how it compares an answer with a table."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

from tests.benchmarks.accuracy.live import PROJECTS, Run, judge

CASE: Final[dict[str, Any]] = {
    "must": ["docker|Docker"],
    "never": ["ValueError"],
    "charge": "environment|ambiguous",
    "retry": "n",
}
FIELDS: Final = ("report", "ideal", "packages", "command", *CASE)
RIGHT: Final = {"charge_to": "environment", "retryable": False}
PYTEST: Final = "==== 1 failed in 0.10s ====\n"


def run(section: str, *, status: int = 1, pytest: str = PYTEST) -> Run:
    """Return a run that ends with a closing section."""
    return Run(status, f"{pytest}=== why this run failed ===\n{section}\n", "")


def test_each_project_has_its_table() -> None:
    """A table has all fields, its patterns can be read, and its project is there."""
    cases = tomllib.loads((PROJECTS / "cases.toml").read_text("utf-8"))
    folders = {path.name for path in PROJECTS.iterdir() if path.is_dir()}
    assert set(cases) == folders
    for name, case in cases.items():
        assert set(FIELDS) <= set(case), name
        assert case["report"].startswith("https://"), name
        assert set(case["retry"]) <= {"y", "n", "?"}, name
        for pattern in (*case["must"], *case["never"]):
            re.compile(pattern)


def test_what_makes_an_answer_wrong() -> None:
    """The sentence, the charge, the retry and pytest's own result are told apart."""
    right = run("Docker is not running")
    assert not judge(CASE, right, right, RIGHT).problems()
    lacking = judge(CASE, right, run("ValueError: no"), RIGHT)
    assert lacking.sentence == ["lacks 'docker|Docker'", "says 'ValueError'"]
    other = judge(CASE, right, right, {"charge_to": "subject", "retryable": None})
    assert other.charge == ["charged to subject"]
    assert other.retry == ["retryable: None"]
    green = run("Docker is not running", pytest="==== 1 passed in 0.20s ====\n")
    assert judge(CASE, right, green, RIGHT).pytest
    slower = run("Docker is not running", pytest="==== 1 failed in 7.10s ====\n")
    assert not judge(CASE, right, slower, RIGHT).pytest


def test_the_section_of_a_dead_pytest_is_on_the_standard_error() -> None:
    """Where there is no section at all, the last lines are what people see."""
    dead = Run(134, "collected 1 item\n", "=== why this run failed ===\nSIGABRT\n")
    assert "SIGABRT" in dead.first_screen()
    assert "collected" not in dead.first_screen()
    assert Run(4, "", "ERROR: no\n").first_screen() == "ERROR: no"
