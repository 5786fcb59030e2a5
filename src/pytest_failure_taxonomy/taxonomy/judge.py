"""The judge: from the evidence of a run to the reasons that hold and the one that is primary.

There is no second place that decides. Each `_from_…` below looks at one sort of evidence and
yields what it found; that is grouped by reason and kind and sorted by precedence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pytest_failure_taxonomy.taxonomy.classification import (
    judge_collection_failures,
    judge_run_error,
    judge_test_failures,
    type_in_text,
)
from pytest_failure_taxonomy.taxonomy.deaths import (
    ENDED_FROM_OUTSIDE,
    TIMEOUT_EXIT_CODE,
    headline_of_timeout,
    in_words_of_command,
    is_ended_as_stalled,
    judge_command,
    judge_death,
    judge_late_death,
    judge_sandbox,
    judge_stalls,
    judge_worker,
    meaning_of,
    words_of_stall,
    words_of_tool,
)
from pytest_failure_taxonomy.taxonomy.evidence import (
    CollectionFailure,
    Interruption,
    OutputLine,
    RaisedException,
    RunError,
    RunEvidence,
    TestFailure,
    WorkerEnd,
)
from pytest_failure_taxonomy.taxonomy.judgement import (
    MAX_EVIDENCE,
    Cause,
    Evidence,
    Finding,
    HeldReason,
    Judgement,
    Verdict,
    deciding_lines,
    finding,
    group_findings,
    marked_finding,
    owner_of_most,
    primary_of,
    stacks_of,
    words_of_evidence,
)
from pytest_failure_taxonomy.taxonomy.reasons import (
    STAGE_FAILURE_REASONS,
    STAGE_KINDS,
    TIME_LIMIT_EXIT_CODES,
    FailureReason,
    FailureType,
    Stage,
    known_kinds,
)
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.taxonomy.words import (
    words_of_collection_failure,
    words_of_interruption,
    words_of_run_error,
    words_of_test_failure,
)

_SESSION_LIMIT: Final = "session-timeout:"
"""How the message of pytest-timeout's --session-timeout begins; it leaves nothing else behind."""

_BUDGET: Final = re.compile(r"Timeout \(?>(\d+(?:\.\d+)?)s")
"""How pytest-timeout says what a test was allowed."""

_OF_XDIST: Final = re.compile(r"<WorkerController|\((?:xdist|execnet)/[^()]*\)$")
"""What xdist's own errors name: a worker, or a place in itself or in what it talks through."""

_ENVIRONMENT_REASONS: Final = frozenset(
    {
        FailureReason.SANDBOX_ERROR,
        FailureReason.LLM_ERROR,
        FailureReason.TOOL_ERROR,
        FailureReason.GIT_CLONE_FAILED,
        FailureReason.GIT_CHECKOUT_FAILED,
    }
)
"""Reasons that say more than a stage's name can; where one holds, the stage adds none."""


def judge(run: RunEvidence) -> Judgement:
    """Say why a run failed, and what each of its failures is.

    Success is a verdict of `None`. A baseline run is turned round: it is its task's precondition
    that its tests fail, so a valid one has no verdict. But they have to fail by themselves: where
    the environment failed them, that is the verdict: Docker that does not start is SANDBOX_ERROR
    in any stage. A green run has none either, whatever the recorder has made of its tests.
    """
    judged = _judge_each_failure(run)
    found = _findings(run, judged)
    if found and _is_green(run):
        said = "pytest ended with exit code 0, so this is no verdict"
        causes = _causes_of(found, run)
        faults = tuple(f"{said}: {cause.what} ({cause.kind})" for cause in causes)
        return replace(judged, faults=faults)
    if run.marker is not None and (found or run.exit.code is None):
        found.append(marked_finding(run.marker.name, run.marker.reason))
    if (
        run.stage is Stage.BASELINE_RUN
        and run.finished
        and run.exit.code is not None
        and judged.exit_reason is None
        and not _was_interrupted(run)
    ):
        found = [each for each in found if each.reason in _ENVIRONMENT_REASONS]
        if not found and not run.counts.ran:
            note = f"no test ran, yet exit code {run.exit.code} counts as a failing baseline"
            judged = replace(judged, notes=(f"baseline: {note}",))
    held = group_findings(found)
    causes = _causes_of(found, run)
    lines: tuple[OutputLine, ...] = ()
    if run.output is not None:
        kinds = (primary_of(held).kind, *(each.kind for each in held)) if held else ()
        lines = deciding_lines(run.output, kinds, is_cut_off=not run.finished)
    verdict = _verdict(held, causes, run, judged, lines)
    return replace(judged, verdict=verdict, reasons=held, causes=causes, lines=lines)


