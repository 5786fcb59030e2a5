"""The history: find its database, connect, bring it up to date, and word its errors."""

from __future__ import annotations

import os
import re
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import unquote

from pytest_failure_taxonomy.errors import HistoryError
from pytest_failure_taxonomy.history import NOT_INSTALLED
from pytest_failure_taxonomy.option_files import (
    CONNECTION_STRING,
    FOLDER,
    NAME,
    NO_CONNECTION_STRING,
    SIDE_FILES,
    VARIABLE,
)
from pytest_failure_taxonomy.text import safe_text

try:
    from sqlalchemy import URL, Connection, create_engine, event, inspect, text
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import (
        ArgumentError,
        DataError,
        DBAPIError,
        NoSuchModuleError,
        SQLAlchemyError,
    )
except ImportError as error:
    raise HistoryError(NOT_INSTALLED.format(error.name or "SQLAlchemy")) from None

# After SQLAlchemy, of which the message above says that it is missing.
from pytest_failure_taxonomy.history.attempts import add_attempt_of  # isort: skip
from pytest_failure_taxonomy.history.tables import METADATA, TASKS, add_run, keep_proofs  # isort: skip

if TYPE_CHECKING:
    from pytest_failure_taxonomy.report.model import FailureReport

REVISION: Final = "0006"
"""The newest migration; a test compares it with the scripts."""
VERSION_TABLE: Final = "ft_schema"
TASKS_VERSION: Final = 11
"""Of the table `tasks`; version 10, which has no `failure_reason`, is brought up to date."""
BUSY_SECONDS: Final = 30.0
"""How long a command waits for another process that holds the lock and writes nothing."""
_ADVISORY_LOCK: Final = 7_162_540_118_223_091
"""The number of our lock in PostgreSQL; any number that no other program is likely to use."""
_UNFIT: Final = (ArithmeticError, TypeError, ValueError, struct.error)
"""What values of a database raise that this program has not written, and settings of a URL."""
_SQLITE_MAGIC: Final = b"SQLite format 3\x00"
_END_OF_SUPER_JOURNAL: Final = bytes.fromhex("d9d505f920a163d7")
"""How a journal ends that names another file, which SQLite removes when it rolls the journal back.
"""
_NO_CODE: Final = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^]]*]|--[^\n]*|/\*.*?(?:\*/|\Z)""",
    re.DOTALL,
)
"""Texts, quoted names and comments in the schema of an SQLite database."""
_CODE: Final = re.compile(
    r"\b(AS|VIRTUAL|LIKE|GLOB|MATCH|REGEXP)\b|\bINDEX\b[^(]*\([^)]*\(", re.IGNORECASE
)
"""Finds what would run code: a view, a generated column, a virtual table, an index of an
expression."""
_CODE_IN_OURS: Final = re.compile(
    rf"{_CODE.pattern}|\b(CHECK|DEFAULT|WHERE)\b", re.IGNORECASE
)
"""The same, and what another program's table `tasks` may have, but none of our own tables."""


_ADVICE: Final = {
    "database is locked": "another process has locked it; try again when it has ended",
    "readonly": "it can't be written; give a path that can be, with --history",
    "read-only": "it can't be written; give a path that can be, with --history",
    "unable to open": "it can't be opened; give a path that can be, with --history",
    "disk is full": "the disk is full; make room and add the report again",
    "disk i/o": "the disk can't be written; make room and add the report again",
    "not a database": "it is no SQLite database; give another path with --history",
    "malformed": "the database is damaged; restore it, or give another path with --history",
}
"""What to do about an error of SQLite, by what its words have."""


def open_history(
    url: str | os.PathLike[str] | None = None,
    *,
    rootdir: str | os.PathLike[str] | None = None,
    create: bool = True,
    wait_seconds: float = BUSY_SECONDS,
) -> History:
    """Open the history, and bring it up to date if an older version made it.

    Args:
        url: an SQLAlchemy URL or the path of an SQLite database; by default what the environment
            variable `FAILURE_TAXONOMY_HISTORY` says, else `.failure-taxonomy/history.db` below
            `rootdir`.
        rootdir: by default the working directory.
        create: make an SQLite database that is not there.
        wait_seconds: how long to wait for other processes that write, and for a server.

    Raises:
        HistoryError: there is none, it can't be opened, or it is of a newer version.
    """
    found = find_url(url, rootdir=rootdir)
    path = _path_of(found)
    if not create and path is not None and not os.path.lexists(path):
        raise HistoryError(
            f"{found.database}: there is no history yet; run pytest with "
            "--failure-taxonomy-history, or add reports by: failure-taxonomy history add REPORT"
        )
    return History(found, wait_seconds=wait_seconds)


