"""Tell the type of a failure from a text, if the text is all that is known.

The exceptions that tracebacks in it name stand at the head of a line. The lines are
read once. After a head, the lines up to the next traceback, stack or section belong to
its message, and no head is looked for in them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Final, Protocol

from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.judgement import FailureType, is_circular_fix

MAX_WIDER_TEXT: Final = 200_000
"""Characters at the start and at the end of a text that are searched for our own
patterns."""

_LETTERS: Final = re.sub(rb"[^a-z]", b" ", bytes(range(256)).lower())
"""A translation of bytes that leaves the words of a text, in lower case, and blanks."""


class EarlierAttempt(Protocol):
    """An earlier attempt; any object with these two attributes will do."""

    @property
    def subtask_id(self) -> str:
        """The subtask that was attempted."""

    @property
    def approach(self) -> str:
        """What was tried, in words."""


History = Sequence[str] | Sequence[EarlierAttempt]


def classify_failure(
    error: str,
    subtask_id: str,
    *,
    history: History | None = None,
    approach: str | None = None,
) -> FailureType:
    """Return the failure type of what a failed command printed.

    The exception that a traceback names decides first; of a chain it is the last one.
    Then come the diagnostics of compilers and test runners, the published phrases in
    their order, our own phrases, and last the earlier attempts.

    Args:
        error: What was printed: a message, a traceback, a compiler's or a test runner's
            output.
        subtask_id: The subtask that failed.
        history: Earlier attempts, the oldest first: either approaches as strings, all
            of this subtask, or objects with `subtask_id` and `approach`; those of other
            subtasks are ignored.
        approach: What this attempt tried; without it no repetition can be found.

    Raises:
        TypeError: `error` is not a string, or `history` is one.
    """
    if not isinstance(error, str):
        raise TypeError(f"error: {error!r} is not a string; give what was printed")
    if isinstance(history, str):
        raise TypeError("history: got a string; give a list of strings or of attempts")
    failure_type = _type_of_text(error)
    if failure_type is not FailureType.UNKNOWN or not history or approach is None:
        return failure_type
    approaches = []
    for attempt in history:
        if isinstance(attempt, str):
            approaches.append(attempt)
        elif attempt.subtask_id == subtask_id:
            approaches.append(attempt.approach)
    if is_circular_fix(approach, approaches):
        return FailureType.CIRCULAR_FIX
    return FailureType.UNKNOWN


def failure_type_at_head(text: str) -> FailureType | None:
    """Return the failure type of the exceptions that a text's tracebacks name.

    It is `None` if none of them is listed. Phrases are not searched for: the words of a
    message are pytest's, or anybody's.
    """
    return _type_of_heads(deciding_heads(text))


def _type_of_heads(heads: tuple[Head, ...]) -> FailureType | None:
    """Return the failure type of exceptions that stand side by side, by last name.

    A broken build comes before a failed check; `None` means that no exception is
    listed.
    """
    types = {_load_types().get(head) for head in heads}
    for failure_type in (FailureType.BROKEN_BUILD, FailureType.VERIFICATION_FAILED):
        if failure_type in types:
            return failure_type
    return FailureType.UNKNOWN if types == {FailureType.UNKNOWN} else None


@cache
def _load_types() -> dict[str, FailureType]:
    """Return what an exception tells whose name alone is known."""
    types: dict[str, FailureType] = {}
    for kind, names in packaged_table("phrases")["exceptions"].items():
        types |= dict.fromkeys(names, FailureType(kind))
    return types


@cache
def published_phrases() -> tuple[tuple[FailureType, tuple[str, ...]], ...]:
    """Return the published phrases of each failure type, in their order."""
    published = packaged_table("phrases")["published"].items()
    return tuple((FailureType(name), tuple(phrases)) for name, phrases in published)


def _type_of_text(text: str) -> FailureType:
    heads = deciding_heads(text)
    typed = _type_of_heads(heads)
    if typed is not None and typed is not FailureType.UNKNOWN:
        return typed
    excerpt = _Excerpt(text)
    if excerpt.has("diagnostics"):
        return FailureType.BROKEN_BUILD
    if typed is not None:
        return typed
    if excerpt.has("refusals"):
        return FailureType.BROKEN_BUILD
    if excerpt.has("verdicts"):
        return FailureType.VERIFICATION_FAILED
    return _type_of_phrases(text.lower(), excerpt, heads)


def _type_of_phrases(
    lowered: str, excerpt: _Excerpt, heads: tuple[Head, ...]
) -> FailureType:
    """Search for the published phrases in their order, and for ours in between."""
    published = _published_type(lowered)
    if published is FailureType.BROKEN_BUILD:
        return published
    if excerpt.has("tallies"):
        return FailureType.VERIFICATION_FAILED
    ignored = None
    if excerpt.has("rate_limits"):
        # A limit of requests is put in the words of one of tokens.
        ignored = FailureType.CONTEXT_EXHAUSTED
    elif excerpt.has("overflows"):
        return FailureType.CONTEXT_EXHAUSTED
    tables = packaged_table("phrases")
    if published not in (None, ignored):
        is_crash = heads != () and set(heads) <= set(tables["crashes"])
        if not is_crash and not excerpt.has("crash_reports"):
            return published
    for number, table in enumerate(tables["wider"]):
        if excerpt.has("wider", number):
            failure_type = FailureType(table["type"])
            return FailureType.UNKNOWN if failure_type is ignored else failure_type
    return FailureType.UNKNOWN


def _published_type(lowered: str) -> FailureType | None:
    """Return the first type with a published phrase in a text."""
    tables = packaged_table("phrases")
    # Most texts have none; these parts are fewer.
    if not any(part in lowered for part in tables["parts_of_published"]):
        return None
    if _find_first_phrase(lowered) is None:
        return None
    false_friends = "|".join(tables["false_friends"])
    return _find_first_phrase(re.sub(false_friends, " ", lowered, flags=re.MULTILINE))


def _find_first_phrase(lowered: str) -> FailureType | None:
    for failure_type, phrases in published_phrases():
        for phrase in phrases:
            if phrase in lowered:
                return failure_type
    return None


class _Excerpt:
    """The start and the end of a text, to be searched for patterns."""

    def __init__(self, text: str) -> None:
        if len(text) > 2 * MAX_WIDER_TEXT:
            text = f"{text[:MAX_WIDER_TEXT]}\n{text[-MAX_WIDER_TEXT:]}"
        # With a newline in front, each line has one before it.
        self._text = f"\n{text}"
        self._lowered = self._text.lower()
        letters = text.encode("utf-8", "replace").translate(_LETTERS)
        self._words = frozenset(letters.split())

    def has(self, sort: str, number: int = 0) -> bool:
        """Tell whether one of the patterns of a sort, or of its table, is in the text.

        It is searched only if the longest word of a pattern is in it as a whole word,
        preferably one that stands at neither end.
        """
        in_lower_case, groups = _load_patterns(sort, number)
        text = self._lowered if in_lower_case else self._text
        for word, patterns in groups:
            if word and word not in self._words:
                continue
            for words, expression in patterns:
                if words not in text:
                    continue
                if not expression or _compile(expression).search(text):
                    return True
        return False


_Patterns = list[tuple[str, str]]
"""Words that have to be in a text, each with an expression, or an empty text."""


@cache
def _load_patterns(
    sort: str, number: int
) -> tuple[bool, list[tuple[bytes, _Patterns]]]:
    """Return whether patterns are in lower case, and the patterns by a needed word.

    The word is empty for patterns that need none.
    """
    tables = packaged_table("phrases")
    table = tables[sort]
    if isinstance(table, list):
        table = table[number]
    patterns = [(words, "") for words in table.get("words", ())]
    for words, template in table.get("expressions", ()):
        expression = template
        for name in ("source", "path"):
            expression = expression.replace(f"<{name}>", str(tables[name]))
        patterns.append((words, expression))
    groups: dict[bytes, _Patterns] = {}
    for words, expression in patterns:
        lowered = words.lower().encode()
        inner = re.findall(rb"(?<=[^a-z])[a-z]{2,}(?=[^a-z])", lowered)
        candidates = inner or re.findall(rb"[a-z]+", lowered)
        word = max(
            candidates,
            key=len,
            default=b"",
        )
        groups.setdefault(word, []).append((words, expression))
    return table.get("in_lower_case", False), [*groups.items()]


@cache
def _compile(expression: str) -> re.Pattern[str]:
    # `re` finds a literal newline much faster than it tries `^` at each character.
    if expression.startswith("^"):
        expression = rf"\n{expression[1:]}"
    return re.compile(expression, re.MULTILINE)


Head = str
"""The last part of an exception's dotted name, such as `ImportError`."""

