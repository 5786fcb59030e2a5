"""What a runner calls, in what order, what it tells, when it stops, and what doesn't mislead it."""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest
from pydantic import ValidationError

from pytest_failure_taxonomy.bench.models import BenchCase, BenchScore
from pytest_failure_taxonomy.bench.report import summary_lines
from pytest_failure_taxonomy.bench.run.runner import Runner
from pytest_failure_taxonomy.bench.scores import (
    CaseOutcome,
    RubricAnswer,
    RubricError,
    RubricTimeoutError,
)
from pytest_failure_taxonomy.errors import BenchError
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
from tests.helpers.rubrics import PASSING as PASSING_ANSWER
from tests.helpers.rubrics import answering_rubric, in_process_stub_rubric
from tests.helpers.suts import (
    DeterministicSUT,
    RaisingSUT,
    SleepingSUT,
    System,
    multi_sut,
)

PASSING = DeterministicSUT.passing()
_VARIABLE: ContextVar[str] = ContextVar("variable", default="nothing")


async def _async(case: BenchCase, word: str = "out") -> object:
    return {"answer": word}


def _plain(case: BenchCase, word: str = "out") -> object:
    assert threading.current_thread() is not threading.main_thread()
    return {"answer": word}


class _PlainObject:
    def __call__(self, case: BenchCase) -> object:
        return _plain(case)

    def method(self, case: BenchCase) -> object:
        return _plain(case)


class _Awaitable:
    def __await__(self) -> Any:
        yield from asyncio.sleep(0).__await__()
        return {"answer": "out"}


def _returning_a_coroutine(case: BenchCase) -> object:
    return _async(case)


def _returning_an_awaitable(case: BenchCase) -> object:
    return _Awaitable()


_SYSTEMS = {
    "async": _async,
    "plain": _plain,
    "async object": DeterministicSUT(output={"answer": "out"}),
    "plain object": _PlainObject(),
    "method": _PlainObject().method,
    "partial": partial(_async, word="out"),
    "partial twice": partial(partial(_plain), word="out"),
    "plain that returns a coroutine": _returning_a_coroutine,
    "plain that returns an awaitable": _returning_an_awaitable,
}


@pytest.mark.parametrize("system", _SYSTEMS.values(), ids=_SYSTEMS.keys())
def test_a_system_may_be_any_callable(system: Any) -> None:
    """Its output is what the rubric is given, be it a coroutine's or a plain function's."""
    seen: list[object] = []

    def rubric(case: BenchCase, output: object) -> object:
        seen.append(output)
        return PASSING_ANSWER

    assert outcome_of(system, rubric).score.passed
    assert seen == [{"answer": "out"}]


def test_a_plain_system_sees_the_callers_context() -> None:
    """A context variable that was set before the run is there in the thread; none gets out."""
    _VARIABLE.set("from outside")
    seen: list[str] = []

    def system(case: BenchCase) -> object:
        seen.append(_VARIABLE.get())
        _VARIABLE.set(case.case_id)
        return None

    execute(make_stub_plan(case_ids=["a", "b"], concurrency=1), system)
    assert seen == ["from outside", "from outside"]


@pytest.mark.parametrize(
    "error", [StopIteration("done"), GeneratorExit("done"), ValueError("done")]
)
def test_a_plain_system_may_raise_anything(error: BaseException) -> None:
    """Even what no coroutine can raise arrives as what it was."""

    def system(case: BenchCase) -> object:
        raise error

    assert mode_of(system).detail == f"{type(error).__name__}: done"


def test_what_can_not_be_called_is_refused() -> None:
    """Both mistakes are named before anything runs."""
    given: Any = 3
    with pytest.raises(BenchError) as caught:
        execute(make_stub_plan(case_ids=["a"]), given, given)
    first, second = str(caught.value).splitlines()
    assert first.startswith(
        "system_under_test: an object of type int can't be called; "
    )
    assert second.startswith("rubric_runner: ")


