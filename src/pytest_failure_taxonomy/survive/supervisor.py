"""Run a command as its parent, to see exactly how it ends and what ended it.

There are two ways to wait for the command. With `sigtimedwait` (Linux) signals arrive
one by one with their senders. Elsewhere `subprocess` waits, and signal handlers forward
signals.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final

from pytest_failure_taxonomy.errors import SettingsError
from pytest_failure_taxonomy.survive.output_relay import OutputRelay
from pytest_failure_taxonomy.system.files import closing_descriptor
from pytest_failure_taxonomy.system.process import adopt_orphans, descendants, name_of
from pytest_failure_taxonomy.taxonomy.values import value

GRACE_SECONDS: Final = 5.0
"""How long a command may take to end after the SIGTERM at its time limit."""
QUIET_SECONDS: Final = 10.0
"""How long signals are ignored after the command's end, so that the report gets
written."""

TELL_SECONDS: Final = 30.0
"""How often is said how far a command is."""
MAX_WAIT_SECONDS: Final = 3_600.0
"""The longest single wait; some systems can't represent much longer ones."""
_POLL_SECONDS: Final = 0.02
_REAP_SECONDS: Final = 1.0


def _signals(*names: str) -> tuple[signal.Signals, ...]:
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))


_FORWARDED: Final = _signals(
    "SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGBREAK"
)
_ENDING: Final = _signals("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGBREAK")
_BY_TERMINAL: Final = _signals("SIGINT", "SIGQUIT")
"""A terminal sends these to all processes in the foreground, so also to the command."""
_IGNORED_BY_PYTHON: Final = _signals("SIGPIPE", "SIGXFSZ")
"""Python ignores these for itself; the command must not inherit that."""
_CHILD_ENDED: Final = _signals("SIGCHLD")
_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)
"""On Windows each signal that is sent to a process ends it."""
_RESIZED: Final = _signals("SIGWINCH")
_WAITED_FOR: Final = frozenset({*_CHILD_ENDED, *_FORWARDED, *_RESIZED})


@value
class CommandEnd:
    """How a supervised command ended."""

    returncode: int
    """In the sense of `subprocess`: negative for a death by signal."""
    ended_ns: int
    """On the monotonic clock."""
    limit_reached: bool
    """It was ended at its time limit."""
    sender: str | None
    """The name of the process whose signal was forwarded last."""
    output: tuple[bytes, ...] = ()
    """What it has printed, as far as that was kept: the beginning and the end."""
    interrupted: bool = False
    """Ctrl+C came, or a SIGINT from a process; the command may have ended by itself
    then."""
    fault: str | None = None
    """An error of the supervisor, which has ended the command because of it."""


