"""Recommend the next step after a failure, and tell whether attempts repeat themselves.

This is advice only: nothing here runs git, reruns a test or notifies anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.taxonomy.tables import packaged_table
from pytest_failure_taxonomy.taxonomy.values import value
from pytest_failure_taxonomy.taxonomy.words import counted

if TYPE_CHECKING:
    import re


class FailureType(StrEnum):
    """Sort a failure by what recovering from it takes."""

    BROKEN_BUILD = "BROKEN_BUILD"
    VERIFICATION_FAILED = "VERIFICATION_FAILED"
    CIRCULAR_FIX = "CIRCULAR_FIX"
    CONTEXT_EXHAUSTED = "CONTEXT_EXHAUSTED"
    UNKNOWN = "UNKNOWN"


class RecoveryAction(StrEnum):
    """Recommend the next step after a failure; nothing here is ever done by the product itself."""

    ROLLBACK = "rollback"
    RETRY = "retry"
    SKIP = "skip"
    CONTINUE = "continue"
    ESCALATE = "escalate"


EARLIER_ATTEMPTS_COMPARED: Final = 3
SIMILAR_ATTEMPTS_OF_A_CIRCLE: Final = 2
ATTEMPTS_AT_VERIFICATION: Final = 3
"""Attempts at one subtask, the first included, before it is skipped."""
ATTEMPTS_AT_UNKNOWN: Final = 2
"""The first attempt and one retry."""


@value
class Advice:
    """A recovery action, explained for people."""

    action: RecoveryAction
    reason: str
    """Why, in one sentence."""
    hints: tuple[str, ...]
    """What to do, the most useful step first."""


def is_circular_fix(approach: str, earlier_approaches: Sequence[str]) -> bool:
    """Tell whether an approach was tried before: two of the last three earlier ones are similar.

    Two approaches are similar if more than 30 % of all their words are in both. Words are runs of
    letters, digits and underscores, without the stop words.

    Args:
        approach: The approach of this attempt, in words.
        earlier_approaches: Those of earlier attempts at the same subtask, the oldest first.

    Raises:
        TypeError: `approach` is not a string, or `earlier_approaches` is one.
    """
    if not isinstance(approach, str):
        raise TypeError(f"approach: {approach!r} is not a string; say in words what is tried")
    if isinstance(earlier_approaches, str):
        raise TypeError("earlier_approaches: got a string; give a list of strings")
    words = _keywords(approach)
    window = earlier_approaches[-EARLIER_ATTEMPTS_COMPARED:]
    # Whole numbers: a share of exactly 0.3 must not depend on how a float rounds.
    similar = sum(10 * len(words & each) > 3 * len(words | each) for each in map(_keywords, window))
    return similar >= SIMILAR_ATTEMPTS_OF_A_CIRCLE


def recommend_recovery(
    failure_type: FailureType | str, *, attempt_count: int, last_good_commit: str | None = None
) -> RecoveryAction:
    """Recommend the next step after a failure.

    Args:
        failure_type: The type of the failure, or its name.
        attempt_count: Attempts made so far at this subtask, including this one; 1 or more.
        last_good_commit: The commit to roll back to, if one is known.

    Raises:
        ValueError: There is no such type, or `attempt_count` is not a positive integer.
    """
    try:
        known = FailureType(failure_type)
    except ValueError:
        names = ", ".join(FailureType)
        raise ValueError(
            f"failure_type: {failure_type!r} is not a failure type; give one of {names}"
        ) from None
    is_whole = isinstance(attempt_count, int) and not isinstance(attempt_count, bool)
    if not is_whole or attempt_count < 1:
        raise ValueError(
            f"attempt_count: {attempt_count!r} is not a number of attempts; give 1 or more,"
            " including this attempt"
        )
    if known is FailureType.BROKEN_BUILD:
        return RecoveryAction.ROLLBACK if last_good_commit else RecoveryAction.ESCALATE
    if known is FailureType.VERIFICATION_FAILED:
        may_try = attempt_count < ATTEMPTS_AT_VERIFICATION
        return RecoveryAction.RETRY if may_try else RecoveryAction.SKIP
    if known is FailureType.UNKNOWN:
        may_try = attempt_count < ATTEMPTS_AT_UNKNOWN
        return RecoveryAction.RETRY if may_try else RecoveryAction.ESCALATE
    is_circular = known is FailureType.CIRCULAR_FIX
    return RecoveryAction.SKIP if is_circular else RecoveryAction.CONTINUE


def recovery_of_failure(failure_type: FailureType, retryable: bool | None) -> RecoveryAction:  # noqa: FBT001 - the second half of a pair
    """Recommend the next step after a failure in a report, in agreement with its `retryable`.

    A retry is never recommended if it can't help, and comes first if it can. If that isn't known,
    the type alone decides.

    Args:
        failure_type: The type of the failure.
        retryable: Whether running the same again could end differently; `None` if unknown.
    """
    action = recommend_recovery(failure_type, attempt_count=1)
    if retryable is None or action is RecoveryAction.CONTINUE:
        return action
    if retryable:
        return RecoveryAction.RETRY
    return RecoveryAction.ESCALATE if action is RecoveryAction.RETRY else action


def explain_recovery(
    failure_type: FailureType | str, *, attempt_count: int, last_good_commit: str | None = None
) -> Advice:
    """Recommend the next step, and explain it for people.

    Takes and raises the same as `recommend_recovery`.
    """
    action = recommend_recovery(
        failure_type, attempt_count=attempt_count, last_good_commit=last_good_commit
    )
    words = packaged_table("recovery")[failure_type][action]
    told = {
        "attempt": attempt_count,
        "attempts": counted(attempt_count, "attempt"),
        "limit": ATTEMPTS_AT_VERIFICATION,
        "commit": last_good_commit,
    }
    return Advice(
        action=action,
        reason=words["reason"].format_map(told),
        hints=tuple(hint.format_map(told) for hint in words["hints"]),
    )


def _keywords(approach: str) -> frozenset[str]:
    words = frozenset(_word().findall(approach.lower()))
    return words.difference(packaged_table("recovery")["stop_words"])


@cache
def _word() -> re.Pattern[str]:
    import re

    return re.compile("[a-z0-9_]+")