def test_what_a_runner_tells_comes_in_order() -> None:
    """Each case is announced before its system is called and told once it has its score."""
    told: list[str] = []

    async def system(case: BenchCase) -> object:
        told.append(f"call {case.case_id}")
        return None

    runner = Runner(
        on_start=lambda case_id: told.append(f"start {case_id}"),
        on_outcome=lambda outcome: told.append(
            f"{outcome.case_id} {outcome.score.passed}"
        ),
    )
    plan = make_stub_plan(case_ids=["b", "a"], concurrency=1)
    asyncio.run(
        runner.execute(
            plan, system_under_test=system, rubric_runner=in_process_stub_rubric
        )
    )
    assert told == ["start b", "call b", "b True", "start a", "call a", "a True"]


@pytest.mark.parametrize("which", ["on_start", "on_outcome"])
def test_a_bug_in_a_callback_is_loud(which: str) -> None:
    """It is not a case's failure; the cases that run are ended."""
    called: list[str] = []

    def callback(given: object) -> None:
        raise ZeroDivisionError

    async def system(case: BenchCase) -> object:
        called.append(case.case_id)
        return None

    callbacks: dict[str, Any] = {which: callback}
    plan = make_stub_plan(case_ids=list("abcdef"), concurrency=1)
    run = Runner(**callbacks).execute(
        plan, system_under_test=system, rubric_runner=in_process_stub_rubric
    )
    with pytest.raises(ZeroDivisionError):
        asyncio.run(run)
    assert called == (["a"] if which == "on_outcome" else [])


@pytest.mark.parametrize(
    ("cap", "costs", "graded"),
    [
        (0.3, [0.1, 0.1, 0.1, 0.1, 0.1], 4),
        (0.5, [0.1, 0.1, 0.1, 0.1, 0.2], 5),
        (None, [9.0, 9.0, 9.0, 9.0, 9.0], 5),
    ],
    ids=["three times 0.1 is 0.3", "above at the last case", "no cap"],
)
def test_above_the_cost_cap_no_case_is_started(
    cap: float | None, costs: list[float], graded: int
) -> None:
    """The cap is reached strictly above; what was not started makes the run partial."""

    async def rubric(case: BenchCase, output: object) -> object:
        return {**PASSING_ANSWER, "cost_usd": costs[int(case.case_id)]}

    plan = make_stub_plan(case_ids=list("01234"), concurrency=1, max_cost_usd=cap)
    report = execute(plan, PASSING, rubric)
    is_partial = graded < 5
    assert (report.counts.graded, report.counts.not_run) == (graded, 5 - graded)
    assert report.complete is not is_partial
    assert report.run_id.startswith("partial:") is is_partial
    assert len(report.run_id.removeprefix("partial:")) == 32


@pytest.mark.parametrize("cap", [0.0, -1.0, float("nan"), float("inf")])
def test_a_cap_that_no_run_can_have(cap: float) -> None:
    """A cap of 0 would let no case run; what is no number is refused, too."""
    with pytest.raises(ValidationError, match=r"lets no case run|finite number"):
        make_stub_plan(case_ids=["a"], max_cost_usd=cap)


def test_above_the_cost_cap_running_cases_finish() -> None:
    """A case that was started before the cap was reached has its score."""
    release = asyncio.Event()

    async def system(case: BenchCase) -> object:
        if case.case_id == "a":
            await release.wait()
        return None

    async def rubric(case: BenchCase, output: object) -> object:
        if case.case_id == "b":
            asyncio.get_running_loop().call_soon(release.set)
        return {**PASSING_ANSWER, "cost_usd": 1.0}

    report = execute(
        make_stub_plan(case_ids=["a", "b", "c"], concurrency=2, max_cost_usd=0.5),
        system,
        rubric,
    )
    assert list(codes_by_case(report)) == ["a", "b"]


def test_a_run_cancelled_from_outside_ends_its_cases() -> None:
    """Their clean-up runs, and one that goes on for ever is not waited for beyond its grace."""
    ended: list[str] = []

    async def system(case: BenchCase) -> object:
        try:
            await asyncio.sleep(NEVER_SECONDS)
        finally:
            ended.append(case.case_id)
        return None

    async def deaf(case: BenchCase) -> object:
        while True:
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                ended.append("deaf")

    async def run() -> int:
        plan = make_stub_plan(
            case_ids=["a", "b", "c"], cancellation_grace_seconds=SOON_SECONDS
        )
        systems: Any = {"a": system, "b": system, "c": deaf}
        execution = Runner().execute(
            plan,
            system_under_test=multi_sut(systems.__getitem__),
            rubric_runner=in_process_stub_rubric,
        )
        running = asyncio.create_task(execution)
        await asyncio.sleep(SOON_SECONDS)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return len(asyncio.all_tasks())

    assert asyncio.run(run()) == 1
    assert sorted(ended) == ["a", "b", "deaf"]


