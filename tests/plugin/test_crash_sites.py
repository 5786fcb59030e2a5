"""Where a crash was, and the last that was written: in the report, and on stderr as without us."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.helpers.children import (
    REPORT,
    SWITCH,
    ChildRun,
    child_environment,
    pytest_command,
    run_child,
    run_plain_pytest,
    run_pytest,
)
from tests.helpers.reports import assert_valid_report
from tests.helpers.waiting import wait_until

if not sys.platform.startswith("linux"):
    pytest.skip("the watcher needs Linux", allow_module_level=True)

NO_CORE: Final = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
LIBRARY: Final = "import os\ndef deep(number):\n    os.kill(os.getpid(), number)\n"
WRITES: Final = (
    "    print('one line', 'password=hunter2-hunter2')\n"
    "    os.write(2, b'malloc(): \\xff corrupted\\x1b[0m\\n')\n"
)
CRASHES: Final = (
    "import os, own\ndef test_a(): pass\ndef test_b():\n"
    + WRITES
    + "    own.deep({number})\n"
)
FATAL: Final = "Fatal Python error: "


def write(folder: Path, content: str, **files: str) -> None:
    """Write a configuration, a test file, and modules by their names."""
    folder.mkdir(exist_ok=True)
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n", "utf-8")
    for name, text in {
        "own": LIBRARY,
        "conftest": NO_CORE,
        "test_it": content,
        **files,
    }.items():
        (folder / f"{name}.py").write_text(text, "utf-8")


def final_report(folder: Path) -> dict[str, Any]:
    """Wait until the report of a dead run is complete, and return it."""

    def completed() -> dict[str, Any] | None:
        report: dict[str, Any] = json.loads((folder / REPORT).read_bytes())
        return report if report["completeness"] != "running" else None

    report: dict[str, Any] = wait_until(completed, "the report")
    assert_valid_report(report)
    assert report["faults"] == []
    return report


def stacks_of(run: ChildRun) -> list[str]:
    """Return the lines that faulthandler has written, without addresses and folders."""
    lines = run.stderr[run.stderr.index(FATAL) :].splitlines()
    return [
        re.sub("0x[0-9a-f]+", "0xN", each).replace(str(run.folder), "")
        for each in lines
    ]


def check_output(output: str) -> None:
    """Check what `WRITES` has written: without its secret, and with what can't be decoded."""
    assert output.startswith("captured stdout:\none line password=[REDACTED:")
    assert output.endswith("\ncaptured stderr:\nmalloc(): \ufffd corrupted\x1b[0m")


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE"])
def test_a_crash_of_pytest(tmp_path: Path, name: str) -> None:
    """The report has the frames and the output; the user sees the same on stderr as always."""
    number = int(getattr(signal, name))
    write(tmp_path, CRASHES.format(number=number))
    run = run_pytest(tmp_path)
    assert run.status == -number
    report = final_report(tmp_path)
    (test,) = report["in_flight"]
    head, *frames = test["stack"].splitlines()
    assert head.startswith("Current thread 0x")
    assert [frame.strip() for frame in frames[:2]] == [
        f'File "{tmp_path}/own.py", line 3, in deep',
        f'File "{tmp_path}/test_it.py", line 6, in test_b',
    ]
    assert len(frames) <= 40
    assert test["location"] == {"path": "own.py", "line": 3}
    check_output(test["output"])
    verdict = report["verdict"]
    assert (verdict["kind"], verdict["nodeid"]) == (
        "process.crashed",
        "test_it.py::test_b",
    )
    assert [each["detail"].splitlines()[0] for each in verdict["evidence"]] == [
        f"test_it.py::test_b: {name} (own.py:3)",
        head,
    ]
    assert (tmp_path / REPORT).stat().st_size < 64 * 1024
    if name == "SIGSEGV":
        plain = run_plain_pytest(tmp_path)
        assert plain.status == run.status
        assert stacks_of(run) == stacks_of(plain)
        command = [sys.executable, "-m", "pytest_failure_taxonomy", "finalize", REPORT]
        shown = run_child(tmp_path, command)
        assert (
            f"see: test_it.py::test_b: {name} (own.py:3)" in shown.stdout + shown.stderr
        )


def test_deaths_of_workers(tmp_path: Path) -> None:
    """The failure of a worker's test has them, and so has the verdict; others have the output."""
    content = CRASHES.format(number=int(signal.SIGSEGV)) + (
        "def test_c():\n" + WRITES + "    os._exit(3)\n"
    )
    write(tmp_path, content)
    run = run_pytest(tmp_path, "-n1", plugins=["xdist"])
    report = run.report()
    crashed, left = report["failures"]
    assert crashed["location"] == {"path": "own.py", "line": 3}
    words, stack, output = crashed["traceback"].split("\n\n")
    assert words == "worker 'gw0' crashed while running 'test_it.py::test_b'"
    assert stack.splitlines()[1].endswith('own.py", line 3, in deep')
    check_output(output)
    words, output = left["traceback"].split("\n\n")
    check_output(output)
    details = [each["detail"].splitlines() for each in report["verdict"]["evidence"]]
    assert [each[0] for each in details] == [
        "worker gw0 died of SIGSEGV while it ran test_it.py::test_b (own.py:3)",
        "worker gw1 exited with code 3 while it ran test_it.py::test_c",
    ]
    assert details[0][2].endswith('own.py", line 3, in deep')
    assert run.stderr.count(FATAL) == 1
    assert report["faults"] == []


