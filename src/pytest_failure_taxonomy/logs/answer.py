"""Classify a log: what it says becomes evidence, and the one judge decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from pytest_failure_taxonomy.errors import LogError
from pytest_failure_taxonomy.logs.deciding import deciding_lines
from pytest_failure_taxonomy.logs.evidence import evidence_of_output
from pytest_failure_taxonomy.logs.other_output import OtherOutput
from pytest_failure_taxonomy.logs.patterns import PROGRESS
from pytest_failure_taxonomy.logs.pytest_output import PytestOutput
from pytest_failure_taxonomy.logs.reader import Line, Tail, read_log
from pytest_failure_taxonomy.report.limits import MAX_MESSAGE
from pytest_failure_taxonomy.report.text import cap, change_texts, encodable
from pytest_failure_taxonomy.taxonomy.classification import classify_test_failure
from pytest_failure_taxonomy.taxonomy.evidence import (
    CollectionFailure,
    ProcessExit,
    RunEvidence,
    TestFailure,
)
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.judgement import Judgement, Verdict, finding, marked_finding
from pytest_failure_taxonomy.taxonomy.reasons import (
    MARKER_REASONS,
    PYTEST_EXIT_CODE_NAMES,
    FailureReason,
    Stage,
    signal_of_exit_code,
)
from pytest_failure_taxonomy.taxonomy.recovery import FailureType
from pytest_failure_taxonomy.taxonomy.values import replace

MAX_FAILURES: Final = 100
"""Failures listed; `failures_omitted` says how many more there are."""
MAX_NODEIDS: Final = 100
"""Node ids listed of one reason."""

JSONObject = dict[str, Any]


def classify_log(
    chunks: Iterable[bytes],
    *,
    name: str,
    stage: Stage = Stage.FINAL_TEST,
    exit_code: int | None = None,
    known_markers: Iterable[str] = (),
    shown: Callable[[str], str] | None = None,
) -> JSONObject:
    """Return the answer for one log as a JSON object.

    Args:
        chunks: the log, in pieces.
        name: what to call it in an error.
        stage: the stage of the command whose output it is.
        exit_code: as a shell shows it, where it is known.
        known_markers: valid reasons of markers beside those that are always known.
        shown: takes out of each text what nobody must read.

    Raises:
        LogError: it says nothing that could be judged, and there is no exit code.
    """
    out, other = PytestOutput(), OtherOutput(known_markers)
    tail = read_log(chunks, out, other)
    if exit_code is None and out.job_exit_code is not None:
        exit_code = min(int(out.job_exit_code.text[:9]), 255)
    out.is_seen = out.is_seen or _is_bare_progress(tail)
    if out.is_seen:
        run = evidence_of_output(out, exit_code, stage)
    else:
        run = _evidence_of_command(other, exit_code, stage, name)
    judgement = judge(run)
    marker = other.marker if judgement.verdict is not None else None
    if marker is not None:
        judgement = _judge_with_marker(run, marker)
    lines = deciding_lines(judgement, run, out, other, tail)
    answer = _answer(run, judgement, marker, lines)
    change = shown or (lambda text: text)
    shown_answer: JSONObject = change_texts(
        answer, lambda text: cap(encodable(change(text)), MAX_MESSAGE)
    )
    return shown_answer


def _is_bare_progress(tail: Tail) -> bool:
    """Tell whether the log is nothing but the dots of a quiet pytest that came to no end."""
    lines = tail.lines
    return bool(lines) and tail.is_all and all(PROGRESS.fullmatch(line.text) for line in lines)


def _judge_with_marker(run: RunEvidence, marker: str) -> Judgement:
    reason = MARKER_REASONS.get(marker, FailureReason.UNKNOWN)
    return judge(replace(run, settled=(marked_finding(marker, reason),)))


def _evidence_of_command(
    other: OtherOutput, code: int | None, stage: Stage, name: str
) -> RunEvidence:
    """Return the evidence of a command that is no pytest, or one that has printed nothing."""
    if code is not None:
        signal = signal_of_exit_code(code)
        end = ProcessExit(code=code, source="exit code", observed=True, signal=signal)
        return RunEvidence(
            stage=stage, recorded=False, is_pytest=False, finished=signal is None, exit=end
        )
    end = ProcessExit(code=None, source="log")
    run = RunEvidence(stage=stage, recorded=False, is_pytest=False, exit=end)
    if other.marker is not None:
        reason = MARKER_REASONS.get(other.marker, FailureReason.UNKNOWN)
        return replace(run, settled=(marked_finding(other.marker, reason),))
    if not other.error_lines:
        raise LogError(
            f"{name}: this log has no output of pytest, no marker and no line of an error; "
            "give --exit-code, the exit code of the command that wrote it"
        )
    error = finding(
        "command.failed",
        "log",
        other.error_lines[-1].text.strip(),
        reason=FailureReason.UNKNOWN,
        confidence="likely",
    )
    return replace(run, settled=(error,))


def _answer(
    run: RunEvidence, judgement: Judgement, marker: str | None, lines: list[Line]
) -> JSONObject:
    verdict = judgement.verdict
    failure_type = None if verdict is None else _failure_type(verdict, lines)
    action = verdict and failure_type and _recovery_action(failure_type, verdict.retryable)
    failures = () if verdict is None else _all_failures(run)
    return {
        "reason": verdict and verdict.reason.value,
        "kind": verdict and verdict.kind,
        "confidence": verdict and verdict.confidence,
        "ambiguous": list(verdict.ambiguous) if verdict else [],
        "failure_type": failure_type and failure_type.value,
        "recovery_action": action,
        "marker": marker,
        "exit": _exit(run, judgement),
        "message": verdict and verdict.message,
        "lines": [{"number": line.number, "text": line.text} for line in lines],
        "reasons": [
            {
                "reason": held.reason.value,
                "kind": held.kind,
                "count": held.count,
                "nodeids": [each for each in held.nodeids if each][:MAX_NODEIDS],
            }
            for held in judgement.reasons
        ],
        "failures": [_failure(each) for each in failures[:MAX_FAILURES]],
        "failures_omitted": max(0, len(failures) - MAX_FAILURES),
    }


def _exit(run: RunEvidence, judgement: Judgement) -> JSONObject:
    end = run.exit
    by_code = end.signal if end.code is None else signal_of_exit_code(end.code)
    return {
        "code": end.code,
        "name": None if end.code is None else PYTEST_EXIT_CODE_NAMES.get(end.code),
        "signal": by_code,
        "reason": judgement.exit_reason and judgement.exit_reason.value,
        "observed": end.observed,
        "source": end.source,
    }


def _failure(failure: TestFailure | CollectionFailure) -> JSONObject:
    raised, place = failure.exception, failure.location
    words = f"{raised.type}: {raised.message}" if raised else failure.message
    if isinstance(failure, TestFailure):
        phase: str | None = failure.phase
        reason, kind = classify_test_failure(failure)
    else:
        phase, reason, kind = None, FailureReason.INTERNAL_ERROR, "collection.error"
    return {
        "nodeid": failure.nodeid or None,
        "phase": phase,
        "reason": reason.value,
        "kind": kind,
        "failure_type": _type_of_text(words).value,
        "exception": raised and {"type": raised.type, "module": raised.module},
        "message": failure.message,
        "location": place and {"path": place.path, "line": place.line},
    }


def _all_failures(run: RunEvidence) -> tuple[TestFailure | CollectionFailure, ...]:
    return (*run.failures, *run.collection_failures)


def _failure_type(verdict: Verdict, lines: list[Line]) -> FailureType:
    """Return the type of what the verdict is about: the judge's, else by the lines."""
    if verdict.failure_type is not FailureType.UNKNOWN:
        return verdict.failure_type
    return _type_of_text("\n".join(line.text for line in lines))


def _type_of_text(text: str) -> FailureType:
    from pytest_failure_taxonomy.taxonomy.failure_text import classify_failure

    return classify_failure(text[:20_000], "")


def _recovery_action(failure_type: FailureType, retryable: bool | None) -> str:  # noqa: FBT001 - private
    from pytest_failure_taxonomy.taxonomy.recovery import recovery_of_failure

    return recovery_of_failure(failure_type, retryable).value
