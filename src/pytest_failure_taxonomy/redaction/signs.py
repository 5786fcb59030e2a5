"""Quick signs that a text may hold a secret. Most texts show none.

Loading the redactor takes longer than running some tests. So it is loaded with the first text that
shows a sign. See docs/decisions/0015.
"""

from __future__ import annotations

import json
import os
import pkgutil
import re
from binascii import b2a_base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from pytest_failure_taxonomy.redaction.commands import may_hold_command
from pytest_failure_taxonomy.redaction.secret_names import (
    declared_variables,
    may_be_secret_variable,
)

_BETWEEN_TEXTS: Final = "\0"
"""It is no blank, because a blank may stand between a name and its secret."""
_LONGEST: Final = 20_000
"""Characters of texts up to which their signs are looked for; longer ones are searched at once."""

_PARTS_OF_NAMES: Final = ("pass", "pwd", "cre", "ok", "key", "auth", "bearer", "private")
"""Of `secret` and `credential`, and of `token` and `cookie`, a part that the two share."""
_NAMED: Final = re.compile(
    r"(?:pass\w{0,12}|pwd|cre(?:t|d\w{0,12})|ok(?:en|ie)|key|auth\w{0,12}|bearer|private)"
    r"[\\\"'\])]{0,4}(?:[\s=,>&}]|:(?!:)|/>)",
    re.IGNORECASE,
)
"""The rest of a secret's name, and a character with which its value may begin, or which ends an
element or a tuple's item that has its value elsewhere."""
SIGNATURES: Final = ("sig=", "signature=", "sig%3d", "signature%3d")
_SHORTEST_VALUE: Final = 6
_WORD: Final = re.compile("[A-Za-z0-9]+")
_SHORTEST_WORD: Final = 4
_SHORTEST_HALVED: Final = 12
_LONGEST_WORD: Final = 60
"""A line of base64 has 64 letters or more, so no two lines end in such a word."""

_CURRENT_TEST: Final = "PYTEST_CURRENT_TEST"

_SHORTEST_RUN: Final = 18
"""Every whole token has a run of so many letters, digits, `_` and `-`, by the table's lengths."""
_RUNS: Final = bytes(
    97 if (code < 128 and chr(code).isalnum()) or chr(code) in "_-" else 10 if code == 10 else 32
    for code in range(256)
)
_LONG_RUN: Final = b"a" * _SHORTEST_RUN

_LENGTHS_OF_CODES: Final = {"\\": 1, "%": 2}
_INSIDE_OF_TOKENS: Final = frozenset(".~:")
_LONGEST_INSIDE: Final = 12
LETTERS_OF_HEAD: Final = 3
_LETTERS_OF_JOINED: Final = 4
_LETTERS_OF_END: Final = 4
_LINE_END: Final = b"a" * _LETTERS_OF_END
_SHORTEST_BEHIND: Final = 12
"""Letters of a run behind a `_` or `-` in it where a token may begin."""
_MOST_PLAIN: Final = 2_000
_LONGEST_PLAIN: Final = 100
"""How many words are remembered to be no tokens, and their characters: failures repeat the names
of their files."""
_BEFORE_RUN: Final = 100
"""Characters before a run in which the address of a webhook stands."""