class Supervisor:
    """The parent of one command.

    The command stays in the foreground process group, so that a debugger, Ctrl+C and
    Ctrl+Z work. It gets the signals of the terminal directly. Signals that other
    processes send to the supervisor are forwarded.
    """

    def __init__(
        self,
        command: Sequence[str],
        timeout_seconds: float | None,
        *,
        keeps_output: bool,
        output: int | None = None,
        tell: Callable[[], object] | None = None,
    ) -> None:
        """Prepare to run a command.

        Args:
            command: its words.
            timeout_seconds: how long it may take.
            keeps_output: keep what it writes to pipes and terminals, on Linux.
            output: the descriptor that it writes to instead of this process's.
            tell: is called each `TELL_SECONDS` while the command runs.
        """
        self._command = list(command)
        self._timeout_seconds = timeout_seconds
        self._relay = OutputRelay() if keeps_output and _hands_out_signals() else None
        self._child = (
            _ChildBySignals(self._relay) if _hands_out_signals() else _ChildByHandlers()
        )
        self._child.output = output
        self._deadline: float | None = None
        self._terminations = 0
        self._tell = tell
        self._tell_at = math.inf if tell is None else time.monotonic() + TELL_SECONDS

    def run(self, environment: dict[str, str]) -> CommandEnd:
        """Run the command to its end.

        Raises:
            SettingsError: if it can't be started.
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
                raise SettingsError(
                    _explain_failed_start(self._command[0], error)
                ) from error
            try:
                if self._relay is not None:
                    self._relay.start()
                returncode = self._wait()
            except BaseException as error:  # noqa: BLE001 - the command must end, too
                fault = f"{type(error).__name__}: {error}"
                returncode = _end(child)
            ended_ns = time.monotonic_ns()
            if self._terminations or fault:
                left = descendants(os.getpid())
                _kill_all(left)
                _await_ends(left)
        finally:
            if self._relay is not None:
                self._relay.finish()
            # A signal that comes now must not prevent the report.
            _ignore_signals()
            child.restore()
        return CommandEnd(
            returncode=returncode,
            ended_ns=ended_ns,
            limit_reached=self._terminations > 0,
            sender="failure-taxonomy" if fault else child.sender,
            interrupted=child.interrupted,
            output=() if self._relay is None else self._relay.output,
            fault=fault,
        )

    def _wait(self) -> int:
        while True:
            left = min(self._deadline or math.inf, self._tell_at) - time.monotonic()
            returncode = self._child.wait(min(max(left, 0.0), MAX_WAIT_SECONDS))
            if returncode is not None:
                return returncode
            if self._tell is not None and time.monotonic() >= self._tell_at:
                self._tell_at += TELL_SECONDS
                with suppress(Exception):  # an error would end the command
                    self._tell()
            if self._deadline is None or time.monotonic() < self._deadline:
                continue
            self._terminations += 1
            if self._terminations == 1:
                self._deadline = time.monotonic() + GRACE_SECONDS
                self._child.send(signal.SIGTERM)
            else:  # it has not ended: with all its descendants, then
                self._deadline = None
                _kill_all(descendants(os.getpid()))
                self._child.send(_KILL)


class StoppedError(Exception):
    """A signal came that ends this process, while no command ran."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def stop_by_signals() -> Iterator[None]:
    """Have a signal that would end this process raise `StoppedError`."""

    def stop(number: int, _: FrameType | None) -> None:
        raise StoppedError(number)

    handlers = {number: signal.getsignal(number) for number in _ENDING}
    numbers = [number for number in _ENDING if handlers[number] != signal.SIG_IGN]
    for number in numbers:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, handlers[number])


def _hands_out_signals() -> bool:
    needed = (
        (signal, "sigtimedwait"),
        (signal, "pthread_sigmask"),
        (os, "posix_spawnp"),
    )
    return all(hasattr(module, name) for module, name in needed)


class _ChildBySignals:
    """The command's process, where signals are blocked and received one by one."""

    def __init__(self, relay: OutputRelay | None = None) -> None:
        self._relay = relay
        self.output: int | None = None
        """The descriptor that it writes to instead of this process's."""
        self.sender: str | None = None
        """The name of the process whose signal was forwarded last."""
        self.interrupted = False
        """SIGINT came, from a terminal or a process."""
        self._process_id = 0
        self._returncode: int | None = None
        self._mask: set[int | signal.Signals] = set()

    def prepare(self) -> None:
        """Begin to receive the signals of this process."""
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
        # If SIGCHLD is ignored, the system discards the status of the command.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def restore(self) -> None:
        """Undo `prepare`."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def start(self, command: list[str], environment: dict[str, str]) -> None:
        actions = [] if self._relay is None else self._relay.file_actions
        if self.output is not None:
            actions += [(os.POSIX_SPAWN_DUP2, self.output, name) for name in (1, 2)]
        self._process_id = os.posix_spawnp(
            command[0],
            command,
            environment,
            file_actions=actions,
            setsigmask=self._mask,
            setsigdef=_IGNORED_BY_PYTHON,
        )

    def wait(self, seconds: float) -> int | None:
        """Wait for the command's end or a signal; return its code if it has ended."""
        received = signal.sigtimedwait(_WAITED_FOR, seconds)
        if received is None:
            return None
        if received.si_signo == signal.SIGCHLD:
            return self.poll()
        if received.si_signo in _RESIZED:
            if self._relay is not None and self._relay.resize():
                self.send(received.si_signo)  # it may have asked for the size too early
            return None
        self.interrupted = self.interrupted or received.si_signo == signal.SIGINT
        if (
            received.si_code <= 0
        ):  # sent by a process; the command gets those of the terminal directly
            self.sender = name_of(received.si_pid)
            self.send(received.si_signo)
        return None

    def poll(self) -> int | None:
        """Reap the command and adopted orphans; return the command's code, if any."""
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

    def send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._process_id, number)


