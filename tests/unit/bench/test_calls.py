"""Who blocks the event loop, and what becomes of those that it kept waiting."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from pytest_failure_taxonomy.bench.models import BenchCase
from pytest_failure_taxonomy.bench.run.runner import Runner
from pytest_failure_taxonomy.bench.scores import RubricTimeoutError
from tests.helpers.bench import codes_by_case, execute, make_stub_plan, mode_of, only_mode
from tests.helpers.rubrics import PASSING, in_process_stub_rubric
from tests.helpers.suts import DeterministicSUT, SleepingSUT, multi_sut

LIMIT_SECONDS = 0.6
BLOCKED_SECONDS = 0.9


def block(seconds: float = BLOCKED_SECONDS) -> None:
    """Keep the event loop."""
    time.sleep(seconds)


async def blocking(case: BenchCase) -> object:
    """Begin as a good neighbour, then keep the event loop."""
    await asyncio.sleep(0.01)
    block()
    return None


def _run(waiting: Callable[..., Any], rubric: Any = in_process_stub_rubric) -> Any:
    plan = make_stub_plan(case_ids=["b", "w"], timeout_per_case_seconds=LIMIT_SECONDS)
    systems: Any = {"b": blocking, "w": waiting}
    return execute(plan, multi_sut(systems.__getitem__), rubric)


def test_a_case_that_was_held_up_gets_its_time_back() -> None:
    """Its deadline passed while another case blocked; it is not called a second time."""
    calls: list[str] = []

    async def waiting(case: BenchCase) -> object:
        calls.append(case.case_id)
        await asyncio.sleep(0.1)
        return None

    report = _run(waiting)
    assert codes_by_case(report) == {"b": ("sut.timeout",), "w": ()}
    assert calls == ["w"]


@pytest.mark.slow
def test_a_case_that_hangs_is_a_timeout_though_another_blocked() -> None:
    """What it gets back is what it lost, not another life."""
    report = _run(SleepingSUT(seconds=60))
    assert codes_by_case(report) == {"b": ("sut.timeout",), "w": ("sut.timeout",)}
    assert only_mode(dict(report.per_case)["w"]).detail is None


def test_a_limit_of_its_own_that_passed_while_another_blocked_is_tried_again() -> None:
    """A system that gave up only because it was held up is called once more."""
    calls: list[str] = []

    async def impatient(case: BenchCase) -> object:
        calls.append(case.case_id)
        async with asyncio.timeout(0.15):
            await asyncio.sleep(0.1 if len(calls) > 1 else 0.2)
        return None

    assert codes_by_case(_run(impatient))["w"] == ()
    assert calls == ["w", "w"]


def test_a_limit_of_its_own_is_tried_again_once_and_no_more() -> None:
    """The second time is the last."""
    calls: list[str] = []

    async def impatient(case: BenchCase) -> object:
        calls.append(case.case_id)
        await asyncio.sleep(0.02)
        raise TimeoutError("again")

    assert codes_by_case(_run(impatient))["w"] == ("sut.exception",)
    assert len(calls) == 2


def test_a_rubrics_process_that_was_killed_too_early_is_run_again() -> None:
    """An isolated rubric keeps its limit on the same event loop."""
    calls: list[str] = []

    class Isolated:
        enforces_limit = True

        async def __call__(self, case: BenchCase, output: object) -> object:
            calls.append(case.case_id)
            await asyncio.sleep(0.05)
            if len(calls) == 1:
                raise RubricTimeoutError("killed")
            return PASSING

    assert codes_by_case(_run(DeterministicSUT.passing(), Isolated()))["w"] == ()
    assert calls == ["w", "w"]


def test_blocking_within_the_limit_is_no_failure() -> None:
    """A system may be slow and rude at once."""

    async def rude(case: BenchCase) -> object:
        block(0.1)
        return None

    report = execute(make_stub_plan(case_ids=["a"], timeout_per_case_seconds=60.0), rude)
    assert report.passed_count == 1


def test_a_rubric_that_blocks_is_named() -> None:
    """In process a rubric can keep the event loop, too."""

    async def rubric(case: BenchCase, output: object) -> object:
        block(0.25)
        return PASSING

    mode = mode_of(DeterministicSUT.passing(), rubric, rubric_wall_clock_seconds=0.1)
    assert mode.code == "rubric.timeout"
    assert (mode.detail or "").startswith("blocked the event loop for 0.")


def test_another_thread_sees_who_has_the_loop() -> None:
    """So that someone can give up on a loop that doesn't come back."""
    entered, release = threading.Event(), threading.Event()
    runner = Runner()

    async def system(case: BenchCase) -> object:
        entered.set()
        release.wait()
        return None

    run = runner.execute(
        make_stub_plan(case_ids=["a"]),
        system_under_test=system,
        rubric_runner=in_process_stub_rubric,
    )
    assert runner.current_step() is None
    thread = threading.Thread(target=asyncio.run, args=(run,))
    before = time.perf_counter()
    thread.start()
    entered.wait()
    step = runner.current_step()
    release.set()
    thread.join()
    assert step is not None
    assert step[0] == "a"
    assert before <= step[1] <= time.perf_counter()
    assert runner.current_step() is None


@pytest.mark.parametrize("is_debug", [False, True])
def test_a_task_factory_of_the_users_is_no_obstacle(is_debug: bool) -> None:
    """Eager tasks make their first step before they are known; debug mode asks for more."""
    factory = getattr(asyncio, "eager_task_factory", None)  # since Python 3.12

    async def run() -> dict[str, tuple[str, ...]]:
        asyncio.get_running_loop().set_task_factory(factory)
        systems: Any = {"a": DeterministicSUT.passing(), "b": SleepingSUT(seconds=60)}
        report = await Runner().execute(
            make_stub_plan(case_ids=["a", "b"], timeout_per_case_seconds=0.1),
            system_under_test=multi_sut(systems.__getitem__),
            rubric_runner=in_process_stub_rubric,
        )
        return codes_by_case(report)

    assert asyncio.run(run(), debug=is_debug) == {"a": (), "b": ("sut.timeout",)}
