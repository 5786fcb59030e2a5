"""Hostile files: nothing in the place of ours is followed, waited for, believed or removed."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.isolate.processes import remove_folder
from pytest_failure_taxonomy.bench.load.folder import write_starter
from pytest_failure_taxonomy.bench.plugin.bench_session import write_json
from pytest_failure_taxonomy.errors import BenchError, ReportError
from pytest_failure_taxonomy.hooks.report_file import ReportFile
from pytest_failure_taxonomy.hooks.settings import Settings
from pytest_failure_taxonomy.report.load import as_json, decode_report
from pytest_failure_taxonomy.report.write import write_report
from pytest_failure_taxonomy.survive.complete import (
    complete_run,
    is_still_running,
    read_report,
)
from pytest_failure_taxonomy.survive.facts import ProcessEnd
from pytest_failure_taxonomy.survive.folder import (
    record_folder,
    worker_folder,
    worker_of,
)
from pytest_failure_taxonomy.survive.layout import (
    EVENTS,
    HEAD,
    RESERVE,
    RESERVE_BYTES,
    STACKS,
    STATE,
)
from pytest_failure_taxonomy.survive.lock import ReportLock
from pytest_failure_taxonomy.survive.mailbox import read_message
from pytest_failure_taxonomy.survive.writer import DiskRecord
from pytest_failure_taxonomy.system.files import make_folder, open_folder, read_file
from pytest_failure_taxonomy.taxonomy.evidence import ProcessExit
from pytest_failure_taxonomy.taxonomy.judgement import Stage
from tests.helpers.children import REPORT, ChildRun, run_child, run_pytest
from tests.helpers.reports import assert_valid_report, make_report_value

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="needs links, pipes and descriptors of folders"
)

CLI: Final = (sys.executable, "-m", "pytest_failure_taxonomy")
UNWATCHED: Final = ("-o", "failure_taxonomy_watcher=false")
WAIT_SECONDS: Final = 60.0
"""For what hangs without its defence; with it, each takes a second at most."""
NOBODY: Final = 65534
VANISHED: Final = ProcessEnd(exit=ProcessExit(code=None, source="finalize"))

is_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs files of two users"
)


@pytest.fixture(scope="module")
def dead_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which a run has died and left its record, to be copied by each test."""
    folder = tmp_path_factory.mktemp("dead")
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(
        "import os\n"
        "def test_passes(): pass\n"
        "def test_fails(): assert 0\n"
        "def test_dies(): os._exit(3)\n"
        "def test_never(): pass\n"
    )
    run_pytest(folder, *UNWATCHED)
    return folder


class Dead:
    """A dead run's report and record in a folder of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.report = folder / REPORT
        self.run_id: str = json.loads(self.report.read_bytes())["run"]["id"]
        self.record = record_folder(self.report, self.run_id)

    def finalize(self) -> ChildRun:
        """Run `finalize` on the report; it must come to an end."""
        return run_child(self.folder, [*CLI, "finalize", REPORT])

    def read(self) -> dict[str, Any]:
        """Return the report, which must be valid."""
        report: dict[str, Any] = json.loads(self.report.read_bytes())
        assert_valid_report(report)
        return report

    def change_header(self, **changes: Any) -> None:
        """Change fields of the record's beginning."""
        first, rest = (self.record / EVENTS).read_bytes().split(b"\n", 1)
        _, fields = json.loads(first)
        line = json.dumps(["run", {**fields, **changes}]).encode()
        (self.record / EVENTS).write_bytes(line + b"\n" + rest)


@pytest.fixture
def dead(dead_run: Path, tmp_path: Path) -> Dead:
    """Return a copy of the dead run."""
    return Dead(shutil.copytree(dead_run, tmp_path / "project"))


