"""Read text and place from the `longrepr` of a report, which may be one of several types.

pytest renders it by a terminal writer, which takes 100 µs and more. Here its lines are joined,
which gives the same text. A `longrepr` of a plugin's or the user's own type is asked for its text,
as pytest does, and whatever comes of it is held.
"""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from _pytest._code.code import ExceptionChainRepr  # not public, and what most failures have

from pytest_failure_taxonomy.recorder.inspection import (
    attribute_of,
    came_from_signal,
    module_of,
    name_of,
)
from pytest_failure_taxonomy.recorder.origin import is_own, location
from pytest_failure_taxonomy.report.text import cap_between_words
from pytest_failure_taxonomy.taxonomy.evidence import Location

MAX_TEXT: Final = 100_000
"""Characters kept of one traceback; the report cuts further. The comparison of large values has
megabytes: too many to search for secrets, to write to the record and to keep in memory."""
MAX_MESSAGE: Final = 8_000
"""Characters kept of one message, an exception's as well; the report cuts further."""


def text_of(longrepr: Any) -> str | None:
    """Return the text of a `longrepr`, without its middle if it is too long."""
    return None if longrepr is None else cap_between_words(_whole_text(longrepr), MAX_TEXT)


def _whole_text(longrepr: Any) -> str:
    if issubclass(type(longrepr), str):
        return str.__str__(longrepr)  # not its own method
    kind = name_of(type(longrepr)) if _is_pytests(longrepr) else ""
    if kind == "ExceptionChainRepr":
        entries = longrepr.chain
    elif kind == "ReprExceptionInfo" and hasattr(longrepr.reprtraceback, "reprentries"):
        entries = [(longrepr.reprtraceback, None, None)]
    else:
        try:
            return str(longrepr)
        except BaseException as failure:  # foreign
            if came_from_signal(failure):
                raise
            return f"<text not available: {name_of(type(failure))}>"
    lines: list[str] = []
    for reprtraceback, _, description in entries:
        _add_traceback(lines, reprtraceback)
        if description:
            lines += ["", description, ""]
    return "\n".join(lines)


def message_of(longrepr: Any) -> str:
    """Return the message that pytest's short summary would show."""
    crash = _crash_of(longrepr)
    if crash is not None:
        return cap_between_words(str(crash.message), MAX_MESSAGE)
    text = _whole_text(longrepr).strip() if longrepr is not None else ""
    last = text if issubclass(type(longrepr), str) else text.rpartition("\n")[2]
    return cap_between_words(last, MAX_MESSAGE)


def exception_in(longrepr: Any) -> str:
    """Return type and text of an exception as pytest has formatted them; empty if it has not.

    Of a module that can't be imported the text has them in its last lines, after an `E`.
    """
    crash = _crash_of(longrepr)
    if crash is not None:
        return str(crash.message)
    if longrepr is None:
        return ""
    lines = _whole_text(longrepr)[-MAX_TEXT:].rstrip().splitlines()
    marked = [*takewhile(lambda line: line.startswith("E   "), reversed(lines))]
    return "\n".join(line[4:] for line in reversed(marked))


def words_for_people(longrepr: Any) -> str:
    """Return the text that pytest or a custom item shows instead of a traceback, if it does.

    Such a text is meant for people; the `str()` of the exception may be its arguments.
    """
    if issubclass(type(longrepr), str):
        return cap_between_words(_whole_text(longrepr).strip(), MAX_MESSAGE)
    if type(longrepr) is ExceptionChainRepr:
        return ""
    said = attribute_of(longrepr, "errorstring")
    if type(said) is not str:
        return ""
    # Of a missing fixture; a list of the existing ones follows.
    return cap_between_words(said.strip().partition("\n")[0].strip(), MAX_MESSAGE)


def place_of(longrepr: Any, rootdir: Path) -> Location | None:
    """Return the place that pytest shows; if that is in a library, where the user's code called it.

    If the traceback has no line of the user's code, return pytest's place anyway.
    """
    crash = _crash_of(longrepr)
    if crash is None:
        return None
    if not is_own(crash.path, rootdir):
        shown = attribute_of(longrepr, "reprtraceback")
        for entry in reversed(getattr(shown, "reprentries", ())):
            place = getattr(entry, "reprfileloc", None)
            if place is not None and is_own(place.path, rootdir):
                return location(place.path, place.lineno, rootdir)
    return location(crash.path, crash.lineno, rootdir)


def _is_pytests(one: object) -> bool:
    return module_of(type(one)).startswith("_pytest.")


def _crash_of(longrepr: object) -> Any:
    """Return pytest's object for the place of a crash and its message; `None` without one."""
    if type(longrepr) is ExceptionChainRepr:  # that of nearly all failures, which is asked often
        return longrepr.reprcrash
    crash = attribute_of(longrepr, "reprcrash")
    return crash if _is_pytests(crash) else None


def _add_traceback(lines: list[str], reprtraceback: Any) -> None:
    for index, entry in enumerate(reprtraceback.reprentries):
        if index and entry.style == "long":
            lines.append(reprtraceback.entrysep * 20)
        _add_entry(lines, entry)
    if reprtraceback.extraline:
        lines.append(str(reprtraceback.extraline))


def _add_entry(lines: list[str], entry: Any) -> None:
    if not hasattr(entry, "reprfileloc"):  # --tb=native: as Python prints them, with line ends
        lines += [line.rstrip("\n") for line in entry.lines]
        return
    place = entry.reprfileloc
    where = []
    if place is not None:
        head = place.message.partition("\n")[0]
        where = [f"{place.path}:{place.lineno}: {head}"]
    local_values = [] if entry.reprlocals is None else entry.reprlocals.lines
    if entry.style == "short":
        lines += where
        lines += entry.lines
        lines += local_values
        return
    args = [] if entry.reprfuncargs is None else entry.reprfuncargs.args
    for block in ([f"{name} = {shown}" for name, shown in args], entry.lines, local_values, where):
        if block:
            lines += block
            lines.append("")
