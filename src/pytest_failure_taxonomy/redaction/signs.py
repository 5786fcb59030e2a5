"""Tell quickly whether texts may hold a secret at all; most texts don't.

A detector of secrets is loaded for a text alone in which the literals stand that its patterns need.
The redactor asks for them in the same words. So do the forms of tokens (`ghp_…`, `AKIA…`, `eyJ…`):
each names its literals, and its expression is compiled with the first text that has one of them.
See docs/decisions/0015.
"""

from __future__ import annotations

import json
import os
import re
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from typing import Any, Final

from pytest_failure_taxonomy.redaction import is_cut, read_packaged, without_colours
from pytest_failure_taxonomy.redaction.names import (
    DECLARED,
    lower_case,
    may_be_secret_variable,
    may_hold_command,
    words_of_names,
)

BETWEEN_TEXTS: Final = "\0"
"""It is no blank, because a blank may stand between a name and its secret."""
_LONGEST: Final = 20_000
"""Characters of texts up to which their signs are looked for; longer ones are searched at once."""

_SIGNATURES: Final = ("sig=", "signature=", "sig%3d", "signature%3d")
_SHORTEST_VALUE: Final = 6
_SHORTEST_WORD: Final = 4
_SHORTEST_HALVED: Final = 12
_LONGEST_WORD: Final = 60
"""A line of base64 has 64 letters or more, so no two lines end in such a word."""

_CURRENT_TEST: Final = "PYTEST_CURRENT_TEST"


def may_hold_key(text: str) -> bool:
    """Return whether the text may hold a private key."""
    return "PRIVATE KEY" in text and ("-----BEGIN" in text or "-----END" in text)


def may_hold_login(text: str) -> bool:
    """Return whether the text may hold a URL with a user or a password."""
    return "@" in text and "://" in text


def may_hold_signature(lower: str) -> bool:
    """Return whether the text, in lower case, may hold the signature of a URL."""
    return "sig" in lower and any(each in lower for each in _SIGNATURES)


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
        if self._declared != len(DECLARED):
            self._declared = len(DECLARED)
            for name in DECLARED:
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
        self.words: frozenset[str] = frozenset()
        """What is looked for because of the environment; it never gets less."""

    def looks_clean(self, texts: Sequence[str]) -> bool:
        """Tell whether none of the texts shows any sign that there is a secret in it.

        Of the environment it knows what `see_environment` has seen.
        """
        together = without_colours(BETWEEN_TEXTS.join(texts))
        if len(together) > _LONGEST:
            return False
        for word in self.words:
            if word in together:
                return False
        # Where something was cut, half of a secret may stand.
        if is_cut(together) or may_hold_key(together) or may_hold_login(together):
            return False
        lower = lower_case(together)
        if (
            may_hold_signature(lower)
            or words_of_names(lower)
            or may_hold_command(together)
        ):
            return False
        return not known_tokens().literals_in(together)

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
                self.words |= {word for each in found for word in _telling_words(each)}


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
        b2a_base64(bytes(before) + raw)[
            -(-before * 8 // 6) : (before + len(raw)) * 8 // 6
        ].decode()
        for before in range(3)
    ]


_SHORTEST_COPY: Final = 12
"""Characters of a value in a row that give it away if they are half of it, too."""