_NAME: Final = r"(?:[A-Za-z_][\w$]{0,80}\.){0,10}([A-Za-z_][\w$]{0,80})"
_HEAD: Final = re.compile(
    r"(?:Uncaught |Sorry: |Caused by: |Exception in thread \"[^\"\n]{0,100}\" )?"
    + _NAME
    + r"(?=: |:?$| \[[A-Z_]{2,40}\])"
)
_ASSERT: Final = re.compile(r"assert\b")
_SUMMARY: Final = re.compile(
    r"(?:FAILED|ERROR) [^\n]{1,500}? - (?:(assert)\b|" + _NAME + r"(?=: |:?$))"
)
_LOCATED: Final = re.compile(
    r"(?:\w:)?[^\s:][^:\n]{0,300}:\d{1,9}: " + _NAME + r"(?=: |:?$)"
)
_PREFIX: Final = re.compile(r"(?:\d{4}-\d\d-\d\dT[\d:.]{8,20}Z )?(?:INTERNALERROR> ?)?")
_GROUP: Final = re.compile(r" {1,40}[|+] ?")

_HINTS: Final = ("rror", "xception")
"""An indented line is read only if it contains one of these."""
_MAX_LINE: Final = 1_000
"""Characters of a line that are read."""


def deciding_heads(text: str) -> tuple[Head, ...]:
    """Return the exceptions that a text ends with.

    pytest's short summary names one for each failed test, and all of them are returned.
    Without a summary there is at most one: the last that pytest marked with `E`, else
    the last of all tracebacks.
    """
    signs = packaged_table("phrases")["heads"]
    endings = tuple(signs["type_endings"])
    if "assert" not in text and not any(ending in text for ending in endings):
        return ()
    reader = _Reader(endings, tuple(signs["boundaries"]))
    for line in text.split("\n"):
        reader.read(line)
    if reader.summary:
        return tuple(reader.summary)
    head = reader.marked or reader.plain or reader.indented
    return () if head is None else (head,)


