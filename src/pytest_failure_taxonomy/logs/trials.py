"""One trial that a harness of agents has left, and the report that can be made of it.

The output of the trial's tests is read as any log. What the harness itself has seen is
joined with it: the results of tests by name, a time limit, an exception, a patch that
can't be applied. The one judge says what all of that means. The harness's own words
stay beside ours, in our extension.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_failure_taxonomy.logs import foreign
from pytest_failure_taxonomy.logs.log_answer import evidence_of_log
from pytest_failure_taxonomy.logs.log_lines import open_log
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.report.model import Trial as ReportedTrial
from pytest_failure_taxonomy.taxonomy import evidence as ev
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.causes import gather_causes
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.judgement import (
    Cause,
    Confidence,
    FailureReason,
    Finding,
    Judgement,
    Stage,
    Verdict,
    known_kinds,
    make_finding,
)
from pytest_failure_taxonomy.taxonomy.values import replace, value
from pytest_failure_taxonomy.taxonomy.words import counted
from pytest_failure_taxonomy.text import cap, change_texts, encodable

if TYPE_CHECKING:
    from pytest_failure_taxonomy.redaction import Redaction

MAX_OWN_TEXT: Final = 2_000
"""Characters of a text of the harness's own that a report has."""
_REPORTED_FIELDS: Final = ("harness", "task", "system", "name", "passed", "label")
PASSED: Final = "passed"
_ELSEWHERE: Final = ev.Environment(
    python="unknown", platform="unknown", pytest="unknown"
)
_UNKNOWN: Final = ("command.failed", "final_test")
_VAGUE: Final = ("command.failed", "exit_status.changed")
"""Kinds that say no more than that something failed."""


class Ending(NamedTuple):
    """How a harness says that a trial ended, other than by its tests."""

    label: str
    """The harness's word, or the name of an exception's class."""
    detail: str = ""


@value
class Trial:
    """What a harness has kept of one attempt of a system at a task."""

    harness: str
    task: str
    system: str
    """The agent with its model."""
    name: str
    """What the harness calls this trial among those of the task and the system."""
    path: Path
    """The file or the folder of the trial."""
    passed: bool | None
    """What the harness says; `None` where it came to no result."""
    identity: str = ""
    """Tells it from all trials of all runs, with its names."""
    has_folder: bool = False
    """The folder of the path is its own."""
    label: str | None = None
    """What the harness calls the failure."""
    tests: Mapping[str, bool] = MappingProxyType({})
    """Whether it says that a test has passed, by name; nothing where it lists none."""
    only_listed_tests_count: bool = False
    """Others may fail: the harness has chosen which ones a system has to pass."""
    bad_scores: Mapping[str, str] = MappingProxyType({})
    """Why a grade is no success, by name; they count where nothing else says why."""
    endings: tuple[Ending, ...] = ()
    log: Path | None = None
    """What the tests printed."""
    exit_code: int | None = None
    """Of the tests' command."""
    own_fields: Mapping[str, object] = MappingProxyType({})
    """Its own fields, to be kept."""
    problem: str = ""
    """What is of another type, so that it counts as no result."""
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def key(self) -> bytes:
        """What is the same for two copies of a trial alone."""
        names = (self.harness, self.task, self.system, self.name, self.identity)
        content = repr(names).encode("utf-8", "replace")
        return blake2b(content, digest_size=16).digest()

    @property
    def outcome(self) -> str:
        """What the harness says, in words."""
        words = "no result"
        if self.passed is not None:
            words = PASSED if self.passed else "failed"
        return f"{words}, {self.label}" if self.label else words


class Difference(NamedTuple):
    """One thing that a harness and we say differently of a trial."""

    about: str
    """`success`, `tests` or `reason`."""
    theirs: str
    ours: str


def name_of(nodeid: str) -> str:
    """Return a test's name without its file and its class, as harnesses have it.

    A file that could not be collected is named without its folders.
    """
    whole = nodeid.partition(" - ")[0]
    function, bracket, parameters = whole.partition("[")
    name = function.rpartition("::")[2]
    test = f"{name}{bracket}{parameters}"
    if "::" in nodeid:
        return test
    return test.rpartition("/")[2]


