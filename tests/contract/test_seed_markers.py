"""The failure reasons of tasks: detection, migration from version 10 to 11, and display."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_failure_taxonomy.errors import HistoryError
from pytest_failure_taxonomy.history import open_history
from pytest_failure_taxonomy.history.tables import METADATA
from pytest_failure_taxonomy.history.tasks import (
    list_tasks,
    record_task,
    status_words,
    unmerged,
)
from tests.helpers.reports import make_failure, make_report_value, make_run

OPEN = """
import sys
from pytest_failure_taxonomy.history import open_history
open_history(sys.argv[1])
"""


def make_tasks(
    path: Path, statuses: list[str], *, version: int = 10, has_table: bool = True
) -> Path:
    """Make a database of a schema version, as the program that has such tasks keeps it."""
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE tasks (id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL,"
            " status TEXT NOT NULL, based_on INTEGER, created_at TEXT)"
        )
        connection.executemany(
            "INSERT INTO tasks (prompt, status) VALUES (?, ?)",
            [(f"task {number}", status) for number, status in enumerate(statuses, 1)],
        )
        if has_table:
            connection.execute("CREATE TABLE schema_version (version INTEGER)")
            connection.execute("INSERT INTO schema_version VALUES (?)", (version,))
        else:
            connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    return path


def reasons(path: Path) -> list[str | None]:
    """Return the reason of each task."""
    connection = sqlite3.connect(path)
    found = connection.execute(
        "SELECT failure_reason FROM tasks ORDER BY id"
    ).fetchall()
    connection.close()
    return [each for (each,) in found]


@pytest.mark.parametrize("has_table", [True, False])
def test_failed_tasks_become_unknown(tmp_path: Path, has_table: bool) -> None:
    """Of old failed tasks it is not known why they failed; the others have no reason."""
    path = make_tasks(
        tmp_path / "t.db", ["failed", "completed", "pending"], has_table=has_table
    )
    open_history(path).close()
    assert reasons(path) == ["UNKNOWN", None, None]
    connection = sqlite3.connect(path)
    version = (
        "SELECT version FROM schema_version" if has_table else "PRAGMA user_version"
    )
    assert connection.execute(version).fetchone() == (11,)
    connection.close()


@pytest.mark.parametrize("count", [0, 1, 100_000])
def test_any_number_of_tasks_is_migrated(tmp_path: Path, count: int) -> None:
    """No task, one, and very many."""
    path = make_tasks(
        tmp_path / "t.db",
        ["failed", "completed"] * (count // 2) + ["failed"] * (count % 2),
    )
    open_history(path).close()
    found = reasons(path)
    assert (len(found), found.count("UNKNOWN")) == (count, (count + 1) // 2)


def test_a_second_migration_changes_nothing(tmp_path: Path) -> None:
    """A reason that has been recorded since stays."""
    path = make_tasks(tmp_path / "t.db", ["failed"])
    with open_history(path) as history:
        record_task(history, "1", "failed", log="[GZA_FAILURE:MAX_TURNS]\n")
    open_history(path).close()
    assert reasons(path) == ["MAX_TURNS"]


@pytest.mark.slow
def test_two_processes_migrate_at_once(tmp_path: Path) -> None:
    """Both come to their end, and the column is there once."""
    path = make_tasks(tmp_path / "t.db", ["failed"] * 1000)
    running = [
        subprocess.Popen([sys.executable, "-c", OPEN, str(path)]) for _ in range(2)
    ]
    assert [each.wait(60) for each in running] == [0, 0]
    assert reasons(path) == ["UNKNOWN"] * 1000


@pytest.mark.linux("a SIGKILL")
def test_a_migration_that_is_killed_has_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it happens, or nothing."""

    def kill_this_process(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    path = make_tasks(tmp_path / "t.db", ["failed"])
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(METADATA, "create_all", kill_this_process)
        open_history(path)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    connection = sqlite3.connect(path)
    columns = [each[1] for each in connection.execute("PRAGMA table_info(tasks)")]
    assert connection.execute("SELECT version FROM schema_version").fetchone() == (10,)
    connection.close()
    assert "failure_reason" not in columns
    open_history(path).close()
    assert reasons(path) == ["UNKNOWN"]


@pytest.mark.parametrize(
    ("version", "words"), [(12, "newer than 11"), (9, "schema version 9")]
)
def test_other_versions_are_refused(tmp_path: Path, version: int, words: str) -> None:
    """In one line, and the database stays as it is."""
    path = make_tasks(tmp_path / "t.db", ["failed"], version=version)
    with pytest.raises(HistoryError, match=words) as caught:
        open_history(path)
    assert "\n" not in str(caught.value)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT version FROM schema_version").fetchone() == (
        version,
    )
    connection.close()


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("[GZA_FAILURE:MAX_TURNS]\n", "MAX_TURNS"),
        ("[GZA_FAILURE:TEST_FAILURE]", "TEST_FAILURE"),
        (
            "working\n[GZA_FAILURE:MAX_TURNS]\nmore\n[GZA_FAILURE:TEST_FAILURE]\n",
            "TEST_FAILURE",
        ),
        ("[GZA_FAILURE:MAX_TURNS]\n[GZA_FAILURE:NONSENSE]\n", "UNKNOWN"),
        ("it says [GZA_FAILURE:MAX_TURNS] in a line\n", "UNKNOWN"),
        ("[gza_failure:max_turns]\n", "UNKNOWN"),
        ("  [GZA_FAILURE:MAX_TURNS] \r\n", "MAX_TURNS"),
        ("no marker\n", "UNKNOWN"),
        ("", "UNKNOWN"),
        ("[GZA_FAILURE:NO_DISK]\n", "NO_DISK"),
    ],
)
def test_the_last_marker_of_a_log_is_the_reason(
    tmp_path: Path, log: str, reason: str
) -> None:
    """On its own line, and validated: built-in reasons, and those that the user has added."""
    path = make_tasks(tmp_path / "t.db", ["running"])
    with open_history(path) as history:
        assert record_task(history, "1", "failed", log=log, known=["NO_DISK"]) == reason
        assert [each.failure_reason for each in list_tasks(history)] == [reason]


