"""Run the cases of a plan concurrently, and give each of them a score, whatever went wrong."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pytest_failure_taxonomy.bench import models, scores, user_code
from pytest_failure_taxonomy.bench.answers import (
    MOST_COST_USD,
    Answer,
    Spending,
    add_exactly,
    read_output,
)
from pytest_failure_taxonomy.bench.models import (
    BenchCase,
    BenchRunReport,
    BenchScore,
    RunPlan,
)
from pytest_failure_taxonomy.bench.report import aggregate
from pytest_failure_taxonomy.bench.run.admission import Admission
from pytest_failure_taxonomy.bench.run.calls import (
    Attempt,
    Loop,
    end_for_good,
    is_async,
)
from pytest_failure_taxonomy.bench.run.workspaces import SECONDS_TO_MAKE, Workspaces
from pytest_failure_taxonomy.bench.scores import CaseAttempt, CaseOutcome
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.taxonomy.values import replace

LOG: Final = logging.getLogger("pytest_failure_taxonomy.bench")
# Without a handler, Python would print warnings to stderr if logging is not configured.
LOG.addHandler(logging.NullHandler())

Earlier = Mapping[str, Sequence[CaseAttempt]]

_SHORTEST_WAIT_SECONDS: Final = 0.005
_LONGEST_WAIT_SECONDS: Final = 0.25
"""How long a case waits for those in flight before it asks again whether it may start."""


def _ignore(*_: object) -> None:
    pass


class CaseLostError(Exception):
    """A case has no score: what was raised says no more of its system than that it ends a run."""

    def __init__(self, fatal: BaseException | None, shown: user_code.ToldError) -> None:
        super().__init__()
        self.fatal = fatal
        """What ends a run; `None`: the environment failed, and the run goes on."""
        self.shown = shown
        self.workspace: str | None = None
        """Where the case's workspace is kept."""


class RunResults:
    """The outcomes of the cases of a run so far."""

    def __init__(self) -> None:
        self.started: set[str] = set()
        self.scores: dict[str, BenchScore] = {}
        """The scores of graded cases, in the order in which they were graded."""
        self.stopped = ""
        """Why cases were not started."""
        self.lost_to: dict[str, str] = {}
        """The kind of the failure for each case that never got through to the provider, or
        that was lost to the environment."""
        self.late_cost_usd = 0.0
        """The cost that is in no score."""
        self.usage_of_calls: dict[tuple[str, int], dict[str, float]] = {}
        """What calls that have ended told besides the cost, by case and number."""

    def spend(self, case_id: str, attempt: int, cost_usd: float) -> None:
        """Note what a call of the system spent on a case; any thread may call this."""
        if (case_id, attempt) in self.usage_of_calls:
            self.late_cost_usd = add_exactly(self.late_cost_usd, cost_usd)

    def fail(self, case_id: str, call: CaseAttempt) -> None:
        """Note a call that failed, after which the system is called again unless it is lost."""
        self.usage_of_calls[case_id, call.attempt] = call.usage
        if call.is_lost and call.charge_to is not None:
            self.lost_to[case_id] = call.kind or call.charge_to

    def finish(self, outcome: CaseOutcome) -> None:
        """Note the outcome of a case."""
        last = outcome.attempts[-1]
        self.scores[outcome.case_id] = outcome.score
        self.usage_of_calls[outcome.case_id, last.attempt] = last.usage
        if last.kind is not None and user_code.is_infrastructure(last.kind):
            self.lost_to[outcome.case_id] = last.kind


