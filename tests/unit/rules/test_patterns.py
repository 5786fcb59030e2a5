"""Patterns of users: searched under a limit, whatever they are like, and matched with failures."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Sequence
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.rules import matcher as matcher_module
from pytest_failure_taxonomy.rules import patterns
from pytest_failure_taxonomy.rules.backtracking import is_harmless
from pytest_failure_taxonomy.rules.matcher import RuleMatcher
from pytest_failure_taxonomy.rules.patterns import (
    Answer,
    Search,
    find_spans_guarded,
    run_searches,
    search_guarded,
)
from pytest_failure_taxonomy.taxonomy.evidence import RaisedException, TestFailure
from pytest_failure_taxonomy.taxonomy.reasons import FailureReason
from pytest_failure_taxonomy.taxonomy.user_rules import MAX_SEARCHED, Rule

ENDLESS: Final = "(a+)+$"
BAIT: Final = "a" * 40 + "b"
"""With this text, `ENDLESS` would take some thousand years."""
NEEDS_A_PROCESS: Final = r"(?<=port )\d+"
TOO_LONG: Final = (
    "took longer than 0.5 seconds; write one without a repetition in a repetition, as in (a+)+"
)

HARMLESS: Final = (
    "refused",
    "could not connect|Connection refused",
    "(?i)timed? ?out",
    "could not .* server",
    r"error (\d{3}): .*",
    r"\bfoo\b",
    "(?:ab)*c",
    "^.*$",
    "(a|b){1,3}c",
    "[^:]+: it",
)
NOT_PROVABLY_HARMLESS: Final = (
    ENDLESS,
    "(a*)*",
    "(a|a)*$",
    "(a|ab)*c",
    "(a?){30}b",
    "(.*)*",
    "a.*b.*c.*d",
    "x{1,1000}y{1,1000}z",
    r"(a)\1",
    "(?<=a)b",
    "(?=a*b)a",
    "(?>a*)b",
    "(",
)


def failed(message: str, nodeid: str = "test_it.py::test_it", **given: Any) -> TestFailure:
    """Return a failed test whose exception has a message."""
    raised = RaisedException(type="OSError", module="builtins", message=message)
    return TestFailure(
        nodeid=nodeid, phase="call", message=f"OSError: {message}", exception=raised, **given
    )


def rule(name: str, message: str | None, **given: Any) -> Rule:
    """Return a rule about a message."""
    return Rule(
        name=name, message=message, reason=FailureReason.SANDBOX_ERROR, kind="sandbox.x", **given
    )


def names(matched: Sequence[Rule | None]) -> list[str | None]:
    """Return the names of the rules that matched."""
    return [None if each is None else each.name for each in matched]


@pytest.mark.parametrize("pattern", HARMLESS)
def test_a_simple_pattern_is_harmless(pattern: str) -> None:
    """A pattern that can't backtrack for long needs no process of its own."""
    assert is_harmless(pattern)


@pytest.mark.parametrize("pattern", NOT_PROVABLY_HARMLESS)
def test_any_other_pattern_is_not(pattern: str) -> None:
    """What repeats within a repetition, or what the bound can't tell of, is not harmless."""
    assert not is_harmless(pattern)


def test_a_longer_text_makes_a_pattern_worse() -> None:
    """The bound holds for the length that it was asked for."""
    assert is_harmless("could not .* server", 2_000)
    assert not is_harmless("could not .* server", 100_000)


