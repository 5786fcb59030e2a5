"""A disk that fills up, files that can't grow, names that are too long, descriptors that are shut.

What is lost then is counted, and whoever reads the report knows: no false verdict, no silence.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_failure_taxonomy.report.trim import cut_to_fit, is_cut
from pytest_failure_taxonomy.report.write import (
    MAX_NAME_BYTES,
    encode,
    path_beside,
    path_of_run,
)
from pytest_failure_taxonomy.survive.complete import reconstruct
from pytest_failure_taxonomy.survive.facts import ProcessEnd
from pytest_failure_taxonomy.survive.folder import record_folder
from pytest_failure_taxonomy.survive.layout import COUNTED_AT, LOSS_AT, STATE
from pytest_failure_taxonomy.survive.reader import RecordedRun, read_record
from pytest_failure_taxonomy.survive.writer import DiskRecord
from pytest_failure_taxonomy.system.interpreter import isolate_module
from pytest_failure_taxonomy.taxonomy.evidence import (
    CollectionFailure,
    Counts,
    ProcessExit,
    Unrecorded,
)
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.order import Order
from tests.helpers.children import REPORT, ChildRun, run_child, run_pytest
from tests.helpers.reports import (
    assert_valid_report,
    make_context,
    make_failure,
    make_report_value,
    make_run,
    read_report,
)
from tests.helpers.task_classes import (
    BENCH,
    SYSTEM,
    codes_by_case,
    passing_cases,
    task_class_files,
)

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux"),
    pytest.mark.skipif(os.getpid() == 1, reason="process 1 has no watcher"),
]

TO: Final = "--failure-taxonomy-report"
UNWATCHED: Final = ("-o", "failure_taxonomy_watcher=false")
RUN_ID: Final = "0123456789abcdef" * 2
DEADLINE_SECONDS: Final = 60.0

FILLS: Final = """
import os

import pytest


def fill(path):
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    for block in (b"x" * 4096, b"x"):
        try:
            while True:
                os.write(file, block)
        except OSError:
            pass
    os.close(file)

"""


@contextmanager
def mounted(place: Path, options: str) -> Iterator[Path]:
    """Make a folder that is a small file system of its own."""
    place.mkdir()
    if os.geteuid():
        pytest.skip("root alone may mount a file system")
    mount = ["mount", "-t", "tmpfs", "-o", options, "none", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("this root may not mount a file system")
    try:
        yield place
    finally:
        # Lazily: a watcher that is about to end may still have the record's files open.
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder to run pytest in."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "pytest.ini").write_text("[pytest]\n", "utf-8")
    return tmp_path / "run"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder on a file system of 512 KiB."""
    with mounted(tmp_path / "disk", "size=512k") as place:
        yield place


def write_failing_tests(
    folder: Path, *, tests: int, lines: int = 150, **does: str
) -> None:
    """Write tests that fail with a long message, and what some of them do before, by number."""
    actions = "".join(
        f"    if number == {name[1:]}:\n        {do}\n" for name, do in does.items()
    )
    body = (
        f"{FILLS}@pytest.mark.parametrize('number', range({tests}))\ndef test_it(number):\n"
        f"{actions}"
        f"    words = [str(line) * 20 for line in range({lines})]\n"
        "    raise ValueError(f'wrong {number}', *words)\n"
    )
    (folder / "test_it.py").write_text(body, "utf-8")


def wait_for(path: Path, completeness: str) -> dict[str, Any]:
    """Wait until a report is complete, and return it after checking it."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while json.loads(path.read_text("ascii"))["completeness"] != completeness:
        assert time.monotonic() < deadline, "nobody has completed the report"
        time.sleep(0.02)
    return read_report(path)


def finalize(path: Path) -> subprocess.CompletedProcess[str]:
    """Have a report completed by hand."""
    command = [sys.executable, "-m", "pytest_failure_taxonomy", "finalize", str(path)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def hidden_in(folder: Path) -> list[str]:
    """Return the hidden files and folders in a folder."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def faults_of(report: dict[str, Any]) -> str:
    """Return what a report says of our own faults, in one text."""
    return "\n".join(report["faults"])


# A disk without room.


