"""JSON to frozen values and back, by the annotations of their classes.

Records and reports may be damaged or forged, and are read by this one parser. It reports
all problems of a document at once, each with its path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from functools import partial
from operator import attrgetter
from types import MappingProxyType, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pytest_failure_taxonomy.system.interpreter import isolate_module
from pytest_failure_taxonomy.taxonomy.values import (
    DATE_TIME,
    Bounds,
    Pattern,
    defaults_of,
)

json = isolate_module(json)
T = TypeVar("T")

Path = tuple[str | int, ...]
Fields = Mapping[type, Sequence[str]]
_Parser = Callable[[Any], Any]
_Layout = tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]

_MOST: Final = 1 << 63
"""Bigger than any number of ours; the biggest are times in ns."""

_PLAIN: Final[Mapping[Any, tuple[str, Callable[[Any], bool]]]] = {
    bool: ("true or false", lambda sent: type(sent) is bool),
    int: ("a whole number", lambda sent: type(sent) is int and -_MOST <= sent < _MOST),
    str: ("a text", lambda sent: type(sent) is str),
}
"""The names of plain values, and how to recognise them."""


class Problem(NamedTuple):
    """What is wrong at one place of a document."""

    path: Path
    words: str
    """Such as `is not a text`."""
    sent: Any
    """What stands there."""


class DecodeError(ValueError):
    """A document does not match the annotations of a class."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Take all problems, in the order of the class."""
        first = problems[0]
        super().__init__(f"{'.'.join(map(str, first.path))} {first.words}".lstrip())
        self.problems = problems

    def within(self, name: str | int) -> list[Problem]:
        """Return the problems as those of what holds the document as a part."""
        return [
            problem._replace(path=(name, *problem.path)) for problem in self.problems
        ]


