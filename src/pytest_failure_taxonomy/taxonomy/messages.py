"""Take out of a message what differs between two runs of one failure."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Final

VALUE: Final = "<*>"
"""Stands for whatever was taken out; several in a row are one, so that no length counts."""

MAX_READ: Final = 8_000
"""Characters of a message that are looked at."""
MAX_KEPT: Final = 400
"""Characters of it that count."""
MAX_LINES: Final = 5
"""Lines of it that count, without the ones that show values alone."""

_NOISE: Final = (
    r"\+  (?:where|and) |"  # pytest shows the parts of an assertion
    r"[-+?] |[-+?]$|E +[-+?] |"  # the lines of a diff
    r"(?:At index|Full diff|Use -v|Omitting|Differing items|Common items|Comparing values|"
    r"Left contains|Right contains|Extra items|Skipping|\.\.\.)"
)
"""Starts of lines that only show values."""

_ID: Final = (
    r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|"  # UUID
    r"(?=[a-f]{0,60}\d)[0-9a-f]{7,64}|"  # a hash, of a commit say
    r"(?=[a-z]{0,60}\d)[0-9a-z]{16,128}"  # a key or a token
)
_TIME: Final = r"\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:z\b|[-+]\d\d:?\d\d)?)?"

_SUBSTITUTIONS: Final = (
    # what, pattern, replacement, the characters one of which must be there
    ("terminal colours", r"\x1b\[[0-9;]{0,20}[a-z]", "", "\x1b"),
    ("text in quotes", r"(?<![\w\\])[bruf]{0,2}'(?:[^'\\\n]|\\.)*+'(?!\w)", VALUE, "'"),
    ("text in double quotes", r'(?<![\w\\])[bruf]{0,2}"(?:[^"\\\n]|\\.)*+"(?!\w)', VALUE, '"'),
    (
        "a URL, but for its host",
        r"\b([a-z][a-z0-9+.-]{1,15}://)(?:[^\s/@]{0,200}@)?([^\s/:?#'\"<>]*)[^\s'\"<>]*",
        rf"\1\2{VALUE}",
        ":",
    ),
    (
        "a path, but for a file's name outside of temporary folders",
        r"(?<![\w/.<>:-])(?:[a-z]:)?[\\/](?:[^\s\\/:'\"<>|(),;]+[\\/]+)+([^\s\\/:'\"<>|(),;]*)",
        None,
        "/\\",
    ),
    ("an address", r"\b0x[0-9a-f]+\b", VALUE, "x"),
    ("an object", rf"<[^<>\n]{{1,200}} at {re.escape(VALUE)}>", VALUE, "<"),
    ("a constant", r"(?<![\w.])(?-i:None|True|False)(?![\w.])", VALUE, "NTF"),
    ("a date or time", rf"\b{_TIME}", VALUE, "-"),
    ("an id", rf"(?:(?<![\w)>])[-+])?(?<![^\W_])(?:{_ID})(?![^\W_])", VALUE, ""),
    ("a number", r"(?:(?<![\w)>])[-+])?\d[\d_]*(?:[.,:]\d+)*(?:e[-+]?\d+)?", VALUE, ""),
    ("a unit", rf"(?<={re.escape(VALUE)}) ?(?:ns|us|µs|ms|s|m|h|d|[kmg]i?b|%)\b", "", ""),
    (
        "a list",
        rf"{re.escape(VALUE)}(?:[\s,:=.*/x+()\[\]{{}}-]{{0,6}}{re.escape(VALUE)})+",
        VALUE,
        "",
    ),
    (
        "what holds values",
        rf"(?<![\w)])[\[({{]{{1,6}}\s?{re.escape(VALUE)}\s?[\])}}]{{1,6}}",
        VALUE,
        "[({",
    ),
    ("a plural", rf"({re.escape(VALUE)}) ([a-z-]{{2,30}})(?: ([a-z-]{{2,30}}))?", None, ""),
)

_TEMPORARY: Final = ("/tmp/", "/temp/", "pytest-of-", "/var/folders/", "/dev/shm/")  # noqa: S108 - looked for, not used
"""What tells a path of which not even the last part stays the same."""

_NAME: Final = re.compile(r"[A-Za-z_][\w.]{0,200}")  # in pytest's own tables, so cheap


# Many failures of a run say the same.
@lru_cache(maxsize=256)
def normalize_message(text: str, *, keeps_names: bool = False) -> str:
    """Return the words of a message without its values, on one line.

    Args:
        text: the message.
        keeps_names: text in quotes stays where it is the name of something in the code, as it is in
            what Python says of imports, attributes and arguments.
    """
    lines = text[:MAX_READ].split("\n", MAX_LINES * 4)
    patterns = _patterns()
    noise = patterns["noise"]
    kept = [line for each in lines if (line := each.strip()) and not noise.match(line)]
    message = "\n".join(kept[:MAX_LINES])
    for name, _, replacement, needed in _SUBSTITUTIONS:
        if needed and not any(character in message for character in needed):
            continue
        pattern = patterns[name]
        if name.startswith("text in") and keeps_names:
            message = pattern.sub(_unless_name, message)
        elif replacement is not None:
            message = pattern.sub(replacement, message)
        else:
            message = pattern.sub(_CALLED[name[:6]], message)
    message = " ".join(message.split())
    return message if len(message) <= MAX_KEPT else message[:MAX_KEPT].rpartition(" ")[0]


def without_suggestion(message: str) -> str:
    """Return what Python says of a name, without advice, which differs between its versions."""
    for start in (
        " (consider renaming",
        ". Did you mean",
        ". Perhaps you forgot",
        " (most likely due",
    ):
        message = message.partition(start)[0]
    if message.endswith(")") and message.startswith("cannot import name"):
        message = message.rpartition(" (")[0]  # the file it was looked for in
    return message


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    compiled = {name: re.compile(each, re.IGNORECASE) for name, each, _, _ in _SUBSTITUTIONS}
    return {**compiled, "noise": re.compile(_NOISE)}


def _unless_name(found: re.Match[str]) -> str:
    quoted = found[0]
    return quoted if _NAME.fullmatch(quoted[1:-1]) else VALUE


def _file_name(found: re.Match[str]) -> str:
    path = found[0].replace("\\", "/").lower()
    is_temporary = any(part in path for part in _TEMPORARY)
    return VALUE if is_temporary or not found[1] else f"{VALUE}/{found[1]}"


def _singular(found: re.Match[str]) -> str:
    words = [each.removesuffix("s") if each[-2:] != "ss" else each for each in found[0].split(" ")]
    return " ".join(words)


_CALLED: Final = {"a path": _file_name, "a plur": _singular}
