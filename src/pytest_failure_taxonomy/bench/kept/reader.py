"""Read the file of a run: its lines, its cases, and the run as a whole."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import ValidationError

from pytest_failure_taxonomy.bench import models
from pytest_failure_taxonomy.bench.answers import add_exactly
from pytest_failure_taxonomy.bench.kept.lines import (
    LINES,
    SCHEMA_VERSION,
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
)
from pytest_failure_taxonomy.bench.scores import CaseAttempt
from pytest_failure_taxonomy.bench.user_code import is_infrastructure
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.system.files import READ, whole_lines

_RIGHT: Final = "name a file that pytest wrote to --bench-storage"

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

    def new(self, wanted: Collection[str] = LINES.keys()) -> Iterator[Line]:
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
                yield LINES[name].model_validate(record)
            except ValidationError:
                self.problems.append(f"{self._path}: a line of {name!r} was skipped")

    def records(self) -> Iterator[Record]:
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

    def _parse(self, line: bytes) -> Record | None:
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


def read_records(path: Path, name: str) -> Iterator[Record]:
    """Yield the records of one name in a file; of one that can't be read, none."""
    with suppress(OSError):
        for record in LineReader(path).records():
            if record["record"] == name:
                yield record


def _parse_record(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(record, dict) and isinstance(record.get("record"), str):
        return record
    return None


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
    for record in read_records(path, "attempt"):
        case_id = record.get("case_id")
        if isinstance(case_id, str) and case_id in case_ids:
            with suppress(ValidationError):
                yield KeptAttempt.model_validate(record)