class ChangingVariables:
    """The environment's variables, which tests change.

    Args:
        environment: a mapping to look at instead of `os.environ`.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment: Any = os.environ if environment is None else environment
        self._seen: dict[Any, Any] = {}
        self._declared = 0
        is_bytes = environment is None and os.name == "posix"
        self._name: Callable[[str], Any] = os.fsencode if is_bytes else str
        self._current_test: Any = self._name(_CURRENT_TEST)

    def changed(self) -> list[tuple[str, str]]:
        """Return the names and values that are new since this was called last.

        So are those of variables that were declared to be secret since.
        The variable in which pytest names the running test is left out.
        """
        # To compare the mapping beneath `os.environ` takes 2 µs, to decode all of it 100.
        variables = getattr(self._environment, "_data", self._environment)
        self._seen.pop(self._current_test, None)
        if self._current_test in variables:  # pytest changes it all the time
            self._seen[self._current_test] = variables[self._current_test]
        if self._declared != len(declared_variables()):
            self._declared = len(declared_variables())
            for name in declared_variables():
                self._seen.pop(self._name(name), None)
        if variables == self._seen:
            return []
        seen, self._seen = self._seen, dict(variables)
        return [
            (os.fsdecode(name), os.fsdecode(value))
            for name, value in variables.items()
            if seen.get(name) != value and name != self._current_test
        ]


class Suspicion:
    """Tell whether texts show any sign of a secret, by what the environment holds and held."""

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}
        """Environment variables that may be secret, with what they held last."""
        self._environment = ChangingVariables()
        self._words: frozenset[str] = frozenset()

    @property
    def count(self) -> int:
        """How many words are looked for because of the environment; it never gets smaller."""
        return len(self._words)

    def is_none_of(self, texts: Sequence[str]) -> bool:
        """Tell whether none of the texts shows any sign that there is a secret in it."""
        together = _BETWEEN_TEXTS.join(texts)
        if len(together) > _LONGEST:
            return False
        self.see_environment()
        return not any(word in together for word in self._words) and not _is_suspicious(together)

    def see_environment(self) -> None:
        """Add the values of variables that were set or changed to what is looked for.

        They stay: a test may unset a variable before the text that quotes it is searched.
        """
        for name, value in self._environment.changed():
            found = url_passwords(value)
            if len(value) >= _SHORTEST_VALUE and may_be_secret_variable(name):
                found.append(value)
            if found:
                self.variables[name] = value
                self._words |= {word for each in found for word in _telling_words(each)}


class TokenHeads:
    """The starts of all known tokens."""

    def __init__(self, table: dict[str, Any]) -> None:
        """Take them from the packaged table."""
        tokens, shapes = table["tokens"], table["shapes"]
        self._heads: dict[str, tuple[str, ...]] = {}
        """All heads, by their first three letters."""
        self._plain: dict[int, set[str]] = {_SHORTEST_BEHIND: set(), _LETTERS_OF_END: set()}
        """Words in which no token begins, by the letters at their ends where none may begin."""
        for form in tokens:
            for head in _heads(form):
                start = head[:LETTERS_OF_HEAD]
                self._heads[start] = (*self._heads.get(start, ()), head)
        self._joined = frozenset(
            prefix[:_LETTERS_OF_JOINED] for form in tokens for prefix in joined_heads(form)
        )
        self._inside = tuple(
            [
                inside[0]
                for form in tokens
                for each in form["prefixes"]
                if (inside := re.match(r".*[.~]", each))
            ]
            + [each for form in shapes for each in form.get("inside", ())]
        )

    def may_stand_in(self, text: str) -> bool:
        """Return whether a long word begins like a token, or stands behind the start of one.

        Looking for a hundred heads in all of a traceback takes longer than looking for the few
        long words in it, and at their first letters.
        """
        if "eyJ" in text:
            return True
        runs = text.encode("latin-1", "replace").translate(_RUNS)
        lines = runs.replace(b"\n", b" ")
        end = 0
        while (start := lines.find(_LONG_RUN, end)) >= 0:
            end = lines.find(b" ", start)
            if end < 0:
                end = len(lines)
            if self._is_in_run(text, start, end):
                return True
        return b"\n" in runs and self._is_at_line_end(text, runs)

    def _is_in_run(self, text: str, start: int, end: int) -> bool:
        if not self._is_plain(text[start:end], _SHORTEST_BEHIND):
            return True
        before = text[start - 1 : start]
        if before in _LENGTHS_OF_CODES:
            # Behind the letter of an escape, or the two of a percent code, comes the token.
            return self._begins(text, start + _LENGTHS_OF_CODES[before])
        if before in _INSIDE_OF_TOKENS:
            return text.endswith(self._inside, max(0, start - _LONGEST_INSIDE), start)
        return before == "/" and "hook" in text[max(0, start - _BEFORE_RUN) : start]

    def _is_plain(self, word: str, behind: int) -> bool:
        """Return whether no token begins in a word, but for some letters at its end."""
        plain = self._plain[behind]
        if word in plain:
            return True
        bare = word.lstrip("-_")  # the sign of a line of a diff
        if (
            self._begins(word, 0)
            or self._begins(bare, 0)
            or self._is_joined_in(word, 0, len(word) - behind)
        ):
            return False
        if len(plain) < _MOST_PLAIN and len(word) <= _LONGEST_PLAIN:
            plain.add(word)
        return True

    def may_be_wrapped_in(self, text: str) -> bool:
        """Return whether the last word of a line begins like a token, also one of a repr."""
        text = text.replace("\\n", "\n ")
        return "\n" in text and self._is_at_line_end(
            text, text.encode("latin-1", "replace").translate(_RUNS)
        )

    def _begins(self, text: str, at: int) -> bool:
        heads = self._heads.get(text[at : at + LETTERS_OF_HEAD])
        return heads is not None and text.startswith(heads, at)

    def _is_joined_in(self, text: str, start: int, last: int) -> bool:
        """Return whether a token may begin inside of a run: behind a `-`, and some behind a `_`.

        pytest joins the values of parameters by `-`: `test_it[admin-ghp_…]`.
        """
        joined = self._joined
        for sign in "_-":
            at = start
            while (at := text.find(sign, at, last) + 1) > 0:
                is_head = sign == "-" or text[at : at + _LETTERS_OF_JOINED] in joined
                if is_head and self._begins(text, at):
                    return True
        return False

    def _is_at_line_end(self, text: str, runs: bytes) -> bool:
        plain = self._plain[_LETTERS_OF_END]
        start = 0
        for line in runs.split(b"\n")[:-1]:
            end = start + len(line)
            if line.endswith(_LINE_END):
                word = text[start + line.rfind(b" ") + 1 : end]
                if word not in plain and not self._is_plain(word, _LETTERS_OF_END):
                    return True
            start = end + 1
        return False


def joined_heads(form: dict[str, Any]) -> list[str]:
    """Return the heads of a form that are known behind a `_`, too: `of_ghp_…`.

    Others are words or a letter or two: `cache_key-…` is a name.
    """
    if form.get("alone"):
        return []
    return [each for each in form["prefixes"] if len(each) >= _LETTERS_OF_JOINED]


def read_table() -> dict[str, Any]:
    """Return the packaged table of token forms."""
    package = __name__.rpartition(".")[0]
    table: dict[str, Any] = json.loads(pkgutil.get_data(package, "patterns.json") or b"{}")
    return table


def url_passwords(text: str) -> list[str]:
    """Return what may be a password in a URL, each reading of it once.

    A password may have an `@` of its own, which should have been written as `%40`.
    """
    if "://" not in text:
        return []
    up_to_first = re.findall(r"://[^\s/:@]{0,100}:([^\s@]{1,400})@", text)
    up_to_last = re.findall(r"://[^\s/:@]{0,100}:([^\s/]{1,400})@", text)
    return list(dict.fromkeys([*up_to_first, *up_to_last]))


def base64_parts(raw: bytes) -> list[str]:
    """Return what stands in each text that has the bytes in base64, behind others or alone.

    Three bytes make a group of four letters. Behind a user's name and a colon, say, the bytes may
    begin at any of three places in a group, and the letters at both ends may be those of others.
    """
    return [
        b2a_base64(bytes(before) + raw)[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6].decode()
        for before in range(3)
    ]


def _telling_words(value: str) -> Iterator[str]:
    """Yield parts of a value, of which each text that shows it has one, quoted or encoded.

    A word is empty, which stands in every text, where no part of the value is long enough.
    """
    raw = value.encode("utf-8", "surrogateescape")
    for form in (value, *base64_parts(raw), raw.hex(), raw.hex().upper()):
        word = max(_WORD.findall(form), key=len, default="")[:_LONGEST_WORD]
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
    for part in _PARTS_OF_NAMES:
        start = lower.find(part)
        while start >= 0:
            if _NAMED.match(text, start):
                return True
            start = lower.find(part, start + 1)
    if any(each in lower for each in SIGNATURES):
        return True
    if may_hold_command(text):
        return True
    return _token_heads().may_stand_in(text)


@cache
def _token_heads() -> TokenHeads:
    return TokenHeads(read_table())


def _heads(form: dict[str, Any]) -> Iterator[str]:
    """Yield how a form's tokens begin, by three characters at least."""
    for prefix in form["prefixes"]:
        if len(prefix) >= LETTERS_OF_HEAD:
            yield prefix
        else:
            yield from (prefix + digit for digit in "0123456789abcdef")
