"""Texts and numbers of a report as a page shows them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from textwrap import dedent
from typing import Any, Final, NamedTuple

from pytest_failure_taxonomy.report.limits import OWN_NAME
from pytest_failure_taxonomy.report.text import safe_text

_MAX_NUMBER: Final = 2**53
"""No browser knows larger whole numbers exactly, and no run has counted so far."""
_UNSAFE: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069\ud800-\udfff]"
)
"""Whatever `safe_text` escapes, but for the ends of lines."""

LINE_CLASSES: Final = ("", "error", "minus", "plus", "hint", "here", "place", "rule")
"""The classes of a traceback's lines; a page refers to them by number."""
_ERROR, _MINUS, _PLUS, _HINT, _HERE, _PLACE, _RULE = range(1, len(LINE_CLASSES))
_MARKED: Final = (
    (re.compile(r"E {2,}\+ +(?:where|and) "), _ERROR),  # how pytest says what a name stands for
    (re.compile(r"E {2,}-(?: |$)"), _MINUS),
    (re.compile(r"E {2,}\+(?: |$)"), _PLUS),
    (re.compile(r"E {2,}\? "), _HINT),
    (re.compile(r"E(?: |$)"), _ERROR),
    (re.compile(r">(?! +(?:available fixtures|use 'pytest --fix))"), _HERE),
    (re.compile(r"[^\s:][^:]*:\d+: |  File \""), _PLACE),
    (re.compile(r"(?:_ ){4}|_{8}"), _RULE),
)

_FRAME: Final = re.compile(r"(?!E |>)((?:[A-Za-z]:)?[^\s:][^:]*):(\d+): ?(in .+)?")
"""Of pytest: below the code of a long entry, above that of a short one, which names a function."""
_NATIVE_FRAME: Final = re.compile(r'  File "([^"]+)", line (\d+)')
_CHAINED: Final = re.compile("The above exception was|During handling of")
_OF_LIBRARY: Final = re.compile(
    r"^<frozen |[/\\]Lib[/\\]|"
    r"(?:^|[/\\])(?:site-packages|dist-packages|lib(?:64)?[/\\]python3[^/\\]*)[/\\]"
)


class Code(NamedTuple):
    """What was raised, and where."""

    own: str
    """The user's own frames; all, if there are none."""
    whole: str
    """With the frames of libraries; empty if `own` is all."""


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


def file_of(nodeid: str) -> str:
    """Return the file of a node id."""
    return nodeid.partition("::")[0]


def code_of(traceback: str | None, location: Mapping[str, Any] | None = None) -> Code:
    """Tell the user's own frames of a traceback from those of libraries.

    Args:
        traceback: as pytest or Python shows it.
        location: the user's place that the failure has, whose file is the user's wherever it is.
    """
    own_path = None if location is None else location["path"]
    kept: list[str] = []
    is_all, has_own = True, False
    for path, lines in _entries(traceback or ""):
        is_own = path is not None and (path == own_path or _OF_LIBRARY.search(path) is None)
        is_link = path is None and any(map(_CHAINED.match, lines))
        has_own |= is_own
        is_all &= is_own or path is None
        if is_link and not has_own:
            kept = []  # what the exception was raised from, in code that is none of the user's
        else:
            kept += lines if is_own or is_link else _raised(lines)
    whole = traceback or ""
    return Code(whole, "") if is_all or not has_own else Code("\n".join(kept).strip("\n"), whole)


def _raised(lines: list[str]) -> Iterator[str]:
    """Yield what was raised in a frame, without the indent of its code."""
    raised = dedent("\n".join(line[1:] for line in lines if line[:2] in ("E", "E ")))
    yield from (f"E   {line}" for line in raised.splitlines())


def _entries(traceback: str) -> Iterator[tuple[str | None, list[str]]]:
    """Yield the path and the lines of each frame of a traceback, and of what stands between."""
    path, lines = None, list[str]()
    for line in traceback.splitlines():
        frame, is_link = _FRAME.match(line), _CHAINED.match(line)
        above = _NATIVE_FRAME.match(line) or (frame if frame and frame[3] else None)
        if above or is_link or line_class(line) == _RULE:  # a new frame, or none
            yield path, lines
            path, lines = above and above[1], []
        if line_class(line) != _RULE:
            lines.append(line)
        if is_link or (frame and not above):  # the end of one
            yield frame and frame[1], lines
            path, lines = None, []
    yield path, lines
