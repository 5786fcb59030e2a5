"""JUnit XML of a report: the tests, and a test case for each failure of the session.

`xunit2` is what Jenkins' schema allows (`junit-10.xsd` of its xUnit plugin); `xunit1` adds files,
lines and properties to test cases, as pytest's `junit_family` does, and GitLab shows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.report import summary
from pytest_failure_taxonomy.report.build import JSONObject
from pytest_failure_taxonomy.report.frames import code_of
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.words import seconds_words
from pytest_failure_taxonomy.text import safe_text

XUNIT1, XUNIT2 = "xunit1", "xunit2"
SESSION: Final = "failure_taxonomy"
"""The class of test cases that stand for failures of the session."""
MAX_RERUNS: Final = 20
"""Earlier attempts of one test that are listed."""

_NOT_IN_XML: Final = re.compile(
    "[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]"
)
_COLLECTION: Final = "collection failure"
"""pytest's own message for what could not be collected."""
_RUNNING: Final = (
    "pytest still runs, or has died and nobody has completed its report; "
    "complete it by: failure-taxonomy finalize"
)
_OF_VERDICT: Final = (
    "reason",
    "kind",
    "retryable",
    "recovery_action",
    "message",
)
_OF_A_TEST: Final = (
    "reason",
    "kind",
    "failure_type",
    "fingerprint",
    "rule",
    "worker",
    "attempts",
)

_Causes = Mapping[str | int, summary.CauseSummary]


def render(report: JSONObject, family: str = XUNIT2) -> str:
    """Return a report as JUnit XML.

    Args:
        report: its JSON object.
        family: `xunit2`, or `xunit1` for files, lines and properties of test cases.
    """
    root = ET.Element("testsuites", {"name": "pytest tests"})
    suite = ET.SubElement(root, "testsuite", {"name": "pytest"})
    _describe_run(suite, report)
    causes = summary.causes_by_failure(report)
    suite.extend(_cases(report, causes, family))
    suite.extend(_session_cases(report, causes))
    _count(suite)
    return _as_text(root)


def augment(path: Path, report: JSONObject) -> str:
    """Return what `pytest --junitxml` wrote, with what a report knows besides.

    Args:
        path: of the XML; if it is missing or empty, because pytest died, all of it is made.
        report: the JSON object of the same run's report.

    Raises:
        ReportError: it can't be read, is no JUnit file, or is of another run.
    """
    from pytest_failure_taxonomy.logs.junit import read_tree, suites_of

    try:
        path.stat()
    except FileNotFoundError:
        return render(report)
    except (OSError, ValueError):
        pass  # reading it says why
    root = read_tree(path)
    if root is None:
        return render(report)
    suites = suites_of(root)
    cases = [case for suite in suites for case in suite.findall("testcase")]
    failed = {_place_of(case) for case in cases if case.find("failure") is not None}
    ours = {address(failure["nodeid"]) for failure in report["failures"]}
    if failed and not failed & ours and not report["limits"]["failures_omitted"]:
        raise ReportError(
            f"{path}: it is of another run than the report: none of its failures is in the report; "
            "give the two files of one run"
        )
    family = XUNIT1 if any("file" in case.attrib for case in cases) else XUNIT2
    failures = {
        address(test["nodeid"]): of_test
        for test, of_test in summary.tests_of(report)
        if of_test
    }
    causes = summary.causes_by_failure(report)
    for case in cases:
        for failure in failures.get(_place_of(case), ()):
            _add_to(case, failure, causes, family)
    if suites:
        _describe_run(suites[0], report)
        known = {case.get("name") for case in cases}
        suites[0].extend(_session_cases(report, causes, known=known))
        _count(suites[0])
    try:
        return _as_text(root)
    except RecursionError:
        raise ReportError(
            f"{path}: its suites are nested too deep; give what `pytest --junitxml` wrote"
        ) from None


def address(nodeid: str) -> tuple[str, str]:
    """Return class and name of a test case as pytest writes them for a node id."""
    path, bracket, parameters = nodeid.partition("[")
    parts = path.split("::")
    parts[0] = parts[0].replace("/", ".").removesuffix(".py")
    parts[-1] += bracket + parameters
    return clean(".".join(parts[:-1])), clean(parts[-1])


def clean(text: str) -> str:
    """Return a text that XML can hold: other characters become escapes such as `#x1B`."""
    return _NOT_IN_XML.sub(lambda found: f"#x{ord(found.group()):02X}", text)


def _place_of(case: ET.Element) -> tuple[str, str]:
    return case.get("classname") or "", case.get("name") or ""


