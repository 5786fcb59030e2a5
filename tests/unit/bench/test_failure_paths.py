"""Each mapping by itself, and what an exception says."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_failure_taxonomy.bench.answers import read_answer
from pytest_failure_taxonomy.bench.codes import RUNNER_CODES, Severity
from pytest_failure_taxonomy.bench.exceptions import cap, describe, safe
from pytest_failure_taxonomy.bench.failure_paths import (
    graded_score,
    malformed_output_score,
    rubric_timeout_score,
    sut_exception_score,
    sut_output_score,
    sut_timeout_score,
)
from pytest_failure_taxonomy.bench.models import BenchScore, TaskClass


def _grade(answer: dict[str, Any], **taxonomy: Severity) -> BenchScore:
    task_class = TaskClass(
        name="stub",
        breakdown_keys=frozenset({"correctness", "llm_taste"}),
        failure_mode_taxonomy={code.replace("__", "."): each for code, each in taxonomy.items()},
    )
    whole = {"passed": True, "score": 0.5, "breakdown": {}, "wall_clock_ms": 1e9, **answer}
    return graded_score(read_answer(whole), task_class, wall_clock_ms=2.0)


@pytest.mark.parametrize(
    ("score", "code", "detail"),
    [
        (sut_exception_score(KeyError("k"), wall_clock_ms=2.0), "sut.exception", "KeyError: 'k'"),
        (sut_output_score("a \ud800", wall_clock_ms=2.0), "sut.exception", "a \\ud800"),
        (sut_timeout_score(wall_clock_ms=2.0), "sut.timeout", None),
        (malformed_output_score("bad", wall_clock_ms=2.0), "rubric.malformed_output", "bad"),
        (rubric_timeout_score(wall_clock_ms=2.0, detail="late"), "rubric.timeout", "late"),
    ],
)
def test_four_paths_keep_nothing(score: BenchScore, code: str, detail: str | None) -> None:
    """Score, breakdown and cost are gone; the measured time stays."""
    (mode,) = score.failure_modes
    assert (mode.code, mode.severity, mode.detail) == (code, "block", detail)
    assert (score.passed, score.score, score.breakdown, score.cost_usd) == (False, 0.0, {}, 0.0)
    assert score.wall_clock_ms == 2.0


def test_a_good_answer_is_kept_but_for_its_time() -> None:
    """What the rubric says of the time is its claim; what counts is what was measured."""
    score = _grade({"breakdown": {"correctness": 1.0}, "cost_usd": 0.5})
    assert score == BenchScore(
        passed=True, score=0.5, breakdown={"correctness": 1.0}, cost_usd=0.5, wall_clock_ms=2.0
    )


def test_the_smallest_offending_key_is_named() -> None:
    """The same answer reads the same in every run."""
    (mode,) = _grade({"breakdown": {"z": 1.0, "b": 1.0, "correctness": 1.0}}).failure_modes
    assert mode.detail == "b"


def test_a_banned_key_is_refused_though_the_class_lists_it() -> None:
    """A class made in code has no loader to refuse it."""
    (mode,) = _grade({"breakdown": {"llm_taste": 1.0}}).failure_modes
    assert (mode.code, mode.detail) == ("rubric.unknown_breakdown_key", "llm_taste")


def test_unknown_codes_are_replaced_in_place() -> None:
    """The others keep order and detail; score and breakdown stay; the case has not passed."""
    score = _grade(
        {
            "breakdown": {"correctness": 0.5},
            "failure_modes": [
                {"code": "known", "detail": "first"},
                {"code": "typo"},
                {"code": "other", "severity": "block"},
            ],
        },
        known="block",
        other="info",
    )
    assert [(mode.code, mode.severity, mode.detail) for mode in score.failure_modes] == [
        ("known", "block", "first"),
        ("rubric.unknown_failure_mode", "block", "typo"),
        ("other", "info", None),
    ]
    assert (score.passed, score.score, score.breakdown) == (False, 0.5, {"correctness": 0.5})


def test_a_known_code_that_blocks_leaves_passed_alone() -> None:
    """Whether the case passed is the rubric's to say."""
    assert _grade({"failure_modes": [{"code": "known"}]}, known="block").passed


@pytest.mark.parametrize("code", sorted(RUNNER_CODES))
def test_a_runner_code_is_unknown_unless_listed(code: str) -> None:
    """A rubric may give only what its file lists, and a runner code never below `block`."""
    answer = {"failure_modes": [{"code": code}]}
    (unlisted,) = _grade(answer).failure_modes
    assert (unlisted.code, unlisted.detail) == ("rubric.unknown_failure_mode", code)
    taxonomy: dict[str, Severity] = {code.replace(".", "__"): "info"}
    listed = _grade(answer, **taxonomy)
    assert [(mode.code, mode.severity) for mode in listed.failure_modes] == [(code, "block")]


class _BadStrError(Exception):
    def __str__(self) -> str:
        return self.args[0]  # type: ignore[no-any-return]  # it is none: the point of the test


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ValueError(), "ValueError: "),
        (ValueError("x" * 500), "ValueError: " + "x" * 200),
        (ValueError("a\ud800\x00b"), "ValueError: a\\ud800\\x00b"),
        (_BadStrError(3), "_BadStrError: <no message: TypeError in __str__>"),
        (GeneratorExit(), "GeneratorExit: "),
    ],
)
def test_an_exception_is_told_by_type_and_message(error: BaseException, says: str) -> None:
    """The detail can always be written, whatever the message holds."""
    assert describe(error) == says
    assert describe(error).encode()


def test_a_text_is_left_alone_where_it_can_be() -> None:
    """Only what can't be written is escaped, and only what is too long is cut."""
    assert safe("grüße") == "grüße"
    assert cap("x" * 100, 100) == "x" * 100
    cut = cap("a" * 500 + "z" * 500, 200)
    assert (len(cut) <= 200, cut[0], cut[-1]) == (True, "a", "z")
    assert "[850 characters left out]" in cut
