"""See the comparison that failed, when pytest asks its plugins to explain it."""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Any, Final

from pytest_failure_taxonomy.comparisons import (
    Difference,
    compare_sides,
    first_difference,
)

Place = tuple[CodeType, int | None]
"""A function or module, and a line of it."""

_ASSERTIONS: Final = "unittest.case"
"""The module whose functions have the two sides as their first arguments after
`self`."""


def asserting_place() -> Place | None:
    """Return where the assertion is for which pytest asks its plugins for words."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - there is no public way
    was_in_pytest = False
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        is_in_pytest = type(module) is str and module.startswith("_pytest.assertion")
        if was_in_pytest and not is_in_pytest:
            return frame.f_code, frame.f_lineno
        was_in_pytest = is_in_pytest
        frame = frame.f_back
    return None


def compare_in_unittest(frame: Any) -> tuple[Difference, str]:
    """Tell in what the sides differ of an assertion of `unittest`, and where.

    Args:
        frame: that of the assertion, or of anything else.
    """
    code = frame.f_code
    is_assertion = frame.f_globals.get("__name__") == _ASSERTIONS
    if not is_assertion or code.co_argcount < 3 or code.co_name[:6] != "assert":
        return "other", ""
    left, right = (frame.f_locals.get(name) for name in code.co_varnames[1:3])
    is_equality = code.co_name == "assertEqual"
    where = first_difference(left, right) if is_equality else ""
    return compare_sides("==", left, right), where
