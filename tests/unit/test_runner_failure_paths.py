"""The six ways in which a case can fail, and what must end a run instead."""

from __future__ import annotations

import asyncio
import time

import pytest

from pytest_failure_taxonomy.bench.models import BenchCase
from pytest_failure_taxonomy.bench.run.runner import Runner
from tests.helpers.bench import (
    NEVER_SECONDS,
    SOON_SECONDS,
    codes_by_case,
    execute,
    make_stub_plan,
    mode_of,
    only_mode,
    outcome_of,
)
from tests.helpers.rubrics import (
    answering_rubric,
    banned_breakdown_key_rubric,
    in_process_stub_rubric,
    mixed_severity_rubric,
    unknown_failure_mode_rubric,
)
from tests.helpers.suts import (
    DeterministicSUT,
    RaisingSUT,
    SleepingSUT,
    System,
    multi_sut,
)

PASSING = DeterministicSUT.passing()


def test_an_exception_of_the_system_becomes_a_score() -> None:
    """A system that raises is `sut.exception`, with the type and the message."""
    score = outcome_of(RaisingSUT(error=RuntimeError("nope, broken"))).score
    mode = only_mode(score)
    assert (mode.code, mode.detail) == ("sut.exception", "RuntimeError: nope, broken")
    assert (score.score, score.breakdown, score.cost_usd) == (0.0, {}, 0.0)


def test_a_system_that_takes_too_long_is_a_timeout() -> None:
    """A system that overruns the limit is `sut.timeout`, and is not waited for."""
    began = time.perf_counter()
    score = outcome_of(
        SleepingSUT(seconds=NEVER_SECONDS), timeout_per_case_seconds=SOON_SECONDS
    ).score
    mode = only_mode(score)
    assert (mode.code, mode.detail) == (
        "sut.timeout",
        f"was not done within {SOON_SECONDS:g} s",
    )
    assert (score.score, score.breakdown) == (0.0, {})
    assert (
        SOON_SECONDS * 1000
        <= score.wall_clock_ms
        <= (time.perf_counter() - began) * 1000
    )


@pytest.mark.parametrize(
    "error_type", [KeyboardInterrupt, SystemExit, asyncio.CancelledError]
)
@pytest.mark.parametrize("is_plain", [False, True])
def test_what_is_meant_for_the_run_is_no_score(
    error_type: type[BaseException], is_plain: bool
) -> None:
    """Ctrl+C, an exit and a cancellation leave the run, and leave the event loop alive."""

    def plain(case: BenchCase) -> None:
        raise error_type

    async def run() -> str:
        plan = make_stub_plan(case_ids=["a", "b"])
        system = plain if is_plain else RaisingSUT(error=error_type())
        with pytest.raises(error_type):
            await Runner().execute(
                plan, system_under_test=system, rubric_runner=in_process_stub_rubric
            )
        await asyncio.sleep(0)
        return "the loop goes on"

    assert asyncio.run(run()) == "the loop goes on"


def test_a_banned_breakdown_key_blocks() -> None:
    """A key that the class doesn't list is `rubric.unknown_breakdown_key`; only the cost stays."""
    answer = {
        "passed": True,
        "score": 1.0,
        "breakdown": {"llm_confidence": 0.9},
        "cost_usd": 0.25,
    }
    for rubric, cost in [
        (banned_breakdown_key_rubric("llm_confidence"), 0.0),
        (answering_rubric(answer), 0.25),
    ]:
        score = outcome_of(PASSING, rubric).score
        mode = only_mode(score)
        assert (mode.code, mode.detail) == (
            "rubric.unknown_breakdown_key",
            "llm_confidence",
        )
        assert (score.score, score.breakdown, score.cost_usd) == (0.0, {}, cost)


def test_a_code_that_the_class_does_not_list_is_replaced() -> None:
    """An unknown code is `rubric.unknown_failure_mode`, and names the code."""
    mode = mode_of(
        PASSING,
        unknown_failure_mode_rubric(emitted_code="some.typoed.code"),
        failure_mode_taxonomy={"validator.build_failed": "block"},
    )
    assert (mode.code, mode.detail) == (
        "rubric.unknown_failure_mode",
        "some.typoed.code",
    )


def test_the_class_says_how_severe_a_code_is() -> None:
    """A rubric's own severity doesn't count, and a known code doesn't change `passed`."""
    score = outcome_of(
        PASSING,
        unknown_failure_mode_rubric(
            emitted_code="recipe.unused_field", emitted_severity="block"
        ),
        failure_mode_taxonomy={"recipe.unused_field": "warn"},
    ).score
    (mode,) = score.failure_modes
    assert (mode.code, mode.severity, score.passed) == (
        "recipe.unused_field",
        "warn",
        True,
    )


def test_no_failure_ends_the_run() -> None:
    """Three cases that fail in three ways are all in a complete report."""
    plan = make_stub_plan(
        case_ids=["a", "b", "c"], timeout_per_case_seconds=SOON_SECONDS
    )
    systems: dict[str, System] = {
        "a": RaisingSUT(error=ValueError("boom")),
        "b": SleepingSUT(seconds=NEVER_SECONDS),
        "c": PASSING,
    }
    report = execute(
        plan,
        multi_sut(systems.__getitem__),
        banned_breakdown_key_rubric("llm_confidence"),
    )
    assert codes_by_case(report) == {
        "a": ("sut.exception",),
        "b": ("sut.timeout",),
        "c": ("rubric.unknown_breakdown_key",),
    }
    assert report.complete


def test_the_report_lists_codes_that_block_once_and_sorted() -> None:
    """Codes of severity `block` are listed once each, sorted; others are not."""
    plan = make_stub_plan(
        case_ids=["a", "b", "c"],
        failure_mode_taxonomy={
            "z.late": "block",
            "b.built": "block",
            "recipe.unused": "warn",
        },
    )
    rubric = mixed_severity_rubric(
        {
            "a": [("z.late", "info"), ("recipe.unused", "block")],
            "b": [("recipe.unused", "warn")],
            "c": [("b.built", "block"), ("z.late", "block")],
        }
    )
    report = execute(plan, PASSING, rubric)
    assert report.block_severity_failure_modes == ("b.built", "z.late")
