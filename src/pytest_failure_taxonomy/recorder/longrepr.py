"""Read text and place from a report's `longrepr`, whatever sort of object it is.

pytest renders a `longrepr` through a terminal writer, at 100 µs and more each. Here the lines it
holds are joined as they are, which shows the same text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.recorder.origin import is_own, location
from pytest_failure_taxonomy.report.text import cap_between_words
from pytest_failure_taxonomy.taxonomy.evidence import Location

MAX_TEXT: Final = 100_000
"""Characters kept of one traceback; the report cuts further. A comparison of large values has
megabytes, which are not to be searched for secrets, written to the record and kept in memory."""
MAX_MESSAGE: Final = 8_000
"""The same of a message."""


def text_of(longrepr: Any) -> str | None:
    """Return the text of a `longrepr`, its middle cut out if need be; `None` if there is none."""
    return None if longrepr is None else cap_between_words(_whole_text(longrepr), MAX_TEXT)


def _whole_text(longrepr: Any) -> str:
    if isinstance(longrepr, str):
        return longrepr
    chain = getattr(longrepr, "chain", None)
    entries = chain or ([(longrepr.reprtraceback, None, None)] if _has_entries(longrepr) else None)
    if entries is None:
        return str(longrepr)
    lines: list[str] = []
    for reprtraceback, _, description in entries:
        _extend(lines, reprtraceback)
        if description:
            lines += ["", description, ""]
    return "\n".join(lines)


def message_of(longrepr: Any) -> str:
    """Return the message that pytest's short summary would show."""
    crash = getattr(longrepr, "reprcrash", None)
    if crash is not None:
        return cap_between_words(str(crash.message), MAX_MESSAGE)
    text = str(longrepr).strip() if longrepr is not None else ""
    last = text if isinstance(longrepr, str) else text.rpartition("\n")[2]
    return cap_between_words(last, MAX_MESSAGE)


def words_for_people(longrepr: Any) -> str:
    """Return what pytest or an item of its own kind says in place of a traceback, if it does.

    That is what was written for whoever reads it: `str()` of the exception may be its arguments.
    """
    said = longrepr if isinstance(longrepr, str) else getattr(longrepr, "errorstring", "")
    if not said or not isinstance(said, str):
        return ""
    if said is not longrepr:  # of a fixture that is not there; a list of all that are follows
        said = said.strip().partition("\n")[0]
    return cap_between_words(said.strip(), MAX_MESSAGE)


def place_of(longrepr: Any, rootdir: Path) -> Location | None:
    """Return where pytest saw the failure; in a library, where the user's code called it.

    Where the traceback shows no line of the user's, pytest's own place is the best there is.
    """
    crash = getattr(longrepr, "reprcrash", None)
    if crash is None:
        return None
    if not is_own(crash.path, rootdir):
        shown = getattr(longrepr, "reprtraceback", None)
        for entry in reversed(getattr(shown, "reprentries", ())):
            place = getattr(entry, "reprfileloc", None)
            if place is not None and is_own(place.path, rootdir):
                return location(place.path, place.lineno, rootdir)
    return location(crash.path, crash.lineno, rootdir)


def _has_entries(longrepr: Any) -> bool:
    return hasattr(getattr(longrepr, "reprtraceback", None), "reprentries")


def _extend(lines: list[str], reprtraceback: Any) -> None:
    entries = reprtraceback.reprentries
    for index, entry in enumerate(entries):
        if index and entry.style == "long":
            lines.append(reprtraceback.entrysep * 20)
        lines += _entry_lines(entry)
    if reprtraceback.extraline:
        lines.append(str(reprtraceback.extraline))


def _entry_lines(entry: Any) -> list[str]:
    if not hasattr(entry, "reprfileloc"):  # --tb=native: lines of Python's own, each with its end
        return [line.rstrip("\n") for line in entry.lines]
    place = entry.reprfileloc
    where = [] if place is None else [f"{place.path}:{place.lineno}: {_head(place.message)}"]
    local_values = [] if entry.reprlocals is None else [*entry.reprlocals.lines]
    if entry.style == "short":
        return [*where, *entry.lines, *local_values]
    given = entry.reprfuncargs.args if entry.reprfuncargs is not None else []
    args = [f"{name} = {value}" for name, value in given]
    blocks = (args, [*entry.lines], local_values, where)
    return [line for block in blocks if block for line in (*block, "")]


def _head(message: str) -> str:
    return message.partition("\n")[0]
