"""Make what a pytest leaves that was killed: the report that says `running`, and its record."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.survive.folder import record_folder
from pytest_failure_taxonomy.survive.layout import EVENTS, STATE
from tests.helpers.children import REPORT, SWITCH, child_environment, pytest_command

_DEADLINE_SECONDS: Final = 60.0
_SUITE: Final = """\
import pathlib, time, warnings
import pytest

def test_passes(): pass

@pytest.mark.skip(reason="not today")
def test_is_skipped(): pass

@pytest.mark.xfail(reason="known")
def test_is_known(): assert 0

def test_fails():
    warnings.warn("old")
    password = "hunter2-hunter2"
    assert {"total": 3, "who": "Zoë \\u202e"} == {"total": 4}, password

@pytest.fixture
def broken(): raise LookupError("no such table")

def test_has_no_setup(broken): pass

def test_is_in_flight():
    pathlib.Path("up").touch()
    time.sleep(600)

def test_is_never_run(): pass
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadRun:
    """A run that was killed, and that nobody has looked at since."""

    folder: Path
    run_id: str

    @property
    def report(self) -> Path:
        """Where the report is."""
        return self.folder / REPORT

    @property
    def record(self) -> Path:
        """The folder of its record."""
        return record_folder(self.report, self.run_id)

    @property
    def contents(self) -> tuple[bytes, bytes]:
        """What the two files of the record hold: numbers and events."""
        return (self.record / STATE).read_bytes(), (self.record / EVENTS).read_bytes()


def make_dead_run(folder: Path) -> DeadRun:
    """Have pytest run in a folder, without a watcher, and kill it in its sixth test."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pytest.ini").write_text(
        "[pytest]\nfailure_taxonomy_watcher = false\n", "utf-8"
    )
    (folder / "test_it.py").write_text(_SUITE, "utf-8")
    with subprocess.Popen(
        pytest_command(SWITCH, "-q"),
        cwd=folder,
        env=child_environment(),
        stdout=subprocess.DEVNULL,
    ) as child:
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while not (folder / "up").exists():
            assert child.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        child.kill()
    report: dict[str, Any] = json.loads((folder / REPORT).read_bytes())
    assert report["completeness"] == "running"
    return DeadRun(folder=folder, run_id=report["run"]["id"])
