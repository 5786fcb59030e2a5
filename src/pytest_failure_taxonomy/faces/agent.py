"""A report for agents: why the run failed and what to do next, in at most 2,000 tokens.

docs/reference/agent-format.md documents the format, which is stable; this is its second version. It
always has the same seven sections in the same order. A section begins in the first column and
everything else is indented, so that no text of a test can look like a section. It has no Markdown.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import starmap
from typing import Final, NamedTuple

from pytest_failure_taxonomy.report.model import (
    Exit,
    FailureReport,
)
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
    merged_runs_of,
    other_kinds,
    place_words,
    raised_words,
    stall_words,
    states_words,
    summarise,
)
from pytest_failure_taxonomy.taxonomy.evidence import InFlightTest
from pytest_failure_taxonomy.taxonomy.judgement import PRINTED, Verdict
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict
from pytest_failure_taxonomy.taxonomy.words import (
    and_more,
    counted,
    counts_in_words,
    one_line,
    seconds_words,
)
from pytest_failure_taxonomy.text import first_line, safe_text, that_fit

VERSION: Final = 2
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
each letter is a token, like many digits of hashes. A backslash begins an escape.
docs/reference/agent-format.md has the measurements."""
_OTHER_WEIGHT: Final = 12

SECTIONS: Final = (
    "format",
    "verdict",
    "try",
    "failures",
    "changed",
    "in flight",
    "reproduce",
)
"""How the sections begin, in their order."""

MOST_CAUSES: Final = 40
_MOST_IN_FLIGHT: Final = 3
_MOST_COMMANDS: Final = 5
MOST_NOTES: Final = 3
_LONGEST_LINE: Final = 240
_LONGEST_NODEID: Final = 160
LONGEST_CODE: Final = 160
_OF_REST: Final = 160
"""Room for the lines that say how many causes are not shown, and that others are cut."""
_CUT: Final = "  (cut)"
_BELOW: Final = "   "
"""Before a line that belongs to the one above."""
_QUOTE: Final = "     | "
"""Before a line of a traceback."""
_GAP: Final = f"{_QUOTE}..."
_PLACE: Final = re.compile(r"(?:: \S{1,80})? \(\S{1,100}:[0-9]+\)$")
"""How most sentences end: with the test and its place."""

RETRY_HELPS: Final = {True: "yes", False: "no", None: "not known"}
_TELLING: Final = re.compile(
    r"^(E( |$)|>(?! +(?:available fixtures|use 'pytest --fix))|\S.*:[0-9]+: "
    r"|[A-Za-z_][\w.]*(Error|Exception)\b)"
)
"""Lines of pytest's tracebacks that say what was raised, and where."""

_UNENDED: Final = {
    True: "pytest still runs; ask again when it has ended",
    False: "pytest is gone; complete the report by: failure-taxonomy finalize REPORT",
    None: "pytest still runs, or it died and its report was not completed",
}
"""The words about a `running` report, by whether its pytest lives."""


def render(
    report: FailureReport,
    *,
    now: datetime | None = None,
    is_alive: bool | None = None,
) -> str:
    """Return the report for an agent: at most `MAX_WEIGHT` characters, the verdict first.

    Args:
        report: of the run.
        now: of a tool that is asked, which also says how long ago the run began; the same report
            gives the same answer without it.
        is_alive: whether the pytest of a report that is `running` lives; `None` if not known.
    """
    report = known_so_far(report)
    summary = summarise(report)
    # Each has its weight, and `failures` gets what all the others leave.
    parts = {
        "format": _within([f"format: {VERSION}"], 100),
        "verdict": write_section(
            _verdict(report, summary, now, _UNENDED[is_alive]), 1_600
        ),
        "try": write_section(_advice(report, summary), 700),
        "changed": write_section(change_lines(report, summary), 600),
        "in flight": write_section(in_flight_lines(report), 1_400),
        "reproduce": _within(_commands(report, summary), 1_200),
    }
    left = MAX_WEIGHT - sum(map(weigh, parts.values()))
    more = "ask `cause`" if now else "failure-taxonomy show --all REPORT"
    parts["failures"] = _failures(report, summary, left, more)
    return "".join(parts[name] for name in SECTIONS)


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
    cause = summary.causes[number - 1]
    key = write_line(f"key: {cause.key}")
    head = f"cause: {number} of {summary.causes_count}\n{key}\n"
    tests = write_section([f"tests: {len(cause.nodeids):,}", *cause.nodeids], 1_600)
    commands = render_commands(report, number)
    room = MAX_WEIGHT - sum(map(weigh, (head, tests, commands)))
    entry = fill_entries([_lines_of_cause(number, cause)], room)
    return f"{head}{entry}{tests}{commands}"