def find_url(
    url: str | os.PathLike[str] | None = None,
    *,
    rootdir: str | os.PathLike[str] | None = None,
) -> URL:
    """Return where the history is.

    Args:
        url: an SQLAlchemy URL or the path of an SQLite database; by default what the environment
            variable `FAILURE_TAXONOMY_HISTORY` says, else `.failure-taxonomy/history.db` below
            `rootdir`.
        rootdir: by default the working directory.

    Raises:
        HistoryError: it is no URL that can be used.
    """
    given = os.fspath(url) if url is not None else os.environ.get(VARIABLE, "")
    if url is not None and not given.strip():
        raise HistoryError(
            "history: the URL is empty; give a path, or an SQLAlchemy URL"
        )
    if not given:
        root = Path(rootdir or ".").absolute()
        given = str(root / FOLDER / NAME)
        if os.path.realpath(given) != os.path.join(
            os.path.realpath(root), FOLDER, NAME
        ):
            raise HistoryError(  # a checkout can bring one that leads anywhere
                f"{given}: it is a symbolic link, or its folder is; remove the link, or name the "
                "database that is meant with --history"
            )
    if "\0" in given:
        raise HistoryError(
            "history: the URL holds a null character; give a path or a URL"
        )
    if CONNECTION_STRING.match(given):
        raise HistoryError(f"history: {NO_CONNECTION_STRING}")
    if "://" not in given:
        return URL.create("sqlite", database=str(Path(given).expanduser().absolute()))
    try:
        found = make_url(given)
        found.get_dialect()
    except (ArgumentError, NoSuchModuleError, ValueError):
        scheme = given.partition("://")[0]
        raise HistoryError(
            f"history: {scheme}://... is not an SQLAlchemy URL; give one such as "
            "sqlite:////path/history.db or postgresql://user@host/database"
        ) from None
    if found.drivername == "postgresql":  # the driver that the extra installs
        found = found.set(drivername="postgresql+psycopg")
    return found


