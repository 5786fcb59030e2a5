"""Attacks on the command line: streams that can't be written, a supervisor that fails or dies."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import venv
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final

import pytest

from tests.attacks.conftest import Attacks
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
from tests.helpers.waiting import wait_until

if sys.platform == "win32":  # its names for signals are needed below
    pytest.skip("needs /proc and /dev/full", allow_module_level=True)

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="needs /proc and /dev/full"
)

CLI: Final = (sys.executable, "-m", "pytest_failure_taxonomy")
SUITE: Final = (
    "import os, pathlib, time\ndef test_first(): pass\ndef test_second():\n    {body}\n"
)
WAIT: Final = "pathlib.Path('up').touch(); time.sleep(60)"


def write(folder: Path, body: str) -> None:
    """Write a suite of two tests of which the second one does something."""
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    (folder / "test_it.py").write_text(SUITE.format(body=body), "utf-8")


def supervise(
    folder: Path, *command: str, options: Sequence[str] = (), **given: Any
) -> ChildRun:
    """Run a command under `run`."""
    return run_child(folder, [*CLI, "run", *options, "--", *command], **given)


def is_running(process_id: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    try:
        fields = (
            Path(f"/proc/{process_id}/stat").read_text().rpartition(") ")[2].split()
        )
    except OSError:
        return False
    return fields[0] not in "ZX"


# Streams that can't be written.

STREAMS: Final = (
    "2>&-",
    "2>/dev/full",
    "<&- >&- 2>&-",
    ">/dev/full 2>/dev/full",
)


@pytest.fixture
def subjects(tmp_path: Path) -> Path:
    """Return a folder with what the commands are given: reports, a log, a task class."""
    write(tmp_path, "assert 0")
    run_pytest(tmp_path, f"{SWITCH}-report=failed.json")
    (tmp_path / "green.py").write_text("def test_it(): pass\n")
    run_pytest(tmp_path, f"{SWITCH}-report=green.json", "green.py")
    (tmp_path / "log").write_text("nothing of pytest's\n")
    (tmp_path / "rules.yaml").write_text("rules: 3\n")
    return tmp_path


COMMANDS: Final = (
    ("run -- true", 0),
    ("run -- sh -c 'exit 7'", 7),
    ("run -- no-such-command", 2),
    ("run --report=log/r.json -- sh -c 'exit 7'", 7),
    ("finalize green.json", 0),
    ("finalize failed.json", 1),
    ("finalize none.json", 2),
    ("classify --exit-code 0 log", 0),
    ("classify --exit-code 1 log", 1),
    ("classify none", 2),
    ("validate green.json", 0),
    ("validate green.json rules.yaml", 1),
    ("validate none", 2),
    ("bench init {new}", 0),
    ("bench", 2),
    ("--version", 0),
    ("--help", 0),
    ("run --timeout never -- true", 2),
)


@pytest.mark.parametrize("buffered", [True, False], ids=["buffered", "unbuffered"])
def test_own_words_never_change_the_exit_status(
    subjects: Path, attacks: Attacks, buffered: bool
) -> None:
    """Where stdout or stderr are closed, full or a pipe that nobody reads, each command ends as
    ever.
    """
    pairs = [
        (turn, number)
        for turn in range(len(COMMANDS))
        for number in range(len(STREAMS))
        if buffered or number == len(STREAMS) - 1
    ]
    if not attacks.all:  # each command once, and each way to spoil the streams in turn
        pairs = [pair for pair in pairs if sum(pair) % len(STREAMS) == 0]
    env = {"PYTHONUNBUFFERED": None if buffered else "1"}
    found, wanted = {}, {}
    for turn, number in pairs:
        words, status = COMMANDS[turn]
        command = words.replace("{new}", f"new{number}{buffered}")
        line = f"{shlex.join(CLI)} {command} {STREAMS[number]}"
        wanted[line] = (status, "")
        run = run_child(subjects, ["sh", "-c", line], env=env)
        words_of_python = re.search("Traceback|Exception ignored", run.stderr)
        found[line] = (run.status, words_of_python[0] if words_of_python else "")
    assert found == wanted


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize(
    ("command", "status"), [("run -- sh -c 'exit 7'", 7), ("--help", 0)]
)
def test_a_pipe_that_nobody_reads(
    subjects: Path, stream: str, command: str, status: int
) -> None:
    """That is no failure, and nothing is said of it."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        streams: dict[str, Any] = {stream: writing}
        run = run_child(subjects, [*CLI, *shlex.split(command)], **streams)
    finally:
        os.close(writing)
    assert run.status == status
    assert "BrokenPipe" not in run.stderr


