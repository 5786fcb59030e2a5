"""Every exit code and every signal: `run` ends as its command did, and says so in the report."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.helpers.children import REPORT, child_environment, pytest_command, run_child
from tests.helpers.reports import read_report

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals"),
]

RUN: Final = (sys.executable, "-m", "pytest_failure_taxonomy", "run", "--")
NO_CORE: Final = "import os, resource, signal; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); "

STOPPING: Final = frozenset({"SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU"})
HARMLESS: Final = frozenset({"SIGCHLD", "SIGCLD", "SIGCONT", "SIGURG", "SIGWINCH"})
"""What a process that has not asked for them does not notice."""


def name_of(number: int) -> str:
    """Return what a signal is called, its number where it has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:  # one of the real-time signals between the first and the last
        return str(number)


SIGNALS: Final = {
    name_of(number): int(number)
    for number in sorted(signal.valid_signals())
    if name_of(number) not in STOPPING | HARMLESS
}
FORWARDED: Final = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2")


def supervise(folder: Path, command: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """Run a command under `run`; return the exit status and the report's `exit`."""
    run = run_child(folder, [*RUN, *command])
    ended: dict[str, Any] = read_report(folder / REPORT)["exit"]
    assert "Traceback" not in run.stderr
    return run.status, ended


@pytest.mark.attack("code", range(256), some=8)
def test_an_exit_code_of_a_command(tmp_path: Path, code: int) -> None:
    """Each of the 256 codes comes through, and stands in the report."""
    status, ended = supervise(tmp_path, ["sh", "-c", f"exit {code}"])
    assert (status, ended["code"], ended["observed"]) == (code, code, True)


@pytest.mark.attack("code", range(1, 256), some=6)
def test_an_exit_code_of_pytest(tmp_path: Path, code: int) -> None:
    """Whatever `pytest.exit` is told to return is what `run` returns."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    test = f"import pytest\ndef test_it(): pytest.exit('enough', returncode={code})\n"
    (tmp_path / "test_it.py").write_text(test, "utf-8")
    status, ended = supervise(tmp_path, pytest_command())
    assert (status, ended["code"]) == (code, code)


@pytest.mark.attack("number", SIGNALS, some=8)
def test_a_signal_that_ends_a_command(tmp_path: Path, number: int) -> None:
    """A command that a signal has ended ends `run` by the same signal."""
    died = f"{NO_CORE}os.kill(os.getpid(), signal.SIGKILL if {number} == 9 else {number})"
    reset = f"{NO_CORE}{number} in (9, 32, 33) or signal.signal({number}, signal.SIG_DFL); "
    status, ended = supervise(tmp_path, [sys.executable, "-S", "-c", reset + died])
    assert status == -number
    assert ended["code"] == 128 + number
    if not name_of(number).isdigit():
        assert ended["signal"] == name_of(number)


@pytest.mark.attack("name", FORWARDED, some=3)
def test_a_signal_that_is_passed_on(tmp_path: Path, name: str) -> None:
    """What another process sends to `run`, the command gets, and with it its last word."""
    number = int(signal.Signals[name])
    program = (
        "import os, pathlib, signal, time\n"
        f"signal.signal({number}, lambda *_: os._exit(77))\n"
        "pathlib.Path('up').touch()\n"
        "time.sleep(100)\n"
    )
    with subprocess.Popen(
        [*RUN, sys.executable, "-S", "-c", program],
        cwd=tmp_path,
        env=child_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as child:
        while not (tmp_path / "up").exists():
            assert child.poll() is None
        child.send_signal(number)
        assert child.wait() == 77
    assert read_report(tmp_path / REPORT)["exit"]["code"] == 77


@pytest.mark.attack("name", sorted(HARMLESS - {"SIGCLD", "SIGCHLD"}), some=1)
def test_a_signal_that_ends_nothing(tmp_path: Path, name: str) -> None:
    """What a process does not notice, `run` does not notice either."""
    program = f"import os, signal; os.kill(os.getppid(), signal.{name})"
    status, ended = supervise(tmp_path, [sys.executable, "-S", "-c", program])
    assert (status, ended["code"]) == (0, 0)
