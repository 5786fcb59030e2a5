"""What the benches of a run that died had come to, from the files that they kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.record.read import KeptBenches, RecordedRun
from pytest_failure_taxonomy.report.limits import OWN_NAME, fit_benches
from pytest_failure_taxonomy.taxonomy.words import listed

MAX_SECONDS: Final = 60.0
"""How long reading the files may take; ten thousand cases take about two seconds."""
_MAX_NAMED: Final = 10
_PROGRAM: Final = """\
import sys
sys.path.insert(0, sys.argv.pop(1))
from pytest_failure_taxonomy.bench.runs.reader import main
main(*sys.argv[1:])
"""


def add_dead_benches(
    report: dict[str, Any], run: RecordedRun, redact: Callable[[Any], Any]
) -> None:
    """Fill the report's field `bench`, and name the cases that ran when the process died.

    An item of a case waits while several cases run, so the test that was in flight is often none
    of those that had a system at work.

    Args:
        report: The report of the run, which is changed.
        run: Its record.
        redact: Removes secrets from a JSON value.
    """
    held: list[KeptBenches] = run.named("benches")
    if not held:
        return
    found, problem = _read(held[-1])
    report["bench"] = fit_benches(redact([each["report"] for each in found]))
    if problem:
        own = report["extensions"].setdefault(OWN_NAME, {})
        own["faults"] = [*own.get("faults", ()), f"the benches could not be read: {problem}"]
    for each in found:
        if each["lost"]:
            _name_lost(report, each["report"]["task_class"], each["lost"])


def _read(kept: KeptBenches) -> tuple[list[dict[str, Any]], str]:
    """Return what a program of its own, which may import pydantic, reads from the files."""
    package = Path(__file__).resolve().parents[2]
    try:
        done = subprocess.run(  # noqa: S603 - this Python, with a program of ours
            [sys.executable, "-P", "-c", _PROGRAM, str(package), kept.folder, kept.session],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=MAX_SECONDS,
            check=False,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        if done.returncode == 0:
            found: list[dict[str, Any]] = json.loads(done.stdout)
            return found, ""
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return [], f"{type(error).__name__}: {error}"
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return [], said[-1] if said else f"exit status {done.returncode}"


def _name_lost(report: dict[str, Any], task_class: str, lost: list[list[str]]) -> None:
    verdict = report["verdict"]
    if verdict is None:
        return
    named = listed([case_id for case_id, _ in lost], _MAX_NAMED)
    detail = f"cases of {task_class} that ran when the process ended: {named}"
    verdict["evidence"] = [*verdict["evidence"], {"source": "bench", "detail": detail}]
    nodeids = [nodeid for _, nodeid in lost if nodeid]
    if len(nodeids) == 1 and verdict["nodeid"] is not None:
        verdict["nodeid"] = nodeids[0]
