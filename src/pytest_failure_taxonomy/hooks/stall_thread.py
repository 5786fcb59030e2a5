"""Find stalls inside pytest: no progress, and threads that keep it from ending.

Where no other process can look at it from outside (macOS and Windows) a thread looks
from inside. It needs the GIL, so it can't see that Python is frozen, and since Python
3.12 a fork warns of threads; so there is none where it isn't needed. Nothing here runs
for a test.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

# Bound here, because a test may replace them in their module and never put them back.
from time import monotonic_ns, process_time
from typing import TYPE_CHECKING, Final

import pytest

from pytest_failure_taxonomy.survive.layout import DEBUGGER_AT
from pytest_failure_taxonomy.survive.start_watcher import StalledRun, find_terminal
from pytest_failure_taxonomy.taxonomy.values import replace

if TYPE_CHECKING:
    from pytest_failure_taxonomy.hooks.session import SessionRecorder
    from pytest_failure_taxonomy.survive.facts import Observed
    from pytest_failure_taxonomy.taxonomy.evidence import StallState

_IDLE_SHARE: Final = 0.01
"""The most CPU time of a process that is blocked, as a share of one core."""
_TURNS: Final = 4
"""Looks in a row at which something has to be busy that was blocked before."""
_END_SECONDS: Final = 1.0
"""How long pytest waits at its end for a report that is being rewritten."""


def record_left_threads(
    session: SessionRecorder, rootdir: Path, redact: Callable[[str], str]
) -> None:
    """Record threads that keep the interpreter from ending, and what they do."""
    # Past the properties: a class of the user's may have others.
    threads = [vars(thread) for thread in threading.enumerate()]
    others = {threading.get_ident(), threading.main_thread().ident}
    left = {values["_ident"]: values for values in threads if not values["_daemonic"]}
    if left.keys() <= others:
        return
    from pytest_failure_taxonomy.survive.reader import LeftThread
    from pytest_failure_taxonomy.survive.stalls.stacks import current_frames_stacks

    stacks = current_frames_stacks(without=others)
    for thread in () if stacks is None else stacks.threads:
        if attributes := left.get(thread.thread_id):
            place = thread.own_place(rootdir)
            left_thread = LeftThread(
                native_id=attributes["_native_id"],
                name=redact(attributes["_name"]),
                place=None if place is None else redact(f"{place.path}:{place.line}"),
                nodeid=session.ledger.starter_of(attributes["_native_id"]),
            )
            session.log.write("thread", thread=left_thread)


class StallThread(StalledRun):
    """The same plugin with a thread that looks at the run now and then."""

    def __init__(
        self,
        config: pytest.Config,
        session: SessionRecorder,
        seconds: float,
        place: tuple[Path, str],
    ) -> None:
        """Prepare to look.

        Args:
            config: of the run.
            session: has its tests, its record and its secrets.
            seconds: after how long without progress something is stalled.
            place: the path of the run's report, which is written anew with what is
                stalled, and the run's id.
        """
        super().__init__(config, session.record, ends=False)
        self._seconds = seconds
        self._progress = session.progress
        self._rootdir = config.rootpath
        self._redact = session.secrets.redact
        self._terminal = find_terminal(config)
        self._report, self._run_id = place
        self._is_over = threading.Event()
        self._looking = threading.Lock()
        self._observed: Observed | None = None
        self._turns = 0

    def start(self) -> None:
        """Start the thread, which never keeps the process from ending."""
        threading.Thread(
            target=self._run,
            name="failure-taxonomy",
            daemon=True,
        ).start()

    def stop(self) -> Observed | None:
        """End the thread; return what was stalled when it last looked."""
        self._is_over.set()
        if self._looking.acquire(timeout=_END_SECONDS):
            self._looking.release()
        return self._observed

    def _run(self) -> None:
        from pytest_failure_taxonomy.survive.stalls.detect import period_of

        wait = period_of(self._seconds)
        before: object = None
        began_ns = since_ns = last_ns = monotonic_ns()
        cpu_seconds = process_time()
        while not self._is_over.wait(wait):
            with self._looking, suppress(Exception):  # the user's run goes on
                if self._is_over.is_set():
                    return
                page = self._record.page()
                position = self._progress.position(), page
                now_ns = monotonic_ns()
                # What passed beyond the wait does not count: this process was stopped,
                # say.
                since_ns += max(0, now_ns - last_ns - int(wait * 1e9))
                last_ns = now_ns
                used = process_time() - cpu_seconds
                cpu_seconds += used
                if position != before or page[DEBUGGER_AT]:
                    # What was stalled stays told: a Ctrl+C is progress, too, and a test
                    # that goes on is not in flight at the end.
                    before = position
                    began_ns = now_ns
                    since_ns = now_ns
                elif now_ns - since_ns >= self._seconds * 1e9:
                    is_idle = used <= wait * _IDLE_SHARE
                    self._look(
                        began_ns, now_ns - since_ns, "blocked" if is_idle else "busy"
                    )

    def _look(self, began_ns: int, lasts_ns: int, state: StallState) -> None:
        """Look closely, and tell of it at 1, 2, 4, 8 … times the limit.

        Raises:
            OSError, ReportError: if it can't be written.
        """
        from pytest_failure_taxonomy.report.build import MAX_TRACEBACK
        from pytest_failure_taxonomy.survive import observed
        from pytest_failure_taxonomy.survive.complete import write_running
        from pytest_failure_taxonomy.survive.facts import Observed
        from pytest_failure_taxonomy.survive.reader import (
            parse_record,
            parse_worker,
            read_contents,
        )
        from pytest_failure_taxonomy.survive.stalls.detect import times_of_limit
        from pytest_failure_taxonomy.survive.stalls.inspect import line_of_its_own
        from pytest_failure_taxonomy.survive.stalls.stacks import current_frames_stacks
        from pytest_failure_taxonomy.taxonomy.evidence import SeenStall, Stall
        from pytest_failure_taxonomy.text import safe_text

        test = next(reversed(self._progress.in_flight()), None)
        activity = None
        if test is None:
            activity = parse_worker(self._record.page()).activity
        stacks = current_frames_stacks(without={threading.get_ident()})
        if stacks is None or (test is None and activity is None):
            return
        where = stacks.where(self._rootdir)
        if where is not None and where.startswith("input ("):  # it waits for the user
            return
        last = None if self._observed is None else self._observed.stalls[-1]
        if last is None or last.began_ns != began_ns:
            last = None
            self._turns = 0
        if last is not None and last.stall.state == "blocked" and state == "busy":
            self._turns += 1
            if self._turns < _TURNS:  # pytest formats the traceback of a Ctrl+C, say
                return
        stall = SeenStall(
            what="test" if activity is None else activity.what,
            stall=Stall(
                state=state,
                seconds=round(lasts_ns / 1e9, 3),
                where=where and self._redact(where),
                stack=self._redact(stacks.text(MAX_TRACEBACK)),
                location=stacks.main.own_place(self._rootdir),
            ),
            began_ns=began_ns,
            seen_ns=monotonic_ns(),
            nodeid=None if test is None else test.nodeid,
            phase=None if test is None else test.phase,
            name=None if activity is None else activity.name,
            told=0 if last is None else last.told,
        )
        times = times_of_limit(stall.stall.seconds, self._seconds)
        is_news = state != "busy" and stall.told < times
        stalls = (replace(stall, told=times) if is_news else stall,)
        self._observed = Observed(stalls=stalls)
        if not is_news:
            return
        # Into the record, and into the report of the running run.
        if self._record.folder is not None:
            with self._record.opened() as folder:
                observed.write_observed(
                    folder, observed.encode_observed(self._observed)
                )
                run = parse_record(*read_contents(folder), self._run_id, "the record")
                write_running(self._report, run, folder, self._observed)
        if self._terminal is not None and os.getpid() == self._process_id:
            descriptor, is_coloured = self._terminal
            line = safe_text(self._redact(observed.words_of_stall(stall)))
            os.write(descriptor, line_of_its_own(line, is_coloured=is_coloured))
