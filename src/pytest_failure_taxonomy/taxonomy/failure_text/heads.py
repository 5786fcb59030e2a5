"""Find the exceptions that tracebacks in a text name: those at the head of a line.

The lines are read once. After a head, the lines up to the next traceback, stack or section belong
to its message, and no head is looked for in them.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_failure_taxonomy.taxonomy.tables import packaged_table

Head = str
"""The last part of an exception's dotted name, such as `ImportError`."""

_NAME: Final = r"(?:[A-Za-z_][\w$]{0,80}\.){0,10}([A-Za-z_][\w$]{0,80})"
_HEAD: Final = re.compile(
    r"(?:Uncaught |Sorry: |Caused by: |Exception in thread \"[^\"\n]{0,100}\" )?"
    + _NAME
    + r"(?=: |:?$| \[[A-Z_]{2,40}\])"
)
_ASSERT: Final = re.compile(r"(assert)\b")
_SUMMARY: Final = re.compile(
    r"(?:FAILED|ERROR) [^\n]{1,500}? - (?:(assert)\b|" + _NAME + r"(?=: |:?$))"
)
_LOCATED: Final = re.compile(r"(?:\w:)?[^\s:][^:\n]{0,300}:\d{1,9}: " + _NAME + r"(?=: |:?$)")
_PREFIX: Final = re.compile(r"(?:\d{4}-\d\d-\d\dT[\d:.]{8,20}Z )?(?:INTERNALERROR> ?)?")
_GROUP: Final = re.compile(r" {1,40}[|+] ?")

_TABLE: Final = packaged_table("phrases")["heads"]
_TYPE_ENDINGS: Final = tuple(_TABLE["type_endings"])
_BOUNDARIES: Final = tuple(_TABLE["boundaries"])
"""How lines begin, after blanks, that start a traceback or a section or belong to a stack."""
_HINTS: Final = ("rror", "xception")
"""An indented line is read only if it contains one of these."""
_MAX_LINE: Final = 1_000
"""Characters of a line that are read."""


def deciding_heads(text: str) -> tuple[Head, ...]:
    """Return the exceptions that a text ends with.

    pytest's short summary names one for each failed test, and all of them are returned. Without a
    summary there is at most one: the last that pytest marked with `E`, else the last of all
    tracebacks.
    """
    if not any(ending in text for ending in (*_TYPE_ENDINGS, "assert")):
        return ()
    reader = _Reader()
    for line in text.split("\n"):
        reader.read(line)
    if reader.summary:
        return tuple(reader.summary)
    found = reader.marked or reader.plain or reader.indented
    return () if found is None else (found,)


class _Reader:
    """Read a text line by line and keep the last head of each sort."""

    def __init__(self) -> None:
        self.summary: list[Head] = []
        self.marked: Head | None = None
        """On a line that pytest marks with `E`, or after a location: `test_a.py:3: ValueError`."""
        self.plain: Head | None = None
        self.indented: Head | None = None
        """As test runners of other languages print it; source code may look like this, too."""
        self._in_marked = False
        self._in_message = False

    def read(self, line: str) -> None:
        first = line[:1]
        if first == "E":
            if line[1:2] in ("", " ", "\r"):
                self._read_marked(line[1:_MAX_LINE].strip())
                return
            if line.startswith("ERROR "):
                self._read_summary(line[:_MAX_LINE].rstrip())
                return
        self._in_marked = False
        if first == " ":
            # Most lines are indented. Within a message they must be read, as they may end it.
            if self._in_message or any(hint in line for hint in _HINTS):
                self._read_other(line[:_MAX_LINE])
        elif first == "F" and line.startswith("FAILED "):
            self._read_summary(line[:_MAX_LINE].rstrip())
        elif first:
            self._read_other(line[:_MAX_LINE])

    def _read_other(self, line: str) -> None:
        line = line[_prefix_length(line) :].rstrip()
        bare = line.lstrip()
        if bare.startswith(_BOUNDARIES):
            self._in_message = False
        elif not self._in_message:
            self._read_plain(line, bare)

    def _read_marked(self, line: str) -> None:
        """Read a line marked with `E`; only the first head of a block counts."""
        if not self._in_marked:
            self._in_message = False
        self._in_marked = True
        head = None if self._in_message else _head_of(line) or _asserted(line)
        if head is not None:
            self.marked, self._in_message = head, True

    def _read_summary(self, line: str) -> None:
        self._in_message = False
        found = _SUMMARY.match(line)
        if found is not None:
            head = found[1] or found[2]
            # pytest itself failed the collection: an unknown mark, a wrong `parametrize`.
            is_refusal = head == "Failed" and line.startswith("ERROR ") and ".py - " in line
            self.summary.append("CollectError" if is_refusal else head)
        elif line.startswith("ERROR ") and line.endswith(".py") and " - " not in line:
            self.summary.append("CollectError")

    def _read_plain(self, line: str, bare: str) -> None:
        head = _head_of(bare)
        if head is not None and bare != line:
            self.indented = head
        elif head is not None:
            self.plain, self._in_message = head, True
        elif bare == line and (found := _LOCATED.match(line)) and _is_type(found[1]):
            self.marked, self._in_message = found[1], True


def _prefix_length(line: str) -> int:
    """Return the length of a timestamp, pytest's prefix and the frame of an exception group."""
    found = _PREFIX.match(line)
    at = found.end() if found is not None else 0
    framed = _GROUP.match(line, at)
    if framed is None or line[framed.end() - 1] in "+-" or line[framed.end() - 2] == "+":
        return at
    return framed.end()


def _head_of(line: str) -> Head | None:
    found = _HEAD.match(line)
    if found is None or not _is_type(found[1]):
        return None
    if found[1] == "Failed" and line[found.end() : found.end() + 2] != ": ":
        return None
    return found[1]


def _asserted(line: str) -> Head | None:
    found = _ASSERT.match(line)
    return None if found is None else found[1]


def _is_type(name: str) -> bool:
    return name.endswith(_TYPE_ENDINGS)
