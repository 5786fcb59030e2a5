"""What happened in a run besides tests passing, in memory and in the run's record at once.

Secrets are taken out here, so that neither the record nor the report ever holds them.
"""

from __future__ import annotations

from pytest_failure_taxonomy.recorder.record.writer import Record
from pytest_failure_taxonomy.recorder.secrets import Redact, redacted
from pytest_failure_taxonomy.taxonomy.evidence import (
    Attribution,
    CollectionFailure,
    Interruption,
    RaisedException,
    RunError,
    TestFailure,
)
from pytest_failure_taxonomy.taxonomy.values import replace


class Facts:
    """Gather the facts of a run, in order of occurrence."""

    def __init__(self, record: Record, redact: Redact) -> None:
        self.failures: list[TestFailure] = []
        self.errors: list[RunError] = []
        self.interruptions: list[Interruption] = []
        self._collection_failures: dict[str, CollectionFailure] = {}
        self._record = record
        self._redact = redact

    @property
    def collection_failures(self) -> tuple[CollectionFailure, ...]:
        """Nodes that could not be collected, each once."""
        return tuple(self._collection_failures.values())

    def add_failure(self, failure: TestFailure) -> None:
        """Add a test that failed."""
        failure = redacted(failure, self._redact)
        self.failures.append(failure)
        self._record.write("failure", failure=failure)

    def explain_last_failure(
        self, exception: RaisedException, attributed: Attribution | None
    ) -> None:
        """Add what was raised, and what is said of it, to the failure that was added last."""
        exception = redacted(exception, self._redact)
        attributed = attributed and redacted(attributed, self._redact)
        self.failures[-1] = replace(self.failures[-1], exception=exception, attributed=attributed)
        self._record.write("exception", exception=exception, attributed=attributed)

    def add_collection_failure(self, failure: CollectionFailure) -> None:
        """Add a node that could not be collected, unless another worker has said so already."""
        if failure.nodeid not in self._collection_failures:
            failure = redacted(failure, self._redact)
            self._collection_failures[failure.nodeid] = failure
            self._record.write("collection_failure", failure=failure)

    def add_error(self, error: RunError) -> None:
        """Add an error outside of the tests."""
        error = redacted(error, self._redact)
        self.errors.append(error)
        self._record.write("error", error=error)

    def add_interruption(self, stop: Interruption) -> None:
        """Add what ended the session early."""
        stop = redacted(stop, self._redact)
        self.interruptions.append(stop)
        self._record.write("interruption", stop=stop)
