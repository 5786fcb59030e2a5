"""`failure-taxonomy classify`: a log gets the verdict that the plugin would have given."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.helpers.children import (
    REPORT,
    SWITCH,
    TIMEOUT_SECONDS,
    child_environment,
    pytest_command,
    run_child,
)
from tests.helpers.reports import read_report

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")

CLI: Final = (sys.executable, "-m", "pytest_failure_taxonomy")
OURS: Final = "failure_taxonomy"
PASSING: Final = "def test_passes(): pass\n"
NO_CORE: Final = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
HANGS: Final = "import time\ndef test_hangs(): time.sleep(30)\n"
BAD_IMPORT: Final = "import no_such_module\n"
NEEDS_9: Final = pytest.mark.skipif(
    pytest.version_tuple < (9, 0), reason="came with pytest 9.0"
)
NEEDS_WORDS: Final = pytest.mark.skipif(
    pytest.version_tuple < (9, 0),
    reason="its summary says nothing of a test without traceback",
)
NEEDS_9_1: Final = pytest.mark.skipif(
    pytest.version_tuple < (9, 1), reason="came with pytest 9.1"
)

Verdict = tuple[str | None, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One way for a run to end."""

    test: str = PASSING
    files: Mapping[str, str] = field(default_factory=dict)
    ini: str = ""
    args: Sequence[str] = ()
    plugins: Sequence[str] = ()
    around: Sequence[str] = ()
    in_log: Verdict | None = None
    """Reason and kind that the log has, where it can't have the plugin's."""
    why: str = ""
    """Why it can't."""


def body(*lines: str, head: str = "") -> str:
    """Return a file of three tests of which the second does something."""
    inside = "".join(f"    {line}\n" for line in lines)
    return f"{NO_CORE}{head}\n{PASSING}def test_second():\n{inside}def test_third(): pass\n"


def hook(name: str, *lines: str) -> Mapping[str, str]:
    """Return a conftest with one hook."""
    inside = "".join(
        f"    {line}\n" for line in lines or ["raise RuntimeError('hook is broken')"]
    )
    return {
        "conftest.py": f"import pytest, os\n@pytest.hookimpl(trylast=True)\ndef {name}:\n{inside}"
    }


TIMEOUT: Final = ("timeout",)
XDIST: Final = ("xdist",)
THREAD: Final = ("--timeout=0.4", "--timeout-method=thread")

