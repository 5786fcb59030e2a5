"""Print the reports of the runs that a pytest session has kept: for the report of one that died.

It is a program of its own because what completes such a report imports neither pydantic nor scipy.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_failure_taxonomy.bench.runs_on_disk import KeptRun, read_run, report_of, run_paths
from pytest_failure_taxonomy.errors import BenchError


def runs_of(folder: Path, session: str) -> Iterator[KeptRun]:
    """Yield the runs that a pytest session has begun or continued, the oldest first."""
    for path in run_paths(folder):
        with suppress(BenchError):
            run = read_run(path, has_outputs=False)
            if path.name.startswith(session) or session in run.sessions:
                yield run


def lost_cases(run: KeptRun) -> list[tuple[str, str]]:
    """Return the cases that have begun and have no score, with the tests that waited for them."""
    return [
        (case_id, run.nodeids.get(case_id, ""))
        for case_id in run.started
        if run.last_of(case_id) is None
    ]


def main(folder: str, session: str) -> None:
    """Write a JSON list to stdout: of each run its report, and the cases that it lost."""
    found: list[dict[str, Any]] = [
        {"report": report_of(run).model_dump(mode="json"), "lost": lost_cases(run)}
        for run in runs_of(Path(folder), session)
    ]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:3])