def _describe_run(suite: ET.Element, report: JSONObject) -> None:
    """Write what is known of the whole run, as attributes and properties of its suite."""
    run, verdict = report["run"], report["verdict"] or {}
    suite.set("timestamp", run["started_at"])
    if suite.get("time") is None:
        suite.set("time", _seconds(run["duration_seconds"]))
    given = {
        "run": run["id"],
        "stage": run["stage"],
        "completeness": report["completeness"],
        **{name: verdict.get(name) for name in _OF_VERDICT},
        "owner": summary.summarise(report).owner if verdict else None,
    }
    if report["tests"] is None:
        given["note"] = "tests that passed are counted in the report, and not listed"
    for number, note in enumerate(report["notes"], 1):
        given[f"note.{number}"] = note
    _fill(suite, given)


def _fill(element: ET.Element, given: Mapping[str, Any]) -> None:
    """Add what is known to the properties of a suite or a test case."""
    properties = element.find("properties")
    if properties is None:
        properties = ET.Element("properties")
        element.insert(0, properties)
    for name, value in given.items():
        if value is not None:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            attributes = {"name": f"failure_taxonomy.{name}", "value": clean(text)}
            ET.SubElement(properties, "property", attributes)


def _cases(report: JSONObject, causes: _Causes, family: str) -> Iterator[ET.Element]:
    """Yield the tests that a report names, each once."""
    flying = {each["nodeid"]: each for each in report["in_flight"]}
    outcomes = packaged_table("outcomes")
    for test, of_test in summary.tests_of(report):
        nodeid = test["nodeid"]
        if test["outcome"] == "not_run":
            continue
        seconds = test["duration_seconds"] or max(
            (each["duration_seconds"] or 0.0 for each in of_test), default=0.0
        )
        place = next((each["location"] for each in of_test if each["location"]), None)
        case = _case(nodeid, seconds, place, family)
        yield case
        if nodeid in flying and not of_test:
            _add_in_flight(case, flying[nodeid], causes.get(nodeid), report)
        elif not of_test and (tag := outcomes[test["outcome"]].get("junit")):
            ET.SubElement(case, tag, outcomes[test["outcome"]]["says"])
        for number, failure in enumerate(of_test):
            to = case
            if (
                number and failure["phase"] == "teardown"
            ):  # as pytest does it, for Jenkins' sake
                to = _case(nodeid, failure["duration_seconds"] or 0.0, None, family)
                yield to
            _add_failure(to, failure, causes, family)


def _case(
    nodeid: str, seconds: float, place: JSONObject | None, family: str
) -> ET.Element:
    classname, name = address(nodeid)
    given = {"classname": classname, "name": name, "time": _seconds(seconds)}
    if family == XUNIT1:
        path = nodeid.partition("::")[0]
        given["file"] = clean(path)
        if place is not None and place["path"] == path and place["line"]:
            given["line"] = str(place["line"] - 1)  # pytest counts from 0
    return ET.Element("testcase", given)


def _add_failure(
    case: ET.Element, failure: JSONObject, causes: _Causes, family: str
) -> None:
    raised = failure["exception"]
    message = f"{raised['type']}: {raised['message'] or ''}" if raised else ""
    tag = _tag_of(failure)
    for attempt in range(1, min(failure["attempts"], MAX_RERUNS + 1)):
        said = {"type": failure["kind"], "message": f"attempt {attempt} failed, too"}
        ET.SubElement(case, "rerunFailure" if tag == "failure" else "rerunError", said)
    begins = "" if failure["phase"] == "call" else f"failed on {failure['phase']} with "
    message = clean(begins + message or failure["kind"])
    element = ET.SubElement(case, tag, {"type": failure["kind"], "message": message})
    code = code_of(failure["traceback"], failure["location"]).with_count
    element.text = clean("\n".join([*_facts(failure, causes), code]))
    _add_properties(case, failure, causes, family)


def _add_to(
    case: ET.Element, failure: JSONObject, causes: _Causes, family: str
) -> None:
    """Add what a report knows of a failure to a case that pytest wrote."""
    for element in case.findall(_tag_of(failure)):
        if element.get("type") is None:
            element.set("type", failure["kind"])
            element.text = "\n".join(
                [*map(clean, _facts(failure, causes)), element.text or ""]
            )
            _add_properties(case, failure, causes, family)
            return


def _tag_of(failure: JSONObject) -> str:
    return "failure" if failure["phase"] == "call" else "error"


def _add_properties(
    case: ET.Element, failure: JSONObject, causes: _Causes, family: str
) -> None:
    if family == XUNIT1:
        owner, package = _owner_of(failure, causes)
        _fill(case, {name: failure[name] for name in _OF_A_TEST})
        _fill(case, {"owner": owner, "package": package})


