"""Remove secrets from texts, and count them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

from pytest_failure_taxonomy.redaction import (
    MARK_START,
    grammar,
    is_cut,
    marks,
    named_secrets,
    names,
    signs,
    strip_colours,
)
from pytest_failure_taxonomy.redaction.known_values import (
    KnownValues,
    LearntValues,
    secret_values,
)
from pytest_failure_taxonomy.redaction.ordinary_values import (
    is_of_chance,
    is_placeholder,
    looks_random,
)
from pytest_failure_taxonomy.redaction.user_patterns import UserPattern

SECONDS_PER_TEXT: Final = 1.0
"""CPU time that a pattern of the user's may take for one text. Most take a thousandth
of that."""
SECONDS_PER_RUN: Final = 10.0
"""CPU time that it may take for all texts of a run."""

_MOST_OF_ENVIRONMENT: Final = 400
"""Secret values that environments hold or have held since the first text."""
_MOST_PASSES: Final = 4
"""What was removed can bring two texts together that make a further secret."""


_BETWEEN_TEXTS: Final = "\n\0\n"
"""With it around, a text looks to the search as it does by itself."""


class Redactor:
    """Removes secrets, by their form, their name, the environment and user patterns.

    Args:
        extra_patterns: the user's regular expressions, already checked by
            `check_patterns`.
        environment: where the secret values are; `os.environ` as it is at each text by
            default.

    Attributes:
        counts: how many secrets were removed, by the id in their marks.
    """

    def __init__(
        self,
        extra_patterns: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.counts: dict[str, int] = {}
        self._variables = signs.ChangingVariables(environment)
        self._environment = KnownValues(_MOST_OF_ENVIRONMENT)
        self._learnt = LearntValues()
        self._patterns = [
            _RedactionPattern(f"pattern-{number}", pattern)
            for number, pattern in enumerate(extra_patterns, start=1)
        ]

    def redact(self, text: str) -> str:
        """Return the text with a mark, `[REDACTED:github-token]`, for each secret.

        A value that was removed once is removed from all later texts, too, without its
        name beside it. A text that can't be searched, for whatever cause, is replaced
        as a whole. One with a secret that the codes of colours hide loses these codes.
        """
        plain = strip_colours(text)
        if plain != text:
            # The colours stay unless they hid a secret.
            uncoloured = self._redact(plain)
            if uncoloured != plain:
                return uncoloured
        return self._redact(text)

    def _redact(self, text: str) -> str:
        try:
            # A removal can join two halves of another secret, so search until nothing
            # changes.
            for _ in range(_MOST_PASSES):
                redacted = self._remove_known_forms(text, self._note)
                for pattern in self._patterns:
                    redacted = pattern.remove(redacted, self._note)
                if redacted == text:
                    break
                text = redacted
        except Exception:  # noqa: BLE001 - a secret must not get out of a bug
            return self._note("unsearchable")
        return text

    def holds_none(self, texts: Sequence[str]) -> bool:
        """Tell whether one search of all the texts finds nothing, and count nothing.

        The user's own patterns are left out: they may look at where a text begins or
        ends.
        """
        together = strip_colours(_BETWEEN_TEXTS.join(texts))
        return self._remove_known_forms(together, _mark) == together

    def redact_json(self, value: Any) -> Any:
        """Return the JSON value with every text in it redacted, keys included.

        Under a key that says so (`password`, `api_key`) any text or number is a secret.
        A value without secrets is returned itself.
        """
        if not self._patterns and isinstance(value, dict | list):
            texts: dict[str, bool | None] = {}
            try:  # one search of all texts is enough where it finds nothing
                if _add_texts(value, texts) and self.holds_none(list(texts)):
                    return value
            except Exception:  # noqa: BLE001, S110 - then each text is searched alone
                pass
        return self._redact_each(value)

    def _redact_each(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, list):
            return [self._redact_each(part) for part in value]
        if not isinstance(value, dict):
            return value
        redacted = {}
        for key, part in value.items():
            shown = self.redact(key)
            if _may_be_secret(part) and names.find_secret_key(key):
                redacted[shown] = self._note("field", str(part))
            else:
                redacted[shown] = self._redact_each(part)
        return redacted

    @property
    def known(self) -> int:
        """How many values, of the environment or learnt, are known; never gets less."""
        return self._environment.count + self._learnt.count

    def see_environment(self) -> None:
        """Know the secret values that the environment holds now."""
        if changed := self._variables.take_changed():
            self.know(changed)

    def know(self, variables: Iterable[tuple[str, str]]) -> None:
        """Know the secret values of variables, of this process or another one."""
        for name, text in variables:
            secrets = secret_values(name, text)
            self._environment.add([(f"env:{name}", secret) for secret in secrets])

    def learn(self, name: str, secret: str) -> None:
        """Know a value that its place has given away, unless it is an ordinary word."""
        self._learnt.learn(name, secret)

    def take_new(self) -> list[str]:
        """Return all forms of the values that have become known since the last call."""
        return [*self._environment.take_new(), *self._learnt.take_new()]

    def matches_of_user(self, text: str) -> bool:
        """Tell whether a pattern of the user's matches in a text, or its time is up."""
        return any(pattern.is_found(text) for pattern in self._patterns)

    def _remove_known_forms(self, text: str, note: marks.Note) -> str:
        """Return the text without the secrets that one pass finds by itself.

        The user's patterns are not asked. Values of the environment go first: their
        mark names the variable, whatever form they have. What was learnt goes last, so
        that a mark says what stood there.
        """
        cut = is_cut(text)
        search = marks.Search(note)
        self.see_environment()
        if self._environment.count:
            text = self._environment.remove(text, search, cut=cut)
        if signs.may_hold_key(text):
            text = remove_private_keys(text, note)
        text = remove_tokens(text, search, cut=cut)
        if signs.may_hold_login(text):
            for name, removal_of in _LOGINS:
                text = search.remove_matches(text, grammar(name), removal_of)
        lower = names.lower_case(text)
        if signs.may_hold_signature(lower):
            text = search.remove_matches(text, grammar("signature"), _judge_signature)
            lower = names.lower_case(text)
        words = names.find_name_words(lower)
        if words:
            text = named_secrets.remove_pairs(text, lower, words, search)
            lower = names.lower_case(text)
            text = named_secrets.remove_assignments(text, lower, words, search)
        if names.may_hold_command(text):
            text = search.remove(text, names.find_command_secrets(text, search))
        if cut:
            removals = named_secrets.find_secrets_behind_cut_names(text, search)
            text = search.remove(text, removals)
        if self._learnt.count:
            text = self._learnt.remove(text, search, cut=cut)
        return text

    def _note(self, name: str, removed: str = "", /) -> str:
        if removed.startswith(MARK_START) and marks.MARK.fullmatch(removed):
            return removed  # what stands beside a name has been removed already
        self.counts[name] = self.counts.get(name, 0) + 1
        if removed:
            self._learnt.learn(name, removed)
        return _mark(name)


