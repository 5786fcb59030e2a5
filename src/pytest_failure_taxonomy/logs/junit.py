"""Make a report of a JUnit XML file, as pytest's `--junitxml` and many other programs write it.

Such a file knows nothing of pytest's end, of crashes and of what was running then. It needs
`defusedxml`, which the extra `junit` brings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.documents.content import (
    read_input,
)
from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.logs import foreign
from pytest_failure_taxonomy.system.files import read_named_file
from pytest_failure_taxonomy.taxonomy import evidence as ev
from pytest_failure_taxonomy.text import safe_text

NOTE: Final = (
    "made of a JUnit file: pytest's exit code, a death and what was running then "
    "are not in it"
)
_COLLECTION: Final = "collection failure"
_IN_PHASE: Final = re.compile(r'failed on (setup|teardown) with "(.*?)"?\Z', re.DOTALL)
_RIGHT: Final = "give the file that `pytest --junitxml` writes"


def read_run(path: Path) -> foreign.ForeignRun:
    """Return what a JUnit file tells; a `ReportError` if it is none, or attacks XML's readers."""
    content = read_input(path, _RIGHT)
    suites = suites_of(_root(content, path))
    found = [each for suite in suites for each in _cases(suite)]
    tests = [each for each in found if not isinstance(each, ev.CollectionFailure)]
    collectors = [each for each in found if isinstance(each, ev.CollectionFailure)]
    end = ev.ProcessExit(code=foreign.exit_code_of(tests, collectors), source="none")
    return foreign.ForeignRun(
        evidence=foreign.evidence_of_tests(end, tests, collectors),
        content=content,
        started_at=_started_at(suites, path),
        duration_seconds=sum((_number(each.get("time")) or 0.0) for each in suites),
        notes=(NOTE,),
    )


def is_junit(path: Path) -> bool:
    """Tell whether a file looks like XML; one that can't be read does not."""
    try:
        return (
            read_named_file(path, 256).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
        )
    except OSError:
        return False


def read_tree(path: Path) -> Any:
    """Return the root element of a JUnit file, `testsuite` or `testsuites`; `None` if it is empty.

    Raises:
        ReportError: it can't be read, is no JUnit file, or is an attack on XML's readers.
    """
    content = read_input(path, _RIGHT)
    return _root(content, path) if content else None


def suites_of(root: Any) -> list[Any]:
    """Return the suites of a JUnit file's root element."""
    return [root] if root.tag == "testsuite" else list(root.iter("testsuite"))


def _root(content: bytes, path: Path) -> Any:
    try:
        from defusedxml import DefusedXmlException
        from defusedxml.ElementTree import ParseError, fromstring
    except ImportError:
        raise ReportError(
            f"{path}: defusedxml, which reads it, is not installed; "
            'pip install "pytest-failure-taxonomy[junit]"'
        ) from None
    try:
        root = fromstring(content)
    except DefusedXmlException:
        raise ReportError(
            f"{path}: it defines entities, as an attack would do and no JUnit file does; {_RIGHT}"
        ) from None
    except (ParseError, ValueError, LookupError) as error:
        raise ReportError(
            f"{path}: it is no XML: {safe_text(str(error))}; {_RIGHT}"
        ) from None
    if root.tag not in ("testsuite", "testsuites"):
        name = safe_text(str(root.tag), 80)
        raise ReportError(
            f"{path}: it is no JUnit file, but begins with <{name}>; {_RIGHT}"
        )
    return root


def _started_at(suites: list[Any], path: Path) -> datetime:
    """Return the earliest time that a suite says; without an offset it is local time."""
    times = []
    for suite in suites:
        try:
            times.append(
                datetime.fromisoformat(suite.get("timestamp") or "").astimezone(UTC)
            )
        except (ValueError, OverflowError, OSError):
            continue
    return min(times, default=None) or foreign.time_from(None, path)


def _cases(suite: Any) -> Iterator[foreign.Attempted | ev.CollectionFailure]:
    for case in suite.findall("testcase"):
        path, nodeid = _name(case)
        found = case.get("line") or ""  # pytest counts from 0
        line = int(found) + 1 if re.fullmatch(r"[0-9]{1,7}", found) else None
        seconds = _number(case.get("time"))
        failed: list[foreign.Failed] = []
        collector = None
        outcome: ev.TestOutcome = "passed"
        for child in case:
            message, text = child.get("message") or "", "".join(child.itertext())
            if child.tag == "error" and message == _COLLECTION:
                collector = foreign.collection_failure_of(path, text, line)
            elif child.tag in ("failure", "error"):
                failed.append(
                    foreign.Failed(*_phase_and_message(child.tag, message), text)
                )
            outcome = _outcome_after(outcome, child)
        test = ev.TestRun(
            nodeid=nodeid, outcome=outcome, start_seconds=None, duration_seconds=seconds
        )
        yield collector or foreign.attempted(test, failed, path=path, line=line)


def _outcome_after(outcome: ev.TestOutcome, child: Any) -> ev.TestOutcome:
    if child.tag == "failure":
        return "failed"
    if child.tag == "error":
        return outcome if outcome == "failed" else "error"
    if child.tag == "skipped" and outcome == "passed":
        return "xfailed" if child.get("type") == "pytest.xfail" else "skipped"
    if child.tag in ("flakyFailure", "flakyError"):  # Surefire's words for reruns
        return "flaky"
    return outcome


def _phase_and_message(tag: str, message: str) -> tuple[ev.Phase, str]:
    """Return which phase failed, and the message without the words that pytest adds for it."""
    if tag != "error":
        return "call", message
    found = _IN_PHASE.match(message)
    return (foreign.PHASES[found[1]], found[2]) if found else ("setup", message)


def _name(case: Any) -> tuple[str, str]:
    """Return the path and node id that a case names; the path is a guess without `file`."""
    name = case.get("name") or ""
    parts = [each for each in (case.get("classname") or "").split(".") if each]
    path = case.get("file")
    if path:
        path = path.replace("\\", "/")
        module = path.removesuffix(".py").replace("/", ".")
        whole = ".".join(parts)
        left = whole.removeprefix(module).strip(".") if whole.startswith(module) else ""
        return path, "::".join([path, *filter(None, left.split(".")), name])
    if not parts and name:  # what could not be collected has its dotted path for a name
        path = f"{name.replace('.', '/')}.py" if re.fullmatch(r"[\w.]+", name) else name
        return path, path
    ends = next(
        (
            at
            for at, each in enumerate(parts, 1)
            if re.fullmatch(r"test_\w*|\w+_test", each)
        ),
        len([each for each in parts if not each[:1].isupper()]) or len(parts),
    )
    path = "/".join(parts[:ends]) + ".py"
    return path, "::".join([path, *parts[ends:], name])


def _number(found: str | None) -> float | None:
    try:
        number = float((found or "").replace(",", ""))
    except ValueError:
        return None
    return number if 0 <= number < 1e9 else None
