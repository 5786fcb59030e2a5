"""`failure-taxonomy run` and `finalize`, as a shell and a CI job use them."""

from __future__ import annotations

import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
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
    run_pytest,
)
from tests.helpers.reports import read_report

if sys.platform == "win32":  # its names for signals are needed below
    pytest.skip("needs POSIX signals", allow_module_level=True)

DEADLINE_SECONDS: Final = 60.0
CLI: Final = (sys.executable, "-m", "pytest_failure_taxonomy")
RUN: Final = (*CLI, "run", "--")
NO_WATCHER: Final = ("-o", "failure_taxonomy_watcher=false")
NO_CORE: Final = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
SUITE: Final = (
    f"{NO_CORE}import os, signal, sys, threading, time, pathlib, pytest\n"
    "def test_first(): pass\n"
    "def test_second():\n"
    "    {body}\n"
    "def test_third(): pass\n"
)
WAIT: Final = "pathlib.Path('up').touch(); time.sleep(60)"


def write(folder: Path, body: str, **files: str) -> None:
    """Write a suite of three tests of which the second one does something."""
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    (folder / "test_it.py").write_text(SUITE.format(body=body), "utf-8")
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, "utf-8")


def supervise(
    folder: Path, *command: str, options: Sequence[str] = (), **given: Any
) -> ChildRun:
    """Run a command under `run`."""
    return run_child(folder, [*CLI, "run", *options, "--", *command], **given)


def finalize(folder: Path, *args: str) -> ChildRun:
    """Run `finalize`."""
    return run_child(folder, [*CLI, "finalize", *args])


def the_pytest(*args: str, plugins: Sequence[str] = ()) -> list[str]:
    """Return the command that runs pytest with our entry point and without the switch."""
    return pytest_command(*args, plugins=("failure_taxonomy", *plugins))


def verdict_of(report: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return reason and kind."""
    verdict = report["verdict"]
    return (None, None) if verdict is None else (verdict["reason"], verdict["kind"])


def one_line(run: ChildRun) -> str:
    """Return what a refusal says: one line on stderr, and nothing else."""
    assert run.status == 2
    assert run.stdout == ""
    (line,) = run.stderr.splitlines()
    assert "Traceback" not in line
    return line


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    """Wait until a condition holds, and return what it gave."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (result := condition()):
        assert time.monotonic() < deadline, f"{what} never came"
        time.sleep(0.01)
    return result


def is_running(process_id: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    try:
        fields = (
            Path(f"/proc/{process_id}/stat").read_text().rpartition(") ")[2].split()
        )
    except OSError:
        return False
    return fields[0] not in "ZX"


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="needs Linux"
)


# How a command ends, the supervisor ends.


@pytest.mark.parametrize(
    ("body", "status", "verdict", "completeness"),
    [
        pytest.param("pass", 0, (None, None), "full", id="passes"),
        pytest.param(
            "assert 0", 1, ("TESTS_FAILED", "test.failed"), "full", id="fails"
        ),
        pytest.param(
            "pytest.exit('enough', returncode=42)",
            42,
            ("INTERRUPTED", "interrupt.exit"),
            "full",
            id="pytest-exit",
        ),
        pytest.param(
            "os._exit(7)",
            7,
            ("UNKNOWN", "process.exited"),
            "reconstructed",
            id="exits-7",
        ),
        pytest.param(
            "os._exit(0)",
            3,
            ("UNKNOWN", "process.exited"),
            "reconstructed",
            id="exits-0",
        ),
        pytest.param(
            "os.kill(os.getpid(), signal.SIGKILL)",
            -signal.SIGKILL,
            ("TIMEOUT", "process.killed"),
            "reconstructed",
            id="killed",
        ),
        pytest.param(
            "os.kill(os.getpid(), signal.SIGTERM)",
            -signal.SIGTERM,
            ("INTERRUPTED", "process.terminated"),
            "reconstructed",
            id="terminated",
        ),
        pytest.param(
            "os.abort()",
            -signal.SIGABRT,
            ("UNKNOWN", "process.crashed"),
            "reconstructed",
            id="aborts",
        ),
    ],
)
def test_it_ends_as_pytest_ended(
    tmp_path: Path,
    body: str,
    status: int,
    verdict: tuple[str | None, str | None],
    completeness: str,
) -> None:
    """Exit codes and signals are passed on; but for a 0 of a session that was not finished. The
    report is of what the plugin saw, with the exact end.
    """
    write(tmp_path, body)
    run = supervise(tmp_path, *the_pytest())
    assert run.status == status, run.stderr
    report = run.report(completeness=completeness)
    assert verdict_of(report) == verdict
    assert report["summary"]["collected"] == 3
    if completeness == "reconstructed":
        assert report["exit"]["observed"] is True
        assert report["exit"]["source"] == "supervisor"
        assert [test["nodeid"] for test in report["in_flight"]] == [
            "test_it.py::test_second"
        ]
        assert report["not_run"]["nodeids"] == ["test_it.py::test_third"]
        assert run.told, "the verdict is told"
    assert sorted(path.name for path in tmp_path.glob(".fail*")) == []


@pytest.mark.parametrize("args", [(), ("-n", "2")], ids=["serial", "workers"])
def test_a_crash_at_exit_is_seen(tmp_path: Path, args: Sequence[str]) -> None:
    """A green session whose process crashes afterwards was not green."""
    write(
        tmp_path,
        "pass",
        conftest=NO_CORE + "import atexit, os, signal\n"
        "if 'PYTEST_XDIST_WORKER' not in os.environ:\n"
        "    atexit.register(os.kill, os.getpid(), signal.SIGSEGV)\n",
    )
    run = supervise(tmp_path, *the_pytest(*args, plugins=("xdist",) if args else ()))
    assert run.status == -signal.SIGSEGV
    report = run.report()
    assert verdict_of(report) == ("UNKNOWN", "process.crashed")
    assert (report["exit"]["observed"], report["summary"]["passed"]) == (True, 3)
    # Below `no failure`, and on the same stream.
    said = "all 3 tests passed; then the interpreter crashed (SIGSEGV)"
    assert run.told[1].startswith(said)
    assert said in run.stdout


def test_a_command_that_shows_no_status_of_its_pytest(tmp_path: Path) -> None:
    """A pipe ends with the status of its last command, and what its pytest says is said."""
    write(tmp_path, "assert 0")
    line = f"{shlex.join(the_pytest())} | cat"
    run = supervise(tmp_path, "sh", "-c", line)
    assert run.status == 0
    assert verdict_of(run.report()) == ("TESTS_FAILED", "test.failed")
    assert run.stderr.splitlines()[-1] == (
        "failure-taxonomy: run: the command ended with status 0, although its pytest did not pass"
    )


@pytest.mark.parametrize(
    ("body", "codes", "status"),
    [
        ("assert 0", "environment=75,subject=76", 76),
        ("raise ConnectionRefusedError(111, 'refused')", "environment=75", 1),
        (
            "import socket; socket.create_connection(('127.0.0.1', 9), 1)",
            "environment=75",
            75,
        ),
        ("pass", "subject=76", 0),
        ("import os; os._exit(0)", "ambiguous=77", 77),
        ("import os; os.kill(os.getpid(), 9)", "ambiguous=77", 77),
    ],
    ids=["subject", "simulated", "environment", "passes", "left", "killed"],
)
def test_the_exit_code_by_whom_a_failure_is_charged_to(
    tmp_path: Path, body: str, codes: str, status: int
) -> None:
    """A CI system retries by exit code; a green run stays green, and others keep their own."""
    write(tmp_path, body)
    run = supervise(tmp_path, *the_pytest(), options=["--exit-code", codes])
    assert run.status == status


@pytest.mark.parametrize("codes", ["environment", "host=75", "subject=0", "subject=x"])
def test_an_exit_code_that_is_none(tmp_path: Path, codes: str) -> None:
    """What is wrong is said in one line, and the command is not started."""
    write(tmp_path, "open('ran', 'w')")
    run = supervise(tmp_path, *the_pytest(), options=["--exit-code", codes])
    assert one_line(run) == (
        f"failure-taxonomy: run --exit-code: {codes!r} is wrong; give OWNER=N with N "
        "from 1 to 255, such as environment=75; owners: subject, environment, verifier, ambiguous"
    )
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        ("environment=75,environment=76", "'environment' is given twice; give one"),
        ("environment=75,", "'environment=75,' has a comma too many; give OWNER=N"),
    ],
    ids=["twice", "comma"],
)
def test_exit_codes_that_are_wrong_together(
    tmp_path: Path, codes: str, words: str
) -> None:
    """The words say what is wrong with them."""
    run = supervise(tmp_path, *the_pytest(), options=["--exit-code", codes])
    assert one_line(run).startswith(f"failure-taxonomy: run --exit-code: {words}")


