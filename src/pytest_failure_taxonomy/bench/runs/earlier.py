"""Read the runs of task classes that earlier pytest runs have kept or written into files."""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from pytest_failure_taxonomy.bench.comparing import ComparedRun, compared_run
from pytest_failure_taxonomy.bench.models import BenchRunReport
from pytest_failure_taxonomy.bench.runs import reader
from pytest_failure_taxonomy.bench.runs.file import SUFFIX, RunHeader
from pytest_failure_taxonomy.documents.content import parse_json, read_content, why_no_file
from pytest_failure_taxonomy.documents.problems import UnfitError, shown
from pytest_failure_taxonomy.errors import BenchError

_MAX_BYTES: Final = 256 * 1024 * 1024
_RIGHT: Final = "give a kept run, a file of --bench-json, or a report of --failure-taxonomy"


def read_earlier_runs(
    given: str, storage: Path, *, folder: Path | None = None
) -> list[ComparedRun]:
    """Return the runs of task classes that a user names, in their order, at least one.

    Args:
        given: The path of what `--bench-json` has written, of the report of a pytest run, whose
            field `bench` is read, or of a kept run's file. Or the id of a kept run, its beginning,
            or `latest`; where one pytest run has kept several runs, these stand for all of them.
        storage: Where runs are kept.
        folder: What a path is relative to; by default, the current folder.

    Raises:
        BenchError: There is no such file or run, or it has no run of a task class.
    """
    path = (folder or Path()) / given
    if path.name.endswith(SUFFIX) and why_no_file(path) is None:
        return [_compared_kept(reader.read_run(path, has_outputs=False))]
    is_there = False
    with suppress(OSError, ValueError):  # a name that is too long, or has a null character
        is_there = path.exists()
    if not is_there and (paths := _kept_paths(given, storage)):
        kept = [reader.read_run(each, has_outputs=False) for each in paths]
        # What tests have run by themselves is in question only where they have run everything.
        items = [run for run in kept if not run.header.test]
        return [_compared_kept(run) for run in items or kept]
    return _read_reports(path)


def _kept_paths(given: str, storage: Path) -> list[Path]:
    """Return the files of the runs that an id or its beginning names; none if it names no run.

    Raises:
        BenchError: It names the runs of several pytest runs.
    """
    paths = reader.run_paths(storage)
    if given == reader.LATEST:
        found = [path for path in paths if reader.session_of(path) == reader.session_of(paths[-1])]
    else:
        found = [path for path in paths if path.stem == given]
        found = found or [path for path in paths if path.stem.startswith(given)]
    is_unclear = len({reader.session_of(path) for path in found}) > 1
    if is_unclear or (given == reader.LATEST and not found):
        return [reader.find_run(given, storage)]  # which says what is wrong
    return found


def _compared_kept(run: reader.KeptRun) -> ComparedRun:
    digests = {case_id: case.digest for case_id, case in run.cases.items()}
    return compared_run(reader.report_of(run), shown(os.fspath(run.path)), digests)


class LatestRuns:
    """The latest kept run of each task class and system that can be a baseline."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Prepare; nothing is read yet.

        Args:
            paths: The files of the runs, the oldest first.
        """
        self._paths = paths
        self._headers: dict[Path, RunHeader | None] = {}

    def of(self, report: BenchRunReport) -> list[ComparedRun]:
        """Return the latest run of a report's class and system, in a list; an empty one for none.

        Runs that are not complete and those of picked cases are passed over, and so is the report's
        own run, which may have been continued.
        """
        for path in reversed(self._paths):
            if path not in self._headers:
                self._headers[path] = None
                with suppress(BenchError):
                    self._headers[path] = reader.read_header(path)
            header = self._headers[path]
            if (
                header is None
                or header.task_class != report.task_class
                or header.system.label != report.system_label
                or header.test
                or header.shard is not None
                or header.run_id == report.run_id.removeprefix("partial:")
            ):
                continue
            with suppress(BenchError):
                found = _compared_kept(reader.read_run(path, has_outputs=False))
                if not found.missing and not found.was_picked:
                    return [found]
        return []


def _read_reports(path: Path) -> list[ComparedRun]:
    """Return the runs of task classes in a file of JSON."""
    where = shown(os.fspath(path))
    try:
        content = parse_json(read_content(path, _MAX_BYTES).removeprefix(BOM_UTF8))
    except UnfitError as error:
        raise BenchError(f"{where}: {error.what}; {_RIGHT}") from None
    reports = content.get("bench") if isinstance(content, dict) else content
    if not isinstance(reports, list):
        raise BenchError(f"{where}: has no runs of task classes; {_RIGHT}")
    if not reports:
        raise BenchError(f"{where}: no task class ran; {_RIGHT} of a run with cases")
    try:
        return [compared_run(BenchRunReport.model_validate(each), where) for each in reports]
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(map(str, problem["loc"]))
        what = shown(f"{place}: {problem['msg']}" if place else problem["msg"])
        raise BenchError(f"{where}: no run of a task class ({what}); {_RIGHT}") from None
