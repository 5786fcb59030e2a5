"""A report for agents: why the run failed and what to do next, in at most 2,000 tokens.

The format is documented in docs/reference/agent-format.md and stable; this is its second version.
Seven sections, always all of them and in one order; each begins in the first column, and all else
is indented, so that no text of a test can pass for a section. There is no Markdown in it.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from pytest_failure_taxonomy.report.build import JSONObject
from pytest_failure_taxonomy.report.reproduce import reproduction_of, start_of
from pytest_failure_taxonomy.report.summary import (
    HIDES,
    CauseSummary,
    RunSummary,
    other_kinds,
    place_words,
    raised_words,
    stall_words,
    states_words,
    summarise,
)
from pytest_failure_taxonomy.report.text import first_line, safe_text, that_fit
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.taxonomy.words import (
    and_more,
    counted,
    counts_in_words,
    one_line,
    seconds_words,
)

VERSION: Final = 2
MAX_TOKENS: Final = 2_000
MAX_WEIGHT: Final = 4 * MAX_TOKENS - 600
"""Of the whole answer, in quarters of a token, with some to spare; at most as many characters."""
_WEIGHTS: Final = {
    **dict.fromkeys(map(chr, range(0x80)), 2),
    **dict.fromkeys("abcdefghijklmnopqrstuvwxyz _\n", 1),
    **dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 4),
    **dict.fromkeys("0123456789", 3),
    "\\": 8,
}
"""Small letters make words, of four letters a token; capitals make names, but also base64, where
each letter is a token of its own, as are many digits of hashes. A backslash begins an escape.
docs/reference/agent-format.md has what was measured."""
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

_MOST_CAUSES: Final = 5
_MOST_IN_FLIGHT: Final = 3
_MOST_COMMANDS: Final = 5
_MOST_NOTES: Final = 3
_LONGEST_LINE: Final = 240
_LONGEST_NODEID: Final = 160
_LONGEST_TRACEBACK_LINE: Final = 160
_OF_REST: Final = 160
"""For the line that says how many causes are not shown."""
_OF_LISTED: Final = 600
"""For causes that are listed without a traceback."""
_LEAST_OF_TRACEBACK: Final = 250
_CUT: Final = "  (cut)"
_GAP: Final = "..."
_MOST_GAPS: Final = 4

_TELLING: Final = re.compile(
    r"^(E( |$)|>|\S.*:[0-9]+: |[A-Za-z_][\w.]*(Error|Exception)\b)"
)
"""Lines of pytest's tracebacks that say what was raised, and where."""

_UNENDED: Final = {
    True: "pytest still runs; ask again when it has ended",
    False: "its pytest is gone; complete the report by: failure-taxonomy finalize REPORT",
    None: "pytest still runs, or has died and nobody has completed its report",
}
"""What is said of a report that is `running`, by whether its pytest lives."""


def render(
    report: JSONObject, *, now: datetime | None = None, is_alive: bool | None = None
) -> str:
    """Return the report for an agent: at most `MAX_WEIGHT` characters, the verdict first.

    Args:
        report: the report's JSON object.
        now: of a tool that is asked, which also says how long ago the run began; the same report
            gives the same answer without it.
        is_alive: whether the pytest of a report that is `running` lives; `None` if not known.
    """
    report = known_so_far(report)
    summary = summarise(report)
    # Each has its weight, and `failures` gets what all the others leave.
    parts = {
        "format": _within([f"format: {VERSION}"], 100),
        "verdict": _within(_verdict(report, summary, now, _UNENDED[is_alive]), 1_600),
        "try": _within(_advice(report, summary), 700),
        "changed": _within(_changes(report, summary), 600),
        "in flight": _within(_in_flight(report), 1_400),
        "reproduce": _within(_commands(report, summary), 1_200),
    }
    left = MAX_WEIGHT - sum(map(_weight, parts.values()))
    more = "ask `cause`" if now else "failure-taxonomy show --all REPORT"
    parts["failures"] = _failures(report, summary, left, more)
    return "".join(parts[name] for name in SECTIONS)


def known_so_far(report: JSONObject) -> JSONObject:
    """Return a report without the guess of one that is `running` that its pytest has vanished."""
    if report["completeness"] == "running":
        causes = [
            cause for cause in report["causes"] if cause["kind"] != "process.vanished"
        ]
        report = {
            **report,
            "causes": causes,
            "verdict": report["verdict"] if causes else None,
        }
    return report


