"""Turn the nodes of a YAML file into plain values that know where they stand."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import yaml

from pytest_failure_taxonomy.documents.problems import Problems, WrongError, quoted
from pytest_failure_taxonomy.documents.yaml_files import REFUSED, Form, read_document
from pytest_failure_taxonomy.taxonomy.values import value

_YAML: Final = "tag:yaml.org,2002:"
_STRING: Final = f"{_YAML}str"
_NULL: Final = f"{_YAML}null"
_MERGE: Final = f"{_YAML}merge"

WRONG: Final = object()
"""Takes the place of a value that was already reported as a problem."""

_Places = dict[int, dict[str, tuple[int, yaml.Node]]]
"""For each mapping, by the `id` of its node, the line of each key and the node of its value."""


@value
class Tree:
    """A value from a file, or a part of one, and where it stands."""

    value: Any
    """What JSON can represent: None, a bool, an int, a finite float, a string, a list, or a dict.

    `WRONG` replaces what was reported as a problem.
    """
    line: int
    """The line in which it begins, from 1; for a value of a mapping, that of its key."""
    node: yaml.Node | None = None
    """The node from which it was read; `None` for a file of JSON lines."""
    places: Mapping[int, Mapping[str, tuple[int, yaml.Node]]] = MappingProxyType({})
    """Where the keys of the file's mappings stand, as `_Places` describes."""

    def at(self, *path: int | str) -> Tree:
        """Return the part at a path of keys and indexes, or the last one on the way that exists."""
        found = self
        for step in path:
            part = found._part(step)
            if part is None:
                break
            found = part
        return found

    def items(self) -> Iterator[tuple[str, Tree]]:
        """Yield the keys of a mapping with their values."""
        for key in self.value:
            yield key, self.at(key)

    def __iter__(self) -> Iterator[Tree]:
        """Yield the parts of a list."""
        for index in range(len(self.value)):
            yield self.at(index)

    def in_words(self) -> str:
        """Return the value as messages show it: as the file has it, if it is a scalar."""
        if self.value is None:
            return "an empty value"
        if isinstance(self.value, list | dict):
            return "a list" if isinstance(self.value, list) else "a mapping"
        if isinstance(self.node, yaml.ScalarNode):
            return quoted(self.node.value)
        return quoted(str(self.value).lower() if isinstance(self.value, bool) else str(self.value))

    def _part(self, step: int | str) -> Tree | None:
        values: Any = self.value
        line, node = self.line, None
        if isinstance(values, dict) and step in values:
            if self.node is not None:
                line, node = self.places[id(self.node)][str(step)]
        elif isinstance(values, list) and isinstance(step, int) and step < len(values):
            if self.node is not None:
                node = self.node.value[step]
                line = line_of(node)
        else:
            return None
        return Tree(value=values[step], line=line, node=node, places=self.places)


def read_tree(
    path: str | os.PathLike[str],
    problems: Problems,
    form: Form,
    *,
    root: tuple[type, ...],
    example: str,
    if_empty: str | None,
) -> Tree | None:
    """Return the value of a YAML file.

    Args:
        path: Of a regular file.
        problems: Receives everything that JSON can't represent, with its line.
        form: How to read the file.
        root: The types that the whole value may have: `dict`, `list`, or both.
        example: What to write, for the message about another type.
        if_empty: The message about a file without a value; `None` if that is no problem.

    Returns:
        The value, or `None` if the file has none or one of another type.

    Raises:
        FailureTaxonomyError: The file can't be read or isn't YAML; of the problems' error class.
    """
    node = read_document(path, problems, form)
    if node is None or node.tag == _NULL:
        if if_empty is not None:
            problems.add(1, if_empty)
        return None
    reader = _Reader(problems)
    value = reader.read(node)
    found = Tree(value=value, line=line_of(node), node=node, places=reader.places)
    if isinstance(found.value, root):
        return found
    if found.value is not WRONG:
        problems.add(found.line, f"{kind_of(found)} where the file begins; {example}")
    return None


def line_of(node: yaml.Node) -> int:
    """Return the line in which a node begins, from 1."""
    return int(node.start_mark.line) + 1


def kind_of(tree: Tree) -> str:
    """Return in words what a value is: empty, a list, a mapping, or the value itself."""
    if tree.value is None:
        return "empty"
    words = tree.in_words()
    return words if isinstance(tree.value, list | dict) else f"the value {words}"


class _Reader:
    """Reads the nodes of one document; a node that an alias repeats is reported once."""

    def __init__(self, problems: Problems) -> None:
        self.places: _Places = {}
        self._problems = problems
        self._reported: set[int] = set()

    def read(self, node: yaml.Node) -> Any:
        """Return the value of a node, whose depth is bounded."""
        try:
            return self._value(node)
        except WrongError as error:
            return self._report(node, str(error))

    def _value(self, node: yaml.Node) -> Any:
        if isinstance(node, yaml.ScalarNode) and node.tag in _SCALARS:
            return _SCALARS[node.tag](node.value)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_YAML}seq":
            return [self.read(each) for each in node.value]
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_YAML}map":
            return self._mapping(node)
        tag = node.tag.removeprefix(_YAML)
        known = "!!" if tag != node.tag else ""
        raise WrongError(f"the tag {quoted(known + tag)} is not supported; write a plain value")

    def _mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        values: dict[str, Any] = {}
        places = self.places[id(node)] = {}
        for key_node, each in node.value:
            key = self._key(key_node)
            if not isinstance(key, str):
                self.read(each)
            elif key in values:
                first = places[key][0]
                what = f"the key {quoted(key)} stands in line {first} already; give it once"
                self._report(key_node, what)
            else:
                values[key] = self.read(each)
                places[key] = (line_of(key_node), each)
        return values

    def _key(self, node: yaml.Node) -> object:
        if node.tag == _MERGE:
            what = "a key '<<' merges other mappings; write the keys themselves"
            return self._report(node, what)
        key = self.read(node)
        if isinstance(key, str) or key is WRONG:
            return key
        what = not_a_string(Tree(value=key, line=line_of(node), node=node))
        return self._report(node, f"a key {what}")

    def _report(self, node: yaml.Node, what: str) -> object:
        if node.tag != REFUSED and id(node) not in self._reported:
            self._reported.add(id(node))
            self._problems.add(line_of(node), what)
        return WRONG


def not_a_string(tree: Tree) -> str:
    """Return the message about a value that should be a string."""
    if tree.value is None:
        return "is empty; give it a value or leave it out"
    if isinstance(tree.value, list | dict):
        return f"is {tree.in_words()}, not a string; write one"
    return f"{tree.in_words()} is not a string; put it in quotes"


def _text(text: str) -> str:
    try:
        if not text.isascii():
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
        str(number)  # fails where Python could not write it to JSON either
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
        _STRING: _text,
        _NULL: lambda _: None,
        f"{_YAML}bool": _boolean,
        f"{_YAML}int": _integer,
        f"{_YAML}float": _number,
        # A plain `<<` merges only as a key.
        _MERGE: _text,
    }
)
"""The functions that read the scalars of the core schema, by tag."""