@pytest.fixture
def loot(tmp_path: Path) -> Path:
    """Return a folder of the user's that has nothing to do with us, but names like ours in it."""
    folder = tmp_path / "loot"
    for name in (".git/config", "thesis.txt", STATE, EVENTS, RESERVE, "gw0/state"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def contents(folder: Path) -> dict[str, str]:
    """Return what is in a folder."""
    files = (path for path in folder.rglob("*") if not path.is_dir())
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """Wait until something holds, and return it."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} never came"
        time.sleep(0.01)
    return found


def told(run: ChildRun) -> list[str]:
    """Return the lines in which a command speaks of our own files; there is no traceback."""
    assert "Traceback" not in run.stderr, run.stderr
    return [
        line
        for line in run.stderr.splitlines()
        if line.startswith("failure-taxonomy: ")
    ]


# Removal goes through no link, and takes nothing that is not ours.


@pytest.mark.parametrize("is_full", [False, True], ids=["running", "full"])
def test_a_link_in_the_records_place(dead: Dead, loot: Path, is_full: bool) -> None:
    """`finalize` leaves alone what a link in the place of the record points to, and says so."""
    before = contents(loot)
    if is_full:
        dead.finalize()
        report = {**dead.read(), "completeness": "full"}
        dead.report.write_text(json.dumps(report))
    else:
        dead.record.rename(dead.folder / "elsewhere")
    dead.record.symlink_to(Path("..") / "loot")
    run = dead.finalize()
    (line,) = told(run)
    assert "is a symbolic link" in line
    assert run.status == (1 if is_full else 2)
    assert contents(loot) == before
    assert dead.record.is_symlink()


def test_a_link_to_a_record_of_the_same_run(dead: Dead, loot: Path) -> None:
    """Even the run's own record is neither read nor removed through a link."""
    moved = dead.record.rename(loot / "record")
    dead.record.symlink_to(moved)
    names = {path.name for path in moved.iterdir()}
    assert {EVENTS, RESERVE, STACKS, STATE} <= names
    assert dead.finalize().status == 2
    assert {path.name for path in moved.iterdir()} == names


def test_foreign_files_in_a_record_stay(dead: Dead, loot: Path) -> None:
    """Of a real record only our names are removed; what else is in it stays, and one line and the
    report say so.
    """
    for name in (
        "notes.txt",
        "mine/deep/file",
        "gw0/mine",
        "gw0/state",
        "gw1/state",
        "gwx/state",
    ):
        (dead.record / name).parent.mkdir(parents=True, exist_ok=True)
        (dead.record / name).write_text(name)
    (dead.record / "link").symlink_to(loot)
    (dead.record / "gw2").symlink_to(loot)
    before = contents(loot)
    run = dead.finalize()
    (line,) = told(run)
    stays = f"{dead.record} stays: it holds files that belong to no record (gw0/mine, gw2, gwx and 3 more)"
    assert line == f"failure-taxonomy: {stays}"
    assert stays in dead.read()["faults"]
    left = {str(path.relative_to(dead.record)) for path in dead.record.rglob("*")}
    assert left == {
        *("notes.txt", "mine", "mine/deep", "mine/deep/file", "gw0", "gw0/mine"),
        *("gwx", "gwx/state", "link", "gw2"),
    }
    assert contents(loot) == before


def test_foreign_files_at_the_normal_end(tmp_path: Path) -> None:
    """What a test has put into the record's folder stays, and the last line says so."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(
        "import pathlib\n"
        "def test_it():\n"
        "    (record,) = pathlib.Path().glob('.failure-report.json.*[0-9a-f]/')\n"
        "    (record / 'mine').write_text('mine')\n"
    )
    run = run_pytest(tmp_path)
    (record,) = tmp_path.glob(".failure*")
    assert run.status == 0
    line = f"failure taxonomy: {record} stays: it holds files that belong to no record (mine)"
    assert run.stdout.splitlines()[-1] == line
    assert contents(record) == {"mine": "mine"}


@pytest.mark.parametrize("args", [(), ("-n", "2")], ids=["serial", "workers"])
def test_a_link_put_there_during_the_run(
    tmp_path: Path, loot: Path, args: Sequence[str]
) -> None:
    """At the normal end nothing is removed through a link that has taken the record's place."""
    before = contents(loot)
    project = tmp_path / "project"
    project.mkdir()
    (project / "pytest.ini").write_text("[pytest]\n")
    (project / "test_it.py").write_text(
        "import pathlib\n"
        "def test_it():\n"
        "    for record in pathlib.Path().glob('.failure-report.json.*[0-9a-f]/'):\n"
        "        name = record.absolute()\n"
        "        record.rename('elsewhere')\n"
        "        name.symlink_to('../loot')\n"
    )
    run = run_pytest(project, *args, plugins=("xdist",) if args else ())
    assert run.status == 0, run.stdout
    assert run.report()["verdict"] is None
    assert "stays: it is a symbolic link" in run.stdout
    assert contents(loot) == before


@pytest.fixture
def shared() -> Iterator[Path]:
    """Return a folder that all users can write. pytest shuts them out of its own at each start."""
    with tempfile.TemporaryDirectory(prefix="shared-") as folder:
        Path(folder).chmod(0o1777)
        yield Path(folder)


@is_root
def test_a_link_put_there_by_another_user(shared: Path, loot: Path) -> None:
    """In a folder that others can write, root's pytest empties no folder of its own."""
    shared.chmod(0o777)
    before = contents(loot)
    (shared / "test_it.py").write_text(
        "import os, pathlib\n"
        "def test_it():\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        f"        os.setuid({NOBODY})\n"
        "        (record,) = pathlib.Path().glob('.failure-report.json.*[0-9a-f]/')\n"
        "        name = record.absolute()\n"
        "        assert not os.access(name, os.R_OK) and name.stat().st_mode & 0o777 == 0o700\n"
        "        record.rename('elsewhere')\n"
        f"        name.symlink_to({str(loot)!r})\n"
        "        os._exit(0)\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
    )
    (shared / "pytest.ini").write_text("[pytest]\n")
    run = run_pytest(shared)
    assert run.status == 0, run.stdout
    assert "stays: it is a symbolic link" in run.stdout
    assert contents(loot) == before


@is_root
def test_a_record_of_another_user(dead: Dead) -> None:
    """Root completes a record that another user has left, as far as its files are that user's."""
    for path in (dead.record, *dead.record.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    (dead.record / STACKS).unlink()
    (dead.record / STACKS).write_text("root's own words")
    assert dead.finalize().status == 1
    assert "root's own words" not in dead.report.read_text()
    assert dead.read()["completeness"] == "reconstructed"
    assert not dead.record.exists()


@is_root
def test_a_folder_of_another_user_is_not_taken_for_a_record(tmp_path: Path) -> None:
    """A record is not kept in a folder that another user has made before."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    with pytest.raises(PermissionError, match="belongs to another user"):
        DiskRecord(theirs)
    assert list(theirs.iterdir()) == []


def test_a_record_is_its_users_alone(tmp_path: Path) -> None:
    """Nobody else can enter the folder; its files are nobody else's to read, whatever the umask."""
    before = os.umask(0)
    try:
        record = DiskRecord(tmp_path / "record")
        worker = DiskRecord(tmp_path / "record" / "gw0")
        os.close(record.open_file("stacks", os.O_WRONLY))
    finally:
        os.umask(before)
    for folder in (record.folder, worker.folder):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in (
        *record.folder.glob("s*"),
        record.folder / EVENTS,
        worker.folder / STATE,
    ):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    worker.remove()
    assert record.remove() is None


@pytest.mark.parametrize(
    "worker", ["gw0", "gw12", "my id", "ü", "../../etc", "a/b", "gw-00"]
)
def test_the_folder_of_any_worker(worker: str) -> None:
    """The id that a user has chosen for a worker makes a plain name, which gives it back."""
    name = worker_folder(worker)
    assert re.fullmatch("[a-z0-9-]+", name)
    assert worker_of(name) == worker


@pytest.mark.parametrize(
    "name", ["gw", "gwx", "gw-", "gw-0", "gw0/..", "..", "mine", "gw-zz"]
)
def test_what_is_no_folder_of_a_worker(name: str) -> None:
    """No other name is taken for a worker's."""
    assert worker_of(name) is None


# What is read after a death is a file, and not for ever.


@pytest.mark.parametrize("name", [EVENTS, STATE, STACKS])
@pytest.mark.parametrize("sort", ["pipe", "device", "link", "folder"])
def test_no_file_in_a_records_files_place(
    dead: Dead, loot: Path, name: str, sort: str
) -> None:
    """`finalize` waits for no pipe and reads no device, link or folder; one line or the report."""
    path = dead.record / name
    path.unlink()
    make_special(path, sort, loot)
    run = dead.finalize()
    if name == STACKS:
        assert (run.status, dead.read()["completeness"]) == (1, "reconstructed")
        assert dead.read()["summary"]["passed"] == 1
    else:
        (line,) = told(run)
        assert f"{name}: the record can't be read: " in line
        assert run.status == 2


def make_special(path: Path, sort: str, target: Path) -> None:
    """Put something into a place that is no regular file."""
    if sort == "pipe":
        os.mkfifo(path)
    elif sort == "device":
        path.symlink_to("/dev/zero")
        if os.geteuid() == 0:
            path.unlink()
            try:
                os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))
            except OSError:  # a container may not
                path.symlink_to("/dev/zero")
    elif sort == "link":
        path.symlink_to(target / "thesis.txt")
    else:
        path.mkdir()


