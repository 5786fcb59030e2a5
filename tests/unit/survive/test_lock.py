"""Two runs with one report: one of them has the path, the other one says where it writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.survive.lock import ReportLock
from tests.helpers.children import (
    REPORT,
    SWITCH,
    child_environment,
    pytest_command,
    run_pytest,
)
from tests.helpers.reports import assert_valid_report

pytestmark = pytest.mark.posix("Windows has no `fcntl` to lock a file by")

DEADLINE_SECONDS: Final = 60.0
HOLD: Final = (
    "import sys, os, time; from pathlib import Path\n"
    "from pytest_failure_taxonomy.survive.lock import ReportLock\n"
    "lock = ReportLock(Path(sys.argv[1])); print(lock.acquire(), flush=True)\n"
)


@contextmanager
def holder(
    report: Path, then: str = "time.sleep(60)", stdin: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Have another process take a report's path, and do something then."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD + then, str(report)],
        stdin=stdin,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "True\n"
            yield child
        finally:
            child.kill()


def wait_for(path: Path) -> None:
    """Wait until a file is there."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} never came"
        time.sleep(0.01)


def test_a_path_is_one_runs(tmp_path: Path) -> None:
    """The first one has it, in this process or in another, until it lets go; no file stays."""
    report = tmp_path / REPORT
    first, second = ReportLock(report), ReportLock(report)
    assert first.acquire()
    assert not second.acquire()
    second.release()
    assert not ReportLock(report).acquire()
    first.release()
    assert list(tmp_path.iterdir()) == []
    assert second.acquire()
    second.release()
    second.release()
    assert list(tmp_path.iterdir()) == []


def test_another_process_has_the_path(tmp_path: Path) -> None:
    """A lock holds against other processes, and ends with its own, however that ends."""
    report = tmp_path / REPORT
    lock = ReportLock(report)
    with holder(report) as child:
        assert not lock.acquire()
        child.kill()
        child.wait()
        assert ReportLock(report).path.exists(), "nobody could remove it"
        assert lock.acquire()
    lock.release()


def test_a_lock_whose_descriptor_is_closed(tmp_path: Path) -> None:
    """A test that closes all descriptors gives the path to nobody, and the file goes in the end."""
    report = tmp_path / REPORT
    lock = ReportLock(report)
    then = (
        "os.closerange(3, 70_000); print('closed', flush=True)\n"
        "sys.stdin.readline(); lock.release(); print('released', flush=True); time.sleep(60)\n"
    )
    with holder(report, then, stdin=subprocess.PIPE) as first:
        assert first.stdout is not None
        assert first.stdin is not None
        assert first.stdout.readline() == "closed\n"
        assert not lock.acquire()
        first.stdin.write("\n")
        first.stdin.flush()
        assert first.stdout.readline() == "released\n"
        assert list(tmp_path.iterdir()) == []
        assert lock.acquire()
    lock.release()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"pid": 1}', b'{"pid": "x"}', b"\0" * 500]
)
def test_a_lock_file_of_anybodys(tmp_path: Path, content: bytes) -> None:
    """What names no process that runs keeps nobody from the path."""
    report = tmp_path / REPORT
    ReportLock(report).path.write_bytes(content)
    lock = ReportLock(report)
    assert lock.acquire()
    lock.release()


def test_a_process_that_is_left_behind_does_not_hold_it(tmp_path: Path) -> None:
    """A forked child that outlives the run has none of its lock."""
    report = tmp_path / REPORT
    leave = (
        "child = os.fork()\n"
        "if child == 0: os.closerange(0, 3); time.sleep(60)\n"
        "print(child, flush=True); os._exit(0)"
    )
    with holder(report, leave) as first:
        assert first.stdout is not None
        left_behind = int(first.stdout.readline())
        first.wait()
        lock = ReportLock(report)
        assert lock.acquire()
        lock.release()
        os.kill(left_behind, 9)


def test_a_lock_that_was_removed_while_it_was_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock's file that its holder removes between our opening and our locking it is none."""
    import fcntl

    report = tmp_path / REPORT
    lockf = fcntl.lockf

    def remove_then_lock(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "lockf", lockf)
        ReportLock(report).path.unlink()
        lockf(descriptor, operation)

    monkeypatch.setattr(fcntl, "lockf", remove_then_lock)
    first = ReportLock(report)
    assert first.acquire()
    with pytest.raises(AssertionError), holder(report):
        pass  # it says that it has not got the path
    first.release()


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    """What a symbolic link points to stays as it is."""
    (tmp_path / "theirs").write_text("theirs")
    os.symlink(tmp_path / "theirs", ReportLock(tmp_path / REPORT).path)
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        ReportLock(tmp_path / REPORT).acquire()
    assert (tmp_path / "theirs").read_text() == "theirs"


@pytest.mark.slow
def test_two_runs_with_one_path(tmp_path: Path) -> None:
    """The second run writes to a name of its own and says so; the first one's report is its own,
    and both have all of their results.
    """
    wait = (
        "import pathlib, time\n"
        "def test_waits():\n"
        "    here = pathlib.Path(__file__).parent\n"
        "    (here / 'up').touch()\n"
        "    while not (here / 'go').exists(): time.sleep(0.01)\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_first.py").write_text(wait)
    (tmp_path / "test_second.py").write_text("def test_fails(): assert 0\n")
    with subprocess.Popen(
        pytest_command(SWITCH, "test_first.py"),
        cwd=tmp_path,
        env=child_environment(),
        stdout=subprocess.DEVNULL,
    ) as first:
        wait_for(tmp_path / "up")
        second = run_pytest(tmp_path, "test_second.py")
        (tmp_path / "go").touch()
        assert first.wait(DEADLINE_SECONDS) == 0
    assert second.status == 1
    (other,) = tmp_path.glob("failure-report.*.json")
    told = json.loads(other.read_text("ascii"))
    assert_valid_report(told)
    assert other.name == f"failure-report.{told['run']['id']}.json"
    assert told["verdict"]["kind"] == "test.failed"
    assert second.told[-1] == f"report: {other.name} (another run writes to {REPORT})"
    own = json.loads((tmp_path / REPORT).read_text("ascii"))
    assert (own["completeness"], own["verdict"]) == ("full", None)
    hidden = [path.name for path in tmp_path.glob(".failure*")]
    assert hidden == []


def test_a_dead_runs_lock_is_no_obstacle(tmp_path: Path) -> None:
    """After a run that was killed the next one has the path, and its report is its own."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(
        "import os, signal\n"
        "def test_it():\n"
        "    if 'DIE' in os.environ: os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    no_watcher = ("-o", "failure_taxonomy_watcher=false")
    dead = run_pytest(tmp_path, *no_watcher, env={"DIE": "1"})
    assert dead.status == -9
    left = dead.report(completeness="running")["run"]["id"]
    assert run_pytest(tmp_path).status == 0
    report = json.loads((tmp_path / REPORT).read_text("ascii"))
    assert report["run"]["id"] != left
    assert (report["completeness"], report["verdict"]) == ("full", None)
    assert not ReportLock(tmp_path / REPORT).path.exists()
