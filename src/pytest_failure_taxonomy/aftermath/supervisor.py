"""Run a command as its parent: see exactly how it ends, and who or what ended it.

There are two ways to wait for it. Where the system can hand out signals one by one (Linux), they
come with their senders, and nothing can be missed. Elsewhere `subprocess` waits, and handlers pass
signals on.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Final, Protocol

from pytest_failure_taxonomy.errors import SettingsError
from pytest_failure_taxonomy.system.process import adopt_orphans, descendants, name_of
from pytest_failure_taxonomy.taxonomy.values import value

if TYPE_CHECKING:
    import subprocess

GRACE_SECONDS: Final = 5.0
"""How long a command that has used up its limit may take to end by itself."""
QUIET_SECONDS: Final = 10.0
"""How long after the command's end signals can't keep its report from being written."""

MAX_WAIT_SECONDS: Final = 3_600.0
"""What is waited for at once: longer times don't fit into what some systems count them in."""
_POLL_SECONDS: Final = 0.02
_REAP_SECONDS: Final = 1.0


def _signals(*names: str) -> tuple[signal.Signals, ...]:
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))


_FORWARDED: Final = _signals(
    "SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGBREAK"
)
_BY_TERMINAL: Final = _signals("SIGINT", "SIGQUIT")
"""What a terminal sends to all processes in its foreground, so to the command as well."""
_IGNORED_BY_PYTHON: Final = _signals("SIGPIPE", "SIGXFSZ")
"""What Python ignores for itself; a command has to find it as a shell would give it."""
_CHILD_ENDED: Final = _signals("SIGCHLD")
_WAITED_FOR: Final = frozenset({*_CHILD_ENDED, *_FORWARDED})


@value
class CommandEnd:
    """How a supervised command ended."""

    returncode: int
    """As `subprocess` has it: negative for a death by signal."""
    ended_ns: int
    """On the monotonic clock."""
    limit_reached: bool
    """It was ended because its time was up."""
    sender: str | None
    """Name of the process whose signal was passed on to it last."""
    fault: str | None = None
    """What went wrong in the supervisor, which has ended the command for it."""


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
        self._child: _Child = _ChildBySignals() if _hands_out_signals() else _ChildByHandlers()
        self._deadline: float | None = None
        self._terminations = 0

    def run(self, environment: dict[str, str]) -> CommandEnd:
        """Run the command to its end.

        Raises:
            SettingsError: it can't be started.
        """
        fault = None
        child = self._child
        child.prepare()
        try:
            if self._timeout_seconds is not None:
                adopt_orphans()
                self._deadline = time.monotonic() + self._timeout_seconds
            try:
                child.start(self._command, environment)
            except (OSError, ValueError) as error:
                raise SettingsError(_why_not_started(self._command[0], error)) from error
            try:
                returncode = self._wait()
            except BaseException as error:  # noqa: BLE001 - no command must be left without its parent
                fault = f"{type(error).__name__}: {error}"
                returncode = _end(child)
            ended_ns = time.monotonic_ns()
            if self._terminations or fault:
                left = descendants(os.getpid())
                _kill_all(left)
                _see_end_of(left)
        finally:
            # What came too late for the command, or comes now, must not cost it its report.
            _keep_quiet()
            child.put_back()
        return CommandEnd(
            returncode=returncode,
            ended_ns=ended_ns,
            limit_reached=self._terminations > 0,
            sender="failure-taxonomy" if fault else child.sender,
            fault=fault,
        )

    def _wait(self) -> int:
        while True:
            left = None if self._deadline is None else self._deadline - time.monotonic()
            returncode = self._child.wait(
                None if left is None else min(max(left, 0.0), MAX_WAIT_SECONDS)
            )
            if returncode is not None:
                return returncode
            if self._deadline is not None and time.monotonic() >= self._deadline:
                self._terminate()

    def _terminate(self) -> None:
        """Ask the command to end; the second time, end it with all that it has started."""
        self._terminations += 1
        if self._terminations == 1:
            self._deadline = time.monotonic() + GRACE_SECONDS
            self._child.terminate()
        else:
            self._deadline = None
            _kill_all(descendants(os.getpid()))
            self._child.kill()


class _Child(Protocol):
    """The command's process, and a way to wait for it."""

    sender: str | None
    """Name of the process whose signal was passed on last; `None` where it can't be known."""

    def prepare(self) -> None:
        """Take charge of this process's signals."""

    def put_back(self) -> None:
        """Give up that charge."""

    def start(self, command: list[str], environment: dict[str, str]) -> None:
        """Start the command."""

    def wait(self, seconds: float | None) -> int | None:
        """Wait for its end, perhaps for less; return how it ended, if it has."""

    def poll(self) -> int | None:
        """Return how it ended, if it has, by the plainest means."""

    def terminate(self) -> None:
        """Ask it to end."""

    def kill(self) -> None:
        """End it."""


def _hands_out_signals() -> bool:
    needed = ((signal, "sigtimedwait"), (signal, "pthread_sigmask"), (os, "posix_spawnp"))
    return all(hasattr(module, name) for module, name in needed)


