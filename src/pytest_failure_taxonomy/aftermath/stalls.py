"""Look closely at what makes no progress, and say so: in the record, the report, on the terminal.

`standstill` has found it. The work is done in a process of its own, which ends afterwards, so that
the watcher stays small. Whatever can't be read or written is left out: the user's run goes on.
"""

from __future__ import annotations

import os
import shlex
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from pytest_failure_taxonomy.aftermath.complete import ProcessEnd, read_report, reconstruct
from pytest_failure_taxonomy.aftermath.lock import held_record
from pytest_failure_taxonomy.aftermath.stack_reading import children_of, read_stacks
from pytest_failure_taxonomy.aftermath.stacks import Stacks
from pytest_failure_taxonomy.aftermath.standstill import (
    ENDING_SECONDS,
    IDLE_SHARE,
    PROCESS,
    PROCESS_AT,
    Unit,
    fields_of,
    read_page,
    start_of,
    ticks_of,
)
from pytest_failure_taxonomy.aftermath.terminal_line import print_on_terminal
from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.recorder.record.layout import (
    ASKED,
    DUMP_SIGNAL_AT,
    END_SIGNAL_AT,
    PAGE,
    record_folder,
    worker_of,
)
from pytest_failure_taxonomy.recorder.record.observed import (
    Observed,
    ObservedStall,
    encode_observed,
    parse_observed,
    write_observed,
)
from pytest_failure_taxonomy.recorder.record.reader import (
    RecordedRun,
    StartedActivity,
    StartedTest,
    has_ended,
    parse_record,
    parse_worker,
)
from pytest_failure_taxonomy.recorder.secrets import Secrets
from pytest_failure_taxonomy.report.limits import MAX_TRACEBACK
from pytest_failure_taxonomy.report.text import safe_text
from pytest_failure_taxonomy.report.write import write_report
from pytest_failure_taxonomy.system.gil import is_gil_held
from pytest_failure_taxonomy.system.own_files import Folder, open_folder
from pytest_failure_taxonomy.system.process import descendants
from pytest_failure_taxonomy.taxonomy.evidence import Activity, ProcessExit, Stall, StallState
from pytest_failure_taxonomy.taxonomy.values import replace, value

LOCK_SECONDS: Final = 1.0
GRACE_SECONDS: Final = 5.0
"""How long a stalled pytest may take to end its session before it is killed."""

_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.25, 1.0
"""How long the CPU time of the child processes is watched."""
_POLL_SECONDS: Final = 0.02
MAX_NOTES: Final = 3
_DEBUGGERS: Final = ("bdb.py", "pdb.py", "pydevd.py", "pydevd_bundle", "debugpy", "pudb")
"""Files and folders of debuggers, at which a thread waits for the user."""
_TERMINALS: Final = ("/dev/pts/", "/dev/tty", "/dev/console")
_READS: Final = {"x86_64": (0, (23, 270, 7, 271)), "aarch64": (63, (72, 73))}
"""By machine: the numbers of the system calls `read`, and `select`, `pselect6`, `poll`, `ppoll`."""

_WORDS: Final[dict[Activity, str]] = {
    "collection": "the collection",
    "session": "the end of the session",
    "shutdown": "the interpreter's end",
    "controller": "xdist's controller",
}


@value
class Watched:
    """What the watcher knows of a run."""

    report: Path
    run_id: str
    contents: tuple[bytes, bytes]
    """Of the record's two files."""
    limit_seconds: float
    ends_stalled: bool
    """End what is blocked or frozen."""
    is_program: bool
    """Nothing is to come after pytest in its process."""


@value
class _Subject:
    """What is looked at."""

    what: Literal["test"] | Activity
    test: StartedTest | None = None
    name: str | None = None


