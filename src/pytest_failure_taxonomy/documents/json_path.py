"""Pick values out of a JSON document by a path such as `failures[0].nodeid`.

A path is a key, followed by any number of `.key`, `[0]` (an element, counted from 0, or from the
end: `[-1]`), `[]` (every element) and `["any key"]`; a path may also begin with one of these. `.`
alone is the whole document. What is picked from null is null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from pytest_failure_taxonomy.errors import SettingsError
from pytest_failure_taxonomy.taxonomy.words import listed

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
