"""The process that runs rubrics: it forks for each case, watches over it, and reaps its processes.

`serve` runs one thread without an event loop, and no code of the rubric once it is loaded. What
this module needs is imported before the rubric's folder is on `sys.path`. `run_one` runs a single
case in this very process, where there is no `fork`.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

from . import child, processes, wire
from .child import capture, load_rubric, load_target

# Bound here because a rubric may replace them.
_chdir = os.chdir
_environment = os.environ

_CHUNK = 1 << 18
_SECONDS_TO_SEND = 5.0


class RunningCase:
    """A case, its process, and the pipes from which its answer is read."""

    def __init__(self, number: int, limit_seconds: float) -> None:
        self.number = number
        self.folder = ""
        """The folder of a rubric's case, in which is the one that it works in."""
        self.deadline = (
            time.monotonic() + limit_seconds if limit_seconds else float("inf")
        )
        self.token = os.urandom(wire.TOKEN_BYTES)
        self.process_id = 0
        self.is_cancelled = False
        self.has_timed_out = False
        self.received: dict[int, bytearray] = {}
        """By descriptor: first the verdict, then a script's stderr or what a system spends."""
        self.ends: list[int] = []
        """The child's ends of these pipes, and of the socket."""
        self.requests: socket.socket | None = None
        """By which the process of a system gets its next case."""

    @property
    def work(self) -> str:
        """The folder that it works in: one level below its own, so that `../x` is still inside."""
        return f"{self.folder}/work"

    def open(self, pipes: int, *, has_requests: bool) -> None:
        """Create the pipes, and the socket by which further cases are sent.

        Raises:
            OSError: There are no more descriptors; what was created before must still be closed.
        """
        for _ in range(pipes):
            mine, its = os.pipe()
            os.set_blocking(mine, False)
            self.received[mine] = bytearray()
            self.ends.append(its)
        if has_requests:
            self.requests, end = socket.socketpair()
            self.requests.settimeout(_SECONDS_TO_SEND)
            self.ends.append(end.detach())

    def begin(self, number: int, body: bytes) -> bool:
        """Give the process another case; return whether it takes it."""
        self.number = number
        with suppress(OSError):  # it is dead, or was stopped
            if self.requests is not None:
                self.requests.sendall(wire.LENGTH.pack(len(body)) + body)
                return True
        return False

    def is_too_large(self, max_bytes: int) -> bool:
        """Tell whether the child has written more than the limit."""
        answer, *_ = self.received.values()
        return len(answer) > max_bytes + wire.MESSAGE_OVERHEAD_BYTES

    def take_answer(self, max_bytes: int) -> bytes | None:
        """Return the answer of a system that is complete while its process goes on."""
        first, *_ = self.received
        answer = self.received[first]
        if not (answer.startswith(self.token) and wire.is_complete(answer)):
            return None
        for descriptor in self.received:  # what it spent was told before
            while self.read(descriptor, max_bytes):
                pass
        self.received[first] = bytearray()
        return bytes(answer)

    def read(self, descriptor: int, max_bytes: int) -> bool | None:
        """Read from the child; return whether there may be more to read, or `None` at the end.

        What exceeds the limit is read, so that the child doesn't block, and dropped except for one
        byte.
        """
        try:
            data = os.read(descriptor, _CHUNK)
        except OSError:
            return False
        received = self.received[descriptor]
        received += data[
            : max(0, max_bytes + wire.MESSAGE_OVERHEAD_BYTES + 1 - len(received))
        ]
        return True if data else None

    def close_pipes(self, max_bytes: int) -> None:
        """Read what is left in the pipes, even if other processes hold their ends; close them."""
        for descriptor in self.received:
            while self.read(descriptor, max_bytes):
                pass
            os.close(descriptor)
        if self.requests is not None:
            self.requests.close()

    def outcome(
        self, status: int, max_bytes: int, *, is_script: bool
    ) -> tuple[bytes, bytes]:
        """Return the reply to the client, code and body, when the process has ended."""
        received, *errors = (bytes(each) for each in self.received.values())
        if self.has_timed_out and os.WIFSIGNALED(status):
            return wire.TIMED_OUT, b""
        if self.is_too_large(max_bytes):
            return wire.TOO_LARGE, b""
        if is_script:
            received = wire.pack_script(self.token, received, errors[0])
        if received.startswith(self.token) and wire.is_complete(received):
            return wire.ANSWERED, received
        return wire.NO_ANSWER, b""


