"""The file that keeps a run of a task class: how it is written, found and read.

Each line is written when what it tells has happened.

Several processes append to one file; each line is one write. Each is a JSON object
whose first key, `record`, says what it is:

| record   | written                               | holds                                         |
|----------|---------------------------------------|-----------------------------------------------|
| run      | first, once                           | what is run: class, taxonomy, system, digests |
| cases    | second, and when the run is continued | the cases to run, with their digests          |
| resumed  | when another pytest continues the run | when, and at which commit                     |
| started  | before a case's system is called      | case, number of the call, worker, process     |
| spent    | when the system tells a cost          | case, amount                                  |
| attempt  | when a call of the system has ended   | case, times, costs; with the last, the score  |
| stopped  | when no more cases are started        | why                                           |
| baseline | when compared with an earlier run     | the comparison, or why there is none          |

A process that is killed may leave a line that is cut off: it is skipped, and said so.

As a program, this prints the reports of the runs that a pytest session has kept, for
the report of one that died: what completes such a report imports neither pydantic nor
scipy.
"""

# Without `from __future__ import annotations`: pydantic needs the annotations as they
# are.

import json
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, ValidationError

from pytest_failure_taxonomy import VERSION
from pytest_failure_taxonomy.bench import models
from pytest_failure_taxonomy.bench.answers import MOST_COST_USD, add_exactly
from pytest_failure_taxonomy.bench.load.folder import (
    MARKER_FILE,
    ClassFolder,
    is_task_class,
)
from pytest_failure_taxonomy.bench.report import aggregate, is_reducer
from pytest_failure_taxonomy.bench.scores import CaseAttempt, CaseOutcome
from pytest_failure_taxonomy.bench.sharding import case_digest, cases_digest, digests_of
from pytest_failure_taxonomy.bench.user_code import is_infrastructure
from pytest_failure_taxonomy.documents.models import ClosedModel
from pytest_failure_taxonomy.documents.problems import shown
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.option_files import LATEST, RUN_SUFFIX
from pytest_failure_taxonomy.system.files import (
    CAREFUL,
    READ,
    Journal,
    create_file,
    whole_lines,
)
from pytest_failure_taxonomy.system.lock import FileLock
from pytest_failure_taxonomy.taxonomy.words import listed

SCHEMA_VERSION: Final = 1
_RIGHT: Final = "name a file that pytest wrote to --bench-storage"

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
    cluster: str | None = None
    """Its cluster, if its class names one."""


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
    """The class's folder, relative to pytest's root directory where it lies below
    it."""
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
    settings: dict[str, object] = Field(default_factory=dict)
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
    """The run whose outputs were graded again; its system was not called for this
    one."""


class _Line(ClosedModel, extra="ignore"):
    """A line of the file; a newer program may have written more into it."""


class CasesLine(_Line):
    """The cases to run."""

    record: Literal["cases"] = "cases"
    cases: models.Listed[ScheduledCase]


class ResumedLine(_Line):
    """Another pytest continues the run."""

    record: Literal["resumed"] = "resumed"
    session: str
    """The name of that pytest session."""
    at: str = ""
    """When, as RFC 3339 in UTC."""
    commit: str | None = None
    """The commit that is checked out."""
    cases_in_class: Annotated[int, Field(ge=0)] | None = None
    """How many cases the class has by now."""


class StartedLine(_Line):
    """The system is about to be called for a case."""

    record: Literal["started"] = "started"
    case_id: str
    """The case."""
    attempt: int = 1
    """The number of the call."""
    worker: str = ""
    """The process that makes it, by its name among those of the run."""
    pid: int = 0
    """The same by its number; 0: not known."""
    at: float = 0.0
    """When, in seconds since the epoch."""
    max_cost_usd: Annotated[float, Field(ge=0)] | None = None
    """The most that the case can cost, if that is known."""
    nodeid: str | None = None
    """The test that waits for it, if that is known."""


class SpentLine(_Line):
    """The system has just spent something."""

    record: Literal["spent"] = "spent"
    case_id: str
    """The case."""
    attempt: int
    """The number of the call."""
    cost_usd: Annotated[float, Field(ge=0)]
    """The amount."""


class StoppedLine(_Line):
    """No more cases are started."""

    record: Literal["stopped"] = "stopped"
    reason: str
    """Why."""
    cause: str = ""
    """The fingerprint of the cause that many cases failed with, if that is why."""
    at: float = 0.0
    """When, in seconds since the epoch."""


