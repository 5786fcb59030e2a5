"""What a code, a breakdown key, an id and a tag may look like."""

from __future__ import annotations

import keyword
from typing import Final

import yaml

from pytest_failure_taxonomy.documents.fields import WrongError, text_of
from pytest_failure_taxonomy.documents.problems import quoted

MAX_WORD: Final = 200
"""Characters of a code, a key or an id."""
MAX_NUMBER: Final = 1_000_000_000
"""More than any limit or count needs, and less than what clocks and the system can't take."""

_BOOLEANS: Final = frozenset({"yes", "no", "on", "off"})
"""What YAML 1.1 takes for booleans, and so do most other readers of these files."""
_PATH_LIKE: Final = ("/", "\\", "::", "[", "]", "#")
"""What would end an id early where pytest or a shell reads it, or make another of it."""
_MARKS_OF_PYTEST: Final = frozenset(
    {
        *("filterwarnings", "parametrize", "skip", "skipif", "tryfirst", "trylast"),
        *("usefixtures", "xfail"),
    }
)


def code_of(node: yaml.Node) -> str:
    """Return the text of a node that has to be a code or a key: printable, without a blank.

    Raises:
        WrongError: it is something else.
    """
    text = text_of(node)
    if not text:
        raise WrongError("is empty; give it a name, such as tests.failed")
    # A plain scalar has no style, or an empty one from libyaml.
    if not getattr(node, "style", None) and text.lower() in _BOOLEANS:
        raise WrongError(f"{quoted(text)} is a boolean to most readers of YAML; put it in quotes")
    why_not_code(text)
    return text


def why_not_code(text: str) -> None:
    """Refuse a text that can't be a code or a key.

    Raises:
        WrongError: it is blank, has a blank in it or what can't be printed, or is too long.
    """
    if not text.isprintable() or any(character.isspace() for character in text) or not text:
        raise WrongError(
            f"{quoted(text)} is no name; write printable characters without blanks,"
            " such as tests.failed"
        )
    if len(text) > MAX_WORD:
        raise WrongError(f"{quoted(text)} is longer than {MAX_WORD} characters; shorten it")


def checked_id(given: object) -> str:
    """Return the id of a case or an example.

    Raises:
        WrongError: it is no text, or none that can be the last part of a node id.
    """
    if not isinstance(given, str):
        right = "put it in quotes" if isinstance(given, bool | int | float) else "write a text"
        raise WrongError(f"id: {in_words(given)} is no text; {right}")
    if not given.strip():
        raise WrongError("id: is empty; give it a name that no other has")
    if given != given.strip():
        raise WrongError(f"id: {quoted(given)} begins or ends with a blank; leave it out")
    if not given.isprintable():
        raise WrongError(f"id: {quoted(given)} can't be printed; write printable characters")
    if len(given) > MAX_WORD:
        raise WrongError(f"id: {quoted(given)} is longer than {MAX_WORD} characters; shorten it")
    wrong = next((part for part in _PATH_LIKE if part in given), None)
    if wrong is not None:
        raise WrongError(f"id: {quoted(given)} has a {wrong} in it; write - or _ instead")
    if given in (".", ".."):
        raise WrongError(f"id: {quoted(given)} is the name of a folder; give it another name")
    return given


def checked_tags(given: object) -> tuple[str, ...]:
    """Return the tags of a case, each once.

    Raises:
        WrongError: they are no list of texts that can be names of pytest marks.
    """
    if not isinstance(given, list):
        raise WrongError(f"tags: {in_words(given)} is no list; write names in brackets: [slow, db]")
    for tag in given:
        if not isinstance(tag, str):
            raise WrongError(f"tags: {in_words(tag)} is no text; put it in quotes")
        if not tag.isidentifier() or keyword.iskeyword(tag) or tag.startswith("_"):
            raise WrongError(
                f"tags: {quoted(tag)} can't be a pytest mark; write letters, digits and _,"
                " a letter first"
            )
        if tag in _MARKS_OF_PYTEST:
            raise WrongError(
                f"tags: {quoted(tag)} is a mark with which pytest does something; choose another"
            )
    return tuple(dict.fromkeys(given))


def checked_seconds(name: str, given: object) -> float:
    """Return a limit of a case.

    Raises:
        WrongError: it is no positive number.
    """
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise WrongError(f"{name}: {in_words(given)} is no number; write seconds, such as 30")
    if given <= 0:
        raise WrongError(f"{name}: {_digits(given)} is not more than 0; write seconds, such as 30")
    if given > MAX_NUMBER:
        raise WrongError(f"{name}: {_digits(given)} is more than {MAX_NUMBER:,}; write less")
    return float(given)


def _digits(number: float) -> str:
    return str(number) if abs(number) < 10**30 else "the number"


def in_words(given: object) -> str:
    """Return what a file gives for a value, as an error shows it."""
    if given is None:
        return "an empty value"
    if isinstance(given, list | dict):
        return "a list" if isinstance(given, list) else "a mapping"
    return quoted(str(given).lower() if isinstance(given, bool) else str(given))
