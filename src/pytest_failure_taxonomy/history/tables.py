"""The tables of the history, and how runs get into them.

Times are UTC without a zone; what is capped is capped on the way in.

All names but that of `tasks`, which the format of another program gives, begin with `ft_`, so that
the tables can live in a database that has others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import groupby
from math import isfinite
from operator import itemgetter
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from pytest_failure_taxonomy.text import bench_name

METADATA: Final = sa.MetaData()

# SQLite counts up whole INTEGER keys alone.
_Key = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _columns(kind: Any, *names: str, nullable: bool = True) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=nullable) for name in names]


PROJECTS: Final = sa.Table(
    "ft_projects",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
)
"""Whose tests the runs are of: two projects can have tests and commits of the same names."""
TRIAL: Final = "trial"
"""The source of a run that a harness of agents has left."""

ENVIRONMENTS: Final = sa.Table(
    "ft_environments",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("digest", sa.String(32), nullable=False, unique=True),
    sa.Column("installed", sa.Text, nullable=False),
)
"""What runs had installed, as `installed_in` tells it, one a line. Each list is there once."""

COUNTED: Final = (
    "collected",
    "passed",
    "failed",
    "errors",
    "skipped",
    "flaky",
    "not_run",
)
"""Of a report's `summary`, what the history keeps."""
RUNS: Final = sa.Table(
    "ft_runs",
    METADATA,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("id", sa.String(32), nullable=False, unique=True),
    sa.Column("project_id", sa.ForeignKey(PROJECTS.c.id), nullable=False),
    sa.Column("source", sa.String(16), nullable=False),
    sa.Column("started_at", sa.DateTime, nullable=False),
    sa.Column("duration_seconds", sa.Float),
    *_columns(sa.String(16), "stage", "completeness", nullable=False),
    *_columns(sa.Integer, "shard_index", "shard_total", "exit_code"),
    sa.Column("exit_signal", sa.String(16)),
    sa.Column("reason", sa.String(32)),
    *_columns(sa.Text, "kind", "message", "nodeid"),
    sa.Column("retryable", sa.Boolean),
    sa.Column("owner", sa.String(16)),
    sa.Column("commit_id", sa.String(64)),
    sa.Column("branch", sa.Text),
    sa.Column("dirty", sa.Boolean),
    sa.Column("merge_base", sa.String(64)),
    sa.Column("ci_provider", sa.String(32)),
    *_columns(sa.Text, "ci_run_id", "ci_job"),
    *_columns(sa.Integer, *COUNTED, nullable=False),
    sa.Column("added_at", sa.DateTime, nullable=False),
    sa.Column("environment_id", sa.Integer),
    sa.Column("charge_to", sa.String(16)),
    sa.Column("storm", sa.Text),
    sa.Column("storm_tests", sa.Integer),
    sa.Index("ft_runs_by_time", "project_id", "started_at"),
)
"""One row a run; `reason` and what follows it are null where it succeeded. `source` is `report`,
`junit` or `TRIAL`; `environment_id` is that of a row of `ft_environments`; `charge_to` is null,
too, where nobody had asked; `storm` is what of the environment most tests failed of, and
`storm_tests` how many, where there is such a cause."""

TESTS: Final = sa.Table(
    "ft_tests",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("project_id", sa.ForeignKey(PROJECTS.c.id), nullable=False),
    sa.Column("digest", sa.String(32), nullable=False),
    sa.Column("nodeid", sa.Text, nullable=False),
    *_columns(sa.DateTime, "first_seen", "last_seen", nullable=False),
    sa.Column("last_failed", sa.DateTime),
    sa.Column("last_passed_run", sa.Integer),
    sa.UniqueConstraint("project_id", "digest", name="ft_tests_by_digest"),
)
"""One row a test, updated in place. `digest` is BLAKE2b of the node id, 16 bytes in hexadecimal,
because PostgreSQL can't index long texts."""
# Room to update a row beside its old version. (`postgresql_with` is new in SQLAlchemy 2.1.)
sa.event.listen(
    TESTS,
    "after_create",
    sa.DDL(  # type: ignore[no-untyped-call]  # SQLAlchemy's
        "ALTER TABLE ft_tests SET (fillfactor = 45)"
    ).execute_if(dialect="postgresql"),
)

