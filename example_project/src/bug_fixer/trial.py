"""Run a module's tests, and give up where they take too many steps."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

MOST_STEPS = 2_000


class OutOfStepsError(Exception):
    """The module has run more lines than it may: it is in a loop that does not end."""


def count_passed(source: str, tests: Sequence[str]) -> int:
    """Return how many of the tests a module passes; an error of any sort passes none."""
    names: dict[str, Any] = {}
    try:
        within_steps(lambda: exec(compile(source, "module.py", "exec"), names))
    except Exception:  # whatever it is, no test can be run
        return 0
    return sum(_is_true(test, names) for test in tests)


def _is_true(test: str, names: dict[str, Any]) -> bool:
    try:
        return bool(within_steps(lambda: eval(test, names)))
    except Exception:  # a test that raises is not passed
        return False


def within_steps(run: Callable[[], object], most: int = MOST_STEPS) -> object:
    """Call a function, and raise in it when it has run so many lines.

    Steps are the same on every machine; seconds are not.
    """
    left = most

    def count(_: FrameType, event: str, __: object) -> Any:  # noqa: ANN401 - a trace function
        nonlocal left
        left -= event == "line"
        if left < 0:
            raise OutOfStepsError
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        return run()
    finally:
        sys.settrace(before)