@dataclass(kw_only=True, eq=False)
class Runner:
    """Runs plans. Whatever one case does, the others get their scores.

    An exception that one of its functions raises ends the run.
    """

    on_outcome: Callable[[CaseOutcome], None] = _ignore
    """Called on the event loop when a case has its score."""
    on_start: Callable[[str], None] = _ignore
    """Likewise called with the id of a case before its system is called."""
    on_lost: Callable[[str, CaseLostError], None] | None = None
    """Called with the id of a case that has no score, and what would end the run: then it
    doesn't."""
    results: RunResults | None = None
    """Receives the outcomes of the cases of each run; by default, a new one for each run."""
    admission: Admission | None = None
    """Decides which cases may start; by default, the plan's own limits do."""
    loop: Callable[[], Loop] | None = None
    """Returns where coroutines of the system run; by default, the running loop."""
    workspaces: Workspaces | None = None
    """Makes the workspaces of cases; by default, temporary ones if the class asks for any."""
    is_logging: bool = True
    """Whether to log each failure mode of severity `block`."""

    async def execute(
        self,
        plan: RunPlan,
        *,
        system_under_test: scores.SystemUnderTest,
        rubric_runner: scores.RubricRunner,
    ) -> BenchRunReport:
        """Run all cases of a plan and return the report.

        Exceptions of a system or a rubric become the score of their case, except for those that end
        the run: `KeyboardInterrupt`, `SystemExit`, `CancelledError` and `pytest.exit`.

        Args:
            plan: The cases and their limits.
            system_under_test: Takes a `BenchCase` and returns anything that JSON can represent. A
                plain callable runs in a thread, which nothing can end: it continues after its
                limit.
            rubric_runner: Takes the case and what the system returned.

        Raises:
            BenchError: One of the two is not callable.
        """
        found = await self.run_cases(
            plan, system_under_test=system_under_test, rubric_runner=rubric_runner
        )
        return aggregate(
            plan,
            found.scores.items(),
            run_id=models.id_of_run(secrets.token_hex(16), found.stopped),
            started=found.started,
            stopped=found.stopped or None,
            lost_to=found.lost_to,
            usages=found.usage_of_calls.values(),
        )

    async def run_cases(
        self,
        plan: RunPlan,
        *,
        system_under_test: scores.SystemUnderTest,
        rubric_runner: scores.RubricRunner,
        earlier: Earlier = MappingProxyType({}),
    ) -> RunResults:
        """Run all cases of a plan as `execute` does, without a report.

        Args:
            plan: As for `execute`.
            system_under_test: As for `execute`.
            rubric_runner: As for `execute`.
            earlier: Calls of the system that were given up before, by case id; they count.
        """
        given = {"system_under_test": system_under_test, "rubric_runner": rubric_runner}
        problems = [
            f"{name}: an object of type {type(each).__name__} can't be called; "
            "an async or a plain function would be right"
            for name, each in given.items()
            if not callable(each)
        ]
        if problems:
            raise BenchError("\n".join(problems))
        run = PlanRun(plan, system_under_test, rubric_runner, earlier, self)
        await run.run_all()
        return run.results

    def tell(self, outcome: CaseOutcome) -> None:
        """Pass on the outcome of a case, and log what blocks."""
        for mode in outcome.score.failure_modes if self.is_logging else ():
            if mode.severity == "block":
                LOG.warning(
                    "case_failed case=%s code=%s severity=%s detail=%r",
                    outcome.case_id,
                    mode.code,
                    mode.severity,
                    mode.detail,
                )
        self.on_outcome(outcome)


class _Calls:
    """The system's calls for one running case."""

    def __init__(self, done: Sequence[CaseAttempt]) -> None:
        self.done = list(done)
        self.spending: Spending
        self.is_timed = False
        """Whether the seconds of the last call are the system's own."""

    def cost_usd(self, since: int = 0) -> float:
        """Return what the calls after the first `since` spent together."""
        return add_exactly(*(call.cost_usd for call in self.done[since:]))

    def begin(self, spending: Spending) -> None:
        """Begin the next call."""
        self.spending = spending
        self.started_at = time.time()

    def end(self, call: Attempt, **what: Any) -> CaseAttempt:
        """Add a call that has just ended, with its result."""
        elsewhere = self.spending.seconds
        # When a process began that died before it could tell, nobody knows.
        self.is_timed = not call.is_ours or call.is_too_late or elsewhere is not None
        attempt = CaseAttempt(
            attempt=len(self.done) + 1,
            started_at=self.started_at,
            seconds=call.own_seconds if elsewhere is None else elsewhere,
            cost_usd=self.spending.cost_usd,
            usage=self.spending.usage,
            **what,
        )
        self.done.append(attempt)
        return attempt


