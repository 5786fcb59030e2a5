"""SIGKILL at any instant: at each moment a valid report, at the end a true one.

Four kills by default; `--attacks=all` makes three hundred, and one of a large selection.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from threading import Event, Thread
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.cli.main import main
from tests.attacks.conftest import Attacks
from tests.helpers.children import (
    REPORT,
    SWITCH,
    child_environment,
    pytest_command,
    run_pytest,
)
from tests.helpers.reports import assert_valid_report

pytestmark = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="needs a watcher: Linux"
)

KILLS: Final = 1
ALL_KILLS: Final = 75
"""Of each batch."""
BATCHES: Final = 4
TESTS: Final = 2_000
DEADLINE_SECONDS: Final = 60.0

SUITE: Final = (
    "import os, pytest\n"
    "effects = os.open('effects', os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)\n"
    f"@pytest.mark.parametrize('number', range({TESTS}))\n"
    "def test_it(number):\n"
    "    os.write(effects, b'x')\n"
)
LARGE: Final = (
    "import os, pathlib, pytest, time\n"
    "@pytest.mark.parametrize('number', range(100_000))\n"
    "def test_it(number):\n"
    "    if number == 100:\n"
    "        pathlib.Path('up').touch()\n"
    "        time.sleep(600)\n"
)


@dataclass
class Reader:
    """Reads a report again and again, from its first moment to its end."""

    path: Path
    reads: int = 0
    invalid: list[str] = field(default_factory=list)
    seen: dict[str, Any] | None = None
    stop: Event = field(default_factory=Event)

    def read(self) -> None:
        """Read once; a report that was there once has to be there, and to be whole."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            if self.seen is not None:
                self.invalid.append("it is gone")
            return
        self.reads += 1
        try:
            report = json.loads(content)
            is_green = report["verdict"] is None and report["completeness"] != "full"
        except (ValueError, KeyError, TypeError) as error:
            self.invalid.append(f"{type(error).__name__}: {error}: {content[:80]!r}")
            return
        if is_green:
            self.invalid.append("it is green and not full")
        if self.seen is not None and self.seen["run"]["id"] != report["run"]["id"]:
            self.invalid.append("it is of another run")
        self.seen = report

    def run(self) -> None:
        """Read until it is said to stop."""
        while not self.stop.is_set():
            self.read()
            self.stop.wait(0.001)


@contextmanager
def reading(path: Path) -> Iterator[Reader]:
    """Have a report read all the while."""
    reader = Reader(path)
    thread = Thread(target=reader.run)
    thread.start()
    try:
        yield reader
    finally:
        reader.stop.set()
        thread.join()
    assert reader.invalid == []


@pytest.mark.parametrize("batch", range(BATCHES))
def test_kills_at_random_instants(tmp_path: Path, attacks: Attacks, batch: int) -> None:
    """A reader never meets half a report, nor one that says too much; and what the run had done
    when it was killed is what the report says, but for the test that was running.
    """
    delays, reads = [], 0
    for number in range(attacks.count(KILLS, ALL_KILLS)):
        folder = tmp_path / str(number)
        folder.mkdir()
        delay, seen = _kill_one(folder, attacks.random)
        reads += seen
        if delay is not None:
            delays.append(delay)
    if delays:
        print(  # noqa: T201 - numbers to look at, shown with -s or -rP
            f"{len(delays)} kills, {reads} reads; from death to report: "
            f"median {median(delays) * 1e3:.0f} ms, max {max(delays) * 1e3:.0f} ms; all: "
            + " ".join(f"{each * 1e3:.1f}" for each in delays)
        )


