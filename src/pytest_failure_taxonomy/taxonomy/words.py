"""What is put the same way in many places: numbers with their nouns, stalls, amounts of memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pytest_failure_taxonomy.taxonomy import evidence

_WHOLE_SECONDS: Final = 10
_MINUTE: Final = 60
_HOUR: Final = 3600

ALONE_SHARE: Final = 0.75
"""From which share of a limit on a killed process counts as too large by itself."""

_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 test`, `12,345 tests`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def words_of_uncounted(count: int) -> str:
    """Return that pytest's session has counted failures of which no report came by."""
    return f"pytest has counted {counted(count, 'failure')} that no test has reported"


def words_of_fork(nodeid: str) -> str:
    """Return that the child of a test's fork went on as a pytest."""
    child = "the child returned into pytest: the tests after it ran twice"
    return f"{nodeid} forked, and {child}"


def noun_of_count(name: str, count: int) -> str:
    """Return what a count of a report's `summary` counts: `error` for one of the `errors`."""
    words = name.replace("_", " ")
    return words.removesuffix("s") if count == 1 else words


def counts_in_words(summary: Mapping[str, int], names: Iterable[str]) -> str:
    """Return those counts of a report's `summary` that are not 0: `2 passed, 1 error`."""
    counts = [(name, count) for name in names if (count := summary[name])]
    return ", ".join(
        [f"{count:,} {noun_of_count(name, count)}" for name, count in counts]
    )


def enumerated(shown: Sequence[str], count: int) -> str:
    """Name some of so many things, and say how many more there are: `a, b and 3 more`."""
    parts = [*shown, *([f"{count - len(shown):,} more"] if count > len(shown) else [])]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def and_more(rest: int) -> str:
    """Return what is put behind some of many things: ` and 3 more`; nothing if they are all."""
    return f" and {rest:,} more" if rest > 0 else ""


def shortened(text: str, limit: int) -> str:
    """Return a text of so many characters at most, with `…` where it was cut."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def failed_gates(reasons: Mapping[str, str]) -> str:
    """Return that gates failed, and why if it is a single one.

    Args:
        reasons: The most important reason of each by the name of its bench.
    """
    words = f"the gate of bench {', '.join(sorted(reasons))} failed"
    return f"{words}: {next(iter(reasons.values()))}" if len(reasons) == 1 else words


def listed(names: Sequence[str], most: int) -> str:
    """Return the first of some names, and how many more there are: `a, b and 3 more`."""
    return ", ".join(names[:most]) + and_more(len(names) - most)


def seconds_words(seconds: float | None) -> str:
    """Return a time in the unit that fits: `12 ms`, `3.4 s`, `2 min 5 s`; nothing for none."""
    if seconds is None:
        return ""
    milliseconds = seconds * 1000
    if milliseconds < 999.5:  # what is more would be 1000 ms
        digits = "1g" if 0.1 <= milliseconds < 0.95 else "0f"
        is_tiny = 0 < milliseconds < 0.1
        return "<0.1 ms" if is_tiny else f"{milliseconds:.{digits}} ms"
    if seconds < _WHOLE_SECONDS:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return _two(whole // _MINUTE, "min", whole % _MINUTE, "s")
    return _two(whole // _HOUR, "h", whole % _HOUR // _MINUTE, "min")


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    rest = f" {small} {small_unit}" if small else ""
    return f"{large} {unit}{rest}"


def cost_words(cost_usd: float) -> str:
    """Return a cost in dollars, or '' if there is none."""
    if cost_usd <= 0:
        return ""
    if cost_usd < 0.0001:
        return "<$0.0001"
    return f"${cost_usd:.4f}" if cost_usd < 0.1 else f"${cost_usd:,.2f}"


MAX_WORDS: Final = 240
"""Characters that what is said of one thing may take."""
MAX_LINES: Final = 1_500
"""Characters of a stack that a piece of evidence quotes."""

TRACEBACK: Final = "Traceback (most recent call last):"
_NO_WORDS: Final = (
    r"[<\u2500-\u259f]|[=*#~|+_-]{3}|^\s*[=*#~|+-]\s|\[(?:Errno|WinError|type)"
    r"|0x|://|\d{10}|^\(|^Traceback|[:,]\s*$|^\s*$"
)
"""Signs of something in a text that is no words."""
OUTCOMES: Final = frozenset({"Failed", "Skipped"})
"""The same of what pytest raises where a node can't be collected."""

