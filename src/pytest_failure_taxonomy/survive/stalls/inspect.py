"""Look closely at a stall, and say so in the record, the report, the terminal.

`detect` has found it. The work is done in a process of its own, which ends afterwards,
so that the watcher stays small. Whatever can't be read or written is left out: the
user's run goes on.
"""

from __future__ import annotations

import os
import shlex
import signal
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.redaction.secrets import Secrets
from pytest_failure_taxonomy.report.build import MAX_TRACEBACK, with_stalls_at_end
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.report.write import write_report
from pytest_failure_taxonomy.survive import layout, observed
from pytest_failure_taxonomy.survive.complete import (
    LOCK_SECONDS,
    read_report,
    write_running,
)
from pytest_failure_taxonomy.survive.facts import limits_of_test, stalled_activities
from pytest_failure_taxonomy.survive.folder import record_folder, worker_of
from pytest_failure_taxonomy.survive.lock import ReportLock, hold_record
from pytest_failure_taxonomy.survive.reader import (
    parse_record,
    parse_worker,
    read_worker,
)
from pytest_failure_taxonomy.survive.stalls import stacks as stack_reading
from pytest_failure_taxonomy.survive.stalls.detect import (
    POLLING_LIMITS,
    Unit,
    state_of,
    times_of_limit,
)
from pytest_failure_taxonomy.survive.stalls.stacks import Stacks
from pytest_failure_taxonomy.system import process
from pytest_failure_taxonomy.system.files import (
    closing_descriptor,
    identity_of,
    open_folder,
)
from pytest_failure_taxonomy.system.process import fields_of, read, start_of
from pytest_failure_taxonomy.taxonomy.evidence import SeenStall, Stall, StallState
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.taxonomy.words import find_left_threads, words_of_left
from pytest_failure_taxonomy.text import safe_text

if TYPE_CHECKING:
    from pytest_failure_taxonomy.survive.facts import Observed
    from pytest_failure_taxonomy.survive.watcher import Stalls

GRACE_SECONDS: Final = 5.0
"""How long a stalled pytest may take to end its session before it is killed."""

_POLL_SECONDS: Final = 0.02
MAX_NOTES: Final = 3
_DEBUGGERS: Final = (
    "bdb.py",
    "pdb.py",
    "pydevd.py",
    "pydevd_bundle",
    "debugpy",
    "pudb",
)
"""Files and folders of debuggers, at which a thread waits for the user."""

MAX_LEFT_THREADS: Final = 2
"""Threads of earlier tests that are named."""
MAX_CHILDREN: Final = 20
"""Child processes that are named."""
MAX_COMMAND: Final = 200
"""Characters kept of a command line."""

_TERMINALS: Final = ("/dev/pts/", "/dev/tty", "/dev/console")
_READS: Final = {"x86_64": (0, (23, 270, 7, 271)), "aarch64": (63, (72, 73))}
"""By machine: the numbers of the system calls `read`, and `select`, `pselect6`, `poll`,
`ppoll`."""
_PIDFD_GETFD: Final = 438
"""The number of the system call on all machines (Linux 5.6)."""
_STDERR: Final = 2
_YELLOW, _PLAIN = "\x1b[33m", "\x1b[0m"


def _key(stall: SeenStall) -> tuple[object, ...]:
    return stall.what, stall.worker, stall.nodeid, stall.phase


def _mark_ended(stall: SeenStall) -> SeenStall:
    return replace(stall, stall=replace(stall.stall, is_ended=True))


def _worker_of(unit: Unit) -> str | None:
    if unit.name:
        return worker_of(unit.name)
    return None


def _is_in_debugger(stacks: Stacks) -> bool:
    for thread in stacks.threads:
        for frame in thread.frames:
            if any(f"/{name}" in frame.path for name in _DEBUGGERS):
                return True
    return False