class BaselineLine(_Line):
    """The run was compared with an earlier one."""

    record: Literal["baseline"] = "baseline"
    found: models.BenchComparison | str
    """How it differs, or why that is not known."""


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
    """Which of these were too long to save."""
    is_redacted: bool = False
    """Whether secrets were removed from the output, so that it is not what the rubric
    saw."""

    @property
    def gave_output(self) -> bool:
        """Whether the system gave an output in this call, which led to a score."""
        if self.ended or self.score is None:
            return False
        codes = [mode.code for mode in self.score.failure_modes]
        is_bare = (
            self.output is None and not self.truncated and not self.score.breakdown
        )
        return not (is_bare and codes in ([models.SUT_EXCEPTION], [models.SUT_TIMEOUT]))

    @property
    def has_output(self) -> bool:
        """Whether the system gave an output, and it was not too long to be kept."""
        return self.gave_output and "output" not in self.truncated


Line = (
    CasesLine
    | ResumedLine
    | StartedLine
    | SpentLine
    | KeptAttempt
    | StoppedLine
    | BaselineLine
)
_LINES: Final[Mapping[str, type[Line]]] = {
    "cases": CasesLine,
    "resumed": ResumedLine,
    "started": StartedLine,
    "spent": SpentLine,
    "attempt": KeptAttempt,
    "stopped": StoppedLine,
    "baseline": BaselineLine,
}
_Record = dict[str, Any]
"""A JSON object that a line holds, with a text as `record`; anybody may have written
it."""


def scheduled(case: models.BenchCase) -> ScheduledCase:
    """Return a case as a run's file lists it."""
    return ScheduledCase(
        case_id=case.case_id,
        digest=case_digest(case),
        repetition=case.repetition,
        tags=case.tags,
        cluster=case.cluster,
    )


def begin_header(
    task_class: models.TaskClass, *, run_id: str, folder: str, system: SystemGiven
) -> RunHeader:
    """Return the first line of a run that begins now, of its class as it is."""
    settings = task_class.settings
    return RunHeader(
        schema_version=SCHEMA_VERSION,
        run_id=run_id,
        task_class=task_class.name,
        folder=folder,
        system=system,
        taxonomy=dict(task_class.failure_mode_taxonomy),
        breakdown_keys=tuple(sorted(task_class.breakdown_keys)),
        cases_in_class=len(task_class.cases),
        gate=settings.gate,
        settings=settings.model_dump(mode="json", exclude={"gate"}),
        digests=digests_of(task_class),
        started_at=now(),
        generator=f"pytest-failure-taxonomy {VERSION}",
    )


def now() -> str:
    """Return the time as RFC 3339 in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_BEGIN: Final = b'{"record":"'


class LineReader:
    """Reads the lines that were added to a run's file since it was last asked."""

    def __init__(self, path: Path, *, has_outputs: bool = True) -> None:
        """Begin at the first line.

        Args:
            path: The file.
            has_outputs: Whether to keep outputs and transcripts of calls.
        """
        self._path = path
        self._has_outputs = has_outputs
        self._offset = 0
        self._line = 0
        self.problems: list[str] = []
        """The lines that could not be read, in words."""

    def new(self, wanted: Collection[str] = _LINES.keys()) -> Iterator[Line]:
        """Yield the new lines of which the records are wanted; all by default.

        Raises:
            OSError: The file can't be read, or is none.
        """
        for record in self.records():
            name = record["record"]
            if name not in wanted:
                continue
            if not self._has_outputs:
                record.pop("output", None)
                record.pop("transcript", None)
            try:
                yield _LINES[name].model_validate(record)
            except ValidationError:
                self.problems.append(f"{self._path}: a line of {name!r} was skipped")

    def records(self) -> Iterator[_Record]:
        """Yield what new lines hold, unchecked.

        Raises:
            OSError: The file can't be read, or is none.
        """
        descriptor = os.open(self._path, READ)
        with os.fdopen(descriptor, "rb") as file:
            for offset, line in whole_lines(file, self._offset):
                self._offset = offset + len(line)
                self._line += 1
                record = self._parse(line)
                if record is not None:
                    yield record

    def end(self) -> None:
        """Note a last line that is cut off, which no more is written to."""
        if self._offset < os.stat(self._path).st_size:
            self._note(self._line + 1)

    def _parse(self, line: bytes) -> _Record | None:
        if line == b"\n":
            return None
        record = _parse_record(line)
        if record is None:
            self._note(self._line)
            # Another process may have appended to a line that was cut off.
            begin = line.rfind(_BEGIN)
            record = _parse_record(line[begin:]) if begin > 0 else None
        return record

    def _note(self, line: int) -> None:
        self.problems.append(
            f"{self._path}:{line}: the line is cut off and was skipped"
        )