@pytest.mark.parametrize(
    "workers", [(), ("-n", "2", "-p", "xdist")], ids=["serial", "n2"]
)
def test_a_full_disk_makes_no_false_verdict(
    folder: Path, disk: Path, tmp_path: Path, workers: tuple[str, ...]
) -> None:
    """The report that has no room is whole elsewhere, and what fits of it is where it belongs."""
    (tmp_path / "temporary").mkdir()
    fill = f"fill({str(disk / 'big')!r}); return"
    write_failing_tests(folder, tests=13, lines=700, n0=fill)
    path = disk / "r.json"
    environment = {"TMPDIR": str(tmp_path / "temporary")}
    run = run_pytest(folder, *workers, switch=(f"{TO}={path}",), env=environment)
    assert run.status == 1
    (whole,) = (tmp_path / "temporary").glob("r.*.json")
    why = f"{path} has room for a part of it: No space left on device"
    assert run.tail[-1] == f"report: {whole} ({why})"
    report = read_report(path)
    assert len(read_report(whole)["failures"]) == 12
    for each in (report, read_report(whole)):
        verdict = each["verdict"]
        assert (verdict["reason"], verdict["kind"]) == ("TESTS_FAILED", "test.failed")
        assert verdict["message"].startswith(
            "12 of 13 tests failed: ValueError: wrong 1"
        )
        assert len(each["failures"]) + each["limits"]["failures_omitted"] == 12
    assert report["failures"]
    assert report["completeness"] == "full"
    assert "no room on the disk for the whole report" in faults_of(report)
    assert finalize(path).returncode == 1
    assert read_report(path) == report
    assert hidden_in(disk) == []


def test_a_death_on_a_full_disk(folder: Path, disk: Path) -> None:
    """The watcher knows how many failures it knows nothing of, and keeps what there is."""
    fill = f"fill({str(disk / 'big')!r}); return"
    write_failing_tests(folder, tests=14, lines=700, n0=fill, n13="os._exit(7)")
    path = disk / "r.json"
    assert run_pytest(folder, switch=(f"{TO}={path}",)).status == 7
    report = wait_for(path, "reconstructed")
    verdict = report["verdict"]
    assert (verdict["reason"], verdict["kind"]) == ("TESTS_FAILED", "test.failed")
    assert verdict["confidence"] == "likely"
    assert verdict["message"] == (
        "12 of 14 tests failed, then the process exited before pytest had finished while it ran "
        "test_it.py::test_it[13]"
    )
    assert report["summary"]["failed"] == 12
    assert len(report["failures"]) + report["limits"]["failures_omitted"] == 12
    assert report["limits"]["failures_omitted"] > 0
    lacking = report["limits"]["failures_omitted"]
    assert f"the record lacks {lacking} failures: No space left on device" in faults_of(
        report
    )
    assert [test["nodeid"] for test in report["in_flight"]] == [
        "test_it.py::test_it[13]"
    ]
    deadline = time.monotonic() + DEADLINE_SECONDS
    while hidden_in(disk) != [record_folder(path, report["run"]["id"]).name]:
        assert time.monotonic() < deadline, "the lock stays, or the record is gone"
        time.sleep(0.02)


def test_a_disk_that_is_full_for_a_while(folder: Path, disk: Path) -> None:
    """What follows a torn event is read, and what was lost meanwhile is told."""
    write_failing_tests(
        folder,
        tests=41,
        lines=30,
        n0="return",
        n11=f"fill({str(disk / 'big')!r})",
        n31=f"os.truncate({str(disk / 'big')!r}, 0)",
        n40="os._exit(7)",
    )
    path = disk / "r.json"
    assert run_pytest(folder, *UNWATCHED, switch=(f"{TO}={path}",)).status == 7
    done = finalize(path)
    assert done.returncode == 1
    assert "\n39 of 41 tests failed, " in done.stderr
    assert ", 3 causes  [TESTS_FAILED test.failed, likely]\n" in done.stderr
    report = read_report(path)
    listed = [failure["nodeid"] for failure in report["failures"]]
    assert (
        len(listed) + report["limits"]["failures_omitted"]
        == report["summary"]["failed"]
        == 39
    )
    assert listed[0] == "test_it.py::test_it[1]"
    assert listed[-1] == "test_it.py::test_it[39]"
    assert 18 <= len(listed) < 39
    assert report["verdict"]["confidence"] == "likely"
    assert "the record lacks" in faults_of(report)
    record = [record_folder(path, report["run"]["id"]).name]
    assert hidden_in(disk) == record
    assert finalize(path).returncode == 1  # again, and nothing changes
    assert read_report(path) == report
    assert hidden_in(disk) == record


