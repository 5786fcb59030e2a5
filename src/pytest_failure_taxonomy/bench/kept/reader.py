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


class KeptRun:
    """A run as its file held it when it was last read."""

    header: file.RunHeader

    def __init__(self, path: Path, *, has_outputs: bool = True) -> None:
        """Prepare; nothing is read yet.

        Args:
            path: The file.
            has_outputs: Whether to keep outputs and transcripts in memory.
        """
        self.path = path
        self._has_outputs = has_outputs
        self._lines = file.LineReader(path)
        self.cases: dict[str, file.ScheduledCase] = {}
        """The cases to run, by id."""
        self.attempts: dict[str, list[file.KeptAttempt]] = {}
        """The calls of each case, in order."""
        self.started: dict[str, int] = {}
        """How many calls were begun, by case."""
        self.nodeids: dict[str, str] = {}
        """The tests that waited for the cases that were begun, by case."""
        self.begun_by: dict[str, str] = {}
        """The processes that began the cases since the run was last continued, by case."""
        self.stopped = ""
        """Why no more cases were started."""
        self.stop_causes: set[str] = set()
        """The fingerprints of causes that many cases in a row failed with."""
        self.sessions: list[str] = []
        """The pytest sessions that continued the run."""
        self.done_before: dict[str, file.KeptAttempt] = {}
        """The calls with a score, by case, when the run was last continued."""
        self.problems: list[str] = []
        """Lines that could not be read, in words."""
        self._told: dict[tuple[str, int], float] = {}
        """What calls have told that they spent, by case and number, if they have not ended."""
        self._late: dict[str, float] = {}
        """What calls have spent after they were given up, by case."""

    def read(self, *, is_over: bool = False, is_header_enough: bool = False) -> KeptRun:
        """Take in what was added to the file since it was last read, and return the run.

        Args:
            is_over: Whether nobody writes to the file, so that a line without an end is cut off.
            is_header_enough: Whether to read the first line alone.

        Raises:
            BenchError: The file can't be read or is no run's.
        """
        try:
            for record in self._lines.new():
                if not hasattr(self, "header"):
                    self.header = _header(self.path, record)
                    if is_header_enough:
                        return self
                    continue
                if not self._has_outputs:
                    record.pop("output", None)
                    record.pop("transcript", None)
                try:
                    self._add(record)
                except (ValidationError, LookupError, TypeError, ValueError, OverflowError):
                    self.problems.append(f"{self.path}: a line of {record['record']!r} was skipped")
            if is_over:
                self._lines.end()
        except OSError as error:
            why = f"can't be read ({error.strerror or error})"
            raise BenchError(f"{self.path}: {why}; name a run's file") from None
        if not hasattr(self, "header"):
            right = "name a file that pytest wrote to --bench-storage"
            raise BenchError(f"{self.path}: holds no run; {right}")
        self.problems += self._lines.problems
        self._lines.problems.clear()
        return self

    def _add(self, record: Mapping[str, Any]) -> None:
        match record["record"]:
            case "attempt":
                attempt = file.KeptAttempt.model_validate(record)
                self.attempts.setdefault(attempt.case_id, []).append(attempt)
                self._told.pop((attempt.case_id, attempt.attempt), None)
            case "started":
                case_id, number = str(record["case_id"]), int(record.get("attempt", 1))
                self.started[case_id] = max(self.started.get(case_id, 0), number)
                self.begun_by[case_id] = str(record.get("worker", ""))
                if "nodeid" in record:
                    self.nodeids[case_id] = str(record["nodeid"])
            case "spent":
                case_id, number = str(record["case_id"]), int(record["attempt"])
                cost_usd = float(record["cost_usd"])
                if any(each.attempt == number for each in self.attempts.get(case_id, ())):
                    self._late[case_id] = self._late.get(case_id, 0.0) + cost_usd
                else:
                    told = self._told.get((case_id, number), 0.0)
                    self._told[case_id, number] = told + cost_usd
            case "cases":
                listed = [file.ScheduledCase.model_validate(each) for each in record["cases"]]
                self.cases = {each.case_id: each for each in listed}
            case "resumed":
                self.sessions.append(str(record["session"]))
                self.stopped = ""
                self.begun_by.clear()
                now_in_class = int(record.get("cases_in_class", self.header.cases_in_class))
                self.header = self.header.model_copy(update={"cases_in_class": now_in_class})
                self.done_before = self.lasts()
            case "stopped":
                self.stopped = str(record["reason"])
                if record.get("cause"):
                    self.stop_causes.add(str(record["cause"]))

    def settles(self, call: file.KeptAttempt, digest: str) -> bool:
        """Return whether a call with a score is the last one that its case needs.

        It is not if the case has changed, if the call never got through to the provider, and if it
        failed with the cause that stopped the run.
        """
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
            ended.get(number)
            or CaseAttempt(
                attempt=number,
                started_at=0.0,
                seconds=0.0,
                cost_usd=self._told.get((case_id, number), 0.0),
                ended="it was lost",
            )
            for number in numbers
        )

    def last_of(self, case_id: str) -> file.KeptAttempt | None:
        """Return the call that led to a case's score; `None` if it has none.

        The score of a case that was changed before the run was continued is none of it any more.
        """
        listed = self.cases.get(case_id)
        for each in reversed(self.attempts.get(case_id, ())):
            if each.score is not None and (listed is None or each.input_digest == listed.digest):
                return each
        return None

    def state_of(self, case_id: str) -> CaseState:
        """Return what became of a case."""
        last = self.last_of(case_id)
        if last is not None and last.score is not None:
            return "passed" if last.score.passed else "failed"
        has_begun = case_id in self.started or case_id in self.attempts
        return "lost" if has_begun else "not run"

    def lasts(self) -> dict[str, file.KeptAttempt]:
        """Return for each case with a score the call that led to it."""
        lasts = ((case_id, self.last_of(case_id)) for case_id in self.attempts)
        return {case_id: last for case_id, last in lasts if last is not None}

    def scores(self) -> dict[str, models.BenchScore]:
        """Return the score of each case that has one."""
        lasts = self.lasts()
        return {key: last.score for key, last in lasts.items() if last.score is not None}

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


