"""Signs by which a text may hold a secret, quickly looked for.

Most texts show none of them, and what knows the secrets takes longer to load than pytest to run
some tests. Where there is a sign, that is asked.
"""

from __future__ import annotations

import os
import re
from binascii import b2a_base64
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.redaction.arguments import PROGRAMS
from pytest_failure_taxonomy.redaction.urls import url_passwords

if TYPE_CHECKING:
    from pytest_failure_taxonomy.redaction.heads import TokenHeads

_BETWEEN_TEXTS: Final = "\0"
"""No blank, which could stand between a name and its secret."""
_LONGEST: Final = 20_000
"""Characters that are looked through; more is left to who knows."""

_HEADS: Final = (
    *("pass", "pwd", "token", "secret", "key", "auth", "cred", "cookie", "bearer", "private"),
)
_NAMED: Final = re.compile(
    r"(?:pass\w{0,12}|pwd|token|secret|key|auth\w{0,12}|cred\w{0,12}|cookie|bearer|private)"
    r"[\\\"'\])]{0,4}(?:[\s=,>&}]|:(?!:)|/>)",
    re.IGNORECASE,
)
"""A name, and behind it what may be its value, or the end of what has its value elsewhere."""
_SIGNATURES: Final = ("sig=", "signature=")
_OPTIONS: Final = (" -", "'-", '"-')
"""How options begin, on a line or in a list."""
_PROGRAMS: Final = tuple(
    name for name in PROGRAMS if not any(each in name for each in PROGRAMS if each != name)
)
_SUSPICIOUS_NAMES: Final = ("PASS", "PWD", "TOKEN", "SECRET", "KEY", "AUTH", "CRED")
_FOLDERS: Final = frozenset({"PWD", "OLDPWD"})
"""What the shell says of where it is and was."""
_CURRENT_TEST: Final = b"PYTEST_CURRENT_TEST" if os.name == "posix" else "PYTEST_CURRENT_TEST"
_SHORTEST_VALUE: Final = 6
_WORD: Final = re.compile("[A-Za-z0-9]+")
_SHORTEST_WORD: Final = 4
_SHORTEST_HALVED: Final = 12


class Suspicion:
    """Know what in the environment may be secret, now and before."""

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}
        """Environment variables that may be secret, with what they held last."""
        self._environment: dict[Any, Any] = {}
        self._words: frozenset[str] = frozenset()

    def is_none_of(self, texts: Sequence[str]) -> bool:
        """Tell whether none of the texts shows any sign that there is a secret in it."""
        together = _BETWEEN_TEXTS.join(texts)
        if len(together) > _LONGEST:
            return False
        # Comparing the mapping beneath `os.environ` is quick, going through all of it is not. What
        # pytest itself puts there, the test and its phase, changes all the time.
        environment: Any = getattr(os.environ, "_data", os.environ)
        if _CURRENT_TEST in environment:
            self._environment[_CURRENT_TEST] = environment[_CURRENT_TEST]
        if environment != self._environment:
            self._learn(environment)
        return not any(word in together for word in self._words) and not _is_suspicious(together)

    def _learn(self, environment: Mapping[Any, Any]) -> None:
        """Know what has changed; a value that is gone may still stand in a text."""
        known = self._environment
        changed = [each for each in environment.items() if known.get(each[0]) != each[1]]
        self._environment = dict(environment)
        for name, value in (map(os.fsdecode, each) for each in changed):
            found = url_passwords(value)
            if len(value) >= _SHORTEST_VALUE and is_suspicious_name(name):
                found.append(value)
            if found:
                self.variables[name] = value
                self._words |= {word for each in found for word in _telling_words(each)}


def is_suspicious_name(name: str) -> bool:
    """Tell whether an environment variable may hold a secret, by its name."""
    return name not in _FOLDERS and any(each in name.upper() for each in _SUSPICIOUS_NAMES)


def _telling_words(value: str) -> Iterator[str]:
    """Yield what stands in any text that shows the value, however it is quoted or encoded there.

    A word is empty, which stands in every text, where no part of the value is long enough.
    """
    raw = value.encode("utf-8", "surrogateescape")
    encoded = (
        # The value may begin at any of three places in a group: behind a user's name, say.
        b2a_base64(bytes(before) + raw)[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6].decode()
        for before in range(3)
    )
    for form in (value, *encoded):
        word = max(_WORD.findall(form), key=len, default="")
        if len(word) >= _SHORTEST_HALVED:  # a line may be broken in it
            yield from (word[: len(word) // 2], word[len(word) // 2 :])
        else:
            yield word if len(word) >= _SHORTEST_WORD else ""


def _is_suspicious(text: str) -> bool:
    """Tell whether a text may hold a secret that no variable holds.

    Where something was cut, half of one may stand. The expression is tried where it may match: it
    takes a hundred times as long as looking for a word.
    """
    if "://" in text or "..." in text or "…" in text:
        return True
    lower = text.replace("\u0130", "i").lower()  # the one letter whose small form is longer
    for head in _HEADS:
        start = lower.find(head)
        while start >= 0:
            if _NAMED.match(text, start):
                return True
            start = lower.find(head, start + 1)
    if any(each in lower for each in _SIGNATURES):
        return True
    if any(each in text for each in _OPTIONS) and any(each in text for each in _PROGRAMS):
        return True
    return _token_heads().may_stand_in(text)


@cache
def _token_heads() -> TokenHeads:
    from pytest_failure_taxonomy.redaction.heads import TokenHeads, read_table

    return TokenHeads(read_table())