CASES: Final[Mapping[str, Case]] = {
    "passed": Case(),
    "passed-quiet": Case(args=["-q"]),
    "passed-very-quiet": Case(args=["-qq"]),
    "passed-on-workers": Case(args=["-n2"], plugins=XDIST),
    "failed": Case(test=body("assert 1 == 2")),
    "failed-quiet": Case(test=body("assert 1 == 2"), args=["-q"]),
    "failed-very-quiet": Case(test=body("assert 1 == 2"), args=["-qq"]),
    "failed-verbose-in-colour": Case(
        test=body("assert 1 == 2"), args=["-v", "--color=yes"]
    ),
    "failed-without-traceback": Case(test=body("assert 1 == 2"), args=["--tb=no"]),
    "failed-without-summary": Case(test=body("assert 1 == 2"), args=["-rN"]),
    "failed-without-either": Case(test=body("assert 1 == 2"), args=["-rN", "--tb=no"]),
    "failed-native-traceback": Case(
        test=body("raise ValueError('x')"), args=["--tb=native"]
    ),
    "failed-on-workers": Case(test=body("assert 0"), args=["-n2"], plugins=XDIST),
    "setup-error": Case(test="def test_unset(no_such_fixture): pass\n"),
    "teardown-error": Case(
        test="import pytest\n@pytest.fixture\ndef dirty():\n    yield\n    raise OSError('x')\n"
        "def test_it(dirty): pass\n"
    ),
    "failed-and-teardown-error": Case(
        test="import pytest\n@pytest.fixture\ndef dirty():\n    yield\n    raise OSError('x')\n"
        "def test_it(dirty): assert 0\n"
    ),
    "xpass-strict": Case(
        test="import pytest\n@pytest.mark.xfail(strict=True, reason='known')\n"
        "def test_fixed(): pass\n"
    ),
    "subtests": Case(
        test="def test_parts(subtests):\n    for number in range(3):\n"
        "        with subtests.test(number=number):\n            assert number % 2\n"
    ),
    "reruns": Case(
        test=body("assert 0"), args=["--reruns=2"], plugins=["rerunfailures"]
    ),
    "collection-error": Case(files={"test_bad.py": BAD_IMPORT}),
    "collection-error-exitfirst": Case(files={"test_bad.py": BAD_IMPORT}, args=["-x"]),
    "collection-error-on-workers": Case(
        files={"test_bad.py": BAD_IMPORT}, args=["-n2"], plugins=XDIST
    ),
    "collection-error-beside-a-failure": Case(
        test=body("assert 0"),
        files={"test_bad.py": "def x()\n"},
        args=["--continue-on-collection-errors"],
    ),
    "conftest": Case(files={"conftest.py": BAD_IMPORT}),
    "unknown-option": Case(args=["--no-such-option"]),
    "no-such-path": Case(args=["no_such_folder"]),
    "no-such-node": Case(args=["test_it.py::test_absent"]),
    "bad-expression": Case(args=["-m", "not ("]),
    "missing-plugin": Case(files={"conftest.py": "pytest_plugins = ['nope']\n"}),
    "required-plugin": Case(ini="required_plugins = pytest-nope\n"),
    "no-tests": Case(test=""),
    "all-deselected": Case(args=["-k", "absent"]),
    "internal-error": Case(files=hook("pytest_runtestloop(session)")),
    "internal-error-in-configure": Case(files=hook("pytest_configure()")),
    "sys-exit-at-import": Case(test="import sys\nsys.exit(5)\n"),
    "plugin-error-at-the-end": Case(files=hook("pytest_sessionfinish()")),
    "plugin-error-after-the-end": Case(files=hook("pytest_unconfigure()")),
    "plugin-error-beside-a-failure": Case(
        test=body("assert 0"), files=hook("pytest_sessionfinish()")
    ),
    "exit-status": Case(
        files=hook("pytest_sessionfinish(session)", "session.exitstatus = 3")
    ),
    "too-many-warnings": Case(
        test="import warnings\ndef test_it(): warnings.warn('x'); warnings.warn('y')\n",
        args=["--max-warnings=1"],
    ),
    "ctrl-c": Case(test=body("raise KeyboardInterrupt")),
    "ctrl-c-after-a-failure": Case(
        test="def test_fails(): assert 0\ndef test_it(): raise KeyboardInterrupt\n"
    ),
    "ctrl-c-on-a-worker": Case(
        test=body("raise KeyboardInterrupt"), args=["-n1"], plugins=XDIST
    ),
    "ctrl-c-quiet": Case(test=body("raise KeyboardInterrupt"), args=["-q"]),
    "ctrl-c-very-quiet": Case(test=body("raise KeyboardInterrupt"), args=["-qq"]),
    "ctrl-c-in-the-first-test": Case(
        test="def test_it(): raise KeyboardInterrupt\n", args=["-q"]
    ),
    "ctrl-c-on-a-worker-without-summary": Case(
        test=body("raise KeyboardInterrupt"),
        args=["-n2", "--no-header", "--no-summary"],
        plugins=XDIST,
    ),
    "ctrl-c-on-a-worker-verbose-without-summary": Case(
        test=body("raise KeyboardInterrupt"),
        args=["-n1", "-v", "--no-summary"],
        plugins=XDIST,
    ),
    "ctrl-c-on-a-worker-without-traceback": Case(
        test=body("raise KeyboardInterrupt"), args=["-n1", "--tb=no"], plugins=XDIST
    ),
    "ctrl-c-on-a-worker-without-line-in-summary": Case(
        test=body("raise KeyboardInterrupt"), args=["-n1", "-rN"], plugins=XDIST
    ),
    "pytest-exit-quiet": Case(
        test=body("pytest.exit('enough', returncode=42)", head="import pytest"),
        args=["-q"],
    ),
    "stopped-quiet": Case(
        test="def test_it(request): request.session.shouldstop = 'enough'\n",
        args=["-q"],
    ),
    "pytest-exit": Case(
        test=body("pytest.exit('enough', returncode=42)", head="import pytest")
    ),
    "stopped": Case(
        test="def test_it(request): request.session.shouldstop = 'enough'\n"
    ),
    "timeout-signal": Case(
        test=HANGS + PASSING,
        args=["--timeout=0.4", "--timeout-method=signal"],
        plugins=TIMEOUT,
    ),
    "timeout-signal-native-traceback": Case(
        test=HANGS + PASSING,
        args=["--timeout=0.4", "--timeout-method=signal", "--tb=native"],
        plugins=TIMEOUT,
    ),
    "timeout-in-words-only-native-traceback": Case(
        test=body(
            "pytest.fail('Timeout (>1.0s) from pytest-timeout.')", head="import pytest"
        ),
        args=["--tb=native"],
        plugins=TIMEOUT,
    ),
    "timeout-in-words-only": Case(
        test=body(
            "pytest.fail('Timeout (>1.0s) from pytest-timeout.')", head="import pytest"
        ),
        plugins=TIMEOUT,
    ),
    "timeout-thread": Case(test=PASSING + HANGS, args=THREAD, plugins=TIMEOUT),
    "timeout-thread-verbose": Case(
        test=PASSING + HANGS, args=["-v", *THREAD], plugins=TIMEOUT
    ),
    "timeout-thread-quiet": Case(
        test=PASSING + HANGS, args=["-q", *THREAD], plugins=TIMEOUT
    ),
    "timeout-thread-on-a-worker": Case(
        test=PASSING + HANGS,
        args=["-n1", "--max-worker-restart=0", *THREAD],
        plugins=[*TIMEOUT, *XDIST],
        in_log=("TESTS_FAILED", "worker.crashed"),
        why="the stacks that the worker printed never come to the controller's output",
    ),
    "timeout-of-session": Case(
        test="import pytest, time\n@pytest.mark.parametrize('n', range(40))\n"
        "def test_it(n): time.sleep(0.1)\n",
        args=["--session-timeout=0.5"],
        plugins=TIMEOUT,
    ),
    "timeout-of-session-quiet": Case(
        test="import pytest, time\n@pytest.mark.parametrize('n', range(40))\n"
        "def test_it(n): time.sleep(0.1)\n",
        args=["-q", "--session-timeout=0.5"],
        plugins=TIMEOUT,
    ),
    "faulthandler-exit-quiet": Case(
        test=PASSING + HANGS,
        args=["-q"],
        ini="faulthandler_timeout = 0.4\nfaulthandler_exit_on_timeout = true\n",
    ),
    "faulthandler-exit": Case(
        test=PASSING + HANGS,
        ini="faulthandler_timeout = 0.4\nfaulthandler_exit_on_timeout = true\n",
    ),
    "gnu-timeout": Case(test=PASSING + HANGS, around=["timeout", "2"]),
    "segfault": Case(test=body("ctypes.string_at(0)", head="import ctypes")),
    "abort": Case(test=body("os.abort()", head="import os")),
    "sigkill": Case(test=body("os.kill(os.getpid(), 9)", head="import os")),
    "sigterm": Case(
        test=body("os.kill(os.getpid(), 15)", "time.sleep(9)", head="import os, time")
    ),
    "exit-0": Case(test=body("os._exit(0)", head="import os")),
    "exit-0-quiet": Case(test=body("os._exit(0)", head="import os"), args=["-q"]),
    "exit-7": Case(test=body("os._exit(7)", head="import os")),
    "exit-7-after-a-failure": Case(
        test="import os\ndef test_fails(): assert 0\ndef test_it(): os._exit(7)\n"
    ),
    "worker-exit": Case(
        test=body("os._exit(3)", head="import os"),
        args=["-n1", "--max-worker-restart=0"],
        plugins=XDIST,
    ),
    "segfault-at-exit": Case(
        test="import atexit, ctypes\ndef test_it(): atexit.register(ctypes.string_at, 0)\n"
    ),
    "exit-at-exit": Case(
        test="import atexit, os\ndef test_it(): atexit.register(os._exit, 9)\n"
    ),
}
NEEDS: Final = {
    "subtests": NEEDS_9,
    "ctrl-c-on-a-worker-without-traceback": NEEDS_WORDS,
    "faulthandler-exit": NEEDS_9,
    "faulthandler-exit-quiet": NEEDS_9,
    "too-many-warnings": NEEDS_9_1,
}