class History:
    """An open history. Close it, or use it in a `with` statement."""

    def __init__(self, url: URL, *, wait_seconds: float = BUSY_SECONDS) -> None:
        """Connect to a database, which is created if it is an SQLite file.

        Nothing is written before the database is known to be ours, or to become ours.

        Args:
            url: as `find_url` returns it.
            wait_seconds: how long to wait for other processes that write, and for a server.

        Raises:
            HistoryError: it can't be opened, or is not ours.
        """
        self._url = url
        self.is_sqlite = url.get_backend_name() == "sqlite"
        options: dict[str, dict[str, float | None]] = {
            "sqlite": {"timeout": wait_seconds},
            "postgresql": {"connect_timeout": max(2, int(wait_seconds))},
        }
        with self._worded():
            path = _path_of(url)
            if path is not None and os.path.exists(path):
                _look_at_file(path, url)
            elif path is not None and not str(url.database).startswith("file:"):
                _make_folder(path)
                _create(path)
            try:
                settings = options.get(url.get_backend_name(), {})
                if url.get_driver_name() == "psycopg":
                    # It would prepare statements, whose plans stay those for empty tables.
                    settings["prepare_threshold"] = None
                self.engine = create_engine(url, connect_args=settings)
            except ImportError as error:
                raise HistoryError(
                    NOT_INSTALLED.format(error.name or url.drivername)
                ) from None
            if self.is_sqlite:
                event.listen(self.engine, "connect", _set_up_sqlite)
                event.listen(self.engine, "begin", _begin_sqlite)
            try:
                with self.engine.connect() as connection:
                    is_current = _is_current(connection, url)
                if not is_current:
                    with self.writing() as connection:
                        if not _is_current(
                            connection, url
                        ):  # else another process was quicker
                            _bring_up_to_date(connection, _shown(url))
                if self.is_sqlite:
                    # The write-ahead log lets readers go on, and stays on; the database is ours. It
                    # may be read-only, in use, or on a file system without shared memory.
                    with (
                        suppress(sqlite3.OperationalError),
                        closing(self.engine.raw_connection()) as plain,
                    ):
                        plain.cursor().execute("PRAGMA journal_mode=WAL")
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        self.engine.dispose()

    def add(self, report: FailureReport, *, source: str = "report") -> bool:
        """Add a run in one transaction; tell whether that changed anything.

        Only a more complete report replaces a run that is already there, for example one that
        `failure-taxonomy finalize` has completed. Proofs of its causes are recorded in any case.

        Args:
            report: without secrets.
            source: `report`, or `junit` for one that was made of a JUnit file.

        Raises:
            HistoryError: the run still goes on, or the database can't be written.
        """
        with self.adding() as add:
            return add(report, source)

    @contextmanager
    def adding(self) -> Iterator[Callable[[FailureReport, str], bool]]:
        """Begin a transaction for any number of runs; yield the function that adds one, as `add`.

        A run that can't be added raises `HistoryError` and is skipped; the runs before and after it
        are added. An error of the database itself ends the transaction, and adds nothing.
        """
        with self.writing() as connection:

            def add(report: FailureReport, source: str) -> bool:
                if report.completeness == "running":
                    raise HistoryError(
                        f"run {report.run.id}: it is still running, or was never completed; "
                        "complete its report by: failure-taxonomy finalize REPORT"
                    )
                one = connection.begin_nested()
                try:
                    is_new = add_run(connection, report, source)
                    if is_new:
                        add_attempt_of(connection, report)
                    keep_proofs(connection, report)
                except (
                    DataError,
                    *_UNFIT,
                ) as error:  # after others SQLite may have rolled back
                    one.rollback()
                    said = " ".join(str(getattr(error, "orig", error)).split())
                    raise HistoryError(
                        f"run {report.run.id}: it can't be added: {safe_text(said, 300)}"
                    ) from None
                one.commit()
                return is_new

            yield add

    def shrink(self) -> None:
        """Give the space that an SQLite database no longer needs back to the disk."""
        with self._worded(), self.engine.connect() as connection:
            connection.exec_driver_sql(
                "COMMIT"
            )  # VACUUM can't run within a transaction
            connection.exec_driver_sql("VACUUM")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Begin a transaction that reads."""
        with self._worded(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Begin a transaction that writes; other processes that write wait for its end."""
        with self._worded(), self.engine.connect() as plain:
            connection = plain.execution_options(writes=True)
            with connection.begin():
                if self.engine.dialect.name == "postgresql":
                    connection.execute(
                        text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")
                    )
                yield connection

    @contextmanager
    def _worded(self) -> Iterator[None]:
        """Turn an error of the database, or of what it holds, into one line without a password."""
        try:
            yield
        except OSError as error:
            said = error.strerror or str(error)
        except (SQLAlchemyError, sqlite3.Error, *_UNFIT) as error:
            cause = (
                error.orig if isinstance(error, DBAPIError) and error.orig else error
            )
            said = " ".join(str(cause).split()) or type(cause).__name__
            if self._url.password:
                said = said.replace(str(self._url.password), "***")
            lowered = said.lower()
            advice = next(
                (words for sign, words in _ADVICE.items() if sign in lowered), None
            )
            said = advice if advice and self.is_sqlite else safe_text(said, 300)
        else:
            return
        raise HistoryError(
            f"{_shown(self._url)}: the history can't be used: {said}"
        ) from None


def _shown(url: URL) -> str:
    path = _path_of(url)
    if path is not None:
        return str(path)
    plain = url.set(drivername=url.get_backend_name(), query={})
    return plain.render_as_string(hide_password=True)


def _path_of(url: URL) -> Path | None:
    """Return the file of an SQLite database; `None` for one in memory, and for a server."""
    name = url.database or ""
    if name.startswith("file:"):
        name = unquote(name.removeprefix("file:").removeprefix("//"))
    is_file = url.get_backend_name() == "sqlite" and url.query.get("mode") != "memory"
    return (
        Path(name).absolute() if is_file and name and not name.startswith(":") else None
    )


def _make_folder(path: Path) -> None:
    """Make the folder of our own name, with a `.gitignore`; any other one has to be there."""
    folder = path.parent
    if folder.is_dir():
        return
    if folder.name != FOLDER:
        raise HistoryError(
            f"{path}: there is no folder {folder}; make it, or give another path"
        )
    try:
        folder.mkdir()
        with suppress(OSError):
            (folder / ".gitignore").write_text("*\n", "utf-8")
    except FileExistsError:
        if not folder.is_dir():
            raise HistoryError(
                f"{folder}: a file is in the way; give another path"
            ) from None
    except OSError as error:
        raise HistoryError(
            f"{folder}: the folder can't be made: {error.strerror}; give a path with --history"
        ) from None


