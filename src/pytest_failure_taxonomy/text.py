"""Text and paths from elsewhere, made safe for a file and for a terminal."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Container, Iterable, Mapping
from enum import Enum
from functools import partial
from typing import Any, Final, TypeVar, get_args

from pytest_failure_taxonomy.taxonomy.judgement import ProofType
from pytest_failure_taxonomy.taxonomy.values import to_dict

_T = TypeVar("_T")

MAX_ONE_LINE: Final = 400
"""How much of a text one line on a terminal may take, in characters."""

_MARK: Final = "\n... [truncated: {count} characters] ...\n"
_MARK_ROOM: Final = 50
"""Characters that the filled-in mark takes at most."""
_LONGEST_WORD: Final = 400
_BLANK: Final = re.compile(r"\s")

# Characters that nobody sees, or that move the cursor, recolour the screen, forge a line or
# reverse the reading direction. A language model reads invisible ones as text, and a runner that
# compares by culture, as .NET does, ignores them in a command. Blanks of any width stay.
_UNSEEN: Final = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # controls, but for tabs and ends of lines
    "\u2028\u2029"  # line and paragraph separators
    "\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e"  # format characters
    "\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0\ufff0-\ufff8"  # fillers
    "\U000e0000-\U000e0fff"  # tags, and the variation selectors above 16
    "\ud800-\udfff\ue000-\uf8ff\U000f0000-\U0010ffff"  # surrogates and private use
    "\ufdd0-\ufdef\ufffe\uffff"  # no characters at all
)
# Beside a picture two characters stay: a variation selector, and the joiner of two pictures.
# Several selectors in a row hide bytes.
_SHAPING: Final = (
    "[\ufe00-\ufe0d]|(?<![\u2100-\u2bff\U0001f000-\U0001faff])[\ufe0e\ufe0f]"
    "|(?<![\u2100-\u2bff\U0001f000-\U0001faff])"
    "(?<![\u2100-\u2bff\U0001f000-\U0001faff]\ufe0f)\u200d"
    "|\u200d(?![\u2100-\u2bff\U0001f000-\U0001faff])"
)
UNSEEN: Final = re.compile(f"[\t\n\r{_UNSEEN}]|{_SHAPING}")
"""A character that `safe_text` shows as an escape."""
# A text, because a run of pytest shows no lines of others, and compiling it takes a while.
_UNSEEN_IN_LINES: Final = rf"[{_UNSEEN}]|\r(?!\n)|{_SHAPING}"

# CI systems take these for commands: `##[…]`, `##vso[…]` and `##teamcity[…]` anywhere in a line,
# and GitHub a line that begins with `::` behind any blanks and has another `::`. The other one may
# come with the words that are put behind, so the first is enough here.
_COMMAND: Final = re.compile(r"(?<=#)#(?=[A-Za-z]{0,20}\[)|(?m:^)[^\S\n]*:(?=:)")


def bench_name(bench: Mapping[str, object]) -> str:
    """Return the name of a bench in a report, with the label of its system if it has several."""
    name = str(bench["task_class"])
    label = bench.get("system_label")
    return f"{name}[{label}]" if label else name


def encodable(text: str) -> str:
    """Return the text with lone surrogates written out as escapes, so that UTF-8 can hold it."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


CLOSED_FIELDS: Final = frozenset(
    {
        "$schema",
        "schema_id",
        "schema_version",
        "completeness",
        "stage",
        "started_at",
        "id",
        "fingerprint",
        "reason",
        "kind",
        "confidence",
        "failure_type",
        "recovery_action",
        "phase",
        "severity",
        "verdict",
        "owner",
        "state",
        "what",
        "outcome",
        "first_seen",
        "finding",
        "flip",
        "charge_to",
        "status",
        "known_since",
        "digest",
    }
)
"""Fields of a report whose words are our own. A password may well be `final_test`, and a
pattern of the user's may match each run's id; no reader knows `[REDACTED]` in their place."""
_PROOF_TYPES: Final = frozenset(get_args(ProofType))
"""Words of our own in a field `type`, which has the names of users' exceptions, too."""
_LONG: Final = 100
"""Characters that no word of ours has."""


def is_closed(name: str, value: Any, fields: Container[str] = CLOSED_FIELDS) -> bool:
    """Tell whether a field holds one word of our own."""
    if type(value) is not str or len(value) >= _LONG:
        return False
    is_of_ours = name in fields or (name == "type" and value in _PROOF_TYPES)
    return is_of_ours and value.isascii() and " " not in value