@pytest.mark.parametrize("sort", ["pipe", "device", "link", "folder"])
def test_no_file_in_the_reports_place(dead: Dead, loot: Path, sort: str) -> None:
    """`finalize` refuses in one line what is no file; nothing is removed."""
    dead.report.unlink()
    make_special(dead.report, sort, loot)
    run = dead.finalize()
    assert (run.status, len(told(run))) == (2, 1)
    assert dead.record.is_dir()


def test_a_link_to_the_report(dead: Dead) -> None:
    """A report is completed under its own name alone."""
    (dead.folder / "link.json").symlink_to(REPORT)
    run = run_child(dead.folder, [*CLI, "finalize", "link.json"])
    assert run.status == 2
    assert "give the name of the report itself" in told(run)[0]


@pytest.mark.parametrize(
    "events_file", ["pipe", "/dev/zero", "/sys/fs/cgroup/../../proc/kmsg"]
)
def test_a_foreign_file_for_the_count_of_kills(dead: Dead, events_file: str) -> None:
    """What a record says of the kernel's counts is opened only below the cgroups' root."""
    os.mkfifo(dead.folder / "pipe")
    path = str(dead.folder / "pipe") if events_file == "pipe" else events_file
    dead.change_header(memory={"events_file": path, "oom_kills": 0})
    assert dead.finalize().status == 1
    assert dead.read()["completeness"] == "reconstructed"