def _read_records(path: Path, name: str) -> Iterator[_Record]:
    """Yield the records of one name in a file; of one that can't be read, none."""
    with suppress(OSError):
        for record in LineReader(path).records():
            if record["record"] == name:
                yield record


def _parse_record(line: bytes) -> _Record | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(record, dict) and isinstance(record.get("record"), str):
        return record
    return None


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
            resumed = _read_records(self.path, "resumed")
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
        record = self._record_call(outcome.case_id, last)
        record["rubric_cost_usd"] = max(0.0, add_exactly(score.cost_usd, *spent))
        record["input_digest"] = self._digest(outcome.case_id)
        record["score"] = self._redact(score.model_dump(mode="json"))
        record["output"] = self._redact(outcome.output)
        record["transcript"] = self._redact(outcome.transcript)
        record["printed"] = self._redact(outcome.printed[-_MAX_TEXT:]) or None
        cut: list[str] = []
        is_redacted = record["output"] != outcome.output
        if isinstance(last, KeptAttempt):
            cut += [name for name in last.truncated if name != "printed"]
            is_redacted = is_redacted or last.is_redacted
        record["truncated"] = cut
        record["is_redacted"] = is_redacted
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

    def _record_call(self, case_id: str, attempt: CaseAttempt) -> _Record:
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


def _encode_record(record: _Record) -> bytes:
    return f"{_encode(record)}\n".encode("ascii")


CaseState = Literal["passed", "failed", "lost", "not run"]
"""What became of a case: a lost one was started and has no score."""


class KeptCase:
    """A case of a run: the calls of its system, and what came of them."""

    def __init__(self, case_id: str) -> None:
        self.case_id = case_id
        self.scheduled: ScheduledCase | None = None
        """The case as the run is to run it; `None` for one that it does not list."""
        self.calls: list[KeptAttempt] = []
        """The calls that have ended, in order."""
        self.begun = 0
        """How many calls were begun."""
        self.nodeid = ""
        """The test that waited for it."""
        self.begun_by: str | None = None
        """The process that began it since the run was last continued."""
        self.done_before: KeptAttempt | None = None
        """The call that had led to the score when the run was last continued."""
        self._told: dict[int, float] = {}
        """What calls have told that they spent, by number, if they have not ended."""
        self._late_cost_usd = 0.0
        """What calls have spent after they were given up."""

    def begin(self, line: StartedLine) -> None:
        """Take in that a call begins."""
        self.begun = max(self.begun, line.attempt)
        self.begun_by = line.worker
        self.nodeid = line.nodeid or self.nodeid

    def spend(self, number: int, cost_usd: float) -> None:
        """Take in what a call has spent."""
        if any(call.attempt == number for call in self.calls):
            self._late_cost_usd = add_exactly(self._late_cost_usd, cost_usd)
        else:
            self._told[number] = add_exactly(self._told.get(number, 0.0), cost_usd)

    def end(self, call: KeptAttempt) -> None:
        """Take in a call that has ended."""
        self.calls.append(call)
        self._told.pop(call.attempt, None)

    @property
    def last(self) -> KeptAttempt | None:
        """The call that led to the score; `None` if there is none.

        The score of a case that was changed before the run was continued is none of it
        any more.
        """
        for call in reversed(self.calls):
            is_as_listed = (
                self.scheduled is None or call.input_digest == self.scheduled.digest
            )
            if call.score is not None and is_as_listed:
                return call
        return None

    @property
    def score(self) -> models.BenchScore | None:
        """The score, if there is one."""
        return None if self.last is None else self.last.score

    @property
    def state(self) -> CaseState:
        """What became of it."""
        if self.score is not None:
            return "passed" if self.score.passed else "failed"
        return "lost" if self.begun or self.calls else "not run"

    @property
    def cost_usd(self) -> float:
        """What it has cost so far, in US dollars, whether it has a score or not."""
        costs = [call.cost_usd for call in self.calls]
        costs += [call.rubric_cost_usd for call in self.calls]
        return add_exactly(*costs, *self._told.values(), self._late_cost_usd)

    def all_calls(self) -> tuple[CaseAttempt, ...]:
        """Return all calls of the system, those included that were lost."""
        ended = {call.attempt: call for call in self.calls}
        return tuple(
            ended.get(number)
            or CaseAttempt(
                attempt=number,
                started_at=0.0,
                seconds=0.0,
                cost_usd=self._told.get(number, 0.0),
                ended="it was lost",
            )
            for number in range(1, max(self.begun, *ended, 0) + 1)
        )


