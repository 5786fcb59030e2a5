"""The loop of the process that runs rubrics: it forks for each case, and buries each child.

One thread, no event loop, nothing of the rubric's runs here once it is loaded. What is imported
here is imported before the rubric's folder is searched for modules.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import time
from contextlib import suppress
from typing import Any, NoReturn

from . import child, limits, sweeping, wire
from .capture import capture
from .loading import load_rubric, load_target
from .running import Running

_CHUNK = 1 << 18
_SECONDS_TO_TELL = 5.0


class Server:
    """The cases that run, and the client that waits for them."""

    def __init__(self, control: socket.socket, hello: dict[str, Any]) -> None:
        self._control = control
        self._hello = hello
        self._library = limits.load_library()
        self._process_id = os.getpid()
        self._poll = select.poll()
        self._inbox = wire.Inbox(wire.REQUEST)
        self._outgoing = bytearray()
        self._running: dict[int, Running] = {}
        """By process id."""
        self._pipes: dict[int, Running] = {}
        """By descriptor."""
        self._strays: dict[int, set[int]] = {}
        """Orphans, and the process ids of the cases that may have started them."""
        self._own_children: set[int] = set()
        """What the rubric started when it was loaded."""
        self._call: Any = None

    def load(self) -> bool:
        """Load the rubric or the system; tell the client how that went."""
        limits.adopt_orphans(self._library)
        # Nobody looks at the client while foreign code runs here.
        limits.die_with_parent(self._library, self._hello["parent"])
        try:
            if self._hello["target"]:
                self._call = load_target(self._hello["target"], self._hello["path"])
            elif self._hello["load"]:
                self._call = load_rubric(self._hello["rubric"])
        except BaseException as error:  # noqa: BLE001 - each case is to say what it was
            self._tell(wire.BROKEN, 0, 0, child.describe(error))
            return False
        finally:
            limits.outlive_parent(self._library)
        if self._hello["folder"]:
            os.chdir(self._hello["folder"])
        self._own_children = set(sweeping.children())
        self._printed = capture()  # here and not in each child: that would cost it 0.2 ms
        gc.collect()
        gc.freeze()
        self._tell(wire.READY, 0, 0)
        return True

    def serve(self) -> None:
        """Run cases until the client is gone."""
        wake, woken = os.pipe()
        for descriptor in (wake, woken):
            os.set_blocking(descriptor, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        self._poll.register(wake, select.POLLIN)
        self._poll.register(self._control, select.POLLIN)
        client = self._watch_client()
        control = self._control.fileno()
        while True:
            self._send()
            has_ended = False
            for descriptor, events in self._poll.poll(self._milliseconds_to_wait()):
                if descriptor == client:
                    return
                if descriptor == wake:
                    os.read(wake, 4096)
                    has_ended = True
                elif descriptor == control:
                    if events & ~select.POLLOUT and not self._receive():
                        return
                elif descriptor in self._pipes:
                    self._read(descriptor)
            if has_ended:
                self._reap()
            self._end_late_ones()

    def close(self) -> None:
        """End all that runs, remove what it has left, and say what is still to be said."""
        sweeping.kill_children()
        if self._hello["folder"]:
            os.chdir("/")
            sweeping.remove_folder(self._hello["folder"])
        self._control.settimeout(_SECONDS_TO_TELL)
        with suppress(OSError):
            self._control.sendall(self._outgoing)

    def _watch_client(self) -> int:
        """Return a descriptor that turns readable when the client dies; -1 where there is none.

        Its end of the socket is not enough: a process that it has forked may hold that, too.
        """
        try:
            client = os.pidfd_open(self._hello["parent"])
        except (AttributeError, OSError):
            return -1
        self._poll.register(client, select.POLLIN)
        return client

    def _milliseconds_to_wait(self) -> float | None:
        soonest = min((each.deadline for each in self._running.values()), default=float("inf"))
        if soonest == float("inf"):
            return None
        return max(0.0, soonest - time.monotonic()) * 1e3 + 1

    def _receive(self) -> bool:
        try:
            data = self._control.recv(_CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        for (what, number, limit_seconds), body in self._inbox.feed(data):
            if what == wire.GRADE:
                self._start(number, limit_seconds, body)
            else:
                self._cancel(number)
        return bool(data)

    def _start(self, number: int, limit_seconds: float, body: bytes) -> None:
        folder = self._hello["folder"] and f"{self._hello['folder']}/{number}"
        case = Running(number, limit_seconds, folder)
        try:
            case.open_pipes(2 if self._hello["script"] else 1)
            case.process_id = os.fork()
        except OSError as error:
            case.close_pipes(0)
            self._tell(wire.NOT_STARTED, number, 0, str(error).encode())
        else:
            if not case.process_id:
                self._be_child(case, limit_seconds, body)
            self._running[case.process_id] = case
            for descriptor in case.received:
                self._poll.register(descriptor, select.POLLIN)
                self._pipes[descriptor] = case
        for descriptor in case.ends:
            os.close(descriptor)

    def _be_child(self, case: Running, limit_seconds: float, body: bytes) -> NoReturn:
        verdict = None
        try:
            if self._hello["script"]:
                os.dup2(case.ends[1], 2)
            output = child.leave_server(self._process_id, self._library, case.ends[0])
            verdict = child.Verdict(output, case.token, self._printed)
            if self._hello["target"]:
                child.run_system(verdict, self._call, body)
            child.settle(case.folder)
            limits.limit_process(self._hello["memory_mb"], limit_seconds)
            if self._hello["script"]:
                child.run_script(self._hello["rubric"], body, output)
            child.grade(verdict, self._call, self._hello["rubric"], body)
        except BaseException as error:  # noqa: BLE001 - a child must never come back
            child.end_unsettled(verdict, error)

    def _cancel(self, number: int) -> None:
        for case in self._running.values():
            if case.number == number:
                case.is_cancelled = True
                sweeping.kill_group(case.process_id)

    def _read(self, descriptor: int) -> None:
        if self._pipes[descriptor].read(descriptor, self._hello["most"]) is None:
            self._poll.unregister(descriptor)
            del self._pipes[descriptor]

    def _end_late_ones(self) -> None:
        now = time.monotonic()
        for case in self._running.values():
            if case.deadline <= now:
                case.has_timed_out = True
                case.deadline = float("inf")
                sweeping.kill_group(case.process_id)

    def _reap(self) -> None:
        """Bury all children that have ended, ours and adopted ones."""
        for process_id, status in sweeping.ended_children(self._kill_group_of):
            case = self._running.pop(process_id, None)
            if case is not None:
                self._finish(case, status)

    def _kill_group_of(self, process_id: int) -> None:
        if process_id in self._running:
            sweeping.kill_group(process_id)

    def _finish(self, case: Running, status: int) -> None:
        for descriptor in case.received:
            if self._pipes.pop(descriptor, None):
                self._poll.unregister(descriptor)
        case.close_pipes(self._hello["most"])
        self._sweep(case.process_id)
        if case.folder:
            sweeping.remove_case_folder(case.folder)
        if not case.is_cancelled:
            what, body = case.outcome(status, self._hello["most"])
            self._tell(what, case.number, status, body)

    def _sweep(self, ended: int) -> None:
        """Kill the orphans that only cases that have ended can have started."""
        running = set(self._running)
        while True:
            found = set(sweeping.children()) - running - self._own_children
            strays = {each: self._strays.get(each, running | {ended}) & running for each in found}
            self._strays = strays
            guilty = [each for each, suspects in strays.items() if not suspects]
            for each in guilty:
                sweeping.kill_and_wait(each)
            if not guilty:
                return

    def _tell(self, what: bytes, number: int, status: int, body: bytes = b"") -> None:
        self._outgoing += wire.REPLY.pack(what, number, status, len(body)) + body

    def _send(self) -> None:
        if self._outgoing:
            try:
                del self._outgoing[: self._control.send(self._outgoing)]
            except BlockingIOError:
                pass
            except OSError:
                self._outgoing.clear()  # the client is gone, which we are told next
            wanted = select.POLLIN | (select.POLLOUT if self._outgoing else 0)
            self._poll.modify(self._control, wanted)
