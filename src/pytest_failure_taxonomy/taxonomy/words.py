"""Word the same things alike: numbers with nouns, stalls, amounts of memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pytest_failure_taxonomy.taxonomy import evidence

_WHOLE_SECONDS: Final = 10
_MINUTE: Final = 60


ALONE_SHARE: Final = 0.75
"""From which share of a limit on a killed process counts as too large by itself."""

_UNITS: Final = (
    "bytes",
    "KiB",
    "MiB",
    "GiB",
    "TiB",
)


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 test`, `12,345 tests`."""
    ending = "" if count == 1 else "s"
    return f"{count:,} {noun}{ending}"


def words_of_uncounted(count: int) -> str:
    """Return that pytest's session has counted failures of which no report came by."""
    return f"pytest has counted {counted(count, 'failure')} that no test has reported"


def words_of_fork(nodeid: str) -> str:
    """Return that the child of a test's fork went on as a pytest."""
    child = "the child returned into pytest: the tests after it ran twice"
    return f"{nodeid} forked, and {child}"


def words_of_integrity(finding: evidence.IntegrityFinding) -> str:
    """Return what made a result other than the code of the tests, with its place."""
    where = ""
    if finding.where is not None:
        where = f"{finding.where.path}:{finding.where.line}"
    is_named = finding.hook is not None and finding.hook not in finding.detail
    hook = f"({finding.hook})" if is_named else ""
    tests = f": {listed(finding.nodeids, 2)}" if finding.nodeids else ""
    place = " ".join(filter(None, (where or "something", hook)))
    return f"{place} {finding.detail}{tests}"


def find_left_threads(changes: Iterable[evidence.Change]) -> list[evidence.Change]:
    """Return the threads that tests have left and that still run."""
    return [
        change for change in changes if change.what == "thread" and not change.is_over
    ]


def words_of_left(change: evidence.Change) -> str:
    """Name a thread with the test that has started it: that, or a fixture of it."""
    return f"thread {change.detail}, started in {change.nodeid}"


_CHANGES: Final = {
    "forked": "forked, and {}",
    "thread": "left thread {} running",
    "child": "left process {} running",
    "folder": "left the working folder {}",
    "memory": "took memory: {}",
}


def words_of_change(change: evidence.Change) -> str:
    """Say what a test did to its process: `test_a.py::test_a forked, and …`."""
    return f"{change.nodeid} {_CHANGES[change.what].format(change.detail)}"


def noun_of_count(name: str, count: int) -> str:
    """Return the noun of a count in `summary`: `error` for one of the `errors`."""
    if count == 1:
        name = name.removesuffix("s")
    return name.replace("_", " ")


def counts_in_words(summary: Mapping[str, int], names: Iterable[str]) -> str:
    """Return the counts of a report's `summary` that are not 0: `2 passed, 1 error`."""
    words = []
    for name in names:
        count = summary[name]
        if count:
            words.append(f"{count:,} {noun_of_count(name, count)}")
    return ", ".join(words)


def enumerated(shown: Sequence[str], count: int) -> str:
    """Name some of many things, and how many more there are: `a, b and 3 more`."""
    rest = count - len(shown)
    if rest > 0:
        return f"{', '.join(shown)}{and_more(rest)}"
    *parts, last = shown
    if not parts:
        return last
    return f"{', '.join(parts)} and {last}"


def and_more(rest: int) -> str:
    """Return the words after some of many things: ` and 3 more`; empty for no rest."""
    if rest <= 0:
        return ""
    return f" and {rest:,} more"


def shortened(text: str, limit: int) -> str:
    """Return a text of so many characters at most, with `…` where it was cut."""
    if len(text) <= limit:
        return text
    return f"{text[: limit - 1]}…"


def failed_gates(reasons: Mapping[str, str]) -> str:
    """Return that gates failed, and why if it is a single one.

    Args:
        reasons: The most important reason of each by the name of its bench.
    """
    benches = ", ".join(sorted(reasons))
    words = f"the gate of bench {benches} failed"
    if len(reasons) > 1:
        return words
    (reason,) = reasons.values()
    return f"{words}: {reason}"


def listed(names: Sequence[str], most: int) -> str:
    """Return the first names, and how many more there are: `a, b and 3 more`."""
    shown = ", ".join(names[:most])
    more = and_more(len(names) - most)
    return f"{shown}{more}"


def seconds_words(seconds: float | None) -> str:
    """Return a time in the unit that fits: `12 ms`, `3.4 s`, `2 min 5 s`.

    Return an empty text if there is none.
    """
    if seconds is None:
        return ""
    milliseconds = seconds * 1000
    if milliseconds < 999.5:  # what is more would be 1000 ms
        return _milliseconds_words(milliseconds)
    if seconds < _WHOLE_SECONDS:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), _MINUTE)
    units = ("min", "s")
    if minutes >= _MINUTE:
        minutes, rest = divmod(minutes, _MINUTE)
        units = ("h", "min")
    amounts = zip((minutes, rest), units, strict=True)
    return " ".join([f"{amount} {unit}" for amount, unit in amounts if amount])


