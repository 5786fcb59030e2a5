"""Check the values of keys: a text, one line, one of several words, true or false."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import yaml

from pytest_failure_taxonomy.documents.problems import quoted, right_words

MAX_TEXT: Final = 200
"""Characters of a line of text."""

STRING: Final = "tag:yaml.org,2002:str"
NULL: Final = "tag:yaml.org,2002:null"
BOOLEAN: Final = "tag:yaml.org,2002:bool"
MERGE: Final = "tag:yaml.org,2002:merge"
_SORTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tag:yaml.org,2002:bool": "a boolean",
        "tag:yaml.org,2002:int": "a number",
        "tag:yaml.org,2002:float": "a number",
        "tag:yaml.org,2002:timestamp": "a date",
    }
)


class WrongError(Exception):
    """A value that can't be used: what is wrong with it; what would be right."""


def text_of(node: yaml.Node) -> str:
    """Return the text of a node that has to be one.

    Raises:
        WrongError: it is something else.
    """
    if isinstance(node, yaml.SequenceNode | yaml.MappingNode):
        sort = "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
        raise WrongError(f"is {sort}; write one text")
    text = str(node.value)
    if node.tag == STRING:
        return text
    if node.tag == NULL:
        raise WrongError("is empty; give it a value or leave it out")
    if node.tag in _SORTS:
        raise WrongError(f"{quoted(text)} is {_SORTS[node.tag]} to YAML; put it in quotes")
    if node.tag == MERGE:
        raise WrongError(f"{quoted(text)} merges other mappings; write the keys themselves")
    raise WrongError(f"has the tag {quoted(node.tag)}; write a plain text")


def line_of_text(node: yaml.Node) -> str:
    """Return the text of a node that has to be one printable line.

    Raises:
        WrongError: it is something else, blank, or too long.
    """
    text = text_of(node)
    if not text.strip():
        raise WrongError("is empty; give it a value or leave it out")
    if len(text) > MAX_TEXT:
        raise WrongError(f"is longer than {MAX_TEXT} characters; shorten it")
    if not text.isprintable():
        raise WrongError(f"{quoted(text)} is not one line of printable text; write one")
    return text


def one_of(*words: str) -> Callable[[yaml.Node], str]:
    """Return what takes one of these words from a node, and raises `WrongError` for others."""

    def check(node: yaml.Node) -> str:
        word = line_of_text(node)
        if word not in words:
            allowed = ", ".join(words[:-1]) + f" or {words[-1]}"
            right = right_words(word, words, otherwise=f"write {allowed}")
            raise WrongError(f"{quoted(word)} is unknown; {right}")
        return word

    return check


def boolean(node: yaml.Node) -> bool:
    """Return the value of a node that has to be true or false.

    Raises:
        WrongError: it is something else.
    """
    if node.tag != BOOLEAN:
        found = f"{quoted(node.value)} " if isinstance(node, yaml.ScalarNode) else ""
        raise WrongError(f"{found}is neither true nor false; write one of them, without quotes")
    return bool(yaml.SafeLoader.bool_values[node.value.lower()])