def _causes_of(found: Sequence[Finding], run: RunEvidence) -> tuple[Cause, ...]:
    if not found:
        return ()
    # Imported here, because a run without failures has no causes.
    from pytest_failure_taxonomy.taxonomy.causes import gather_causes, join_causes

    if not run.settled_causes:
        return gather_causes(found)
    settled = {id(each) for each in run.settled}
    causes = gather_causes(each for each in found if id(each) not in settled)
    return join_causes((*run.settled_causes, *causes))


def _verdict(
    held: Sequence[HeldReason],
    causes: Sequence[Cause],
    run: RunEvidence,
    judged: Judgement,
    lines: Sequence[OutputLine],
) -> Verdict | None:
    if not held:
        return None
    from pytest_failure_taxonomy.taxonomy.causes import (
        action_of,
        headline_of_run,
        retryable_of,
    )

    primary = primary_of(held)
    first = primary.findings[0]
    least, action = action_of(causes, primary.kind)
    failure_type = least.failure_type
    if lines and failure_type is FailureType.UNKNOWN:
        failure_type = type_in_text("\n".join(line.text for line in lines))
    return Verdict(
        reason=primary.reason,
        kind=primary.kind,
        confidence="likely" if run.unrecorded else first.confidence,
        failure_type=failure_type,
        recovery_action=action,
        retryable=retryable_of(causes),
        message=headline_of_run(causes, run),
        nodeid=next(iter(least.nodeids), None),
        evidence=(
            *(
                Evidence(source=found.source, detail=words_of_evidence(found))
                for found in primary.findings[:MAX_EVIDENCE]
            ),
            *stacks_of(run, first),
        ),
        ambiguous=first.ambiguous,
        owner=owner_of_most(_exceptions_of(primary, run, judged)),
    )


def _exceptions_of(
    held: HeldReason, run: RunEvidence, judged: Judgement
) -> Iterator[RaisedException | None]:
    """Yield what was raised in each failure and error of one reason and kind."""
    reason, kind = held.reason, held.kind
    seen: tuple[tuple[Sequence[TestFailure | CollectionFailure | RunError], Any], ...] = (
        (run.failures, judged.failures),
        (run.collection_failures, judged.collection_failures),
        (run.errors, judged.errors),
    )
    for failures, judgements in seen:
        for failure, one in zip(failures, judgements, strict=True):
            if one.kind == kind and one.reason is reason:
                yield failure.exception


def _judge_each_failure(run: RunEvidence) -> Judgement:
    """Return what can be said of each failure by itself, and no verdict yet."""
    is_log = run.output is not None
    judged = Judgement(
        exit_reason=_exit_reason(run),
        failures=judge_test_failures(run.failures, reads_text=is_log),
        collection_failures=judge_collection_failures(run.collection_failures, reads_text=is_log),
        errors=tuple(map(judge_run_error, run.errors)),
    )
    if not run.failures and not run.collection_failures:
        return judged
    # Imported here, because a run without failures needs no groups.
    from pytest_failure_taxonomy.taxonomy.fingerprints import group_failures

    return replace(judged, groups=group_failures(run, judged))


def _is_green(run: RunEvidence) -> bool:
    """Tell whether pytest came to its end with exit code 0, and left nothing undone or broken.

    Then no test has failed for good: pytest itself, or a plugin of the user's, has said so.
    """
    end = run.exit
    is_success = run.finished and end.code == 0 and end.session_code in (None, 0)
    is_whole = not (
        run.in_flight
        or run.not_run
        or run.errors
        or run.interruptions
        or any(worker.ending != "finished" for worker in run.workers)
        or any(failure.crashed for failure in run.failures)
    )
    is_judged_before = bool(run.settled)
    return (
        is_success
        and is_whole
        and not is_judged_before
        and end.signal is None
        and end.enforced_limit_seconds is None
        and run.stage is not Stage.BASELINE_RUN
    )