def report_of(
    trial: Trial, *, rootdir: Path, redaction: Redaction
) -> tuple[FailureReport, list[Difference]]:
    """Return the report of a trial, and what the harness says differently.

    Raises:
        LogError: what the tests printed can't be read.
    """
    printed = _evidence_of_output(trial)
    alone = judge(printed)
    endings = () if trial.passed else trial.endings
    joined = _join(trial, printed, alone, endings)
    if not trial.passed and judge(joined).verdict is None:
        detail = f"{trial.harness} says `{trial.outcome}`"
        unknown = Ending("no reason is known", detail)
        joined = _join(trial, printed, alone, (unknown,))
    notes: tuple[str, ...] = ()
    uncounted = joined.counts.failed - len(joined.failures)
    if trial.only_listed_tests_count and uncounted > 0:
        others = counted(uncounted, "test")
        notes = (f"{others} failed that {trial.harness} does not count",)
    start = trial.started_at
    duration = None
    if start and trial.ended_at:
        duration = (trial.ended_at - start).total_seconds()
    run = foreign.ForeignRun(
        evidence=joined,
        content=trial.key,
        started_at=start or foreign.choose_time(None, trial.path),
        duration_seconds=duration,
        attempt=ev.Attempt(subtask=trial.task, approach=trial.system),
        notes=notes,
    )
    report = foreign.report_of(
        run, rootdir=rootdir, environment=_ELSEWHERE, redaction=redaction
    )
    about = {name: getattr(trial, name) for name in _REPORTED_FIELDS}
    about["told"] = dict(trial.own_fields)
    shown = change_texts(
        about, lambda text: cap(encodable(redaction.redact(text)), MAX_OWN_TEXT)
    )
    report = replace(report, trial=ReportedTrial(**shown))
    return report, [*_differences(trial, printed, alone, report)]


def _evidence_of_output(trial: Trial) -> ev.RunEvidence:
    """Return the evidence from the output of the tests, without the harness's."""
    nothing = ev.RunEvidence(
        recorded=False,
        is_pytest=False,
        exit=ev.ProcessExit(code=None, source=trial.harness),
    )
    if trial.log is None:
        return nothing
    with open_log(trial.log) as chunks:
        printed = evidence_of_log(chunks, exit_code=trial.exit_code)
    # Whatever else prints the word "error": the harness has seen the trial pass.
    if printed is None or (trial.passed and not printed.is_pytest):
        return nothing
    if not (trial.only_listed_tests_count and trial.tests):
        return printed
    names = set(map(name_of, trial.tests))
    failures = [
        failure for failure in printed.failures if name_of(failure.nodeid) in names
    ]
    counted_alone = replace(
        printed,
        failures=tuple(failures),
        collection_failures=() if trial.passed else printed.collection_failures,
    )
    if counted_alone == printed:
        return printed
    return replace(counted_alone, exit=nothing.exit)


def _finding_of(trial: Trial, ending: Ending) -> tuple[Finding, Stage]:
    """Return what the ending of a trial means, and the stage that it ended."""
    table = packaged_table("harnesses")
    endings = {**table["exceptions"], **table.get(trial.harness, {})}
    kind, stage, *headlines = endings.get(ending.label, _UNKNOWN)
    reason = known_kinds()[kind].reason
    if reason is None:
        reason = FailureReason.UNKNOWN
        if kind.startswith("stage."):
            name = kind.partition(".")[2]
            reason = FailureReason(name.upper())
    message = foreign.last_line(ending.detail) or ending.label
    headline = headlines[0] if headlines else None
    if kind in _VAGUE:
        headline = f"{headline or ending.label}: {message}"
    confidence: Confidence = "certain" if ending.label in endings else "likely"
    ended = make_finding(
        kind,
        trial.harness,
        message,
        reason=reason,
        headline=headline,
        confidence=confidence,
    )
    return ended, Stage(stage)