def change_texts(
    content: Any, change: Callable[[str], str], closed: Container[str] | None = None
) -> Any:
    """Return JSON, or a value of a report, with every text in it changed.

    Args:
        content: the JSON, or the value.
        change: returns what takes the place of a text.
        closed: fields that stay if they hold a word of our own, and then all keys do; without it
            keys are changed, too.
    """
    if isinstance(content, str):
        return content if isinstance(content, Enum) else change(content)
    if isinstance(content, list | tuple):
        changed = [change_texts(entry, change, closed) for entry in content]
        return changed if isinstance(content, list) else tuple(changed)
    is_value = hasattr(content, "__slots__")
    if not is_value and not isinstance(content, dict):
        return content
    fields = {}
    for name, entry in (to_dict(content) if is_value else content).items():
        if closed is None:
            fields[change(name)] = change_texts(entry, change)
        elif is_closed(name, entry, closed):
            fields[name] = entry
        else:
            fields[name] = change_texts(entry, change, closed)
    return type(content)(**fields) if is_value else fields


def cap(text: str, limit: int, *, between_words: bool = False) -> str:
    """Cut the middle out of a text longer than `limit` characters, and say how much went.

    Both ends are kept: a traceback's head says where it began, its tail what was raised. The result
    is never longer than `limit`, so that capping twice cuts once.

    Args:
        text: any text.
        limit: characters, the mark that says what is missing included; at least 100.
        between_words: cuts where blanks are, if there are any: a secret of which the end alone is
            left has no form that it could be known by.
    """
    if len(text) <= limit:
        return text
    room = limit - _MARK_ROOM
    head = room // 2
    tail = len(text) - (room - head)
    if between_words:
        head = max(_LONGEST_WORD, head)
        start = head - _LONGEST_WORD
        for blank in _BLANK.finditer(text, start, head):
            head = blank.start()
        if after := _BLANK.search(text, tail, tail + _LONGEST_WORD):
            tail = after.start()
    mark = _MARK.format(count=tail - head)
    return f"{text[:head]}{mark}{text[tail:]}"


cap_between_words: Final = partial(cap, between_words=True)


def safe_text(text: str, limit: int = MAX_ONE_LINE) -> str:
    r"""Return the text as one line that a terminal and the log of a CI job show as it is.

    Invisible characters and commands appear as escapes such as `\x1b`; what is longer than `limit`
    ends in `…`.

    Args:
        text: any text.
        limit: characters shown, escapes and the `…` included; at least 1.
    """
    visible = UNSEEN.sub(_escape, text[: limit + 1])
    shown = _COMMAND.sub(_escape, visible)
    if len(shown) <= limit:
        return shown
    return shown[: limit - 1] + "…"


def safe_lines(text: str) -> str:
    """Return lines of any format as a terminal and the log of a CI job show them.

    The escapes are those of JSON, in which invisible characters are escapes already.
    """
    visible = re.sub(_UNSEEN_IN_LINES, _escape_for_json, text)
    return _COMMAND.sub(_escape_for_json, visible)


def that_fit(
    entries: Iterable[_T], room: int, size_of: Callable[[_T], int]
) -> list[_T]:
    """Return the first of some entries, as many as there is room for together."""
    kept = []
    for entry in entries:
        room -= size_of(entry)
        if room < 0:
            break
        kept.append(entry)
    return kept


def first_line(text: str) -> str:
    """Return the first line that holds anything, without the blanks around it."""
    if text.isprintable():  # then it is one line, as most that ask for this are
        return text.strip()
    for line in text.splitlines():
        if words := line.strip():
            return words
    return ""


def with_place(
    words: str, path: str, line: int | None, loaded: str = "", *, within: str = ""
) -> str:
    """Put the place that words are about behind their first line, unless it is named there.

    Args:
        words: one line or a few.
        path: as it is to be shown, with forward slashes.
        line: counted from 1.
        loaded: the file that was being loaded; named, too, where it is another.
        within: the hook that was being called, if that says more.
    """
    first, newline, rest = words.partition("\n")
    place = path if line is None else f"{path}:{line}"
    _, named, after = first.partition(place)
    if named and not after[:1].isdigit():
        return words
    first = first.rstrip()
    file_name = path.rpartition("/")[2]
    for name in (path, file_name):  # as a SyntaxError says it
        first = first.removesuffix(f" ({name}, line {line})")
    if loaded not in ("", path):
        place += f", from {loaded}"
    if within:
        place += f", in {within}"
    return f"{first} ({place}){newline}{rest}"


def _escape(match: re.Match[str]) -> str:
    return _escape_for_json(match).replace("\\u00", "\\x")


