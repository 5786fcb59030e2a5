"""Secrets beside their names: headers, assignments, options, names that were cut, markup, pairs.

Such as `<password>…</password>`, `name="csrf_token" value="…"`, `('password', '…')`, and
`machine example.org login me password …`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from pytest_failure_taxonomy.redaction import WORDS
from pytest_failure_taxonomy.redaction.marks import Removal, Search, cuts, places, removal_of_group
from pytest_failure_taxonomy.redaction.names import find_name, find_secret_key, lower_case, mark_id
from pytest_failure_taxonomy.redaction.ordinary_values import (
    is_code,
    is_ordinary_bare,
    is_placeholder,
    is_prose_of_header,
    is_too_little,
    looks_random,
)

_ALONE: Final = frozenset(("pass=", "pwd", "auth"))
"""Words that are others' parts: `compass`, `author`."""

_UNMARKED: Final = r"(?!\[REDACTED:)"
_NAME: Final = (
    r"(?P<name>pass(?:word|wd|phrase)?|pwd|secret|token|credentials?|key|auth)[0-9]?(?![\w-])"
)

_QUOTE: Final = r"\\{0,2}[\"']"
# What is quoted may hold the other quote and escapes. Without an end on its line it was cut there.
_QUOTED: Final = (
    r"[bfru]{0,2}(?:\\{1,2}\"(?P<e>[^\"\\\n]++(?:\\(?!\")[^\"\n][^\"\\\n]*+)*+)"
    r"|(?:''(?='))?'(?P<s>[^'\\\n]*+(?:\\.[^'\\\n]*+)*+)"
    r"|(?:\"\"(?=\"))?\"(?P<d>[^\"\\\n]*+(?:\\.[^\"\\\n]*+)*+))"
)
_LITERAL: Final = re.compile(_QUOTED)
_BARE: Final = r"(?P<bare>[^\s\"'`,;&()\[\]{}<>|\\]++)"

_SIGN: Final = r"(?P<sign>={1,3}|:|=>|!=|,(?=[ ]?b[\"']))"
_ASSIGNMENT: Final = re.compile(
    rf"{_NAME}(?:{_QUOTE})?[\])]?[ \t]{{0,20}}+{_SIGN}[ \t]{{0,20}}+{_UNMARKED}"
    rf"(?:{_QUOTED}|{_BARE})",
    re.IGNORECASE | re.ASCII,
)
_OPTION: Final = re.compile(
    rf"{_NAME}(?P<sign>[\"'],[ \t\n]{{1,4}}[\"']|[ \t]{{1,4}}[\"']?|=[\"']?){_UNMARKED}"
    r"(?P<bare>(?!-)[^\s\"',\])]++)",
    re.IGNORECASE | re.ASCII,
)
_OPTION_START: Final = re.compile(r"(?:^|[\s\"'=\[(])--?(?:[a-z0-9]{1,20}-){0,4}$", re.IGNORECASE)
_HEADER: Final = re.compile(
    rf"(?P<name>authorization|cookie2?)(?P<sign>(?:{_QUOTE})?[ \t]{{0,4}}[:,=][ \t]{{0,4}})"
    r"(?P<open>[bfru]{0,2}\\{0,2}[\"'])?"
    r"(?P<scheme>(?:bearer|basic|digest|token|negotiate|ntlm|apikey|aws4-hmac-sha256)[ \t]{1,4})?"
    rf"{_UNMARKED}(?P<value>[^\"'\n\r\\]++(?:\\(?![rn\"'])[^\"'\n\r\\]*+)*+)",
    re.IGNORECASE | re.ASCII,
)
_BEARER: Final = re.compile(
    r"(?P<scheme>bearer[ \t]{1,4})(?P<value>[\w.~+/=-]{8,}+)", re.IGNORECASE | re.ASCII
)

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

# An escape outside of a literal is its quote in a repr, or none.
_LITERALS: Final = re.compile(
    r"(?:[^\"'\\]++|\\.?+|\"(?:[^\"\\]++|\\.)*+\"|'(?:[^'\\]++|\\.)*+')*+", re.DOTALL
)
"""Code with the literals in it that end; one that doesn't follows."""
_BEHIND_A_LITERAL: Final = re.compile(
    r"[ \t]*(?:[-+*%,)\]};:.]|[=!]=|(?:if|else|in|not|and|or|for|is|as)\b|\Z)"
)
_BEFORE_A_LITERAL: Final = re.compile(
    r"(?:[-+*%,(\[{:=<>|&]|\b(?:if|else|in|not|and|or|is|return))[ \t]*[bfru]{0,2}\Z",
    re.IGNORECASE,
)
_LONGEST_JOINT: Final = 40