def test_an_interruption_ends_the_other_cases() -> None:
    """What runs beside a system that was interrupted is cancelled, and nothing more is started."""
    ended: list[str] = []

    async def waiting(case: BenchCase) -> object:
        try:
            await asyncio.sleep(NEVER_SECONDS)
        finally:
            ended.append(case.case_id)
        return None

    systems: Any = {
        "a": waiting,
        "b": RaisingSUT(error=KeyboardInterrupt()),
        "c": waiting,
    }
    plan = make_stub_plan(case_ids=["a", "b", "c"], concurrency=2)
    with pytest.raises(KeyboardInterrupt):
        execute(plan, multi_sut(systems.__getitem__))
    assert ended == ["a"]


def test_a_case_may_have_limits_of_its_own() -> None:
    """They go before the plan's, in both directions."""
    quick = BenchCase(
        case_id="q", timeout_per_case_seconds=0.3, rubric_wall_clock_seconds=60.0
    )
    plan = make_stub_plan(case_ids=["a"], rubric_wall_clock_seconds=0.01)
    plan = plan.model_copy(update={"cases": (quick,)})
    report = execute(plan, SleepingSUT(seconds=NEVER_SECONDS))
    assert codes_by_case(report) == {"q": ("sut.timeout",)}

    async def rubric(case: BenchCase, output: object) -> object:
        await asyncio.sleep(0.1)
        return PASSING_ANSWER

    assert execute(plan, PASSING, rubric).passed_count == 1


def test_a_rubric_that_keeps_its_own_limit_is_not_given_ours() -> None:
    """An isolated one kills its process at the limit and says so itself."""

    class Isolated:
        is_isolated = True

        async def __call__(self, case: BenchCase, output: object) -> object:
            await asyncio.sleep(0.1)
            return PASSING_ANSWER

    assert outcome_of(PASSING, Isolated(), rubric_wall_clock_seconds=0.01).score.passed


def test_a_call_that_can_not_begin_has_taken_no_time() -> None:
    """The loop's thread has computed for longer than the limit, which is not the call's time."""

    async def takes_nothing() -> None:
        """Do nothing."""

    while time.thread_time() < 0.2:
        sum(range(1000))
    outcome = outcome_of(takes_nothing, timeout_per_case_seconds=0.1)
    assert [mode.code for mode in outcome.score.failure_modes] == ["sut.exception"]


def test_the_time_is_measured() -> None:
    """It is that of system and rubric together, whatever the rubric says."""

    async def rubric(case: BenchCase, output: object) -> object:
        await asyncio.sleep(0.05)
        return {**PASSING_ANSWER, "wall_clock_ms": 0.001}

    assert (
        95
        <= outcome_of(SleepingSUT(seconds=0.05), rubric).score.wall_clock_ms
        <= 60_000
    )


@pytest.mark.parametrize("kind", ["async", "plain", "returns an awaitable", "raises"])
def test_the_time_of_the_system_is_its_own(kind: str) -> None:
    """It is that of its call, without what the rubric took."""

    async def rubric(case: BenchCase, output: object) -> object:
        await asyncio.sleep(0.5)
        return PASSING_ANSWER

    async def waits() -> None:
        await asyncio.sleep(0.05)

    def system(case: BenchCase) -> object:
        if kind == "returns an awaitable":
            return waits()
        time.sleep(0.05)
        if kind == "raises":
            raise ValueError("no")
        return None

    outcome = outcome_of(
        SleepingSUT(seconds=0.05) if kind == "async" else system, rubric
    )
    score = outcome.score
    assert score.system_ms is not None
    assert score.system_ms == outcome.attempts[-1].seconds * 1000
    assert (
        49 <= score.system_ms <= score.wall_clock_ms - (0 if kind == "raises" else 450)
    )