def _from_tests(run: RunEvidence, judged: Judgement) -> Iterator[Finding]:
    """Yield what failed in tests, and the ends of the workers that ran them."""
    told = _told_by_workers(run)
    for index, (failure, one) in enumerate(zip(run.failures, judged.failures, strict=True)):
        if index in told:
            continue
        yield Finding(
            reason=one.reason,
            kind=one.kind,
            source="test report",
            detail=f"{failure.phase} failed: {failure.message}",
            nodeid=failure.nodeid or None,
            retryable=one.retryable,
            failure_type=one.failure_type,
            headline=_headline_of(failure, one.kind),
            words=words_of_test_failure(failure),
            failure=failure,
            fingerprint=one.fingerprint,
        )
    for failure in run.failures:
        if failure.marker is not None:
            yield marked_finding(failure.marker.name, failure.marker.reason, failure.nodeid)
    places = {id(worker): index for index, worker in told.items()}
    for worker in run.workers:
        if worker.ending not in ("died", "interrupted"):  # an exit is told as that
            continue
        ended, place = judge_worker(worker), places.get(id(worker))
        if place is not None:
            fingerprint = judged.failures[place].fingerprint
            if worker.ending == "interrupted":
                ended = replace(ended, explains=(fingerprint,))
            else:
                ended = replace(ended, failure=run.failures[place], fingerprint=fingerprint)
        yield ended


def _told_by_workers(run: RunEvidence) -> dict[int, WorkerEnd]:
    """Return by their places the failures that the ends of workers tell, one each.

    xdist reports the test of a worker that got a Ctrl+C as crashed, too.
    """
    if not run.workers:
        return {}
    has_exited = _has_exited(run)
    ends = [
        worker
        for worker in run.workers
        if worker.ending in ("died", "interrupted") or (worker.ending == "exited" and has_exited)
    ]
    told = {}
    for index, failure in enumerate(run.failures):
        if failure.crashed and failure.attributed is None:
            of_test = [worker for worker in ends if worker.crashed_on == failure.nodeid]
            if of_test:
                told[index] = min(of_test, key=lambda worker: worker.id != failure.worker)
                ends.remove(told[index])
    return told


def _headline_of(failure: TestFailure, kind: str) -> str | None:
    """Return what names the cause of one failed test better than its kind does."""
    if kind == "test.timeout":
        if failure.limit is not None:
            return headline_of_timeout(failure.limit)
        budget = re.search(_BUDGET, failure.message)
        return (
            f"{known_kinds()[kind].one} of {float(budget[1]):g} s"
            if budget
            else known_kinds()[kind].one
        )
    if failure.stall is not None and kind == "test.stalled":
        return f"{known_kinds()[kind].one}: {words_of_stall(failure.stall)}"
    return None


def _from_outside_of_tests(run: RunEvidence, judged: Judgement) -> Iterator[Finding]:
    """Yield what could not be collected, and the errors of pytest, of conftests and of plugins."""
    for failed, one in zip(run.collection_failures, judged.collection_failures, strict=True):
        yield finding(
            one.kind,
            "collection report",
            failed.message,
            nodeid=failed.nodeid or None,
            failure_type=one.failure_type,
            words=words_of_collection_failure(failed),
            failure=failed,
            fingerprint=one.fingerprint,
        )
    for error, one_error in zip(run.errors, judged.errors, strict=True):
        # xdist's controller asserts that a worker that is done has run all of its tests, looks for
        # one that has never come to its tests, and writes to workers that are gone. All of that
        # follows where something else had ended a worker's session.
        if _OF_XDIST.search(error.message) and (
            _has_exited(run) or any(not _OF_XDIST.search(other.message) for other in run.errors)
        ):
            continue
        yield finding(
            one_error.kind,
            f"{error.origin} error",
            error.message,
            failure_type=one_error.failure_type,
            words=words_of_run_error(error),
            failure=error,
        )


def _has_exited(run: RunEvidence) -> bool:
    return any(_interruption_kind(stop) == "interrupt.exit" for stop in run.interruptions)


