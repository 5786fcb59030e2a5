"""Make a report of what pytest-json-report writes, `.report.json` by default.

pytest writes it when it ends, so that there is none of a death. It has pytest's exit code, and
perhaps no tests: its options can leave them out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.report.build import object_at, objects_at
from pytest_failure_taxonomy.report.read import foreign
from pytest_failure_taxonomy.report.read.foreign import count_at, line_at, number_at, text_at
from pytest_failure_taxonomy.taxonomy import evidence as ev
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.taxonomy.words import telling_line

NOTE: Final = "made of a pytest-json-report file: tests that never started are not in it"
NOTE_WITHOUT_TESTS: Final = (
    "the file leaves its tests out: which of them failed, and why, can't be known"
)

_RIGHT: Final = "give the file that `pytest --json-report` writes"
_COUNTED: Final = ("passed", "failed", "skipped", "xfailed", "xpassed", "rerun", "deselected")


def read_run(path: Path) -> foreign.ForeignRun:
    """Return what a file of pytest-json-report tells; a `ReportError` if it is none."""
    content, document = foreign.read_document(path, _RIGHT)
    code = document.get("exitcode")
    if type(code) is not int or not isinstance(document.get("summary"), dict):
        what = "it has no `exitcode` and `summary` of pytest-json-report"
        raise foreign.refusal(path, what, foreign.hint_for(content) or _RIGHT)
    tests = objects_at(document, "tests")
    foreign.refuse_duplicates((text_at(test, "nodeid") for test in tests), path)
    has_tests = isinstance(document.get("tests"), list)
    summary = object_at(document, "summary")
    created, lasted = number_at(document, "created"), number_at(document, "duration")
    started = created - lasted if created is not None and lasted is not None else created
    root = text_at(document, "root")
    collectors = [
        foreign.collection_failure_of(text_at(each, "nodeid"), text_at(each, "longrepr"))
        for each in objects_at(document, "collectors")
        if text_at(each, "outcome") == "failed"
    ]
    run = foreign.evidence_of_tests(
        ev.ProcessExit(code=code, source="pytest"),
        [_test(test) for test in tests],
        collectors,
        counted={
            "deselected": count_at(summary, "deselected"),
            "rerun": count_at(summary, "rerun"),
            "warnings": len(objects_at(document, "warnings")),
        },
    )
    if not has_tests:  # a summary has a test once: with an error or as it ended
        counts = ev.Counts(
            collected=count_at(summary, "collected"),
            errors=count_at(summary, "error"),
            **{name: count_at(summary, name) for name in _COUNTED},
        )
        run = replace(run, counts=counts, tests=None)
    return foreign.ForeignRun(
        evidence=run,
        content=content,
        rootdir=root if os.path.isabs(root) else "",
        environment=_environment(document),
        started_at=foreign.time_from(started, path),
        duration_seconds=lasted,
        notes=(NOTE,) if has_tests else (NOTE, NOTE_WITHOUT_TESTS),
    )


def _test(test: dict[str, Any]) -> foreign.Attempted:
    nodeid = text_at(test, "nodeid")
    stages = {phase: object_at(test, phase) for phase in foreign.PHASES.values()}
    seconds = sum(number_at(stage, "duration") or 0.0 for stage in stages.values())
    failed = []
    for phase, stage in stages.items():
        if text_at(stage, "outcome") == "failed":
            text = text_at(stage, "longrepr")
            message = text_at(object_at(stage, "crash"), "message") or telling_line(text)
            failed.append(foreign.Failed(phase, message, text, _place(stage)))
    outcome = _outcome(text_at(test, "outcome"), stages, failed)
    run = ev.TestRun(nodeid=nodeid, outcome=outcome, start_seconds=None, duration_seconds=seconds)
    path, line = nodeid.partition("::")[0] or None, line_at(test, "lineno", first=0)
    return foreign.attempted(run, failed, path=path, line=line)


def _outcome(
    said: str, stages: dict[ev.Phase, dict[str, Any]], failed: Sequence[foreign.Failed]
) -> ev.TestOutcome:
    """Return how a test ended; of one that was run again the file says `rerun`, whatever came."""
    if failed:
        return "failed" if any(each.phase == "call" for each in failed) else "error"
    if said == "rerun":
        return "flaky" if text_at(stages["call"], "outcome") == "passed" else "failed"
    return foreign.OUTCOMES.get(said, "in_flight")


def _place(stage: dict[str, Any]) -> ev.Location | None:
    """Return the innermost place of a traceback; its paths are relative, those of a crash not."""
    for place in reversed(objects_at(stage, "traceback")):
        path, line = text_at(place, "path"), line_at(place, "lineno")
        if path and line is not None:
            return ev.Location(path=path.replace("\\", "/"), line=line)
    return None


def _environment(document: dict[str, Any]) -> dict[str, Any]:
    """Return the versions that pytest-metadata has added to the file."""
    said = object_at(document, "environment")
    plugins = object_at(said, "Plugins")
    told = {
        "python": text_at(said, "Python"),
        "platform": text_at(said, "Platform"),
        "pytest": text_at(object_at(said, "Packages"), "pytest"),
        "plugins": tuple(sorted(f"{name}-{text_at(plugins, name)}" for name in plugins)),
    }
    return {name: each for name, each in told.items() if each}
