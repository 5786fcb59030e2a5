"""Hostile databases: none is changed that is not ours, and nothing that its author wrote runs."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import sqlite3
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.cli.main import main
from pytest_failure_taxonomy.errors import HistoryError
from pytest_failure_taxonomy.history import open_history
from pytest_failure_taxonomy.history.attempts import recover
from pytest_failure_taxonomy.history.tasks import record_task
from pytest_failure_taxonomy.option_files import FOLDER, NAME, SIDE_FILES
from tests.helpers.children import run_pytest
from tests.helpers.hostile_files import CANARY, HOSTILE_FILES, canary
from tests.helpers.past_runs import a_report, report_as_json

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs links and pipes")

ENDLESS: Final = (
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c"
)
Make = Callable[[Path], object]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a history with a few runs and tasks, to be copied by each test."""
    path = tmp_path_factory.mktemp("ours") / NAME
    with open_history(path) as history:
        for number in range(1, 5):
            outcome = ("passed", "failed")[number % 2]
            history.add(a_report(number, test_a=outcome, test_b="failed"))
        record_task(history, "a", "failed", log="[GZA_FAILURE:MAX_TURNS]\n")
        record_task(history, "b", "completed", based_on="a")
        recover(history, "s", "try it")
    return path


def contents(folder: Path) -> dict[str, bytes | str]:
    """Return what each file of a folder holds, and where each link in it leads."""
    return {
        str(path.relative_to(folder)): os.readlink(path)
        if path.is_symlink()
        else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def ask(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Ask a history, and return the one line in which the command refuses it."""
    capsys.readouterr()
    assert main(["history", *words]) == 2
    out, err = capsys.readouterr()
    (line,) = err.splitlines()
    assert out == ""
    assert line.isprintable()
    return line


def sql(*statements: str) -> Make:
    """Return what executes statements in a database, which is made where it is not there."""

    def make(path: Path) -> None:
        with contextlib.closing(
            sqlite3.connect(path, isolation_level=None)
        ) as connection:
            for statement in statements:
                connection.execute(statement)

    return make


def unmerged(path: Path) -> None:
    """Leave the only table of another program in a log, as a killed process does."""
    live = path.with_name("live")
    with contextlib.closing(sqlite3.connect(live)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE theirs (x)")
        connection.commit()
        shutil.copy(live, path)
        shutil.copy(f"{live}-wal", f"{path}-wal")
    live.unlink()


FOREIGN: Final[dict[str, tuple[str, Make]]] = {
    "theirs": ("tables of another program (theirs)", sql("CREATE TABLE theirs (x)")),
    "with-a-log": (
        "tables of another program (theirs)",
        sql("PRAGMA journal_mode=WAL", "CREATE TABLE theirs (x)"),
    ),
    "unmerged": ("all that it holds is in f.db-wal", unmerged),
    "our-names": (
        "tables of another program (ft_runs)",
        sql("CREATE TABLE ft_runs (x)"),
    ),
    "many": (
        "(a\\x1b[31m, b\\x0a, c)",
        sql(*(f'CREATE TABLE "{name}" (x)' for name in ("a\x1b[31m", "b\n", "c", "d"))),
    ),
    "tasks-of-others": (
        "`tasks` of another program",
        sql("CREATE TABLE tasks (id, status)"),
    ),
    "tasks-without-status": (
        "`tasks` of another program",
        sql("CREATE TABLE tasks (id)", "PRAGMA user_version = 10"),
    ),
    "old-tasks": (
        "of schema version 9; open it once",
        sql("CREATE TABLE tasks (id, status)", "PRAGMA user_version = 9"),
    ),
    "odd-version-of-tasks": (
        "`tasks` of another program",
        sql(
            "CREATE TABLE tasks (id, status)",
            "CREATE TABLE schema_version (version)",
            "INSERT INTO schema_version VALUES (9e999)",
        ),
    ),
    "a-trigger-on-tasks": (
        "its trigger x ",
        sql(
            "CREATE TABLE tasks (id, status)",
            "PRAGMA user_version = 10",
            "CREATE TRIGGER x AFTER UPDATE ON tasks BEGIN DELETE FROM tasks; END",
        ),
    ),
    "a-generated-column-of-tasks": (
        "its table tasks ",
        sql(
            'CREATE TABLE tasks (id, status, "--" AS (zeroblob(1000000000)))',
            "PRAGMA user_version = 10",
        ),
    ),
}
"""Databases of other programs, and words of why they are refused."""


@pytest.mark.parametrize("spelling", ["path", "url", "uri"])
@pytest.mark.parametrize("name", FOREIGN)
def test_a_database_of_another_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, spelling: str
) -> None:
    """It is refused, and no byte of its folder has changed: no table, no log, no journal."""
    words, make = FOREIGN[name]
    path = tmp_path / "f.db"
    make(path)
    before = contents(tmp_path)
    url = {
        "path": str(path),
        "url": f"sqlite:///{path}",
        "uri": f"sqlite:///file:{path}?uri=true",
    }
    assert words in ask(capsys, "add", "r.json", "--history", url[spelling])
    assert contents(tmp_path) == before


CHANGED: Final[dict[str, tuple[str, str]]] = {
    "newer": ("newer version (9999)", "UPDATE ft_schema SET version_num = '9999'"),
    "older-than-all": (
        "none that this program",
        "UPDATE ft_schema SET version_num = '0000'",
    ),
    "no-number": (
        "newer version (x\\x1b)",
        "UPDATE ft_schema SET version_num = 'x' || char(27)",
    ),
    "no-version": ("version (unknown)", "DELETE FROM ft_schema"),
    "newer-tasks": ("schema version 12, newer than 11", "PRAGMA user_version = 12"),
    "older-tasks": ("schema version 9; open it once", "PRAGMA user_version = 9"),
    "trigger": (
        "its trigger x\\x1b",
        f'CREATE TRIGGER "x\x1b" AFTER INSERT ON ft_runs BEGIN {ENDLESS}; END',
    ),
    "trigger-of-another-table": (
        "its trigger x ",
        "CREATE TRIGGER x AFTER DELETE ON theirs BEGIN DELETE FROM ft_runs; END",
    ),
    "view": ("its view FT_Runs", f"CREATE VIEW FT_Runs AS {ENDLESS}"),
    "view-of-the-version": (
        "its view ft_schema",
        f"CREATE VIEW ft_schema AS {ENDLESS}",
    ),
    "generated": (
        "its table ft_runs",
        "ALTER TABLE ft_runs ADD x GENERATED ALWAYS AS (1) VIRTUAL",
    ),
    "generated-in-disguise": (
        "its table ft_runs",
        "ALTER TABLE ft_runs ADD \"'\" INT /* ' */ AS (1)",
    ),
    "check": (
        "its table ft_runs",
        "ALTER TABLE ft_runs ADD x CHECK (x LIKE '%a%a%a%b')",
    ),
    "default": ("its table ft_runs", "ALTER TABLE ft_runs ADD x DEFAULT 5"),
    "index": ("its index x", "CREATE INDEX x ON ft_runs (project_id, abs(number))"),
    "partial-index": (
        "its index x",
        "CREATE INDEX x ON ft_runs (number) WHERE kind GLOB '*a*b'",
    ),
    "no-table": ("no such table", "DROP TABLE ft_outcomes"),
    "no-column": ("no such column", "ALTER TABLE ft_runs RENAME kind TO sort"),
}
"""What is done to a history that we have made and opened before."""
RENAMED: Final = {"view": "ft_runs", "view-of-the-version": "ft_schema"}
"""Of which tables a view takes the place."""


@pytest.mark.parametrize("name", CHANGED)
def test_a_history_that_another_hand_has_changed(
    tmp_path: Path, ours: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """It is refused in a line, and what would run does not: an endless query comes to no end."""
    words, statement = CHANGED[name]
    path = Path(shutil.copy(ours, tmp_path / NAME))
    sql("CREATE TABLE theirs (x REFERENCES ft_runs ON DELETE CASCADE)")(path)
    if name in RENAMED:
        sql(
            "PRAGMA legacy_alter_table=ON",
            f"ALTER TABLE {RENAMED[name]} RENAME TO ft_old",
        )(path)
    sql(statement)(path)
    before = path.read_bytes()
    report = tmp_path / "r.json"
    report.write_text(json.dumps(report_as_json(9, test_a="failed")))
    command = ["list"] if name == "no-column" else ["add", str(report)]
    capsys.readouterr()
    assert main(["history", *command, "--history", str(path)]) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if str(path) in line]
    assert len(said) == 1
    assert words in said[0]
    assert said[0].isprintable()
    assert path.read_bytes() == before
    assert not any(Path(f"{path}{ending}").exists() for ending in SIDE_FILES)


VALUES: Final = (
    ("ft_run_causes", "count", 2**63 - 1, "top"),
    ("ft_runs", "started_at", "yesterday", "top"),
    ("ft_causes", "title", b"\xff\x00", "top"),
    ("ft_runs", "started_at", "0000-00-00", "list"),
    ("ft_runs", "started_at", 5, "stats"),
    ("ft_runs", "errors", "many", "list"),
    ("ft_runs", "message", b"\xff", "list --format json"),
    ("ft_runs", "duration_seconds", "long", "stats"),
    ("ft_run_causes", "cause_id", 7, "since {fingerprint}"),
    ("ft_attempts", "approach", b"\xff", "recover --subtask s --approach a"),
)
"""Values that our columns never hold, and the command that meets them."""


@pytest.mark.parametrize(("table", "column", "value", "command"), VALUES)
def test_a_value_of_another_hand(
    tmp_path: Path,
    ours: Path,
    capsys: pytest.CaptureFixture[str],
    table: str,
    column: str,
    value: object,
    command: str,
) -> None:
    """A number that is too big, a text for a number, bytes for a text: told in a line."""
    path = Path(shutil.copy(ours, tmp_path / NAME))
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (fingerprint,) = connection.execute(
            "SELECT fingerprint FROM ft_causes"
        ).fetchone()
        many = f"UPDATE OR REPLACE {table} SET {column} = ?"  # noqa: S608 - words of ours
        connection.execute(many, (value,))
    report = tmp_path / "r.json"
    report.write_text(json.dumps(report_as_json(9, test_a="passed", test_b="failed")))
    words = (
        f"add {report}" if command == "add" else command.format(fingerprint=fingerprint)
    )
    capsys.readouterr()
    command = words if words.startswith("recover") else f"history {words}"
    code = main([*command.split(), "--history", str(path)])
    (line,) = capsys.readouterr().err.splitlines()
    assert code == 2
    assert line.isprintable()


SETTINGS: Final = {
    "sqlite:///{path}?check_same_thread=abc": "String is not true/false",
    "sqlite:///{path}?timeout=abc": "could not convert string to float",
    "sqlite:///{path}?cached_statements=abc": "invalid literal for int",
    "{folder}/" + "x" * 260: "File name too long|can't be opened",
    "{folder}/" + "x/" * 3000 + "h.db": "there is no folder|File name too long",
    "{folder}/a\0b": "null character",
}


@pytest.mark.parametrize("url", SETTINGS, ids=lambda url: url[:40])
def test_a_setting_or_path_that_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    """What Python, SQLite or the file system refuses is told in a line, and nothing is left."""
    given = url.format(path=tmp_path / "h.db", folder=tmp_path)
    line = ask(capsys, "add", "r.json", "--history", given)
    assert any(words in line for words in SETTINGS[url].split("|"))
    assert {path.name for path in tmp_path.iterdir()} <= {"h.db"}


@pytest.mark.parametrize("sort", HOSTILE_FILES)
@pytest.mark.parametrize("ending", ["", *SIDE_FILES])
def test_no_file_in_the_place_of_a_database(
    tmp_path: Path, ours: Path, sort: str, ending: str
) -> None:
    """Neither a link, a pipe nor a device beside a database, or in its place, is used."""
    path = tmp_path / "h.db"
    if ending:
        shutil.copy(ours, path)
    HOSTILE_FILES[sort](Path(f"{path}{ending}"))
    with contextlib.suppress(HistoryError), open_history(path) as history:
        history.add(a_report(9, test_a="failed"))
    target = canary(Path(f"{path}{ending}"))
    assert target.read_bytes() == CANARY


def test_a_journal_that_would_remove_a_file(tmp_path: Path, ours: Path) -> None:
    """SQLite removes the file that a hot journal names; a checkout could bring such a journal."""
    victim = tmp_path / "thesis.txt"
    victim.write_bytes(CANARY)
    path = Path(shutil.copy(ours, tmp_path / "h.db"))
    sql("PRAGMA journal_mode=DELETE")(path)
    content = path.read_bytes()
    (size,) = struct.unpack(">H", content[16:18])
    first = content[:size]
    magic = bytes.fromhex("d9d505f920a163d7")
    header = magic + struct.pack(">IIIII", 1, 0, len(content) // size, 512, size)
    total = sum(first[at] for at in range(size - 200, 0, -200))
    page = struct.pack(">I", 1) + first + struct.pack(">I", total)
    name = str(victim).encode()
    tail = struct.pack(">II", len(name), sum(name)) + magic
    lock_page = struct.pack(">I", 0x40000000 // size + 1)
    journal = header.ljust(512, b"\0") + page + lock_page + name + tail
    Path(f"{path}-journal").write_bytes(journal)
    with pytest.raises(HistoryError, match="it would remove another file"):
        open_history(path)
    assert victim.read_bytes() == CANARY
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT * FROM ft_runs").fetchall()
    assert not victim.exists()  # which shows that the journal is one


def folder_link(root: Path, target: Path) -> None:
    """Make our folder a link to one with a database of the user's."""
    (root / FOLDER).symlink_to(target.parent)


def file_link(root: Path, target: Path) -> None:
    """Make our database a link to one of the user's."""
    (root / FOLDER).mkdir()
    (root / FOLDER / NAME).symlink_to(target)


def dangling_link(root: Path, target: Path) -> None:
    """Make our database a link to a file that would be made."""
    (root / FOLDER).mkdir()
    (root / FOLDER / NAME).symlink_to(target.with_name("new.db"))


def dangling_folder(root: Path, target: Path) -> None:
    """Make our folder a link to one that would be made."""
    (root / FOLDER).symlink_to(target.with_name("new"))


@pytest.mark.parametrize(
    "link", [folder_link, file_link, dangling_link, dangling_folder]
)
def test_a_link_in_the_default_path(
    tmp_path: Path, ours: Path, link: Callable[[Path, Path], None]
) -> None:
    """A checkout can bring one, so it is refused, even where it leads to a history."""
    target = tmp_path / "home" / NAME
    target.parent.mkdir()
    shutil.copy(ours, target)
    root = tmp_path / "project"
    root.mkdir()
    link(root, target)
    before = contents(tmp_path)
    for create in (True, False):
        with pytest.raises(
            HistoryError, match="it is a symbolic link, or its folder is"
        ):
            open_history(rootdir=root, create=create)
    assert contents(tmp_path) == before


def test_links_that_a_user_may_have(tmp_path: Path) -> None:
    """A root directory may lie behind one, and so may a database that is named."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    open_history(rootdir=tmp_path / "link").close()
    assert (tmp_path / "real" / FOLDER / NAME).is_file()
    (tmp_path / "h.db").symlink_to("elsewhere.db")
    open_history(tmp_path / "h.db").close()
    assert (tmp_path / "elsewhere.db").is_file()


def test_a_run_with_a_hostile_history(tmp_path: Path, ours: Path) -> None:
    """Its end, status and report are as without one; one line says why, and how to add the run."""
    folder = tmp_path / "a (b) 'c'"
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text("def test_it(): pass\n")
    file_link(folder, ours)
    before = ours.read_bytes()
    options = ("--failure-taxonomy-history", "--failure-taxonomy-report=it's (1).json")
    run = run_pytest(folder, *options, env={"FAILURE_TAXONOMY_HISTORY_SECONDS": "60"})
    (line,) = [
        line for line in run.stdout.splitlines() if "is not in the history" in line
    ]
    why, _, command = line.partition("; add it by: ")
    assert "it is a symbolic link" in why
    assert shlex.split(command) == [
        "failure-taxonomy",
        "history",
        "add",
        "it's (1).json",
    ]
    assert (run.status, run.outcome) == (0, "1 passed")
    assert ours.read_bytes() == before
