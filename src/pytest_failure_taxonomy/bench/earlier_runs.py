"""Read the runs of task classes from the files that earlier pytest runs have written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from pytest_failure_taxonomy.bench.comparing import ComparedRun, compared_run
from pytest_failure_taxonomy.bench.models import BenchRunReport
from pytest_failure_taxonomy.documents.problems import WrongError, shown
from pytest_failure_taxonomy.documents.strict_json import parse_json
from pytest_failure_taxonomy.documents.yaml_files import why_no_file
from pytest_failure_taxonomy.errors import BenchError

_MAX_BYTES: Final = 256 * 1024 * 1024
_RIGHT: Final = "give a file of --bench-json, or a report of --failure-taxonomy"


def read_earlier_runs(path: Path) -> list[ComparedRun]:
    """Return the runs of task classes in a file, in its order, at least one.

    Args:
        path: What `--bench-json` has written, or the report of a pytest run, whose field `bench` is
            read.

    Raises:
        BenchError: There is no such file, or it has no run of a task class.
    """
    where = shown(os.fspath(path))
    content = _parse(_read(path, where), where)
    reports = content.get("bench") if isinstance(content, dict) else content
    if not isinstance(reports, list):
        raise BenchError(f"{where}: has no runs of task classes; {_RIGHT}")
    if not reports:
        raise BenchError(f"{where}: no task class ran; {_RIGHT} of a run with cases")
    return [compared_run(_validate(each, where), where) for each in reports]


def _read(path: Path, where: str) -> str:
    why = why_no_file(path)
    if why is not None:
        raise BenchError(f"{where}: {why}; {_RIGHT}")
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise BenchError(f"{where}: bigger than {_MAX_BYTES // 1024**2} MiB; {_RIGHT}")
        return content.decode("utf-8-sig")
    except OSError as error:
        why = f"can't be read ({error.strerror or error})"
        raise BenchError(f"{where}: {why}; {_RIGHT}") from None
    except UnicodeDecodeError:
        raise BenchError(f"{where}: not UTF-8; {_RIGHT}") from None


def _parse(text: str, where: str) -> Any:
    try:
        return parse_json(text)
    except WrongError as error:
        what = str(error).partition(";")[0]
        raise BenchError(f"{where}: {what}; {_RIGHT}") from None


def _validate(given: object, where: str) -> BenchRunReport:
    try:
        return BenchRunReport.model_validate(given)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(map(str, problem["loc"]))
        what = shown(f"{place}: {problem['msg']}" if place else problem["msg"])
        raise BenchError(f"{where}: no run of a task class ({what}); {_RIGHT}") from None