def run_plain(folder: Path, case: Case) -> tuple[int, str]:
    """Run pytest without our plugin; return its exit status and all that it printed."""
    command = [*case.around, *pytest_command(*case.args, plugins=case.plugins)]
    ended = run_child(folder, command, stderr=subprocess.STDOUT)
    return ended.status, ended.stdout


_OF_PRINTING: Final = re.compile(
    "-q+|-v|-rN|--tb=.*|--color=.*|--no-header|--no-summary"
)
"""Arguments that change what pytest prints, and nothing of what has happened."""
_verdicts: dict[str, Verdict] = {}


def verdict_of_plugin(folder: Path, case: Case) -> Verdict:
    """Return the verdict of a run with our plugin, which is made once for all ways to print."""
    args = [each for each in case.args if not _OF_PRINTING.fullmatch(each)]
    key = repr(replace(case, args=args, in_log=None, why=""))
    if key not in _verdicts:
        _verdicts[key] = _verdict_of_a_run(folder, case)
    return _verdicts[key]


def _verdict_of_a_run(folder: Path, case: Case) -> Verdict:
    """Run pytest with our plugin, and where it dies once more under `run`; return the verdict."""
    path, plugins = folder / REPORT, (OURS, *case.plugins)
    path.unlink(missing_ok=True)
    is_told = False
    if not case.around:
        alone = run_child(folder, pytest_command(SWITCH, *case.args, plugins=plugins))
        if path.exists():
            report = read_report(path)
            is_told = (
                report["completeness"] == "full"
                and report["exit"]["code"] == alone.status
            )
    if not is_told:
        path.unlink(missing_ok=True)
        supervised = [*case.around, *CLI, "run", "--report", REPORT, "--"]
        run_child(folder, [*supervised, *pytest_command(*case.args, plugins=plugins)])
    verdict = read_report(path)["verdict"]
    return (None, None) if verdict is None else (verdict["reason"], verdict["kind"])


