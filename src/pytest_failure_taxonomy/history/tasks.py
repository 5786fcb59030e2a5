"""Tasks of an agent and why they failed: the table `tasks` of another program, and our own.

The table comes from a program that keeps its version in a one-row table `schema_version(version)`
or, without one, in SQLite's `user_version`. At version 10 it has a column `status`; version 11 adds
`failure_reason`. All that is known of its other columns is what the database itself says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Column, DateTime, MetaData, String, Table, Text, inspect, select, text

from pytest_failure_taxonomy.errors import HistoryError
from pytest_failure_taxonomy.taxonomy.reasons import UNKNOWN_MARKER, validate_marker
from pytest_failure_taxonomy.taxonomy.values import value

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from pytest_failure_taxonomy.history.store import History

OLD_VERSION: Final = 10
VERSION: Final = 11
FAILED: Final = "failed"
_SUCCEEDED: Final = frozenset({"completed", "done", "succeeded", "success", "merged", "passed"})
"""What programs call a task that has succeeded; any case."""
_NAMES: Final = ("slug", "task_id", "name", "title", "prompt", "description")
"""Columns that may hold what a task is called, the best first."""
_TIMES: Final = ("completed_at", "updated_at", "finished_at", "created_at")
_FOLLOWS: Final = ("based_on", "parent_id", "retry_of", "resumes")
"""Columns that may name the task that this one takes up again."""
MAX_NAME: Final = 200

OWN_TASKS: Final = Table(
    "tasks",
    MetaData(),
    Column("id", String(200), primary_key=True),
    Column("status", String(32), nullable=False),
    Column("failure_reason", Text),
    Column("based_on", String(200)),
    Column("created_at", DateTime, nullable=False),
    Column("updated_at", DateTime, nullable=False),
)
"""The table in a database that had none."""


@value
class TaskState:
    """One task."""

    id: str
    name: str
    """What it is called; its id where it has no name."""
    status: str
    failure_reason: str | None
    """`None` unless it has failed."""
    at: str | None
    """When it ended or was last changed, as the database has it."""

    @property
    def words(self) -> str:
        """The status as it is shown: `✗ failed (MAX_TURNS)`, a bare `✗ failed` for UNKNOWN."""
        return status_words(self.status, self.failure_reason)


def status_words(status: str, failure_reason: str | None) -> str:
    """Return a task's status as it is shown.

    Args:
        status: such as `failed`.
        failure_reason: of a failed task; not shown if it is `UNKNOWN` or `None`.
    """
    if status != FAILED:
        return f"✓ {status}" if is_success(status) else status
    is_told = failure_reason and failure_reason != UNKNOWN_MARKER
    return f"✗ failed ({failure_reason})" if is_told else "✗ failed"


def is_success(status: str) -> bool:
    """Tell whether a status means that the task has succeeded."""
    return status.lower() in _SUCCEEDED


def check_tasks(connection: Connection, shown: str) -> int | None:
    """Return the version of the table `tasks`; `None` if there is no such table.

    Args:
        connection: to the database.
        shown: the database's name for an error.

    Raises:
        HistoryError: the table is of another version, or not the one that is known.
    """
    found = inspect(connection)
    if not found.has_table("tasks"):
        return None
    version = _version(connection)
    if version is None or "status" not in _columns(connection):
        raise HistoryError(
            f"{shown}: it has a table `tasks` of another program; "
            "give the history a database of its own"
        )
    if version > VERSION:
        raise HistoryError(
            f"{shown}: its table `tasks` is of schema version {version}, newer than {VERSION}, the "
            "newest that this program knows; upgrade pytest-failure-taxonomy"
        )
    if version < OLD_VERSION:
        raise HistoryError(
            f"{shown}: its table `tasks` is of schema version {version}; open it once with a "
            f"newer version of the program that made it, which brings it to {OLD_VERSION}"
        )
    return version


def bring_up_to_date(connection: Connection, shown: str) -> None:
    """Bring the table `tasks` to version 11, or create it; within the caller's transaction.

    Raises:
        HistoryError: as `check_tasks` does.
    """
    version = check_tasks(connection, shown)
    if version is None:
        OWN_TASKS.create(connection)
        _set_version(connection)
    elif version == OLD_VERSION:
        if "failure_reason" not in _columns(connection):
            connection.execute(text("ALTER TABLE tasks ADD COLUMN failure_reason TEXT"))
        connection.execute(
            text(
                "UPDATE tasks SET failure_reason = 'UNKNOWN' "
                "WHERE status = 'failed' AND failure_reason IS NULL"
            )
        )
        _set_version(connection)


def _columns(connection: Connection) -> set[str]:
    return {column["name"] for column in inspect(connection).get_columns("tasks")}


def _version(connection: Connection) -> int | None:
    """Return the version of the table `tasks`; `None` if the database has none."""
    if inspect(connection).has_table("schema_version"):
        versions = connection.execute(text("SELECT version FROM schema_version")).scalars().all()
        try:
            return max(int(each) for each in versions)
        except (TypeError, ValueError, OverflowError):
            return None
    if connection.dialect.name != "sqlite":
        return None
    return int(connection.execute(text("PRAGMA user_version")).scalar_one()) or None


def _set_version(connection: Connection) -> None:
    if inspect(connection).has_table("schema_version"):
        connection.execute(
            text("UPDATE schema_version SET version = :version"), {"version": VERSION}
        )
    elif connection.dialect.name == "sqlite":
        connection.execute(text(f"PRAGMA user_version = {VERSION}"))
    else:
        connection.execute(text("CREATE TABLE schema_version (version INTEGER NOT NULL)"))
        connection.execute(
            text("INSERT INTO schema_version (version) VALUES (:version)"), {"version": VERSION}
        )


def record_task(
    history: History,
    task_id: str,
    status: str,
    *,
    log: str | None = None,
    report: dict[str, Any] | None = None,
    known: Iterable[str] = (),
    based_on: str | None = None,
) -> str | None:
    """Record a task's status, and why it failed; return that.

    A task that has not failed has no reason, so one that is taken up again loses its reason.

    Args:
        history: an open history.
        task_id: the task; it is made if the table is our own and it is not there.
        status: such as `failed`, `running` or `completed`.
        log: what a failed task has written: its last marker line counts, if it is a known one.
        report: of a failed task's run, whose verdict counts where there is no log.
        known: reasons of markers that are valid besides the three built-in ones.
        based_on: the task that this one takes up again.

    Raises:
        HistoryError: there is no such task, or the database can't be written.
    """
    reason = None
    if status == FAILED:
        reason = _reason_of(log, report, known)
    with history.writing() as connection:
        table = _table(connection)
        key = _key(table, task_id)
        wanted = table.c.id == key
        changed: dict[str, Any] = {"status": status, "failure_reason": reason}
        if "updated_at" in table.c:
            changed["updated_at"] = datetime.now(UTC).replace(tzinfo=None)
        if connection.execute(select(table.c.id).where(wanted)).first() is not None:
            connection.execute(table.update().where(wanted).values(changed))
        elif set(table.c.keys()) == set(OWN_TASKS.c.keys()):
            made = {"id": task_id, "based_on": based_on, "created_at": changed["updated_at"]}
            connection.execute(table.insert().values(**made, **changed))
        else:
            raise HistoryError(f"tasks: there is no task {task_id}; give the id of one that is")
    return reason


def _reason_of(log: str | None, report: dict[str, Any] | None, known: Iterable[str]) -> str:
    if log is not None:
        from pytest_failure_taxonomy.logs.marker_search import find_marker

        return find_marker(log, known=known)
    if report is not None:
        markers = [each["marker"] for each in report["failures"] if each["marker"]]
        if markers:
            return validate_marker(markers[-1], known)
        return str((report["verdict"] or {}).get("reason", UNKNOWN_MARKER))
    return UNKNOWN_MARKER


def list_tasks(history: History) -> list[TaskState]:
    """Return all tasks, in the order in which the table has them."""
    with history.reading() as connection:
        table = _table(connection)
        rows = connection.execute(select(table)).mappings().all()
    return [_state(row, table.c.keys()) for row in rows]


def unmerged(history: History) -> list[TaskState]:
    """Return the failed tasks that no success has followed.

    A success follows where a later task takes the failed one up again, itself or by way of others,
    or has the same name and comes later.
    """
    with history.reading() as connection:
        table = _table(connection)
        rows = list(connection.execute(select(table)).mappings().all())
    columns = table.c.keys()
    states = [_state(row, columns) for row in rows]
    link = next((name for name in _FOLLOWS if name in columns), None)
    followers: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        if link is not None and row[link] is not None:
            followers.setdefault(str(row[link]), []).append(index)

    def is_followed(index: int, seen: set[int]) -> bool:
        for later in followers.get(states[index].id, ()):
            if later in seen:
                continue
            seen.add(later)
            if is_success(states[later].status) or is_followed(later, seen):
                return True
        name = states[index].name
        return name != states[index].id and any(
            each.name == name and is_success(each.status) for each in states[index + 1 :]
        )

    return [
        state
        for index, state in enumerate(states)
        if state.status == FAILED and not is_followed(index, {index})
    ]


def _table(connection: Connection) -> Table:
    return Table("tasks", MetaData(), autoload_with=connection)


def _key(table: Table, task_id: str) -> Any:
    """Return the id in the type of the table's column."""
    is_number = "INT" in str(table.c.id.type).upper()
    if not is_number:
        return task_id
    try:
        return int(task_id)
    except ValueError:
        raise HistoryError(f"tasks: {task_id} is no task's id; give a number") from None


def _state(row: Any, columns: Sequence[str]) -> TaskState:
    name = next((row[each] for each in _NAMES if each in columns and row[each]), row["id"])
    at = next((row[each] for each in _TIMES if each in columns and row[each]), None)
    status = str(row["status"])
    return TaskState(
        id=str(row["id"]),
        name=" ".join(str(name).split())[:MAX_NAME],
        status=status,
        failure_reason=row["failure_reason"] if status == FAILED else None,
        at=None if at is None else str(at),
    )
