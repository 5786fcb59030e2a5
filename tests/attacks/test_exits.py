"""Every exit code and every signal: `run` ends as its command did, and says so in the report."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.helpers.children import (
    REPORT,
    SWITCH,
    child_environment,
    pytest_command,
    run_child,
)
from tests.helpers.reports import read_report

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals"),
]

RUN: Final = (sys.executable, "-m", "pytest_failure_taxonomy", "run", "--")
NO_CORE: Final = (
    "import os, resource, signal; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); "
)

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


@pytest.mark.attack("code", range(256), some=3)
def test_an_exit_code_of_a_command(tmp_path: Path, code: int) -> None:
    """Each of the 256 codes comes through, and stands in the report."""
    status, ended = supervise(tmp_path, ["sh", "-c", f"exit {code}"])
    assert (status, ended["code"], ended["observed"]) == (code, code, True)


@pytest.mark.attack("code", range(1, 256), some=2)
def test_an_exit_code_of_pytest(tmp_path: Path, code: int) -> None:
    """Whatever `pytest.exit` is told to return is what `run` returns."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    test = f"import pytest\ndef test_it(): pytest.exit('enough', returncode={code})\n"
    (tmp_path / "test_it.py").write_text(test, "utf-8")
    status, ended = supervise(tmp_path, pytest_command())
    assert (status, ended["code"]) == (code, code)


@pytest.mark.attack("number", SIGNALS, some=4)
def test_a_signal_that_ends_a_command(tmp_path: Path, number: int) -> None:
    """A command that a signal has ended ends `run` by the same signal."""
    died = (
        f"{NO_CORE}os.kill(os.getpid(), signal.SIGKILL if {number} == 9 else {number})"
    )
    reset = (
        f"{NO_CORE}{number} in (9, 32, 33) or signal.signal({number}, signal.SIG_DFL); "
    )
    status, ended = supervise(tmp_path, [sys.executable, "-S", "-c", reset + died])
    assert status == -number
    assert ended["code"] == 128 + number
    if not name_of(number).isdigit():
        assert ended["signal"] == name_of(number)


@pytest.mark.attack("name", FORWARDED, some=2)
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


# A pytest that answers 0.

BAD: Final = "def test_it(): assert 0\n"
GOOD: Final = "def test_it(): pass\n"
LEAVES: Final = "import sys; sys.exit(0)\n"
IN_HOOK: Final = "import sys\ndef {}(): sys.exit(0)\n"
AT_EXIT: Final = {
    "test_it.py": f"import atexit, os; atexit.register(os._exit, 0)\n{BAD}"
}
CONFTEST: Final = {"conftest.py": LEAVES, "test_it.py": BAD}
BY_CONFTEST: Final = (
    "conftest.py ended pytest with status 0 before any test ran (conftest.py:1)"
)
BEFORE_ANY: Final = "pytest with status 0 before any test ran, then the process exited before pytest had finished"
AT_LINE_1: Final = "1 test failed: assert 0: test_it (test_it.py:1)"
AT_LINE_2: Final = "1 test failed: assert 0: test_it (test_it.py:2)"
IN_BOTH: Final = "1 test failed, and conftest.py ended pytest with status 0 (conftest.py:2, in pytest_{})"
PYTEST: Final = pytest_command()
XDIST: Final = pytest_command("-n2", plugins=("failure_taxonomy", "xdist"))
AS_INSTALLED: Final = [sys.executable, "-m", "pytest"]
BASELINE: Final = ["--stage=baseline_run", "--", *PYTEST]


def in_hook(hook: str, test: str = BAD) -> dict[str, str]:
    """Return a suite of one test whose conftest leaves in a hook."""
    return {"conftest.py": IN_HOOK.format(hook), "test_it.py": test}


def shell(line: str) -> list[str]:
    """Return a command that is no pytest and runs one."""
    return ["sh", "-c", f"{line.format(pytest=' '.join([*PYTEST, SWITCH]))}; true"]


