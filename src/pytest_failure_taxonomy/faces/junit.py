"""JUnit XML of a report: the tests, and a test case for each failure of the session.

`xunit2` is what Jenkins' schema allows (`junit-10.xsd` of its xUnit plugin); `xunit1` adds files,
lines and properties to test cases, as pytest's `junit_family` does, and GitLab shows them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.report import summary
from pytest_failure_taxonomy.report.frames import code_of
from pytest_failure_taxonomy.report.model import (
    Failure,
    FailureReport,
)
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.evidence import InFlightTest, Location
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
_UNCOLLECTED: Final = "collection.error"
_COLLECTION: Final = "collection failure"
"""pytest's own message for what could not be collected."""
_FLAKY: Final = {"failure": "flakyFailure", "error": "flakyError"}
"""Surefire's words for failures of a test that passed later."""
_RUNNING: Final = (
    "pytest still runs, or it died and its report was not completed; "
    "complete it by: failure-taxonomy finalize"
)
_WRITES_XML: Final = (0, 1, 2, 5)
"""Exit codes of a pytest that has written its XML."""
_OF_A_TEST: Final = (
    "reason",
    "kind",
    "failure_type",
    "fingerprint",
    "rule",
    "worker",
    "attempts",
)


def render(report: FailureReport, family: str = XUNIT2) -> str:
    """Return a report as JUnit XML.

    Args:
        report: of the run.
        family: `xunit2`, or `xunit1` for files, lines and properties of test cases.
    """
    root = ET.Element("testsuites", {"name": "pytest tests"})
    suite = ET.SubElement(root, "testsuite", {"name": "pytest"})
    _describe_run(suite, report)
    writer = _CaseWriter(report, family)
    suite.extend(writer.write_tests())
    suite.extend(writer.write_session())
    _count(suite)
    return _as_text(root)


def augment(path: Path, report: FailureReport) -> str:
    """Return what `pytest --junitxml` wrote, with what a report knows besides.

    Args:
        path: of the XML; if pytest died and left none or an empty one, all of it is made.
        report: of the same run.

    Raises:
        ReportError: it can't be read, is no JUnit file, or is of another run.
    """
    from pytest_failure_taxonomy.logs.junit import read_tree, suites_of

    if _is_missing(path, report):
        return render(report)
    root = read_tree(path)
    if root is None:
        return render(report)
    suites = suites_of(root)
    cases = [case for suite in suites for case in suite.findall("testcase")]
    _refuse_other_run(path, cases, report)
    is_first_family = any("file" in case.attrib for case in cases)
    writer = _CaseWriter(report, XUNIT1 if is_first_family else XUNIT2)
    failures = {
        address(test.nodeid): test.failures
        for test in summary.tests_of(report)
        if test.failures
    }
    writer.rescue(cases)
    for case in cases:
        for failure in failures.get(_place_of(case), ()):
            writer.add_to(case, failure)
    if suites:
        places = set(map(_place_of, cases))
        is_retried = any(run.retry for run in summary.merged_runs_of(report))
        for case in writer.write_tests() if is_retried else ():
            if _place_of(case) not in places:
                suites[0].append(case)
        _describe_run(suites[0], report)
        names = {case.get("name") for case in cases}
        suites[0].extend(writer.write_session(names))
        _count(suites[0])
    try:
        return _as_text(root)
    except RecursionError:
        raise ReportError(
            f"{path}: its suites are nested too deep; give what `pytest --junitxml` wrote"
        ) from None


def _is_missing(path: Path, report: FailureReport) -> bool:
    """Tell whether a file is not there because pytest died before it wrote it.

    Raises:
        ReportError: it is not there, although pytest finished.
    """
    try:
        path.stat()
    except FileNotFoundError:
        if report.completeness != "full" or report.exit.code not in _WRITES_XML:
            return True
        raise ReportError(
            f"{path}: there is no such file, although pytest finished; "
            "give what `pytest --junitxml` wrote"
        ) from None
    except (OSError, ValueError):
        pass  # reading it says why
    return False