OUTCOMES: Final = sa.Table(
    "ft_outcomes",
    METADATA,
    sa.Column(
        "run_number", sa.ForeignKey(RUNS.c.number, ondelete="CASCADE"), primary_key=True
    ),
    sa.Column("test_id", sa.ForeignKey(TESTS.c.id), primary_key=True),
    sa.Column("outcome", sa.String(16), nullable=False),
    sa.Column("seconds", sa.Float),
    sa.Index("ft_outcomes_by_test", "test_id", "run_number"),
    sqlite_with_rowid=False,  # the key has all of a row, so that one search finds a run's
)
"""How a test ended in a run, where that was no plain pass; and passes of tests that have failed."""

CAUSES: Final = sa.Table(
    "ft_causes",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("project_id", sa.ForeignKey(PROJECTS.c.id), nullable=False),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Column("reason", sa.String(32), nullable=False),
    *_columns(sa.Text, "kind", "title", nullable=False),
    sa.Column("owner", sa.String(16)),
    sa.UniqueConstraint("project_id", "fingerprint", name="ft_causes_by_fingerprint"),
)
"""One row a group of failures of one fingerprint."""

RUN_CAUSES: Final = sa.Table(
    "ft_run_causes",
    METADATA,
    sa.Column(
        "run_number", sa.ForeignKey(RUNS.c.number, ondelete="CASCADE"), primary_key=True
    ),
    sa.Column("cause_id", sa.ForeignKey(CAUSES.c.id), primary_key=True),
    sa.Column("count", sa.Integer, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("in_storm", sa.Boolean),
    sa.Index("ft_run_causes_by_cause", "cause_id", "run_number"),
    sqlite_with_rowid=False,
)
"""How many failures a run had of a cause, those that its report doesn't list included, the seconds
that the listed ones took, and whether they are those of the run's storm."""

FAILURES: Final = sa.Table(
    "ft_failures",
    METADATA,
    sa.Column("id", _Key, primary_key=True),
    sa.Column(
        "run_number", sa.ForeignKey(RUNS.c.number, ondelete="CASCADE"), nullable=False
    ),
    sa.Column("test_id", sa.ForeignKey(TESTS.c.id), nullable=False),
    sa.Column("cause_id", sa.ForeignKey(CAUSES.c.id), nullable=False),
    sa.Column("phase", sa.String(8), nullable=False),
    sa.Column("seconds", sa.Float),
    sa.Column("message", sa.Text),
    sa.Index("ft_failures_by_run", "run_number"),
    sa.Index("ft_failures_by_cause", "cause_id", "run_number"),
    sa.Index("ft_failures_by_test", "test_id", "run_number"),
)
"""One row a failure that a report lists; `phase` is `collect` for what could not be collected."""

PROOFS: Final = sa.Table(
    "ft_proofs",
    METADATA,
    sa.Column("project_id", sa.ForeignKey(PROJECTS.c.id), primary_key=True),
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("type", sa.String(32), nullable=False),
    sa.Column("proof", sa.Text, nullable=False),
    sa.Column("known_since", sa.DateTime, nullable=False),
)
"""What was proven of a cause, by its key and by each of its fingerprints: `causes[].proof` of the
report as JSON, and the start of the first run of which it was proven."""

ATTEMPTS: Final = sa.Table(
    "ft_attempts",
    METADATA,
    sa.Column("id", _Key, primary_key=True),
    *_columns(sa.Text, "subtask_id", "approach", nullable=False),
    sa.Column("success", sa.Boolean, nullable=False),
    sa.Column("error", sa.Text),
    *_columns(sa.String(32), "failure_type", "reason"),
    sa.Column("run_id", sa.String(32)),
    sa.Column("commit_id", sa.String(64)),
    sa.Column("at", sa.DateTime, nullable=False),
    sa.Index("ft_attempts_by_subtask", "subtask_id", "at"),
    sa.Index("ft_attempts_by_run", "run_id"),
)
"""One row an attempt at a subtask."""

BENCH_RUNS: Final = sa.Table(
    "ft_bench_runs",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column(
        "run_number", sa.ForeignKey(RUNS.c.number, ondelete="CASCADE"), nullable=False
    ),
    *_columns(sa.Text, "bench_run_id", "task_class", nullable=False),
    sa.Column("complete", sa.Boolean, nullable=False),
    *_columns(sa.Integer, "scheduled", "graded", "passed", nullable=False),
    *_columns(sa.Float, "mean_score", "lower_bound_95", "total_cost_usd"),
    sa.Column("gate", sa.String(16)),
    sa.UniqueConstraint("run_number", "bench_run_id", name="ft_bench_runs_by_id"),
)
"""One row a task class that a run has run."""

TASKS: Final = sa.Table(
    "tasks",
    sa.MetaData(),
    sa.Column("id", sa.String(200), primary_key=True),
    sa.Column("status", sa.String(32), nullable=False),
    sa.Column("failure_reason", sa.Text),
    sa.Column("based_on", sa.String(200)),
    *_columns(sa.DateTime, "created_at", "updated_at", nullable=False),
)
"""The table of tasks in a database that had none of another program."""

MAX_TEXT: Final = 2_000
"""Characters of a message that are kept."""
MAX_NODEID: Final = 10_000
_MAX_PROJECT: Final = 500
"""Characters of a project's name: PostgreSQL can't index long ones."""
MAX_INSTALLED: Final = 100_000
"""Characters of a list of what is installed."""
AT_ONCE: Final = 500
"""Values that one query looks for."""


def clean_text(text: Any, limit: int = MAX_TEXT) -> Any:
    """Return a text that any database can hold: capped, without nulls and lone surrogates."""
    if not isinstance(text, str):
        return None
    return (
        text[:limit].replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    )


def digest_of(nodeid: str) -> str:
    """Return the digest by which a test, or another long text, is found."""
    return blake2b(nodeid.encode("utf-8", "replace"), digest_size=16).hexdigest()


def started_at(report: Mapping[str, Any]) -> datetime:
    """Return when a run started, in UTC and without a zone, as the tables have it."""
    at = datetime.fromisoformat(report["run"]["started_at"])
    return at.astimezone(UTC).replace(tzinfo=None)


def parts(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield the items in parts that a database takes in one statement."""
    for start in range(0, len(items), AT_ONCE):
        yield items[start : start + AT_ONCE]


def rows_with(
    connection: sa.Connection,
    query: sa.Select[Any],
    column: Any,
    values: Sequence[Any],
    **given: Any,
) -> Iterator[sa.Row[Any]]:
    """Yield the rows of a query in which a column has one of the values, however many these are."""
    for some in parts(values):
        yield from connection.execute(query.where(column.in_(some)), given).all()


WATCHED_RUNS: Final = 1_000
"""For so many runs after its last failure, each pass of a test is kept."""
_FAILED: Final = frozenset({"failed", "error", "flaky", "in_flight"})
"""Outcomes after which a test counts as one that has failed."""
_OF_VERDICT: Final = ("reason", "kind", "retryable", "charge_to")
_COMPLETENESS: Final = ("running", "reconstructed", "full")


def add_run(connection: sa.Connection, report: Mapping[str, Any], source: str) -> bool:
    """Take a run in, unless it is there already and as complete; tell which of the two."""
    wanted = RUNS.c.id == report["run"]["id"]
    known = connection.execute(
        sa.select(RUNS.c.number, RUNS.c.completeness).where(wanted)
    ).first()
    if known is not None:
        rank = _COMPLETENESS.index
        if rank(report["completeness"]) <= rank(known.completeness):
            return False
        remove_runs(connection, [known.number])
    _Addition(connection, report, source).add()
    return True


def keep_proofs(connection: sa.Connection, report: Mapping[str, Any]) -> None:
    """Keep what experiments on a run have proven of its causes, in the place of earlier proofs."""
    proven: dict[str, Mapping[str, Any]] = {}
    for cause in report["causes"]:
        proof = cause["proof"]
        if proof and proof["status"] == "proven" and proof["known_since"] is None:
            proven |= dict.fromkeys((cause["key"], *cause["fingerprints"]), proof)
    if not proven:
        return
    project = _id_of_project(connection, report)
    known = sa.select(PROOFS).where(PROOFS.c.project_id == project)
    since = {
        (row.name, row.type): row.known_since
        for row in rows_with(connection, known, PROOFS.c.name, list(proven))
    }
    for some in parts(list(proven)):
        is_one = (PROOFS.c.project_id == project) & PROOFS.c.name.in_(some)
        connection.execute(sa.delete(PROOFS).where(is_one))
    at = started_at(report)
    rows = [
        {
            "project_id": project,
            "name": name,
            "type": proof["type"],
            "proof": json.dumps(proof),
            "known_since": min(at, since.get((name, proof["type"]), at)),
        }
        for name, proof in proven.items()
    ]
    connection.execute(sa.insert(PROOFS), rows)


FEWEST_IN_STORM: Final = 10
"""Fewer may be a file whose tests need what was missing, and that somebody has run by itself."""


def storm_of(report: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, int]:
    """Return the cause of the environment that most tests of a run failed of, and how many did."""
    causes = [
        cause for cause in report["causes"] if cause["charge_to"] == "environment"
    ]
    summary = report["summary"]
    failed = summary["failed"] + summary["errors"]
    biggest = max(causes, key=itemgetter("count"), default=None)
    tests = min(biggest["count"], failed) if biggest else 0
    is_storm = tests >= FEWEST_IN_STORM and 2 * tests > summary["passed"] + failed
    return (biggest, tests) if is_storm else (None, 0)


def _id_of_project(connection: sa.Connection, report: Mapping[str, Any]) -> int:
    """Return the id of a report's project, which gets one if it has none."""
    name = project_of(report)
    known = connection.scalar(sa.select(PROJECTS.c.id).where(PROJECTS.c.name == name))
    if known is None:
        done = connection.execute(sa.insert(PROJECTS).values(name=name))
        (known,) = done.inserted_primary_key or (0,)
    return int(known)


def project_of(report: Mapping[str, Any]) -> str:
    """Return the name of the project that a report is of.

    That is the repository's name where the report has it, else the name of the root directory. A
    trial of a harness is of its task: tests and failures of two tasks have nothing in common, even
    where they are called the same.
    """
    trial, repository = report["trial"] or {}, report["repository"] or {}
    named = trial.get("task") or repository.get("name")
    rootdir = str(report["run"]["invocation"]["rootdir"]).replace("\\", "/")
    name = named or rootdir.rstrip("/").rpartition("/")[2] or "unknown"
    return str(clean_text(str(name), _MAX_PROJECT))


def branch_of(report: Mapping[str, Any]) -> str | None:
    """Return the branch that was tested, as git or the CI system tells it."""
    git, ci = report["environment"]["git"] or {}, report["environment"]["ci"] or {}
    ref = ci.get("ref")
    return git.get("branch") or (str(ref).removeprefix("refs/heads/") if ref else None)


def installed_in(report: Mapping[str, Any]) -> list[str]:
    """Return `name-version` of what was installed, Python too; nothing where nobody has looked."""
    environment = report["environment"]
    listed = environment["distributions"]
    return (
        [] if listed is None else sorted([f"python-{environment['python']}", *listed])
    )


def remove_runs(connection: sa.Connection, numbers: Sequence[int]) -> None:
    """Remove runs with all that is known of them, and the causes that no other run had."""
    for some in parts(numbers):
        for table in (OUTCOMES, FAILURES, RUN_CAUSES, BENCH_RUNS):
            connection.execute(sa.delete(table).where(table.c.run_number.in_(some)))
        connection.execute(sa.delete(RUNS).where(RUNS.c.number.in_(some)))
    had = sa.exists().where(RUN_CAUSES.c.cause_id == CAUSES.c.id)
    connection.execute(sa.delete(CAUSES).where(~had))
    had = sa.exists().where(RUNS.c.environment_id == ENVIRONMENTS.c.id)
    connection.execute(sa.delete(ENVIRONMENTS).where(~had))


_AT: Final = sa.bindparam("at", type_=sa.DateTime)


def _later_than(column: sa.Column[Any]) -> Any:
    return sa.case(((column < _AT) | column.is_(None), _AT), else_=column)


def _update_of_tests(**changed: Any) -> sa.Update:
    is_one = TESTS.c.id.between(sa.bindparam("first"), sa.bindparam("last"))
    earliest = sa.case((TESTS.c.first_seen > _AT, _AT), else_=TESTS.c.first_seen)
    always = {"first_seen": earliest, "last_seen": _later_than(TESTS.c.last_seen)}
    return sa.update(TESTS).where(is_one).values({**always, **changed})


# Made once: SQLAlchemy takes longer to make a statement than SQLite to execute it.
_SEEN_TESTS: Final = _update_of_tests()
_PASSED_TESTS: Final = _update_of_tests(last_passed_run=sa.bindparam("run"))
_FAILED_TESTS: Final = _update_of_tests(last_failed=_later_than(TESTS.c.last_failed))
_NTH_LAST_RUN: Final = (
    sa.select(RUNS.c.started_at)
    .where(RUNS.c.project_id == sa.bindparam("project"))
    .order_by(RUNS.c.started_at.desc())
    .offset(sa.bindparam("offset"))
    .limit(1)
)
_TESTS_OF_PROJECT: Final = sa.select(
    *TESTS.c["id", "digest", "last_passed_run"],
    # Failed in one of the last `WATCHED_RUNS` runs.
    (TESTS.c.last_failed > sa.bindparam("since")).label("is_watched"),
).where(TESTS.c.project_id == sa.bindparam("project"))


class _Seen(NamedTuple):
    """One test in one run."""

    outcome: str
    seconds: float | None


class _Addition:
    """One run on its way into the tables."""

    def __init__(
        self, connection: sa.Connection, report: Mapping[str, Any], source: str
    ) -> None:
        self._connection = connection
        self._report = report
        self._source = source if report["trial"] is None else TRIAL
        self._at = started_at(report)
        self._project = _id_of_project(connection, report)
        self._number = 0
        # Who has to mend a cause, rather than whose code has raised it.
        self._owners = {
            name: cause["owner"]
            for cause in reversed(report["causes"])
            for name in (cause["kind"], *cause["fingerprints"])
        }

    def add(self) -> None:
        """Write all rows."""
        self._number = self._insert_run()
        seen = self._seen()
        tests = self._tests(
            seen, {each for each, one in seen.items() if one.outcome in _FAILED}
        )
        self._insert_failures(tests, self._causes())
        self._insert_all(
            OUTCOMES,
            (
                {
                    "run_number": self._number,
                    "test_id": tests[nodeid].id,
                    "outcome": one.outcome,
                    "seconds": one.seconds if isfinite(one.seconds or 0.0) else None,
                }
                for nodeid, one in seen.items()
                if one.outcome != "passed" or tests[nodeid].is_watched
            ),
        )
        self._insert_benches()

    def _insert(self, table: sa.Table, **values: Any) -> int:
        done = self._connection.execute(sa.insert(table), values)
        return int((done.inserted_primary_key or (0,))[0])

    def _insert_all(self, table: sa.Table, rows: Iterable[dict[str, Any]]) -> None:
        if listed := list(rows):
            self._connection.execute(sa.insert(table), listed)

    def _insert_run(self) -> int:
        report = self._report
        run, verdict, summary = (
            report["run"],
            report["verdict"] or {},
            report["summary"],
        )
        shard, environment = run["shard"] or {}, report["environment"]
        git, ci = environment["git"] or {}, environment["ci"] or {}
        repository = report["repository"] or {}
        storm, tests = storm_of(report)
        return self._insert(
            RUNS,
            storm=storm and clean_text(storm["what"]),
            storm_tests=tests or None,
            id=run["id"],
            project_id=self._project,
            source=self._source,
            started_at=self._at,
            duration_seconds=run["duration_seconds"],
            stage=run["stage"],
            completeness=report["completeness"],
            shard_index=shard.get("index"),
            shard_total=shard.get("total"),
            exit_code=report["exit"]["code"],
            exit_signal=report["exit"]["signal"],
            message=clean_text(verdict.get("message")),
            nodeid=clean_text(verdict.get("nodeid"), MAX_NODEID),
            **{name: verdict.get(name) for name in _OF_VERDICT},
            owner=self._owners.get(verdict.get("kind"), verdict.get("owner")),
            commit_id=clean_text(git.get("commit") or ci.get("commit"), 64),
            branch=clean_text(branch_of(report)),
            dirty=git.get("dirty"),
            merge_base=clean_text(repository.get("merge_base"), 64),
            ci_provider=clean_text(ci.get("provider"), 32),
            ci_run_id=clean_text(ci.get("run_id")),
            ci_job=clean_text(ci.get("job")),
            added_at=datetime.now(UTC).replace(tzinfo=None),
            environment_id=self._environment(),
            **{name: summary[name] for name in COUNTED},
        )

    def _environment(self) -> int | None:
        """Return the id of what the run had installed, which is added if it is new."""
        installed = clean_text("\n".join(installed_in(self._report)), MAX_INSTALLED)
        if not installed:
            return None
        digest = digest_of(installed)
        wanted = sa.select(ENVIRONMENTS.c.id).where(ENVIRONMENTS.c.digest == digest)
        known: int | None = self._connection.scalar(wanted)
        return known or self._insert(ENVIRONMENTS, digest=digest, installed=installed)

    def _seen(self) -> dict[str, _Seen]:
        """Return how each test ended, by its node id; without `tests`, of those that failed."""
        seen: dict[str, _Seen] = {}
        for test in self._report["tests"] or ():
            seen[_nodeid(test["nodeid"])] = _Seen(
                test["outcome"], test["duration_seconds"]
            )
        for failure in self._report["failures"]:
            outcome = "failed" if failure["phase"] == "call" else "error"
            nodeid = _nodeid(failure["nodeid"])
            if nodeid not in seen or seen[nodeid].outcome not in _FAILED:
                seen[nodeid] = _Seen(outcome, failure["duration_seconds"])
        for failed in self._report["collection_errors"]:
            seen.setdefault(_nodeid(failed["nodeid"]), _Seen("error", None))
        for test in self._report["in_flight"]:
            seen[_nodeid(test["nodeid"])] = _Seen("in_flight", test["elapsed_seconds"])
        return seen

    def _tests(
        self, seen: Mapping[str, _Seen], failing: set[str]
    ) -> dict[str, sa.Row[Any]]:
        """Bring the rows of tests up to date; return what they were before, by node id."""
        digests = {digest_of(nodeid): nodeid for nodeid in seen}
        known = {digests[each.digest]: each for each in self._known(digests)}
        made = [nodeid for nodeid in seen if nodeid not in known]
        self._insert_all(
            TESTS,
            (
                {
                    "project_id": self._project,
                    "digest": digest_of(nodeid),
                    "nodeid": nodeid,
                    "first_seen": self._at,
                    "last_seen": self._at,
                    "last_failed": self._at if nodeid in failing else None,
                    "last_passed_run": self._number
                    if seen[nodeid].outcome == "passed"
                    else None,
                }
                for nodeid in made
            ),
        )
        passed = {nodeid for nodeid, one in seen.items() if one.outcome == "passed"}
        # The tests of a run were numbered one after the other, so they are few ranges of rows.
        for nodeids, update in (
            (passed, _PASSED_TESTS),
            (failing, _FAILED_TESTS),
            (seen.keys() - passed - failing, _SEEN_TESTS),
        ):
            ids = {known[nodeid].id for nodeid in nodeids if nodeid in known}
            successive = groupby(
                enumerate(sorted(ids)), key=lambda pair: pair[1] - pair[0]
            )
            for row_ids in ([row_id for _, row_id in pairs] for _, pairs in successive):
                ends = {"first": row_ids[0], "last": row_ids[-1]}
                given = {**ends, "at": self._at, "run": self._number}
                self._connection.execute(update, given)
        self._tell_last_passes(known, failing)
        if made:
            fresh = {digest_of(nodeid): nodeid for nodeid in made}
            known |= {fresh[each.digest]: each for each in self._known(fresh)}
        return known

    def _known(self, digests: Mapping[str, str]) -> Sequence[Any]:
        """Return the tests with these digests that are there."""
        if not digests:
            return []
        given: dict[str, Any] = {"project": self._project}
        offset = {"offset": WATCHED_RUNS + 1}  # this run is there already
        since = self._connection.scalar(_NTH_LAST_RUN, {**given, **offset})
        given["since"] = since or datetime.min  # noqa: DTZ901 - as the tables have it, in UTC
        if len(digests) > 4 * AT_ONCE:  # quicker than many queries
            rows: Sequence[Any] = self._connection.execute(
                _TESTS_OF_PROJECT, given
            ).all()
            return [row for row in rows if row.digest in digests]
        named = TESTS.c.digest, list(digests)
        return [*rows_with(self._connection, _TESTS_OF_PROJECT, *named, **given)]

    def _tell_last_passes(
        self, known: Mapping[str, sa.Row[Any]], failing: set[str]
    ) -> None:
        """Write the last pass down of tests that fail for the first time in a long while.

        Passes of tests that don't fail are not kept, each by itself. With this one it can be seen
        that a test has passed and failed on one commit.
        """
        passes = {
            each.id: each.last_passed_run
            for nodeid, each in known.items()
            if nodeid in failing
            and not each.is_watched
            and each.last_passed_run is not None
        }
        is_there = rows_with(
            self._connection,
            sa.select(RUNS.c.number),
            RUNS.c.number,
            sorted(set(passes.values())),
        )
        runs = {row.number for row in is_there}
        for row in rows_with(
            self._connection,
            sa.select(OUTCOMES.c.test_id),
            sa.tuple_(OUTCOMES.c.test_id, OUTCOMES.c.run_number),
            list(passes.items()),
        ):
            del passes[row.test_id]  # from when the test was watched
        self._insert_all(
            OUTCOMES,
            (
                {
                    "run_number": run,
                    "test_id": test,
                    "outcome": "passed",
                    "seconds": None,
                }
                for test, run in passes.items()
                if run in runs
            ),
        )

    def _causes(self) -> dict[str, int]:
        """Add the causes that are new; return the ids of all by fingerprint."""
        groups = {each["fingerprint"]: each for each in self._report["groups"]}
        of_project = sa.select(CAUSES).where(CAUSES.c.project_id == self._project)
        found = rows_with(
            self._connection, of_project, CAUSES.c.fingerprint, list(groups)
        )
        ids = {row.fingerprint: int(row.id) for row in found}
        for fingerprint, group in groups.items():
            if fingerprint not in ids:
                ids[fingerprint] = self._insert(
                    CAUSES,
                    project_id=self._project,
                    fingerprint=fingerprint,
                    reason=group["reason"],
                    kind=group["kind"],
                    title=clean_text(group["title"]),
                    owner=self._owners.get(fingerprint, group["owner"]),
                )
        return ids

    def _insert_failures(
        self, tests: Mapping[str, sa.Row[Any]], causes: Mapping[str, int]
    ) -> None:
        groups = self._report["groups"]
        of_node = {
            nodeid: each["fingerprint"] for each in groups for nodeid in each["nodeids"]
        }
        listed = [
            *(
                (each, each["phase"], each["fingerprint"])
                for each in self._report["failures"]
            ),
            *(
                (each, "collect", of_node.get(each["nodeid"]))
                for each in self._report["collection_errors"]
            ),
        ]
        rows = []
        took = dict.fromkeys(causes, 0.0)
        for failure, phase, fingerprint in listed:
            if fingerprint not in causes:  # groups are capped as well
                continue
            seconds, raised = (
                failure.get("duration_seconds"),
                failure["exception"] or {},
            )
            took[fingerprint] += seconds or 0.0
            said = raised.get("message") or failure.get("message") or ""
            rows.append(
                {
                    "run_number": self._number,
                    "test_id": tests[_nodeid(failure["nodeid"])].id,
                    "cause_id": causes[fingerprint],
                    "phase": phase,
                    "seconds": seconds,
                    "message": clean_text(
                        f"{raised['type']}: {said}" if raised else said
                    ),
                }
            )
        self._insert_all(FAILURES, rows)
        storm, _ = storm_of(self._report)
        self._insert_all(
            RUN_CAUSES,
            (
                {
                    "run_number": self._number,
                    "cause_id": causes[group["fingerprint"]],
                    "count": group["count"],
                    "seconds": took[group["fingerprint"]],
                    "in_storm": storm and group["fingerprint"] in storm["fingerprints"],
                }
                for group in groups
            ),
        )

    def _insert_benches(self) -> None:
        for bench in self._report["bench"]:
            counts, gate = bench["counts"], bench.get("gate") or {}
            bound = bench.get("lower_bound_95") or {}
            self._insert(
                BENCH_RUNS,
                run_number=self._number,
                bench_run_id=clean_text(bench["run_id"]),
                task_class=clean_text(bench_name(bench)),
                complete=bench["complete"],
                **{name: counts[name] for name in ("scheduled", "graded", "passed")},
                mean_score=bench["mean_score"],
                lower_bound_95=bound.get("value"),
                total_cost_usd=bench["total_cost_usd"],
                gate=clean_text(gate.get("verdict"), 16),
            )


def _nodeid(nodeid: str) -> str:
    return clean_text(nodeid, MAX_NODEID) or ""
