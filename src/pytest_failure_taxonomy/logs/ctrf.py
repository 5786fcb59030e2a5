"""Make a report of CTRF, the Common Test Report Format, as many test tools write it.

CTRF knows tests alone. Where this package has written the file, its `extra` also has what failed
outside of any test, and that is read again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.documents.content import (
    MAX_WORD,
    refusal,
)
from pytest_failure_taxonomy.logs import foreign
from pytest_failure_taxonomy.logs.foreign import (
    count_at,
    line_at,
    number_at,
    text_at,
)
from pytest_failure_taxonomy.report.build import OWN_NAME, object_at, objects_at
from pytest_failure_taxonomy.taxonomy import evidence as ev
from pytest_failure_taxonomy.taxonomy.words import telling_line
from pytest_failure_taxonomy.text import safe_text

NEWEST_VERSION: Final = 1
"""The newest major version of CTRF that is known: 0.0.0 is the schema's, 1.0.0 some writers'."""
NOTE: Final = (
    "made of a CTRF file: pytest's exit code, errors outside of tests, a death and what was "
    "running then are not in it"
)

_RIGHT: Final = "give a CTRF file, a JSON object with `reportFormat` and `results`"
_VERSION: Final = re.compile(r"([0-9]{1,6})\.[0-9]{1,6}\.[0-9]{1,6}")
_RAW: Final[Mapping[str, ev.TestOutcome]] = {
    **foreign.OUTCOMES,
    "in_flight": "in_flight",
    "setup_failed": "error",
    "teardown_failed": "error",
    "call_failed": "failed",
}
"""Outcomes of `rawStatus`, as this package and pytest-json-ctrf write them."""
_OUTCOMES: Final[Mapping[str, ev.TestOutcome]] = {
    "passed": "passed",
    "failed": "failed",
    "skipped": "skipped",
    "pending": "skipped",
    "other": "skipped",
}
_ORIGINS: Final[Mapping[str, ev.ErrorOrigin]] = {
    "internal.error": "internal",
    "usage.error": "usage",
    "conftest.error": "conftest",
    "plugin.error": "plugin",
}
_TOLD_APART_BY: Final = (
    "id",
    "testId",
    "executionId",
    "browser",
    "device",
    "parameters",
    "type",
)
"""Fields that tell tests of one name from each other."""


def read_run(path: Path) -> foreign.ForeignRun:
    """Return what a CTRF file tells; a `ReportError` if it is none, or a newer one."""
    content, document = foreign.read_document(path, _RIGHT)
    results = object_at(document, "results")
    _check(document, results, path, content)
    tests = objects_at(results, "tests")
    foreign.refuse_duplicates(map(_identity, tests), path)
    tool = object_at(results, "tool")
    is_pytest = text_at(tool, "name") == "pytest"
    version = (text_at(tool, "version") or "unknown") if is_pytest else "unknown"
    summary, own = (
        object_at(results, "summary"),
        object_at(object_at(results, "extra"), OWN_NAME),
    )
    start, stop = number_at(summary, "start"), number_at(summary, "stop")
    return foreign.ForeignRun(
        evidence=_evidence(tests, own, start),
        content=content,
        environment={"pytest": version},
        started_at=foreign.time_from(None if start is None else start / 1000, path),
        duration_seconds=None
        if start is None or stop is None
        else max(0.0, (stop - start) / 1000),
        notes=() if object_at(own, "exit") else (NOTE,),
    )


def _check(
    document: dict[str, Any], results: dict[str, Any], path: Path, content: bytes
) -> None:
    if document.get("reportFormat", "CTRF") != "CTRF" or not isinstance(
        results.get("tests"), list
    ):
        right = (
            _RIGHT
            if "reportFormat" in document
            else foreign.hint_for(content) or _RIGHT
        )
        raise refusal(path, "it is no CTRF: it has no `results.tests`", right)
    said = text_at(document, "specVersion")
    version = _VERSION.match(said)
    if version is not None and int(version[1]) > NEWEST_VERSION:
        what = f"CTRF {safe_text(said, MAX_WORD)} is newer than this program reads"
        raise refusal(
            path, f"{what} ({NEWEST_VERSION})", "upgrade pytest-failure-taxonomy"
        )
    for number, test in enumerate(results["tests"]):
        if not isinstance(test, dict) or text_at(test, "status") not in _OUTCOMES:
            what = f"results.tests[{number}] has no `status` that CTRF knows"
            raise refusal(path, what, f"give one of {', '.join(_OUTCOMES)}")


def _identity(test: dict[str, Any]) -> str:
    """Return what tells a test from all others, its name first."""
    others = {name: test[name] for name in _TOLD_APART_BY if name in test}
    return "\n".join(
        [_nodeid(test), *([json.dumps(others, sort_keys=True)] if others else [])]
    )


def _evidence(
    listed: list[dict[str, Any]], own: dict[str, Any], start: float | None
) -> ev.RunEvidence:
    """Return the evidence of the tests, and of what this package has kept besides."""
    ran = [test for test in listed if text_at(test, "rawStatus") != "not_run"]
    tests: list[foreign.Attempted] = []
    bare = 0
    for test in ran:
        run, failures = _test(test, start)
        # Of many failures a report describes the first thousand; the others have names alone.
        is_bare = bool(own and failures) and not any(
            each.message or each.text for each in _failed(test)
        )
        bare += is_bare
        tests.append((run, () if is_bare else failures))
    collectors = [
        foreign.collection_failure_of(
            text_at(error, "nodeid"),
            text_at(error, "traceback") or text_at(error, "message"),
        )
        for error in objects_at(own, "collection_errors")
    ]
    end = object_at(own, "exit")
    kinds = [text_at(held, "kind") for held in objects_at(own, "reasons")]
    code = end.get("code") if end else foreign.exit_code_of(tests, collectors)
    return foreign.evidence_of_tests(
        ev.ProcessExit(
            code=code if type(code) is int else None,
            signal=text_at(end, "signal") or None,
            source=text_at(end, "source") or "none",
        ),
        tests,
        collectors,
        finished=not end
        or not any(
            kind.startswith("process.") or kind.endswith(".stalled") for kind in kinds
        ),
        errors=tuple(
            ev.RunError(
                origin=_ORIGINS.get(text_at(error, "kind"), "internal"),
                message=text_at(error, "message"),
                traceback=text_at(error, "traceback") or None,
            )
            for error in objects_at(own, "internal_errors")
        ),
        in_flight=tuple(
            _in_flight(test) for test in ran if _outcome(test) == "in_flight"
        ),
        not_run=[
            text_at(test, "name")
            for test in listed
            if text_at(test, "rawStatus") == "not_run"
        ],
        counted={"rerun": sum(map(_retries, ran))},
        unrecorded=ev.Unrecorded(failures=bare),
    )


def _nodeid(test: dict[str, Any]) -> str:
    """Return a name that is a node id already, or one that is made of all that tells of the place.

    pytest's writers give node ids as names; those of other tools give a title and the suites.
    """
    name, path = text_at(test, "name"), text_at(test, "filePath").replace("\\", "/")
    if "::" in name or name == path:
        return name
    suites = test.get("suite")
    parts = (
        [suites]
        if isinstance(suites, str)
        else suites
        if isinstance(suites, list)
        else []
    )
    between = [
        each for each in parts if isinstance(each, str) and each not in (path, "")
    ]
    return "::".join([*([path] if path else []), *between, name])


def _outcome(test: dict[str, Any]) -> ev.TestOutcome:
    status = text_at(test, "status")
    outcome = _RAW.get(text_at(test, "rawStatus"), _OUTCOMES[status])
    is_again = test.get("flaky") is True or _retries(test) > 0
    if status == "passed" and is_again:
        return "flaky"
    if outcome == "in_flight" or (status == "failed") == (
        outcome in ("failed", "error")
    ):
        return outcome
    return _OUTCOMES[
        status
    ]  # two writers have contradicted each other: the format's word counts


def _retries(test: dict[str, Any]) -> int:
    """Return how often a test was tried again: `retries`, which is the number of `retryAttempts`.

    We list no more than a hundred; `extra` has the true number then.
    """
    own = object_at(object_at(test, "extra"), OWN_NAME)
    listed = len(objects_at(test, "retryAttempts"))
    return count_at(own, "retries") or count_at(test, "retries") or listed


def _test(test: dict[str, Any], start: float | None) -> foreign.Attempted:
    began, lasted = number_at(test, "start"), number_at(test, "duration")
    outcome = _outcome(test)
    run = ev.TestRun(
        nodeid=_nodeid(test),
        outcome=outcome,
        start_seconds=None
        if began is None or start is None
        else max(0.0, (began - start) / 1000),
        duration_seconds=None if lasted is None else lasted / 1000,
        worker=text_at(test, "threadId") or None,
    )
    return foreign.attempted(
        run,
        _failed(test) if outcome in ("failed", "error") else (),
        path=text_at(test, "filePath").replace("\\", "/") or None,
        line=line_at(test, "line"),
        attempts=1 + _retries(test),
    )


def _failed(test: dict[str, Any]) -> Iterator[foreign.Failed]:
    """Yield what failed of a test: the one that CTRF has room for, or all that we have kept."""
    own = objects_at(object_at(object_at(test, "extra"), OWN_NAME), "failures")
    for failure in own:
        raised = object_at(failure, "exception")
        name, module, said = (
            text_at(raised, each) for each in ("type", "module", "message")
        )
        dotted = name if module in ("", "builtins") else f"{module}.{name}"
        text = text_at(failure, "traceback")
        message = (
            (f"{dotted}: {said}" if said else dotted) if name else telling_line(text)
        )
        phase = foreign.PHASES.get(text_at(failure, "phase"), "call")
        crashed = text_at(failure, "kind") == "worker.crashed"
        yield foreign.Failed(phase, message, text, crashed=crashed)
    if not own:
        raw, text = text_at(test, "rawStatus"), text_at(test, "trace")
        phase = foreign.PHASES.get(
            raw.removesuffix("_failed"), "setup" if raw == "error" else "call"
        )
        yield foreign.Failed(
            phase, text_at(test, "message") or telling_line(text), text
        )


def _in_flight(test: dict[str, Any]) -> ev.InFlightTest:
    own = object_at(object_at(object_at(test, "extra"), OWN_NAME), "in_flight")
    return ev.InFlightTest(
        nodeid=_nodeid(test),
        phase=foreign.PHASES.get(text_at(own, "phase"), "call"),
        elapsed_seconds=number_at(own, "elapsed_seconds"),
        worker=text_at(own, "worker") or None,
        output=text_at(own, "output") or None,
        stack=text_at(own, "stack") or None,
    )
