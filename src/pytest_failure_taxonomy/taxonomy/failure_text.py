"""What sort of failure a text tells of, where a text is all that is known.

The exceptions that tracebacks in it name stand at the head of a line. The lines are read once.
After a head, the lines up to the next traceback, stack or section belong to its message, and no
head is looked for in them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, Protocol

from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.reasons import FailureType, is_circular_fix

MAX_WIDER_TEXT: Final = 200_000
"""Characters at the start and at the end of a text that are searched for our own patterns."""

_LETTERS: Final = bytes(
    ord(chr(each).lower()) if chr(each).isascii() and chr(each).isalpha() else ord(" ")
    for each in range(256)
)
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

    The exception that a traceback names decides first; of a chain it is the last one. Then come the
    diagnostics of compilers and test runners, the published phrases in their order, our own
    phrases, and last the earlier attempts.

    Args:
        error: What was printed: a message, a traceback, a compiler's or a test runner's output.
        subtask_id: The subtask that failed.
        history: Earlier attempts, the oldest first: either approaches as strings, all of this
            subtask, or objects with `subtask_id` and `approach`; those of other subtasks are
            ignored.
        approach: What this attempt tried; without it no repetition can be found.

    Raises:
        TypeError: `error` is not a string, or `history` is one.
    """
    if not isinstance(error, str):
        raise TypeError(f"error: {error!r} is not a string; give what was printed")
    if isinstance(history, str):
        raise TypeError("history: got a string; give a list of strings or of attempts")
    found = _by_text(error)
    if found is not FailureType.UNKNOWN or not history or approach is None:
        return found
    approaches = [
        each if isinstance(each, str) else each.approach
        for each in history
        if isinstance(each, str) or each.subtask_id == subtask_id
    ]
    is_circular = is_circular_fix(approach, approaches)
    return FailureType.CIRCULAR_FIX if is_circular else FailureType.UNKNOWN


def failure_type_at_head(text: str) -> FailureType | None:
    """Return the failure type of the exceptions that a text's tracebacks name.

    It is `None` if none of them is listed. Phrases are not searched for: the words of a message are
    pytest's, or anybody's.
    """
    return failure_type_of_heads(deciding_heads(text))


def failure_type_of_heads(heads: tuple[str, ...]) -> FailureType | None:
    """Return the failure type of exceptions that stand side by side, given by their last names.

    A broken build comes before a failed check; `None` means that no exception is listed.
    """
    if not heads:
        return None
    found = {known_phrases().types_of_names.get(head) for head in heads}
    for failure_type in (FailureType.BROKEN_BUILD, FailureType.VERIFICATION_FAILED):
        if failure_type in found:
            return failure_type
    return FailureType.UNKNOWN if found == {FailureType.UNKNOWN} else None


def _by_text(text: str) -> FailureType:
    known, heads = known_phrases(), deciding_heads(text)
    typed = failure_type_of_heads(heads)
    if typed is not None and typed is not FailureType.UNKNOWN:
        return typed
    excerpt = _Excerpt(text)
    if excerpt.has(known.diagnostics):
        return FailureType.BROKEN_BUILD
    if typed is not None:
        return typed
    if excerpt.has(known.refusals):
        return FailureType.BROKEN_BUILD
    if excerpt.has(known.verdicts):
        return FailureType.VERIFICATION_FAILED
    return _by_phrases(text.lower(), excerpt, heads)


def _by_phrases(lowered: str, excerpt: _Excerpt, heads: tuple[Head, ...]) -> FailureType:
    """Search for the published phrases in their order, and for ours between and after them."""
    known = known_phrases()
    published = None
    is_possible = any(part in lowered for part in known.parts_of_published)
    if is_possible and any(phrase in lowered for _, each in known.published for phrase in each):
        meant = re.sub(known.false_friends, " ", lowered, flags=re.MULTILINE)
        published = next(
            (kind for kind, each in known.published if any(one in meant for one in each)), None
        )
    if published is FailureType.BROKEN_BUILD:
        return published
    if excerpt.has(known.tallies):
        return FailureType.VERIFICATION_FAILED
    is_limited = excerpt.has(known.rate_limits)
    if not is_limited and excerpt.has(known.overflows):
        return FailureType.CONTEXT_EXHAUSTED
    ignored = FailureType.CONTEXT_EXHAUSTED if is_limited else None
    is_crash = heads != () and known.crashes.issuperset(heads)
    if published not in (None, ignored) and not (is_crash or excerpt.has(known.crash_reports)):
        return published
    found = next((each for each, wider in known.wider if excerpt.has(wider)), None)
    return FailureType.UNKNOWN if found in (None, ignored) else found


