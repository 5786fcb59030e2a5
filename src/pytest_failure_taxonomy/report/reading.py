"""Read a report from a file that anybody may have written, and refuse all else.

The standard library parses first, because it can be told to refuse what pydantic's parser lets
pass: a key given twice (the last one would win) and a number that is none.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.report.build import SCHEMA_ID, SCHEMA_VERSION
from pytest_failure_taxonomy.report.limits import MAX_REPORT_BYTES
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.report.text import safe_text
from pytest_failure_taxonomy.report.write import name_of_special_file

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MAX_INTEGER_DIGITS: Final = 4_300
"""Python's own limit, which writers of JSON are held to; beyond it, time grows with the square."""
MAX_PROBLEMS: Final = 100
"""Problems of one file that are listed."""

_FIRST_SCHEMA_ID: Final = "urn:pytest-failure-taxonomy:failure-report:1.0"
_NEW_FIELDS: Final[dict[str, dict[str, None]]] = {
    "run": {"shard": None},
    "verdict": {"owner": None},
    "failures": {"origin": None},
    "groups": {"owner": None, "history": None},
    "collection_errors": {"origin": None},
    "in_flight": dict.fromkeys(("stall", "output", "stack", "location")),
    "workers": {"peak_rss_bytes": None},
    "environment": {"watcher": None, "memory": None, "git": None},
}
"""The fields that version 1.1 added, by the object, or the list of objects, that has them."""

_RIGHT: Final = "a report is the JSON file that `pytest --failure-taxonomy` writes"
_MAX_WORD: Final = 80
_VERSION: Final = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_JSON_SORTS: Final[dict[type, str]] = {
    list: "an array",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}
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
    where = safe_text(os.fspath(path))
    return parse_report(_read(Path(path), where), where)


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
        raise _refusal(where, f"bigger than {MAX_REPORT_BYTES // 1024**2} MiB")
    content = _parse_json(data, where)
    if not isinstance(content, dict):
        raise _refusal(where, f"{_JSON_SORTS[type(content)]} and not an object")
    _check_version(content.get("schema_version"), where)
    try:
        return FailureReport.model_validate_json(_brought_up_to_date(content, data))
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
    # What the standard library takes and pydantic does not: half a surrogate pair, 200 levels.
    if problems[0]["type"] == "json_invalid":
        raise _refusal(where, safe_text(problems[0]["msg"]))
    raise ReportError(_list_problems(problems, where))


def _read(path: Path, where: str) -> bytes:
    try:
        # Looked at before it is opened, because opening a device can do things, and again after,
        # because it may have been replaced. Opening a FIFO would wait for a writer.
        _check_is_file(path.stat().st_mode, where)
        descriptor = os.open(
            path,
            os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0),
        )
        with os.fdopen(descriptor, "rb") as file:
            _check_is_file(os.fstat(descriptor).st_mode, where)
            return file.read(MAX_REPORT_BYTES + 1)
    except FileNotFoundError:
        raise _refusal(where, "there is no such file") from None
    except OSError as error:
        raise _refusal(where, f"can't be read ({error.strerror or error})") from None
    except ValueError as error:
        raise _refusal(where, f"is no path ({error})") from None


def _check_is_file(mode: int, where: str) -> None:
    name = name_of_special_file(mode)
    if name is not None:
        raise _refusal(where, f"is {name} and not a file")


class _BadJSONError(Exception):
    """JSON that the standard library would take and a report must not hold."""


def _parse_json(data: bytes, where: str) -> object:
    try:
        text = data.decode("utf-8")
        return json.loads(
            text,
            object_pairs_hook=_unique_keys,
            parse_constant=_refuse_constant,
            parse_float=_parse_float,
            parse_int=_parse_int,
        )
    except UnicodeDecodeError as error:
        raise _refusal(where, f"not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise _refusal(where, "nested too deep") from None
    except json.JSONDecodeError as error:
        at = f"line {error.lineno} column {error.colno}"
        raise _refusal(where, f"not JSON ({error.msg} at {at})") from None
    except _BadJSONError as error:
        raise _refusal(where, str(error)) from None


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise _BadJSONError(f'the key "{safe_text(twice, _MAX_WORD)}" stands twice in one object')
    return unique


def _refuse_constant(name: str) -> object:
    raise _BadJSONError(f"{name} is no number that JSON knows")


def _parse_float(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise _BadJSONError(f"the number {safe_text(digits, _MAX_WORD)} is too big")
    return number


def _parse_int(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_INTEGER_DIGITS:
        raise _BadJSONError(f"an integer of more than {MAX_INTEGER_DIGITS} digits")
    return int(digits)


def _check_version(version: object, where: str) -> None:
    found = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if found is None:
        return
    newest = tuple(int(part) for part in SCHEMA_VERSION.split("."))
    if (int(found[1]), int(found[2])) > newest:
        raise ReportError(
            f"{where}: schema version {version} is newer than this program reads"
            f" ({SCHEMA_VERSION}); upgrade pytest-failure-taxonomy"
        )


def _brought_up_to_date(content: dict[str, Any], data: bytes) -> bytes:
    """Return a report of schema version 1.0 as one of 1.1 whose new fields are null or empty.

    The bytes of any other are returned as they are, so that what is wrong with them is found there.
    """
    if content.get("schema_version") != "1.0" or content.get("$schema") != _FIRST_SCHEMA_ID:
        return data
    content = {**content, "$schema": SCHEMA_ID, "schema_version": SCHEMA_VERSION}
    content.setdefault("stalls", [])
    content.setdefault("tests", None)
    for field, new in _NEW_FIELDS.items():
        if field in content:
            content[field] = _with_new_fields(content[field], new)
    return json.dumps(content).encode("ascii")


def _with_new_fields(old: Any, new: Mapping[str, None]) -> Any:
    if isinstance(old, list):
        return [_with_new_fields(each, new) for each in old]
    return {**new, **old} if isinstance(old, dict) else old


def _list_problems(problems: list[ErrorDetails], where: str) -> str:
    count = f"{len(problems)} problems" if len(problems) > 1 else "1 problem"
    head = (
        f"{where}: not a report of schema version {SCHEMA_VERSION}, {count};"
        " `failure-taxonomy schema` prints what would be right"
    )
    lines = [f"  {_json_path(each['loc'])}: {_words(each)}" for each in problems[:MAX_PROBLEMS]]
    if len(problems) > MAX_PROBLEMS:
        lines.append(f"  ... and {len(problems) - MAX_PROBLEMS} more")
    return "\n".join([head, *lines])


def _json_path(location: tuple[int | str, ...]) -> str:
    path = "$"
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif _NAME.fullmatch(part):
            path += "." + safe_text(part, _MAX_WORD)
        else:
            path += f"['{safe_text(part, _MAX_WORD)}']"
    return path


def _words(problem: ErrorDetails) -> str:
    own = _OWN_WORDS.get(problem["type"])
    if own is not None:
        return own
    words = safe_text(problem["msg"])
    found = problem["input"]
    if isinstance(found, dict | list):
        return words
    return f"{words}, found {safe_text(json.dumps(found, ensure_ascii=False), _MAX_WORD)}"


def _refusal(where: str, what: str) -> ReportError:
    return ReportError(f"{where}: {what}; {_RIGHT}")
