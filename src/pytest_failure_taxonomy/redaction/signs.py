"""Tell quickly whether texts may hold a secret at all; most texts don't.

A detector of secrets is loaded only for a text with the literals that its patterns
need. The redactor asks for them in the same words. So do the forms of tokens (`ghp_…`,
`AKIA…`, `eyJ…`): each names its literals, and its expression is compiled with the first
text that has one of them. See docs/decisions/0015.
"""

from __future__ import annotations

import json
import os
import re
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from typing import Any, Final

from pytest_failure_taxonomy.redaction import is_cut, read_packaged, strip_colours
from pytest_failure_taxonomy.redaction.names import (
    DECLARED,
    find_name_words,
    lower_case,
    may_be_secret_variable,
    may_hold_command,
)

BETWEEN_TEXTS: Final = "\0"
"""It is no blank, because a blank may stand between a name and its secret."""
_LONGEST: Final = 20_000
"""Characters of texts up to which their signs are looked for; longer ones are searched
at once."""

_SIGNATURES: Final = (
    "sig=",
    "signature=",
    "sig%3d",
    "signature%3d",
)
_SHORTEST_VALUE: Final = 6
_SHORTEST_WORD: Final = 4
_SHORTEST_HALVED: Final = 12
_LONGEST_WORD: Final = 60
"""A line of base64 has 64 letters or more, so no two lines end in such a word."""

_CURRENT_TEST: Final = "PYTEST_CURRENT_TEST"


def may_hold_key(text: str) -> bool:
    """Return whether the text may hold a private key."""
    if "PRIVATE KEY" not in text:
        return False
    return "-----BEGIN" in text or "-----END" in text


def may_hold_login(text: str) -> bool:
    """Return whether the text may hold a URL with a user or a password."""
    return "@" in text and "://" in text


def may_hold_signature(lower: str) -> bool:
    """Return whether the text, in lower case, may hold the signature of a URL."""
    if "sig" not in lower:
        return False
    return any(sign in lower for sign in _SIGNATURES)