def test_a_task_that_is_taken_up_again_has_no_reason(tmp_path: Path) -> None:
    """Only a failed task has one."""
    with open_history(tmp_path / "t.db") as history:
        record_task(history, "t1", "failed", log="[GZA_FAILURE:MAX_TURNS]\n")
        assert [each.words for each in list_tasks(history)] == ["✗ failed (MAX_TURNS)"]
        record_task(history, "t1", "running")
        (task,) = list_tasks(history)
    assert (task.words, task.failure_reason) == ("running", None)


def test_a_report_says_why_a_task_failed(tmp_path: Path) -> None:
    """Where there is no log, the verdict of its run does."""
    with open_history(tmp_path / "t.db") as history:
        report = make_report_value(make_run(failures=(make_failure(),)))
        assert record_task(history, "t1", "failed", report=report) == "TESTS_FAILED"
        assert record_task(history, "t2", "failed") == "UNKNOWN"


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        ("failed", "MAX_TURNS", "✗ failed (MAX_TURNS)"),
        ("failed", "TEST_FAILURE", "✗ failed (TEST_FAILURE)"),
        ("failed", "UNKNOWN", "✗ failed"),
        ("failed", None, "✗ failed"),
        ("completed", None, "✓ completed"),
        ("pending", None, "pending"),
    ],
)
def test_how_a_status_is_shown(status: str, reason: str | None, words: str) -> None:
    """A reason that says nothing isn't shown."""
    assert status_words(status, reason) == words


def test_what_no_success_has_followed(tmp_path: Path) -> None:
    """A failed task is done with once a task that takes it up again has succeeded."""
    with open_history(tmp_path / "t.db") as history:
        record_task(history, "a", "failed")
        record_task(history, "b", "failed")
        record_task(history, "a2", "failed", based_on="a")
        record_task(history, "a3", "completed", based_on="a2")
        assert [each.id for each in unmerged(history)] == ["b"]
