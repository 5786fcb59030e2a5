"""Secrets beside their names: headers, assignments, options, names that were cut, markup, pairs.

Such as `<password>…</password>`, `name="csrf_token" value="…"`, `('password', '…')`, and
`machine example.org login me password …`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from pytest_failure_taxonomy.redaction import WORDS, grammar
from pytest_failure_taxonomy.redaction.marks import (
    Removal,
    Search,
    cuts,
    places,
    removal_of_group,
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

_ALONE: Final = frozenset(("pass=", "pwd", "pw", "auth"))
"""Words that are others' parts: `compass`, `author`."""

_LONGEST_JUDGED: Final = 400
"""Characters by which a value is judged. Without a limit, a line that is all names would take
quadratic time, because each match would reach to its end."""
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
        words: what `words_of_names` has found in it.
        search: removes what was found.
    """
    for word in words:
        for name, removal_of in _GRAMMARS.get(word, _BOTH):
            if name == "option" and "--" not in text and " -" not in text:
                continue
            found = _removals(text, lower, word, grammar(name), removal_of, search)
            changed = search.without(text, found)
            if changed is not text:
                text, lower = changed, lower_case(changed)
    return text


def _removals(
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
        if found := expression.match(text, place, limit):
            search.judge(place, found.end())
            if removal := removal_of(found):
                start, done = removal.start, removal.end
                # Every expression ends with its value.
                if found.end() == limit and (whole := expression.match(text, place)):
                    done = max(done, whole.end())
                yield Removal(start, done, removal.name, text[start:done])


def _of_header(found: re.Match[str]) -> Removal | None:
    value = found["value"].strip()
    if found["scheme"]:
        is_left = is_prose_of_header(value)
    elif (
        is_code(value)
        or value.startswith(("=", ":"))
        or not _LETTER_OR_DIGIT.search(value)
    ):
        is_left = True
    elif found["open"] is None:
        is_left = _is_no_header(found, value)
    else:
        is_left = _is_between_literals(found.string, *found.span("value"))
    if is_left or is_placeholder(value):
        return None
    return removal_of_group(found, "value", mark_id(found["name"]))


def _is_no_header(found: re.Match[str], value: str) -> bool:
    """Return whether a value without quotes and scheme is prose or code."""
    if found["sign"].strip(_AROUND_SIGN) != ":":
        return True
    is_cookie = found["name"].lower().startswith("cookie")
    if "=" not in value if is_cookie else " " in value:
        return True
    # Behind a quoted name is an expression: `'Authorization': auth}`.
    return not found["sign"].startswith(":") and _EXPRESSION.match(value) is not None


def _of_bearer(found: re.Match[str]) -> Removal | None:
    has_digit = any(character.isdigit() for character in found["value"])
    return removal_of_group(found, "value", "bearer") if has_digit else None


def _of_option(found: re.Match[str]) -> Removal | None:
    value = found["bare"]
    name = found["name"].lower()
    line = found.string[max(0, found.start() - 90) : found.start()]
    if grammar("option_start").search(line) is None or is_placeholder(value):
        return None
    if value.isupper() and value.lower().startswith(name[:4]):
        return None  # the placeholder of a usage line: `--token TOKEN`
    if found["sign"].isspace() and value.lower() in _BEHIND_AN_OPTION:
        return None
    if found["sign"][-1] in "\"'" and _is_between_literals(
        found.string, *found.span("bare")
    ):
        return None
    return removal_of_group(found, "bare", mark_id(name))


def _of_assignment(found: re.Match[str]) -> Removal | None:
    group = next(each for each in ("e", "s", "d", "bare") if found[each] is not None)
    start, end = found.span(group)
    if group in "sd" and _is_between_literals(found.string, start, end):
        return _of_joined_literal(found, found[group])
    value = found[group]
    if is_placeholder(value):
        return None
    name = found["name"].lower()
    is_left = is_ordinary_bare(found) if group == "bare" else is_too_little(name, value)
    return None if is_left else removal_of_group(found, group, mark_id(name))


def _of_joined_literal(found: re.Match[str], code: str) -> Removal | None:
    """Return the second literal of `"password=" + "value"`."""
    second = grammar("quoted").match(found.string, found.end())
    if (
        second is None
        or found["sign"] != "="
        or code.strip().rstrip("bfruBFRU").strip(" +")
    ):
        return None
    group = "s" if second["s"] is not None else "d"
    value = second[group]
    name = found["name"].lower()
    if not value or " " in value or is_placeholder(value) or is_too_little(name, value):
        return None
    return removal_of_group(second, group, mark_id(name))


_BOTH: Final = (("option", _of_option), ("assignment", _of_assignment))
_GRAMMARS: Final[Mapping[str, Sequence[tuple[str, _RemovalOf]]]] = {
    "auth": (("header", _of_header), *_BOTH),
    "cookie": (("header", _of_header),),
    "bearer": (("bearer", _of_bearer),),
    "pass": (),  # alone it is the name of something in a pair, and here of nothing
}
"""What is tried where a word stands; for all others it is both."""


def secrets_behind_cut_names(text: str, search: Search) -> Iterator[Removal]:
    """Yield what follows names of secrets that were cut: `{'Autho...f3xyz'}`."""
    done = 0
    for start, end in cuts(text):
        if start < done:
            continue
        before = max(done, start - _LONGEST_CUT_NAME)
        search.judge(before, end)
        if grammar("cut_name").search(text, before, start) and (
            value := _CUT_VALUE.match(text, end)
        ):
            done = value.end()
            yield Removal(end, done, "cut-field", "")


def _is_between_literals(text: str, start: int, end: int) -> bool:
    """Return whether what stands from `start` to `end` is code between two literals.

    In `"?password=" + password + "&x="` the quote behind the name closes the literal that holds
    the name. Both the code and the quotes before it must say so: prose has apostrophes.
    """
    if grammar("behind_a_literal").match(text, start, end) is None:
        return False
    quote = text[start - 1]
    if text[end : end + 1] == quote:
        before = max(start, end - _LONGEST_JOINT)
        if (
            text[start:end].strip()
            and grammar("before_a_literal").search(text, before, end) is None
        ):
            return False
    # The quote of the literal that ends there, if it is in one.
    before = start - 1
    earliest = max(0, before - _LONGEST_LINE)
    line_start = max(earliest, text.rfind("\n", earliest, before) + 1)
    literals = grammar("literals").match(text, line_start, before)
    return literals is not None and text[literals.end() : before][:1] == quote


# Markup, pairs and files of logins

_WORDS_OF_PROSE: Final = re.compile(r"[A-Za-z _.,:;!?-]*")
_ENDS_OF_NAMES: Final[Mapping[str, Sequence[str]]] = WORDS["ends_in_tuples"]
"""The ends of names in a tuple, by the word that is in them."""
_BRACKET: Final = re.compile(r"[<>{}\[\]()]")
_LONGEST_BETWEEN: Final = 400
"""Characters between the sign of a name and that of its value."""


def remove_pairs(text: str, lower: str, words: Collection[str], search: Search) -> str:
    """Return the text without the secrets that stand beside a name that is no assignment.

    Args:
        text: any text.
        lower: the same in lower case.
        words: which of the words that names of secrets have are in it.
        search: removes what was found.
    """
    for expression in _expressions_of_pairs(lower, words):
        text = search.without_matches(text, expression, _of_pair)
    return text


def _expressions_of_pairs(
    lower: str, words: Collection[str]
) -> Iterator[re.Pattern[str]]:
    """Yield what may find something: a search takes longer than looking for its signs."""
    if "</" in lower or "&lt;/" in lower:
        yield grammar("element")
    if _may_have_name_and_value(lower, words):
        yield grammar("name_then_value")
        yield grammar("value_then_name")
        if "type" in lower:
            yield grammar("type_then_value")
    if "'," in lower or '",' in lower:
        ends = [
            end
            for word, ends in _ENDS_OF_NAMES.items()
            if word in words
            for end in ends
        ]
        if any(f"{end}'," in lower or f'{end}",' in lower for end in ends):
            yield grammar("tuple")
    if "pass" in words and any(
        grammar("netrc").match(lower, at)
        for word in ("machine", "default")
        for at in places(lower, word)
    ):
        yield grammar("netrc")


def _may_have_name_and_value(lower: str, words: Collection[str]) -> bool:
    """Return whether a value has a secret's name before it, or is quoted and has it behind.

    Between the two there is no bracket, which source code is full of.
    """
    for at in (*places(lower, "value"), *places(lower, "content")):
        if not grammar("value_of").match(lower, at):
            continue
        before = _BRACKET.split(lower[max(0, at - _LONGEST_BETWEEN) : at])[-1]
        if any(word in before for word in words) and grammar("name_sign").search(
            before
        ):
            return True
        if quoted := grammar("quoted_value").match(lower, at):
            behind = lower[quoted.end() : quoted.end() + _LONGEST_BETWEEN]
            if any(word in behind for word in words):
                return True
    return False


def _of_pair(found: re.Match[str]) -> Removal | None:
    groups = found.groupdict()
    value = groups["value"] or groups.get("bare") or ""
    if is_placeholder(value) or not value.strip():
        return None
    if found.re is grammar("netrc"):
        is_none = not found["login"] and not looks_random(value)
        return None if is_none else removal_of_group(found, "value", "password")
    if (
        found.re is grammar("tuple")
        and _WORDS_OF_PROSE.fullmatch(value)
        and not looks_random(value)
    ):
        return None  # two words in brackets are names: `('password', 'email')`
    name = find_secret_key("password" if groups.get("type") else groups["name"]).lower()
    is_word = groups["value"] is None and is_code(value)
    if not name or is_word or is_too_little(name, value):
        return None
    return removal_of_group(
        found, "bare" if groups["value"] is None else "value", mark_id(name)
    )