class _ChildByHandlers:
    """The same by `subprocess`: handlers forward signals of unknown senders."""

    def __init__(self) -> None:
        self.output: int | None = None
        self.sender: str | None = None
        self.interrupted = False
        self._process: Any = None
        """That of `subprocess`, once it has been started."""
        self._early: list[int] = []

    def prepare(self) -> None:
        import subprocess  # noqa: F401 - imported before the handlers are set

        for number in _CHILD_ENDED:
            signal.signal(number, signal.SIG_DFL)
        for number in _FORWARDED:
            if (
                signal.getsignal(number) != signal.SIG_IGN
            ):  # `nohup` ignores it for the command
                signal.signal(number, self._forward)

    def restore(self) -> None:
        """Do nothing: `_ignore_signals` has replaced the handlers."""

    def start(self, command: list[str], environment: dict[str, str]) -> None:
        import subprocess

        # As from a shell, with all descriptors that this process has inherited.
        self._process = subprocess.Popen(  # noqa: S603 - the user's own command
            command,
            env=environment,
            close_fds=False,
            stdout=self.output,
            stderr=self.output,
        )

    def wait(self, seconds: float) -> int | None:
        import subprocess

        while self._early:
            self._forward(self._early.pop(0), None)
        with suppress(subprocess.TimeoutExpired):
            return int(self._process.wait(seconds))
        return None

    def poll(self) -> int | None:
        returncode: int | None = self._process.poll()
        return returncode

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def _forward(self, number: int, _: FrameType | None) -> None:
        self.interrupted = self.interrupted or number == signal.SIGINT
        if self._process is None:
            self._early.append(number)
        elif os.name != "nt" and not (number in _BY_TERMINAL and _is_in_foreground()):
            self._process.send_signal(number)


def _is_in_foreground() -> bool:
    """Tell whether the terminal sends its signals to this process group."""
    try:
        with closing_descriptor(
            os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
        ) as terminal:
            return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False


def _end(child: _ChildBySignals | _ChildByHandlers) -> int:
    """End a command after an error of ours: by SIGTERM first, then by SIGKILL."""
    for number, seconds in ((signal.SIGTERM, GRACE_SECONDS), (_KILL, float("inf"))):
        with suppress(OSError):
            child.send(number)
        deadline = time.monotonic() + seconds
        while (returncode := child.poll()) is None and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        if returncode is not None:
            return returncode
    raise AssertionError("a loop without end has ended")


def _ignore_signals() -> None:
    """Ignore signals for a while; after that they end this process as usual."""
    until = time.monotonic() + QUIET_SECONDS

    def ignore(number: int, _: FrameType | None) -> None:
        if time.monotonic() >= until:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    for number in _FORWARDED:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, ignore)


def _explain_failed_start(name: str, error: OSError | ValueError) -> str:
    right = "give a program that can, as in: run -- pytest -x"
    if not name:
        return f"run: the command's name is empty; {right}"
    if isinstance(error, ValueError):
        return f"run: {name!r} can't be started: {error}; {right}"
    why = error.strerror
    if (
        isinstance(error, FileNotFoundError)
        and os.path.lexists(name)
        and os.path.dirname(name)
    ):
        why = "the interpreter that its first line names is not there"
    elif os.path.dirname(name) and os.path.isdir(name):
        why = "it is a directory"
    return f"run: {name} can't be started: {why}; {right}"


def end_like(returncode: int) -> int:
    """End this process by the signal that ended the command, or return its exit code.

    Process 1 of a container can't end itself by a signal; it returns the code that a
    shell shows.
    """
    if (
        returncode > 0x7FFF_FFFF
    ):  # Windows has unsigned codes, and sys.exit() takes signed ones
        return returncode - (1 << 32)
    if returncode >= 0:
        return returncode
    number = -returncode
    if os.getpid() != 1:
        with suppress(ImportError, OSError, ValueError):
            import resource

            resource.setrlimit(
                resource.RLIMIT_CORE, (0, 0)
            )  # the command has dumped its own core
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
        with suppress(OSError):
            os.kill(os.getpid(), number)
    return 128 + number


def _await_ends(process_ids: Sequence[int]) -> None:
    """Wait up to a second until killed processes have ended: one may write a report.

    This process has adopted those whose parent has died, and has to reap them.
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
            os.kill(process_id, _KILL)
