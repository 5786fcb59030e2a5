"""Remove secrets beside their names: headers, assignments, options, markup, pairs.

Such as `<password>…</password>`, `name="csrf_token" value="…"`, `('password', '…')`,
and `machine example.org login me password …`; also behind names that were cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from pytest_failure_taxonomy.redaction import WORDS, grammar
from pytest_failure_taxonomy.redaction.marks import (
    Removal,
    Search,
    find_cuts,
    find_places,
    make_removal,
)
from pytest_failure_taxonomy.redaction.names import (
    find_name,
    find_secret_key,
    lower_case,
    mark_id,
)
from pytest_failure_taxonomy.redaction.ordinary_values import (
    is_code,
    is_ordinary_bare,
    is_placeholder,
    is_prose_of_header,
    is_too_little,
    looks_random,
)

_ALONE: Final = frozenset(
    (
        "pass=",
        "pwd",
        "pw",
        "auth",
    )
)
"""Words that are others' parts: `compass`, `author`."""

_LONGEST_JUDGED: Final = 400
"""Characters by which a value is judged.

Without a limit, a line that is all names would take quadratic time, because each match
would reach to its end."""
_RemovalOf = Callable[[re.Match[str]], Removal | None]

_BEHIND_AN_OPTION: Final = frozenset(WORDS["behind_an_option"])
"""Words of a sentence about an option."""
_LETTER_OR_DIGIT: Final = re.compile(r"[^\W_]")
_EXPRESSION: Final = re.compile(r"(?:[A-Za-z_]+(?:\.[A-Za-z_]+)*|[0-9]{1,3})[(\[,)}\]]")
_AROUND_SIGN: Final = " \t\"'\\"

_LONGEST_LINE: Final = 400
"""Characters before a place in which the start of its line is looked for."""

_LONGEST_JOINT: Final = 40

_LONGEST_CUT_NAME: Final = 14
_CUT_VALUE: Final = re.compile(r"[^\s\"'(){}\[\]]{4,}+")


def remove_assignments(
    text: str, lower: str, words: Iterable[str], search: Search
) -> str:
    """Return the text without the secrets in headers, assignments and options.

    Args:
        text: any text.
        lower: the same in lower case.
        words: what `find_name_words` has found in it.
        search: removes what was found.
    """
    for word in words:
        for name, removal_of in _GRAMMARS.get(word, _BOTH):
            if name == "option" and "--" not in text and " -" not in text:
                continue
            removals = _find_removals(
                text, lower, word, grammar(name), removal_of, search
            )
            changed = search.remove(text, removals)
            if changed is not text:
                text = changed
                lower = lower_case(changed)
    return text


def _find_removals(
    text: str,
    lower: str,
    word: str,
    expression: re.Pattern[str],
    removal_of: _RemovalOf,
    search: Search,
) -> Iterator[Removal]:
    """Yield what the expression finds where the word stands, if it is a secret."""
    done = 0
    while (place := find_name(lower, word, done)) >= 0:
        done = place + len(word)
        if word in _ALONE and lower[place - 1 : place].isalnum():
            continue
        limit = place + _LONGEST_JUDGED
        match = expression.match(text, place, limit)
        if match is None:
            continue
        search.judge(place, match.end())
        removal = removal_of(match)
        if removal is None:
            continue
        done = removal.end
        if match.end() == limit:
            # Every expression ends with its value, which may be longer.
            whole = expression.match(text, place)
            if whole is not None:
                done = max(done, whole.end())
        secret = text[removal.start : done]
        yield removal._replace(end=done, secret=secret)


def _judge_header(match: re.Match[str]) -> Removal | None:
    if _is_no_credential(match) or is_placeholder(match["value"].strip()):
        return None
    return make_removal(match, "value", mark_id(match["name"]))


