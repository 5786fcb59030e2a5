"""Secrets on command lines, as a shell, a list or a log shows them: `curl -u me:…`, `mysql -p…`."""

from __future__ import annotations

import re
from typing import Final

from pytest_failure_taxonomy.redaction.arguments import PROGRAMS, secrets_behind
from pytest_failure_taxonomy.redaction.marks import MARK, Note
from pytest_failure_taxonomy.redaction.ordinary import is_placeholder

_PROGRAM: Final = re.compile(
    rf"(?<![\w.-])(?:{'|'.join(sorted(PROGRAMS, key=lambda each: (-len(each), each)))})"
    r"(?:\.exe)?(?=[\s\"'])"
)
_SOME_IN_ALL: Final = tuple(
    name for name in PROGRAMS if not any(each in name for each in PROGRAMS if each != name)
)
"""Names of which one stands in each name of a program."""
_LONGEST: Final = 2_000
"""Characters of a command behind its program's name."""
_END: Final = re.compile(r"[|;&]|\n(?<!\\\n)|\\n|$")
_WORD: Final = re.compile(
    r"(?:\[REDACTED:[^\]\n]{1,120}\]|[^\s\"',\[\]()]|(?<=\w),(?=\w))+|\"[^\"\n]{0,400}\"|'[^'\n]{0,400}'"
)
_STANDS_FOR_ONE: Final = frozenset(("pass", "password", "passwd", "pwd", "secret", "token"))
_QUOTES: Final = "\"'"


def remove_from_commands(text: str, note: Note) -> str:
    """Return the text without the secrets on the command lines in it."""
    if not any(name in text for name in _SOME_IN_ALL):
        return text
    parts = []
    done = 0
    for program in _PROGRAM.finditer(text):
        if program.start() < done:
            continue
        limit = min(len(text), program.end() + _LONGEST)
        end = _END.search(text, program.end(), limit)
        # Of `['curl', '-u', …]` the first quote closes the program's name.
        start = program.end() + (text[program.end()] in _QUOTES)
        words = list(_WORD.finditer(text, start, end.start() if end else limit))
        shown = [word.group().strip(_QUOTES) for word in words]
        name = program.group().removesuffix(".exe")
        for index, first, secret in secrets_behind(name, shown):
            value = shown[index][first:]
            if _is_none(value):
                continue
            begin = text.index(shown[index], words[index].start()) + first
            parts += [text[done:begin], note(secret, value)]
            done = begin + len(value)
    return "".join([*parts, text[done:]]) if parts else text


def _is_none(value: str) -> bool:
    return (
        value.lower() in _STANDS_FOR_ONE
        or value.startswith("$")
        or is_placeholder(value)
        or MARK.search(value) is not None
    )