class StallInspection:
    """One close look at a run."""

    def __init__(self, stalls: Stalls, contents: Sequence[bytes], now_ns: int) -> None:
        """Read what was recorded.

        Args:
            stalls: those of the run so far.
            contents: of the record's two files.
            now_ns: when it was seen that something makes no progress, on the monotonic
                clock.
        """
        self._state, events = contents
        run = parse_record(self._state, events, stalls.run_id, "the record")
        self._observations = stalls.observations
        size = os.fstat(self._observations).st_size
        before = os.pread(self._observations, size, 0)
        self._before = observed.parse_observed(before)
        self._notes: list[str] = []
        self._now_ns = now_ns
        self._settings = stalls.settings
        self._limit_seconds = float(self._settings["seconds"])
        self._report = Path(stalls.report)
        self._run = run
        self._folder = record_folder(self._report, stalls.run_id)
        self._rootdir = Path(run.header.context.rootdir)
        self._secrets = Secrets(run.header.redact)
        self._main = run.header.process.pid
        self._started = run.header.process.start_ticks or 0

    def look(self, units: Sequence[Unit], *, keeps: bool) -> None:
        """Look at what makes no progress, and tell of it.

        Args:
            units: the processes that made no progress for the whole limit.
            keeps: what was observed before stays so: it may not have ended, but have
                been interrupted.
        """
        seen_stalls = []
        for unit in units:
            subject = self._subject_of(unit)
            stall = None
            if subject is not None:
                stall = self._stall(unit, subject)
            if stall is not None:
                seen_stalls.append(stall)
        if not self._is_alive():  # what was seen last is what it died of
            raise ProcessLookupError(self._main)
        stalls = seen_stalls
        if keeps or self._run.list_facts("interruption"):
            before = self._before.stalls
            recorded = set(map(_key, before))
            stalls = [*before]
            stalls += [stall for stall in seen_stalls if _key(stall) not in recorded]
        self._keep(stalls)
        stalls = [self._tell(stall) for stall in stalls]
        self._keep(stalls, writes_report=False)
        if self._settings.get("ends") == "1":
            self._end(stalls, seen_stalls, units)

    def _keep(self, stalls: Sequence[SeenStall], *, writes_report: bool = True) -> None:
        """Write an observation into the record, and the running report anew."""
        reasons = dict.fromkeys(self._notes)
        notes = [f"no stack of the stalled process: {reason}" for reason in reasons]
        observation = replace(
            self._before,
            stalls=tuple(stalls),
            notes=tuple(notes[:MAX_NOTES]),
        )
        encoded = observed.encode_observed(observation)
        os.ftruncate(self._observations, 0)
        os.pwrite(self._observations, encoded, 0)
        if self._run.exit_code is not None:
            self._add_to_report(observation)
            return
        with (
            suppress(OSError, ReportError),
            open_folder(self._folder) as folder,
            hold_record(folder, LOCK_SECONDS) as is_held,
        ):
            page = folder.read(layout.STATE, layout.PAGE)
            if not is_held or not self._is_alive() or layout.has_ended(page):
                return
            observed.write_observed(folder, encoded)
            report = self._own_report() if writes_report else None
            if report is not None and report.completeness == "running":
                write_running(self._report, self._run, folder, observation)

    def _add_to_report(self, observation: Observed) -> None:
        """Add what keeps the interpreter from ending to the report of the session.

        The record is gone by now, and a later run may be about to write to the same
        path.
        """
        at_end = stalled_activities(observation, None, is_over=True)
        if all(activity.stall.state == "busy" for activity in at_end):
            return
        lock = ReportLock(self._report)
        with suppress(OSError):
            if lock.acquire():
                report = self._own_report()
                if report is not None:
                    write_report(self._report, with_stalls_at_end(report, at_end))
        lock.release()

    def _own_report(self) -> FailureReport | None:
        """Return this run's report as it is now, unless it was replaced."""
        report = read_report(self._report)
        if report is None or report.run.id != self._run.header.run_id:
            return None
        return report

    def _tell(self, stall: SeenStall) -> SeenStall:
        """Print a line on the user's terminal at 1, 2, 4, 8 … times the limit.

        What works is told from twice the limit on, where that is wanted.
        """
        times = times_of_limit(stall.stall.seconds, self._limit_seconds)
        if stall.told >= times:
            return stall
        if stall.stall.state == "busy" and (times == 1 or not self._tells_work()):
            return stall
        self._print(observed.words_of_stall(stall))
        return replace(stall, told=times)

    def _tells_work(self) -> bool:
        *_, flags = layout.READER.unpack_from(self._state, layout.READER_AT)
        return bool(flags & layout.TELLS_WORK)

    def _print(self, line: str) -> None:
        shown = safe_text(self._secrets.redact(line))
        print_on_terminal(self._main, self._state, shown)

    def _end(
        self, stalls: list[SeenStall], stalled: list[SeenStall], units: Sequence[Unit]
    ) -> None:
        """End what was found to be stalled: a worker by itself, or else the run."""
        by_worker = {_worker_of(unit): unit for unit in units}
        keys = set()
        for stall in stalled:
            if self._is_to_end(stall, by_worker[stall.worker]):
                keys.add(_key(stall))
        if not keys:
            return
        others: list[SeenStall] = []
        mine: list[SeenStall] = []
        for stall in stalls:
            (mine if _key(stall) in keys else others).append(stall)
        self._keep([*others, *map(_mark_ended, mine)])
        of_run = []
        for stall in mine:
            words = observed.words_of_subject(stall)
            self._print(f"ended: {words} (--failure-taxonomy-end-stalled)")
            if stall.worker is not None and stall.what == "test":
                send_signal(by_worker[stall.worker].identity, signal.SIGKILL)
            else:
                of_run.append(stall)
        own = [stall for stall in of_run if stall.worker is None]
        if any(stall.what == "session" for stall in own) and self._end_workers():
            return  # it waits for them, and goes on now
        if of_run:
            # xdist would start a new worker for one that hangs outside of a test, and
            # that one would hang, too.
            is_frozen = any(stall.stall.state == "frozen" for stall in own)
            self._end_run(is_frozen=is_frozen)
            self._end_workers()

    def _is_to_end(self, stall: SeenStall, unit: Unit) -> bool:
        """Tell whether a stall is to be ended.

        Not so what works, what may have begun to, and a test that somebody else is
        going to end. What polls is to have done so at one place, at two looks at least.
        """
        state = stall.stall.state
        if state == "busy" or stall.seen_ns != self._now_ns:
            return False
        if stall.what == "test" and self._has_time_left(stall, unit):
            return False
        if state != "polling":
            return True
        before = self._find_earlier(stall)
        if before is None or before.stall.where != stall.stall.where:
            return False
        return stall.stall.seconds >= POLLING_LIMITS * self._limit_seconds

    def _has_time_left(self, stall: SeenStall, unit: Unit) -> bool:
        """Tell whether a limit of its own is still going to end a test."""
        limits = limits_of_test(
            stall.nodeid or "",
            elapsed_seconds=(self._now_ns - stall.began_ns) / 1e9,
            ended_ns=self._now_ns,
            timer=parse_worker(self._page_of(unit.name)).timer,
            faulthandler_seconds=self._run.header.faulthandler_exit_seconds,
        )
        for limit in limits:
            elapsed_seconds = limit.elapsed_seconds or 0.0
            if elapsed_seconds < limit.budget_seconds + GRACE_SECONDS:
                return True
        return False

    def _end_workers(self) -> bool:
        """End all xdist workers that still run; tell whether there were any."""
        identities = []
        for name in self._workers():
            page = self._page_of(name)
            started, process_id = layout.PROCESS.unpack_from(page, layout.PROCESS_AT)
            if process_id and start_of(process_id) == started:
                identities.append((process_id, started))
        for identity in identities:
            send_signal(identity, signal.SIGKILL)
        return bool(identities)

    def _end_run(self, *, is_frozen: bool) -> None:
        """End pytest: by its own signal if it can react, or else by SIGKILL."""
        identity = self._main, self._started
        number = self._state[layout.END_SIGNAL_AT]
        was_ended = any(
            stall.stall.is_ended and stall.worker is None
            for stall in self._before.stalls
        )
        if number and not is_frozen and not was_ended:
            deadline = time.monotonic() + GRACE_SECONDS
            before = self._page_of()
            send_signal(identity, number)
            while time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
                # Where it begins to end, it is let be; if it stalls again, it is
                # killed.
                if not self._is_alive() or self._page_of() != before:
                    return
        send_signal(identity, signal.SIGKILL)

    def _subject_of(self, unit: Unit) -> SeenStall | None:
        """Return the state of a process as a stall without further details.

        It is `None` if the process need not make progress.
        """
        run = self._run
        nothing = Stall(
            state="blocked",
            seconds=0.0,
            where=None,
            stack=None,
        )
        subject = SeenStall(
            what="session",
            stall=nothing,
            began_ns=unit.began_ns,
            seen_ns=self._now_ns,
            worker=_worker_of(unit),
        )
        activity = run.activity
        test = max(run.in_flight, key=lambda test: test.start_ns, default=None)
        if unit.name:
            worker = parse_worker(self._page_of(unit.name))
            test = worker.test
            activity = worker.activity
            if test is None and activity is None:
                return None
        elif run.exit_code is not None:
            name = None if activity is None else activity.name
            # Unless pytest is the program, other code may follow it in its process.
            is_program = self._settings.get("program") == "1"
            return replace(subject, what="shutdown", name=name) if is_program else None
        elif any(self._workers()) and (activity is None or activity.what != "session"):
            return replace(subject, what="controller")
        if test is not None:
            return replace(
                subject,
                what="test",
                nodeid=test.nodeid,
                phase=test.phase,
            )
        if activity is not None:
            return replace(subject, what=activity.what, name=activity.name)
        is_collecting = len(run.not_run) == len(run.nodeids)
        return replace(subject, what="collection") if is_collecting else subject

    def _page_of(self, worker: str = "") -> bytes:
        """Return the numbers of a worker's record, by its folder, or of pytest's.

        They are all 0 if they can't be read.
        """
        page = read(str(self._folder / worker / layout.STATE), layout.PAGE)
        return page.ljust(layout.PAGE, b"\0")

    def _workers(self) -> list[str]:
        """Return the names of the workers' folders."""
        with suppress(OSError), open_folder(self._folder) as folder:
            return [name for name in folder.names() if worker_of(name)]
        return []

    def _stall(self, unit: Unit, subject: SeenStall) -> SeenStall | None:
        """Return the stall of a process; `None` if it waits for the user."""
        process_id = unit.identity[0]
        if waits_for_input(process_id):
            return None
        before = self._find_earlier(subject)
        movement = state_of([*unit.movements, unit.look(time.monotonic_ns())])
        state = cast("StallState", movement)
        if fields_of(process_id)[:1] == [b"T"]:
            state = "frozen"
        # One that is at work, or stopped, must not be asked for its stacks.
        is_idle = state in ("blocked", "polling")
        stacks = self._stacks_of(unit, asks=is_idle)
        if stacks is not None and _is_in_debugger(stacks):
            return None
        if is_idle and self._is_gil_held(unit, stacks):
            state = "frozen"
        if state in ("blocked", "frozen") and unit.look(time.monotonic_ns()).runs:
            state = "busy"
        is_settled = movement == unit.settled and (state == "busy") == (
            movement == "busy"
        )
        if not is_settled and before is not None and before.stall.state != "busy":
            return before  # it works for a moment only, maybe as it is about to end
        if before is not None and stacks is None and state == before.stall.state:
            subject = replace(subject, stall=before.stall, place=before.place)
        else:
            subject = self._add_place(subject, stacks)
        children: tuple[str, ...] = ()
        with suppress(Exception):  # the state alone is told, then
            children = commands_of_children(process_id, self._secrets.redact_arguments)
        is_test = subject.what == "test" and state == "blocked"
        left = self._name_left_threads(unit) if is_test else ""
        stall = replace(
            subject.stall,
            state=state,
            left=left,
            seconds=round((self._now_ns - unit.since_ns) / 1e9, 3),
            children=children,
            others_move=unit.others_move,
        )
        times_told = before.told if before else 0
        return replace(subject, stall=stall, told=times_told)

    def _name_left_threads(self, unit: Unit) -> str:
        """Name the threads of earlier tests if this process waits for a lock."""
        process_id = unit.identity[0]
        if not _waits_for_lock(process_id):
            return ""
        changes = self._run.changes
        if unit.name:
            with suppress(OSError), open_folder(self._folder) as folder:
                changes = read_worker(folder, worker_of(unit.name) or "").changes
        names = [
            words_of_left(change)
            for change in find_left_threads(changes)
            if fields_of(f"{process_id}/task/{change.number}")
        ]
        return "; ".join(names[:MAX_LEFT_THREADS])

    def _is_gil_held(self, unit: Unit, stacks: Stacks | None) -> bool:
        """Tell whether a thread that does nothing holds the GIL.

        One that has to wait for the GIL looks for it every 5 ms.
        """
        is_held = stack_reading.is_gil_held(unit.identity[0])
        if is_held is None and _has_owner(stacks):
            time.sleep(_POLL_SECONDS)
            is_held = _has_owner(self._stacks_of(unit, asks=False))
        return bool(is_held)

    def _add_place(self, subject: SeenStall, stacks: Stacks | None) -> SeenStall:
        """Add where something is stalled, without secrets."""
        rootdir = self._rootdir
        where = place = stack = location = None
        if stacks is not None:
            where = stacks.where(rootdir)
            stack = stacks.text(MAX_TRACEBACK)
            place = stacks.own_call(rootdir) or where
            location = stacks.main.own_place(rootdir)
        if subject.what == "shutdown":
            place = where
            # The thread that keeps the interpreter from ending, and what it was last
            # seen at.
            for thread in self._run.list_facts("thread"):
                if fields_of(f"{self._main}/task/{thread.native_id}"):
                    where = place = f"waits for {thread.words}"
                    break
        redact = self._secrets.redact
        stall = replace(
            subject.stall,
            where=where and redact(where),
            stack=stack and redact(stack),
            location=location,
        )
        return replace(subject, stall=stall, place=place and redact(place))

    def _find_earlier(self, subject: SeenStall) -> SeenStall | None:
        identity = subject.what, subject.worker, subject.began_ns
        for stall in self._before.stalls:
            if (stall.what, stall.worker, stall.began_ns) == identity:
                return stall
        return None

    def _stacks_of(self, unit: Unit, *, asks: bool) -> Stacks | None:
        page = self._page_of(unit.name)
        number = page[layout.DUMP_SIGNAL_AT] if asks else 0
        dump = self._folder / unit.name / layout.ASKED
        process_id = unit.identity[0]
        try:
            stacks = stack_reading.read_stacks(process_id, dump, number)
            if asks and stacks.is_in_loop:
                number = page[layout.TASKS_SIGNAL_AT]
                tasks = stack_reading.read_tasks(process_id, dump, number)
                if tasks is not None:
                    stacks = stacks.add_tasks(tasks, self._rootdir)
            return stacks
        except stack_reading.NoStacksError as error:
            self._notes.append(safe_text(str(error)))
        except Exception as error:  # noqa: BLE001 - the state alone is told, then
            self._notes.append(type(error).__name__)
        return None

    def _is_alive(self) -> bool:
        return start_of(self._main) == self._started


