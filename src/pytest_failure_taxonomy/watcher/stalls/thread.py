"""See stalls from inside of pytest, on systems where no other process can: macOS and Windows.

Elsewhere the watcher looks from outside. A thread needs the GIL, so it can't see that Python is
frozen, and since Python 3.12 a fork warns of threads; so there is none where it isn't needed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.record.observed import (
    Observed,
    encode_observed,
    times_of_limit,
    words_of_subject,
    write_observed,
)
from pytest_failure_taxonomy.record.read import (
    LeftThread,
    parse_record,
    parse_worker,
    read_contents,
)
from pytest_failure_taxonomy.record.write import DiskRecord, Record
from pytest_failure_taxonomy.recorder.progress import Progress
from pytest_failure_taxonomy.report.limits import MAX_TRACEBACK
from pytest_failure_taxonomy.report.text import safe_text
from pytest_failure_taxonomy.report.write import write_report
from pytest_failure_taxonomy.taxonomy.evidence import (
    ProcessExit,
    SeenStall,
    Stall,
    StallState,
)
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.taxonomy.words import words_at
from pytest_failure_taxonomy.watcher.stalls.in_pytest import Terminal
from pytest_failure_taxonomy.watcher.stalls.terminal_line import line_of_its_own

_LOOKS: Final = 8
"""Looks within the limit; not more often than four times a second, nor less than every 5 s."""
_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.25, 5.0
_IDLE_SHARE: Final = 0.01
"""The most CPU time of a process that is blocked, as a share of one core."""
_TURNS: Final = 4
"""Looks in a row at which something has to be busy that was blocked before."""
_END_SECONDS: Final = 1.0
"""How long pytest waits at its end for a report that is being rewritten."""


class StallThread:
    """A plugin with a thread that looks at the run now and then; nothing of it runs for a test."""

    def __init__(
        self,
        seconds: float,
        progress: Progress,
        record: Record,
        *,
        rootdir: Path,
        redact: Callable[[str], str],
        terminal: Terminal | None,
        publish: Callable[[Observed], None],
    ) -> None:
        """Prepare to look.

        Args:
            seconds: after how long without progress something is stalled.
            progress: of the tests.
            record: has what is collected, and the hook that is called.
            rootdir: of the run.
            redact: removes secrets from a text.
            terminal: where the user reads; `None` to print nothing.
            publish: called with what is stalled, to write it down at once.
        """
        self._seconds = seconds
        self._progress = progress
        self._record = record
        self._rootdir = rootdir
        self._redact = redact
        self._terminal = terminal
        self._publish = publish
        self._clock = time.monotonic_ns
        self._cpu_clock = time.process_time
        self._process_id = os.getpid()
        self._ended = threading.Event()
        self._looking = threading.Lock()
        self._in_debugger = False
        self._observed = Observed()
        self._turns = 0

    def start(self) -> None:
        """Start the thread, which never keeps the process from ending."""
        threading.Thread(target=self._run, name="failure-taxonomy", daemon=True).start()

    def stop(self) -> Observed:
        """End the thread; return what was stalled when it last looked."""
        self._ended.set()
        if self._looking.acquire(timeout=_END_SECONDS):
            self._looking.release()
        return self._observed

    def pytest_enter_pdb(self) -> None:
        """Look away while a debugger waits for the user."""
        self._in_debugger = True

    def pytest_leave_pdb(self) -> None:
        """Look again."""
        self._in_debugger = False

    def _run(self) -> None:
        wait = min(max(self._seconds / _LOOKS, _SHORTEST_SECONDS), _LONGEST_SECONDS)
        before: object = None
        began_ns = since_ns = last_ns = self._clock()
        cpu_seconds = self._cpu_clock()
        while not self._ended.wait(wait):
            with self._looking, suppress(Exception):  # the user's run goes on
                if self._ended.is_set():
                    return
                position = self._progress.position(), self._record.page()
                now_ns = self._clock()
                # What passed beyond the wait does not count: this process was stopped, say.
                since_ns += max(0, now_ns - last_ns - int(wait * 1e9))
                last_ns = now_ns
                used = self._cpu_clock() - cpu_seconds
                cpu_seconds += used
                if position != before or self._in_debugger:
                    # What was stalled stays told: a Ctrl+C is progress, too, and a test that goes
                    # on is not in flight at the end.
                    before, began_ns, since_ns = position, now_ns, now_ns
                elif now_ns - since_ns >= self._seconds * 1e9:
                    is_idle = used <= wait * _IDLE_SHARE
                    self._look(began_ns, now_ns - since_ns, "blocked" if is_idle else "busy")

    def _look(self, began_ns: int, lasts_ns: int, state: StallState) -> None:
        """Look closely, and tell of it at 1, 2, 4, 8 … times the limit."""
        from pytest_failure_taxonomy.watcher.stalls.stacks import current_frames_stacks

        test = next(reversed(self._progress.in_flight()), None)
        activity = parse_worker(self._record.page()).activity
        stacks = current_frames_stacks(without=(threading.get_ident(),))
        where = None if stacks is None else stacks.where(self._rootdir)
        if stacks is None or (test is None and activity is None):
            return
        if where is not None and where.startswith("input ("):  # it waits for the user
            return
        last = self._observed.stalls[-1] if self._observed.stalls else None
        if last is None or last.began_ns != began_ns:
            last, self._turns = None, 0
        if last is not None and last.stall.state == "blocked" and state == "busy":
            self._turns += 1
            if self._turns < _TURNS:  # pytest formats the traceback of a Ctrl+C, say
                return
        seen = SeenStall(
            what="test" if activity is None or test is not None else activity.what,
            stall=Stall(
                state=state,
                seconds=round(lasts_ns / 1e9, 3),
                where=where and self._redact(where),
                stack=self._redact(stacks.text(MAX_TRACEBACK)),
                location=stacks.own_place(self._rootdir),
            ),
            began_ns=began_ns,
            seen_ns=self._clock(),
            nodeid=None if test is None else test.nodeid,
            phase=None if test is None else test.phase,
            name=None if activity is None or test is not None else activity.name,
            told=0 if last is None else last.told,
        )
        times = times_of_limit(seen, self._seconds)
        is_news = state != "busy" and seen.told < times
        self._observed = Observed(stalls=(replace(seen, told=times) if is_news else seen,))
        if is_news:
            self._publish(self._observed)
        if is_news and self._terminal is not None and os.getpid() == self._process_id:
            words = f"{words_of_subject(seen)} {words_at(state, seen.stall.where)}"
            line = f"stalled {seen.stall.seconds:.0f} s: {safe_text(self._redact(words))}"
            shown = line_of_its_own(line, is_coloured=self._terminal.is_coloured)
            os.write(self._terminal.descriptor, shown)


def record_left_threads(record: Record, rootdir: Path, redact: Callable[[str], str]) -> None:
    """Record the threads that keep the interpreter from ending, and what they are at."""
    from pytest_failure_taxonomy.watcher.stalls.stacks import (
        current_frames_stacks,
        own_place_of_thread,
    )

    # Past the properties: a class of the user's may have others.
    left = {vars(thread)["_ident"]: vars(thread) for thread in threading.enumerate()}
    stacks = current_frames_stacks(without=(threading.get_ident(), threading.main_thread().ident))
    for thread in () if stacks is None else stacks.threads:
        known = left.get(thread.thread_id)
        if known is not None and not known["_daemonic"]:
            place = own_place_of_thread(thread, rootdir)
            seen = LeftThread(
                native_id=known["_native_id"],
                name=redact(known["_name"]),
                place=None if place is None else redact(f"{place.path}:{place.line}"),
            )
            record.write("thread", thread=seen)


def publish(record: Record, run_id: str, path: Path, observed: Observed) -> None:
    """Write what is stalled into the record, and the report of the running run anew.

    Raises:
        OSError, ReportError: if that is not possible.
    """
    if not isinstance(record, DiskRecord):
        return
    from pytest_failure_taxonomy.watcher.complete import ProcessEnd, reconstruct

    with record.opened() as folder:
        write_observed(folder, encode_observed(observed))
        run = parse_record(*read_contents(folder), run_id, "the record")
        seen = ProcessEnd(exit=ProcessExit(code=None, source="none"), ended_ns=time.monotonic_ns())
        write_report(path, reconstruct(run, folder, seen, observed, completeness="running"))
