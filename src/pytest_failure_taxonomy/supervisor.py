"""Run a command as its parent: see exactly how it ends, and who or what ended it."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.recorder.process import descendants, name_of
from pytest_failure_taxonomy.recorder.supervision import adopt_orphans
from pytest_failure_taxonomy.taxonomy.values import value

GRACE_SECONDS: Final = 5.0
"""How long a command that has used up its limit may take to end by itself."""

COMPLETION_SECONDS: Final = 10.0
"""For how long after the command's end the report comes before the user's signals."""

_FORWARDED: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)
"""What Python ignores for itself; a command has to find it as a shell would give it."""
_WAITED_FOR: Final = frozenset({signal.SIGCHLD, *_FORWARDED})


@value
class CommandEnd:
    """How a supervised command ended."""

    status: int
    """As `os.waitpid` gives it."""
    ended_ns: int
    """On the monotonic clock."""
    limit_reached: bool
    """It was ended because its time was up."""
    sender: str | None
    """Name of the process whose signal was passed on to it last."""


class Supervisor:
    """The parent of one command.

    The command stays in the terminal's foreground process group, so that a debugger, Ctrl+C and
    Ctrl+Z work: what the terminal sends, the command gets by itself; what another process sends to
    the supervisor is passed on.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        timeout_seconds: float | None = None,
    ) -> None:
        """Prepare to run a command.

        Args:
            command: its words.
            timeout_seconds: how long it may take.
        """
        self._command = list(command)
        self._timeout_seconds = timeout_seconds
        self._child = 0
        self._status: int | None = None
        self._sender: str | None = None
        self._deadline: float | None = None
        self._terminations = 0

    def run(self, environment: dict[str, str]) -> CommandEnd:
        """Run the command to its end.

        Raises:
            OSError: it can't be started.
        """
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
        # Where a caller had it ignored, the system would take the command's status for itself.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            if self._timeout_seconds is not None:
                adopt_orphans()
                self._deadline = time.monotonic() + self._timeout_seconds
            self._child = os.posix_spawnp(
                self._command[0],
                self._command,
                environment,
                setsigmask=before,
                setsigdef=_IGNORED_BY_PYTHON,
            )
            while self._status is None:
                self._wait()
            ended_ns = time.monotonic_ns()
            if self._terminations:
                _kill_all(descendants(os.getpid()))
        finally:
            # What came too late for the command, or comes now, must not cost it its report.
            ignore = _ignore_until(time.monotonic() + COMPLETION_SECONDS)
            for number in _FORWARDED:
                signal.signal(number, ignore)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return CommandEnd(
            status=self._status,
            ended_ns=ended_ns,
            limit_reached=self._terminations > 0,
            sender=self._sender,
        )

    def _wait(self) -> None:
        """Wait for one signal, or for the time to be up."""
        seconds = 3600.0 if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        seen = signal.sigtimedwait(_WAITED_FOR, seconds)
        if seen is None:
            if self._deadline is not None and time.monotonic() >= self._deadline:
                self._terminate()
        elif seen.si_signo == signal.SIGCHLD:
            self._reap()
        elif seen.si_code <= 0:  # sent by a process; the terminal's reach the command anyway
            self._sender = name_of(seen.si_pid)
            with suppress(ProcessLookupError):
                os.kill(self._child, seen.si_signo)

    def _reap(self) -> None:
        """Take the status of the command, and of any orphan that came to us (as process 1)."""
        with suppress(ChildProcessError):
            while True:
                process_id, status = os.waitpid(-1, os.WNOHANG)
                if process_id == 0:
                    return
                if process_id == self._child:
                    self._status = status

    def _terminate(self) -> None:
        """Ask the command to end; the second time, end it with all that it has started."""
        self._terminations += 1
        with suppress(ProcessLookupError):
            if self._terminations == 1:
                self._deadline = time.monotonic() + GRACE_SECONDS
                os.kill(self._child, signal.SIGTERM)
            else:
                self._deadline = None
                _kill_all([*descendants(os.getpid()), self._child])


def end_like(status: int) -> int:
    """End this process by the signal that ended the command, or return its exit code.

    Process 1 of a container can't end itself by a signal; it returns what a shell would show.
    """
    returncode = os.waitstatus_to_exitcode(status)
    if returncode >= 0:
        return returncode
    number = -returncode
    if os.getpid() != 1:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command's own core is enough
            signal.signal(number, signal.SIG_DFL)
        with suppress(OSError):
            os.kill(os.getpid(), number)
    return 128 + number


def is_pytest(command: Sequence[str]) -> bool:
    """Tell whether a command runs pytest, as far as its words tell."""
    names = [Path(word).name for word in command]
    if "-m" in command:
        after = command.index("-m") + 1
        return after < len(command) and command[after] == "pytest"
    return any(name in ("pytest", "pytest.exe", "py.test") for name in names[:4])


def _ignore_until(deadline: float) -> Callable[[int, object], None]:
    """Return what ignores a signal until then, and lets it end this process from then on."""

    def end_if_late(number: int, frame: object) -> None:
        del frame
        if time.monotonic() >= deadline:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    return end_if_late


def _kill_all(process_ids: Sequence[int]) -> None:
    for process_id in process_ids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process_id, signal.SIGKILL)