def _waits_for_lock(process_id: int) -> bool:
    """Tell whether the main thread of a process waits for a lock, or may do so."""
    wait = process.read_text(f"/proc/{process_id}/wchan")
    return "futex" in wait or wait in ("", "0")  # it can't be read


def _has_owner(stacks: Stacks | None) -> bool:
    """Tell whether a thread owns the GIL, as far as the stacks say so."""
    return stacks is not None and any(thread.owns_gil for thread in stacks.threads)


def commands_of_children(
    process_id: int, redact: Callable[..., Sequence[str]] = list
) -> tuple[str, ...]:
    """Return the command lines of a process's descendants, by process id.

    Args:
        process_id: the process.
        redact: removes the secrets from the words of a command.
    """
    lines: list[str] = []
    for child in sorted(process.descendants(process_id)):
        if len(lines) == MAX_CHILDREN:
            break
        if process.has_process(child):
            words = process.command_of(child)[:-1]
            if not words:
                words = [f"[{process.name_of(child)}]"]
            lines.append(shlex.join(redact(words))[:MAX_COMMAND])
    return tuple(lines)


def send_signal(identity: tuple[int, int], number: int) -> None:
    """Send a signal to a process, unless another one has its id by now.

    Args:
        identity: its id, and its start in clock ticks since the boot.
        number: the signal.
    """
    process_id, started = identity
    with suppress(OSError), closing_descriptor(os.pidfd_open(process_id)) as opened:
        if start_of(process_id) == started:
            signal.pidfd_send_signal(opened, number)


