"""Find where the tasks of an asyncio loop wait, while its thread is in the loop's selector.

Nothing here imports asyncio: where no test has, there is no loop.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from types import (
    AsyncGeneratorType,
    CoroutineType,
    FrameType,
    GeneratorType,
    TracebackType,
)
from typing import Any, Final

MAX_TASKS: Final = 20
MAX_FRAMES: Final = 100
"""How many tasks are reported, and how many frames of each."""
LOOP_FILES: Final = tuple(
    os.path.join("asyncio", name) for name in ("base_events.py", "runners.py")
)
"""How the files end whose functions run a loop."""
_SELECTORS: Final = f"{os.sep}selectors.py"
_LOCALS: Final = ("future", "task")
"""What these functions call the task that the loop is run for."""


def outer_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame, its caller, and so on."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def waiting_tasks(frames: Iterable[FrameType]) -> dict[str, list[FrameType]]:
    """Return where the tasks wait of the loop that some frames run.

    Args:
        frames: of one thread, in any order.

    Returns:
        By the name of the task: its frames, the outermost first. The task that the loop
        is run for comes first; nothing is returned without a loop.
    """
    asyncio: Any = sys.modules.get("asyncio")
    if asyncio is None:
        return {}
    for frame in frames:
        if frame.f_code.co_filename.endswith(LOOP_FILES):
            held = [frame.f_locals.get(name) for name in _LOCALS]
            futures = [each for each in held if isinstance(each, asyncio.Future)]
            if futures:
                return _frames_by_task(asyncio, futures[0])
    return {}


def _frames_by_task(asyncio: Any, first: Any) -> dict[str, list[FrameType]]:
    tasks = asyncio.all_tasks(first.get_loop())
    # Names are `Task-1`, `Task-2` and so on, in the order in which the tasks were made.
    ordered = sorted(
        tasks,
        key=lambda task: (task is not first, len(task.get_name()), task.get_name()),
    )
    found = {}
    for task in ordered[:MAX_TASKS]:
        frames = _frames_of(asyncio, task)
        if frames:
            found[task.get_name()] = frames
    return found


def _frames_of(asyncio: Any, task: Any) -> list[FrameType]:
    """Return the frames of a task, and of the tasks that it waits for, the outermost first."""
    frames: list[FrameType] = []
    seen: set[int] = set()
    while isinstance(task, asyncio.Task) and id(task) not in seen:
        seen.add(id(task))
        awaited = task.get_coro()
        while awaited is not None and len(frames) < MAX_FRAMES:
            frame, awaited = _step_into(awaited)
            if frame is not None:
                frames.append(frame)
        waiter = getattr(task, "_fut_waiter", None)
        # `gather` waits for a future that knows its children.
        children = getattr(waiter, "_children", ())
        task = next((child for child in children if not child.done()), waiter)
    return frames


def _step_into(awaited: object) -> tuple[FrameType | None, object]:
    """Return the frame of a coroutine, and what it awaits."""
    if isinstance(awaited, CoroutineType):
        return awaited.cr_frame, awaited.cr_await
    if isinstance(awaited, GeneratorType):
        return awaited.gi_frame, awaited.gi_yieldfrom
    if isinstance(awaited, AsyncGeneratorType):
        return awaited.ag_frame, awaited.ag_await
    return None, None


def text_of_tasks(tasks: dict[str, list[FrameType]]) -> str:
    """Return where tasks wait, in the form in which faulthandler writes threads."""
    blocks = []
    for number, (name, frames) in enumerate(tasks.items(), start=1):
        lines = [f"Thread {number:#x} [{name}] (most recent call first):"]
        for frame in reversed(frames):
            code = frame.f_code
            place = f'"{code.co_filename}", line {frame.f_lineno}'
            lines.append(f"  File {place} in {code.co_name}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def awaiting_traceback(
    traceback: TracebackType | None, is_own: Callable[[str], bool]
) -> TracebackType | None:
    """Return the stack of the task that was awaited when an exception came into a selector.

    A signal's handler raises such a one, pytest-timeout's for one: of the code that
    waits its traceback has nothing. Where the loop was closed since, nothing is left of
    the task either.

    Args:
        traceback: of the exception.
        is_own: tells whether a file is the user's own.

    Returns:
        A traceback of the frames of the first task that runs the user's code; `None`
        where there is none, or the exception was raised elsewhere.
    """
    frames = []
    is_selecting = False
    while traceback is not None:
        frames.append(traceback.tb_frame)
        name = traceback.tb_frame.f_code.co_filename
        is_selecting = is_selecting or name.endswith(_SELECTORS)
        traceback = traceback.tb_next
    tasks = waiting_tasks(frames) if is_selecting else {}
    for waiting in tasks.values():
        if any(is_own(frame.f_code.co_filename) for frame in waiting):
            awaiting = None
            for frame in reversed(waiting):
                awaiting = TracebackType(awaiting, frame, frame.f_lasti, frame.f_lineno)
            return awaiting
    return None