def test_a_part_of_a_report_is_filled_up(folder: Path, disk: Path) -> None:
    """Where the whole report fits nowhere the record stays, and `finalize` takes from it."""
    (disk / "temporary").mkdir()
    write_failing_tests(
        folder, tests=21, lines=60, n0="return", n20=f"fill({str(disk / 'big')!r})"
    )
    path = disk / "r.json"
    environment = {"TMPDIR": str(disk / "temporary")}
    run = run_pytest(folder, *UNWATCHED, switch=(f"{TO}={path}",), env=environment)
    assert run.status == 1
    assert run.tail[-1] == (
        f"report: {path} has room for a part of it: No space left on device; make room and "
        f"complete it by: failure-taxonomy finalize {path}"
    )
    part = read_report(path)
    message = part["verdict"]["message"]
    assert message.startswith("20 of 21 tests failed: ValueError: wrong 1")
    assert part["verdict"]["confidence"] == "certain"
    omitted = part["limits"]["failures_omitted"]
    assert len(part["failures"]) + omitted == 20
    assert part["limits"]["tracebacks_omitted"] + omitted > 1
    (disk / "big").unlink()
    assert finalize(path).returncode == 1
    whole = read_report(path)
    assert whole["verdict"] == part["verdict"]
    assert len(whole["failures"]) >= 19
    assert len(whole["failures"]) + whole["limits"]["failures_omitted"] == 20
    assert whole["limits"]["tracebacks_omitted"] == 0


@pytest.mark.parametrize("dies", [False, True], ids=["ends", "dies"])
def test_no_inode_is_left(folder: Path, tmp_path: Path, dies: bool) -> None:
    """A disk on which no file can be made has a place for the report."""
    with mounted(tmp_path / "disk", "size=4m,nr_inodes=40") as disk:
        test = (
            f"{FILLS}def test_it():\n"
            "    try:\n"
            "        for number in range(99):\n"
            f"            open({str(disk)!r} + f'/{{number}}', 'w')\n"
            "    except OSError:\n        pass\n"
            f"    {'os._exit(7)' if dies else 'assert 0'}\n"
        )
        (folder / "test_it.py").write_text(test, "utf-8")
        path = disk / "r.json"
        run = run_pytest(folder, switch=(f"{TO}={path}",))
        assert run.status == (7 if dies else 1)
        report = wait_for(path, "reconstructed" if dies else "full")
        assert report["verdict"]["kind"] == (
            "process.exited" if dies else "test.failed"
        )


# The record.


@pytest.fixture
def record(tmp_path: Path) -> DiskRecord:
    """Return a record that has begun."""
    record = DiskRecord(record_folder(tmp_path / "r.json", RUN_ID))
    record.write(
        "run",
        run_id=RUN_ID,
        started_ns=0,
        stage="final_test",
        strict_baseline=False,
        faulthandler_exit_seconds=None,
        rules=(),
        redact=(),
        context=make_context(),
        process={"pid": os.getpid(), "start_ticks": None, "boot_id": None},
        enclosing_limits=[],
        memory={"events_file": None, "oom_kills": None},
    )
    return record


def fail(record: DiskRecord, name: str) -> None:
    """Record that a test has failed."""
    record.write("failure", failure=make_failure(nodeid=name))


def failed(run: RecordedRun) -> list[str]:
    """Return the tests that a record says have failed."""
    return [failure.nodeid for failure in run.list_facts("failure")]


