"""What a runner calls, in what order, what it tells, and when it stops."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest
from pydantic import ValidationError

from pytest_failure_taxonomy.bench.models import BenchCase, BenchScore
from pytest_failure_taxonomy.bench.outcomes import CaseOutcome, RubricAnswer, RubricError
from pytest_failure_taxonomy.bench.run.runner import Runner
from pytest_failure_taxonomy.errors import BenchError
from tests.helpers.bench import (
    NEVER_SECONDS,
    SOON_SECONDS,
    codes_by_case,
    execute,
    make_stub_plan,
    mode_of,
    outcome_of,
)
from tests.helpers.rubrics import PASSING as PASSING_ANSWER
from tests.helpers.rubrics import answering_rubric, in_process_stub_rubric
from tests.helpers.suts import DeterministicSUT, RaisingSUT, SleepingSUT, multi_sut

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
    assert first.startswith("system_under_test: an object of type int can't be called; ")
    assert second.startswith("rubric_runner: ")


def test_what_a_runner_tells_comes_in_order() -> None:
    """Each case is announced before its system is called and told once it has its score."""
    told: list[str] = []

    async def system(case: BenchCase) -> object:
        told.append(f"call {case.case_id}")
        return None

    runner = Runner(
        on_start=lambda case_id: told.append(f"start {case_id}"),
        on_outcome=lambda outcome: told.append(f"{outcome.case_id} {outcome.score.passed}"),
    )
    plan = make_stub_plan(case_ids=["b", "a"], concurrency=1)
    asyncio.run(
        runner.execute(plan, system_under_test=system, rubric_runner=in_process_stub_rubric)
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
        make_stub_plan(case_ids=["a", "b", "c"], concurrency=2, max_cost_usd=0.5), system, rubric
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
        plan = make_stub_plan(case_ids=["a", "b", "c"], cancellation_grace_seconds=SOON_SECONDS)
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

    systems: Any = {"a": waiting, "b": RaisingSUT(error=KeyboardInterrupt()), "c": waiting}
    plan = make_stub_plan(case_ids=["a", "b", "c"], concurrency=2)
    with pytest.raises(KeyboardInterrupt):
        execute(plan, multi_sut(systems.__getitem__))
    assert ended == ["a"]


def test_a_case_may_have_limits_of_its_own() -> None:
    """They go before the plan's, in both directions."""
    quick = BenchCase(case_id="q", timeout_per_case_seconds=0.3, rubric_wall_clock_seconds=60.0)
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
        enforces_limit = True

        async def __call__(self, case: BenchCase, output: object) -> object:
            await asyncio.sleep(0.1)
            return PASSING_ANSWER

    assert outcome_of(PASSING, Isolated(), rubric_wall_clock_seconds=0.01).score.passed


def test_the_time_is_measured() -> None:
    """It is that of system and rubric together, whatever the rubric says."""

    async def rubric(case: BenchCase, output: object) -> object:
        await asyncio.sleep(0.05)
        return {**PASSING_ANSWER, "wall_clock_ms": 0.001}

    assert 95 <= outcome_of(SleepingSUT(seconds=0.05), rubric).score.wall_clock_ms <= 60_000


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
    good = RubricAnswer(json=b'{"passed": true, "score": 1, "breakdown": {}}', printed="hello")

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
        return {**PASSING_ANSWER, "failure_modes": [{"code": "w"}, {"code": "x", "detail": "a\nb"}]}

    plan = make_stub_plan(case_ids=["a"], failure_mode_taxonomy={"w": "warn", "x": "block"})
    with caplog.at_level(logging.WARNING, "pytest_failure_taxonomy.bench"):
        execute(plan, PASSING, rubric)
    assert caplog.messages == ["case_failed case=a code=x severity=block detail='a\\nb'"]


def test_a_process_ends_and_prints_nothing_though_a_system_hangs() -> None:
    """Neither a stuck thread nor the log of a failed case gets in a script's way."""
    script = (
        "import threading\n"
        "from tests.helpers.bench import execute, make_stub_plan\n"
        "plan = make_stub_plan(case_ids=['a'], timeout_per_case_seconds=0.1)\n"
        "print(execute(plan, lambda case: threading.Event().wait()).passed_count)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
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