def _from_session(run: RunEvidence, judged: Judgement) -> Iterator[Finding]:
    """Yield what ended the session, and what is known of it by its count alone."""
    if run.mismatch is not None:
        # Imported here, because a run whose workers agree needs none of its words.
        from pytest_failure_taxonomy.taxonomy.mismatch import headline_of_mismatch, text_of_mismatch

        yield finding(
            "collection.mismatch",
            "xdist",
            text_of_mismatch(run.mismatch),
            headline=headline_of_mismatch(run.mismatch),
        )
    if run.should_fail.startswith(_SESSION_LIMIT):
        yield finding("session.timeout", "session.shouldfail", run.should_fail)
    running = run.in_flight[0].nodeid if run.in_flight else None
    # What pytest stops for: `-x`, a collection error, a crash.
    is_stop_explained = bool(
        run.failures
        or run.collection_failures
        or run.errors
        or run.mismatch
        or run.unrecorded
        or any(worker.ending == "died" for worker in run.workers)
    )
    told_by_workers = any(worker.ending == "interrupted" for worker in run.workers)
    has_exited = _has_exited(run)
    for stop in run.interruptions:
        kind = _interruption_kind(stop)
        if kind == "interrupt.stopped" and is_stop_explained:
            continue
        is_passed_on = kind == "interrupt.keyboard" and stop.exception == "Interrupted"
        if is_passed_on and (told_by_workers or has_exited):
            continue  # of a `pytest.exit` in a worker xdist says that it was a Ctrl+C
        nodeid = running if kind == "interrupt.keyboard" else None
        explains = tuple(
            judged.failures[index].fingerprint
            for index, worker in _told_by_workers(run).items()
            if worker.ending == "exited" and kind == "interrupt.exit"
        )
        yield finding(
            kind,
            "session",
            stop.message or stop.exception,
            nodeid=nodeid,
            words=words_of_interruption(stop),
            explains=explains,
        )
    lacking = run.unrecorded  # it could be of another kind, or another reason
    for kind, count in (
        ("test.failed", lacking.failures),
        ("collection.error", lacking.collection_failures),
        ("internal.error", lacking.errors),
        ("interrupt.stopped", lacking.interruptions),
    ):
        if count:
            detail = f"{count} counted, but what happened could not be written down"
            yield finding(kind, "record", detail, count=count, confidence="likely")


def _interruption_kind(stop: Interruption) -> str:
    if stop.exception == "Exit":
        return "interrupt.exit"
    # xdist passes a worker's Ctrl+C on in these words, by an exception of its own.
    if stop.exception == "KeyboardInterrupt" or "received keyboard-interrupt" in stop.message:
        return "interrupt.keyboard"
    # xdist's controller passes a worker's `shouldfail` on in this way.
    if stop.message.startswith(_SESSION_LIMIT):
        return "session.timeout"
    return "interrupt.stopped"


def _findings(run: RunEvidence, judged: Judgement) -> list[Finding]:
    if is_ended_as_stalled(run):
        return _findings_of(run, judged, [*judge_stalls(run)])
    found = _findings_of(run, judged, [])
    was_ended = any(each.kind in ENDED_FROM_OUTSIDE for each in found)
    return [*judge_stalls(run), *found] if was_ended else found


def _findings_of(run: RunEvidence, judged: Judgement, ended: list[Finding]) -> list[Finding]:
    """Return all findings; `ended` are those of stalls for which we have ended the run."""
    found = [*run.settled, *ended, *_from_tests(run, judged)]
    found += (*_from_outside_of_tests(run, judged), *_from_session(run, judged))
    if ended and (not run.finished or run.exit.session_code not in (None, run.exit.code)):
        return found
    if not run.finished:
        if run.early_refusal is not None and run.exit.code == 0:
            found += judge_command(0, run.exit.source, is_pytest=True, refusal=run.early_refusal)
        death = judge_death(run.exit, run.in_flight, run.activity, run.traces)
        return [*found, _of_stage(in_words_of_command(death, run), run)]
    if run.exit.session_code not in (None, run.exit.code):
        late = _of_stage(judge_late_death(run.exit), run)
        # A session that had failed for reasons of its own left with another code: they still hold.
        if not (found and run.exit.session_code and late.kind == "exit_status.changed"):
            found.append(late)
    if run.recorded:
        found += _from_exit_code(run, explained=bool(found))
    elif sandbox := [*judge_sandbox(run)]:
        found += sandbox
    elif run.exit.code is None:
        found += _from_error_line(run)
    elif run.stage in (Stage.AGENT_RUN, Stage.FINAL_TEST) and not _was_interrupted(run):
        found += judge_command(
            run.exit.code, run.exit.source, is_pytest=run.is_pytest, refusal=run.early_refusal
        )
    found += _from_stage(run, found)
    return found


def _from_error_line(run: RunEvidence) -> Iterator[Finding]:
    """Yield what a log says of a command of which nothing else is known, not even a marker."""
    if run.tool_message is not None and run.stage in STAGE_FAILURE_REASONS:
        reason = FailureReason.from_stage(run.stage, 1) or FailureReason.UNKNOWN
        yield replace(_stage_finding(run, reason), confidence="likely")
        return
    if run.output is not None and run.output.error is not None and run.marker is None:
        yield finding(
            "command.failed",
            "log",
            run.output.error.text.strip(),
            reason=FailureReason.UNKNOWN,
            confidence="likely",
        )


