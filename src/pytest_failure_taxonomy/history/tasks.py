"""An agent's tasks and why they failed: the table `tasks`, another program's or ours.

At version 10 the table has a column `status`; version 11 adds `failure_reason`. All
that is known of its other columns is what the database itself says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from sqlalchemy import MetaData, Table, select

from pytest_failure_taxonomy.errors import HistoryError
from pytest_failure_taxonomy.history.tables import TASKS
from pytest_failure_taxonomy.taxonomy.judgement import UNKNOWN_MARKER, validate_marker
from pytest_failure_taxonomy.taxonomy.values import value

if TYPE_CHECKING:
    from pytest_failure_taxonomy.history.database import History
    from pytest_failure_taxonomy.report.model import FailureReport

FAILED: Final = "failed"
_SUCCEEDED: Final = frozenset(
    {"completed", "done", "succeeded", "success", "merged", "passed"}
)
"""What programs call a task that has succeeded; any case."""
_NAMES: Final = ("slug", "task_id", "name", "title", "prompt", "description")
"""Columns that may hold what a task is called, the best first."""
_TIMES: Final = ("completed_at", "updated_at", "finished_at", "created_at")
_FOLLOWS: Final = ("based_on", "parent_id", "retry_of", "resumes")
"""Columns that may name the task that this one takes up again."""
MAX_NAME: Final = 200


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
        """The status as it is shown, such as `✗ failed (MAX_TURNS)`."""
        return status_words(self.status, self.failure_reason)


def status_words(status: str, failure_reason: str | None) -> str:
    """Return a task's status as it is shown.

    Args:
        status: such as `failed`.
        failure_reason: of a failed task; not shown if it is `UNKNOWN` or `None`.
    """
    if status != FAILED:
        return f"✓ {status}" if is_success(status) else status
    if not failure_reason or failure_reason == UNKNOWN_MARKER:
        return "✗ failed"
    return f"✗ failed ({failure_reason})"


def is_success(status: str) -> bool:
    """Tell whether a status means that the task has succeeded."""
    return status.lower() in _SUCCEEDED


def record_task(
    history: History,
    task_id: str,
    status: str,
    *,
    log: str | None = None,
    report: FailureReport | None = None,
    known: Iterable[str] = (),
    based_on: str | None = None,
) -> str | None:
    """Record a task's status, and why it failed; return that.

    A task that has not failed has no reason, so one that is taken up again loses its
    reason.

    Args:
        history: an open history.
        task_id: the task; it is made if the table is our own and it is not there.
        status: such as `failed`, `running` or `completed`.
        log: what a failed task has written: its last marker line counts, if it is a
            known one.
        report: of a failed task's run, whose verdict counts where there is no log.
        known: reasons of markers that are valid besides the three built-in ones.
        based_on: the task that this one takes up again.

    Raises:
        HistoryError: there is no such task, or the database can't be written.
    """
    reason = None
    if status == FAILED:
        reason = _find_failure_reason(log, report, known)
    with history.writing() as connection:
        table = Table("tasks", MetaData(), autoload_with=connection)
        # The other program's ids may be numbers, which PostgreSQL compares with no
        # text.
        key: str | int = task_id
        if "INT" in str(table.c.id.type).upper():
            try:
                key = int(task_id)
            except ValueError:
                raise HistoryError(
                    f"tasks: {task_id} is no task's id; give a number"
                ) from None
        is_task = table.c.id == key
        changes: dict[str, object] = {"status": status, "failure_reason": reason}
        if "updated_at" in table.c:
            changes["updated_at"] = datetime.now(UTC).replace(tzinfo=None)
        if connection.execute(select(table.c.id).where(is_task)).first() is not None:
            connection.execute(table.update().where(is_task).values(changes))
        # Another program's table may require values that nobody but it can give.
        elif set(table.c.keys()) == set(TASKS.c.keys()):
            row = table.insert().values(
                id=task_id,
                based_on=based_on,
                created_at=changes["updated_at"],
                **changes,
            )
            connection.execute(row)
        else:
            raise HistoryError(
                f"tasks: there is no task {task_id}; give the id of one that is"
            )
    return reason


def _find_failure_reason(
    log: str | None,
    report: FailureReport | None,
    known: Iterable[str],
) -> str:
    """Return the marker of a log or a report, else the reason of its verdict."""
    if log is not None:
        from pytest_failure_taxonomy.logs.log_lines import find_marker

        return find_marker(log, known=known)
    if report is None:
        return UNKNOWN_MARKER
    for failure in reversed(report.failures):
        if failure.marker:
            return validate_marker(failure.marker, known)
    return UNKNOWN_MARKER if report.verdict is None else str(report.verdict.reason)


def list_tasks(history: History) -> list[TaskState]:
    """Return all tasks, in the order in which the table has them."""
    return [state for state, _ in _read_tasks(history)]


def unmerged(history: History) -> list[TaskState]:
    """Return the failed tasks that no success has followed.

    A success follows where a later task takes the failed one up again, itself or by way
    of others, or has the same name and comes later.
    """
    tasks = [*_read_tasks(history)]
    followed_by_id = {state.id: followed for state, followed in tasks}
    last_success = {}
    for index, (state, _) in enumerate(tasks):
        if is_success(state.status):
            last_success[state.name] = index
    over: set[str | None] = {None}
    for index, (state, followed) in enumerate(tasks):
        task = followed if is_success(state.status) else None
        # A task without a name has its id for one, which no other task has.
        if state.name != state.id and last_success.get(state.name, 0) > index:
            task = state.id
        # With a task that is over, all those are that it took up again.
        while task not in over:
            over.add(task)
            task = followed_by_id.get(str(task))
    return [
        state for state, _ in tasks if state.status == FAILED and state.id not in over
    ]


def _read_tasks(history: History) -> Iterator[tuple[TaskState, str | None]]:
    """Yield each task, and the id of the one that it takes up again."""
    with history.reading() as connection:
        table = Table("tasks", MetaData(), autoload_with=connection)
        rows = connection.execute(select(table)).mappings().all()
    link = next((name for name in _FOLLOWS if name in table.c), None)
    for row in rows:
        name = next(filter(None, map(row.get, _NAMES)), row["id"])
        at = next(filter(None, map(row.get, _TIMES)), None)
        followed = link and row[link]
        status = str(row["status"])
        state = TaskState(
            id=str(row["id"]),
            name=" ".join(str(name).split())[:MAX_NAME],
            status=status,
            failure_reason=row["failure_reason"] if status == FAILED else None,
            at=None if at is None else str(at),
        )
        yield state, None if followed is None else str(followed)
