"""Turn JSON from an untrusted file into values, checked by the annotations of their classes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pytest_failure_taxonomy.taxonomy.evidence import (
    Attribution,
    Location,
    RaisingFrame,
    RunContext,
    TestFailure,
    WorkerEnd,
)
from pytest_failure_taxonomy.taxonomy.mismatch import CollectionMismatch
from pytest_failure_taxonomy.taxonomy.reasons import KIND_PATTERN
from pytest_failure_taxonomy.taxonomy.user_rules import Rule

T = TypeVar("T")

_Parser = Callable[[Any], Any]

_MOST: Final = 1 << 63
"""Larger than any number in a record; the largest are times in ns."""

_WORDS: Final[dict[Any, str]] = {
    NoneType: "null",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
}

_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z")


def _is_time(text: str) -> bool:
    with suppress(ValueError):
        return _TIME.fullmatch(text) is not None and bool(datetime.fromisoformat(text))
    return False


def _is_kind(text: str) -> bool:
    return re.fullmatch(KIND_PATTERN, text) is not None and not text.endswith("\n")


_SOUND: Final[dict[type, Callable[[Any], bool]]] = {
    Attribution: lambda one: _is_kind(one.kind),
    CollectionMismatch: lambda one: bool(one.workers and one.variants),
    Location: lambda one: one.line is None or one.line >= 1,
    Rule: lambda one: _is_kind(one.kind),
    RaisingFrame: lambda one: one.line is None or one.line >= 1,
    RunContext: lambda one: _is_time(one.started_at),
    TestFailure: lambda one: one.attempts >= 1 and (one.duration_seconds or 0) >= 0,
    WorkerEnd: lambda one: one.tests >= 0 and (one.peak_rss_bytes or 0) >= 0,
}
"""Checks that annotations can't express."""


class ParseError(ValueError):
    """JSON does not match the annotations of a class."""


def parse(kind: Callable[..., T], sent: Any, *, ignores_unknown: bool = False) -> T:
    """Return a value of a class.

    Args:
        kind: a class that `taxonomy.values.value` has made.
        sent: anything that `json.loads` returns.
        ignores_unknown: ignore fields that the class does not have.

    Raises:
        ParseError: if `sent` does not match the class; the message says where and why.
    """
    if ignores_unknown and isinstance(sent, dict):
        names = frozenset(_hints(kind))
        sent = {name: each for name, each in sent.items() if name in names}
    parsed: T = _parser(kind)(sent)
    return parsed


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


@cache
def _parser(kind: Any) -> _Parser:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        parsers = [_parser(each) for each in arguments if each is not NoneType]
        return partial(_parse_either, parsers, NoneType in arguments)
    if origin is Literal:
        return partial(_parse_word, arguments)
    if origin is tuple:
        return partial(_parse_list, _parser(arguments[0]))
    if kind in _WORDS:
        return partial(_parse_plain, kind)
    if issubclass(kind, Enum):
        return partial(_parse_member, kind)
    return partial(_parse_value, kind, {name: _parser(hint) for name, hint in _hints(kind).items()})


def _parse_plain(kind: type, sent: Any) -> Any:
    if kind is float and type(sent) in (int, float):
        if abs(sent) < _MOST and math.isfinite(sent):
            return sent
    elif kind is int and type(sent) is int:
        if -_MOST <= sent < _MOST:
            return sent
    elif type(sent) is kind:
        return sent
    raise ParseError(f"is not {_WORDS[kind]}")


def _parse_either(parsers: list[_Parser], has_none: bool, sent: Any) -> Any:  # noqa: FBT001 - by position
    if sent is None and has_none:
        return None
    for parser in parsers[:-1]:
        try:
            return parser(sent)
        except ParseError:
            pass
    return parsers[-1](sent)


def _parse_word(words: tuple[Any, ...], sent: Any) -> Any:
    if isinstance(sent, str) and sent in words:
        return sent
    raise ParseError(f"is none of {', '.join(words)}")


def _parse_list(parser: _Parser, sent: Any) -> Any:
    if not isinstance(sent, list):
        raise ParseError("is not a list")
    return tuple(map(parser, sent))


def _parse_member(kind: type[Enum], sent: Any) -> Any:
    try:
        return kind(sent)
    except (ValueError, TypeError):
        raise ParseError(f"is no {kind.__name__}") from None


def _parse_value(kind: Any, parsers: dict[str, _Parser], sent: Any) -> Any:
    if not isinstance(sent, dict):
        raise ParseError("is not an object")
    fields = {}
    for name, each in sent.items():
        if name not in parsers:
            raise ParseError("has a field that is unknown")
        try:
            fields[name] = parsers[name](each)
        except ParseError as error:
            raise ParseError(_within(name, str(error))) from None
    try:
        made = kind(**fields)
    except TypeError as error:
        raise ParseError(f"lacks something ({error})") from None
    if not _SOUND.get(kind, bool)(made):
        raise ParseError("has a field that is out of its range")
    return made


def _within(name: str, words: str) -> str:
    """Put the name of a field before a message, with a dot if the message begins with a field."""
    return f"{name} {words}" if words.startswith(("is ", "has ", "lacks ")) else f"{name}.{words}"
