"""The process that watches pytest: a script that `start_watcher` runs.

It needs the standard library alone. It waits for one process to end, and imports the
package only if there is a report to complete. It inherits the descriptors of the
record, because a test may remove the files. Now and then it looks whether the run makes
progress; what a stall takes is done in a forked child.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import sys
import time

# Importing it from `typing` would take more memory than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytest_failure_taxonomy.survive.stalls.detect import Standstill
    from pytest_failure_taxonomy.system.process import MemorySampler
    from pytest_failure_taxonomy.taxonomy.evidence import Left

_MAX_SECONDS = 120
"""The time for all work after pytest's end; half a million tests take a twentieth of
it."""
_NEVER = float("inf")
_CHILD_SECONDS = 0.5
"""How long a child that looks at a stall may take once pytest has ended."""

# linux/pidfd.h: PIDFD_GET_INFO returns the exit status of a reaped process (Linux
# 6.15).
_PIDFD_INFO_EXIT = 1 << 3
_PIDFD_INFO = struct.Struct("=QQ11Ii8x")
_PIDFD_GET_INFO = (3 << 30) | (_PIDFD_INFO.size << 16) | (0xFF << 8) | 11
_STATUS_TRIES = 50
_STATUS_SECONDS = 0.002


def watch(
    pidfd: int,
    files: list[int],
    channel: int,
    process_id: int,
    root: str,
    report: str,
    run_id: str,
    settings: str = "",
    *others: str,
) -> None:
    """Wait for the end of a process, and complete its report unless it is complete.

    Args:
        pidfd: a descriptor of the process. It stays that of this process when the
            number is another's, and can be polled for the end by who is not the parent.
        files: descriptors of the two files of its record.
        channel: a socket by which the process sends descriptors of what it leaves.
        process_id: its id.
        root: the folder of the package.
        report: the path of its report.
        run_id: the run.
        settings: as `start.Watch` writes them.
        others: further folders to import from.
    """
    # What is ours is imported only from here on, when it can be found.
    sys.path[:0] = [root, *others]
    from pytest_failure_taxonomy.survive import layout
    from pytest_failure_taxonomy.system.process import MemorySampler

    numbers, _, folder = settings.partition(";folder=")
    options = dict(part.split("=", 1) for part in numbers.split(";") if part)
    options["folder"] = folder
    beginning = _read(files[1])
    stalls = Stalls(files, process_id, report, run_id, options)
    memory_file = None
    if folder:
        memory_file = f"{folder}/{layout.MEMORY}"
    memory = MemorySampler(process_id, memory_file)
    _wait_for_end(pidfd, channel, files[0], [stalls, memory])
    ended_ns = time.monotonic_ns()
    _end_in_time()
    stalls.end()
    if options.get("completes") == "0":
        return
    status = _wait_status(pidfd, process_id)  # first: it may be reaped at any time
    left = _read_what_is_left(channel)
    if layout.is_reported(_read(files[0], layout.HEAD.size), status):
        return
    from pathlib import Path

    from pytest_failure_taxonomy.survive.complete import complete_run, end_of_process
    from pytest_failure_taxonomy.survive.observed import parse_memory, parse_observed
    from pytest_failure_taxonomy.taxonomy.evidence import Left
    from pytest_failure_taxonomy.taxonomy.values import replace

    returncode = None
    if status is not None:
        returncode = os.waitstatus_to_exitcode(status)
    observed = stalls.observed()
    # A test may have truncated the events since.
    events = max(beginning, _read(files[1]), key=len)
    end = end_of_process(returncode, "watcher", ended_ns)
    end = replace(
        end,
        exit=replace(end.exit, memory=parse_memory(memory.seen())),
        observed=parse_observed(observed) if observed else None,
        left=left or Left(),
        contents=[_read(files[0]), events],
    )
    complete_run(Path(report), run_id, end)


def _wait_for_end(
    pidfd: int, channel: int, state: int, looks: list[Stalls | MemorySampler]
) -> None:
    """Wait for the process's end; drop what it sent if its run ends before."""
    from pytest_failure_taxonomy.survive import layout

    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    poller.register(channel, 0)
    while True:
        due = min(look.due for look in looks)
        wait_ms = None
        if due != _NEVER:
            wait_ms = max(0.0, (due - time.monotonic()) * 1e3 + 1.0)
        ready = {descriptor for descriptor, _ in poller.poll(wait_ms)}
        if pidfd in ready:
            return
        if channel in ready:
            # The other end was closed: at the end of the run, or by a test.
            poller.unregister(channel)
            if layout.has_ended(_read(state, layout.HEAD.size)):
                for descriptor in _receive(channel).values():
                    os.close(descriptor)
            continue
        for look in looks:
            if time.monotonic() < look.due:
                continue
            try:
                look.look()
            except Exception:  # noqa: BLE001 - the report is still completed
                look.due = _NEVER


def _read_what_is_left(channel: int) -> Left | None:
    """Return what the process has left, and print the stacks of its crash.

    All descriptors are closed then: who reads pytest's stderr through a pipe waits for
    its end.
    """
    sent = _receive(channel)
    if not sent:
        return None
    from pytest_failure_taxonomy.survive.crash_output import read_left, show_dump
    from pytest_failure_taxonomy.survive.layout import TERMINAL

    terminal = sent.pop(TERMINAL, None)
    left = read_left(sent.items())
    if terminal is not None:
        show_dump(left.dump, terminal)
        os.close(terminal)
    return left