BODIES: Final = {
    "pipe": "os.mkfifo(REPORT)",
    "device": "os.symlink('/dev/zero', REPORT)",
    "folder": "os.mkdir(REPORT)",
    "empty": "open(REPORT, 'w')",
    "list": "write([])",
    "object": "write({})",
    "run-1": "write({'run': 1, 'completeness': 'x'})",
    "run-empty": "write({'run': {}, 'completeness': 'full'})",
    "no-verdict": "write({'run': {'id': ID}, 'completeness': 'full'})",
    "deep": "open(REPORT, 'w').write('[' * 100_000 + ']' * 100_000)",
    "full": "write({**TOLD, 'completeness': 'full', 'verdict': None})",
    "reconstructed": "write({**TOLD, 'completeness': 'reconstructed', 'verdict': None})",
    "another-run": "TOLD['run']['id'] = 'f' * 32; write({**TOLD, 'completeness': 'full'})",
    "another-later-run": "TOLD['run'].update(id='f' * 32, started_at='2999-01-01T00:00:00.000Z');"
    " write({**TOLD, 'completeness': 'full', 'verdict': None})",
}
"""What a test does to the report before it dies."""

REPLACES: Final = (
    "import json, os\n"
    "REPORT = 'failure-report.json'\n"
    "def write(content): open(REPORT, 'w').write(json.dumps(content))\n"
    "def test_first(): pass\n"
    "def test_replaces():\n"
    "    TOLD = json.load(open(REPORT)); ID = TOLD['run']['id']\n"
    "    os.unlink(REPORT)\n"
    "    {body}\n"
    "    os._exit(3)\n"
)


@pytest.mark.parametrize(
    ("second", "body"),
    [
        *(("watcher", body) for body in BODIES),
        *(("run", body) for body in ("pipe", "run-1", "full", "another-later-run")),
    ],
)
def test_what_a_test_leaves_in_the_reports_place(
    tmp_path: Path, second: str, body: str
) -> None:
    """A second process takes nothing that a test has left for the run's report: it writes that, and
    then alone removes the record. A folder in its place keeps the record where it is.
    """
    if second == "watcher" and (not hasattr(os, "pidfd_open") or os.getpid() == 1):
        pytest.skip("needs the watcher, which is Linux's")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(REPLACES.format(body=BODIES[body]))
    prefix = [*CLI, "run", "--"] if second == "run" else []
    run = run_pytest(tmp_path, launcher=prefix)
    assert run.status == 3
    if body == "folder":
        (record,) = wait_for(
            lambda: [*tmp_path.glob(".failure*[0-9a-f]")], "the record"
        )
        assert (record / EVENTS).exists()
        assert (tmp_path / REPORT).is_dir()
        return
    report = wait_for(lambda: complete_report_in(tmp_path), "the report")
    assert_valid_report(report)
    assert report["exit"]["code"] == 3
    assert report["summary"]["passed"] == 1
    assert [test["nodeid"] for test in report["in_flight"]] == [
        "test_it.py::test_replaces"
    ]
    wait_for(lambda: [*tmp_path.glob(".failure*")] == [], "the removal of the record")


