"""Private keys: whole blocks, blocks without an end, and ends without a start."""

from __future__ import annotations

import re
from typing import Final

from pytest_failure_taxonomy.redaction.marks import Note

_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_LONGEST: Final = 30_000
"""Characters between the start of a key and its end; an RSA key of 16,384 bits has 13,000."""

# Lines of base64, each perhaps behind pytest's `E  `, in a repr with `\n` in place of line ends,
# or in a list of lines with their quotes and commas.
_LINES: Final = re.compile(
    r"(?:(?:\\{1,2}[nr]|[\s\"',>|+-]|(?<=\n)E )*+"
    r"(?:(?:Proc-Type|DEK-Info|Version|Comment): [^\n\\]*+"
    r"|[A-Za-z0-9/+=]{16,}+|\.{3}(?!\.)|…|[A-Za-z0-9/+]{1,64}={0,2}+(?=\\n|\n|[\"']|$)))*+"
)
_OF_A_KEY: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/= \t\r\n\\"


def remove_private_keys(text: str, note: Note) -> str:
    """Return the text without the private keys in it."""
    parts = []
    position = 0
    # Both are looked up once: a text of a million starts is read no more often than others.
    begins = [found.span() for found in _BEGIN.finditer(text)]
    ends = iter([*(found.span() for found in _END.finditer(text)), None])
    end = next(ends)
    for index, (start, after) in enumerate(begins):
        if start < position:
            continue
        while end is not None and end[0] < after:
            end = next(ends)
        following = begins[index + 1][0] if index + 1 < len(begins) else len(text)
        is_whole = end is not None and end[0] < min(following, after + _LONGEST)
        lines = _LINES.match(text, after)
        before = _without_rest_of_key(text[position:start], note)
        position = end[1] if is_whole and end else lines.end() if lines else after
        parts += [before, note("private-key", text[after:position])]
    parts.append(_without_rest_of_key(text[position:], note))
    return "".join(parts)


def _without_rest_of_key(text: str, note: Note) -> str:
    """Remove what stands before an end whose start was cut away."""
    parts = []
    position = 0
    for end in _END.finditer(text):
        head = text[max(position, end.start() - _LONGEST) : end.start()]
        rest = head.rstrip(_OF_A_KEY)
        start = end.start() - len(head) + len(rest)
        if rest and not rest.endswith(("...", "…", "]")):
            # Something else stands before; only whole lines of base64 are a key's.
            start += _first_line_of_key(head[len(rest) :])
        parts += [text[position:start], note("private-key")]
        position = end.end()
    return "".join([*parts, text[position:]]) if parts else text


def _first_line_of_key(text: str) -> int:
    found = re.search(r"[A-Za-z0-9+/=]{40,}", text)
    return found.start() if found else len(text)


def holds_a_key(text: str) -> bool:
    """Return whether the text may hold a private key."""
    return "PRIVATE KEY" in text and ("-----BEGIN" in text or "-----END" in text)
