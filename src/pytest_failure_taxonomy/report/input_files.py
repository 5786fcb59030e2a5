"""Read a file that anybody may have written, and refuse what would harm its reader.

The standard library parses JSON, because it can be told to refuse what others let pass: a key given
twice (the last one would win) and a number that is none.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.report.limits import MAX_REPORT_BYTES
from pytest_failure_taxonomy.report.text import safe_text
from pytest_failure_taxonomy.report.write import name_of_special_file
from pytest_failure_taxonomy.system.files import read_named_file

MAX_INTEGER_DIGITS: Final = 4_300
"""Python's own limit, which writers of JSON are held to; beyond it, time grows with the square."""
MAX_WORD: Final = 80
"""Characters of a key or a value that a message quotes."""


class UnfitJSONError(Exception):
    """What is wrong with a text that should be JSON, in words."""


def refusal(where: str, what: str, right: str) -> ReportError:
    """Return the error that says where, what is wrong, and what would be right."""
    return ReportError(f"{where}: {what}; {right}")


def read_input(path: Path, right: str, *, limit: int = MAX_REPORT_BYTES) -> bytes:
    """Return the content of a regular file, or of a link to one.

    Args:
        path: of the file.
        right: what would be right, for the message of the error.
        limit: bytes that it may have; at most one more is read.

    Raises:
        ReportError: it can't be read, is no file, or is bigger than the limit.
    """
    where = safe_text(os.fspath(path))
    try:
        # Looked at before it is opened, because opening a device can do things.
        status = path.stat()
        name = name_of_special_file(status.st_mode)
        if name is not None:
            raise refusal(where, f"is {name} and not a file", right)
        content = b"" if status.st_size > limit else read_named_file(path, limit + 1)
    except FileNotFoundError:
        raise refusal(where, "there is no such file", right) from None
    except OSError as error:
        raise refusal(where, f"can't be read ({error.strerror or error})", right) from None
    except ValueError as error:
        raise refusal(where, f"is no path ({error})", right) from None
    if max(status.st_size, len(content)) > limit:  # it may grow, or not tell its size
        raise refusal(where, f"bigger than {limit // 1024**2} MiB", right)
    return content


def parse_json(data: bytes) -> object:
    """Return what JSON in UTF-8 says.

    Raises:
        UnfitJSONError: it is none, or holds what no writer of JSON should write.
    """
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique_keys,
            parse_constant=_refuse_constant,
            parse_float=_parse_float,
            parse_int=_parse_int,
        )
    except UnicodeDecodeError as error:
        raise UnfitJSONError(f"not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise UnfitJSONError("nested too deep") from None
    except json.JSONDecodeError as error:
        at = f"line {error.lineno} column {error.colno}"
        raise UnfitJSONError(f"not JSON ({error.msg} at {at})") from None


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise UnfitJSONError(f'the key "{safe_text(twice, MAX_WORD)}" stands twice in one object')
    return unique


def _refuse_constant(name: str) -> object:
    raise UnfitJSONError(f"{name} is no number that JSON knows")


def _parse_float(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise UnfitJSONError(f"the number {safe_text(digits, MAX_WORD)} is too big")
    return number


def _parse_int(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_INTEGER_DIGITS:
        raise UnfitJSONError(f"an integer of more than {MAX_INTEGER_DIGITS} digits")
    return int(digits)
