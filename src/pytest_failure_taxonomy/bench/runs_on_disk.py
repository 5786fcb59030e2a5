"""A run of a task class as a file: written line by line while it goes on, and read afterwards.

Each line is a JSON object whose first key, `record`, says what it is:

| record  | written                               | holds                                         |
|---------|---------------------------------------|-----------------------------------------------|
| run     | first, once                           | what is run: class, taxonomy, system, digests |
| cases   | second, and when the run is continued | the cases to run, with their digests          |
| resumed | when another pytest continues the run | when, and at which commit                     |
| started | before a case's system is called      | case, number of the call, worker, process     |
| spent   | when the system tells a cost          | case, amount                                  |
| attempt | when a call of the system has ended   | case, times, costs; with the last, the score  |
| stopped | when no more cases are started        | why                                           |

Several processes append to one file; each line is one write. A process that is killed may leave a
line that is cut off: it is skipped, and said so.
"""

# Without `from __future__ import annotations`: pydantic needs the annotations as they are.

import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import Field, ValidationError

from pytest_failure_taxonomy.bench.answers import MOST_COST_USD
from pytest_failure_taxonomy.bench.digests import case_digest
from pytest_failure_taxonomy.bench.models import (
    BenchCase,
    BenchRunReport,
    BenchScore,
    BenchSettings,
    GateSettings,
    RunPlan,
    RunShard,
    Severity,
    TaskClass,
)
from pytest_failure_taxonomy.bench.outcomes import CaseAttempt, CaseOutcome
from pytest_failure_taxonomy.bench.retries import is_infrastructure
from pytest_failure_taxonomy.bench.run_figures import BenchDigests
from pytest_failure_taxonomy.bench.run_report import aggregate
from pytest_failure_taxonomy.documents.closed_model import ClosedModel
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.system.own_files import CAREFUL, READ, write_new

try:
    import fcntl
except ImportError:  # Windows: the processes of one run then may exceed a cost cap together
    fcntl = None  # type: ignore[assignment]

SCHEMA_VERSION: Final = 1
SUFFIX: Final = ".jsonl"
MAX_OUTPUT_CHARACTERS: Final = 256 * 1024
"""Of the JSON of an output that is kept; a longer one is left out."""
MAX_TRANSCRIPT_CHARACTERS: Final = 1024 * 1024
_MAX_TEXT: Final = 20_000

_T = TypeVar("_T")
_Listed = Annotated[tuple[_T, ...], Field(strict=False)]
_Name = Annotated[str, Field(min_length=1)]
_Usd = Annotated[float, Field(ge=0, le=MOST_COST_USD)]

Redact = Callable[[Any], Any]
"""Return a JSON value without the secrets in it."""


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
    tags: _Listed[str] = ()
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
    taxonomy: dict[str, Severity]
    """The class's failure codes with their severities."""
    breakdown_keys: _Listed[str]
    """The class's breakdown keys, sorted."""
    cases_in_class: Annotated[int, Field(ge=0)]
    """How many cases the class has, of which a run may be to run some."""
    gate: GateSettings | None = None
    """What the run must reach."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """The class's settings, options applied."""
    digests: BenchDigests
    """What makes runs comparable."""
    commit: str | None = None
    """The commit that is checked out, if there is one."""
    started_at: str
    """When the run began, as RFC 3339 in UTC."""
    generator: str
    """This package and its version."""
    shard: RunShard | None = None
    """Which part of the class it is; null for all of it."""
    not_resumed: str | None = None
    """Why an earlier run could not be continued, if that was asked for."""
    regraded_from: str | None = None
    """The run whose outputs were graded again; its system was not called for this one."""


def scheduled(case: BenchCase) -> ScheduledCase:
    """Return a case as a run's file lists it."""
    return ScheduledCase(
        case_id=case.case_id,
        digest=case_digest(case),
        repetition=case.repetition,
        tags=case.tags,
    )


