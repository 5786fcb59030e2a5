"""Parse JSON strictly, and pick values out of it.

What the standard forbids and what parsers disagree about is refused. A value is picked by a path
such as `failures[0].nodeid`: a key, followed by any number of `.key`, `[0]` (an element, counted
from 0, or from the end: `[-1]`), `[]` (every element) and `["any key"]`; a path may also begin with
one of these. `.` alone is the whole document. What is picked from null is null.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from pytest_failure_taxonomy.documents.problems import MAX_DEPTH, WrongError, quoted, shown
from pytest_failure_taxonomy.errors import SettingsError
from pytest_failure_taxonomy.taxonomy.words import listed

_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(text: str, *, right: str = "write one JSON object a line") -> Any:
    """Return the value of a JSON text.

    Args:
        text: The text.
        right: What would be right, for the message about what is not JSON.

    Raises:
        WrongError: The text is not JSON, is nested too deep, or holds NaN, an infinite number, an
            unpaired surrogate, or the same key twice in one object.
    """
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        what = f"not JSON ({shown(error.msg)} at column {error.colno})"
        raise WrongError(f"{what}; {right}") from None
    except WrongError:
        raise
    except RecursionError:
        raise WrongError("nested too deep; write a flatter value") from None
    except ValueError:
        raise WrongError("holds a number too long to be read; put it in quotes") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise WrongError("nested too deep; write a flatter value")
    if _SURROGATE.search(text) is not None:
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError as error:
            half = error.object[error.start]
            raise WrongError(
                f"holds half a character ({quoted(half)}), which UTF-8 can't; write a whole one"
            ) from None
    return value


def _depth(value: Any) -> int:
    """Return the nesting depth of a value, without recursion."""
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            each
            for parent in level
            if isinstance(parent, list | dict)
            for each in (parent.values() if isinstance(parent, dict) else parent)
        ]
    return depth


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise WrongError(f"the key {quoted(key)} stands there twice; give it once")
            seen.add(key)
    return found


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        _refuse_constant(text)
    return number


def _refuse_constant(text: str) -> NoReturn:
    raise WrongError(f"{quoted(text)} is no number to JSON; write null or put it in quotes")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_number, parse_constant=_refuse_constant
)
"""Created once: `json.loads` would create one for each line."""


# Paths

MAX_KEYS: Final = 40
"""Keys that an error lists."""
_PART: Final = re.compile(
    r"(?P<dot>\.?)(?P<key>[A-Za-z_$][A-Za-z0-9_$-]*)"
    r"|\[(?P<index>-?[0-9]{1,9})\]"
    r"|(?P<every>\[\])"
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
        parts.append(_part(found, text))
        position = found.end()
    return tuple(parts)


def _part(found: re.Match[str], text: str) -> Part:
    if found["index"] is not None:
        return int(found["index"])
    if found["every"] is not None:
        return None
    if found["quoted"] is None:
        return found["key"]
    try:
        return str(json.loads(found["quoted"]))
    except ValueError:
        raise SettingsError(f"--json: {text!a}: {found['quoted']} is no JSON string") from None


def pick(document: Any, text: str) -> Iterator[Any]:
    """Yield what a path leads to: one value, or one for each element where it has `[]`.

    Raises:
        SettingsError: the path is wrong, or leads nowhere; the message says how far it leads.
    """
    yield from _pick(document, parse_path(text), 0, text)


def _pick(value: Any, parts: tuple[Part, ...], done: int, text: str) -> Iterator[Any]:
    if done == len(parts):
        yield value
        return
    part = parts[done]
    if value is None:
        yield None
    elif part is None:
        if not isinstance(value, list):
            raise _leads_nowhere(value, parts[:done], text)
        for each in value:
            yield from _pick(each, parts, done + 1, text)
    else:
        yield from _pick(_step(value, part, parts, done, text), parts, done + 1, text)


def _step(value: Any, part: str | int, parts: tuple[Part, ...], done: int, text: str) -> Any:
    try:
        if isinstance(value, dict) and isinstance(part, str):
            return value[part]
        if isinstance(value, list) and isinstance(part, int):
            return value[part]
    except LookupError:
        pass
    raise _leads_nowhere(value, parts[:done], text)


def _leads_nowhere(value: Any, so_far: tuple[Part, ...], text: str) -> SettingsError:
    where = f"{_shown(so_far)} " if so_far else "the report "
    return SettingsError(f"--json: there is no {text}; {where}{_content_words(value)}")


def _shown(parts: tuple[Part, ...]) -> str:
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
        keys = [json.dumps(key) if not key.isidentifier() else key for key in value]
        return f"has the keys {listed(keys, MAX_KEYS)}" if keys else "is empty"
    if isinstance(value, list):
        if not value:
            return "is an empty list"
        return f"is a list of {len(value)}; give an index, or [] for every element"
    sort = {str: "a text", bool: "true or false"}.get(type(value), "a number")
    return f"is {sort} and has no parts"
