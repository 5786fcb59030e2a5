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
from pytest_failure_taxonomy.history.tables import (
    METADATA,
    TASKS,
    add_run,
    record_proofs,
)  # isort: skip

if TYPE_CHECKING:
    from pytest_failure_taxonomy.report.model import FailureReport

REVISION: Final = "0006"
"""The newest migration; a test compares it with the scripts."""
VERSION_TABLE: Final = "ft_schema"
TASKS_VERSION: Final = 11
"""Of the table `tasks`; version 10, without `failure_reason`, is migrated."""
BUSY_SECONDS: Final = 30.0
"""How long a command waits for a process that holds the lock and writes nothing."""
_ADVISORY_LOCK: Final = 7_162_540_118_223_091
"""The number of our lock in PostgreSQL, which no other program is likely to use."""
_UNFIT: Final = (ArithmeticError, TypeError, ValueError, struct.error)
"""What values of a database raise that this program has not written, and settings of a
URL."""
_SQLITE_MAGIC: Final = b"SQLite format 3\x00"
_END_OF_SUPER_JOURNAL: Final = bytes.fromhex("d9d505f920a163d7")
"""How a journal ends that names another file, which SQLite removes when it rolls the
journal back.
"""
_NO_CODE: Final = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^]]*]"""
    r"|--[^\n]*|/\*.*?(?:\*/|\Z)",
    re.DOTALL,
)
"""Texts, quoted names and comments in the schema of an SQLite database."""
_CODE: Final = re.compile(
    r"\b(AS|VIRTUAL|LIKE|GLOB|MATCH|REGEXP)\b|\bINDEX\b[^(]*\([^)]*\(", re.IGNORECASE
)
"""Finds what would run code.

That is a view, a generated column, a virtual table or an index of an expression.
"""
_CODE_IN_OURS: Final = re.compile(
    rf"{_CODE.pattern}|\b(CHECK|DEFAULT|WHERE)\b", re.IGNORECASE
)
"""The same, and constraints that our own tables never have, unlike a foreign `tasks`.
"""


_ADVICE: Final = {
    "database is locked": "another process has locked it; try again when it has ended",
    "readonly": "it can't be written; give a path that can be, with --history",
    "read-only": "it can't be written; give a path that can be, with --history",
    "unable to open": "it can't be opened; give a path that can be, with --history",
    "disk is full": "the disk is full; make room and add the report again",
    "disk i/o": "the disk can't be written; make room and add the report again",
    "not a database": "it is no SQLite database; give another path with --history",
    "malformed": "the database is damaged; restore it, or give another path with "
    "--history",
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
        url: an SQLAlchemy URL or the path of an SQLite database; by default the value
            of the environment variable `FAILURE_TAXONOMY_HISTORY`, else
            `.failure-taxonomy/history.db` below `rootdir`.
        rootdir: by default the working directory.
        create: make an SQLite database that is not there.
        wait_seconds: how long to wait for other processes that write, and for a server.

    Raises:
        HistoryError: there is none, it can't be opened, or it is of a newer version.
    """
    place = find_url(url, rootdir=rootdir)
    path = _find_file(place)
    if not create and path is not None and not os.path.lexists(path):
        raise HistoryError(
            f"{place.database}: there is no history yet; run pytest with "
            "--failure-taxonomy-history, or add reports by: "
            "failure-taxonomy history add REPORT"
        )
    return History(place, wait_seconds=wait_seconds)


