"""`--failure-taxonomy-prove`: a run in which tests failed is followed by our command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.children import REPORT, ChildRun, run_pytest

if sys.platform == "win32":
    pytest.skip("the stand-in is a script of a shell", allow_module_level=True)

PROVE: Final = "--failure-taxonomy-prove=5m"
PYTHON: Final = """#!/bin/sh
echo "$@" >> proved
echo "$FAILURE_TAXONOMY_PROVING ${LEFT_BEHIND-nothing}" >> proved
echo "this is proving"
[ -z "$INTERRUPT" ] || kill -INT 0
exit 2
"""
CONFTEST: Final = """
import pathlib, sys

def pytest_unconfigure():
    sys.executable = str(pathlib.Path(__file__).with_name("python"))
"""
FAILING: Final = """
import os

def test_it():
    os.environ["LEFT_BEHIND"] = "1"
    assert 0
"""
SHOP: Final = """
import shop

def test_default():
    shop.RATE = 0.19

def test_total():
    assert shop.RATE == 0.2
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a failing test, in which Python is a stand-in once pytest has ended."""
    for name, text in (
        ("python", PYTHON),
        ("conftest.py", CONFTEST),
        ("test_it.py", FAILING),
    ):
        (tmp_path / name).write_text(text, "utf-8")
    (tmp_path / "python").chmod(0o755)
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    return tmp_path


def proved(run: ChildRun) -> list[str]:
    """Return how often and how our command was called; each time has two lines."""
    path = run.folder / "proved"
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return lines


@pytest.mark.slow
def test_a_run_that_failed(folder: Path) -> None:
    """The command comes last, with the environment of the start; its status changes nothing."""
    run = run_pytest(folder, PROVE)
    assert run.status == 1
    assert run.tail[-2:] == [f"report: {REPORT}", "this is proving"]
    command = f"-P -m pytest_failure_taxonomy prove {folder / REPORT} --budget 5m"
    assert proved(run) == [command, "1 nothing"]
    (folder / "pytest.ini").write_text(
        "[pytest]\nfailure_taxonomy_prove = 90\n", "utf-8"
    )
    assert proved(run_pytest(folder))[0].endswith("--budget 90")
    interrupted = run_pytest(folder, env={"INTERRUPT": "1"}, start_new_session=True)
    assert len(proved(interrupted)) == 2
    assert (interrupted.status, interrupted.stderr) == (1, "")


@pytest.mark.slow
def test_workers_prove_nothing(folder: Path) -> None:
    """Their controller does, once."""
    run = run_pytest(folder, PROVE, "-n2", plugins=("xdist",))
    assert run.status == 1
    assert len(proved(run)) == 2


@pytest.mark.parametrize(
    ("args", "env"),
    [
        (["--collect-only"], {}),
        (["--deselect", "test_it.py"], {}),
        (["--failure-taxonomy-stage=baseline_run"], {}),
        (["--why-known=known.yaml"], {}),
        (["no_such_file.py"], {}),
        ([], {"PYTEST_CURRENT_TEST": "test_outer.py::test_it (call)"}),
        ([], {"FAILURE_TAXONOMY_PROVING": "1"}),
    ],
)
def test_where_nothing_is_proven(
    folder: Path, args: list[str], env: dict[str, str]
) -> None:
    """Where no test has failed, all are known or have to fail, or another pytest runs this one."""
    (folder / "known.yaml").write_text("- {nodeid: '*', owner: me}\n", "utf-8")
    assert proved(run_pytest(folder, PROVE, *args, env=env)) == []


def test_what_is_no_time(folder: Path) -> None:
    """It is a usage error that says what would be right."""
    for text in ("", "0m", "5 minutes", "-1", "1d"):
        run = run_pytest(folder, f"--why-prove={text}")
        assert run.status == 4
        assert (
            f"--why-prove: {text!r} is no time; give a time such as 90s, 5m or 1h"
            in run.stderr
        )


@pytest.mark.slow
def test_what_is_proven_is_known_in_the_next_run(tmp_path: Path) -> None:
    """The proof is in all faces of the report, and in the history that the run has named."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    (tmp_path / "shop.py").write_text("RATE = 0.2\n", "utf-8")
    (tmp_path / "test_it.py").write_text(SHOP, "utf-8")
    env = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }
    options = ("--why-history=h.db", "--why-html=report.html", "-p", "no:cacheprovider")
    run = run_pytest(tmp_path, "--why-prove=2m", *options, env=env)
    assert run.status == 1
    words = "order-dependent, proven{}: passes alone (5 of 5), fails after {} (5 of 5)"
    told = words.format("", "test_it.py::test_default")
    assert f"   {told}" in run.tail
    report = run.report()
    (cause,) = report["causes"]
    assert (cause["proof"]["type"], cause["retryable"]) == ("order.polluted", False)
    assert told in (tmp_path / "report.html").read_text("utf-8")
    _, proofs = (tmp_path / "summary.md").read_text("utf-8").split("### Proofs\n\n")
    assert proofs.startswith(
        "#### 1 x `assert 0.19 == 0.2: test_total (test_it.py:8)`\n\norder-"
    )
    assert proofs.rstrip().endswith("test_it.py::test_default test_it.py::test_total`")
    later = run_pytest(tmp_path, "--why-history=h.db")
    started_at = report["run"]["started_at"]
    assert (
        words.format(f" on {started_at[:10]}", "test_it.py::test_default") in later.told
    )
    (cause,) = later.report()["causes"]
    assert cause["proof"]["known_since"][:19] == started_at[:19]
