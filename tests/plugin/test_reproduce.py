"""The command that repeats a run: it is run, and sees the same failure."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.report.reproduce import reproduction_of
from tests.helpers.children import run_child, run_pytest

CONFTEST: Final = """
import pytest

def pytest_addoption(parser):
    parser.addoption("--env", default="local")
    parser.addoption("--size")
    parser.addoption("--slow", action="store_true")
"""
TESTS: Final = """
def test_env(request):
    option = request.config.option
    assert (option.env, option.size, option.slow) == ("local", None, False)

def test_ini(pytestconfig):
    assert pytestconfig.getini("xfail_strict") is False

def test_passes():
    pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with options of its own and tests that fail by them."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(TESTS, encoding="utf-8")
    return tmp_path


def said_of(report: dict[str, Any], nodeid: str) -> str:
    """Return what the exception of a failed test says."""
    (failure,) = (each for each in report["failures"] if each["nodeid"] == nodeid)
    return str(failure["exception"]["message"])


@pytest.mark.parametrize(
    "args",
    [
        ("--env=staging", "--size", "3 x", "--slow", "tests"),
        ("--slow", "tests/test_it.py", "-o", "xfail_strict=true", "-k", "env or ini"),
        ("-qx", "--size", "7", "--maxfail", "3", "--junitxml=j.xml", "tests/test_it.py::test_env"),
    ],
)
def test_the_command_sees_the_same_failure(folder: Path, args: tuple[str, ...]) -> None:
    """Each of the options that a test depends on is in it, with its value."""
    before = run_pytest(folder, *args).report()
    (folder / "j.xml").unlink(missing_ok=True)
    for nodeid in before["causes"][0]["nodeids"]:
        command = shlex.split(reproduction_of(before).command(nodeid))
        assert command[0] == "pytest"
        again = run_child(
            folder, [sys.executable, "-m", "pytest", "--failure-taxonomy", *command[1:]]
        )
        assert again.status == 1
        report = again.report()
        assert report["summary"]["collected"] == 1
        assert said_of(report, nodeid) == said_of(before, nodeid)
        assert not (folder / "j.xml").exists()


def test_what_the_command_can_not_have(folder: Path) -> None:
    """Options in the environment are not in it, which it says; nor does it need the cache."""
    run = run_pytest(folder, env={"PYTEST_ADDOPTS": "--slow"})
    (words,) = reproduction_of(run.report()).missing
    assert words == "the environment variable PYTEST_ADDOPTS, which the run had"
    assert not reproduction_of(run.report()).has_cache
