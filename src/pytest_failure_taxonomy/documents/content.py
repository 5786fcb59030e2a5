"""The content of what a user has named: its bytes, its text, its JSON, and what a path leads to.

JSON is parsed strictly: what the standard forbids and what parsers disagree about is
refused. A value is picked by a path such as `failures[0].nodeid`: a key, followed by
any number of `.key`, `[0]` (an element, counted from 0, or from the end: `[-1]`), `[]`
(every element) and `["any key"]`; a path may also begin with one of these. `.` alone is
the whole document. What is picked from null is null.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

from pytest_failure_taxonomy.documents.problems import (
    MAX_DEPTH,
    Problems,
    WrongError,
    quoted,
    shown,
)
from pytest_failure_taxonomy.errors import (
    FailureTaxonomyError,
    ReportError,
    SettingsError,
)
from pytest_failure_taxonomy.system.files import name_of_special_file, read_named_file
from pytest_failure_taxonomy.taxonomy.words import listed
from pytest_failure_taxonomy.text import safe_text

STDIN: Final = "-"
"""What names standard input where a file can be named."""


MAX_DOCUMENT_BYTES: Final = 64 * 1024 * 1024
"""Of a file that is read as a whole."""
MAX_WORD: Final = 80
"""Characters of a key or a value that a message quotes."""


def why_no_file(path: Path) -> str | None:
    """Return in words why a path is not a regular file, or `None` if it is one.

    Ask before opening it: opening a FIFO blocks, and opening a device can have side
    effects.
    """
    try:
        name = name_of_special_file(path.stat().st_mode)
    except (OSError, ValueError) as error:
        return why_unread(error)
    return None if name is None else f"is {name} and not a file"


def why_unread(error: OSError | ValueError) -> str:
    """Return in words why a file can't be opened or read."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, OSError):
        return f"can't be read ({error.strerror or error})"
    return f"is no path ({error})"


def read_content(path: Path, limit: int) -> bytes:
    """Return the content of a regular file, or of a link to one.

    Args:
        path: of the file.
        limit: bytes that it may have; at most one more is read.

    Raises:
        WrongError: it can't be read, is no file, or is bigger than the limit.
    """
    why = why_no_file(path)
    if why is not None:
        raise WrongError(why)
    try:
        is_big = path.stat().st_size > limit
        content = b"" if is_big else read_named_file(path, limit + 1)
    except OSError as error:
        raise WrongError(why_unread(error)) from None
    if is_big or len(content) > limit:  # it may grow, or not tell its size
        is_small = limit < 1024**2
        size = f"{limit // 1024} KiB" if is_small else f"{limit // 1024**2} MiB"
        raise WrongError(f"bigger than {size}")
    return content


def refusal(where: str | Path, what: str, right: str) -> ReportError:
    """Return the error that says where, what is wrong, and what would be right."""
    return ReportError(f"{safe_text(os.fspath(where))}: {what}; {right}")


