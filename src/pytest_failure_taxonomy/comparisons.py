"""Tell whether the two sides of a failed assertion differ only in ways that come and go.

Two dates around midnight and the elements of a set fail in one run and pass in the
next. Only values of Python's own types are looked into, so that no code of the user's
runs.
"""

from __future__ import annotations

import ast
import datetime as dt
import re
import reprlib
import sys
import warnings
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import suppress
from datetime import date, datetime, time, timedelta, timezone
from itertools import islice, zip_longest
from os.path import commonprefix
from typing import Any, Final, Literal

Difference = Literal["dates", "order", "other"]

_DAY: Final = timedelta(days=1)
_MAX_ELEMENTS: Final = 10_000
"""Elements of a collection, or characters of a text, that are compared."""
_MAX_DEPTH: Final = 10
_BEFORE_DIFFERENCE: Final = 8
"""Characters of two texts that are shown before the first in which they differ."""
_MAX_PARTS: Final = 100_000
"""Parts of a nested value, each as often as it is held."""
_MAX_WORDS: Final = 2_000
"""Characters of a printed comparison that are read."""
_ATOMS: Final = frozenset(
    {bool, bytes, complex, date, datetime, float, int, str, time, timedelta, type(None)}
)
_COLLECTIONS: Final = frozenset({dict, frozenset, list, set, tuple})
_TIMES: Final = frozenset({datetime, time})
_ZONES: Final = frozenset({type(None), timezone})
_ZONE_INFO: Final = "zoneinfo"
"""The module of the other type of time zones that runs no code of the user's: its
import takes a millisecond."""
_DATE_IN_TEXT: Final = (
    r"\d{4}-\d\d-\d\d"
    r"(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d)?)?"
)
_ORDERINGS: Final = frozenset({"<", "<=", ">", ">="})
_OPERATORS: Final = {
    ast.Eq: "==",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_MADE_BY: Final = frozenset({"date", "datetime", "time", "timedelta"})
"""Classes of `datetime` whose representation is a call."""
_OF_UNITTEST: Final = r"(?:\w{1,40} differ: )?"


def compare_sides(operator: str, left: object, right: object) -> Difference:
    """Tell in what the sides of a failed comparison differ.

    Args:
        operator: of the comparison, such as `==`.
        left: the one side.
        right: the other side.

    Returns:
        `dates` if in dates and times that are at most a day apart, `order` if in the
        order of elements (and in such dates), `other` for anything else.
    """
    if operator in _ORDERINGS:
        return "dates" if _are_near(left, right) else "other"
    if operator != "==" or not (_is_small(left) and _is_small(right)):
        return "other"
    seen = set(_differences(left, right, _MAX_DEPTH))
    if not seen or "other" in seen:
        return "other"
    return "order" if "order" in seen else "dates"


def compare_words(words: str) -> Difference:
    """Tell the same of a comparison that pytest or unittest has printed.

    Args:
        words: such as `assert [1] == [2]`, or `'a' != 'b'` as unittest says it.
    """
    line = words.partition("\n")[0]
    is_of_pytest = line.startswith("assert ")
    line = line.removeprefix("assert ")
    if not is_of_pytest:
        line = re.sub(rf"^{_OF_UNITTEST}", "", line)
    if not line or len(line) > _MAX_WORDS or " : " in line:
        line = line[:_MAX_WORDS].partition(" : ")[0]
    try:
        with warnings.catch_warnings(action="ignore"):
            comparison = ast.parse(line, mode="eval").body
        if not isinstance(comparison, ast.Compare) or len(comparison.ops) != 1:
            return "other"
        left = _evaluate(comparison.left)
        right = _evaluate(comparison.comparators[0])
    except (
        *(ValueError, TypeError, SyntaxError),
        *(ArithmeticError, MemoryError, RecursionError),
    ):
        return "other"
    kind = type(comparison.ops[0])
    operator = _OPERATORS.get(kind, "")
    if kind is ast.NotEq and not is_of_pytest:
        operator = "=="
    return compare_sides(operator, left, right)


def first_difference(left: object, right: object) -> str:
    """Return where two nested values differ first: `items[13].name: 'X', expected 'n13'`.

    Returns:
        Empty where that is not known: objects of the user's are not compared, and only so much
        of a big value is.
    """
    if not (_is_small(left) and _is_small(right)):
        return ""
    # Python writes no integer of thousands of digits, and `-bb` compares no text with bytes.
    with suppress(ValueError, BytesWarning):
        steps = islice(_contrasts(left, right, "", _MAX_DEPTH), _MAX_ELEMENTS)
        return next(filter(None, steps), "").lstrip(".: ")
    return ""


def _contrasts(left: Any, right: Any, path: str, depth: int) -> Iterator[str]:
    """Yield how two values differ, and nothing in words for each step of the search."""
    yield ""
    kind = type(left)
    if depth and kind is type(right) and kind in (dict, list, tuple):
        lefts, rights = (
            value if kind is dict else dict(enumerate(value[:_MAX_ELEMENTS]))
            for value in (left, right)
        )
        is_sequence = kind is not dict and not _are_atoms([*left, *right])
        if is_sequence or _have_same_keys(lefts, rights):
            for key, value in lefts.items():
                if key not in rights:
                    break
                place = f"{path}.{key}" if type(key) is str else f"{path}[{key!r}]"
                yield from _contrasts(value, rights[key], place, depth - 1)
            if len(left) != len(right):
                yield f"{path}: {len(left)} elements, expected {len(right)}"
            return
    words = "; ".join(_contrast(left, right))
    yield words and f"{path}: {words}"


def _contrast(left: Any, right: Any) -> Iterator[str]:
    """Say how two values differ; nothing if they are equal or it can't be told."""
    if type(left) is type(right) is str and left != right:
        yield _contrast_texts(left, right)
    elif _is_atom(left) and _is_atom(right):
        if left != right:
            yield f"{reprlib.repr(left)}, expected {reprlib.repr(right)}"
    elif {type(left)} == {type(right)} <= _COLLECTIONS and _are_atoms([*left, *right]):
        lefts, rights = Counter([*left]), Counter([*right])
        sides = {"missing": rights - lefts, "unexpected": lefts - rights}
        for word, names in sides.items():
            if names:
                yield f"{word} {reprlib.repr({*names})}"


def _contrast_texts(left: str, right: str) -> str:
    """Say how two texts differ, by the first line that does if both have several."""
    line = ""
    if "\n" in left and "\n" in right:
        lines = zip_longest(left.split("\n"), right.split("\n"), fillvalue="")
        differing = ((at, pair) for at, pair in enumerate(lines, 1) if len({*pair}) > 1)
        at, (left, right) = next(differing)
        line = f"line {at}: "
    # `reprlib` shows both ends of a text, between which the difference may be.
    start = 0
    if max(len(left), len(right)) > reprlib.aRepr.maxstring:
        same = len(commonprefix([left, right]))  # noqa: RUF071 - of texts, by character
        start = max(0, same - _BEFORE_DIFFERENCE)
    before = "…" if start else ""
    sides = (before + reprlib.repr(text[start:]) for text in (left, right))
    return f"{line}{', expected '.join(sides)}"


def _evaluate(node: ast.expr) -> object:
    """Return the value of a representation: a literal, or a date or time.

    Raises:
        ValueError: it is of anything else.
        TypeError: a date is made of something odd.
    """
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    name = ast.unparse(node.func).removeprefix("datetime.")
    if name not in _MADE_BY:
        raise ValueError(name)
    arguments = [ast.literal_eval(argument) for argument in node.args]
    named = {
        str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords
    }
    made: object = getattr(dt, name)(*arguments, **named)
    return made


def _differences(left: Any, right: Any, depth: int) -> Iterator[Difference]:
    """Yield the kinds of the differences of two values, in any order, any number of times."""
    if left is right:
        return
    if _are_near(left, right):
        if left != right:
            yield "dates"
        return
    kind = type(left)
    if kind is not type(right) or not depth:
        yield "other"
    elif kind is str:
        yield from _differences_of_texts(left, right)
    elif kind in (list, tuple):
        yield from _differences_of_sequences(left, right, depth)
    elif kind is dict and _have_same_keys(left, right):
        for key, value in left.items():
            yield from _differences(value, right[key], depth - 1)
    elif _freeze(left) != _freeze(right):
        yield "other"


def _is_small(value: Any) -> bool:
    """Tell whether a value can be compared: a list may hold itself fifty times."""
    left = _MAX_PARTS
    parts = [(value, _MAX_DEPTH)]
    while parts:
        part, depth = parts.pop()
        kind = type(part)
        if depth and kind in _COLLECTIONS:
            left -= 1 + len(part)
            if left < 0:
                return False
            held = part.values() if kind is dict else part
            parts += [(each, depth - 1) for each in held]
    return True


def _have_same_keys(left: dict[Any, Any], right: dict[Any, Any]) -> bool:
    """Tell whether two dictionaries have the same keys, all of types of Python's own."""
    return _are_atoms([*left, *right]) and left.keys() == right.keys()


def _are_atoms(values: list[Any]) -> bool:
    return len(values) <= _MAX_ELEMENTS and all(map(_is_atom, values))


def _differences_of_sequences(
    left: list[Any], right: list[Any], depth: int
) -> Iterator[Difference]:
    if len(left) != len(right) or len(left) > _MAX_ELEMENTS:
        yield "other"
        return
    lefts = [_freeze(element) for element in left]
    rights = [_freeze(element) for element in right]
    if lefts == rights:
        return
    if Counter(lefts) == Counter(rights):
        yield "order"
        return
    for one, other in zip(left, right, strict=True):
        yield from _differences(one, other, depth - 1)


def _differences_of_texts(left: str, right: str) -> Iterator[Difference]:
    if left == right:
        return
    if max(len(left), len(right)) > _MAX_ELEMENTS:
        yield "other"
        return
    lefts, rights = (re.findall(_DATE_IN_TEXT, text) for text in (left, right))
    is_same_else = re.split(_DATE_IN_TEXT, left) == re.split(_DATE_IN_TEXT, right)
    if lefts and is_same_else:
        for one, other in zip(lefts, rights, strict=True):
            yield "dates" if _are_near(_parse(one), _parse(other)) else "other"
        return
    # A set or a dictionary that was written out, or lines and fields that come from
    # one.
    is_list = any(separator in left for separator in ",\n;")
    is_alike = is_list and _parts(left) == _parts(right)
    if is_alike and not any(bracket in left for bracket in "[({"):
        # `x=1, y=2` and `x=2, y=1` have the same words, and other elements.
        is_alike = _elements(left) == _elements(right)
    yield "order" if is_alike else "other"


def _parts(text: str) -> tuple[Counter[str], Counter[str]]:
    """Return the words of a text, and what is between them."""
    return Counter(re.findall(r"\w+", text)), Counter(re.findall(r"\W+", text))


def _elements(text: str) -> Counter[str]:
    """Return what stands between the commas, semicolons and line ends of a text."""
    return Counter(element.strip() for element in re.split(r"[,;\n]", text))


def _parse(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _are_near(left: Any, right: Any) -> bool:
    """Tell whether two values are dates or times that are at most a day apart."""
    if not (_is_atom(left) and _is_atom(right)):
        return False
    kinds = {type(left), type(right)}
    if kinds == {time}:
        return True
    if kinds == {datetime}:
        if (left.tzinfo is None) != (right.tzinfo is None):
            left = left.replace(tzinfo=None)
            right = right.replace(tzinfo=None)
    elif kinds == {date, datetime}:
        left, right = (
            date(value.year, value.month, value.day) for value in (left, right)
        )
    elif kinds != {date}:
        return False
    return bool(abs(left - right) <= _DAY)


def _is_atom(value: Any) -> bool:
    """Tell whether a value can be compared and hashed without code of the user's."""
    kind = type(value)
    if kind not in _ATOMS or kind not in _TIMES:
        return kind in _ATOMS
    zone = type(value.tzinfo)
    if zone in _ZONES:
        return True
    module = sys.modules.get(_ZONE_INFO)
    return module is not None and zone is vars(module).get("ZoneInfo")


def _freeze(value: Any, depth: int = _MAX_DEPTH) -> Hashable:
    """Return a value that is equal for equal values of Python's types; objects are themselves."""
    kind = type(value)
    if _is_atom(value):
        return value  # type: ignore[no-any-return]
    if not depth:
        return kind, id(value)
    if kind in (list, tuple):
        return kind, tuple([_freeze(element, depth - 1) for element in value])
    if kind in (set, frozenset):
        return frozenset([_freeze(element, depth - 1) for element in value])
    if kind is dict:
        items = [
            (_freeze(key), _freeze(held, depth - 1)) for key, held in value.items()
        ]
        return kind, frozenset(items)
    return kind, id(value)