def classify(
    *args: str, log: bytes | None = None, folder: Path | None = None
) -> tuple[int, dict[str, Any], str]:
    """Run the command; return its exit code, its answer and what it said on stderr."""
    ended = subprocess.run(
        [*CLI, "classify", *args],
        cwd=folder,
        env=child_environment(),
        input=log,
        capture_output=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    return ended.returncode, json.loads(ended.stdout or b"{}"), ended.stderr.decode()


_VARIANT: Final = re.compile(
    ".+-(very-quiet|quiet|verbose|native-traceback|without-[a-z-]+)"
)
"""The names of cases of which another one differs in what pytest prints alone."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each ending, and of its variants every second one, or all by `--matrix=all`."""
    if metafunc.function is test_log_and_plugin_agree:
        variants = [*filter(_VARIANT.fullmatch, CASES)]
        left_out = (
            variants[1::2] if metafunc.config.getoption("matrix") == "some" else []
        )
        names = [name for name in CASES if name not in left_out]
        params = [pytest.param(name, marks=NEEDS.get(name, ())) for name in names]
        metafunc.parametrize("name", params)


@pytest.mark.lowest
def test_log_and_plugin_agree(tmp_path: Path, name: str) -> None:
    """The log and the exit code of a run give reason and kind that the plugin's report has."""
    case = CASES[name]
    files = {
        "pytest.ini": f"[pytest]\n{case.ini}",
        "test_it.py": case.test,
        **case.files,
    }
    for path, content in files.items():
        (tmp_path / path).write_text(content, "utf-8")
    status, log = run_plain(tmp_path, case)
    expected = verdict_of_plugin(tmp_path, case)
    (tmp_path / "log.txt").write_bytes(log.encode("utf-8", "surrogateescape"))
    ended = run_child(tmp_path, [*CLI, "classify", f"--exit-code={status}", "log.txt"])
    answer = json.loads(ended.stdout)
    assert ended.stderr == ""
    if case.in_log is not None:
        assert expected != case.in_log, f"no exception is needed any more: {case.why}"
        expected = case.in_log
    assert (answer["reason"], answer["kind"]) == expected
    assert ended.status == (0 if answer["reason"] is None else 1)
    lines = log.split("\n")
    for quoted in answer["lines"]:
        assert quoted["text"] in lines[quoted["number"] - 1].replace("\x1b[0m", "") or (
            "--color=yes" in case.args
        )
    assert answer["lines"] or answer["reason"] is None


# Input of every other sort.


def test_file_and_stdin_are_read_alike(tmp_path: Path) -> None:
    """A path, `-` and nothing at all read the same log."""
    log = b"E   x\n=== 1 failed in 0.01s ===\n"
    (tmp_path / "log").write_bytes(log)
    answers = [
        classify("log", folder=tmp_path),
        classify("-", log=log),
        classify(log=log),
    ]
    assert answers[0] == answers[1] == answers[2]
    assert answers[0][0] == 1
    assert answers[0][1]["kind"] == "test.failed"


REFUSED: Final = (
    pytest.param(
        ["absent"],
        "absent: there is no such file; give the file of a log",
        id="missing",
    ),
    pytest.param(["."], ".: is a directory and not a file; give the", id="folder"),
    pytest.param(["empty"], "empty: this log has no output of pytest, ", id="empty"),
    pytest.param(["binary"], "binary: this log has no output of pytest, ", id="binary"),
    pytest.param(
        ["empty", "--exit-code=256"], "--exit-code: 256 is no exit code", id="code"
    ),
)


@pytest.mark.parametrize(("args", "words"), REFUSED)
def test_what_is_refused(tmp_path: Path, args: Sequence[str], words: str) -> None:
    """What can't be answered ends with one line on stderr and exit code 2."""
    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 1_000)
    code, answer, told = classify(*args, folder=tmp_path)
    assert (code, answer) == (2, {})
    assert told.startswith(f"failure-taxonomy: {words}")
    assert told.count("\n") == 1


