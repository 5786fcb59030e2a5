"""The history: open it, and take runs in."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from math import isfinite, isnan, nan
from statistics import median
from typing import Any, Final, NamedTuple

from pytest_failure_taxonomy.errors import HistoryError
from pytest_failure_taxonomy.history.database import BUSY_SECONDS, Database, exists, find_url
from pytest_failure_taxonomy.report.build import object_at, own_extension
from pytest_failure_taxonomy.report.text import bench_name

# After `database`, which says in one line that SQLAlchemy is missing.
import sqlalchemy as sa  # isort: skip
from pytest_failure_taxonomy.history.attempts import add_attempt_of  # isort: skip
from pytest_failure_taxonomy.history.tables import (  # isort: skip
    AT_ONCE,
    BENCH_RUNS,
    CAUSES,
    COUNTED,
    FAILURES,
    MAX_NODEID,
    OUTCOMES,
    PROJECTS,
    RUN_CAUSES,
    RUNS,
    TESTS,
    clean_text,
    digest_of,
    parts,
    rows_with,
    started_at,
)

KEPT_DURATIONS: Final = 15
"""Of how many runs a test's duration is kept; the median is theirs."""
WATCHED_RUNS: Final = 1_000
"""For so many runs after its last failure, each pass of a test is kept."""
_DURATIONS_OF_A_RUN: Final = 1_000
"""Of how many tests a run's durations are kept, at least; in turns where there are more."""
_FAILED: Final = frozenset({"failed", "error", "flaky", "in_flight"})
"""Outcomes after which a test counts as one that has failed."""
_COMPLETENESS: Final = ("running", "reconstructed", "full")


def open_history(
    url: str | os.PathLike[str] | None = None,
    *,
    rootdir: str | os.PathLike[str] | None = None,
    create: bool = True,
    wait_seconds: float = BUSY_SECONDS,
) -> History:
    """Open the history, and bring it up to date if an older version has made it.

    Args:
        url: a URL of SQLAlchemy or the path of an SQLite database; by default what the environment
            variable `FAILURE_TAXONOMY_HISTORY` says, else `.failure-taxonomy/history.db` below
            `rootdir`.
        rootdir: by default the working directory.
        create: make an SQLite database that is not there.
        wait_seconds: how long to wait for other processes that write, and for a server.

    Raises:
        HistoryError: there is none, it can't be opened, or it is of a newer version.
    """
    found = find_url(url, rootdir=rootdir)
    if not create and not exists(found):
        raise HistoryError(
            f"{found.database}: there is no history yet; run pytest with "
            "--failure-taxonomy-history, or add reports by: failure-taxonomy history add REPORT"
        )
    return History(found, wait_seconds=wait_seconds)


class History(Database):
    """An open history. Close it, or use it in a `with` statement."""

    def add(self, report: Mapping[str, Any], *, source: str = "report") -> bool:
        """Take a run in, in one transaction; tell whether that changed anything.

        A run that is there already is replaced only by a more complete report of it, as when
        `failure-taxonomy finalize` has completed one.

        Args:
            report: the JSON object of a report of the present schema version, without secrets.
            source: `report`, or `junit` for one that was made of a JUnit file.

        Raises:
            HistoryError: the run still goes on, or the database can't be written.
        """
        if report["completeness"] == "running":
            raise HistoryError(
                f"run {report['run']['id']}: it is still running, or was never completed; "
                "complete its report by: failure-taxonomy finalize REPORT"
            )
        with self.writing() as connection:
            known = connection.execute(
                sa.select(RUNS.c.number, RUNS.c.completeness).where(
                    RUNS.c.id == report["run"]["id"]
                )
            ).one_or_none()
            if known is not None:
                rank = _COMPLETENESS.index
                if rank(report["completeness"]) <= rank(known.completeness):
                    return False
                remove_runs(connection, [known.number])
            _Addition(connection, report, source).add()
            return True


def project_of(report: Mapping[str, Any]) -> str:
    """Return the name of the project that a report is of.

    That is the repository's name where the report has it, else the name of the root directory.
    """
    named = object_at(own_extension(report), "git").get("repository")
    rootdir = str(report["run"]["invocation"]["rootdir"]).replace("\\", "/")
    name = named or rootdir.rstrip("/").rpartition("/")[2] or "unknown"
    return str(clean_text(str(name)))


