"""What works on systems that lack what Linux has, by hiding that from our code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
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
)
from tests.helpers.portability import SYSTEMS, environment_of
from tests.helpers.reports import read_report
from tests.helpers.waiting import wait_until

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="hides what Linux has"),
    pytest.mark.parametrize("system", SYSTEMS),
]

CLI: Final = (sys.executable, "-m", "pytest_failure_taxonomy")
SUITE: Final = (
    "import os, pathlib, signal, time\n"
    "def test_first(): pass\n"
    "def test_second():\n"
    "    {body}\n"
    "def test_third(): pass\n"
)
PYTEST: Final = pytest_command()


@pytest.fixture
def there(
    system: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str | None]:
    """Return the environment in which our code takes itself to be on the system."""
    folder = tmp_path_factory.mktemp("system")
    return {**environment_of(system, folder), "TMPDIR": str(folder)}


def run(
    folder: Path,
    there: dict[str, str | None],
    *args: str,
    body: str | None = None,
    **options: Any,
) -> ChildRun:
    """Run our command in a folder with a suite of three tests, the second of which does a thing."""
    if body is not None:
        (folder / "test_it.py").write_text(SUITE.format(body=body), "utf-8")
    done = run_child(folder, [*CLI, *args], env=there, **options)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_it_is_hidden(
    system: str, tmp_path: Path, there: dict[str, str | None]
) -> None:
    """The tests of this file would notice: our modules do not see what they must not."""
    code = (
        "from pytest_failure_taxonomy.system import process\n"
        "from pytest_failure_taxonomy.system.files import move_high\n"
        "print(process.sys.platform, hasattr(process.os, 'pidfd_open'), process.fields_of(1))\n"
        "print(hasattr(process.os, 'fork'), process.os.path.exists('/proc/self/stat'))\n"
        "print(move_high(high := process.os.dup(1)) == high)\n"
    )
    done = run_child(tmp_path, [sys.executable, "-c", code], env=there)
    is_windows = system == "windows"
    assert done.stdout.split() == [
        *("win32" if is_windows else "darwin", "False", "[]"),
        *(str(not is_windows), "False", str(is_windows)),
    ], done.stderr


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [("pass", 0, None), ("assert 0", 1, "test.failed")],
    ids=["passes", "fails"],
)
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["serial", "workers"])
def test_the_plugin(
    tmp_path: Path,
    there: dict[str, str | None],
    body: str,
    status: int,
    kind: str | None,
    workers: Sequence[str],
) -> None:
    """A report is written, and no fault of ours stands in it."""
    (tmp_path / "test_it.py").write_text(SUITE.format(body=body), "utf-8")
    plugins = ("failure_taxonomy", *(("xdist",) if workers else ()))
    done = run_child(
        tmp_path, pytest_command(SWITCH, *workers, plugins=plugins), env=there
    )
    assert done.status == status, done.stdout
    report = done.report()
    assert (report["verdict"] or {}).get("kind") == kind
    assert report["summary"]["passed"] == 3 - status
    assert report["faults"] == []
    assert [
        path.name for path in tmp_path.iterdir() if path.name.startswith(".fail")
    ] == []


def test_a_stall(tmp_path: Path, there: dict[str, str | None]) -> None:
    """No other process can look, so a thread of pytest's own does: a lock is told, work is not."""
    body = (
        "end = time.process_time() + 1\n"
        "    while time.process_time() < end: pass\n"
        "    pathlib.Path('worked').touch()\n"
        "    import threading; lock = threading.Lock(); lock.acquire()\n"
        "    lock.acquire()"
    )
    (tmp_path / "test_it.py").write_text(SUITE.format(body=body), "utf-8")
    command = pytest_command(SWITCH, "--failure-taxonomy-stall-seconds=0.5")
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=child_environment(there),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as child:
        assert child.stdout is not None
        printed = []
        for line in child.stdout:
            printed.append(line)
            if line.startswith("stalled"):
                break
        assert printed[-1].endswith(
            "test_it.py::test_second blocked in acquire (test_it.py:8)\n"
        )
        assert (tmp_path / "worked").exists()
        running = read_report(tmp_path / REPORT)
        assert running["completeness"] == "running"
        assert running["in_flight"][0]["stall"]["state"] == "blocked"
        child.send_signal(signal.SIGINT)
        printed += child.stdout
    report = read_report(tmp_path / REPORT)
    assert report["verdict"]["kind"] == "test.stalled"
    assert [each["kind"] for each in report["reasons"]] == [
        "test.stalled",
        "interrupt.keyboard",
    ]
    assert report["faults"] == []