_CUT_NAME: Final = re.compile(
    r"(?:auth[a-z]{0,9}|passw?[a-z]{0,4}|secr[a-z]{0,2}|toke?n?|cook[a-z]{0,2}|api[_-]?k[a-z]{0,2}"
    r"|bear[a-z]{0,2})\Z",
    re.IGNORECASE | re.ASCII,
)
_LONGEST_CUT_NAME: Final = 14
_CUT_VALUE: Final = re.compile(r"[^\s\"'(){}\[\]]{4,}+")


def remove_assignments(text: str, lower: str, words: Iterable[str], search: Search) -> str:
    """Return the text without the secrets in headers, assignments and options.

    Args:
        text: any text.
        lower: the same in lower case.
        words: what `words_of_names` has found in it.
        search: removes what was found.
    """
    for word in words:
        for expression, removal_of in _EXPRESSIONS.get(word, _BOTH):
            if expression is _OPTION and "--" not in text and " -" not in text:
                continue
            found = _removals(text, lower, word, expression, removal_of, search)
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
    elif is_code(value) or value.startswith(("=", ":")) or not _LETTER_OR_DIGIT.search(value):
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
    if _OPTION_START.search(line) is None or is_placeholder(value):
        return None
    if value.isupper() and value.lower().startswith(name[:4]):
        return None  # the placeholder of a usage line: `--token TOKEN`
    if found["sign"].isspace() and value.lower() in _BEHIND_AN_OPTION:
        return None
    if found["sign"][-1] in "\"'" and _is_between_literals(found.string, *found.span("bare")):
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
    second = _LITERAL.match(found.string, found.end())
    if second is None or found["sign"] != "=" or code.strip().rstrip("bfruBFRU").strip(" +"):
        return None
    group = "s" if second["s"] is not None else "d"
    value = second[group]
    name = found["name"].lower()
    if not value or " " in value or is_placeholder(value) or is_too_little(name, value):
        return None
    return removal_of_group(second, group, mark_id(name))