def now() -> str:
    """Return the time as RFC 3339 in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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
        self._descriptor: int | None = None
        self._lock = threading.RLock()

    def create(self, header: RunHeader, cases: Iterable[ScheduledCase]) -> None:
        """Create the file with its first two lines, unless another process has done so."""
        lines = [_line(header.model_dump(mode="json")), _line(_cases(cases))]
        temporary = self.path.with_name(f".{self.path.name}.{os.urandom(6).hex()}.tmp")
        try:
            write_new(temporary, b"".join(lines))
            try:
                with suppress(FileExistsError):
                    os.link(temporary, self.path)  # whoever sees the file sees both lines
            finally:
                temporary.unlink()
        except OSError as error:
            self._note_problem(error)

    def resume(self, session: str, commit: str | None, cases: Iterable[ScheduledCase]) -> None:
        """Say once for a pytest session that it continues the run."""
        with self.locked():
            if not any(each.get("session") == session for each in _records(self.path, ["resumed"])):
                if not _ends_with_a_line(self.path):
                    self._append(b"\n")
                said = {"record": "resumed", "session": session, "at": now(), "commit": commit}
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

    def note_attempt(self, case_id: str, attempt: CaseAttempt) -> None:
        """Write a call of the system that did not end its case."""
        self._append(_line(self._call(case_id, attempt)))

    def note_outcome(
        self, outcome: CaseOutcome, digest: str, *, regraded: "KeptAttempt | None" = None
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
        cut = [] if regraded is None else [each for each in regraded.truncated if each != "printed"]
        redacted = regraded is not None and regraded.is_redacted
        for name, value, limit in (
            ("output", outcome.output, MAX_OUTPUT_CHARACTERS),
            ("transcript", outcome.transcript, MAX_TRANSCRIPT_CHARACTERS),
            ("printed", outcome.printed[-_MAX_TEXT:] or None, _MAX_TEXT),
        ):
            kept = value if value is None else self._redact(value)
            redacted |= kept != value
            if kept is not None and len(_dumps(kept)) > limit:
                cut.append(name)
                kept = None
            said[name] = kept
        said["truncated"] = cut
        said["is_redacted"] = redacted
        self._append(_line(said))

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
            descriptor = self._open()
            if descriptor is None or fcntl is None:
                yield
                return
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def _open(self) -> int | None:
        if self._descriptor is None and not self.problem:
            try:
                self._descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | CAREFUL)
            except OSError as error:
                self._note_problem(error)
        return self._descriptor

    def _append(self, line: bytes) -> None:
        with self._lock:
            descriptor = self._open()
            if descriptor is None:
                return
            try:
                rest = memoryview(line)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
            except OSError as error:
                self._note_problem(error)

    def _note_problem(self, error: OSError) -> None:
        self.problem = self.problem or f"{self.path}: can't be written ({_why(error)})"


def _why(error: OSError) -> str:
    return error.strerror or str(error)


_encode: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def _dumps(value: Any) -> str:
    return _encode(value)


def _line(record: Mapping[str, Any]) -> bytes:
    return f"{_encode(record)}\n".encode("ascii")


def _cases(cases: Iterable[ScheduledCase]) -> dict[str, Any]:
    return {"record": "cases", "cases": [case.model_dump(mode="json") for case in cases]}


def _ends_with_a_line(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
    return True


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
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
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


def _records(path: Path, wanted: Iterable[str]) -> Iterator[dict[str, Any]]:
    with suppress(OSError):
        yield from LineReader(path).new(frozenset(wanted))


class KeptAttempt(ClosedModel):
    """A call of the system for a case, as a run's file holds it."""

    record: Literal["attempt"] = "attempt"
    case_id: str
    """The case."""
    attempt: Annotated[int, Field(ge=1)]
    """Which of the case's calls it was, from 1."""
    worker: str = ""
    """The process that made it."""
    started_at: float
    """When it began, in seconds since the epoch."""
    seconds: float
    """How long the system took."""
    cost_usd: _Usd = 0.0
    """What the system spent."""
    usage: dict[str, float] = Field(default_factory=dict)
    """Other amounts, by name."""
    ended: str = ""
    """Why the system gave no output, in words."""
    kind: str | None = None
    """The kind of the exception that it raised."""
    fingerprint: str = ""
    """The same for exceptions of one cause."""
    rubric_cost_usd: _Usd = 0.0
    """What the rubric spent."""
    input_digest: str = ""
    """The digest of the case's fields."""
    score: BenchScore | None = None
    """The case's score; null for a call after which the system was called again."""
    output: Any = None
    """What the system returned."""
    transcript: Any = None
    """How the system came to it."""
    printed: str | None = None
    """What the rubric printed."""
    truncated: _Listed[str] = ()
    """Which of these were too long to be kept."""
    is_redacted: bool = False
    """Whether secrets were removed from one of these."""

    def as_call(self) -> CaseAttempt:
        """Return the call without what the case came to."""
        return CaseAttempt(
            number=self.attempt,
            started_at=self.started_at,
            seconds=self.seconds,
            cost_usd=self.cost_usd,
            usage=self.usage,
            ended=self.ended,
            kind=self.kind,
            fingerprint=self.fingerprint,
        )


