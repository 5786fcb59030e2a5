"""What was refused, broken or missing, by its name: the words of what failed.

A kind's own words are true of every failure of the kind. Read alone, as `-q` shows them, they say
where to look no better than an exit code does.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_failure_taxonomy.taxonomy.evidence import (
    CollectionFailure,
    Interruption,
    RunError,
    SeenStall,
    TestFailure,
)

MAX_WORDS: Final = 240
"""Characters that what is said of one thing may take."""
MAX_LINES: Final = 1_500
"""Characters of a stack that a piece of evidence quotes."""

_TRACEBACK: Final = "Traceback (most recent call last):"
OUTCOMES: Final = frozenset({"Failed", "Skipped"})
"""The same of what pytest raises where a node can't be collected."""

FIXTURE_ERROR: Final = "FixtureLookupError"
"""What pytest raises for a fixture that nobody has."""
TYPES_OF_PYTEST: Final = frozenset({FIXTURE_ERROR, "CollectError", "ImportPathMismatchError"})
"""Exceptions of pytest's whose text says all. pytest shows it without their type, and so do we."""


def words_of_test_failure(failure: TestFailure) -> tuple[str, ...]:
    """Name the fixtures that are missing where a test can't run, or how its process ended."""
    if failure.forked:
        _, _, how = failure.message.partition("running the test ")
        return (f"its process {how.replace('CRASHED', 'crashed').replace('EXITED', 'exited')}",)
    raised = failure.exception
    if raised is None or raised.type != FIXTURE_ERROR:
        return ()
    return (one_line(raised.message),)


PYTESTS_REFUSAL: Final = "Collector.CollectError"
"""The type by which pytest itself refuses a file; it tells users nothing."""


def words_of_collection_failure(failure: CollectionFailure) -> tuple[str, ...]:
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
    is_elsewhere = file not in ("", place.path) and not place.path.startswith(f"{file}/")
    via = f", from {file}" if is_elsewhere else ""
    name = re.escape(place.path.rpartition("/")[2])  # as a SyntaxError says it, or by its path
    said = re.sub(rf" \((?:[^()]*[/\\])?{name}, line {place.line}\)$", "", said)
    return (f"{said} ({place.path}:{place.line}{via})",)


def words_of_run_error(error: RunError) -> tuple[str, ...]:
    """Say what pytest, a conftest or a plugin has said of itself, place and name included."""
    said = one_line(error.message)
    return (said,) if said else ()


def words_at(state: str, where: str | None) -> str:
    """Say how something is stalled, and where if that is known."""
    if where is None or where.startswith("waits for "):
        return where or state
    return f"{state} in {where}"


def words_of_stalled_activity(stalled: SeenStall) -> str:
    """Name what was being imported or called, and the place where that was stalled."""
    where = stalled.stall.where
    if stalled.name is None:
        return where or ""
    return f"{stalled.name}: {where}" if where else stalled.name


def words_of_interruption(stop: Interruption) -> tuple[str, ...]:
    """Give the reason that was given for the end, and the place where."""
    said = one_line(stop.message)
    place = stop.location
    if not said or stop.exception == "KeyboardInterrupt":
        return ()
    if place is None or place.line is None:
        return (said,)
    return (f"{said} ({place.path}:{place.line})",)


def said_in_one_line(exception_type: str, message: str, *, is_test: bool) -> str:
    """Return an exception's type and the first line of what it says.

    Where pytest itself says it, in words for people, the type is left out as pytest does. A test
    that fails by `pytest.fail` is shown with it.
    """
    said = one_line(message)
    if said and (exception_type in TYPES_OF_PYTEST or (not is_test and exception_type in OUTCOMES)):
        return said
    return f"{exception_type}: {said}" if said else exception_type


def first_lines(text: str) -> str:
    """Return the first lines of a stack, as many as a piece of evidence has room for."""
    if len(text) <= MAX_LINES:
        return text
    shown, _, _ = text[:MAX_LINES].rpartition("\n")
    return f"{shown}\n  ..."


def telling_line(text: str) -> str:
    """Return the line that says most: the first; of a quoted traceback, what was raised."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if first != _TRACEBACK:
        return first
    depth, told = 0, ""  # all of it is indented where pytest has rewritten an assertion
    for line in text.splitlines():
        bare = line.lstrip()
        if bare.startswith('File "'):
            depth, told = len(line) - len(bare), ""
        elif bare and not told and len(line) - len(bare) < depth:
            told = bare.rstrip()
    return told or first


def one_line(text: str, limit: int = MAX_WORDS) -> str:
    """Return a text's first line; with those that follow where it is the head of a list.

    A longer line is cut between words where possible: half of a secret would not be recognised as
    one.
    """
    lines = [line for each in text.splitlines() if (line := each.strip())]
    if not lines:
        return ""
    line = " ".join(lines) if lines[0].endswith(":") else lines[0]
    line = telling_line(text) if lines[0] == _TRACEBACK else line
    if len(line) <= limit:
        return line
    end = line.rfind(" ", limit // 2, limit)
    return f"{line[: end if end > 0 else limit]} …"