def _refuse_other_run(
    path: Path, cases: Iterable[ET.Element], report: FailureReport
) -> None:
    """Raise `ReportError` if a file is of another run than a report."""
    failed = {_place_of(case) for case in cases if case.find("failure") is not None}
    nodeids = [failure.nodeid for failure in report.failures]
    ours = set(map(address, [*nodeids, *summary.rescued_nodeids(report)]))
    if failed and not failed & ours and not report.limits.failures_omitted:
        raise ReportError(
            f"{path}: it is of another run than the report: none of its failures is in the report; "
            "give the two files of one run"
        )


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


def _describe_run(suite: ET.Element, report: FailureReport) -> None:
    """Write what is known of the whole run, as attributes and properties of its suite."""
    run, verdict = report.run, report.verdict
    suite.set("timestamp", run.started_at)
    if suite.get("time") is None:
        suite.set("time", _seconds(run.duration_seconds))
    properties: dict[str, str | bool | None] = {
        "run": run.id,
        "stage": run.stage,
        "completeness": report.completeness,
    }
    if verdict is not None:
        properties |= {
            "reason": verdict.reason,
            "kind": verdict.kind,
            "retryable": verdict.retryable,
            "recovery_action": verdict.recovery_action,
            "message": verdict.message,
            "owner": summary.summarise(report).owner,
        }
    if report.tests is None:
        note = "tests that passed are counted in the report, and not listed"
        properties["note"] = note
    elif any(test.duration_seconds is None for test in report.tests):
        note = "the time of a test is 0 where it is not known, as after a death"
        properties["note"] = note
    for number, note in enumerate(summary.notes_of(report), 1):
        properties[f"note.{number}"] = note
    _fill(suite, properties)


def _fill(element: ET.Element, fields: Mapping[str, str | bool | None]) -> None:
    """Add what is known to the properties of a suite or a test case."""
    properties = element.find("properties")
    if properties is None:
        properties = ET.Element("properties")
        element.insert(0, properties)
    for name, field in fields.items():
        if field is None:
            continue
        text = str(field)
        if isinstance(field, bool):
            text = text.lower()
        attributes = {"name": f"failure_taxonomy.{name}", "value": clean(text)}
        ET.SubElement(properties, "property", attributes)