@pytest.mark.parametrize(
    "taken", [0, 1, 7, None], ids=["none", "one", "some", "almost-all"]
)
@pytest.mark.parametrize(
    "number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO]
)
def test_a_write_that_is_cut_short(
    record: DiskRecord, monkeypatch: pytest.MonkeyPatch, number: int, taken: int | None
) -> None:
    """A part of an event costs that event alone; how many are missing is counted, and why."""
    calls = 0

    def write_a_part(descriptor: int, content: bytes) -> int:
        nonlocal calls
        calls += 1
        if calls > 1 or taken == 0:
            raise OSError(number, os.strerror(number))
        return os.write(
            descriptor, content[: len(content) - 2 if taken is None else taken]
        )

    fail(record, "a")
    with monkeypatch.context() as patch:
        patch.setattr(isolate_module(os), "write", write_a_part)
        fail(record, "b")
        record.write(
            "collection_failure", failure=CollectionFailure(nodeid="c", message="")
        )
    fail(record, "d")
    run = read_record(record.folder, RUN_ID)
    assert failed(run) == ["a", "d"]
    assert run.missing == {"failure": 1, "collection_failure": 1}
    assert run.notes[-1] == (
        f"the record lacks 1 failure, 1 collection error: {os.strerror(number)}"
    )


