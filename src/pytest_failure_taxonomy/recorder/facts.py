"""What happened in a run besides tests passing, in memory and in the run's record at once.

Secrets are taken out here, so that neither the record nor the report ever holds them.
"""

from __future__ import annotations

from pytest_failure_taxonomy.recorder.record.writer import Record
from pytest_failure_taxonomy.recorder.secrets import redacted
from pytest_failure_taxonomy.report.limits import Redaction
from pytest_failure_taxonomy.taxonomy.evidence import (
    CollectionFailure,
    Interruption,
    RunError,
    TestFailure,
    is_of_attempt,
)


class Facts:
    """Gather the facts of a run, in order of occurrence."""

    def __init__(self, record: Record, redaction: Redaction) -> None:
        self.failures: list[TestFailure] = []
        self.errors: list[RunError] = []
        self.interruptions: list[Interruption] = []
        self._collection_failures: dict[str, CollectionFailure] = {}
        self._record = record
        self._redaction = redaction

    @property
    def collection_failures(self) -> tuple[CollectionFailure, ...]:
        """Nodes that could not be collected, each once."""
        return tuple(self._collection_failures.values())

    def add_failure(self, failure: TestFailure) -> None:
        """Add a test that failed."""
        failure = redacted(failure, self._redaction)
        self.failures.append(failure)
        self._record.write("failure", failure=failure)

    def note_rerun(self, nodeid: str, worker: str | None) -> None:
        """Note that an attempt at a test is made again."""
        self._record.write("rerun", nodeid=nodeid, worker=worker)

    def take_back_subtests(self, nodeid: str, worker: str | None) -> int:
        """Take back the failed subtests of an attempt that is made again; return how many."""
        kept = [each for each in self.failures if not is_of_attempt(each, nodeid, worker)]
        count = len(self.failures) - len(kept)
        self.failures[:] = kept
        return count

    def add_collection_failure(self, failure: CollectionFailure) -> None:
        """Add a node that could not be collected, unless another worker has said so already."""
        if failure.nodeid not in self._collection_failures:
            failure = redacted(failure, self._redaction)
            self._collection_failures[failure.nodeid] = failure
            self._record.write("collection_failure", failure=failure)

    def add_error(self, error: RunError) -> None:
        """Add an error outside of the tests."""
        error = redacted(error, self._redaction)
        self.errors.append(error)
        self._record.write("error", error=error)

    def add_interruption(self, stop: Interruption) -> None:
        """Add what ended the session early."""
        stop = redacted(stop, self._redaction)
        self.interruptions.append(stop)
        self._record.write("interruption", stop=stop)