def nothing_of(report: JSONObject, ended: str) -> str:
    """Return what is said where a report has nothing, which of one that is `running` says little.

    Until its run ends, only what stalls is written into it.
    """
    return "not known yet" if report["completeness"] == "running" else ended


def render_cause(report: JSONObject, number: int) -> str:
    """Return all of one cause in the same form, with the room of the whole answer.

    Args:
        report: the report's JSON object.
        number: of the cause, counted from 1 in the report's order.
    """
    summary = summarise(report)
    cause = summary.causes[number - 1]
    head = f"cause: {number} of {summary.causes_count}\n{_line(f'key: {cause.key}')}\n"
    nodeids = (_line(nodeid) for nodeid in cause.nodeids)
    tests = _within([f"tests: {len(cause.nodeids):,}", *nodeids], 1_600)
    commands = render_commands(report, number)
    room = MAX_WEIGHT - sum(map(_weight, (head, tests, commands)))
    return f"{head}{_entry(number, cause, room)}{tests}{commands}"


def render_commands(report: JSONObject, number: int | None = None) -> str:
    """Return the section of commands alone; with a number, those of this cause."""
    summary = summarise(report)
    if number is not None:
        summary = replace(summary, causes=summary.causes[number - 1 : number])
        report = {**report, "in_flight": []}
    return _within(_commands(report, summary), 1_200)


def render_section(head: str, entries: Iterable[Iterable[str]]) -> str:
    """Return an answer of one section in the same form, of as many lines as there is room for.

    Args:
        head: its first line, in words of our own.
        entries: of each the first line, and those below it.
    """
    lines = (
        _line(text, indent=5 if at else 2)
        for entry in entries
        for at, text in enumerate(entry)
    )
    return _within([head, *lines], MAX_WEIGHT)


def _weight(text: str) -> int:
    return sum(_WEIGHTS.get(each, _OTHER_WEIGHT) for each in text)


def _within(lines: Iterable[str], room: int) -> str:
    """Return as many whole lines as there is room for, and say where that is not all."""
    whole = [f"{line}\n" for line in lines]
    kept = that_fit(whole, room - _weight(f"{_CUT}\n"), _weight)
    return "".join(kept if len(kept) == len(whole) else [*kept, f"{_CUT}\n"])


def _line(text: str, limit: int = _LONGEST_LINE, *, indent: int = 2) -> str:
    return " " * indent + _fit(safe_text(text, limit), 2 * limit)


def _fit(text: str, room: int) -> str:
    """Return one line within a weight; a text of many languages is heavier than it is long."""
    if _weight(text) <= room:
        return text
    return "".join(that_fit(text, room - _weight("…"), _weight)) + "…"


def _verdict(
    report: JSONObject, summary: RunSummary, now: datetime | None, unended: str
) -> Iterator[str]:
    verdict = report["verdict"]
    if report["completeness"] == "running":
        yield "verdict: not known yet"
        yield _line(unended)
    elif verdict is None:
        yield "verdict: no failure"
    else:
        yield f"verdict: {_line(summary.headline, indent=0)}"
    if verdict is not None:
        yield _line(f"is: {verdict['reason']} {verdict['kind']}")
        if verdict["charge_to"]:
            yield _line(f"charge to: {verdict['charge_to']}")
        yield _line(f"confidence: {verdict['confidence']}")
        if others := other_kinds(verdict):
            yield _line(f"could also be: {', '.join(others)}")
        if not report["failures"] and not report["collection_errors"]:
            for said in verdict["evidence"][:_MOST_NOTES]:
                yield _line(f"evidence: {first_line(said['detail'])}")
    end = report["exit"]
    name = f" ({end['name']})" if end["name"] else ""
    code = "not known" if end["code"] is None else f"{end['code']}{name}"
    yield _line(f"ended by: {end['signal']}" if end["signal"] else f"exit code: {code}")
    names = (
        "failed",
        "errors",
        "passed",
        "skipped",
        "xfailed",
        "xpassed",
        "flaky",
        "in_flight",
    )
    counts = counts_in_words(report["summary"], (*names, "not_run"))
    is_recorded = report["environment"]["pytest"] != "unknown"
    yield _line(
        f"tests: {counts or nothing_of(report, 'none ran' if is_recorded else 'not known')}"
    )
    # A run without this plugin leaves the report of the one before, which is not the last run then.
    began = datetime.fromisoformat(report["run"]["started_at"])
    ago = (
        ""
        if now is None
        else f", {seconds_words(max(0.0, (now - began).total_seconds()))} ago"
    )
    program = start_of(report)[1] if is_recorded else []
    command = (
        shlex.join([*program, *report["run"]["invocation"]["args"]]) or "not known"
    )
    words = f"run: began {began:%Y-%m-%d %H:%M:%S} UTC{ago}: {command}"
    yield _line(words, _LONGEST_NODEID)
    if report["completeness"] == "reconstructed":
        yield _line(
            "the report was made from what was left of the run; it may lack details"
        )
    for note in summary.notes[:_MOST_NOTES]:
        yield _line(f"note: {first_line(note)}")


