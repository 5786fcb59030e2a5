"""Start the watcher, a process that outlives pytest and completes its report.

While pytest lives the watcher looks for stalls. For that the record is told once where
the user reads, which signal ends the session, and when a debugger waits for the user.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_failure_taxonomy.survive import layout
from pytest_failure_taxonomy.survive.folder import record_folder
from pytest_failure_taxonomy.survive.writer import Record, handle_free_signal
from pytest_failure_taxonomy.system.files import READ, KeptDescriptor, move_high
from pytest_failure_taxonomy.system.process import command_of

if TYPE_CHECKING:
    from pytest_failure_taxonomy.survive.facts import Observed


HAS_OBSERVERS: Final = hasattr(os, "pidfd_open")
"""Whether this system lets one process look at another (Linux)."""
_SHELL: Final = "/bin/sh"
_SCRIPT: Final = Path(__file__).with_name("watcher.py")
_STARTS: Final = frozenset({"console_main", "_console_main"})
"""The functions of pytest that are a whole program."""
_CALLED: Final = frozenset({"main", "_main"})
"""Those that these call, and other programs, too."""
_STDERR: Final = 2

_watched: set[int] = set()
"""Ids of processes that have a watched run. A pytest that runs inside of a test of such
a process ends before the process, and must not be watched."""

_lingering: dict[int, tuple[int, str]] = {}
"""By process id: the watcher of a run that has ended while its process goes on, and the
run's id. The next run in the same process ends that watcher: the exit status is no
longer the first run's."""


class Watch:
    """The watcher of one run."""

    def __init__(self) -> None:
        self.watcher_id: int | None = None
        """The process id of the watcher, once it is started."""
        self._process_id = os.getpid()
        self._run_id = ""
        self._channel: KeptDescriptor | None = None
        """One end of a pair of sockets, of which the watcher holds the other."""

    def start(
        self,
        report: Path,
        run_id: str,
        record: Sequence[Path],
        libraries: Sequence[str],
        *,
        stall_seconds: float,
        ends_stalled: bool,
        completes: bool,
    ) -> str | None:
        """Start a watcher of this process; return why that is not possible, or `None`.

        A shell starts the watcher in the background and ends, so that it is nobody's
        child. A test that waits for its children, or lists them, must not find it.

        Args:
            report: the path of the run's report.
            run_id: the run.
            record: the files of its record. The watcher inherits their descriptors: a
                short run may have removed the files before the watcher could open them.
            libraries: what it needs to import besides this package.
            stall_seconds: after how long without progress something is stalled; 0 for
                never.
            ends_stalled: end what is.
            completes: complete the report at the end.
        """
        if not sys.executable:
            return "Python does not know its own program (sys.executable is empty)"
        process_id = os.getpid()
        numbers = (
            f"seconds={stall_seconds:g};ends={ends_stalled:d};completes={completes:d}"
        )
        folder = record_folder(
            report, run_id
        )  # the last of them: it may contain anything
        settings = f"{numbers};program={is_program():d};folder={folder}"
        descriptors: list[int] = []
        try:
            # Moved: if pytest was started with standard input, output or error closed,
            # a file that it opens may get the number, and would be lost in the watcher.
            descriptors.append(move_high(os.pidfd_open(process_id)))
            # One by one, so that `finally` closes those that are open.
            for path in record:
                descriptor = move_high(os.open(path, READ))
                descriptors.append(descriptor)
            # The module `socket` takes 4 ms to import, and adds nothing here.
            import _socket

            ours, its = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
            self._channel = KeptDescriptor(ours.detach())
            descriptors.append(move_high(its.detach()))
            for descriptor in descriptors:
                os.set_inheritable(descriptor, True)  # noqa: FBT003 - positional only
            former = _lingering.pop(process_id, None)
            with suppress(
                OSError
            ):  # it may have ended, and another process have its id by now
                if former is not None and former[1] in command_of(former[0]):
                    os.kill(former[0], signal.SIGKILL)
            self.watcher_id = _spawn_orphan(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    str(_SCRIPT),
                    ",".join(map(str, descriptors)),
                    str(process_id),
                    str(_SCRIPT.parents[2]),
                    str(report),
                    run_id,
                    settings,
                    *_folders_of(libraries),
                ]
            )
        except OSError as error:
            self.leave_to_parent()
            reason = error.strerror or str(error)
            if error.filename:
                return f"{error.filename}: {reason}"
            return reason
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self._process_id = process_id
        self._run_id = run_id
        _watched.add(process_id)
        return None

    def is_lost(self) -> bool:
        """Tell whether the watcher was started and has ended."""
        # Another process may have its id by now.
        return self.watcher_id is not None and self._run_id not in command_of(
            self.watcher_id
        )

    def hand_over(self, descriptors: Mapping[str, int]) -> bool:
        """Give the watcher descriptors to use when this process has died.

        They wait in a socket, so it does not matter how soon this process dies.

        Args:
            descriptors: by one letter, as in `record.layout`.
        """
        import _socket

        channel = self._channel
        if (
            self.watcher_id is None
            or not descriptors
            or channel is None
            or not channel.is_open()
        ):
            return False
        content = array("i", descriptors.values()).tobytes()
        sender = _socket.socket(fileno=channel.descriptor)
        try:
            sender.sendmsg(
                ["".join(descriptors).encode()],
                [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, content)],
                _socket.MSG_DONTWAIT,
            )
        except OSError:
            return False
        finally:
            sender.detach()
        return True

    def leave_to_parent(self) -> None:
        """Let go of the watcher in a forked child."""
        if self._channel is not None:
            self._channel.close()

    def stop(self) -> None:
        """Let a later run here have its own watcher; this one waits for the process.

        It lets go of what it was given.
        """
        self.leave_to_parent()
        if self.watcher_id is not None:
            _watched.discard(self._process_id)
            _lingering[self._process_id] = self.watcher_id, self._run_id


