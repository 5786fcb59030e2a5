"""Logs whose repetitions take a search for reasons long, made of the pieces of its own patterns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from re import _constants, _parser  # type: ignore[attr-defined]  # they have no other name
from typing import Any, Final

from pytest_failure_taxonomy.taxonomy import packaged_table

CONTEXTS: Final = {
    "at the start": "",
    "in a failure": (
        "============================= test session starts ==============================\n"
        "=================================== FAILURES ===================================\n"
        "____________________________________ test_a ____________________________________\n"
    ),
    "in the summary": (
        "============================= test session starts ==============================\n"
        "=========================== short test summary info ============================\n"
    ),
    "in a traceback": "Traceback (most recent call last):\n",
    "after a message": "bash: line 1: pytest: command not found\n",
}
"""What comes before the repetitions."""
LINE_LENGTHS: Final = {
    "one a line": 0,
    "lines of 2,000": 2_000,
    "lines of 30,000": 30_000,
}
ANYTHING: Final = (
    *(
        "\n",
        " \n",
        "\r",
        "\r\n",
        "\x00",
        "\x1b[31m",
        "a",
        "0",
        "=",
        "_",
        "E   x",
        "> x",
    ),
    *("E", "F", ".", "..F", "::", "a.py::b", "a.py:1: ", "Error", "error: ", "Killed"),
    *("  x", "- x", "FAILED a::b", "SUBFAIL[](", "1 a ", "1 passed, ", "\t", "[a] "),
    *("svc | ", "#1 1.1 ", "2026-01-01T00:00:00Z ", "$ x", "(", "'", "ok 1", "\ufffd"),
)


def patterns() -> list[str]:
    """Return every pattern that is tried on lines."""
    found: list[str] = []
    for name in ("tools", "programs", "output", "prefixes"):
        found += _patterns_in(packaged_table(name), is_pattern=False)
    return sorted(set(found))


_KEYS: Final = frozenset(
    (
        *("patterns", "pattern", "marks", "ran", "before", "begins", "ended", "echoes"),
        *("harmless", "located", "warned", "tallies", "wordings"),
    )
)


def _patterns_in(value: Any, *, is_pattern: bool) -> Iterator[str]:
    if isinstance(value, str) and is_pattern:
        yield value.removeprefix("~")
    elif isinstance(value, list):
        for each in value:
            yield from _patterns_in(each, is_pattern=is_pattern)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _patterns_in(each, is_pattern=is_pattern or key in _KEYS)


def example(pattern: str) -> str:
    """Return a text that a pattern fits, or nearly so: of each choice the first, as short as it is."""
    return _example(_parser.parse(pattern))


_OF_CATEGORY: Final = {
    _constants.CATEGORY_DIGIT: "1",
    _constants.CATEGORY_SPACE: " ",
    _constants.CATEGORY_WORD: "a",
    _constants.CATEGORY_NOT_SPACE: "a",
}


def _example(parsed: Any) -> str:
    text = ""
    for operation, value in parsed:
        if operation is _constants.LITERAL:
            text += chr(value)
        elif operation in (_constants.ANY, _constants.NOT_LITERAL):
            text += "x"
        elif operation is _constants.IN:
            text += _one_of(value)
        elif operation is _constants.BRANCH:
            text += _example(value[1][0])
        elif operation is _constants.SUBPATTERN:
            text += _example(value[-1])
        elif operation is _constants.ATOMIC_GROUP:
            text += _example(value)
        elif operation in (
            _constants.MAX_REPEAT,
            _constants.MIN_REPEAT,
            _constants.POSSESSIVE_REPEAT,
        ):
            text += _example(value[2]) * max(1, value[0])
    return text


def _one_of(choices: Any) -> str:
    for operation, value in choices:
        if operation is _constants.LITERAL:
            return chr(value)
        if operation is _constants.RANGE:
            return chr(value[0])
        if operation is _constants.CATEGORY:
            return _OF_CATEGORY.get(value, "x")
    return "x"


def units() -> list[str]:
    """Return what is repeated: examples of all patterns, near misses, and their words."""
    found = dict.fromkeys(ANYTHING)
    for pattern in patterns():
        whole = example(pattern)
        words = re.findall(r"[A-Za-z'\" (:>*=#/.-]{3,}", whole)
        found |= dict.fromkeys((whole, whole[:-1], whole[: len(whole) // 2], *words))
    return [each for each in found if each]


def repeated(unit: str, context: str, line_length: int, size: int) -> bytes:
    """Return a log of a size: a unit on each line, or as often as a line of a length holds it."""
    line = unit * max(1, line_length // len(unit)) + "\n"
    text = line * (size // len(line) + 1)
    return (CONTEXTS[context] + text[:size]).encode()