def test_an_answer_that_is_lost_is_told(subjects: Path) -> None:
    """Where the disk that the answer goes to is full, stderr says so in one line."""
    line = f"{shlex.join(CLI)} classify --exit-code 1 log >/dev/full"
    run = run_child(subjects, ["sh", "-c", line])
    assert run.status == 1
    (line,) = run.stderr.splitlines()
    words = "stdout: the answer can't be written: No space left on device; redirect it"
    assert line == f"failure-taxonomy: {words} elsewhere"


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize("body", ["pass", "assert 0"])
def test_the_plugins_words_do_not_change_it_either(
    tmp_path: Path, streams: str, body: str
) -> None:
    """A fault that can't be told on stderr leaves pytest's exit status alone."""
    write(tmp_path, body)
    (tmp_path / "conftest.py").write_text(
        "def pytest_failure_taxonomy_report(report): raise ValueError('no')\n"
    )
    plain = shlex.join(pytest_command(plugins=()))
    ours = shlex.join(pytest_command(SWITCH))
    conftest = tmp_path / "conftest.py"
    run = run_child(tmp_path, ["sh", "-c", f"{ours} {streams}"])
    assert "ValueError: no" in str(run.report()["faults"])
    conftest.unlink()
    assert run.status == run_child(tmp_path, ["sh", "-c", f"{plain} {streams}"]).status


# What is given to `run`.


@pytest.mark.parametrize("seconds", ["1e10", "9223372036.9", "1e300"])
def test_a_limit_that_never_comes(tmp_path: Path, seconds: str) -> None:
    """Any finite number of seconds is a limit; the command runs to its end."""
    run = supervise(tmp_path, "sh", "-c", "exit 7", options=["--timeout", seconds])
    assert run.status == 7
    assert run.report(completeness="reconstructed")["exit"]["code"] == 7


@pytest.mark.parametrize(
    "words", ["run -- touch ran", "finalize r.json", "bench init new", "validate none"]
)
def test_a_working_directory_that_is_gone(tmp_path: Path, words: str) -> None:
    """That is said in one line, and nothing is run."""
    script = f"mkdir gone && cd gone && rmdir ../gone && {shlex.join(CLI)} {words}"
    run = run_child(tmp_path, ["sh", "-c", script])
    assert run.status == 2
    (line,) = run.stderr.splitlines()
    assert re.search(
        "doesn't exist any more; change to|there is no such file|can't be written", line
    )
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_removes_its_folder(tmp_path: Path) -> None:
    """The exit code is passed on all the same."""
    (tmp_path / "gone").mkdir()
    run = supervise(tmp_path / "gone", "sh", "-c", "rm -rf ../gone; exit 7")
    assert run.status == 7
    assert "Traceback" not in run.stderr


def test_no_place_for_temporary_files(tmp_path: Path) -> None:
    """A pytest is supervised where there is no folder for temporary files at all."""
    write(tmp_path, "os._exit(0)")
    code = (
        "import sys, tempfile\n"
        "def no_place(*_, **__): raise FileNotFoundError(2, 'No usable temporary directory')\n"
        "tempfile.mkdtemp = no_place\n"
        "from pytest_failure_taxonomy.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    run = run_child(
        tmp_path, [sys.executable, "-c", code, "run", "--", *pytest_command()]
    )
    assert run.status == 3
    report = run.report(completeness="reconstructed")
    assert [test["nodeid"] for test in report["in_flight"]] == [
        "test_it.py::test_second"
    ]


# A supervisor that fails.