class _RedactionPattern:
    """A pattern of the user's; its first group, if it has one, is what goes."""

    def __init__(self, name: str, pattern: str) -> None:
        self._name = name
        self._pattern = UserPattern(pattern)
        compiled = self._pattern.compiled
        # The first group that has a name, or the first of all, or all of the match.
        self._group: int | str = next(
            iter(compiled.groupindex), min(1, compiled.groups)
        )

    def is_found(self, text: str) -> bool:
        spans, is_whole = self._search(text)
        return bool(spans) or not is_whole

    def remove(self, text: str, note: marks.Note) -> str:
        """Return the text without what the pattern matches; marks in it stay whole."""
        # The group makes every second part a mark, which stays as it is.
        parts = re.split(f"({marks.MARK.pattern})", text)
        for index in range(0, len(parts), 2):
            if parts[index]:
                parts[index] = self._remove_matches(parts[index], note)
        return "".join(parts)

    def _remove_matches(self, text: str, note: marks.Note) -> str:
        """Return the text up to where it could be searched, without what was found."""
        parts = []
        position = 0
        spans, is_whole = self._search(text)
        for start, end in spans:
            if start >= position and end > start:
                secret = text[start:end]
                parts += [text[position:start], note(self._name, secret)]
                position = end
        if is_whole:
            parts.append(text[position:])
        else:
            note(self._name)
            name = self._name.replace("-", " ")
            parts.append(f"[REDACTED: {name} took too long]")
        return "".join(parts)

    def _search(self, text: str) -> tuple[list[tuple[int, int]], bool]:
        """Return the spans of what goes, and whether all of the text was searched."""
        left_seconds = SECONDS_PER_RUN - self._pattern.seconds_used
        limit_seconds = min(SECONDS_PER_TEXT, left_seconds)
        spans = []
        try:
            for match in self._pattern.matches(text, limit_seconds):
                group = self._group
                if match.start(group) < 0:  # the group took no part in the match
                    group = 0
                spans.append(match.span(group))
        except TimeoutError:
            # What was found before the time was up counts.
            return spans, False
        return spans, True


