"""Find out why JSON can't represent what a system returned."""

from __future__ import annotations

import json
import math
from typing import Any, Final

_encode: Final = json.JSONEncoder(allow_nan=False).encode
_CONTAINERS: Final = (dict, list, tuple)
_MAX_PATH: Final = 150


def json_problem(value: object) -> str | None:
    """Return why JSON can't represent a value, or `None` if it can.

    Keys must be strings. `json.dumps` would convert other keys, and the rubric would get something
    else than the system returned.
    """
    if value is None or type(value) is str:
        return None
    try:
        _encode(value)
    except RecursionError:
        return _find(value) or "RecursionError: $ is nested too deep to be written as JSON"
    except Exception as error:  # noqa: BLE001 - the value's own methods may raise anything
        return _find(value) or f"{type(error).__name__}: $ can't be written as JSON"
    if isinstance(value, _CONTAINERS) and _has_odd_key(value):
        return _find(value)
    return None


def _has_odd_key(value: Any) -> bool:
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            if not all(isinstance(key, str) for key in each):
                return True
            each = each.values()
        pending.extend([one for one in each if isinstance(one, _CONTAINERS)])
    return False


def _find(value: object) -> str | None:
    """Return the first problem, in the order in which JSON is written, with its path."""
    try:
        return _search(value, "$", ())
    except Exception:  # noqa: BLE001 - as above
        return None


def _search(value: object, path: str, above: tuple[int, ...]) -> str | None:
    if isinstance(value, _CONTAINERS):
        return _search_container(value, path, above)
    if value is None or isinstance(value, str | bool):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else f"ValueError: {path} is {value}{_CANT}"
    if isinstance(value, int):
        try:
            str(value)
        except ValueError:
            return f"ValueError: {path} is an integer of too many digits to be written"
        return None
    return f"TypeError: {path} is of type {type(value).__name__}{_CANT}"


def _search_container(
    value: dict[Any, Any] | list[Any] | tuple[Any, ...], path: str, above: tuple[int, ...]
) -> str | None:
    if id(value) in above:
        return f"ValueError: {path} contains itself{_CANT}"
    inside = (*above, id(value))
    if isinstance(value, dict):
        problems = (_search_entry(key, each, path, inside) for key, each in value.items())
    else:
        problems = (
            _search(each, _shorten(f"{path}[{index}]"), inside) for index, each in enumerate(value)
        )
    return next((problem for problem in problems if problem), None)


def _search_entry(key: object, value: object, path: str, above: tuple[int, ...]) -> str | None:
    if not isinstance(key, str):
        kind = type(key).__name__
        return f"TypeError: {path} has a key of type {kind}; in JSON all keys are strings"
    step = f".{key}" if key.isidentifier() else f"[{key[:_MAX_PATH]!r}]"
    return _search(value, _shorten(f"{path}{step}"), above)


def _shorten(path: str) -> str:
    return path if len(path) <= _MAX_PATH else f"$...{path[-_MAX_PATH + 4 :]}"


_CANT: Final = ", which JSON can't hold"
