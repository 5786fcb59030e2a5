"""A report that somebody else has written has nothing run but the project's own tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.cli.main import main
from tests.helpers.reports import read_report
from tests.helpers.runs import REPORT, PytestRuns

pytestmark = pytest.mark.slow

EVIL: Final = "open('has-run', 'w').close()\n"
FORGED: Final = {
    "a plugin": lambda report: has_args(report, "-p", "evilmod"),
    "options of the configuration": lambda report: has_args(
        report, "-o", "pythonpath=evil", "-pevilmod", "-o", "log_file=mine.txt"
    ),
    "another configuration": lambda report: has_args(report, "-xcevil/pytest.ini"),
    "another folder's tests": lambda report: has_args(report, "../evil"),
    "arguments in a file": lambda report: has_args(report, "@evil/words"),
    "a class of warnings": lambda report: has_args(
        report, "-W", "error\n::evilmod.Warning"
    ),
    "another root directory": lambda report: report["run"]["invocation"].update(
        rootdir=str(Path("evil").absolute().parents[1])
    ),
    "another machine": lambda report: report["environment"].update(
        platform="Linux-1-x86_64"
    ),
}
COMMANDS: Final = (
    ("prove",),
    ("prove", "--resume"),
    ("prove", "--fixed"),
    ("prove", "--new"),
    ("prove", "--commit", "--good", "HEAD"),
    ("bisect-step",),
)


def has_args(report: dict[str, Any], *args: str) -> None:
    """Put arguments into a report's command line."""
    report["run"]["invocation"]["args"] += args


@pytest.mark.parametrize("name", FORGED)
def test_a_report_of_anybodys_runs_nothing(
    runs: PytestRuns,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    """Whatever asks for it: the command is shown, and no process starts."""
    forge: Callable[[dict[str, Any]], Any] = FORGED[name]
    monkeypatch.chdir(runs.path)
    runs.write(
        {
            "test_it.py": "def test_it(): assert 0\n",
            "evilmod.py": EVIL,
            "mine.txt": "mine",
        }
    )
    runs.run()
    report = read_report(runs.path / REPORT)
    forge(report)
    (runs.path / REPORT).write_text(json.dumps(report), "ascii")
    monkeypatch.setattr(
        "subprocess.Popen", lambda *_, **__: pytest.fail("a process has started")
    )
    for command in COMMANDS:
        capsys.readouterr()
        code = main([*command, REPORT])
        said = capsys.readouterr()
        assert (code, said.out) == (128 if command == ("bisect-step",) else 2, "")
        why, how, *shown = said.err.splitlines()
        assert why.startswith(
            f"failure-taxonomy: {command[0]}: anybody may have written {REPORT}"
        )
        folder = report["run"]["invocation"]["rootdir"]
        assert (
            how
            == f"to go on: failure-taxonomy {command[0]} --yes, which runs in {folder}:"
        )
        assert shown[0].startswith("python -m pytest ")
    assert not (runs.path / "has-run").exists()


def test_what_is_agreed_to_is_shown_and_writes_to_no_file(
    runs: PytestRuns,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The whole command stands there, and what its options name to be written stays as it was."""
    monkeypatch.chdir(runs.path)
    runs.write({"test_it.py": "def test_it(): assert 0\n", "mine.txt": "mine"})
    runs.run()
    report = read_report(runs.path / REPORT)
    has_args(report, f"--junitxml={runs.path / 'mine.txt'}", "-o", "log_file=mine.txt")
    (runs.path / REPORT).write_text(json.dumps(report), "ascii")
    with monkeypatch.context() as patched:  # as where pytest itself has just written it
        patched.setenv("FAILURE_TAXONOMY_PROVING", "1")
        assert main(["prove", "--cause", "9", REPORT]) == 2
    assert "there is no cause 9" in capsys.readouterr().err
    assert main(["prove", "--fixed", "--yes", REPORT]) == 1
    folder, shown, _, answer = capsys.readouterr().out.splitlines()
    assert folder == f"runs in {runs.path}:"
    assert shown.startswith("python -m pytest ")
    assert shown.endswith(" -o log_file=mine.txt")
    assert answer == "   not fixed: failed in run 1"
    assert (runs.path / "mine.txt").read_text() == "mine"
