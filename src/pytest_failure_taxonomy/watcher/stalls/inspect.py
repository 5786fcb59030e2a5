"""Look closely at what makes no progress, and say so: in the record, the report, on the terminal.

`detect` has found it. The work is done in a process of its own, which ends afterwards, so that
the watcher stays small. Whatever can't be read or written is left out: the user's run goes on.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.record import layout
from pytest_failure_taxonomy.record.layout import PAGE, record_folder, worker_of
from pytest_failure_taxonomy.record.observed import (
    encode_observed,
    parse_observed,
    stalled_activities,
    times_of_limit,
    words_of_subject,
    write_observed,
)
from pytest_failure_taxonomy.record.read import has_ended, parse_record, parse_worker
from pytest_failure_taxonomy.record.rebuild import limits_of_test
from pytest_failure_taxonomy.recorder.secrets import Secrets
from pytest_failure_taxonomy.report.build import with_stalls_at_end
from pytest_failure_taxonomy.report.limits import MAX_TRACEBACK
from pytest_failure_taxonomy.report.text import safe_text
from pytest_failure_taxonomy.report.write import write_report
from pytest_failure_taxonomy.system.files import open_folder
from pytest_failure_taxonomy.system.proc import fields_of, read, start_of
from pytest_failure_taxonomy.taxonomy.evidence import SeenStall, Stall, StallState
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.taxonomy.words import words_at
from pytest_failure_taxonomy.watcher.complete import LOCK_SECONDS, read_report, write_running
from pytest_failure_taxonomy.watcher.lock import ReportLock, held_record
from pytest_failure_taxonomy.watcher.stalls.detect import (
    POLLING_LIMITS,
    Unit,
    state_of,
)
from pytest_failure_taxonomy.watcher.stalls.other_process import (
    NoStacksError,
    children_of,
    is_gil_held,
    print_on_terminal,
    read_stacks,
    send_signal,
    waits_for_input,
)
from pytest_failure_taxonomy.watcher.stalls.stacks import Stacks

GRACE_SECONDS: Final = 5.0
"""How long a stalled pytest may take to end its session before it is killed."""

_POLL_SECONDS: Final = 0.02
MAX_NOTES: Final = 3
_DEBUGGERS: Final = ("bdb.py", "pdb.py", "pydevd.py", "pydevd_bundle", "debugpy", "pudb")
"""Files and folders of debuggers, at which a thread waits for the user."""


def _key(stall: SeenStall) -> tuple[object, ...]:
    return stall.what, stall.worker, stall.nodeid, stall.phase


class StallInspection:
    """One close look at a run."""

    def __init__(
        self,
        report: str,
        run_id: str,
        contents: Sequence[bytes],
        settings: Mapping[str, str],
        now_ns: int,
        said: int,
    ) -> None:
        """Read what was recorded.

        Args:
            report: the path of the report.
            run_id: the run.
            contents: of the record's two files.
            settings: of the watcher.
            now_ns: when it was seen that something makes no progress, on the monotonic clock.
            said: a descriptor with what was observed before, and for what is observed now.
        """
        self._state, events = contents
        run = parse_record(self._state, events, run_id, "the record")
        self._before = parse_observed(os.pread(said, os.fstat(said).st_size, 0))
        self._said = said
        self._notes: list[str] = []
        self._now_ns = now_ns
        self._settings = settings
        self._limit_seconds = float(settings["seconds"])
        self._is_program = settings.get("program") == "1"
        """Nothing is to come after pytest in its process."""
        self._report = Path(report)
        self._run = run
        self._folder = record_folder(self._report, run_id)
        self._rootdir = Path(run.header.context.rootdir)
        self._secrets = Secrets(run.header.redact)
        self._main = run.header.process.pid
        self._tells_work = bool(
            layout.READER.unpack_from(self._state, layout.READER_AT)[3] & layout.TELLS_WORK
        )

    def look(self, units: Sequence[Unit], *, keeps: bool) -> None:
        """Look at what makes no progress, and tell of it.

        Args:
            units: the processes that made no progress for the whole limit.
            keeps: what was observed before stays so: it may not have ended, but have been
                interrupted.
        """
        subjects = [(unit, self._subject_of(unit)) for unit in units]
        seen = [self._stall(unit, each) for unit, each in subjects if each is not None]
        if not self._is_alive():  # what was seen last is what it died of
            raise ProcessLookupError(self._main)
        stalls = found = [each for each in seen if each is not None]
        if keeps or self._run.named("interruption"):
            known = {_key(each) for each in self._before.stalls}
            stalls = [*self._before.stalls, *(each for each in found if _key(each) not in known)]
        self._keep(stalls)
        stalls = [self._tell(each) for each in stalls]
        self._keep(stalls, writes_report=False)
        if self._settings.get("ends") == "1":
            self._end(stalls, found, units)

    def _keep(self, stalls: Sequence[SeenStall], *, writes_report: bool = True) -> None:
        """Write what is observed into the record, and the report of the running run anew."""
        notes = tuple(f"no stack of what is stalled: {why}" for why in dict.fromkeys(self._notes))
        observed = replace(self._before, stalls=tuple(stalls), notes=notes[:MAX_NOTES])
        encoded = encode_observed(observed)
        os.ftruncate(self._said, 0)
        os.pwrite(self._said, encoded, 0)
        if self._run.exit_code is None:
            with (
                suppress(OSError, ReportError),
                open_folder(self._folder) as folder,
                held_record(folder, LOCK_SECONDS) as is_held,
            ):
                is_on = self._is_alive() and not has_ended(folder.read(layout.STATE, PAGE))
                if is_held and is_on:  # pytest still runs its session
                    write_observed(folder, encoded)
                    report = self._own_report() if writes_report else None
                    if report is not None and report["completeness"] == "running":
                        write_running(self._report, self._run, folder, observed)
            return
        # What keeps the interpreter from ending is added to the report of the session. The record
        # is gone by now, and a later run may be about to write to the same path.
        lock = ReportLock(self._report)
        seen = stalled_activities(observed, None, is_over=True)
        is_told = any(each.stall.state != "busy" for each in seen)
        with suppress(OSError):
            if is_told and lock.acquire():
                report = self._own_report()
                if report is not None:
                    write_report(self._report, with_stalls_at_end(report, seen))
        lock.release()

    def _own_report(self) -> dict[str, Any] | None:
        """Return the report of this run as it is now, unless something else is in its place."""
        report = read_report(self._report)
        is_ours = report is not None and report["run"]["id"] == self._run.header.run_id
        return report if is_ours else None

    def _tell(self, stall: SeenStall) -> SeenStall:
        """Print a line on the user's terminal at 1, 2, 4, 8 … times the limit.

        What works is told from twice the limit on, where that is wanted.
        """
        state, seconds = stall.stall.state, stall.stall.seconds
        times = times_of_limit(stall, self._limit_seconds)
        if stall.told >= times or (state == "busy" and (times == 1 or not self._tells_work)):
            return stall
        what, place = words_of_subject(stall), stall.place
        if state in ("polling", "busy"):
            begin = "polling for" if state == "polling" else "still running"
            self._print(f"{begin} {seconds:.0f} s: {what}" + (f", {place}" if place else ""))
        else:
            words = words_at(state, stall.stall.where)
            self._print(f"stalled {seconds:.0f} s: {what} {words}")
        return replace(stall, told=times)

    def _print(self, line: str) -> None:
        shown = safe_text(self._secrets.redact(line))
        print_on_terminal(self._main, self._state, shown)

    def _end(self, stalls: list[SeenStall], found: list[SeenStall], units: Sequence[Unit]) -> None:
        """End what was found to be stalled: a worker by itself, or else the run."""
        by_worker = {worker_of(unit.name) if unit.name else None: unit for unit in units}
        keys = {_key(each) for each in found if self._is_to_end(each, by_worker[each.worker])}
        mine = [each for each in stalls if _key(each) in keys]
        if not mine:
            return
        others = [each for each in stalls if _key(each) not in keys]
        ended = [replace(each, stall=replace(each.stall, is_ended=True)) for each in mine]
        self._keep([*others, *ended])
        for each in mine:
            self._print(f"ended: {words_of_subject(each)} (--failure-taxonomy-end-stalled)")
        tests = [each for each in mine if each.worker is not None and each.what == "test"]
        for each in tests:
            send_signal(by_worker[each.worker].identity, signal.SIGKILL)
        others = [each for each in mine if each not in tests]
        if any(each.worker is None and each.what == "session" for each in others) and (
            self._end_workers()
        ):
            return  # it waits for them, and goes on now
        if others:
            # xdist would start a new worker for one that hangs outside of a test, and that one
            # would hang, too.
            is_frozen = any(each.worker is None and each.stall.state == "frozen" for each in others)
            self._end_run(is_frozen=is_frozen)
            self._end_workers()

    def _is_to_end(self, stall: SeenStall, unit: Unit) -> bool:
        """Tell whether a stall is to be ended.

        Not so what works, what may have begun to, and a test that somebody else is going to end.
        What polls is to have done so at one place, at two looks at least.
        """
        state = stall.stall.state
        if state == "busy" or stall.seen_ns != self._now_ns:
            return False
        limits = limits_of_test(
            stall.nodeid or "",
            elapsed_seconds=(self._now_ns - stall.began_ns) / 1e9,
            ended_ns=self._now_ns,
            timer=parse_worker(self._page_of(unit.name)).timer,
            faulthandler_seconds=self._run.header.faulthandler_exit_seconds,
        )
        if stall.what == "test" and any(
            (each.elapsed_seconds or 0.0) < each.budget_seconds + GRACE_SECONDS for each in limits
        ):
            return False
        before = self._seen_before(stall)
        return state != "polling" or (
            before is not None
            and before.stall.where == stall.stall.where
            and stall.stall.seconds >= POLLING_LIMITS * self._limit_seconds
        )

    def _end_workers(self) -> bool:
        """End all xdist workers that still run; tell whether there were any."""
        found = []
        for name in self._workers():
            page = self._page_of(name)
            if len(page) == PAGE:
                started, process_id = layout.PROCESS.unpack_from(page, layout.PROCESS_AT)
                if start_of(process_id) == started:
                    found.append((process_id, started))
        for identity in found:
            send_signal(identity, signal.SIGKILL)
        return bool(found)

    def _end_run(self, *, is_frozen: bool) -> None:
        """End pytest: by its own signal where it can react to that, or else by SIGKILL."""
        process = self._run.header.process
        identity = process.pid, process.start_ticks or 0
        number = self._state[layout.END_SIGNAL_AT]
        was_ended = any(each.stall.is_ended and each.worker is None for each in self._before.stalls)
        if number and not is_frozen and not was_ended:
            deadline = time.monotonic() + GRACE_SECONDS
            before = self._page_of()
            send_signal(identity, number)
            while time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
                # Where it begins to end, it is let be; if it stalls again, it is killed.
                if not self._is_alive() or self._page_of() != before:
                    return
        send_signal(identity, signal.SIGKILL)

    def _subject_of(self, unit: Unit) -> SeenStall | None:
        """Return what a process is at, as a stall of which no more is known.

        It is `None` if the process need not make progress.
        """
        run = self._run
        nothing = Stall(state="blocked", seconds=0.0, where=None, stack=None)
        seen = SeenStall(
            what="session",
            stall=nothing,
            began_ns=unit.began_ns,
            seen_ns=self._now_ns,
            worker=worker_of(unit.name) if unit.name else None,
        )
        activity = run.activity
        test = max(run.in_flight, key=lambda test: test.start_ns, default=None)
        if unit.name:
            worker = parse_worker(self._page_of(unit.name))
            test, activity = worker.test, worker.activity
            if test is None and activity is None:
                return None
        elif run.exit_code is not None:
            name = None if activity is None else activity.name
            return replace(seen, what="shutdown", name=name) if self._is_program else None
        elif any(self._workers()) and (activity is None or activity.what != "session"):
            return replace(seen, what="controller")
        if test is not None:
            return replace(seen, what="test", nodeid=test.nodeid, phase=test.phase)
        if activity is not None:
            return replace(seen, what=activity.what, name=activity.name)
        return replace(seen, what="collection") if len(run.not_run) == len(run.nodeids) else seen

    def _page_of(self, worker: str = "") -> bytes:
        """Return the numbers of a worker's record, by the name of its folder, or of pytest's."""
        return read(str(self._folder / worker / layout.STATE), PAGE)

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
        before = self._seen_before(subject)
        seen = state_of([*unit.movements, unit.look(time.monotonic_ns())])
        state = cast("StallState", seen)
        if fields_of(process_id)[:1] == [b"T"]:
            state = "frozen"
        # One that is at work, or stopped, must not be asked for them.
        stacks = self._stacks_of(unit, asks=state in ("blocked", "polling"))
        threads = () if stacks is None else stacks.threads
        paths = [frame.path for thread in threads for frame in thread.frames]
        if any(f"/{name}" in path for path in paths for name in _DEBUGGERS):
            return None
        # A thread that has to wait for the GIL looks for it every 5 ms.
        if state in ("blocked", "polling"):
            is_held = is_gil_held(process_id)
            if is_held is None and _has_owner(stacks):
                time.sleep(_POLL_SECONDS)
                is_held = _has_owner(self._stacks_of(unit, asks=False))
            state = "frozen" if is_held else state
        if state in ("blocked", "frozen") and unit.look(time.monotonic_ns()).runs:
            state = "busy"
        is_settled = seen == unit.settled and (state == "busy") == (seen == "busy")
        if not is_settled and before is not None and before.stall.state != "busy":
            return before  # it works for a moment only, maybe because it is about to end
        if before is not None and stacks is None and state == before.stall.state:
            place, known = before.place, before.stall
        else:
            place, known = self._place(subject, stacks)
        children: tuple[str, ...] = ()
        with suppress(Exception):  # the state alone is told, then
            children = children_of(process_id, self._secrets.redact_arguments)
        stall = replace(
            known,
            state=state,
            seconds=round((self._now_ns - unit.since_ns) / 1e9, 3),
            children=children,
            others_move=unit.others_move,
        )
        return replace(subject, stall=stall, place=place, told=before.told if before else 0)

    def _place(self, subject: SeenStall, stacks: Stacks | None) -> tuple[str | None, Stall]:
        """Return where something is stalled, in words, and the stall with that."""
        rootdir = self._rootdir
        where = place = stack = location = None
        if stacks is not None:
            where, stack = stacks.where(rootdir), stacks.text(MAX_TRACEBACK)
            place, location = stacks.own_call(rootdir) or where, stacks.main.own_place(rootdir)
        if subject.what == "shutdown":
            # The thread that keeps the interpreter from ending, and what it was last seen at.
            for thread in self._run.named("thread"):
                if fields_of(f"{self._main}/task/{thread.native_id}"):
                    at = f", {thread.place}" if thread.place else ""
                    where = place = f"waits for thread {thread.name}{at}"
                    break
            else:
                place = where
        where, place, stack = (
            text and self._secrets.redact(text) for text in (where, place, stack)
        )
        return place, replace(subject.stall, where=where, stack=stack, location=location)

    def _seen_before(self, subject: SeenStall) -> SeenStall | None:
        wanted = subject.what, subject.worker, subject.began_ns
        for each in self._before.stalls:
            if (each.what, each.worker, each.began_ns) == wanted:
                return each
        return None

    def _stacks_of(self, unit: Unit, *, asks: bool) -> Stacks | None:
        page = self._page_of(unit.name)
        number = page[layout.DUMP_SIGNAL_AT] if len(page) == PAGE and asks else 0
        dump = self._folder / unit.name / layout.ASKED
        try:
            return read_stacks(unit.identity[0], dump, number)
        except NoStacksError as error:
            self._notes.append(safe_text(str(error)))
        except Exception as error:  # noqa: BLE001 - the state alone is told, then
            self._notes.append(type(error).__name__)
        return None

    def _is_alive(self) -> bool:
        process = self._run.header.process
        return start_of(process.pid) == (process.start_ticks or 0)


def _has_owner(stacks: Stacks | None) -> bool:
    """Tell whether a thread owns the GIL, as far as the stacks say so."""
    return stacks is not None and any(thread.owns_gil for thread in stacks.threads)