def test_without_pythons_own_parser_nothing_is_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python that keeps its parser elsewhere gets the slower and safe way for every pattern."""
    is_harmless.cache_clear()
    monkeypatch.setattr(re, "_parser", None, raising=False)
    assert not is_harmless("refused")
    is_harmless.cache_clear()


def test_a_pattern_is_searched_in_texts() -> None:
    """There is an answer for each text, doubles and the empty text included."""
    texts = ["port 80", "no", "", "port 80", "\ud800 port 8", "port \0 9"]
    answer = search_guarded(NEEDS_A_PROCESS, texts)
    assert answer == Answer(found=(True, False, False, True, True, False))
    assert search_guarded("a", []) == Answer(found=())


def test_spans_are_found() -> None:
    """Spans are those of `re.finditer` without the empty ones."""
    answer = find_spans_guarded("a*", ["baab a", "", "ä→a"])
    assert answer == Answer(found=(((1, 3), (5, 6)), (), ((2, 3),)))


@settings(max_examples=10, deadline=None)
@given(texts=st.lists(st.text(), max_size=20))
def test_spans_are_those_of_python(texts: list[str]) -> None:
    """Characters of all sorts are counted as Python counts them."""
    found = tuple(tuple(each.span() for each in re.finditer(r"\w+", text)) for text in texts)
    assert find_spans_guarded(r"\w+", texts) == Answer(found=found)


def test_an_endless_pattern_is_given_up_and_the_others_are_not() -> None:
    """A pattern that uses up its time costs the others nothing, before and after it."""
    answers = run_searches(
        [
            Search(pattern="b", texts=(BAIT, "x")),
            Search(pattern=ENDLESS, texts=("aaa", BAIT)),
            Search(pattern="(", texts=("x",)),
            Search(pattern=NEEDS_A_PROCESS, texts=("port 80",)),
        ]
    )
    assert answers == [
        Answer(found=(True, False)),
        Answer(found=None, problem=TOO_LONG),
        Answer(found=None, problem="can't be searched by Python"),
        Answer(found=(True,)),
    ]


def test_many_endless_patterns_are_not_all_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What all bad patterns together may waste is limited, too."""
    monkeypatch.setattr(patterns, "MAX_WASTED_SECONDS", 0.6)
    endless = Search(pattern=ENDLESS, texts=(BAIT,))
    assert [answer.problem for answer in run_searches([endless] * 5)] == [
        *[TOO_LONG] * 2,
        *["was not tried, after other patterns had taken 0.6 seconds"] * 3,
    ]


@pytest.mark.parametrize("executable", ["", "/no/such/python", sys.executable])
def test_without_a_second_python_a_pattern_is_given_up(
    executable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no process can be started, or only the user's own program, that is said."""
    if executable == sys.executable:
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", executable)
    answer = search_guarded("a", ["a"])
    assert answer.found is None
    assert answer.problem.endswith("because no second Python could be started to do it in")


def test_a_search_leaves_the_process_as_it_is() -> None:
    """No thread is left behind, and none is needed to search; signals are not touched."""
    signal = pytest.importorskip("signal")
    before = threading.active_count(), [signal.getsignal(each) for each in signal.valid_signals()]
    search_guarded(ENDLESS, [BAIT])
    after = threading.active_count(), [signal.getsignal(each) for each in signal.valid_signals()]
    assert after == before


def test_the_first_rule_that_matches_is_found() -> None:
    """Rules are asked in their order, those searched here and those in a process alike."""
    matcher = RuleMatcher(
        [
            rule("elsewhere", None, nodeid="other.py::*"),
            rule("port", NEEDS_A_PROCESS),
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
    matcher = RuleMatcher([rule("bad", ENDLESS), rule("worse", ENDLESS), rule("good", "a")])
    assert names(matcher.match([failed("aaa"), failed(BAIT)])) == ["good", "good"]
    assert names(matcher.match([failed(BAIT), failed("xyz")])) == ["good", None]
    assert matcher.problems == [
        f"rule bad, worse: switched off for this run, its pattern {TOO_LONG}"
    ]


def test_no_process_is_started_for_harmless_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process is for patterns that need one, and for failures that their rules could match."""
    started: list[Any] = []
    monkeypatch.setattr(matcher_module, "run_searches", started.append)
    matcher = RuleMatcher(
        [*(rule(pattern, pattern) for pattern in HARMLESS), rule("bad", ENDLESS, phase="setup")]
    )
    assert names(matcher.match([failed("Connection refused")])) == ["refused"]
    assert started == []


def test_a_pattern_that_is_slow_here_is_switched_off_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the bound was too hopeful for many failures, the time that was used decides."""
    monkeypatch.setattr(matcher_module, "LIMIT_SECONDS", -1.0)
    matcher = RuleMatcher([rule("slow", "refused"), rule("any", None, phase="call")])
    assert names(matcher.match([failed("refused"), failed("refused again")])) == ["any", "any"]
    (problem,) = matcher.problems
    assert problem.startswith("rule slow: switched off for this run, its pattern took longer than")


def test_a_message_is_searched_as_far_as_the_report_has_it() -> None:
    """A rule looks at the beginning of a message, so that no message is too long for a pattern."""
    matcher = RuleMatcher([rule("refused", "refused"), rule("port", NEEDS_A_PROCESS)])
    long = failed("x" * MAX_SEARCHED + "refused at port 80")
    assert names(matcher.match([long])) == [None]
