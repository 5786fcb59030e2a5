"""Find the runs of task classes that are kept, read them, and make their reports.

A process that is killed may leave a line that is cut off: it is skipped, and said so.

As a program, this prints the reports of the runs that a pytest session has kept, for the report of
one that died: what completes such a report imports neither pydantic nor scipy.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import ValidationError

from pytest_failure_taxonomy.bench import models
from pytest_failure_taxonomy.bench.kept import file
from pytest_failure_taxonomy.bench.load.folder import MARKER_FILE, ClassFolder, is_task_class
from pytest_failure_taxonomy.bench.report import aggregate, is_reducer
from pytest_failure_taxonomy.bench.scores import CaseAttempt
from pytest_failure_taxonomy.bench.sharding import cases_digest
from pytest_failure_taxonomy.bench.user_code import is_infrastructure
from pytest_failure_taxonomy.documents.problems import shown
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.option_files import LATEST, RUN_SUFFIX

CaseState = Literal["passed", "failed", "lost", "not run"]
"""What became of a case: a lost one was started and has no score."""


class KeptCase:
    """A case of a run: the calls of its system, and what came of them."""

    def __init__(self, case_id: str) -> None:
        self.case_id = case_id
        self.scheduled: file.ScheduledCase | None = None
        """The case as the run is to run it; `None` for one that it does not list."""
        self.calls: list[file.KeptAttempt] = []
        """The calls that have ended, in order."""
        self.begun = 0
        """How many calls were begun."""
        self.nodeid = ""
        """The test that waited for it."""
        self.begun_by: str | None = None
        """The process that began it since the run was last continued."""
        self.done_before: file.KeptAttempt | None = None
        """The call that had led to the score when the run was last continued."""
        self._told: dict[int, float] = {}
        """What calls have told that they spent, by number, if they have not ended."""
        self._late_cost_usd = 0.0
        """What calls have spent after they were given up."""

    def spend(self, number: int, cost_usd: float) -> None:
        """Take in what a call has spent."""
        if any(call.attempt == number for call in self.calls):
            self._late_cost_usd += cost_usd
        else:
            self._told[number] = self._told.get(number, 0.0) + cost_usd

    def end(self, call: file.KeptAttempt) -> None:
        """Take in a call that has ended."""
        self.calls.append(call)
        self._told.pop(call.attempt, None)

    @property
    def last(self) -> file.KeptAttempt | None:
        """The call that led to the score; `None` if there is none.

        The score of a case that was changed before the run was continued is none of it any more.
        """
        for call in reversed(self.calls):
            is_as_listed = self.scheduled is None or call.input_digest == self.scheduled.digest
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
        ended = math.fsum(call.cost_usd + call.rubric_cost_usd for call in self.calls)
        return ended + math.fsum(self._told.values()) + self._late_cost_usd

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
        self._has_outputs = has_outputs
        self._lines = file.LineReader(path)
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
        self.sessions: list[str] = []
        """The pytest sessions that continued the run."""
        first = next(self._records(), None)
        if first is None:
            right = "name a file that pytest wrote to --bench-storage"
            raise BenchError(f"{path}: holds no run; {right}")
        self.header = _header(path, first)

    def read(self, *, is_over: bool = False) -> KeptRun:
        """Take in what was added to the file since it was last read, and return the run.

        Args:
            is_over: Whether nobody writes to the file, so that a line without an end is cut off.

        Raises:
            BenchError: The file can't be read.
        """
        for record in self._records(is_over=is_over):
            if not self._has_outputs:
                record.pop("output", None)
                record.pop("transcript", None)
            try:
                self._add(record)
            except (ValidationError, LookupError, TypeError, ValueError, OverflowError):
                self.problems.append(f"{self.path}: a line of {record['record']!r} was skipped")
        return self

    def _records(self, *, is_over: bool = False) -> Iterator[dict[str, Any]]:
        try:
            yield from self._lines.new()
            if is_over:
                self._lines.end()
        except OSError as error:
            why = f"can't be read ({error.strerror or error})"
            raise BenchError(f"{self.path}: {why}; name a run's file") from None

    def _case(self, record: Mapping[str, Any]) -> KeptCase:
        case_id = str(record["case_id"])
        return self.known.setdefault(case_id, KeptCase(case_id))

    def _add(self, record: Mapping[str, Any]) -> None:  # noqa: C901 - a case for each record
        match record["record"]:
            case "attempt":
                attempt = file.KeptAttempt.model_validate(record)
                self._case(record).end(attempt)
            case "started":
                case = self._case(record)
                case.begun = max(case.begun, int(record.get("attempt", 1)))
                case.begun_by = str(record.get("worker", ""))
                case.nodeid = str(record.get("nodeid", case.nodeid))
            case "spent":
                number, cost_usd = int(record["attempt"]), float(record["cost_usd"])
                self._case(record).spend(number, cost_usd)
            case "cases":
                listed = [file.ScheduledCase.model_validate(each) for each in record["cases"]]
                for case in self.cases.values():
                    case.scheduled = None
                self.cases = {each.case_id: self._case(vars(each)) for each in listed}
                for each in listed:
                    self.cases[each.case_id].scheduled = each
            case "resumed":
                self.sessions.append(str(record["session"]))
                self.stopped = ""
                now_in_class = int(record.get("cases_in_class", self.header.cases_in_class))
                self.header = self.header.model_copy(update={"cases_in_class": now_in_class})
                for case in self.known.values():
                    case.begun_by, case.done_before = None, case.last
            case "stopped":
                self.stopped = str(record["reason"])
                if record.get("cause"):
                    self.stop_causes.add(str(record["cause"]))

    def settles(self, call: file.KeptAttempt) -> bool:
        """Return whether a call with a score is the last one that its case needs.

        It is not if it never got through to the provider, and if it failed with the cause that
        stopped the run.
        """
        return not is_infrastructure(call.kind) and call.fingerprint not in self.stop_causes

    def scheduled(self) -> list[file.ScheduledCase]:
        """Return the cases to run, as the file lists them."""
        return [case.scheduled for case in self.cases.values() if case.scheduled is not None]

    def scores(self) -> dict[str, models.BenchScore]:
        """Return the score of each case that has one."""
        scores = ((case_id, case.score) for case_id, case in self.known.items())
        return {case_id: score for case_id, score in scores if score is not None}

    def cost_without_score_usd(self) -> float:
        """Return what was spent on cases of the run that is in none of their scores."""
        spent = math.fsum(case.cost_usd for case in self.known.values())
        scored = math.fsum(score.cost_usd for score in self.scores().values())
        return max(0.0, round(spent - scored, 9))


def read_run(path: Path, *, has_outputs: bool = True) -> KeptRun:
    """Return a run from its file.

    Args:
        path: The file.
        has_outputs: Whether to keep outputs and transcripts in memory.

    Raises:
        BenchError: The file can't be read or is no run's.
    """
    return KeptRun(path, has_outputs=has_outputs).read(is_over=True)


def read_calls(path: Path, case_ids: Collection[str]) -> Iterator[file.KeptAttempt]:
    """Yield the calls of some cases with their outputs, in the order of the file.

    Memory may not hold the outputs of all. Lines and files that can't be read are left out: who
    has read the run knows of them.

    Args:
        path: The file of the run.
        case_ids: The cases.
    """
    with suppress(OSError):
        for record in file.LineReader(path).new(["attempt"]):
            case_id = record.get("case_id")
            if isinstance(case_id, str) and case_id in case_ids:
                with suppress(ValidationError):
                    yield file.KeptAttempt.model_validate(record)


_MOST_NAMED: Final = 5


def run_paths(storage: Path) -> list[Path]:
    """Return the files of the runs in a storage, the oldest first."""
    found = [path for path in storage.glob(f"*{RUN_SUFFIX}") if not path.name.startswith(".")]
    return sorted(found, key=_age)


def _age(path: Path) -> tuple[str, int, str]:
    """Return what sorts runs by their beginning: names have it to the second only."""
    changed = 0
    with suppress(OSError):
        changed = path.stat().st_mtime_ns
    return path.name.partition("-")[0], changed, path.name


def session_of(path: Path) -> str:
    """Return what the names of all runs of one pytest run begin with: its time and its number."""
    return "-".join(path.stem.split("-", 2)[:2])


def named_runs(given: str, paths: Sequence[Path]) -> list[Path]:
    """Return the files of the runs that a user names: by a file, an id, or the beginning of ids.

    Args:
        given: The name.
        paths: The files of a storage.
    """
    with suppress(OSError, ValueError):  # a name that is too long for a file, for example
        if Path(given).is_file():
            return [Path(given)]
    return runs_beginning(given, paths)


def runs_beginning(given: str, paths: Sequence[Path]) -> list[Path]:
    """Return the files of the run with an id, or else of those whose ids begin so."""
    return [path for path in paths if path.stem == given] or [
        path for path in paths if path.stem.startswith(given)
    ]


def find_run(given: str, storage: Path) -> Path:
    """Return the file of the run that a user names.

    Args:
        given: The path of a file, the id of a run, the beginning of one, or `latest`.
        storage: Where runs are kept.

    Raises:
        BenchError: There is no such run, or there are several.
    """
    paths = run_paths(storage)
    if given == LATEST and paths and not Path(LATEST).is_file():
        for path in reversed(paths):
            with suppress(OSError):  # a run that was cut off may have an empty file
                if next(file.LineReader(path).new(["run"]), None) is not None:
                    return path
        return paths[-1]
    found = named_runs(given, paths)
    if len(found) == 1:
        return found[0]
    if not paths:
        raise BenchError(f"{given}: there is no run in {storage}; name a file, or a --storage")
    listed = ", ".join(path.stem for path in (found or paths)[: -_MOST_NAMED - 1 : -1])
    if found:
        raise BenchError(f"{given}: {len(found)} runs begin so; name one, such as {listed}")
    raise BenchError(f"{given}: there is no such run in {storage}; the latest are {listed}")


def _header(path: Path, record: Mapping[str, Any]) -> file.RunHeader:
    version = record.get("schema_version")
    if record.get("record") == "run" and isinstance(version, int) and version > file.SCHEMA_VERSION:
        raise BenchError(
            f"{path}: has schema version {version}, and this program reads up to"
            f" {file.SCHEMA_VERSION}; read it with a newer pytest-failure-taxonomy"
        )
    try:
        return file.RunHeader.model_validate(record)
    except ValidationError:
        raise BenchError(
            f"{path}: its first line does not describe a run; name a file that pytest wrote to"
            " --bench-storage"
        ) from None


def report_of(run: KeptRun, gate: models.GateSettings | None = None) -> models.BenchRunReport:
    """Return the report of a run from what its file holds.

    Args:
        run: The run.
        gate: What it must reach; by default, what it had to reach when it ran.
    """
    header, cases = run.header, run.scheduled()
    given = header.settings.get("reducers")
    # Without what is none: anybody may have written the file.
    reducers = [
        each
        for each in (given if isinstance(given, list) else ())
        if isinstance(each, str) and is_reducer(each)
    ]
    task_class = models.TaskClass(
        name=header.task_class,
        breakdown_keys=frozenset(),
        failure_mode_taxonomy={},
        settings=models.BenchSettings(reducers=tuple(reducers)),
    )
    plan = models.RunPlan(
        task_class=task_class,
        cases=tuple(
            models.BenchCase(case_id=each.case_id, tags=each.tags, repetition=each.repetition)
            for each in cases
        ),
        gate=gate or header.gate,
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
    )


def lost_to(run: KeptRun) -> dict[str, str]:
    """Return the kind of the provider's failure for each case that never got through."""
    return {
        case_id: case.last.kind
        for case_id, case in run.known.items()
        if case.last is not None and case.last.kind and is_infrastructure(case.last.kind)
    }