def branch_of(report: Mapping[str, Any]) -> str | None:
    """Return the branch that was tested, as git or the CI system tells it."""
    git, ci = report["environment"]["git"] or {}, report["environment"]["ci"] or {}
    ref = ci.get("ref")
    return git.get("branch") or (str(ref).removeprefix("refs/heads/") if ref else None)


def remove_runs(connection: sa.Connection, numbers: Sequence[int]) -> None:
    """Remove runs with all that is known of them, and count the causes again."""
    began = RUNS.c.started_at
    for some in parts(numbers):
        causes = connection.scalars(
            sa.select(RUN_CAUSES.c.cause_id).where(RUN_CAUSES.c.run_number.in_(some)).distinct()
        ).all()
        for table in (OUTCOMES, FAILURES, RUN_CAUSES, BENCH_RUNS):
            connection.execute(sa.delete(table).where(table.c.run_number.in_(some)))
        connection.execute(sa.delete(RUNS).where(RUNS.c.number.in_(some)))
        for cause in causes:
            first, last, runs = connection.execute(
                sa.select(sa.func.min(began), sa.func.max(began), sa.func.count())
                .select_from(RUN_CAUSES.join(RUNS))
                .where(RUN_CAUSES.c.cause_id == cause)
            ).one()
            wanted = CAUSES.c.id == cause
            if not runs:
                connection.execute(sa.delete(CAUSES).where(wanted))
            else:
                counted = {"first_seen": first, "last_seen": last, "runs": runs}
                connection.execute(sa.update(CAUSES).where(wanted).values(counted))


class _Seen(NamedTuple):
    """One test in one run."""

    outcome: str
    seconds: float | None


class _KnownTest(NamedTuple):
    """One test as it was before this run."""

    id: int
    digest: str
    is_watched: bool
    """It has failed in one of the last `WATCHED_RUNS` runs."""
    last_passed_run: int | None


