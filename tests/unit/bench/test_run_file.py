"""The file of a run as it is written: whole lines, by several processes, on any file system."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.kept import writer
from pytest_failure_taxonomy.bench.kept.lines import ScheduledCase
from pytest_failure_taxonomy.bench.kept.reader import KeptRun, LineReader, read_run
from pytest_failure_taxonomy.bench.kept.writer import RunFile
from pytest_failure_taxonomy.bench.scores import CaseOutcome
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.system.interpreter import isolate_module
from tests.helpers.bench import make_stub_plan
from tests.helpers.kept_runs import call_of, header_of, score_of


def new_file(folder: Path, worker: str = "") -> RunFile:
    """Return the file of a run of two cases, created unless it is there."""
    task_class = make_stub_plan(case_ids=["a", "b"]).task_class
    task_class = task_class.model_copy(update={"folder": folder / "bench"})
    cases = [ScheduledCase(case_id=name, digest=name) for name in "ab"]
    file = RunFile(folder / "run.jsonl", cases, lambda given: given, worker)
    file.create(header_of(task_class, root=folder))
    return file


def begun(run: KeptRun) -> dict[str, int]:
    """Return how many calls were begun of each case that was."""
    return {key: case.begun for key, case in run.known.items() if case.begun}


def test_the_first_process_creates_it(tmp_path: Path) -> None:
    """Another one adds its lines; nothing but the file is left."""
    first, second = new_file(tmp_path, "gw0"), new_file(tmp_path, "gw1")
    first.note_start("a", 1)
    second.note_start("b", 1)
    run = read_run(tmp_path / "run.jsonl")
    assert begun(run) == {"a": 1, "b": 1}
    assert list(run.cases) == ["a", "b"]
    assert os.listdir(tmp_path) == ["run.jsonl"]


FIRST: Final = "20260101T000000Z-aaaaaa"
SECOND: Final = "20260102T000000Z-bbbbbb"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Don't wait for a process that works on a run."""
    monkeypatch.setattr(writer, "_SECONDS_TO_END", 0.0)


HOLD: Final = (
    "import sys, time; from pathlib import Path\n"
    "from pytest_failure_taxonomy.bench.kept.writer import RunFile\n"
    "file = RunFile(Path(sys.argv[1]), (), lambda given: given, 'gw0')\n"
    "file.hold(sys.argv[2]); print(flush=True); time.sleep(60)\n"
)


@contextmanager
def holder(path: Path, session: str) -> Iterator[subprocess.Popen[str]]:
    """Have another process work on a run."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), session],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "\n"
            yield child
        finally:
            child.kill()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "locks",
    [
        pytest.param("locks", marks=pytest.mark.posix("`fcntl`")),
        pytest.param("no locks", marks=pytest.mark.posix("`fcntl`")),
        "no fcntl",
    ],
)
def test_the_processes_of_one_session_work_on_a_run(
    tmp_path: Path, locks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another session is told which process does, until that has ended, however it ends.

    Where nothing can be locked, the name of the process decides.
    """

    def refuse(*_: object) -> NoReturn:
        raise OSError(errno.ENOLCK, "no locks here")

    if locks == "no locks":
        monkeypatch.setattr("fcntl.lockf", refuse)
    if locks == "no fcntl":
        monkeypatch.setitem(sys.modules, "fcntl", None)
        monkeypatch.setattr(writer, "fcntl", None)
    file = new_file(tmp_path, "gw1")
    with holder(file.path, FIRST) as child:
        file.hold(FIRST)  # as another worker of the session does
        file.close()
        with pytest.raises(BenchError) as refused:
            new_file(tmp_path).hold(SECOND)
        assert str(refused.value) == (
            f"{file.path}: process {child.pid} has run it since 20260101T000000Z;"
            " wait until it has ended"
        )
        child.kill()
        child.wait()
        other = new_file(tmp_path)
        other.hold(SECOND)
    with pytest.raises(
        BenchError, match=f"process {os.getpid()} has run it since 20260102"
    ):
        new_file(tmp_path).hold(FIRST)
    other.close()
    new_file(tmp_path).hold(FIRST)
    assert len(os.listdir(tmp_path)) == 2, "a lock file that was left behind is removed"


