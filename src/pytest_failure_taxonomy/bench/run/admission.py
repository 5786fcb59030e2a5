"""Whether another case may start: by the cost cap, and unless all fail for one cause.

Several processes may work on one run together. What they have started and spent stands
in the run's file. Each process reads there what the others have done, and writes there
that it starts a case, while it holds the file's lock. So the caps and the stop after
one cause hold for the whole run: over xdist's workers, over those that crashed, and
when another pytest continues the run.
"""

from __future__ import annotations

import os
from contextlib import nullcontext, suppress
from decimal import Decimal
from typing import Final, Literal

from pytest_failure_taxonomy.bench.answers import add_exactly, exact
from pytest_failure_taxonomy.bench.kept.lines import (
    KeptAttempt,
    Line,
    ResumedLine,
    SpentLine,
    StartedLine,
    StoppedLine,
)
from pytest_failure_taxonomy.bench.kept.reader import LineReader
from pytest_failure_taxonomy.bench.kept.writer import RunFile
from pytest_failure_taxonomy.bench.models import COST_CAP, BenchCase, RunPlan
from pytest_failure_taxonomy.system.process import has_process
from pytest_failure_taxonomy.taxonomy.words import cost_words

Admitted = Literal["go", "wait", "stop"]
_READ: Final = frozenset({"started", "spent", "attempt", "stopped", "resumed"})


class _InFlight:
    """A case whose system is being called."""

    def __init__(self, bound: Decimal | None, attempt: int, process_id: int) -> None:
        self.bound = bound
        """The most that it can cost; `None`: that is not known."""
        self.first_attempt = attempt
        self.process_id = process_id
        self.spent = Decimal(0)
        """The cost that its calls have told."""
        self.ended = Decimal(0)
        """The cost of the calls that have ended, without the last one."""