def test_a_worker_that_dies_under_it(tmp_path: Path) -> None:
    """Workers are the controller's; the supervisor adds nothing to what it says."""
    write(tmp_path, "os._exit(3)")
    run = supervise(tmp_path, *the_pytest("-n", "2", plugins=("xdist",)))
    assert run.status == 1
    report = run.report()
    assert verdict_of(report) == ("TESTS_FAILED", "worker.crashed")


@pytest.mark.parametrize(
    ("command", "status", "verdict"),
    [
        pytest.param(["true"], 0, (None, None), id="true"),
        pytest.param(["false"], 1, ("TESTS_FAILED", "command.failed"), id="false"),
        pytest.param(
            ["sh", "-c", "exit 77"], 77, ("UNKNOWN", "command.failed"), id="77"
        ),
        pytest.param(
            ["sh", "-c", "kill -9 $$"],
            -signal.SIGKILL,
            ("TIMEOUT", "process.killed"),
            id="killed",
        ),
        pytest.param(
            ["sh", "-c", "kill -PIPE $$; exit 5"],
            -signal.SIGPIPE,
            ("INTERRUPTED", "process.terminated"),
            id="broken-pipe",
        ),
    ],
)
def test_any_command(
    tmp_path: Path,
    command: list[str],
    status: int,
    verdict: tuple[str | None, str | None],
) -> None:
    """A command that is no pytest is judged by its end alone."""
    run = supervise(tmp_path, *command)
    assert run.status == status, run.stderr
    report = run.report(completeness="reconstructed")
    assert verdict_of(report) == verdict
    assert report["exit"]["observed"] is True
    assert report["run"]["invocation"]["args"] == command
    assert report["summary"]["collected"] == 0


@pytest.mark.parametrize(
    ("stage", "code", "reason"),
    [
        ("git_clone", 128, "GIT_CLONE_FAILED"),
        ("git_checkout", 1, "GIT_CHECKOUT_FAILED"),
        ("setup", 1, "SETUP_FAILED"),
        ("setup", 124, "SETUP_TIMEOUT"),
        ("baseline_run", 0, "BASELINE_NOT_FAILING"),
        ("baseline_run", 1, None),
        ("agent_run", 1, "TESTS_FAILED"),
        ("agent_run", 0, None),
        ("final_test", 5, "NO_TESTS_COLLECTED"),
    ],
)
def test_any_stage(tmp_path: Path, stage: str, code: int, reason: str | None) -> None:
    """The stage is the command's, and its table says what the exit code means."""
    run = supervise(tmp_path, "sh", "-c", f"exit {code}", options=["--stage", stage])
    assert run.status == code
    report = run.report(completeness="reconstructed")
    assert report["run"]["stage"] == stage
    assert verdict_of(report)[0] == reason


def test_a_temporary_folder_with_a_long_name(tmp_path: Path) -> None:
    """The record reaches the supervisor whatever the folder is called, and whenever it goes."""
    long = tmp_path / ("x" * 120)
    long.mkdir()
    write(tmp_path, "import shutil; shutil.rmtree('out'); os._exit(3)")
    command = the_pytest("--failure-taxonomy-report=out/r.json")
    run = supervise(tmp_path, *command, env={"TMPDIR": str(long)})
    assert run.status == 3
    report = run.report("out/r.json", completeness="reconstructed")
    assert [test["nodeid"] for test in report["in_flight"]] == [
        "test_it.py::test_second"
    ]
    assert report["summary"]["passed"] == 1
    assert os.listdir(long) == []


def test_the_stage_and_the_path_reach_the_plugin(tmp_path: Path) -> None:
    """What is given to `run` counts for the pytest that it runs."""
    write(tmp_path, "assert 0")
    run = supervise(
        tmp_path,
        *the_pytest(),
        options=["--stage=baseline_run", "--report=out/other.json"],
    )
    assert run.status == 1
    report = run.report("out/other.json")
    assert (report["run"]["stage"], report["verdict"]) == ("baseline_run", None)
    assert report["summary"]["failed"] == 1
    assert not (tmp_path / REPORT).exists()


def test_an_option_of_pytest_wins(tmp_path: Path) -> None:
    """The path that pytest itself is given is the one that is completed."""
    write(tmp_path, "os._exit(0)")
    run = supervise(tmp_path, *the_pytest("--failure-taxonomy-report=inner.json"))
    assert run.status == 3
    assert (
        verdict_of(run.report("inner.json", completeness="reconstructed"))[1]
        == "process.exited"
    )
    assert not (tmp_path / REPORT).exists()


def test_a_pytest_that_never_got_to_the_plugin(tmp_path: Path) -> None:
    """An option's wrong value ends pytest before our plugin is asked; the exit code is told, and
    what else it could have been.
    """
    write(tmp_path, "pass")
    run = supervise(tmp_path, sys.executable, "-m", "pytest", "--tb=zzz")
    assert run.status == 4
    report = run.report(completeness="reconstructed")
    assert verdict_of(report) == ("INTERNAL_ERROR", "usage.error")
    assert report["verdict"]["ambiguous"] == ["conftest.error", "plugin.error"]
    assert report["verdict"]["confidence"] == "likely"


def test_streams_are_the_commands(tmp_path: Path) -> None:
    """What is piped in reaches the command, and its output is what it wrote, byte for byte."""
    noise = bytes(range(256)) * 300
    run = subprocess.run(
        [*RUN, "cat"],
        input=noise,
        capture_output=True,
        cwd=tmp_path,
        env=child_environment(),
        timeout=DEADLINE_SECONDS,
        check=True,
    )
    assert run.stdout == noise