def find_url(
    url: str | os.PathLike[str] | None = None,
    *,
    rootdir: str | os.PathLike[str] | None = None,
) -> URL:
    """Return where the history is; for the arguments, see `open_history`.

    Raises:
        HistoryError: it is no URL that can be used.
    """
    place = os.fspath(url) if url is not None else os.environ.get(VARIABLE, "")
    if url is not None and not place.strip():
        raise HistoryError(
            "history: the URL is empty; give a path, or an SQLAlchemy URL"
        )
    if not place:
        root = Path(rootdir or ".").absolute()
        place = str(root / FOLDER / NAME)
        # A checkout can bring a link that leads anywhere.
        own_place = os.path.join(os.path.realpath(root), FOLDER, NAME)
        if os.path.realpath(place) != own_place:
            raise HistoryError(
                f"{place}: it is a symbolic link, or its folder is; remove the link, "
                "or name the database that is meant with --history"
            )
    if "\0" in place:
        raise HistoryError(
            "history: the URL holds a null character; give a path or a URL"
        )
    if CONNECTION_STRING.match(place):
        raise HistoryError(f"history: {NO_CONNECTION_STRING}")
    if "://" not in place:
        return URL.create("sqlite", database=str(Path(place).expanduser().absolute()))
    try:
        parsed = make_url(place)
        parsed.get_dialect()
    except (ArgumentError, NoSuchModuleError, ValueError):
        # The rest may have a password.
        scheme = place.partition("://")[0]
        raise HistoryError(
            f"history: {scheme}://... is not an SQLAlchemy URL; give one such as "
            "sqlite:////path/history.db or postgresql://user@host/database"
        ) from None
    # The driver that the extra installs.
    if parsed.drivername == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    return parsed


