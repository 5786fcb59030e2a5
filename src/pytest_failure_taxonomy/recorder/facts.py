"""What happened in a run besides tests passing, in memory and in the run's record at once.

Secrets are taken out here, so that neither the record nor the report ever holds them. What a later
failure gives away is taken out of the earlier ones, too: of the record at once, of those in memory
at the end.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pytest_failure_taxonomy.recorder.nodeids import NodeIds
from pytest_failure_taxonomy.recorder.record.writer import Record
from pytest_failure_taxonomy.recorder.secrets import Secrets, redacted
from pytest_failure_taxonomy.taxonomy.evidence import (
    CollectionFailure,
    Interruption,
    RunError,
    TestFailure,
    is_of_attempt,
)

T = TypeVar("T")


class Facts:
    """Gather the facts of a run, in order of occurrence. Their node ids are pytest's own."""

    def __init__(self, record: Record, secrets: Secrets, nodeids: NodeIds) -> None:
        self.failures: list[TestFailure] = []
        self.errors: list[RunError] = []
        self.interruptions: list[Interruption] = []
        self._collection_failures: dict[str, CollectionFailure] = {}
        self._words_of_errors: set[tuple[str, str]] = set()
        self._record = record
        self._secrets = secrets
        self._nodeids = nodeids
        self._settled_at: int | None = None
        """How many secrets were known when the first of all these was recorded."""

    @property
    def collection_failures(self) -> tuple[CollectionFailure, ...]:
        """Nodes that could not be collected, each once."""
        return tuple(self._collection_failures.values())

    def add_failure(self, failure: TestFailure) -> None:
        """Add a test that failed."""
        # Its node id was searched with all that were selected.
        failure = redacted(failure, self._secrets)
        self.failures.append(failure)
        self._record.write("failure", failure=self._nodeids.selected(failure))
        self._see_known()

    def note_rerun(self, nodeid: str, worker: str | None) -> None:
        """Note that an attempt at a test is made again."""
        self.write("rerun", nodeid=nodeid, worker=worker)

    def take_back_subtests(self, nodeid: str, worker: str | None) -> int:
        """Take back the failed subtests of an attempt that is made again; return how many."""
        kept = [each for each in self.failures if not is_of_attempt(each, nodeid, worker)]
        count = len(self.failures) - len(kept)
        self.failures[:] = kept
        return count

    def add_collection_failure(self, failure: CollectionFailure) -> None:
        """Add a node that could not be collected, unless another worker has said so already."""
        if failure.nodeid not in self._collection_failures:
            failure = self._written("collection_failure", failure=failure)
            self._collection_failures[failure.nodeid] = failure

    def add_error(self, error: RunError) -> None:
        """Add an error outside of the tests, unless another worker has met the same one already.

        How many workers get to say so before the session ends depends on how quick they are.
        """
        words = (error.origin, error.message)
        if words not in self._words_of_errors:
            self._words_of_errors.add(words)
            self.errors.append(self._written("error", error=error))

    def add_interruption(self, stop: Interruption) -> None:
        """Add what ended the session early."""
        self.interruptions.append(self._written("interruption", stop=stop))

    def write(self, event: str, **fields: Any) -> None:
        """Append an event to the record, its node ids as they are shown."""
        self._record.write(event, **{name: self._shown(each) for name, each in fields.items()})

    def settle(self) -> None:
        """Search all of them again if more is known to be secret than when the first was added."""
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
        self._see_known()
        return one

    def _see_known(self) -> None:
        """Take what has just become known to be secret out of what is on disk already."""
        if self._settled_at is None:
            self._settled_at = self._secrets.known
        fillers = self._secrets.take_new()
        if fillers:
            self._record.erase(fillers)

    def _shown(self, one: Any) -> Any:
        if one is None:
            return None
        return self._nodeids.shown(one) if isinstance(one, str) else self._nodeids.named(one)
