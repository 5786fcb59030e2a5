"""A test cuts the files below its folder, and those of its run are among them."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.hooks.progress import Progress
from pytest_failure_taxonomy.survive.folder import record_folder
from pytest_failure_taxonomy.survive.layout import EVENTS, STATE, WRITTEN_AT
from pytest_failure_taxonomy.survive.reader import RecordedRun, read_record
from pytest_failure_taxonomy.survive.writer import DiskRecord
from tests.helpers.children import REPORT, run_pytest
from tests.helpers.reports import make_context
from tests.helpers.waiting import wait_until
from tests.unit.survive.test_record import HEADER, RUN_ID, STARTED_NS

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="needs the check of Linux"
)

CUT: Final = (
    "import os, pathlib, signal, threading, pytest\n"
    "def cut(size=0):\n"
    "    for path in pathlib.Path('.').rglob('*'):\n"
    "        if path.is_file() and path.suffix != '.py': os.truncate(path, size)\n"
    "def empty():\n"
    "    for path in pathlib.Path('.').rglob('*'):\n"
    "        if path.is_file() and path.suffix != '.py': open(path, 'w').close()\n"
    "def fill():\n"
    "    for path in pathlib.Path('.').rglob('*'):\n"
    "        if path.is_file() and path.suffix != '.py': path.write_text('x' * 100_000)\n"
    "def remove():\n"
    "    for path in pathlib.Path('.').rglob('*'):\n"
    "        if path.is_file() and path.suffix != '.py': path.unlink()\n"
    "def in_thread():\n"
    "    thread = threading.Thread(target=cut)\n"
    "    thread.start()\n"
    "    thread.join()\n"
    "def in_child():\n"
    "    child = os.fork()\n"
    "    if not child:\n"
    "        cut()\n"
    "        os._exit(0)\n"
    "    os.waitpid(child, 0)\n"
)
HOW: Final = {
    "to nothing": "cut()",
    "to a byte": "cut(1)",
    "to a page": "cut(4096)",
    "to less than all": "cut(4200)",
    "to more": "cut(50_000)",
    "emptied": "empty()",
    "filled": "fill()",
    "by a thread": "in_thread()",
    "by a child": "in_child()",
    "and removed": "cut(); remove()",
}
SUITE: Final = (
    "from cutting import *\n"
    "AT, WHEN = os.environ['AT'].split()\n"
    "@pytest.fixture\n"
    "def fixture(request):\n"
    "    number = request.node.callspec.params['number']\n"
    "    if (AT, WHEN) == (str(number), 'setup'): exec(os.environ['HOW'])\n"
    "    yield\n"
    "    if (AT, WHEN) == (str(number), 'teardown'): exec(os.environ['HOW'])\n"
    "@pytest.mark.parametrize('number', range(6))\n"
    "def test_it(number, fixture):\n"
    "    if (AT, WHEN) == (str(number), 'call'): exec(os.environ['HOW'])\n"
    "    assert number != 3\n"
    "    if number == 4: exec(os.environ.get('DEATH', ''))\n"
    "if AT == 'collection': exec(os.environ['HOW'])\n"
)
HOOKS: Final = (
    "from cutting import *\n"
    "AT, WHEN = os.environ['AT'].split()\n"
    "@pytest.hookimpl(wrapper=True)\n"
    "def pytest_runtest_protocol(item):\n"
    "    yield\n"
    "    if (AT, WHEN) == ('1', 'after'): exec(os.environ['HOW'])\n"
    "    return True\n"
    "def pytest_sessionfinish():\n"
    "    if AT == 'session': exec(os.environ['HOW'])\n"
)
MOMENTS: Final = (
    *("0 call", "0 setup", "2 call", "3 call", "5 teardown", "1 after"),
    *("collection it", "session end"),
)


def run_cut(
    folder: Path, at: str, how: str, *args: str, **env: str
) -> tuple[int, dict[str, Any]]:
    """Run the suite, and return its status and the report, if that is whole JSON."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "cutting.py").write_text(CUT)
    (folder / "conftest.py").write_text(HOOKS)
    (folder / "test_it.py").write_text(SUITE)
    surroundings = {"PYTHONPATH": str(folder), "AT": at, "HOW": how, **env}
    run = run_pytest(folder, *args, env=surroundings)
    return run.status, report_in(folder)


def report_in(folder: Path) -> dict[str, Any]:
    """Return the report in a folder, if that is whole JSON."""
    try:
        report: dict[str, Any] = json.loads((folder / REPORT).read_bytes())
    except ValueError:
        return {}
    return report


@pytest.mark.attack("at", MOMENTS, some=3)
@pytest.mark.attack("how", HOW, some=3)
def test_a_test_that_cuts_all_files(tmp_path: Path, at: str, how: str) -> None:
    """Status and report are those of a run in which nothing was cut, and no file stays."""
    status, report = run_cut(tmp_path, at, how)
    assert status == 1
    assert_is_whole(report)
    assert list(tmp_path.glob(f".{REPORT}*")) == []