class _Addition:
    """One run on its way into the tables."""

    def __init__(self, connection: sa.Connection, report: Mapping[str, Any], source: str) -> None:
        self._connection = connection
        self._report = report
        self._source = source
        self._at = started_at(report)
        name = project_of(report)
        known = connection.scalar(sa.select(PROJECTS.c.id).where(PROJECTS.c.name == name))
        self._project = self._insert(PROJECTS, name=name) if known is None else int(known)
        self._number = 0

    def add(self) -> None:
        """Write all rows."""
        self._number = self._insert_run()
        seen = self._seen()
        tests = self._tests(seen, {each for each, one in seen.items() if one.outcome in _FAILED})
        self._insert_failures(tests, self._causes())
        self._insert_all(
            OUTCOMES,
            (
                {
                    "run_number": self._number,
                    "test_id": tests[nodeid].id,
                    "outcome": one.outcome,
                    "seconds": _finite(one.seconds),
                }
                for nodeid, one in seen.items()
                if one.outcome != "passed" or tests[nodeid].is_watched
            ),
        )
        self._insert_benches()
        add_attempt_of(self._connection, self._report)

    def _insert(self, table: sa.Table, **values: Any) -> int:
        done = self._connection.execute(sa.insert(table).values(**values))
        return int((done.inserted_primary_key or (0,))[0])

    def _insert_all(self, table: sa.Table, rows: Iterable[dict[str, Any]]) -> None:
        if listed := list(rows):
            self._connection.execute(sa.insert(table), listed)

    def _insert_run(self) -> int:
        report = self._report
        run, verdict, summary = report["run"], report["verdict"] or {}, report["summary"]
        shard, environment = run["shard"] or {}, report["environment"]
        git, ci = environment["git"] or {}, environment["ci"] or {}
        return self._insert(
            RUNS,
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
            reason=verdict.get("reason"),
            kind=verdict.get("kind"),
            message=clean_text(verdict.get("message")),
            nodeid=clean_text(verdict.get("nodeid"), MAX_NODEID),
            retryable=verdict.get("retryable"),
            owner=verdict.get("owner"),
            commit_id=clean_text(git.get("commit") or ci.get("commit"), 64),
            branch=clean_text(branch_of(report)),
            dirty=git.get("dirty"),
            merge_base=clean_text(object_at(own_extension(report), "git").get("merge_base"), 64),
            ci_provider=clean_text(ci.get("provider"), 32),
            ci_run_id=clean_text(ci.get("run_id")),
            ci_job=clean_text(ci.get("job")),
            added_at=datetime.now(UTC).replace(tzinfo=None),
            **{name: summary[name] for name in COUNTED},
        )

    def _seen(self) -> dict[str, _Seen]:
        """Return how each test ended, by its node id; without `tests`, of those that failed."""
        seen: dict[str, _Seen] = {}
        for test in self._report["tests"] or ():
            seen[_nodeid(test["nodeid"])] = _Seen(test["outcome"], test["duration_seconds"])
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

    def _tests(self, seen: Mapping[str, _Seen], failing: set[str]) -> dict[str, _KnownTest]:
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
                    "last_passed_run": self._number if seen[nodeid].outcome == "passed" else None,
                    **_durations(seen[nodeid], None),
                }
                for nodeid in made
            ),
        )
        passed = {nodeid for nodeid, one in seen.items() if one.outcome == "passed"}
        earliest = sa.case((TESTS.c.first_seen > self._at, self._at), else_=TESTS.c.first_seen)
        always: dict[str, Any] = {
            "first_seen": earliest,
            "last_seen": self._later_than(TESTS.c.last_seen),
        }
        # The tests of a run were numbered one after the other, so they are few ranges of rows.
        for nodeids, changed in (
            (passed, {**always, "last_passed_run": self._number}),
            (failing, {**always, "last_failed": self._later_than(TESTS.c.last_failed)}),
            (seen.keys() - passed - failing, always),
        ):
            ids = {known[nodeid].id for nodeid in nodeids if nodeid in known}
            for _, pairs in groupby(enumerate(sorted(ids)), key=lambda pair: pair[1] - pair[0]):
                row_ids = [row_id for _, row_id in pairs]  # successive ones
                is_one = TESTS.c.id.between(row_ids[0], row_ids[-1])
                self._connection.execute(sa.update(TESTS).where(is_one).values(changed))
        self._keep_durations({each.id: seen[nodeid] for nodeid, each in known.items()})
        self._tell_last_passes(known, failing)
        if made:
            fresh = {digest_of(nodeid): nodeid for nodeid in made}
            known |= {fresh[each.digest]: each for each in self._known(fresh)}
        return known

    def _known(self, digests: Mapping[str, str]) -> Iterator[_KnownTest]:
        """Yield the tests with these digests that are there."""
        nth_last_run = (
            sa.select(RUNS.c.started_at)
            .where(RUNS.c.project_id == self._project)
            .order_by(RUNS.c.started_at.desc())
            .offset(WATCHED_RUNS + 1)  # this run is there already
            .limit(1)
        )
        since = self._connection.scalar(nth_last_run)
        has_failed = TESTS.c.last_failed.is_not(None)
        is_watched = has_failed if since is None else has_failed & (TESTS.c.last_failed > since)
        columns = (TESTS.c.id, TESTS.c.digest, is_watched)
        of_project = sa.select(*columns, TESTS.c.last_passed_run).where(
            TESTS.c.project_id == self._project
        )
        if len(digests) > 4 * AT_ONCE:  # quicker than many queries
            rows = self._connection.execute(of_project).all()
            yield from (_KnownTest(*row) for row in rows if row[1] in digests)
            return
        for row in rows_with(self._connection, of_project, TESTS.c.digest, list(digests)):
            yield _KnownTest._make(row)

    def _later_than(self, column: sa.Column[Any]) -> Any:
        is_older = (column < self._at) | column.is_(None)
        return sa.case((is_older, self._at), else_=column)

    def _keep_durations(self, seen: Mapping[int, _Seen]) -> None:
        """Keep the durations of tests that passed; in a big suite those of some of them.

        To write a row for each of 60,000 tests takes longer than a run should wait.
        """
        every = max(1, len(seen) // _DURATIONS_OF_A_RUN)
        chosen = [
            test
            for test, one in seen.items()
            if one.outcome == "passed"
            and one.seconds is not None
            and (test + self._number) % every == 0
        ]
        for some in parts(chosen):
            rows = self._connection.execute(
                sa.select(TESTS.c.id, TESTS.c.durations).where(TESTS.c.id.in_(some))
            )
            before = {row.id: row.durations for row in rows}
            self._connection.execute(
                _UPDATE_OF_DURATIONS,
                [{"row_id": test, **_durations(seen[test], before.get(test))} for test in some],
            )

    def _tell_last_passes(self, known: Mapping[str, _KnownTest], failing: set[str]) -> None:
        """Write the last pass down of tests that fail for the first time in a long while.

        Passes of tests that don't fail are not kept, each by itself. With this one it can be seen
        that a test has passed and failed on one commit.
        """
        passes = {
            each.id: each.last_passed_run
            for nodeid, each in known.items()
            if nodeid in failing and not each.is_watched and each.last_passed_run is not None
        }
        is_there = rows_with(
            self._connection, sa.select(RUNS.c.number), RUNS.c.number, sorted(set(passes.values()))
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
                {"run_number": run, "test_id": test, "outcome": "passed", "seconds": None}
                for test, run in passes.items()
                if run in runs
            ),
        )

    def _causes(self) -> dict[str, int]:
        """Bring the rows of causes up to date; return their ids by fingerprint."""
        groups = {each["fingerprint"]: each for each in self._report["groups"]}
        of_project = sa.select(CAUSES).where(CAUSES.c.project_id == self._project)
        found = rows_with(self._connection, of_project, CAUSES.c.fingerprint, list(groups))
        rows = {row.fingerprint: row for row in found}
        if rows:
            self._connection.execute(
                _UPDATE_OF_CAUSE,
                [
                    {
                        "row_id": row.id,
                        "first_seen": min(row.first_seen, self._at),
                        "last_seen": max(row.last_seen, self._at),
                        "runs": row.runs + 1,
                    }
                    for row in rows.values()
                ],
            )
        ids = {fingerprint: int(row.id) for fingerprint, row in rows.items()}
        for fingerprint, group in groups.items():
            if fingerprint not in ids:
                ids[fingerprint] = self._insert(
                    CAUSES,
                    project_id=self._project,
                    fingerprint=fingerprint,
                    reason=group["reason"],
                    kind=group["kind"],
                    title=clean_text(group["title"]),
                    owner=group["owner"],
                    first_seen=self._at,
                    last_seen=self._at,
                    runs=1,
                )
        return ids

    def _insert_failures(self, tests: Mapping[str, _KnownTest], causes: Mapping[str, int]) -> None:
        groups = self._report["groups"]
        of_node = {nodeid: each["fingerprint"] for each in groups for nodeid in each["nodeids"]}
        listed = [
            *((each, each["phase"], each["fingerprint"]) for each in self._report["failures"]),
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
            seconds, raised = failure.get("duration_seconds"), failure["exception"] or {}
            took[fingerprint] += seconds or 0.0
            said = raised.get("message") or failure.get("message") or ""
            rows.append(
                {
                    "run_number": self._number,
                    "test_id": tests[_nodeid(failure["nodeid"])].id,
                    "cause_id": causes[fingerprint],
                    "phase": phase,
                    "seconds": seconds,
                    "message": clean_text(f"{raised['type']}: {said}" if raised else said),
                }
            )
        self._insert_all(FAILURES, rows)
        self._insert_all(
            RUN_CAUSES,
            (
                {
                    "run_number": self._number,
                    "cause_id": causes[group["fingerprint"]],
                    "count": group["count"],
                    "seconds": took[group["fingerprint"]],
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
                scheduled=counts["scheduled"],
                graded=counts["graded"],
                passed=counts["passed"],
                mean_score=bench["mean_score"],
                lower_bound_95=bound.get("value"),
                total_cost_usd=bench["total_cost_usd"],
                gate=clean_text(gate.get("verdict"), 16),
            )


_PACKED: Final = struct.Struct(f"<{KEPT_DURATIONS}f")

_UPDATE_OF_DURATIONS: Final = (
    sa.update(TESTS)
    .where(TESTS.c.id == sa.bindparam("row_id"))
    .values({name: sa.bindparam(name) for name in ("median_seconds", "durations")})
)
_UPDATE_OF_CAUSE: Final = (
    sa.update(CAUSES)
    .where(CAUSES.c.id == sa.bindparam("row_id"))
    .values({name: sa.bindparam(name) for name in ("first_seen", "last_seen", "runs")})
)


def _durations(seen: _Seen, before: bytes | None) -> dict[str, Any]:
    """Return the last durations of a test as packed 32-bit floats, and their median.

    They have their full length from the start, so that a row never outgrows its place.
    """
    last = list(_PACKED.unpack(before)) if before else [nan] * KEPT_DURATIONS
    seconds = _finite(seen.seconds)
    if seconds is not None and seen.outcome == "passed":
        last = [*last[1:], seconds]
    known = [each for each in last if not isnan(each)]
    middle = round(median(known), 6) if known else None
    return {"durations": _PACKED.pack(*last), "median_seconds": middle}


def _finite(seconds: float | None) -> float | None:
    return seconds if seconds is not None and isfinite(seconds) else None


def _nodeid(nodeid: str) -> str:
    return clean_text(nodeid, MAX_NODEID) or ""