def complete_report_in(folder: Path) -> dict[str, Any] | None:
    """Return the report that a second process has written, once it is there."""
    report = read_report(folder / REPORT)
    is_complete = report is not None and report.exit.observed
    return as_json(report) if report is not None and is_complete else None


@pytest.mark.breaks_reports
@pytest.mark.parametrize("version", ["1.3", "9.0"])
def test_a_later_runs_report_is_left_alone(dead: Dead, version: str) -> None:
    """Its run has written it after the end of the first one's process, in any version."""
    ended_ns = time.monotonic_ns()
    time.sleep(0.05)
    later = dead.read()
    later["run"]["id"] = "f" * 32
    later["schema_version"] = version
    dead.report.write_text(json.dumps(later))
    os.replace(dead.report, dead.folder / "moved")
    os.replace(dead.folder / "moved", dead.report)
    end = ProcessEnd(
        exit=ProcessExit(code=3, source="watcher", observed=True), ended_ns=ended_ns
    )
    assert complete_run(dead.report, dead.run_id, end) is None
    assert json.loads(dead.report.read_bytes()) == later
    assert dead.record.is_dir()


def test_a_note_of_another_hand(tmp_path: Path) -> None:
    """`run` takes no note that its pytest would not write."""
    note = tmp_path / "note"
    for content in (
        b"",
        b"[]",
        b"\xff",
        b"[" * 50_000,
        b'{"run_id": 5}',
        b'{"run_id": "../x"}',
    ):
        note.write_bytes(content)
        assert read_message(note) == {}
    note.write_text(json.dumps({"run_id": "f" * 32, "report": "relative.json"}))
    assert read_message(note) == {}
    said = {"run_id": "f" * 32, "report": str(tmp_path / REPORT)}
    note.write_text(json.dumps(said))
    assert read_message(note) == said
    note.unlink()
    os.mkfifo(note)
    assert read_message(note) == {}


def test_nobody_can_put_anything_in_the_place_of_the_note(tmp_path: Path) -> None:
    """The note of `run` is no file in a folder on Linux, so that a test can't replace it."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(
        "import os, pytest\n"
        "def test_it():\n"
        "    note = os.environ['FAILURE_TAXONOMY_SUPERVISOR'].partition(':')[2]\n"
        "    with pytest.raises(OSError):\n"
        "        os.unlink(note)\n"
    )
    assert run_pytest(tmp_path, launcher=[*CLI, "run", "--"]).status == 0


# A malformed record is an error in one line.


MALFORMED: Final[dict[str, dict[str, Any]]] = {
    "no process": {"process": None},
    "text for a time": {"started_ns": "x"},
    "huge time": {"started_ns": 10**30},
    "time below zero": {"started_ns": -1},
    "huge process": {"process": {"pid": 2**40, "start_ticks": None, "boot_id": None}},
    "no stage": {"stage": "lunch"},
    "NaN": {"faulthandler_exit_seconds": float("nan")},
    "no list": {"enclosing_limits": {"pid": 1}},
    "no rules": {"rules": [{"name": "x"}]},
    "no patterns": {"redact": [5]},
    "no context": {"context": []},
    "no memory": {"memory": "lots"},
}


@pytest.mark.parametrize("changes", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_beginning(dead: Dead, changes: dict[str, Any]) -> None:
    """Whatever is wrong with a record's beginning is said in one line; the record stays."""
    dead.change_header(**changes)
    for read in (
        lambda: is_still_running(dead.report, decode_report(dead.read())),
        lambda: complete_run(dead.report, dead.run_id, VANISHED),
    ):
        with pytest.raises(ReportError) as refusal:
            read()
        assert "\n" not in str(refusal.value)
    assert dead.record.is_dir()
    assert dead.read()["completeness"] == "running"


def test_an_event_of_another_hand_is_left_out(dead: Dead) -> None:
    """A `NaN` where a text should be costs its own event, and that is said; the rest is read."""
    with (dead.record / EVENTS).open("a") as file:
        file.write(
            '["end", {"should_fail": NaN}]\n["failure", {"failure": {"nodeid": 5}}]\n'
        )
    report = complete_run(dead.report, dead.run_id, VANISHED)
    assert report is not None
    faults = report.faults
    assert "2 of the record's events can't be understood" in faults
    assert [failure.nodeid for failure in report.failures] == ["test_it.py::test_fails"]


