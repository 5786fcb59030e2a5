"""Keep a run of a task class in a file: each line is written when what it tells has happened.

Several processes append to one file; each line is one write. `run_records` describes the lines.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.bench.outcomes import CaseAttempt, CaseOutcome
from pytest_failure_taxonomy.bench.run_records import (
    KeptAttempt,
    LineReader,
    RunHeader,
    ScheduledCase,
    now,
    said_by,
)
from pytest_failure_taxonomy.system.files import CAREFUL, create_file
from pytest_failure_taxonomy.system.journal import Journal

try:
    import fcntl
except ImportError:  # Windows: the processes of one run then may exceed a cost cap together
    fcntl = None  # type: ignore[assignment]

MAX_OUTPUT_CHARACTERS: Final = 256 * 1024
"""Of the JSON of an output that is kept; a longer one is left out."""

MAX_TRANSCRIPT_CHARACTERS: Final = 1024 * 1024

_MAX_TEXT: Final = 20_000

_LIMITS: Final = {
    "output": MAX_OUTPUT_CHARACTERS,
    "transcript": MAX_TRANSCRIPT_CHARACTERS,
    "printed": _MAX_TEXT,
}

Redact = Callable[[Any], Any]
"""Return a JSON value without the secrets in it."""


class RunFile:
    """The file of one run, to which this process appends."""

    def __init__(self, path: Path, redact: Redact, worker: str = "") -> None:
        """Prepare; nothing is written yet.

        Args:
            path: The file; the folder exists.
            redact: Removes secrets from outputs and transcripts.
            worker: The name of the process among those that write the file.
        """
        self.path = path
        self.problem = ""
        """Why something could not be written; empty if all was."""
        self._redact = redact
        self._worker = worker
        self._journal: Journal | None = None
        self._lock = threading.RLock()

    def create(self, header: RunHeader, cases: Iterable[ScheduledCase]) -> None:
        """Create the file with its first two lines, unless another process has done so."""
        lines = [_line(header.model_dump(mode="json")), _line(_cases(cases))]
        try:
            create_file(self.path, b"".join(lines))
        except OSError as error:
            self._note_problem(error)

    def resume(
        self,
        session: str,
        commit: str | None,
        cases: Iterable[ScheduledCase],
        cases_in_class: int,
    ) -> None:
        """Say once for a pytest session that it continues the run.

        Args:
            session: The name of the pytest session.
            commit: The commit that is checked out now.
            cases: The cases of the run from now on.
            cases_in_class: How many cases the class has by now.
        """
        with self.locked():
            if not any(each.get("session") == session for each in _records(self.path, ["resumed"])):
                if self._journal is not None:
                    with suppress(OSError):
                        self._journal.end_line()
                said = {
                    "record": "resumed",
                    "session": session,
                    "at": now(),
                    "commit": commit,
                    "cases_in_class": cases_in_class,
                }
                self._append(_line(said) + _line(_cases(cases)))

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
        said = {
            "record": "started",
            "case_id": case_id,
            "attempt": attempt,
            "worker": self._worker,
            "pid": os.getpid(),
            "at": time.time(),
        }
        if max_cost_usd is not None:
            said["max_cost_usd"] = max_cost_usd
        if nodeid is not None:
            said["nodeid"] = nodeid
        self._append(_line(said))

    def note_spent(self, case_id: str, attempt: int, cost_usd: float) -> None:
        """Write what a call of a system says it has just spent."""
        said = {"record": "spent", "case_id": case_id, "attempt": attempt, "cost_usd": cost_usd}
        self._append(_line(said))

    def note_attempt(self, case_id: str, attempt: CaseAttempt, digest: str) -> None:
        """Write a call of the system that did not end its case.

        Args:
            case_id: The case.
            attempt: The call.
            digest: Of the case's fields.
        """
        self._append(_line({**self._call(case_id, attempt), "input_digest": digest}))

    def note_outcome(
        self, outcome: CaseOutcome, digest: str, *, regraded: KeptAttempt | None = None
    ) -> None:
        """Write the last call of a case, with the score.

        Args:
            outcome: The case's outcome.
            digest: Of the case's fields.
            regraded: The call as another run has kept it, if its output was graded again: what was
                removed from it then is still missing.
        """
        score = outcome.score
        system_usd = sum(each.cost_usd for each in outcome.attempts)
        said = self._call(outcome.case_id, outcome.attempts[-1])
        said["rubric_cost_usd"] = max(0.0, round(score.cost_usd - system_usd, 12))
        said["input_digest"] = digest
        said["score"] = self._redact(score.model_dump(mode="json"))
        for name, value in (
            ("output", outcome.output),
            ("transcript", outcome.transcript),
            ("printed", outcome.printed[-_MAX_TEXT:] or None),
        ):
            said[name] = value if value is None else self._redact(value)
        cut = [] if regraded is None else [each for each in regraded.truncated if each != "printed"]
        was_redacted = regraded is not None and regraded.is_redacted
        said["truncated"] = cut
        said["is_redacted"] = was_redacted or said["output"] != outcome.output
        line = _line(said)
        if len(line) > min(_LIMITS.values()):  # otherwise no part of it can be longer
            for name, limit in _LIMITS.items():
                if said[name] is not None and len(_encode(said[name])) > limit:
                    cut.append(name)
                    said[name] = None
            line = _line(said)
        self._append(line)

    def note_stop(self, reason: str, cause: str = "") -> None:
        """Write why no more cases are started.

        Args:
            reason: In words.
            cause: The fingerprint of the cause that many cases failed with, if that is why.
        """
        said = {"record": "stopped", "reason": reason, "cause": cause, "at": time.time()}
        self._append(_line(said))

    def _call(self, case_id: str, attempt: CaseAttempt) -> dict[str, Any]:
        return {
            "record": "attempt",
            "case_id": case_id,
            "attempt": attempt.number,
            "worker": self._worker,
            "started_at": round(attempt.started_at, 6),
            "seconds": round(attempt.seconds, 6),
            "cost_usd": attempt.cost_usd,
            "usage": dict(attempt.usage),
            "ended": self._redact(attempt.ended) if attempt.ended else "",
            "kind": attempt.kind,
            "fingerprint": attempt.fingerprint,
        }

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
        """Close the file."""
        with self._lock:
            if self._journal is not None:
                self._journal.close()
                self._journal = None

    def _open(self) -> Journal | None:
        if self._journal is None and not self.problem:
            try:
                self._journal = Journal(os.open(self.path, os.O_RDWR | os.O_APPEND | CAREFUL))
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
        self.problem = self.problem or f"{self.path}: can't be written ({said_by(error)})"


_encode: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def _line(record: Mapping[str, Any]) -> bytes:
    return f"{_encode(record)}\n".encode("ascii")


def _cases(cases: Iterable[ScheduledCase]) -> dict[str, Any]:
    return {"record": "cases", "cases": [case.model_dump(mode="json") for case in cases]}


def _records(path: Path, wanted: Iterable[str]) -> Iterator[dict[str, Any]]:
    with suppress(OSError):
        yield from LineReader(path).new(frozenset(wanted))
