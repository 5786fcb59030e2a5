"""What hangs is told while it hangs: in the report, on the terminal, and when the run is ended."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.survive.writer import find_py_spy
from tests.helpers.children import (
    REPORT,
    SWITCH,
    child_environment,
    pytest_command,
    run_child,
)
from tests.helpers.reports import assert_valid_report
from tests.helpers.waiting import wait_until

if sys.platform == "win32":  # its names for signals are needed below
    pytest.skip("stalls are seen from outside on Linux", allow_module_level=True)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not hasattr(os, "pidfd_open") or not Path("/proc/self/stat").exists(),
        reason="needs Linux",
    ),
]

SECONDS: Final = "--failure-taxonomy-stall-seconds"
END: Final = "--failure-taxonomy-end-stalled"

WAYS: Final = {
    "test_lock": "lock = threading.Lock(); lock.acquire()\n    lock.acquire()",
    "test_child": "subprocess.run(['sleep', '1000'])",
    "test_socket": "one, other = socket.socketpair()\n    one.recv(1)",
    "test_queue": "queue.Queue().get()",
    "test_loop": "asyncio.run(asyncio.Event().wait())",
    "test_pool": "with ThreadPoolExecutor(1) as pool:\n        pool.submit(threading.Event().wait)",
    "test_held": "mutex, c = ctypes.create_string_buffer(64), ctypes.PyDLL(None)\n"
    "    c.pthread_mutex_lock(mutex)\n    c.pthread_mutex_lock(mutex)",
    "test_stopped": "os.kill(os.getpid(), signal.SIGSTOP)",
    "test_polls": "while not os.path.exists('/nowhere'):\n        time.sleep(0.1)",
}
IMPORTS: Final = """\
import asyncio, ctypes, os, pytest, queue, signal, socket, subprocess, threading, time
from concurrent.futures import ThreadPoolExecutor

"""
FIXTURE: Final = """
@pytest.fixture
def server():
    yield
    threading.Event().wait()

def test_teardown(server): pass
"""
MOVES: Final = {
    "test_prints": "print('more'); time.sleep(0.1)",
    "test_writes": "file.write('more'); file.flush(); time.sleep(0.1)",
    "test_computes": "sum(range(10_000))",
    "test_polls": "time.sleep(0.1)",
    "test_sends": "one.send(b'more'); other.recv(4); time.sleep(0.1)",
    "test_waits_for_a_writer": "subprocess.run(['sh', '-c', script], stdout=file)",
    "test_waits_for_work": "subprocess.run([sys.executable, '-c', child])",
}
"""What a test does again and again for some seconds, and passes."""
WORKS: Final = """\
import socket, subprocess, sys, time

child = "import time; end = time.time() + 4\\nwhile time.time() < end: pass"
script = "for each in $(seq 40); do echo more; sleep 0.1; done"
one, other = socket.socketpair()
"""
COMPUTES: Final = "def test_computes():\n    while True: pass\n"


def module(*names: str, more: str = "") -> str:
    """Return a test module with some of the ways to hang."""
    tests = [f"def {name}():\n    {WAYS[name]}\n" for name in names]
    return IMPORTS + "\n".join(tests) + more


class Hanging:
    """A pytest that hangs."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self.process = process

    def report(self) -> dict[str, Any]:
        """Return its report as it is now."""
        try:
            report: dict[str, Any] = json.loads(
                (self.folder / REPORT).read_text("ascii")
            )
        except (FileNotFoundError, ValueError):
            return {"in_flight": [], "stalls": [], "completeness": "none"}
        return report

    def stalls(self) -> dict[str, dict[str, Any]]:
        """Return the stalls in its report, by the names of the tests or what else it is."""
        report = self.report()
        tests = {
            each["nodeid"].rpartition("::")[2]: each["stall"]
            for each in report["in_flight"]
            if each["stall"] is not None
        }
        return tests | {each["what"]: each for each in report["stalls"]}

    def wait_for(self, *names: str) -> dict[str, dict[str, Any]]:
        """Wait until these are told as stalled, and return what is told of them."""

        def found() -> dict[str, dict[str, Any]] | None:
            stalls = self.stalls()
            told = {name for name, stall in stalls.items() if stall["state"] != "busy"}
            return stalls if told >= set(names) else None

        told: dict[str, dict[str, Any]] = wait_until(
            found, f"the stall of {', '.join(names)}"
        )
        assert_valid_report(self.report())
        return told

    def end(self, number: int) -> dict[str, Any]:
        """End it by a signal, and return its last report."""
        self.process.send_signal(number)
        return self.last_report()

    def last_report(self) -> dict[str, Any]:
        """Wait for its end, and return its last report."""
        self.process.wait(60)

        def completed() -> dict[str, Any] | None:
            report = self.report()
            return report if report["completeness"] not in ("running", "none") else None

        report: dict[str, Any] = wait_until(completed, "the report")
        assert_valid_report(report)
        return report

    def output(self) -> str:
        """Return what it has printed so far, on standard output and error."""
        return (self.folder / "output").read_text("utf-8")

    def wait_for_output(self, text: str) -> None:
        """Wait until it has printed a text."""
        wait_until(lambda: text in self.output(), repr(text))


