"""Parse JSON strictly: refuse what the standard forbids, and what parsers disagree about."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn

from pytest_failure_taxonomy.documents.problems import WrongError, quoted, shown
from pytest_failure_taxonomy.documents.yaml_files import MAX_DEPTH

_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(text: str, *, right: str = "write one JSON object a line") -> Any:
    """Return the value of a JSON text.

    Args:
        text: The text.
        right: What would be right, for the message about what is not JSON.

    Raises:
        WrongError: The text is not JSON, is nested too deep, or holds NaN, an infinite number, an
            unpaired surrogate, or the same key twice in one object.
    """
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        what = f"not JSON ({shown(error.msg)} at column {error.colno})"
        raise WrongError(f"{what}; {right}") from None
    except WrongError:
        raise
    except RecursionError:
        raise WrongError("nested too deep; write a flatter value") from None
    except ValueError:
        raise WrongError("holds a number too long to be read; put it in quotes") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise WrongError("nested too deep; write a flatter value")
    if _SURROGATE.search(text) is not None:
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError as error:
            half = error.object[error.start]
            raise WrongError(
                f"holds half a character ({quoted(half)}), which UTF-8 can't; write a whole one"
            ) from None
    return value


def _depth(value: Any) -> int:
    """Return the nesting depth of a value, without recursion."""
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            each
            for parent in level
            if isinstance(parent, list | dict)
            for each in (parent.values() if isinstance(parent, dict) else parent)
        ]
    return depth


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise WrongError(f"the key {quoted(key)} stands there twice; give it once")
            seen.add(key)
    return found


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        _refuse_constant(text)
    return number


def _refuse_constant(text: str) -> NoReturn:
    raise WrongError(f"{quoted(text)} is no number to JSON; write null or put it in quotes")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_number, parse_constant=_refuse_constant
)
"""Created once: `json.loads` would create one for each line."""