def waits_for_input(process_id: int) -> bool:
    """Tell whether the main thread of a process waits for a line from a terminal."""
    try:
        with open(f"/proc/{process_id}/syscall", encoding="ascii") as file:
            words = file.read().split()
        number = int(words[0])
        descriptor = int(words[1], 16)
        read, waits = _READS.get(os.uname().machine, (-1, ()))
        # readline waits for standard input alone
        if number in waits and descriptor in (0, 1):
            descriptor = 0
        elif number != read:
            return False
        path = os.readlink(f"/proc/{process_id}/fd/{descriptor}")
        return path.startswith(_TERMINALS)
    except (OSError, ValueError, IndexError):
        return False


def print_on_terminal(process_id: int, state: bytes, line: str) -> bool:
    """Print a line where the user of a pytest reads; tell whether that worked.

    While a test runs, pytest's capture has the test's output, and keeps a copy of the
    real standard error. The record says which descriptor that is. This process opens
    the same file through `/proc`, writes, and closes it: it holds no pipe that somebody
    may be waiting for.

    Args:
        process_id: the pytest process.
        state: the contents of its record's state file.
        line: without control characters.
    """
    if len(state) < layout.PAGE:
        return False
    device, inode, number, flags = layout.READER.unpack_from(state, layout.READER_AT)
    if not flags & layout.IS_SHOWN:
        return False
    shown = line_of_its_own(line, is_coloured=bool(flags & layout.IS_COLOURED))
    # Once the capture has ended, standard error is itself again.
    for stream in (number, _STDERR):
        with suppress(OSError, ValueError):
            opened = _open_for_writing(process_id, stream, (device, inode))
            with closing_descriptor(opened) as descriptor:
                return os.write(descriptor, shown) > 0
    return False