LEAVES: Final = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        10**20,
        2**63,
        1.5,
        float("nan"),
        float("inf"),
        "",
        "x",
        "\ud800",
        "a\nb",
    ]
)
JSON: Final = (
    LEAVES | st.lists(LEAVES, max_size=2) | st.dictionaries(st.text(max_size=3), LEAVES)
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values within a JSON value."""
    yield path
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in inner:
            yield from places(each, (*path, key))


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Return a JSON value with another one in some place of it."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = put(value[path[0]], path[1:], new)
    return copy


@settings(deadline=None, max_examples=300, suppress_health_check=list(HealthCheck))
@given(choices=st.data())
def test_any_change_of_a_record(
    dead_run: Path, tmp_path_factory: pytest.TempPathFactory, choices: st.DataObject
) -> None:
    """Whatever one changes in a record, it gives a valid report or an error of one line."""
    source = Dead(dead_run)
    lines = (source.record / EVENTS).read_bytes().splitlines()
    for _ in range(choices.draw(st.integers(0, 3))):
        at = choices.draw(st.integers(0, len(lines) - 1))
        event = json.loads(lines[at])
        where = choices.draw(st.sampled_from(list(places(event))))
        lines[at] = json.dumps(put(event, where, choices.draw(JSON))).encode()
    state = bytearray((source.record / STATE).read_bytes())
    for _ in range(choices.draw(st.integers(0, 3))):
        at = choices.draw(st.integers(0, 260) | st.integers(0, len(state) - 1))
        noise = choices.draw(st.binary(max_size=12))
        state[at : at + len(noise)] = noise
    folder = tmp_path_factory.mktemp("changed")
    record = record_folder(folder / REPORT, source.run_id)
    record.mkdir()
    (record / STATE).write_bytes(state)
    (record / EVENTS).write_bytes(b"\n".join(lines) + b"\n")
    ended_ns = choices.draw(st.none() | st.integers(0, 2**62))
    end = ProcessEnd(exit=ProcessExit(code=3, source="finalize"), ended_ns=ended_ns)
    refusal = ""
    report = None
    try:
        with chdir(
            folder
        ):  # the changed record may name any file to write beside the report
            report = complete_run(folder / REPORT, source.run_id, end)
    except ReportError as error:
        refusal = str(error)
    assert "\n" not in refusal
    if report is None or record.exists():
        # It stays where no report could be made of it, or none that is complete.
        assert record.exists()
        assert report is None or "the record lacks" in json.dumps(report.faults)
    if report is not None:
        written = json.loads((folder / REPORT).read_bytes())
        assert as_json(report) == written
        assert_valid_report(written)
    shutil.rmtree(folder)


HUGE: Final = (
    "import resource, sys, json\n"
    "resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))\n"
    "from pathlib import Path\n"
    "from pytest_failure_taxonomy.survive.complete import *\n"
    "from pytest_failure_taxonomy.taxonomy.evidence import ProcessExit\n"
    "end = ProcessEnd(exit=ProcessExit(code=None, source='finalize'))\n"
    "try: print(complete_run(Path(sys.argv[1]), sys.argv[2], end).completeness)\n"
    "except ReportError as error: print('refused')\n"
)


@pytest.mark.parametrize(
    "what", ["tests", "state", "report", "lines", "count", "stacks"]
)
def test_numbers_that_promise_much_take_no_memory(dead: Dead, what: str) -> None:
    """Neither counts in a record nor holes in files make a reader ask for their size."""
    if what == "tests":
        with (dead.record / STATE).open("r+b") as file:
            magic, finished, code, _, written = HEAD.unpack(file.read(HEAD.size))
            file.seek(0)
            file.write(HEAD.pack(magic, finished, code, 2**32 - 1, written))
    elif what in ("state", "stacks", "report"):
        place = {"state": dead.record / STATE, "stacks": dead.record / STACKS}
        os.truncate(place.get(what, dead.report), 1 << 40)
    elif what == "lines":
        with (dead.record / EVENTS).open("ab") as file:
            file.write(b'["x",{}]\n' * 3_000_000)
    else:
        report = dead.read()
        report["completeness"] = "full"
        report["exit"]["code"] = 0
        report["reasons"][0]["count"] = 10**12
        dead.report.write_text(json.dumps(report))
    done = subprocess.run(
        [sys.executable, "-c", HUGE, str(dead.report), dead.run_id],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "reconstructed\n"), done.stderr


# Locks, temporary files and the rest.


def test_a_refused_path_leaves_no_lock(tmp_path: Path) -> None:
    """A run that is refused for its report's path leaves nothing behind."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")
    (tmp_path / "conftest.py").write_text(
        "from pytest_failure_taxonomy.report import write\n"
        "def refuse(*args): raise OSError(28, 'No space left on device')\n"
        "write.write_report = refuse\n"
    )
    before = sorted(path.name for path in tmp_path.iterdir())
    (tmp_path / "sitecustomize.py").write_text((tmp_path / "conftest.py").read_text())
    (tmp_path / "conftest.py").unlink()
    run = run_pytest(
        tmp_path, "--failure-taxonomy-report=r.json", env={"PYTHONPATH": str(tmp_path)}
    )
    assert run.status == 4, run.stdout + run.stderr
    assert "r.json can't be written: No space left on device" in run.stderr
    left = (
        {path.name for path in tmp_path.iterdir()} - set(before) - {"sitecustomize.py"}
    )
    assert left == set()


@is_root
def test_a_lock_of_another_user(shared: Path) -> None:
    """Where another user's lock is on the report, it goes beside it, and its line says why."""
    report = shared / REPORT
    lock = ReportLock(report).path
    lock.write_text("")
    settings = Settings(
        report=report,
        report_was_named=True,
        stage=Stage.FINAL_TEST,
        strict_baseline=False,
        watcher=False,
        markers={},
    )
    child = os.fork()
    if child == 0:  # the interpreter itself may be in a folder that only root can enter
        status = 1
        try:
            os.setuid(NOBODY)
            publication = ReportFile(settings, "f" * 32)
            publication.open(make_report_value(completeness="running"), {})
            shown = publication.path_from(shared), publication.moved
            name = f"failure-report.{'f' * 32}.json"
            if shown == (name, f"{lock.name} belongs to another user"):
                status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert lock.exists()
    assert not report.exists()


@pytest.mark.parametrize("sort", ["pipe", "device", "link", "folder"])
def test_no_file_in_the_locks_place(tmp_path: Path, loot: Path, sort: str) -> None:
    """A lock is taken on a regular file alone, and nothing else is opened or removed for it."""
    lock = ReportLock(tmp_path / REPORT).path
    make_special(lock, sort, loot)
    with pytest.raises(OSError, match=r"regular file|symbolic links|Is a directory"):
        ReportLock(tmp_path / REPORT).acquire()
    assert os.path.lexists(lock)
    assert contents(loot)["thesis.txt"] == "thesis.txt"


def test_a_completed_report_leaves_another_runs_lock(dead: Dead) -> None:
    """Who completes a report removes the lock's file of the dead, and not that of a run that
    has taken it since.
    """
    lock = ReportLock(dead.report).path
    assert lock.exists()
    hold = (
        "import sys, pathlib; from pytest_failure_taxonomy.survive.lock import ReportLock\n"
        "ReportLock(pathlib.Path(sys.argv[1])).acquire(); print('held', flush=True); input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(dead.report)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        complete_run(dead.report, dead.run_id, VANISHED)
        assert lock.exists()
        holder.kill()
    complete_run(dead.report, dead.run_id, VANISHED)
    assert not lock.exists()


def test_a_report_is_written_beside_nothing_of_others(
    tmp_path: Path, loot: Path
) -> None:
    """A report's temporary file has a name that nobody can foresee, and goes through no link."""
    report = tmp_path / REPORT
    old = tmp_path / f".{REPORT}.{os.getpid()}.tmp"
    old.symlink_to(loot / "thesis.txt")
    report.symlink_to(loot / "thesis.txt")
    write_report(report, make_report_value())
    assert not report.is_symlink()
    assert old.is_symlink()
    assert contents(loot)["thesis.txt"] == "thesis.txt"


@pytest.mark.parametrize("how", ["link", "linked twice", "swapped"])
def test_a_reserve_of_another_hand_is_not_written_into(
    tmp_path: Path, loot: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """On a full disk the report goes into the room that we kept, and into no other file."""
    from pytest_failure_taxonomy.system import files

    record = tmp_path / "record"
    theirs = loot / "thesis.txt"
    theirs.write_text("x" * 10_000)
    (loot / RESERVE).write_text("x" * 10_000)
    if how == "swapped":
        record.symlink_to(loot)
    else:
        record.mkdir()
        if how == "link":
            (record / RESERVE).symlink_to(theirs)
        else:
            (record / RESERVE).hardlink_to(theirs)

    def refuse(*args: object, **given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write_new", refuse)
    before = contents(loot)
    with pytest.raises(OSError, match="No space left"):
        write_report(tmp_path / REPORT, make_report_value(), record / RESERVE)
    assert contents(loot) == before


def test_the_folder_of_another_is_not_entered(tmp_path: Path, loot: Path) -> None:
    """An opened folder stays what it was, whatever takes its place while it is used."""
    folder = make_folder(tmp_path / "ours")
    (tmp_path / "ours" / STATE).write_text("ours")
    (tmp_path / "ours").rename(tmp_path / "moved")
    (tmp_path / "ours").symlink_to(loot)
    with folder:
        assert folder.read(STATE, 100) == b"ours"
        folder.unlink(STATE)
        with pytest.raises(OSError, match="is not the one"):
            folder.rmdir()
    assert (loot / STATE).exists()
    assert list((tmp_path / "moved").iterdir()) == []
    with pytest.raises(OSError, match="is a symbolic link"):
        open_folder(tmp_path / "ours")
    with pytest.raises(OSError, match="is not the one"):
        open_folder(tmp_path / "moved", (0, 0))


def test_without_descriptors_of_folders(
    tmp_path: Path, loot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system that has none works by paths, and looks at each before it uses it."""
    from pytest_failure_taxonomy.system import files

    monkeypatch.setattr(files, "_HAS_DESCRIPTORS", False)
    record = DiskRecord(tmp_path / "record")
    os.close(record.open_file(RESERVE, os.O_WRONLY, RESERVE_BYTES))
    write_report(tmp_path / REPORT, make_report_value(), record.folder / RESERVE)
    (record.folder / "mine").write_text("mine")
    stays = record.remove()
    assert stays is not None
    assert "(mine)" in stays
    assert contents(record.folder) == {"mine": "mine"}
    with open_folder(record.folder) as folder:
        record.folder.rename(tmp_path / "moved")
        record.folder.symlink_to(loot)
        for use in (folder.names, folder.rmdir, lambda: folder.unlink(STATE)):
            with pytest.raises(OSError, match="is not the one"):
                use()
    with pytest.raises(OSError, match="is a symbolic link"):
        open_folder(record.folder)
    assert (loot / STATE).exists()


def test_what_is_read_has_an_end(tmp_path: Path) -> None:
    """A file is read up to the cap."""
    (tmp_path / "file").write_bytes(b"x" * 3_000_000)
    for most in (0, 1, 1 << 20, 2_999_999, 3_000_000, 4_000_000):
        assert len(read_file(tmp_path / "file", most)) == min(most, 3_000_000)


def test_a_rubric_folder_that_became_a_link(tmp_path: Path, loot: Path) -> None:
    """What is left of a rubric is removed with all that it holds, whatever its modes are, but no
    link in its place or in it is followed, not even to change a mode.
    """
    (loot / ".git").chmod(0o750)
    before = contents(loot)
    folder = tmp_path / "rubric"
    (folder / "closed" / "inner").mkdir(parents=True)
    (folder / "closed" / "link").symlink_to(loot)
    (folder / "closed").chmod(0)
    remove_folder(str(folder))
    assert not folder.exists()
    folder.symlink_to(loot)
    remove_folder(str(folder))
    assert contents(loot) == before
    assert stat.S_IMODE((loot / ".git").stat().st_mode) == 0o750


def test_the_benchs_file_goes_through_no_link(tmp_path: Path, loot: Path) -> None:
    """The JSON of a bench replaces its own name alone."""
    before = contents(loot)
    target = tmp_path / "bench.json"
    target.symlink_to(loot / "thesis.txt")
    (tmp_path / f".bench.json.{os.getpid()}").symlink_to(loot / "thesis.txt")
    assert write_json(target, []) == ""
    assert target.read_text() == "[]\n"
    assert contents(loot) == before


def test_a_starter_that_fails_removes_its_own_files_alone(
    tmp_path: Path, loot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes into a new task class while it is written stays."""
    from pytest_failure_taxonomy.bench.load import folder as start

    folder = tmp_path / "cls"

    def files() -> Iterator[tuple[str, str]]:
        yield "a/one.yaml", "one"
        (folder / "a" / "theirs").write_text("theirs")
        (folder / "two.yaml").symlink_to(loot / "thesis.txt")
        yield "two.yaml", "two"

    monkeypatch.setattr(start, "starter_files", files)
    with pytest.raises(BenchError, match="can't be written"):
        write_starter(folder)
    assert contents(loot)["thesis.txt"] == "thesis.txt"
    assert sorted(contents(folder)) == ["a/theirs", "two.yaml"]