class _ChildBySignals:
    """Block all signals and take them one by one, with who has sent them."""

    def __init__(self) -> None:
        self.sender: str | None = None
        self._process_id = 0
        self._returncode: int | None = None
        self._mask: set[int | signal.Signals] = set()

    def prepare(self) -> None:
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
        # Where a caller had it ignored, the system would take the command's status for itself.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def put_back(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def start(self, command: list[str], environment: dict[str, str]) -> None:
        self._process_id = os.posix_spawnp(
            command[0],
            command,
            environment,
            setsigmask=self._mask,
            setsigdef=_IGNORED_BY_PYTHON,
        )

    def wait(self, seconds: float | None) -> int | None:
        seen = signal.sigtimedwait(_WAITED_FOR, MAX_WAIT_SECONDS if seconds is None else seconds)
        if seen is None:
            return None
        if seen.si_signo == signal.SIGCHLD:
            return self.poll()
        if seen.si_code <= 0:  # sent by a process; the terminal's reach the command anyway
            self.sender = name_of(seen.si_pid)
            self._send(seen.si_signo)
        return None

    def poll(self) -> int | None:
        """Reap the command, and any orphan that came to us (as process 1)."""
        try:
            while True:
                process_id, status = os.waitpid(-1, os.WNOHANG)
                if process_id == 0:
                    break
                if process_id == self._process_id:
                    self._returncode = os.waitstatus_to_exitcode(status)
        except ChildProcessError:  # none is left
            if self._returncode is None:
                raise
        return self._returncode

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._process_id, number)


class _ChildByHandlers:
    """Wait by `subprocess`, and pass signals on from handlers. Nobody says who has sent them."""

    def __init__(self) -> None:
        self.sender: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        self._is_windows = os.name == "nt"

    def prepare(self) -> None:
        import subprocess  # noqa: F401 - here, so that no signal comes in the middle of its import

        for number in _CHILD_ENDED:
            signal.signal(number, signal.SIG_DFL)
        for number in _FORWARDED:
            if signal.getsignal(number) != signal.SIG_IGN:  # as `nohup` wants it for the command
                signal.signal(number, self._pass_on)

    def put_back(self) -> None:
        """Do nothing: `_keep_quiet` has put handlers of its own in the place of these."""

    def start(self, command: list[str], environment: dict[str, str]) -> None:
        import subprocess

        # As a shell would start it: with every descriptor that this process has inherited.
        self._process = subprocess.Popen(command, env=environment, close_fds=False)  # noqa: S603 - the user's own command

    def wait(self, seconds: float | None) -> int | None:
        import subprocess

        while self._early:
            self._pass_on(self._early.pop(0), None)
        with suppress(subprocess.TimeoutExpired):
            return self._started.wait(seconds)
        return None

    def poll(self) -> int | None:
        return self._started.poll()

    def terminate(self) -> None:
        self._started.terminate()

    def kill(self) -> None:
        self._started.kill()

    @property
    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ValueError("the command has not been started")
        return self._process

    def _pass_on(self, number: int, _: FrameType | None) -> None:
        if self._process is None:
            self._early.append(number)
        elif not self._is_windows and not (number in _BY_TERMINAL and _is_in_foreground()):
            self._process.send_signal(number)


def _is_in_foreground() -> bool:
    """Tell whether what the terminal sends comes to our whole process group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _end(child: _Child) -> int:
    """End a command that nobody can supervise any more, gently first, and reap it."""
    for end, seconds in ((child.terminate, GRACE_SECONDS), (child.kill, float("inf"))):
        with suppress(OSError):
            end()
        deadline = time.monotonic() + seconds
        while (returncode := child.poll()) is None and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        if returncode is not None:
            return returncode
    raise AssertionError("a loop without end has ended")


def _keep_quiet() -> None:
    """Take no notice of signals for a while; after that they end this process as ever."""
    until = time.monotonic() + QUIET_SECONDS

    def ignore(number: int, _: FrameType | None) -> None:
        if time.monotonic() >= until:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    for number in _FORWARDED:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, ignore)


def _why_not_started(name: str, error: OSError | ValueError) -> str:
    right = "give a program that can, as in: run -- pytest -x"
    if not name:
        return f"run: the command's name is empty; {right}"
    if isinstance(error, ValueError):
        return f"run: {name!r} can't be started: {error}; {right}"
    why = error.strerror
    if isinstance(error, FileNotFoundError) and os.path.lexists(name) and os.path.dirname(name):
        why = "the interpreter that its first line names is not there"
    elif os.path.dirname(name) and os.path.isdir(name):
        why = "it is a directory"
    return f"run: {name} can't be started: {why}; {right}"


def end_like(returncode: int) -> int:
    """End this process by the signal that ended the command, or return its exit code.

    Process 1 of a container can't end itself by a signal; it returns what a shell would show.
    """
    if returncode > 0x7FFF_FFFF:  # Windows counts without a sign, and Python's exit with one
        return returncode - (1 << 32)
    if returncode >= 0:
        return returncode
    number = -returncode
    if os.getpid() != 1:
        with suppress(ImportError, OSError, ValueError):
            import resource

            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command's own core is enough
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
        with suppress(OSError):
            os.kill(os.getpid(), number)
    return 128 + number


def _see_end_of(process_ids: Sequence[int]) -> None:
    """Wait until killed processes are gone, for a second at most: a report may be one of theirs.

    Those whose parent has died are ours to reap; others are so when their parent is gone.
    """
    deadline = time.monotonic() + _REAP_SECONDS
    for process_id in process_ids:
        while time.monotonic() < deadline:
            try:
                if os.waitpid(process_id, os.WNOHANG)[0]:
                    break
            except ChildProcessError:
                try:
                    os.kill(process_id, 0)
                except OSError:
                    break
            time.sleep(_POLL_SECONDS / 4)


def _kill_all(process_ids: Sequence[int]) -> None:
    for process_id in process_ids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process_id, signal.SIGKILL)
