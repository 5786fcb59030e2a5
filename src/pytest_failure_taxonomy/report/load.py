"""Read a report from a file that anybody may have written, and refuse all else.

The standard library parses first, because it refuses what pydantic's parser lets pass.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from pytest_failure_taxonomy.documents.content import (
    MAX_WORD,
    parse_json,
    path_words,
    read_input,
    refusal,
)
from pytest_failure_taxonomy.documents.problems import MAX_PROBLEMS, WrongError
from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.report.amend import causes_of_groups
from pytest_failure_taxonomy.report.build import (
    MAX_REPORT_BYTES,
    SCHEMA_ID,
    SCHEMA_VERSION,
)
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.taxonomy.words import and_more, counted
from pytest_failure_taxonomy.text import safe_text

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_OLD_VERSIONS: Final = ("1.0", "1.1")
_SCHEMA: Final = SCHEMA_ID.removesuffix(SCHEMA_VERSION)
_NEW_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "run": {"shard": None},
    "verdict": {"owner": None},
    "failures": {"origin": None},
    "groups": {"owner": None, "history": None},
    "collection_errors": {"origin": None},
    "in_flight": dict.fromkeys(("stall", "output", "stack", "location")),
    "workers": {"peak_rss_bytes": None},
    "environment": dict.fromkeys(("watcher", "memory", "git", "distributions")),
}
"""The fields that versions 1.1 and 1.2 added, by the object, or the list of them, that has them."""

_RIGHT: Final = "give the path of a report, the JSON file that `pytest --why` writes"
_VERSION: Final = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})")

_OWN_WORDS: Final = {
    "missing": "is missing",
    "extra_forbidden": "is no key of this object",
}
"""Our words for pydantic's sorts of errors, where its own don't fit a file."""


def load_report(path: str | os.PathLike[str]) -> FailureReport:
    """Read the report at a path.

    Args:
        path: a regular file of at most `MAX_REPORT_BYTES`, or a link to one.

    Raises:
        ReportError: there is no such file, or it is not a report that this version reads.
    """
    return parse_report(read_input(Path(path), _RIGHT), os.fspath(path))


def parse_report(data: bytes, where: str) -> FailureReport:
    """Turn the bytes of a report into its model.

    Args:
        data: JSON in UTF-8.
        where: what to call the source in an error, such as its path.

    Raises:
        ReportError: it is not a report that this version reads; the message lists every problem.
    """
    where = safe_text(where)
    if len(data) > MAX_REPORT_BYTES:
        raise refusal(where, f"bigger than {MAX_REPORT_BYTES // 1024**2} MiB", _RIGHT)
    try:
        content = parse_json(data)
    except WrongError as error:
        raise refusal(where, error.what, _RIGHT) from None
    if not isinstance(content, dict):
        raise refusal(where, "it is no JSON object", _RIGHT)
    version = content.get("schema_version")
    found = _VERSION.fullmatch(version) if isinstance(version, str) else None
    newest = tuple(int(part) for part in SCHEMA_VERSION.split("."))
    if found is not None and (int(found[1]), int(found[2])) > newest:
        raise ReportError(
            f"{where}: schema version {version} is newer than this program reads"
            f" ({SCHEMA_VERSION}); upgrade pytest-failure-taxonomy"
        )
    try:
        report = FailureReport.model_validate_json(_brought_up_to_date(content, data))
        if "causes" not in content:  # of an older schema version; its groups tell them
            older = report.model_dump(mode="json", by_alias=True)
            report = FailureReport.model_validate(
                {**older, "causes": causes_of_groups(older)}
            )
        return report
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
    # What the standard library takes and pydantic does not: half a surrogate pair, 200 levels.
    if problems[0]["type"] == "json_invalid":
        raise refusal(where, safe_text(problems[0]["msg"]), _RIGHT)
    raise ReportError(_list_problems(problems, where))


def _brought_up_to_date(content: dict[str, Any], data: bytes) -> bytes:
    """Return a report of an older schema version as one whose new fields are null or empty.

    The bytes of any other are returned as they are, so that what is wrong with them is found there.
    """
    version = str(content.get("schema_version"))
    if version not in _OLD_VERSIONS or content.get("$schema") != f"{_SCHEMA}{version}":
        return data
    new_fields: dict[str, Any] = {
        "stalls": [],
        "tests": None,
        "causes": [],
        "order": None,
    }
    versions = {"$schema": SCHEMA_ID, "schema_version": SCHEMA_VERSION}
    content = new_fields | content | versions
    for field, new in _NEW_FIELDS.items():
        old = content.get(field)
        if isinstance(old, list):
            content[field] = [
                {**new, **each} if isinstance(each, dict) else each for each in old
            ]
        elif isinstance(old, dict):
            content[field] = {**new, **old}
    return json.dumps(content).encode("ascii")


def _list_problems(problems: list[ErrorDetails], where: str) -> str:
    count = counted(len(problems), "problem")
    head = f"{where}: not a report of schema version {SCHEMA_VERSION}, {count};"
    lines = [f"{head} `failure-taxonomy schema` prints what would be right"]
    for problem in problems[:MAX_PROBLEMS]:
        words, found = _OWN_WORDS.get(problem["type"]), problem["input"]
        if words is None:
            words = safe_text(problem["msg"])
            if not isinstance(found, dict | list):
                words += f", found {safe_text(json.dumps(found, ensure_ascii=False), MAX_WORD)}"
        lines.append(f"  {safe_text(path_words(problem['loc']))}: {words}")
    if more := and_more(len(problems) - MAX_PROBLEMS):
        lines.append(f"  ...{more}")
    return "\n".join(lines)
