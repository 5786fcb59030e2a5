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
"""What a summary says if all failures are known: pytest itself ended with 0."""
_JOB: Final = "job"
"""The name under which the tables have what a CI system says of a whole job."""
MAX_FAILURES: Final = 100
"""Failures listed; `failures_omitted` says how many more there are."""
MAX_NODEIDS: Final = 100
"""Node ids listed of one reason."""

_VERDICT_FIELDS: Final = (
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
            f"{name}: this log has no output of pytest, no marker and no line of an "
            "error; give --exit-code, the exit code of the command that wrote it"
        )
    judgement = judge(run)
    if closing.section is not None and _is_last_word(closing.section, run):
        judgement = apply_section(judgement, closing.section)
    answer = _answer(run, judgement)

    def change(text: str) -> str:
        visible = shown(text) if shown else text
        return cap(encodable(visible), build.MAX_MESSAGE)

    shown_answer: LogAnswer = change_texts(answer, change)
    return shown_answer


def _is_last_word(section: ClosingSection, run: ev.RunEvidence) -> bool:
    """Tell whether nothing later in the log than a closing section says more."""
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

    Takes the same as `classify_log`. `is_pytest` is whether the exit code can be that
    of a pytest in the log, `is_whole` whether the log ends where its command ended;
    `others` read its lines, too.
    """
    out = PytestOutput()
    other = ProgramOutput(known_markers)
    tools = ToolOutput()
    tail = read_log(chunks, out, other, tools, *others)
    if exit_code == 0 and out.is_seen and _counts_failures(out, tail):
        exit_code = None  # it is that of `tee`, say, or of `|| true`
    elif exit_code is None and out.job_exit_code is not None:
        exit_code = min(int(out.job_exit_code.text[:9]), 255)
    # A quiet pytest that came to no end has printed dots and nothing else.
    if tail.is_all and tail.lines:
        progress = pattern("progress")
        if all(progress.fullmatch(line.text) for line in tail.lines):
            out.is_seen = True
    tool = tools.message(tail)
    # What looks like a piece of pytest's output may be anything: it is the last resort.
    has_other_failure = tool is not None or other.failed_tests[0] > 0
    if not out.is_seen and exit_code != 0 and not has_other_failure:
        out.take_pieces()
    run = None
    if out.is_seen and not (tool and _has_ended_pytest(tool, out, stage)):
        run = _evidence_of_pytest(
            out, other, exit_code, stage, is_pytest=is_pytest, is_whole=is_whole
        )
    # pytest's own words say more than a tool's, unless the tool failed after them.
    if run is not None and not (tool and _has_failed_later(tool, out, run)):
        output = output_of(out, other, tail, None)
    else:
        says_something = tool or other.marker or other.says_something
        if exit_code is None and not says_something:
            return None
        run = replace(_evidence_of_command(exit_code, stage), tool_message=tool)
        output = output_of(PytestOutput(), other, tail, tool)
    return replace(name_libraries(run), marker=other.marker, output=output)


def _has_ended_pytest(tool: ev.ToolMessage, out: PytestOutput, stage: Stage) -> bool:
    """Tell whether pytest ended with its job, or the model of the agent that ran it."""
    last = out.last_line
    if tool.tool == _JOB:
        return last is None
    is_of_model = stage is Stage.AGENT_RUN and tool.cause.startswith("llm.")
    return is_of_model and last is not None and tool.line > last


def _has_failed_later(
    tool: ev.ToolMessage, out: PytestOutput, run: ev.RunEvidence
) -> bool:
    """Tell whether a tool has failed after a pytest that was green."""
    last = out.last_line
    is_green = run.exit.code == 0 and run.exit.source == "log"
    return is_green and last is not None and tool.line > last


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
    green one, whatever came next has failed. A text without that line that shows no
    failure is only cut.
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
        is_other = run.exit.code == 0 and has_failed_later
        return None if is_other else run
    is_followed = not is_whole and any(
        line.number > last.number for line in other.lines(())
    )
    # A signal can come at pytest's very end, and 5 is of a pytest that ran no tests.
    can_be_pytests = signal_of_exit_code(code) is not None or code in (0, 5)
    is_of_another = is_followed or not is_pytest
    return None if is_of_another and not can_be_pytests else run


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
    """Tell whether pytest's last line counts failed tests that aren't let pass."""
    counts = evidence_of_output(out, None, Stage.FINAL_TEST).counts
    is_let_pass = any(ALL_KNOWN in line.text for line in tail.lines)
    return bool(counts.failed or counts.errors) and not is_let_pass


def _evidence_of_command(code: int | None, stage: Stage) -> ev.RunEvidence:
    """Return the evidence of a command that is no pytest, or has printed nothing."""
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


def _answer(run: ev.RunEvidence, judgement: Judgement) -> LogAnswer:
    limits = build.Limits()
    verdict = limits.cap_value(judgement.verdict)
    judged = (*judgement.failures, *judgement.collection_failures)
    failed: tuple[ev.FailureAtNode, ...]
    failed = (*run.failures, *run.collection_failures)
    shown = 0 if verdict is None else MAX_FAILURES
    failures = list(map(_failure, failed[:shown], judged))
    code = run.exit.code
    signal = run.exit.signal if code is None else signal_of_exit_code(code)
    reasons = []
    for reason in limits.cap_value(judgement.reasons):
        nodeids = [nodeid for nodeid in reason.nodeids if nodeid]
        reasons.append(replace(reason, nodeids=tuple(nodeids[:MAX_NODEIDS])))
    lines = [QuotedLine(**line._asdict()) for line in judgement.lines]
    return LogAnswer(
        **{name: getattr(verdict, name, None) for name in _VERDICT_FIELDS},
        ambiguous=verdict.ambiguous if verdict else (),
        marker=run.marker.name if run.marker and verdict else None,
        exit=replace(build.exit_of(run, judgement), signal=signal),
        lines=tuple(lines),
        reasons=tuple(reasons),
        causes=limits.cap_value(judgement.causes),
        failures=tuple(failures),
        failures_omitted=max(0, len(judged) - shown) if shown else 0,
    )


def _failure(failure: ev.FailureAtNode, judged: FailureJudgement) -> LoggedFailure:
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