def render_commands(report: FailureReport, number: int | None = None) -> str:
    """Return the section of commands alone; with a number, those of this cause."""
    summary = summarise(report)
    if number is not None:
        summary = replace(summary, causes=summary.causes[number - 1 : number])
        report = replace(report, in_flight=())
    return _within(_commands(report, summary), 1_200)


def command_of(run: Reproduction, cause: CauseSummary) -> str:
    """Return the command that proves a cause, or runs its first test; empty without one."""
    return cause.proof_command or run.command(next(iter(cause.nodeids), ""))


def commands_of(
    run: Reproduction, causes: Iterable[CauseSummary], tests: Iterable[InFlightTest]
) -> list[str]:
    """Return the commands of causes and of running tests, each once."""
    commands = dict.fromkeys(command_of(run, cause) for cause in causes)
    commands |= dict.fromkeys(run.command(test.nodeid) for test in tests)
    return [*filter(None, commands)]


def quoted_code(cause: CauseSummary, room: int) -> list[str]:
    """Return the lines of a cause's traceback that are shown where it has a room."""
    lines = fill_entries([_lines_of_cause(1, cause)], room).splitlines()
    return [line.removeprefix(_QUOTE) for line in lines if line.startswith(_QUOTE)]


def render_section(head: str, entries: Iterable[Iterable[str]]) -> str:
    """Return an answer of one section in the same form, of as many lines as there is room for.

    Args:
        head: its first line, in words of our own.
        entries: of each the first line, and those below it.
    """
    lines = [head]
    for first, *others in entries:
        lines.append(first)
        lines += (f"{_BELOW}{text}" for text in others)
    return write_section(lines, MAX_WEIGHT)


def weigh(text: str) -> int:
    """Return an upper estimate of the tokens of a text, in quarters."""
    return sum(_WEIGHTS.get(each, _OTHER_WEIGHT) for each in text)


def write_section(lines: Iterable[str], room: int) -> str:
    """Return a section of untrusted lines; the first one begins in column one."""
    first, *others = lines
    head = write_line(first, _LONGEST_LINE + len("verdict: "), indent=0)
    return _within([head, *map(write_line, others)], room)


def _within(lines: Iterable[str], room: int) -> str:
    """Return as many whole lines as there is room for, and say if some are missing."""
    whole = [f"{line}\n" for line in lines]
    cut = f"{_CUT}\n"
    kept = that_fit(whole, room - weigh(cut), weigh)
    if len(kept) < len(whole):
        kept.append(cut)
    return "".join(kept)


def write_line(text: str, limit: int = _LONGEST_LINE, *, indent: int = 2) -> str:
    """Return an untrusted text as one line."""
    return " " * indent + fit(safe_text(text, limit), 2 * limit)


def fit(text: str, room: int) -> str:
    """Return one line within a weight; a text of many languages is heavier than it is long."""
    if weigh(text) <= room:
        return text
    return "".join(that_fit(text, room - weigh("…"), weigh)) + "…"


