"""Classify a log: turn it into evidence, and let the judge decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Final

from pytest_failure_taxonomy.errors import LogError
from pytest_failure_taxonomy.logs.closing_section import (
    ClosingReader,
    ClosingSection,
    apply_section,
)
from pytest_failure_taxonomy.logs.log_lines import Reader, Tail, read_log
from pytest_failure_taxonomy.logs.output_evidence import (
    evidence_of_output,
    is_cut,
    output_of,
)
from pytest_failure_taxonomy.logs.output_readers import (
    PytestOutput,
    pattern,
)
from pytest_failure_taxonomy.logs.program_output import ProgramOutput
from pytest_failure_taxonomy.logs.tool_output import ToolOutput
from pytest_failure_taxonomy.report import build
from pytest_failure_taxonomy.report.codec import Codec
from pytest_failure_taxonomy.report.model import PUBLISHED, Exit
from pytest_failure_taxonomy.taxonomy import evidence as ev
from pytest_failure_taxonomy.taxonomy.classification import name_libraries
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.judgement import (
    Cause,
    ChargedTo,
    Confidence,
    FailureJudgement,
    FailureReason,
    FailureType,
    HeldReason,
    Judgement,
    RecoveryAction,
    Stage,
    signal_of_exit_code,
)
from pytest_failure_taxonomy.taxonomy.values import replace, value
from pytest_failure_taxonomy.text import cap, change_texts, encodable

ALL_KNOWN: Final = "so the exit status is 0"
"""What the summary of a run says whose failures are all known: pytest itself ended with 0."""
_JOB: Final = "job"
"""The name under which the tables have what a CI system says of a whole job."""
MAX_FAILURES: Final = 100
"""Failures listed; `failures_omitted` says how many more there are."""
MAX_NODEIDS: Final = 100
"""Node ids listed of one reason."""

_OF_VERDICT: Final = (
    *("reason", "kind", "confidence", "failure_type", "recovery_action", "retryable"),
    *("charge_to", "message"),
)
"""Fields of a report's verdict that an answer has, too; `None` for a success."""


@value
class QuotedLine:
    """A line of the log that speaks for the answer."""

    number: int
    text: str


@value
class LoggedFailure:
    """What a log says of one failure."""

    nodeid: str | None
    phase: ev.Phase | None
    reason: FailureReason
    kind: str
    failure_type: FailureType
    exception: ev.RaisedException | None
    message: str
    location: ev.Location | None


@value
class LogAnswer:
    """Why the run failed of which there is a log."""

    reason: FailureReason | None
    kind: str | None
    confidence: Confidence | None
    ambiguous: tuple[str, ...]
    failure_type: FailureType | None
    recovery_action: RecoveryAction | None
    retryable: bool | None
    charge_to: ChargedTo | None
    marker: str | None
    exit: Exit
    message: str | None
    lines: tuple[QuotedLine, ...]
    reasons: tuple[HeldReason, ...]
    causes: tuple[Cause, ...]
    """As in a report: each with its key, sentence and fix."""
    failures: tuple[LoggedFailure, ...]
    failures_omitted: int


ANSWERS: Final = Codec(
    published={**PUBLISHED, ev.RaisedException: ("type", "module")},
    optional={},
    biggest=inf,
)
"""Writes answers; of an exception they have no message but the failure's."""