class _Excerpt:
    """The start and the end of a text, to be searched for patterns."""

    def __init__(self, text: str) -> None:
        if len(text) > 2 * MAX_WIDER_TEXT:
            text = f"{text[:MAX_WIDER_TEXT]}\n{text[-MAX_WIDER_TEXT:]}"
        # With a newline in front, each line has one before it.
        self._text = f"\n{text}"
        self._lowered = self._text.lower()
        self._words = frozenset(text.encode("utf-8", "replace").translate(_LETTERS).split())

    def has(self, patterns: Patterns) -> bool:
        """Tell whether one of the patterns is in the text."""
        text = self._lowered if patterns.in_lower_case else self._text
        return any(
            words in text and (not expression or _compiled(expression).search(text) is not None)
            for word, group in _by_word(patterns)
            if not word or word in self._words
            for words, expression in group
        )


@cache
def _by_word(patterns: Patterns) -> tuple[tuple[bytes, tuple[tuple[str, str], ...]], ...]:
    """Group patterns by a word that a text must contain, empty if there is none."""
    groups: dict[bytes, list[tuple[str, str]]] = {}
    for words, expression in (*((each, "") for each in patterns.words), *patterns.expressions):
        lowered = words.lower().encode()
        inner = re.findall(rb"(?<=[^a-z])[a-z]{2,}(?=[^a-z])", lowered)
        word = max(inner or re.findall(rb"[a-z]+", lowered), key=len, default=b"")
        groups.setdefault(word, []).append((words, expression))
    return tuple((word, tuple(group)) for word, group in groups.items())


@cache
def _compiled(expression: str) -> re.Pattern[str]:
    # `re` finds a literal newline much faster than it tries `^` at each character.
    if expression.startswith("^"):
        expression = rf"\n{expression[1:]}"
    return re.compile(expression, re.MULTILINE)


class Patterns:
    """Patterns of one sort; a text is of that sort if one of them is in it.

    A text is searched only if the longest word of a pattern is in it as a whole word, preferably
    one that stands at neither end.
    """

    __slots__ = ("expressions", "in_lower_case", "words")

    def __init__(self, table: Mapping[str, Any], names: Mapping[str, str]) -> None:
        self.words: Final[tuple[str, ...]] = tuple(table.get("words", ()))
        self.expressions: Final[tuple[tuple[str, str], ...]] = tuple(
            (words, re.sub("<(source|path)>", lambda name: names[name[1]], expression))
            for words, expression in table.get("expressions", ())
        )
        self.in_lower_case: Final[bool] = table.get("in_lower_case", False)


class Phrases:
    """The words by which tools say that something failed: the tables of `data/phrases.toml`."""

    def __init__(self) -> None:
        tables = packaged_table("phrases")

        def patterns(table: Mapping[str, Any]) -> Patterns:
            return Patterns(table, tables)

        self.published: Final = tuple(
            (FailureType(name), tuple(phrases)) for name, phrases in tables["published"].items()
        )
        self.parts_of_published: Final[tuple[str, ...]] = tuple(tables["parts_of_published"])
        self.false_friends: Final = "|".join(tables["false_friends"])
        self.diagnostics: Final = patterns(tables["diagnostics"])
        self.refusals: Final = patterns(tables["refusals"])
        self.verdicts: Final = patterns(tables["verdicts"])
        self.tallies: Final = patterns(tables["tallies"])
        self.overflows: Final = patterns(tables["overflows"])
        self.rate_limits: Final = patterns(tables["rate_limits"])
        self.crash_reports: Final = patterns(tables["crash_reports"])
        self.wider: Final = tuple(
            (FailureType(each["type"]), patterns(each)) for each in tables["wider"]
        )
        self.crashes: Final[frozenset[str]] = frozenset(tables["crashes"])
        self.types_of_names: Final = {
            name: FailureType(kind)
            for kind, names in tables["exceptions"].items()
            for name in names
        }
        """What an exception tells whose name alone is known."""
        self.type_endings: Final = tuple(tables["heads"]["type_endings"])
        self.boundaries: Final = tuple(tables["heads"]["boundaries"])
        """How lines begin, after blanks, that start a traceback or a section or belong to a
        stack."""


@cache
def known_phrases() -> Phrases:
    """Return the phrases, read when the first text is classified."""
    return Phrases()


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
_LOCATED: Final = re.compile(r"(?:\w:)?[^\s:][^:\n]{0,300}:\d{1,9}: " + _NAME + r"(?=: |:?$)")
_PREFIX: Final = re.compile(r"(?:\d{4}-\d\d-\d\dT[\d:.]{8,20}Z )?(?:INTERNALERROR> ?)?")
_GROUP: Final = re.compile(r" {1,40}[|+] ?")

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
    if not any(ending in text for ending in (*known_phrases().type_endings, "assert")):
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
        if bare.startswith(known_phrases().boundaries):
            self._in_message = False
        elif not self._in_message:
            self._read_plain(line, bare)

    def _read_marked(self, line: str) -> None:
        """Read a line marked with `E`; only the first head of a block counts."""
        if not self._in_marked:
            self._in_message = False
        self._in_marked = True
        head = None
        if not self._in_message:
            head = _head_of(line) or ("assert" if _ASSERT.match(line) else None)
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


def _is_type(name: str) -> bool:
    return name.endswith(known_phrases().type_endings)