def test_an_outcome_shows_where_the_system_raised() -> None:
    """The traceback begins in the author's code and has none of our frames."""

    def inner() -> None:
        raise ValueError("deep")

    async def system(case: BenchCase) -> object:
        return inner()  # type: ignore[func-returns-value]  # it raises

    def plain(case: BenchCase) -> object:
        return inner()  # type: ignore[func-returns-value]  # it raises

    for given in (system, plain):
        taken = outcome_of(given).traceback
        assert taken is not None
        shown = taken.text()
        assert shown.startswith("Traceback (most recent call last):\n")
        assert shown.endswith("ValueError: deep\n")
        assert "inner()" in shown
        assert "pytest_failure_taxonomy" not in shown


def test_an_outcome_shows_what_an_isolated_rubric_printed() -> None:
    """Be its answer good or none at all."""
    good = RubricAnswer(
        json=b'{"passed": true, "score": 1, "breakdown": {}}', printed="hello"
    )

    async def failing(case: BenchCase, output: object) -> object:
        raise RubricError("exit code 3", traceback="Traceback ...", printed="bye")

    assert outcome_of(PASSING, answering_rubric(good)).printed == "hello"
    outcome = outcome_of(PASSING, failing)
    assert outcome.traceback is not None
    assert (outcome.printed, outcome.traceback.text()) == ("bye", "Traceback ...")
    assert outcome.score.failure_modes[0].detail == "exit code 3"


def test_each_mode_that_blocks_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """One line of a known form a mode; nothing for those that only warn."""

    async def rubric(case: BenchCase, output: object) -> object:
        return {
            **PASSING_ANSWER,
            "failure_modes": [{"code": "w"}, {"code": "x", "detail": "a\nb"}],
        }

    plan = make_stub_plan(
        case_ids=["a"], failure_mode_taxonomy={"w": "warn", "x": "block"}
    )
    with caplog.at_level(logging.WARNING, "pytest_failure_taxonomy.bench"):
        execute(plan, PASSING, rubric)
    assert caplog.messages == [
        "case_failed case=a code=x severity=block detail='a\\nb'"
    ]