def _is_no_credential(match: re.Match[str]) -> bool:
    """Return whether the value of a header is prose or code."""
    value = match["value"].strip()
    if match["scheme"]:
        return is_prose_of_header(value)
    is_sign = value.startswith(("=", ":")) or not _LETTER_OR_DIGIT.search(value)
    if is_sign or is_code(value):
        return True
    if match["open"] is not None:
        return _is_between_literals(match, "value")
    # Without quotes and a scheme.
    is_cookie = match["name"].lower().startswith("cookie")
    is_prose = "=" not in value if is_cookie else " " in value
    if is_prose or match["sign"].strip(_AROUND_SIGN) != ":":
        return True
    # Behind a quoted name is an expression: `'Authorization': auth}`.
    is_quoted = not match["sign"].startswith(":")
    return is_quoted and _EXPRESSION.match(value) is not None


def _judge_bearer(match: re.Match[str]) -> Removal | None:
    if re.search(r"\d", match["value"]) is None:
        return None
    return make_removal(match, "value", "bearer")


def _judge_option(match: re.Match[str]) -> Removal | None:
    value = match["bare"]
    lower = value.lower()
    sign = match["sign"]
    name = match["name"].lower()
    start = match.start()
    line = match.string[max(0, start - 90) : start]
    if grammar("option_start").search(line) is None or is_placeholder(value):
        return None
    # The placeholder of a usage line: `--token TOKEN`.
    is_usage = value.isupper() and lower.startswith(name[:4])
    is_sentence = sign.isspace() and lower in _BEHIND_AN_OPTION
    if is_usage or is_sentence:
        return None
    if sign[-1] in "\"'" and _is_between_literals(match, "bare"):
        return None
    return make_removal(match, "bare", mark_id(name))


def _judge_assignment(match: re.Match[str]) -> Removal | None:
    group = _find_value_group(match)
    if group in ("s", "d") and _is_between_literals(match, group):
        return _judge_joined_literal(match, match[group])
    value = match[group]
    if is_placeholder(value):
        return None
    name = match["name"].lower()
    is_left = is_ordinary_bare(match) if group == "bare" else is_too_little(name, value)
    return None if is_left else make_removal(match, group, mark_id(name))


def _find_value_group(match: re.Match[str]) -> str:
    """Return the group of a literal's text, by its quotes, or of a value without."""
    for group in ("e", "s", "d"):
        if match[group] is not None:
            return group
    return "bare"


def _judge_joined_literal(match: re.Match[str], code: str) -> Removal | None:
    """Return the second literal of `"password=" + "value"`."""
    # A literal may have letters before it: `b"…"`.
    other_code = code.strip().rstrip("bfruBFRU").strip(" +")
    if match["sign"] != "=" or other_code:
        return None
    second = grammar("quoted").match(match.string, match.end())
    if second is None:
        return None
    group = "s" if second["s"] is not None else "d"
    value = second[group]
    name = match["name"].lower()
    if not value or " " in value or is_placeholder(value) or is_too_little(name, value):
        return None
    return make_removal(second, group, mark_id(name))


_BOTH: Final = (("option", _judge_option), ("assignment", _judge_assignment))
_GRAMMARS: Final[Mapping[str, Sequence[tuple[str, _RemovalOf]]]] = {
    "auth": (("header", _judge_header), *_BOTH),
    "cookie": (("header", _judge_header),),
    "bearer": (("bearer", _judge_bearer),),
    "pass": (),  # alone it is the name of something in a pair, and here of nothing
}
"""What is tried where a word stands; for all others it is both."""


def find_secrets_behind_cut_names(text: str, search: Search) -> Iterator[Removal]:
    """Yield what follows names of secrets that were cut: `{'Autho...f3xyz'}`."""
    done = 0
    for start, end in find_cuts(text):
        if start < done:
            continue
        before = max(done, start - _LONGEST_CUT_NAME)
        search.judge(before, end)
        if grammar("cut_name").search(text, before, start):
            value = _CUT_VALUE.match(text, end)
            if value is not None:
                done = value.end()
                yield Removal(end, done, "cut-field", "")


