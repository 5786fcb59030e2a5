"""Open the history and take runs in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Self

from sqlalchemy import Connection, Engine, create_engine, event, insert, select, update
from sqlalchemy.engine import make_url

from pytest_failure_taxonomy.history.tables import (
    CAUSES,
    FAILURES,
    METADATA,
    PROJECTS,
    RUN_CAUSES,
    RUNS,
    TESTS,
)

DEFAULT_FOLDER: Final = ".failure-taxonomy"
DEFAULT_NAME: Final = "history.db"
VARIABLE: Final = "FAILURE_TAXONOMY_HISTORY"
MAX_TEXT: Final = 2_000


def open_history(
    url: str | os.PathLike[str] | None = None, *, rootdir: str | os.PathLike[str] | None = None
) -> History:
    """Open the history, and create it when it is first used.

    Args:
        url: a URL of SQLAlchemy or the path of an SQLite database; by default what the environment
            variable `FAILURE_TAXONOMY_HISTORY` says, else `.failure-taxonomy/history.db` below
            `rootdir`.
        rootdir: by default the working directory.
    """
    given = os.fspath(url) if url is not None else os.environ.get(VARIABLE)
    if not given:
        folder = Path(rootdir or ".").absolute() / DEFAULT_FOLDER
        folder.mkdir(exist_ok=True)
        given = str(folder / DEFAULT_NAME)
    engine = create_engine(make_url(given) if "://" in given else f"sqlite:///{given}")
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _set_up_sqlite)
    METADATA.create_all(engine)
    return History(engine)


def _set_up_sqlite(connection: Any, _: object) -> None:
    for pragma in (
        "journal_mode=WAL",
        "foreign_keys=ON",
        "busy_timeout=5000",
        "synchronous=NORMAL",
    ):
        connection.execute(f"PRAGMA {pragma}")


class History:
    """An open history. Close it, or use it in a `with` statement."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the database."""
        self.engine.dispose()

    def add(self, report: Mapping[str, Any]) -> bool:
        """Take a run in; tell whether it was not there yet.

        Args:
            report: the JSON object of a report of the present schema version.
        """
        with self.engine.begin() as connection:
            known = select(RUNS.c.number).where(RUNS.c.id == report["run"]["id"])
            if connection.scalar(known) is not None:
                return False
            _add_run(connection, report)
            return True


def project_of(report: Mapping[str, Any]) -> str:
    """Return the name of the project that a report is of."""
    own = report["extensions"].get("pytest_failure_taxonomy", {})
    named = own.get("git", {}).get("repository")
    return str(named or Path(report["run"]["invocation"]["rootdir"]).name or "unknown")


def digest_of(nodeid: str) -> str:
    """Return the digest by which a test is found."""
    return blake2b(nodeid.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _add_run(connection: Connection, report: Mapping[str, Any]) -> None:
    project = _project_id(connection, project_of(report))
    at = datetime.fromisoformat(report["run"]["started_at"]).astimezone(UTC).replace(tzinfo=None)
    number = _insert_run(connection, report, project, at)
    causes = {
        group["fingerprint"]: _cause_id(connection, group, project, at)
        for group in report["groups"]
    }
    seconds = dict.fromkeys(causes, 0.0)
    rows = []
    for failure in report["failures"]:
        fingerprint = failure["fingerprint"]
        if fingerprint not in causes:
            continue
        seconds[fingerprint] += failure["duration_seconds"] or 0.0
        rows.append(
            {
                "run_number": number,
                "test_id": _test_id(connection, failure["nodeid"], project, at),
                "cause_id": causes[fingerprint],
                "phase": failure["phase"],
                "seconds": failure["duration_seconds"],
                "message": (failure["exception"] or {}).get("message", "")[:MAX_TEXT],
            }
        )
    if rows:
        connection.execute(insert(FAILURES), rows)
    if causes:
        connection.execute(
            insert(RUN_CAUSES),
            [
                {
                    "run_number": number,
                    "cause_id": causes[group["fingerprint"]],
                    "count": group["count"],
                    "seconds": seconds[group["fingerprint"]],
                }
                for group in report["groups"]
            ],
        )


def _insert_run(
    connection: Connection, report: Mapping[str, Any], project: int, at: datetime
) -> int:
    run, verdict, summary = report["run"], report["verdict"] or {}, report["summary"]
    shard, git = run["shard"] or {}, report["environment"]["git"] or {}
    ci = report["environment"]["ci"] or {}
    own = report["extensions"].get("pytest_failure_taxonomy", {})
    done = connection.execute(
        insert(RUNS).values(
            id=run["id"],
            project_id=project,
            source="report",
            started_at=at,
            duration_seconds=run["duration_seconds"],
            stage=run["stage"],
            completeness=report["completeness"],
            shard_index=shard.get("index"),
            shard_total=shard.get("total"),
            exit_code=report["exit"]["code"],
            exit_signal=report["exit"]["signal"],
            reason=verdict.get("reason"),
            kind=verdict.get("kind"),
            message=verdict.get("message"),
            nodeid=verdict.get("nodeid"),
            retryable=verdict.get("retryable"),
            owner=verdict.get("owner"),
            commit_id=git.get("commit"),
            branch=git.get("branch"),
            dirty=git.get("dirty"),
            merge_base=own.get("git", {}).get("merge_base"),
            ci_provider=ci.get("provider"),
            ci_run_id=ci.get("run_id"),
            ci_job=ci.get("job"),
            **{
                name: summary[name]
                for name in ("collected", "passed", "failed", "errors", "skipped", "flaky")
            },
            not_run=summary["not_run"],
            added_at=datetime.now(UTC).replace(tzinfo=None),
        )
    )
    return int((done.inserted_primary_key or (0,))[0])


def _project_id(connection: Connection, name: str) -> int:
    found = connection.scalar(select(PROJECTS.c.id).where(PROJECTS.c.name == name))
    if found is not None:
        return int(found)
    done = connection.execute(insert(PROJECTS).values(name=name))
    return int((done.inserted_primary_key or (0,))[0])


def _cause_id(connection: Connection, group: Mapping[str, Any], project: int, at: datetime) -> int:
    wanted = (CAUSES.c.project_id == project) & (CAUSES.c.fingerprint == group["fingerprint"])
    found = connection.execute(select(CAUSES).where(wanted)).one_or_none()
    if found is not None:
        connection.execute(
            update(CAUSES)
            .where(CAUSES.c.id == found.id)
            .values(
                first_seen=min(at, found.first_seen),
                last_seen=max(at, found.last_seen),
                runs=found.runs + 1,
            )
        )
        return int(found.id)
    done = connection.execute(
        insert(CAUSES).values(
            project_id=project,
            first_seen=at,
            last_seen=at,
            runs=1,
            **{name: group[name] for name in ("fingerprint", "reason", "kind", "title", "owner")},
        )
    )
    return int((done.inserted_primary_key or (0,))[0])


def _test_id(connection: Connection, nodeid: str, project: int, at: datetime) -> int:
    digest = digest_of(nodeid)
    wanted = (TESTS.c.project_id == project) & (TESTS.c.digest == digest)
    found = connection.scalar(select(TESTS.c.id).where(wanted))
    if found is not None:
        seen = {"last_seen": at, "last_failed": at}
        connection.execute(update(TESTS).where(TESTS.c.id == found).values(seen))
        return int(found)
    done = connection.execute(
        insert(TESTS).values(
            project_id=project,
            digest=digest,
            nodeid=nodeid,
            first_seen=at,
            last_seen=at,
            last_failed=at,
        )
    )
    return int((done.inserted_primary_key or (0,))[0])
