"""Recommend the next step after a failure, and tell whether attempts repeat themselves.

This is advice only: nothing here runs git, reruns a test or notifies anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Final

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


STOP_WORDS: Final = frozenset(
    {
        "with",
        "using",
        "the",
        "a",
        "an",
        "and",
        "or",
        "but",
        "in",
        "on",
        "at",
        "to",
        "for",
        "trying",
    }
)
"""Words that don't count when approaches are compared."""

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
    similar = sum(_is_similar(words, _keywords(earlier)) for earlier in window)
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
    return explain_recovery(
        failure_type, attempt_count=attempt_count, last_good_commit=last_good_commit
    ).action


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
    known = _known_type(failure_type)
    _check_count(attempt_count)
    if known is FailureType.BROKEN_BUILD:
        return _after_broken_build(last_good_commit)
    if known is FailureType.VERIFICATION_FAILED:
        return _after_failed_verification(attempt_count)
    if known is FailureType.UNKNOWN:
        return _after_unknown(attempt_count)
    return _ALWAYS[known]


def _after_broken_build(last_good_commit: str | None) -> Advice:
    if last_good_commit:
        return Advice(
            action=RecoveryAction.ROLLBACK,
            reason="The code does not compile or load, so nothing built on it can be checked.",
            hints=(
                f"Go back to {last_good_commit}, the last commit that worked.",
                "Make the change again in smaller steps, and build after each.",
            ),
        )
    return Advice(
        action=RecoveryAction.ESCALATE,
        reason="The code does not compile or load, and no commit is known that does.",
        hints=("Ask a human which state to go back to.",),
    )


def _after_failed_verification(attempt_count: int) -> Advice:
    limit = ATTEMPTS_AT_VERIFICATION
    if attempt_count < limit:
        return Advice(
            action=RecoveryAction.RETRY,
            reason=f"The code runs and fails a check; attempt {attempt_count} of {limit}.",
            hints=("Try a different approach, not the same one again.",),
        )
    return Advice(
        action=RecoveryAction.SKIP,
        reason=f"The check still fails after {counted(attempt_count, 'attempt')}; "
        f"the limit is {limit}.",
        hints=("Leave this subtask, and go on with those that do not need it.",),
    )


def _after_unknown(attempt_count: int) -> Advice:
    if attempt_count < ATTEMPTS_AT_UNKNOWN:
        return Advice(
            action=RecoveryAction.RETRY,
            reason="The failure is of no known type; it may pass when it is run again.",
            hints=("Run it once more as it is.",),
        )
    return Advice(
        action=RecoveryAction.ESCALATE,
        reason=f"It still fails after {counted(attempt_count, 'attempt')}, "
        "and the type is not known.",
        hints=("Show a human the error; look at the machine, the network and the services.",),
    )


_ALWAYS: Final = {
    FailureType.CIRCULAR_FIX: Advice(
        action=RecoveryAction.SKIP,
        reason="The same approach has been tried before without success.",
        hints=(
            "Leave this subtask, and tell a human that it needs help.",
            "Say what was tried, so that it is not tried again.",
        ),
    ),
    FailureType.CONTEXT_EXHAUSTED: Advice(
        action=RecoveryAction.CONTINUE,
        reason="The context window was used up in the middle of the work.",
        hints=("Commit what is done.", "Go on in a new session from that commit."),
    ),
}
"""Advice for types after which the next step is always the same."""


def _known_type(failure_type: FailureType | str) -> FailureType:
    try:
        return FailureType(failure_type)
    except ValueError:
        names = ", ".join(FailureType)
        raise ValueError(
            f"failure_type: {failure_type!r} is not a failure type; give one of {names}"
        ) from None


def _check_count(attempt_count: int) -> None:
    is_whole = isinstance(attempt_count, int) and not isinstance(attempt_count, bool)
    if not is_whole or attempt_count < 1:
        raise ValueError(
            f"attempt_count: {attempt_count!r} is not a number of attempts; give 1 or more,"
            " including this attempt"
        )


def _keywords(approach: str) -> frozenset[str]:
    return frozenset(_word().findall(approach.lower())) - STOP_WORDS


def _is_similar(one: frozenset[str], other: frozenset[str]) -> bool:
    # Whole numbers: a share of exactly 0.3 must not depend on how a float rounds.
    return 10 * len(one & other) > 3 * len(one | other)


@cache
def _word() -> re.Pattern[str]:
    import re

    return re.compile("[a-z0-9_]+")
