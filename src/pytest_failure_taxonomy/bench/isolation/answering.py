"""What a reply of a server means: an answer, or an error in words."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

from pytest_failure_taxonomy.bench.isolation import wire
from pytest_failure_taxonomy.bench.isolation.task import Reply
from pytest_failure_taxonomy.bench.outcomes import RubricAnswer, RubricError, RubricTimeoutError
from pytest_failure_taxonomy.taxonomy.values import value


@value
class Message:
    """What a child said on its own descriptor."""

    what: bytes
    body: bytes
    printed: str

    def raised(self) -> dict[str, Any]:
        """Return what is said of an exception."""
        said: dict[str, Any] = json.loads(self.body)
        return said


def message_of(reply: Reply) -> Message | None:
    """Return what the child said; `None` where it said nothing whole."""
    if reply.what != wire.ANSWERED:
        return None
    _, what, body_bytes, _ = wire.MESSAGE.unpack_from(reply.body)
    begin = wire.MESSAGE.size
    body = reply.body[begin : begin + body_bytes]
    printed = reply.body[begin + body_bytes :].decode("utf-8", "backslashreplace")
    return Message(what=what, body=body, printed=printed)


def how_it_ended(returncode: int) -> str:
    """Say how a process ended.

    Args:
        returncode: as `subprocess` has it, negative for a signal.
    """
    if returncode >= 0:
        return f"exited with code {returncode}"
    try:
        return f"was killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was killed by signal {-returncode}"


def read_answer(reply: Reply, limit_seconds: float) -> RubricAnswer:
    """Return what a rubric answered.

    Raises:
        RubricTimeoutError: it was not done in time.
        RubricError: it gave no answer; the message goes on from "the rubric".
    """
    if reply.what == wire.TIMED_OUT:
        raise RubricTimeoutError(f"was not done within {limit_seconds:g} s")
    if reply.what == wire.TOO_LARGE:
        raise RubricError(f"gave more than {wire.MAX_VERDICT_BYTES:,} bytes as its verdict")
    if reply.what == wire.NOT_STARTED:
        raise RubricError(f"could not be started: {reply.body.decode(errors='replace')}")
    ended = how_it_ended(os.waitstatus_to_exitcode(reply.status))
    message = message_of(reply)
    if message is None:
        raise RubricError(f"{ended} and gave no verdict")
    if message.what == wire.RAISED:
        said = message.raised()
        raise RubricError(said["reason"], traceback=said["traceback"], printed=message.printed)
    if reply.status:
        errors = message.printed if message.what == wire.OUTPUT else ""
        raise RubricError(ended, traceback=errors, printed=message.printed)
    if message.what == wire.OUTPUT:
        _check_output(message)
    return RubricAnswer(json=message.body, printed=message.printed)


def _check_output(message: Message) -> None:
    """Refuse what a script has printed where that is not one JSON object."""
    try:
        found = json.loads(message.body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        shown = message.body[:200].decode("utf-8", "backslashreplace").strip()
        said = f"printed {shown!r}" if shown else "printed nothing"
        raise RubricError(
            f"{said} on stdout; one JSON object, its verdict, and nothing else would be right",
            printed=message.printed,
        )


def read_loading(reply: Reply | None, ended: int, limit_seconds: float) -> RubricError | None:
    """Return why a server could not load the rubric; `None` if it could.

    Args:
        reply: what it said; `None` if it ended before it said anything.
        ended: its return code in that case.
        limit_seconds: how long it was given.
    """
    if reply is None:
        return RubricError(f"{how_it_ended(ended)} while it was loaded")
    if reply.what == wire.TIMED_OUT:
        return RubricTimeoutError(f"was not loaded within {limit_seconds:g} s")
    if reply.what == wire.BROKEN:
        said = json.loads(reply.body)
        return RubricError(
            f"could not be loaded: {said['reason'].removeprefix('raised ')}",
            traceback=said["traceback"],
        )
    return None
