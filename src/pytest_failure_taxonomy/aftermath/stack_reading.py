"""Read the stacks of another process from outside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pytest_failure_taxonomy.aftermath.stacks import Stacks


def read_stacks(
    process_id: int,
    *,
    dump: Path | int | None,
    ask: Callable[[], object] | int | None,
    seconds: float = 2.0,
    why_not: Callable[[str], object] | None = None,
) -> Stacks | None:
    """Return the stacks of a process that is blocked or frozen, or `None`.

    py-spy reads them where it is installed and allowed to. Or else the process is asked to write
    them, which faulthandler does in a signal handler without the GIL.

    Args:
        process_id: the process.
        dump: the file that it writes its own stacks to: a path, or a descriptor for reading that
            this process holds.
        ask: the signal that `prepare_to_be_read` returned in that process, or what else makes it
            write them.
        seconds: how long each of both may take.
        why_not: called once with the reason, where the answer is `None`.
    """
    raise NotImplementedError


def children_of(process_id: int) -> tuple[str, ...]:
    """Return the command lines of a process's descendants, by process id.

    They are not redacted yet.
    """
    raise NotImplementedError
