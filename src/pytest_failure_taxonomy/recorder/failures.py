"""What happened in a run besides tests that passed, in memory and in the record on disk.

`Failures` turns the report of a failed test and the exception behind it, which pytest passes to two
hooks, into one `TestFailure`. `Facts` keeps all failures and errors.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pytest

from pytest_failure_taxonomy.record.write import Record
from pytest_failure_taxonomy.recorder import longrepr
from pytest_failure_taxonomy.recorder.attribution import MarkerFinder
from pytest_failure_taxonomy.recorder.exceptions import Described, ExceptionMemory
from pytest_failure_taxonomy.recorder.progress import Progress
from pytest_failure_taxonomy.recorder.secrets import NodeIds, Secrets, redacted
from pytest_failure_taxonomy.taxonomy.evidence import (
    MAX_LISTED,
    CollectionFailure,
    Interruption,
    Location,
    Part,
    Phase,
    RunError,
    Stall,
    TestFailure,
    TimeLimit,
    Traces,
    is_of_attempt,
)

if TYPE_CHECKING:
    from pytest_failure_taxonomy.taxonomy.mismatch import CollectionMismatch

T = TypeVar("T")

_PHASES: Final = frozenset({"setup", "call", "teardown"})


class Facts:
    """Collect the failures and errors of a run in the order in which they occur.

    Secrets are removed here, so that neither the record nor the report ever holds them. A later
    failure may reveal a secret that an earlier one shows: it is erased from the record at once, and
    from memory at the end. The node ids in memory are pytest's own.
    """

    def __init__(self, record: Record, secrets: Secrets, nodeids: NodeIds) -> None:
        self.failures: list[TestFailure] = []
        self.errors: list[RunError] = []
        self.interruptions: list[Interruption] = []
        self.mismatch: CollectionMismatch | None = None
        self._collection_failures: dict[str, CollectionFailure] = {}
        self._words_of_errors: set[tuple[str, str]] = set()
        self._record = record
        self._secrets = secrets
        self._nodeids = nodeids
        self._settled_at: int | None = None
        """How many secrets were known when the first fact was added."""

    @property
    def collection_failures(self) -> tuple[CollectionFailure, ...]:
        """The nodes that could not be collected, each once."""
        return tuple(self._collection_failures.values())

    def add_failure(self, failure: TestFailure) -> None:
        """Add a test that failed."""
        # Its node id was searched for secrets when it was selected.
        failure = redacted(failure, self._secrets)
        self.failures.append(failure)
        self._record.write("failure", failure=self._nodeids.selected(failure))
        self._erase_new_secrets()

    def note_rerun(self, nodeid: str, worker: str | None) -> None:
        """Record that a test is run again."""
        self.write("rerun", nodeid=nodeid, worker=worker)

    def remove_subtests(self, nodeid: str, worker: str | None) -> int:
        """Remove the failed subtests of a test that is run again; return how many there were."""
        kept = [each for each in self.failures if not is_of_attempt(each, nodeid, worker)]
        count = len(self.failures) - len(kept)
        self.failures[:] = kept
        return count

    def add_collection_failure(self, failure: CollectionFailure) -> None:
        """Add a node that could not be collected, unless another worker has reported it."""
        if failure.nodeid not in self._collection_failures:
            failure = self._written("collection_failure", failure=failure)
            self._collection_failures[failure.nodeid] = failure

    def add_error(self, error: RunError) -> None:
        """Add an error outside of the tests, unless another worker has reported the same one.

        How many workers report it before the session ends is a matter of timing.
        """
        words = (error.origin, error.message)
        if words not in self._words_of_errors:
            self._words_of_errors.add(words)
            self.errors.append(self._written("error", error=error))

    def add_interruption(self, stop: Interruption) -> None:
        """Add what ended the session early."""
        self.interruptions.append(self._written("interruption", stop=stop))

    def add_mismatch(self, mismatch: CollectionMismatch) -> None:
        """Add how the workers disagree about the tests; xdist says it once a worker."""
        if self.mismatch is None:
            self.mismatch = mismatch
            self.write("mismatch", mismatch=mismatch)

    def write(self, event: str, **fields: Any) -> None:
        """Append an event to the record, without the secrets in its node ids."""
        self._record.write(event, **{name: self._shown(each) for name, each in fields.items()})

    def settle(self) -> None:
        """Search all facts again if secrets have become known since the first was added."""
        while self._settled_at not in (None, self._secrets.known):
            self._settled_at = self._secrets.known
            self.failures = [redacted(each, self._secrets) for each in self.failures]
            self.errors = [redacted(each, self._secrets) for each in self.errors]
            self.interruptions = [redacted(each, self._secrets) for each in self.interruptions]
            self._collection_failures = {
                nodeid: redacted(each, self._secrets)
                for nodeid, each in self._collection_failures.items()
            }

    def _written(self, event: str, **fact: T) -> T:
        ((name, one),) = fact.items()
        one = redacted(one, self._secrets)
        self.write(event, **{name: one})
        self._erase_new_secrets()
        return one

    def _erase_new_secrets(self) -> None:
        """Erase secrets that have just become known from what is on disk."""
        if self._settled_at is None:
            self._settled_at = self._secrets.known
        fillers = self._secrets.take_new()
        if fillers:
            self._record.erase(fillers)

    def _shown(self, one: Any) -> Any:
        if one is None:
            return None
        return self._nodeids.shown(one) if isinstance(one, str) else self._nodeids.named(one)


class Failures:
    """Record each failure in one event: a second one would cost as much as the first."""

    def __init__(
        self,
        facts: Facts,
        progress: Progress,
        exceptions: ExceptionMemory,
        markers: MarkerFinder,
        rootdir: Path,
    ) -> None:
        self.awaiting: pytest.TestReport | None = None
        """The report of a failed test, until pytest passes on the exception or goes on without."""
        self.limit_of_crash: TimeLimit | None = None
        """The time limit under which the worker died whose report comes next."""
        self.stall_of_crash: Stall | None = None
        """What the test of that worker was stalled at, if that is why the worker was ended."""
        self.traces_of_crash: Traces | None = None
        """What that worker has left of its last moments."""
        self.superseded: set[str] = set()
        """Tests that are going to be run again and have not started yet."""
        self._with_failed_subtests: set[str] = set()
        """Tests that have a failed subtest."""
        self._facts = facts
        self._progress = progress
        self._exceptions = exceptions
        self._markers = markers
        self._rootdir = rootdir

    def see(self, report: pytest.TestReport) -> None:
        """Record a failure, or wait for its exception if this process ran the test."""
        described = self._exceptions.take_test(report)
        if described.exception is None and report.when in _PHASES and not hasattr(report, "node"):
            self.awaiting = report
        else:
            self._record(report, described)

    def explain(self, node: pytest.Item, error: BaseException) -> None:
        """Record the failure that was waiting for its exception."""
        report, self.awaiting = self.awaiting, None
        if report is not None:
            self._record(report, self._exceptions.explain_test(node, error, report))

    def await_no_more(self) -> None:
        """Record a failure without an exception: a test that passed and should not have."""
        report, self.awaiting = self.awaiting, None
        if report is not None:
            self._record(report, Described(exception=None))

    def supersede(self, report: pytest.TestReport) -> None:
        """Count a test that is run again; its failed subtests no longer count."""
        nodeid = report.nodeid
        self._progress.count_rerun(nodeid, getattr(report, "rerun", None))
        self._facts.note_rerun(nodeid, _worker_of(report))
        if nodeid in self._with_failed_subtests:
            self._with_failed_subtests.discard(nodeid)
            count = self._facts.remove_subtests(nodeid, _worker_of(report))
            self._progress.uncount("failed", count)
        self.superseded.add(nodeid)

    def _record(self, report: pytest.TestReport, described: Described) -> None:
        part = _part_of(report)
        if part == "subtest":
            if report.nodeid in self.superseded:
                return
            self._with_failed_subtests.add(report.nodeid)
        crashed = report.when not in _PHASES
        forked = crashed and is_of_forked_test(report)
        phase: Phase = "call"
        if report.when in _PHASES:
            phase = report.when
        elif not forked:  # its worker has died, and the phase is the last one known
            phase = self._progress.phase_of(report.nodeid) or "call"
        if crashed:
            self._progress.finish(report.nodeid)  # its worker can't say that it has
        self._progress.count("failed" if phase == "call" or crashed else "errors")
        failure = TestFailure(
            nodeid=report.nodeid,
            phase=phase,
            message=longrepr.message_of(report.longrepr),
            exception=described.exception,
            attributed=described.attributed,
            marker=self._markers.in_output_of(report),
            part=part,
            crashed=crashed,
            forked=forked,
            limit=self.limit_of_crash if crashed and not forked else None,
            stall=self.stall_of_crash if crashed and not forked else None,
            duration_seconds=None if crashed else report.duration,
            attempts=self._progress.attempts(report.nodeid),
            worker=_worker_of(report),
            **self._details(report, self.traces_of_crash if crashed and not forked else None),
        )
        self._facts.add_failure(failure)

    def _details(self, report: pytest.TestReport, traces: Traces | None) -> dict[str, Any]:
        if len(self._facts.failures) >= MAX_LISTED:
            return {}
        text = longrepr.text_of(report.longrepr)
        head = getattr(report, "head_line", None) if hasattr(report, "context") else None
        text = f"{head}\n\n{text}" if head else text
        place = None
        if traces is not None:
            text = "\n\n".join(filter(None, (text, traces.stack, traces.output)))
            place = traces.location
        place = place or longrepr.place_of(report.longrepr, self._rootdir)
        if place is None:  # where the test is defined
            path, line, _ = report.location
            path = path.replace("\\", "/")
            place = Location(path=path, line=None if line is None else line + 1)
        return {"location": place, "traceback": text}


def is_of_forked_test(report: pytest.TestReport) -> bool:
    """Tell whether pytest-forked reports a crash, rather than xdist the death of a worker.

    Reports that come from a worker have its id; the one that the controller makes up does not.
    """
    return not hasattr(report, "node") or hasattr(report, "worker_id")


def _part_of(report: pytest.TestReport) -> Part:
    if hasattr(report, "context"):
        return "subtest"
    text = report.longrepr
    is_sum = isinstance(text, str) and text.startswith("contains ") and "failed subtest" in text
    return "sum" if is_sum else "test"


def _worker_of(report: pytest.TestReport) -> str | None:
    node = getattr(report, "node", None)
    return None if node is None else str(node.gateway.id)
