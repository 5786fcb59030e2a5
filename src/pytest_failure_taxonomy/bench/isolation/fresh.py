"""Run one case in an interpreter of its own where there is no `fork`: on Windows.

It has the time limit, the folder and the environment, and no other limit; what a rubric starts and
leaves behind is not found.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import Final

from pytest_failure_taxonomy.bench.isolation import sweeping, wire
from pytest_failure_taxonomy.bench.isolation.connection import SERVER
from pytest_failure_taxonomy.bench.isolation.task import Reply, Task

_SECONDS_TO_END: Final = 5.0


async def run_directly(task: Task, body: bytes, limit_seconds: float | None) -> Reply:
    """Run a case; a caller that is cancelled has its process killed.

    Args:
        task: what to run.
        body: what it is given.
        limit_seconds: how long it may take; `None` for no limit.
    """
    folder = tempfile.mkdtemp(prefix="failure-taxonomy-rubrics-")
    try:
        process = subprocess.Popen(  # noqa: S603, ASYNC220 - no loop of Windows need know processes
            [sys.executable, *([task.rubric] if task.is_script else [SERVER, "-"])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if task.is_script else subprocess.DEVNULL,
            cwd=None if task.target else folder,
            env=task.environment(folder),
            start_new_session=True,
        )
        try:
            given = body if task.is_script else _with_hello(task, folder, body)
            return await asyncio.to_thread(_communicate, process, task, given, limit_seconds)
        finally:
            with suppress(OSError):
                process.kill()
            process.wait()
    finally:
        sweeping.remove_folder(folder)


def _with_hello(task: Task, folder: str, body: bytes) -> bytes:
    hello = json.dumps(task.hello(folder)).encode()
    return wire.REQUEST.pack(wire.HELLO, 0, 0.0, len(hello)) + hello + body


def _communicate(
    process: subprocess.Popen[bytes], task: Task, given: bytes, limit_seconds: float | None
) -> Reply:
    try:
        output, errors = process.communicate(given, limit_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        with suppress(subprocess.TimeoutExpired):  # a grandchild may hold the pipes
            process.communicate(timeout=_SECONDS_TO_END)
        return Reply(what=wire.TIMED_OUT)
    # As `waitpid` would have it.
    status = -process.returncode if process.returncode < 0 else (process.returncode & 0xFF) << 8
    if len(output) > task.most_bytes + wire.MESSAGE.size + 2 * wire.MAX_PRINTED_BYTES:
        return Reply(what=wire.TOO_LARGE)
    if task.is_script:
        errors = errors[: wire.MAX_PRINTED_BYTES]
        token = bytes(wire.TOKEN_BYTES)
        head = wire.MESSAGE.pack(token, wire.OUTPUT, len(output), len(errors))
        return Reply(what=wire.ANSWERED, status=status, body=head + output + errors)
    if len(output) >= wire.MESSAGE.size:
        _, _, body_bytes, printed_bytes = wire.MESSAGE.unpack_from(output)
        if len(output) == wire.MESSAGE.size + body_bytes + printed_bytes:
            return Reply(what=wire.ANSWERED, status=status, body=output)
    return Reply(what=wire.NO_ANSWER, status=status)