class Server:
    """The running cases, and the client that waits for them."""

    def __init__(self, control: socket.socket, hello: dict[str, Any]) -> None:
        self._control = control
        self._hello = hello
        self._process_id = os.getpid()
        self._poll = select.poll()
        self._inbox = wire.Inbox(wire.REQUEST)
        self._outgoing = bytearray()
        self._running: dict[int, RunningCase] = {}
        """By process id."""
        self._pipes: dict[int, RunningCase] = {}
        """By descriptor."""
        self._idle: list[RunningCase] = []
        """Processes of systems that wait for their next case."""
        self._strays: dict[int, set[int]] = {}
        """Orphans, with the process ids of the cases that may have started them."""
        self._left_folders: list[str] = []
        """For the next cases, if they are untouched: on a busy disk, to remove one can take
        milliseconds."""
        self._limits: processes.Limits = ()
        """Of the case that is being started."""
        self._own_children: set[int] = set()
        """Processes that the rubric started when it was loaded."""
        self._call: Any = None

    def load(self) -> bool:
        """Load the rubric or the system, and tell the client whether that worked."""
        processes.adopt_orphans()
        # Until the rubric is loaded, nothing here watches whether the client lives.
        processes.die_with_parent(self._hello["parent"])
        version = None
        try:
            if self._hello["target"]:
                self._call = load_target(self._hello["target"], self._hello["path"])
                with suppress(BaseException):  # an attribute may be anything
                    version = getattr(self._call, "version", None)
            elif self._hello["loads_first"]:
                self._call = load_rubric(self._hello["rubric"])
        except BaseException as error:  # noqa: BLE001 - whatever it is, each case reports it
            self._tell(wire.BROKEN, 0, 0, child.describe(error))
            return False
        finally:
            processes.outlive_parent()
        if self._hello["folder"]:
            os.chdir(self._hello["folder"])
            child.forget_temporary_folder()
        child.reserve_descriptors()
        self._own_children = set(processes.children())
        self._printed = capture()  # once here: it would cost each child 0.2 ms
        gc.collect()
        gc.freeze()
        threads = len(sys._current_frames()) - 1  # noqa: SLF001 - `threading` may be replaced
        known = {
            "has_threads": threads > 0,
            "version": version if type(version) is str else None,
        }
        self._tell(wire.READY, 0, 0, json.dumps(known).encode())
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
        client = -1
        # The socket is not enough: a fork of the client may hold the other end.
        with suppress(AttributeError, OSError):
            client = os.pidfd_open(self._hello["parent"])
            self._poll.register(client, select.POLLIN)
        control = self._control.fileno()
        while True:
            self._send()
            has_ended = False
            for descriptor, events in self._poll.poll(self._end_late_ones()):
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

    def close(self) -> None:
        """Kill all cases, remove their files, and send the remaining replies."""
        processes.kill_children()
        if self._hello["folder"]:
            os.chdir("/")
            processes.remove_folder(self._hello["folder"])
        self._control.settimeout(_SECONDS_TO_SEND)
        with suppress(OSError):
            self._control.sendall(self._outgoing)

    def _receive(self) -> bool:
        try:
            data = self._control.recv(_CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        for (what, number, limit_seconds), body in self._inbox.feed(data):
            if what == wire.GRADE:
                if not self._give_to_idle(number, body):
                    self._start(number, limit_seconds, body)
                continue
            for case in self._running.values():
                if case.number == number:  # it is cancelled
                    case.is_cancelled = True
                    processes.kill_group(case.process_id)
        return bool(data)

    def _give_to_idle(self, number: int, body: bytes) -> bool:
        """Give a case to a process that waits for one; return whether there was any."""
        while self._idle:
            idle = self._idle.pop()
            if idle.begin(number, body):
                return True
            idle.number = 0
            processes.kill_group(idle.process_id)
        return False

    def _start(self, number: int, limit_seconds: float, body: bytes) -> None:
        case = RunningCase(number, limit_seconds)
        memory_mb = self._hello["memory_mb"]
        try:
            if self._hello["folder"]:
                self._settle(case)
                self._limits = processes.limits_of_case(memory_mb, limit_seconds)
            is_system = bool(self._hello["target"])
            case.open(
                2 if self._hello["is_script"] or is_system else 1,
                has_requests=is_system,
            )
            case.process_id = os.fork()
        except OSError as error:
            case.close_pipes(0)
            self._tell(wire.NOT_STARTED, number, 0, str(error).encode())
        else:
            if not case.process_id:
                self._be_child(case, body)
            self._running[case.process_id] = case
            for descriptor in case.received:
                self._poll.register(descriptor, select.POLLIN)
                self._pipes[descriptor] = case
        for descriptor in case.ends:
            os.close(descriptor)

    def _settle(self, case: RunningCase) -> None:
        """Give a case its folder, and this process the environment that its child takes over.

        Raises:
            OSError: The folder can't be created.
        """
        case.folder = f"{self._hello['folder']}/{case.number}"
        while self._left_folders:
            earlier = self._left_folders.pop()
            if processes.is_untouched(earlier):
                case.folder = earlier
                break
            processes.remove_folder(earlier)
        else:
            processes.create_case_folder(case.folder)
        for name in child.PLACES:
            _environment[name] = case.work

    def _be_child(self, case: RunningCase, body: bytes) -> NoReturn:
        verdict = None
        try:
            ends = case.ends
            if self._hello["is_script"]:
                os.dup2(ends.pop(), 2)
            child.leave_server(self._process_id, ends)
            verdict = child.Verdict(child.VERDICT_DESCRIPTOR, case.token, self._printed)
            if self._hello["target"]:
                child.run_system(verdict, self._call, body)
            _chdir(case.work)
            processes.limit_process(self._limits)
            if self._hello["is_script"]:
                child.run_script(self._hello["rubric"], body, child.VERDICT_DESCRIPTOR)
            child.grade(verdict, self._call, self._hello["rubric"], body)
        except BaseException as error:  # noqa: BLE001 - a child must never return to the server's loop
            child.end_unsettled(verdict, error)

    def _read(self, descriptor: int) -> None:
        case = self._pipes[descriptor]
        if case.read(descriptor, self._hello["max_bytes"]) is None:
            self._poll.unregister(descriptor)
            del self._pipes[descriptor]
        self._tell_spends(case)
        if not self._hello["target"]:
            return
        most = self._hello["max_bytes"]
        if case.is_too_large(most):
            processes.kill_group(
                case.process_id
            )  # else it would wait for its next case
        answer = case.take_answer(most)
        if answer is None:
            return
        self._tell_spends(case)
        self._tell(wire.ANSWERED, case.number, 0, answer)
        case.number = 0
        # An orphan may be the work of this case.
        orphans = set(processes.children()) - set(self._running) - self._own_children
        if wire.is_free(answer) and not orphans:
            self._idle.append(case)
        else:
            processes.kill_group(case.process_id)

    def _reap(self) -> None:
        """Reap all children that have ended, adopted ones included."""
        for process_id, status in processes.ended_children(self._running):
            if process_id in self._running:
                self._finish(self._running.pop(process_id), status)

    def _end_late_ones(self) -> float | None:
        """Kill the cases that are late; return in how many milliseconds the next one will be."""
        now, soonest = time.monotonic(), float("inf")
        for case in self._running.values():
            if case.deadline <= now:
                case.has_timed_out = True
                case.deadline = float("inf")
                processes.kill_group(case.process_id)
            soonest = min(soonest, case.deadline)
        return None if soonest == float("inf") else (soonest - now) * 1e3 + 1

    def _tell_spends(self, case: RunningCase) -> None:
        """Tell what a system has spent at once: whatever becomes of it, that counts."""
        if self._hello["target"]:
            _, told = case.received.values()
            end = told.rfind(b"\n") + 1
            if end:
                self._tell(wire.SPENT, case.number, 0, bytes(told[:end]))
                del told[:end]

    def _finish(self, case: RunningCase, status: int) -> None:
        for descriptor in case.received:
            if self._pipes.pop(descriptor, None):
                self._poll.unregister(descriptor)
        case.close_pipes(self._hello["max_bytes"])
        self._kill_strays(case.process_id)
        if case.folder:
            # Another case gets the folder, unless an orphan is alive that may write to it.
            if not self._strays:
                self._left_folders.append(case.folder)
            else:
                processes.remove_case_folder(case.folder)
        self._tell_spends(case)
        if case in self._idle:
            self._idle.remove(case)
        # The client of a cancelled system still waits for the last that it has spent.
        if case.number and (self._hello["target"] or not case.is_cancelled):
            is_script = self._hello["is_script"]
            what, body = case.outcome(
                status, self._hello["max_bytes"], is_script=is_script
            )
            self._tell(what, case.number, status, body)

    def _kill_strays(self, ended: int) -> None:
        """Kill the orphans that no running case can have started."""
        running = set(self._running)
        while True:
            found = set(processes.children()) - running - self._own_children
            strays = {
                each: self._strays.get(each, running | {ended}) & running
                for each in found
            }
            self._strays = strays
            guilty = [each for each, suspects in strays.items() if not suspects]
            for each in guilty:
                processes.kill_and_wait(each)
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
                self._outgoing.clear()  # the client is gone, as the next poll reports
            wanted = select.POLLIN | (select.POLLOUT if self._outgoing else 0)
            self._poll.modify(self._control, wanted)


def serve(descriptor: int) -> NoReturn:
    """Serve the client at the other end of a socket until it disconnects."""
    processes.prefer_as_oom_victim()
    control = socket.socket(fileno=descriptor)
    head = control.recv(wire.REQUEST.size, socket.MSG_WAITALL)
    hello = json.loads(control.recv(wire.REQUEST.unpack(head)[-1], socket.MSG_WAITALL))
    server = Server(control, hello)
    try:
        if server.load():
            control.settimeout(0)
            server.serve()
    finally:
        server.close()
        # Skip the exit handlers and threads of the rubric.
        os._exit(0)


def run_one() -> NoReturn:
    """Run the one case that stdin gives in this very process, and answer on stdout."""
    given = sys.stdin.buffer
    head = given.read(wire.REQUEST.size)
    hello = json.loads(given.read(wire.REQUEST.unpack(head)[-1]))
    body = given.read()
    output, spends = os.dup(1), os.dup(2)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    verdict = child.Verdict(output, bytes(wire.TOKEN_BYTES), capture())
    try:
        if hello["target"]:
            call = load_target(hello["target"], hello["path"])
            child.run_system(verdict, call, body, spends=spends, requests=None)
        child.settle(f"{hello['folder']}/1")
        processes.limit_process(processes.limits_of_case(hello["memory_mb"], 0))
        child.grade(verdict, None, hello["rubric"], body)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the case's result
        verdict.give(wire.RAISED, child.describe(error))
