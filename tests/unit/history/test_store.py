"""Taking runs into the history."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine, func, select

from pytest_failure_taxonomy.errors import HistoryError
from pytest_failure_taxonomy.history import History, database, open_history
from pytest_failure_taxonomy.history import tables as t
from pytest_failure_taxonomy.history.database import (
    REVISION,
    bring_tasks_up_to_date,
    find_url,
    upgrade,
)
from pytest_failure_taxonomy.history.questions import find_top, list_runs, prune
from pytest_failure_taxonomy.history.recording import SECONDS_VARIABLE, ask_history
from pytest_failure_taxonomy.option_files import FOLDER, NAME
from pytest_failure_taxonomy.report.load import decode_report
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.past_runs import TEST, a_mixed_report, a_report, report_as_json
from tests.helpers.postgresql import started_cluster

HISTORIES = Path(__file__).parents[2] / "data" / "histories"
"""What the first migration of each version made, when it was the newest."""
ADD = """
import json, sys
from pytest_failure_taxonomy.history import open_history
from pytest_failure_taxonomy.report.load import decode_report
with open_history(sys.argv[1]) as history:
    for path in sys.argv[2:]:
        with open(path) as file:
            history.add(decode_report(json.load(file)))
"""


@pytest.fixture
def default_history(tmp_path: Path) -> Iterator[History]:
    """Open a new history in a root directory of its own."""
    with open_history(rootdir=tmp_path) as opened:
        yield opened


def count(history: History, table: Any) -> int:
    """Return how many rows a table has."""
    with history.reading() as connection:
        return int(connection.scalar(select(func.count()).select_from(table)) or 0)


def test_the_default_is_a_folder_of_our_own(
    default_history: History, tmp_path: Path
) -> None:
    """The database is below the root directory, in a folder that git ignores."""
    assert (tmp_path / FOLDER / NAME).is_file()
    assert (tmp_path / FOLDER / ".gitignore").read_text() == "*\n"
    with default_history.reading() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


@pytest.mark.parametrize("version", ["new", "0001"])
def test_the_migrations_make_the_tables(history_url: str, version: str) -> None:
    """A new database, and one that each version has left, are what the code describes."""
    if version != "new":
        url = find_url(history_url)
        dump = HISTORIES / f"{version}.{url.get_backend_name()}.sql"
        engine = create_engine(url)
        with engine.begin() as connection:
            for statement in dump.read_text("utf-8").strip().split(";\n"):
                connection.exec_driver_sql(statement)
            bring_tasks_up_to_date(connection, "tasks")
            upgrade(connection, "h.db")
        engine.dispose()
    with open_history(history_url) as history, history.reading() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "include_name": lambda name, kind, _: (
                    kind != "table" or (name.startswith("ft_") and name != "ft_schema")
                )
            },
        )
        assert compare_metadata(context, t.METADATA) == []
        assert (
            connection.exec_driver_sql("SELECT version_num FROM ft_schema").scalar()
            == REVISION
        )


def test_a_run_is_taken_once(history: History) -> None:
    """Adding a report twice changes nothing."""
    report = a_report(1, failing=("tests/test_x.py::test_a", "tests/test_x.py::test_b"))
    assert history.add(report)
    assert not history.add(report)
    assert (count(history, t.RUNS), count(history, t.FAILURES)) == (1, 2)
    assert [cause.runs for cause in find_top(history)] == [1]


def test_what_was_installed_is_kept_once(history: History) -> None:
    """Runs that had the same refer to one list, which goes with the last of them."""
    for number, installed in enumerate((("a-1",), ("a-1",), ("a-2",), None), 1):
        history.add(a_report(number, installed=installed))
    assert count(history, t.ENVIRONMENTS) == 2
    with history.reading() as connection:
        texts = sorted(connection.scalars(select(t.ENVIRONMENTS.c.installed)))
    assert texts == ["a-1\npython-3.13.1", "a-2\npython-3.13.1"]
    prune(history, before=datetime(2026, 11, 1, 3))  # noqa: DTZ001 - as the tables
    assert count(history, t.ENVIRONMENTS) == 1


def test_a_more_complete_report_replaces_the_other(history: History) -> None:
    """A run that was reconstructed and whose own report turns up later is that report's."""
    first = a_report(1, failing=("tests/test_x.py::test_a",))
    first = replace(first, completeness="reconstructed")
    assert history.add(first)
    whole = a_report(1, failing=("tests/test_x.py::test_a", "tests/test_x.py::test_b"))
    assert history.add(whole)
    assert (count(history, t.RUNS), count(history, t.FAILURES)) == (1, 2)
    assert not history.add(first)


