"""Whether a process holds its GIL is read from its memory, or is not known."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.survive.stalls import stacks
from pytest_failure_taxonomy.survive.stalls.stacks import is_gil_held
from pytest_failure_taxonomy.system.process import fields_of
from tests.helpers.waiting import wait_until

pytestmark = [
    pytest.mark.linux("reads the memory of other processes"),
    pytest.mark.skipif(
        sys.version_info >= (3, 14)
        or not getattr(sys, "_is_gil_enabled", lambda: True)(),
        reason="the place of the lock is known of CPython 3.11 to 3.13 with a GIL",
    ),
]

WAITS: Final = {
    "a lock": "import threading\nlock = threading.Lock()\nlock.acquire()\nup()\nlock.acquire()",
    "a sleep": "import time\nup()\ntime.sleep(600)",
    "a C function with the GIL": "import ctypes\nup()\nwhile True: ctypes.PyDLL(None).sleep(600)",
    "a C function without it": "import ctypes\nup()\nwhile True: ctypes.CDLL(None).sleep(600)",
}


@contextmanager
def asleep(*command: str) -> Iterator[int]:
    """Have a command wait that has printed a line; yield its process id."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        try:
            child.stdout.readline()
            wait_until(lambda: fields_of(child.pid)[:1] == [b"S"], "the wait")
            yield child.pid
        finally:
            child.kill()


@pytest.mark.parametrize("name", WAITS)
def test_who_waits_with_the_gil_is_told(name: str) -> None:
    """A call from ctypes keeps the GIL where it is asked to; Python's own waits release it."""
    code = f"def up(): print(flush=True)\n{WAITS[name]}"
    with asleep(sys.executable, "-c", code) as process_id:
        # Between the line and the wait some bytecode runs, with the GIL.
        answers = (None, name == "a C function with the GIL")
        answer = wait_until(
            lambda: [each for each in [is_gil_held(process_id)] if each in answers],
            "the answer",
        )
        if answer == [None]:
            assert not can_read(process_id)
            pytest.skip("the system doesn't let other processes be read")


def can_read(process_id: int) -> bool:
    """Tell whether the system lets this process read the memory of another one."""
    try:
        with open(f"/proc/{process_id}/mem", "rb"):
            return True
    except PermissionError:
        return False


def test_of_another_program_nothing_is_known() -> None:
    """The lock is where it is in this Python, and another program has none there."""
    with asleep("sh", "-c", "echo; exec sleep 600") as process_id:
        assert is_gil_held(process_id) is None


def refuse(*args: Any, **kwargs: Any) -> Any:
    """Stand in for `open` where the system forbids it."""
    raise PermissionError


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setattr("builtins.open", refuse),
        lambda patch: patch.setattr(stacks, "_place_of_lock", lambda: (("x", "y"), 0)),
        lambda patch: patch.setattr(stacks, "_place_of_lock", lambda: None),
        lambda patch: patch.setattr("os.pread", lambda *_: b""),
        lambda patch: patch.setattr("os.pread", lambda *_: b"\xff" * 20),
        lambda patch: patch.setattr("os.pread", refuse),
    ],
    ids=["forbidden", "another file", "no GIL", "nothing", "odd", "gone"],
)
def test_what_cant_be_read_is_not_known(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[pytest.MonkeyPatch], None]
) -> None:
    """No answer is better than a guess."""
    with monkeypatch.context() as patch:
        change(patch)
        known = is_gil_held(os.getpid())
    assert known is None
