"""Turn YAML nodes into what JSON can hold, told with their lines where they can't be."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import yaml

from pytest_failure_taxonomy.documents.composing import REFUSED
from pytest_failure_taxonomy.documents.fields import BOOLEAN, MERGE, NULL, STRING, WrongError
from pytest_failure_taxonomy.documents.nodes import line_of
from pytest_failure_taxonomy.documents.problems import Problems, quoted
from pytest_failure_taxonomy.taxonomy.values import value

_LIST: Final = "tag:yaml.org,2002:seq"
_MAPPING: Final = "tag:yaml.org,2002:map"
_WRONG: Final = object()


@value
class Read:
    """What was read from a node."""

    value: Any
    """None, a bool, an int, a finite float, a text, or a list or a dict of such with texts as keys.

    In place of what was a problem stands whatever there is.
    """
    is_whole: bool
    """Nothing in it was a problem."""


def value_of(node: yaml.Node, problems: Problems) -> Read:
    """Return the value of a node of a document that was read in the core schema.

    Args:
        node: of bounded depth, as `composing` makes it.
        problems: takes what JSON can't hold, each with its line.
    """
    reader = _Reader(problems)
    found = reader.read(node)
    return Read(value=found, is_whole=reader.is_whole)


class _Reader:
    def __init__(self, problems: Problems) -> None:
        self.is_whole = True
        self._problems = problems
        self._told: set[int] = set()
        """Nodes about which something was said; a reference leads to the same one again."""

    def read(self, node: yaml.Node) -> Any:
        tag = node.tag
        if isinstance(node, yaml.ScalarNode):
            if tag == STRING and node.value.isascii():
                return node.value
            try:
                read = _SCALARS.get(tag)
                if read is None:
                    raise WrongError(_why_not(node))
                return read(node.value)
            except WrongError as error:
                return self._tell(node, str(error))
        if isinstance(node, yaml.SequenceNode) and tag == _LIST:
            return [self.read(each) for each in node.value]
        if isinstance(node, yaml.MappingNode) and tag == _MAPPING:
            return self._mapping(node)
        return self._tell(node, _why_not(node))

    def _mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, each in node.value:
            key = self._key(key_node)
            if isinstance(key, str):
                if key in values:
                    self._tell(key_node, f"the key {quoted(key)} stands there twice; give it once")
                values[key] = self.read(each)
        return values

    def _key(self, node: yaml.Node) -> object:
        if node.tag == MERGE:
            self._tell(node, "a key '<<' merges other mappings; write the keys themselves")
            return _WRONG
        key = self.read(node)
        if not isinstance(key, str) and key is not _WRONG:
            found = f"{quoted(node.value)} " if isinstance(node, yaml.ScalarNode) else ""
            right = "put it in quotes" if found else "write a text"
            self._tell(node, f"a key {found}is no text, and JSON takes no other; {right}")
        return key

    def _tell(self, node: yaml.Node, what: str) -> object:
        self.is_whole = False
        if node.tag != REFUSED and id(node) not in self._told:
            self._told.add(id(node))
            self._problems.add(line_of(node), what)
        return _WRONG


def _why_not(node: yaml.Node) -> str:
    tag = node.tag.removeprefix("tag:yaml.org,2002:")
    known = "!!" if tag != node.tag else ""
    return f"the tag {quoted(known + tag)} makes what JSON can't hold; write a plain value"


def _text(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise WrongError(
            f"{quoted(text)} holds half a character, which UTF-8 can't; write a whole one"
        ) from None
    return text


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise WrongError(f"{quoted(text)} is neither true nor false; write one of them")
    return text.lower() == "true"


def _integer(text: str) -> int:
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    try:
        number = int(text, base)
        str(number)  # fails where Python would not write it to JSON either
    except ValueError:
        raise WrongError(f"{quoted(text)} can't be read as a number; put it in quotes") from None
    return number


def _number(text: str) -> float:
    try:
        number = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError:
        raise WrongError(f"{quoted(text)} can't be read as a number; put it in quotes") from None
    if not math.isfinite(number):
        raise WrongError(f"{quoted(text)} is no number to JSON; write null or put it in quotes")
    return number


_SCALARS: Final[Mapping[str, Callable[[str], object]]] = MappingProxyType(
    {
        STRING: _text,
        NULL: lambda _: None,
        BOOLEAN: _boolean,
        "tag:yaml.org,2002:int": _integer,
        "tag:yaml.org,2002:float": _number,
        # A plain `<<` is a merge only as a key.
        MERGE: _text,
    }
)
"""What reads a scalar of each tag of the core schema."""