class KeptRun:
    """A run as its file held it when it was last read."""

    def __init__(self, path: Path, *, has_outputs: bool = True) -> None:
        """Read the first line.

        Args:
            path: The file.
            has_outputs: Whether to keep outputs and transcripts in memory.

        Raises:
            BenchError: The file can't be read or is no run's.
        """
        self.path = path
        self._lines = LineReader(path, has_outputs=has_outputs)
        self.problems = self._lines.problems
        """Lines that could not be read, in words."""
        self.known: dict[str, KeptCase] = {}
        """All cases of which the file tells anything, by id."""
        self.cases: dict[str, KeptCase] = {}
        """Those to run, in their order."""
        self.stopped = ""
        """Why no more cases were started."""
        self.stop_causes: set[str] = set()
        """The fingerprints of causes that many cases in a row failed with."""
        self.baseline: models.BenchComparison | str | None = None
        """How it differs from its baseline, or why that is not known; `None` without
        one."""
        self.sessions: list[str] = []
        """The pytest sessions that continued the run."""
        try:
            first = next(self._lines.records(), None)
        except OSError as error:
            raise self._unreadable(error) from None
        if first is None:
            raise BenchError(f"{path}: holds no run; {_RIGHT}")
        version = first.get("schema_version")
        if (
            first["record"] == "run"
            and isinstance(version, int)
            and version > SCHEMA_VERSION
        ):
            raise BenchError(
                f"{path}: has schema version {version}, and this program reads up to"
                f" {SCHEMA_VERSION}; read it with a newer pytest-failure-taxonomy"
            )
        try:
            self.header = RunHeader.model_validate(first)
        except ValidationError:
            what = "its first line does not describe a run"
            raise BenchError(f"{path}: {what}; {_RIGHT}") from None

    def read(self, *, is_over: bool = False) -> Self:
        """Read what was added to the file since it was last read; return the run.

        Args:
            is_over: Whether nobody writes to the file, so that a line without an end is
                cut off.

        Raises:
            BenchError: The file can't be read.
        """
        try:
            for line in self._lines.new():
                self._add(line)
            if is_over:
                self._lines.end()
        except OSError as error:
            raise self._unreadable(error) from None
        return self

    def _unreadable(self, error: OSError) -> BenchError:
        why = f"can't be read ({error.strerror or error})"
        return BenchError(f"{self.path}: {why}; name a run's file")

    def _case(self, case_id: str) -> KeptCase:
        return self.known.setdefault(case_id, KeptCase(case_id))

    def _add(self, line: Line) -> None:
        match line:
            case KeptAttempt():
                self._case(line.case_id).end(line)
            case StartedLine():
                self._case(line.case_id).begin(line)
            case SpentLine():
                self._case(line.case_id).spend(line.attempt, line.cost_usd)
            case CasesLine():
                self._schedule(line.cases)
            case ResumedLine():
                self._continue(line)
            case StoppedLine():
                self.stopped = line.reason
                if line.cause:
                    self.stop_causes.add(line.cause)
            case BaselineLine():
                self.baseline = line.found

    def _schedule(self, cases: Iterable[ScheduledCase]) -> None:
        for case in self.cases.values():
            case.scheduled = None
        self.cases = {}
        for scheduled_case in cases:
            case = self._case(scheduled_case.case_id)
            case.scheduled = scheduled_case
            self.cases[case.case_id] = case

    def _continue(self, line: ResumedLine) -> None:
        self.sessions.append(line.session)
        self.stopped = ""
        self.baseline = None
        if line.cases_in_class is not None:
            changes = {"cases_in_class": line.cases_in_class}
            self.header = self.header.model_copy(update=changes)
        for case in self.known.values():
            case.begun_by = None
            case.done_before = case.last

    def settles(self, call: KeptAttempt) -> bool:
        """Return whether a call with a score is the last one that its case needs.

        It is not if it never got through to the provider, and if it failed with the
        cause that stopped the run.
        """
        return (
            not is_infrastructure(call.kind)
            and call.fingerprint not in self.stop_causes
        )

    def scheduled(self) -> list[ScheduledCase]:
        """Return the cases to run, as the file lists them."""
        return [
            case.scheduled for case in self.cases.values() if case.scheduled is not None
        ]

    def scores(self) -> dict[str, models.BenchScore]:
        """Return the score of each case that has one."""
        scores = ((case_id, case.score) for case_id, case in self.known.items())
        return {case_id: score for case_id, score in scores if score is not None}

    def usages(self) -> list[dict[str, float]]:
        """Return what each call that has ended told besides the cost."""
        return [call.usage for case in self.known.values() for call in case.calls]

    def cost_without_score_usd(self) -> float:
        """Return what was spent on cases of the run that is in none of their scores."""
        spent = [case.cost_usd for case in self.known.values()]
        scored = [-score.cost_usd for score in self.scores().values()]
        return max(0.0, add_exactly(*spent, *scored))