def folder_of(run: KeptRun, given: Path | None = None) -> Path:
    """Return the folder of a run's task class.

    Args:
        run: The run. Its folder is looked for below the working directory, then below the folder
            that the storage is in: a file may come from anybody, and must not name a rubric
            elsewhere.
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
            " name its folder by --task-class"
        )
    for place in (Path(named), run.path.absolute().parent.parent / named):
        try:
            if named and is_task_class(place):
                return place
        except ValueError:  # no name of a file, such as one with NUL
            break
    raise BenchError(
        f"{run.path}: its task class was in {shown(named)}, where none is now;"
        " name its folder by --task-class"
    )


def descriptions_of(run: KeptRun) -> dict[str, str]:
    """Return what the codes of a run's class mean; nothing if the class is not there any more."""
    from pytest_failure_taxonomy.bench.load.task_class import read_failure_modes

    try:
        modes = read_failure_modes(ClassFolder(folder_of(run)))
        return {code: mode.description for code, mode in modes.items()}
    except BenchError:
        return {}


def main(folder: str, session: str) -> None:
    """Write a JSON list to stdout: of each run of a pytest session its report, and its lost cases.

    These are the runs that the session has begun or continued, the oldest first, and the cases that
    have begun and have no score, with the tests that waited for them.
    """
    found: list[dict[str, Any]] = []
    for path in run_paths(Path(folder)):
        try:
            run = read_run(path, has_outputs=False)
        except BenchError:
            continue
        if path.name.startswith(session) or session in run.sessions:
            lost = [(key, case.nodeid) for key, case in run.known.items() if case.state == "lost"]
            found.append({"report": report_of(run).model_dump(mode="json"), "lost": lost})
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:3])