def look_for_watcher(
    report: str,
    run_id: str,
    contents: Sequence[bytes],
    settings: Mapping[str, str],
    units: Sequence[Unit],
    said: int,
    *,
    keeps: bool,
) -> bool:
    """Look for the watcher, which hands over the descriptor `said` for what is observed.

    With `keeps`, what was observed before stays so.

    Returns:
        Whether to look again soon.
    """
    state, events = contents
    watched = Watched(
        report=Path(report),
        run_id=run_id,
        contents=(state, events),
        limit_seconds=float(settings["seconds"]),
        ends_stalled=settings.get("ends") == "1",
        is_program=settings.get("program") == "1",
    )
    before = os.pread(said, os.fstat(said).st_size, 0)

    def keep(observed: bytes) -> None:
        os.ftruncate(said, 0)
        os.pwrite(said, observed, 0)

    return look_closely(watched, units, before, keep, keeps=keeps)


def look_closely(
    watched: Watched,
    units: Sequence[Unit],
    before: bytes,
    keep: Callable[[bytes], object],
    *,
    keeps: bool,
) -> bool:
    """Look at what makes no progress, and tell of it.

    Args:
        watched: the run.
        units: the processes that made no progress for the whole limit.
        before: what was observed before, as this function has returned it.
        keep: called with what is observed now, before anything is ended because of it.
        keeps: what was observed before stays so: it may not have ended, but have been interrupted.

    Returns:
        Whether to look again soon: a child process is at work.
    """
    run = parse_record(*watched.contents, watched.run_id, "the record")
    look = _Look(watched, run, parse_observed(before), keep)
    stalls = look.at(units)
    if keeps or run.named("interruption"):
        known = {_key(each) for each in look.before.stalls}
        stalls = [*look.before.stalls, *(each for each in stalls if _key(each) not in known)]
    look.keep(stalls)
    stalls = [look.tell(each) for each in stalls]
    if watched.ends_stalled:
        stalls = look.end(stalls, units)
    else:
        look.keep(stalls, writes_report=False)
    return look.is_child_busy


def _key(stall: ObservedStall) -> tuple[object, ...]:
    return stall.what, stall.worker, stall.nodeid, stall.phase


