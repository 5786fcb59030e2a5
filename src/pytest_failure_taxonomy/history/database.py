"""Open the database of the history: find it, connect, bring it up to date, and word its errors."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.errors import HistoryError

try:
    from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, text
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
except ImportError as error:
    raise HistoryError(
        f"history: {error.name or 'SQLAlchemy'} is not installed; "
        'pip install "pytest-failure-taxonomy[history]"'
    ) from None

FOLDER: Final = ".failure-taxonomy"
NAME: Final = "history.db"
VARIABLE: Final = "FAILURE_TAXONOMY_HISTORY"
REVISION: Final = "0001"
"""The newest migration; a test compares it with the scripts."""
VERSION_TABLE: Final = "ft_schema"
BUSY_SECONDS: Final = 30.0
"""How long a command waits for another process that writes."""
_ADVISORY_LOCK: Final = 7_162_540_118_223_091
"""The number of our lock in PostgreSQL; any number that no other program is likely to use."""
_SQLITE_MAGIC: Final = b"SQLite format 3\x00"


def find_url(
    url: str | os.PathLike[str] | None = None, *, rootdir: str | os.PathLike[str] | None = None
) -> URL:
    """Return where the history is.

    Args:
        url: a URL of SQLAlchemy or the path of an SQLite database; by default what the environment
            variable `FAILURE_TAXONOMY_HISTORY` says, else `.failure-taxonomy/history.db` below
            `rootdir`.
        rootdir: by default the working directory.

    Raises:
        HistoryError: it is no URL that can be used.
    """
    given = os.fspath(url) if url is not None else os.environ.get(VARIABLE, "")
    if url is not None and not given.strip():
        raise HistoryError("history: the URL is empty; give a path, or a URL of SQLAlchemy")
    if not given:
        given = str(Path(rootdir or ".").absolute() / FOLDER / NAME)
    if "\0" in given:
        raise HistoryError("history: the URL holds a null character; give a path or a URL")
    if "://" not in given:
        return URL.create("sqlite", database=str(Path(given).expanduser().absolute()))
    try:
        found = make_url(given)
        found.get_dialect()
    except (ArgumentError, NoSuchModuleError, ValueError):
        scheme = given.partition("://")[0]
        raise HistoryError(
            f"history: {scheme}://... is no URL of SQLAlchemy; give one such as "
            "sqlite:////path/history.db or postgresql://user@host/database"
        ) from None
    if found.drivername == "postgresql":  # the driver that the extra installs
        found = found.set(drivername="postgresql+psycopg")
    return found


def exists(url: URL) -> bool:
    """Tell whether there is a history already; of a server that is known only when asked."""
    return not _is_file(url) or os.path.exists(url.database or "")


def connect(url: URL, *, wait_seconds: float = BUSY_SECONDS) -> Engine:
    """Connect to a database, which is created if it is an SQLite file.

    Args:
        url: as `find_url` returns it.
        wait_seconds: how long to wait for other processes that write, and for a server.

    Raises:
        HistoryError: it can't be opened, or is not ours.
    """
    is_sqlite = url.get_backend_name() == "sqlite"
    if _is_file(url):
        _make_folder(Path(url.database or ""))
        _refuse_other_files(url)
    options: dict[str, Any] = {}
    if is_sqlite:
        options["timeout"] = wait_seconds
    elif url.get_backend_name() == "postgresql":
        options["connect_timeout"] = max(2, int(wait_seconds))
    with worded(url):
        try:
            engine = create_engine(url, connect_args=options)
        except ImportError as error:
            raise HistoryError(
                f"history: {error.name or url.drivername} is not installed; "
                'pip install "pytest-failure-taxonomy[history]"'
            ) from None
        if is_sqlite:
            event.listen(engine, "connect", _set_up_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
        try:
            with engine.connect() as connection:
                version = _version_of(connection)
            if version != REVISION:
                _migrate(engine, url)
            if is_sqlite:
                _let_readers_go_on(engine)
        except BaseException:
            engine.dispose()
            raise
    return engine


@contextmanager
def writing(engine: Engine, url: URL) -> Iterator[Connection]:
    """Begin a transaction that writes; other writers wait for its end."""
    with worded(url), engine.connect() as plain:
        connection = plain.execution_options(writes=True)
        with connection.begin():
            if engine.dialect.name == "postgresql":
                connection.execute(text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})"))
            yield connection


@contextmanager
def reading(engine: Engine, url: URL) -> Iterator[Connection]:
    """Begin a transaction that only reads."""
    with worded(url), engine.connect() as connection, connection.begin():
        yield connection


@contextmanager
def worded(url: URL) -> Iterator[None]:
    """Turn an error of the database into one line without a password."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise HistoryError(_words(url, error)) from None
    except OSError as error:
        what = error.strerror or str(error)
        raise HistoryError(f"{_shown(url)}: the history can't be used: {what}") from None


