"""The judge: from the evidence of a run to its reasons and the primary one.

There is no second place that decides. Each `_judge_…` below looks at one sort of
evidence and yields what it found; that is grouped by reason and kind and sorted by
precedence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from pytest_failure_taxonomy.taxonomy import deaths, words
from pytest_failure_taxonomy.taxonomy.causes import (
    choose_action,
    gather_causes,
    headline_of_run,
    join_causes,
    whether_retry_helps,
)
from pytest_failure_taxonomy.taxonomy.charges import one_charge
from pytest_failure_taxonomy.taxonomy.classification import (
    judge_collection_failures,
    judge_run_error,
    judge_test_failures,
    type_at_head,
    type_in_text,
)
from pytest_failure_taxonomy.taxonomy.evidence import (
    Interruption,
    Output,
    OutputLine,
    RunEvidence,
    TestFailure,
    WorkerEnd,
)
from pytest_failure_taxonomy.taxonomy.judgement import (
    COMMAND_FAILED,
    KIND_FAMILIES,
    MAX_EVIDENCE,
    MAX_LINES,
    STAGE_FAILURE_REASONS,
    TIME_LIMIT_EXIT_CODES,
    TIMEOUT_EXIT_CODE,
    Cause,
    Evidence,
    FailureJudgement,
    FailureReason,
    FailureType,
    Finding,
    HeldReason,
    Judgement,
    Stage,
    Verdict,
    kind_of_stage,
    known_kinds,
    make_finding,
    make_marker_finding,
    owner_of_most,
    type_of_kind,
)
from pytest_failure_taxonomy.taxonomy.values import replace

_SESSION_LIMIT: Final = "session-timeout:"
"""How the message of pytest-timeout's --session-timeout begins; it leaves nothing else
behind."""

_BUDGET: Final = re.compile(r"Timeout \(?>(\d+(?:\.\d+)?)s")
"""How pytest-timeout says what a test was allowed."""

_OF_XDIST: Final = re.compile(r"<WorkerController|\((?:xdist|execnet)/[^()]*\)$")
"""What xdist's own errors name: a worker, or a place in itself or in what it talks
through."""

_PYTESTS_STAGES: Final = (Stage.AGENT_RUN, Stage.FINAL_TEST)
"""Whose table of exit codes is pytest's."""

_STAGE_KINDS: Final = frozenset(
    kind_of_stage(reason)
    for reason in (*STAGE_FAILURE_REASONS.values(), FailureReason.BASELINE_NOT_FAILING)
)
"""What a stage makes of an exit code. A time limit overrides it, as exit codes 124 and
137 do."""

_ENVIRONMENT_REASONS: Final = frozenset(chain.from_iterable(KIND_FAMILIES.values()))
"""Reasons that say more than a stage's name can; where one holds, the stage adds
none."""


def judge(run: RunEvidence) -> Judgement:
    """Say why a run failed, and what each of its failures is.

    Success is a verdict of `None`. A baseline run is turned round: it is its task's
    precondition that its tests fail, so a valid one has no verdict. But they have to
    fail by themselves: where the environment failed them, that is the verdict: Docker
    that does not start is SANDBOX_ERROR in any stage. A green run has none either,
    whatever the recorder has made of its tests.
    """
    judged = _judge_failures(run)
    findings = _collect_findings(run, judged)
    # A green run contradicts its findings, so they are our faults and no reasons.
    if findings and _is_green(run):
        note = "pytest ended with exit code 0, so this is no verdict"
        causes = _gather_causes(findings, run)
        faults = [f"{note}: {cause.what} ({cause.kind})" for cause in causes]
        return replace(judged, faults=tuple(faults))
    if run.output is not None and not findings:
        findings += _judge_skips(run)
    marker = run.marker
    if marker is not None and (findings or run.exit.code is None):
        # What an agent says of its own run is no hearsay: its exit code says less.
        is_own = run.stage is Stage.AGENT_RUN and not run.is_pytest
        findings.append(
            make_marker_finding(marker.name, marker.reason, is_hearsay=not is_own),
        )
    notes = [*judged.notes]
    if _is_failed_baseline(run, judged, findings):
        findings = [
            finding for finding in findings if finding.reason in _ENVIRONMENT_REASONS
        ]
        if not findings and not run.counts.ran:
            code = f"exit code {run.exit.code} counts as a failing baseline"
            notes.append(f"baseline: no test ran, yet {code}")
    if run.uncounted:
        notes.append(words.words_of_uncounted(run.uncounted))
    reasons = _group_by_reason(findings)
    # The verdict is the first reason that was seen, not only told.
    observed = [reason for reason in reasons if not reason.findings[0].is_hearsay]
    primary = _choose_primary(observed or reasons, run)
    causes = _gather_causes(findings, run)
    verdict = None
    lines: tuple[OutputLine, ...] = ()
    if primary is not None:
        if run.output is not None:
            relevant = [primary, *reasons]
            lines = _select_lines(relevant, run.output, is_finished=run.finished)
        verdict = _make_verdict(primary, causes, run, lines)
    return replace(
        judged,
        verdict=verdict,
        reasons=reasons,
        causes=causes,
        lines=lines,
        notes=tuple(notes),
    )


