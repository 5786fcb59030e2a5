"""Where the tasks of an asyncio loop wait."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any

import pytest

from pytest_failure_taxonomy.survive.stalls.stacks import parse_faulthandler
from pytest_failure_taxonomy.system.tasks import (
    outer_frames,
    text_of_tasks,
    waiting_tasks,
)


async def get(queue: asyncio.Queue[int]) -> int:
    """Wait for ever."""
    return await queue.get()


async def alone() -> None:
    """Wait in a coroutine."""
    await get(asyncio.Queue())


async def gathered() -> None:
    """Wait for the second of two."""
    await asyncio.gather(asyncio.sleep(0), get(asyncio.Queue()))


async def by_a_task() -> None:
    """Wait for another task."""
    await asyncio.create_task(get(asyncio.Queue()))


async def limited() -> None:
    """Wait with a limit."""
    await asyncio.wait_for(get(asyncio.Queue()), 100)


def look_at(
    main: Callable[[], Coroutine[Any, Any, None]],
) -> dict[str, list[FrameType]]:
    """Run a coroutine, and return where its tasks wait after a moment."""
    found: dict[str, list[FrameType]] = {}
    text: list[str] = []

    def look(task: asyncio.Task[None]) -> None:
        found.update(waiting_tasks(outer_frames(sys._getframe())))
        text.append(text_of_tasks(found))
        task.cancel()

    async def run() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_later(0.05, look, task)
        await main()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())
    stacks = parse_faulthandler(text[0])
    assert stacks is not None
    names = [frame.function for frame in stacks.threads[0].frames]
    assert names[-2:] == [main.__name__, "run"]
    assert "get" in names[:2], names
    return found


@pytest.mark.parametrize("main", [alone, gathered, by_a_task, limited])
def test_a_task_is_followed_to_what_it_waits_for(
    main: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    """Through coroutines, other tasks and `gather`; the task that the loop runs for is first."""
    tasks = look_at(main)
    assert len(tasks) == (2 if main in (gathered, by_a_task) else 1)


def test_without_a_loop_there_is_nothing() -> None:
    """Nor where another thread has one."""
    assert waiting_tasks(outer_frames(sys._getframe())) == {}
