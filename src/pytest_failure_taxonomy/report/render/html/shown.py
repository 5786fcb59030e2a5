"""Texts and numbers of a report as a page shows them."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from pytest_failure_taxonomy.report.limits import OWN_NAME
from pytest_failure_taxonomy.report.text import safe_text

_MAX_NUMBER: Final = 2**53
"""No browser knows larger whole numbers exactly, and no run has counted so far."""
_UNSAFE: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069\ud800-\udfff]"
)
"""Whatever `safe_text` escapes, but for the ends of lines."""
_MINUTE: Final = 60
_HOUR: Final = 3600
_WHOLE_SECONDS: Final = 10

LINE_CLASSES: Final = ("", "error", "minus", "plus", "hint", "here", "place", "rule")
"""The classes of a traceback's lines; a page refers to them by number."""
_ERROR, _MINUS, _PLUS, _HINT, _HERE, _PLACE, _RULE = range(1, len(LINE_CLASSES))
_MARKED: Final = (
    (re.compile(r"E {2,}\+ +(?:where|and) "), _ERROR),  # how pytest says what a name stands for
    (re.compile(r"E {2,}-(?: |$)"), _MINUS),
    (re.compile(r"E {2,}\+(?: |$)"), _PLUS),
    (re.compile(r"E {2,}\? "), _HINT),
    (re.compile(r"E(?: |$)"), _ERROR),
    (re.compile(r">"), _HERE),
    (re.compile(r"[^\s:][^:]*:\d+: |  File \""), _PLACE),
    (re.compile(r"(?:_ ){4}|_{8}"), _RULE),
)


def shown(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report whose texts and numbers a page can show, whatever they are.

    Control characters appear as escapes. Of the extensions only our own is kept.
    """
    own = report["extensions"].get(OWN_NAME)
    kept = {OWN_NAME: own} if isinstance(own, dict) else {}
    changed: dict[str, Any] = _changed({**report, "extensions": kept})
    return changed


def shown_value(value: Any) -> Any:
    """Return any JSON value as a page can show it."""
    return _changed(value)


def _changed(value: Any) -> Any:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return {_text(name): _changed(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_changed(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return max(-_MAX_NUMBER, min(value, _MAX_NUMBER))
    return value


def _text(text: str) -> str:
    if _UNSAFE.search(text) is None:
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(safe_text(line.expandtabs(), len(line) * 6 + 100) for line in lines)


def line_class(line: str) -> int:
    """Return what a line of a traceback is, as an index of `LINE_CLASSES`."""
    for pattern, found in _MARKED:
        if pattern.match(line):
            return found
    return 0


def classed_lines(text: str | None) -> list[tuple[str, str]]:
    """Return the lines of a traceback, each with its class."""
    return [(LINE_CLASSES[line_class(line)], line) for line in (text or "").splitlines()]


def seconds_words(seconds: float | None) -> str:
    """Return a time in the unit that fits: `12 ms`, `3.4 s`, `2 min 5 s`; nothing for none."""
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
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


def file_of(nodeid: str) -> str:
    """Return the file of a node id."""
    return nodeid.partition("::")[0]