@pytest.mark.attack("how", HOW, some=1)
def test_a_worker_cuts_all_files(tmp_path: Path, how: str) -> None:
    """The controller's record and the other worker's are cut, too; all go on."""
    plugins = ("-p", "xdist", "-n", "2")
    status, report = run_cut(tmp_path, "1 call", how, *plugins)
    assert status == 1
    assert_is_whole(report)
    assert list(tmp_path.glob(f".{REPORT}*")) == []


def assert_is_whole(report: dict[str, Any]) -> None:
    """Check that a report says of the suite what there is to say."""
    assert report["completeness"] == "full"
    assert report["verdict"]["kind"] == "test.failed"
    summary = report["summary"]
    counts = [
        summary[name]
        for name in ("collected", "passed", "failed", "in_flight", "not_run")
    ]
    assert counts == [6, 5, 1, 0, 0]
    assert [each["nodeid"] for each in report["failures"]] == ["test_it.py::test_it[3]"]
    assert report["faults"] == []


@pytest.mark.parametrize(
    "args", [(), ("-p", "xdist", "-n", "2")], ids=["serial", "workers"]
)
def test_a_death_after_all_files_were_cut(tmp_path: Path, args: Sequence[str]) -> None:
    """What was written again says what had passed, failed and was running."""
    death = "os.kill(os.getpid(), signal.SIGKILL)"
    status, report = run_cut(tmp_path, "2 call", "cut()", *args, DEATH=death)
    if args:
        assert status == 1
        assert report["completeness"] == "full"
        assert [each["nodeid"] for each in report["failures"]][:2] == [
            f"test_it.py::test_it[{number}]" for number in (3, 4)
        ]
        return
    assert status == -signal.SIGKILL
    wait_until(lambda: report_in(tmp_path), "the watcher to write the report")
    report = report_in(tmp_path)
    assert report["completeness"] == "reconstructed"
    assert report["verdict"]["kind"] == "process.killed"
    summary = report["summary"]
    assert (summary["collected"], summary["passed"], summary["failed"]) == (6, 3, 1)
    assert [each["nodeid"] for each in report["failures"]] == ["test_it.py::test_it[3]"]
    assert [each["nodeid"] for each in report["in_flight"]] == [
        "test_it.py::test_it[4]"
    ]
    assert report["not_run"]["nodeids"] == ["test_it.py::test_it[5]"]


def test_a_death_while_all_files_are_cut(tmp_path: Path) -> None:
    """Nothing could be written again: nothing is said of the tests, and the status is its own."""
    death = "cut(); os.kill(os.getpid(), signal.SIGKILL)"
    status, report = run_cut(tmp_path, "4 call", death)
    assert status == -signal.SIGKILL
    wait_until(lambda: report_in(tmp_path), "the watcher to write the report")
    report = report_in(tmp_path)
    assert report["verdict"]["kind"] == "process.killed"
    assert (report["in_flight"], report["not_run"]["nodeids"]) == ([], [])
    faults = report["faults"]
    assert any("the record's numbers are missing" in fault for fault in faults)


# The record itself.


def recorded(folder: Path) -> RecordedRun:
    """Read the record that these tests write."""
    return read_record(folder, RUN_ID)


ERASED: Final = "s3cret-of-the-user"


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 5000, 8191, 8192])
@pytest.mark.parametrize("name", [STATE, EVENTS])
def test_what_is_cut_is_written_again(tmp_path: Path, name: str, size: int) -> None:
    """The next number, and the next event, bring back all that was there, secrets erased."""
    folder = record_folder(tmp_path / REPORT, RUN_ID)
    record = DiskRecord(folder)
    record.write("run", **HEADER, context=make_context())
    progress = Progress(record, STARTED_NS)
    progress.select(["a", "b", "c", f"{ERASED} " * 200])
    progress.start("a")
    progress.count_pass("a")
    progress.finish("a")
    progress.start("b")
    record.erase({ERASED: "*****"})
    before = recorded(folder)
    os.truncate(folder / name, min(size, (folder / name).stat().st_size - 1))
    record.write("end", should_fail="")
    progress.count("warnings")
    after = recorded(folder)
    assert after.nodeids == before.nodeids
    assert ERASED not in (folder / EVENTS).read_text()
    assert after.in_flight == before.in_flight
    assert after.starts == before.starts
    assert after.counters == {**before.counters, "warnings": 1}
    assert after.notes == ()
    record.set_byte(WRITTEN_AT, 1)
    assert recorded(folder).is_reported
    record.remove()


def test_what_can_not_be_written_again(tmp_path: Path) -> None:
    """Where the file is gone as well, the numbers stay right in memory."""
    folder = record_folder(tmp_path / REPORT, RUN_ID)
    record = DiskRecord(folder)
    progress = Progress(record, STARTED_NS)
    progress.select(["a", "b"])
    os.truncate(folder / STATE, 0)
    os.unlink(folder / STATE)
    progress.start("a")
    progress.count_pass("a")
    progress.finish("a")
    progress.start("b")
    assert record.lost is not None
    assert progress.counters["passed"] == 1
    assert [test.nodeid for test in progress.in_flight()] == ["b"]
    record.remove()