def test_a_write_that_is_short_and_goes_on(
    record: DiskRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system that takes a line in parts gets all of them."""
    with monkeypatch.context() as patch:
        patch.setattr(
            isolate_module(os),
            "write",
            lambda file, content: os.write(file, content[:3]),
        )
        fail(record, "a")
        fail(record, "b")
    run = read_record(record.folder, RUN_ID)
    assert failed(run) == ["a", "b"]
    assert (run.missing, run.notes) == ({}, ())


def test_numbers_that_nobody_counted(record: DiskRecord) -> None:
    """Whatever stands in the place of counts and of the system's error, the record is read."""
    content = bytearray((record.folder / STATE).read_bytes())
    content[LOSS_AT : LOSS_AT + 4] = content[COUNTED_AT : COUNTED_AT + 4] = b"\xff" * 4
    (record.folder / STATE).write_bytes(content)
    run = read_record(record.folder, RUN_ID)
    assert run.missing == {"failure": 0xFFFFFFFF}
    assert run.notes == ("the record lacks 4294967295 failures",)
    end = ProcessEnd(exit=ProcessExit(code=None, source="finalize"))
    report = reconstruct(run, None, end)
    assert_valid_report(json.loads(encode(report)))
    assert report.limits.failures_omitted == 0xFFFFFFFF


@pytest.mark.parametrize(
    ("lacking", "kind", "words"),
    [
        (Unrecorded(failures=3), "test.failed", "4 tests failed, 2 causes"),
        (
            Unrecorded(collection_failures=1),
            "collection.error",
            "1 test failed, and 1 file or node could not be collected",
        ),
        (
            Unrecorded(errors=1),
            "internal.error",
            "1 test failed, and pytest met an internal error",
        ),
        (
            Unrecorded(interruptions=1),
            "interrupt.stopped",
            "1 test failed, then the run was stopped before its end",
        ),
    ],
)
def test_what_is_only_counted_is_likely(
    lacking: Unrecorded, kind: str, words: str
) -> None:
    """The counters decide the reason where there are no events, and nothing is certain then."""
    run = make_run(
        exit=ProcessExit(code=1, source="record"),
        counts=Counts(collected=9, passed=1, failed=lacking.failures),
        unrecorded=lacking,
    )
    verdict = judge(run).verdict
    assert verdict is not None
    assert (verdict.kind, verdict.confidence) == (kind, "likely")
    recorded = make_run(exit=run.exit, failures=(make_failure(),), unrecorded=lacking)
    verdict = judge(recorded).verdict
    assert verdict is not None
    assert (verdict.kind, verdict.confidence) == ("test.failed", "likely")
    assert verdict.message == words


@pytest.mark.parametrize("size", [1_000, 4_000, 8_000, 20_000, 65_536, 10_000_000])
def test_a_report_is_cut_to_fit(size: int) -> None:
    """A part of a report is a report: valid, of the same verdict, and it counts what it lacks."""
    failures = tuple(
        make_failure(nodeid=f"test_it.py::test_it[{number}]", traceback="E  x\n" * 200)
        for number in range(300)
    )
    order = Order(
        workers={"main": " ".join(map(str, range(0, 200_000, 2)))},
        tests=200_000,
        digest="0123456789abcdef",
        seeds={},
        distribution=None,
        truncated=False,
    )
    whole = make_report_value(
        make_run(
            exit=ProcessExit(code=1, source="pytest"),
            counts=Counts(collected=300, failed=300),
            failures=failures,
            order=order,
        )
    )
    part = cut_to_fit(whole, size, lambda report: len(encode(report)))
    if part is None:
        assert size < 8_000
        return
    assert len(encode(part)) <= size
    assert_valid_report(json.loads(encode(part)))
    assert is_cut(part)
    assert not is_cut(whole)
    assert part.verdict == whole.verdict
    assert len(part.failures) + part.limits.failures_omitted == 300
    kept = sum(failure.traceback is not None for failure in part.failures)
    assert kept + part.limits.tracebacks_omitted == len(part.failures)
    assert part.failures or size < 20_000
    lacks = "; it lacks order, distributions" in part.faults[0]
    assert (part.order is None) is lacks is (size < 10_000_000)


# Files that can't grow.


@pytest.mark.parametrize("passes", [True, False], ids=["passing", "failing"])
def test_no_file_may_have_content(folder: Path, tmp_path: Path, passes: bool) -> None:
    """One line says that there is no report and why; nothing empty is left behind."""
    (folder / "test_it.py").write_text(
        f"def test_it():\n    assert {passes}\n", "utf-8"
    )
    (tmp_path / "temporary").mkdir()
    shell = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh"]
    environment = {"TMPDIR": str(tmp_path / "temporary")}
    run = run_pytest(folder, "-s", launcher=shell, env=environment)
    assert run.status == (0 if passes else 1)
    told = [line for line in run.tail if line.startswith("report: ")]
    assert len(told) == 1
    assert told[0].startswith("report: could not be written to ")
    assert told[0].endswith(": File too large")
    verdict = (
        "no failure (1 passed)"
        if passes
        else "1 test failed: assert False: test_it (test"
    )
    assert verdict in "\n".join(run.tail)
    assert sorted(path.name for path in folder.iterdir()) == [
        "pytest.ini",
        "test_it.py",
    ]
    assert list((tmp_path / "temporary").iterdir()) == []


# Long names.


@given(st.text(st.characters(codec="utf-8", exclude_characters="/\0")))
@example("x" * 255)
@example("ä" * 127)
@example("x" * 222 + ".json")
def test_names_fit_beside_any_report(name: str) -> None:
    """What belongs to a report has a name that the system takes, and that is its report's alone."""
    name = os.fsencode(name)[:255].decode("utf-8", "ignore")
    if name in ("", ".", ".."):
        return
    path = Path("/folder") / name
    for made in (path_beside(path, ".lock"), path_beside(path, f".{RUN_ID}")):
        assert made.parent == path.parent
        assert made.name.startswith(".")
        assert len(os.fsencode(made.name)) <= MAX_NAME_BYTES
        assert made != path
    assert len(os.fsencode(path_of_run(path, RUN_ID).name)) <= MAX_NAME_BYTES
    assert RUN_ID in path_of_run(path, RUN_ID).name


def test_long_names_are_told_apart() -> None:
    """Two reports whose names begin alike have locks and records of their own."""
    names = ["x" * 250 + end for end in ("a", "b", "é", "")]
    assert len({path_beside(Path(name), ".lock") for name in names}) == len(names)
    assert len({path_of_run(Path(name), RUN_ID) for name in names}) == len(names)


@pytest.mark.parametrize(
    "name",
    ["x" * 222, "x" * 235 + ".json", "x" * 255, "ä" * 125 + ".json", "." + "x" * 250],
    ids=["222", "240", "255", "non-ascii", "hidden"],
)
def test_a_long_name_has_record_and_watcher(folder: Path, name: str) -> None:
    """A report of any name that the system takes is completed after a death."""
    (folder / "test_it.py").write_text(
        "import os\ndef test_it():\n    os._exit(7)\n", "utf-8"
    )
    run = run_pytest(folder, switch=(f"{TO}={name}",))
    assert run.status == 7
    report = wait_for(folder / name, "reconstructed")
    assert report["in_flight"]
    assert report["environment"]["watcher"] == {"active": True, "why_not": None}
    deadline = time.monotonic() + DEADLINE_SECONDS
    wanted = sorted({"pytest.ini", "test_it.py", name})
    while sorted(path.name for path in folder.iterdir()) != wanted:
        assert time.monotonic() < deadline, "the record stays"
        time.sleep(0.02)


# Descriptors that are shut, and watchers that are not there.

DIES: Final = (
    "import os\n\ndef test_passes():\n    pass\n\ndef test_dies():\n    os._exit(7)\n"
)
SILENT: Final = ("-s", "-p", "no:terminal", "-p", "no:faulthandler")
"""Without its own output pytest runs without any of the three standard descriptors."""

SHUT: Final = ["<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"]


@pytest.mark.parametrize("shut", SHUT)
def test_shut_descriptors_cost_no_watcher(folder: Path, shut: str) -> None:
    """Whatever is closed of standard input, output and error, the watcher gets the record."""
    (folder / "test_it.py").write_text(DIES, "utf-8")
    shell = ["sh", "-c", f'exec "$@" {shut}', "sh"]
    assert run_pytest(folder, *SILENT, launcher=shell).status == 7
    report = wait_for(folder / REPORT, "reconstructed")
    assert report["verdict"]["kind"] == "process.exited"
    assert report["exit"]["source"] == "watcher"
    assert report["summary"]["passed"] == 1


def test_shut_descriptors_cost_no_rubric(folder: Path) -> None:
    """The process that runs rubrics has its socket, whatever number that would have got."""
    shuts = SYSTEM.replace("def answer(case):", "def answer(case):\n        shut()")
    shuts += "\n\ndef shut():\n    for number in (0, 1, 2):\n"
    shuts += "        try:\n            os.close(number)\n        except OSError:\n            pass\n"
    # One by one: what is opened while another case closes them can be anything.
    settings = "concurrency: 1\n"
    files = task_class_files(passing_cases(2), system=shuts, settings=settings)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, "utf-8")
    run = run_pytest(folder, *SILENT, "bench", plugins=(BENCH,))
    (report,) = run.report()["bench"]
    assert codes_by_case(report) == {"case-000": [], "case-001": []}


