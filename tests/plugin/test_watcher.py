"""The watcher: what it sees of a process that is not its own, and that nobody sees of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.helpers.children import (
    REPORT,
    SWITCH,
    child_environment,
    pytest_command,
    run_child,
    run_pytest,
)
from tests.helpers.reports import assert_valid_report, read_report

if sys.platform == "win32":  # its names for signals are needed below
    pytest.skip("the watcher needs Linux", allow_module_level=True)

pytestmark = [
    pytest.mark.skipif(
        not hasattr(os, "pidfd_open") or not Path("/proc/self/stat").exists(),
        reason="needs Linux",
    ),
    pytest.mark.skipif(os.getpid() == 1, reason="process 1 has no watcher"),
]

DEADLINE_SECONDS: Final = 60.0
NO_CORE: Final = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
OFF: Final = ("-o", "failure_taxonomy_watcher=false")
PASSING: Final = "def test_passes(): pass\n"

FIND_WATCHERS: Final = """
import os, json, pathlib

def watchers(pid):
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            words = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes().split(bytes(1))
        except OSError:
            continue
        if len(words) > 5 and words[3].endswith(b"watcher.py") and words[5] == str(pid).encode():
            found.append(int(entry))
    return found
"""


def write(folder: Path, content: str, **files: str) -> None:
    """Write a configuration, a test file, and further modules by name."""
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    (folder / "test_it.py").write_text(content, "utf-8")
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, "utf-8")


def watchers_below(folder: Path) -> list[int]:
    """Return the processes that watch a run whose report is in a folder."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            is_watcher = len(words) > 7 and words[3].endswith(b"watcher.py")
            if is_watcher and os.fsdecode(words[7]).startswith(str(folder)):
                found.append(int(entry))
    return found


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    """Wait until a condition holds, and return what it gave."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (result := condition()):
        assert time.monotonic() < deadline, f"{what} never came"
        time.sleep(0.01)
    return result


def final_report(
    folder: Path, is_final: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """Wait until the report is what it has to become, and return it after checking it."""

    def read() -> dict[str, Any] | None:
        report: dict[str, Any] = json.loads((folder / REPORT).read_text("ascii"))
        return report if is_final(report) else None

    report: dict[str, Any] = wait_until(read, "the report")
    assert_valid_report(report)
    wait_until(lambda: watchers_below(folder) == [], "the watcher's end")
    assert left_in(folder) == [REPORT]
    return report


def left_in(folder: Path) -> list[str]:
    """Return what a run has left behind beside the files that it was given."""
    return sorted(
        path.name
        for path in folder.iterdir()
        if path.name.startswith(".failure")
        or path.suffix == ".json"
        or path.suffix == ".tmp"
    )


def is_completed(report: dict[str, Any]) -> bool:
    """Tell whether the run's end is in the report."""
    return bool(report["completeness"] != "running")


def is_observed(report: dict[str, Any]) -> bool:
    """Tell whether a second process has put the end into the report."""
    return bool(report["exit"]["observed"])


def last_line(run_stdout: str) -> str:
    """Return the line with pytest's counts."""
    return run_stdout.strip().splitlines()[-1]


# That nobody sees of it.