class History:
    """An open history. Close it, or use it in a `with` statement."""

    def __init__(self, url: URL, *, wait_seconds: float = BUSY_SECONDS) -> None:
        """Connect to a database, which is created if it is an SQLite file.

        Nothing is written before the database is known to be ours, or to become ours.

        Args:
            url: as `find_url` returns it.
            wait_seconds: how long to wait for other processes that write, and for a
                server.

        Raises:
            HistoryError: it can't be opened, or is not ours.
        """
        self._url = url
        self.is_sqlite = url.get_backend_name() == "sqlite"
        with self._word_errors():
            path = _find_file(url)
            if path is not None and os.path.exists(path):
                _inspect_file(path)
            elif path is not None and not str(url.database).startswith("file:"):
                _make_folder(path)
                _create(path)
            settings = _choose_settings(url, wait_seconds)
            try:
                self.engine = create_engine(url, connect_args=settings)
            except ImportError as error:
                missing = error.name or url.drivername
                raise HistoryError(NOT_INSTALLED.format(missing)) from None
            try:
                self._begin()
            except BaseException:
                self.close()
                raise

    def _begin(self) -> None:
        """Bring the database up to date; let SQLite's readers and writers overlap."""
        if self.is_sqlite:
            event.listen(self.engine, "connect", _set_up_sqlite)
            event.listen(self.engine, "begin", _begin_sqlite)
        shown = _show(self._url)
        with self.engine.connect() as connection:
            is_current = _is_current(connection, shown)
        if not is_current:
            with self.writing() as connection:
                # Another process may have been quicker, before we had the lock.
                if not _is_current(connection, shown):
                    _bring_up_to_date(connection, shown)
        if self.is_sqlite:
            # Only now is the database known to be ours: the mode of a write-ahead log
            # stays on. It may be read-only, in use, or on a file system without shared
            # memory.
            with (
                suppress(sqlite3.OperationalError),
                closing(self.engine.raw_connection()) as plain,
            ):
                plain.cursor().execute("PRAGMA journal_mode=WAL")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        self.engine.dispose()

    def add(self, report: FailureReport, *, source: str = "report") -> bool:
        """Add a run in one transaction; tell whether that changed anything.

        Only a more complete report replaces a run that is already there, for example
        one that `failure-taxonomy finalize` has completed. Proofs of its causes are
        recorded in any case.

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
        """Begin a transaction for any number of runs; yield the function that adds one.

        A run that can't be added raises `HistoryError` and is skipped; the runs before
        and after it are added. An error of the database itself ends the transaction,
        and adds nothing.
        """
        with self.writing() as connection:

            def add(report: FailureReport, source: str) -> bool:
                if report.completeness == "running":
                    raise HistoryError(
                        f"run {report.run.id}: it is still running, or was never "
                        "completed; complete its report by: "
                        "failure-taxonomy finalize REPORT"
                    )
                savepoint = connection.begin_nested()
                # Only errors of values: after others SQLite may have rolled back all.
                try:
                    is_new = add_run(connection, report, source)
                    if is_new:
                        add_attempt_of(connection, report)
                    record_proofs(connection, report)
                except (DataError, *_UNFIT) as error:
                    savepoint.rollback()
                    words = " ".join(str(getattr(error, "orig", error)).split())
                    raise HistoryError(
                        f"run {report.run.id}: it can't be added: "
                        f"{safe_text(words, 300)}"
                    ) from None
                savepoint.commit()
                return is_new

            yield add

    def shrink(self) -> None:
        """Give the space that an SQLite database no longer needs back to the disk."""
        with self._word_errors(), self.engine.connect() as connection:
            # VACUUM can't run within a transaction, and SQLAlchemy has begun one.
            connection.exec_driver_sql("COMMIT")
            connection.exec_driver_sql("VACUUM")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Begin a transaction that reads."""
        with self._word_errors(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Begin a transaction that writes; others that write wait for its end."""
        with self._word_errors(), self.engine.connect() as plain:
            connection = plain.execution_options(writes=True)
            with connection.begin():
                # Else two processes could insert the same project or test at once.
                if self.engine.dialect.name == "postgresql":
                    lock = text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")
                    connection.execute(lock)
                yield connection

    @contextmanager
    def _word_errors(self) -> Iterator[None]:
        """Turn an error of the database, or of its values, into one line."""
        try:
            yield
        except OSError as error:
            words = error.strerror or str(error)
        except (SQLAlchemyError, sqlite3.Error, *_UNFIT) as error:
            # What the driver says, without the statement that SQLAlchemy adds to it.
            cause: BaseException = error
            if isinstance(error, DBAPIError):
                cause = error.orig or error
            words = " ".join(str(cause).split()) or type(cause).__name__
            if self._url.password:
                words = words.replace(str(self._url.password), "***")
            advice = None
            if self.is_sqlite:
                lowered = words.lower()
                matching = (_ADVICE[sign] for sign in _ADVICE if sign in lowered)
                advice = next(matching, None)
            words = advice or safe_text(words, 300)
        else:
            return
        shown = _show(self._url)
        raise HistoryError(f"{shown}: the history can't be used: {words}") from None


def _choose_settings(url: URL, wait_seconds: float) -> dict[str, float | None]:
    """Return how the driver connects."""
    settings: dict[str, float | None] = {}
    if url.get_backend_name() == "sqlite":
        settings["timeout"] = wait_seconds
    elif url.get_backend_name() == "postgresql":
        settings["connect_timeout"] = max(2, int(wait_seconds))
    if url.get_driver_name() == "psycopg":
        # It would prepare statements, whose plans stay those for empty tables.
        settings["prepare_threshold"] = None
    return settings


def _show(url: URL) -> str:
    """Return where a database is, as messages say it: without a password."""
    path = _find_file(url)
    if path is not None:
        return str(path)
    plain = url.set(drivername=url.get_backend_name(), query={})
    return plain.render_as_string(hide_password=True)


def _find_file(url: URL) -> Path | None:
    """Return the file of an SQLite database; `None` if it has none."""
    name = url.database or ""
    if name.startswith("file:"):
        name = unquote(name.removeprefix("file:").removeprefix("//"))
    is_in_memory = url.query.get("mode") == "memory" or name.startswith(":")
    if url.get_backend_name() != "sqlite" or is_in_memory or not name:
        return None
    return Path(name).absolute()


def _make_folder(path: Path) -> None:
    """Make the folder of our own name, with a `.gitignore`; others have to be there."""
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
            f"{folder}: the folder can't be made: {error.strerror}; "
            "give a path with --history"
        ) from None


def _inspect_file(path: Path) -> None:
    """Raise HistoryError if a file is not our database, before SQLite can write it."""
    if not path.is_file():
        raise HistoryError(
            f"{path}: it is not a file; give the name of an SQLite database"
        )
    with path.open("rb") as file:
        start = file.read(len(_SQLITE_MAGIC))
    if start and start != _SQLITE_MAGIC:
        raise HistoryError(
            f"{path}: it is no SQLite database; give the path of a history, or of a "
            "new file"
        )
    side_files = [Path(os.path.realpath(path) + suffix) for suffix in SIDE_FILES]
    for side_file in side_files:
        is_other = os.path.lexists(side_file) and not os.path.isfile(side_file)
        if os.path.islink(side_file) or is_other:
            raise HistoryError(f"{side_file}: it is no file of a database; remove it")
    journal, log, _ = side_files
    end = b""
    with suppress(OSError), journal.open("rb") as file:
        file.seek(-len(_END_OF_SUPER_JOURNAL), os.SEEK_END)
        end = file.read()
    if end == _END_OF_SUPER_JOURNAL:
        raise HistoryError(f"{journal}: it would remove another file; remove it")
    # An immutable database is read as it is: no journal is rolled back, no log merged.
    query = {"mode": "ro", "immutable": "1", "uri": "true"}
    url = URL.create("sqlite", database=path.as_uri(), query=query)
    engine = create_engine(url)
    try:
        # One that is damaged, or is just being written, is looked at again under a
        # lock.
        with suppress(SQLAlchemyError), engine.connect() as connection:
            _is_current(connection, str(path))
            if start and not inspect(connection).get_table_names() and log.exists():
                raise HistoryError(
                    f"{path}: all that it holds is in {log.name}; open it with the "
                    "program that made it, or give another path"
                )
    finally:
        engine.dispose()


def _create(path: Path) -> None:
    """Make a database beside its path, and link it there when complete.

    If another process was quicker, that one's stays. A process that is killed leaves no
    empty file and no journal. Where there are no hard links, the tables are made in
    place.
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
    # Transactions begin where `_begin_sqlite` says so, not before the first change.
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA synchronous=NORMAL")


def _begin_sqlite(connection: Connection) -> None:
    """Begin a transaction; one that writes waits in a queue.

    SQLite itself gives up after its timeout even if other processes write one after the
    other. Here that is the time in which nothing at all was written.
    """
    if not connection.get_execution_options().get("writes", False):
        connection.exec_driver_sql("BEGIN")
        return
    path = str(_find_file(connection.engine.url) or "")
    before = last_written(path)
    while True:
        try:
            # A transaction that began as a reader couldn't wait for the lock later on.
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


def _is_current(connection: Connection, shown: str) -> bool:
    """Tell whether a database is up to date; raise HistoryError if it is not for us."""
    version = None
    tables = set(inspect(connection).get_table_names())
    is_sqlite = connection.dialect.name == "sqlite"
    if is_sqlite:
        _refuse_code(connection, shown)
    if VERSION_TABLE in tables:
        query = f"SELECT version_num FROM {VERSION_TABLE}"  # noqa: S608 - a constant
        versions = connection.scalars(text(query)).all()
        version = max(map(str, versions), default="unknown")
        if version > REVISION:
            raise HistoryError(
                f"{shown}: the history is of a newer version "
                f"({safe_text(version, 32)}) than this program knows ({REVISION}); "
                "upgrade pytest-failure-taxonomy"
            )
    else:
        foreign = tables & set(METADATA.tables)
        # A server's database may be shared; an SQLite file with other tables isn't
        # ours.
        if not foreign and is_sqlite and "tasks" not in tables:
            foreign = tables
        if foreign:
            names = [safe_text(name, 60) for name in sorted(foreign)[:3]]
            raise HistoryError(
                f"{shown}: it has tables of another program ({', '.join(names)}); "
                "give the history a database of its own"
            )
    return (
        _read_tasks_version(connection, shown) == TASKS_VERSION and version == REVISION
    )


def _refuse_code(connection: Connection, shown: str) -> None:
    """Refuse an SQLite database that would run its author's code when it is used."""
    schema = connection.exec_driver_sql(
        "SELECT type, name, tbl_name, sql FROM sqlite_master"
    )
    for kind, name, table, sql in schema:
        lowered = str(table).lower()
        is_ours = lowered.startswith("ft_")
        # Other tables are never used, whatever they have.
        is_used = is_ours or lowered in ("tasks", "schema_version")
        code = _CODE_IN_OURS if is_ours else _CODE
        has_code = is_used and code.search(_NO_CODE.sub(" ", str(sql or "")))
        if kind == "trigger" or has_code:
            raise HistoryError(
                f"{shown}: its {kind} {safe_text(str(name), 60)} would run code of "
                "another program; give the history a database of its own"
            )


def _bring_up_to_date(connection: Connection, shown: str) -> None:
    """Make all tables, or migrate them to the newest version, in one transaction."""
    is_there = inspect(connection).has_table(VERSION_TABLE)
    if is_there:
        upgrade(connection, shown)
    bring_tasks_up_to_date(connection, shown)
    if is_there:
        return
    # As the migrations would do, but Alembic takes long to import.
    METADATA.create_all(connection, checkfirst=False)
    table = f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) PRIMARY KEY)"
    connection.execute(text(table))
    row = f"INSERT INTO {VERSION_TABLE} VALUES ('{REVISION}')"  # noqa: S608 - constants
    connection.execute(text(row))


