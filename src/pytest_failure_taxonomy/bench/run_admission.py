"""Whether another case may start, for all processes that work on one run together.

What they have started and spent stands in the run's file. Each process reads there what the others
have done, and writes there that it starts a case, while it holds the file's lock. So the cost cap
and the stop after one cause hold for the whole run: over xdist's workers, over those that crashed,
and when another pytest continues the run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.bench.admission import Admission, Admitted
from pytest_failure_taxonomy.bench.run_file import RunFile
from pytest_failure_taxonomy.bench.run_records import LineReader
from pytest_failure_taxonomy.system.process import has_process

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.models import BenchCase, RunPlan

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
                self._take_spent(record)
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

    def _take_spent(self, record: Mapping[str, Any]) -> None:
        case_id, attempt = record["case_id"], int(record["attempt"])
        cost_usd = float(record["cost_usd"])
        if case_id in self._in_flight and attempt >= self._begun_with[case_id]:
            told = self._told.setdefault(case_id, {})
            told[attempt] = told.get(attempt, 0.0) + cost_usd
        super().spend(case_id, attempt, cost_usd)

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