def _look_at_file(path: Path, url: URL) -> None:
    """Raise HistoryError if a file is not our database, before SQLite itself writes anything."""
    if not path.is_file():
        raise HistoryError(
            f"{path}: it is not a file; give the name of an SQLite database"
        )
    with path.open("rb") as file:
        start = file.read(len(_SQLITE_MAGIC))
    if start and start != _SQLITE_MAGIC:
        raise HistoryError(
            f"{path}: it is no SQLite database; give the path of a history, or of a new file"
        )
    journal, log, index = (Path(os.path.realpath(path) + each) for each in SIDE_FILES)
    for side_file in (journal, log, index):
        if os.path.islink(side_file) or os.path.exists(side_file) > os.path.isfile(
            side_file
        ):
            raise HistoryError(f"{side_file}: it is no file of a database; remove it")
    end = b""
    with suppress(OSError), journal.open("rb") as file:
        file.seek(-len(_END_OF_SUPER_JOURNAL), os.SEEK_END)
        end = file.read()
    if end == _END_OF_SUPER_JOURNAL:
        raise HistoryError(f"{journal}: it would remove another file; remove it")
    query = {"mode": "ro", "immutable": "1", "uri": "true"}
    look = create_engine(URL.create("sqlite", database=path.as_uri(), query=query))
    try:  # what is damaged, or is just being written anew, is seen again under a lock
        with suppress(SQLAlchemyError), look.connect() as connection:
            _is_current(connection, url)
            if start and not inspect(connection).get_table_names() and log.exists():
                raise HistoryError(
                    f"{path}: all that it holds is in {log.name}; open it with the program that "
                    "made it, or give another path"
                )
    finally:
        look.dispose()


def _create(path: Path) -> None:
    """Make a database beside its path, and link it there when complete, unless it exists by then.

    A process that is killed leaves no empty file and no journal. Where there are no hard links, the
    tables are made in place.
    """
    new = path.with_name(f".{path.name[:50]}.{os.urandom(8).hex()}.tmp")
    memory = create_engine("sqlite://")
    try:
        with memory.begin() as connection:
            _bring_up_to_date(connection, str(path))
        with (
            closing(sqlite3.connect(new)) as file,
            closing(memory.raw_connection()) as source,
        ):
            file.execute("PRAGMA journal_mode=OFF")
            source.backup(file)
        with suppress(OSError):
            os.link(new, path)
    finally:
        memory.dispose()
        new.unlink(missing_ok=True)


def _set_up_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = (
        None  # transactions begin where `_begin_sqlite` says so
    )
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA synchronous=NORMAL")


def _begin_sqlite(connection: Connection) -> None:
    """Begin a transaction; one that writes waits in a queue.

    SQLite itself gives up after its timeout even if other processes write one after the other. Here
    that is the time in which nothing at all was written.
    """
    if not connection.get_execution_options().get("writes", False):
        connection.exec_driver_sql("BEGIN")
        return
    path = str(_path_of(connection.engine.url) or "")
    before = last_written(path)
    while True:
        try:
            connection.connection.cursor().execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            now = last_written(path)
            if now == before or "locked" not in str(error):
                raise
            before = now
        else:
            return


def last_written(path: str) -> tuple[int, ...]:
    """Return what changes whenever a process writes to an SQLite database."""
    state: tuple[int, ...] = ()
    for side_file in ("", *SIDE_FILES):
        with suppress(OSError):
            status = os.stat(path + side_file)
            state += status.st_size, status.st_mtime_ns
    return state


def _is_current(connection: Connection, url: URL) -> bool:
    """Tell whether a database is up to date; raise HistoryError if it is not for us."""
    shown, version = _shown(url), None
    tables = set(inspect(connection).get_table_names())
    is_sqlite = connection.dialect.name == "sqlite"
    if is_sqlite:
        _refuse_code(connection, shown)
    if VERSION_TABLE in tables:
        query = f"SELECT version_num FROM {VERSION_TABLE}"  # noqa: S608 - a constant
        found = connection.scalars(text(query)).all()
        version = max(map(str, found), default="unknown")
        if version > REVISION:
            raise HistoryError(
                f"{shown}: the history is of a newer version ({safe_text(version, 32)}) than this "
                f"program knows ({REVISION}); upgrade pytest-failure-taxonomy"
            )
    elif (foreign := tables & set(METADATA.tables)) or (
        is_sqlite and "tasks" not in tables
    ):
        names = [safe_text(each, 60) for each in sorted(foreign or tables)[:3]]
        if names:
            raise HistoryError(
                f"{shown}: it has tables of another program ({', '.join(names)}); "
                "give the history a database of its own"
            )
    return _version_of_tasks(connection, shown) == TASKS_VERSION and version == REVISION


