"""What to do after a failure, and when attempts go round in circles."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.judgement import (
    FailureTraits,
    FailureType,
    RecoveryAction,
    explain_recovery,
    is_circular_fix,
    recommend_recovery,
    recovery_of_failure,
)

FIRST, SECOND, THIRD = (
    "Using async await for fetch",
    "Using async/await with try-catch",
    "Using async await pattern",
)


def test_the_promised_example_is_a_circle() -> None:
    """The third approach is similar to both before it."""
    assert is_circular_fix(THIRD, [FIRST, SECOND])


@pytest.mark.parametrize(
    ("expected", "approach", "earlier"),
    [
        (False, THIRD, []),
        (False, THIRD, [FIRST]),
        (True, THIRD, [FIRST, "a lock", SECOND]),
        (
            False,
            THIRD,
            [FIRST, SECOND, "a lock", "a queue"],
        ),  # one of the two is too long ago
        (True, THIRD, [FIRST, "a lock", SECOND, "a queue", FIRST]),
        (False, "one", ["using the one two three four"] * 1),
        (
            False,
            "a b1 b2 b3 c1 c2 c3",
            ["b1 b2 b3 d1 d2 d3 d4"] * 2,
        ),  # 3 of 10: not above 0.3
        (True, "b1 b2 b3 c1 c2 c3", ["b1 b2 b3 d1 d2 d3"] * 2),  # 3 of 9
        (False, "with the", ["with the"] * 3),
        (False, "", [""] * 3),
        (True, "ASYNC/Await", ["async await"] * 2),
        (False, "retry_limit", ["retry limit"] * 3),
    ],
)
def test_circles(expected: bool, approach: str, earlier: list[str]) -> None:
    """Two of the last three must share more than three tenths of all their keywords."""
    assert is_circular_fix(approach, earlier) is expected


def test_the_stop_words() -> None:
    """The promised words, in any case, say nothing of an approach."""
    promised = "with using the a an and or but in on at to for trying"
    assert set(promised.split()) == set(packaged_table("recovery_words")["stop_words"])
    assert not is_circular_fix(promised.upper(), [promised] * 3)


@pytest.mark.parametrize(
    ("expected", "failure_type", "attempt_count", "commit"),
    [
        ("rollback", "BROKEN_BUILD", 1, "abc123"),
        ("rollback", "BROKEN_BUILD", 9, "abc123"),
        ("escalate", "BROKEN_BUILD", 1, None),
        ("escalate", "BROKEN_BUILD", 1, ""),
        ("retry", "VERIFICATION_FAILED", 1, None),
        ("retry", "VERIFICATION_FAILED", 2, None),
        ("skip", "VERIFICATION_FAILED", 3, None),
        ("skip", "VERIFICATION_FAILED", 4, "abc123"),
        ("skip", "CIRCULAR_FIX", 1, None),
        ("continue", "CONTEXT_EXHAUSTED", 1, None),
        ("retry", "UNKNOWN", 1, None),
        ("escalate", "UNKNOWN", 2, None),
    ],
)
def test_what_is_recommended(
    expected: str, failure_type: str, attempt_count: int, commit: str | None
) -> None:
    """Each type has its action, by the type or its name, and words that explain it."""
    asked: dict[str, Any] = {"attempt_count": attempt_count, "last_good_commit": commit}
    for each in (failure_type, FailureType(failure_type)):
        assert recommend_recovery(each, **asked) is RecoveryAction(expected)
    advice = explain_recovery(failure_type, **asked)
    assert (advice.action, bool(advice.reason), bool(advice.hints)) == (
        expected,
        True,
        True,
    )


FIXERS: Final[list[Any]] = ["code", "environment", "both"]


def test_each_row_of_the_words_is_used() -> None:
    """By some failure; and what a row asks for is something that can be."""
    rows = packaged_table("recovery_words")["rows"]
    unused = {row["why"] + row["steps"][0] for row in rows}
    for failure_type, attempts, retryable, fixers, fix, (
        reason,
        kind,
    ), commit in product(
        FailureType,
        (1, 2, 3),
        (True, False, None),
        FIXERS,
        (None, "pip install x"),
        (
            ("TESTS_FAILED", "test.failed"),
            ("AGENT_GAVE_UP", "agent.gave_up"),
            ("UNKNOWN", "command.failed"),
        ),
        (None, "abc123"),
    ):
        traits = FailureTraits(
            reason=reason, kind=kind, retryable=retryable, fixers=fixers, fix=fix
        )
        advice = explain_recovery(
            failure_type,
            attempt_count=attempts,
            last_good_commit=commit,
            traits=traits,
        )
        asked = {
            "attempt": attempts,
            "attempts": f"{attempts} attempt{'' if attempts == 1 else 's'}",
            "limit": 3,
            "commit": commit,
            "fix": fix,
        }
        unused -= {
            row["why"] + row["steps"][0]
            for row in rows
            if advice.reason == row["why"].format_map(asked)
            and advice.steps[0] == row["steps"][0].format_map(asked)
        }
        assert not (retryable is False and advice.steps[0].startswith("retry"))
        if kind == "command.failed" and retryable is None:
            assert advice.action is not RecoveryAction.RETRY
    assert not unused
    known = {
        "reasons",
        "kinds",
        "types",
        "actions",
        "retryable",
        "fixers",
        "has_fix",
        "is_repeated",
    }
    assert all(row["when"].keys() <= known for row in rows)


def test_a_failed_check_fails_again_with_the_same_code() -> None:
    """After the first attempt the approach has to be another one."""
    traits = FailureTraits(reason="TESTS_FAILED", retryable=False)
    first, second = (
        explain_recovery("VERIFICATION_FAILED", attempt_count=count, traits=traits)
        for count in (1, 2)
    )
    words = "Change the code before you run it again: unchanged code fails again."
    assert first.hints == (words,)
    assert second.hints == (
        words,
        "Try a different approach, not the same one again.",
    )


def test_the_words_name_commit_count_and_human() -> None:
    """The explanation holds what its reader needs next."""
    back = explain_recovery("BROKEN_BUILD", attempt_count=1, last_good_commit="abc123")
    assert back.hints[0] == "Go back to abc123, the last commit that worked."
    again = explain_recovery("VERIFICATION_FAILED", attempt_count=2)
    assert again.reason == "The code runs and fails a check; attempt 2 of 3."
    assert "tell a human" in explain_recovery("CIRCULAR_FIX", attempt_count=3).hints[0]


@pytest.mark.parametrize("count", [0, -1, True, 1.5, "2"])
def test_a_count_that_is_none_is_refused(count: Any) -> None:
    """The error names the value and what would be right."""
    words = f"attempt_count: {count!r} is not a number of attempts; give 1 or more"
    with pytest.raises(ValueError, match=words):
        recommend_recovery("UNKNOWN", attempt_count=count)


def test_a_type_that_is_none_is_refused() -> None:
    """The error names the value and the five types."""
    with pytest.raises(
        ValueError, match="'BROKEN' is not a failure type; give one of BROKEN_BUILD, "
    ):
        recommend_recovery("BROKEN", attempt_count=1)


@given(st.text(), st.lists(st.text(), max_size=6))
def test_only_the_last_three_count(approach: str, earlier: list[str]) -> None:
    """What was tried longer ago changes nothing."""
    assert is_circular_fix(approach, earlier) == is_circular_fix(approach, earlier[-3:])


IN_A_REPORT: list[tuple[str, str, str, str]] = [
    # type, and the action where retryable is true, false and null
    ("BROKEN_BUILD", "retry", "escalate", "escalate"),
    ("VERIFICATION_FAILED", "retry", "escalate", "retry"),
    ("CIRCULAR_FIX", "retry", "skip", "skip"),
    ("CONTEXT_EXHAUSTED", "continue", "escalate", "continue"),
    ("UNKNOWN", "retry", "escalate", "retry"),
]


@pytest.mark.parametrize(
    ("failure_type", "if_true", "if_false", "if_null"), IN_A_REPORT
)
def test_the_action_in_a_report(
    failure_type: str, if_true: str, if_false: str, if_null: str
) -> None:
    """What is recommended agrees with whether the same run again could end differently."""
    known = FailureType(failure_type)
    assert recovery_of_failure(known, True) == if_true
    assert recovery_of_failure(known, False) == if_false
    assert recovery_of_failure(known, None) == if_null
    of_command = recovery_of_failure(known, None, kind="command.failed")
    assert of_command == "escalate"


def test_every_type_has_a_row() -> None:
    """The table above is whole."""
    assert [row[0] for row in IN_A_REPORT] == list(FailureType)
