"""The file that keeps a run of a task class: each line is written when what it tells has happened.

Several processes append to one file; each line is one write. Each is a JSON object whose first key,
`record`, says what it is:

| record  | written                               | holds                                         |
|---------|---------------------------------------|-----------------------------------------------|
| run     | first, once                           | what is run: class, taxonomy, system, digests |
| cases   | second, and when the run is continued | the cases to run, with their digests          |
| resumed | when another pytest continues the run | when, and at which commit                     |
| started | before a case's system is called      | case, number of the call, worker, process     |
| spent   | when the system tells a cost          | case, amount                                  |
| attempt | when a call of the system has ended   | case, times, costs; with the last, the score  |
| stopped | when no more cases are started        | why                                           |
"""

# Without `from __future__ import annotations`: pydantic needs the annotations as they are.

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from pytest_failure_taxonomy import VERSION
from pytest_failure_taxonomy.bench import models
from pytest_failure_taxonomy.bench.answers import MOST_COST_USD
from pytest_failure_taxonomy.bench.scores import CaseAttempt, CaseOutcome
from pytest_failure_taxonomy.bench.sharding import case_digest, digests_of
from pytest_failure_taxonomy.documents.models import ClosedModel
from pytest_failure_taxonomy.system.files import CAREFUL, READ, Journal, create_file, whole_lines

SCHEMA_VERSION: Final = 1

_Name = Annotated[str, Field(min_length=1)]


class SystemGiven(ClosedModel):
    """The system under test of a run."""

    name: str
    """Its name: `package.module:callable`, or that of what a fixture returned."""
    version: str | None = None
    """Its version, as `sut_version` or its own attribute `version` gives it."""
    label: str = ""
    """Which of several systems of one pytest run it is; empty for a single one."""

    def __str__(self) -> str:
        """Return the name with the version."""
        return self.name if self.version is None else f"{self.name} {self.version}"


class ScheduledCase(ClosedModel):
    """A case that a run is to run."""

    case_id: _Name
    """Its id; for repetitions with `#2` and so on."""
    digest: str
    """Of the case's fields."""
    repetition: Annotated[int, Field(ge=1)] = 1
    """Which repetition it is, from 1."""
    tags: models.Listed[str] = ()
    """Its tags."""


class RunHeader(ClosedModel):
    """The first line of a run's file."""

    record: Literal["run"] = "run"
    schema_version: Annotated[int, Field(ge=1)]
    """Which form the lines have."""
    run_id: str
    """Also the name of the file, without its suffix."""
    task_class: _Name
    """The name of the class."""
    folder: str
    """The class's folder, relative to pytest's root directory where it lies below it."""
    test: str = ""
    """The test that ran the cases; empty for the items of the class."""
    system: SystemGiven
    """What was called."""
    taxonomy: dict[str, models.Severity]
    """The class's failure codes with their severities."""
    breakdown_keys: models.Listed[str]
    """The class's breakdown keys, sorted."""
    cases_in_class: Annotated[int, Field(ge=0)]
    """How many cases the class has, of which a run may be to run some."""
    gate: models.GateSettings | None = None
    """What the run must reach."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """The class's settings, options applied."""
    digests: models.BenchDigests
    """What makes runs comparable."""
    commit: str | None = None
    """The commit that is checked out, if there is one."""
    started_at: str
    """When the run began, as RFC 3339 in UTC."""
    generator: str
    """This package and its version."""
    shard: models.RunShard | None = None
    """Which part of the class it is; null for all of it."""
    not_resumed: str | None = None
    """Why an earlier run could not be continued, if that was asked for."""
    regraded_from: str | None = None
    """The run whose outputs were graded again; its system was not called for this one."""


