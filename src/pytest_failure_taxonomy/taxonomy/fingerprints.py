"""Tell which failures are one and the same, and gather them in groups.

A fingerprint is a hash of what stays when a failure happens again: see
docs/explanation/fingerprints.md for the rule and its reasons. What is taken out of a message stands
in `data/fingerprints.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from operator import attrgetter
from typing import Final

from pytest_failure_taxonomy.taxonomy import evidence, judgement, packaged_table
from pytest_failure_taxonomy.taxonomy.order import digest_of
from pytest_failure_taxonomy.taxonomy.words import (
    FIXTURE_ERROR,
    TYPES_OF_PYTEST,
    shortened,
)

VALUE: Final = "<*>"
"""Stands for whatever was taken out; several in a row are one, so that no length counts."""

MAX_READ: Final = 8_000
"""Characters of a message that are looked at."""
MAX_KEPT: Final = 400
"""Characters of it that count."""
MAX_LINES: Final = 5
"""Lines of it that count, without the ones that show values alone."""

_Replacement = Callable[[re.Match[str]], str]


def _file_name(found: re.Match[str]) -> str:
    path = found[0].replace("\\", "/").lower()
    is_temporary = any(
        part in path for part in packaged_table("fingerprints")["temporary"]
    )
    return VALUE if is_temporary or not found[1] else f"{VALUE}/{found[1]}"


def _singular(found: re.Match[str]) -> str:
    words = [
        each.removesuffix("s") if each[-2:] != "ss" else each
        for each in found[0].split(" ")
    ]
    return " ".join(words)


_FUNCTIONS: Final[Mapping[str, _Replacement]] = {
    "file_name": _file_name,
    "singular": _singular,
}

_NAME: Final = re.compile(r"[A-Za-z_][\w.]{0,200}")  # in pytest's own tables, so cheap


# Many failures of a run say the same.
@lru_cache(maxsize=256)
def normalize_message(text: str, *, keeps_names: bool = False) -> str:
    """Return the words of a message without its values, on one line.

    Args:
        text: the message.
        keeps_names: text in quotes stays where it is the name of something in the code, as it is in
            what Python says of imports, attributes and arguments.
    """
    is_noise = re.compile(packaged_table("fingerprints")["noise"]).match
    lines = text[:MAX_READ].split("\n", MAX_LINES * 4)
    kept = [line for each in lines if (line := each.strip()) and not is_noise(line)]
    message = "\n".join(kept[:MAX_LINES])
    characters = frozenset(message)
    for name, pattern, replacement, needed in _steps():
        if needed and needed.isdisjoint(characters):
            continue
        keeps = keeps_names and name.startswith("text in")
        changed = pattern.sub(_unless_name if keeps else replacement, message)
        if changed != message:
            message, characters = changed, frozenset(changed)
    message = " ".join(message.split())
    return (
        message if len(message) <= MAX_KEPT else message[:MAX_KEPT].rpartition(" ")[0]
    )


def without_suggestion(message: str) -> str:
    """Return what Python says of a name, without advice, which differs between its versions."""
    for start in packaged_table("fingerprints")["advice"]:
        message = message.partition(start)[0]
    if message.endswith(")") and message.startswith("cannot import name"):
        message = message.rpartition(" (")[0]  # the file it was looked for in
    return message


@cache
def _steps() -> tuple[
    tuple[str, re.Pattern[str], str | _Replacement, frozenset[str]], ...
]:
    """Return the substitutions, compiled when the first failure needs them."""
    steps = []
    for row in packaged_table("fingerprints")["substitution"]:
        replacement = _FUNCTIONS.get(row.get("made_by"), row.get("by", VALUE))
        pattern = re.compile(row["pattern"], re.IGNORECASE)
        steps.append(
            (row["what"], pattern, replacement, frozenset(row.get("needs", "")))
        )
    return tuple(steps)


def _unless_name(found: re.Match[str]) -> str:
    quoted = found[0]
    return quoted if _NAME.fullmatch(quoted[1:-1]) else VALUE


VERSION: Final = "1"
"""Counts up when the rule changes, so that no old fingerprint equals a new one by accident."""

MAX_TITLE: Final = 160
"""Characters of a group's title."""

_MAX_PARAMETERS: Final = 8
"""Parts of a parametrised id that are looked for in a message."""

_IMPORT_ERRORS: Final = frozenset({"ImportError", "ModuleNotFoundError"})
_NAMING: Final = _IMPORT_ERRORS | {
    "AttributeError",
    "NameError",
    "TypeError",
    "UnboundLocalError",
}
"""Their messages name things of the code, in quotes."""
_WORDLESS: Final = frozenset(
    {"RecursionError", "SyntaxError", "IndentationError", "TabError"}
)
"""Their messages differ between versions of Python and add nothing to type and place."""
_CHECKS: Final = frozenset({"AssertionError", "Failed"})
"""Raised by a check; the same check in one helper fails for any number of causes."""
_DOCTESTS: Final = frozenset(
    {"DocTestFailure", "MultipleDoctestFailures", "UnexpectedException"}
)
"""Raised by the runner of doctests, with no frame of the example."""
_TEST_FOLDERS: Final = frozenset({"test", "tests", "testing"})
_TIMEOUT: Final = "test.timeout"