@needs_proc
def test_the_command_starts_as_without_us(tmp_path: Path) -> None:
    """Signals, mask, descriptors and folder of the command are those that a shell gives it."""
    look = "grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status; ls /proc/self/fd; pwd; umask"
    runs = [
        run_child(tmp_path, ["sh", "-c", look]),
        supervise(tmp_path, "sh", "-c", look),
    ]
    # The C library ignores the two signals that it keeps for itself, 32 and 33, in what it spawns.
    plain, ours = (
        re.sub(r"\b0{7}[01][0-9a-f]{8}\b", _without_internal, run.stdout)
        for run in runs
    )
    assert ours == plain
    assert "Sig" in plain


def _without_internal(found: re.Match[str]) -> str:
    return f"{int(found[0], 16) & 0x7FFFFFFF:016x}"


@needs_proc
def test_where_children_are_reaped_by_the_system(tmp_path: Path) -> None:
    """A caller that ignores SIGCHLD passes that on; the command's end is seen all the same."""
    ignore = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    run = run_child(
        tmp_path, [sys.executable, "-c", ignore, *RUN, "sh", "-c", "exit 7"]
    )
    assert run.status == 7


def test_it_is_installed_as_a_command(tmp_path: Path) -> None:
    """The console script does what the module does."""
    script = shutil.which("failure-taxonomy", path=str(Path(sys.executable).parent))
    if script is None:
        pytest.skip("the package is not installed with its scripts")
    run = run_child(tmp_path, [script, "run", "--", "sh", "-c", "exit 9"])
    assert run.status == 9


# Limits.


@needs_proc
@pytest.mark.skipif(os.name == "nt", reason="needs a shell of POSIX")
def test_a_shell_that_fails_after_a_pytest_that_passed(tmp_path: Path) -> None:
    """The report is of the command, not of the part of it that went well."""
    write(tmp_path, "pass")
    command = shlex.join([*the_pytest(), "--failure-taxonomy"])
    for last, code in (("exit 3", 3), ("true", 0)):
        run = supervise(tmp_path, "sh", "-c", f"{command} && {last}")
        assert run.status == code
        completeness = "reconstructed" if code else "full"
        report = run.report(completeness=completeness)
        assert report["exit"]["code"] == code
        assert (report["verdict"] is None) == (code == 0)


def test_a_command_that_never_starts_leaves_no_earlier_report(tmp_path: Path) -> None:
    """What an earlier run has reported must not pass for this one's."""
    write(tmp_path, "pass")
    assert supervise(tmp_path, *the_pytest()).status == 0
    assert (tmp_path / "failure-report.json").exists()
    assert supervise(tmp_path, "no-such-command-of-anybody").status == 2
    assert not (tmp_path / "failure-report.json").exists()


def test_a_limit_ends_a_command_that_obeys(tmp_path: Path) -> None:
    """SIGTERM comes first; the exit code is 124, and the verdict the limit."""
    write(tmp_path, WAIT)
    for seconds in (3, 12, 48):  # for a machine that has much else to do
        run = supervise(tmp_path, *the_pytest(), options=["--timeout", str(seconds)])
        assert run.status == 124, run.stderr
        if (tmp_path / "up").exists():
            break
    report = run.report(completeness="reconstructed")
    assert verdict_of(report) == ("TIMEOUT", "process.timeout")
    assert report["verdict"]["confidence"] == "certain"
    assert report["verdict"]["nodeid"] == "test_it.py::test_second"
    assert (
        f"the limit of {seconds} s was reached"
        in report["verdict"]["evidence"][0]["detail"]
    )
    assert report["verdict"]["evidence"][-1]["source"] == "stacks at SIGTERM"
    assert report["exit"]["signal"] == "SIGTERM"


IN_TEST: Final = (
    "threading.Thread(target=lambda: time.sleep(60), name='server').start()"
)
"""A thread that is no daemon: the interpreter waits for it."""
WAITED: Final = (
    "all 3 tests passed; then the interpreter waited for thread server, test_it.py:5"
)
"""What is said of it."""
CAUGHT: Final = f"{IN_TEST}; signal.signal(signal.SIGTERM, lambda *_: os._exit(0))"
"""The same with a handler that leaves with the session's status at the limit."""
AT_EXIT: Final = (
    "import atexit, time\n"
    "def pytest_configure(config):\n"
    "    if not hasattr(config, 'workerinput'): atexit.register(time.sleep, 60)\n"
)


@pytest.mark.parametrize(
    ("body", "stage", "verdict", "code"),
    [
        (IN_TEST, "final_test", ("TIMEOUT", "process.timeout"), 143),
        (CAUGHT, "final_test", ("TIMEOUT", "process.timeout"), 0),
        (f"{IN_TEST}; assert 0", "baseline_run", ("TIMEOUT", "stage.timeout"), 143),
    ],
    ids=["thread", "caught", "baseline"],
)
def test_a_limit_after_the_session(
    tmp_path: Path, body: str, stage: str, verdict: tuple[str, str], code: int
) -> None:
    """A limit that falls while the interpreter ends is one, and is used up the next time, too."""
    write(tmp_path, body)
    run, report = run_beyond(tmp_path, *the_pytest(), options=["--stage", stage])
    assert run.status == 124
    assert verdict_of(report) == verdict
    assert (report["exit"]["reason"], report["exit"]["code"]) == (verdict[0], code)
    assert report["verdict"]["retryable"] is False
    assert "a retry may help" not in run.stderr
    assert not any(
        held["kind"].startswith("process.term") for held in report["reasons"]
    )
    assert "stage.baseline_not_failing" not in str(report)


def test_a_limit_after_a_session_of_workers(tmp_path: Path) -> None:
    """Where the controller hangs at its end, so it is with workers."""
    write(tmp_path, "pass", conftest=AT_EXIT)
    run, report = run_beyond(tmp_path, *the_pytest("-n", "2", plugins=["xdist"]))
    assert run.status == 124
    assert verdict_of(report) == ("TIMEOUT", "process.timeout")
    assert report["verdict"]["retryable"] is False


@needs_proc
def test_a_limit_after_a_stall_at_the_end(tmp_path: Path) -> None:
    """What the interpreter waited for is named first, and a retry doesn't help."""
    write(tmp_path, IN_TEST)
    quick = "--failure-taxonomy-stall-seconds=1"
    run, report = run_beyond(tmp_path, *the_pytest(quick), least=8)
    assert run.status == 124
    assert verdict_of(report) == ("TIMEOUT", "shutdown.stalled")
    kinds = ["shutdown.stalled", "process.timeout"]
    assert [cause["kind"] for cause in report["causes"]] == kinds
    assert report["verdict"]["retryable"] is False