def cost_words(cost_usd: float) -> str:
    """Return a cost in dollars, or '' if there is none."""
    if cost_usd <= 0:
        return ""
    if cost_usd < 0.0001:
        return "<$0.0001"
    if cost_usd < 0.1:
        return f"${cost_usd:.4f}"
    return f"${cost_usd:,.2f}"


MAX_WORDS: Final = 240
"""How many characters the words about one thing may take."""
MAX_LINES: Final = 1_500
"""Characters of a stack that a piece of evidence quotes."""

TRACEBACK: Final = "Traceback (most recent call last):"
_NO_WORDS: Final = (
    r"[<\u2500-\u259f]|[=*#~|+_-]{3}|^\s*[=*#~|+-]\s|\[(?:Errno|WinError|type)"
    r"|0x|://|\d{10}|^\(|^Traceback|[:,]\s*$|^\s*$"
)
"""Signs of something in a text that is no words."""
ASYNC_TEST: Final = "async def functions are not natively supported"
"""What pytest says of an async test that no plugin has taken."""
PLUGINS_FOR_ASYNC: Final = {"asyncio": "pytest-asyncio", "anyio": "anyio"}
"""Plugins that run only tests that are marked for them, unless their settings say
otherwise."""
OUTCOMES: Final = frozenset({"Failed", "Skipped"})
"""The same of what pytest raises where a node can't be collected."""

STRICT_XPASS: Final = "[XPASS(strict)]"
"""How pytest's words begin for a test that failed by passing."""
FIXTURE_ERROR: Final = "FixtureLookupError"
"""What pytest raises for a fixture that does not exist."""
TYPES_OF_PYTEST: Final = frozenset(
    {FIXTURE_ERROR, "CollectError", "ImportPathMismatchError"}
)
"""Exceptions of pytest's whose text says all. pytest shows it without their type, and
so do we."""


def words_of_test_failure(failure: evidence.TestFailure) -> tuple[str, ...]:
    """Name the missing fixture, or say how the test's own process ended."""
    if failure.forked:
        _, _, how = failure.message.partition("running the test ")
        how = how.replace("CRASHED", "crashed").replace("EXITED", "exited")
        return (f"its process {how}",)
    raised = failure.exception
    if raised is None or raised.type != FIXTURE_ERROR:
        return ()
    return (one_line(raised.message),)


PYTESTS_REFUSAL: Final = "Collector.CollectError"
"""The type by which pytest itself refuses a file; it tells users nothing."""


def _milliseconds_words(milliseconds: float) -> str:
    if 0 < milliseconds < 0.1:
        return "<0.1 ms"
    if 0 < milliseconds < 0.95:
        return f"{milliseconds:.1g} ms"
    return f"{milliseconds:.0f} ms"


def words_of_collection_failure(failure: evidence.CollectionFailure) -> tuple[str, ...]:
    """Name the file that could not be collected, and what is wrong with it."""
    raised = failure.exception
    if raised is None or raised.type == PYTESTS_REFUSAL:
        words = one_line(failure.message)
    else:
        words = quote_exception(raised.type, raised.message, is_test=False)
    file = failure.nodeid.partition("::")[0]
    place = failure.location
    if place is not None and place.line is not None:
        via = ""
        # The file itself, or its folder's `__init__.py`.
        if file and not f"{place.path}/".startswith(f"{file}/"):
            via = f", from {file}"
        words = _remove_place(words, place)
        words = f"{words} ({place.path}:{place.line}{via})"
    elif file not in words:
        words = f"{failure.nodeid}: {words}"
    return (words,)


def words_of_run_error(error: evidence.RunError) -> tuple[str, ...]:
    """Return the message of an error of pytest, a conftest or a plugin, in one line."""
    words = one_line(error.message)
    return (words,) if words else ()


def words_at(state: str, where: str | None) -> str:
    """Say how something is stalled, and where if that is known."""
    if where is None or where.startswith("waits for "):
        return where or state
    return f"{state} in {where}"


def words_of_stalled_activity(stalled: evidence.SeenStall) -> str:
    """Name what was being imported or called, and the place where that was stalled."""
    name = stalled.name
    where = stalled.stall.where
    return ": ".join([part for part in (name, where) if part])


def words_of_interruption(stop: evidence.Interruption) -> tuple[str, ...]:
    """Return the reason that was given for the end, and the place."""
    words = one_line(stop.message)
    place = stop.location
    if not words or stop.exception == "KeyboardInterrupt":
        return ()
    if place is not None and place.line is not None:
        words += bracket_place(place)
    return (words,)