@lru_cache(maxsize=4_096)
def blocks_of(form: str) -> tuple[int, Mapping[int, str]]:
    """Return how many characters of a form are a copy of it, and blocks of it by their places.

    A copy may be changed at its start and end, so half of the form is one, but at least 12
    characters or all. Wherever it begins in the form, it has one of the blocks as a whole.
    """
    least = min(len(form), max(_SHORTEST_COPY, len(form) // 2))
    size = least if least == len(form) else (least + 1) // 2
    places = range(0, len(form) - size + 1, size)
    return least, {place: form[place : place + size] for place in places}


def _telling_words(value: str) -> Iterator[str]:
    """Yield parts of a value, of which each text that shows half of it has one.

    It may be quoted or encoded there. A word is empty, which stands in every text, where no part
    is long enough.
    """
    raw = value.encode("utf-8", "surrogateescape")
    for form in (value, *base64_parts(raw), raw.hex(), raw.hex().upper()):
        for block in blocks_of(form)[1].values():
            words = re.findall("[A-Za-z0-9_.~-]+", block)  # they are quoted nowhere
            word = max(words, key=len, default="")[:_LONGEST_WORD]
            if len(word) >= _SHORTEST_HALVED:  # a line may be broken in it
                yield from (word[: len(word) // 2], word[len(word) // 2 :])
            else:
                yield word if len(word) >= _SHORTEST_WORD else ""


# A token may also begin behind an escape (`\n` in a repr) or a percent code, whose last character
# is a letter or a digit.
START: Final = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrtbf])|(?<=%[0-9A-F][0-9A-F]))"
_LINE_END: Final = r"[A-Za-z0-9_.+/=~-]{0,400}+(?:\\{1,2}r|\r)?\\?\n"
_LETTERS_OF_JOINED: Final = 4
_MOST_PLAIN: Final = 10_000
_LONGEST_PLAIN: Final = 100
"""How many lines and words are remembered, and their characters: failures repeat them."""


_TO_BLANKS: Final = "".join(
    chr(each) if chr(each).isalnum() else " " for each in range(128)
)
_NO_WORD: Final = re.compile("[^A-Za-z0-9]")


class Tokens:
    """The packaged forms of tokens."""

    def __init__(self) -> None:
        table = json.loads(read_packaged("patterns.json"))
        self.table: dict[str, Any] = table
        """As it is packaged."""
        self.ids = {
            prefix: form["id"]
            for form in table["tokens"]
            for prefix in form["prefixes"]
        }
        self._shapes = {shape["regex"]: shape["id"] for shape in table["shapes"]}
        self._inside = [
            literal for shape in table["shapes"] for literal in shape["literals"]
        ]
        """Literals that stand inside of tokens; the others are their heads."""
        self._heads: dict[str, list[str]] = {}
        """Those that begin with a word."""
        for head in self.ids:
            self._heads.setdefault(
                re.split("[^A-Za-z0-9]", head, maxsplit=1)[0], []
            ).append(head)
        self._begun = tuple([head for head in self.ids if head.isalnum()])
        """Heads behind which their word may go on."""
        self._plain_lines: set[str] = set()
        """Those in which no token stands or begins."""
        self._plain_words: set[str] = set()
        """Those with which no head begins."""

    @cached_property
    def forms(self) -> dict[str, str]:
        """Return an expression for the tokens in which a literal stands, by the literal."""
        forms = {}
        for form in self.table["tokens"]:
            most = form.get("most", "")
            rest = f"[{form['alphabet']}]{{{form['least']},{most}}}+"
            if most:
                rest += f"(?![{form['alphabet']}])"
            for prefix in sorted(form["prefixes"], key=len):
                # `of_ghp_…` is a token, too. Other heads are words or a letter or two.
                is_joined = len(prefix) >= _LETTERS_OF_JOINED and not form.get("alone")
                start = f"(?:{START}|(?<=[A-Za-z0-9]_))" if is_joined else START
                forms[prefix] = f"{start}{re.escape(prefix)}{rest}"
        # The longest heads first: `sk-ant-` is not a key of `sk-`.
        forms = dict(sorted(forms.items(), key=lambda form: (-len(form[0]), form[0])))
        for shape in self.table["shapes"]:
            for literal in shape["literals"]:
                forms[literal] = f"{START}(?:{shape['regex']})"
        return forms

    def literals_in(self, text: str) -> list[str]:
        """Return the literals of the forms that may have a token in a text.

        One that a line was broken in begins with the last word of a line, also of one in a repr.
        """
        escaped = text.replace("\\n", "\n") if "\\" in text else text
        lines = set(escaped.replace(BETWEEN_TEXTS, "\n").split("\n"))
        lines -= self._plain_lines
        if not lines:
            return []
        together = "\n".join([*map(str.rstrip, lines), ""])
        begins = together
        if "\\" in text or "%" in text:  # behind which a word may begin
            begins = re.sub(r"\\[rtbf]|%[0-9A-F]{2}", r"\g<0> ", together)
        # In ASCII, as most texts are, this takes a third of the time that an expression takes.
        apart = (
            begins.translate(_TO_BLANKS)
            if begins.isascii()
            else _NO_WORD.sub(" ", begins)
        )
        words = set(apart.split()) - self._plain_words
        telling = [
            each
            for each in words
            if each in self._heads or each.startswith(self._begun)
        ]
        literals = self._inside
        if telling:
            heads = [head for word in telling for head in self._heads.get(word, ())]
            literals = list(dict.fromkeys([*literals, *self._begun, *heads]))
        found = [
            literal
            for literal in literals
            if literal in together
            and (
                self.whole([literal]).search(together)
                or (
                    literal in self.ids
                    and compiled(START, [literal], _LINE_END).search(together)
                )
            )
        ]
        if len(self._plain_words) < _MOST_PLAIN:
            words.difference_update(telling)
            self._plain_words.update(
                [each for each in words if len(each) <= _LONGEST_PLAIN]
            )
        if not found and len(self._plain_lines) < _MOST_PLAIN:
            self._plain_lines.update(
                [line for line in lines if len(line) <= _LONGEST_PLAIN]
            )
        return [literal for literal in self.forms if literal in found] if found else []

    def whole(self, literals: Iterable[str]) -> re.Pattern[str]:
        """Return what finds the whole tokens of some forms."""
        forms = [form for literal, form in self.forms.items() if literal in literals]
        return re.compile("|".join(dict.fromkeys(forms)))

    def id_of(self, token: str) -> str:
        """Return the id of the longest head that the token has: `sk-ant-` is not a key of `sk-`."""
        by_head = (
            self.ids[head]
            for head in self.forms
            if token.startswith(head) and head in self.ids
        )
        by_shape = (
            name for shape, name in self._shapes.items() if re.fullmatch(shape, token)
        )
        return next(by_head, None) or next(by_shape, "token")


@cache
def known_tokens() -> Tokens:
    """Return the packaged forms, which are read once."""
    return Tokens()


def compiled(start: str, heads: Iterable[str], rest: str) -> re.Pattern[str]:
    """Return what finds tokens that begin with one of some heads."""
    return re.compile(f"{start}(?:{'|'.join(map(re.escape, heads))}){rest}")
