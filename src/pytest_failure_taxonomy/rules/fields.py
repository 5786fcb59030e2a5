"""The keys of a rule, and how the value of each is checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import yaml

from pytest_failure_taxonomy.documents.fields import (
    WrongError,
    boolean,
    line_of_text,
    one_of,
    text_of,
)
from pytest_failure_taxonomy.documents.problems import quoted, right_words
from pytest_failure_taxonomy.taxonomy.reasons import FailureReason
from pytest_failure_taxonomy.user_patterns import compile_quietly

MAX_PATTERN: Final = 1_000
"""Characters of a regular expression."""

_KIND: Final = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)+")
_LINK: Final = re.compile(r"https?://[^\s/]+\S*", re.IGNORECASE)


def _exception(node: yaml.Node) -> str:
    name = line_of_text(node)
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
    kind = line_of_text(node)
    if _KIND.fullmatch(kind) is None:
        raise WrongError(
            f"{quoted(kind)} is no kind; write lower-case words with dots between them,"
            " such as sandbox.database"
        )
    return kind


def _link(node: yaml.Node) -> str:
    link = line_of_text(node)
    if _LINK.fullmatch(link) is None:
        raise WrongError(f"{quoted(link)} is no address; begin it with https:// or http://")
    return link


def _reason(node: yaml.Node) -> FailureReason:
    name = line_of_text(node)
    if name not in FailureReason.__members__:
        right = right_words(
            name, FailureReason.__members__, otherwise="they are " + ", ".join(FailureReason)
        )
        raise WrongError(f"{quoted(name)} is none of the fifteen reasons; {right}")
    return FailureReason[name]


FIELDS: Final[Mapping[str, Callable[[yaml.Node], object]]] = MappingProxyType(
    {
        "name": line_of_text,
        "exception": _exception,
        "message": _pattern,
        "nodeid": line_of_text,
        "phase": one_of("setup", "call", "teardown"),
        "reason": _reason,
        "kind": _kind,
        "severity": one_of("block", "warn", "info"),
        "retryable": boolean,
        "owner": line_of_text,
        "link": _link,
    }
)
"""What returns the value of each key, or raises `WrongError`."""

MATCH_FIELDS: Final = ("exception", "message", "nodeid", "phase")
"""The keys that say which failures a rule is about."""