def _judge_failures(run: RunEvidence) -> Judgement:
    """Return the judgement of each failure by itself, and the groups of alike ones."""
    is_log = run.output is not None
    collection_failures: tuple[FailureJudgement, ...] = ()
    if run.collection_failures:
        collection_failures = judge_collection_failures(
            run.collection_failures, reads_text=is_log
        )
    judged = Judgement(
        exit_reason=_exit_reason(run),
        failures=judge_test_failures(run.failures, reads_text=is_log),
        collection_failures=collection_failures,
        errors=tuple(map(judge_run_error, run.errors)),
        notes=tuple(map(words.words_of_fork, run.forked)),
    )
    if not run.failures and not run.collection_failures:
        return judged
    # Imported here, because a run without failures needs no groups.
    from pytest_failure_taxonomy.taxonomy.fingerprints import group_failures

    return replace(judged, groups=group_failures(run, judged))


def _is_failed_baseline(
    run: RunEvidence, judged: Judgement, findings: Sequence[Finding]
) -> bool:
    """Tell whether a baseline came to its end and failed, as its task wants it to."""
    return (
        run.stage is Stage.BASELINE_RUN
        and run.finished
        and run.exit.code is not None
        and judged.exit_reason is None
        and not _was_interrupted(run)
        and all(finding.kind != "stage.timeout" for finding in findings)
    )


def _group_by_reason(findings: Sequence[Finding]) -> tuple[HeldReason, ...]:
    """Group findings by reason and kind, in an order that doesn't depend on workers.

    Sort by precedence, then by how many tests are affected, then by the table of kinds.
    """
    grouped: dict[tuple[FailureReason, str], list[Finding]] = {}
    for finding in findings:
        grouped.setdefault((finding.reason, finding.kind), []).append(finding)
    reasons = []
    for (reason, kind), members in grouped.items():
        nodeids: dict[str, None] = {}
        count = 0
        for finding in members:
            if finding.nodeid is None:
                count += finding.count
            else:
                nodeids[finding.nodeid] = None
        # A test fails once, however many of its subtests do. But two workers can die on
        # one test.
        count += len(nodeids)
        if kind == "worker.crashed":
            count = len(members)
        reasons.append(
            HeldReason(
                reason=reason,
                kind=kind,
                findings=tuple(members),
                nodeids=tuple(nodeids),
                count=count,
            )
        )
    kinds = [*known_kinds()]

    def rank_reason(reason: HeldReason) -> tuple[int, int, int, str]:
        # Unknown kinds follow by their names.
        rank = kinds.index(reason.kind) if reason.kind in kinds else len(kinds)
        return reason.reason.precedence, -reason.count, rank, reason.kind

    return tuple(sorted(reasons, key=rank_reason))


def _choose_primary(
    reasons: Sequence[HeldReason], run: RunEvidence
) -> HeldReason | None:
    """Return the reason of the run: the first one, with one exception.

    A service or a tool that failed only the smaller part of the failed tests is not
    what the run failed of: then the other tests lead.
    """
    tests_lead = next(
        (reason for reason in reasons if reason.reason is FailureReason.TESTS_FAILED),
        None,
    )
    if tests_lead is None:
        return next(iter(reasons), None)
    failed = {failure.nodeid for failure in run.failures}
    for reason in reasons:
        of_service = [
            finding.nodeid
            for other in reasons
            if other.reason is reason.reason
            for finding in other.findings
        ]
        is_on_tests = all(
            isinstance(finding.failure, TestFailure) and not finding.failure.crashed
            for finding in reason.findings
        )
        is_minority = is_on_tests and 2 * len(set(of_service)) <= len(failed)
        if reason.reason not in _ENVIRONMENT_REASONS or not is_minority:
            return reason
    return tests_lead