_BOTH: Final = ((_OPTION, _of_option), (_ASSIGNMENT, _of_assignment))
_EXPRESSIONS: Final[Mapping[str, Sequence[tuple[re.Pattern[str], _RemovalOf]]]] = {
    "auth": ((_HEADER, _of_header), *_BOTH),
    "cookie": ((_HEADER, _of_header),),
    "bearer": ((_BEARER, _of_bearer),),
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
        if _CUT_NAME.search(text, before, start) and (value := _CUT_VALUE.match(text, end)):
            done = value.end()
            yield Removal(end, done, "cut-field", "")


def _is_between_literals(text: str, start: int, end: int) -> bool:
    """Return whether what stands from `start` to `end` is code between two literals.

    In `"?password=" + password + "&x="` the quote behind the name closes the literal that holds
    the name. Both the code and the quotes before it must say so: prose has apostrophes.
    """
    if _BEHIND_A_LITERAL.match(text, start, end) is None:
        return False
    quote = text[start - 1]
    if text[end : end + 1] == quote:
        before = max(start, end - _LONGEST_JOINT)
        if text[start:end].strip() and _BEFORE_A_LITERAL.search(text, before, end) is None:
            return False
    # The quote of the literal that ends there, if it is in one.
    before = start - 1
    earliest = max(0, before - _LONGEST_LINE)
    line_start = max(earliest, text.rfind("\n", earliest, before) + 1)
    literals = _LITERALS.match(text, line_start, before)
    return literals is not None and text[literals.end() : before][:1] == quote


# Markup, pairs and files of logins

_NAME_IN_MARKUP: Final = r"(?P<name>[\w.:-]{2,100}+)"
_OPEN: Final = r"\\{0,2}[\"']"
_VALUE_IN_MARKUP: Final = rf"{_UNMARKED}(?P<value>[^\"'<>\n\\]{{1,2000}}+)"

_ELEMENT: Final = re.compile(
    rf"(?:<|&lt;){_NAME_IN_MARKUP}(?:\s[^<>\n]{{0,200}}?)?(?:>|&gt;)\s{{0,40}}"
    rf"{_UNMARKED}(?P<value>(?:(?!&lt;)[^<>\s]){{1,2000}}+)(?=\s{{0,40}}(?:</|&lt;/))",
    re.IGNORECASE | re.ASCII,
)
_NAME_OF: Final = (
    rf"(?:name|key|id|field|property|variable|header)(?:{_OPEN})?\s{{0,4}}[:=]\s{{0,4}}"
)
_VALUE_OF: Final = rf"(?:value|content)(?:{_OPEN})?\s{{0,4}}[:=]\s{{0,4}}"
# What may stand between the two: more attributes or entries, but no end of a tag or an object.
_BETWEEN: Final = r"[^<>{}\[\]()]{0,200}?"
_VALUE_SIGN: Final = re.compile(_VALUE_OF)
_QUOTED_VALUE: Final = re.compile(rf"{_VALUE_OF}{_OPEN}{_VALUE_IN_MARKUP}{_OPEN}[\s,;]")
_NAME_SIGN: Final = re.compile(rf"{_NAME_OF}|type\s?=")
_NAME_THEN_VALUE: Final = re.compile(
    rf"(?<![\w-]){_NAME_OF}(?:{_OPEN})?{_NAME_IN_MARKUP}(?:{_OPEN})?(?=[\s,;]){_BETWEEN}(?<![\w-]){_VALUE_OF}"
    rf"(?:{_OPEN}{_VALUE_IN_MARKUP}|{_UNMARKED}(?P<bare>[^\s\"'<>{{}},]{{1,2000}}+))",
    re.IGNORECASE | re.ASCII,
)
_VALUE_THEN_NAME: Final = re.compile(
    rf"(?<![\w-]){_VALUE_OF}{_OPEN}{_VALUE_IN_MARKUP}{_OPEN}(?=[\s,;]){_BETWEEN}"
    rf"(?<![\w-])(?:{_NAME_OF}{_OPEN}{_NAME_IN_MARKUP}|type\s?=\s?{_OPEN}(?P<type>password)){_OPEN}",
    re.IGNORECASE | re.ASCII,
)
_TYPE_THEN_VALUE: Final = re.compile(
    rf"(?<![\w-])(?P<type>type)\s?=\s?{_OPEN}password{_OPEN}(?=\s){_BETWEEN}(?<![\w-])"
    rf"value\s?=\s?{_OPEN}{_VALUE_IN_MARKUP}",
    re.IGNORECASE,
)
# A call has a name before its bracket: `get('password', 'x')` asks for one.
_TUPLE: Final = re.compile(
    rf"(?<![\w\])])[(\[]\s{{0,4}}[bru]?{_OPEN}{_NAME_IN_MARKUP}{_OPEN}\s?,\s{{0,4}}[bru]?{_OPEN}"
    rf"{_UNMARKED}(?P<value>[^\"'\n\\]{{1,2000}}+){_OPEN}\s{{0,4}},?\s{{0,4}}[)\]]",
    re.IGNORECASE | re.ASCII,
)
_NETRC: Final = re.compile(
    r"(?<![\w-])(?:machine\s{1,20}(?P<host>[^\s\"']{1,253})|default)\s{1,20}"
    rf"(?P<login>(?:(?:login|account|user)\s{{1,20}}[^\s\"']{{1,200}}\s{{1,20}}){{0,2}})"
    rf"(?P<name>password)\s{{1,20}}{_UNMARKED}(?P<value>[^\s\"'\\]{{1,400}}+)",
    re.ASCII,
)
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


def _expressions_of_pairs(lower: str, words: Collection[str]) -> Iterator[re.Pattern[str]]:
    """Yield what may find something: a search takes longer than looking for its signs."""
    if "</" in lower or "&lt;/" in lower:
        yield _ELEMENT
    if _may_have_name_and_value(lower, words):
        yield _NAME_THEN_VALUE
        yield _VALUE_THEN_NAME
        if "type" in lower:
            yield _TYPE_THEN_VALUE
    if "'," in lower or '",' in lower:
        ends = [end for word, ends in _ENDS_OF_NAMES.items() if word in words for end in ends]
        if any(f"{end}'," in lower or f'{end}",' in lower for end in ends):
            yield _TUPLE
    if "pass" in words and any(
        _NETRC.match(lower, at) for word in ("machine", "default") for at in places(lower, word)
    ):
        yield _NETRC


def _may_have_name_and_value(lower: str, words: Collection[str]) -> bool:
    """Return whether a value has a secret's name before it, or is quoted and has it behind.

    Between the two there is no bracket, which source code is full of.
    """
    for at in (*places(lower, "value"), *places(lower, "content")):
        if not _VALUE_SIGN.match(lower, at):
            continue
        before = _BRACKET.split(lower[max(0, at - _LONGEST_BETWEEN) : at])[-1]
        if any(word in before for word in words) and _NAME_SIGN.search(before):
            return True
        if quoted := _QUOTED_VALUE.match(lower, at):
            behind = lower[quoted.end() : quoted.end() + _LONGEST_BETWEEN]
            if any(word in behind for word in words):
                return True
    return False


def _of_pair(found: re.Match[str]) -> Removal | None:
    groups = found.groupdict()
    value = groups["value"] or groups.get("bare") or ""
    if is_placeholder(value) or not value.strip():
        return None
    if found.re is _NETRC:
        is_none = not found["login"] and not looks_random(value)
        return None if is_none else removal_of_group(found, "value", "password")
    if found.re is _TUPLE and _WORDS_OF_PROSE.fullmatch(value) and not looks_random(value):
        return None  # two words in brackets are names: `('password', 'email')`
    name = find_secret_key("password" if groups.get("type") else groups["name"]).lower()
    is_word = groups["value"] is None and is_code(value)
    if not name or is_word or is_too_little(name, value):
        return None
    return removal_of_group(found, "bare" if groups["value"] is None else "value", mark_id(name))