class KeptAttempt(CaseAttempt):
    """A call of the system for a case, as a run's file holds it."""

    record: Literal["attempt"] = "attempt"
    case_id: str
    """The case."""
    worker: str = ""
    """The process that made it."""
    rubric_cost_usd: Annotated[float, Field(ge=0, le=MOST_COST_USD)] = 0.0
    """What the rubric spent."""
    input_digest: str = ""
    """The digest of the case's fields."""
    score: models.BenchScore | None = None
    """The case's score; null for a call after which the system was called again."""
    output: Any = None
    """What the system returned."""
    transcript: Any = None
    """How the system came to it."""
    printed: str | None = None
    """What the rubric printed."""
    truncated: models.Listed[str] = ()
    """Which of these were too long to be kept."""
    is_redacted: bool = False
    """Whether secrets were removed from the output, so that it is not what the rubric saw."""

    @property
    def gave_output(self) -> bool:
        """Whether the system gave an output in this call, which led to a score."""
        if self.ended or self.score is None:
            return False
        codes = [mode.code for mode in self.score.failure_modes]
        is_bare = self.output is None and not self.truncated and not self.score.breakdown
        return not (is_bare and codes in ([models.SUT_EXCEPTION], [models.SUT_TIMEOUT]))

    @property
    def has_output(self) -> bool:
        """Whether the system gave an output, and it was not too long to be kept."""
        return self.gave_output and "output" not in self.truncated


def scheduled(case: models.BenchCase) -> ScheduledCase:
    """Return a case as a run's file lists it."""
    return ScheduledCase(
        case_id=case.case_id,
        digest=case_digest(case),
        repetition=case.repetition,
        tags=case.tags,
    )


def facts_of_class(task_class: models.TaskClass) -> dict[str, Any]:
    """Return the fields of a `RunHeader` that are about its class as it is now, and the time."""
    settings = task_class.settings
    return {
        "schema_version": SCHEMA_VERSION,
        "taxonomy": dict(task_class.failure_mode_taxonomy),
        "breakdown_keys": tuple(sorted(task_class.breakdown_keys)),
        "cases_in_class": len(task_class.cases),
        "gate": settings.gate,
        "settings": settings.model_dump(mode="json", exclude={"gate"}),
        "digests": digests_of(task_class),
        "started_at": now(),
        "generator": f"pytest-failure-taxonomy {VERSION}",
    }


