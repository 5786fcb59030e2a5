"""Say of two failures whether they are one and the same.

A fingerprint is a hash of what stays when a failure happens again: see
docs/explanation/fingerprints.md for the rule and its reasons.
"""

from __future__ import annotations

from typing import Final

from pytest_failure_taxonomy.taxonomy.headlines import FIXTURE_ERROR, TYPES_OF_PYTEST
from pytest_failure_taxonomy.taxonomy.messages import (
    VALUE,
    normalize_message,
    without_suggestion,
)
from pytest_failure_taxonomy.taxonomy.origins import OriginPlace
from pytest_failure_taxonomy.taxonomy.values import replace

__all__ = ["VERSION", "fingerprint_of", "normalize_message", "place_of_test", "title_of"]

VERSION: Final = "1"
"""Counts up when the rule changes, so that no old fingerprint can equal a new one by accident."""

MAX_TITLE: Final = 160
"""Characters of a group's title."""

_MAX_PARAMETERS: Final = 8
"""Parts of a parametrised id that are looked for in a message."""

_IMPORT_ERRORS: Final = frozenset({"ImportError", "ModuleNotFoundError"})
_NAMING: Final = _IMPORT_ERRORS | {"AttributeError", "NameError", "TypeError", "UnboundLocalError"}
"""Their messages name things of the code, in quotes."""
_WORDLESS: Final = frozenset({"RecursionError", "SyntaxError", "IndentationError", "TabError"})
"""Their messages differ between versions of Python and add nothing to type and place."""
_CHECKS: Final = frozenset({"AssertionError", "Failed"})
"""Raised by a check; the same check in one helper fails for any number of causes."""
_DOCTESTS: Final = frozenset({"DocTestFailure", "MultipleDoctestFailures", "UnexpectedException"})
"""Raised by the runner of doctests, with no frame of the example."""
_TEST_FOLDERS: Final = frozenset({"test", "tests", "testing"})
_TIMEOUT: Final = "test.timeout"


def fingerprint_of(
    exception_type: str,
    module: str,
    message: str,
    place: OriginPlace | None,
    kind: str,
    *,
    nodeid: str = "",
) -> str:
    """Return 16 hexadecimal digits that are the same whenever the failure is.

    Args:
        exception_type: qualified name of the exception's class; empty where nothing was raised.
        module: where the class says it is from.
        message: of the exception, uncut or cut far beyond what counts.
        place: where it comes from; `None` where that is not known.
        kind: counts for a failure without exception, and for a timeout.
        nodeid: of the test; counts where there is no exception or no place in the user's code.
    """
    name = f"{module.partition('.')[0]}.{exception_type}" if exception_type else kind
    if not exception_type or exception_type in _DOCTESTS:
        place, words = place_of_test(nodeid), ""
    else:
        words = _words_that_count(exception_type, message, place, kind, nodeid)
        place = _place_that_counts(exception_type, message, place, kind)
    at = (
        ("",)
        if place is None
        else (place.path, place.function, place.text, place.entry, place.leaf)
    )
    return _digest("\0".join((VERSION, name, words, *at)))


def place_of_test(nodeid: str) -> OriginPlace:
    """Return the place of a test or collector itself, whatever its parameters."""
    path, _, names = nodeid.partition("::")
    return OriginPlace(path=path, function=names.partition("[")[0].replace("::", "."))


def title_of(exception_type: str, message: str, place: OriginPlace | None) -> str:
    """Return one line that says what a group of failures is.

    Such as `ConnectionError: refused (app/db.py: connect)`.

    Args:
        exception_type: empty where nothing was raised.
        message: of one of the failures, with secrets removed.
        place: where it comes from.
    """
    if exception_type in TYPES_OF_PYTEST:
        exception_type, place = "", None  # both are pytest's own
    line = " ".join(message.strip().partition("\n")[0].split())
    head = ": ".join(each for each in (exception_type, line) if each)
    if place is None:
        return _shortened(head, MAX_TITLE)
    where = ": ".join(each for each in (place.path, place.function) if each)
    where = _shortened(where, MAX_TITLE // 2)
    return f"{_shortened(head, MAX_TITLE - len(where) - 3)} ({where})"


def _words_that_count(
    exception_type: str, message: str, place: OriginPlace | None, kind: str, nodeid: str
) -> str:
    if exception_type in _WORDLESS or kind == _TIMEOUT:
        return ""
    is_raised_here = place is not None and place.text.startswith("raise")
    has_text = place is not None and place.text != ""
    if exception_type == "AssertionError" and has_text and not is_raised_here:
        return ""  # it shows the values that were compared
    if exception_type == FIXTURE_ERROR:
        message = message.partition(";")[0]  # pytest itself looks no further
    if exception_type in _NAMING or exception_type == FIXTURE_ERROR:
        return normalize_message(without_suggestion(message), keeps_names=True)
    if is_raised_here and place is not None and "[" in nodeid:
        return _without_parameters(normalize_message(message), place.text, nodeid)
    return normalize_message(message)


def _place_that_counts(
    exception_type: str, message: str, place: OriginPlace | None, kind: str
) -> OriginPlace | None:
    if place is None:
        return None
    if exception_type == FIXTURE_ERROR or (
        exception_type in _IMPORT_ERRORS and _is_of_import(message, place)
    ):
        return None  # what is missing decides, not who asked for it
    if kind == _TIMEOUT:
        return OriginPlace(path=place.path, function=place.function)
    is_check = exception_type in _CHECKS and is_test_code(place.path)
    return place if is_check or not place.entry else replace(place, entry="")


def is_test_code(path: str) -> bool:
    """Tell by its name whether a file is part of the tests, a helper of theirs included."""
    *folders, name = path.split("/")
    return (
        name.startswith("test_")
        or name.endswith("_test.py")
        or name == "conftest.py"
        or not _TEST_FOLDERS.isdisjoint(folders)
    )


def _is_of_import(message: str, place: OriginPlace) -> bool:
    return message.startswith(("No module named", "cannot import name")) or place.text.startswith(
        ("import ", "from ")
    )


def _without_parameters(message: str, text: str, nodeid: str) -> str:
    """Take the parameters of a test out of a message that its own line makes of them.

    Words that are written in that line are no values, whatever the parameters are.
    """
    import re

    parts = nodeid.rpartition("]")[0].partition("[")[2].split("-")[:_MAX_PARAMETERS]
    # Numbers, paths and the like are out already; in an id or a time they would do harm.
    values = {part for part in parts if part.replace(" ", "").isalpha() and part not in text}
    for part in sorted(values, key=lambda each: (-len(each), each)):
        address = rf"(?! {re.escape(VALUE)}>)" if part == "at" else ""  # <object object at 0x7f…>
        message = re.sub(rf"(?<!\w){re.escape(part)}(?!\w){address}", VALUE, message)
    return normalize_message(message)


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _digest(text: str) -> str:
    from hashlib import blake2s

    return blake2s(text.encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()
