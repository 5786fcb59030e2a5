"""A report for agents: why the run failed and what to do next, in at most 2,000 tokens.

The format is documented in docs/reference/agent-format.md and stable. Six sections, always all of
them and in one order; each begins in the first column, and all else is indented, so that no text of
a test can pass for a section. There is no Markdown in it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final

from pytest_failure_taxonomy.report.limits import REDACTED, JSONObject
from pytest_failure_taxonomy.report.render.history_words import words_of_group, words_of_verdict
from pytest_failure_taxonomy.report.render.places import stall_words
from pytest_failure_taxonomy.report.render.terminal import own_texts
from pytest_failure_taxonomy.report.text import encodable, first_line, safe_text, telling_line
from pytest_failure_taxonomy.taxonomy.recovery import explain_recovery
from pytest_failure_taxonomy.taxonomy.words import counted, counts_in_words

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

SECTIONS: Final = ("verdict", "try", "failures", "changed", "in flight", "reproduce")
"""How the sections begin, in their order."""

_MOST_GROUPS: Final = 5
_MOST_IN_FLIGHT: Final = 3
_MOST_COMMANDS: Final = 5
_MOST_NOTES: Final = 3
_LONGEST_LINE: Final = 240
_LONGEST_NODEID: Final = 160
_HEAVIEST_NODEID: Final = 400
_LONGEST_TRACEBACK_LINE: Final = 160
_OF_SECTION: Final = {"verdict": 1_600, "try": 700, "changed": 600, "in flight": 1_400}
"""The weight that a section may have; `failures` gets what all the others leave."""
_OF_REPRODUCE: Final = 1_200
_OF_REST: Final = 160
"""For the line that says how many causes are not shown."""
_OF_LISTED: Final = 600
"""For causes that are listed without a traceback."""
_LEAST_OF_TRACEBACK: Final = 250
_CUT: Final = "  (cut)"
_GAP: Final = "..."
_MOST_GAPS: Final = 4

_TELLING: Final = re.compile(r"^(E( |$)|>|\S.*:[0-9]+: |[A-Za-z_][\w.]*(Error|Exception)\b)")
"""Lines of pytest's tracebacks that say what was raised, and where."""

_ONCE_MORE: Final = {
    True: "yes: the same run again can pass",
    False: "no: the same run again will fail again; something has to change first",
    None: "not known: nothing speaks for or against the same run again",
}
_ACTIONS: Final = {
    "retry": "run it again",
    "rollback": "go back to the last commit that worked",
    "skip": "leave this task, and go on with others",
    "continue": "go on in a new session",
    "escalate": "don't repeat this run as it is; mend what failed, or ask for help",
}


def render(report: JSONObject) -> str:
    """Return the report for an agent: at most `MAX_WEIGHT` characters, the verdict first."""
    others = {
        "verdict": _verdict(report),
        "try": _advice(report),
        "changed": _changes(report),
        "in flight": _in_flight(report),
    }
    parts = {name: _within(lines, _OF_SECTION[name]) for name, lines in others.items()}
    parts["reproduce"] = _within(_commands(report), _OF_REPRODUCE)
    left = MAX_WEIGHT - sum(map(_weight, parts.values()))
    parts["failures"] = _failures(report, left)
    return "".join(parts[name] for name in SECTIONS)


def _weight(text: str) -> int:
    return sum(_WEIGHTS.get(each, _OTHER_WEIGHT) for each in text)


def _within(lines: Iterable[str], room: int) -> str:
    """Return as many whole lines as there is room for, and say where that is not all."""
    text, room = "", room - _weight(_CUT) - 1
    for line in lines:
        room -= _weight(line) + 1
        if room < 0:
            return f"{text}{_CUT}\n"
        text += f"{line}\n"
    return text


def _line(text: str, limit: int = _LONGEST_LINE, *, indent: int = 2) -> str:
    return " " * indent + _fit(safe_text(text, limit), 2 * limit)