def _is_between_literals(match: re.Match[str], group: str) -> bool:
    """Return whether what a group has matched is code between two literals.

    In `"?password=" + password + "&x="` the quote behind the name closes the literal
    that holds the name. Both the code and the quotes before it must say so: prose has
    apostrophes.
    """
    text = match.string
    start, end = match.span(group)
    if grammar("behind_a_literal").match(text, start, end) is None:
        return False
    quote = text[start - 1]
    is_quoted = text[end : end + 1] == quote
    if is_quoted and text[start:end].strip():
        joint = max(start, end - _LONGEST_JOINT)
        if grammar("before_a_literal").search(text, joint, end) is None:
            return False
    # The quote of the literal that ends there, if it is in one.
    before = start - 1
    earliest = max(0, before - _LONGEST_LINE)
    line_start = max(earliest, text.rfind("\n", earliest, before) + 1)
    literals = grammar("literals").match(text, line_start, before)
    return literals is not None and text.startswith(quote, literals.end(), before)


# Markup, pairs and files of logins

_WORDS_OF_PROSE: Final = re.compile(r"[A-Za-z _.,:;!?-]*")
_ENDS_OF_NAMES: Final[Mapping[str, Sequence[str]]] = WORDS["ends_in_tuples"]
"""The ends of names in a tuple, by the word that is in them."""
_BRACKET: Final = re.compile(r"[<>{}\[\]()]")
_LONGEST_BETWEEN: Final = 400
"""Characters between the sign of a name and that of its value."""


def remove_pairs(text: str, lower: str, words: Collection[str], search: Search) -> str:
    """Return the text without the secrets beside a name that is no assignment.

    Args:
        text: any text.
        lower: the same in lower case.
        words: which of the words that names of secrets have are in it.
        search: removes what was found.
    """
    for expression in _choose_pair_expressions(lower, words):
        text = search.remove_matches(text, expression, _judge_pair)
    return text


def _choose_pair_expressions(
    lower: str, words: Collection[str]
) -> Iterator[re.Pattern[str]]:
    """Yield the expressions that may match: looking for their signs is faster."""
    if "</" in lower or "&lt;/" in lower:
        yield grammar("element")
    if _may_have_name_and_value(lower, words):
        yield grammar("name_then_value")
        yield grammar("value_then_name")
        if "type" in lower:
            yield grammar("type_then_value")
    if _may_have_tuple(lower, words):
        yield grammar("tuple")
    if "pass" in words:
        starts = [*find_places(lower, "machine"), *find_places(lower, "default")]
        if any(grammar("netrc").match(lower, start) for start in starts):
            yield grammar("netrc")


def _may_have_tuple(lower: str, words: Collection[str]) -> bool:
    """Return whether a quote and a comma follow the end of a name."""
    if "'," not in lower and '",' not in lower:
        return False
    for word, ends in _ENDS_OF_NAMES.items():
        if word in words:
            for end in ends:
                if f"{end}'," in lower or f'{end}",' in lower:
                    return True
    return False


def _may_have_name_and_value(lower: str, words: Collection[str]) -> bool:
    """Tell whether a secret's name stands before a value, or after a quoted one.

    Between the two there is no bracket, which source code is full of.
    """
    for start in (*find_places(lower, "value"), *find_places(lower, "content")):
        if not grammar("value_of").match(lower, start):
            continue
        before = lower[max(0, start - _LONGEST_BETWEEN) : start]
        before = _BRACKET.split(before)[-1]
        if _has_any(before, words) and grammar("name_sign").search(before):
            return True
        quoted = grammar("quoted_value").match(lower, start)
        if quoted:
            end = quoted.end()
            if _has_any(lower[end : end + _LONGEST_BETWEEN], words):
                return True
    return False


def _has_any(text: str, words: Collection[str]) -> bool:
    return any(word in text for word in words)


def _judge_pair(match: re.Match[str]) -> Removal | None:
    groups = match.groupdict()
    group = "bare" if groups["value"] is None else "value"
    value = groups[group]
    if is_placeholder(value):
        return None
    is_random = looks_random(value)
    if match.re is grammar("netrc"):
        if not match["login"] and not is_random:
            return None
        return make_removal(match, group, "password")
    is_in_brackets = match.re is grammar("tuple") and not is_random
    # Two words in brackets are names: `('password', 'email')`.
    if is_in_brackets and _WORDS_OF_PROSE.fullmatch(value):
        return None
    name = "password"
    if not groups.get("type"):
        name = find_secret_key(groups["name"]).lower()
    is_word = group == "bare" and is_code(value)
    if not name or is_word or is_too_little(name, value):
        return None
    return make_removal(match, group, mark_id(name))
