"""Say what a YAML node is and where it stands, and go through the keys of a mapping."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from pytest_failure_taxonomy.documents.composing import REFUSED
from pytest_failure_taxonomy.documents.fields import NULL, WrongError, text_of
from pytest_failure_taxonomy.documents.problems import Problems, quoted


def pairs_of(node: yaml.MappingNode, problems: Problems) -> Iterator[tuple[str, int, yaml.Node]]:
    """Yield the keys of a mapping with line and value; of a key that stands twice the first."""
    lines: dict[str, int] = {}
    for key_node, each in node.value:
        try:
            key = text_of(key_node)
        except WrongError as error:
            if key_node.tag != REFUSED:
                problems.add(line_of(key_node), f"a key {error}")
            continue
        if key in lines:
            first = lines[key]
            what = f"the key {quoted(key)} stands in line {first} already; give it once"
            problems.add(line_of(key_node), what)
            continue
        lines[key] = line_of(key_node)
        yield key, lines[key], each


def line_of(node: yaml.Node) -> int:
    """Return the line in which a node begins, from 1."""
    return int(node.start_mark.line) + 1


def is_null(node: yaml.Node) -> bool:
    """Return whether a node is no value."""
    return bool(node.tag == NULL)


def sort_of(node: yaml.Node) -> str:
    """Return what a node is, in words."""
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    return "empty" if is_null(node) else f"the value {quoted(node.value)}"
