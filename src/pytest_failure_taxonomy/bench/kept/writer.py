"""Write the file of a run, which several processes append to."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.bench import models
from pytest_failure_taxonomy.bench.answers import add_exactly
from pytest_failure_taxonomy.bench.kept.lines import (
    BaselineLine,
    CasesLine,
    KeptAttempt,
    Line,
    Record,
    ResumedLine,
    RunHeader,
    ScheduledCase,
    SpentLine,
    StartedLine,
    StoppedLine,
    now,
)
from pytest_failure_taxonomy.bench.kept.reader import read_records
from pytest_failure_taxonomy.bench.scores import CaseAttempt, CaseOutcome
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.system.files import CAREFUL, Journal, create_file
from pytest_failure_taxonomy.system.lock import FileLock

try:
    import fcntl
except (
    ImportError
):  # Windows: the processes of one run then may exceed a cost cap together
    fcntl = None  # type: ignore[assignment]

MAX_OUTPUT_CHARACTERS: Final = 256 * 1024
"""Of the JSON of an output that is kept; a longer one is left out."""

MAX_TRANSCRIPT_CHARACTERS: Final = 1024 * 1024

_MAX_TEXT: Final = 20_000

_OF_CALL: Final = set(CaseAttempt.model_fields)

_SECONDS_TO_END: Final = 5.0
"""How long the workers of a pytest that was killed may take to end."""
_SECONDS_TO_LOOK: Final = 0.1

_LIMITS: Final = {
    "output": MAX_OUTPUT_CHARACTERS,
    "transcript": MAX_TRANSCRIPT_CHARACTERS,
    "printed": _MAX_TEXT,
}

Redact = Callable[[Any], Any]
"""Return a JSON value without the secrets in it."""


class RunFile:
    """The file of one run, to which this process appends."""

    def __init__(
        self,
        path: Path,
        cases: Iterable[ScheduledCase],
        redact: Redact,
        worker: str = "",
    ) -> None:
        """Prepare; nothing is written yet.

        Args:
            path: The file; the folder exists.
            cases: Those to run, in all processes together.
            redact: Removes secrets from outputs and transcripts.
            worker: The name of the process among those that write the file.
        """
        self.path = path
        self.problem = ""
        """Why something could not be written; empty if all was."""
        self.is_resumed = False
        """Whether the run continues an earlier one."""
        self._cases = {each.case_id: each for each in cases}
        self._redact = redact
        self._worker = worker
        self._journal: Journal | None = None
        self._lock = threading.RLock()
        self._hold: FileLock | None = None

    def hold(self, session: str) -> None:
        """Keep other pytest sessions from continuing the run until this file is closed.

        Each process that works on the run has a lock file beside it, with its session
        in the name.

        Args:
            session: The name of the pytest session.

        Raises:
            BenchError: A process of another session works on it.
            OSError: A lock file can't be opened or created.
        """
        deadline = time.monotonic() + _SECONDS_TO_END
        while holder := self._take_hold(session):
            if time.monotonic() > deadline:
                raise BenchError(f"{self.path}: {holder}")
            time.sleep(_SECONDS_TO_LOOK)

    def _take_hold(self, session: str) -> str:
        """Take this process's lock file; return which other session has one, or ''."""
        begin, end = f".{self.path.name}.", ".lock"
        own = f"{begin}{session}-"
        with self.locked():
            for name in os.listdir(self.path.parent):
                is_lock = name.startswith(begin) and name.endswith(end)
                if not is_lock or name.startswith(own):
                    continue
                lock = FileLock(self.path.with_name(name))
                if not lock.acquire(make=False):
                    since, process = (
                        name.removeprefix(begin)[:16],
                        lock.owner.get("pid"),
                    )
                    what = f"process {process} has run it since {since}"
                    return f"{what}; wait until it has ended"
                lock.release()  # of a process that was killed
            self._hold = FileLock(self.path.with_name(f"{own}{self._worker}{end}"))
            self._hold.acquire()
        return ""

    def create(self, header: RunHeader) -> None:
        """Create the file with two lines, unless another process has done so."""
        try:
            first = _encode_record(header.model_dump(mode="json"))
            create_file(self.path, first + self._line_of_cases())
        except OSError as error:
            self._note_problem(error)

    def resume(self, session: str, commit: str | None, cases_in_class: int) -> None:
        """Say once for a pytest session that it continues the run.

        Args:
            session: The name of the pytest session.
            commit: The commit that is checked out now.
            cases_in_class: How many cases the class has by now.
        """
        self.is_resumed = True
        with self.locked():
            resumed = read_records(self.path, "resumed")
            if session in [record.get("session") for record in resumed]:
                return
            if self._journal is not None:
                with suppress(OSError):
                    self._journal.end_line()
            line = ResumedLine(
                session=session, at=now(), commit=commit, cases_in_class=cases_in_class
            )
            self._append(_encode_line(line) + self._line_of_cases())

    def note_start(
        self,
        case_id: str,
        attempt: int,
        max_cost_usd: float | None = None,
        nodeid: str | None = None,
    ) -> None:
        """Write that a case's system is about to be called.

        Args:
            case_id: The case.
            attempt: The number of the call.
            max_cost_usd: The most that the case can cost, if that is known.
            nodeid: The test that waits for it.
        """
        line = StartedLine(
            case_id=case_id,
            attempt=attempt,
            worker=self._worker,
            pid=os.getpid(),
            at=time.time(),
            max_cost_usd=max_cost_usd,
            nodeid=nodeid,
        )
        self._append(_encode_line(line))

    def note_spent(self, case_id: str, attempt: int, cost_usd: float) -> None:
        """Write what a call of a system says it has just spent."""
        line = SpentLine(case_id=case_id, attempt=attempt, cost_usd=cost_usd)
        self._append(_encode_line(line))

    def note_attempt(self, case_id: str, attempt: CaseAttempt) -> None:
        """Write a call without a score; another one follows unless the case is lost."""
        self._append(_encode_record(self._record_call(case_id, attempt)))

    def note_outcome(self, outcome: CaseOutcome) -> None:
        """Write the last call of a case, with the score.

        If another run has kept the call, what was removed from its output then is still
        missing.
        """
        score = outcome.score
        last = outcome.attempts[-1]
        spent = [-call.cost_usd for call in outcome.attempts]
        cut: list[str] = []
        was_redacted = False
        if isinstance(last, KeptAttempt):
            cut = [name for name in last.truncated if name != "printed"]
            was_redacted = last.is_redacted
        output = self._redact(outcome.output)
        record = self._record_call(outcome.case_id, last)
        record |= {
            "rubric_cost_usd": max(0.0, add_exactly(score.cost_usd, *spent)),
            "input_digest": self._digest(outcome.case_id),
            "score": self._redact(score.model_dump(mode="json")),
            "output": output,
            "transcript": self._redact(outcome.transcript),
            "printed": self._redact(outcome.printed[-_MAX_TEXT:]) or None,
            "truncated": cut,
            "is_redacted": was_redacted or output != outcome.output,
        }
        line = _encode_record(record)
        if len(line) > min(_LIMITS.values()):  # otherwise no part of it can be longer
            for name, limit in _LIMITS.items():
                if record[name] is not None and len(_encode(record[name])) > limit:
                    cut.append(name)
                    record[name] = None
            line = _encode_record(record)
        self._append(line)

    def note_stop(self, reason: str, cause: str = "") -> None:
        """Write why no more cases are started.

        Args:
            reason: In words.
            cause: The fingerprint of the cause that many cases failed with, if that is
                why.
        """
        line = StoppedLine(reason=reason, cause=cause, at=time.time())
        self._append(_encode_line(line))

    def note_baseline(self, found: models.BenchComparison | str) -> None:
        """Write how the run differs from its baseline, or why that is not known."""
        self._append(_encode_line(BaselineLine(found=found)))

    def _record_call(self, case_id: str, attempt: CaseAttempt) -> Record:
        digest = self._digest(case_id)
        if isinstance(attempt, KeptAttempt):
            digest = attempt.input_digest
        return {
            "record": "attempt",
            "case_id": case_id,
            "worker": self._worker,
            **attempt.model_dump(include=_OF_CALL),
            "started_at": round(attempt.started_at, 6),
            "seconds": round(attempt.seconds, 6),
            "ended": self._redact(attempt.ended),
            "input_digest": digest,
        }

    def _digest(self, case_id: str) -> str:
        return self._cases[case_id].digest if case_id in self._cases else ""

    def _line_of_cases(self) -> bytes:
        return _encode_line(CasesLine(cases=tuple(self._cases.values())))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep the other processes of the run from deciding at the same time."""
        with self._lock:
            journal = self._open()
            if journal is None or fcntl is None:
                yield
                return
            fcntl.flock(journal.descriptor, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(journal.descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file, and hold it no longer."""
        with self._lock:
            if self._hold is not None:
                with self.locked():  # where nobody looks for it
                    self._hold.release()
            if self._journal is not None:
                self._journal.close()
                self._journal = None

    def _open(self) -> Journal | None:
        if self._journal is None and not self.problem:
            try:
                self._journal = Journal(
                    os.open(self.path, os.O_RDWR | os.O_APPEND | CAREFUL)
                )
            except OSError as error:
                self._note_problem(error)
        return self._journal

    def _append(self, line: bytes) -> None:
        with self._lock:
            journal = self._open()
            if journal is None:
                return
            try:
                journal.append(line)
            except OSError as error:
                self._note_problem(error)

    def _note_problem(self, error: OSError) -> None:
        self.problem = (
            self.problem or f"{self.path}: can't be written ({error.strerror or error})"
        )


_encode: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def _encode_line(line: Line) -> bytes:
    fields = line.model_dump(mode="json")
    return _encode_record(
        {name: value for name, value in fields.items() if value is not None}
    )


def _encode_record(record: Record) -> bytes:
    return f"{_encode(record)}\n".encode("ascii")
