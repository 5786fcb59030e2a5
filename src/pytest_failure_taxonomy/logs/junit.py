"""Make a report of JUnit XML, which `pytest --junitxml` and many others write.

Such a file knows nothing of pytest's end, of crashes and of what was running then. It
needs `defusedxml`, which the extra `junit` brings.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.documents.content import read_input, refusal
from pytest_failure_taxonomy.logs import foreign
from pytest_failure_taxonomy.system.files import read_named_file
from pytest_failure_taxonomy.taxonomy import evidence as ev
from pytest_failure_taxonomy.text import safe_text

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

NOTE: Final = (
    "made of a JUnit file: pytest's exit code, a death and what was running then "
    "are not in it"
)
_COLLECTION: Final = "collection failure"
_IN_PHASE: Final = re.compile(r'failed on (setup|teardown) with "(.*?)"?\Z', re.DOTALL)
_TEST_MODULE: Final = re.compile(r"test_\w*|\w+_test")
_RIGHT: Final = "give the file that `pytest --junitxml` writes"


def read_run(path: Path) -> foreign.ForeignRun:
    """Return the run in a JUnit file.

    Raises:
        ReportError: it is no JUnit file, or attacks readers of XML.
    """
    content = read_input(path, _RIGHT)
    suites = suites_of(_parse(content, path))
    tests: list[foreign.Attempted] = []
    collectors: list[ev.CollectionFailure] = []
    for suite in suites:
        for case in suite.findall("testcase"):
            _read_case(case, tests, collectors)
    end = ev.ProcessExit(code=foreign.exit_code_of(tests, collectors), source="none")
    return foreign.ForeignRun(
        evidence=foreign.evidence_of_tests(end, tests, collectors),
        content=content,
        started_at=_started_at(suites, path),
        duration_seconds=sum(_seconds(suite) or 0.0 for suite in suites),
        notes=(NOTE,),
    )


def is_junit(path: Path) -> bool:
    """Tell whether a file looks like XML; one that can't be read does not."""
    try:
        head = read_named_file(path, 256)
    except OSError:
        return False
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")


def read_tree(path: Path) -> Element | None:
    """Return the root of a JUnit file, or None if the file is empty.

    Raises:
        ReportError: it can't be read, is no JUnit file, or attacks readers of XML.
    """
    content = read_input(path, _RIGHT)
    return _parse(content, path) if content else None


def suites_of(root: Element) -> list[Element]:
    """Return the suites of a JUnit file."""
    if root.tag == "testsuite":
        return [root]
    return list(root.iter("testsuite"))


def _parse(content: bytes, path: Path) -> Element:
    try:
        from defusedxml import DefusedXmlException
        from defusedxml.ElementTree import ParseError, fromstring
    except ImportError:
        what = "defusedxml, which reads it, is not installed"
        right = 'pip install "pytest-failure-taxonomy[junit]"'
        raise refusal(path, what, right) from None
    try:
        root: Element = fromstring(content)
    except DefusedXmlException:
        what = "it defines entities, as an attack would do and no JUnit file does"
        raise refusal(path, what, _RIGHT) from None
    except (ParseError, ValueError, LookupError) as error:
        what = f"it is no XML: {safe_text(str(error))}"
        raise refusal(path, what, _RIGHT) from None
    if root.tag not in ("testsuite", "testsuites"):
        name = safe_text(str(root.tag), 80)
        what = f"it is no JUnit file, but begins with <{name}>"
        raise refusal(path, what, _RIGHT)
    return root


def _started_at(suites: list[Element], path: Path) -> datetime:
    """Return the earliest timestamp of a suite; without an offset it is local time."""
    times = []
    for suite in suites:
        try:
            time = datetime.fromisoformat(suite.get("timestamp", ""))
            times.append(time.astimezone(UTC))
        except (ValueError, OverflowError, OSError):
            continue
    if times:
        return min(times)
    return foreign.choose_time(None, path)


def _read_case(
    case: Element,
    tests: list[foreign.Attempted],
    collectors: list[ev.CollectionFailure],
) -> None:
    """Add a case to the tests, or to what could not be collected."""
    path, nodeid = _name_of(case)
    line_text = case.get("line", "")
    line = None
    if re.fullmatch(r"[0-9]{1,7}", line_text):
        line = int(line_text) + 1  # pytest counts from 0
    failed: list[foreign.Failed] = []
    collector = None
    outcome: ev.TestOutcome = "passed"
    for child in case:
        message = child.get("message", "")
        text = "".join(child.itertext())
        if child.tag == "error" and message == _COLLECTION:
            collector = foreign.collection_failure_of(path, text, line)
        elif child.tag in ("failure", "error"):
            phase, message = _phase_and_message(child.tag, message)
            failed.append(foreign.Failed(phase, message, text))
        outcome = _outcome_after(outcome, child)
    if collector is not None:
        collectors.append(collector)
        return
    test = ev.TestRun(
        nodeid=nodeid,
        outcome=outcome,
        start_seconds=None,
        duration_seconds=_seconds(case),
    )
    tests.append(foreign.describe_attempt(test, failed, path=path, line=line))


def _outcome_after(outcome: ev.TestOutcome, child: Element) -> ev.TestOutcome:
    match child.tag:
        case "failure":
            return "failed"
        case "error" if outcome != "failed":
            return "error"
        case "skipped" if outcome == "passed":
            if child.get("type") == "pytest.xfail":
                return "xfailed"
            return "skipped"
        case "flakyFailure" | "flakyError":  # Surefire's words for reruns
            return "flaky"
    return outcome


def _phase_and_message(tag: str, message: str) -> tuple[ev.Phase, str]:
    """Return the phase that failed, and the message without pytest's words about it."""
    if tag != "error":
        return "call", message
    match = _IN_PHASE.match(message)
    if match is None:
        return "setup", message
    return foreign.PHASES[match[1]], match[2]


def _name_of(case: Element) -> tuple[str, str]:
    """Return the path and node id of a case; the path is a guess without `file`."""
    name = case.get("name", "")
    class_name = case.get("classname", "")
    parts = _split_dotted(class_name)
    path = case.get("file")
    if path:
        path = path.replace("\\", "/")
        module = path.removesuffix(".py").replace("/", ".")
        dotted = ".".join(parts)
        classes = []
        if dotted.startswith(module):
            classes = _split_dotted(dotted.removeprefix(module))
    elif not parts and name:
        # What can't be collected has its dotted path for a name.
        if re.fullmatch(r"[\w.]+", name):
            name = name.replace(".", "/") + ".py"
        return name, name
    else:
        end = _count_of_path(parts)
        path = "/".join(parts[:end]) + ".py"
        classes = parts[end:]
    return path, "::".join([path, *classes, name])


def _split_dotted(name: str) -> list[str]:
    return [part for part in name.split(".") if part]


def _count_of_path(parts: list[str]) -> int:
    """Return how many parts of a dotted name are a path; the others are classes."""
    for count, part in enumerate(parts, 1):
        if _TEST_MODULE.fullmatch(part):
            return count
    # Without a name like a test module's, a class begins with a capital letter.
    lowercase = [part for part in parts if not part[0].isupper()]
    return len(lowercase) or len(parts)


def _seconds(element: Element) -> float | None:
    digits = element.get("time", "").replace(",", "")
    try:
        seconds = float(digits)
    except ValueError:
        return None
    return seconds if 0 <= seconds < 1e9 else None