def _verdict(
    report: FailureReport, summary: RunSummary, now: datetime | None, unended: str
) -> Iterator[str]:
    verdict = report.verdict
    if report.completeness == "running":
        yield "verdict: not known yet"
        yield unended
    elif verdict is None:
        yield "verdict: no failure"
    else:
        yield f"verdict: {summary.headline}"
    if verdict is not None:
        yield from _codes(verdict)
        yield from evidence_lines(report, verdict)
    yield _end_words(report.exit)
    is_recorded = report.environment.pytest != "unknown"
    counts = counts_in_words(to_dict(report.summary), _COUNTED)
    if not counts:
        counts = nothing_of(report, "none ran" if is_recorded else "not known")
    yield f"tests: {counts}"
    yield _start_words(report, now, is_recorded=is_recorded)
    if report.completeness == "reconstructed":
        runs = merged_runs_of(report)
        made = f"merged from {len(runs)} reports" if runs else "reconstructed"
        yield f"this report is {made}; it may lack details"
    for note in summary.notes[:MOST_NOTES]:
        yield f"note: {first_line(note)}"


def evidence_lines(report: FailureReport, verdict: Verdict) -> Iterator[str]:
    """Yield what a verdict is made of where no test says it."""
    if report.failures or report.collection_errors:
        return
    printed = [each for each in verdict.evidence if each.source == PRINTED]
    others = [each for each in verdict.evidence if each not in printed]
    for piece in others[:MOST_NOTES]:
        yield f"evidence: {first_line(piece.detail)}"
    for piece in printed:
        yield f"printed: {first_line(piece.detail)}"


def _codes(verdict: Verdict) -> Iterator[str]:
    yield f"is: {verdict.reason} {verdict.kind}"
    if verdict.charge_to:
        yield f"charge to: {verdict.charge_to}"
    yield f"confidence: {verdict.confidence}"
    if others := other_kinds(verdict):
        yield f"could also be: {', '.join(others)}"


_COUNTED: Final = (
    "failed",
    "errors",
    "passed",
    "skipped",
    "xfailed",
    "xpassed",
    "flaky",
    "in_flight",
    "not_run",
)


def _end_words(end: Exit) -> str:
    if end.signal:
        return f"ended by: {end.signal}"
    if end.code is None:
        return "exit code: not known"
    name = f" ({end.name})" if end.name else ""
    return f"exit code: {end.code}{name}"


def _start_words(
    report: FailureReport, now: datetime | None, *, is_recorded: bool
) -> str:
    """Say when a run began, and by which command.

    A run without this plugin does not update the report, which then belongs to an earlier run.
    """
    began = datetime.fromisoformat(report.run.started_at)
    ago = ""
    if now is not None:
        # By a clock that differs it may begin after now.
        seconds = max(0.0, (now - began).total_seconds())
        ago = f", {seconds_words(seconds)} ago"
    program = start_of(report)[1] if is_recorded else []
    args = report.run.invocation.args
    command = shlex.join([*program, *args]) or "not known"
    words = f"run: began {began:%Y-%m-%d %H:%M:%S} UTC{ago}: {command}"
    return safe_text(words, _LONGEST_NODEID)


def _advice(report: FailureReport, summary: RunSummary) -> Iterator[str]:
    verdict = report.verdict
    if verdict is None:
        if report.completeness == "running":
            yield "try: wait, or complete the report"
            yield "if pytest has died: failure-taxonomy finalize REPORT"
        else:
            yield "try: nothing to do"
        return
    first, *others = advice_of(report, verdict).steps
    yield f"try: {first}"
    for step in others:
        yield f"then: {step}"
    if summary.causes_count == 1 and (fix := summary.causes[0].fix_line):
        yield fix  # of several, each has its own below
    yield f"retry helps: {RETRY_HELPS[verdict.retryable]}"
    if summary.advice.endswith(HIDES):
        yield "beware: a retry of only the failed tests would pass and hide the cause"
    if verdict.failure_type:
        yield f"failure type: {verdict.failure_type}"


def _failures(report: FailureReport, summary: RunSummary, room: int, more: str) -> str:
    """Return the causes, and a traceback of each, within the room."""
    causes = summary.causes
    if not causes:
        return f"failures: {nothing_of(report, 'none')}\n"
    failed = sum(cause.count for cause in causes)
    head = f"failures: {failed}, causes: {summary.causes_count}\n"
    shown = causes[:MOST_CAUSES]
    room -= weigh(head) + _OF_REST
    text = head + fill_entries(starmap(_lines_of_cause, enumerate(shown, 1)), room)
    rest = summary.causes_count - len(shown)
    if rest > 0:
        text += f"  and {counted(rest, 'more cause')}: {more}\n"
    return text


