"""What is known of a process: who it is, what limits it, how memory went, what it has started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.system import process
from pytest_failure_taxonomy.system.process import (
    descendants,
    enclosing_limits,
    is_alive,
    is_interactive_shell,
    name_of,
    read_identity,
)

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="needs Linux's /proc"
)

DEADLINE_SECONDS: Final = 30.0


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Have a command run that prints a line when it is up, and end it."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            yield child
        finally:
            child.kill()


def python(code: str) -> tuple[str, ...]:
    """Return a command that runs code, says that it is up, and waits."""
    return (
        sys.executable,
        "-c",
        f"{code}; import time; print(flush=True); time.sleep(60)",
    )


# Who one is.


def test_a_process_is_alive_until_it_ends() -> None:
    """A process that runs is alive; a zombie is not, and nothing is when it has been waited for."""
    with running(*python("pass")) as child:
        identity = read_identity(child.pid)
        assert is_alive(identity)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not is_alive(identity)
        child.wait()
        assert not is_alive(identity)
    assert is_alive(read_identity(os.getpid()))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"start_ticks": 1}, id="number-used-again"),
        pytest.param({"boot_id": "another"}, id="machine-started-again"),
        pytest.param({"boot_id": None}, id="other-system"),
        pytest.param({"start_ticks": None}, id="start-unknown"),
    ],
)
def test_a_later_process_of_the_same_number_is_another(changes: dict[str, Any]) -> None:
    """The number alone does not make a process the same."""
    assert not is_alive({**read_identity(os.getpid()), **changes})


@pytest.mark.parametrize("number", [0, -1, 2**22 + 7])
def test_a_number_of_no_process_is_not_alive(number: int) -> None:
    """Nothing is known of what is not there, and nothing is raised."""
    identity = read_identity(number)
    assert (identity["pid"], identity["start_ticks"]) == (number, None)
    assert not is_alive(identity)


def test_a_name_with_blanks_and_brackets() -> None:
    """A process can name itself as it likes; its fields are found behind its name."""
    rename = (
        "import ctypes, threading; "
        "ctypes.CDLL(None).prctl(15, b') Z (x) 1 2', 0, 0, 0)"  # PR_SET_NAME
    )
    with running(*python(rename)) as child:
        assert name_of(child.pid) == ") Z (x) 1 2"
        assert is_alive(read_identity(child.pid))
        assert child.pid in descendants(os.getpid())
    assert name_of(child.pid) is None


def test_descendants_are_found_at_any_depth() -> None:
    """Children's children are among them; the process itself is not."""
    nested = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', {!r}])"
    grandchild = "import time; print(flush=True); time.sleep(60)"
    with running(sys.executable, "-c", nested.format(grandchild) + ".wait()") as child:
        found = descendants(child.pid)
        assert len(found) == 1
        assert {child.pid, *found} <= set(descendants(os.getpid()))
        assert os.getpid() not in descendants(os.getpid())
        os.kill(found[0], 9)


# What limits it.


@pytest.mark.parametrize(
    ("arguments", "seconds"),
    [
        ("timeout 100 pytest", 100.0),
        ("timeout 1.5 pytest", 1.5),
        ("timeout .5 pytest", 0.5),
        ("timeout 2. pytest", 2.0),
        ("timeout 10s pytest", 10.0),
        ("timeout 2m pytest 5", 120.0),
        ("timeout 1h pytest", 3_600.0),
        ("timeout 1.5d pytest", 129_600.0),
        ("timeout -k 5 100 pytest", 100.0),
        ("timeout -k5 100 pytest", 100.0),
        ("timeout --kill-after 5 100 pytest", 100.0),
        ("timeout --kill-after=5 100 pytest", 100.0),
        ("timeout -s KILL 100 pytest", 100.0),
        ("timeout -sKILL 100 pytest", 100.0),
        ("timeout --signal=9 -v --foreground 100 pytest", 100.0),
        ("timeout --preserve-status -k 1m -s TERM 7 pytest -k 3", 7.0),
        ("timeout -- 100 pytest", 100.0),
        ("timeout 0 pytest", None),
        ("timeout 0.0 pytest", None),
        ("timeout pytest", None),
        ("timeout 10x pytest", None),
        ("timeout infinity pytest", None),
        ("timeout --help", None),
        ("timeout", None),
        ("", None),
    ],
)
def test_the_budget_of_a_timeout_command(arguments: str, seconds: float | None) -> None:
    """The time that a command line allows; what can't be read, and 0, is no limit."""
    assert process._timeout_budget(arguments.split()) == seconds


@pytest.mark.skipif(shutil.which("timeout") is None, reason="needs GNU timeout")
def test_a_real_timeout_is_found() -> None:
    """A process below `timeout` knows its budget and since when it runs."""
    before_ns = time.monotonic_ns()
    with running("timeout", "-k", "5", "100", *python("pass")) as child:
        (inner,) = descendants(child.pid)
        limit = enclosing_limits(inner)[0]
        assert (limit["pid"], limit["budget_seconds"]) == (child.pid, 100.0)
        assert before_ns - 20_000_000 <= limit["started_ns"] <= time.monotonic_ns()
        os.kill(inner, 9)
    assert [each["pid"] for each in enclosing_limits(os.getpid())].count(child.pid) == 0


@pytest.mark.skipif(shutil.which("timeout") is None, reason="needs GNU timeout")
def test_timeouts_within_timeouts_are_all_found() -> None:
    """The inner one comes first."""
    with running("timeout", "50", "timeout", "1m", *python("pass")) as child:
        inner = descendants(child.pid)
        limits = enclosing_limits(inner[-1])
        assert [limit["budget_seconds"] for limit in limits][:2] == [60.0, 50.0]
        os.kill(inner[-1], 9)


def test_a_process_that_is_gone_has_no_limits() -> None:
    """Nothing is raised for a number that is no process."""
    assert enclosing_limits(2**22 + 7) == []


@pytest.mark.parametrize(
    ("line", "is_interactive"),
    [
        ("-bash", True),
        ("bash", True),
        ("/usr/bin/zsh -i -l", True),
        ("bash --init-file /opt/code/shell.sh", True),
        ("fish", True),
        ("sh -c pytest", False),
        ("bash -lc pytest", False),
        ("bash run-tests.sh", False),
        ("bash --rcfile x run-tests.sh", False),
        ("/usr/bin/python -m pytest", False),
        ("tox", False),
        ("", False),
    ],
)
def test_an_interactive_shell(line: str, is_interactive: bool) -> None:
    """A shell that executes a command or a script ends soon after it."""
    assert is_interactive_shell([*line.split(" "), ""]) is is_interactive
