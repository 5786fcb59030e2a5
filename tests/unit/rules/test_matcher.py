"""Rules are matched with failures, and a pattern that takes too long is switched off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.rules import matching as matcher_module
from pytest_failure_taxonomy.rules.matching import RuleMatcher
from pytest_failure_taxonomy.taxonomy.evidence import RaisedException, TestFailure
from pytest_failure_taxonomy.taxonomy.judgement import FailureReason
from pytest_failure_taxonomy.taxonomy.user_rules import MAX_SEARCHED, Rule

ENDLESS: Final = "(a|a)*$"
BAIT: Final = "a" * 40 + "b"
"""With this text, `ENDLESS` would take some hours."""
TOO_LONG: Final = "took longer than 0.5 seconds; write one without a repetition in a repetition, as in (a+)+"


def failed(
    message: str, nodeid: str = "test_it.py::test_it", **given: Any
) -> TestFailure:
    """Return a failed test whose exception has a message."""
    raised = RaisedException(type="OSError", module="builtins", message=message)
    return TestFailure(
        nodeid=nodeid,
        phase="call",
        message=f"OSError: {message}",
        exception=raised,
        **given,
    )


def rule(name: str, message: str | None, **given: Any) -> Rule:
    """Return a rule about a message."""
    return Rule(
        name=name,
        message=message,
        reason=FailureReason.SANDBOX_ERROR,
        kind="sandbox.x",
        **given,
    )


def names(matched: Sequence[Rule | None]) -> list[str | None]:
    """Return the names of the rules that matched."""
    return [None if each is None else each.name for each in matched]


def test_the_first_rule_that_matches_is_found() -> None:
    """Rules are asked in their order."""
    matcher = RuleMatcher(
        [
            rule("elsewhere", None, nodeid="other.py::*"),
            rule("port", r"(?<=port )\d+"),
            rule("refused", "refused"),
            rule("any", None, exception="OSError"),
        ]
    )
    matched = matcher.match(
        [
            failed("refused at port 80"),
            failed("refused"),
            failed("something else"),
            failed("port 80", nodeid="other.py::test_it"),
        ]
    )
    assert names(matched) == ["port", "refused", "any", "elsewhere"]
    assert matcher.problems == []
    assert matcher.match([]) == []
    assert names(matcher.match([failed("port 8")])) == ["port"]


def test_a_rule_with_an_endless_pattern_is_switched_off_and_told_once() -> None:
    """Its time is up once a run, then it matches nothing, also what it would have matched."""
    matcher = RuleMatcher(
        [rule("bad", ENDLESS), rule("worse", ENDLESS), rule("good", "a")]
    )
    assert names(matcher.match([failed("aaa"), failed(BAIT)])) == ["good", "good"]
    assert names(matcher.match([failed(BAIT), failed("xyz")])) == ["good", None]
    assert matcher.problems == [
        f"rule bad, worse: switched off for this run, its pattern {TOO_LONG}"
    ]


@pytest.mark.slow
def test_many_endless_patterns_are_not_all_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What all bad patterns together may waste is limited, too."""
    monkeypatch.setattr(matcher_module, "MAX_WASTED_SECONDS", 0.6)
    endless = [rule(f"bad-{most}", f"(a|a){{0,{most}}}$") for most in range(90, 95)]
    matcher = RuleMatcher([*endless, rule("any", None, phase="call")])
    assert names(matcher.match([failed(BAIT)])) == ["any"]
    assert [problem.partition(" its pattern ")[2] for problem in matcher.problems] == [
        *[TOO_LONG] * 2,
        *["was not tried, after other patterns had taken 0.6 seconds"] * 3,
    ]


def test_a_pattern_that_is_slow_in_all_texts_together_is_switched_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limit is for all texts of a run, with a little more for each of them."""
    monkeypatch.setattr(matcher_module, "LIMIT_SECONDS", -1.0)
    matcher = RuleMatcher([rule("slow", "refused"), rule("any", None, phase="call")])
    assert names(matcher.match([failed("refused"), failed("refused again")])) == [
        "any",
        "any",
    ]
    (problem,) = matcher.problems
    assert problem.startswith(
        "rule slow: switched off for this run, its pattern took longer than"
    )


def test_a_pattern_that_is_no_regular_expression_is_switched_off() -> None:
    """The rules of a dead run come from its record, which nobody has checked."""
    matcher = RuleMatcher([rule("wrong", "("), rule("any", None, phase="call")])
    assert names(matcher.match([failed("refused")])) == ["any"]
    (problem,) = matcher.problems
    assert problem.startswith(
        "rule wrong: switched off for this run, its pattern can't be searched"
    )


def test_a_message_is_searched_as_far_as_the_report_has_it() -> None:
    """A rule looks at the beginning of a message, so that no message is too long for a pattern."""
    matcher = RuleMatcher([rule("refused", "refused"), rule("port", r"(?<=port )\d+")])
    long = failed("x" * MAX_SEARCHED + "refused at port 80")
    assert names(matcher.match([long])) == [None]