def test_nobodys_child(tmp_path: Path) -> None:
    """A test that waits for its children, or lists them, meets none; the watcher is there, in a
    session of its own, in the root folder, with no descriptor of the run's.
    """
    write(
        tmp_path,
        FIND_WATCHERS + "import pathlib, pytest\n"
        "def test_it():\n"
        "    with pytest.raises(ChildProcessError): os.waitpid(-1, os.WNOHANG)\n"
        "    for entry in os.listdir('/proc'):\n"
        "        if entry.isdigit():\n"
        "            try: fields = open(f'/proc/{entry}/stat').read().rpartition(') ')[2].split()\n"
        "            except OSError: continue\n"
        "            assert fields[1] != str(os.getpid()), entry\n"
        "    import time\n"
        "    deadline = time.monotonic() + 30\n"
        "    while True:\n"
        "        (watcher,) = watchers(os.getpid())\n"
        "        if os.getsid(watcher) != os.getsid(0): break\n"
        "        assert time.monotonic() < deadline\n"
        "    while os.readlink(f'/proc/{watcher}/cwd') != '/':\n"
        "        assert time.monotonic() < deadline\n"
        "    assert os.getpgid(watcher) != os.getpgrp()\n"
        "    time.sleep(0.3)\n"
        "    open_files = [os.readlink(f'/proc/{watcher}/fd/{fd}')\n"
        "                  for fd in os.listdir(f'/proc/{watcher}/fd')]\n"
        "    strange = [name for name in open_files if name != '/dev/null'\n"
        "               and not name.endswith(('/state', '/events', '/memory'))\n"
        "               and 'pidfd' not in name]\n"
        # By the socket it gets descriptors of what pytest leaves behind.
        "    assert [name.partition(':')[0] for name in strange] == ['socket']\n"
        "    status = pathlib.Path(f'/proc/{watcher}/status').read_text()\n"
        "    ignored = int(status.partition('SigIgn:')[2].split()[0], 16)\n"
        "    for number in (1, 2, 3, 15): assert ignored >> (number - 1) & 1, number\n",
    )
    run = run_pytest(tmp_path, "-s")
    assert run.status == 0, run.stdout
    wait_until(lambda: watchers_below(tmp_path) == [], "the watcher's end")