def _fit(text: str, room: int) -> str:
    """Return one line within a weight; a text of many languages is heavier than it is long."""
    if _weight(text) <= room:
        return text
    kept, room = "", room - _weight("…")
    for each in text:
        room -= _weight(each)
        if room < 0:
            break
        kept += each
    return kept + "…"


def _verdict(report: JSONObject) -> Iterator[str]:
    verdict = report["verdict"]
    if report["completeness"] == "running":
        yield "verdict: not known yet"
        yield _line("pytest still runs, or has died and nobody has completed its report")
    elif verdict is None:
        yield "verdict: no failure"
    else:
        yield f"verdict: {verdict['reason']} {_fit(safe_text(verdict['kind'], 80), 80)}"
    if verdict is not None:
        yield from map(_line, _words_of_verdict(report, verdict))
    yield _line(_end_words(report))
    yield _line(_count_words(report))
    for held in report["reasons"][1:]:
        yield _line(f"also: {held['count']:,} x {held['reason']} {held['kind']}")
    if report["completeness"] == "reconstructed":
        yield _line("the report was made from what was left of the run; it may lack details")
    for note in [*own_texts(report, "notes"), *own_texts(report, "faults")][:_MOST_NOTES]:
        yield _line(f"note: {first_line(note)}")


def _words_of_verdict(report: JSONObject, verdict: JSONObject) -> Iterator[str]:
    seen = words_of_verdict(report)
    yield verdict["message"] + (f" [{seen}]" if seen else "")
    yield f"confidence: {verdict['confidence']}"
    if verdict["ambiguous"]:
        yield f"could also be: {', '.join(verdict['ambiguous'])}"
    if not report["failures"] and not report["collection_errors"]:
        for said in verdict["evidence"][:_MOST_NOTES]:
            yield f"evidence: {first_line(said['detail'])}"


def _end_words(report: JSONObject) -> str:
    end = report["exit"]
    if end["signal"]:
        return f"ended by: {end['signal']}"
    if end["code"] is None:
        return "exit code: not known"
    name = f" ({end['name']})" if end["name"] else ""
    return f"exit code: {end['code']}{name}"


def _count_words(report: JSONObject) -> str:
    names = ("failed", "errors", "passed", "skipped", "xfailed", "xpassed", "flaky", "in_flight")
    counts = counts_in_words(report["summary"], (*names, "not_run"))
    return f"tests: {counts or 'none ran'}"


def _advice(report: JSONObject) -> Iterator[str]:
    verdict = report["verdict"]
    if verdict is None:
        waits = report["completeness"] == "running"
        yield "try: wait, or complete the report" if waits else "try: nothing to do"
        if waits:
            yield _line("if pytest has died: failure-taxonomy finalize REPORT")
        return
    action = verdict["recovery_action"]
    yield f"try: {action or 'not known'}"
    if action in _ACTIONS:
        yield _line(f"that is: {_ACTIONS[action]}")
    yield _line(f"retry helps: {_ONCE_MORE[verdict['retryable']]}")
    if verdict["failure_type"]:
        yield _line(f"failure type: {verdict['failure_type']}")
        advice = explain_recovery(verdict["failure_type"], attempt_count=1)
        if advice.action == action:
            yield from (_line(f"hint: {hint}") for hint in advice.hints)
    if verdict["owner"]:
        yield _line(f"raised in code of: {verdict['owner']}")


