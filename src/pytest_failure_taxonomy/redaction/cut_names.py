"""Secrets beside a name that was cut: `{'Autho...f3xyz'}`."""

from __future__ import annotations

import re
from typing import Final

from pytest_failure_taxonomy.redaction.fields import lower_case
from pytest_failure_taxonomy.redaction.marks import Note, cuts

_CUT_NAME: Final = re.compile(
    r"(?:auth[a-z]{0,9}|passw?[a-z]{0,4}|secr[a-z]{0,2}|toke?n?|cook[a-z]{0,2}|api[_-]?k[a-z]{0,2}"
    r"|bear[a-z]{0,2})\Z",
    re.IGNORECASE | re.ASCII,
)
_STARTS_OF_NAMES: Final = ("auth", "pass", "secr", "tok", "cook", "api", "bear")
_LONGEST_CUT_NAME: Final = 14
_CUT_VALUE: Final = re.compile(r"[^\s\"'(){}\[\]]{4,}+")


def remove_behind_cut_names(text: str, note: Note) -> str:
    """Return the text without what follows a name of a secret that was cut."""
    lower = lower_case(text)
    if not any(start in lower for start in _STARTS_OF_NAMES):
        return text
    parts = []
    done = 0
    for start, end in cuts(text):
        if start < done or not _CUT_NAME.search(text, max(done, start - _LONGEST_CUT_NAME), start):
            continue
        if value := _CUT_VALUE.match(text, end):
            parts += [text[done:end], note("cut-field")]
            done = value.end()
    return "".join([*parts, text[done:]]) if parts else text