class Codec:
    """Read and write the values of one format."""

    def __init__(
        self,
        *,
        published: Fields,
        optional: Fields | None,
        biggest: float,
        keys: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Remember how the format differs from the classes.

        Args:
            published: the fields, in their order, of classes of which the format has not
                all; the others have to have a default.
            optional: fields that may be missing; `None` for all that have a default.
            biggest: any number that is no whole one is below this.
            keys: of fields whose key in JSON is no name in Python.
        """
        self._published = published
        self._renamed = keys
        self._optional = optional
        self._parsers: dict[Any, _Parser] = {
            float: _plain("a number", partial(_is_number, biggest)),
        }
        self._keys: dict[type, Mapping[str, str]] = {}
        self._layouts: dict[type, _Layout] = {}
        encoder = json.JSONEncoder(allow_nan=False, default=self.fields_of)
        self._to_text = encoder.encode

    def decode(self, cls: type[T], content: Any) -> T:
        """Return a value of a class.

        Args:
            cls: made by `taxonomy.values.value`.
            content: anything that `json.loads` returns.

        Raises:
            DecodeError: it does not match the class.
        """
        decoded: T = self._parser_of(cls)(content)
        return decoded

    def decode_known(self, cls: type[T], content: Any) -> T:
        """Return a value of a class, whatever else the object has, as of a later version.

        Raises:
            DecodeError: it does not match the class.
        """
        if isinstance(content, dict):
            keys = frozenset(self.keys_of(cls).values())
            content = {key: content[key] for key in content if key in keys}
        return self.decode(cls, content)

    def encode(self, content: Any) -> Any:
        """Return a value, or what a field of one may hold, as JSON."""
        return json.loads(json.dumps(content, default=self.fields_of))

    def to_text(self, content: Any) -> str:
        """Return the same as ASCII text, for which `json` never calls Python but for values.

        Raises:
            ValueError: there is a number in it that JSON does not have.
        """
        return self._to_text(content)

    def fields_of(self, content: Any) -> dict[str, Any]:
        """Return the content of a value by its keys; for a mapping, a dict."""
        layout = self._layouts.get(type(content))
        if layout is None:
            if isinstance(content, Mapping):
                return dict(content)
            layout = self._make_layout(type(content))
        keys, read = layout
        return dict(zip(keys, read(content), strict=False))

    def _make_layout(self, cls: Any) -> _Layout:
        """Return the keys of a class's fields, and what reads all of these at once."""
        keys = self.keys_of(cls)
        names = list(keys)
        # With the first one twice, as the reader of a single field returns no tuple.
        layout = tuple(keys.values()), attrgetter(*names, *names[:1])
        self._layouts[cls] = layout
        return layout

    def keys_of(self, cls: Any) -> Mapping[str, str]:
        """Return the keys that the format has of a class's fields, in order."""
        keys = self._keys.get(cls)
        if keys is None:
            names = self._published.get(cls) or cls.__slots__
            keys = {name: self._renamed.get(name, name) for name in names}
            self._keys[cls] = keys
        return keys

    def _parser_of(self, hint: Any) -> _Parser:
        parser = self._parsers.get(hint)
        if parser is None:
            parser = self._parsers[hint] = self._make_parser(hint)
        return parser

    def _make_parser(self, hint: Any) -> _Parser:
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Annotated:
            parser = _bounded(self._parser_of(arguments[0]), arguments[1:])
        elif origin in (Union, UnionType):
            kinds = [kind for kind in arguments if kind is not NoneType]
            parsers = [self._parser_of(kind) for kind in kinds]
            parser = _either(parsers, has_none=NoneType in arguments)
        elif origin is Literal:
            parser = _member(dict(zip(arguments, arguments, strict=True)))
        elif origin is tuple:
            parser = _listed(self._parser_of(arguments[0]))
        elif origin is Mapping:
            parser = _mapped(self._parser_of(arguments[1]))
        elif hint is Any:
            parser = _take
        elif hint in _PLAIN:
            parser = _plain(*_PLAIN[hint])
        elif issubclass(hint, Enum):
            parser = _member({member.value: member for member in hint})
        else:
            parser = self._object(hint)
        return parser

    def _object(self, cls: Any) -> _Parser:
        """Return a parser of the objects that are values of a class."""
        hints = get_type_hints(cls, include_extras=True)
        names = {key: name for name, key in self.keys_of(cls).items()}
        parsers = {key: self._parser_of(hints[name]) for key, name in names.items()}
        defaults = defaults_of(cls)
        if self._optional is not None:
            added = self._optional.get(cls, ())
            defaults = {name: defaults.get(name) for name in added}

        def parse(sent: Any) -> Any:
            if not isinstance(sent, dict):
                raise DecodeError([Problem((), "is not an object", sent)])
            problems: list[Problem] = []
            fields = {}
            for key, parser in parsers.items():
                name = names[key]
                if key in sent:
                    try:
                        fields[name] = parser(sent[key])
                    except DecodeError as error:
                        problems += error.within(key)
                elif name in defaults:
                    fields[name] = defaults[name]
                else:
                    problems.append(Problem((key,), "is missing", None))
            unknown = [key for key in sent if key not in parsers]
            problems += [
                Problem((key,), "is no key of this object", sent[key])
                for key in unknown
            ]
            if problems:
                raise DecodeError(problems)
            return cls(**fields)

        return parse


def _refuse(what: str, sent: Any) -> DecodeError:
    return DecodeError([Problem((), what, sent)])


def _is_number(biggest: float, sent: Any) -> bool:
    # A whole number that is bigger than any float can't be compared to seconds.
    most = biggest if type(sent) is float else _MOST
    return type(sent) in (int, float) and abs(sent) < most


def _take(sent: Any) -> Any:
    return sent


def _plain(what: str, is_right: Callable[[Any], bool]) -> _Parser:
    def parse(sent: Any) -> Any:
        if is_right(sent):
            return sent
        raise _refuse(f"is not {what}", sent)

    return parse


def _member(members: Mapping[str, object]) -> _Parser:
    def parse(sent: Any) -> Any:
        if isinstance(sent, str) and sent in members:
            return members[sent]
        raise _refuse(f"is none of {', '.join(members)}", sent)

    return parse


def _either(parsers: Sequence[_Parser], *, has_none: bool) -> _Parser:
    *others, last = parsers

    def parse(sent: Any) -> Any:
        if sent is None and has_none:
            return None
        for parser in others:
            try:
                return parser(sent)
            except DecodeError:
                pass
        return last(sent)

    return parse


def _listed(parser: _Parser) -> _Parser:
    def parse(sent: Any) -> Any:
        # A tuple is a list to `json` as well, which writes what is made of fields.
        if not isinstance(sent, list | tuple):
            raise _refuse("is not a list", sent)
        try:
            return tuple(map(parser, sent))
        except DecodeError:
            raise DecodeError(_problems_in(parser, enumerate(sent))) from None

    return parse


def _mapped(parser: _Parser) -> _Parser:
    def parse(sent: Any) -> Any:
        if not isinstance(sent, dict):
            raise _refuse("is not an object", sent)
        try:
            values = {name: parser(entry) for name, entry in sent.items()}
        except DecodeError:
            raise DecodeError(_problems_in(parser, sent.items())) from None
        return values

    return parse


def _problems_in(parser: _Parser, entries: Any) -> list[Problem]:
    """Parse the entries of a list or an object that has a wrong one again, one by one."""
    problems: list[Problem] = []
    for name, entry in entries:
        try:
            parser(entry)
        except DecodeError as error:
            problems += error.within(name)
    return problems


def _bounded(parser: _Parser, marks: Sequence[Any]) -> _Parser:
    """Return a parser that also holds what it has parsed to the marks of its annotation."""
    bounds = [mark for mark in marks if isinstance(mark, Bounds)]
    patterns = [re.compile(mark) for mark in marks if isinstance(mark, Pattern)]
    is_time = DATE_TIME in marks

    def parse(sent: Any) -> Any:
        parsed = parser(sent)
        for bound in bounds:
            why = _why_outside(bound, parsed)
            if why:
                raise _refuse(why, sent)
        if not all(pattern.fullmatch(parsed) for pattern in patterns):
            raise _refuse("has another form", sent)
        if is_time and not _is_in_calendar(parsed):
            raise _refuse("is no time", sent)
        return parsed

    return parse


def _why_outside(bound: Bounds, parsed: Any) -> str:
    size, what = parsed, ""
    if isinstance(parsed, tuple):
        size, what = len(parsed), "has too few entries"
    if size < bound.low:
        return what or f"is less than {bound.low:g}"
    if bound.high is not None and size > bound.high:
        return f"is more than {bound.high:g}"
    return ""


def _is_in_calendar(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


RECORD: Final = Codec(published={}, optional=None, biggest=_MOST)
"""Reads what a record has, which lacks the fields that are as by default."""