def _failures(report: JSONObject, room: int) -> str:
    """Return the groups, the errors outside of them, and a traceback of each, within the room."""
    found = chain(_group_entries(report), _error_entries(report))
    entries = list(islice(found, 2 * _MOST_GROUPS))
    if not entries:
        return "failures: none\n"
    count = sum(group["count"] for group in report["groups"]) + len(report["internal_errors"])
    causes = len(report["groups"]) + len(report["internal_errors"])
    causes += report["limits"]["groups_omitted"]
    parts = [f"failures: {count}, causes: {causes}\n"]
    room -= _weight(parts[0]) + _OF_REST
    shown = entries[:_MOST_GROUPS]
    kept = _OF_LISTED if len(entries) > len(shown) else 0
    room -= kept
    for number, (lines, traceback) in enumerate(shown):
        part = _entry(number + 1, lines, traceback, room // (len(shown) - number))
        room -= _weight(part)
        parts.append(part)
    listed, room = len(shown), room + kept
    for lines, _ in entries[listed:]:
        part = _line(f"{listed + 1}. {lines[0]}") + "\n"
        room -= _weight(part)
        if room < 0:
            break
        parts.append(part)
        listed += 1
    if causes > listed:
        parts.append(f"  and {causes - listed} more causes: failure-taxonomy show --all REPORT\n")
    return "".join(parts)


def _entry(number: int, lines: list[str], traceback: str | None, room: int) -> str:
    first, *others = lines
    head = _within([_line(f"{number}. {first}"), *(_line(each, indent=5) for each in others)], room)
    room -= _weight(head)
    if not traceback or room < _LEAST_OF_TRACEBACK:
        return head
    said = [_traceback_line(line) for line in traceback.splitlines() if line.strip()]
    return head + "".join(f"{line}\n" for line in _telling(said, room))


def _traceback_line(line: str) -> str:
    shown = safe_text(line.expandtabs(4), _LONGEST_TRACEBACK_LINE)
    return f"     | {_fit(shown, 2 * _LONGEST_TRACEBACK_LINE)}".rstrip()


def _telling(lines: list[str], room: int) -> Iterator[str]:
    """Yield the lines that say most: what was raised and where, then what leads to it.

    Where not all have room, those of pytest's marks (`>` and `E`) and of places are taken from the
    end; then their neighbours, as far as there is room. `...` stands for what is left out.
    """
    marks = [at for at, line in enumerate(lines) if _TELLING.match(line.removeprefix("     | "))]
    order = [*reversed(marks), *reversed(range(len(lines)))]
    gap = f"     | {_GAP}"
    room -= _MOST_GAPS * (_weight(gap) + 1)
    taken: set[int] = set()
    gaps = 0
    for at in order:
        cost = _weight(lines[at]) + 1
        if at in taken:
            continue
        if cost > room:
            break
        room -= cost
        taken.add(at)
    last = -1
    for at in sorted(taken):
        if at > last + 1 and gaps < _MOST_GAPS:
            gaps += 1
            yield gap
        yield lines[at]
        last = at


def _group_entries(report: JSONObject) -> Iterator[tuple[list[str], str | None]]:
    for group in report["groups"]:
        failure = _failure_of(report, group)
        lines = [f"{group['count']:,} x {first_line(group['title'])}"]
        lines.append(f"is: {group['reason']} {group['kind']}")
        if group["nodeids"]:
            more = len(group["nodeids"]) - 1
            others = f" and {more} more" if more else ""
            lines.append(f"test: {safe_text(group['nodeids'][0], _LONGEST_NODEID)}{others}")
        lines += _place_lines(failure, first_line(group["title"]))
        if group["history"]:
            lines.append(f"history: {words_of_group(report, group)}")
        yield lines, None if failure is None else failure["traceback"]


def _failure_of(report: JSONObject, group: JSONObject) -> JSONObject | None:
    """Return the first failure of a group that has a traceback, or the first of all."""
    found = [each for each in report["failures"] if each["fingerprint"] == group["fingerprint"]]
    if not found:
        named = set(group["nodeids"])
        found = [each for each in report["collection_errors"] if each["nodeid"] in named]
    first: JSONObject | None = next(
        (each for each in found if each["traceback"]), found[0] if found else None
    )
    return first


def _place_lines(failure: JSONObject | None, title: str) -> Iterator[str]:
    if failure is None:
        return
    place, origin, raised = failure["location"], failure["origin"], failure["exception"]
    if raised is not None:
        message = telling_line(raised["message"])
        said = f"{raised['type']}: {message}" if message else raised["type"]
        if said != title:
            yield f"raised: {said}"
    if place is not None:
        yield f"at: {place['path']}" + ("" if place["line"] is None else f":{place['line']}")
    if origin is not None:
        package = f" {origin['package']}" if origin["package"] else ""
        yield f"in code of: {origin['owner']}{package}"


def _error_entries(report: JSONObject) -> Iterator[tuple[list[str], str | None]]:
    for error in report["internal_errors"]:
        yield (
            [first_line(error["message"]) or error["kind"], f"is: {error['kind']}"],
            error["traceback"],
        )


def _changes(report: JSONObject) -> Iterator[str]:
    git = report["environment"]["git"] or {}
    groups = [group for group in report["groups"] if group["history"]]
    states = [group["history"]["state"] for group in groups]
    if not groups:
        yield "changed: not known, the run keeps no history"
    else:
        names = {"new": "new", "came_back": "came back", "known": "known", "flaky": "flaky"}
        said = [f"{states.count(state)} {words}" for state, words in names.items()]
        yield f"changed: {', '.join(each for each in said if not each.startswith('0 '))}"
    if git.get("commit"):
        branch = f" on {git['branch']}" if git.get("branch") else ""
        dirty = ", with changes that are not committed" if git.get("dirty") else ""
        yield _line(f"commit: {git['commit'][:40]}{branch}{dirty}")
    passed = {group["history"]["last_passed_commit"]: None for group in groups}
    for commit in [each for each in passed if each][:_MOST_NOTES]:
        yield _line(f"its tests last passed at: {commit[:40]}")


def _in_flight(report: JSONObject) -> Iterator[str]:
    tests = report["in_flight"]
    stalls = report["stalls"]
    if not tests and not stalls:
        yield "in flight: none"
        return
    yield f"in flight: {counted(len(tests), 'test')}"
    for test in tests[:_MOST_IN_FLIGHT]:
        elapsed = test["elapsed_seconds"]
        since = "" if elapsed is None else f", for {elapsed:.1f} s"
        yield _line(f"{safe_text(test['nodeid'], _LONGEST_NODEID)} ({test['phase']}{since})")
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


def _commands(report: JSONObject) -> Iterator[str]:
    """Yield a command for the first test of each cause, and for those that were running."""
    named = [group["nodeids"][0] for group in report["groups"] if group["nodeids"]]
    named += [test["nodeid"] for test in report["in_flight"]]
    commands = {command: None for each in named if (command := command_for(each))}
    if not commands:
        yield "reproduce: no single test"
        return
    yield _fit(f"reproduce: in {safe_text(report['run']['invocation']['rootdir'])}", 500)
    yield from (f"  {command}" for command in [*commands][:_MOST_COMMANDS])


def command_for(nodeid: str) -> str:
    """Return the command of a POSIX shell that runs one test; empty where there can't be one.

    What a shell can't be given, such as a control character, a secret that was removed or
    a megabyte, is only in the parameters or the names of a test: then the next larger part is run,
    all parameters of the test or its whole file.
    """
    path = nodeid.partition("::")[0]
    for target in (nodeid, _without_parameters(nodeid), path):
        if _can_be_given(target):
            return f"pytest {'-- ' if target.startswith('-') else ''}{shlex.quote(target)}"
    return ""


def _without_parameters(nodeid: str) -> str:
    path, separator, names = nodeid.partition("::")
    return f"{path}{separator}{names.partition('[')[0]}"


def _can_be_given(target: str) -> bool:
    is_safe = safe_text(target, len(target) + 1) == target and encodable(target) == target
    return 0 < _weight(target) <= _HEAVIEST_NODEID and is_safe and REDACTED not in target