FAULTS: Final = {
    "the-first-wait": "raise_at(signal, 'sigtimedwait', 1)",
    "reaping": "raise_at(os, 'waitpid', 1)",
    "the-senders-name": "raise_at(supervisor, 'name_of', 1)",
    "the-limit": "raise_at(supervisor._ChildBySignals, 'send', 1)",
    "the-other-way-to-wait": (
        "import subprocess; supervisor._hands_out_signals = lambda: False;"
        "raise_at(subprocess.Popen, 'wait', 1)"
    ),
}
INJECTED: Final = """
import os, signal, sys
from pytest_failure_taxonomy.survive import supervisor
from pytest_failure_taxonomy.cli.main import main
supervisor.GRACE_SECONDS = 0.5
def raise_at(place, name, count):
    real = getattr(place, name)
    calls = []
    def fail(*args, **named):
        calls.append(name)
        if len(calls) == count:
            raise MemoryError('injected')
        return real(*args, **named)
    setattr(place, name, fail)
{fault}
sys.exit(main(sys.argv[1:]))
"""
STUBBORN: Final = (
    "import os, pathlib, signal, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "pathlib.Path('id').write_text(str(os.getpid()))\n"
    "pathlib.Path('up').touch()\n"
    "time.sleep(60)\n"
)
OBEDIENT: Final = STUBBORN.replace("signal.SIG_IGN", "signal.SIG_DFL")


@pytest.mark.parametrize(
    ("command", "number"), [(OBEDIENT, signal.SIGTERM), (STUBBORN, signal.SIGKILL)]
)
@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_fails_ends_and_reaps_the_command(
    tmp_path: Path, fault: str, command: str, number: signal.Signals
) -> None:
    """No command is left without its parent: it is asked to end, then ended, and reported."""
    child = [sys.executable, "-c", command]
    wait_for_child = "while not os.path.exists('up'): time.sleep(0.01)"
    code = INJECTED.replace("{fault}", FAULTS[fault])
    if fault in ("the-first-wait", "the-other-way-to-wait"):
        # As late as the command is there; the fault itself comes with the first call.
        code = code.replace(
            "raise MemoryError",
            f"import time\n            {wait_for_child}\n            raise MemoryError",
        )
    options = ["--timeout", "3"] if fault == "the-limit" else []
    with subprocess.Popen(
        [sys.executable, "-c", code, "run", *options, "--", *child],
        cwd=tmp_path,
        env=child_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as supervisor:
        try:
            wait_until((tmp_path / "up").exists, "the command")
            inner = int(wait_until((tmp_path / "id").read_text, "its id"))
            if fault == "reaping":
                os.kill(inner, signal.SIGKILL)
            if fault == "the-senders-name":
                supervisor.send_signal(signal.SIGHUP)
            _, said = supervisor.communicate(timeout=60)
        finally:
            supervisor.kill()
    assert not Path(f"/proc/{inner}").exists(), "not reaped"
    expected = signal.SIGKILL if fault == "reaping" else number
    assert supervisor.returncode in (
        -expected,
        124 if fault == "the-limit" else -expected,
    )
    lines = [line for line in said.decode().splitlines() if "supervisor failed" in line]
    assert len(lines) == 1, said
    assert "MemoryError: injected" in lines[0]
    assert b"Traceback" not in said
    assert read_report(tmp_path / REPORT)["exit"]["signal"] == expected.name


def test_a_report_that_can_not_be_made(tmp_path: Path) -> None:
    """Whatever goes wrong after the command's end, its exit code is passed on."""
    code = INJECTED.replace(
        "{fault}",
        "from pytest_failure_taxonomy.cli import run; raise_at(run, 'report_of_command', 1)",
    )
    run = run_child(
        tmp_path, [sys.executable, "-c", code, "run", "--", "sh", "-c", "exit 7"]
    )
    assert run.status == 7
    (line,) = run.stderr.splitlines()
    assert line.endswith("the report can't be made: MemoryError: injected")


def test_signals_are_the_users_again(tmp_path: Path) -> None:
    """A report that is never done can be given up by a signal, some seconds after the end."""
    code = INJECTED.replace(
        "{fault}",
        "import pathlib, time; from pytest_failure_taxonomy.cli import run\n"
        "supervisor.QUIET_SECONDS = 0.5\n"
        "def hang(*_, **__): pathlib.Path('up').touch(); time.sleep(60)\n"
        "run.report_of_command = hang",
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, "run", "--", "true"],
        cwd=tmp_path,
        env=child_environment(),
    ) as child:
        try:
            wait_until((tmp_path / "up").exists, "the report")

            def has_ended() -> bool:
                child.terminate()
                return child.poll() is not None

            wait_until(has_ended, "the end")
            assert child.returncode == -signal.SIGTERM
        finally:
            child.kill()


