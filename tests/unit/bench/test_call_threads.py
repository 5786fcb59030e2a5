"""Threads for plain functions: one for each call at a time, and used again."""

from __future__ import annotations

import asyncio
import gc
import random
import subprocess
import sys
import threading
import time
import weakref
from contextvars import ContextVar
from typing import Any

import pytest

from pytest_failure_taxonomy.bench.run.call_threads import CallThreads, Raised
from pytest_failure_taxonomy.bench.run.calls import as_coroutine_function
from tests.helpers.waiting import wait_until

COLOUR: ContextVar[str] = ContextVar("COLOUR", default="none")


def test_a_thread_that_is_idle_makes_the_next_call() -> None:
    """One call after another needs one thread."""
    threads = CallThreads()

    async def run() -> list[int]:
        return [await threads.call(threading.get_ident) for _ in range(50)]

    assert len(set(asyncio.run(run()))) == 1


def test_each_call_at_a_time_has_a_thread() -> None:
    """However many calls wait for each other, there is a thread for each."""
    threads = CallThreads()
    all_there = threading.Barrier(60)

    async def run() -> list[Any]:
        return await asyncio.gather(*(threads.call(all_there.wait, 60) for _ in range(60)))

    assert sorted(asyncio.run(run())) == list(range(60))


def test_a_call_that_never_ends_costs_no_other_call_and_no_exit() -> None:
    """Its thread is lost, the others are not, and the interpreter doesn't wait for it."""
    program = (
        "import asyncio, threading\n"
        "from pytest_failure_taxonomy.bench.run.call_threads import CallThreads\n"
        "threads = CallThreads()\n"
        "async def run():\n"
        "    stuck = [threads.call(threading.Event().wait) for _ in range(50)]\n"
        "    print([await threads.call(int, '7') for _ in range(3)])\n"
        "asyncio.run(run())\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "[7, 7, 7]\n", "")


def test_a_call_has_a_copy_of_the_callers_context() -> None:
    """It sees the caller's values, and what it sets is seen by no other call."""
    threads = CallThreads()

    def paint(colour: str) -> str:
        before = COLOUR.get()
        COLOUR.set(colour)
        return before

    async def run() -> list[str]:
        COLOUR.set("red")
        return [await threads.call(paint, "blue"), await threads.call(paint, "green")]

    assert asyncio.run(run()) == ["red", "red"]
    assert COLOUR.get() == "none"


@pytest.mark.parametrize(
    "error", [StopIteration(3), SystemExit(4), KeyboardInterrupt(), asyncio.CancelledError()]
)
def test_whatever_a_call_raises_is_a_value(error: BaseException) -> None:
    """No exception ends the thread, or is lost because a future can't hold it."""
    threads = CallThreads()

    def fail() -> None:
        raise error

    async def run() -> tuple[object, object]:
        return await threads.call(fail), await threads.call(abs, -1)

    raised, after = asyncio.run(run())
    assert isinstance(raised, Raised)
    assert raised.error is error
    assert after == 1


def test_a_plain_function_may_return_an_awaitable() -> None:
    """As a lambda around an async function does."""

    async def answer(number: int) -> int:
        return number + 1

    def plain(number: int) -> Any:
        return answer(number)

    call = as_coroutine_function(plain)
    assert asyncio.run(call(1)) == 2


def test_a_result_for_a_closed_loop_is_dropped() -> None:
    """A coroutine that comes too late is closed, without the warning that it was never awaited."""
    threads = CallThreads()
    release, finished = threading.Event(), threading.Event()

    async def never_awaited() -> None:
        """Do nothing."""

    def late() -> Any:
        release.wait(60)
        made = never_awaited()
        weakref.finalize(made, finished.set)
        return made

    async def run() -> None:
        threads.call(late)

    asyncio.run(run())
    release.set()
    assert finished.wait(60)

    async def again() -> object:
        return await threads.call(abs, -2)

    assert asyncio.run(again()) == 2


def test_a_call_that_was_cancelled_goes_on_and_its_result_is_dropped() -> None:
    """Nothing can end a thread."""
    threads = CallThreads()
    release = threading.Event()

    async def run() -> object:
        waiting = threads.call(release.wait, 60)
        waiting.cancel()
        release.set()
        return await threads.call(abs, -3)

    assert asyncio.run(run()) == 3


def test_an_idle_thread_keeps_nothing_of_its_call() -> None:
    """Neither the function nor its argument, its result or the event loop."""
    threads = CallThreads(idle_seconds=60)

    class Thing:
        pass

    async def run() -> list[weakref.ref[Any]]:
        given = Thing()
        result = await threads.call(lambda one: (one, Thing())[1], given)
        return [weakref.ref(each) for each in (given, result, asyncio.get_running_loop())]

    found = asyncio.run(run())
    gc.collect()
    assert [each() for each in found] == [None, None, None]


def test_idle_threads_end_after_a_while() -> None:
    """Nothing is left of a run that is over."""
    threads = CallThreads(idle_seconds=0.05)
    all_there = threading.Barrier(8)
    seen: list[threading.Thread] = []

    def note() -> None:
        seen.append(threading.current_thread())
        all_there.wait(60)

    async def run() -> None:
        await asyncio.gather(*(threads.call(note) for _ in range(8)))

    asyncio.run(run())
    assert len(set(seen)) == 8
    wait_until(lambda: not any(thread.is_alive() for thread in seen), "the end of the threads")


def test_no_call_is_lost_to_a_thread_that_ends() -> None:
    """A call may be given to a thread at the very moment at which it has waited long enough."""
    threads = CallThreads(idle_seconds=0.0005)
    pauses = random.Random(15)  # noqa: S311 - a schedule, no secret

    async def work(number: int) -> list[object]:
        found: list[object] = []
        for step in range(100):
            found.append(await threads.call(lambda given: given, (number, step)))
            await asyncio.sleep(pauses.choice((0, 0.0003, 0.0005, 0.0007)))
        return found

    async def run() -> list[list[object]]:
        async with asyncio.timeout(60):
            return await asyncio.gather(*(work(number) for number in range(8)))

    assert asyncio.run(run()) == [[(each, step) for step in range(100)] for each in range(8)]


def test_two_loops_at_a_time_each_get_their_own_results() -> None:
    """A thread may work for one loop after another."""
    threads = CallThreads()
    found: dict[int, list[object]] = {}

    async def run(number: int) -> None:
        found[number] = [await threads.call(lambda one: (number, one), each) for each in range(200)]

    loops = [threading.Thread(target=lambda one=one: asyncio.run(run(one))) for one in range(3)]
    for each in loops:
        each.start()
    for each in loops:
        each.join(60)
    assert found == {number: [(number, each) for each in range(200)] for number in range(3)}


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_a_fork_starts_threads_of_its_own() -> None:
    """The idle threads of its parent don't exist in it."""
    program = (
        "import asyncio, os, warnings\n"
        "from pytest_failure_taxonomy.bench.run.call_threads import CallThreads\n"
        "warnings.simplefilter('ignore', DeprecationWarning)\n"
        "threads = CallThreads(idle_seconds=60)\n"
        "async def run():\n"
        "    return await asyncio.wait_for(threads.call(abs, -5), 30)\n"
        "asyncio.run(run())\n"
        "child = os.fork()\n"
        "found = asyncio.run(run())\n"
        "if not child:\n"
        "    os._exit(found)\n"
        "print(found, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.stdout, ended.stderr) == ("5 5\n", "")


def test_a_function_that_keeps_its_thread_does_not_hold_up_the_loop() -> None:
    """The event loop goes on while a call sleeps."""
    threads = CallThreads()

    async def run() -> int:
        waiting = threads.call(time.sleep, 0.2)
        turns = 0
        while not waiting.done():
            turns += 1
            await asyncio.sleep(0.001)
        return turns

    assert asyncio.run(run()) > 3