@pytest.mark.parametrize(
    ("body", "status", "kind", "completeness"),
    [
        ("pass", 0, None, "full"),
        ("assert 0", 1, "test.failed", "full"),
        ("os._exit(7)", 7, "process.exited", "reconstructed"),
        ("os._exit(0)", 3, "process.exited", "reconstructed"),
        ("os.kill(os.getpid(), 9)", -9, "process.killed", "reconstructed"),
    ],
)
def test_run(
    tmp_path: Path,
    there: dict[str, str | None],
    body: str,
    status: int,
    kind: str | None,
    completeness: str,
) -> None:
    """The end of a pytest is passed on and stands in its report, with the test that was running."""
    done = run(tmp_path, there, "run", "--", *PYTEST, body=body)
    assert done.status == status, done.stderr
    report = done.report(completeness=completeness)
    assert (report["verdict"] or {}).get("kind") == kind
    if completeness == "reconstructed":
        assert [test["nodeid"] for test in report["in_flight"]] == [
            "test_it.py::test_second"
        ]
        assert report["summary"]["passed"] == 1
    folder = Path(str(there["TMPDIR"]))
    assert [
        path.name for path in folder.iterdir() if path.name.startswith("failure-")
    ] == []


def test_run_with_a_limit(tmp_path: Path, there: dict[str, str | None]) -> None:
    """A command that takes too long is ended, and the exit code is 124."""
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    done = run(tmp_path, there, "run", "--timeout", "1", "--", *sleep)
    assert done.status == 124
    verdict = done.report(completeness="reconstructed")["verdict"]
    assert (verdict["reason"], verdict["kind"]) == ("TIMEOUT", "stage.timeout")


def test_run_another_command(tmp_path: Path, there: dict[str, str | None]) -> None:
    """A command that is no pytest ends as without us; one that is not there is told in a line."""
    code = "import sys; sys.exit(5)"
    assert run(tmp_path, there, "run", "--", sys.executable, "-c", code).status == 5
    done = run(tmp_path, there, "run", "--", "no-such-command")
    assert (done.status, len(done.stderr.splitlines())) == (2, 1)


def test_finalize(tmp_path: Path, there: dict[str, str | None]) -> None:
    """A report that was left is completed; one of a run that goes on is not."""
    body = "pathlib.Path('up').touch(); time.sleep(60)"
    (tmp_path / "test_it.py").write_text(SUITE.format(body=body), "utf-8")
    with subprocess.Popen(
        pytest_command(SWITCH),
        cwd=tmp_path,
        env=child_environment(there),
        stdout=subprocess.DEVNULL,
    ) as child:
        wait_until((tmp_path / "up").exists, "the test")
        done = run(tmp_path, there, "finalize", REPORT)
        assert (done.status, "still going on" in done.stderr) == (2, True)
        child.kill()
    done = run(tmp_path, there, "finalize", "--exit-code", "137", REPORT)
    assert done.status == 1
    report = done.report(completeness="reconstructed")
    assert report["verdict"]["kind"] == "process.killed"
    assert [test["nodeid"] for test in report["in_flight"]] == [
        "test_it.py::test_second"
    ]


def test_the_other_commands(tmp_path: Path, there: dict[str, str | None]) -> None:
    """Each command does its work."""
    assert run(tmp_path, there, "--help").status == 0
    assert run(tmp_path, there, "bench", "init", "mail").status == 0
    assert run(tmp_path, there, "validate", "mail").status == 0
    (tmp_path / "log").write_text("no output of pytest", "utf-8")
    assert run(tmp_path, there, "classify", "--exit-code", "1", "log").status == 1


def test_a_signal_is_passed_on(
    system: str, tmp_path: Path, there: dict[str, str | None]
) -> None:
    """Where signals can be passed on, the command gets what `run` gets."""
    if system == "windows":
        pytest.skip("a process is ended there, and can't be told before")
    body = "pathlib.Path('up').touch(); time.sleep(60)"
    (tmp_path / "test_it.py").write_text(SUITE.format(body=body), "utf-8")
    with subprocess.Popen(
        [*CLI, "run", "--", *PYTEST],
        cwd=tmp_path,
        env=child_environment(there),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as child:
        wait_until((tmp_path / "up").exists, "the test")
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == -signal.SIGTERM
    report = read_report(tmp_path / REPORT)
    assert report["verdict"]["kind"] == "process.terminated"


def test_a_killed_run_leaves_no_folder(
    system: str, tmp_path: Path, there: dict[str, str | None]
) -> None:
    """Where `run` needs a folder, its pytest removes that when it finds itself alone."""
    if system == "windows":
        pytest.skip("a process does not get to know there that its parent is gone")
    body = "pathlib.Path('up').touch()\n    while not os.path.exists('go'): time.sleep(0.01)"
    (tmp_path / "test_it.py").write_text(SUITE.format(body=body), "utf-8")
    folder = Path(str(there["TMPDIR"]))
    with subprocess.Popen(
        [*CLI, "run", "--", *PYTEST],
        cwd=tmp_path,
        env=child_environment(there),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as child:
        wait_until((tmp_path / "up").exists, "the test")
        assert list(folder.glob("failure-taxonomy-*"))
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    (tmp_path / "go").touch()
    wait_until(
        lambda: not list(folder.glob("failure-taxonomy-*")), "the end of the folder"
    )
