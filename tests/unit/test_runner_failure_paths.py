"""The six ways in which a case can fail, what must end a run, and what tries to be mistaken."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable

import pytest

from pytest_failure_taxonomy.bench.models import BenchCase
from pytest_failure_taxonomy.bench.outcomes import RubricTimeoutError
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
from tests.helpers.suts import DeterministicSUT, RaisingSUT, SleepingSUT, System, multi_sut

PASSING = DeterministicSUT.passing()

# --- The ten of the seed


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
    assert (mode.code, mode.detail) == ("sut.timeout", None)
    assert (score.score, score.breakdown) == (0.0, {})
    assert SOON_SECONDS * 1000 <= score.wall_clock_ms <= (time.perf_counter() - began) * 1000


@pytest.mark.parametrize("error_type", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
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
    answer = {"passed": True, "score": 1.0, "breakdown": {"llm_confidence": 0.9}, "cost_usd": 0.25}
    for rubric, cost in [
        (banned_breakdown_key_rubric("llm_confidence"), 0.0),
        (answering_rubric(answer), 0.25),
    ]:
        score = outcome_of(PASSING, rubric).score
        mode = only_mode(score)
        assert (mode.code, mode.detail) == ("rubric.unknown_breakdown_key", "llm_confidence")
        assert (score.score, score.breakdown, score.cost_usd) == (0.0, {}, cost)


def test_a_code_that_the_class_does_not_list_is_replaced() -> None:
    """An unknown code is `rubric.unknown_failure_mode`, and names the code."""
    mode = mode_of(
        PASSING,
        unknown_failure_mode_rubric(emitted_code="some.typoed.code"),
        failure_mode_taxonomy={"validator.build_failed": "block"},
    )
    assert (mode.code, mode.detail) == ("rubric.unknown_failure_mode", "some.typoed.code")


def test_the_class_says_how_severe_a_code_is() -> None:
    """A rubric's own severity doesn't count, and a known code doesn't change `passed`."""
    score = outcome_of(
        PASSING,
        unknown_failure_mode_rubric(emitted_code="recipe.unused_field", emitted_severity="block"),
        failure_mode_taxonomy={"recipe.unused_field": "warn"},
    ).score
    (mode,) = score.failure_modes
    assert (mode.code, mode.severity, score.passed) == ("recipe.unused_field", "warn", True)