def fingerprint_of(failure: evidence.FailureAtNode, kind: str) -> str:
    """Return 16 hexadecimal digits that are the same whenever the failure is.

    Its kind counts where there is no exception, and for a timeout; the test where there is no
    exception or no place in the user's code.
    """
    raised = failure.exception
    told: tuple[str, ...]
    name = (
        f"{raised.module.partition('.')[0]}.{raised.type}"
        if raised is not None
        else kind
    )
    if raised is None or raised.type in _DOCTESTS:
        path, _, names = failure.nodeid.partition(
            "::"
        )  # of the test, whatever its parameters
        told = "", path, names.partition("[")[0].replace("::", "."), "", "", ""
    else:
        words = _words_that_count(raised, kind, failure.nodeid)
        told = words, *_place_that_counts(raised, kind)
    return digest_of((VERSION, name, *told))


def title_of(failure: evidence.FailureAtNode) -> str:
    """Return one line that says what a group of failures is, by one of them without secrets.

    Such as `ConnectionError: refused (app/db.py: connect)`.
    """
    raised = failure.exception
    message = failure.message if raised is None else raised.message
    head = " ".join(message.strip().partition("\n")[0].split())
    place = None
    if (
        raised is not None and raised.type not in TYPES_OF_PYTEST
    ):  # both are pytest's own
        head, place = f"{raised.type}: {head}" if head else raised.type, raised.origin
    if place is None:
        return shortened(head, MAX_TITLE)
    where = ": ".join(filter(None, (place.path, place.function)))
    where = shortened(where, MAX_TITLE // 2)
    return f"{shortened(head, MAX_TITLE - len(where) - 3)} ({where})"


def _words_that_count(raised: evidence.RaisedException, kind: str, nodeid: str) -> str:
    place, message = raised.origin, raised.message
    if raised.type in _WORDLESS or kind == _TIMEOUT:
        return ""
    is_raised_here = place is not None and place.text.startswith("raise")
    has_text = place is not None and place.text != ""
    if raised.type == "AssertionError" and has_text and not is_raised_here:
        return ""  # it shows the values that were compared
    if raised.type == FIXTURE_ERROR:
        message = message.partition(";")[0]  # pytest itself looks no further
    if raised.type in _NAMING or raised.type == FIXTURE_ERROR:
        return normalize_message(without_suggestion(message), keeps_names=True)
    if is_raised_here and place is not None and "[" in nodeid:
        return _without_parameters(normalize_message(message), place.text, nodeid)
    return normalize_message(message)


def _place_that_counts(raised: evidence.RaisedException, kind: str) -> tuple[str, ...]:
    """Return path, function, text, entry and leaf as far as they count; one empty text for none."""
    place = raised.origin
    if place is None or raised.type == FIXTURE_ERROR:
        return ("",)
    if raised.type in _IMPORT_ERRORS and (
        raised.message.startswith(("No module named", "cannot import name"))
        or place.text.startswith(("import ", "from "))
    ):
        return ("",)  # what is missing decides, not who asked for it
    if kind == _TIMEOUT:
        return (place.path, place.function, "", "", "")
    is_check = place.entry and raised.type in _CHECKS and is_test_code(place.path)
    return (
        place.path,
        place.function,
        place.text,
        place.entry if is_check else "",
        place.leaf,
    )


def is_test_code(path: str) -> bool:
    """Tell by its name whether a file is part of the tests, a helper of theirs included."""
    *folders, name = path.split("/")
    return (
        name.startswith("test_")
        or name.endswith("_test.py")
        or name == "conftest.py"
        or not _TEST_FOLDERS.isdisjoint(folders)
    )


def _without_parameters(message: str, text: str, nodeid: str) -> str:
    """Take the parameters of a test out of a message that its own line makes of them.

    Words that are written in that line are no values, whatever the parameters are.
    """
    parts = nodeid.rpartition("]")[0].partition("[")[2].split("-")[:_MAX_PARAMETERS]
    # Numbers, paths and the like are out already; in an id or a time they would do harm.
    values = {
        part for part in parts if part.replace(" ", "").isalpha() and part not in text
    }
    for part in sorted(values, key=lambda each: (-len(each), each)):
        address = (
            rf"(?! {re.escape(VALUE)}>)" if part == "at" else ""
        )  # <object object at 0x7f…>
        message = re.sub(rf"(?<!\w){re.escape(part)}(?!\w){address}", VALUE, message)
    return normalize_message(message)


def group_failures(
    run: evidence.RunEvidence, judged: judgement.Judgement
) -> tuple[judgement.Group, ...]:
    """Gather the failures of one fingerprint: biggest group first, then by their first failures.

    A test that failed only because its subtests did is not counted beside them.

    Args:
        run: what was seen.
        judged: with the judgement of each failure.
    """
    members: dict[
        str, list[tuple[evidence.FailureAtNode, judgement.FailureJudgement]]
    ] = {}
    with_subtests = {
        failure.nodeid for failure in run.failures if failure.part == "subtest"
    }
    for failure, one in zip(run.failures, judged.failures, strict=True):
        if failure.part != "sum" or failure.nodeid not in with_subtests:
            members.setdefault(one.fingerprint, []).append((failure, one))
    for failed, one in zip(
        run.collection_failures, judged.collection_failures, strict=True
    ):
        members.setdefault(one.fingerprint, []).append((failed, one))
    groups = []
    for fingerprint, group in members.items():
        kinds = [(one.reason, one.kind) for _, one in group]
        reason, kind = max(
            dict.fromkeys(kinds), key=kinds.count
        )  # of equals, the first
        groups.append(
            judgement.Group(
                fingerprint=fingerprint,
                reason=reason,
                kind=kind,
                title=title_of(group[0][0]),
                count=len(group),
                nodeids=tuple(dict.fromkeys([failure.nodeid for failure, _ in group])),
                owner=judgement.owner_of_most([failure for failure, _ in group]),
            )
        )
    return tuple(sorted(groups, key=attrgetter("count"), reverse=True))
