"""What stands beside the name of a secret and is none: types, code, counts and placeholders."""

from __future__ import annotations

import re
from typing import Final

_WORDS: Final = frozenset(
    (
        *("str", "int", "bytes", "bool", "float", "none", "null", "nil", "true", "false", "any"),
        *("optional", "undefined", "object", "string", "self", "cls", "secretstr", "unset"),
        *("missing", "required", "invalid", "expired", "empty", "redacted", "hidden", "masked"),
    )
)
_PLACEHOLDER: Final = re.compile(
    r"[*x.…]+|<[^<>]*>|\$\{?\w+\}?|%\(?\w*\)?s|\{\w*\}", re.IGNORECASE | re.ASCII
)
_CODE: Final = re.compile(
    r"[A-Za-z_]+(?:\.[A-Za-z_]+)*\.?|[A-Za-z_]\w*\.[\w.]*[A-Za-z_]\w*"
    r"|-?\d{1,7}(?:\.\d+)?",
    re.ASCII,
)
_WEAK_NAMES: Final = frozenset(("token", "auth", "credential", "credentials", "pass"))
_SHORTEST_WEAK: Final = 8
_ENTRY_START: Final = re.compile(r"(?:E )?[ \t]*(?:- )?[\w-]{0,40}")
_LONGEST_NAME: Final = 80


def is_placeholder(value: str) -> bool:
    """Return whether the value says that there is none, or stands for one: `None`, `***`."""
    text = value.strip()
    return not text or text.lower() in _WORDS or _PLACEHOLDER.fullmatch(text) is not None


def is_code(value: str) -> bool:
    """Return whether the value is a name of source code, a word or a small number."""
    return _CODE.fullmatch(value) is not None


def is_too_little(name: str, value: str) -> bool:
    """Return whether a quoted value is too short, or too many words, for a secret of such a name.

    `token='if'` is a parser's, `password='if'` is a password.
    """
    # `Password: ', x=1)`: the quote ends a text, and what follows is code.
    if value[0] in ",)]}:;":
        return True
    return name in _WEAK_NAMES and (
        len(value) < _SHORTEST_WEAK or " " in value or not value.strip("0123456789.")
    )


def is_ordinary_bare(found: re.Match[str]) -> bool:
    """Return whether an assigned value without quotes is source code, a count, a word or a path."""
    value = found["bare"]
    text = found.string
    following = text[found.end() : found.end() + 1]
    if found["sign"] in ("==", "===", "!=") or following in ("(", "[", "{"):
        return True
    if value.startswith(("/", "~", ".", "=", "http:", "https:")):
        return True
    if not is_code(value):
        return False
    line_start = text.rfind("\n", max(0, found.start() - _LONGEST_NAME), found.start()) + 1
    touches = found.start("bare") == found.end("sign")
    is_variable = found["name"].isupper() and found["sign"] == "=" and touches
    is_entry = (
        found["sign"] == ":"
        and following in ("", "\n")
        and value.islower()
        and _ENTRY_START.fullmatch(text, line_start, found.start()) is not None
    )
    return value.isupper() or not value.isascii() or not (is_variable or is_entry)
