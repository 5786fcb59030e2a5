"""The file of a run as it is written: whole lines, by several processes, on any file system."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.kept.file import (
    KeptRun,
    LineReader,
    RunFile,
    ScheduledCase,
    read_run,
)
from pytest_failure_taxonomy.bench.scores import CaseOutcome
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


def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert [each["record"] for each in reader.new()] == ["run", "cases"]
    file.note_start("a", 1)
    with file.path.open("ab") as raw:
        raw.write(b'{"record":"started","case_id":"b"')
        raw.flush()
        assert [each["case_id"] for each in reader.new()] == ["a"]
        raw.write(b',"attempt":1}\n')
    assert [each["case_id"] for each in reader.new()] == ["b"]
    assert reader.problems == []