def check_patterns(patterns: Sequence[str]) -> list[str]:
    """Return the problems of the user's patterns, one sentence each, in order."""
    problems = []
    for pattern in patterns:
        try:
            is_too_wide = any(UserPattern(pattern).matches("", SECONDS_PER_TEXT))
        except (OverflowError, RecursionError) as error:
            problem = "is too much for a regular expression"
            problem = f"{problem}: {error}; write a simpler one"
        except (re.error, ValueError, TimeoutError) as error:
            problem = "is no regular expression"
            problem = f"{problem}: {error}; special characters need a backslash"
        else:
            if not is_too_wide:
                continue
            problem = "matches the empty text"
            problem = f"{problem}; it must name at least one character to remove"
        problems.append(f"{pattern!r}: {problem}")
    return problems


def _may_be_secret(value: Any) -> bool:
    """Return whether a JSON value under the key of a secret is one."""
    if isinstance(value, str):
        return value != "" and not value.startswith(MARK_START)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _add_texts(value: Any, texts: dict[str, bool | None]) -> bool:
    """Add all texts of a JSON value to the keys of a dict, each once.

    Those that are keys of the value are mapped to whether they say that they stand for
    a secret.

    Returns:
        False for a value that has a secret under a key that says so, or a key that is
        no text.
    """
    if isinstance(value, str):
        texts.setdefault(value)
    elif isinstance(value, dict):
        for key, part in value.items():
            if not isinstance(key, str):
                return False
            says_so = texts.get(key)
            if says_so is None:
                says_so = texts[key] = bool(names.find_secret_key(key))
            if (says_so and _may_be_secret(part)) or not _add_texts(part, texts):
                return False
    elif isinstance(value, list):
        for part in value:
            if not _add_texts(part, texts):
                return False
    return True


def _mark(name: str, _: str = "", /) -> str:
    return f"{MARK_START}{name}]"


# Tokens

# No token begins inside of such a run. So each run is read once, however many heads it
# has.
_START_OF_RUN: Final = r"(?:(?<![A-Za-z0-9_.-])|(?<=\\[nrtbf])|(?<=%[0-9A-F][0-9A-F]))"
_RUN: Final = r"(?:[A-Za-z0-9_-]|[.](?![.][.])){0,400}+"
_SHORTEST_REST: Final = 4
_LETTERS_OF_HEAD: Final = 3
"""Two letters before a cut are no sign of a token."""


def remove_tokens(text: str, search: marks.Search, *, cut: bool) -> str:
    """Return the text without the tokens in it.

    Args:
        text: any text.
        search: removes what was found.
        cut: whether the text has places where something was cut out, perhaps of a
            token.
    """
    tokens = signs.load_tokens()
    literals = tokens.find_literals(text)
    heads = [literal for literal in literals if literal in tokens.ids]
    if heads:
        rest = grammar("wrapped_token").pattern
        wrapped = signs.compile_tokens(signs.START, heads, rest)
        text = search.remove_matches(text, wrapped, _judge_wrapped_token)
    if literals:
        text = search.remove_matches(
            text, tokens.compile_whole(literals), _judge_whole_token
        )
    if not cut:
        return text
    heads = []
    for head in tokens.ids:
        if len(head) >= _LETTERS_OF_HEAD and head in text:
            heads.append(head)
    if heads:
        rest = rf"{_RUN}{marks.CUT}[A-Za-z0-9_.+/=~-]*+"
        expression = signs.compile_tokens(_START_OF_RUN, heads, rest)
        text = search.remove_matches(text, expression, _judge_cut_token)
    return text


def _judge_whole_token(match: re.Match[str]) -> marks.Removal:
    token = match.group()
    name = signs.load_tokens().id_of(token)
    return marks.Removal(*match.span(), name, token)


def _judge_cut_token(match: re.Match[str]) -> marks.Removal:
    # Nobody knows what was cut out of it.
    return _judge_whole_token(match)._replace(secret="")


def _judge_wrapped_token(match: re.Match[str]) -> marks.Removal | None:
    """Remove a token that lines were broken in: as far as its parts belong to it."""
    tokens = signs.load_tokens()
    text = match.group()
    line_break = grammar("line_break_of_token")
    joined = line_break.sub("", text)
    form = tokens.compile_whole(
        [literal for literal in tokens.forms if literal in joined]
    )
    breaks = list(line_break.finditer(text))
    part_ends = [before.start() for before in breaks[1:]]
    token = text[: breaks[0].start()]
    end = 0
    for before, part_end in zip(breaks, [*part_ends, len(text)], strict=True):
        part = text[before.end() : part_end]
        whole = form.match(token + part)
        taken = whole.end() - len(token) if whole else 0
        if taken <= 0:
            break
        # What begins a line belongs to the token that ended the one before, if it is
        # like one.
        is_like_one = len(part) >= _SHORTEST_REST and looks_random(part)
        if form.fullmatch(token) and not is_like_one:
            break
        token += part[:taken]
        end = before.end() + taken
        if taken < len(part):
            break
    if end == 0 or form.fullmatch(token) is None:
        return None
    start = match.start()
    return marks.Removal(start, start + end, tokens.id_of(token), token)