def _shown(url: URL) -> str:
    if _is_file(url):
        return str(url.database)
    plain = url.set(drivername=url.get_backend_name(), query={})
    return plain.render_as_string(hide_password=True)


def _words(url: URL, error: Exception) -> str:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    said = " ".join(str(cause).split()) or type(cause).__name__
    if url.password:
        said = said.replace(str(url.password), "***")
    lowered = said.lower()
    known = (
        ("database is locked", "another process has locked it; try again when it has ended"),
        ("readonly", "it can't be written; give a path that can be, by --history"),
        ("read-only", "it can't be written; give a path that can be, by --history"),
        ("unable to open", "it can't be opened; give a path that can be, by --history"),
        ("disk is full", "the disk is full; make room and add the report again"),
        ("disk i/o", "the disk can't be written; make room and add the report again"),
        ("not a database", "it is no SQLite database; give another path by --history"),
        ("malformed", "the database is damaged; restore it, or give another path by --history"),
    )
    if url.get_backend_name() == "sqlite":
        for sign, advice in known:
            if sign in lowered:
                return f"{_shown(url)}: the history can't be used: {advice}"
    return f"{_shown(url)}: the history can't be used: {said[:300]}"


def _is_file(url: URL) -> bool:
    is_sqlite = url.get_backend_name() == "sqlite"
    return is_sqlite and bool(url.database) and not str(url.database).startswith(("file:", ":"))


def _make_folder(path: Path) -> None:
    """Make the folder of our own name, with a `.gitignore`; any other one has to be there."""
    folder = path.parent
    if folder.is_dir():
        return
    if folder.name != FOLDER:
        raise HistoryError(f"{path}: there is no folder {folder}; make it, or give another path")
    try:
        folder.mkdir()
        with suppress(OSError):
            (folder / ".gitignore").write_text("*\n", "utf-8")
    except FileExistsError:
        if not folder.is_dir():
            raise HistoryError(f"{folder}: a file is in the way; give another path") from None
    except OSError as error:
        raise HistoryError(
            f"{folder}: the folder can't be made: {error.strerror}; give a path by --history"
        ) from None


def _refuse_other_files(url: URL) -> None:
    """Raise HistoryError if the file is something else; SQLite would only say so later."""
    path = Path(url.database or "")
    if not path.exists():
        return
    if not path.is_file():
        raise HistoryError(f"{path}: it is not a file; give the name of an SQLite database")
    with worded(url), path.open("rb") as file:
        start = file.read(len(_SQLITE_MAGIC))
    if start and start != _SQLITE_MAGIC:
        raise HistoryError(
            f"{path}: it is no SQLite database; give the path of a history, or of a new file"
        )


def _set_up_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # transactions begin where `_begin_sqlite` says so
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def _let_readers_go_on(engine: Engine) -> None:
    """Turn SQLite's write-ahead log on, which stays on; not before it is known to be ours."""
    plain = engine.raw_connection()
    try:  # read-only, in use, or on a file system without shared memory
        with suppress(sqlite3.OperationalError):
            plain.cursor().execute("PRAGMA journal_mode=WAL")
    finally:
        plain.close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _version_of(connection: Connection) -> str | None:
    """Return the migration that a database has; `None` for one without our tables."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalars().all()  # noqa: S608 - a constant
    return str(found[0]) if found else None


def _migrate(engine: Engine, url: URL) -> None:
    """Bring a database to the newest migration, in one transaction; another process may do too."""
    from pytest_failure_taxonomy.history.tasks import bring_up_to_date

    with writing(engine, url) as connection:
        version = _version_of(connection)
        if version == REVISION:
            return
        if version is not None and version > REVISION:
            raise HistoryError(
                f"{_shown(url)}: the history is of a newer version ({version}) than this program "
                f"knows ({REVISION}); upgrade pytest-failure-taxonomy"
            )
        _refuse_foreign_tables(connection, url, version)
        bring_up_to_date(connection, _shown(url))
        _upgrade(connection)


def _refuse_foreign_tables(connection: Connection, url: URL, version: str | None) -> None:
    from pytest_failure_taxonomy.history.tables import METADATA

    if version is not None:
        return
    foreign = sorted(set(METADATA.tables) & set(inspect(connection).get_table_names()) - {"tasks"})
    if foreign:
        raise HistoryError(
            f"{_shown(url)}: it has tables of another program ({', '.join(foreign)}); "
            "give the history a database of its own"
        )


def _upgrade(connection: Connection) -> None:
    try:
        from alembic import command
        from alembic.config import Config
    except ImportError:
        raise HistoryError(
            'history: alembic is not installed; pip install "pytest-failure-taxonomy[history]"'
        ) from None
    config = Config()
    folder = str(Path(__file__).parent / "migrations").replace("%", "%%")
    config.set_main_option("script_location", folder)
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