class _Look:
    """One look at a run."""

    def __init__(
        self,
        watched: Watched,
        run: RecordedRun,
        before: Observed,
        keep: Callable[[bytes], object],
    ) -> None:
        self.before = before
        self.is_child_busy = False
        self._keep = keep
        self._notes: list[str] = []
        self._turning: set[str] = set()
        """Processes that were idle until a moment ago."""
        self._watched = watched
        self._run = run
        self._folder = record_folder(watched.report, watched.run_id)
        self._rootdir = Path(run.header.context.rootdir)
        self._secrets = Secrets(run.header.redact)
        self._main = run.header.process.pid

    def at(self, units: Sequence[Unit]) -> list[ObservedStall]:
        """Return what is stalled of some processes."""
        subjects = [(unit, self._subject_of(unit)) for unit in units]
        waiting = [(unit, each) for unit, each in subjects if each is not None]
        states = self._states_of([unit for unit, _ in waiting])
        found = [self._stall(unit, each, states[unit.name]) for unit, each in waiting]
        if not self._is_alive():  # what was seen last is what it died of
            raise ProcessLookupError(self._main)
        return [each for each in found if each is not None]

    def keep(self, stalls: Sequence[ObservedStall], *, writes_report: bool = True) -> None:
        """Write what is observed into the record, and the report of the running run anew."""
        notes = tuple(f"no stack of what is stalled: {why}" for why in dict.fromkeys(self._notes))
        observed = replace(self.before, stalls=tuple(stalls), notes=notes[:MAX_NOTES])
        encoded = encode_observed(observed)
        self._keep(encoded)
        with (
            suppress(OSError, ReportError),
            open_folder(self._folder) as folder,
            held_record(folder, LOCK_SECONDS) as is_held,
        ):
            if is_held and self._goes_on(folder):
                write_observed(folder, encoded)
                if writes_report:
                    self._write_report(folder, observed)

    def tell(self, stall: ObservedStall) -> ObservedStall:
        """Print a line on the user's terminal at 1, 2, 4, 8 … times the limit."""
        times = 1
        while stall.stall.seconds >= 2 * times * self._watched.limit_seconds:
            times *= 2
        if stall.stall.state == "busy" or stall.told >= times:
            return stall
        place = f" in {stall.stall.where}" if stall.stall.where else ""
        said = f"{self._subject_words(stall)} {stall.stall.state}{place}"
        self._print(f"stalled {stall.stall.seconds:.0f} s: {said}")
        return replace(stall, told=times)

    def _subject_words(self, stall: ObservedStall) -> str:
        """Name what is stalled: a test, and its phase if that is not the call; a hook, a worker."""
        if stall.what == "test":
            phase = "" if stall.phase in ("call", None) else f" ({stall.phase})"
            return f"{stall.nodeid}{phase}"
        worker = f" ({stall.worker})" if stall.worker else ""
        return f"{stall.name or _WORDS[stall.what]}{worker}"

    def _print(self, line: str) -> None:
        shown = safe_text(self._secrets.redact(line))
        print_on_terminal(self._main, self._watched.contents[0], shown)

    def end(self, stalls: list[ObservedStall], units: Sequence[Unit]) -> list[ObservedStall]:
        """End what is stalled: a worker by itself, or else the run."""
        by_worker = {worker_of(unit.name) if unit.name else None: unit for unit in units}
        ended = [
            replace(each, stall=replace(each.stall, is_ended=True))
            if each.stall.state != "busy" and each.worker in by_worker
            else each
            for each in stalls
        ]
        self.keep(ended)
        mine = [each for each in ended if each.stall.is_ended and each.worker in by_worker]
        for each in mine:
            self._print(f"ended: {self._subject_words(each)} (--failure-taxonomy-end-stalled)")
        tests = [each for each in mine if each.worker is not None and each.what == "test"]
        for each in tests:
            _send(by_worker[each.worker].identity, signal.SIGKILL)
        others = [each for each in mine if each not in tests]
        if any(each.worker is None and each.what == "session" for each in others) and (
            self._end_workers()
        ):
            return ended  # it waits for them, and goes on now
        if others:
            # xdist would start a new worker for one that hangs outside of a test, and that one
            # would hang, too.
            is_frozen = any(each.worker is None and each.stall.state == "frozen" for each in others)
            self._end_run(is_frozen=is_frozen)
            self._end_workers()
        return ended

    def _end_workers(self) -> bool:
        """End all xdist workers that still run; tell whether there were any."""
        found = []
        with suppress(OSError), open_folder(self._folder) as folder:
            for name in filter(worker_of, folder.names()):
                page = read_page(str(self._folder / name / "state"))
                if len(page) == PAGE:
                    started, process_id = PROCESS.unpack_from(page, PROCESS_AT)
                    if start_of(process_id) == started:
                        found.append((process_id, started))
        for identity in found:
            _send(identity, signal.SIGKILL)
        return bool(found)

    def _end_run(self, *, is_frozen: bool) -> None:
        """End pytest: by its own signal where it can react to that, or else by SIGKILL."""
        process = self._run.header.process
        identity = process.pid, process.start_ticks or 0
        number = self._watched.contents[0][END_SIGNAL_AT]
        was_ended = any(each.stall.is_ended and each.worker is None for each in self.before.stalls)
        if number and not is_frozen and not was_ended:
            _send(identity, number)
            deadline = time.monotonic() + GRACE_SECONDS
            state = self._folder / "state"
            before = read_page(str(state))
            while time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
                if start_of(identity[0]) != identity[1]:
                    return
                if read_page(str(state)) != before:  # it ends; if it stalls again, it is killed
                    return
        _send(identity, signal.SIGKILL)

    def _subject_of(self, unit: Unit) -> _Subject | None:
        """Return what a process is at; `None` if it need not make progress."""
        run = self._run
        if unit.name:
            worker = parse_worker(read_page(str(self._folder / unit.name / "state")))
            return _subject(worker.test, worker.activity)
        activity = run.activity
        name = None if activity is None else activity.name
        if run.exit_code is not None:
            return _Subject(what="shutdown", name=name) if self._watched.is_program else None
        if self._has_workers() and (activity is None or activity.what != "session"):
            return _Subject(what="controller")
        test = max(run.in_flight, key=lambda test: test.start_ns, default=None)
        if test is not None or activity is not None:
            return _subject(test, activity)
        if len(run.not_run) == len(run.nodeids):
            return _Subject(what="collection")
        return _Subject(what="session")

    def _has_workers(self) -> bool:
        with suppress(OSError), open_folder(self._folder) as folder:
            return any(worker_of(name) for name in folder.names())
        return False

    def _states_of(self, units: Sequence[Unit]) -> dict[str, StallState]:
        """Return by name of a process whether it is stopped, or it or a child uses CPU time."""
        before = {unit.name: _work_of(unit) for unit in units}
        seconds = min(max(self._watched.limit_seconds / 8, _SHORTEST_SECONDS), _LONGEST_SECONDS)
        time.sleep(seconds)
        allowed = max(1.0, seconds * os.sysconf("SC_CLK_TCK") * IDLE_SHARE)
        states: dict[str, StallState] = {}
        for unit in units:
            fields = fields_of(unit.identity[0])
            if fields[:1] == [b"T"]:
                states[unit.name] = "frozen"
                continue
            own, of_children, runs = _work_of(unit)
            is_child_busy = of_children - before[unit.name][1] > allowed
            is_busy = own - before[unit.name][0] > allowed or runs or before[unit.name][2]
            is_idle = not is_child_busy and not is_busy and unit.idle is not False
            self.is_child_busy |= not is_idle and unit.idle is not False
            states[unit.name] = "blocked" if is_idle else "busy"
            if not is_idle and not is_child_busy and self._has_just_begun(unit):
                self._turning.add(unit.name)
        return states

    def _has_just_begun(self, unit: Unit) -> bool:
        """Tell whether a process has used CPU time for a moment only; it may be about to end."""
        seconds = (time.monotonic_ns() - unit.idle_since_ns) / 1e9
        return unit.idle is not False or seconds < max(self._watched.limit_seconds, ENDING_SECONDS)

    def _stall(self, unit: Unit, subject: _Subject, state: StallState) -> ObservedStall | None:
        """Return the stall of a process; `None` if it waits for the user."""
        process_id = unit.identity[0]
        if _waits_for_input(process_id):
            return None
        # One that is at work, or stopped, must not be asked for them.
        stacks = self._stacks_of(unit, asks=state == "blocked")
        if stacks is not None and _is_in_debugger(stacks):
            return None
        if state == "blocked" and self._is_gil_held(unit, stacks):
            state = "frozen"
        test = subject.test
        before = self._seen_before(unit, subject)
        stall = Stall(
            state=state,
            seconds=round((time.monotonic_ns() - unit.since_ns) / 1e9, 3),
            where=self._shown(None if stacks is None else stacks.where(self._rootdir)),
            stack=self._shown(None if stacks is None else stacks.text(MAX_TRACEBACK)),
            children=self._commands(process_id),
        )
        if before is not None and before.stall.state != "busy":
            if unit.name in self._turning:
                return before
            if stall.stack is None and state == before.stall.state:
                stall = replace(stall, where=before.stall.where, stack=before.stall.stack)
        return ObservedStall(
            what=subject.what,
            stall=stall,
            since_ns=unit.since_ns,
            worker=worker_of(unit.name) if unit.name else None,
            nodeid=None if test is None else test.nodeid,
            phase=None if test is None else test.phase,
            name=subject.name,
            told=0 if before is None else before.told,
        )

    def _is_gil_held(self, unit: Unit, stacks: Stacks | None) -> bool:
        """Tell whether one thread keeps all others from running Python."""
        held = is_gil_held(unit.identity[0])
        if held is None and _is_held_in(stacks):
            time.sleep(_POLL_SECONDS)
            return _is_held_in(self._stacks_of(unit, asks=False))
        return bool(held)

    def _seen_before(self, unit: Unit, subject: _Subject) -> ObservedStall | None:
        worker = worker_of(unit.name) if unit.name else None
        for each in self.before.stalls:
            if (each.what, each.worker, each.since_ns) == (subject.what, worker, unit.since_ns):
                return each
        return None

    def _stacks_of(self, unit: Unit, *, asks: bool) -> Stacks | None:
        folder = self._folder / unit.name if unit.name else self._folder
        page = read_page(str(folder / "state"))
        number = page[DUMP_SIGNAL_AT] if len(page) == PAGE and asks else 0
        try:
            return read_stacks(
                unit.identity[0],
                dump=folder / ASKED,
                ask=number or None,
                why_not=lambda why: self._notes.append(safe_text(why)),
            )
        except Exception as error:  # noqa: BLE001 - the state alone is told, then
            self._notes.append(type(error).__name__)
            return None

    def _commands(self, process_id: int) -> tuple[str, ...]:
        try:
            return tuple(self._command(each) for each in children_of(process_id))
        except Exception:  # noqa: BLE001 - the state alone is told, then
            return ()

    def _command(self, line: str) -> str:
        try:
            words = shlex.split(line)
        except ValueError:  # it was cut within quotes
            words = line.split()
        return shlex.join(self._secrets.redact_arguments(words))

    def _shown(self, text: str | None) -> str | None:
        return self._secrets.redact(text) if text else None

    def _goes_on(self, folder: Folder) -> bool:
        """Tell whether pytest still runs its session."""
        return self._is_alive() and not has_ended(folder.read("state", PAGE))

    def _is_alive(self) -> bool:
        process = self._run.header.process
        return start_of(process.pid) == (process.start_ticks or 0)

    def _write_report(self, folder: Folder, observed: Observed) -> None:
        """Rewrite the report of the running run, unless something else is in its place."""
        path = self._watched.report
        current = read_report(path)
        if current is None or current["completeness"] != "running":
            return
        if current["run"]["id"] != self._watched.run_id:
            return
        seen = ProcessEnd(exit=ProcessExit(code=None, source="none"), ended_ns=time.monotonic_ns())
        report = reconstruct(self._run, folder, seen, observed, completeness="running")
        write_report(path, report)