def read_run(path: Path, *, has_outputs: bool = True) -> KeptRun:
    """Return a run from its file.

    Args:
        path: The file.
        has_outputs: Whether to keep outputs and transcripts in memory.

    Raises:
        BenchError: The file can't be read or is no run's.
    """
    return KeptRun(path, has_outputs=has_outputs).read(is_over=True)


def read_calls(path: Path, case_ids: Collection[str]) -> Iterator[KeptAttempt]:
    """Yield the calls of some cases with their outputs, in the order of the file.

    Memory may not hold the outputs of all. Lines and files that can't be read are left
    out: who has read the run knows of them.

    Args:
        path: The file of the run.
        case_ids: The cases.
    """
    for record in _read_records(path, "attempt"):
        case_id = record.get("case_id")
        if isinstance(case_id, str) and case_id in case_ids:
            with suppress(ValidationError):
                yield KeptAttempt.model_validate(record)


_MOST_NAMED: Final = 5
_MAX_LOST: Final = 10
"""How many cases are named that ran when their process ended."""


def run_paths(storage: Path) -> list[Path]:
    """Return the files of the runs in a storage, the oldest first."""
    found = [
        path for path in storage.glob(f"*{RUN_SUFFIX}") if not path.name.startswith(".")
    ]
    return sorted(found, key=_age)


def _age(path: Path) -> tuple[str, int, str]:
    """Return what sorts runs by their beginning: names have it to the second only."""
    changed = 0
    with suppress(OSError):
        changed = path.stat().st_mtime_ns
    return path.name.partition("-")[0], changed, path.name


def session_of(path: Path) -> str:
    """Return how the names of one pytest run's files begin: its time and number."""
    return "-".join(path.stem.split("-", 2)[:2])


def find_runs(given: str, paths: Sequence[Path]) -> list[Path]:
    """Return the files of the runs that a user names, the oldest first.

    Args:
        given: The path of a file, the id of a run, the beginning of ids, or `latest`
            for all runs that the last pytest run has kept.
        paths: The files of a storage.
    """
    with suppress(
        OSError, ValueError
    ):  # a name that is too long for a file, for example
        if Path(given).is_file():
            return [Path(given)]
    if given == LATEST:
        last = next(filter(_has_begun, reversed(paths)), None)
        of_last = [
            path for path in paths if last and session_of(path) == session_of(last)
        ]
        return [path for path in of_last if _has_begun(path)]
    return [path for path in paths if path.stem == given] or [
        path for path in paths if path.stem.startswith(given)
    ]


def _has_begun(path: Path) -> bool:
    """Return whether a file says what was run: one that was cut off may be empty."""
    return next(_read_records(path, "run"), None) is not None


def find_run(given: str, storage: Path) -> Path:
    """Return the file of the run that a user names, the last one for `latest`.

    Args:
        given: As for `find_runs`.
        storage: Where runs are kept.

    Raises:
        BenchError: There is no such run, or there are several.
    """
    paths = run_paths(storage)
    found = find_runs(given, paths)
    if found and (given == LATEST or len(found) == 1):
        return found[-1]
    if not paths:
        raise BenchError(
            f"{given}: there is no run in {storage}; name a file, or a --storage"
        )
    names = ", ".join(path.stem for path in (found or paths)[: -_MOST_NAMED - 1 : -1])
    if found:
        raise BenchError(
            f"{given}: {len(found)} runs begin like this; name one, such as {names}"
        )
    raise BenchError(
        f"{given}: there is no such run in {storage}; the latest are {names}"
    )