STRICT_XPASS: Final = "[XPASS(strict)]"
"""How pytest's words begin for a test that failed by passing."""
FIXTURE_ERROR: Final = "FixtureLookupError"
"""What pytest raises for a fixture that nobody has."""
TYPES_OF_PYTEST: Final = frozenset(
    {FIXTURE_ERROR, "CollectError", "ImportPathMismatchError"}
)
"""Exceptions of pytest's whose text says all. pytest shows it without their type, and so do we."""


def words_of_test_failure(failure: evidence.TestFailure) -> tuple[str, ...]:
    """Name the fixtures that are missing where a test can't run, or how its process ended."""
    if failure.forked:
        _, _, how = failure.message.partition("running the test ")
        return (
            f"its process {how.replace('CRASHED', 'crashed').replace('EXITED', 'exited')}",
        )
    raised = failure.exception
    if raised is None or raised.type != FIXTURE_ERROR:
        return ()
    return (one_line(raised.message),)


PYTESTS_REFUSAL: Final = "Collector.CollectError"
"""The type by which pytest itself refuses a file; it tells users nothing."""


def words_of_collection_failure(failure: evidence.CollectionFailure) -> tuple[str, ...]:
    """Name the file that could not be collected, and what is wrong with it."""
    raised = failure.exception
    said = (
        one_line(failure.message)
        if raised is None or raised.type == PYTESTS_REFUSAL
        else said_in_one_line(raised.type, raised.message, is_test=False)
    )
    place = failure.location
    file = failure.nodeid.partition("::")[0]
    if place is None or place.line is None:
        return (said if not file or file in said else f"{failure.nodeid}: {said}",)
    is_elsewhere = file not in ("", place.path) and not place.path.startswith(
        f"{file}/"
    )
    via = f", from {file}" if is_elsewhere else ""
    name = re.escape(
        place.path.rpartition("/")[2]
    )  # as a SyntaxError says it, or by its path
    said = re.sub(rf" \((?:[^()]*[/\\])?{name}, line {place.line}\)$", "", said)
    return (f"{said} ({place.path}:{place.line}{via})",)


def words_of_run_error(error: evidence.RunError) -> tuple[str, ...]:
    """Say what pytest, a conftest or a plugin has said of itself, place and name included."""
    said = one_line(error.message)
    return (said,) if said else ()


def words_at(state: str, where: str | None) -> str:
    """Say how something is stalled, and where if that is known."""
    if where is None or where.startswith("waits for "):
        return where or state
    return f"{state} in {where}"


def words_of_stalled_activity(stalled: evidence.SeenStall) -> str:
    """Name what was being imported or called, and the place where that was stalled."""
    where = stalled.stall.where
    if stalled.name is None:
        return where or ""
    return f"{stalled.name}: {where}" if where else stalled.name


def words_of_interruption(stop: evidence.Interruption) -> tuple[str, ...]:
    """Give the reason that was given for the end, and the place where."""
    said = one_line(stop.message)
    place = stop.location
    if not said or stop.exception == "KeyboardInterrupt":
        return ()
    if place is None or place.line is None:
        return (said,)
    return (f"{said}{in_brackets(place)}",)


def said_in_one_line(exception_type: str, message: str, *, is_test: bool) -> str:
    """Return an exception's type and the first line of what it says.

    Where pytest itself says it, in words for people, the type is left out as pytest does. A test
    that fails by `pytest.fail` is shown with it.
    """
    said = one_line(message)
    if said and (
        exception_type in TYPES_OF_PYTEST
        or (not is_test and exception_type in OUTCOMES)
    ):
        return said
    return f"{exception_type}: {said}" if said else exception_type