RUN: Final = (sys.executable, "-m", "pytest_failure_taxonomy", "run", "--")


@contextmanager
def hanging(
    folder: Path,
    content: str,
    *args: str,
    seconds: float = 0.5,
    launcher: tuple[str, ...] = (),
    conftest: str = "",
    environment: dict[str, str | None] | None = None,
) -> Iterator[Hanging]:
    """Start a pytest that is going to hang; no process of it is left afterwards."""
    folder.mkdir(exist_ok=True)
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    (folder / "conftest.py").write_text(conftest, "utf-8")
    (folder / "test_it.py").write_text(content, "utf-8")
    plugins = (
        "failure_taxonomy",
        *(["xdist", "xdist.looponfail"] if "-n" in args else []),
    )
    command = pytest_command(SWITCH, f"{SECONDS}={seconds}", *args, plugins=plugins)
    with (folder / "output").open("ab") as output:
        process = subprocess.Popen(
            [*launcher, *command],
            cwd=folder,
            env=child_environment(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield Hanging(folder, process)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_workers(tmp_path: Path) -> None:
    """Of each worker it is told what it hangs at and how; a test that computes is not told."""
    names = list(WAYS)
    content = module(*names, more=FIXTURE + COMPUTES)
    count = str(len(names) + 2)
    with hanging(tmp_path, content, "-n", count, seconds=1) as run:
        found = run.wait_for(*names, "test_teardown")
        lines = re.compile(r"^(stalled|polling for) ", re.MULTILINE)
        wait_until(
            lambda: len(lines.findall(run.output())) >= len(names) + 1, "the lines"
        )
        report = run.end(signal.SIGTERM)
        output = run.output()
    states = {
        name: each["state"] for name, each in found.items() if name != "test_computes"
    }
    frozen = {name for name, state in states.items() if state == "frozen"}
    assert frozen - {"test_held"} == {"test_stopped"}
    assert (
        "test_held" in frozen or not has_py_spy()
    )  # else it takes the right to read its memory
    assert {name for name, state in states.items() if state == "polling"} == {
        "test_polls"
    }
    assert set(states.values()) == {"blocked", "frozen", "polling"}
    assert found["test_child"]["children"] == ["sleep 1000"]
    readable = (
        names if has_py_spy() else [name for name in names if name != "test_stopped"]
    )
    for name in readable:
        place = f"(test_it.py:{line_of(content, name)})"
        assert found[name]["where"].endswith(place), found[name]["where"]
        assert (
            f'test_it.py", line {line_of(content, name)}, in {name}'
            in found[name]["stack"]
        )
        pattern = f"stalled [0-9]+ s: test_it.py::{name} {states[name]} in .* {re.escape(place)}"
        if name == "test_polls":
            pattern = (
                f"polling for [0-9]+ s: test_it.py::{name}, {place[1:-1]} in {name}"
            )
        assert re.search(f"^{pattern}$", output, re.MULTILINE)
    assert found["test_lock"]["where"].startswith("acquire ")
    assert found["test_teardown"]["where"].startswith("wait ")
    assert "test_computes" not in output
    assert report["verdict"]["kind"] == "test.stalled"
    assert report["verdict"]["confidence"] == "likely"
    assert report["reasons"][0]["count"] == len(names) + 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_serial(tmp_path: Path, number: int) -> None:
    """A run that is ended while something hangs has that as its verdict, however it is ended."""
    cases = {
        "test_lock": (
            module("test_lock"),
            "",
            ("test.stalled", "acquire (test_it.py:6)"),
        ),
        "test_teardown": (
            IMPORTS + FIXTURE,
            "",
            ("test.stalled", "wait (test_it.py:8)"),
        ),
        "collection": (
            IMPORTS + "threading.Event().wait()\n",
            "",
            ("collection.stalled", "test_it.py: wait (test_it.py:4)"),
        ),
        "session": (
            "def test_it(): pass\n",
            "import threading\ndef pytest_sessionfinish(): threading.Event().wait()\n",
            (
                "session.stalled",
                "pytest_sessionfinish (conftest.py): wait (conftest.py:2)",
            ),
        ),
    }
    if number != signal.SIGINT:
        del (
            cases["test_teardown"],
            cases["collection"],
        )  # how they end differs for no signal
        # SIGINT would let the session end.
        cases["test_under_run"] = (
            IMPORTS + f"def test_under_run():\n    {WAYS['test_lock']}\n",
            "",
            ("test.stalled", "acquire (test_it.py:6)"),
        )
    with ExitStack() as stack:
        runs = {
            name: stack.enter_context(
                hanging(
                    tmp_path / name,
                    content,
                    conftest=conftest,
                    launcher=RUN if name == "test_under_run" else (),
                )
            )
            for name, (content, conftest, _) in cases.items()
        }
        for name, run in runs.items():
            found = run.wait_for(name)[name]
            assert found["state"] == "blocked"
            assert found["where"] == cases[name][2][1]
            assert run.report()["completeness"] == "running"
        for run in runs.values():
            os.killpg(run.process.pid, number)
        for name, run in runs.items():
            if name == "test_under_run" and number == signal.SIGKILL:
                run.process.wait()
                finalize(run)
            report = run.last_report()
            assert report["verdict"]["kind"] == cases[name][2][0], name
            assert report["verdict"]["confidence"] == "likely"
            assert report["verdict"]["reason"] == "TIMEOUT"
            assert cases[name][2][1] in report["verdict"]["message"]
            assert run.stalls()[name]["seconds"] >= 0.5


def test_end_of_what_hangs(tmp_path: Path) -> None:
    """With --failure-taxonomy-end-stalled a hanging run ends, with a whole report."""
    more = "\ndef test_first(): pass\ndef test_last(): pass\n"
    content = module("test_lock", more=more)
    stopped = "import os, signal\ndef pytest_sessionfinish(): os.kill(os.getpid(), signal.SIGSTOP)\n"
    xdist = ("-n", "2", "--max-worker-restart=4")
    with (
        hanging(tmp_path / "serial", content, END) as serial,
        hanging(tmp_path / "workers", content, END, *xdist, seconds=1) as workers,
        hanging(tmp_path / "under", content, END, launcher=RUN) as under,
        hanging(
            tmp_path / "frozen", more, END, launcher=RUN, conftest=stopped
        ) as frozen,
        hanging(tmp_path / "killed", more, END, conftest=stopped) as killed,
    ):
        for run in (serial, workers, under, frozen, killed):
            report = run.last_report()
            name = run.folder.name
            assert run.process.returncode == (
                -signal.SIGKILL if name == "killed" else 1
            ), name
            kind = "session.stalled" if name in ("frozen", "killed") else "test.stalled"
            assert report["verdict"]["kind"] == kind
            assert report["verdict"]["confidence"] == "certain"
            assert [each["kind"] for each in report["reasons"]] == [kind]
            if name == "workers":
                assert report["summary"]["passed"] == 2
                assert report["summary"]["failed"] == 1
                assert "acquire (test_it.py:6)" in report["verdict"]["message"]


def test_end_of_what_resists(tmp_path: Path) -> None:
    """A test that catches the end, and workers that would hang again, end the run all the same."""
    caught = (
        IMPORTS
        + "def test_it():\n    try: threading.Event().wait()\n    except Exception: pass\n"
        "def test_never(): pass\n"
    )
    on_worker = "'PYTEST_XDIST_WORKER' in os.environ and threading.Event().wait()"
    at_import = f"import os, threading\n{on_worker}\ndef test_it(): pass\n"
    at_end = f"import os, threading\ndef pytest_sessionfinish():\n    {on_worker}\n"
    with (
        hanging(tmp_path / "caught", caught, END) as run_of_caught,
        hanging(
            tmp_path / "import", at_import, END, "-n", "2", seconds=1
        ) as run_of_import,
        hanging(
            tmp_path / "end",
            "def test_it(): pass\n",
            END,
            "-n",
            "2",
            seconds=1,
            conftest=at_end,
        ) as run_of_end,
    ):
        for run, kind, passed in (
            (run_of_caught, "test.stalled", 1),
            (run_of_import, "collection.stalled", 0),
            (run_of_end, "session.stalled", 1),
        ):
            report = run.last_report()
            output = run.output()
            assert (run.process.returncode, report["verdict"]["kind"]) == (1, kind), (
                output
            )
            assert report["verdict"]["confidence"] == "certain"
            assert "blocked in" in report["verdict"]["message"]
            assert report["summary"]["passed"] == passed
            assert "\nended: " in output
            assert "replacing crashed worker" not in output
            assert "test_never" not in output


def test_what_moves_is_not_ended(tmp_path: Path) -> None:
    """What works is never ended nor told; what polls is told, and ended at five times the limit.

    Threads beside the one that runs the test hide nothing, but make it less certain. A test that
    has a time limit of its own is left to that.
    """
    works = WORKS + "".join(
        f"def {name}(tmp_path):\n"
        "    end, file = time.monotonic() + 4, open(tmp_path / 'file', 'w')\n"
        f"    while time.monotonic() < end:\n        {what}\n"
        for name, what in MOVES.items()
    )
    beat = "    def beat():\n        while True: print(); time.sleep(0.1)\n"
    heartbeat = (
        IMPORTS + f"def test_it():\n{beat}"
        "    threading.Thread(target=beat, daemon=True).start()\n"
        f"    {WAYS['test_lock']}\n"
    )
    limit = ("-p", "pytest_timeout", "--timeout=3")
    with (
        hanging(
            tmp_path / "works", works, END, "-n", str(len(MOVES)), seconds=1
        ) as run_of_works,
        hanging(tmp_path / "polls", module("test_polls"), END, seconds=1) as polls,
        hanging(tmp_path / "heartbeat", heartbeat, END, seconds=1) as run_of_heartbeat,
        hanging(
            tmp_path / "limit", module("test_lock"), END, *limit, seconds=1
        ) as limited,
    ):
        for run, state in ((polls, "polling"), (run_of_heartbeat, "blocked")):
            report = run.last_report()
            verdict = report["verdict"]
            assert (run.process.returncode, verdict["kind"]) == (1, "test.stalled"), (
                run.output()
            )
            assert verdict["confidence"] == "likely"
            assert f"{state} in " in verdict["message"]
            assert "\nended: " in run.output()
        assert re.search(
            r"^polling for [0-9]+ s: test_it.py::test_polls, ",
            polls.output(),
            re.MULTILINE,
        )
        assert (
            float(re.findall("for ([0-9]+) s", polls.report()["verdict"]["message"])[0])
            >= 5
        )
        assert limited.last_report()["verdict"]["kind"] == "test.timeout", (
            limited.output()
        )
        assert "\nended: " not in limited.output()
        report = run_of_works.last_report()
        assert report["summary"]["passed"] == len(MOVES), run_of_works.output()
        told = re.findall(
            "^(?:stalled|polling for) .*::([a-z_]+)",
            run_of_works.output(),
            re.MULTILINE,
        )
        assert set(told) <= {"test_polls", "test_sends"}


def test_a_pause_is_no_stall(tmp_path: Path) -> None:
    """While pytest and the watcher are both stopped, as in a paused container, no time counts."""
    content = (
        "import pathlib, time\ndef test_it():\n    print('more', flush=True)\n"
        "    while not pathlib.Path('go').exists(): print('more'); time.sleep(0.05)\n"
    )
    with hanging(tmp_path, content, END, seconds=1) as run:
        watchers = wait_until(lambda: watchers_of(run.process.pid), "the watcher")
        both = [run.process.pid, *watchers]
        wait_until(lambda: "test_it.py " in run.output(), "the test")
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for process_id in both:
                os.kill(process_id, number)
            time.sleep(3 if number == signal.SIGSTOP else 1)
        (tmp_path / "go").touch()
        assert run.last_report()["verdict"] is None, run.output()
        assert run.process.returncode == 0
        assert "stalled" not in run.output()


def watchers_of(process_id: int) -> list[int]:
    """Return the ids of the watchers of a process."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if (
                b"watcher.py" in b" ".join(words[3:4])
                and str(process_id).encode() in words
            ):
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize(
    ("given", "is_told"),
    [
        pytest.param({"args": ["-v"]}, True, id="verbose"),
        pytest.param({"environment": {"CI": "true"}}, True, id="CI"),
        pytest.param({}, False, id="neither"),
    ],
)
def test_work(tmp_path: Path, given: dict[str, Any], *, is_told: bool) -> None:
    """What works is told from twice the limit on, where that is wanted; SIGTERM tells the place."""
    content = "def work():\n    while True: pass\ndef test_it(): work()\n"
    environment = given.get("environment")
    with hanging(
        tmp_path, content, *given.get("args", ()), environment=environment
    ) as run:
        wait_until(lambda: "test_it" in run.stalls(), "the test")
        if is_told:
            place = (
                ", test_it.py:2 in work" if has_py_spy() else ""
            )  # else it is not disturbed
            run.wait_for_output(f" s: test_it.py::test_it{place}\n")
        assert ("\nstill running " in run.output()) == is_told
        report = run.end(signal.SIGTERM)
    assert report["verdict"]["kind"] == "process.terminated"
    assert report["verdict"]["evidence"][0]["detail"].endswith("SIGTERM (test_it.py:2)")
    assert report["in_flight"][0]["location"] == {"path": "test_it.py", "line": 2}
    assert report["in_flight"][0]["stall"]["state"] == "busy"


@pytest.mark.parametrize("launcher", [(), RUN], ids=["alone", "under run"])
def test_interpreter_that_does_not_end(
    tmp_path: Path, launcher: tuple[str, ...]
) -> None:
    """The thread that keeps the interpreter from ending is named, and explains a kill after that.

    A daemon does not keep it from that, and one that has ended by then does not, either.
    """
    content = IMPORTS + (
        "def waits(event):\n    event.wait()\n"
        "def test_it():\n"
        "    threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "    threading.Thread(target=waits, args=[ended]).start()\n"
        "    threading.Thread(target=waits, args=[threading.Event()], name='server').start()\n"
        "ended = threading.Event()\n"
    )
    conftest = (
        "def pytest_unconfigure():\n    import test_it\n    test_it.ended.set()\n"
    )
    where = "waits for thread server, test_it.py:5, started in test_it.py::test_it"
    with hanging(tmp_path, content, conftest=conftest, launcher=launcher) as run:
        run.wait_for_output(f"s: the interpreter's end {where}\n")
        report = run.report()
        assert report["completeness"] == "full"
        assert report["verdict"] is None
        assert [each["where"] for each in report["stalls"]] == [where]
        os.killpg(run.process.pid, signal.SIGTERM)
        run.process.wait()
        wait_until(lambda: run.report()["verdict"] is not None, "the verdict")
        report = run.report()
    assert_valid_report(report)
    assert report["verdict"]["kind"] == "shutdown.stalled"
    assert where in report["verdict"]["message"]
    assert [(each["what"], each["where"]) for each in report["stalls"]] == [
        ("shutdown", where)
    ]


AWAITS: Final = """
import asyncio
async def fetch(jobs):
    return await jobs.get()
async def main():
    other = asyncio.create_task(asyncio.sleep(1000))
    await asyncio.gather(asyncio.sleep(0), fetch(asyncio.Queue()))
def test_it():
    asyncio.run(main())
"""


@pytest.mark.parametrize("py_spy", [False, True], ids=["asked", "py-spy"])
def test_a_loop_stands_where_its_test_awaits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, py_spy: bool
) -> None:
    """The thread is in the selector; the place is the line that awaits, with its callers."""
    if not py_spy:
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        monkeypatch.setattr(sys, "executable", sys.executable)
    with hanging(tmp_path, AWAITS) as run:
        stall = run.wait_for("test_it")["test_it"]
    assert stall["state"] == "blocked"
    assert stall["where"] == "get (test_it.py:4)"
    assert stall["stack"].index("in main") < stall["stack"].index("in test_it")


SHELL: Final = """
import os, signal, sys
terminal = os.open(sys.argv[1], os.O_RDWR)
for number in (0, 1, 2):
    os.dup2(terminal, number)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[2], sys.argv[2:])
while True:
    _, status = os.waitpid(child, os.WUNTRACED)
    os.tcsetpgrp(0, os.getpgrp())
    if not os.WIFSTOPPED(status):
        break
    os.write(1, b"suspended")
"""
"""A shell with one job, which takes the terminal back when that is suspended."""


class OnTerminal(Hanging):
    """A pytest in the foreground of a terminal."""

    def __init__(
        self, folder: Path, process: subprocess.Popen[bytes], terminal: int
    ) -> None:
        super().__init__(folder, process)
        self.terminal = terminal
        self._read = b""

    def output(self) -> str:
        """Return what is on the terminal so far."""
        with suppress(OSError):  # nothing yet, or nobody has it open
            while True:
                self._read += os.read(self.terminal, 4096)
        return self._read.decode("utf-8", "replace")


@contextmanager
def on_terminal(folder: Path, content: str, *args: str) -> Iterator[OnTerminal]:
    """Start a pytest on a terminal of its own; no process of it is left afterwards."""
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    (folder / "test_it.py").write_text(content, "utf-8")
    terminal, end = os.openpty()
    os.set_blocking(terminal, False)
    command = pytest_command(SWITCH, f"{SECONDS}=0.5", *args)
    process = subprocess.Popen(
        [sys.executable, "-c", SHELL, os.ttyname(end), *command],
        cwd=folder,
        env=child_environment(),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(end)
    try:
        yield OnTerminal(folder, process, terminal)
    finally:
        os.close(terminal)  # the job gets a SIGHUP
        process.kill()
        process.wait()


def test_what_waits_for_the_user(tmp_path: Path) -> None:
    """A debugger, a question on the terminal and a suspended job are no stalls, and no hard work.

    A test that hangs is told meanwhile on a terminal, with a colour.
    """
    hangs = module("test_lock")
    cases: dict[str, tuple[str, tuple[str, ...], str]] = {
        "debugger": ("def test_it(): assert 0\n", ("--pdb",), "(Pdb)"),
        "breakpoint": ("def test_it(): breakpoint()\n", (), "(Pdb)"),
        "input": ("def test_it(): input('name? ')\n", ("-s",), "name? "),
        "suspended": (hangs.replace("test_lock", "test_it"), (), "test_it.py "),
        "computes": (COMPUTES, (), "test_it.py "),
        "hangs": (hangs, (), "blocked in acquire (test_it.py:6)\x1b[0m"),
        "quiet": (hangs, ("-qq",), ""),
    }
    with ExitStack() as stack:
        runs = {
            name: stack.enter_context(on_terminal(tmp_path / name, content, *args))
            for name, (content, args, _) in cases.items()
        }
        suspended = runs["suspended"]
        suspended.wait_for_output("test_it.py ")
        os.write(suspended.terminal, b"\x1a")
        suspended.wait_for_output("suspended")
        for name, (_, _, shown) in cases.items():
            runs[name].wait_for_output(shown)
        runs["quiet"].wait_for("test_lock")
        runs["hangs"].wait_for("test_lock")
        wait_until(
            lambda: runs["hangs"].output().count("stalled ") > 2, "the third line"
        )
        for name, run in runs.items():
            stalls = run.stalls()
            assert stalls.keys() <= {"test_computes", "test_lock"}, name
            if name != "hangs":
                assert "stalled " not in run.output(), name
            if name == "computes":
                assert {each["state"] for each in stalls.values()} <= {"busy"}


def finalize(run: Hanging) -> None:
    """Complete a report by `failure-taxonomy finalize`, once its pytest has ended, too."""
    command = [sys.executable, "-m", "pytest_failure_taxonomy", "finalize", REPORT]

    def completed() -> bool:
        run_child(run.folder, command)
        return bool(run.report()["completeness"] == "reconstructed")

    wait_until(completed, "the report")


def has_py_spy() -> bool:
    """Tell whether stacks are read by py-spy, which always tells who holds the GIL."""
    return find_py_spy() is not None


def line_of(content: str, name: str) -> int:
    """Return the number of the last line of a test, which hangs."""
    lines = content.splitlines()
    first = lines.index(f"def {name}():")
    if name == "test_pool":  # the end of a `with` block is at its first line
        return first + 2
    rest = lines[first + 1 :]
    return (
        first
        + 1
        + next((i for i, line in enumerate(rest) if not line.startswith(" ")), 1)
    )