def upgrade(connection: Connection, shown: str) -> None:
    """Run the migrations that a database lacks."""
    try:
        from alembic import command
        from alembic.config import Config
        from alembic.util import CommandError
    except ImportError:
        raise HistoryError(NOT_INSTALLED.format("alembic")) from None
    config = Config()
    # A percent sign begins a reference of ConfigParser's.
    folder = str(Path(__file__).parent / "migrations").replace("%", "%%")
    config.set_main_option("script_location", folder)
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except (CommandError, AssertionError):
        raise HistoryError(
            f"{shown}: the version of the history is none that this program knows; "
            "give the path of another one"
        ) from None


def _read_tasks_version(connection: Connection, shown: str) -> int | None:
    """Return the version of the table `tasks`; `None` if there is no such table.

    The table comes from a program that writes its version to a one-row table
    `schema_version(version)` or, without one, to SQLite's `user_version`.

    Raises:
        HistoryError: the table is of another version, or not the one that is known.
    """
    inspector = inspect(connection)
    if not inspector.has_table("tasks"):
        return None
    version = None
    if inspector.has_table("schema_version"):
        query = text("SELECT version FROM schema_version")
        versions = connection.scalars(query).all()
        with suppress(TypeError, ValueError, OverflowError):
            version = max(map(int, versions))
    elif connection.dialect.name == "sqlite":
        # 0 is that of a database in which nobody has set it.
        version = connection.scalar(text("PRAGMA user_version")) or None
    if version is None or not _has_column(connection, "status"):
        raise HistoryError(
            f"{shown}: it has a table `tasks` of another program; "
            "give the history a database of its own"
        )
    if version > TASKS_VERSION:
        raise HistoryError(
            f"{shown}: its table `tasks` is of schema version {version}, newer than "
            f"{TASKS_VERSION}, the newest that this program knows; upgrade "
            "pytest-failure-taxonomy"
        )
    if version < TASKS_VERSION - 1:
        raise HistoryError(
            f"{shown}: its table `tasks` is of schema version {version}; open it once "
            "with a newer version of the program that made it, which brings it to "
            f"{TASKS_VERSION - 1}"
        )
    return version