def _owner_of(failure: JSONObject, causes: _Causes) -> tuple[str | None, str | None]:
    cause = causes.get(id(failure))
    return summary.owner_of(None if cause is None else cause.owner, failure)


def _facts(failure: JSONObject, causes: _Causes) -> Iterator[str]:
    """Yield the lines above a traceback: what is to be mended, and what sort of failure it is."""
    yield from _words_of(causes.get(id(failure)))
    owner, package = _owner_of(failure, causes)
    if owner:
        yield f"owner: {owner} ({package})" if package else f"owner: {owner}"
    if failure["fingerprint"]:
        yield f"fingerprint: {failure['fingerprint']}"
    yield f"[{failure['reason']} {failure['kind']}]"
    yield ""


def _words_of(cause: summary.CauseSummary | None) -> Iterator[str]:
    if cause is not None:
        yield f"{cause.text}{cause.remarks}"
        yield from cause.below


def _add_in_flight(
    case: ET.Element,
    test: JSONObject,
    cause: summary.CauseSummary | None,
    report: JSONObject,
) -> None:
    verdict = report["verdict"] or {}
    kind = verdict.get("kind") if cause is None else cause.kind
    lasted = (
        f", for {seconds_words(test['elapsed_seconds'])}"
        if test["elapsed_seconds"]
        else ""
    )
    message = f"it was running when the run ended{lasted}"
    given = {"type": clean(kind or "process.vanished"), "message": message}
    element = ET.SubElement(case, "error", given)
    words = _words_of(cause) if cause else [verdict.get("message")]
    stack = code_of(test["stack"], test["location"]).with_count
    seen = (*words, (test["stall"] or {}).get("where"), stack)
    element.text = clean("\n".join(filter(None, seen)))
    if test["output"]:
        ET.SubElement(case, "system-out").text = clean(test["output"])


def _session_cases(
    report: JSONObject, causes: _Causes, *, known: Iterable[str | None] = ()
) -> Iterator[ET.Element]:
    """Yield a case for each failure that is no test's.

    Args:
        report: its JSON object.
        causes: of the report.
        known: names of cases that are there already, such as what could not be collected.
    """
    names, kinds = set(known), {each["kind"] for each in report["failures"]}
    for failed in report["collection_errors"]:
        kinds.add("collection.error")
        name = address(failed["nodeid"])[1]
        if name not in names:
            code = code_of(failed["traceback"], failed["location"]).with_count
            words = _words_of(causes.get(id(failed)))
            text = (*words, "", code or failed["message"])
            yield _session_case("collection.error", _COLLECTION, text, name=name)
    for error in report["internal_errors"]:
        kinds.add(error["kind"])
        code = code_of(error["traceback"]).with_count
        text = (*_words_of(causes.get(id(error))), "", code)
        yield _session_case(error["kind"], error["message"], text)
    verdict = report["verdict"]
    if (
        report["completeness"] == "running"
    ):  # a file without a failure would pass for a success
        yield _session_case("running", _RUNNING)
    for cause in summary.summarise(report).causes if verdict is not None else ():
        if not cause.failures and cause.kind not in kinds:
            kinds.add(cause.kind)
            is_verdict = cause.kind == verdict["kind"]
            evidence = (
                [each["detail"] for each in verdict["evidence"]] if is_verdict else []
            )
            yield _session_case(cause.kind, cause.text, (*_words_of(cause), *evidence))


def _session_case(
    kind: str, message: str, text: Iterable[str] = (), *, name: str | None = None
) -> ET.Element:
    """Return a case with an error; `name` is that of what could not be collected."""
    classname, name = (SESSION, kind) if name is None else ("", name)
    given = {"classname": classname, "name": clean(name), "time": _seconds(0.0)}
    case = ET.Element("testcase", given)
    said = {"type": clean(kind), "message": clean(safe_text(message))}
    ET.SubElement(case, "error", said).text = clean("\n".join(text))
    return case


def _count(suite: ET.Element) -> None:
    tags = [{element.tag for element in case} for case in suite.findall("testcase")]
    suite.set("tests", str(len(tags)))
    suite.set("failures", str(sum("failure" in each for each in tags)))
    suite.set(
        "errors", str(sum("error" in each and "failure" not in each for each in tags))
    )
    suite.set("skipped", str(sum("skipped" in each for each in tags)))


def _seconds(seconds: float | None) -> str:
    return f"{max(0.0, seconds or 0.0):.3f}"


def _as_text(root: ET.Element) -> str:
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'