def _lost(number: int, cost_usd: float) -> CaseAttempt:
    """Return a call of which nothing is known but what it told that it spent."""
    return CaseAttempt(
        number=number, started_at=0.0, seconds=0.0, cost_usd=cost_usd, ended="it was lost"
    )


class KeptRun:
    """A run as its file holds it."""

    def __init__(self, path: Path, header: RunHeader) -> None:
        self.path = path
        self.header = header
        self.cases: dict[str, ScheduledCase] = {}
        """The cases to run, by id."""
        self.attempts: dict[str, list[KeptAttempt]] = {}
        """The calls of each case, in order."""
        self.started: dict[str, int] = {}
        """How many calls were begun, by case."""
        self.nodeids: dict[str, str] = {}
        """The tests that waited for the cases that were begun, by case."""
        self.stopped = ""
        """Why no more cases were started."""
        self.stop_causes: set[str] = set()
        """The fingerprints of causes that many cases in a row failed with."""
        self.sessions: list[str] = []
        """The pytest sessions that continued the run."""
        self.done_before: dict[str, KeptAttempt] = {}
        """The calls with a score, by case, when the run was last continued."""
        self.problems: list[str] = []
        """Lines that could not be read, in words."""
        self._told: dict[tuple[str, int], float] = {}
        """What calls have told that they spent, by case and number, if they have not ended."""
        self._late: dict[str, float] = {}
        """What calls have spent after they were given up, by case."""

    def add(self, record: Mapping[str, Any]) -> None:
        """Take in one line.

        Raises:
            ValidationError: It doesn't have the form of its kind.
        """
        match record["record"]:
            case "attempt":
                self._add_attempt(KeptAttempt.model_validate(record))
            case "started":
                case_id, number = str(record["case_id"]), int(record.get("attempt", 1))
                self.started[case_id] = max(self.started.get(case_id, 0), number)
                if "nodeid" in record:
                    self.nodeids[case_id] = str(record["nodeid"])
            case "spent":
                self._add_spent(
                    str(record["case_id"]), int(record["attempt"]), float(record["cost_usd"])
                )
            case "cases":
                listed = [ScheduledCase.model_validate(each) for each in record["cases"]]
                self.cases = {each.case_id: each for each in listed}
            case "resumed":
                self.sessions.append(str(record["session"]))
                self.stopped = ""
                lasts = ((case_id, self.last_of(case_id)) for case_id in self.attempts)
                self.done_before = {case_id: last for case_id, last in lasts if last is not None}
            case "stopped":
                self.stopped = str(record["reason"])
                if record.get("cause"):
                    self.stop_causes.add(str(record["cause"]))

    def _add_attempt(self, attempt: KeptAttempt) -> None:
        self.attempts.setdefault(attempt.case_id, []).append(attempt)
        self._told.pop((attempt.case_id, attempt.attempt), None)

    def _add_spent(self, case_id: str, number: int, cost_usd: float) -> None:
        has_ended = any(each.attempt == number for each in self.attempts.get(case_id, ()))
        if has_ended:
            self._late[case_id] = self._late.get(case_id, 0.0) + cost_usd
        else:
            self._told[case_id, number] = self._told.get((case_id, number), 0.0) + cost_usd

    def is_done(self, case_id: str, digest: str) -> bool:
        """Return whether a case needs no further call of the system.

        It does if it has changed, if it never got through to the provider, and if it failed with
        the cause that stopped the run.
        """
        last = self.last_of(case_id)
        return last is not None and self.settles(last, digest)

    def settles(self, call: KeptAttempt, digest: str) -> bool:
        """Return whether a call with a score is the last one that its case needs."""
        return (
            call.input_digest == digest
            and not is_infrastructure(call.kind)
            and call.fingerprint not in self.stop_causes
        )

    def calls_of(self, case_id: str) -> tuple[CaseAttempt, ...]:
        """Return all calls of the system for a case, those included that were lost."""
        ended = {each.attempt: each for each in self.attempts.get(case_id, ())}
        numbers = range(1, max(self.started.get(case_id, 0), *ended, 0) + 1)
        return tuple(
            _lost(number, self._told.get((case_id, number), 0.0))
            if (each := ended.get(number)) is None
            else each.as_call()
            for number in numbers
        )

    def last_of(self, case_id: str) -> KeptAttempt | None:
        """Return the call that led to a case's score; `None` if it has none."""
        found = self.attempts.get(case_id, ())
        return next((each for each in reversed(found) if each.score is not None), None)

    def scores(self) -> dict[str, BenchScore]:
        """Return the score of each case that has one."""
        found: dict[str, BenchScore] = {}
        for case_id in self.attempts:
            last = self.last_of(case_id)
            if last is not None and last.score is not None:
                found[case_id] = last.score
        return found

    def cost_usd(self, case_id: str) -> float:
        """Return what a case has cost so far, in US dollars, whether it has a score or not."""
        calls = self.attempts.get(case_id, ())
        ended = math.fsum(each.cost_usd + each.rubric_cost_usd for each in calls)
        told = math.fsum(cost for (key, _), cost in self._told.items() if key == case_id)
        return ended + told + self._late.get(case_id, 0.0)

    def cost_without_score_usd(self) -> float:
        """Return what was spent on cases of the run that is in none of their scores."""
        known = {*self.cases, *self.started}
        spent = math.fsum(self.cost_usd(case_id) for case_id in known)
        scored = math.fsum(score.cost_usd for score in self.scores().values())
        return max(0.0, round(spent - scored, 9))