def line_of_its_own(line: str, *, is_coloured: bool) -> bytes:
    """Return what prints a line by itself, even if pytest has written half of one."""
    shown = f"{_YELLOW}{line}{_PLAIN}" if is_coloured else line
    return f"\n{shown}\n".encode()


def _open_for_writing(process_id: int, number: int, identity: tuple[int, int]) -> int:
    """Open what a process has open under a number, if that is still the same file.

    Raises:
        OSError: if it is not, or can't be opened.
    """
    path = f"/proc/{process_id}/fd/{number}"
    status = os.stat(path)
    if identity_of(status) != identity:
        raise FileNotFoundError(path)
    if not stat.S_ISREG(status.st_mode) or _appends(process_id, number):
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(path, flags)
    # What is written by another opening of the file, pytest would write over. So get a
    # descriptor that has its position in common with that of the process.
    import ctypes

    call: Any = ctypes.CDLL(None, use_errno=True).syscall
    with closing_descriptor(os.pidfd_open(process_id)) as opened:
        descriptor = int(call(_PIDFD_GETFD, opened, number, 0))
    if descriptor < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return descriptor


def _appends(process_id: int, number: int) -> bool:
    """Tell whether a process appends to a file, whatever was written to it."""
    with open(f"/proc/{process_id}/fdinfo/{number}", encoding="ascii") as file:
        _, _, rest = file.read().partition("flags:")
    return int(rest.split()[0], 8) & os.O_APPEND != 0
