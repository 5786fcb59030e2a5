"""Tell which failures are the same, and group them.

A fingerprint is a hash of what stays when a failure happens again: see
docs/explanation/causes.md for the rule and its reasons. What is taken out of a
message stands in `data/fingerprints.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from operator import attrgetter
from typing import Final

from pytest_failure_taxonomy.taxonomy import evidence, judgement, packaged_table
from pytest_failure_taxonomy.taxonomy.code_owners import TEST_FOLDERS
from pytest_failure_taxonomy.taxonomy.order import digest_of
from pytest_failure_taxonomy.taxonomy.words import (
    FIXTURE_ERROR,
    TYPES_OF_PYTEST,
    shortened,
)

VALUE: Final = "<*>"
"""Stands for whatever was taken out; several in a row are one, so that no length
counts."""

MAX_READ: Final = 8_000
"""Characters of a message that are looked at."""
MAX_KEPT: Final = 400
"""Characters of it that count."""
MAX_LINES: Final = 5
"""Lines of it that count, without the ones that show values alone."""

_Replacement = Callable[[re.Match[str]], str]


_Step = tuple[
    str,
    re.Pattern[str],
    str | _Replacement,
    frozenset[str],
]
"""What is replaced, its pattern, the replacement, and characters of which it has
one."""


def _replace_file_name(match: re.Match[str]) -> str:
    path = match.group().replace("\\", "/").lower()
    name = match[1]
    for part in packaged_table("fingerprints")["temporary"]:
        if part in path:
            return VALUE
    return f"{VALUE}/{name}" if name else VALUE


def _make_singular(match: re.Match[str]) -> str:
    return re.sub(r"(?<!s)s(?= |$)", "", match.group())


_FUNCTIONS: Final[Mapping[str, _Replacement]] = {
    "file_name": _replace_file_name,
    "singular": _make_singular,
}

_NAME: Final = re.compile(r"[A-Za-z_][\w.]{0,200}")  # in pytest's own tables, so cheap


# Many failures of a run say the same.
@lru_cache(maxsize=256)
def normalize_message(text: str, *, keeps_names: bool = False) -> str:
    """Return the words of a message without its values, on one line.

    Args:
        text: the message.
        keeps_names: text in quotes stays where it is the name of something in the code,
            as it is in what Python says of imports, attributes and arguments.
    """
    is_noise = re.compile(packaged_table("fingerprints")["noise"]).match
    lines = []
    for raw_line in text[:MAX_READ].split("\n", MAX_LINES * 4):
        line = raw_line.strip()
        if line and not is_noise(line):
            lines.append(line)
    message = "\n".join(lines[:MAX_LINES])
    characters = frozenset(message)
    for name, pattern, usual, needed in _load_steps():
        # Most expressions need a sign that a message doesn't have.
        if needed and needed.isdisjoint(characters):
            continue
        keeps = keeps_names and name.startswith("text in")
        replacement = _replace_unless_name if keeps else usual
        changed = pattern.sub(replacement, message)
        if changed != message:
            message = changed
            characters = frozenset(changed)
    message = " ".join(message.split())
    if len(message) > MAX_KEPT:
        message = message[:MAX_KEPT].rpartition(" ")[0]
    return message


def strip_suggestion(message: str) -> str:
    """Return what Python says of a name without advice, as that differs by version."""
    for start in packaged_table("fingerprints")["advice"]:
        message = message.partition(start)[0]
    is_of_import = message.startswith("cannot import name")
    if is_of_import and message.endswith(")"):
        # The file that it was looked for in.
        message = message.rpartition(" (")[0]
    return message


@cache
def _load_steps() -> tuple[_Step, ...]:
    """Return the substitutions, compiled when the first failure needs them."""
    steps: list[_Step] = []
    for row in packaged_table("fingerprints")["substitution"]:
        text = row.get("by", VALUE)
        replacement = _FUNCTIONS.get(row.get("made_by"), text)
        pattern = re.compile(row["pattern"], re.IGNORECASE)
        needed = frozenset(row.get("needs", ""))
        steps.append((row["what"], pattern, replacement, needed))
    return tuple(steps)


def _replace_unless_name(match: re.Match[str]) -> str:
    quoted = match.group()
    if _NAME.fullmatch(quoted[1:-1]):
        return quoted
    return VALUE


VERSION: Final = "1"
"""Counts up when the rule changes, so that no old fingerprint equals a new one by
accident."""

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
    {
        "RecursionError",
        "SyntaxError",
        "IndentationError",
        "TabError",
    }
)
"""Their messages differ between versions of Python and add nothing to type and
place."""
_CHECKS: Final = frozenset({"AssertionError", "Failed"})
"""Raised by a check; the same check in one helper fails for any number of causes."""
_DOCTESTS: Final = frozenset(
    {"DocTestFailure", "MultipleDoctestFailures", "UnexpectedException"}
)
"""Raised by the runner of doctests, with no frame of the example."""
_TIMEOUT: Final = "test.timeout"


def fingerprint_of(failure: evidence.FailureAtNode, kind: str) -> str:
    """Return 16 hexadecimal digits that are the same whenever the failure is.

    Its kind counts where there is no exception, and for a timeout; the test where there
    is no exception or no place in the user's code.
    """
    raised = failure.exception
    name = kind
    if raised is not None:
        package = raised.module.partition(".")[0]
        name = f"{package}.{raised.type}"
    if raised is None or raised.type in _DOCTESTS:
        words = ""
        # The test, whatever its parameters.
        path, _, names = failure.nodeid.partition("::")
        function = names.partition("[")[0].replace("::", ".")
        place: tuple[str, ...] = (path, function, "", "", "")
    else:
        words = _select_words(raised, kind, failure.nodeid)
        place = _select_place(raised, kind)
    return digest_of((VERSION, name, words, *place))


def title_of(failure: evidence.FailureAtNode) -> str:
    """Return one line for a group of failures, by one of them without secrets.

    Such as `ConnectionError: refused (app/db.py: connect)`.
    """
    raised = failure.exception
    message = failure.message if raised is None else raised.message
    first_line = message.strip().partition("\n")[0]
    head = " ".join(first_line.split())
    where = ""
    # pytest's own exceptions have neither a type nor a place that tells something.
    if raised is not None and raised.type not in TYPES_OF_PYTEST:
        head = f"{raised.type}: {head}" if head else raised.type
        where = _describe_place(raised.origin)
    room = MAX_TITLE - len(where)
    return shortened(head, room) + where


def _select_words(raised: evidence.RaisedException, kind: str, nodeid: str) -> str:
    message = raised.message
    line = "" if raised.origin is None else raised.origin.text
    if raised.type in _WORDLESS or kind == _TIMEOUT:
        return ""
    is_raised_here = line.startswith("raise")
    if raised.type == "AssertionError" and line and not is_raised_here:
        return ""  # it shows the values that were compared
    if raised.type == FIXTURE_ERROR:
        # Behind it pytest lists the fixtures that there are.
        message = message.partition(";")[0]
    elif raised.type not in _NAMING:
        words = normalize_message(message)
        if is_raised_here and "[" in nodeid:
            return _remove_parameters(words, line, nodeid)
        return words
    return normalize_message(strip_suggestion(message), keeps_names=True)


def _select_place(raised: evidence.RaisedException, kind: str) -> tuple[str, ...]:
    """Return path, function, text, entry and leaf, as far as they count."""
    place = raised.origin
    if place is None or raised.type == FIXTURE_ERROR:
        return ("",)
    # What is missing decides, not who asked for it.
    is_missing = raised.message.startswith(_MISSING)
    is_asked_for = place.text.startswith(("import ", "from "))
    if raised.type in _IMPORT_ERRORS and (is_missing or is_asked_for):
        return ("",)
    if kind == _TIMEOUT:
        return (place.path, place.function, "", "", "")
    entry = ""
    if raised.type in _CHECKS and is_test_code(place.path):
        entry = place.entry
    return (
        place.path,
        place.function,
        place.text,
        entry,
        place.leaf,
    )


_MISSING: Final = ("No module named", "cannot import name")


def is_test_code(path: str) -> bool:
    """Tell by its name whether a file is part of the tests or a helper of theirs."""
    *folders, name = path.split("/")
    return (
        name.startswith("test_")
        or name.endswith("_test.py")
        or name == "conftest.py"
        or not TEST_FOLDERS.isdisjoint(folders)
    )


def _describe_place(place: evidence.OriginPlace | None) -> str:
    if place is None:
        return ""
    where = place.path
    if where and place.function:
        where += ": "
    where += place.function
    where = shortened(where, MAX_TITLE // 2)
    return f" ({where})"


def _remove_parameters(message: str, text: str, nodeid: str) -> str:
    """Take the parameters of a test out of a message that its own line makes of them.

    Words that are written in that line are no values, whatever the parameters are.
    """
    parameters = nodeid.rpartition("]")[0].partition("[")[2]
    parts = parameters.split("-")[:_MAX_PARAMETERS]
    # The longest first, of which others may be parts.
    for part in sorted(set(parts), key=lambda part: (-len(part), part)):
        # Numbers, paths and the like are out already; in an id or a time they would do
        # harm.
        is_word = part.replace(" ", "").isalpha()
        if not is_word or part in text:
            continue
        pattern = rf"(?<!\w){re.escape(part)}(?!\w)"
        if part == "at":
            # That of `<object object at 0x7f…>` is no parameter.
            pattern += rf"(?! {re.escape(VALUE)}>)"
        message = re.sub(pattern, VALUE, message)
    return normalize_message(message)


def group_failures(
    run: evidence.RunEvidence, judged: judgement.Judgement
) -> tuple[judgement.Group, ...]:
    """Group the failures by fingerprint: biggest group first, then the first failed.

    A test that failed only because its subtests did is not counted beside them.

    Args:
        run: what was seen.
        judged: with the judgement of each failure.
    """
    with_subtests = set()
    for failure in run.failures:
        if failure.part == "subtest":
            with_subtests.add(failure.nodeid)
    failures: list[evidence.FailureAtNode] = [
        *run.failures,
        *run.collection_failures,
    ]
    judgements = [*judged.failures, *judged.collection_failures]
    members: dict[str, list[_Member]] = {}
    for member in zip(failures, judgements, strict=True):
        failed, ruling = member
        is_sum = isinstance(failed, evidence.TestFailure) and failed.part == "sum"
        if not is_sum or failed.nodeid not in with_subtests:
            members.setdefault(ruling.fingerprint, []).append(member)
    groups = [_make_group(fingerprint, alike) for fingerprint, alike in members.items()]
    return tuple(
        sorted(
            groups,
            key=attrgetter("count"),
            reverse=True,
        )
    )


_Member = tuple[
    evidence.FailureAtNode,
    judgement.FailureJudgement,
]


def _make_group(fingerprint: str, members: list[_Member]) -> judgement.Group:
    failures = [failure for failure, _ in members]
    kinds = [(ruling.reason, ruling.kind) for _, ruling in members]
    # Of equals, the first.
    reason, kind = max(dict.fromkeys(kinds), key=kinds.count)
    nodeids = dict.fromkeys([failure.nodeid for failure in failures])
    return judgement.Group(
        fingerprint=fingerprint,
        reason=reason,
        kind=kind,
        title=title_of(failures[0]),
        count=len(failures),
        nodeids=tuple(nodeids),
        owner=judgement.owner_of_most(failures),
    )