class Admission:
    """Decides about each case of a run before its system is called, which costs money.

    A case in flight reserves what it may cost: its own `max_cost_usd`, or else the mean
    cost of the cases that are done. The cap is reached once more was spent than it
    allows. Until then a case that would exceed it together with those in flight waits
    for them. So no more is spent above the cap than the cases cost that are in flight
    when it is reached.
    """

    def __init__(self, plan: RunPlan, run: RunFile | None = None) -> None:
        """Begin with nothing spent, or with what the file holds by the first decision.

        Args:
            plan: The limits; its cap is that of the whole run.
            run: The file by which the processes of the run know of each other; `None`:
                there is none, and what is decided here is all there is.
        """
        self._cap = None if plan.max_cost_usd is None else exact(plan.max_cost_usd)
        self._stop_after = plan.stop_after_same_failure
        self.is_needed = (
            run is not None or self._cap is not None or self._stop_after > 0
        )
        """Whether a case can be refused, or the file is to say that it has started."""
        self.nodeids: dict[str, str] = {}
        """The tests that wait for the cases, by case."""
        self.stop_reason = ""
        """Why no more cases are started; empty as long as they are."""
        self.stop_cause = ""
        """The fingerprint of the cause that many in a row failed with, if that is
        why."""
        self._spent = Decimal(0)
        self._done = 0
        self._in_flight: dict[str, _InFlight] = {}
        self._last_cause = ""
        self._same_in_a_row = 0
        self._run = run
        self._reader = None if run is None else LineReader(run.path, has_outputs=False)
        self._is_stop_written = False

    def admit(self, case: BenchCase, attempt: int = 1) -> Admitted:
        """Let a case start, which then is in flight; or have it wait or stay away.

        With a file, this decides together with the other processes.

        Args:
            case: The case.
            attempt: The number of the call of its system that is to come.
        """
        run, reader = self._run, self._reader
        with nullcontext() if run is None else run.locked():
            with suppress(OSError):
                for line in () if reader is None else reader.new(_READ):
                    self._take(line)
            answer = self._decide(case)
            if answer == "go":
                if run is not None:
                    nodeid = self.nodeids.get(case.case_id)
                    run.note_start(case.case_id, attempt, case.max_cost_usd, nodeid)
                if self._counts_itself:
                    self._begin(case.case_id, case.max_cost_usd, attempt, os.getpid())
            elif answer == "stop" and run is not None and not self._is_stop_written:
                self._is_stop_written = True
                run.note_stop(self.stop_reason, self.stop_cause)
            elif answer == "wait":
                for case_id, flight in list(self._in_flight.items()):
                    if flight.process_id != os.getpid() and not has_process(
                        flight.process_id
                    ):
                        self._lose(
                            case_id
                        )  # nobody may wait for a case whose process is gone
        return answer

    @property
    def _counts_itself(self) -> bool:
        """Whether no file tells this process what it has started and spent."""
        return self._run is None or self._run.problem != ""

    def _decide(self, case: BenchCase) -> Admitted:
        if self.stop_reason:
            return "stop"
        if self._cap is None:
            return "go"
        flights = self._in_flight.values()
        reached = f"{COST_CAP} ({cost_words(float(self._cap))})"
        if self._spent + sum(flight.spent for flight in flights) > self._cap:
            self.stop_reason = reached
            return "stop"
        bound = Decimal(0) if case.max_cost_usd is None else exact(case.max_cost_usd)
        reserved = sum(map(self._claim, flights))
        if self._spent + reserved + bound <= self._cap:
            return "go"
        if self._in_flight:
            return "wait"
        # By its own bound, the case would exceed the cap.
        self.stop_reason = reached
        return "stop"

    def _claim(self, flight: _InFlight) -> Decimal:
        """Return what a case in flight has reserved, or has spent if that is more."""
        bound = flight.bound
        if bound is None:
            bound = self._spent / self._done if self._done else Decimal(0)
        return max(flight.spent, bound)

    def _begin(
        self, case_id: str, max_cost_usd: float | None, attempt: int, process_id: int
    ) -> None:
        """Count a case as in flight, also one that an abandoned loop had begun."""
        if case_id in self._in_flight:
            self._spent += self._in_flight[case_id].spent
        bound = None if max_cost_usd is None else exact(max_cost_usd)
        self._in_flight[case_id] = _InFlight(bound, attempt, process_id)

    def spend(self, case_id: str, attempt: int, cost_usd: float) -> None:
        """Count what a call of a system has just spent; any thread may call this.

        With a file that can be written, the amount comes back from there.
        """
        if self._run is not None:
            self._run.note_spent(case_id, attempt, cost_usd)
        if self._counts_itself:
            self._spend(case_id, attempt, cost_usd)

    def _spend(self, case_id: str, attempt: int, cost_usd: float) -> None:
        flight = self._in_flight.get(case_id)
        if flight is not None and attempt >= flight.first_attempt:
            flight.spent += exact(cost_usd)
        else:
            # A call that was given up goes on.
            self._spent += exact(cost_usd)

    def settle(self, case_id: str, cost_usd: float, cause: str) -> None:
        """Count a case as done; if a file can be written, it comes back from there.

        Args:
            case_id: The case.
            cost_usd: What it cost since it began.
            cause: The fingerprint of its failure; empty for any other result.
        """
        if self._counts_itself:
            self._settle(case_id, cost_usd, cause)

    def _settle(self, case_id: str, cost_usd: float, cause: str) -> None:
        self._in_flight.pop(case_id, None)
        self._spent += exact(cost_usd)
        self._done += 1
        self._same_in_a_row = (
            self._same_in_a_row + 1 if cause and cause == self._last_cause else 1
        )
        self._last_cause = cause
        if cause and self._stop_after and self._same_in_a_row >= self._stop_after:
            self.stop_cause = cause
            self.stop_reason = self.stop_reason or (
                f"{self._same_in_a_row} cases in a row failed with the same cause"
            )

    def _lose(self, case_id: str) -> None:
        """Count a case as done whose process is gone; it cost what it had reserved."""
        flight = self._in_flight.pop(case_id)
        self._spent += self._claim(flight)

    def _take(self, line: Line) -> None:
        """Take in a line of the file."""
        match line:
            case StartedLine() if line.pid:
                bound = line.max_cost_usd
                self._begin(line.case_id, bound, line.attempt, line.pid)
            case SpentLine():
                self._spend(line.case_id, line.attempt, line.cost_usd)
            case KeptAttempt():
                self._end_call(line)
            case StoppedLine():
                self.stop_reason = line.reason
                self._is_stop_written = True
            case ResumedLine():
                self._is_stop_written = False
                self.stop_reason = self.stop_cause = ""
                self._same_in_a_row = 0
                for case_id in list(self._in_flight):
                    self._lose(case_id)

    def _end_call(self, call: KeptAttempt) -> None:
        flight = self._in_flight.get(call.case_id)
        if call.score is not None or call.is_lost:
            if flight is not None:
                self._spent += flight.ended
            cost_usd = add_exactly(call.cost_usd, call.rubric_cost_usd)
            self._settle(call.case_id, cost_usd, call.fingerprint)
        elif flight is not None:
            flight.ended += exact(call.cost_usd)