@pytest.mark.skipif(shutil.which("timeout") is None, reason="needs GNU timeout")
@pytest.mark.parametrize("options", [("-s", "TERM"), ("-s", "KILL")])
@needs_proc
def test_a_timeout_around_a_session_that_has_ended(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    """The watcher knows the limit of GNU `timeout` from the run's record."""
    write(tmp_path, IN_TEST)

    def run_for(seconds: int) -> ChildRun:
        launcher = [str(shutil.which("timeout")), *options, str(seconds)]
        run = run_child(tmp_path, [*launcher, *the_pytest(SWITCH)])
        wait_until(
            lambda: read_report(tmp_path / REPORT)["exit"]["observed"], "the watcher"
        )
        return run

    _, report = until_session_ended(run_for, least=3)
    assert verdict_of(report) == ("TIMEOUT", "process.timeout")
    assert "after the session had ended with exit code 0" in str(
        report["verdict"]["evidence"]
    )
    assert report["verdict"]["message"].startswith(WAITED)
    assert report["verdict"]["retryable"] is False


@pytest.mark.skipif(shutil.which("timeout") is None, reason="needs GNU timeout")
@needs_proc
def test_a_timeout_between_run_and_pytest(tmp_path: Path) -> None:
    """It is the parent of that pytest, and the supervisor's is its report all the same."""
    write(tmp_path, IN_TEST)

    def run_for(seconds: int) -> ChildRun:
        return supervise(tmp_path, "timeout", str(seconds), *the_pytest())

    run, report = until_session_ended(run_for, least=3)
    assert run.status == 124
    assert verdict_of(report) == ("TIMEOUT", "process.timeout")
    assert report["exit"]["source"] == "supervisor"
    assert run.told[1].startswith(WAITED)
    assert report["verdict"]["retryable"] is False


def test_a_limit_after_the_session_of_a_pytest_within_a_command(tmp_path: Path) -> None:
    """What a shell does after its pytest has failed can use the limit up, too."""
    write(tmp_path, "assert 0")
    inner = shlex.join(pytest_command(SWITCH, plugins=("failure_taxonomy",)))
    run, report = run_beyond(tmp_path, "sh", "-c", f"{inner}; sleep 60")
    assert run.status == 124
    assert verdict_of(report) == ("TIMEOUT", "process.timeout")
    assert report["exit"]["reason"] == "TIMEOUT"
    assert [held["kind"] for held in report["reasons"]] == [
        "process.timeout",
        "test.failed",
    ]


def run_beyond(
    folder: Path, *command: str, options: Sequence[str] = (), least: int = 3
) -> tuple[ChildRun, dict[str, Any]]:
    """Run a command until a limit after its session; return how it ended, and the report."""

    def run_for(seconds: int) -> ChildRun:
        return supervise(
            folder, *command, options=[*options, "--timeout", str(seconds)]
        )

    return until_session_ended(run_for, least=least)


def until_session_ended(
    run_for: Callable[[int], ChildRun], *, least: int
) -> tuple[ChildRun, dict[str, Any]]:
    """Run with longer limits until one falls late after the session: a machine may be busy."""
    for seconds in (least, 4 * least, 16 * least):
        run = run_for(seconds)
        report = read_report(run.folder / REPORT)
        verdict = report["verdict"]
        if (
            report["completeness"] == "full"
            and verdict
            and verdict["retryable"] is False
        ):
            break
    return run, report


@needs_proc
def test_a_limit_ends_all_that_a_command_has_started(tmp_path: Path) -> None:
    """What ignores SIGTERM is killed after a grace, and so is every descendant, wherever it is."""
    stubborn = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork(): os._exit(0)\n"
        "with open('ids', 'a') as file: file.write(f'{os.getpid()}\\n')\n"
        "time.sleep(120)\n"
    )
    run = supervise(tmp_path, sys.executable, "-c", stubborn, options=["--timeout=1.5"])
    assert run.status == 124
    report = run.report(completeness="reconstructed")
    assert verdict_of(report) == ("TIMEOUT", "stage.timeout")
    assert report["exit"]["signal"] == "SIGKILL"
    left = [int(line) for line in (tmp_path / "ids").read_text().split()]
    assert len(left) == 2
    wait_until(lambda: not any(map(is_running, left)), "the end of all descendants")


def test_a_command_that_is_fast_enough(tmp_path: Path) -> None:
    """A limit that is not reached changes nothing."""
    run = supervise(tmp_path, "sh", "-c", "exit 4", options=["--timeout=60"])
    assert run.status == 4
    assert verdict_of(run.report(completeness="reconstructed"))[1] == "command.failed"


# What a user gets wrong.


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon", ""])
def test_a_limit_that_is_none(tmp_path: Path, seconds: str) -> None:
    """A time that is no time is refused before anything is run."""
    run = supervise(tmp_path, "touch", "ran", options=[f"--timeout={seconds}"])
    assert run.status == 2
    assert f"{seconds!r} is no number of seconds above 0" in run.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_a_stage_that_is_none(tmp_path: Path) -> None:
    """An unknown stage is refused, and the known ones are named."""
    run = supervise(tmp_path, "touch", "ran", options=["--stage=later"])
    assert run.status == 2
    assert "git_clone" in run.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "args", [["run"], ["run", "--"], ["run", "--stage", "setup", "--"]], ids=str
)
def test_no_command(tmp_path: Path, args: list[str]) -> None:
    """Nothing to run is said in one line."""
    line = one_line(run_child(tmp_path, [*CLI, *args]))
    assert "no command; give one after --" in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            "no-such-command",
            "no-such-command can't be started: No such file or directory",
        ),
        (
            "./no-such-command",
            "./no-such-command can't be started: No such file or directory",
        ),
        ("./file", "./file can't be started: Permission denied"),
        ("./folder", "./folder can't be started: it is a directory"),
        (
            "./script",
            "./script can't be started: the interpreter that its first line names is not there",
        ),
        ("", "the command's name is empty"),
    ],
)
def test_a_command_that_can_not_be_started(
    tmp_path: Path, command: str, words: str
) -> None:
    """An unknown command is said in one line, and no report says that it failed."""
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "script").write_text("#!/no/such/interpreter\n")
    (tmp_path / "script").chmod(0o755)
    line = one_line(supervise(tmp_path, command))
    right = "give a program that can, as in: run -- pytest -x"
    assert line == f"failure-taxonomy: run: {words}; {right}"
    assert not (tmp_path / REPORT).exists()


def test_a_report_that_is_no_file(tmp_path: Path) -> None:
    """A folder in the place of the report is refused before the run."""
    line = one_line(supervise(tmp_path, "touch", "ran", options=["--report=."]))
    assert "is a directory; give the name of a file" in line
    assert list(tmp_path.iterdir()) == []


def test_a_report_that_can_not_be_written(tmp_path: Path) -> None:
    """The command's exit code is passed on; that there is no report is said."""
    (tmp_path / "file").write_text("")
    run = supervise(tmp_path, "sh", "-c", "exit 7", options=["--report=file/r.json"])
    assert run.status == 7
    assert "can't be written: Not a directory" in run.stderr
    assert "Traceback" not in run.stderr
    assert "report: could not be written" in run.stderr
    assert "report: file" not in run.stdout + run.stderr


def test_no_subcommand(tmp_path: Path) -> None:
    """The bare command says how it is used."""
    run = run_child(tmp_path, [*CLI])
    assert run.status == 2
    assert "usage: failure-taxonomy" in run.stderr


# Signals.


@contextmanager
def supervised(
    folder: Path, *command: str, options: Sequence[str] = ()
) -> Iterator[Any]:
    """Have a command run under `run` until its test is up."""
    with subprocess.Popen(
        [*CLI, "run", *options, "--", *command],
        cwd=folder,
        env=child_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as child:
        try:
            wait_until((folder / "up").exists, "the test")
            yield child
        finally:
            child.kill()


@needs_proc
@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (signal.SIGTERM, "process.terminated"),
        (signal.SIGHUP, "process.terminated"),
        (signal.SIGINT, "interrupt.keyboard"),
    ],
)
def test_a_signal_is_passed_on(
    tmp_path: Path, number: signal.Signals, kind: str
) -> None:
    """What is sent to the supervisor reaches pytest; who sent it is in the evidence."""
    write(tmp_path, WAIT)
    with supervised(tmp_path, *the_pytest()) as child:
        child.send_signal(number)
        output, _ = child.communicate(timeout=DEADLINE_SECONDS)
        assert child.returncode == (2 if number == signal.SIGINT else -number)
    report = read_report(tmp_path / REPORT)
    assert verdict_of(report) == ("INTERRUPTED", kind)
    assert output.count(b"! KeyboardInterrupt !") == (number == signal.SIGINT)
    if number != signal.SIGINT:
        me = Path("/proc/self/comm").read_text().strip()
        assert f"{number.name} from {me}" in report["verdict"]["evidence"][0]["detail"]