def test_a_run_that_goes_on_is_refused(history: History) -> None:
    """A report that is still `running` says nothing of how its run ended."""
    report = replace(a_report(1), completeness="running")
    with pytest.raises(HistoryError, match="failure-taxonomy finalize"):
        history.add(report)


def test_many_runs_in_one_transaction(history: History) -> None:
    """A run with a value that no database holds is left out; those before and after it come in."""
    too_big = a_report(2, test_a="failed")
    too_big = replace(too_big, exit=replace(too_big.exit, code=2**70))
    with history.adding() as add:
        assert add(a_report(1, test_a="failed"), "report")
        with pytest.raises(HistoryError, match=r"^run 0+2: it can't be added: "):
            add(too_big, "report")
        assert add(a_report(3, test_b="failed"), "report")
        assert not add(a_report(1, test_a="failed"), "report")
    assert [int(run.id, 16) for run in list_runs(history)] == [3, 1]
    with suppress(KeyboardInterrupt), history.adding() as add:
        add(a_report(4), "report")
        raise KeyboardInterrupt
    assert len(list_runs(history)) == 2


def test_passes_are_written_as_sets_of_tests(history: History) -> None:
    """Runs of the same tests share one set; what was no quick pass is a row of its own."""
    history.add(a_report(1, test_a="passed", test_b="passed", test_c="skipped"))
    history.add(a_report(2, test_a="failed", test_b="passed", test_c="passed"))
    slow = {"test_a": 2.0, "test_b": 0.1, "test_c": 0.1}
    tests = dict.fromkeys(slow)
    history.add(a_mixed_report(3, tests, seconds=slow))
    history.add(a_report(4, test_a="passed"))
    history.add(a_report(5, failing=(f"{TEST}test_a",)))
    assert count(history, t.ROSTERS) == 2
    with history.reading() as connection:
        rows = connection.execute(
            select(t.RUNS.c.id, t.TESTS.c.nodeid, t.OUTCOMES.c.outcome)
            .select_from(t.OUTCOMES.join(t.RUNS).join(t.TESTS))
            .order_by(t.RUNS.c.id, t.TESTS.c.nodeid)
        ).all()
    assert [
        (int(run, 16), nodeid.removeprefix(TEST), outcome)
        for run, nodeid, outcome in rows
    ] == [
        (1, "test_c", "skipped"),
        (2, "test_a", "failed"),
        (3, "test_a", "passed"),
        (5, "test_a", "failed"),
    ]
    prune(history, before=datetime(2026, 11, 1, 4))  # noqa: DTZ001 - as the tables
    assert (count(history, t.ROSTERS), count(history, t.TESTS)) == (1, 1)


@given(st.sets(st.integers(0, 300)))
def test_sets_of_tests_are_whole_numbers(numbers: set[int]) -> None:
    """Each number is a bit, and comes back from it."""
    assert t.numbers_in(t.bits_of(numbers)) == sorted(numbers)


def test_any_text_is_taken(history: History) -> None:
    """Nulls and lone surrogates, which databases refuse, are replaced."""
    report = report_as_json(1, failing=("tests/test_x.py::test_a[\0]",))
    report["failures"][0]["exception"]["message"] = "\ud800 \0" + "x" * 10_000
    assert history.add(decode_report(report))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "the URL is empty"),
        *(
            (
                f"{before}password=pa55 dbname=x",
                "history: it is a connection string of libpq; give",
            )
            for before in (
                "host=db ",
                "",
                " HOST = db://x ",
                "service=x ",
                "user=a options=b://c ",
            )
        ),
        ("nothing://x", "nothing://... is not an SQLAlchemy URL"),
        ("missing/folder/h.db", "there is no folder"),
        ("text.db", "is no SQLite database"),
        (".", "is not a file"),
    ],
)
def test_what_is_no_history_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, words: str
) -> None:
    """One line says what is wrong."""
    monkeypatch.chdir(tmp_path)
    Path("text.db").write_text("no database at all, but long enough to be one" * 10)
    with pytest.raises(HistoryError, match=words) as caught:
        open_history(url)
    assert "\n" not in str(caught.value)