def _select_lines(
    reasons: Sequence[HeldReason], output: Output, *, is_finished: bool
) -> tuple[OutputLine, ...]:
    """Return the lines of a log that speak for reasons, by number.

    Those of the first reason are the last to be omitted. The last line says where a log
    ends that ends before its program did.
    """
    chosen: dict[int, OutputLine] = {}
    for reason in reasons:
        for line in output.lines_about(reason.kind):
            if len(chosen) < MAX_LINES - 1:  # room for the summary
                chosen.setdefault(line.number, line)
    ending = output.summary
    if ending is None and (not is_finished or not chosen):
        ending = output.last
    if ending is not None:
        chosen[ending.number] = ending
    return tuple([chosen[number] for number in sorted(chosen)])


def _gather_causes(findings: Sequence[Finding], run: RunEvidence) -> tuple[Cause, ...]:
    if not run.settled_causes:
        return gather_causes(findings, run.stage, run.rootdir)
    settled = {id(finding) for finding in run.settled}
    causes = gather_causes(
        (finding for finding in findings if id(finding) not in settled),
        run.stage,
        run.rootdir,
    )
    kinds = {finding.kind for finding in findings}
    before = [
        cause
        for cause in run.settled_causes
        if cause.kind in kinds
        or cause.kind not in _STAGE_KINDS  # else a time limit overrides it
    ]
    return join_causes((*before, *causes))


def _make_verdict(
    primary: HeldReason,
    causes: Sequence[Cause],
    run: RunEvidence,
    lines: Sequence[OutputLine],
) -> Verdict:
    first = primary.findings[0]
    least, action = choose_action(causes, primary.kind)
    failure_type = least.failure_type
    if failure_type is FailureType.UNKNOWN:
        # Words are searched only where nothing is known that has a name.
        text = "\n".join(line.text for line in lines)
        if first.kind == COMMAND_FAILED:
            failure_type = type_in_text(text)
        elif first.failure is None:
            failure_type = type_of_kind(first.kind)
        else:
            failure_type = type_at_head(text) or failure_type
    evidence = []
    for finding in primary.findings[:MAX_EVIDENCE]:
        is_named = finding.nodeid is None or finding.nodeid in finding.detail
        detail = finding.detail if is_named else f"{finding.nodeid}: {finding.detail}"
        evidence.append(Evidence(source=finding.source, detail=detail))
    # What the threads were at, where the end of the process is the verdict.
    is_death = first.kind.startswith("process.")
    if run.exit.stacks and (
        is_death or first.kind in ("stage.setup_timeout", "stage.timeout")
    ):
        evidence.append(Evidence(source="stacks at SIGTERM", detail=run.exit.stacks))
    if is_death and run.traces is not None and run.traces.stack:
        stack = words.first_lines(run.traces.stack)
        evidence.append(Evidence(source="stack of the crash", detail=stack))
    return Verdict(
        reason=primary.reason,
        kind=primary.kind,
        precedence=primary.reason.precedence,
        confidence="likely" if _lacks_parts(run) else first.confidence,
        failure_type=failure_type,
        recovery_action=action,
        retryable=_whether_retry_helps(causes, run),
        message=headline_of_run(causes, run),
        nodeid=next(iter(least.nodeids), None),
        evidence=tuple(evidence),
        ambiguous=first.ambiguous,
        owner=owner_of_most([finding.failure for finding in primary.findings]),
        charge_to=one_charge([cause.charge_to for cause in causes]),
    )


def _lacks_parts(run: RunEvidence) -> bool:
    """Tell whether a part of what happened is not known."""
    is_fragment = run.output is not None and run.output.is_fragment
    return bool(run.unrecorded) or is_fragment


def _whether_retry_helps(causes: Sequence[Cause], run: RunEvidence) -> bool | None:
    helps = whether_retry_helps([cause.retryable for cause in causes])
    # What a retry does for failures of which nothing is known is not known, either.
    return None if helps and (run.unrecorded or run.uncounted) else helps