class PlanRun:
    """One run of a plan: tasks that each take one case after another."""

    def __init__(
        self,
        plan: RunPlan,
        system_under_test: scores.SystemUnderTest,
        rubric_runner: scores.RubricRunner,
        earlier: Earlier,
        runner: Runner,
    ) -> None:
        self.results = runner.results or RunResults()
        self._plan = plan
        self._left = iter(plan.cases)
        self._admission = runner.admission or Admission(plan)
        self._earlier = earlier
        self._runner = runner
        self._is_rubric_ours = getattr(rubric_runner, "is_isolated", False) is True
        here = self._here = Loop(asyncio.get_running_loop())
        make = partial(
            Attempt, here=here, grace_seconds=plan.cancellation_grace_seconds
        )
        is_ours = getattr(system_under_test, "is_isolated", False) is True
        self._system, self._rubric = system_under_test, rubric_runner
        self._call_system = partial(
            make,
            is_async=is_async(system_under_test),
            is_ours=is_ours,
            loop=(not is_ours and runner.loop) or (lambda: here),
        )
        self._call_rubric = partial(
            make,
            read=scores.read_verdict,
            is_async=is_async(rubric_runner),
            is_ours=self._is_rubric_ours,
            loop=lambda: here,
        )
        self._make_workspace = partial(
            make, is_async=False, read=lambda path: path, loop=lambda: here
        )
        settings = plan.task_class.settings
        self._lost_if = settings.lost_if
        self._workspaces = runner.workspaces
        if self._workspaces is None and settings.workspace is not None:
            self._workspaces = Workspaces(plan.task_class, settings.workspace)
        self._abandoned: list[Attempt] = []
        """Calls that continued after they were cancelled."""
        self._ended = self._here.loop.create_future()
        self._error: BaseException | None = None
        most = getattr(system_under_test, "most_at_once", plan.concurrency)
        self._working = min(plan.concurrency, len(plan.cases), most)

    async def run_all(self) -> None:
        """Run the cases; end all of them before returning or raising."""
        if not self._working:
            return
        self._here.start()
        workers = [asyncio.create_task(self._work()) for _ in range(self._working)]
        try:
            await self._ended
        finally:
            self._here.stop()
            for worker in workers:
                worker.cancel()
            await asyncio.wait(workers)
            await end_for_good(self._abandoned)
            if self._workspaces is not None:
                self._workspaces.close()
        if self._error is not None:
            raise self._error

    async def _work(self) -> None:
        """Run one case after another until none is left.

        This never raises: `run_all` does. A `KeyboardInterrupt` that leaves a task would end the
        event loop, which is not ours.
        """
        try:
            for case in self._left:
                if self._error is not None or not await self._may_start(case):
                    break
                await self._run_one(case)
        except BaseException as error:  # noqa: BLE001 - `run_all` raises it
            self._error = self._error or error
        self._working -= 1
        if not self._ended.done() and (self._error is not None or not self._working):
            self._ended.set_result(None)

    async def _may_start(self, case: BenchCase) -> bool:
        if not self._admission.is_needed:
            return True
        attempt = len(self._earlier.get(case.case_id, ())) + 1
        wait_seconds = _SHORTEST_WAIT_SECONDS
        while True:
            admitted = self._admission.admit(case, attempt)
            if admitted != "wait":
                break
            await asyncio.sleep(wait_seconds)
            wait_seconds = min(2 * wait_seconds, _LONGEST_WAIT_SECONDS)
        if admitted == "stop":
            self.results.stopped = self._admission.stop_reason
        return admitted == "go"

    async def _run_one(self, case: BenchCase) -> None:
        self.results.started.add(case.case_id)
        self._runner.on_start(case.case_id)
        calls = _Calls(self._earlier.get(case.case_id, ()))
        before = len(calls.done)
        before_usd = calls.cost_usd()
        try:
            outcome = await self._outcome_of(case, calls)
        except CaseLostError as lost:
            if lost.fatal is not None and self._runner.on_lost is None:
                raise lost.fatal from None
            lost.workspace = await self._end_workspace(case, is_failed=True)
            update = {"is_lost": True, "workspace": lost.workspace}
            last = calls.done[-1].model_copy(update=update)
            if self._admission.is_needed:
                cost_usd = calls.cost_usd(since=before)
                self._admission.settle(case.case_id, cost_usd, last.fingerprint)
            self.results.fail(case.case_id, last)
            if self._runner.on_lost is not None:
                self._runner.on_lost(case.case_id, lost)
            return
        except asyncio.CancelledError:
            if self._workspaces is not None:
                self._workspaces.end(case.case_id, is_failed=False)
            raise
        if self._admission.is_needed:
            cost_usd = add_exactly(outcome.score.cost_usd, -before_usd)
            fingerprint = outcome.attempts[-1].fingerprint
            self._admission.settle(case.case_id, cost_usd, fingerprint)
        is_failed = not outcome.score.passed
        if workspace := await self._end_workspace(case, is_failed=is_failed):
            *others, last = outcome.attempts
            last = last.model_copy(update={"workspace": workspace})
            outcome = replace(outcome, attempts=(*others, last))
        self.results.finish(outcome)
        self._runner.tell(outcome)

    async def _end_workspace(self, case: BenchCase, *, is_failed: bool) -> str | None:
        if self._workspaces is None:
            return None
        end = partial(self._workspaces.end, case.case_id, is_failed=is_failed)
        return await asyncio.to_thread(end)

    async def _prepare_workspace(self, case: BenchCase, calls: _Calls) -> Path | None:
        """Return a new workspace of a case, if it is to have one.

        Raises:
            CaseLostError: It can't be made.
        """
        if self._workspaces is None:
            return None
        call = partial(self._workspaces.make, case)
        made = await self._make_call(self._make_workspace, call, SECONDS_TO_MAKE)
        if made.error is None and not made.is_too_late:
            workspace: Path = made.value
            return workspace
        error = made.error or user_code.ToldError(f"no workspace: {made.why_late}")
        self._lose(made, error, calls, "environment")
        raise CaseLostError(None, error)

    def _lose(
        self,
        call: Attempt,
        error: user_code.ToldError,
        calls: _Calls,
        charge_to: str | None,
    ) -> None:
        """Note a call after which the case has no score."""
        is_owed = charge_to is not None
        calls.end(
            call,
            ended=error.words,
            kind=error.failure_kind if is_owed else None,
            fingerprint=error.fingerprint(models.SUT_EXCEPTION) if is_owed else "",
            charge_to=charge_to,
        )

    async def _outcome_of(self, case: BenchCase, calls: _Calls) -> CaseOutcome:
        """Run a case: the system under test, then the rubric, each within its limit.

        Raises:
            CaseLostError: The system or the rubric raised what ends a run, or lost its loop.
        """
        system = await self._try_system(case, calls)
        failed = _judge_system(system)
        if failed is not None:
            score, fingerprint = failed
            kind = None
            if system.error is not None and not system.is_too_late:
                kind = system.error.failure_kind
            mode = score.failure_modes[0]
            ended = mode.detail or mode.code
            calls.end(system, ended=ended, kind=kind, fingerprint=fingerprint)
            return _outcome(case, score, system, calls)
        calls.end(system)
        answer: Answer = system.value
        limit = None
        if not self._is_rubric_ours:
            limit = (
                case.rubric_wall_clock_seconds or self._plan.rubric_wall_clock_seconds
            )
        graded = case.as_in_file()
        if self._workspaces is not None:
            graded = graded.in_workspace(self._workspaces.path_of(case.case_id))
        grade = partial(self._rubric, graded, answer.output)
        rubric = await self._make_call(self._call_rubric, grade, limit)
        if rubric.fatal_error is not None and rubric.error is not None:
            raise CaseLostError(rubric.fatal_error, rubric.error)
        wall_clock_ms = (system.elapsed_seconds + rubric.elapsed_seconds) * 1000
        score, fingerprint = _judge_rubric(rubric, self._plan.task_class, wall_clock_ms)
        if fingerprint:
            calls.done[-1] = calls.done[-1].model_copy(
                update={"fingerprint": fingerprint}
            )
        return _outcome(case, score, rubric, calls, answer)

    def _spend(
        self, case_id: str, attempt: int, cost_usd: float, usage: Mapping[str, float]
    ) -> None:
        del usage  # no cap is on it: it counts when the call has ended
        self._admission.spend(case_id, attempt, cost_usd)
        self.results.spend(case_id, attempt, cost_usd)

    async def _try_system(self, case: BenchCase, calls: _Calls) -> Attempt:
        """Call the system, and call it again if the settings ask for a retry."""
        limit = case.timeout_per_case_seconds or self._plan.timeout_per_case_seconds
        tries = 1
        while True:
            number = len(calls.done) + 1
            calls.begin(Spending(partial(self._spend, case.case_id, number)))
            hidden = self._plan.task_class.settings.hidden
            was_lost = bool(calls.done) and calls.done[-1].is_lost
            workspace = await self._prepare_workspace(case, calls)
            given = case.for_system(
                hidden, calls.spending, is_suspect=was_lost, workspace=workspace
            )
            read = partial(read_output, calls.spending.add)
            attempt = await self._make_call(
                self._call_system, partial(self._system, given), limit, read=read
            )
            error = attempt.error
            if error is None or attempt.is_too_late or attempt.fatal_error is not None:
                break
            pause = user_code.pause_seconds(self._plan.retry, tries, error)
            if pause is None:
                break
            tries += 1
            fingerprint = error.fingerprint(models.SUT_EXCEPTION)
            call = calls.end(
                attempt,
                ended=error.words,
                kind=error.failure_kind,
                fingerprint=fingerprint,
            )
            self.results.fail(case.case_id, call)
            await asyncio.sleep(pause)
        charge_to = None
        if error is not None and not attempt.is_too_late:
            charge_to = self._lost_if if error.charge_to == self._lost_if else None
        if error is not None and (charge_to or attempt.fatal_error is not None):
            self._lose(attempt, error, calls, charge_to)
            raise CaseLostError(attempt.fatal_error, error)
        return attempt

    async def _make_call(
        self,
        make: partial[Attempt],
        call: Callable[[], Any],
        limit: float | None,
        **how: Any,
    ) -> Attempt:
        attempt = make(call=call, limit_seconds=limit, **how)
        await attempt.run()
        if attempt.is_abandoned:
            self._abandoned.append(attempt)
        return attempt


