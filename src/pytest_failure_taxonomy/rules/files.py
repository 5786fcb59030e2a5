"""Read a user's file of rules, or of known failures, or report everything that is wrong with it."""

# Without `from __future__ import annotations`: pydantic needs the annotations as they
# are.

import os
import re
from datetime import date
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator

from pytest_failure_taxonomy.documents.models import FileModel, Line, validate
from pytest_failure_taxonomy.documents.problems import (
    WRONG,
    Problems,
    Tree,
    WrongError,
    closest,
    kind_of,
    quoted,
    right_words,
)
from pytest_failure_taxonomy.documents.yaml_files import Form, read_tree
from pytest_failure_taxonomy.errors import RulesError
from pytest_failure_taxonomy.redaction.user_patterns import compile_quietly
from pytest_failure_taxonomy.taxonomy.judgement import (
    KIND_PATTERN,
    ChargedTo,
    CodeOwner,
    FailureReason,
)
from pytest_failure_taxonomy.taxonomy.user_rules import (
    KnownFailure,
    Rule,
    default_kind,
    reasons_of_kind,
)

MAX_BYTES: Final = 64 * 1024
"""Enough for hundreds of rules."""
MAX_BYTES_OF_KNOWN: Final = 1024 * 1024
"""Enough for some thousand entries."""
MAX_PATTERN: Final = 1_000
"""Characters of a regular expression."""
MATCH_FIELDS: Final = (
    "exception",
    "message",
    "nodeid",
    "phase",
    "code_owner",
    "package",
)
"""The keys that select the failures to which a rule applies."""

_FORM: Final = Form(
    right="a file of rules is YAML in UTF-8 that begins with `rules:`",
    max_bytes=MAX_BYTES,
)
_EXAMPLE: Final = (
    "write `rules:` and below it a list of rules, each beginning with `- `"
)
_FORM_OF_KNOWN: Final = Form(
    right="a file of known failures is a YAML list in UTF-8 of entries with `nodeid:` or "
    "`fingerprint:`",
    max_bytes=MAX_BYTES_OF_KNOWN,
)
_EXAMPLE_OF_KNOWN: Final = (
    "write a list of entries, each beginning with `- nodeid:` or `- fingerprint:`"
)
_MISSING: Final = {"reason": "add one of the fifteen, such as `reason: SANDBOX_ERROR`"}


def load_rules(path: str | os.PathLike[str]) -> tuple[Rule, ...]:
    """Read a file of rules.

    Args:
        path: Of a YAML file; docs/how-to/write-rules.md describes its content.

    Returns:
        The rules in the order of the file, in which they are also applied.

    Raises:
        RulesError: The file can't be read or used; the message has one line for each
            problem, as `FILE:LINE: what is wrong; what would be right`.
    """
    problems = Problems(os.fspath(path), RulesError)
    if_empty = f"the file is empty; {_EXAMPLE}"
    root = read_tree(
        path,
        problems,
        _FORM,
        root=(dict,),
        example=_EXAMPLE,
        if_empty=if_empty,
    )
    rules = () if root is None else _read_rules(root, problems)
    if problems:
        raise problems.as_error()
    return rules


def _read_rules(root: Tree, problems: Problems) -> tuple[Rule, ...]:
    for key, part in root.items():
        if key != "rules":
            right = right_words(
                key, ["rules"], otherwise="the only key here is `rules`"
            )
            problems.add(part.line, f"unknown key {quoted(key)}; {right}")
    if "rules" not in root.value:
        problems.add(root.line, f"there are no rules; {_EXAMPLE}")
        return ()
    listed = root.at("rules")
    if not isinstance(listed.value, list):
        if listed.value is not WRONG:
            problems.add(
                listed.line, f"rules: is {kind_of(listed)} and not a list; {_EXAMPLE}"
            )
        return ()
    if not listed.value:
        problems.add(listed.line, f"rules: the list is empty; {_EXAMPLE}")
    rules = []
    lines: dict[str, int] = {}
    for number, part in enumerate(listed, start=1):
        rule = _read_rule(part, problems)
        given = part.value.get("name") if isinstance(part.value, dict) else None
        name = given if isinstance(given, str) and given else f"rule-{number}"
        if name in lines:
            problems.add(
                part.line,
                f"name: {quoted(name)} is the name of the rule in line {lines[name]};"
                " each rule needs its own",
            )
        lines.setdefault(name, part.line)
        if rule is not None:
            rules.append(Rule(**{"name": name, **rule}))
    return tuple(rules)


def _read_rule(part: Tree, problems: Problems) -> dict[str, Any] | None:
    """Return the fields of a rule, or `None` if anything is wrong with it."""
    if not isinstance(part.value, dict):
        if part.value is not WRONG:
            what = f"a rule is {kind_of(part)}; write keys and values, such as `reason: LLM_ERROR`"
            problems.add(part.line, what)
        return None
    entry = validate(
        _RuleEntry,
        part,
        problems,
        subject="the rule",
        missing=_MISSING,
    )
    # What a misspelled key was meant to be is not missing.
    named = {closest(key, _RuleEntry.model_fields) or key for key in part.value}
    if named.isdisjoint(MATCH_FIELDS):
        what = f"the rule would match every failure; add at least one of {', '.join(MATCH_FIELDS)}"
        problems.add(part.line, what)
    reason, kind = part.value.get("reason"), part.value.get("kind")
    is_known = isinstance(reason, str) and reason in FailureReason.__members__
    if (
        is_known
        and isinstance(kind, str)
        and re.fullmatch(KIND_PATTERN, kind) is not None
    ):
        reasons = reasons_of_kind(kind)
        if reasons and reason not in reasons:
            problems.add(
                part.at("kind").line,
                f"kind: {kind} belongs to {' or '.join(reasons)} and not to {reason};"
                " change one of the two",
            )
    if entry is None:
        return None
    known = FailureReason[entry.reason]
    fields = entry.model_dump(exclude_unset=True)
    return {"kind": default_kind(known), **fields, "reason": known}


def _check_exception(name: str) -> str:
    if not all(part.isidentifier() for part in name.split(".")):
        raise WrongError(
            f"{quoted(name)} is no name of a class; write it as TimeoutError or as package.TheError"
        )
    return name


def _check_pattern(pattern: str) -> str:
    if not pattern:
        raise WrongError("is empty; give it a value or leave it out")
    if len(pattern) > MAX_PATTERN:
        raise WrongError(
            f"is longer than {MAX_PATTERN:,} characters; make several rules of it"
        )
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


def _check_reason(name: str) -> str:
    if name not in FailureReason.__members__:
        right = right_words(
            name,
            FailureReason.__members__,
            otherwise="they are " + ", ".join(FailureReason),
        )
        raise WrongError(f"{quoted(name)} is none of the fifteen reasons; {right}")
    return name


def _matching(pattern: str, otherwise: str) -> AfterValidator:
    """Return a check of a text as a whole, and what to say of one that is something else."""

    def check(given: str) -> str:
        if re.fullmatch(pattern, given) is None:
            raise WrongError(f"{quoted(given)} is no {otherwise}")
        return given

    return AfterValidator(check)


_OwnKind = Annotated[
    Line,
    _matching(
        KIND_PATTERN,
        "kind; write lower-case words with dots between them, such as sandbox.database",
    ),
]
_Link = Annotated[
    Line,
    _matching(
        r"(?i:https?)://[^\s/]+\S*", "address; begin it with https:// or http://"
    ),
]
_Fingerprint = Annotated[
    str,
    _matching(
        "[0-9a-f]{6,64}",
        "fingerprint; give six or more of its hexadecimal digits, quoted",
    ),
]


class _RuleEntry(FileModel):
    """The keys of a rule."""

    name: Line | None = None
    exception: Annotated[Line, AfterValidator(_check_exception)] | None = None
    message: Annotated[str, AfterValidator(_check_pattern)] | None = None
    nodeid: Line | None = None
    phase: Literal["setup", "call", "teardown"] | None = None
    code_owner: CodeOwner | None = None
    package: Line | None = None
    reason: Annotated[Line, AfterValidator(_check_reason)]
    kind: _OwnKind | None = None
    severity: Literal["block", "warn", "info"] | None = None
    retryable: bool | None = None
    owner: Line | None = None
    link: _Link | None = None
    charge_to: ChargedTo | None = None


def load_known(path: str | os.PathLike[str]) -> tuple[KnownFailure, ...]:
    """Read a file of known failures.

    Raises:
        RulesError: the file can't be read or used; the message has one line for each
            problem, as `FILE:LINE: what is wrong; what would be right`.
    """
    problems = Problems(os.fspath(path), RulesError)
    root = read_tree(
        path,
        problems,
        _FORM_OF_KNOWN,
        root=(list,),
        example=_EXAMPLE_OF_KNOWN,
        if_empty="the file is empty",
    )
    entries = []
    for part in () if root is None else root:
        if not isinstance(part.value, dict):
            if part.value is not WRONG:
                problems.add(
                    part.line, f"an entry is {kind_of(part)}; {_EXAMPLE_OF_KNOWN}"
                )
            continue
        entry = validate(_KnownEntry, part, problems, subject="the entry")
        if ("nodeid" in part.value) == ("fingerprint" in part.value):
            which = "both" if "nodeid" in part.value else "neither"
            problems.add(
                part.line, f"the entry has {which} of nodeid and fingerprint; give one"
            )
        elif entry is not None:
            given = entry.model_dump(exclude_unset=True)
            entries.append(KnownFailure(**{"line": part.line, **given}))
    if problems:
        raise problems.as_error()
    return tuple(entries)


def _check_date(given: str) -> str:
    try:
        return date.fromisoformat(given).isoformat()
    except ValueError:
        raise WrongError(
            f"{quoted(given)} is no date; give one such as 2026-12-31"
        ) from None


class _KnownEntry(FileModel):
    """The keys of an entry of a file of known failures."""

    nodeid: Line | None = None
    fingerprint: _Fingerprint | None = None
    owner: Line | None = None
    link: _Link | None = None
    expires: Annotated[str, AfterValidator(_check_date)] | None = None
