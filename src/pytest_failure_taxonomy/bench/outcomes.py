"""What a run of one case leaves beside its score, and what a rubric may answer with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from pytest_failure_taxonomy.taxonomy.values import value

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytest_failure_taxonomy.bench.models import BenchCase, BenchScore

    SystemUnderTest = Callable[[BenchCase], Any]
    """Plain or async; returns anything that JSON can hold."""


@value
class CaseOutcome:
    """The score of a case, and what helps a person to see how it came about."""

    case_id: str
    score: BenchScore
    traceback: str = ""
    """Of the system under test or of the rubric, where one raised."""
    printed: str = ""
    """What the rubric printed, capped."""


@value
class RubricAnswer:
    """What an isolated rubric answered: its verdict as JSON text, not yet checked."""

    json: bytes
    printed: str = ""


class RubricError(Exception):
    """The rubric gave no verdict; says why in one line."""

    def __init__(self, message: str, *, traceback: str = "", printed: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback
        self.printed = printed


class RubricTimeoutError(RubricError):
    """The rubric was not done in time and was killed."""


class RubricRunner(Protocol):
    """Grades the output of a case.

    A coroutine function or a plain one. Returns a `BenchScore`, a mapping of the shape that a
    `rubric.py` answers with, or a `RubricAnswer`. What it raises becomes a score: of code
    `rubric.timeout` for `RubricTimeoutError`, `rubric.malformed_output` for any other.
    """

    def __call__(self, case: BenchCase, output: Any, /) -> Awaitable[object] | object:
        """Grade one output."""