def test_binary_log_with_an_exit_code(tmp_path: Path) -> None:
    """Of a log that is no text the exit code still says something."""
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 1_000)
    code, answer, told = classify("binary", "--exit-code=-9", folder=tmp_path)
    assert (code, told) == (1, "")
    assert (answer["reason"], answer["kind"]) == ("TIMEOUT", "process.killed")
    assert answer["exit"]["code"] == 137


def test_one_line_of_50_mb() -> None:
    """What stands at the end of a line of any length is read."""
    log = b"." * 50_000_000 + b"Fatal Python error: Segmentation fault\n"
    code, answer, told = classify("--exit-code=139", log=log)
    assert (code, told) == (1, "")
    assert answer["kind"] == "process.crashed"


@pytest.mark.parametrize(
    "line", ["SUBFAILED[m] (i=1) {}", "SUBFAILED[m] {}", "SUBFAILED(i=1) {}"]
)
def test_a_failed_subtest_in_a_short_summary(line: str) -> None:
    """What names the subtest stands before the node id, and is no part of it."""
    nodeid = "test_it.py::test_a"
    summary = line.format(nodeid) + " - AssertionError: x"
    log = f"=== short test summary info ===\n{summary}\n=== 1 failed in 0.01s ===\n"
    _, answer, _ = classify(log=log.encode())
    assert [failure["nodeid"] for failure in answer["failures"]] == [nodeid]