def classify_log(
    chunks: Iterable[bytes],
    *,
    name: str,
    stage: Stage = Stage.FINAL_TEST,
    exit_code: int | None = None,
    known_markers: Iterable[str] = (),
    shown: Callable[[str], str] | None = None,
) -> LogAnswer:
    """Return the answer for one log.

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
    closing = ClosingReader()
    run = evidence_of_log(
        chunks,
        stage=stage,
        exit_code=exit_code,
        known_markers=known_markers,
        others=(closing,),
    )
    if run is None:
        raise LogError(
            f"{name}: this log has no output of pytest, no marker and no line of an error; "
            "give --exit-code, the exit code of the command that wrote it"
        )
    judgement = judge(run)
    if closing.found is not None and _is_over(run, closing.found):
        judgement = apply_section(judgement, closing.found)
    marker = run.marker.name if run.marker and judgement.verdict is not None else None
    answer = _answer(run, judgement, marker)
    change = shown or (lambda text: text)
    shown_answer: LogAnswer = change_texts(
        answer, lambda text: cap(encodable(change(text)), build.MAX_MESSAGE)
    )
    return shown_answer


def _is_over(run: ev.RunEvidence, section: ClosingSection) -> bool:
    """Tell whether a closing section is the last word on the run that a log is of."""
    summary = run.output and run.output.summary
    is_last = not summary or summary < section.line
    died_later = run.exit.signal is not None and not section.kind.startswith("process.")
    return is_last and not died_later


def evidence_of_log(
    chunks: Iterable[bytes],
    *,
    stage: Stage = Stage.FINAL_TEST,
    exit_code: int | None = None,
    known_markers: Iterable[str] = (),
    is_pytest: bool = True,
    is_whole: bool = False,
    others: Sequence[Reader] = (),
) -> ev.RunEvidence | None:
    """Return what a log tells; `None` if it says nothing and there is no exit code.

    Takes the same as `classify_log`. `is_pytest` is whether the exit code can be that of
    a pytest in the log, `is_whole` whether the log ends where its command ended; `others`
    read its lines, too.
    """
    out, other, tools = PytestOutput(), ProgramOutput(known_markers), ToolOutput()
    tail = read_log(chunks, out, other, tools, *others)
    if exit_code == 0 and out.is_seen and _counts_failures(out, tail):
        exit_code = None  # it is that of `tee`, say, or of `|| true`
    elif exit_code is None and out.job_exit_code is not None:
        exit_code = min(int(out.job_exit_code.text[:9]), 255)
    # A quiet pytest that came to no end has printed dots and nothing else.
    is_progress = tail.is_all and all(
        pattern("progress").fullmatch(line.text) for line in tail.lines
    )
    out.is_seen = out.is_seen or (is_progress and bool(tail.lines))
    told = tools.message(tail)
    is_told = told is not None or other.failed_tests[0] > 0
    if out.has_pieces and not out.is_seen and exit_code != 0 and not is_told:
        out.take_pieces()
    run = None
    if out.is_seen and not (told and _ended_from_outside(told, out, stage)):
        run = _evidence_of_pytest(
            out, other, exit_code, stage, is_pytest=is_pytest, is_whole=is_whole
        )
        if run is not None and told is not None and _came_after(run, out, told):
            run = None
    if run is not None:
        told = None
    else:
        out = PytestOutput()
        says_something = other.marker is not None or other.says_something
        if exit_code is None and told is None and not says_something:
            return None
        run = replace(_evidence_of_command(exit_code, stage), tool_message=told)
    run = name_libraries(run)
    output = output_of(out, other, tail, told)
    return replace(run, marker=other.marker, output=output)


def _ended_from_outside(told: ev.ToolMessage, out: PytestOutput, stage: Stage) -> bool:
    """Tell whether pytest was ended with its job, or the agent that had run it by its model."""
    last = out.last_line
    if told.tool == _JOB:
        return last is None
    is_of_model = stage is Stage.AGENT_RUN and told.cause.startswith("llm.")
    return is_of_model and last is not None and told.line > last


def _came_after(run: ev.RunEvidence, out: PytestOutput, told: ev.ToolMessage) -> bool:
    """Tell whether a tool has failed after a pytest that was green."""
    last = out.last_line
    is_green = run.exit.code == 0 and run.exit.source == "log"
    return is_green and last is not None and told.line > last


def _evidence_of_pytest(
    out: PytestOutput,
    other: ProgramOutput,
    code: int | None,
    stage: Stage,
    *,
    is_pytest: bool,
    is_whole: bool,
) -> ev.RunEvidence | None:
    """Return the evidence that pytest has printed; `None` if it isn't what failed.

    A log holds several commands. pytest's last line answers for pytest alone: after a
    green one, it is whatever came next that failed. And a text without that line which
    shows no failure is only cut.
    """
    run = evidence_of_output(out, code, stage, may_be_cut=not is_whole)
    if _is_red(run):
        return run
    last = out.last_line
    if last is None:
        return None if not is_whole and is_cut(out, code) else run
    has_failed_later = other.has_failed_command or other.decides_after(last)
    earlier = out.earlier_red
    if earlier is not None and (code or has_failed_later):
        # Of several sessions, as tox and nox start them, an earlier one was red.
        return evidence_of_output(earlier, code, stage)
    if code is None:
        return None if run.exit.code == 0 and has_failed_later else run
    is_followed = not is_whole and any(
        line.number > last.number for line in other.lines(())
    )
    is_by_plugin = signal_of_exit_code(code) is not None or code in (0, 5)
    is_of_another = is_followed or not is_pytest
    return None if is_of_another and not is_by_plugin else run


def _is_red(run: ev.RunEvidence) -> bool:
    """Tell whether pytest itself has said that something failed."""
    return bool(
        run.failures
        or run.collection_failures
        or run.errors
        or run.interruptions
        or run.in_flight
        or run.workers
        or run.mismatch
        or run.should_fail
        or run.gate
        or run.coverage
        or run.counts.failed
        or run.counts.errors
    )


def _counts_failures(out: PytestOutput, tail: Tail) -> bool:
    """Tell whether pytest's last line counts failed tests that were not accepted as known."""
    counts = evidence_of_output(out, None, Stage.FINAL_TEST).counts
    is_let_pass = any(ALL_KNOWN in line.text for line in tail.lines)
    return bool(counts.failed or counts.errors) and not is_let_pass