def in_brackets(place: evidence.Location | None) -> str:
    """Return a place to follow words: ` (test_a.py:3)`; nothing where it is not known."""
    if place is None:
        return ""
    return f" ({place.path})" if place.line is None else f" ({place.path}:{place.line})"


def first_lines(text: str) -> str:
    """Return the first lines of a stack, as many as a piece of evidence has room for."""
    if len(text) <= MAX_LINES:
        return text
    shown, _, _ = text[:MAX_LINES].rpartition("\n")
    return f"{shown}\n  ..."


def telling_line(text: str) -> str:
    """Return the line that says most: the first; of a quoted traceback, what was raised."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return raised_line(text.splitlines()) if first == TRACEBACK else first


def raised_line(lines: Iterable[str]) -> str:
    """Return the line of a traceback that says what was raised."""
    depth, raised = 0, ""  # all is indented where pytest has rewritten an assertion
    for line in lines:
        bare = line.lstrip()
        if bare.startswith('File "'):
            depth, raised = len(line) - len(bare), ""
        elif bare and not raised and len(line) - len(bare) < depth:
            raised = bare.rstrip()
    return raised or TRACEBACK


def one_line(text: str, limit: int = MAX_WORDS) -> str:
    """Return a message as one sentence of so many characters at most."""
    plain = text = text.strip()
    if text.startswith("assert ") or "\nassert " in text:
        plain, _, _ = text.partition("\n")  # pytest explains an assertion below it
    is_plain = len(plain) <= limit and plain.isprintable()
    if is_plain and re.search(_NO_WORDS, plain) is None:
        return plain.rstrip()  # as most are
    # Imported here, because plain words don't need it.
    from pytest_failure_taxonomy.taxonomy.sentence import make_sentence

    return make_sentence(text, limit)


def words_of_pressure(memory: evidence.MemoryPressure) -> str:
    """Say how much of a limit was used."""
    return f"{amount_words(memory.used_bytes, memory.limit_bytes)} that {memory.limit} allows"


def words_of_oom_kill(kill: evidence.OomKill) -> str:
    """Say how much a killed process used, and whether it was too large by itself."""
    if kill.limit_bytes is None:
        return f"it used {amount_words(kill.rss_bytes)}, and the memory of the machine ran out"
    used = (
        f"it used {amount_words(kill.rss_bytes, kill.limit_bytes)} of its control group"
    )
    if kill.rss_bytes >= ALONE_SHARE * kill.limit_bytes:
        return f"{used}: this process by itself was too large"
    return f"{used}: all processes together were too large"


def words_of_sample(memory: evidence.MemorySeen | None) -> str:
    """Say how much memory was last seen in use; nothing if that is not known."""
    if memory is None:
        return ""
    if memory.used_bytes is not None and memory.limit_bytes is not None:
        used = amount_words(memory.used_bytes, memory.limit_bytes)
        return f"memory last seen: {used} of its control group"
    used_bytes = memory.total_rss_bytes or memory.rss_bytes
    if used_bytes is None:
        return ""
    return f"memory last seen: {amount_words(used_bytes)}, with no limit of a control group"


def amount_words(used_bytes: int, limit_bytes: int | None = None) -> str:
    """Return an amount of memory in words, such as `1.9 of 2.0 GiB`."""
    most = max(used_bytes, limit_bytes or 0)
    rank = min(len(_UNITS) - 1, max(0, (most.bit_length() - 1) // 10))
    figures = [used_bytes] if limit_bytes is None else [used_bytes, limit_bytes]
    digits = 1 if rank else 0
    return f"{' of '.join(f'{each / 1024**rank:.{digits}f}' for each in figures)} {_UNITS[rank]}"