class ChangingVariables:
    """The environment's variables, which tests change.

    Args:
        environment: a mapping to look at instead of `os.environ`.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment: Any = environment
        self._name: Callable[[str], Any] = str
        if environment is None:
            self._environment = os.environ
            if os.name == "posix":
                self._name = os.fsencode
        self._seen: dict[Any, Any] = {}
        self._declared = 0
        self._current_test: Any = self._name(_CURRENT_TEST)

    def take_changed(self) -> list[tuple[str, str]]:
        """Return the names and values that are new since this was called last.

        So are those of variables that were declared to be secret since. The variable in
        which pytest names the running test is not among them.
        """
        # To compare the mapping beneath `os.environ` takes 2 µs, to decode all of it
        # 100.
        variables = getattr(self._environment, "_data", self._environment)
        earlier = self._seen
        # pytest changes it all the time.
        earlier.pop(self._current_test, None)
        if self._current_test in variables:
            earlier[self._current_test] = variables[self._current_test]
        if self._declared != len(DECLARED):
            self._declared = len(DECLARED)
            for name in DECLARED:
                earlier.pop(self._name(name), None)
        if variables == earlier:
            return []
        self._seen = dict(variables)
        changed = []
        for name, value in variables.items():
            if earlier.get(name) != value and name != self._current_test:
                changed.append((os.fsdecode(name), os.fsdecode(value)))
        return changed


class Suspicion:
    """Tell whether texts show a sign of a secret, by all that the environment held."""

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
        together = strip_colours(BETWEEN_TEXTS.join(texts))
        if len(together) > _LONGEST:
            return False
        for word in self.words:
            if word in together:
                return False
        # Where something was cut, half of a secret may stand.
        if is_cut(together) or may_hold_key(together) or may_hold_login(together):
            return False
        lower = lower_case(together)
        if may_hold_signature(lower) or find_name_words(lower):
            return False
        if may_hold_command(together):
            return False
        return not load_tokens().find_literals(together)

    def see_environment(self) -> None:
        """Add the values of variables that were set or changed to what is looked for.

        They stay: a test may unset a variable before the text that quotes it is
        searched.
        """
        for name, value in self._environment.take_changed():
            secrets = find_url_passwords(value)
            if len(value) >= _SHORTEST_VALUE and may_be_secret_variable(name):
                secrets.append(value)
            if secrets:
                self.variables[name] = value
            for secret in secrets:
                self.words |= set(_telling_words(secret))


def find_url_passwords(text: str) -> list[str]:
    """Return what may be a password in a URL, each reading of it once.

    A password may have an `@` of its own, which should have been written as `%40`.
    """
    if "://" not in text:
        return []
    up_to_first = re.findall(r"://[^\s/:@]{0,100}:([^\s@]{1,400})@", text)
    up_to_last = re.findall(r"://[^\s/:@]{0,100}:([^\s/]{1,400})@", text)
    return list(dict.fromkeys(up_to_first + up_to_last))


def encode_base64_parts(raw: bytes) -> list[str]:
    """Return what stands in each text with the bytes in base64, behind others or alone.

    Three bytes make a group of four letters. Behind a user's name and a colon, say, the
    bytes may begin at any of three places in a group, and the letters at both ends may
    be those of others.
    """
    parts = []
    for before in range(3):
        encoded = b2a_base64(bytes(before) + raw)
        # A letter has six bits: the first one of ours alone, and the last.
        start = -(-before * 8 // 6)
        end = (before + len(raw)) * 8 // 6
        parts.append(encoded[start:end].decode())
    return parts


_SHORTEST_COPY: Final = 12
"""Characters of a value in a row that give it away if they are half of it, too."""


@lru_cache(maxsize=4_096)
def blocks_of(form: str) -> tuple[int, Mapping[int, str]]:
    """Return how many characters make a copy of a form, and its blocks by place.

    A copy may be changed at its start and end, so half of the form is one, but at least
    12 characters or all. Wherever it begins in the form, it has one of the blocks as a
    whole.
    """
    length = len(form)
    least = max(_SHORTEST_COPY, length // 2)
    if least >= length:
        return length, {0: form}
    size = (least + 1) // 2
    blocks = {}
    for place in range(0, length - size + 1, size):
        blocks[place] = form[place : place + size]
    return least, blocks


def _telling_words(value: str) -> Iterator[str]:
    """Yield parts of a value, of which each text that shows half of it has one.

    It may be quoted or encoded there. A word is empty, which stands in every text,
    where no part is long enough.
    """
    raw = value.encode("utf-8", "surrogateescape")
    digits = raw.hex()
    for form in (value, *encode_base64_parts(raw), digits, digits.upper()):
        _, blocks = blocks_of(form)
        for block in blocks.values():
            words = re.findall("[A-Za-z0-9_.~-]+", block)  # they are quoted nowhere
            word = max(
                words,
                key=len,
                default="",
            )[:_LONGEST_WORD]
            half = len(word) // 2
            if len(word) >= _SHORTEST_HALVED:  # a line may be broken in it
                yield word[:half]
                yield word[half:]
            elif len(word) >= _SHORTEST_WORD:
                yield word
            else:
                yield ""


# A token may also begin behind an escape (`\n` in a repr) or a percent code, whose last
# character is a letter or a digit.
START: Final = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrtbf])|(?<=%[0-9A-F][0-9A-F]))"
_LINE_END: Final = r"[A-Za-z0-9_.+/=~-]{0,400}+(?:\\{1,2}r|\r)?\\?\n"
_LETTERS_OF_JOINED: Final = 4
_MOST_PLAIN: Final = 10_000
_LONGEST_PLAIN: Final = 100
"""How many lines and words are remembered, and their characters: failures repeat
them."""


_TO_BLANKS: Final = re.sub("[^A-Za-z0-9]", " ", bytes(range(128)).decode())
_NO_WORD: Final = re.compile("[^A-Za-z0-9]")


class Tokens:
    """The packaged forms of tokens."""

    def __init__(self) -> None:
        table = json.loads(read_packaged("patterns.json"))
        self.table: dict[str, Any] = table
        """As it is packaged."""
        self.ids: dict[str, str] = {}
        """The ids of the tokens by their heads."""
        self._heads: dict[str, list[str]] = {}
        """The heads that begin with a word, by the word."""
        for form in table["tokens"]:
            for head in form["prefixes"]:
                self.ids[head] = form["id"]
                word = _NO_WORD.split(head, maxsplit=1)[0]
                self._heads.setdefault(word, []).append(head)
        self._begun = tuple([head for head in self.ids if head.isalnum()])
        """Heads behind which their word may go on."""
        self._shapes: dict[str, str] = {}
        self._inside: list[str] = []
        """Literals that stand inside of tokens; the others are their heads."""
        for shape in table["shapes"]:
            self._shapes[shape["regex"]] = shape["id"]
            self._inside += shape["literals"]
        self._plain_lines: set[str] = set()
        """Those in which no token stands or begins."""
        self._plain_words: set[str] = set()
        """Those with which no head begins."""

    @cached_property
    def forms(self) -> dict[str, str]:
        """Return an expression for the tokens that have a literal, by the literal."""
        by_head = {}
        for form in self.table["tokens"]:
            letters = f"[{form['alphabet']}]"
            most = form.get("most", "")
            rest = f"{letters}{{{form['least']},{most}}}+"
            if most:
                rest += f"(?!{letters})"
            for head in sorted(form["prefixes"], key=len):
                start = START
                # `of_ghp_…` is a token, too. Other heads are words or a letter or two.
                if len(head) >= _LETTERS_OF_JOINED and not form.get("alone"):
                    start = f"(?:{START}|(?<=[A-Za-z0-9]_))"
                by_head[head] = f"{start}{re.escape(head)}{rest}"
        # The longest heads first: `sk-ant-` is not a key of `sk-`.
        heads = sorted(
            sorted(by_head),
            key=len,
            reverse=True,
        )
        forms = {head: by_head[head] for head in heads}
        for shape in self.table["shapes"]:
            for literal in shape["literals"]:
                forms[literal] = f"{START}(?:{shape['regex']})"
        return forms

    def find_literals(self, text: str) -> list[str]:
        """Return the literals of the forms that may have a token in a text.

        One that a line was broken in begins with the last word of a line, also of one
        in a repr.
        """
        escaped = text.replace("\\n", "\n") if "\\" in text else text
        lines = set(escaped.replace(BETWEEN_TEXTS, "\n").split("\n"))
        lines -= self._plain_lines
        if not lines:
            return []
        together = "\n".join([*map(str.rstrip, lines), ""])
        literals = []
        for literal in self._select_literals(together):
            if literal in together and self._may_stand_in(together, literal):
                literals.append(literal)  # noqa: PERF401 - easier to read
        if not literals:
            _remember(lines, self._plain_lines)
            return []
        return [literal for literal in self.forms if literal in literals]

    def _select_literals(self, text: str) -> list[str]:
        """Return the literals that a text may have, by its words."""
        if "\\" in text or "%" in text:  # behind which a word may begin
            text = re.sub(r"\\[rtbf]|%[0-9A-F]{2}", r"\g<0> ", text)
        # In ASCII, as most texts are, to translate takes a third of an expression's
        # time.
        is_ascii = text.isascii()
        text = text.translate(_TO_BLANKS) if is_ascii else _NO_WORD.sub(" ", text)
        words = set(text.split()) - self._plain_words
        heads = self._heads
        telling = [
            word for word in words if word in heads or word.startswith(self._begun)
        ]
        words.difference_update(telling)
        _remember(words, self._plain_words)
        if not telling:
            return self._inside
        literals = [*self._inside, *self._begun]
        for word in telling:
            literals += heads.get(word, ())
        return list(dict.fromkeys(literals))

    def _may_stand_in(self, text: str, literal: str) -> bool:
        """Tell whether a text has a token with a literal, whole or broken by a line."""
        if self.compile_whole([literal]).search(text):
            return True
        if literal not in self.ids:
            return False
        return compile_tokens(START, [literal], _LINE_END).search(text) is not None

    def compile_whole(self, literals: Iterable[str]) -> re.Pattern[str]:
        """Return what finds the whole tokens of some forms."""
        forms = [form for literal, form in self.forms.items() if literal in literals]
        return re.compile("|".join(dict.fromkeys(forms)))

    def id_of(self, token: str) -> str:
        """Return the id of a token's longest head: `sk-ant-` is not a key of `sk-`."""
        for head in self.forms:
            if token.startswith(head) and head in self.ids:
                return self.ids[head]
        for shape, name in self._shapes.items():
            if re.fullmatch(shape, token):
                return name
        return "token"


@cache
def load_tokens() -> Tokens:
    """Return the packaged forms, which are read once."""
    return Tokens()


def _remember(texts: set[str], plain: set[str]) -> None:
    """Add short texts to those that are known to be plain, while there is room."""
    if len(plain) < _MOST_PLAIN:
        plain.update([text for text in texts if len(text) <= _LONGEST_PLAIN])


def compile_tokens(start: str, heads: Iterable[str], rest: str) -> re.Pattern[str]:
    """Return what finds tokens that begin with one of some heads."""
    alternatives = "|".join(map(re.escape, heads))
    return re.compile(f"{start}(?:{alternatives}){rest}")