def test_a_pipe_ends_with_pytest(tmp_path: Path) -> None:
    """Who reads pytest's output through a pipe sees its end when pytest ends, however it ends."""
    write(
        tmp_path,
        "import os, signal\ndef test_it(): os.kill(os.getpid(), signal.SIGKILL)\n",
    )
    with subprocess.Popen(
        pytest_command(SWITCH, "-s"),
        cwd=tmp_path,
        env=child_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as child:
        assert child.stdout is not None
        child.stdout.read()
        assert child.wait() == -signal.SIGKILL
    final_report(tmp_path, is_completed)


@pytest.mark.parametrize(
    "content",
    [
        PASSING,
        "def test_fails(): assert 0\n",
        "import os\ndef test_exits(): os._exit(7)\n",
    ],
    ids=["passes", "fails", "exits"],
)
def test_it_goes_when_pytest_has_gone(tmp_path: Path, content: str) -> None:
    """Soon after the end, whatever the end was, no process and no file is left."""
    write(tmp_path, content)
    run_pytest(tmp_path)
    ended = time.monotonic()
    wait_until(lambda: watchers_below(tmp_path) == [], "the watcher's end")
    assert time.monotonic() - ended < DEADLINE_SECONDS / 4
    assert left_in(tmp_path) == [REPORT]


@pytest.mark.slow
@pytest.mark.parametrize("args", [(), ("-n", "2"), ("-p", "no:terminal")], ids=str)
def test_there_is_one(tmp_path: Path, args: Sequence[str]) -> None:
    """A run has one watcher, with workers or without."""
    write(
        tmp_path,
        FIND_WATCHERS
        + f"import sys\nsys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        + "from tests.plugin.test_watcher import watchers_below\n"
        + "def test_it():\n"
        + "    found = watchers_below(pathlib.Path(__file__).parent)\n"
        + "    assert len(found) == 1\n"
        + "def test_again(): test_it()\n",
    )
    run = run_pytest(tmp_path, *args, plugins=("xdist",) if "-n" in args else ())
    assert run.status == 0, run.stdout
    wait_until(lambda: watchers_below(tmp_path) == [], "the watcher's end")


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    """Without it no process is started, and a death leaves the report `running`, not green."""
    write(
        tmp_path,
        FIND_WATCHERS
        + "def test_it():\n    if watchers(os.getpid()) == []: os._exit(0)\n    assert 0\n",
    )
    run = run_pytest(tmp_path, *OFF)
    assert run.status == 0
    report = run.report(completeness="running")
    assert report["verdict"]["kind"] == "process.vanished"


def test_none_for_a_run_within_a_run(tmp_path: Path) -> None:
    """A pytest that a test runs in its own process has no watcher: the process does not end with
    it. The outer one's stays, and sees the process die.
    """
    write(
        tmp_path,
        FIND_WATCHERS + "import pytest\n"
        "def test_it(pytester):\n"
        "    before = watchers(os.getpid())\n"
        "    assert len(before) == 1\n"
        "    pytester.makepyfile('def test_inner(): pass')\n"
        "    args = ('-p', 'failure_taxonomy', '--failure-taxonomy')\n"
        "    pytester.runpytest_inprocess(*args)\n"
        "    assert (pytester.path / 'failure-report.json').exists()\n"
        "    assert watchers(os.getpid()) == before\n"
        "    os._exit(9)\n",
    )
    run = run_pytest(tmp_path, "-p", "pytester", "--basetemp=tmp")
    assert run.status == 9
    report = final_report(tmp_path, is_completed)
    assert (report["exit"]["code"], report["verdict"]["kind"]) == (9, "process.exited")


LOOK_AROUND: Final = (
    "import json, os, pathlib, signal\n"
    "def test_it(request):\n"
    "    handlers = {int(x): str(signal.getsignal(x)) for x in signal.valid_signals()}\n"
    "    low = sorted(int(name) for name in os.listdir('/proc/self/fd') if int(name) < 256)\n"
    "    seen = {'signals': handlers, 'descriptors': low, 'free': os.dup(0),\n"
    "            'mask': sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))),\n"
    "            'cwd': os.getcwd(), 'umask': os.umask(0o22), 'free_again': os.dup(0),\n"
    "            'env': sorted(set(os.environ) - {'PYTEST_VERSION'})}\n"
    "    name = os.environ['SEEN']\n"
    "    pathlib.Path(name).write_text(json.dumps(seen))\n"
)


@pytest.mark.parametrize("capture", ["-s", "--capture=fd"])
def test_a_test_finds_its_process_as_without_us(tmp_path: Path, capture: str) -> None:
    """Signals, descriptors, mask, folder and environment are what they are without the plugin."""
    write(tmp_path, LOOK_AROUND)
    command = pytest_command(capture, plugins=())
    plain = run_child(tmp_path, command, env={"SEEN": "plain.txt"})
    ours = run_pytest(tmp_path, capture, env={"SEEN": "ours.txt"})
    assert (plain.status, ours.status) == (0, 0)
    seen = [
        json.loads((tmp_path / name).read_text()) for name in ("plain.txt", "ours.txt")
    ]
    assert seen[1] == seen[0]


# What it sees.


def test_a_crash_at_exit_corrects_a_success(tmp_path: Path) -> None:
    """A process that crashes after a green session was not green."""
    write(
        tmp_path,
        PASSING,
        conftest=NO_CORE + "import atexit, os, signal\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGSEGV))\n",
    )
    run = run_pytest(tmp_path)
    assert run.status == -signal.SIGSEGV
    report = final_report(tmp_path, is_observed)
    assert report["completeness"] == "full"
    assert report["verdict"]["kind"] == "process.crashed"
    assert report["exit"]["observed"] is True
    assert (report["exit"]["code"], report["exit"]["signal"]) == (139, "SIGSEGV")
    assert report["exit"]["source"] == "watcher"
    assert report["summary"]["passed"] == 1


def test_another_exit_code_corrects_a_success(tmp_path: Path) -> None:
    """What changes the exit status after pytest has returned is seen, too."""
    write(
        tmp_path, PASSING, conftest="import atexit, os\natexit.register(os._exit, 5)\n"
    )
    run = run_pytest(tmp_path)
    assert run.status == 5
    report = final_report(tmp_path, is_observed)
    assert report["verdict"]["kind"] == "exit_status.changed"
    assert report["exit"]["code"] == 5


def test_an_end_as_the_session_said_changes_nothing(tmp_path: Path) -> None:
    """A report that agrees with the end of the process stays as pytest wrote it."""
    write(tmp_path, PASSING)
    run = run_pytest(tmp_path)
    before = (tmp_path / REPORT).stat()
    wait_until(lambda: watchers_below(tmp_path) == [], "the watcher's end")
    after = (tmp_path / REPORT).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert run.report()["exit"]["observed"] is False


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL, signal.SIGUSR1]
)
def test_a_signal_from_outside(tmp_path: Path, number: signal.Signals) -> None:
    """A signal that another process sends is named; the test that ran, too; SIGTERM leaves what
    each thread was at, down to the line.
    """
    write(
        tmp_path,
        "import pathlib, threading, time\n"
        "def sleep_beside(): time.sleep(60)\n"
        "def test_first(): pass\n"
        "def test_waits():\n"
        "    threading.Thread(target=sleep_beside, daemon=True).start()\n"
        "    pathlib.Path('up').touch()\n"
        "    time.sleep(60)\n"
        "def test_last(): pass\n",
    )
    with subprocess.Popen(
        pytest_command(SWITCH),
        cwd=tmp_path,
        env=child_environment(),
        stdout=subprocess.DEVNULL,
    ) as child:
        wait_until((tmp_path / "up").exists, "the test")
        time.sleep(0.1)
        child.send_signal(number)
        assert child.wait() == -number
    report = final_report(tmp_path, is_completed)
    kind = "process.killed" if number == signal.SIGKILL else "process.terminated"
    assert report["verdict"]["kind"] == kind
    assert report["verdict"]["nodeid"] == "test_it.py::test_waits"
    assert (report["exit"]["code"], report["exit"]["signal"]) == (
        128 + number,
        number.name,
    )
    assert (report["summary"]["passed"], report["not_run"]["nodeids"]) == (
        1,
        ["test_it.py::test_last"],
    )
    ((running),) = report["in_flight"]
    assert (running["nodeid"], running["phase"]) == ("test_it.py::test_waits", "call")
    assert running["elapsed_seconds"] >= 0.1
    stacks = [
        each["detail"]
        for each in report["verdict"]["evidence"]
        if each["source"] == "stacks at SIGTERM"
    ]
    if number == signal.SIGTERM:
        assert "in test_waits" in stacks[0]
        assert "in sleep_beside" in stacks[0]
    else:
        assert stacks == []