def _is_green(run: RunEvidence) -> bool:
    """Tell whether pytest ended with exit code 0 and left nothing undone or broken.

    Then no test has failed for good: pytest itself, or a plugin of the user's, has said
    so.
    """
    end = run.exit
    is_undone = (
        run.in_flight or run.not_run or run.errors or run.interruptions or run.settled
    )
    return (
        run.finished
        and end.code == 0
        and end.session_code in (None, 0)
        and end.signal is None
        and end.enforced_limit_seconds is None
        and run.stage is not Stage.BASELINE_RUN
        and run.tool_message is None  # else it is no pytest that has ended
        and not is_undone
        and not run.uncertified
        and not any(worker.ending != "finished" for worker in run.workers)
        and not any(failure.crashed for failure in run.failures)
    )


def _judge_tests(
    run: RunEvidence, judged: Judgement, worker_ends: Mapping[int, WorkerEnd]
) -> Iterator[Finding]:
    """Yield what failed in tests, and the ends of the workers that ran them."""
    for index, (failure, ruling) in enumerate(
        zip(run.failures, judged.failures, strict=True)
    ):
        if index in worker_ends:
            continue
        yield Finding(
            reason=ruling.reason,
            kind=ruling.kind,
            source="test report",
            detail=f"{failure.phase} failed: {failure.message}",
            nodeid=failure.nodeid or None,
            retryable=ruling.retryable,
            failure_type=ruling.failure_type,
            headline=_describe_failure(failure, ruling.kind),
            words=words.words_of_test_failure(failure),
            failure=failure,
            fingerprint=ruling.fingerprint,
        )
    for failure in run.failures:
        if failure.marker is not None:
            yield make_marker_finding(
                failure.marker.name, failure.marker.reason, failure.nodeid
            )
    places = {id(worker): index for index, worker in worker_ends.items()}
    for worker in run.workers:
        if worker.ending not in ("died", "interrupted"):  # an exit is told as that
            continue
        ended, place = deaths.judge_worker(worker), places.get(id(worker))
        if place is not None:
            fingerprint = judged.failures[place].fingerprint
            if worker.ending == "interrupted":
                ended = replace(ended, explains=(fingerprint,))
            else:
                ended = replace(
                    ended,
                    failure=run.failures[place],
                    fingerprint=fingerprint,
                )
        yield ended


def _match_worker_ends(run: RunEvidence) -> dict[int, WorkerEnd]:
    """Return by their places the failures that the ends of workers tell, one each.

    xdist reports the test of a worker that got a Ctrl+C as crashed, too.
    """
    has_exited = "interrupt.exit" in map(_interruption_kind, run.interruptions)
    ends = [
        worker
        for worker in run.workers
        if worker.ending in ("died", "interrupted")
        or (worker.ending == "exited" and has_exited)
    ]
    worker_ends = {}
    for index, failure in enumerate(run.failures):
        if failure.crashed and failure.attributed is None:
            of_test = [worker for worker in ends if worker.crashed_on == failure.nodeid]
            if of_test:
                # Two workers may die on one test; prefer the one that the failure names.
                worker_ends[index] = min(
                    of_test, key=lambda worker: worker.id != failure.worker
                )
                ends.remove(worker_ends[index])
    return worker_ends


def _describe_failure(failure: TestFailure, kind: str) -> str | None:
    """Return what names the cause of one failed test better than its kind does."""
    if kind == "test.timeout":
        if failure.limit is not None:
            return deaths.headline_of_timeout(failure.limit)
        headline = known_kinds()[kind].one
        budget = re.search(_BUDGET, failure.message)
        if budget is not None:
            headline = f"{headline} of {float(budget[1]):g} s"
        return headline
    if failure.stall is not None and kind == "test.stalled":
        how = deaths.words_of_stall(failure.stall)
        return f"{known_kinds()[kind].one}: {how}"
    return None