class Line(NamedTuple):
    """A line about a cause."""

    rank: int
    """Lines of the first rank are shown of all causes before any line of the next one."""
    text: str

    @property
    def weight(self) -> int:
        """With the end of the line, and a gap before it where that is possible."""
        return weigh(f"{self.text}\n{_GAP}\n" if self.is_code else f"{self.text}\n")

    @property
    def is_code(self) -> bool:
        """It is one of a traceback."""
        return self.text.startswith(_QUOTE)


SENTENCE, REMEDY, FAILING, DETAIL, ABOUT, LEADING = range(6)
"""The ranks: what is wrong; where, and how to fix it; the lines that failed; what pytest says below
them, such as a diff; what else is known; the lines that lead to those that failed."""


def fill_entries(causes: Iterable[Iterable[Line]], room: int) -> str:
    """Return what is said of causes within a room for them together.

    Args:
        causes: the lines of each; the first one is its sentence.
        room: a weight.
    """
    entries: list[tuple[list[Line], set[int]]] = [([*lines], set()) for lines in causes]
    for rank in range(LEADING + 1):
        # The last cause comes first: what it does not need is for more important ones.
        for left in range(len(entries), 0, -1):
            lines, shown = entries[left - 1]
            share = room // left
            if rank == SENTENCE:
                lines[0] = Line(rank, _fit_sentence(lines[0].text, share - 1))
            weights = [line.weight for line in lines]
            for at in that_fit(_in_order(lines, rank), share, weights.__getitem__):
                shown.add(at)
                room -= weights[at]
    texts = (text for entry in entries for text in _shown_lines(*entry))
    return "".join(f"{text}\n" for text in texts)


def _fit_sentence(text: str, room: int) -> str:
    """Return a sentence within a weight, if possible with the place at its end."""
    place = _PLACE.search(text)
    if place is None or weigh(text) <= room or 2 * weigh(place[0]) > room:
        return fit(text, room)
    return fit(text[: place.start()], room - weigh(place[0])) + place[0]


def _in_order(lines: Sequence[Line], rank: int) -> list[int]:
    """Return which lines have a rank; of a traceback, the last ones tell most."""
    order = [at for at, line in enumerate(lines) if line.rank == rank]
    return order[::-1] if rank in (FAILING, LEADING) else order


def _shown_lines(lines: Sequence[Line], shown: set[int]) -> Iterator[str]:
    """Yield the lines that are to be shown; `...` stands for omitted ones of a traceback."""
    is_gap = False
    for at, line in enumerate(lines):
        if at in shown:
            yield from [_GAP] * (is_gap and line.is_code)
            yield line.text
        is_gap = line.is_code and at not in shown


def _lines_of_cause(number: int, cause: CauseSummary) -> Iterator[Line]:
    """Yield all that can be said of a cause, in the order in which it is shown."""
    sentence, *others = _words_of_cause(cause)
    yield Line(SENTENCE, write_line(f"{number}. {sentence}"))
    for words in others:
        is_place = (
            words.startswith("at: ") and words.removeprefix("at: ") not in sentence
        )
        is_remedy = is_place or words == cause.fix_line
        yield Line(REMEDY if is_remedy else ABOUT, write_line(f"{_BELOW}{words}"))
    longest = LONGEST_CODE
    before = ""
    for line in filter(str.strip, cause.code.with_count.splitlines()):
        text = fit(safe_text(line.expandtabs(4), longest), 2 * longest)
        rank = FAILING if _TELLING.match(text) else LEADING
        if text[:1] == before == "E":
            rank = DETAIL
        before = text[:1]
        if rank != LEADING or not cause.code.is_of_library:
            yield Line(rank, f"{_QUOTE}{text}".rstrip())