def read_input(path: Path, right: str, *, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
    """Return the content of a regular file, or of a link to one.

    Args:
        path: of the file.
        right: what would be right, for the message of the error.
        limit: bytes that it may have.

    Raises:
        ReportError: it can't be read, is no file, or is bigger than the limit.
    """
    try:
        return read_content(path, limit)
    except WrongError as error:
        raise refusal(path, error.what, right) from None


@contextmanager
def open_stdin(error: type[FailureTaxonomyError]) -> Iterator[BinaryIO]:
    """Yield standard input; raises an error of the class if it is closed or can't be read."""
    if sys.stdin is None:
        raise error("stdin: it is closed; give a file")
    try:
        yield sys.stdin.buffer
    except OSError as problem:
        raise error(f"stdin: {why_unread(problem)}; give a file") from None


def read_text(
    path: str | os.PathLike[str], problems: Problems, *, right: str, max_bytes: int
) -> str:
    """Return the text of a file in UTF-8.

    Args:
        path: Of a regular file.
        problems: Receives the problem that makes this raise.
        right: What the file should be, for the message.
        max_bytes: The maximal size.

    Raises:
        FailureTaxonomyError: The file can't be read as text; of the problems' error
            class.
    """
    try:
        content = read_content(Path(path), max_bytes)
        if content.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise WrongError("is UTF-16")
        at = content.find(b"\0")
        if at >= 0:
            raise WrongError("holds a NUL byte", line=content.count(b"\n", 0, at) + 1)
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        problem = WrongError(f"not UTF-8 at byte {error.start}", line=line)
    except WrongError as error:
        problem = error
    raise problems.ended_by(problem, right) from None


# JSON

MAX_INTEGER_DIGITS: Final = 4_300
"""Python's own limit, which writers of JSON are held to; beyond it, time grows with the
square."""
_QUOTE: Final = "write null or put it in quotes"
_FLATTER: Final = "write a flatter value"
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(data: bytes | str) -> Any:
    """Return what JSON says; bytes are UTF-8.

    Raises:
        WrongError: It is no JSON, or holds NaN, a number that is too big, or the same
            key twice in one object.
    """
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        if text.startswith("\ufeff"):
            raise json.JSONDecodeError(
                "Unexpected UTF-8 BOM (decode using utf-8-sig)", text, 0
            )
        return _DECODER.decode(text)
    except UnicodeDecodeError as error:
        raise WrongError(f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        at = f"column {error.colno}"
        if "\n" in error.doc.rstrip("\n"):
            at = f"line {error.lineno} {at}"
        raise WrongError(f"not JSON ({shown(error.msg)} at {at})") from None
    except RecursionError:
        raise WrongError("nested too deep", _FLATTER) from None


def parse_value(
    data: bytes | str,
    right: str = "write one JSON object a line",
    *,
    max_depth: int = MAX_DEPTH,
) -> Any:
    """Return what JSON says that can be written as JSON in UTF-8 again, at any place.

    Args:
        data: The JSON; bytes are UTF-8.
        right: What would be right, for the message about what is not JSON.
        max_depth: How deep it may be nested.

    Raises:
        WrongError: As `parse_json`; or it is nested too deep, or holds an unpaired
            surrogate.
    """
    try:
        value = parse_json(data)
    except WrongError as error:
        raise WrongError(error.what, error.right or right) from None
    text = data if isinstance(data, str) else data.decode("utf-8")
    is_large = text.count("[") + text.count("{") > max_depth
    if is_large and _depth(value) > max_depth:
        raise WrongError("nested too deep", _FLATTER)
    if _SURROGATE.search(text) is not None:
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError as error:
            half = quoted(error.object[error.start])
            what = f"holds half a character ({half}), which UTF-8 can't"
            raise WrongError(what, "write a whole one") from None
    return value


def _depth(value: Any) -> int:
    """Return the nesting depth of a value, without recursion."""
    depth = 0
    level = [value]
    while level:
        depth += 1
        parts: list[Any] = []
        for parent in level:
            if isinstance(parent, dict):
                parts += parent.values()
            elif isinstance(parent, list):
                parts += parent
        level = parts
    return depth


def _object(pairs: list[tuple[str, Any]]) -> dict[str, object]:
    # Interned: each line of a file of JSON lines has the same keys.
    values = {sys.intern(key): value for key, value in pairs}
    if len(values) != len(pairs):
        counts = Counter([key for key, _ in pairs])
        twice = next(key for key, count in counts.items() if count > 1)
        what = f"the key {quoted(twice)} stands twice in one object"
        raise WrongError(what, "give it once")
    return values


def _float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise WrongError(f"the number {quoted(digits)} is too big", _QUOTE)
    return number


def _int(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_INTEGER_DIGITS:
        raise WrongError(f"an integer of more than {MAX_INTEGER_DIGITS} digits", _QUOTE)
    return int(digits)


def _refuse_constant(name: str) -> NoReturn:
    raise WrongError(f"{quoted(name)} is no number to JSON", _QUOTE)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_float=_float,
    parse_int=_int,
    parse_constant=_refuse_constant,
)
"""Created once: `json.loads` would create one for each line."""


# Paths

MAX_KEYS: Final = 40
"""Keys that an error lists."""
_PART: Final = re.compile(
    r"(?P<dot>\.?)(?P<key>[A-Za-z_$][A-Za-z0-9_$-]*)"
    r"|\[(?P<index>-?[0-9]{1,9})\]"
    r"|\[\]"
    r'|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]'
)
_RIGHT: Final = "give one such as verdict.kind, failures[0].nodeid or groups[].title"

Part = str | int | None
"""A key, an index, or `None` for every element."""


def parse_path(text: str) -> tuple[Part, ...]:
    """Return the parts of a path.

    Raises:
        SettingsError: it is not written as a path is.
    """
    if text == ".":
        return ()
    parts: list[Part] = []
    position = 0
    while position < len(text) or not parts:
        found = _PART.match(text, position)
        if found is None or (found["key"] and bool(found["dot"]) is not bool(parts)):
            raise SettingsError(
                f"--json: {text!a} is no path at character {position + 1}; {_RIGHT}"
            )
        part: Part = found["key"]  # `None` for every element
        if found["index"] is not None:
            part = int(found["index"])
        elif found["quoted"] is not None:
            try:
                part = str(json.loads(found["quoted"]))
            except ValueError:
                what = f"{found['quoted']} is no JSON string"
                raise SettingsError(f"--json: {text!a}: {what}") from None
        parts.append(part)
        position = found.end()
    return tuple(parts)


def pick(document: Any, text: str) -> Iterator[Any]:
    """Yield what a path leads to: one value, or one for each element where it has `[]`.

    Raises:
        SettingsError: the path is wrong, or leads nowhere; the message says how far it
            leads.
    """
    yield from _pick(document, parse_path(text), 0, text)


def _pick(value: Any, parts: tuple[Part, ...], done: int, text: str) -> Iterator[Any]:
    if done == len(parts) or value is None:
        yield value
        return
    part: Any = parts[done]
    is_list = isinstance(value, list)
    if is_list and part is None:
        for element in value:
            yield from _pick(element, parts, done + 1, text)
        return
    is_there = isinstance(value, dict) and part in value
    if is_list and isinstance(part, int):
        is_there = -len(value) <= part < len(value)
    if not is_there:
        where = path_words(parts[:done]) or "the report"
        words = f"there is no {text}; {where} {_content_words(value)}"
        raise SettingsError(f"--json: {words}")
    yield from _pick(value[part], parts, done + 1, text)


def path_words(parts: tuple[Part, ...]) -> str:
    """Return the path of these parts."""
    text = ""
    for part in parts:
        if part is None:
            text += "[]"
        elif isinstance(part, int):
            text += f"[{part}]"
        elif re.fullmatch(r"[A-Za-z_$][A-Za-z0-9_$-]*", part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part)}]"
    return text


def _content_words(value: Any) -> str:
    if isinstance(value, dict):
        keys = [key if key.isidentifier() else json.dumps(key) for key in value]
        return f"has the keys {listed(keys, MAX_KEYS)}" if keys else "is empty"
    if isinstance(value, list):
        if not value:
            return "is an empty list"
        return f"is a list of {len(value)}; give an index, or [] for every element"
    sort = "a number"
    if isinstance(value, str):
        sort = "a text"
    elif isinstance(value, bool):
        sort = "true or false"
    return f"is {sort} and has no parts"