def is_observable() -> bool:
    """Tell whether another process can look at a run in this one while it lives."""
    return HAS_OBSERVERS and os.getpid() not in _watched


def is_program() -> bool:
    """Tell whether this process runs pytest alone, rather than another program.

    Then the process is to end soon after the session.
    """
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - the only way to callers
    is_called = False
    while frame is not None:
        name = frame.f_code.co_name
        module = frame.f_globals.get("__name__")
        if module == "_pytest.config":
            if name in _STARTS:
                return True
            is_called = is_called or name in _CALLED
        elif is_called:
            return False
        frame = frame.f_back
    return False


def find_terminal(config: pytest.Config) -> tuple[int, bool] | None:
    """Return a descriptor that the user reads, and whether it shows colours.

    pytest's capture keeps a copy of the real standard error. With `-qq` nothing is to
    be printed, and the answer is `None`.
    """
    if config.get_verbosity() < -1:
        return None
    capture = config.pluginmanager.get_plugin("capturemanager")
    stderr = getattr(getattr(capture, "_global_capturing", None), "err", None)
    descriptor = getattr(stderr, "targetfd_save", None)
    if not isinstance(descriptor, int):
        descriptor = _STDERR
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    is_coloured = False
    if reporter is not None:
        is_coloured = bool(reporter._tw.hasmarkup)  # noqa: SLF001 - the only way
    return descriptor, is_coloured and not os.environ.get("NO_COLOR") and os.isatty(
        descriptor
    )


class StalledRun:
    """A plugin that tells the record what somebody who looks at the run must know."""

    def __init__(self, config: pytest.Config, record: Record, *, ends: bool) -> None:
        """Begin, and be ready to end the session if `ends`."""
        self._config = config
        self._record = record
        self._process_id = os.getpid()
        self.ended: Observed | None = None
        """What was stalled when the watcher ended the session; `None` if it did not."""
        with suppress(OSError, ValueError, AttributeError):
            terminal = find_terminal(config)
            if terminal is not None:
                number, is_coloured = terminal
                flags = layout.IS_SHOWN | (layout.IS_COLOURED if is_coloured else 0)
                if os.environ.get("CI") or config.get_verbosity() > 0:
                    flags |= layout.TELLS_WORK
                record.set_terminal(os.fstat(number), number, flags)
        if ends and threading.current_thread() is threading.main_thread():
            # The signal by which the watcher ends a stalled session.
            place = layout.END_SIGNAL_AT
            handle_free_signal(record, layout.END_SIGNAL, place, self._end)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """End with 1 after the watcher's end, whatever a test has made of it."""
        if self.ended is not None:
            session.exitstatus = 1

    def pytest_enter_pdb(self) -> None:
        """Record that a debugger waits for the user."""
        with suppress(Exception):  # the debugger is the user's
            self._record.set_byte(layout.DEBUGGER_AT, 1)

    def pytest_leave_pdb(self) -> None:
        """Record that it no longer does."""
        with suppress(Exception):
            self._record.set_byte(layout.DEBUGGER_AT, 0)

    def _end(self, number: int, _: FrameType | None) -> None:
        from pytest_failure_taxonomy.survive.facts import Observed
        from pytest_failure_taxonomy.survive.observed import read_observed

        if os.getpid() != self._process_id:
            return
        # Read now: later, a test that goes on is no longer stalled.
        observed = Observed()
        with suppress(OSError), self._record.opened() as folder:
            observed = read_observed(folder)
        if not any(
            stall.stall.is_ended for stall in observed.stalls
        ):  # it is not the watcher's
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.ended = observed
        session: Any = self._config.pluginmanager.get_plugin("session")
        if (
            session is not None
        ):  # a test may catch the exception, and must be the last one then
            session.shouldfail = layout.END_MESSAGE
        raise pytest.exit.Exception(layout.END_MESSAGE, 1)


def _spawn_orphan(command: list[str]) -> int:
    """Start a command that is no child of this process; return its process id."""
    script = '"$@" >/dev/null & echo $!'
    try:
        shell = subprocess.run(  # noqa: S603 - this Python, with a script of ours
            [_SHELL, "-c", script, "sh", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
            close_fds=False,
            # In a session of its own from the start: a kill of pytest's group must not
            # reach it.
            start_new_session=True,
        )
    except OSError as error:
        raise OSError(error.errno, error.strerror, _SHELL) from error
    if not shell.stdout.strip().isdigit():
        raise OSError(None, f"{_SHELL} could not start a process")
    return int(shell.stdout)


def _folders_of(libraries: Sequence[str]) -> list[str]:
    """Return the folders of the libraries, and of the one that searches patterns.

    The watcher starts without `site`, and an editable install is not beside these
    libraries.
    """
    paths = [getattr(sys.modules.get("regex"), "__file__", None)]
    for library in libraries:
        with suppress(
            ImportError, ValueError
        ):  # a test may have put something else in its place
            spec = find_spec(library)
            paths.append(None if spec is None else spec.origin)
    return list(dict.fromkeys([str(Path(path).parents[1]) for path in paths if path]))