def test_a_handler_of_the_user_stays(tmp_path: Path) -> None:
    """A handler of SIGTERM that a conftest sets is in force in the run, in its forked children,
    and after the run, though our own view of the signal is taken back then.
    """
    write(
        tmp_path,
        "import os, signal, time\n"
        "def test_in_a_child():\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        time.sleep(5)\n"
        "        os._exit(1)\n"
        "    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17\n",
        conftest="import atexit, os, signal, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: os._exit(17))\n"
        "@atexit.register\n"
        "def end():\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    time.sleep(5)\n",
    )
    run = run_pytest(tmp_path)
    assert "1 passed" in run.stdout, run.stdout
    assert run.status == 17


@pytest.mark.slow
@pytest.mark.parametrize("args", [(), ("-n", "2")], ids=["serial", "workers"])
def test_a_timer_that_ends_the_process(tmp_path: Path, args: Sequence[str]) -> None:
    """A timer of pytest-timeout's thread method leaves no word; it was noted, and is the likely
    cause.
    """
    pytest.importorskip("pytest_timeout")
    write(
        tmp_path,
        "import time\ndef test_hangs(): time.sleep(60)\ndef test_other(): pass\n",
    )
    run = run_pytest(
        tmp_path,
        "--timeout=0.5",
        "--timeout-method=thread",
        *args,
        plugins=("timeout", "xdist") if args else ("timeout",),
    )
    assert run.status == 1
    report = final_report(tmp_path, is_completed)
    verdict = report["verdict"]
    assert (verdict["reason"], verdict["confidence"]) == ("TIMEOUT", "likely")
    assert verdict["nodeid"] == "test_it.py::test_hangs"
    assert verdict["kind"] == "test.timeout"
    (evidence, *_) = verdict["evidence"]
    assert (
        "s of the 0.5 s that pytest-timeout (thread) allows were used up"
        in evidence["detail"]
    )
    assert report["completeness"] == ("full" if args else "reconstructed")
    if not args:
        assert report["in_flight"][0]["elapsed_seconds"] >= 0.49