def _from_exit_code(run: RunEvidence, *, explained: bool) -> Iterator[Finding]:
    """Yield what only the exit code tells: nothing to run, or a status that no finding explains."""
    code = run.exit.code
    if explained or code is None or code == 0:
        return
    if code == 5 and run.counts.collected == 0:
        deselected = run.counts.deselected
        if deselected:
            yield finding("tests.all_deselected", "collection", f"{deselected} deselected, 0 left")
        else:
            skipped = (f"{run.counts.skipped} skipped",) if run.counts.skipped else ()
            said = ", ".join(["0 tests collected", *skipped])
            yield finding("tests.none_collected", "collection", said, words=skipped)
    elif code == 6:
        yield finding("warnings.exceeded", "exit status", f"warnings: {run.counts.warnings}")
    elif run.coverage:
        yield finding("coverage.failed", "pytest-cov", run.coverage, headline=run.coverage)
    elif run.stage not in STAGE_FAILURE_REASONS and (
        run.stage in (Stage.AGENT_RUN, Stage.FINAL_TEST) or code not in TIME_LIMIT_EXIT_CODES
    ):  # else the stage itself has something to say of it
        reason = FailureReason.from_pytest_exit_code(code)
        why = run.should_fail or f"exit code {code}"
        yield finding("exit_status.changed", "exit status", why, reason=reason, words=(why,))


def _from_stage(run: RunEvidence, found: list[Finding]) -> Iterator[Finding]:
    """Yield the stage's own reason, unless evidence names one that says more."""
    code = run.exit.code
    if code is None or run.stage in (Stage.AGENT_RUN, Stage.FINAL_TEST):
        return
    if any(each.kind in STAGE_KINDS.values() for each in found):
        return
    reasons = {each.reason for each in found}
    if FailureReason.INTERRUPTED in reasons or reasons & _ENVIRONMENT_REASONS:
        return
    reason = FailureReason.from_stage(run.stage, code)
    if FailureReason.TIMEOUT in reasons:  # it overrides the stage, as exit codes 124 and 137 do
        reason = FailureReason.SETUP_TIMEOUT if run.stage is Stage.SETUP else None
    if reason is not None:
        yield _stage_finding(run, reason)


def _stage_finding(run: RunEvidence, reason: FailureReason) -> Finding:
    """Return the stage's own reason, and why, if the tool that it has called says so."""
    kind, said = STAGE_KINDS[reason], f"{run.stage} ended with exit code {run.exit.code}"
    told = run.tool_message
    if told is None or run.stage not in STAGE_FAILURE_REASONS:
        return finding(kind, "stage", said, reason=reason)
    if reason in (FailureReason.SETUP_TIMEOUT, FailureReason.TIMEOUT):
        return finding(kind, "stage", said, reason=reason)
    return finding(
        kind,
        "output",
        told.line.text,
        reason=reason,
        headline=f"{known_kinds()[kind].one}: {words_of_tool(told)}",
        retryable=meaning_of(told).get("retryable"),
    )


def _of_stage(death: Finding, run: RunEvidence) -> Finding:
    """Return the end of a process at its time limit as what the stage makes of it.

    A limit counts as exit code 124 does. In the stages whose table is pytest's, the end of a pytest
    says more of itself: what was in flight.
    """
    is_plain = run.stage in (Stage.AGENT_RUN, Stage.FINAL_TEST)
    if death.kind != "process.timeout" or (is_plain and (run.recorded or run.is_pytest)):
        return death
    reason = FailureReason.from_stage(run.stage, TIMEOUT_EXIT_CODE) or death.reason
    kind = STAGE_KINDS[reason]
    says_more = is_plain or run.activity is not None
    headline = death.headline if says_more else None
    return replace(death, reason=reason, kind=kind, headline=headline)


def _exit_reason(run: RunEvidence) -> FailureReason | None:
    if run.exit.enforced_limit_seconds is not None:
        return FailureReason.from_stage(run.stage, TIMEOUT_EXIT_CODE)
    if run.exit.code is None:
        return None
    exception = KeyboardInterrupt if _was_interrupted(run) else None
    by_stage = FailureReason.from_stage(run.stage, run.exit.code, exception)
    if by_stage is None and run.strict_baseline and run.exit.code not in (0, 1):
        return FailureReason.from_pytest_exit_code(run.exit.code)
    return by_stage


def _was_interrupted(run: RunEvidence) -> bool:
    return (
        run.exit.signal == "SIGINT"
        or any(_interruption_kind(stop) == "interrupt.keyboard" for stop in run.interruptions)
        or any(worker.ending == "interrupted" for worker in run.workers)
    )