NO_WATCHER: Final = "failure taxonomy: no watcher ({}); if pytest is killed, its report stays incomplete"

LAUNCH_WITHOUT: Final = (
    "import sys, pytest\n"
    "import pytest_failure_taxonomy.survive.start_watcher as watcher\n"
    "{change}\n"
    "sys.exit(pytest.main(sys.argv[sys.argv.index('pytest') + 1:]))"
)


def run_without_watcher(folder: Path, change: str, *args: str) -> ChildRun:
    """Run pytest in a process that was changed so that it can have no watcher."""
    launcher = [sys.executable, "-c", LAUNCH_WITHOUT.format(change=change)]
    return run_pytest(folder, *args, launcher=launcher)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(
            "sys.executable = ''",
            "Python does not know its own program (sys.executable is empty)",
            id="no-program",
        ),
        pytest.param(
            "watcher._SHELL = '/no/sh'",
            "/no/sh: No such file or directory",
            id="no-shell",
        ),
        pytest.param(
            "watcher._SHELL = '/bin/false'",
            "/bin/false could not start a process",
            id="no-fork",
        ),
    ],
)
def test_where_no_watcher_can_be_one_line_says_so(
    folder: Path, change: str, why: str
) -> None:
    """The terminal and the report say why nobody would see pytest die; `-qq` is silent."""
    (folder / "test_it.py").write_text("def test_it(): pass\n", "utf-8")
    run = run_without_watcher(folder, change)
    assert run.status == 0
    assert run.tail[-1] == NO_WATCHER.format(why)
    assert run.report()["environment"]["watcher"] == {"active": False, "why_not": why}
    quiet = run_without_watcher(folder, change, "-q")
    assert quiet.tail == [NO_WATCHER.format(why)]
    assert "no watcher (" not in run_without_watcher(folder, change, "-qq").stdout


