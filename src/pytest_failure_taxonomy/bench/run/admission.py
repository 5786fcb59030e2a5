"""Whether another case may start: not above the cost cap, nor while all fail for one cause.

Several processes may work on one run together. What they have started and spent stands in the run's
file. Each process reads there what the others have done, and writes there that it starts a case,
while it holds the file's lock. So the cost cap and the stop after one cause hold for the whole run:
over xdist's workers, over those that crashed, and when another pytest continues the run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal

from pytest_failure_taxonomy.bench.models import COST_CAP
from pytest_failure_taxonomy.bench.runs.file import LineReader, RunFile
from pytest_failure_taxonomy.system.process import has_process

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.models import BenchCase, RunPlan


Admitted = Literal["go", "wait", "stop"]


class Admission:
    """Decides about each case of a run before its system is called, which costs money.

    A case in flight reserves what it may cost: its own `max_cost_usd`, or else the mean cost of the
    cases that are done. The cap is reached once more was spent than it allows. Until then a case
    that would exceed it together with those in flight waits for them. So no more is spent above the
    cap than the cases cost that are in flight when it is reached.
    """

    def __init__(
        self, *, max_cost_usd: float | None = None, stop_after_same_failure: int = 0
    ) -> None:
        """Begin with nothing spent.

        Args:
            max_cost_usd: The cap; `None`: there is none.
            stop_after_same_failure: How many cases in a row that failed for one cause end the run;
                0: none do.
        """
        self._cap = None if max_cost_usd is None else exact(max_cost_usd)
        self._stop_after = stop_after_same_failure
        self._spent = Decimal(0)
        self._done = 0
        self._reserved: dict[str, Decimal | None] = {}
        """The own bounds of the cases in flight."""
        self._in_flight: dict[str, Decimal] = {}
        """What the cases in flight have spent so far."""
        self._begun_with: dict[str, int] = {}
        self._last_cause = ""
        self._same_in_a_row = 0
        self.stop_reason = ""
        """Why no more cases are started; empty as long as they are."""
        self.stop_cause = ""
        """The fingerprint of the cause that many in a row failed with, if that is why."""

    @classmethod
    def of(cls, plan: RunPlan) -> Admission:
        """Return what decides about the cases of a plan."""
        return cls(
            max_cost_usd=plan.max_cost_usd, stop_after_same_failure=plan.stop_after_same_failure
        )

    @property
    def is_needed(self) -> bool:
        """Whether a case can be refused at all."""
        return self._cap is not None or self._stop_after > 0

    def admit(self, case: BenchCase, attempt: int = 1) -> Admitted:
        """Let a case start, which then is in flight; or have it wait or stay away.

        Args:
            case: The case.
            attempt: The number of the call of its system that is to come.
        """
        answer = self._decide(case)
        if answer == "go":
            self.begin(case.case_id, case.max_cost_usd, attempt)
        return answer

    def _decide(self, case: BenchCase) -> Admitted:
        if self.stop_reason:
            return "stop"
        if self._cap is None:
            return "go"
        if self._spent + sum(self._in_flight.values()) > self._cap:
            self.stop_reason = COST_CAP
            return "stop"
        bound = case.max_cost_usd
        own = Decimal(0) if bound is None else exact(bound)
        if self._spent + self._claimed() + own <= self._cap:
            return "go"
        if self._in_flight:
            return "wait"
        self.stop_reason = COST_CAP  # by its own bound, the case would exceed the cap
        return "stop"

    def _claimed(self) -> Decimal:
        mean = self._spent / self._done if self._done else Decimal(0)
        return sum(
            (max(spent, self._bound(case_id, mean)) for case_id, spent in self._in_flight.items()),
            Decimal(0),
        )

    def _bound(self, case_id: str, mean: Decimal) -> Decimal:
        own = self._reserved[case_id]
        return mean if own is None else own

    def begin(self, case_id: str, max_cost_usd: float | None, attempt: int = 1) -> None:
        """Count a case as in flight, also one that an abandoned loop had begun.

        Args:
            case_id: The case.
            max_cost_usd: The most that it can cost; `None`: that is not known.
            attempt: The number of the first call of its system.
        """
        self._spent += self._in_flight.get(case_id, Decimal(0))
        self._reserved[case_id] = None if max_cost_usd is None else exact(max_cost_usd)
        self._in_flight[case_id] = Decimal(0)
        self._begun_with[case_id] = attempt

    def spend(self, case_id: str, attempt: int, cost_usd: float) -> None:
        """Count what a call of a case's system has just spent."""
        if case_id in self._in_flight and attempt >= self._begun_with[case_id]:
            self._in_flight[case_id] += exact(cost_usd)
        else:  # a call that was given up goes on
            self._spent += exact(cost_usd)

    def settle(self, case_id: str, cost_usd: float, cause: str) -> None:
        """Count a case as done.

        Args:
            case_id: The case.
            cost_usd: What it cost since it began.
            cause: The fingerprint of its failure; empty for any other result.
        """
        self._in_flight.pop(case_id, None)
        self._reserved.pop(case_id, None)
        self._begun_with.pop(case_id, None)
        self._spent += exact(cost_usd)
        self._done += 1
        self._same_in_a_row = self._same_in_a_row + 1 if cause and cause == self._last_cause else 1
        self._last_cause = cause
        if cause and self._stop_after and self._same_in_a_row >= self._stop_after:
            self.stop_cause = cause
            self.stop_reason = self.stop_reason or (
                f"{self._same_in_a_row} cases in a row failed with the same cause"
            )

    def lose(self, case_id: str) -> None:
        """Count a case as done whose process is gone; it cost what it had reserved."""
        mean = self._spent / self._done if self._done else Decimal(0)
        if case_id in self._in_flight:
            spent = self._in_flight[case_id]
            self._spent += max(spent, self._bound(case_id, mean))
            del self._in_flight[case_id], self._reserved[case_id], self._begun_with[case_id]