@needs_proc
def test_a_timeout_around_it_is_named(tmp_path: Path) -> None:
    """GNU `timeout` that ends the supervisor is the sender of what pytest died of."""
    timeout = shutil.which("timeout")
    if timeout is None:
        pytest.skip("needs GNU timeout")
    write(tmp_path, WAIT)
    for seconds in ("5", "40"):  # for a machine that has much else to do
        run = run_child(tmp_path, [timeout, seconds, *RUN, *the_pytest()])
        assert run.status == 124
        if (tmp_path / "up").exists():
            break
    report = run.report(completeness="reconstructed")
    assert verdict_of(report) == ("TIMEOUT", "process.timeout")


@needs_proc
def test_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    """A pytest does not run on by itself, and its report is not green."""
    write(tmp_path, "pathlib.Path('up').write_text(str(os.getpid())); time.sleep(60)")
    with supervised(tmp_path, *the_pytest()) as child:
        inner = int(wait_until((tmp_path / "up").read_text, "the process id"))
        child.kill()
        child.wait()
    wait_until(lambda: not is_running(inner), "the end of pytest")
    report = read_report(tmp_path / REPORT)
    assert report["verdict"] is not None
    done = finalize(tmp_path, REPORT)
    assert done.status == 1
    completed = done.report(completeness="reconstructed")
    assert [test["nodeid"] for test in completed["in_flight"]] == [
        "test_it.py::test_second"
    ]
    assert completed["summary"]["passed"] == 1


# A terminal.


class Terminal:
    """A program on a terminal of its own, in the foreground of a new session."""

    def __init__(self, folder: Path, command: Sequence[str]) -> None:
        import pty

        environment = {**child_environment({"TERM": "dumb"}), "PYTHONUNBUFFERED": "1"}
        self.process_id, self.master = pty.fork()
        if self.process_id == 0:
            with suppress(BaseException):
                os.chdir(folder)
                os.execvpe(command[0], list(command), environment)  # noqa: S606 - on the terminal
            os._exit(126)
        self.output = ""
        self.status: int | None = None

    def expect(self, pattern: str, count: int = 1) -> None:
        """Read until a pattern has come so often."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(re.findall(pattern, self.output)) < count:
            assert time.monotonic() < deadline, f"{pattern} never came:\n{self.output}"
            assert self._read(), f"{pattern} never came:\n{self.output}"

    def send(self, text: str) -> None:
        """Type something."""
        os.write(self.master, text.encode())

    def end(self) -> int:
        """Read to the end, and return the exit status as `subprocess` has it."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while self._read():
            assert time.monotonic() < deadline, f"no end:\n{self.output}"
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.process_id, 0)[1])
        return self.status

    def close(self) -> None:
        """End what has not ended."""
        if self.status is None:
            with suppress(OSError):
                os.killpg(self.process_id, signal.SIGKILL)
            with suppress(OSError):
                os.waitpid(self.process_id, 0)
        os.close(self.master)

    def _read(self) -> bool:
        ready, _, _ = select.select([self.master], [], [], 1.0)
        if not ready:
            return True
        try:
            content = os.read(self.master, 65_536)
        except OSError:  # Linux says so when the last one has closed it
            return False
        self.output += content.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(content)


@contextmanager
def terminal(folder: Path, *command: str) -> Iterator[Terminal]:
    """Have a program run on a terminal."""
    opened = Terminal(folder, command)
    try:
        yield opened
    finally:
        opened.close()


@pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning")
def test_ctrl_c_is_one_interrupt(tmp_path: Path) -> None:
    """The terminal's Ctrl+C reaches pytest by itself, and is not sent a second time."""
    write(
        tmp_path,
        "print('in ' + 'flight', flush=True); time.sleep(60)",
        conftest="import time\ndef pytest_sessionfinish(): time.sleep(0.5)\n",
    )
    with terminal(tmp_path, *RUN, *the_pytest("-s")) as shell:
        # Words that stand nowhere else: "interrupt", in the folder's name, has an "up" in it.
        shell.expect("in flight")
        shell.send("\x03")
        assert shell.end() == 2
        assert len(re.findall("! KeyboardInterrupt !", shell.output)) == 1, shell.output
        assert "Traceback" not in shell.output
    report = read_report(tmp_path / REPORT)
    assert verdict_of(report) == ("INTERRUPTED", "interrupt.keyboard")
    assert report["completeness"] == "full"


@pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning")
def test_ctrl_c_where_nobody_says_who_sent_it(tmp_path: Path) -> None:
    """Where signals come without their senders, the terminal's are known by the foreground."""
    write(tmp_path, "print('up', flush=True); time.sleep(60)")
    code = (
        "import sys; from pytest_failure_taxonomy.survive import supervisor\n"
        "from pytest_failure_taxonomy.cli.main import main\n"
        "supervisor._hands_out_signals = lambda: False\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    command = [sys.executable, "-c", code, "run", "--", *the_pytest("-s")]
    with terminal(tmp_path, *command) as shell:
        shell.expect("up")
        shell.send("\x03")
        assert shell.end() == 2
        assert len(re.findall("! KeyboardInterrupt !", shell.output)) == 1, shell.output
        assert "Traceback" not in shell.output
    assert verdict_of(read_report(tmp_path / REPORT)) == (
        "INTERRUPTED",
        "interrupt.keyboard",
    )


@pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning")
def test_ctrl_z_and_fg(tmp_path: Path) -> None:
    """A run can be stopped and brought back, as any job of a shell."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs a shell with job control")
    write(
        tmp_path,
        "print('u' + 'p', flush=True); time.sleep(1.5); print('do' + 'ne', flush=True)",
    )
    with terminal(tmp_path, bash, "--norc", "--noprofile", "-i") as shell:
        words = " ".join(f"'{word}'" for word in [*RUN, *the_pytest("-s")])
        shell.send(f"{words}; echo status=$?\n")
        shell.expect(r"\bup\b")
        shell.send("\x1a")
        shell.expect("Stopped")
        shell.send("fg; echo again=$?\n")
        shell.expect(r"again=\d")
        assert "again=0" in shell.output, shell.output
        assert "done" in shell.output
        shell.send("exit\n")
        shell.end()
    report = read_report(tmp_path / REPORT)
    assert (report["completeness"], report["verdict"]) == ("full", None)


@pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning")
def test_a_debugger_can_be_used(tmp_path: Path) -> None:
    """`--pdb` reads what is typed, and the run goes on from there."""
    write(tmp_path, "value = 41; assert value == 0")
    with terminal(tmp_path, *RUN, *the_pytest("--pdb")) as shell:
        shell.expect(r"\(Pdb\)")
        shell.send("p value + 1\n")
        shell.expect(r"\n42\n")
        shell.send("c\n")
        assert shell.end() == 1
    report = read_report(tmp_path / REPORT)
    assert verdict_of(report) == ("TESTS_FAILED", "test.failed")
    assert report["summary"]["passed"] == 2


# As process 1.


def own_namespace() -> list[str]:
    """Return the command that starts another one as process 1, or skip the test."""
    command = ["unshare", "--pid", "--fork", "--mount-proc"]
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare")
    probe = subprocess.run([*command, "true"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("needs the right to make a namespace")
    return command


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 139),
        ("os._exit(0)", 3),
        ("assert 0", 1),
    ],
)
def test_as_process_1(tmp_path: Path, body: str, status: int) -> None:
    """Process 1 of a container can't end itself by a signal: it returns what a shell would show,
    and the report is complete when it does.
    """
    write(tmp_path, body)
    run = run_child(tmp_path, [*own_namespace(), *RUN, *the_pytest()])
    assert run.status == status, run.stderr
    report = read_report(tmp_path / REPORT)
    assert report["completeness"] != "running"
    assert report["exit"]["observed"] is (status != 1)


def test_process_1_reaps_orphans(tmp_path: Path) -> None:
    """What comes to process 1 when its parent has gone is waited for, and is not the command."""
    orphan = (
        "import os, pathlib, sys, time\n"
        "if os.fork() == 0:\n"
        "    if os.fork(): os._exit(0)\n"
        "    while os.getppid() != 1: time.sleep(0.01)\n"
        "    pathlib.Path('orphan').write_text(str(os.getpid()))\n"
        "    os._exit(9)\n"
        "os.wait()\n"
        "while not os.path.exists('orphan'): time.sleep(0.01)\n"
        "deadline = time.monotonic() + 20\n"
        "while os.path.exists('/proc/' + open('orphan').read()) or not open('orphan').read():\n"
        "    assert time.monotonic() < deadline\n"
        "    time.sleep(0.01)\n"
        "os._exit(4)\n"
    )
    run = run_child(tmp_path, [*own_namespace(), *RUN, sys.executable, "-c", orphan])
    assert run.status == 4, run.stderr


# A pytest within.


def test_a_pytest_that_a_test_starts_is_not_the_supervised_one(tmp_path: Path) -> None:
    """A test's own pytest, in a process of its own, knows nothing of the supervisor."""
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "pytest.ini").write_text("[pytest]\n")
    (inner / "test_inner.py").write_text("def test_inner(): assert 0\n")
    start = f"import subprocess; subprocess.run({the_pytest()!r}, cwd='inner')"
    write(tmp_path, f"{start}; os._exit(8)")
    run = supervise(tmp_path, *the_pytest())
    assert run.status == 8
    report = run.report(completeness="reconstructed")
    assert [test["nodeid"] for test in report["in_flight"]] == [
        "test_it.py::test_second"
    ]
    assert not (inner / REPORT).exists()


def test_a_pytest_in_the_same_process_is_not_the_supervised_one(tmp_path: Path) -> None:
    """A test that runs pytest in its own process (pytester does) gets no report that it has not
    asked for, and the supervisor completes the outer one's.
    """
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "pytest.ini").write_text("[pytest]\n")
    (inner / "test_inner.py").write_text("def test_inner(): assert 0\n")
    arguments = [
        "-p",
        "failure_taxonomy",
        "-p",
        "no:cacheprovider",
        "--rootdir=inner",
        "inner",
    ]
    write(tmp_path, f"pytest.main({arguments!r}); sys.stdout.flush(); os._exit(8)")
    run = supervise(tmp_path, *the_pytest("-s", "test_it.py"))
    assert run.status == 8
    report = run.report(completeness="reconstructed")
    assert [test["nodeid"] for test in report["in_flight"]] == [
        "test_it.py::test_second"
    ]
    assert report["summary"]["collected"] == 3
    assert "1 failed" in run.stdout
    assert run.stdout.count("why this run failed") == 1  # of the outer one
    assert sorted(path.name for path in tmp_path.glob("*.json")) == [REPORT]


# Behind other programs.


def behind(folder: Path, wrapper: str, command: Sequence[str]) -> list[str]:
    """Return the command of a program that runs another one, and stays until it has ended."""
    words = shlex.join(command)
    if wrapper == "sh":
        return ["sh", "-c", f"{words}; exit $?"]
    if wrapper == "make":
        (folder / "Makefile").write_text(f"test:\n\ttrue\n\t@{words}; exit $$?\n")
        return ["make", "test"]
    if wrapper in ("timeout", "env"):
        return [wrapper, "60" if wrapper == "timeout" else "X=1", *command]
    script = folder / wrapper  # what runs it elsewhere passes no variables on
    without = "env -u FAILURE_TAXONOMY_SUPERVISOR" if wrapper != "uv" else ""
    script.write_text(f'#!/bin/sh\nshift\n{without} "$@"\nexit $?\n')
    script.chmod(0o755)
    return [str(script), "run", *command]


def needs(wrapper: str) -> None:
    """Skip a test whose wrapper is a program that is not there."""
    if wrapper in ("make", "timeout") and shutil.which(wrapper) is None:
        pytest.skip(f"needs {wrapper}")


@needs_proc
@pytest.mark.parametrize("wrapper", ["sh", "make", "timeout", "env", "uv"])
def test_the_plugin_is_on_behind_a_wrapper(tmp_path: Path, wrapper: str) -> None:
    """The first pytest below the supervisor is its own, with the path and the stage for it."""
    needs(wrapper)
    write(tmp_path, "assert 0")
    command = behind(tmp_path, wrapper, the_pytest())
    options = ["--report=out/r.json", "--stage=final_test"]
    run = supervise(tmp_path, *command, options=options)
    assert run.status == (2 if wrapper == "make" else 1)
    report = run.report("out/r.json")
    assert verdict_of(report) == ("TESTS_FAILED", "test.failed")
    assert report["summary"]["passed"] == 2
    assert report["causes"][0]["owner"] == "test"  # which no output says
    assert run.stdout.count("report: ") == 1
    assert not (tmp_path / REPORT).exists()


@needs_proc
@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        ("os._exit(9)", "process.exited", 9),
        ("os.kill(os.getpid(), 9)", "process.killed", None),
    ],
)
def test_the_end_of_a_pytest_behind_a_wrapper(
    tmp_path: Path, body: str, kind: str, code: int | None
) -> None:
    """Its own end is reported, and not that of the command."""
    write(tmp_path, body)
    command = behind(tmp_path, "sh", the_pytest())
    run = supervise(tmp_path, *command)
    report = run.report(completeness="reconstructed")
    assert verdict_of(report)[1] == kind
    assert report["exit"]["code"] in (code, 137)
    assert [test["nodeid"] for test in report["in_flight"]] == [
        "test_it.py::test_second"
    ]


@needs_proc
def test_a_pytest_within_a_test_behind_a_wrapper(tmp_path: Path) -> None:
    """What a test starts is its own, though the first pytest has no plugin."""
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "pytest.ini").write_text("[pytest]\n")
    (inner / "test_inner.py").write_text("def test_inner(): pass\n")
    write(tmp_path, f"import subprocess; subprocess.run({the_pytest()!r}, cwd='inner')")
    command = behind(tmp_path, "sh", pytest_command(plugins=()))
    run = supervise(tmp_path, *command)
    assert run.status == 0
    assert run.report(completeness="reconstructed")["verdict"] is None
    assert not (inner / REPORT).exists()