def _has_column(connection: Connection, name: str) -> bool:
    columns = inspect(connection).get_columns("tasks")
    return any(column["name"] == name for column in columns)


def bring_tasks_up_to_date(connection: Connection, shown: str) -> None:
    """Bring the table `tasks` to its newest version, or create it.

    Raises:
        HistoryError: the table is of another version, or not the one that is known.
    """
    version = _read_tasks_version(connection, shown)
    if version == TASKS_VERSION:
        return
    newest = TASKS_VERSION  # the only text that is put into these statements
    statements = []
    if version is None:
        TASKS.create(connection)
    else:
        if not _has_column(connection, "failure_reason"):
            statements.append("ALTER TABLE tasks ADD COLUMN failure_reason TEXT")
        statements.append(
            "UPDATE tasks SET failure_reason = 'UNKNOWN' "
            "WHERE status = 'failed' AND failure_reason IS NULL"
        )
    if inspect(connection).has_table("schema_version"):
        update = f"UPDATE schema_version SET version = {newest}"  # noqa: S608 - ours
        statements.append(update)
    elif connection.dialect.name == "sqlite":
        statements.append(f"PRAGMA user_version = {newest}")
    else:
        row = f"INSERT INTO schema_version VALUES ({newest})"  # noqa: S608 - ours
        statements += ["CREATE TABLE schema_version (version INTEGER NOT NULL)", row]
    for statement in statements:
        connection.execute(text(statement))