class RunReader:
    """Reads the file of a run, and later what was added to it."""

    def __init__(self, path: Path, *, has_outputs: bool = True) -> None:
        """Prepare; nothing is read yet.

        Args:
            path: The file.
            has_outputs: Whether to keep outputs and transcripts in memory.
        """
        self._path = path
        self._has_outputs = has_outputs
        self._reader = LineReader(path)
        self._run: KeptRun | None = None

    def read(self, *, is_over: bool = False) -> KeptRun:
        """Return the run as its file holds it now.

        Args:
            is_over: Whether nobody writes to the file, so that a line without an end is cut off.

        Raises:
            BenchError: The file can't be read or is no run's.
        """
        path = self._path
        try:
            for record in self._reader.new():
                if self._run is None:
                    self._run = KeptRun(path, _header(path, record))
                else:
                    self._add(self._run, record)
            if is_over:
                self._reader.end()
        except OSError as error:
            why = f"can't be read ({_why(error)})"
            raise BenchError(f"{path}: {why}; name a run's file") from None
        if self._run is None:
            right = "name a file that pytest wrote to --bench-storage"
            raise BenchError(f"{path}: holds no run; {right}")
        self._run.problems += self._reader.problems
        self._reader.problems.clear()
        return self._run

    def _add(self, run: KeptRun, record: dict[str, Any]) -> None:
        if not self._has_outputs:
            record.pop("output", None)
            record.pop("transcript", None)
        try:
            run.add(record)
        except (ValidationError, LookupError, TypeError, ValueError, OverflowError):
            run.problems.append(f"{run.path}: a line of {record['record']!r} was skipped")


def read_run(path: Path, *, has_outputs: bool = True) -> KeptRun:
    """Return a run from its file.

    Args:
        path: The file.
        has_outputs: Whether to keep outputs and transcripts in memory.

    Raises:
        BenchError: The file can't be read or is no run's.
    """
    return RunReader(path, has_outputs=has_outputs).read(is_over=True)


def read_header(path: Path) -> RunHeader:
    """Return the first line of a run's file, without reading the others.

    Raises:
        BenchError: The file can't be read or is no run's.
    """
    try:
        for record in LineReader(path).new():
            return _header(path, record)
    except OSError as error:
        raise BenchError(f"{path}: can't be read ({_why(error)}); name a run's file") from None
    raise BenchError(f"{path}: holds no run; name a file that pytest wrote to --bench-storage")