def read_run(path: Path, *, has_outputs: bool = True) -> KeptRun:
    """Return a run from its file.

    Args:
        path: The file.
        has_outputs: Whether to keep outputs and transcripts in memory.

    Raises:
        BenchError: The file can't be read or is no run's.
    """
    return KeptRun(path, has_outputs=has_outputs).read(is_over=True)


def read_header(path: Path) -> file.RunHeader:
    """Return the first line of a run's file, without reading the others.

    Raises:
        BenchError: The file can't be read or is no run's.
    """
    return KeptRun(path).read(is_header_enough=True).header


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
    cases = tuple(
        models.BenchCase(case_id=each.case_id, tags=each.tags, repetition=each.repetition)
        for each in run.cases.values()
    )
    plan = models.RunPlan(
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
        run_id=models.id_of_run(run.header.run_id, run.stopped),
        started=[key for key in run.started if key in run.cases],
        stopped=run.stopped or None,
        lost_to=lost_to(run),
        digests=run.header.digests.model_copy(
            update={"cases": cases_digest(case.digest for case in run.cases.values())}
        ),
        system=str(run.header.system),
        system_label=run.header.system.label,
        lost_cost_usd=run.cost_without_score_usd(),
    )


def lost_to(run: KeptRun) -> dict[str, str]:
    """Return the kind of the provider's failure for each case that never got through."""
    return {
        case_id: last.kind
        for case_id, last in run.lasts().items()
        if last.kind is not None and is_infrastructure(last.kind)
    }


def task_class_of(header: file.RunHeader) -> models.TaskClass:
    """Return what a run's file says of its task class, without cases and rubric."""
    given = header.settings.get("reducers")
    # Without what is none: anybody may have written the file.
    reducers = [
        each
        for each in (given if isinstance(given, list) else ())
        if isinstance(each, str) and is_reducer(each)
    ]
    return models.TaskClass(
        name=header.task_class,
        breakdown_keys=frozenset(header.breakdown_keys),
        failure_mode_taxonomy=header.taxonomy,
        settings=models.BenchSettings(gate=header.gate, reducers=tuple(reducers)),
    )


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
            lasts = run.lasts()
            lost = [(key, run.nodeids.get(key, "")) for key in run.started if key not in lasts]
            found.append({"report": report_of(run).model_dump(mode="json"), "lost": lost})
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:3])