@pytest.mark.slow
@pytest.mark.parametrize("own_stderr", [False, True])
def test_a_crash_under_run(tmp_path: Path, own_stderr: bool) -> None:
    """The supervisor reads the same; with a stderr of its own pytest's faulthandler stays."""
    write(tmp_path, CRASHES.format(number=int(signal.SIGABRT)))
    command = pytest_command()
    if own_stderr:
        command = ["sh", "-c", 'exec "$@" 2>own-stderr', "sh", *command]
    run = run_child(
        tmp_path,
        [sys.executable, "-m", "pytest_failure_taxonomy", "run", "--", *command],
    )
    assert run.status == -signal.SIGABRT
    (test,) = final_report(tmp_path)["in_flight"]
    check_output(test["output"])
    if own_stderr:
        assert test["stack"] is None
        assert (tmp_path / "own-stderr").read_text("utf-8").count(FATAL) == 1
    else:
        assert test["location"] == {"path": "own.py", "line": 3}
        assert FATAL in run.stderr
        assert "why this run failed" in run.stdout
    assert run.stderr.count(FATAL) == (not own_stderr)


def test_a_crash_while_collecting(tmp_path: Path) -> None:
    """Without a test in flight the verdict has the place and the stack."""
    write(tmp_path, f"import own\nown.deep({int(signal.SIGSEGV)})\n")
    run_pytest(tmp_path)
    verdict = final_report(tmp_path)["verdict"]
    assert verdict["nodeid"] == "test_it.py"
    assert verdict["message"].endswith(
        "crashed (SIGSEGV) at own.py:3, while test_it.py was being collected"
    )
    assert verdict["evidence"][0]["detail"] == "test_it.py: SIGSEGV (own.py:3)"
    assert 'own.py", line 3, in deep' in verdict["evidence"][1]["detail"]


def test_a_forked_childs_crash_is_not_pytests(tmp_path: Path) -> None:
    """A child writes to stderr, and its stacks are not in the report."""
    write(
        tmp_path,
        "import os, own\n"
        "def test_b():\n"
        "    child = os.fork()\n"
        f"    if not child: own.deep({int(signal.SIGSEGV)})\n"
        "    os.waitpid(child, 0)\n"
        "    os.abort()\n",
    )
    run = run_pytest(tmp_path)
    (test,) = final_report(tmp_path)["in_flight"]
    assert test["location"] == {"path": "test_it.py", "line": 6}
    fatal = [each for each in run.stderr.splitlines() if each.startswith(FATAL)]
    assert fatal == [f"{FATAL}Segmentation fault", f"{FATAL}Aborted"]


def test_what_is_not_there(tmp_path: Path) -> None:
    """Without faulthandler there is no stack, without capture no output."""
    write(tmp_path, CRASHES.format(number=int(signal.SIGSEGV)))
    run = run_pytest(tmp_path, "-p", "no:faulthandler", "-s")
    (test,) = final_report(tmp_path)["in_flight"]
    assert (test["stack"], test["location"], test["output"]) == (None, None, None)
    assert FATAL not in run.stderr
    run = run_pytest(tmp_path, "-o", "failure_taxonomy_watcher=false")
    assert run.stderr.count(FATAL) == 1, (
        "nobody would read it, so it stays where it was"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["{}", "{}; true"], ids=["leader", "leader's child"]
)
def test_a_terminal_that_is_closed_at_once(tmp_path: Path, command: str) -> None:
    """Nobody could write to it after the crash, so faulthandler stays where it was."""
    write(tmp_path, CRASHES.format(number=int(signal.SIGSEGV)))
    line = command.format(shlex.join(pytest_command(SWITCH)))
    program = f"import pty, sys; pty.spawn(['sh', '-c', {line!r}])"
    run = run_child(tmp_path, [sys.executable, "-c", program])
    assert run.stdout.count(FATAL) == 1
    (test,) = final_report(tmp_path)["in_flight"]
    assert test["stack"] is None
    check_output(test["output"])


@pytest.mark.slow
def test_a_pipe_of_stderr_ends_with_the_run(tmp_path: Path) -> None:
    """A program that goes on after its pytest and closes its stderr has closed the last one."""
    write(tmp_path, "def test_a(): pass\n")
    program = (
        "import os, pathlib, pytest, sys, time\n"
        f"pytest.main({[*pytest_command(SWITCH)[3:]]!r})\n"
        "os.dup2(os.open(os.devnull, os.O_WRONLY), 2)\n"
        "for _ in range(6000):\n"
        "    if pathlib.Path('go').exists(): sys.exit(7)\n"
        "    time.sleep(0.01)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=child_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stderr is not None
        child.stderr.read()
        (tmp_path / "go").touch()
        assert child.wait() == 7


@pytest.mark.slow
def test_the_controller_dies(tmp_path: Path) -> None:
    """What the test of a worker has written is read while the worker still is."""
    write(
        tmp_path,
        "import os, signal, time\ndef test_b():\n"
        + WRITES
        + "    os.kill(os.getppid(), signal.SIGKILL)\n    time.sleep(10)\n",
    )
    run = run_pytest(tmp_path, "-n1", plugins=["xdist"], stdout=subprocess.DEVNULL)
    assert run.status == -signal.SIGKILL
    (test,) = final_report(tmp_path)["in_flight"]
    assert test["worker"] == "gw0"
    check_output(test["output"])
