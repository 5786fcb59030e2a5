"""What ends pytest before its session: the verdict comes last, after all that pytest says."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.children import run_child

SCRIPTS: Final = Path(sysconfig.get_path("scripts"))
STARTS: Final = {
    "module": [sys.executable, "-m", "pytest"],
    "script": [str(SCRIPTS / "pytest")],
    "run": [
        str(SCRIPTS / "failure-taxonomy"),
        "run",
        "--",
        sys.executable,
        "-m",
        "pytest",
    ],
}
CASES: Final = {
    "conftest": ("import nowhere_to_be_found", (), "ModuleNotFoundError"),
    "plugin": ("pytest_plugins = ['nowhere_to_be_found']", (), "nowhere_to_be_found"),
    "option": ("", ("--no-such-option",), "unrecognized arguments"),
    "path": ("", ("nowhere.py",), "file or directory not found"),
    "bug": ("def pytest_configure(): 1 / 0", (), "ZeroDivisionError"),
}


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.parametrize(
    ("case", "start"),
    [
        *((case, "module") for case in CASES),
        ("option", "script"),
        ("bug", "run"),
        ("path", "run"),
    ],
)
def test_the_verdict_comes_last(tmp_path: Path, case: str, start: str) -> None:
    """After pytest's own error and Python's traceback, in a terminal or one file for both."""
    conftest, args, words = CASES[case]
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (tmp_path / "conftest.py").write_text(f"{conftest}\n", encoding="utf-8")
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n", encoding="utf-8")
    plugins = ["-p", "failure_taxonomy", "-p", "no:cacheprovider", "--failure-taxonomy"]
    for quiet in ([], ["-q"]):
        command = [*STARTS[start], *plugins, *quiet, *args]
        run = run_child(tmp_path, command, stderr=subprocess.STDOUT)
        lines = run.stdout.rstrip("\n").splitlines()
        assert lines[-1] == "report: failure-report.json"
        (headline,) = (at for at, line in enumerate(lines) if line.endswith(".error]"))
        assert "[INTERNAL_ERROR " in lines[headline]
        of_pytest = [at for at, line in enumerate(lines[:headline]) if words in line]
        assert of_pytest, run.stdout
        assert 2 <= len(lines) - headline <= 6
        titles = [at for at, line in enumerate(lines) if "why this run failed" in line]
        assert titles == ([] if quiet else [headline - 1])