def _receive(channel: int) -> dict[str, int]:
    """Return the descriptors that pytest has sent, by their letters."""
    import _socket  # `socket` takes much longer to import
    import array

    receiver = _socket.socket(fileno=channel)
    numbers = array.array("i")
    try:
        room = _socket.CMSG_SPACE(8 * numbers.itemsize)
        names, messages, _, _ = receiver.recvmsg(8, room, _socket.MSG_DONTWAIT)
        for level, kind, content in messages:
            if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                numbers.frombytes(content[: len(content) // 4 * 4])
    except OSError:  # none were sent, or they were received before
        return {}
    finally:
        receiver.detach()
    letters = names.decode("ascii", "replace")
    return dict(zip(letters, numbers, strict=False))


class Stalls:
    """Look now and then whether a run makes progress."""

    def __init__(
        self,
        files: list[int],
        process_id: int,
        report: str,
        run_id: str,
        options: dict[str, str],
    ) -> None:
        self._files = files
        self.report = report
        self.run_id = run_id
        self.settings = options
        self._child = 0
        self.observations = -1
        """A descriptor with what the children have seen."""
        self._standstill: Standstill | None = None
        self.due = _NEVER
        """When it is time for the next look, on the monotonic clock."""
        seconds = float(options.get("seconds", "0"))
        if seconds > 0:
            try:
                from pytest_failure_taxonomy.survive.stalls import detect
                from pytest_failure_taxonomy.system.process import start_of

                process = process_id, start_of(process_id)
                self._standstill = detect.Standstill(
                    files[0], options["folder"], process, seconds, time.monotonic_ns()
                )
                self.due = time.monotonic() + self._standstill.period_seconds
            except Exception:  # noqa: BLE001 - the report is completed all the same
                self._standstill = None

    def look(self) -> None:
        """Look once; have a child look closely if there is anything new."""
        standstill = self._standstill
        if standstill is None:
            return
        now_ns = time.monotonic_ns()
        if self._child and not self._has_child_ended():
            standstill.pass_time(now_ns)
        elif standstill.look(now_ns):
            if self.observations < 0:
                self.observations = os.memfd_create("observed")
            self._child = os.fork()
            if self._child == 0:
                try:
                    os.nice(5)
                    _end_in_time()
                    from pytest_failure_taxonomy.survive.stalls.inspect import (
                        StallInspection,
                    )

                    contents = [_read(file) for file in self._files]
                    inspection = StallInspection(self, contents, now_ns)
                    keeps = standstill.ended_ns is not None
                    inspection.look(standstill.list_stalled(now_ns), keeps=keeps)
                finally:  # whatever happened, the child must end here
                    os._exit(0)
        self.due = time.monotonic() + standstill.period_seconds

    def end(self) -> None:
        """Wait until the last child has ended; it may be writing."""
        deadline = time.monotonic() + _CHILD_SECONDS
        while self._child and not self._has_child_ended():
            if time.monotonic() > deadline:
                os.kill(self._child, signal.SIGKILL)
            time.sleep(0.005)

    def observed(self) -> bytes:
        """Return what the children have seen."""
        if self.observations < 0:
            return b""
        return _read(self.observations)

    def _has_child_ended(self) -> bool:
        if os.waitpid(self._child, os.WNOHANG)[0]:
            self._child = 0
        return not self._child


def _wait_status(pidfd: int, process_id: int) -> int | None:
    """Return the status of a process that is no child, as `waitpid` would.

    Only a parent may wait for a process, and the watcher is nobody's. But the kernel
    keeps the status in two places, one after the other. From the end until the parent
    has waited the process is a zombie, and `/proc` shows its status. From then on
    `/proc` has forgotten it, and another process may have the number; the pidfd still
    means the dead one, and has its status since Linux 6.15. The poll of a pidfd returns
    before either is certain, hence the tries.

    Returns:
        `None` if the status is unknown. It is never guessed: 137 might be a SIGKILL or
        an exit code.
    """
    import fcntl

    from pytest_failure_taxonomy.system.process import fields_of

    for _ in range(_STATUS_TRIES):
        fields = fields_of(process_id)
        if len(fields) > 49 and fields[0] in (b"Z", b"X"):
            return int(fields[49])
        question = bytearray(_PIDFD_INFO.size)
        struct.pack_into("=Q", question, 0, _PIDFD_INFO_EXIT)
        try:
            fcntl.ioctl(pidfd, _PIDFD_GET_INFO, question)
        except OSError:  # an older Linux, or it is still to be reaped
            question = bytearray(_PIDFD_INFO.size)
        mask, *_, status = _PIDFD_INFO.unpack(question)
        if mask & _PIDFD_INFO_EXIT:
            return int(status)
        time.sleep(_STATUS_SECONDS)
    return None


def _end_in_time() -> None:
    """Have the system end this process if its work takes too long.

    A test may have left anything in the record, and this process ignores the user's
    signals.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    signal.alarm(_MAX_SECONDS)


def _read(descriptor: int, max_bytes: int | None = None) -> bytes:
    """Return the beginning of a file; nothing if it can't be read."""
    if max_bytes is None:
        from pytest_failure_taxonomy.survive.layout import MAX_EVENTS_BYTES

        max_bytes = MAX_EVENTS_BYTES
    try:
        size = os.fstat(descriptor).st_size
        return os.pread(descriptor, min(size, max_bytes), 0)
    except OSError:
        return b""


if __name__ == "__main__":
    # Detach this process from the run: from its session, signals, folder and
    # descriptors.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    os.setsid()
    os.chdir("/")
    descriptors = [int(word) for word in sys.argv[1].split(",")]
    first = 3
    for descriptor in [*sorted(descriptors), 1 << 16]:
        os.closerange(first, descriptor)
        first = descriptor + 1
    watch(
        descriptors[0],
        descriptors[1:3],
        descriptors[3],
        int(sys.argv[2]),
        *sys.argv[3:],
    )
