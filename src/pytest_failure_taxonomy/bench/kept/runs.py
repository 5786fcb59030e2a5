"""Find the runs that pytest has kept, and make the report of one.

As a program, this prints the reports of the runs that a pytest session has kept, for
the report of one that died: what completes such a report imports neither pydantic nor
scipy.
"""

# Without `from __future__ import annotations`: pydantic needs the annotations as they
# are.

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from pytest_failure_taxonomy.bench import models
from pytest_failure_taxonomy.bench.kept.reader import KeptRun, read_records, read_run
from pytest_failure_taxonomy.bench.load.folder import (
    MARKER_FILE,
    ClassFolder,
    is_task_class,
)
from pytest_failure_taxonomy.bench.report import aggregate, is_reducer
from pytest_failure_taxonomy.bench.sharding import cases_digest
from pytest_failure_taxonomy.bench.user_code import is_infrastructure
from pytest_failure_taxonomy.documents.problems import shown
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.option_files import LATEST, RUN_SUFFIX
from pytest_failure_taxonomy.taxonomy.words import listed

_MOST_NAMED: Final = 5
_MAX_LOST: Final = 10
"""How many cases are named that ran when their process ended."""


def run_paths(storage: Path) -> list[Path]:
    """Return the files of the runs in a storage, the oldest first."""
    paths = storage.glob(f"*{RUN_SUFFIX}")
    return sorted((path for path in paths if path.name[0] != "."), key=_sort_key)


def _sort_key(path: Path) -> tuple[str, int, str]:
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
        if last is None:
            return []
        same = [path for path in paths if session_of(path) == session_of(last)]
        return [path for path in same if _has_begun(path)]
    exact = [path for path in paths if path.stem == given]
    return exact or [path for path in paths if path.stem.startswith(given)]


def _has_begun(path: Path) -> bool:
    """Return whether a file says what was run: one that was cut off may be empty."""
    return next(read_records(path, "run"), None) is not None


def find_run(given: str, storage: Path) -> Path:
    """Return the file of the run that a user names, the last one for `latest`.

    Args:
        given: As for `find_runs`.
        storage: Where runs are kept.

    Raises:
        BenchError: There is no such run, or there are several.
    """
    paths = run_paths(storage)
    named = find_runs(given, paths)
    if named and (given == LATEST or len(named) == 1):
        return named[-1]
    if not paths:
        raise BenchError(
            f"{given}: there is no run in {storage}; name a file, or a --storage"
        )
    names = ", ".join(path.stem for path in (named or paths)[: -_MOST_NAMED - 1 : -1])
    if named:
        raise BenchError(
            f"{given}: {len(named)} runs begin like this; name one, such as {names}"
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
    reducers = {"reducers": tuple(filter(is_reducer, settings.reducers))}
    task_class = models.TaskClass(
        name=header.task_class, settings=settings.model_copy(update=reducers)
    )
    plan = models.RunPlan(
        task_class=task_class,
        cases=tuple(
            models.BenchCase(**case.model_dump(exclude={"digest"})) for case in cases
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
