"""Who blocks the event loop, and what becomes of those that it kept waiting."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from pytest_failure_taxonomy.bench.models import BenchCase
from pytest_failure_taxonomy.bench.run.calls import Attempt, Loop
from pytest_failure_taxonomy.bench.run.runner import Runner
from tests.helpers.bench import (
    codes_by_case,
    execute,
    make_stub_plan,
    mode_of,
    only_mode,
)
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
    assert only_mode(dict(report.per_case)["w"]).detail == "was not done within 0.6 s"


def test_nothing_is_called_again_because_another_blocked() -> None:
    """A system that gave up while it was held up has failed: a call may cost money."""
    calls: list[str] = []

    async def impatient(case: BenchCase) -> object:
        calls.append(case.case_id)
        async with asyncio.timeout(0.15):
            await asyncio.sleep(0.2)
        return None

    assert codes_by_case(_run(impatient))["w"] == ("sut.exception",)
    assert calls == ["w"]


def test_blocking_within_the_limit_is_no_failure() -> None:
    """A system may be slow and rude at once."""

    async def rude(case: BenchCase) -> object:
        block(0.1)
        return None

    report = execute(
        make_stub_plan(case_ids=["a"], timeout_per_case_seconds=60.0), rude
    )
    assert report.passed_count == 1


def test_a_rubric_that_blocks_is_named() -> None:
    """In process a rubric can keep the event loop, too."""

    async def rubric(case: BenchCase, output: object) -> object:
        block(0.25)
        return PASSING

    mode = mode_of(DeterministicSUT.passing(), rubric, rubric_wall_clock_seconds=0.1)
    assert mode.code == "rubric.timeout"
    assert (mode.detail or "").startswith("blocked the event loop for 0.")


@pytest.mark.slow
def test_who_keeps_the_gil_pays_for_it() -> None:
    """Two threads wait while a third one computes in C: their limits are of their own time."""

    def system(case: BenchCase) -> object:
        while case.case_id == "b" and time.thread_time() < 2.5:
            sum(range(20_000_000))
        time.sleep(0.1)
        return None

    plan = make_stub_plan(case_ids=["b", "w", "x"], timeout_per_case_seconds=2.0)
    report = execute(plan, system, in_process_stub_rubric)
    assert codes_by_case(report) == {"b": ("sut.timeout",), "w": (), "x": ()}


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


async def _attempt(function: Callable[..., Any], *args: object) -> Attempt:
    """Make one call on the running loop, without a limit."""
    here = Loop(asyncio.get_running_loop())
    attempt = Attempt(
        call=partial(function, *args),
        read=lambda value: value,
        is_async=False,
        loop=lambda: here,
        here=here,
        limit_seconds=None,
        grace_seconds=1.0,
    )
    await attempt.run()
    return attempt


def test_each_plain_call_at_a_time_has_a_thread() -> None:
    """However many calls wait for each other, there is a thread for each."""
    all_there = threading.Barrier(60)

    async def run() -> list[Any]:
        made = await asyncio.gather(*(_attempt(all_there.wait, 60) for _ in range(60)))
        return [attempt.value for attempt in made]

    assert sorted(asyncio.run(run())) == list(range(60))


def test_a_call_that_never_ends_costs_no_other_call_and_no_exit() -> None:
    """Its thread is lost, the others are not, and the interpreter doesn't wait for it."""
    program = (
        "import asyncio, threading\n"
        "from tests.unit.bench.test_calls import _attempt\n"
        "async def run():\n"
        "    stuck = [asyncio.ensure_future(_attempt(threading.Event().wait)) for _ in range(50)]\n"
        "    print([(await _attempt(int, '7')).value for _ in range(3)])\n"
        "    for each in stuck: each.cancel()\n"
        "asyncio.run(run())\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "[7, 7, 7]\n", "")


@pytest.mark.parametrize(
    "error",
    [StopIteration(3), SystemExit(4), KeyboardInterrupt(), asyncio.CancelledError()],
)
def test_whatever_a_plain_call_raises_is_a_value(error: BaseException) -> None:
    """No exception is lost because a future can't hold it."""

    def fail() -> None:
        raise error

    attempt = asyncio.run(_attempt(fail))
    assert type(attempt.error).__name__ == type(error).__name__
    is_fatal = not isinstance(error, StopIteration)
    assert attempt.fatal_error is (error if is_fatal else None)


def test_a_coroutine_that_comes_too_late_is_closed() -> None:
    """Without the warning that it was never awaited."""
    release, finished = threading.Event(), threading.Event()

    async def never_awaited() -> None:
        """Do nothing."""

    def late() -> Any:
        release.wait(60)
        made = never_awaited()
        weakref.finalize(made, finished.set)
        return made

    async def run() -> None:
        waiting = asyncio.ensure_future(_attempt(late))
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.wait([waiting])

    asyncio.run(run())
    release.set()
    assert finished.wait(60)


def test_a_call_that_is_over_keeps_nothing() -> None:
    """Neither the function nor its argument, its result or the event loop."""

    class Thing:
        pass

    async def run() -> list[weakref.ref[Any]]:
        given = Thing()
        result = (await _attempt(lambda one: (one, Thing())[1], given)).value
        return [
            weakref.ref(each) for each in (given, result, asyncio.get_running_loop())
        ]

    found = asyncio.run(run())
    gc.collect()
    assert [each() for each in found] == [None, None, None]


def test_two_loops_at_a_time_each_get_their_own_results() -> None:
    """Calls of plain functions end on the loop that waits for them."""
    found: dict[int, list[object]] = {}

    async def run(number: int) -> None:
        made = [await _attempt(lambda one: (number, one), each) for each in range(50)]
        found[number] = [attempt.value for attempt in made]

    loops = [
        threading.Thread(target=lambda one=one: asyncio.run(run(one)))
        for one in range(3)
    ]
    for each in loops:
        each.start()
    for each in loops:
        each.join(60)
    assert found == {
        number: [(number, each) for each in range(50)] for number in range(3)
    }


def test_an_amount_is_an_int_or_a_float() -> None:
    """Another number is refused, with what would be right."""
    case = BenchCase(case_id="a")
    with pytest.raises(TypeError, match="give an int or a float"):
        case.spend(Decimal("0.5"))  # type: ignore[arg-type]
