"""What hangs is told while it hangs: in the report, on the terminal, and when the run is ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.helpers.children import REPORT, SWITCH, child_environment, pytest_command
from tests.helpers.reports import assert_valid_report
from tests.helpers.waiting import wait_until

if sys.platform == "win32":  # its names for signals are needed below
    pytest.skip("stalls are seen from outside on Linux", allow_module_level=True)

pytestmark = pytest.mark.skipif(
    not hasattr(os, "pidfd_open") or not Path("/proc/self/stat").exists(), reason="needs Linux"
)

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
            report: dict[str, Any] = json.loads((self.folder / REPORT).read_text("ascii"))
        except FileNotFoundError:
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
            return stalls if stalls.keys() >= set(names) else None

        told: dict[str, dict[str, Any]] = wait_until(found, f"the stall of {', '.join(names)}")
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


@contextmanager
def hanging(
    folder: Path, content: str, *args: str, seconds: float = 0.5, launcher: tuple[str, ...] = ()
) -> Iterator[Hanging]:
    """Start a pytest that is going to hang; no process of it is left afterwards."""
    folder.mkdir(exist_ok=True)
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    (folder / "test_it.py").write_text(content, "utf-8")
    plugins = ("failure_taxonomy", *(["xdist", "xdist.looponfail"] if "-n" in args else []))
    command = pytest_command(SWITCH, f"{SECONDS}={seconds}", *args, plugins=plugins)
    with (folder / "output").open("ab") as output:
        process = subprocess.Popen(
            [*launcher, *command],
            cwd=folder,
            env=child_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield Hanging(folder, process)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_workers(tmp_path: Path) -> None:
    """Of each worker it is told what it hangs at and how; a test that computes is not told."""
    names = list(WAYS)
    content = module(*names, more=FIXTURE + COMPUTES)
    count = str(len(names) + 2)
    with hanging(tmp_path, content, "-n", count, "--dist=load", seconds=1) as run:
        found = run.wait_for(*names, "test_teardown")
        assert {name for name, each in found.items() if each["state"] == "frozen"} == {
            "test_held",
            "test_stopped",
        } or found["test_stopped"]["state"] == "frozen"
        assert found["test_child"]["children"] == ["sleep 1000"]
        output = run.output()
        report = run.end(signal.SIGTERM)
    assert "test_computes" not in output
    assert report["verdict"]["kind"] == "test.stalled"