def _join(
    trial: Trial, printed: ev.RunEvidence, alone: Judgement, endings: Sequence[Ending]
) -> ev.RunEvidence:
    """Return the evidence from the output together with the harness's."""
    joined = _add_endings(trial, printed, endings)
    kind = alone.verdict.kind if alone.verdict else ""
    is_silent = kind in ("", *_VAGUE)
    failed = dict.fromkeys(_failed_tests(trial), "")
    has_other_reason = printed.failures or trial.tests or trial.passed or trial.endings
    if is_silent and not has_other_reason:
        # Grades are no tests: they speak only where nothing else does.
        failed = dict(trial.bad_scores)
    names = {name_of(failure.nodeid) for failure in printed.failures}
    names |= {name_of(failure.nodeid) for failure in printed.collection_failures}
    missing = [name for name in failed if name_of(name) not in names]
    if missing and not (is_silent or kind.startswith("test.")):
        # Why they did not pass is known: something else kept them from running.
        not_run = (*joined.not_run, *missing)
        collected = max(joined.counts.collected, len(not_run))
        counts = replace(joined.counts, collected=collected)
        return replace(joined, not_run=not_run, counts=counts)
    if missing:
        why = "and the output does not" if printed.output else "and nothing says why"
        words = f"{trial.harness} says that it failed, {why}"
        added = [
            ev.TestFailure(nodeid=name, phase="call", message=failed[name] or words)
            for name in missing
        ]
        nodeids = [failure for failure in printed.failures if failure.nodeid]
        nameless = [failure for failure in printed.failures if not failure.nodeid]
        joined = replace(
            joined,
            # The output may have counted them without their names.
            failures=(*nodeids, *added, *nameless[len(missing) :]),
            exit=ev.ProcessExit(code=None, source=trial.harness),
            # Another runner's counts are of the same tests.
            output=printed.output if printed.is_pytest and kind not in _VAGUE else None,
        )
    counts = joined.counts
    if trial.tests and not counts.collected:
        passed = sum(trial.tests.values())
        counts = replace(counts, collected=len(trial.tests), passed=passed)
    in_calls = sum(failure.phase == "call" for failure in joined.failures)
    counts = replace(counts, failed=max(counts.failed, in_calls))
    return replace(joined, counts=counts)


def _add_endings(
    trial: Trial, printed: ev.RunEvidence, endings: Sequence[Ending]
) -> ev.RunEvidence:
    """Add how the harness says that the trial ended, and the stage that it ended in."""
    findings: list[Finding] = []
    causes: list[Cause] = []
    stages: list[Stage] = []
    for ending in endings:
        ended, stage = _finding_of(trial, ending)
        findings.append(ended)
        stages.append(stage)
        causes += gather_causes((ended,), stage)
    joined = replace(printed, settled=tuple(findings), settled_causes=tuple(causes))
    if Stage.FINAL_TEST in stages and not printed.finished:
        # The harness has stopped the tests.
        end = ev.ProcessExit(code=None, source=trial.harness)
        return replace(joined, finished=True, exit=end)
    if stages and printed.output is None:
        # Without any output of tests, the trial came no further than this.
        return replace(joined, stage=stages[-1])
    return joined


def _failed_tests(trial: Trial) -> list[str]:
    """Return the names of the tests that the harness says have failed."""
    return [name for name, passed in trial.tests.items() if not passed]


def _differences(
    trial: Trial, printed: ev.RunEvidence, alone: Judgement, report: FailureReport
) -> Iterator[Difference]:
    """Yield where the harness disagrees with its tests' output, or with our verdict."""
    # Without pytest's own words or an exit code, an output says nothing of success.
    has_code = printed.exit.code is not None
    tells = printed.output is not None and (printed.is_pytest or has_code)
    nodeids = [failure.nodeid for failure in printed.failures]
    is_listed = all(nodeids) and not printed.collection_failures
    if tells and trial.passed is (alone.verdict is not None):
        if trial.passed or not trial.endings:
            yield Difference("success", trial.outcome, words_of_verdict(alone.verdict))
    elif tells and trial.tests and printed.is_pytest and printed.finished and is_listed:
        failed = set(map(name_of, _failed_tests(trial)))
        shown = set(map(name_of, nodeids))
        theirs = ", ".join(sorted(failed - shown))
        ours = ", ".join(sorted(shown - failed))
        if theirs or ours:
            yield Difference("tests", theirs, ours)
    reasons = {_finding_of(trial, ending)[0].reason for ending in trial.endings}
    expected = reasons - {FailureReason.UNKNOWN}
    verdict = report.verdict
    reason = verdict and verdict.reason
    if not trial.passed and expected and reason not in expected:
        yield Difference("reason", trial.label or "", words_of_verdict(verdict))


def words_of_verdict(verdict: Verdict | None) -> str:
    """Return reason and kind of a report's verdict."""
    if verdict is None:
        return PASSED
    return f"{verdict.reason} {verdict.kind}"