def test_a_question_makes_no_history(tmp_path: Path) -> None:
    """Where there is none, it is said how one begins."""
    with pytest.raises(HistoryError, match="failure-taxonomy history add"):
        open_history(rootdir=tmp_path, create=False)
    assert not [*tmp_path.iterdir()]


def make_newer(path: Path) -> None:
    """Make a history as a later version of the program leaves it."""
    open_history(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE ft_schema SET version_num = '9999'")
    connection.close()


def make_foreign(path: Path) -> None:
    """Make a database of another program that has a table of our name."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE ft_runs (x)")
    connection.close()


def make_damaged(path: Path) -> None:
    """Make a history whose pages have been overwritten."""
    open_history(path).close()
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * (len(content) - 100))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (make_newer, "newer version"),
        (make_foreign, "tables of another program"),
        (make_damaged, "damaged|malformed"),
    ],
)
def test_a_database_that_is_not_ours_is_left_alone(
    tmp_path: Path, make: Any, words: str
) -> None:
    """A newer, a foreign and a damaged database are told in one line, and not changed."""
    path = tmp_path / "h.db"
    make(path)
    before = path.read_bytes()
    with pytest.raises(HistoryError, match=words) as caught:
        open_history(path)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


def test_a_locked_database_is_told(tmp_path: Path) -> None:
    """Another process that writes for too long is named."""
    path = tmp_path / "h.db"
    open_history(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        with (
            open_history(path, wait_seconds=0.1) as history,
            pytest.raises(HistoryError, match="another process has locked it"),
        ):
            history.add(a_report(1))
    finally:
        other.close()


def test_writers_wait_in_a_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is refused while others write, however long that takes together."""
    path = tmp_path / "h.db"
    open_history(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    looks = list[int]()

    def last_written(_: str) -> tuple[int, ...]:
        looks.append(len(looks))
        if len(looks) == 4:
            other.execute("COMMIT")
        return tuple(looks)

    with open_history(path, wait_seconds=0.1) as history:
        monkeypatch.setattr(database, "last_written", last_written)
        assert history.add(a_report(1))
    other.close()
    assert len(looks) == 4


@pytest.mark.slow
def test_eight_commands_at_once_all_get_in(tmp_path: Path) -> None:
    """Processes that make one SQLite history together, and add many runs each, lose none."""
    commands = []
    for worker in range(8):
        folder = tmp_path / str(worker)
        folder.mkdir()
        for number in range(20 * worker, 20 * worker + 20):
            report = report_as_json(number, failing=(f"{TEST}test_{number % 7}",))
            (folder / f"{number}.json").write_text(json.dumps(report))
        command = [sys.executable, "-m", "pytest_failure_taxonomy", "history", "add"]
        commands.append([*command, str(folder), "--history", str(tmp_path / "h.db")])
    with ThreadPoolExecutor(8) as pool:
        done = pool.map(
            lambda command: subprocess.run(
                command, capture_output=True, text=True, check=False
            ),
            commands,
        )
        answers = [
            (process.returncode, process.stdout, process.stderr) for process in done
        ]
    assert answers == 8 * [(0, "20 runs added, 0 known already\n", "")]
    with open_history(tmp_path / "h.db") as history:
        assert count(history, t.RUNS) == 160
        assert len(find_top(history)) == 1


def test_passwords_are_not_shown() -> None:
    """A server that can't be reached is named without the password."""
    with pytest.raises(HistoryError) as caught:
        open_history("postgresql://me:geheim@127.0.0.1:1/x", wait_seconds=1)
    assert "geheim" not in str(caught.value)
    assert "127.0.0.1" in str(caught.value)


@pytest.mark.slow
def test_first_runs_at_once_all_get_in(
    tmp_path: Path, history_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five processes that make one history together lose no run, and leave no other file."""
    monkeypatch.setenv(SECONDS_VARIABLE, "60")
    failing = ("tests/test_x.py::test_a",)
    reports = [a_report(number, failing=failing) for number in range(5)]
    with ThreadPoolExecutor(5) as pool:
        assert set(
            pool.map(lambda report: ask_history(report, history_url).problem, reports)
        ) == {""}
    with open_history(history_url) as history, history.reading() as connection:
        assert connection.scalar(select(func.count()).select_from(t.RUNS)) == 5
        assert count(history, t.RUN_CAUSES) == 5
    assert [path.name for path in tmp_path.iterdir()] in (["h.db"], [])


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.linux("a SIGKILL")
def test_a_process_that_is_killed_makes_no_half_history(tmp_path: Path) -> None:
    """What it has not finished is at no path that anybody opens: no empty file and no journal."""
    child = os.fork()
    if child == 0:
        # The module may have a copy of `os` by now, which no patch of `os` reaches.
        its_os = vars(database)["os"]
        its_os.link = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        try:
            open_history(tmp_path / "h.db")
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".h.db.")
    open_history(tmp_path / "h.db").close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [left.name, "h.db"]


def test_a_history_where_no_file_can_be_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system without hard links, and in an empty file, the tables are made in place."""

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "empty.db").touch()
    for name in ("h.db", "empty.db"):
        with open_history(tmp_path / name) as history:
            assert history.add(a_report(1))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.db", "h.db"]


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.linux("a SIGKILL")
def test_a_killed_writer_leaves_no_half_run(history_url: str) -> None:
    """What a process has written before it was killed in a transaction is not there."""
    open_history(history_url).close()
    child = os.fork()
    if child == 0:
        with open_history(history_url) as history, history.writing() as connection:
            connection.execute(t.PROJECTS.insert().values(name="x"))
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    with open_history(history_url) as history:
        assert count(history, t.PROJECTS) == 0
        assert history.add(a_report(1))


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.room("history")
def test_a_server_that_goes_away_is_told() -> None:
    """In the middle of the work, before it, and not any more once it is there again."""
    with started_cluster() as cluster:
        url = cluster.new_database()
        with open_history(url) as history:
            assert history.add(a_report(1))
            cluster.stop()
            for _ in range(2):
                with pytest.raises(
                    HistoryError, match="the history can't be used"
                ) as caught:
                    history.add(a_report(2))
                assert "\n" not in str(caught.value)
            with pytest.raises(HistoryError, match="the history can't be used"):
                open_history(url, wait_seconds=1)
            cluster.start()
            assert history.add(a_report(2))
            assert not history.add(a_report(1))


@pytest.mark.slow
@pytest.mark.linux("a limit of the size of files")
@pytest.mark.parametrize("kilobytes", [200, 400])
def test_a_full_disk_loses_no_earlier_run(tmp_path: Path, kilobytes: int) -> None:
    """The run that there is no room for is told; those before it are whole."""
    path = tmp_path / "h.db"
    names = []
    for number in range(40):
        name = tmp_path / f"{number}.json"
        failing = tuple(f"tests/test_{number}.py::test_{each}" for each in range(100))
        name.write_text(json.dumps(report_as_json(number, failing=failing)))
        names.append(str(name))
    limit = "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    limit += f"resource.setrlimit(resource.RLIMIT_FSIZE, ({kilobytes << 10},) * 2)\n"
    command = [sys.executable, "-c", limit + ADD, str(path), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert re.search(r"HistoryError: .*h\.db: the history can't be used: ", done.stderr)
    with open_history(path) as history:
        runs = count(history, t.RUNS)
        assert count(history, t.FAILURES) == runs * 100
        assert history.add(a_report(100))


def test_a_history_that_can_only_be_read(tmp_path: Path) -> None:
    """Questions are answered, and an addition is refused."""
    path = tmp_path / "h.db"
    with open_history(path) as history:
        history.add(a_report(1))
    with open_history(f"sqlite:///file:{path}?mode=ro&uri=true") as history:
        assert count(history, t.RUNS) == 1
        with pytest.raises(HistoryError, match="it can't be written"):
            history.add(a_report(2))