def _judge_errors(run: RunEvidence, judged: Judgement) -> Iterator[Finding]:
    """Yield collection errors, and the errors of pytest, conftests and plugins."""
    for failed, ruling in zip(
        run.collection_failures, judged.collection_failures, strict=True
    ):
        yield make_finding(
            ruling.kind,
            "collection report",
            failed.message,
            nodeid=failed.nodeid or None,
            failure_type=ruling.failure_type,
            words=words.words_of_collection_failure(failed),
            failure=failed,
            fingerprint=ruling.fingerprint,
        )
    for error, error_ruling in zip(run.errors, judged.errors, strict=True):
        # xdist's controller asserts that a worker that is done has run all of its
        # tests, looks for one that has never come to its tests, and writes to workers
        # that are gone. All of that follows where something else had ended a worker's
        # session.
        if _OF_XDIST.search(error.message) and (
            "interrupt.exit" in map(_interruption_kind, run.interruptions)
            or any(not _OF_XDIST.search(other.message) for other in run.errors)
        ):
            continue
        yield make_finding(
            error_ruling.kind,
            f"{error.origin} error",
            error.message,
            failure_type=error_ruling.failure_type,
            words=words.words_of_run_error(error),
            failure=error,
        )


def _judge_session(
    run: RunEvidence, judged: Judgement, worker_ends: Mapping[int, WorkerEnd]
) -> Iterator[Finding]:
    """Yield what ended the session, and what is known of it by its count alone."""
    if run.mismatch is not None:
        # Imported here, because a run whose workers agree needs none of its words.
        from pytest_failure_taxonomy.taxonomy.mismatch import (
            headline_of_mismatch,
            text_of_mismatch,
        )

        yield make_finding(
            "collection.mismatch",
            "xdist",
            text_of_mismatch(run.mismatch),
            headline=headline_of_mismatch(run.mismatch),
        )
    if run.should_fail.startswith(_SESSION_LIMIT):
        yield make_finding("session.timeout", "session.shouldfail", run.should_fail)
    running = run.in_flight[0].nodeid if run.in_flight else None
    endings = {worker.ending for worker in run.workers}
    # What pytest stops for: `-x`, a collection error, a crash.
    is_stop_explained = bool(
        run.failures
        or run.collection_failures
        or run.errors
        or run.mismatch
        or run.unrecorded
        or "died" in endings
    )
    kinds = [*map(_interruption_kind, run.interruptions)]
    is_told = "interrupted" in endings or "interrupt.exit" in kinds
    for stop, kind in zip(run.interruptions, kinds, strict=True):
        if kind == "interrupt.stopped" and is_stop_explained:
            continue
        is_passed_on = kind == "interrupt.keyboard" and stop.exception == "Interrupted"
        if is_passed_on and is_told:
            continue  # of a `pytest.exit` in a worker xdist says that it was a Ctrl+C
        nodeid = running if kind == "interrupt.keyboard" else None
        explains = tuple(
            judged.failures[index].fingerprint
            for index, worker in worker_ends.items()
            if worker.ending == "exited" and kind == "interrupt.exit"
        )
        yield make_finding(
            kind,
            "session",
            stop.message or stop.exception,
            nodeid=nodeid,
            words=words.words_of_interruption(stop),
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
            detail = f"{count} counted, but what happened could not be recorded"
            yield make_finding(
                kind,
                "record",
                detail,
                count=count,
                confidence="likely",
            )


def _interruption_kind(stop: Interruption) -> str:
    if stop.exception == "Exit":
        return "interrupt.exit"
    # xdist passes a worker's Ctrl+C on in these words, by an exception of its own.
    if (
        stop.exception == "KeyboardInterrupt"
        or "received keyboard-interrupt" in stop.message
    ):
        return "interrupt.keyboard"
    # xdist's controller passes a worker's `shouldfail` on in this way.
    if stop.message.startswith(_SESSION_LIMIT):
        return "session.timeout"
    return "interrupt.stopped"


def _collect_findings(run: RunEvidence, judged: Judgement) -> list[Finding]:
    stalled, is_ended = deaths.judge_stalls(run)
    worker_ends = _match_worker_ends(run) if run.workers else {}
    findings = [
        *run.settled,
        *(stalled if is_ended else ()),
        *_judge_tests(run, judged, worker_ends),
        *_judge_errors(run, judged),
        *_judge_session(run, judged, worker_ends),
        *_judge_integrity(run),
    ]
    end = run.exit
    # With our own limit it is late even where a handler of SIGTERM has left with the
    # same status.
    is_late = run.finished and end.enforced_limit_seconds is not None
    is_late = is_late or end.session_code not in (None, end.code)
    # We ended the process because of a stall: how it died says nothing more.
    if is_ended and stalled and (is_late or not run.finished):
        return findings
    if not run.finished:
        if run.early_refusal is not None and run.exit.code == 0:
            findings += deaths.judge_command(
                0,
                run.exit.source,
                is_pytest=True,
                refusal=run.early_refusal,
            )
        findings.append(_apply_stage_limit(deaths.judge_death(run), run))
    else:
        if is_late:
            findings = _add_late_death(findings, run)
        if run.recorded:
            findings += _judge_exit_code(run, explained=bool(findings))
        elif by_others := [*deaths.judge_tool(run)] or [*_judge_other_runners(run)]:
            findings += by_others
        elif run.exit.code is None:
            findings += _judge_error_line(run)
        elif run.stage in _PYTESTS_STAGES and not _was_interrupted(run):
            findings += deaths.judge_command(
                run.exit.code,
                run.exit.source,
                is_pytest=run.is_pytest,
                refusal=run.early_refusal,
            )
        findings += _judge_stage(run, findings)
    # Somebody else ended the run, and what was stalled then may be why.
    was_ended = not is_ended and deaths.ENDED_FROM_OUTSIDE & {
        finding.kind for finding in findings
    }
    return [*stalled, *findings] if was_ended else findings


def _add_late_death(findings: list[Finding], run: RunEvidence) -> list[Finding]:
    """Return the findings with how the process ended after its session had finished."""
    late = _apply_stage_limit(deaths.judge_late_death(run.exit, run.counts), run)
    if late.reason in (FailureReason.TIMEOUT, FailureReason.SETUP_TIMEOUT):
        findings = [
            finding for finding in findings if finding.kind not in _STAGE_KINDS
        ]  # overridden
    # A session that had failed for reasons of its own left with another code: they
    # hold.
    if findings and run.exit.session_code and late.kind == "exit_status.changed":
        return findings
    return [*findings, late]


def _judge_other_runners(run: RunEvidence) -> Iterator[Finding]:
    """Yield the tests that failed under another runner, as far as its output says."""
    output, is_over = (
        run.output,
        run.exit.code == 0 or run.exit.code in TIME_LIMIT_EXIT_CODES,
    )
    if output is None or run.is_pytest or is_over or run.stage not in _PYTESTS_STAGES:
        return
    for name in output.test_names:
        yield make_finding(
            "test.failed",
            "log",
            name,
            nodeid=name,
            confidence="likely",
            retryable=False,
            failure_type=type_of_kind("test.failed"),
        )
    unnamed = output.failed_tests - len(output.test_names)
    if unnamed > 0:
        detail = f"{unnamed} failed"
        yield make_finding(
            "test.failed",
            "log",
            detail,
            count=unnamed,
            confidence="likely",
            retryable=False,
            failure_type=type_of_kind("test.failed"),
        )


def _judge_error_line(run: RunEvidence) -> Iterator[Finding]:
    """Yield a log's error line for a command of which nothing else is known."""
    if run.tool_message is not None and run.stage in STAGE_FAILURE_REASONS:
        reason = FailureReason.from_stage(run.stage, 1) or FailureReason.UNKNOWN
        yield replace(_make_stage_finding(run, reason), confidence="likely")
        return
    if run.output is not None and run.output.error is not None and run.marker is None:
        yield make_finding(
            "command.failed",
            "log",
            run.output.error.text.strip(),
            reason=FailureReason.UNKNOWN,
            confidence="likely",
        )


def _judge_integrity(run: RunEvidence) -> Iterator[Finding]:
    """Yield what changed results other than the tests, where that fails the run."""
    for integrity_finding in run.uncertified:
        detail = words.words_of_integrity(integrity_finding)
        yield make_finding(
            integrity_finding.kind,
            "integrity",
            detail,
            count=max(1, len(integrity_finding.nodeids)),
            headline=detail,
        )


def _judge_skips(run: RunEvidence) -> Iterator[Finding]:
    """Yield that every test of a log was skipped, which says nothing of the code."""
    skipped = run.counts.skipped
    if (
        skipped
        and not run.counts.ran
        and run.exit.code == 0
        and run.stage is Stage.FINAL_TEST
    ):
        words = (f"{skipped} skipped",)
        yield make_finding(
            "tests.none_run",
            "log",
            words[0],
            confidence="likely",
            words=words,
        )


def _judge_exit_code(run: RunEvidence, *, explained: bool) -> Iterator[Finding]:
    """Yield what the exit code alone tells: no tests, or a status without a finding."""
    code = run.exit.code
    if explained or code is None or code == 0:
        return
    if code == 5 and run.counts.collected == 0:
        deselected, skipped = run.counts.deselected, run.counts.skipped
        why = f"{skipped} skipped" if skipped else run.nothing_ran
        words = (why,) if why else ()
        if deselected:
            detail = f"{deselected} deselected, 0 left"
            yield make_finding(
                "tests.all_deselected", "collection", detail, words=words
            )
        else:
            detail = ", ".join(["0 tests collected", *words])
            yield make_finding(
                "tests.none_collected", "collection", detail, words=words
            )
    elif code == 6:
        yield make_finding(
            "warnings.exceeded", "exit status", f"warnings: {run.counts.warnings}"
        )
    elif run.gate:
        yield make_finding("bench.gate", "bench", run.gate, headline=run.gate)
    elif run.coverage:
        yield make_finding(
            "coverage.failed", "pytest-cov", run.coverage, headline=run.coverage
        )
    elif run.stage not in STAGE_FAILURE_REASONS and (
        run.stage in _PYTESTS_STAGES or code not in TIME_LIMIT_EXIT_CODES
    ):  # else the stage itself has something to say of it
        reason = FailureReason.from_pytest_exit_code(code)
        if reason is FailureReason.INTERRUPTED and run.output is not None:
            reason = FailureReason.UNKNOWN  # pytest would have printed that
        why = run.should_fail or run.last_words or f"exit code {code}"
        yield make_finding(
            "exit_status.changed",
            "exit status",
            why,
            reason=reason,
            words=(why,),
        )


def _judge_stage(run: RunEvidence, findings: list[Finding]) -> Iterator[Finding]:
    """Yield the stage's own reason, unless evidence names one that says more."""
    code = run.exit.code
    if code is None or run.stage in _PYTESTS_STAGES:
        return
    if any(
        finding.kind.startswith("stage.") and finding.kind in known_kinds()
        for finding in findings
    ):
        return
    reasons = {finding.reason for finding in findings}
    if FailureReason.INTERRUPTED in reasons or reasons & _ENVIRONMENT_REASONS:
        return
    reason = FailureReason.from_stage(run.stage, code)
    if (
        FailureReason.TIMEOUT in reasons
    ):  # it overrides the stage, as exit codes 124 and 137 do
        reason = FailureReason.SETUP_TIMEOUT if run.stage is Stage.SETUP else None
    if reason is not None:
        yield _make_stage_finding(run, reason)


def _make_stage_finding(run: RunEvidence, reason: FailureReason) -> Finding:
    """Return the stage's own reason, with the message of the tool that it called."""
    kind = kind_of_stage(reason)
    message = run.tool_message
    is_timeout = reason in (FailureReason.SETUP_TIMEOUT, FailureReason.TIMEOUT)
    if message is None or is_timeout or run.stage not in STAGE_FAILURE_REASONS:
        detail = f"{run.stage} ended with exit code {run.exit.code}"
        return make_finding(kind, "stage", detail, reason=reason)
    return make_finding(
        kind,
        "output",
        message.line.text,
        reason=reason,
        headline=f"{known_kinds()[kind].one}: {deaths.words_of_tool(message)}",
        retryable=deaths.meaning_of(message).get("retryable"),
        failure_type=type_of_kind(deaths.kind_of_tool(message)),
    )


def _apply_stage_limit(death: Finding, run: RunEvidence) -> Finding:
    """Return the end of a process at its time limit as what the stage makes of it.

    A limit counts as exit code 124 does. In the stages whose table is pytest's, the end
    of a pytest says more of itself: what was in flight.
    """
    is_plain = run.stage in _PYTESTS_STAGES
    if death.kind != "process.timeout" or (
        is_plain and (run.recorded or run.is_pytest)
    ):
        return death
    reason = FailureReason.from_stage(run.stage, TIMEOUT_EXIT_CODE) or death.reason
    kind = kind_of_stage(reason)
    says_more = is_plain or run.activity is not None
    headline = death.headline if says_more else None
    return replace(
        death,
        reason=reason,
        kind=kind,
        headline=headline,
    )


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
        or "interrupt.keyboard" in map(_interruption_kind, run.interruptions)
        or "interrupted" in [worker.ending for worker in run.workers]
    )