def _evidence_of_command(code: int | None, stage: Stage) -> ev.RunEvidence:
    """Return the evidence of a command that is no pytest, or one that has printed nothing."""
    end = ev.ProcessExit(code=None, source="log")
    if code is not None:
        signal = signal_of_exit_code(code)
        end = ev.ProcessExit(
            code=code, source="exit code", observed=True, signal=signal
        )
    return ev.RunEvidence(
        stage=stage,
        recorded=False,
        is_pytest=False,
        finished=end.signal is None,
        exit=end,
    )


def _answer(run: ev.RunEvidence, judgement: Judgement, marker: str | None) -> LogAnswer:
    limits = build.Limits()
    verdict = limits.cap_value(judgement.verdict)
    judged = (*judgement.failures, *judgement.collection_failures)
    failed: tuple[ev.TestFailure | ev.CollectionFailure, ...]
    failed = (*run.failures, *run.collection_failures)
    shown = 0 if verdict is None else MAX_FAILURES
    failures = [_failure(*each) for each in zip(failed[:shown], judged, strict=False)]
    code = run.exit.code
    signal = run.exit.signal if code is None else signal_of_exit_code(code)
    reasons = [
        replace(held, nodeids=tuple(filter(None, held.nodeids))[:MAX_NODEIDS])
        for held in limits.cap_value(judgement.reasons)
    ]
    return LogAnswer(
        **{name: getattr(verdict, name, None) for name in _OF_VERDICT},
        ambiguous=verdict.ambiguous if verdict else (),
        marker=marker,
        exit=replace(build.exit_of(run, judgement), signal=signal),
        lines=tuple([QuotedLine(**line._asdict()) for line in judgement.lines]),
        reasons=tuple(reasons),
        causes=limits.cap_value(judgement.causes),
        failures=tuple(failures),
        failures_omitted=max(0, len(judged) - shown) if shown else 0,
    )


def _failure(
    failure: ev.TestFailure | ev.CollectionFailure, judged: FailureJudgement
) -> LoggedFailure:
    return LoggedFailure(
        nodeid=failure.nodeid or None,
        phase=failure.phase if isinstance(failure, ev.TestFailure) else None,
        reason=judged.reason,
        kind=judged.kind,
        failure_type=judged.failure_type,
        exception=failure.exception,
        message=failure.message,
        location=failure.location,
    )