def now() -> str:
    """Return the time as RFC 3339 in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_BEGIN: Final = b'{"record":"'


class LineReader:
    """Reads the lines that were added to a run's file since it was last asked."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._line = 0
        self.problems: list[str] = []
        """The lines that could not be read, in words."""

    def new(self, wanted: Iterable[str] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the new records.

        Args:
            wanted: The records to yield; all by default.

        Raises:
            OSError: The file can't be read, or is none.
        """
        descriptor = os.open(self._path, READ)
        with os.fdopen(descriptor, "rb") as file:
            for offset, line in whole_lines(file, self._offset):
                self._offset = offset + len(line)
                self._line += 1
                record = self._record(line)
                if record is not None and (wanted is None or record["record"] in wanted):
                    yield record

    def end(self) -> None:
        """Note a last line that is cut off, which no more is written to."""
        if self._offset < os.stat(self._path).st_size:
            self._note(self._line + 1)

    def _record(self, line: bytes) -> dict[str, Any] | None:
        if line == b"\n":
            return None
        found = _parsed(line)
        if found is None:
            self._note(self._line)
            # Another process may have appended to a line that was cut off.
            begin = line.rfind(_BEGIN)
            found = _parsed(line[begin:]) if begin > 0 else None
        return found

    def _note(self, line: int) -> None:
        self.problems.append(f"{self._path}:{line}: the line is cut off and was skipped")


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_record = isinstance(found, dict) and isinstance(found.get("record"), str)
    return found if is_record else None


try:
    import fcntl
except ImportError:  # Windows: the processes of one run then may exceed a cost cap together
    fcntl = None  # type: ignore[assignment]

MAX_OUTPUT_CHARACTERS: Final = 256 * 1024
"""Of the JSON of an output that is kept; a longer one is left out."""

MAX_TRANSCRIPT_CHARACTERS: Final = 1024 * 1024

_MAX_TEXT: Final = 20_000

_OF_CALL: Final = set(CaseAttempt.model_fields)

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
        self, path: Path, cases: Iterable[ScheduledCase], redact: Redact, worker: str = ""
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

    def create(self, header: RunHeader) -> None:
        """Create the file with its first two lines, unless another process has done so."""
        try:
            create_file(self.path, _line(header.model_dump(mode="json")) + self._line_of_cases())
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
            known = set()
            with suppress(OSError):
                known = {each.get("session") for each in LineReader(self.path).new(["resumed"])}
            if session not in known:
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
                self._append(_line(said) + self._line_of_cases())

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
        more = {"max_cost_usd": max_cost_usd, "nodeid": nodeid}
        self._note(
            "started",
            case_id=case_id,
            attempt=attempt,
            worker=self._worker,
            pid=os.getpid(),
            at=time.time(),
            **{name: each for name, each in more.items() if each is not None},
        )

    def note_spent(self, case_id: str, attempt: int, cost_usd: float) -> None:
        """Write what a call of a system says it has just spent."""
        self._note("spent", case_id=case_id, attempt=attempt, cost_usd=cost_usd)

    def note_attempt(self, case_id: str, attempt: CaseAttempt) -> None:
        """Write a call of the system that did not end its case."""
        self._append(_line(self._call(case_id, attempt)))

    def note_outcome(self, outcome: CaseOutcome) -> None:
        """Write the last call of a case, with the score.

        If another run has kept the call, what was removed from its output then is still missing.
        """
        score = outcome.score
        system_usd = sum(each.cost_usd for each in outcome.attempts)
        last = outcome.attempts[-1]
        said = self._call(outcome.case_id, last)
        said["rubric_cost_usd"] = max(0.0, round(score.cost_usd - system_usd, 12))
        said["input_digest"] = self._digest(outcome.case_id)
        said["score"] = self._redact(score.model_dump(mode="json"))
        for name, value in (
            ("output", outcome.output),
            ("transcript", outcome.transcript),
            ("printed", outcome.printed[-_MAX_TEXT:] or None),
        ):
            said[name] = value if value is None else self._redact(value)
        former = last if isinstance(last, KeptAttempt) else None
        cut = [each for each in former.truncated if each != "printed"] if former else []
        said["truncated"] = cut
        is_redacted = said["output"] != outcome.output
        said["is_redacted"] = is_redacted or (former is not None and former.is_redacted)
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
        self._note("stopped", reason=reason, cause=cause, at=time.time())

    def _call(self, case_id: str, attempt: CaseAttempt) -> dict[str, Any]:
        return {
            "record": "attempt",
            "case_id": case_id,
            "worker": self._worker,
            **attempt.model_dump(include=_OF_CALL),
            "started_at": round(attempt.started_at, 6),
            "seconds": round(attempt.seconds, 6),
            "ended": self._redact(attempt.ended) if attempt.ended else "",
            "input_digest": attempt.input_digest
            if isinstance(attempt, KeptAttempt)
            else self._digest(case_id),
        }

    def _digest(self, case_id: str) -> str:
        return self._cases[case_id].digest if case_id in self._cases else ""

    def _line_of_cases(self) -> bytes:
        listed = [case.model_dump(mode="json") for case in self._cases.values()]
        return _line({"record": "cases", "cases": listed})

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

    def _note(self, record: str, **said: Any) -> None:
        self._append(_line({"record": record, **said}))

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
        self.problem = self.problem or f"{self.path}: can't be written ({error.strerror or error})"


_encode: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def _line(record: Mapping[str, Any]) -> bytes:
    return f"{_encode(record)}\n".encode("ascii")
