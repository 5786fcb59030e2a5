"""The answer of `run --for agent`: the least that an agent has to read to fix each cause.

docs/reference/agent-format.md documents it. What is usual is not said: a failed test,
charged to the subject, for certain, in the folder where the command ran. No text of a
test begins in the first column, so that none can look like another cause. A cause has
its sentence, how to fix it, the failing lines of the user's own frames, and its command.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

from pytest_failure_taxonomy.faces.agent import (
    ABOUT,
    DETAIL,
    FAILING,
    LONGEST_CODE,
    MAX_WEIGHT,
    MOST_CAUSES,
    MOST_NOTES,
    REMEDY,
    RETRY_HELPS,
    SENTENCE,
    Line,
    about_lines,
    change_lines,
    evidence_lines,
    fill_entries,
    in_flight_lines,
    weigh,
    write_line,
    write_section,
)
from pytest_failure_taxonomy.report.frames import frames_of
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.report.reproduce import Reproduction, reproduction_of
from pytest_failure_taxonomy.report.summary import (
    HIDES,
    CauseSummary,
    RunSummary,
    advice_of,
    other_kinds,
    place_words,
    raised_words,
    summarise,
)
from pytest_failure_taxonomy.taxonomy.judgement import FailureReason
from pytest_failure_taxonomy.taxonomy.words import counted, one_line
from pytest_failure_taxonomy.text import first_line

_MORE: Final = "failure-taxonomy show --all"
_BELOW: Final = 3
"""Blanks before what belongs to a cause."""
_USUAL: Final = ("is: TESTS_FAILED test.failed", "charge to: subject")
_MOST_DETAILS: Final = 12
_SOME_DETAILS: Final = 3
"""Of a message without a traceback."""
_CHANGED: Final = re.compile(r" {0,2}[-+] ")
"""A line of a diff that only one side has."""
_COMPARED: Final = re.compile(r"(?:\w+ differ: )?(assert .{1,9}|.{1,9}(?=.* != ))")
"""How pytest and unittest show the two sides of a comparison."""
_SAYS_NOTHING: Final = re.compile(
    r"\s*(?:$|\?|[\^~]+$|File \"|Full diff:|Use -v|(?:Omitting|Skipping) \d"
    r"|use 'pytest --fixtures)"
)
"""A line below an exception that no one needs."""


def render_brief(report: FailureReport, log: str, folder: str) -> str:
    """Return the answer for an agent whose command has just failed.

    Args:
        report: of the run, which has a verdict.
        log: the file with all that the command has printed.
        folder: where the command ran.
    """
    summary = summarise(report)
    run = reproduction_of(report)
    before = write_section(_verdict(report, summary, log), 1_600)
    circumstances = [*filter(None, _circumstances(report, summary, run, folder))]
    after = write_section(circumstances, 1_600) if circumstances else ""
    shown = summary.causes[:MOST_CAUSES]
    rest = summary.causes_count - len(shown)
    if rest > 0:
        after = f"and {counted(rest, 'more cause')}: {_MORE}\n{after}"
    room = MAX_WEIGHT - weigh(before) - weigh(after)
    causes = (_cause_lines(number, cause, run) for number, cause in enumerate(shown, 1))
    return before + fill_entries(causes, room) + after


def _verdict(report: FailureReport, summary: RunSummary, log: str) -> Iterator[str]:
    verdict = report.verdict
    assert verdict is not None  # noqa: S101 - of a run that failed
    headline = summary.headline
    if summary.causes_count == 1:
        # It has the sentence that the cause has, too.
        headline = headline.replace(summary.causes[0].text, "").rstrip(": ")
    yield f"verdict: {headline or 'failed'}"
    yield f"retry helps: {RETRY_HELPS[verdict.retryable]}; output: {log}"
    kinds = {(cause.reason, cause.kind) for cause in summary.causes}
    if (verdict.reason, verdict.kind) not in kinds:
        yield from _unusual(verdict.reason, verdict.kind, verdict.charge_to)
    if verdict.confidence != "certain":
        yield f"confidence: {verdict.confidence}"
    if others := other_kinds(verdict):
        yield f"could also be: {', '.join(others)}"
    if not report.in_flight:  # else the sentence has it
        yield from evidence_lines(report, verdict)
    if verdict.retryable is not False or verdict.reason == FailureReason.AGENT_GAVE_UP:
        yield f"try: {'; then '.join(advice_of(report, verdict).steps)}"
    if summary.advice.endswith(HIDES):
        yield "beware: a retry of only the failed tests would pass and hide the cause"
    if summary.left:
        yield summary.left
    for note in summary.notes[:MOST_NOTES]:
        yield f"note: {first_line(note)}"


def _unusual(reason: str, kind: str, charge_to: str | None) -> Iterator[str]:
    """Yield the codes, and who is charged, where an agent would not expect it."""
    words = [f"is: {reason} {kind}", f"charge to: {charge_to or 'subject'}"]
    if unusual := [text for text in words if text not in _USUAL]:
        yield "; ".join(unusual)


def _circumstances(
    report: FailureReport, summary: RunSummary, run: Reproduction, folder: str
) -> Iterator[str]:
    """Yield what belongs to no cause: tests that were running, changes, how to run it again."""
    tests = report.in_flight
    if report.stalls or any(test.output or test.stall for test in tests):
        yield from in_flight_lines(report)
    named = {cause.nodeids[:1] for cause in summary.causes}
    for test in tests[:MOST_NOTES]:
        if (test.nodeid,) not in named:
            yield run.command(test.nodeid)
    if any(cause.state for cause in summary.causes):
        yield from change_lines(report, summary)
    if os.path.realpath(folder) != os.path.realpath(run.folder):
        yield f"run these in: {run.folder}"
    yield from (f"without: {words}" for words in run.missing)


def _cause_lines(number: int, cause: CauseSummary, run: Reproduction) -> Iterator[Line]:
    """Yield the lines of a cause, its sentence first."""
    count = f"{cause.count:,} x " if cause.count > 1 else ""
    head = f"{number}. {count}{cause.text}"
    yield Line(SENTENCE, write_line(head, indent=0))
    if cause.fix_line:
        yield _line(REMEDY, cause.fix_line)
    code = [*_code_lines(cause)]
    yield from (_line(rank, text, LONGEST_CODE) for rank, text in code)
    yield from (_line(ABOUT, words) for words in _about(cause, has_code=bool(code)))
    first = next(iter(cause.nodeids), "")
    if command := cause.proof_command or run.command(first):
        # Long enough for any characters: a command that is cut would be another one.
        yield _line(REMEDY, command, 6 * len(command))


def _line(rank: int, text: str, limit: int | None = None) -> Line:
    limits = () if limit is None else (limit,)
    return Line(rank, write_line(text, *limits, indent=_BELOW))


def _about(cause: CauseSummary, *, has_code: bool) -> Iterator[str]:
    yield from _unusual(cause.reason, cause.kind, cause.charge_to)
    for failure in cause.failures[:1]:
        raised, place = failure.exception, failure.location
        if raised is not None and not has_code:
            message = one_line(raised.message)
            if not message or message not in cause.text:
                yield f"raised: {raised_words(raised)}"
        if place is not None and not (has_code or os.path.isabs(place.path)):
            words = place_words(place)
            if words not in cause.text:
                yield f"at: {words}"
    yield from about_lines(cause)


def _code_lines(cause: CauseSummary) -> Iterator[tuple[int, str]]:
    """Yield the failing lines of the user's own frames, and what was raised there."""
    seen: set[str] = set()
    raised: list[str] = []
    others: list[str] = []
    for frame in frames_of(cause.code.own):
        raised += frame.raised
        others += frame.others
        if frame.source and not cause.code.is_of_library:
            place = "" if frame.place in cause.text else f"{frame.place}: "
            text = f"> {place}{frame.source}"
            if text not in seen:
                yield FAILING, text
            seen.add(text)
    details = [*_details(raised, cause.text)]
    if not (seen or details):
        details = [text for text in others if text.strip() not in cause.text]
        details = details[:_SOME_DETAILS]
    for text in details[:_MOST_DETAILS]:
        yield DETAIL, text
    if len(details) > _MOST_DETAILS:
        yield DETAIL, "E …"


def _details(raised: list[str], sentence: str) -> Iterator[str]:
    """Yield the lines below a failing one that say more than the sentence of the cause."""
    has_diff = any(map(_CHANGED.match, raised))
    for at, text in enumerate(raised):
        message = (text.partition(": ")[2] or text).rstrip(".")
        is_said = text in sentence or message in sentence
        compared = _COMPARED.match(message) if at == 0 else None
        if compared and not sentence.startswith((compared[0], compared[1])):
            return  # the sentence says in what the sides differ
        is_context = has_diff and text.startswith("  ") and not _CHANGED.match(text)
        if not (is_context or is_said or _SAYS_NOTHING.match(text)):
            yield f"E {text}"