def test_an_early_exit_is_not_the_timers(tmp_path: Path) -> None:
    """A test's own `os._exit(1)` under a timer that has hardly run is not taken for a timeout."""
    pytest.importorskip("pytest_timeout")
    write(tmp_path, "import os\ndef test_exits(): os._exit(1)\n")
    run_pytest(
        tmp_path, "--timeout=300", "--timeout-method=thread", plugins=("timeout",)
    )
    report = final_report(tmp_path, is_completed)
    assert (report["verdict"]["kind"], report["exit"]["code"]) == ("process.exited", 1)


def test_a_test_that_removes_the_folder(tmp_path: Path) -> None:
    """The report is written though a test has removed the folder that it was to be in."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(
        "import os, shutil\n"
        "def test_first(): pass\n"
        "def test_dies():\n    shutil.rmtree('out')\n    os._exit(3)\n"
    )
    run = run_pytest(tmp_path, "--failure-taxonomy-report=out/r.json")
    assert run.status == 3
    wait_until((tmp_path / "out" / "r.json").exists, "the report")
    wait_until(lambda: watchers_below(tmp_path) == [], "the watcher's end")
    report = run.report("out/r.json", completeness="reconstructed")
    assert report["verdict"]["kind"] == "process.exited"
    assert (report["summary"]["passed"], report["exit"]["code"]) == (1, 3)
    assert [test["nodeid"] for test in report["in_flight"]] == ["test_it.py::test_dies"]
    assert os.listdir(tmp_path / "out") == ["r.json"]


@pytest.mark.parametrize(
    "death",
    ["pass", "assert 0", "os._exit(3)", "os.kill(os.getpid(), 9)", "os.abort()"],
)
def test_nothing_is_written_outside_of_the_reports_folder(
    tmp_path: Path, death: str
) -> None:
    """Neither the temporary folder, nor the home, nor the folder of the tests gets a file."""
    folders = {name: tmp_path / name for name in ("tests", "out", "tmp", "home")}
    for folder in folders.values():
        folder.mkdir()
    write(folders["tests"], f"{NO_CORE}import os\ndef test_it(): {death}\n")
    run_child(
        folders["tests"],
        [
            *pytest_command(f"--failure-taxonomy-report={folders['out']}/r.json"),
            "-p",
            "no:faulthandler",
        ],
        env={"TMPDIR": str(folders["tmp"]), "HOME": str(folders["home"])},
    )
    wait_until(lambda: watchers_below(tmp_path) == [], "the watcher's end")
    left = {
        name: sorted(path.name for path in folders[name].rglob("*")) for name in folders
    }
    assert left == {
        "tests": ["pytest.ini", "test_it.py"],
        "out": ["r.json"],
        "tmp": [],
        "home": [],
    }
    assert read_report(folders["out"] / "r.json")["completeness"] != "running"


def test_an_interpreter_without_a_name(tmp_path: Path) -> None:
    """Where no watcher can be started, the run is as any other, and its report says `running`
    after a death.
    """
    write(
        tmp_path,
        "import os\ndef test_it(): os._exit(3)\n",
        sitecustomize="import sys\nsys.executable = ''\n",
    )
    run = run_pytest(tmp_path, env={"PYTHONPATH": _with_folder(tmp_path)})
    assert run.status == 3
    assert run.report(completeness="running")["verdict"]["kind"] == "process.vanished"


def _with_folder(folder: Path) -> str:
    return os.pathsep.join(
        [str(folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    ).strip(os.pathsep)


def test_the_suite_itself_is_not_watched_twice() -> None:
    """This file's own look for watchers finds none where none can be."""
    assert watchers_below(Path(sys.prefix) / "nowhere") == []
