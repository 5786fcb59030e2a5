"""Ctrl+C in the middle of our own code: pytest ends as it would have, and the report says why."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any, Final

import pytest

import pytest_failure_taxonomy
from tests.attacks.conftest import Attacks
from tests.helpers.children import REPORT, SWITCH, ChildRun, pytest_command, run_child
from tests.helpers.reports import assert_valid_report

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("nothing_imported")]

PACKAGE: Final = Path(pytest_failure_taxonomy.__file__).parent

PRESS: Final = f"""\
import atexit, pathlib, signal, sys
HERE = pathlib.Path(__file__).parent
PACKAGE = {str(PACKAGE)!r}
signal.signal(signal.SIGINT, signal.default_int_handler)
at = (HERE / "at").read_text()
seen = set()

def enter(frame, event, arg):
    return step if frame.f_code.co_filename.startswith(PACKAGE) else None

def step(frame, event, arg):
    place = frame.f_code.co_filename, frame.f_lineno
    # The report is what is promised, and there is none before the plugin has been asked for it.
    if event == "line" and place not in seen and "lifecycle" in "".join(sys.modules):
        seen.add(place)
        name = "%s %s" % (place[0][len(PACKAGE) + 1 :], frame.f_code.co_name)
        if at in (str(len(seen)), name):
            sys.settrace(None)
            (HERE / "pressed").write_text("%s, line %d" % (name, frame.f_lineno))
            signal.raise_signal(signal.SIGINT)
    return step

sys.settrace(enter)
atexit.register(lambda: (HERE / "lines").write_text(str(len(seen))))
"""

SUITE: Final = "def test_passes(): pass\ndef test_fails(): assert 0\n"
EARLIER: Final = '{"run": {"id": "00"}, "completeness": "full", "verdict": null}'
BATCHES: Final = 4
DEADLINE_SECONDS: Final = 60.0


def wait_for_completion(folder: Path) -> dict[str, Any]:
    """Return a report when it is complete, and the record gone: a watcher may be at work."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        report: dict[str, Any] = json.loads((folder / REPORT).read_bytes())
        left = [each.name for each in folder.glob(f".{REPORT}*")]
        if report["completeness"] != "running" and not left:
            return report
        assert time.monotonic() < deadline, f"{report['completeness']}, left: {left}"
        time.sleep(0.01)


def press_at(folder: Path, at: str) -> tuple[ChildRun, str]:
    """Run pytest, with Ctrl+C at a line of ours; return the run and the place.

    Args:
        folder: for the run.
        at: how many different lines of ours were run by then, or a file and a function's name.
    """
    folder.mkdir()
    for name, text in {
        "pytest.ini": "[pytest]\n",
        "test_it.py": SUITE,
        "press.py": PRESS,
        "at": at,
        REPORT: EARLIER,
    }.items():
        (folder / name).write_text(text, "utf-8")
    command = pytest_command(SWITCH, plugins=("press", "failure_taxonomy"))
    run = run_child(folder, command)
    place = folder / "pressed"
    return run, place.read_text("utf-8") if place.exists() else ""


@pytest.mark.parametrize("batch", range(BATCHES))
def test_ctrl_c_at_any_line(tmp_path: Path, attacks: Attacks, batch: int) -> None:
    """Wherever it comes, pytest ends as an interrupted one does, an earlier run's report is gone,
    and this run's says that it was interrupted.
    """
    run, _ = press_at(tmp_path / "never", "never")
    assert run.status == 1
    lines = range(1 + batch, int((tmp_path / "never" / "lines").read_text()), BATCHES)
    for line in attacks.sample(lines, 1):
        run, place = press_at(tmp_path / str(line), str(line))
        assert run.status in (2, -signal.SIGINT), place
        report = wait_for_completion(run.folder)
        assert_valid_report(report)
        # When pytest has printed its last line, the verdict is on what the tests did.
        kinds = {"interrupt.keyboard", *(["test.failed"] if run.outcome else [])}
        assert report["verdict"]["kind"] in kinds, place


@pytest.mark.parametrize(
    "at",
    [
        "hooks/settings.py read_settings",
        "survive/lock.py acquire",
        "hooks/progress.py select",
    ],
)
def test_ctrl_c_where_a_run_begins(tmp_path: Path, at: str) -> None:
    """A run that has half begun when Ctrl+C comes, or half noted its tests, is reported, too."""
    run, place = press_at(tmp_path / "run", at)
    assert place.startswith(at)
    report = run.report()
    assert report["verdict"]["kind"] == "interrupt.keyboard"
    assert report["exit"]["code"] == (2 if run.status == 2 else 130)