def quote_exception(exception_type: str, message: str, *, is_test: bool) -> str:
    """Return an exception's type and the first line of what it says.

    Where pytest itself says it, in words for people, the type is omitted as pytest
    does. A test that fails by `pytest.fail` is shown with it.
    """
    words = one_line(message)
    if not words:
        return exception_type
    is_refusal = not is_test and exception_type in OUTCOMES
    if is_refusal or exception_type in TYPES_OF_PYTEST:
        return words
    return f"{exception_type}: {words}"


def bracket_place(place: evidence.Location | None) -> str:
    """Return a place to follow words: ` (test_a.py:3)`; nothing where it is unknown."""
    if place is None:
        return ""
    line = "" if place.line is None else f":{place.line}"
    return f" ({place.path}{line})"


def first_lines(text: str) -> str:
    """Return the first lines of a stack, as many as evidence has room for."""
    if len(text) <= MAX_LINES:
        return text
    shown = text[:MAX_LINES].rpartition("\n")[0]
    return f"{shown}\n  ..."


def telling_line(text: str) -> str:
    """Return the line that says most: the first; of a traceback, what was raised."""
    lines = text.splitlines()
    for line in lines:
        first = line.strip()
        if first == TRACEBACK:
            return raised_line(lines)
        if first:
            return first
    return ""


def raised_line(lines: Iterable[str]) -> str:
    """Return the line of a traceback that says what was raised."""
    depth = 0
    raised = ""
    for line in lines:
        bare = line.lstrip()
        # All is indented where pytest has rewritten an assertion.
        indent = len(line) - len(bare)
        if bare.startswith('File "'):
            depth = indent
            raised = ""
        elif bare and not raised and indent < depth:
            raised = bare.rstrip()
    return raised or TRACEBACK


def _remove_place(words: str, place: evidence.Location) -> str:
    """Take the place off a SyntaxError's words: its file, or the file's path."""
    name = place.path.rpartition("/")[2]
    file = re.escape(name)
    return re.sub(
        rf" \((?:[^()]*[/\\])?{file}, line {place.line}\)$",
        "",
        words,
    )


def one_line(text: str, limit: int = MAX_WORDS) -> str:
    """Return a message as one sentence of so many characters at most."""
    text = text.strip()
    plain = text
    if text.startswith("assert ") or "\nassert " in text:
        # pytest explains an assertion below it.
        plain = text.partition("\n")[0]
    is_plain = len(plain) <= limit and plain.isprintable()
    if is_plain and re.search(_NO_WORDS, plain) is None:  # as most are
        return plain.rstrip()
    # Imported here, because plain words don't need it.
    from pytest_failure_taxonomy.taxonomy.sentence import make_sentence

    return make_sentence(text, limit)


def words_of_pressure(memory: evidence.MemoryPressure) -> str:
    """Say how much of a limit was used."""
    amount = amount_words(memory.used_bytes, memory.limit_bytes)
    return f"{amount} that {memory.limit} allows"


def words_of_oom_kill(kill: evidence.OomKill) -> str:
    """Say how much a killed process used, and whether it was too large by itself."""
    amount = amount_words(kill.rss_bytes, kill.limit_bytes)
    if kill.limit_bytes is None:
        return f"it used {amount}, and the memory of the machine ran out"
    large = "all processes together were"
    if kill.rss_bytes >= ALONE_SHARE * kill.limit_bytes:
        large = "this process alone was"
    return f"it used {amount} of its control group: {large} too large"


def words_of_sample(memory: evidence.MemorySeen | None) -> str:
    """Say how much memory was last seen in use; nothing if that is not known."""
    if memory is None:
        return ""
    used_bytes = memory.used_bytes
    limit_bytes = memory.limit_bytes
    group = " of its control group"
    if used_bytes is None or limit_bytes is None:
        used_bytes = memory.total_rss_bytes or memory.rss_bytes
        limit_bytes = None
        group = ", with no limit of a control group"
    if used_bytes is None:
        return ""
    return f"memory last seen: {amount_words(used_bytes, limit_bytes)}{group}"


def amount_words(used_bytes: int, limit_bytes: int | None = None) -> str:
    """Return an amount of memory in words, such as `1.9 of 2.0 GiB`."""
    amounts = [used_bytes]
    if limit_bytes is not None:
        amounts.append(limit_bytes)
    largest = max(amounts)
    rank = 0
    while largest >= 1024 and rank < len(_UNITS) - 1:
        largest >>= 10
        rank += 1
    digits = 1 if rank else 0
    size = 1024**rank
    figures = [f"{amount / size:.{digits}f}" for amount in amounts]
    return f"{' of '.join(figures)} {_UNITS[rank]}"