# The supervisor's death.


@pytest.mark.parametrize("kind", ["pytest", "another"])
def test_a_killed_run_leaves_nothing_behind(tmp_path: Path, kind: str) -> None:
    """Not even SIGKILL leaves a folder among the temporary files."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    write(tmp_path, WAIT)
    command = (
        pytest_command()
        if kind == "pytest"
        else ["sh", "-c", "touch up; exec sleep 60"]
    )
    with subprocess.Popen(
        [*CLI, "run", "--", *command],
        cwd=tmp_path,
        env=child_environment({"TMPDIR": str(folder)}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as child:
        try:
            wait_until((tmp_path / "up").exists, "the command")
            child.kill()
            child.wait()
            assert [
                path.name for path in folder.iterdir() if "pytest-of" not in path.name
            ] == []
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


# A pytest without the plugin.


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return an interpreter that has pytest, and nothing that is not pytest's."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder / "venv", symlinks=True)
    only = folder / "only"
    only.mkdir()
    for name in ("pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        found = distribution(name)
        for file in found.files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (only / top).exists():
                (only / top).symlink_to(Path(str(found.locate_file(top))))
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    (site / "only.pth").write_text(f"{only}\n")
    return str(folder / "venv" / "bin" / "python")


MISSING: Final = (
    "failure-taxonomy: pytest-failure-taxonomy is not installed in {bare}: "
)


def test_it_is_told(tmp_path: Path, bare: str) -> None:
    """One line names the interpreter and what to do; the report says what the exit code tells."""
    write(tmp_path, "assert 0")
    command = [bare, "-m", "pytest", "-p", "no:cacheprovider"]
    run = supervise(tmp_path, *command)
    assert run.status == 1
    (line,) = [line for line in run.stderr.splitlines() if "not installed" in line]
    assert line.startswith(MISSING.format(bare=bare))
    assert line.endswith(
        f"install it there: {bare} -m pip install pytest-failure-taxonomy"
    )
    assert run.told[1] == (
        "tests failed, judging only by pytest's exit code [TESTS_FAILED test.failed, likely]"
    )
    report = run.report(completeness="reconstructed")
    assert "collection.error" in report["verdict"]["ambiguous"]
    assert report["faults"] == [line.removeprefix("failure-taxonomy: ")]


@pytest.mark.parametrize(
    ("body", "args", "status", "verdict"),
    [
        ("assert 0", (), 1, ("TESTS_FAILED", "test.failed", "test_it.py::test_second")),
        ("pass", (), 0, None),
        (
            "pass",
            ("-k", "nothing"),
            5,
            ("NO_TESTS_COLLECTED", "tests.all_deselected", None),
        ),
        (
            "os.abort()",
            ("-v",),
            -6,
            ("UNKNOWN", "process.crashed", "test_it.py::test_second"),
        ),
        ("pass", ("--no-such-option",), 4, ("INTERNAL_ERROR", "usage.error", None)),
    ],
)
def test_output_in_a_file_is_read(
    tmp_path: Path,
    bare: str,
    body: str,
    args: Sequence[str],
    status: int,
    verdict: tuple[str, str, str | None] | None,
) -> None:
    """Where stdout is a file, what pytest has printed there is known as well, and nothing else."""
    write(tmp_path, body)
    with (tmp_path / "log").open("ab") as file:
        file.write(b"===== 9 failed in 1.00s =====\n")
        file.flush()
        run = supervise(tmp_path, bare, "-m", "pytest", *args, stdout=file)
    assert run.status == status
    assert MISSING.format(bare=bare) in run.stderr
    report = run.report(completeness="reconstructed")
    found = report["verdict"]
    if status == 4:  # pytest says that on stderr
        assert (found["reason"], found["kind"]) == verdict[:2] if verdict else None
        return
    assert (found and (found["reason"], found["kind"], found["nodeid"])) == verdict
    assert report["exit"]["source"] == "supervisor"
    assert report["summary"]["passed"] == {0: 2, 1: 1}.get(status, 0)


def test_an_interpreter_without_a_pytest(tmp_path: Path) -> None:
    """Where there is no pytest at all, nobody says that tests failed."""
    venv.create(tmp_path / "venv", symlinks=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    run = supervise(tmp_path, python, "-m", "pytest")
    assert run.status == 1
    assert f"failure-taxonomy: pytest is not installed in {python}; " in run.stderr
    assert (
        run.report(completeness="reconstructed")["verdict"]["kind"] == "command.failed"
    )


def test_a_script_is_asked_by_its_first_line(tmp_path: Path, bare: str) -> None:
    """`pytest` is a script; the interpreter that it names is the one."""
    write(tmp_path, "pass")
    script = tmp_path / "pytest"
    script.write_text(f"#!{bare}\nimport sys, pytest\nsys.exit(pytest.main())\n")
    script.chmod(0o755)
    run = supervise(tmp_path, str(script))
    assert run.status == 0
    assert f"is not installed in {bare}, to which {script} belongs: " in run.stderr
    assert (
        f"; run {sys.executable} -m pytest instead, or install it there: {bare}"
        in run.stderr
    )
    assert (
        "taxonomy: the command ended with status 0; report: failure-report.json"
        in run.stderr
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("-p", "failure_taxonomy"), "the plugin failure_taxonomy is not installed"),
        (("--why-html=x.html",), "pytest does not know --why-html=x.html"),
    ],
)
def test_our_options_in_an_environment_without_us(
    tmp_path: Path, bare: str, args: Sequence[str], message: str
) -> None:
    """The verdict names the option of ours that the pytest of another environment refused."""
    write(tmp_path, "pass")
    run = supervise(tmp_path, bare, "-m", "pytest", *args)
    assert run.status != 0
    assert MISSING.format(bare=bare) in run.stderr
    (cause,) = run.report(completeness="reconstructed")["causes"]
    assert (cause["what"], cause["fix"]) == (
        message,
        "pip install pytest-failure-taxonomy",
    )


@pytest.mark.parametrize("args", [("-p", "no:failure_taxonomy"), ("-p", "typo")])
def test_what_is_installed_is_not_missed(tmp_path: Path, args: Sequence[str]) -> None:
    """A plugin that was switched off, or that pytest did not come to, is not said to be missing."""
    write(tmp_path, "pass")
    run = supervise(tmp_path, sys.executable, "-m", "pytest", *args)
    assert "pytest-failure-taxonomy is not installed" not in run.stderr


def test_a_switch_in_the_environment_is_named(tmp_path: Path) -> None:
    """Where the environment keeps plugins from being loaded, that is what is said."""
    write(tmp_path, "pass")
    run = supervise(
        tmp_path,
        *(sys.executable, "-m", "pytest"),
        env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    assert run.status == 0
    assert "was not loaded" in run.stderr
    assert "give pytest -p failure_taxonomy" in run.stderr


# Words.


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("kill -9 $$", "the command was killed (SIGKILL)"),
        ("kill -15 $$", "the command was told to end by a signal"),
        ("kill -11 $$", "the command crashed"),
        ("kill -2 $$; sleep 60", "the command was interrupted from the keyboard"),
    ],
)
def test_a_command_is_no_pytest(tmp_path: Path, script: str, words: str) -> None:
    """How another command died is told without a word of pytest."""
    run = supervise(tmp_path, "sh", "-c", f"ulimit -c 0; {script}")
    report = run.report(completeness="reconstructed")
    assert report["verdict"]["message"].startswith(words)
    assert "pytest" not in " ".join(run.told)


def test_a_limit_of_a_command(tmp_path: Path) -> None:
    """So is that its time was up."""
    run = supervise(tmp_path, "sleep", "60", options=["--timeout=0.2"])
    assert run.status == 124
    message = run.report(completeness="reconstructed")["verdict"]["message"]
    assert message == "the command hit its time limit"


# Reports that a watcher is about to complete.


def watcher_of(run_id: str) -> int | None:
    """Return the id of the process that watches a run."""
    for entry in os.listdir("/proc"):
        with suppress(OSError):
            words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
            if entry.isdigit() and run_id.encode() in words and is_running(int(entry)):
                return int(entry)
    return None


def waits_for(process_id: int, other: int) -> bool:
    """Tell whether a process holds a descriptor of another one, to wait for it."""
    with suppress(OSError):
        folder = Path(f"/proc/{process_id}/fdinfo")
        return any(f"Pid:\t{other}\n" in each.read_text() for each in folder.iterdir())
    return False


@pytest.fixture
def halted(tmp_path: Path) -> Any:
    """Return a folder with the report of a pytest that has died, whose watcher stands still."""
    write(tmp_path, WAIT)
    with subprocess.Popen(
        pytest_command(SWITCH),
        cwd=tmp_path,
        env=child_environment(),
        stdout=subprocess.DEVNULL,
    ) as child:
        wait_until((tmp_path / "up").exists, "the test")
        run_id = read_report(tmp_path / REPORT)["run"]["id"]
        watcher = wait_until(lambda: watcher_of(run_id), "the watcher")
        os.kill(watcher, signal.SIGSTOP)
        child.kill()
        child.wait()
    yield tmp_path, watcher
    with suppress(ProcessLookupError):
        os.kill(watcher, signal.SIGKILL)


@pytest.mark.parametrize(
    ("command", "status", "words"),
    [("finalize", 1, "SIGKILL"), ("validate", 0, "report, reconstructed")],
)
def test_a_reader_waits_for_the_watcher(
    halted: tuple[Path, int], command: str, status: int, words: str
) -> None:
    """What is read is what the watcher writes: it saw the end, the reader did not."""
    folder, watcher = halted
    with subprocess.Popen(
        [*CLI, command, REPORT],
        cwd=folder,
        env=child_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as reader:
        wait_until(lambda: waits_for(reader.pid, watcher), "the wait")
        os.kill(watcher, signal.SIGCONT)
        said, _ = reader.communicate(timeout=60)
        assert reader.returncode == status, said
    assert words in said
    report = read_report(folder / REPORT)
    assert report["completeness"] == "reconstructed"
    assert report["exit"]["source"] == "watcher"


def test_it_waits_a_few_seconds_at_most(halted: tuple[Path, int]) -> None:
    """A watcher that does not come to its end is done without."""
    folder, _ = halted
    run = run_child(folder, [*CLI, "finalize", REPORT])
    assert run.status == 1
    assert run.report(completeness="reconstructed")["exit"]["source"] == "finalize"


def test_run_waits_for_the_watcher_of_a_pytest_within(tmp_path: Path) -> None:
    """A pytest that a shell has run has a watcher of its own, and `run` reads what that writes."""
    write(tmp_path, "os._exit(0)")
    inner = shlex.join(pytest_command(SWITCH))
    run = supervise(tmp_path, "sh", "-c", f"{inner}; exit 7")
    assert run.status == 7
    report = run.report(completeness="reconstructed")
    assert report["verdict"]["kind"] == "process.exited"
    assert report["exit"]["source"] == "watcher"


def test_a_limit_around_a_pytest_within(tmp_path: Path) -> None:
    """What a limit has ended with all its watchers is completed by who set the limit."""
    write(tmp_path, WAIT)
    inner = shlex.join(pytest_command(SWITCH))
    for seconds in ("4", "16", "48"):  # for a machine that has much else to do
        run = supervise(
            tmp_path, "sh", "-c", f"{inner}; exit 7", options=["--timeout", seconds]
        )
        assert run.status == 124
        if (tmp_path / "up").exists():
            break
    report = run.report(completeness="reconstructed")
    assert report["verdict"]["kind"] in ("process.timeout", "process.terminated")
    assert [test["nodeid"] for test in report["in_flight"]] == [
        "test_it.py::test_second"
    ]