def test_a_process_ends_and_prints_nothing_though_a_system_hangs() -> None:
    """Neither a stuck thread nor the log of a failed case gets in a script's way."""
    script = (
        "import threading\n"
        "from tests.helpers.bench import execute, make_stub_plan\n"
        "plan = make_stub_plan(case_ids=['a'], timeout_per_case_seconds=0.1)\n"
        "print(execute(plan, lambda case: threading.Event().wait()).passed_count)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "0\n", "")


def test_the_answers_score_is_what_is_told() -> None:
    """The outcome's score and the report's are the same."""
    outcomes: list[CaseOutcome] = []
    rubric = answering_rubric(BenchScore(passed=False, score=0.25))
    run = Runner(on_outcome=outcomes.append).execute(
        make_stub_plan(case_ids=["a"]), system_under_test=PASSING, rubric_runner=rubric
    )
    assert asyncio.run(run).per_case == (("a", outcomes[0].score),)


# What tries to be mistaken for something else.


@pytest.mark.parametrize("error", [TimeoutError("mine"), TimeoutError()])
def test_a_timeout_of_the_systems_own_is_an_exception(error: Exception) -> None:
    """A `TimeoutError` that the system raises within its limit is `sut.exception`."""
    mode = mode_of(RaisingSUT(error=error))
    assert (mode.code, mode.detail) == ("sut.exception", f"TimeoutError: {error}")


def test_what_all_calls_used_is_in_the_report() -> None:
    """Of those that failed, too; whoever calls the runner has it without a file."""

    async def spending(case: BenchCase) -> object:
        case.spend(tokens=1_000, requests=0.5)
        if case.case_id == "b":
            raise ValueError
        return {"answer": "out"}

    plan = make_stub_plan(case_ids=["a", "b"])
    report = execute(plan, spending)
    assert report.usage == {"tokens": 2_000, "requests": 1}
    assert "  usage: tokens 2,000, requests 1" in summary_lines(report)


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
def test_a_system_that_goes_on_for_ever_is_abandoned(
    deaf_to: type[BaseException],
) -> None:
    """The run goes on without it, and the event loop can be closed afterwards."""
    steps = 0

    async def deaf(case: BenchCase) -> object:
        nonlocal steps
        while True:
            try:
                await asyncio.sleep(0.01)
                steps += 1
            except deaf_to as error:
                if isinstance(
                    error, RuntimeError
                ):  # no loop runs any more: Python is at its end
                    return None

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
    assert {record.name for record in caplog.records} <= {
        "pytest_failure_taxonomy.bench"
    }


@pytest.mark.slow
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
    assert (mode.detail or "").startswith(
        "ExceptionGroup: unhandled errors in a TaskGroup"
    )


def test_a_group_with_an_interruption_in_it_ends_the_run() -> None:
    """A Ctrl+C is not lost because other exceptions came with it."""
    error = BaseExceptionGroup("both", [ValueError("one"), KeyboardInterrupt()])
    with pytest.raises(BaseExceptionGroup) as caught:
        execute(make_stub_plan(case_ids=["a"]), RaisingSUT(error=error))
    assert caught.value is error


@pytest.mark.parametrize(
    ("output", "detail"),
    [
        (
            {"items": [1, 2, {3}]},
            "TypeError: $.items[2] is of type set, which JSON can't hold",
        ),
        ({"x": float("nan")}, "ValueError: $.x is nan, which JSON can't hold"),
        (
            {1: "one"},
            "TypeError: the output has a key of type int; in JSON all keys are strings",
        ),
    ],
)
def test_output_that_json_can_not_hold_is_an_exception(
    output: object, detail: str
) -> None:
    """The system, not the rubric, is to blame for it."""
    mode = mode_of(DeterministicSUT(output=output))
    assert (mode.code, mode.detail) == ("sut.exception", detail)


@pytest.mark.parametrize("where", ["system", "rubric"])
def test_an_exit_of_pytest_ends_the_run(where: str) -> None:
    """`pytest.exit` in a system or a rubric ends the session, as everywhere."""

    async def leave(*_: object) -> object:
        pytest.exit("enough")

    system, rubric = (
        (leave, in_process_stub_rubric) if where == "system" else (PASSING, leave)
    )
    with pytest.raises(pytest.exit.Exception, match="enough"):
        execute(make_stub_plan(case_ids=["a"]), system, rubric)


@pytest.mark.parametrize(
    ("outcome", "detail"),
    [(pytest.fail, "Failed: not good"), (pytest.skip, "Skipped: not good")],
)
def test_pytests_other_outcomes_are_exceptions(
    outcome: Callable[[str], None], detail: str
) -> None:
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
        runner.execute(
            plan, system_under_test=system, rubric_runner=in_process_stub_rubric
        )
    )
    assert finished == ids[::-1]
    assert [case_id for case_id, _ in report.per_case] == sorted(ids)


def test_an_empty_plan_is_complete() -> None:
    """No case: no score, no mean, nothing missing."""
    report = execute(make_stub_plan(case_ids=[]), PASSING)
    assert (report.per_case, report.mean_score, report.complete) == ((), None, True)


@pytest.mark.slow
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
        most_tasks = max(
            most_tasks, len(asyncio.all_tasks()) if len(called) == 5_000 else 0
        )
        await asyncio.sleep(0)
        running -= 1
        return None

    report = execute(make_stub_plan(case_ids=ids, concurrency=7), system)
    assert called == ids
    assert most == 7
    assert most_tasks <= 2 * 7 + 1
    assert report.passed_count == 10_000


@pytest.mark.slow
def test_a_thread_that_never_ends_is_left_behind() -> None:
    """A plain system beyond its limit costs its case and holds up nothing, not even the exit."""
    release = threading.Event()
    threads: list[threading.Thread] = []

    def system(case: BenchCase) -> object:
        threads.append(threading.current_thread())
        if case.case_id == "a":
            release.wait(NEVER_SECONDS)
        return None

    plan = make_stub_plan(
        case_ids=["a", "b"], timeout_per_case_seconds=0.3, concurrency=1
    )
    report = execute(plan, system)
    assert codes_by_case(report) == {"a": ("sut.timeout",), "b": ()}
    assert threads[0].is_alive()
    assert threads[0].daemon
    release.set()
    threads[0].join()


# The two paths of a rubric.


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
    assert (
        mode_of(PASSING, given, rubric_wall_clock_seconds=SOON_SECONDS).code
        == "rubric.timeout"
    )
    release.set()