def _words_of_cause(cause: CauseSummary) -> Iterator[str]:
    yield f"{cause.count:,} x {cause.text}"
    if cause.fix_line:
        yield cause.fix_line
    yield f"is: {cause.reason} {cause.kind}"
    if cause.nodeids:
        nodeid = safe_text(cause.nodeids[0], _LONGEST_NODEID)
        yield f"test: {nodeid}{and_more(len(cause.nodeids) - 1)}"
    for failure in cause.failures[:1]:
        raised = failure.exception
        if raised is not None:
            message = one_line(raised.message)
            if not message or message not in cause.text:
                yield f"raised: {raised_words(raised)}"
        if failure.location is not None:
            yield f"at: {place_words(failure.location)}"
    if cause.owner:
        yield f"owner: {cause.owner} {cause.package or ''}".rstrip()
    if cause.charge_to:
        yield f"charge to: {cause.charge_to}"
    yield from about_lines(cause)


def about_lines(cause: CauseSummary) -> Iterator[str]:
    """Yield what earlier runs, another revision and experiments say about a cause."""
    about = {"history": cause.history, "base": cause.base}
    yield from (f"{name}: {words}" for name, words in about.items() if words)
    yield from (f"proof: {line}" for line in cause.proof)


def change_lines(report: FailureReport, summary: RunSummary) -> Iterator[str]:
    """Yield what has changed since earlier runs."""
    causes = summary.causes
    states = states_words(Counter([cause.state for cause in causes if cause.state]))
    if not states:
        states = nothing_of(report, "not known (the run used no history)")
    yield f"changed: {states}"
    git = report.environment.git
    if git is not None and git.commit:
        branch = f" on {git.branch}" if git.branch else ""
        dirty = ", with uncommitted changes" if git.dirty else ""
        yield f"commit: {git.commit[:40]}{branch}{dirty}"
    commits = dict.fromkeys(cause.last_passed_commit for cause in causes)
    for commit in [*filter(None, commits)][:MOST_NOTES]:
        yield f"its tests last passed at: {commit[:40]}"
    changes = dict.fromkeys(cause.changed for cause in causes)
    yield from [*filter(None, changes)][:MOST_NOTES]


def in_flight_lines(report: FailureReport) -> Iterator[str]:
    """Yield the tests that were running at the end."""
    tests = report.in_flight
    stalls = report.stalls
    count = counted(len(tests), "test")
    if not tests and not stalls:
        count = nothing_of(report, "none")
    yield f"in flight: {count}"
    for test in tests[:_MOST_IN_FLIGHT]:
        lasted = seconds_words(test.elapsed_seconds)
        since = f", for {lasted}" if lasted else ""
        nodeid = safe_text(test.nodeid, _LONGEST_NODEID)
        yield f"{nodeid} ({test.phase}{since})"
        if test.stall:
            yield f"{_BELOW}{stall_words(test.stall)}"
        if test.stack and test.location is not None:
            yield f"{_BELOW}crashed at: {place_words(test.location)}"
        lines = (test.output or "").splitlines()
        for line in [*filter(str.strip, lines)][-2:]:
            words = safe_text(f"printed: {line}", 160)
            yield f"{_BELOW}{words}"
    for stall in stalls[:_MOST_IN_FLIGHT]:
        yield f"stalled: {stall.what}"
        yield f"{_BELOW}{stall_words(stall)}"


def _commands(report: FailureReport, summary: RunSummary) -> Iterator[str]:
    """Yield a command for each cause (its proof's, or for its first test) and for running tests."""
    run = reproduction_of(report)
    commands = commands_of(run, summary.causes, report.in_flight)
    if not commands:
        yield "reproduce: no single test"
        return
    yield fit(f"reproduce: in {safe_text(run.folder)}", 500)
    for command in commands[:_MOST_COMMANDS]:
        yield f"  {command}"
    rest = len(commands) - _MOST_COMMANDS
    if rest > 0:
        words = counted(rest, "more command")
        yield f"  without: {words}, of the same form"
    for words in run.missing:
        yield write_line(f"without: {words}")