class _Reader:
    """Read a text line by line and keep the last head of each sort.

    Args:
        type_endings: how the names of exceptions end.
        boundaries: how lines begin, after blanks, that start a traceback or a section
            or belong to a stack.
    """

    def __init__(
        self, type_endings: tuple[str, ...], boundaries: tuple[str, ...]
    ) -> None:
        self._type_endings, self._boundaries = type_endings, boundaries
        self.summary: list[Head] = []
        self.marked: Head | None = None
        """On a line that pytest marks with `E`, or after a location: `test_a.py:3:
        ValueError`."""
        self.plain: Head | None = None
        self.indented: Head | None = None
        """As test runners of other languages print it; source code may look like this,
        too."""
        self._in_marked = False
        self._in_message = False

    def read(self, line: str) -> None:
        first = line[:1]
        if first == "E" and line[1:2] in ("", " ", "\r"):
            self._read_marked(line[1:_MAX_LINE].strip())
            return
        is_summary = line.startswith(("ERROR ", "FAILED "))
        self._in_marked = self._in_marked and is_summary and first == "E"
        if is_summary:
            self._read_summary(line[:_MAX_LINE].rstrip())
            return
        # Most lines are indented. Within a message they must be read, as they may end
        # it.
        is_read = first != " " or self._in_message
        if first and (is_read or any(hint in line for hint in _HINTS)):
            self._read_other(line[:_MAX_LINE])

    def _read_marked(self, line: str) -> None:
        # Of a block that is marked so, the first head counts.
        self._in_message = self._in_message and self._in_marked
        self._in_marked = True
        if self._in_message:
            return
        head = self._head_of(line)
        if head is None and _ASSERT.match(line):
            head = "assert"
        if head is not None:
            self.marked = head
            self._in_message = True

    def _read_other(self, line: str) -> None:
        line = line[_prefix_length(line) :].rstrip()
        bare = line.lstrip()
        if bare.startswith(self._boundaries):
            self._in_message = False
            return
        if self._in_message:
            return
        head = self._head_of(bare)
        if bare != line:
            self.indented = head or self.indented
        elif head is not None:
            self.plain = head
            self._in_message = True
        else:
            located = _LOCATED.match(line)
            if located is not None and located[1].endswith(self._type_endings):
                self.marked = located[1]
                self._in_message = True

    def _read_summary(self, line: str) -> None:
        self._in_message = False
        is_error = line.startswith("ERROR ")
        match = _SUMMARY.match(line)
        if match is not None:
            head = match[1] or match[2]
            # pytest itself failed the collection: an unknown mark, a wrong
            # `parametrize`.
            is_refusal = is_error and head == "Failed" and ".py - " in line
        else:
            head = ""
            is_refusal = is_error and line.endswith(".py") and " - " not in line
        if is_refusal:
            head = "CollectError"
        if head:
            self.summary.append(head)

    def _head_of(self, line: str) -> Head | None:
        match = _HEAD.match(line)
        if match is None or not match[1].endswith(self._type_endings):
            return None
        if match[1] == "Failed" and not line.startswith(": ", match.end()):
            return None
        return match[1]


def _prefix_length(line: str) -> int:
    """Return the length of a timestamp, of pytest's prefix and of a group's frame."""
    prefix = _PREFIX.match(line)
    start = prefix.end() if prefix is not None else 0
    frame = _GROUP.match(line, start)
    if frame is None:
        return start
    end = frame.end()
    # A rule of the group's box is no line of an exception.
    if line[end - 1] in "+-" or line[end - 2] == "+":
        return start
    return end
