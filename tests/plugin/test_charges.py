"""Whom a score charges the failures of real runs to."""

from __future__ import annotations

from typing import Final

import pytest

from tests.helpers.runs import PytestRuns

PROJECT: Final = {
    "pytest.ini": "[pytest]\npythonpath = src\n",
    "src/shop.py": "def total(): return 3\n",
    "src/broken.py": "x = (\n",
    "src/needs.py": "import a_package_of_nobody\n",
}
RULES: Final = """\
rules:
  - name: slow-backend
    exception: AssertionError
    reason: SANDBOX_ERROR
    charge_to: environment
"""


@pytest.mark.parametrize(
    ("test", "stage", "charge_to"),
    [
        (
            "import shop\ndef test_it(): assert shop.total() == 4\n",
            "final_test",
            "subject",
        ),
        ("import broken\n", "final_test", "subject"),
        ("def test_it(:\n", "final_test", "verifier"),
        ("from shop import ship\n", "final_test", "ambiguous"),
        ("import needs\n", "final_test", "environment"),
        ("def test_it(nobody): pass\n", "final_test", "verifier"),
        ("def test_it(): assert 0\n", "setup", "environment"),
        ("def test_it(): pass\n", "baseline_run", "verifier"),
    ],
)
def test_whom_it_is_charged_to(
    runs: PytestRuns, test: str, stage: str, charge_to: str
) -> None:
    """All causes and the verdict agree."""
    runs.write({**PROJECT, "tests/test_it.py": test})
    report = runs.run(f"--failure-taxonomy-stage={stage}").report
    assert {cause["charge_to"] for cause in report["causes"]} == {charge_to}
    assert report["verdict"]["charge_to"] == charge_to


def test_a_wrong_call(runs: PytestRuns) -> None:
    """How pytest is called is the harness's."""
    runs.write({"test_it.py": "def test_it(): pass\n"})
    assert runs.run("--no-such-option").report["verdict"]["charge_to"] == "verifier"


def test_a_rule_decides(runs: PytestRuns) -> None:
    """It changes whom it is charged to, and nothing of what has failed."""
    runs.write({"rules.yaml": RULES, "test_it.py": "def test_it(): assert 0\n"})
    run = runs.run("--failure-taxonomy-rules=rules.yaml")
    assert run.exit_status == 1
    assert run.report["verdict"]["charge_to"] == "environment"
    (said,) = run.report["attributions"]
    assert said["charge_to"] == "environment"