def _subject(test: StartedTest | None, activity: StartedActivity | None) -> _Subject | None:
    if test is not None:
        return _Subject(what="test", test=test)
    if activity is None:
        return None
    return _Subject(what=activity.what, name=activity.name)


def _work_of(unit: Unit) -> tuple[int, int, bool]:
    """Return the CPU time of a process and of its descendants, and whether they are to run now.

    On a machine with too much to do, a process may have to wait long for its next tick.
    """
    process_id = unit.identity[0]
    children = descendants(process_id)
    runs = any(fields_of(each)[:1] == [b"R"] for each in (process_id, *children))
    return ticks_of(process_id) or 0, sum(ticks_of(child) or 0 for child in children), runs


def _is_held_in(stacks: Stacks | None) -> bool:
    return stacks is not None and any(thread.owns_gil for thread in stacks.threads)


def _is_in_debugger(stacks: Stacks) -> bool:
    return any(
        part in frame.path
        for thread in stacks.threads
        for frame in thread.frames
        for part in (f"/{name}" for name in _DEBUGGERS)
    )


def _waits_for_input(process_id: int) -> bool:
    """Tell whether the main thread of a process waits for a line from a terminal."""
    try:
        with open(f"/proc/{process_id}/syscall", encoding="ascii") as file:
            words = file.read().split()
        number, first = int(words[0]), int(words[1], 16)
    except (OSError, ValueError, IndexError):
        return False
    read, waits = _READS.get(os.uname().machine, (-1, ()))
    if number == read:
        return _is_terminal(process_id, first)
    # readline waits for standard input alone
    return number in waits and first in (0, 1) and _is_terminal(process_id, 0)


def _is_terminal(process_id: int, descriptor: int) -> bool:
    try:
        return os.readlink(f"/proc/{process_id}/fd/{descriptor}").startswith(_TERMINALS)
    except OSError:
        return False


def _send(identity: tuple[int, int], number: int) -> None:
    """Send a signal to a process, unless another one has its id by now."""
    process_id, started = identity
    with suppress(OSError):
        descriptor = os.pidfd_open(process_id)
        try:
            if start_of(process_id) == started:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)