def exact(cost_usd: float) -> Decimal:
    """Return an amount as a decimal number, so that three times 0.1 does not exceed 0.3."""
    return Decimal(repr(cost_usd))


_READ: Final = frozenset({"started", "spent", "attempt", "stopped", "resumed"})


class RunAdmission(Admission):
    """Decides by what the file of a run says."""

    is_needed = True  # it writes that a case has started

    def __init__(self, plan: RunPlan, run: RunFile) -> None:
        """Begin with what the file holds by the first decision.

        Args:
            plan: The limits; its cap is that of the whole run.
            run: The file.
        """
        super().__init__(
            max_cost_usd=plan.max_cost_usd, stop_after_same_failure=plan.stop_after_same_failure
        )
        self.nodeids: dict[str, str] = {}
        """The tests that wait for the cases, by case."""
        self._run = run
        self._reader = LineReader(run.path)
        self._pids: dict[str, int] = {}
        self._is_stop_written = False
        self._told: dict[str, dict[int, float]] = {}
        """What calls that have not ended have told that they spent, by case and number."""
        self._totals: dict[str, float] = {}
        """What the calls of each case cost together that have ended or were lost, if anything."""
        self._before: dict[str, float] = {}
        """What the calls of the cases in flight had cost when they began."""

    def admit(self, case: BenchCase, attempt: int = 1) -> Admitted:
        """Decide as `Admission` does, together with the other processes."""
        with self._run.locked():
            with suppress(OSError):
                for record in self._reader.new(_READ):
                    with suppress(KeyError, TypeError, ValueError, ArithmeticError):  # not our line
                        self._take(record)
            answer = self._decide(case)
            if answer == "go":
                nodeid = self.nodeids.get(case.case_id)
                self._run.note_start(case.case_id, attempt, case.max_cost_usd, nodeid)
                if self._run.problem:  # nothing comes back from the file
                    self.begin(case.case_id, case.max_cost_usd, attempt)
            elif answer == "stop" and not self._is_stop_written:
                self._is_stop_written = True
                self._run.note_stop(self.stop_reason, self.stop_cause)
            elif answer == "wait":
                for case_id in list(self._in_flight):
                    pid = self._pids.get(case_id, 0)
                    if pid != os.getpid() and not has_process(pid):
                        self.lose(case_id)  # nobody may wait for a case whose process is gone
        return answer

    def spend(self, case_id: str, attempt: int, cost_usd: float) -> None:
        """Count nothing: the amount comes back from the file."""
        if self._run.problem:
            super().spend(case_id, attempt, cost_usd)

    def settle(self, case_id: str, cost_usd: float, cause: str) -> None:
        """Count nothing: the case comes back from the file."""
        if self._run.problem:
            super().settle(case_id, cost_usd, cause)

    def _take(self, record: Mapping[str, Any]) -> None:
        match record["record"]:
            case "started":
                case_id = record["case_id"]
                self._pids[case_id] = int(record["pid"])
                self._add_lost_calls(case_id)
                if case_id in self._totals:
                    self._before[case_id] = self._totals[case_id]
                self.begin(case_id, record.get("max_cost_usd"), int(record["attempt"]))
            case "spent":
                case_id, attempt = record["case_id"], int(record["attempt"])
                cost_usd = float(record["cost_usd"])
                if case_id in self._in_flight and attempt >= self._begun_with[case_id]:
                    told = self._told.setdefault(case_id, {})
                    told[attempt] = told.get(attempt, 0.0) + cost_usd
                super().spend(case_id, attempt, cost_usd)
            case "attempt":
                self._take_attempt(record)
            case "stopped":
                self.stop_reason = str(record["reason"])
                self._is_stop_written = True
            case "resumed":
                self._is_stop_written = False
                self.stop_reason = self.stop_cause = ""
                self._same_in_a_row = 0
                for case_id in list(self._in_flight):
                    self.lose(case_id)

    def lose(self, case_id: str) -> None:
        """Count a case as done as `Admission` does; its score will hold what it told."""
        self._add_lost_calls(case_id)
        super().lose(case_id)

    def _add_lost_calls(self, case_id: str) -> None:
        """Count what calls told that never ended: the score of a later call holds it, too."""
        lost = sum(self._told.pop(case_id, {}).values())
        if lost:
            self._totals[case_id] = self._totals.get(case_id, 0.0) + lost

    def _take_attempt(self, record: Mapping[str, Any]) -> None:
        case_id, score = record["case_id"], record.get("score")
        system_usd = float(record["cost_usd"])
        self._told.get(case_id, {}).pop(int(record["attempt"]), None)
        if system_usd:
            self._totals[case_id] = self._totals.get(case_id, 0.0) + system_usd
        if score is None:
            return
        before = self._before.pop(case_id, 0.0)
        self._pids.pop(case_id, None)
        self._told.pop(case_id, None)
        cost_usd = max(0.0, round(float(score["cost_usd"]) - before, 12))
        super().settle(case_id, cost_usd, str(record.get("fingerprint", "")))