class _CaseWriter:
    """Writes the test cases of a report."""

    def __init__(self, report: FailureReport, family: str) -> None:
        self._report = report
        self._family = family
        self._causes = summary.causes_by_failure(report)
        retried = summary.retried_tests(report)
        self._retried = {test.nodeid: (test, words) for test, words in retried}

    def write_tests(self) -> Iterator[ET.Element]:
        """Yield the tests that the report names, each once."""
        running = {test.nodeid: test for test in self._report.in_flight}
        outcomes = packaged_table("outcomes")
        for test in summary.tests_of(self._report):
            if test.outcome == "not_run":
                continue
            lasted = [failure.duration_seconds or 0.0 for failure in test.failures]
            seconds = test.duration_seconds or max(lasted, default=0.0)
            places = [failure.location for failure in test.failures]
            place = next(filter(None, places), None)
            case = self._make_case(test.nodeid, seconds, place)
            yield case
            outcome = outcomes[test.outcome]
            if test.failures:
                yield from self._add_failures(case, test.failures)
            elif test.nodeid in running:
                self._add_in_flight(case, running[test.nodeid])
            elif "junit" in outcome:
                element = ET.SubElement(case, outcome["junit"], outcome["says"])
                if test.outcome == "flaky":
                    self._explain_retry(element, test.nodeid)

    def write_session(self, names: Iterable[str | None] = ()) -> Iterator[ET.Element]:
        """Yield a case for each failure that is no test's.

        Args:
            names: of cases that are there already, such as what could not be collected.
        """
        report = self._report
        verdict = report.verdict
        names = set(names)
        kinds = {failure.kind for failure in report.failures}
        for failed in report.collection_errors:
            kinds.add(_UNCOLLECTED)
            name = address(failed.nodeid)[1]
            if name not in names:
                code = code_of(failed.traceback, failed.location).with_count
                text = (*self._cause_words(failed), "", code or failed.message)
                yield _session_case(_UNCOLLECTED, _COLLECTION, text, name=name)
        for error in report.internal_errors:
            kinds.add(error.kind)
            code = code_of(error.traceback).with_count
            text = (*self._cause_words(error), "", code)
            yield _session_case(error.kind, error.message, text)
        if report.completeness == "running":
            # A file without a failure would pass for a success.
            yield _session_case("running", _RUNNING)
        if verdict is None:
            return
        for cause in summary.summarise(report).causes:
            if cause.entries or cause.kind in kinds:
                continue
            kinds.add(cause.kind)
            lines = _words_of(cause)
            if cause.kind == verdict.kind:
                lines += [piece.detail for piece in verdict.evidence]
            yield _session_case(cause.kind, cause.text, lines)

    def add_to(self, case: ET.Element, failure: Failure) -> None:
        """Add what a report knows of a failure to a case that pytest wrote."""
        for element in case.findall(_tag_of(failure)):
            if element.get("type") is None:
                element.set("type", failure.kind)
                lines = [*map(clean, self._facts(failure)), element.text or ""]
                element.text = "\n".join(lines)
                self._add_properties(case, failure)
                return

    def rescue(self, cases: Iterable[ET.Element]) -> None:
        """Turn failures that pytest wrote into earlier attempts of what passed since."""
        rescued = summary.rescued_nodeids(self._report)
        nodeids = {address(nodeid): nodeid for nodeid in rescued}
        for case in cases:
            nodeid = nodeids.get(_place_of(case))
            if nodeid is None:
                continue
            for element in [*case.iter("failure"), *case.iter("error")]:
                text = element.text or ""
                element.tag = _FLAKY[element.tag]
                self._explain_retry(element, nodeid)
                element.text = f"{element.text}\n{text}"

    def _explain_retry(self, element: ET.Element, nodeid: str) -> None:
        """Say of an earlier attempt why it failed, if a retry came after it."""
        if nodeid not in self._retried:
            return
        test, words = self._retried[nodeid]
        element.set("type", test.kind or element.get("type") or "test.failed")
        element.set("message", clean(words))
        lines = [test.cause]
        if test.fix:
            lines.append(f"fix: {test.fix}")
        if test.owner:
            lines.append(f"owner: {test.owner}")
        element.text = clean("\n".join(lines))

    def _make_case(
        self, nodeid: str, seconds: float, place: Location | None
    ) -> ET.Element:
        classname, name = address(nodeid)
        case = ET.Element("testcase", {"classname": classname, "name": name})
        case.set("time", _seconds(seconds))
        if self._family == XUNIT1:
            path = nodeid.partition("::")[0]
            case.set("file", clean(path))
            if place is not None and place.path == path and place.line:
                case.set("line", str(place.line - 1))  # pytest counts from 0
        return case

    def _add_failures(
        self, case: ET.Element, failures: Sequence[Failure]
    ) -> Iterator[ET.Element]:
        """Add the failures of one test to its case; yield what needs a case of its own."""
        for number, failure in enumerate(failures):
            if number and failure.phase == "teardown":
                # As pytest does it, for Jenkins' sake.
                seconds = failure.duration_seconds or 0.0
                second_case = self._make_case(failure.nodeid, seconds, None)
                yield second_case
                self._add_failure(second_case, failure)
            else:
                self._add_failure(case, failure)

    def _add_failure(self, case: ET.Element, failure: Failure) -> None:
        raised = failure.exception
        kind = failure.kind
        is_failure = _tag_of(failure) == "failure"
        for attempt in range(1, min(failure.attempts, MAX_RERUNS + 1)):
            words = f"attempt {attempt} failed, too"
            tag = "rerunFailure" if is_failure else "rerunError"
            ET.SubElement(case, tag, {"type": kind, "message": words})
        message = "" if is_failure else f"failed on {failure.phase} with "
        if raised:
            message += f"{raised.type}: {raised.message}"
        attributes = {"type": kind, "message": clean(message or kind)}
        element = ET.SubElement(case, _tag_of(failure), attributes)
        code = code_of(failure.traceback, failure.location).with_count
        element.text = clean("\n".join([*self._facts(failure), code]))
        self._add_properties(case, failure)

    def _add_properties(self, case: ET.Element, failure: Failure) -> None:
        if self._family == XUNIT1:
            owner, package = self._owner_of(failure)
            fields = {name: getattr(failure, name) for name in _OF_A_TEST}
            _fill(case, {**fields, "owner": owner, "package": package})

    def _owner_of(self, failure: Failure) -> tuple[str | None, str | None]:
        cause = self._causes.get(id(failure))
        return summary.owner_of(cause.owner if cause else None, failure)

    def _facts(self, failure: Failure) -> Iterator[str]:
        """Yield the lines above a traceback: what to fix, and the sort of failure."""
        yield from self._cause_words(failure)
        owner, package = self._owner_of(failure)
        if owner:
            yield f"owner: {owner} ({package})" if package else f"owner: {owner}"
        if failure.fingerprint:
            yield f"fingerprint: {failure.fingerprint}"
        yield f"[{failure.reason} {failure.kind}]"
        yield ""

    def _cause_words(self, entry: object) -> list[str]:
        cause = self._causes.get(id(entry))
        return _words_of(cause) if cause else []

    def _add_in_flight(self, case: ET.Element, test: InFlightTest) -> None:
        cause = self._causes.get(test.nodeid)
        verdict = self._report.verdict
        kind = "process.vanished"
        words: list[str | None] = []
        if cause is not None:
            kind = cause.kind
            words += _words_of(cause)
        elif verdict is not None:
            kind = verdict.kind
            words.append(verdict.message)
        message = "it was running when the run ended"
        if test.elapsed_seconds:
            message += f", for {seconds_words(test.elapsed_seconds)}"
        attributes = {"type": clean(kind), "message": message}
        element = ET.SubElement(case, "error", attributes)
        if test.stall:
            words.append(test.stall.where)
        words.append(code_of(test.stack, test.location).with_count)
        element.text = clean("\n".join(filter(None, words)))
        if test.output:
            ET.SubElement(case, "system-out").text = clean(test.output)