@needs_proc
def test_an_agents_pytests_are_not_the_command(tmp_path: Path) -> None:
    """What an agent tries is no verdict on what it did."""
    write(tmp_path, "assert 0")
    line = f"{shlex.join(the_pytest())}; true"
    run = supervise(tmp_path, "sh", "-c", line, options=["--stage=agent_run"])
    assert run.status == 0
    assert run.report(completeness="reconstructed")["verdict"] is None


@needs_proc
@pytest.mark.parametrize(
    ("order", "failing", "told"),
    [
        (
            "{good} && {bad}",
            1,
            "1 pytest of the command passed before the reported one",
        ),
        ("{bad}; {good}; exit 1", 1, "1 more pytest of the command ran beside or"),
        ("{bad}; {bad} {switch}", 1, "1 more pytest of the command ran beside or"),
        (
            "{good} && {good}",
            0,
            "1 pytest of the command passed before the reported one",
        ),
    ],
)
def test_two_pytests_of_one_command(
    tmp_path: Path, order: str, failing: int, told: str
) -> None:
    """The report is of the first that did not pass; nothing is lost without a word."""
    write(tmp_path, "assert 0", test_other="def test_other(): pass\n")
    lines = {
        "good": shlex.join(the_pytest("test_other.py")),
        "bad": shlex.join(the_pytest("test_it.py")),
        "switch": SWITCH,
    }
    run = supervise(tmp_path, "sh", "-c", order.format(**lines))
    assert run.status == failing
    assert run.report()["summary"]["failed"] == failing
    assert told in run.stderr
    others = [each.name for each in tmp_path.glob("failure-report.*.json")]
    assert len(others) == ("{switch}" in order)
    assert all(name in run.stdout for name in others)


@needs_proc
def test_two_pytests_at_a_time(tmp_path: Path) -> None:
    """Of two that begin together each has a report, and one of them is the command's."""
    write(tmp_path, "time.sleep(2); assert 0")
    line = shlex.join(the_pytest())
    run = supervise(tmp_path, "sh", "-c", f"{line} & {line}; wait; exit 1")
    assert verdict_of(run.report()) == ("TESTS_FAILED", "test.failed")
    assert "1 more pytest of the command ran beside or" in run.stderr


@needs_proc
def test_a_variable_that_names_the_mailbox_of_others(tmp_path: Path) -> None:
    """In a container the same process id and descriptor are another's: they are left alone."""
    write(tmp_path, "assert 0")
    other = tmp_path / "other"
    for content in ("", "{}", '{"below": "- -"', "text"):
        other.write_text(content)
        place = {"FAILURE_TAXONOMY_SUPERVISOR": f"{os.getpid()}:{other}"}
        line = f"{shlex.join(the_pytest())}; true"
        assert run_child(tmp_path, ["sh", "-c", line], env=place).status == 0
        assert other.read_text() == content
        assert not (tmp_path / REPORT).exists()


@needs_proc
@pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning")
def test_a_wrapper_on_a_terminal(tmp_path: Path) -> None:
    """The command sees a terminal of the same size, reads what is typed, and is still read."""
    program = (
        "import os, sys\n"
        "print('size', *os.get_terminal_size(1), os.isatty(2), flush=True)\n"
        "print('got', input(), flush=True)\n"
        "print('\\33[31mx.c:3:5: error: boom\\33[0m')\n"
        "sys.exit(3)\n"
    )
    (tmp_path / "program.py").write_text(program)
    line = f"{sys.executable} program.py; exit $?"
    with terminal(tmp_path, *RUN, "sh", "-c", line) as shell:
        shell.expect("size 0 0 True")
        shell.send("words\n")
        assert shell.end() == 3
    assert "\ngot words\n\33[31mx.c:3:5: error: boom\33[0m\n" in shell.output
    evidence = read_report(tmp_path / REPORT)["verdict"]["evidence"]
    assert {"source": "printed", "detail": "x.c:3:5: error: boom"} in evidence


@needs_proc
@pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning")
def test_ctrl_c_behind_a_wrapper_on_a_terminal(tmp_path: Path) -> None:
    """It reaches the shell and its pytest, once."""
    write(tmp_path, "print('in ' + 'flight', flush=True); time.sleep(60)")
    line = f"{shlex.join(the_pytest('-s'))}; exit $?"
    with terminal(tmp_path, *RUN, "sh", "-c", line) as shell:
        shell.expect("in flight")
        shell.send("\x03")
        assert shell.end() in (2, -signal.SIGINT)
        assert len(re.findall("! KeyboardInterrupt !", shell.output)) == 1, shell.output
    assert verdict_of(read_report(tmp_path / REPORT)) == (
        "INTERRUPTED",
        "interrupt.keyboard",
    )


@needs_proc
@pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning")
def test_a_terminal_that_changes_its_size(tmp_path: Path) -> None:
    """The command learns of it."""
    import termios

    program = (
        "import os, signal, sys\n"
        "def tell(*_): print('size', os.get_terminal_size(1).columns, flush=True)\n"
        "signal.signal(signal.SIGWINCH, tell)\n"
        "print('re' + 'ady', flush=True)\n"
        "input()\n"
    )
    (tmp_path / "program.py").write_text(program)
    with terminal(tmp_path, *RUN, "env", sys.executable, "program.py") as shell:
        shell.expect("ready")
        termios.tcsetwinsize(shell.master, (30, 123))
        shell.expect("size 123")
        shell.send("\n")
        assert shell.end() == 0


# finalize.


@pytest.fixture
def dead(tmp_path: Path) -> Path:
    """Return a folder with the report and the record of a run that died and was left."""
    write(tmp_path, "os._exit(0)")
    run = run_pytest(tmp_path, *NO_WATCHER)
    assert run.status == 0
    run.report(completeness="running")
    return tmp_path


def test_finalize_completes_what_was_left(dead: Path) -> None:
    """The report says what was running and what was not run; the exit code is 1, twice."""
    first = finalize(dead, REPORT)
    assert first.status == 1
    report = first.report(completeness="reconstructed")
    assert verdict_of(report) == ("UNKNOWN", "process.vanished")
    assert (report["exit"]["code"], report["exit"]["observed"]) == (None, False)
    assert [test["nodeid"] for test in report["in_flight"]] == [
        "test_it.py::test_second"
    ]
    assert (report["summary"]["passed"], report["not_run"]["count"]) == (1, 1)
    assert first.told[-1] == f"report: {REPORT}"
    assert list(dead.glob(".fail*")) == []
    again = finalize(dead, REPORT)
    assert (again.status, again.told) == (1, first.told)
    assert again.report(completeness="reconstructed") == report


@pytest.mark.parametrize(
    ("code", "kind", "named"),
    [
        ("0", "process.exited", None),
        ("1", "process.exited", None),
        ("137", "process.killed", "SIGKILL"),
        ("139", "process.crashed", "SIGSEGV"),
        ("143", "process.terminated", "SIGTERM"),
    ],
)
def test_finalize_is_told_the_exit_code(
    dead: Path, code: str, kind: str, named: str | None
) -> None:
    """What the shell saw is an observation, signals included."""
    run = finalize(dead, "--exit-code", code, REPORT)
    assert run.status == 1
    report = run.report(completeness="reconstructed")
    assert report["verdict"]["kind"] == kind
    assert (report["exit"]["code"], report["exit"]["signal"]) == (int(code), named)
    assert (report["exit"]["observed"], report["exit"]["source"]) == (True, "finalize")