@pytest.mark.usefixtures("impatient")
@pytest.mark.posix("Windows has no `fork`")
def test_a_process_that_is_left_behind_does_not_work_on_a_run(tmp_path: Path) -> None:
    """A child that outlives its pytest has nothing of its lock."""
    file = new_file(tmp_path)
    leave = HOLD.replace(
        "time.sleep(60)",
        "import os; child = os.fork()\n"
        "if child == 0: os.closerange(0, 3); time.sleep(60)\n"
        "print(child, flush=True); os._exit(0)",
    )
    ended = subprocess.run(
        [sys.executable, "-c", leave, str(file.path), FIRST],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
        check=True,
    )
    file.hold(SECOND)
    file.close()
    os.kill(int(ended.stdout), signal.SIGKILL)


@pytest.mark.usefixtures("impatient")
def test_a_lock_that_can_not_be_opened(tmp_path: Path) -> None:
    """Whether somebody works on the run isn't known, so it is not continued."""
    file = new_file(tmp_path)
    (tmp_path / f".run.jsonl.{FIRST}-.lock").mkdir()
    with pytest.raises(OSError, match=r"\.lock"):
        file.hold(SECOND)


def test_a_file_system_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is renamed into its place, once."""

    def refuse(*_: object) -> NoReturn:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(isolate_module(os), "link", refuse)
    new_file(tmp_path).note_start("a", 1)
    new_file(tmp_path).note_start("b", 1)
    assert begun(read_run(tmp_path / "run.jsonl")) == {"a": 1, "b": 1}
    assert os.listdir(tmp_path) == ["run.jsonl"]


def test_calls_cost_what_they_told_and_what_came_late(tmp_path: Path) -> None:
    """What is told before a call ends is in its cost; afterwards it is added."""
    file = new_file(tmp_path)
    file.note_start("a", 1)
    file.note_spent("a", 1, 0.25)
    assert read_run(file.path).known["a"].cost_usd == 0.25
    file.note_attempt("a", call_of(cost_usd=0.25, ended="given up"))
    assert read_run(file.path).known["a"].last is None
    file.note_spent("a", 1, 0.5)
    score = score_of(1.0, cost_usd=1.25)
    calls = (call_of(cost_usd=0.25), call_of(2, cost_usd=0.5))
    file.note_outcome(CaseOutcome(case_id="a", score=score, attempts=calls))
    run = read_run(file.path)
    assert run.known["a"].cost_usd == 1.75
    assert run.cost_without_score_usd() == 0.5


def test_a_lost_call_is_one_of_its_case(tmp_path: Path) -> None:
    """It has its number and what it told that it spent."""
    file = new_file(tmp_path)
    file.note_start("a", 1)
    file.note_spent("a", 1, 0.25)
    (call,) = read_run(file.path).known["a"].all_calls()
    assert (call.attempt, call.cost_usd, call.ended) == (1, 0.25, "it was lost")
    assert read_run(file.path).known["a"].last is None


@given(kept=st.integers(0, 200))
def test_any_cut_loses_one_line_at_most(
    tmp_path_factory: pytest.TempPathFactory, kept: int
) -> None:
    """A process that is killed may leave half a line, and another one may append to it."""
    folder = tmp_path_factory.mktemp("runs")
    file = new_file(folder)
    start = file.path.stat().st_size
    file.note_start("a", 1)
    size = file.path.stat().st_size
    cut = min(start + kept, size)
    os.truncate(file.path, cut)
    file.note_start("b", 1)
    run = read_run(file.path)
    expected = {"b": 1} if cut < size else {"a": 1, "b": 1}
    assert begun(run) == expected
    assert len(run.problems) == (start < cut < size)


def test_lines_that_are_added_while_it_is_read(tmp_path: Path) -> None:
    """A reader goes on where it stopped, and leaves a line alone that has no end yet."""
    file = new_file(tmp_path)
    reader = LineReader(file.path)
    assert [each["record"] for each in reader.records()] == ["run", "cases"]
    file.note_start("a", 1)
    with file.path.open("ab") as raw:
        raw.write(b'{"record":"started","case_id":"b"')
        raw.flush()
        assert [each["case_id"] for each in reader.records()] == ["a"]
        raw.write(b',"attempt":1}\n')
    assert [each["case_id"] for each in reader.records()] == ["b"]
    assert reader.problems == []
