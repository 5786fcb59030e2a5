"""The answer for agents: why a run failed and how to fix each cause, as briefly as possible.

docs/reference/agent-format.md documents it; this is its third version. It has at most 2,000 tokens
and no Markdown. A line in the first column begins with our own words and all others are indented,
so that no text of a test can look like another cause. The agent whose command has just ended is not
told what is usual: a failed test, charged to the subject, for certain, in the folder where it is.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from pytest_failure_taxonomy.report.frames import frames_of
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.report.reproduce import (
    Reproduction,
    reproduction_of,
    start_of,
)
from pytest_failure_taxonomy.report.summary import (
    HIDES,
    CauseSummary,
    RunSummary,
    advice_of,
    other_kinds,
    place_words,
    raised_words,
    stall_words,
    summarise,
)
from pytest_failure_taxonomy.taxonomy.judgement import PRINTED, FailureReason, Verdict
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.taxonomy.words import (
    counted,
    one_line,
    seconds_words,
)
from pytest_failure_taxonomy.text import first_line, safe_text, that_fit

VERSION: Final = 3
MAX_TOKENS: Final = 2_000
MAX_WEIGHT: Final = 4 * MAX_TOKENS - 600
"""The weight of the whole answer, in quarters of a token, with some to spare; also the most
characters."""
_WEIGHTS: Final = {
    **dict.fromkeys(map(chr, range(0x80)), 2),
    **dict.fromkeys("abcdefghijklmnopqrstuvwxyz _\n", 1),
    **dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 4),
    **dict.fromkeys("0123456789", 3),
    "\\": 8,
}
"""Small letters make words, with four letters a token; capitals make names, but also base64, where
each letter is a token, like many digits of hashes. A backslash begins an escape."""
_OTHER_WEIGHT: Final = 12

_MOST_CAUSES: Final = 40
_MOST_NOTES: Final = 3
_MOST_DETAILS: Final = 12
_SOME_DETAILS: Final = 3
"""Of a message without a traceback."""
_LONGEST_LINE: Final = 240
_SHORT_LINE: Final = 160
_CUT: Final = "  (cut)\n"
_BELOW: Final = "   "
"""Before a line that belongs to the one above."""
_USUAL: Final = ("is: TESTS_FAILED test.failed", "charge to: subject")
_RETRY_HELPS: Final = {True: "yes", False: "no", None: "not known"}
_UNENDED: Final = {
    True: "pytest still runs; ask again when it has ended",
    False: "pytest is gone; complete the report by: failure-taxonomy finalize REPORT",
    None: "pytest still runs; if it has died: failure-taxonomy finalize REPORT",
}
"""The words about a `running` report, by whether its pytest lives."""

_TELLING: Final = re.compile(
    r"^(E( |$)|>(?! +(?:available fixtures|use 'pytest --fix))|\S.*:[0-9]+: "
    r"|[A-Za-z_][\w.]*(Error|Exception)\b)"
)
"""Lines of pytest's tracebacks that say what was raised, and where."""
_CHANGED: Final = re.compile(r" {0,2}[-+] ")
"""A line of a diff that only one side has."""
_COMPARED: Final = re.compile(r"(?:\w+ differ: )?(assert .{1,9}|.{1,9}(?=.* != ))")
"""How pytest and unittest show the two sides of a comparison."""
_SAYS_NOTHING: Final = re.compile(
    r"\s*(?:$|\?|[\^~]+$|File \"|Full diff:|Use -v|(?:Omitting|Skipping) \d"
    r"|use 'pytest --fixtures)"
)
"""A line below an exception that no one needs."""


def render(
    report: FailureReport,
    *,
    log: str = "",
    folder: str = "",
    now: datetime | None = None,
    is_alive: bool | None = None,
) -> str:
    """Return the answer: one line if nothing failed, else the verdict and each cause.

    Args:
        report: of the run.
        log: the file with all output of the agent's own command, which has just ended. Without it
            the answer says which run it is about, and also what is usual.
        folder: where that command ran.
        now: of a tool that is asked, which also says how long ago the run began; the same report
            gives the same answer without it.
        is_alive: whether the pytest of a report that is `running` lives; `None` if not known.
    """
    report = known_so_far(report)
    summary = summarise(report)
    lines = [*_verdict_lines(report, summary, log, _UNENDED[is_alive])]
    if not log:
        lines += _record_lines(report, now)
    if report.verdict is None and report.completeness != "running":
        return write_line("; ".join(lines), 1_600, indent=0) + "\n"
    before = write_section(lines, 1_800)
    run = reproduction_of(report)
    lines = [*_circumstances(report, summary, run, folder)]
    shown = summary.causes[:_MOST_CAUSES]
    rest = summary.causes_count - len(shown)
    if rest > 0:
        more = "ask `cause`" if now else "failure-taxonomy show --all"
        lines.insert(0, f"and {counted(rest, 'more cause')}: {more}")
    after = _within(lines, 2_400)
    return (
        before + _render_entries(shown, run, MAX_WEIGHT - weigh(before + after)) + after
    )