def test_a_death_without_a_watcher(folder: Path) -> None:
    """The report that stays `running`, and the one that `finalize` makes of it, say why."""
    (folder / "test_it.py").write_text(DIES, "utf-8")
    run = run_without_watcher(folder, "watcher._SHELL = '/no/sh'")
    assert run.status == 7
    said = {"active": False, "why_not": "/no/sh: No such file or directory"}
    assert run.report(completeness="running")["environment"]["watcher"] == said
    assert finalize(folder / REPORT).returncode == 1
    assert run.report(completeness="reconstructed")["environment"]["watcher"] == said


def test_a_watcher_that_is_gone_is_told(folder: Path) -> None:
    """A watcher that was killed before pytest ended is no watcher."""
    # On a busy machine the watcher may not have started yet, and what was killed lives on a moment.
    test = (
        "import os, pathlib, signal, time\n\n"
        "def watchers():\n"
        "    for entry in os.listdir('/proc'):\n"
        "        try:\n"
        "            words = pathlib.Path(f'/proc/{entry}/cmdline').read_bytes().split(bytes(1))\n"
        "        except OSError:\n"
        "            continue\n"
        "        mine = str(os.getpid()).encode()\n"
        "        if any(word.endswith(b'/watcher.py') for word in words) and mine in words:\n"
        "            yield int(entry)\n\n"
        "def test_it():\n"
        "    while not (found := list(watchers())):\n"
        "        time.sleep(0.01)\n"
        "    for process_id in found:\n"
        "        os.kill(process_id, signal.SIGKILL)\n"
        "    while list(watchers()):\n"
        "        time.sleep(0.01)\n"
    )
    (folder / "test_it.py").write_text(test, "utf-8")
    run = run_pytest(folder)
    why = "it was ended before pytest was"
    assert run.tail[-1] == NO_WATCHER.format(why)
    assert run.report()["environment"]["watcher"] == {"active": False, "why_not": why}


def test_no_process_may_be_started() -> None:
    """Under a limit on processes (`ulimit -u`) the run goes on, and says that nobody watches it."""
    if os.geteuid() or not all(map(shutil.which, ("setpriv", "prlimit"))):
        pytest.skip(
            "root alone can run as a user who has no other process, with setpriv"
        )
    user = "61234"
    # Root's own limit is none. The right to read all files is not what lifts it.
    rights = "-all,+dac_override,+dac_read_search"
    limited = [
        *("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"),
        *(
            f"--inh-caps={rights}",
            f"--ambient-caps={rights}",
            f"--bounding-set={rights}",
        ),
        *("prlimit", "--nproc=1"),
    ]
    folder = Path(tempfile.mkdtemp(prefix="limited-"))
    try:
        (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
        (folder / "test_it.py").write_text("def test_it(): pass\n", "utf-8")
        os.chown(folder, int(user), int(user))
        if run_child(folder, [*limited, sys.executable, "-c", "import pytest"]).status:
            pytest.skip("this root may not give its rights away")
        run = run_pytest(folder, launcher=limited)
        assert run.status == 0
        assert "failure taxonomy: no watcher (" in run.tail[-1]
        watcher = run.report()["environment"]["watcher"]
        assert watcher == {
            "active": False,
            "why_not": f"/bin/sh: {os.strerror(errno.EAGAIN)}",
        }
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("how", ["off", "supervised", "collecting"])
def test_no_watcher_by_design_is_no_word(folder: Path, how: str) -> None:
    """Where there is to be none the report has null, and the terminal says nothing."""
    (folder / "test_it.py").write_text("def test_it(): pass\n", "utf-8")
    supervisor = [sys.executable, "-m", "pytest_failure_taxonomy", "run", "--"]
    args = {"off": UNWATCHED, "supervised": (), "collecting": ("--collect-only",)}[how]
    run = run_pytest(folder, *args, launcher=supervisor if how == "supervised" else ())
    assert run.status == 0
    assert "no watcher (" not in run.stdout
    assert run.report()["environment"]["watcher"] is None


def test_signals_of_size_are_pythons_to_ignore() -> None:
    """The limit on a file's size is an error to us, not a death: Python ignores SIGXFSZ."""
    assert signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN
