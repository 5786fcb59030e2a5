"""Read a user's file of known failures, or report everything that is wrong with it."""

# Without `from __future__ import annotations`: pydantic needs the annotations as they are.

import os
import re
from datetime import date
from typing import Annotated, Any, Final

from pydantic import AfterValidator

from pytest_failure_taxonomy.documents.models import FileModel, Line, validate
from pytest_failure_taxonomy.documents.problems import (
    WRONG,
    Problems,
    Tree,
    WrongError,
    kind_of,
    quoted,
)
from pytest_failure_taxonomy.documents.yaml_files import Form, read_tree
from pytest_failure_taxonomy.errors import RulesError
from pytest_failure_taxonomy.rules.rules_file import check_link
from pytest_failure_taxonomy.taxonomy.user_rules import KnownFailure

MAX_BYTES: Final = 1024 * 1024
"""Enough for some thousand entries."""
_FORM: Final = Form(
    right="a file of known failures is a YAML list in UTF-8 of entries with `nodeid:` or "
    "`fingerprint:`",
    max_bytes=MAX_BYTES,
)
_EXAMPLE: Final = "write a list of entries, each beginning with `- nodeid:` or `- fingerprint:`"
_FINGERPRINT: Final = re.compile(r"[0-9a-f]{6,64}")


def load_known(path: str | os.PathLike[str]) -> tuple[KnownFailure, ...]:
    """Read a file of known failures.

    Raises:
        RulesError: the file can't be read or used; the message has one line for each problem, as
            `FILE:LINE: what is wrong; what would be right`.
    """
    problems = Problems(os.fspath(path), RulesError)
    root = read_tree(
        path, problems, _FORM, root=(list,), example=_EXAMPLE, if_empty="the file is empty"
    )
    entries = () if root is None else tuple(_read_entry(each, problems) for each in root)
    if problems:
        raise problems.as_error()
    return tuple(each for each in entries if each is not None)


def _read_entry(part: Tree, problems: Problems) -> KnownFailure | None:
    if not isinstance(part.value, dict):
        if part.value is not WRONG:
            problems.add(part.line, f"an entry is {kind_of(part)}; {_EXAMPLE}")
        return None
    entry = validate(_Entry, part, problems, subject="the entry")
    if ("nodeid" in part.value) == ("fingerprint" in part.value):
        which = "both" if "nodeid" in part.value else "neither"
        problems.add(part.line, f"the entry has {which} of nodeid and fingerprint; give one")
        return None
    if entry is None:
        return None
    given: dict[str, Any] = entry.model_dump(exclude_unset=True)
    return KnownFailure(**{"line": part.line, **given})


def _check_fingerprint(given: str) -> str:
    if _FINGERPRINT.fullmatch(given) is None:
        raise WrongError(
            f"{quoted(given)} is no fingerprint; give six or more of its hexadecimal digits, quoted"
        )
    return given


def _check_date(given: str) -> str:
    try:
        return date.fromisoformat(given).isoformat()
    except ValueError:
        raise WrongError(f"{quoted(given)} is no date; give one such as 2026-12-31") from None


class _Entry(FileModel):
    """The keys of an entry."""

    nodeid: Line | None = None
    fingerprint: Annotated[str, AfterValidator(_check_fingerprint)] | None = None
    owner: Line | None = None
    link: Annotated[Line, AfterValidator(check_link)] | None = None
    expires: Annotated[str, AfterValidator(_check_date)] | None = None