def report_of(run: KeptRun) -> models.BenchRunReport:
    """Return the report of a run from what its file holds."""
    header, cases = run.header, run.scheduled()
    settings = models.BenchSettings()
    # Anybody may have written the file, and settings come and go.
    with suppress(ValidationError):
        reducers = {"reducers": header.settings.get("reducers", ())}
        settings = models.BenchSettings.model_validate(reducers)
    known = {"reducers": tuple(filter(is_reducer, settings.reducers))}
    task_class = models.TaskClass(
        name=header.task_class, settings=settings.model_copy(update=known)
    )
    plan = models.RunPlan(
        task_class=task_class,
        cases=tuple(
            models.BenchCase(**each.model_dump(exclude={"digest"})) for each in cases
        ),
        gate=header.gate,
        is_selection=len(cases) < header.cases_in_class and header.shard is None,
        shard=header.shard,
    )
    scores = {key: score for key, score in run.scores().items() if key in run.cases}
    return aggregate(
        plan,
        scores.items(),
        run_id=models.id_of_run(header.run_id, run.stopped),
        started=[key for key, case in run.cases.items() if case.begun],
        stopped=run.stopped or None,
        lost_to=lost_to(run),
        digests=header.digests.model_copy(
            update={"cases": cases_digest(case.digest for case in cases)}
        ),
        system=str(header.system),
        system_label=header.system.label,
        lost_cost_usd=run.cost_without_score_usd(),
        usages=run.usages(),
    )


def lost_to(run: KeptRun) -> dict[str, str]:
    """Return the kind of the failure for each case lost to the provider or environment."""
    kinds = {}
    for case_id, case in run.known.items():
        call = case.last or next(reversed(case.calls), None)
        if call is None:
            continue
        is_owed = call.is_lost and call.charge_to is not None
        if is_owed or (call.score is not None and is_infrastructure(call.kind)):
            kinds[case_id] = call.kind or "environment"
    return kinds


def folder_of(run: KeptRun, given: Path | None = None) -> Path:
    """Return the folder of a run's task class.

    Args:
        run: The run. Its folder is looked for below the working directory, then below
            the folder that the storage is in: a file may come from anybody, and must
            not name a rubric elsewhere.
        given: The folder, if the user names it.

    Raises:
        BenchError: It is not there.
    """
    if given is not None:
        if is_task_class(given):
            return given
        raise BenchError(
            f"--task-class: {shown(str(given))} is no task class;"
            f" name a folder with a {MARKER_FILE}"
        )
    named = run.header.folder
    if os.path.isabs(named) or ".." in Path(named).parts:
        raise BenchError(
            f"{run.path}: its task class was in {shown(named)}, outside of the root directory;"
            " name its folder with --task-class"
        )
    for place in (Path(named), run.path.absolute().parent.parent / named):
        try:
            if named and is_task_class(place):
                return place
        except ValueError:  # no name of a file, such as one with NUL
            break
    raise BenchError(
        f"{run.path}: its task class was in {shown(named)}, which is gone now;"
        " name its folder with --task-class"
    )


def descriptions_of(run: KeptRun) -> dict[str, str]:
    """Return what the codes of a run's class mean; empty if the class is gone."""
    from pytest_failure_taxonomy.bench.load.task_class import read_failure_modes

    try:
        modes = read_failure_modes(ClassFolder(folder_of(run)))
        return {code: mode.description for code, mode in modes.items()}
    except BenchError:
        return {}


def section_of_session(folder: str, session: str) -> dict[str, object]:
    """Return the section of the report of a pytest session that has died, as JSON.

    It has the reports of the runs that the session has begun or continued, the oldest first; and
    the cases that have begun and have no score: an item of a case waits while several cases run, so
    the test that was in flight is often none of those that had a system at work.
    """
    rows: list[dict[str, object]] = []
    evidence: list[str] = []
    waiting: str | None = None
    for path in run_paths(Path(folder)):
        try:
            run = read_run(path, has_outputs=False)
        except BenchError:
            continue
        if not path.name.startswith(session) and session not in run.sessions:
            continue
        rows.append(report_of(run).model_dump(mode="json"))
        lost = [case for case in run.known.values() if case.state == "lost"]
        if not lost:
            continue
        task_class = rows[-1]["task_class"]
        names = listed([case.case_id for case in lost], _MAX_LOST)
        evidence.append(
            f"cases of {task_class} that ran when the process ended: {names}"
        )
        nodeids = [case.nodeid for case in lost if case.nodeid]
        if len(nodeids) == 1:
            waiting = nodeids[0]
    return {"rows": rows, "evidence": evidence, "nodeid": waiting}