def test_no_failure_ends_the_run() -> None:
    """Three cases that fail in three ways are all in a complete report."""
    plan = make_stub_plan(case_ids=["a", "b", "c"], timeout_per_case_seconds=SOON_SECONDS)
    systems: dict[str, System] = {
        "a": RaisingSUT(error=ValueError("boom")),
        "b": SleepingSUT(seconds=NEVER_SECONDS),
        "c": PASSING,
    }
    report = execute(
        plan, multi_sut(systems.__getitem__), banned_breakdown_key_rubric("llm_confidence")
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
        failure_mode_taxonomy={"z.late": "block", "b.built": "block", "recipe.unused": "warn"},
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


# --- The traps: one each


@pytest.mark.parametrize("error", [TimeoutError("mine"), TimeoutError()])
def test_a_timeout_of_the_systems_own_is_an_exception(error: Exception) -> None:
    """A `TimeoutError` that the system raises within its limit is `sut.exception`."""
    mode = mode_of(RaisingSUT(error=error))
    assert (mode.code, mode.detail) == ("sut.exception", f"TimeoutError: {error}")


def test_a_swallowed_cancellation_is_a_timeout_all_the_same() -> None:
    """A system that catches its cancellation and returns an answer was too late for it."""

    async def system(case: BenchCase) -> object:
        try:
            await asyncio.sleep(NEVER_SECONDS)
        except asyncio.CancelledError:
            return "in time, I swear"
        return None

    assert mode_of(system, timeout_per_case_seconds=SOON_SECONDS).code == "sut.timeout"


def test_a_clean_up_that_raises_is_a_timeout_all_the_same() -> None:
    """What is raised on the way out after the deadline doesn't hide the deadline."""

    async def system(case: BenchCase) -> object:
        try:
            await asyncio.sleep(NEVER_SECONDS)
        finally:
            raise ValueError("the connection was closed already")

    assert mode_of(system, timeout_per_case_seconds=SOON_SECONDS).code == "sut.timeout"


@pytest.mark.parametrize("deaf_to", [asyncio.CancelledError, BaseException])
def test_a_system_that_goes_on_for_ever_is_abandoned(deaf_to: type[BaseException]) -> None:
    """The run goes on without it, and the event loop can be closed afterwards."""
    steps = 0

    async def deaf(case: BenchCase) -> object:
        nonlocal steps
        while True:
            try:
                await asyncio.sleep(0.01)
                steps += 1
            except deaf_to:
                pass

    plan = make_stub_plan(
        case_ids=["a", "b"],
        timeout_per_case_seconds=SOON_SECONDS,
        cancellation_grace_seconds=0.05,
        concurrency=1,
    )
    systems: dict[str, System] = {"a": deaf, "b": PASSING}
    report = execute(plan, multi_sut(systems.__getitem__))
    assert codes_by_case(report) == {"a": ("sut.timeout",), "b": ()}
    assert "abandoned" in (only_mode(report.per_case[0][1]).detail or "")
    assert steps


def test_what_an_abandoned_system_raises_later_is_not_heard(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its late exception is neither a score nor a complaint of the event loop."""
    raised: list[str] = []

    async def late(case: BenchCase) -> object:
        try:
            await asyncio.sleep(NEVER_SECONDS)
        except asyncio.CancelledError:
            await asyncio.sleep(0.1)
        raised.append("late")
        raise ValueError("too late")

    plan = make_stub_plan(
        case_ids=["a", "b"],
        timeout_per_case_seconds=0.6,
        cancellation_grace_seconds=0.0,
        concurrency=1,
    )
    systems: dict[str, System] = {"a": late, "b": SleepingSUT(seconds=0.2)}
    report = execute(plan, multi_sut(systems.__getitem__))
    assert codes_by_case(report) == {"a": ("sut.timeout",), "b": ()}
    assert raised == ["late"]
    assert {record.name for record in caplog.records} <= {"pytest_failure_taxonomy.bench"}


def test_a_system_that_blocks_is_named_and_the_others_are_not_blamed() -> None:
    """One that keeps the event loop beyond its limit is a timeout; those it held up are not."""

    async def blocking(case: BenchCase) -> object:
        time.sleep(1.0)  # noqa: ASYNC251 - it is what the test is about
        return "an answer"

    plan = make_stub_plan(case_ids=["a", "b", "c"], timeout_per_case_seconds=0.6)
    systems: dict[str, System] = {
        "a": SleepingSUT(seconds=0.1),
        "b": blocking,
        "c": SleepingSUT(seconds=0.1),
    }
    report = execute(plan, multi_sut(systems.__getitem__))
    assert codes_by_case(report) == {"a": (), "b": ("sut.timeout",), "c": ()}
    detail = only_mode(report.per_case[1][1]).detail or ""
    assert re.fullmatch(r"blocked the event loop for [0-9]+\.[0-9] s", detail)


def test_a_cancellation_by_the_system_itself_ends_the_run() -> None:
    """A system that cancels its own task is not ours to call a timeout."""

    async def system(case: BenchCase) -> object:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(NEVER_SECONDS)
        return None

    with pytest.raises(asyncio.CancelledError):
        execute(make_stub_plan(case_ids=["a"]), system)


def test_a_message_that_can_not_be_had_does_not_lose_the_case() -> None:
    """An exception whose `__str__` raises is told by its type."""

    class UnspeakableError(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    mode = mode_of(RaisingSUT(error=UnspeakableError()))
    assert mode.detail == "UnspeakableError: <no message: ValueError in __str__>"


def test_a_group_of_exceptions_is_an_exception() -> None:
    """What a task group of the system raises is `sut.exception`."""

    async def system(case: BenchCase) -> object:
        async with asyncio.TaskGroup() as group:
            group.create_task(RaisingSUT(error=ValueError("one"))(case))
        return None

    mode = mode_of(system)
    assert mode.code == "sut.exception"
    assert (mode.detail or "").startswith("ExceptionGroup: unhandled errors in a TaskGroup")


def test_a_group_with_an_interruption_in_it_ends_the_run() -> None:
    """A Ctrl+C is not lost because other exceptions came with it."""
    error = BaseExceptionGroup("both", [ValueError("one"), KeyboardInterrupt()])
    with pytest.raises(BaseExceptionGroup) as caught:
        execute(make_stub_plan(case_ids=["a"]), RaisingSUT(error=error))
    assert caught.value is error


@pytest.mark.parametrize(
    ("output", "detail"),
    [
        ({"items": [1, 2, {3}]}, "TypeError: $.items[2] is of type set, which JSON can't hold"),
        ({"x": float("nan")}, "ValueError: $.x is nan, which JSON can't hold"),
        ({1: "one"}, "TypeError: $ has a key of type int; in JSON all keys are strings"),
    ],
)
def test_output_that_json_can_not_hold_is_an_exception(output: object, detail: str) -> None:
    """The system, not the rubric, is to blame for it."""
    mode = mode_of(DeterministicSUT(output=output))
    assert (mode.code, mode.detail) == ("sut.exception", detail)


@pytest.mark.parametrize("where", ["system", "rubric"])
def test_an_exit_of_pytest_ends_the_run(where: str) -> None:
    """`pytest.exit` in a system or a rubric ends the session, as everywhere."""

    async def leave(*_: object) -> object:
        pytest.exit("enough")

    system, rubric = (leave, in_process_stub_rubric) if where == "system" else (PASSING, leave)
    with pytest.raises(pytest.exit.Exception, match="enough"):
        execute(make_stub_plan(case_ids=["a"]), system, rubric)


@pytest.mark.parametrize(
    ("outcome", "detail"),
    [(pytest.fail, "Failed: not good"), (pytest.skip, "Skipped: not good")],
)
def test_pytests_other_outcomes_are_exceptions(outcome: Callable[[str], None], detail: str) -> None:
    """`pytest.fail` and `pytest.skip` don't leave a case without a score."""

    async def system(case: BenchCase) -> object:
        outcome("not good")
        return None

    mode = mode_of(system)
    assert (mode.code, mode.detail) == ("sut.exception", detail)


def test_cases_that_end_in_reverse_order_are_reported_sorted() -> None:
    """The report's order is that of the ids, however long each case took."""
    ids = ["d", "c", "a", "b"]
    finished: list[str] = []
    runner = Runner(on_outcome=lambda outcome: finished.append(outcome.case_id))
    turns = {case_id: asyncio.Event() for case_id in ids}

    async def system(case: BenchCase) -> object:
        later = ids.index(case.case_id) + 1
        if later < len(ids):
            await turns[ids[later]].wait()
        turns[case.case_id].set()
        return None

    plan = make_stub_plan(case_ids=ids)
    report = asyncio.run(
        runner.execute(plan, system_under_test=system, rubric_runner=in_process_stub_rubric)
    )
    assert finished == ids[::-1]
    assert [case_id for case_id, _ in report.per_case] == sorted(ids)


def test_an_empty_plan_is_complete() -> None:
    """No case: no score, no mean, nothing missing."""
    report = execute(make_stub_plan(case_ids=[]), PASSING)
    assert (report.per_case, report.mean_score, report.complete) == ((), None, True)


def test_ten_thousand_cases_keep_to_the_concurrency() -> None:
    """Each is run once, in the plan's order, and never more than allowed at a time."""
    ids = [f"case-{number:05}" for number in range(10_000)]
    called: list[str] = []
    running = most = most_tasks = 0

    async def system(case: BenchCase) -> object:
        nonlocal running, most, most_tasks
        called.append(case.case_id)
        running += 1
        most = max(most, running)
        most_tasks = max(most_tasks, len(asyncio.all_tasks()) if len(called) == 5_000 else 0)
        await asyncio.sleep(0)
        running -= 1
        return None

    report = execute(make_stub_plan(case_ids=ids, concurrency=7), system)
    assert called == ids
    assert most == 7
    assert most_tasks <= 2 * 7 + 1
    assert report.passed_count == 10_000


def test_a_thread_that_never_ends_is_left_behind() -> None:
    """A plain system beyond its limit costs its case and holds up nothing, not even the exit."""
    release = threading.Event()
    threads: list[threading.Thread] = []

    def system(case: BenchCase) -> object:
        threads.append(threading.current_thread())
        if case.case_id == "a":
            release.wait(NEVER_SECONDS)
        return None

    plan = make_stub_plan(case_ids=["a", "b"], timeout_per_case_seconds=0.3, concurrency=1)
    report = execute(plan, system)
    assert codes_by_case(report) == {"a": ("sut.timeout",), "b": ()}
    assert threads[0].is_alive()
    assert threads[0].daemon
    release.set()
    threads[0].join()


# --- The rubric's two paths


@pytest.mark.parametrize(
    ("error", "code", "detail"),
    [
        (ValueError("bad"), "rubric.malformed_output", "ValueError: bad"),
        (TimeoutError("own"), "rubric.malformed_output", "TimeoutError: own"),
        (RubricTimeoutError("killed after 3 s"), "rubric.timeout", "killed after 3 s"),
    ],
)
def test_an_exception_of_the_rubric_becomes_a_score(
    error: Exception, code: str, detail: str
) -> None:
    """A rubric that raises gave no verdict; one that was killed ran out of time."""

    async def rubric(case: BenchCase, output: object) -> object:
        raise error

    mode = mode_of(PASSING, rubric)
    assert (mode.code, mode.detail) == (code, detail)


@pytest.mark.parametrize("is_plain", [False, True])
def test_a_rubric_that_takes_too_long_is_a_timeout(is_plain: bool) -> None:
    """A rubric that overruns its limit is `rubric.timeout`, in a thread, too."""
    release = threading.Event()

    def plain(case: BenchCase, output: object) -> object:
        return release.wait(NEVER_SECONDS)

    async def rubric(case: BenchCase, output: object) -> object:
        await asyncio.sleep(NEVER_SECONDS)
        return None

    given = plain if is_plain else rubric
    assert mode_of(PASSING, given, rubric_wall_clock_seconds=SOON_SECONDS).code == "rubric.timeout"
    release.set()