# URLs

_SHORTEST_SIGNATURE: Final = 16
"""Shorter ones may be words, and go only if they look random."""
_NAME_WITH_NUMBER: Final = re.compile(r"(?P<name>[A-Za-z._-]+)[0-9]{0,4}")
_PART_OF_NAME: Final = re.compile(r"[A-Za-z]+")
_SHORTEST_AVERAGE_OF_NAMES: Final = 3.5
"""Letters of the words of a name such as `DeployBotOfShop`."""
_SHORTEST_ALONE: Final = 16
"""Letters and digits of a token in the place of a user: shorter ones are names."""


def _judge_signature(match: re.Match[str]) -> marks.Removal | None:
    value = match["value"]
    if len(value) < _SHORTEST_SIGNATURE and not looks_random(value):
        return None
    return marks.make_removal(match, "value", "signature")


def _judge_password(match: re.Match[str]) -> marks.Removal | None:
    if is_placeholder(match["value"]):
        return None
    return marks.make_removal(match, "value", "url-password")


def _judge_user(match: re.Match[str]) -> marks.Removal | None:
    """Remove a user that is a token: it looks random, and is too long for a name."""
    value = match["value"]
    has_no_password = match.string[match.end()] == ":"
    shortest = 8 if has_no_password else _SHORTEST_ALONE
    if len(value) < shortest or "@" in unquote(value) or is_placeholder(value):
        return None
    name = _NAME_WITH_NUMBER.fullmatch(value)
    if name is None:
        is_token = looks_random(value)
    else:
        words = _PART_OF_NAME.findall(name["name"])
        is_token = any(is_of_chance(word, _SHORTEST_AVERAGE_OF_NAMES) for word in words)
    return marks.make_removal(match, "value", "url-token") if is_token else None


# Private keys

_BEGIN_OF_KEY: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
)
_END_OF_KEY: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_LONGEST_KEY: Final = 30_000
"""Characters between the start of a key and its end; an RSA key of 16,384 bits has
13,000."""

_OF_A_KEY: Final = (
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/= \t\r\n\\"
)


_LOGINS: Final = (
    ("url_password", _judge_password),
    ("url_password_with_slash", _judge_password),
    ("url_user", _judge_user),
)


def remove_private_keys(text: str, note: marks.Note) -> str:
    """Return the text without the private keys in it."""
    parts = []
    position = 0
    # Both are searched once, so that a text with a million starts takes linear time.
    begins = [begin.span() for begin in _BEGIN_OF_KEY.finditer(text)]
    ends = _END_OF_KEY.finditer(text)
    end = next(ends, None)
    for index, (start, after) in enumerate(begins):
        if start < position:
            continue
        while end is not None and end.start() < after:
            end = next(ends, None)
        limit = after + _LONGEST_KEY
        if index + 1 < len(begins):
            limit = min(limit, begins[index + 1][0])
        before = _remove_rest_of_key(text[position:start], note)
        lines = grammar("lines_of_key").match(text, after)
        position = after
        if end is not None and end.start() < limit:
            position = end.end()
        elif lines is not None:
            position = lines.end()
        parts += [before, note("private-key", text[after:position])]
    parts.append(_remove_rest_of_key(text[position:], note))
    return "".join(parts)


def _remove_rest_of_key(text: str, note: marks.Note) -> str:
    """Remove what stands before an end whose start was cut away."""
    parts = []
    position = 0
    for end in _END_OF_KEY.finditer(text):
        earliest = max(position, end.start() - _LONGEST_KEY)
        head = text[earliest : end.start()]
        rest = head.rstrip(_OF_A_KEY)
        start = earliest + len(rest)
        if rest and not rest.endswith(("...", "…", "]")):
            # Something else stands before; only whole lines of base64 are a key's.
            lines = _LINES_OF_BASE64.search(text, start, end.start())
            start = lines.start() if lines else end.start()
        parts += [text[position:start], note("private-key")]
        position = end.end()
    parts.append(text[position:])
    return "".join(parts)


_LINES_OF_BASE64: Final = re.compile(r"[A-Za-z0-9+/=]{40,}")
