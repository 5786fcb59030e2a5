"""The progress of a run: which tests have started, their phases, and the counts of the results.

The numbers are in the arrays of the run's record, so that they are on disk as soon as they change.
A test that passes takes no memory: each selected test has five bytes from the start.
"""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from pytest_failure_taxonomy.record.layout import (
    COUNTERS,
    DONE,
    IN_CALL,
    IN_SETUP,
    IN_TEARDOWN,
    NOT_STARTED,
    PHASES,
)
from pytest_failure_taxonomy.record.write import Record
from pytest_failure_taxonomy.taxonomy.evidence import Counts, InFlightTest, Phase

_INDEX: Final = {name: index for index, name in enumerate(COUNTERS)}
_PASSED: Final = _INDEX["passed"]

_STATES: Final = {phase: state for state, phase in PHASES.items()}

_UNKNOWN: Final = -1
"""The index of tests that were not selected: each array has an extra element for them."""


class Progress:
    """Follow the selected tests from their start to their end."""

    def __init__(
        self,
        record: Record,
        started_ns: int,
        shown: Callable[[Sequence[str]], Sequence[str]] = lambda nodeids: nodeids,
    ) -> None:
        """Begin without any test.

        Args:
            record: has the arrays.
            started_ns: when the run began, on the monotonic clock.
            shown: removes the secrets from node ids.
        """
        # Kept because freezegun, for one, replaces the function in its module.
        self.clock = time.monotonic_ns
        self.started_ns = started_ns
        self.nodeids: Sequence[str] = ()
        self._record = record
        self._shown = shown
        self._states, self._starts = record.select(())
        self._counters = record.counters
        self._cursor = 0
        self._indices: dict[str, int] | None = None
        self._running: dict[str, int] = {}
        self._workers: dict[str, str] = {}
        self._reruns: Counter[str] = Counter()
        self._recovered: set[str] = set()

    def select(self, nodeids: Sequence[str]) -> None:
        """Set the tests that are going to run, in their order."""
        self.nodeids = nodeids
        self._states, self._starts = self._record.select(self._shown(nodeids))
        self._counters = self._record.counters
        self._cursor = 0
        self._indices = None

    def start(self, nodeid: str) -> None:
        """Record that a test has started."""
        nodeids = self.nodeids
        index = self._cursor
        # Tests start in the order of selection, or nearly so under xdist.
        if index < len(nodeids) and nodeids[index] == nodeid:
            self._cursor = index + 1
        else:
            index = self._find(nodeid)
        self._running[nodeid] = index
        self._starts[index] = (self.clock() - self.started_ns) // 1_000_000
        self._states[index] = IN_SETUP

    def position(self) -> object:
        """Return what changes whenever a test makes progress; for another thread."""
        running = [(nodeid, self._states[index]) for nodeid, index in [*self._running.items()]]
        return list(self._counters), running

    def start_unheard(self, nodeid: str, phase: Phase, start_ns: int, worker: str) -> None:
        """Record a test that a worker's own record names, if the worker has reported less of it."""
        running = self._running.get(nodeid)
        if running is not None:
            self._states[running] = max(self._states[running], _STATES[phase])
            return
        index = self._find(nodeid)
        if index == _UNKNOWN or self._states[index] != NOT_STARTED:
            return
        self._running[nodeid] = index
        self._starts[index] = max(0, start_ns - self.started_ns) // 1_000_000
        self._states[index] = _STATES[phase]
        self._workers[nodeid] = worker

    def advance(self, nodeid: str, state: int) -> None:
        """Record the state of a running test."""
        index = self._running.get(nodeid)
        if index is not None:
            self._states[index] = state

    def finish(self, nodeid: str) -> None:
        """Record that a test has ended."""
        index = self._running.pop(nodeid, None)
        if index is not None:
            self._states[index] = DONE

    def count(self, name: str, by: int = 1) -> None:
        """Count a result under one of the names of `layout.COUNTERS`."""
        self._counters[_INDEX[name]] += by

    def count_pass(self, nodeid: str) -> None:
        """Count a test that passed."""
        self._counters[_PASSED] += 1
        if self._reruns and nodeid in self._reruns:
            self._recovered.add(nodeid)
            self._record.write("recovered", nodeid=self._shown((nodeid,))[0])

    def count_rerun(self, nodeid: str, attempt: int | None) -> None:
        """Count a test that failed and is run again.

        Args:
            nodeid: the test.
            attempt: the number of the attempt from 0 on, if known. One attempt may be reported
                twice, for its call and its teardown.
        """
        self.count("rerun")
        told = self._reruns[nodeid]
        self._reruns[nodeid] = told + 1 if attempt is None else max(told, attempt + 1)

    def uncount(self, name: str, by: int) -> None:
        """Take results back that no longer count."""
        index = _INDEX[name]
        self._counters[index] = max(0, self._counters[index] - by)

    def set_deselected(self, count: int) -> None:
        """Set how many tests options have deselected."""
        self._counters[_INDEX["deselected"]] = count

    def attempts(self, nodeid: str) -> int:
        """Return how often a test has been run."""
        return 1 + self._reruns[nodeid] if self._reruns else 1

    def assign_worker(self, nodeid: str, worker: str) -> None:
        """Record which worker runs a test."""
        self._workers[nodeid] = worker

    def phase_of(self, nodeid: str) -> Phase | None:
        """Return the phase that a running test is in."""
        index = self._running.get(nodeid)
        return None if index is None else _phase(self._states[index])

    def counts(self, failed: set[str]) -> Counts:
        """Return the counts; `failed` are the node ids of the tests that failed in the end."""
        numbers = dict(zip(COUNTERS, self._counters, strict=True))
        del numbers["started"]
        flaky = len(self._recovered - failed)
        return Counts(collected=len(self.nodeids), flaky=flaky, **numbers)

    def in_flight(self) -> tuple[InFlightTest, ...]:
        """Return the tests that have started and not ended, in order of start."""
        now_ms = (self.clock() - self.started_ns) // 1_000_000
        return tuple(
            InFlightTest(
                nodeid=nodeid,
                phase=_phase(self._states[index]),
                worker=self._workers.get(nodeid),
                elapsed_seconds=max(0, now_ms - self._starts[index]) / 1e3,
            )
            for nodeid, index in self._running.items()
        )

    def not_started(self) -> tuple[str, ...]:
        """Return the selected tests that never started, in the order of selection."""
        states = self._states
        return tuple(
            nodeid for index, nodeid in enumerate(self.nodeids) if states[index] == NOT_STARTED
        )

    def detach(self) -> None:
        """Continue in memory: a forked child must not write to the record of its parent."""
        memory = Record()
        memory.counters = array("I", self._counters)
        self._record, self._counters = memory, memory.counters
        self._states, self._starts = bytearray(self._states), array("I", self._starts)

    def _find(self, nodeid: str) -> int:
        """Return the index of a test that starts out of the order of selection."""
        if self._indices is None:
            self._indices = {each: index for index, each in reversed([*enumerate(self.nodeids)])}
        index = self._indices.get(nodeid, _UNKNOWN)
        if index == _UNKNOWN or self._states[index] == NOT_STARTED:
            return index
        # It has started before: it is run again, or selected more than once (`--dist each`).
        for later in range(index + 1, len(self.nodeids)):
            if self._states[later] == NOT_STARTED and self.nodeids[later] == nodeid:
                return later
        return index


def state_after(phase: str | None, *, passed: bool) -> int:
    """Return the state of a test after the report of a phase."""
    return IN_CALL if phase == "setup" and passed else IN_TEARDOWN


def _phase(state: int) -> Phase:
    return PHASES.get(state, "call")
