"""The keys of a rule, and how the value of each is checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import yaml

from pytest_failure_taxonomy.rules.patterns import compile_quietly
from pytest_failure_taxonomy.rules.problems import quoted, right_words
from pytest_failure_taxonomy.taxonomy.reasons import FailureReason

MAX_TEXT: Final = 200
MAX_PATTERN: Final = 1_000
"""Characters of a regular expression."""

_KIND: Final = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)+")
_LINK: Final = re.compile(r"https?://[^\s/]+\S*", re.IGNORECASE)
_SORTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tag:yaml.org,2002:bool": "a boolean",
        "tag:yaml.org,2002:int": "a number",
        "tag:yaml.org,2002:float": "a number",
        "tag:yaml.org,2002:timestamp": "a date",
    }
)
_MERGE: Final = "tag:yaml.org,2002:merge"
_STRING: Final = "tag:yaml.org,2002:str"
_NULL: Final = "tag:yaml.org,2002:null"
_BOOLEAN: Final = "tag:yaml.org,2002:bool"


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
    if node.tag == _STRING:
        return text
    if node.tag == _NULL:
        raise WrongError("is empty; give it a value or leave it out")
    if node.tag in _SORTS:
        raise WrongError(f"{quoted(text)} is {_SORTS[node.tag]} to YAML; put it in quotes")
    if node.tag == _MERGE:
        raise WrongError(f"{quoted(text)} merges other mappings; write the keys themselves")
    raise WrongError(f"has the tag {quoted(node.tag)}; write a plain text")


def _line_of_text(node: yaml.Node) -> str:
    text = text_of(node)
    if not text.strip():
        raise WrongError("is empty; give it a value or leave it out")
    if len(text) > MAX_TEXT:
        raise WrongError(f"is longer than {MAX_TEXT} characters; shorten it")
    if not text.isprintable():
        raise WrongError(f"{quoted(text)} is not one line of printable text; write one")
    return text


def _exception(node: yaml.Node) -> str:
    name = _line_of_text(node)
    if not all(part.isidentifier() for part in name.split(".")):
        raise WrongError(
            f"{quoted(name)} is no name of a class; write it as TimeoutError or as package.TheError"
        )
    return name


def _pattern(node: yaml.Node) -> str:
    pattern = text_of(node)
    if not pattern:
        raise WrongError("is empty; give it a value or leave it out")
    if len(pattern) > MAX_PATTERN:
        raise WrongError(f"is longer than {MAX_PATTERN:,} characters; make several rules of it")
    try:
        compile_quietly(pattern)
    except re.error as error:
        at = "" if error.pos is None else f" at position {error.pos}"
        raise WrongError(
            f"{quoted(pattern)} is no regular expression ({error.msg}{at});"
            r" put a \ before a character that stands for itself"
        ) from None
    except (OverflowError, RecursionError) as error:
        raise WrongError(
            f"{quoted(pattern)} is too much for a regular expression ({error}); write a simpler one"
        ) from None
    return pattern


def _kind(node: yaml.Node) -> str:
    kind = _line_of_text(node)
    if _KIND.fullmatch(kind) is None:
        raise WrongError(
            f"{quoted(kind)} is no kind; write lower-case words with dots between them,"
            " such as sandbox.database"
        )
    return kind


def _link(node: yaml.Node) -> str:
    link = _line_of_text(node)
    if _LINK.fullmatch(link) is None:
        raise WrongError(f"{quoted(link)} is no address; begin it with https:// or http://")
    return link


def _reason(node: yaml.Node) -> FailureReason:
    name = _line_of_text(node)
    if name not in FailureReason.__members__:
        right = right_words(
            name, FailureReason.__members__, otherwise="they are " + ", ".join(FailureReason)
        )
        raise WrongError(f"{quoted(name)} is none of the fifteen reasons; {right}")
    return FailureReason[name]


def _one_of(*words: str) -> Callable[[yaml.Node], str]:
    def check(node: yaml.Node) -> str:
        word = _line_of_text(node)
        if word not in words:
            allowed = ", ".join(words[:-1]) + f" or {words[-1]}"
            right = right_words(word, words, otherwise=f"write {allowed}")
            raise WrongError(f"{quoted(word)} is unknown; {right}")
        return word

    return check


def _boolean(node: yaml.Node) -> bool:
    if node.tag != _BOOLEAN:
        found = f"{quoted(node.value)} " if isinstance(node, yaml.ScalarNode) else ""
        raise WrongError(f"{found}is neither true nor false; write one of them, without quotes")
    return bool(yaml.SafeLoader.bool_values[node.value.lower()])


FIELDS: Final[Mapping[str, Callable[[yaml.Node], object]]] = MappingProxyType(
    {
        "name": _line_of_text,
        "exception": _exception,
        "message": _pattern,
        "nodeid": _line_of_text,
        "phase": _one_of("setup", "call", "teardown"),
        "reason": _reason,
        "kind": _kind,
        "severity": _one_of("block", "warn", "info"),
        "retryable": _boolean,
        "owner": _line_of_text,
        "link": _link,
    }
)
"""What returns the value of each key, or raises `WrongError`."""

MATCH_FIELDS: Final = ("exception", "message", "nodeid", "phase")
"""The keys that say which failures a rule is about."""