def _kill_one(folder: Path, randomness: random.Random) -> tuple[float | None, int]:
    """Kill a run at an instant; return how long its report took then, and how often it was read."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(SUITE)
    effects = randomness.randrange(-TESTS // 10, TESTS)
    pause = randomness.uniform(0, 0.4) if effects <= 0 else randomness.uniform(0, 0.002)
    with (
        reading(folder / REPORT) as reader,
        subprocess.Popen(
            pytest_command(SWITCH, "-q"),
            cwd=folder,
            env=child_environment(),
            stdout=subprocess.DEVNULL,
        ) as child,
    ):
        _wait_for_effects(folder / "effects", effects, child)
        time.sleep(pause)
        child.kill()
        status = child.wait()
        died = time.monotonic()
        if not (folder / REPORT).exists():  # it had not even begun
            assert _effects(folder) == 0
            return None, 0
        report = _wait_for_end(folder / REPORT)
        delay = time.monotonic() - died
        reader.read()
        reads = reader.reads
    assert_valid_report(report)
    if status == 0:
        assert report["completeness"] == "full"
        return None, reads
    assert status == -signal.SIGKILL
    assert (
        report["completeness"] == "reconstructed" or report["exit"]["observed"] is True
    )
    assert report["verdict"]["kind"] == "process.killed"
    _check(report, _effects(folder))
    return delay, reads


def _check(report: dict[str, Any], effects: int) -> None:
    """Check the counts against what the tests have left on disk."""
    summary = report["summary"]
    passed, in_flight, not_run = (
        summary[name] for name in ("passed", "in_flight", "not_run")
    )
    if summary["collected"] == 0:
        assert (passed, in_flight, not_run, effects) == (0, 0, 0, 0)
        return
    assert summary["collected"] == TESTS
    assert in_flight == len(report["in_flight"]) <= 1
    # A test in its teardown has passed already, and is in flight still.
    in_teardown = [test for test in report["in_flight"] if test["phase"] == "teardown"]
    assert passed + in_flight + not_run - TESTS in ({0, 1} if in_teardown else {0})
    assert passed <= effects <= passed + in_flight
    for test in report["in_flight"]:
        number = int(test["nodeid"].partition("[")[2].rstrip("]"))
        assert number == TESTS - not_run - 1
    assert (summary["failed"], summary["errors"], summary["skipped"]) == (0, 0, 0)


def _effects(folder: Path) -> int:
    try:
        return (folder / "effects").stat().st_size
    except FileNotFoundError:
        return 0


def _wait_for_effects(path: Path, count: int, child: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while count > 0 and child.poll() is None and time.monotonic() < deadline:
        if _effects(path.parent) >= count:
            return
        time.sleep(0.0002)


def _wait_for_end(path: Path) -> dict[str, Any]:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        report: dict[str, Any] = json.loads(path.read_bytes())
        if report["completeness"] != "running":
            return report
        assert time.monotonic() < deadline, "the report was never completed"
        time.sleep(0.0005)


@pytest.mark.slow
def test_the_controller_and_the_watcher_are_killed_together(
    tmp_path: Path, attacks: Attacks
) -> None:
    """Each test has passed, failed, was in flight or has not run, by what the workers know; and a
    failure that nobody could describe is counted.
    """
    for number in range(attacks.count(1, 200)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "pytest.ini").write_text("[pytest]\n")
        suite = SUITE.replace(str(TESTS), "300") + "    assert number % 7\n"
        (folder / "test_it.py").write_text(suite)
        command = pytest_command(
            SWITCH, "-q", "-n", "2", plugins=("failure_taxonomy", "xdist")
        )
        with subprocess.Popen(
            command, cwd=folder, env=child_environment(), stdout=subprocess.DEVNULL
        ) as child:
            _wait_for_effects(
                folder / "effects", attacks.random.randrange(1, 290), child
            )
            together = [child.pid, *processes_of(folder)]
            for death in (signal.SIGSTOP, signal.SIGKILL):
                for process_id in together:
                    with suppress(ProcessLookupError):
                        os.kill(process_id, death)
        deadline = time.monotonic() + DEADLINE_SECONDS
        while processes_of(folder, "cwd"):
            assert time.monotonic() < deadline, "the workers never ended"
            time.sleep(0.05)
        main(["finalize", str(folder / REPORT)])
        report = json.loads((folder / REPORT).read_bytes())
        assert_valid_report(report)
        summary = report["summary"]
        if report["completeness"] == "full":
            continue
        found = sum(
            summary[name] for name in ("passed", "failed", "in_flight", "not_run")
        )
        in_teardown = [
            test for test in report["in_flight"] if test["phase"] == "teardown"
        ]
        assert 0 <= found - summary["collected"] <= len(in_teardown), summary
        listed = len(report["failures"]) + report["limits"]["failures_omitted"]
        assert listed == summary["failed"]
        assert list(folder.glob(f".{REPORT}*")) == []


def processes_of(folder: Path, by: str = "cmdline") -> list[int]:
    """Return the processes that work in a folder, or the watchers of its report."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes()
            is_watcher = str(folder / REPORT).encode() in words
            if is_watcher if by == "cmdline" else (entry / "cwd").readlink() == folder:
                found.append(int(entry.name))
    return found


def test_a_kill_right_after_the_first_report(tmp_path: Path) -> None:
    """Its record is there already, so that the report can be completed, and no file stays."""
    kill = (
        "import os\nfrom pytest_failure_taxonomy.hooks.report_file import ReportFile\n"
        "ReportFile.watch = lambda *args, **options: os.kill(os.getpid(), 9)\n"
    )
    (tmp_path / "kill.py").write_text(kill)
    run = run_pytest(tmp_path, "-p", "kill", env={"PYTHONPATH": str(tmp_path)})
    assert run.status == -signal.SIGKILL
    assert run.report(completeness="running")["summary"]["collected"] == 0
    assert main(["finalize", str(tmp_path / REPORT)]) == 1
    assert (
        run.report(completeness="reconstructed")["verdict"]["kind"]
        == "process.vanished"
    )
    assert list(tmp_path.glob(f".{REPORT}*")) == []


@pytest.mark.slow
def test_a_large_selection(tmp_path: Path, attacks: Attacks) -> None:
    """A hundred thousand selected tests are in the report soon after the death."""
    if not attacks.all:
        pytest.skip("--attacks=all runs it: it takes a minute")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(LARGE)
    with subprocess.Popen(
        pytest_command(SWITCH, "-q"),
        cwd=tmp_path,
        env=child_environment(),
        stdout=subprocess.DEVNULL,
    ) as child:
        deadline = time.monotonic() + 10 * DEADLINE_SECONDS
        while not (tmp_path / "up").exists():
            assert child.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        child.kill()
        child.wait()
    died = time.monotonic()
    report = _wait_for_end(tmp_path / REPORT)
    seconds = time.monotonic() - died
    size = (tmp_path / REPORT).stat().st_size
    sys.stdout.write(
        f"100,000 selected: report of {size:,} bytes {seconds:.2f} s after death\n"
    )
    assert_valid_report(report)
    assert report["summary"]["passed"] == 100
    assert report["summary"]["collected"] == 100_000
    assert report["not_run"]["count"] == 100_000 - 101