def _judge_system(attempt: Attempt) -> tuple[BenchScore, str] | None:
    """Return the score of a case whose system failed, and the failure's fingerprint.

    `None` if the rubric is to judge.
    """
    error, wall_clock_ms = attempt.error, attempt.elapsed_seconds * 1000
    if attempt.is_too_late:
        code, why = models.SUT_TIMEOUT, attempt.why_late
        fingerprint = user_code.fingerprint(code, why)
    elif error is not None:
        code, why = models.SUT_EXCEPTION, error.words
        if error.failure_kind is not None:
            why = f"{error.failure_kind}: {why}"
        fingerprint = error.fingerprint(code)
    else:
        return None
    return scores.failed_score(code, why, wall_clock_ms=wall_clock_ms), fingerprint


def _judge_rubric(
    attempt: Attempt, task_class: models.TaskClass, wall_clock_ms: float
) -> tuple[BenchScore, str]:
    """Return the score of a case from the call of its rubric.

    And the fingerprint of what makes its answer no score of the class; empty if it gave one.
    """
    error = attempt.error
    if error is None and not attempt.is_too_late:
        verdict, _ = attempt.value
        score = scores.graded_score(verdict, task_class, wall_clock_ms=wall_clock_ms)
        # A code that the class doesn't list is ours: a misspelt key or code is that of all cases.
        for mode in score.failure_modes:
            if mode.code not in task_class.failure_mode_taxonomy:
                return score, user_code.fingerprint(mode.code, mode.detail or "")
        return score, ""
    code, why, cost_usd = models.RUBRIC_TIMEOUT, attempt.why_late, 0.0
    fingerprint = user_code.fingerprint(code, why)
    if error is not None and not attempt.is_too_late:
        if not isinstance(error, scores.RubricTimeoutError):
            code = models.RUBRIC_MALFORMED_OUTPUT
        why, fingerprint = error.words, error.fingerprint(code)
        if isinstance(error, scores.RubricError):
            cost_usd = error.cost_usd
    score = scores.failed_score(
        code, why, wall_clock_ms=wall_clock_ms, cost_usd=cost_usd
    )
    return score, fingerprint


def _outcome(
    case: BenchCase,
    score: BenchScore,
    last: Attempt,
    calls: _Calls,
    answer: Answer | None = None,
) -> CaseOutcome:
    """Return the outcome of a case from its score, its last call, and all calls of its system."""
    error = None if last.is_expired else last.error
    printed = "" if error is None else error.printed
    if error is None and answer is not None and not last.is_expired:
        _, printed = last.value
    of_system = {
        "cost_usd": min(add_exactly(score.cost_usd, calls.cost_usd()), MOST_COST_USD),
        "system_ms": calls.done[-1].seconds * 1000 if calls.is_timed else None,
    }
    return CaseOutcome(
        case_id=case.case_id,
        score=score.model_copy(update=of_system),
        output=None if answer is None else answer.output,
        transcript=None if answer is None else answer.transcript,
        attempts=tuple(calls.done),
        traceback=None if error is None else error.traceback,
        printed=printed,
    )