def _advice(report: JSONObject, summary: RunSummary) -> Iterator[str]:
    verdict = report["verdict"]
    if verdict is None:
        waits = report["completeness"] == "running"
        yield "try: wait, or complete the report" if waits else "try: nothing to do"
        if waits:
            yield _line("if pytest has died: failure-taxonomy finalize REPORT")
        return
    action, words = verdict["recovery_action"], packaged_table("recovery_words")
    yield f"try: {action or 'not known'}"
    if action in words["in_short"]:
        yield _line(f"that is: {words['in_short'][action]}")
    if summary.causes_count == 1 and (mend := summary.causes[0].mend):
        yield _line(mend)  # of several, each has its own below
    yield _line(f"retry helps: {words['once_more'][str(verdict['retryable'])]}")
    if summary.advice.endswith(HIDES):
        yield _line(
            "beware: a retry of the failed tests alone passes, and hides the cause"
        )
    if verdict["failure_type"]:
        yield _line(f"failure type: {verdict['failure_type']}")


def _failures(report: JSONObject, summary: RunSummary, room: int, more: str) -> str:
    """Return the causes, and a traceback of each, within the room."""
    causes, total = summary.causes, summary.causes_count
    if not causes:
        return f"failures: {nothing_of(report, 'none')}\n"
    parts = [f"failures: {sum(cause.count for cause in causes)}, causes: {total}\n"]
    room -= _weight(parts[0]) + _OF_REST
    shown = causes[:_MOST_CAUSES]
    kept = _OF_LISTED if len(causes) > len(shown) else 0
    room -= kept
    for number, cause in enumerate(shown):
        part = _entry(number + 1, cause, room // (len(shown) - number))
        room -= _weight(part)
        parts.append(part)
    others = enumerate(causes[len(shown) : 2 * _MOST_CAUSES], len(shown) + 1)
    lines = (
        _line(f"{number}. {next(_words_of_cause(each))}") + "\n"
        for number, each in others
    )
    listed = that_fit(lines, room + kept, _weight)
    parts += listed
    if (rest := total - len(shown) - len(listed)) > 0:
        words = counted(rest, "more cause")
        parts.append(f"  and {words}: {more}\n")
    return "".join(parts)


def _entry(number: int, cause: CauseSummary, room: int) -> str:
    first, *others = _words_of_cause(cause)
    head = _within(
        [_line(f"{number}. {first}"), *(_line(each, indent=5) for each in others)], room
    )
    room -= _weight(head)
    if not cause.traceback or room < _LEAST_OF_TRACEBACK:
        return head
    longest = _LONGEST_TRACEBACK_LINE
    told = filter(str.strip, cause.traceback.splitlines())
    shown = (safe_text(line.expandtabs(4), longest) for line in told)
    said = [f"     | {_fit(line, 2 * longest)}".rstrip() for line in shown]
    return head + "".join(f"{line}\n" for line in _telling(said, room))


def _telling(lines: list[str], room: int) -> Iterator[str]:
    """Yield the lines that say most: what was raised and where, then what leads to it.

    Where not all have room, those of pytest's marks (`>` and `E`) and of places are taken from the
    end; then their neighbours, as far as there is room. `...` stands for what is left out.
    """
    marks = [
        at
        for at, line in enumerate(lines)
        if _TELLING.match(line.removeprefix("     | "))
    ]
    order = dict.fromkeys((*reversed(marks), *reversed(range(len(lines)))))
    gap = f"     | {_GAP}"
    room -= _MOST_GAPS * (_weight(gap) + 1)
    last, gaps = -1, 0
    for at in sorted(that_fit(order, room, lambda at: _weight(lines[at]) + 1)):
        if at > last + 1 and gaps < _MOST_GAPS:
            gaps += 1
            yield gap
        yield lines[at]
        last = at


def _words_of_cause(cause: CauseSummary) -> Iterator[str]:
    yield f"{cause.count:,} x {cause.text}"
    if cause.mend:
        yield cause.mend
    yield f"is: {cause.reason} {cause.kind}"
    if cause.nodeids:
        nodeid = safe_text(cause.nodeids[0], _LONGEST_NODEID)
        yield f"test: {nodeid}{and_more(len(cause.nodeids) - 1)}"
    for failure in cause.failures[:1]:
        raised, place = (failure.get(name) for name in ("exception", "location"))
        if raised is not None:
            message = one_line(raised["message"])
            if not message or message not in cause.text:
                yield f"raised: {raised_words(raised)}"
        if place is not None:
            yield f"at: {place_words(place)}"
    origin = next((each.get("origin") for each in cause.failures), None) or {}
    if owner := cause.owner or origin.get("owner"):
        package = origin["package"] if owner == origin.get("owner") else None
        yield f"owner: {owner} {package or ''}".rstrip()
    if cause.charge_to:
        yield f"charge to: {cause.charge_to}"
    if cause.history:
        yield f"history: {cause.history}"
    yield from (f"proof: {line}" for line in cause.proof)


def _changes(report: JSONObject, summary: RunSummary) -> Iterator[str]:
    git = report["environment"]["git"] or {}
    states = [cause.state for cause in summary.causes if cause.state]
    nothing = nothing_of(report, "not known, the run keeps no history")
    yield f"changed: {states_words(Counter(states)) or nothing}"
    if git.get("commit"):
        branch = f" on {git['branch']}" if git.get("branch") else ""
        dirty = ", with changes that are not committed" if git.get("dirty") else ""
        yield _line(f"commit: {git['commit'][:40]}{branch}{dirty}")
    passed = dict.fromkeys(cause.last_passed_commit for cause in summary.causes)
    for commit in [each for each in passed if each][:_MOST_NOTES]:
        yield _line(f"its tests last passed at: {commit[:40]}")
    changed = dict.fromkeys(cause.changed for cause in summary.causes)
    yield from (
        _line(words) for words in [each for each in changed if each][:_MOST_NOTES]
    )


def _in_flight(report: JSONObject) -> Iterator[str]:
    tests, stalls = report["in_flight"], report["stalls"]
    count = (
        counted(len(tests), "test") if tests or stalls else nothing_of(report, "none")
    )
    yield f"in flight: {count}"
    for test in tests[:_MOST_IN_FLIGHT]:
        lasted = seconds_words(test["elapsed_seconds"])
        since = f", for {lasted}" if lasted else ""
        yield _line(
            f"{safe_text(test['nodeid'], _LONGEST_NODEID)} ({test['phase']}{since})"
        )
        if test["stall"]:
            yield _line(stall_words(test["stall"]), indent=5)
        if test["stack"]:
            yield _line(f"crashed at: {first_line(test['stack'])}", indent=5)
        if test["output"]:
            said = [line for line in test["output"].splitlines() if line.strip()]
            yield from (_line(f"printed: {line}", 160, indent=5) for line in said[-2:])
    for stall in stalls[:_MOST_IN_FLIGHT]:
        yield _line(f"stalled: {stall['what']}")
        yield _line(stall_words(stall), indent=5)


def _commands(report: JSONObject, summary: RunSummary) -> Iterator[str]:
    """Yield a command for each cause, its proof's or its first test, and for what was running."""
    run = reproduction_of(report)
    told = [
        cause.proof_command or run.command(next(iter(cause.nodeids), ""))
        for cause in summary.causes
    ]
    told += [run.command(test["nodeid"]) for test in report["in_flight"]]
    commands = dict.fromkeys(filter(None, told))
    if not commands:
        yield "reproduce: no single test"
        return
    yield _fit(f"reproduce: in {safe_text(run.folder)}", 500)
    yield from (f"  {command}" for command in [*commands][:_MOST_COMMANDS])
    if (rest := len(commands) - _MOST_COMMANDS) > 0:
        yield _line(
            f"without: {counted(rest, 'more command')}, which each cause has of its own"
        )
    yield from (_line(f"without: {words}") for words in run.missing)