@pytest.mark.parametrize(("body", "status"), [("pass", 0), ("assert 0", 1)])
@pytest.mark.parametrize("told", [True, False])
def test_finalize_leaves_what_is_complete(
    tmp_path: Path, body: str, status: int, told: bool
) -> None:
    """A full report stays byte for byte; the exit code says whether the run had failed."""
    write(tmp_path, body)
    assert run_pytest(tmp_path).status == status
    before = (tmp_path / REPORT).read_bytes()
    args = ["--exit-code", str(status)] if told else []
    assert finalize(tmp_path, *args, REPORT).status == status
    assert (tmp_path / REPORT).read_bytes() == before


def test_finalize_corrects_what_is_complete(tmp_path: Path) -> None:
    """A green report of a process that ended otherwise becomes a failure."""
    write(tmp_path, "pass")
    assert run_pytest(tmp_path, *NO_WATCHER).status == 0
    run = finalize(tmp_path, "--exit-code=139", REPORT)
    assert run.status == 1
    report = run.report()
    assert verdict_of(report) == ("UNKNOWN", "process.crashed")
    assert finalize(tmp_path, "--exit-code=139", REPORT).status == 1
    assert run.report() == report


@needs_proc
def test_finalize_waits_for_nobody(tmp_path: Path) -> None:
    """A run that goes on is left alone, and that is said."""
    write(tmp_path, WAIT)
    with subprocess.Popen(
        pytest_command(SWITCH),
        cwd=tmp_path,
        env=child_environment(),
        stdout=subprocess.DEVNULL,
    ) as child:
        wait_until((tmp_path / "up").exists, "the test")
        before = (tmp_path / REPORT).read_bytes()
        assert "the run is still going on" in one_line(finalize(tmp_path, REPORT))
        assert (tmp_path / REPORT).read_bytes() == before
        child.kill()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no such file"),
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "it is no JSON object"),
        (b"\xff", "not UTF-8"),
        (
            b'{"schema_version": "9.0"}',
            "schema version 9.0 is newer than this program reads",
        ),
        (b'{"a": 1, "a": 2}', "stands twice"),
    ],
    ids=["missing", "empty", "torn", "array", "not-utf-8", "newer", "twice"],
)
def test_finalize_refuses_what_is_no_report(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    """What can't be read as a report is said in one line, and is left as it is."""
    path = tmp_path / REPORT
    if content is not None:
        path.write_bytes(content)
    assert words in one_line(finalize(tmp_path, REPORT))
    assert path.exists() == (content is not None)
    assert content is None or path.read_bytes() == content


def test_finalize_where_nothing_says_how_pytest_ended(dead: Path) -> None:
    """A death that nobody saw is told as that, in words that don't guess."""
    run = finalize(dead, REPORT)
    verdict = read_report(dead / REPORT)["verdict"]
    assert (verdict["kind"], verdict["confidence"]) == ("process.vanished", "likely")
    assert verdict["message"].startswith("pytest died")
    assert verdict["message"] in run.stdout + run.stderr


def test_finalize_without_a_record(dead: Path) -> None:
    """A report that says `running` and has no record can't be completed, and stays."""
    before = (dead / REPORT).read_bytes()
    (record,) = dead.glob(f".{REPORT}.*[0-9a-f]")
    shutil.rmtree(record)
    assert "the record has no beginning" in one_line(finalize(dead, REPORT))
    assert (dead / REPORT).read_bytes() == before


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        (
            "state",
            b"PFTREC99" + bytes(4_088),
            "the record has layout 99, this program reads 03",
        ),
        ("state", b"SQLite 3" + bytes(4_088), "state is no record of a run"),
        ("events", b"", "the record has no beginning"),
        ("events", b'["run", {"run_id": "other"}]\n', "the record is of run other"),
        ("events", b"garbage", "the record has no beginning"),
    ],
    ids=["newer", "foreign", "empty", "another-run", "garbage"],
)
def test_finalize_with_a_record_that_is_none(
    dead: Path, file: str, content: bytes, words: str
) -> None:
    """A record that can't be understood is said in one line; nothing is removed."""
    (record,) = dead.glob(f".{REPORT}.*[0-9a-f]")
    (record / file).write_bytes(content)
    before = (dead / REPORT).read_bytes()
    assert words in one_line(finalize(dead, REPORT))
    assert (dead / REPORT).read_bytes() == before
    assert record.exists()


@pytest.mark.parametrize("code", ["-1", "256", "1000"])
def test_finalize_refuses_what_is_no_exit_code(dead: Path, code: str) -> None:
    """A number that no process can end with is refused."""
    assert f"{code} is no exit code; give 0 to 255" in one_line(
        finalize(dead, f"--exit-code={code}", REPORT)
    )


def test_a_pytest_within_a_command_keeps_its_report(tmp_path: Path) -> None:
    """A shell that runs pytest is no pytest, and the report that its pytest wrote says more."""
    write(tmp_path, "assert 0")
    inner = shlex.join(pytest_command(SWITCH, plugins=("failure_taxonomy",)))
    run = supervise(tmp_path, "sh", "-c", f"{inner}; exit 7")
    assert run.status == 7
    report = run.report()
    assert verdict_of(report) == ("TESTS_FAILED", "test.failed")
    assert report["summary"]["passed"] == 2


def test_want_of_memory_is_told_by_the_cgroup(tmp_path: Path) -> None:
    """A pytest that the OOM killer ended in a cgroup of its own is process.oom, and likely."""
    group = Path("/sys/fs/cgroup/memory") / f"failure-taxonomy-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(150 * 1024 * 1024))
    except OSError:
        pytest.skip("needs the right to make a memory cgroup (version 1)")
    try:
        with suppress(OSError):
            (group / "memory.memsw.limit_in_bytes").write_text(str(150 * 1024 * 1024))
        write(tmp_path, "hog = b'x' * (1 << 30)")
        enter = f"echo $$ > {shlex.quote(str(group / 'cgroup.procs'))}"
        command = shlex.join([*RUN, *the_pytest()])
        run = run_child(tmp_path, ["sh", "-c", f"{enter} && exec {command}"])
        if run.status not in (-signal.SIGKILL, 137):
            pytest.skip("this kernel does not hold the limit")
        report = read_report(tmp_path / REPORT)
        assert verdict_of(report) == ("SANDBOX_ERROR", "process.oom")
        assert report["verdict"]["confidence"] in (
            "likely",
            "certain",
        )  # by the kernel's log
        assert [test["nodeid"] for test in report["in_flight"]] == [
            "test_it.py::test_second"
        ]
    finally:
        for process_id in (group / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(process_id), signal.SIGKILL)
        with suppress(OSError):
            group.rmdir()


@pytest.mark.skipif(sys.platform != "linux", reason="nobody can write to /proc")
def test_a_collection_in_a_folder_that_can_not_be_written_to(tmp_path: Path) -> None:
    """`run` finds the report where pytest had to put it at its end."""
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n", "utf-8")
    options = ["--collect-only", "-q", "-p", "no:cacheprovider"]
    command = the_pytest(*options, "--rootdir", str(tmp_path), str(tmp_path))
    run = run_child(Path("/proc"), [*CLI, "run", "--", *command])
    assert run.status == 0, run.stdout + run.stderr
    assert "the process exited" not in run.stdout