def known_so_far(report: FailureReport) -> FailureReport:
    """Return a report without the guess of one that is `running` that its pytest has vanished."""
    if report.completeness != "running":
        return report
    causes = [cause for cause in report.causes if cause.kind != "process.vanished"]
    verdict = report.verdict if causes else None
    return replace(report, causes=tuple(causes), verdict=verdict)


def nothing_of(report: FailureReport, ended: str) -> str:
    """Return "not known yet" for a running report, else `ended`.

    Until its run ends, only what stalls is written into it.
    """
    return "not known yet" if report.completeness == "running" else ended


def render_cause(report: FailureReport, number: int) -> str:
    """Return all of one cause in the same form, with the room of the whole answer.

    Args:
        report: of the run.
        number: of the cause, counted from 1 in the report's order.
    """
    summary = summarise(report)
    run = reproduction_of(report)
    cause = summary.causes[number - 1]
    head = [f"cause: {number} of {summary.causes_count}", f"key: {cause.key}"]
    head += _codes(cause, is_whole=True)
    if cause.owner:
        head.append(f"owner: {cause.owner} {cause.package or ''}".rstrip())
    tests = [f"tests: {len(cause.nodeids):,}", *cause.nodeids]
    text = write_section(head, 1_000)
    text += _render_entry(number, cause, run, MAX_WEIGHT // 2)
    text += write_section(tests, 1_600) + _within(_surroundings(run), 800)
    room = MAX_WEIGHT - weigh(text)
    if code := quoted_code(cause, room):
        text += write_section(["traceback:", *code], room)
    return text


def render_commands(report: FailureReport, number: int | None = None) -> str:
    """Return the commands that run failed tests again; with a number, that of this cause."""
    commands = commands_of(report, number)
    lines = [f"reproduce: {counted(len(commands), 'command')}"]
    lines += _surroundings(reproduction_of(report))
    return _within([*lines, *map(_command_line, commands)], MAX_WEIGHT)


def command_of(run: Reproduction, cause: CauseSummary) -> str:
    """Return the command that proves a cause, or runs its first test; empty without one."""
    return cause.proof_command or run.command(next(iter(cause.nodeids), ""))


def commands_of(report: FailureReport, number: int | None = None) -> list[str]:
    """Return the commands of causes and running tests, each once; or that of one cause."""
    run = reproduction_of(report)
    causes, tests = summarise(report).causes, report.in_flight
    if number:
        causes, tests = causes[number - 1 : number], ()
    commands = [command_of(run, cause) for cause in causes]
    commands += [run.command(test.nodeid) for test in tests]
    return [*filter(None, dict.fromkeys(commands))]


def quoted_code(cause: CauseSummary, room: int) -> list[str]:
    """Return the lines of a cause's traceback; of a long one those that say what was raised."""
    code = filter(str.strip, cause.code.with_count.splitlines())
    lines = [write_line(line.expandtabs(4), _SHORT_LINE, indent=0) for line in code]
    room -= 3 * len(lines) + 100  # where they are indented
    if cause.code.is_of_library or weigh("".join(lines)) > room:
        lines = [*filter(_TELLING.match, lines)]
    return that_fit(lines, room, weigh)


def render_section(head: str, entries: Iterable[Iterable[str]]) -> str:
    """Return an answer of one section in the same form, of as many lines as there is room for.

    Args:
        head: its first line, in words of our own.
        entries: of each the first line, and those below it.
    """
    lines = [head]
    for first, *others in entries:
        lines += [first, *(f"{_BELOW}{text}" for text in others)]
    return write_section(lines, MAX_WEIGHT)


def weigh(text: str) -> int:
    """Return an upper estimate of the tokens of a text, in quarters."""
    return sum(_WEIGHTS.get(each, _OTHER_WEIGHT) for each in text)


def write_section(lines: Iterable[str], room: int) -> str:
    """Return a section of untrusted lines; the first one begins in column one."""
    first, *others = lines
    return _within([write_line(first, indent=0), *map(write_line, others)], room)


def _within(lines: Iterable[str], room: int) -> str:
    """Return as many whole lines as there is room for, and say if some are missing."""
    whole = [f"{line}\n" for line in lines]
    kept = that_fit(whole, room - weigh(_CUT), weigh)
    if len(kept) < len(whole):
        kept.append(_CUT)
    return "".join(kept)


def write_line(text: str, limit: int = _LONGEST_LINE, *, indent: int = 2) -> str:
    """Return an untrusted text as one line."""
    return " " * indent + _fit(safe_text(text, limit), 2 * limit)


def _fit(text: str, room: int) -> str:
    """Return one line within a weight; a text of many languages is heavier than it is long."""
    if weigh(text) <= room:
        return text
    return "".join(that_fit(text, room - weigh("…"), weigh)) + "…"


def _verdict_lines(
    report: FailureReport, summary: RunSummary, log: str, unended: str
) -> Iterator[str]:
    headline, verdict = summary.headline, report.verdict
    if verdict is not None and summary.causes_count == 1:
        # It has the sentence that the cause has, too.
        sentence = summary.causes[0].text
        headline = headline.replace(f": {sentence}", "").replace(sentence, "")
    yield f"verdict: {nothing_of(report, headline or 'failed')}"
    if report.completeness == "running":
        yield unended
    if verdict is not None:
        output = f"; output: {log}" if log else ""
        yield f"retry helps: {_RETRY_HELPS[verdict.retryable]}{output}"
        yield from _judgement_lines(report, verdict, summary, is_whole=not log)
    for note in summary.notes[:_MOST_NOTES]:
        if note not in headline:
            yield f"note: {first_line(note)}"
    if verdict is None and log:
        yield f"all output: {log}"


def _judgement_lines(
    report: FailureReport, verdict: Verdict, summary: RunSummary, *, is_whole: bool
) -> Iterator[str]:
    kinds = {(cause.reason, cause.kind) for cause in summary.causes}
    if is_whole or (verdict.reason, verdict.kind) not in kinds:
        yield from _codes(verdict, is_whole=is_whole)
    if is_whole and verdict.failure_type:
        yield f"failure type: {verdict.failure_type}"
    if is_whole or verdict.confidence != "certain":
        yield f"confidence: {verdict.confidence}"
    if others := other_kinds(verdict):
        yield f"could also be: {', '.join(others)}"
    if not (report.failures or report.collection_errors or report.in_flight):
        for piece in verdict.evidence[:_MOST_DETAILS]:
            name = "printed" if piece.source == PRINTED else "evidence"
            yield f"{name}: {first_line(piece.detail)}"
    gave_up = verdict.reason == FailureReason.AGENT_GAVE_UP
    if is_whole or gave_up or verdict.retryable is not False:
        yield f"try: {'; then '.join(advice_of(report, verdict).steps)}"
    if summary.advice.endswith(HIDES):
        yield "beware: a retry of only the failed tests would pass and hide the cause"
    if summary.left:
        yield summary.left


def _codes(judged: Verdict | CauseSummary, *, is_whole: bool) -> Iterator[str]:
    """Yield the codes, and who is charged; else only where an agent would not expect it."""
    words = [f"is: {judged.reason} {judged.kind}"]
    if judged.charge_to:
        words.append(f"charge to: {judged.charge_to}")
    if unusual := [text for text in words if is_whole or text not in _USUAL]:
        yield "; ".join(unusual)


def _record_lines(report: FailureReport, now: datetime | None) -> Iterator[str]:
    """Yield which run it is: a run without this plugin leaves the report of an earlier one."""
    end = report.exit
    name = f" ({end.name})" if end.name else ""
    code = "not known" if end.code is None else end.code
    yield f"ended by: {end.signal}" if end.signal else f"exit code: {code}{name}"
    began = datetime.fromisoformat(report.run.started_at)
    ago = ""
    if now is not None:
        # By a clock that differs it may begin after now.
        ago = f", {seconds_words(max(0.0, (now - began).total_seconds()))} ago"
    is_recorded = report.environment.pytest != "unknown"
    program = start_of(report)[1] if is_recorded else []
    command = shlex.join([*program, *report.run.invocation.args]) or "not known"
    yield f"run: began {began:%Y-%m-%d %H:%M:%S} UTC{ago}: {command}"
    git = report.environment.git
    if git is not None and git.commit:
        yield f"commit: {git.commit[:40]}{', with uncommitted changes' if git.dirty else ''}"
    if report.completeness == "reconstructed":
        yield "this report is reconstructed or merged; it may lack details"
    yield f"format: {VERSION}"


def _circumstances(
    report: FailureReport, summary: RunSummary, run: Reproduction, folder: str
) -> Iterator[str]:
    """Yield what belongs to no cause: what was running at the end, and how to run it again."""
    named = {cause.nodeids[:1] for cause in summary.causes}
    for test in report.in_flight[:_MOST_NOTES]:
        printed = filter(str.strip, (test.output or "").splitlines())
        lines = [write_line(f"printed: {line}") for line in [*printed][-2:]]
        if test.stall:
            lines.insert(0, write_line(stall_words(test.stall)))
        command = run.command(test.nodeid)
        if command and (test.nodeid,) not in named:
            lines.append(_command_line(command))
        if lines:
            nodeid = safe_text(test.nodeid, _SHORT_LINE)
            about = (test.phase, seconds_words(test.elapsed_seconds))
            words = f"in flight: {nodeid} ({', '.join(filter(None, about))})"
            yield from (write_line(words, indent=0), *lines)
    for stall in report.stalls[:_MOST_NOTES]:
        yield write_line(f"stalled: {stall.what}: {stall_words(stall)}", indent=0)
    yield from _surroundings(run, folder)


def _surroundings(run: Reproduction, folder: str = "") -> Iterator[str]:
    """Yield where to run commands, if that is not in this folder, and what they lack."""
    if folder != run.folder:
        yield write_line(f"run these in: {run.folder}", indent=0)
    yield from (write_line(f"without: {words}", indent=0) for words in run.missing)


def _command_line(command: str) -> str:
    """Return a whole command, which a shell can be given: a part would be another one."""
    return f"{_BELOW}{command}"


def _render_entries(
    causes: Sequence[CauseSummary], run: Reproduction, room: int
) -> str:
    """Return what is said of causes within a room, which is a weight and which they share."""
    text = ""
    # The last cause comes first: what it does not need is for more important ones.
    for number in range(len(causes), 0, -1):
        share = (room - weigh(text)) // number
        text = _render_entry(number, causes[number - 1], run, share) + text
    return text


def _render_entry(
    number: int, cause: CauseSummary, run: Reproduction, room: int
) -> str:
    """Return what is said of a cause: its sentence, the fix and the command before all else."""
    count = f"{cause.count:,} x " if cause.count > 1 else ""
    sentence = write_line(f"{number}. {count}{cause.text}", indent=0)
    command = command_of(run, cause)
    ways = [write_line(cause.fix_line, indent=3)] if cause.fix_line else []
    ways += [_command_line(command)] if command else []
    needed = weigh("".join(ways))
    lines = [_fit_sentence(sentence, max(room // 2, room - needed) - 4), *ways]
    code = [*_code_lines(cause)]
    lines += [write_line(text, _SHORT_LINE, indent=3) for text in code]
    about = _about(cause, has_code=bool(code))
    lines += [write_line(words, indent=3) for words in about]
    shown = that_fit([f"{line}\n" for line in lines], room, weigh)
    if command and len(shown) > len(ways):
        shown.append(shown.pop(len(ways)))
    return "".join(shown)


def _fit_sentence(text: str, room: int) -> str:
    """Return a sentence within a weight, with its end, which says where."""
    if weigh(text) <= room:
        return text
    end = "".join(that_fit(text[::-1], room // 2, weigh))[::-1]
    return _fit(text, room - weigh(end)) + end


def _about(cause: CauseSummary, *, has_code: bool) -> Iterator[str]:
    yield from _codes(cause, is_whole=False)
    for failure in cause.failures[: not has_code]:
        raised, place = failure.exception, failure.location
        if raised is not None:
            message = one_line(raised.message)
            if not message or message not in cause.text:
                yield f"raised: {raised_words(raised)}"
        if place is not None and not os.path.isabs(place.path):
            words = place_words(place)
            if words not in cause.text:
                yield f"at: {words}"
    # What earlier runs, another revision and experiments say.
    if cause.history:
        yield f"history: {cause.history}"
    yield from filter(None, (cause.last_passed, cause.changed))
    if cause.base:
        yield f"base: {cause.base}"
    yield from (f"proof: {line}" for line in cause.proof)


def _code_lines(cause: CauseSummary) -> Iterator[str]:
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
                yield text
            seen.add(text)
    details = [*_details(raised, cause.text)]
    if not (seen or details):
        details = [text for text in others if text.strip() not in cause.text]
        details = details[:_SOME_DETAILS]
    yield from details[:_MOST_DETAILS]
    if len(details) > _MOST_DETAILS:
        yield "E …"


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