ANSWERS: Final[Mapping[str, tuple[Mapping[str, str], list[str], int, str]]] = {
    # Its session had failed.
    "at-exit": (AT_EXIT, PYTEST, 1, AT_LINE_2),
    "at-exit-xdist": (
        {
            "conftest.py": "import atexit, os; atexit.register(os._exit, 0)\n",
            "test_it.py": BAD,
        },
        XDIST,
        1,
        AT_LINE_1,
    ),
    "at-exit-in-a-shell": (AT_EXIT, shell("{pytest}"), 1, AT_LINE_2),
    "sessionfinish": (
        in_hook("pytest_sessionfinish"),
        PYTEST,
        1,
        IN_BOTH.format("sessionfinish"),
    ),
    "unconfigure": (
        in_hook("pytest_unconfigure"),
        PYTEST,
        1,
        IN_BOTH.format("unconfigure"),
    ),
    # It never finished its session.
    "import": (
        {
            "tests/own.py": LEAVES,
            "tests/conftest.py": "import own\n",
            "tests/test_it.py": BAD,
        },
        [*PYTEST, "tests"],
        3,
        (
            "tests/conftest.py ended pytest with status 0 before any test ran (tests/own.py:1, "
            "from tests/conftest.py)"
        ),
    ),
    "conftest": (CONFTEST, PYTEST, 3, BY_CONFTEST),
    "conftest-xdist": (CONFTEST, XDIST, 3, BY_CONFTEST),
    "conftest-in-a-shell": (CONFTEST, shell("{pytest}"), 3, BY_CONFTEST),
    "conftest-under-coverage": (
        CONFTEST,
        [sys.executable, "-m", "coverage", "run", *PYTEST[1:]],
        3,
        BY_CONFTEST,
    ),
    "conftest-below": (
        {"a/b/conftest.py": LEAVES, "a/b/test_it.py": BAD},
        PYTEST,
        3,
        "SystemExit: 0 (a/b/conftest.py:1)",
    ),
    "configure": (
        in_hook("pytest_configure"),
        PYTEST,
        3,
        "SystemExit: 0 (conftest.py:2, in pytest_configure)",
    ),
    "load-conftests": (
        {"own.py": IN_HOOK.format("pytest_load_initial_conftests"), "test_it.py": BAD},
        [*PYTEST, "-p", "own"],
        3,
        (
            "own.py ended pytest with status 0 before any test ran (own.py:2, in "
            "pytest_load_initial_conftests)"
        ),
    ),
    "plugin": (
        {"own.py": LEAVES, "test_it.py": BAD},
        [*AS_INSTALLED, "-p", "own"],
        3,
        f"own ended {BEFORE_ANY}",
    ),
    "plugin-of-a-file": (
        {"own.py": LEAVES, "pytest.ini": "[pytest]\naddopts = -p own\n"},
        AS_INSTALLED,
        3,
        f"own (from addopts in pytest.ini) ended {BEFORE_ANY}",
    ),
    # It is right.
    "forgiven": (
        {
            "conftest.py": "def pytest_sessionfinish(session): session.exitstatus = 0\n",
            "test_it.py": BAD,
        },
        PYTEST,
        0,
        "",
    ),
    "passed-unconfigure": (
        in_hook("pytest_unconfigure", GOOD),
        PYTEST,
        0,
        "conftest.py ended pytest with status 0 (conftest.py:2, in pytest_unconfigure)",
    ),
    "plugin-and-help": (
        {"own.py": "", "test_it.py": BAD},
        [*AS_INSTALLED, "-pown", "-h"],
        0,
        "",
    ),
    "plugin-without-us": (
        {"own.py": "", "test_it.py": BAD},
        [*AS_INSTALLED, "-pown", "-pno:failure_taxonomy", "--co"],
        0,
        "",
    ),
    "listed": (CONFTEST, [*PYTEST, "--collect-only"], 0, BY_CONFTEST),
    "version": (CONFTEST, [*PYTEST, "--version"], 0, ""),
    # It is a baseline, or the command is no pytest.
    "baseline": (
        CONFTEST,
        BASELINE,
        0,
        f"{BY_CONFTEST}, then the tests pass before the fix",
    ),
    "baseline-at-exit": (
        AT_EXIT,
        BASELINE,
        0,
        (
            "the process exited with code 0 after the session had ended with exit code 1, then "
            "the tests pass before the fix"
        ),
    ),
    "shell": ({"test_it.py": BAD}, shell("{pytest}"), 0, AT_LINE_1),
    "text": ({}, ["sh", "-c", "echo '1 failed in 0.1s'"], 0, ""),
}


@pytest.mark.attack("answer", ANSWERS, some=4)
def test_a_pytest_that_answers_0(
    tmp_path: Path, answer: tuple[Mapping[str, str], list[str], int, str]
) -> None:
    """`run` ends with the session's own status, and with 3 where that is not to be had."""
    files, command, status, words = answer
    for path, content in {"pytest.ini": "[pytest]\n", **files}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content, "utf-8")
    ends_options = [] if "--" in command else ["--"]
    run = run_child(
        tmp_path,
        [*RUN[:-1], *ends_options, *command],
        env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": None}
        if command[:3] == AS_INSTALLED
        else {},
    )
    report = read_report(tmp_path / REPORT)
    verdict = report["verdict"]
    assert (run.status, verdict["message"] if verdict else "") == (status, words)
    assert ("run: pytest" in run.stderr) == (status not in (0, report["exit"]["code"]))
