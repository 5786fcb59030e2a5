"""Find the line of a program's output that says why it failed."""

from __future__ import annotations

import re
from typing import Final

ASKS_FOR_MORE: Final = r"(?i)install|requires?\b|required|executable|\bpath\b"
"""Words with which a library asks for a package or a program."""
_MAX_READ: Final = 20_000
"""Characters that are searched from the end of an output."""
_MAX_LINE: Final = 500

_TELLING: Final = (
    r"(?:(?:stderr: ')?(?:\S{1,100}: ){0,2}(?:fatal|[Ee]rror|ERROR|\*\*\*)[:\[ ]"
    r"|FAIL|ssh: |E: |npm (?:ERR!|error)"
    r"|(?:[a-z_]\w*\.){0,9}[A-Z]\w{0,80}(?:Error|Exception)(?::|$))"
    r"|.{1,200}: (?:(?:command )?not found|[Nn]o such file or directory"
    r"|[Pp]ermission denied)\.?$"
)
"""What a line looks like that says why a program failed."""
_CLOSING: Final = (
    r"fatal: (?:Could not read from remote repository|[Tt]he remote end hung up)"
    r"|error: failed to push some refs|npm (?:ERR!|error) A complete log"
    r"|make(?:\[\d+\])?: \*\*\* .{1,300} Error \d+$"
)
"""What programs print last, after they have said why."""
_SIGNS: Final = (
    *("CompletedProcess(", "function system>", "function call at "),
    *("returncode", "exit code", "exit status", "exit_code", "git"),
)
"""One of them is in the words about a program by the one that started it."""


def is_about_a_program(message: str) -> bool:
    """Tell whether an exception's message seems to be about a program that failed."""
    return any(map(message.__contains__, _SIGNS))


def telling_line(printed: object, *, or_last: bool = False) -> str:
    """Return the last line of an output that says what is wrong; empty where none does.

    Args:
        printed: a text or bytes; anything else says nothing.
        or_last: take the last line that isn't blank where none looks like an error's.
    """
    if type(printed) is bytes:
        printed = printed[-_MAX_READ:].decode(errors="replace")
    if type(printed) is not str:
        return ""
    lines = [line.strip() for line in printed[-_MAX_READ:].splitlines()]
    lines = [line for line in lines if line]
    telling = [line for line in lines if re.match(_TELLING, line)]
    reasons = [line for line in telling if not re.match(_CLOSING, line)]
    shown = reasons or telling or (lines if or_last else [])
    if shown:
        return shown[-1][:_MAX_LINE]
    return ""