def _escape_for_json(match: re.Match[str]) -> str:
    blanks = match[0][:-1]
    code = ord(match[0][-1])
    if code < 0x10000:
        return f"{blanks}\\u{code:04x}"
    # Such characters are escapes in JSON already, each in two halves.
    return f"{blanks}\\U{code:08x}"


_PLACE: Final = (
    r"(?P<before> \(| at )(?P<path>[^()\n]+?)(?P<line>:\d{1,9}|: [^\s()]+)?"
    r"(?:, from (?P<loaded>[^()\n]+?))?(?P<hook>, in \w+)?(?P<after>\)?)$"
)
"""How the places are written that we put at the end of a text, by `with_place` and in titles."""
_SETTING: Final = r"(?<= in )(?P<path>[^()\n]+)(?=\)(?:$| \())"
"""How a text of ours ends that names the setting of a file: `(from addopts in pytest.ini)`. Which
plugin to install may follow in brackets of its own."""
_IMPORTED: Final = r"(?:^|: )(?P<path>[^():\n]+?)(?= can't be (?:import|collect)ed)"
"""How a text of ours ends that says which file is missing what it imports."""


class ShownPaths:
    """Turn a report's paths and node ids into those that are shown."""

    def __init__(self, rootdir: str, started_in: str) -> None:
        """Remember both folders.

        Args:
            rootdir: what the report's paths are relative to; absolute.
            started_in: what the shown ones are to be relative to; absolute.
        """
        self._rootdir = rootdir
        self._started_in = started_in
        self._is_same = rootdir == started_in

    def path(self, path: str) -> str:
        """Return a path, relative to where pytest was started if that can be, with slashes.

        One outside of the root directory is absolute in a report, and stays so unless it lies where
        pytest was started. On Windows two drives have no common folder: then it is absolute, too.
        """
        if self._is_same or not path or path.startswith("<"):
            return path
        joined = os.path.join(self._rootdir, path)
        whole = os.path.normpath(joined)
        try:
            shown = os.path.relpath(whole, self._started_in)
        except ValueError:  # another drive
            return whole.replace(os.sep, "/")
        if os.path.isabs(path) and shown.startswith(os.pardir):
            return path
        return shown.replace(os.sep, "/")

    def nodeid(self, nodeid: str) -> str:
        """Return a node id with its file's path as it is shown."""
        path, *names = nodeid.split("::")
        return "::".join((self.path(path), *names))

    def words(self, text: str, named: Iterable[str] = ()) -> str:
        """Return a text of ours with the paths in it as they are shown.

        Those are the node ids and paths that the report itself gives for it, and the place or the
        configuration file at the end of its first line, if there is such a file.

        Args:
            text: one line or a few.
            named: node ids and paths of the report that the text may name.
        """
        if self._is_same:
            return text
        first, newline, rest = text.partition("\n")
        known = {name.partition("::")[0] for name in named} - {""}
        for pattern in (_PLACE, _SETTING, _IMPORTED):
            # Compiled when needed: most runs show no such text.
            if match := re.search(pattern, first):
                for path in filter(None, match.groupdict().values()):
                    if os.path.isfile(os.path.join(self._rootdir, path)):
                        known.add(path)
        if known:
            escaped = map(re.escape, known)
            longest_first = sorted(escaped, key=len, reverse=True)
            paths = "|".join(longest_first)
            first = re.sub(
                rf"(?<![\w./\\-])(?:{paths})(?![\w/\\-]|\.\w)",
                lambda match: self.path(match[0]),
                first,
            )
        return f"{first}{newline}{rest}"


AS_REPORTED: Final = ShownPaths("", "")
"""Shows paths as they stand in the report."""


MAX_STATEMENT: Final = 200
"""Characters kept of a statement."""
_MAX_STATEMENT_LINES: Final = 6


def join_statement(lines: Iterable[str]) -> str:
    """Return the statement that begins on the first line, on one line and without comments."""
    words: list[str] = []
    opened = 0
    for line in itertools.islice(lines, _MAX_STATEMENT_LINES):
        part = line.partition(" #")[0].strip()
        words += part.split()
        opened += _count_opened(part[:MAX_STATEMENT])
        if opened <= 0:
            break
    return " ".join(words)[:MAX_STATEMENT]


def _count_opened(line: str) -> int:
    """Return how many more brackets a line opens than it closes, outside of quotes."""
    if "'" not in line and '"' not in line:
        return sum(map(line.count, "([{")) - sum(map(line.count, ")]}"))
    count = 0
    quote = ""
    for character in line:
        if quote:
            if character == quote:
                quote = ""
        elif character in "'\"":
            quote = character
        elif character in "([{":
            count += 1
        elif character in ")]}":
            count -= 1
    return count
