"""The command that repeats a run: it is run, and sees the same failure."""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.prove.experiment import Experiments
from pytest_failure_taxonomy.prove.recorded import setup_of, victims_of
from pytest_failure_taxonomy.report.load import decode_report
from pytest_failure_taxonomy.report.reproduce import reproduction_of
from tests.helpers.children import run_child, run_pytest
from tests.helpers.reports import read_report

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
        (
            "-qx",
            "--size",
            "7",
            "--maxfail",
            "3",
            "--junitxml=j.xml",
            "tests/test_it.py::test_env",
        ),
    ],
)
def test_the_command_sees_the_same_failure(folder: Path, args: tuple[str, ...]) -> None:
    """Each of the options that a test depends on is in it, with its value."""
    before = run_pytest(folder, *args).report()
    (folder / "j.xml").unlink(missing_ok=True)
    for nodeid in before["causes"][0]["nodeids"]:
        command = shlex.split(reproduction_of(decode_report(before)).command(nodeid))
        assert command[:3] == ["python", "-m", "pytest"]
        again = run_child(folder, [sys.executable, *command[1:], "--failure-taxonomy"])
        assert again.status == 1
        report = again.report()
        assert report["summary"]["collected"] == 1
        assert said_of(report, nodeid) == said_of(before, nodeid)
        assert not (folder / "j.xml").exists()


def test_what_the_command_can_not_have(folder: Path) -> None:
    """Options in the environment are not in it, which it says."""
    run = run_pytest(folder, env={"PYTEST_ADDOPTS": "--slow"})
    (words,) = reproduction_of(decode_report(run.report())).missing
    assert words == "the environment variable PYTEST_ADDOPTS, which the run had"


IN_FOLDER: Final = "def test_it():\n    import here\n    assert here.NUMBER == 2\n"
"""It fails in another way where the module is not found."""
MAIN: Final = "import sys, pytest\nsys.exit(pytest.main(sys.argv[1:]))\n"
BIN: Final = Path(sys.executable).parent


@pytest.mark.parametrize(
    ("start", "folder", "program"),
    [
        ("pytest", ".", "pytest"),
        ("python -m pytest", ".", "python -m pytest"),
        ("python -P -m pytest", ".", "pytest"),
        ("python -X dev -b -m pytest", ".", "python -X dev -b -m pytest"),
        ("coverage run -m pytest", ".", "python -m pytest"),
        ("python scripts/main.py", ".", "PYTHONPATH=scripts pytest"),
        ("python -m pytest", "scripts", "PYTHONPATH=scripts pytest"),
        ("python -m pytest -p xdist -n 2", ".", "python -m pytest -p xdist"),
        ("failure-taxonomy run -- python -m pytest", ".", "python -m pytest"),
        ("failure-taxonomy run -- pytest", ".", "pytest"),
    ],
)
@pytest.mark.parametrize("place", [".", "scripts"])
def test_the_command_starts_pytest_in_the_same_way(
    tmp_path: Path, place: str, start: str, folder: str, program: str
) -> None:
    """A test that needs the current folder on `sys.path` fails as it did, and so without it."""
    for path in ("tests", "scripts"):
        (tmp_path / path).mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "tests/test_it.py").write_text(IN_FOLDER)
    (tmp_path / "scripts/main.py").write_text(MAIN)
    (tmp_path / place / "here.py").write_text("NUMBER = 1\n")
    name, *words = start.split()
    report = "--failure-taxonomy-report", str(tmp_path / "failure-report.json")
    args = [*words, "-p", "failure_taxonomy", *report, str(tmp_path / "tests")]
    at_start = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    before = run_child(tmp_path / folder, [str(BIN / name), *args], env=at_start)
    recorded = read_report(tmp_path / "failure-report.json")
    run = reproduction_of(decode_report(recorded))
    nodeid = "tests/test_it.py::test_it"
    command = run.command(nodeid)
    assert command == f"{program} -p failure_taxonomy {nodeid}"
    again = run_child(
        Path(run.folder), ["sh", "-c", f"{command} --failure-taxonomy"], env=at_start
    )
    assert (before.status, again.status) == (1, 1)
    assert said_of(again.report(), nodeid) == said_of(recorded, nodeid)


def test_a_dead_pytest_is_started_in_the_same_way(tmp_path: Path) -> None:
    """How it was started is in the record."""
    (tmp_path / "test_it.py").write_text("import os\ndef test_it(): os._exit(7)\n")
    command = [str(BIN / "python"), "-m", "pytest", "-p", "failure_taxonomy"]
    run_child(tmp_path, [str(BIN / "failure-taxonomy"), "run", "--", *command])
    report = read_report(tmp_path / "failure-report.json")
    assert report["completeness"] == "reconstructed"
    program = "failure-taxonomy run -- python -m pytest -p failure_taxonomy"
    assert (
        reproduction_of(decode_report(report)).command("test_it.py::test_it")
        == f"{program} test_it.py::test_it"
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forks")
@pytest.mark.parametrize(
    ("name", "words", "is_git"),
    [("pytest", [], True), ("python", ["-m", "pytest"], False)],
    ids=["pytest", "module"],
)
def test_an_experiment_starts_pytest_in_the_same_way(
    tmp_path: Path, name: str, words: list[str], is_git: bool
) -> None:
    """The current folder is on `sys.path` as in the run: the same failure is seen."""
    if is_git:
        (tmp_path / ".git").mkdir()
    (tmp_path / "test_dir").mkdir()
    (tmp_path / "test_dir/test_it.py").write_text(IN_FOLDER)
    (tmp_path / "here.py").write_text("NUMBER = 1\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    run_child(
        tmp_path,
        [str(BIN / name), *words, "-p", "failure_taxonomy", "--failure-taxonomy"],
    )
    report = decode_report(read_report(tmp_path / "failure-report.json"))
    (victim,) = victims_of(report, report.causes[0])
    with Experiments(
        setup_of(report), until=time.monotonic() + 60, limit_seconds=30
    ) as runs:
        runs.start()
        assert runs.run(victim, is_fresh=True).result == "failed"


@pytest.mark.parametrize(
    ("args", "options"),
    [
        (("--rootdir", ".."), "--rootdir ."),
        (("--rootdir=..", "-c", "../my.ini"), "--rootdir=. -c my.ini"),
    ],
)
def test_paths_are_those_from_the_root_directory(
    tmp_path: Path, args: tuple[str, ...], options: str
) -> None:
    """Where pytest was called in another folder, the command is for its root all the same."""
    (tmp_path / "my.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text("def test_it(): assert 0\n")
    deep = tmp_path / "deep"
    deep.mkdir()
    path = str(tmp_path / "failure-report.json")
    run_pytest(deep, "..", *args, f"--failure-taxonomy-report={path}")
    run = reproduction_of(decode_report(read_report(Path(path))))
    command = run.command("test_it.py::test_it")
    assert f" {options} test_it.py::test_it" in command
    at_start = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    again = run_child(Path(run.folder), ["sh", "-c", command], env=at_start)
    assert again.status == 1