def _refuse_code(connection: Connection, shown: str) -> None:
    """Refuse an SQLite database that would run its author's code whenever it is used."""
    schema = connection.exec_driver_sql(
        "SELECT type, name, tbl_name, sql FROM sqlite_master"
    )
    for kind, name, table, sql in schema:
        is_ours = str(table).lower().startswith("ft_")
        is_used = is_ours or str(table).lower() in ("tasks", "schema_version")
        code = _CODE_IN_OURS if is_ours else _CODE
        if kind == "trigger" or (
            is_used and code.search(_NO_CODE.sub(" ", str(sql or "")))
        ):
            raise HistoryError(
                f"{shown}: its {kind} {safe_text(str(name), 60)} would run code of another "
                "program; give the history a database of its own"
            )


def _bring_up_to_date(connection: Connection, shown: str) -> None:
    """Make all tables, or bring those that there are to the newest version, in one transaction."""
    is_there = inspect(connection).has_table(VERSION_TABLE)
    if is_there:
        upgrade(connection, shown)
    bring_tasks_up_to_date(connection, shown)
    if (
        not is_there
    ):  # as the migrations do, but without Alembic, which takes long to import
        METADATA.create_all(connection, checkfirst=False)
        table = f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) PRIMARY KEY)"
        connection.execute(text(table))
        connection.execute(text(f"INSERT INTO {VERSION_TABLE} VALUES ('{REVISION}')"))  # noqa: S608 - constants


def upgrade(connection: Connection, shown: str) -> None:
    """Run the migrations that a database lacks."""
    try:
        from alembic import command
        from alembic.config import Config
        from alembic.util import CommandError
    except ImportError:
        raise HistoryError(NOT_INSTALLED.format("alembic")) from None
    config = Config()
    folder = str(Path(__file__).parent / "migrations").replace("%", "%%")
    config.set_main_option("script_location", folder)
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except (CommandError, AssertionError):
        raise HistoryError(
            f"{shown}: the version of the history is none that this program knows; give the path "
            "of another one"
        ) from None


def _version_of_tasks(connection: Connection, shown: str) -> int | None:
    """Return the version of the table `tasks`; `None` if there is no such table.

    The table comes from a program that keeps its version in a one-row table
    `schema_version(version)` or, without one, in SQLite's `user_version`.

    Raises:
        HistoryError: the table is of another version, or not the one that is known.
    """
    found = inspect(connection)
    if not found.has_table("tasks"):
        return None
    version = None
    if found.has_table("schema_version"):
        versions = (
            connection.execute(text("SELECT version FROM schema_version"))
            .scalars()
            .all()
        )
        with suppress(TypeError, ValueError, OverflowError):
            version = max(map(int, versions))
    elif connection.dialect.name == "sqlite":
        version = (
            int(connection.execute(text("PRAGMA user_version")).scalar_one()) or None
        )
    if version is None or not _has_column(connection, "status"):
        raise HistoryError(
            f"{shown}: it has a table `tasks` of another program; "
            "give the history a database of its own"
        )
    if version > TASKS_VERSION:
        raise HistoryError(
            f"{shown}: its table `tasks` is of schema version {version}, newer than "
            f"{TASKS_VERSION}, the newest that this program knows; upgrade pytest-failure-taxonomy"
        )
    if version < TASKS_VERSION - 1:
        raise HistoryError(
            f"{shown}: its table `tasks` is of schema version {version}; open it once with a newer "
            f"version of the program that made it, which brings it to {TASKS_VERSION - 1}"
        )
    return version


def _has_column(connection: Connection, name: str) -> bool:
    return any(
        column["name"] == name for column in inspect(connection).get_columns("tasks")
    )


def bring_tasks_up_to_date(connection: Connection, shown: str) -> None:
    """Bring the table `tasks` to its newest version, or create it.

    Raises:
        HistoryError: the table is of another version, or not the one that is known.
    """
    version = _version_of_tasks(connection, shown)
    if version == TASKS_VERSION:
        return
    if version is None:
        TASKS.create(connection)
    else:
        if not _has_column(connection, "failure_reason"):
            connection.execute(text("ALTER TABLE tasks ADD COLUMN failure_reason TEXT"))
        connection.execute(
            text(
                "UPDATE tasks SET failure_reason = 'UNKNOWN' "
                "WHERE status = 'failed' AND failure_reason IS NULL"
            )
        )
    if inspect(connection).has_table("schema_version"):
        connection.execute(text(f"UPDATE schema_version SET version = {TASKS_VERSION}"))  # noqa: S608 - a constant
    elif connection.dialect.name == "sqlite":
        connection.execute(text(f"PRAGMA user_version = {TASKS_VERSION}"))
    else:
        connection.execute(
            text("CREATE TABLE schema_version (version INTEGER NOT NULL)")
        )
        connection.execute(text(f"INSERT INTO schema_version VALUES ({TASKS_VERSION})"))  # noqa: S608 - a constant