LATEST: Final = "latest"
"""Names the latest run of a storage."""
_MOST_NAMED: Final = 5


def run_paths(storage: Path) -> list[Path]:
    """Return the files of the runs in a storage, the oldest first."""
    found = [path for path in storage.glob(f"*{SUFFIX}") if not path.name.startswith(".")]
    return sorted(found, key=_age)


def _age(path: Path) -> tuple[str, int, str]:
    """Return what sorts runs by their beginning: names have it to the second only."""
    changed = 0
    with suppress(OSError):
        changed = path.stat().st_mtime_ns
    return path.name.partition("-")[0], changed, path.name


def find_run(given: str, storage: Path) -> Path:
    """Return the file of the run that a user names.

    Args:
        given: The path of a file, the id of a run, the beginning of one, or `latest`.
        storage: Where runs are kept.

    Raises:
        BenchError: There is no such run, or there are several.
    """
    with suppress(OSError, ValueError):  # a name that is too long for a file, for example
        if Path(given).is_file():
            return Path(given)
    paths = run_paths(storage)
    if given == LATEST and paths:
        return paths[-1]
    found = [path for path in paths if path.stem == given] or [
        path for path in paths if path.stem.startswith(given)
    ]
    if len(found) == 1:
        return found[0]
    if not paths:
        raise BenchError(f"{given}: there is no run in {storage}; name a file, or a --storage")
    listed = ", ".join(path.stem for path in (found or paths)[-_MOST_NAMED:])
    if found:
        raise BenchError(f"{given}: {len(found)} runs begin so; name one, such as {listed}")
    raise BenchError(f"{given}: there is no such run in {storage}; the latest are {listed}")


def _header(path: Path, record: Mapping[str, Any]) -> RunHeader:
    version = record.get("schema_version")
    if record.get("record") == "run" and isinstance(version, int) and version > SCHEMA_VERSION:
        raise BenchError(
            f"{path}: has schema version {version}, and this program reads up to {SCHEMA_VERSION};"
            " read it with a newer pytest-failure-taxonomy"
        )
    try:
        return RunHeader.model_validate(record)
    except ValidationError:
        raise BenchError(
            f"{path}: its first line does not describe a run; name a file that pytest wrote to"
            " --bench-storage"
        ) from None


def report_of(run: KeptRun, gate: GateSettings | None = None) -> BenchRunReport:
    """Return the report of a run from what its file holds.

    Args:
        run: The run.
        gate: What it must reach; by default, what it had to reach when it ran.
    """
    cases = tuple(
        BenchCase(case_id=each.case_id, tags=each.tags, repetition=each.repetition)
        for each in run.cases.values()
    )
    plan = RunPlan(
        task_class=task_class_of(run.header),
        cases=cases,
        gate=gate or run.header.gate,
        is_selection=len(cases) < run.header.cases_in_class and run.header.shard is None,
        shard=run.header.shard,
    )
    scores = {key: score for key, score in run.scores().items() if key in run.cases}
    return aggregate(
        plan,
        scores.items(),
        run_id=f"partial:{run.header.run_id}" if run.stopped else run.header.run_id,
        started=[key for key in run.started if key in run.cases],
        stopped=run.stopped or None,
        lost_to=lost_to(run),
        digests=run.header.digests,
        system=str(run.header.system),
        system_label=run.header.system.label,
        lost_cost_usd=run.cost_without_score_usd(),
    )


def lost_to(run: KeptRun) -> dict[str, str]:
    """Return the kind of the provider's failure for each case that never got through."""
    lasts = ((case_id, run.last_of(case_id)) for case_id in run.attempts)
    return {
        case_id: last.kind
        for case_id, last in lasts
        if last is not None and last.kind is not None and is_infrastructure(last.kind)
    }


def task_class_of(header: RunHeader) -> TaskClass:
    """Return what a run's file says of its task class, without cases and rubric."""
    return TaskClass(
        name=header.task_class,
        breakdown_keys=frozenset(header.breakdown_keys),
        failure_mode_taxonomy=header.taxonomy,
        settings=BenchSettings(gate=header.gate),
    )