def _tag_of(failure: Failure) -> str:
    return "failure" if failure.phase == "call" else "error"


def _words_of(cause: summary.CauseSummary) -> list[str]:
    return [f"{cause.text}{cause.remarks}", *cause.below]


def _session_case(
    kind: str, message: str, text: Iterable[str] = (), *, name: str | None = None
) -> ET.Element:
    """Return a case with an error; `name` is that of what could not be collected."""
    classname = SESSION if name is None else ""
    name = clean(kind if name is None else name)
    attributes = {"classname": classname, "name": name, "time": _seconds(0.0)}
    case = ET.Element("testcase", attributes)
    about = {"type": clean(kind), "message": clean(safe_text(message))}
    ET.SubElement(case, "error", about).text = clean("\n".join(text))
    return case


def _count(suite: ET.Element) -> None:
    counts: Counter[str] = Counter()
    for case in suite.findall("testcase"):
        tags = {element.tag for element in case}
        counts["tests"] += 1
        counts["failures"] += "failure" in tags
        counts["errors"] += "error" in tags and "failure" not in tags
        counts["skipped"] += "skipped" in tags
    for name in ("tests", "failures", "errors", "skipped"):
        suite.set(name, str(counts[name]))


def _seconds(seconds: float | None) -> str:
    return f"{max(0.0, seconds or 0.0):.3f}"


def _as_text(root: ET.Element) -> str:
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'
