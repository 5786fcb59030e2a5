"""Make a report of a JUnit XML file, as pytest's `--junitxml` and many other programs write it.

Such a file knows nothing of pytest's end, of crashes and of what was running then, so that its
report is `reconstructed`. It needs `defusedxml`, which the extra `history` brings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.report.build import build_report
from pytest_failure_taxonomy.report.limits import MAX_REPORT_BYTES, Redaction
from pytest_failure_taxonomy.report.text import safe_text
from pytest_failure_taxonomy.taxonomy.evidence import (
    CollectionFailure,
    Counts,
    Environment,
    Location,
    Phase,
    ProcessExit,
    RaisedException,
    RunContext,
    RunEvidence,
    TestFailure,
    TestOutcome,
    TestRun,
)
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.values import value

MAX_MESSAGE: Final = 4_000
MAX_TRACEBACK: Final = 32_000
_EXCEPTION: Final = re.compile(r"((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:: |\Z)")
_PLACE: Final = re.compile(r"^(\S.*?):([0-9]{1,7}): ", re.MULTILINE)
_COLLECTION: Final = "collection failure"
_RIGHT: Final = "give the file that `pytest --junitxml` writes"


def report_from_junit(
    path: Path,
    *,
    rootdir: Path,
    environment: Environment,
    redaction: Redaction | None = None,
) -> dict[str, Any]:
    """Return the JSON object of the report that a JUnit file allows.

    The run's id is a digest of the file, so that the same file gives the same report.

    Args:
        path: the file.
        rootdir: the root directory of its tests.
        environment: what is known of where they ran, such as the commit.
        redaction: removes secrets from every text.

    Raises:
        ReportError: it can't be read, is no JUnit file, or is an attack on XML's readers.
    """
    content = _read(path)
    suites = _suites(content, path)
    cases = [each for suite in suites for each in _cases(suite)]
    run = _evidence(cases)
    modified = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    context = RunContext(
        id=blake2b(content, digest_size=16).hexdigest(),
        started_at=_started_at(suites, modified),
        duration_seconds=sum((_number(each.get("time")) or 0.0) for each in suites),
        args=(),
        rootdir=str(rootdir),
        environment=environment,
    )
    return build_report(run, judge(run), context, completeness="reconstructed", redaction=redaction)


def is_junit(path: Path) -> bool:
    """Tell whether a file looks like XML; one that can't be read does not."""
    try:
        with path.open("rb") as file:
            return file.read(256).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
    except OSError:
        return False


@value
class _Case:
    """One `testcase`, with what it holds."""

    nodeid: str
    path: str | None
    line: int | None
    seconds: float | None
    outcome: TestOutcome
    is_collection: bool = False
    failures: tuple[tuple[Phase, str, str], ...] = ()
    """Phase, message and text of each."""


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_REPORT_BYTES + 1)
    except OSError as error:
        raise ReportError(f"{path}: the file can't be read: {error.strerror}; {_RIGHT}") from None
    if len(content) > MAX_REPORT_BYTES:
        raise ReportError(f"{path}: it is larger than {MAX_REPORT_BYTES >> 20} MiB; {_RIGHT}")
    return content


def read_tree(path: Path) -> Any:
    """Return the root element of a JUnit file, `testsuite` or `testsuites`.

    Raises:
        ReportError: it can't be read, is no JUnit file, or is an attack on XML's readers.
    """
    return _root(_read(path), path)


def _suites(content: bytes, path: Path) -> list[Any]:
    root = _root(content, path)
    return [root] if root.tag == "testsuite" else list(root.iter("testsuite"))


def _root(content: bytes, path: Path) -> Any:
    try:
        from defusedxml import DefusedXmlException
        from defusedxml.ElementTree import ParseError, fromstring
    except ImportError:
        raise ReportError(
            f"{path}: defusedxml, which reads it, is not installed; "
            'pip install "pytest-failure-taxonomy[history]"'
        ) from None
    try:
        root = fromstring(content)
    except DefusedXmlException:
        raise ReportError(
            f"{path}: it defines entities, as an attack would do and no JUnit file does; {_RIGHT}"
        ) from None
    except (ParseError, ValueError, LookupError) as error:
        raise ReportError(f"{path}: it is no XML: {safe_text(str(error))}; {_RIGHT}") from None
    if root.tag not in ("testsuite", "testsuites"):
        name = safe_text(str(root.tag), 80)
        raise ReportError(f"{path}: it is no JUnit file, but begins with <{name}>; {_RIGHT}")
    return root


def _started_at(suites: list[Any], modified: datetime) -> str:
    """Return the earliest time that a suite says; without an offset it is local time."""
    times = []
    for suite in suites:
        try:
            times.append(datetime.fromisoformat(suite.get("timestamp") or "").astimezone(UTC))
        except (ValueError, OverflowError, OSError):
            continue
    at = min(times, default=modified)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _cases(suite: Any) -> Iterator[_Case]:
    for case in suite.findall("testcase"):
        path, nodeid = _name(case)
        failures: list[tuple[Phase, str, str]] = []
        is_collection = False
        outcome: TestOutcome = "passed"
        for child in case:
            message, text = child.get("message") or "", "".join(child.itertext())
            if child.tag == "failure":
                outcome = "failed"
                failures.append(("call", message, text))
            elif child.tag == "error":
                is_collection = message == _COLLECTION
                outcome = outcome if outcome == "failed" else "error"
                at = "teardown" if message.startswith("failed on teardown") else "setup"
                failures.append(("setup" if at == "setup" else "teardown", message, text))
            elif child.tag == "skipped" and outcome == "passed":
                outcome = "xfailed" if child.get("type") == "pytest.xfail" else "skipped"
            elif child.tag in ("flakyFailure", "flakyError"):  # Surefire's words for reruns
                outcome = "flaky"
        yield _Case(
            nodeid=nodeid,
            path=path,
            line=_line(case.get("line")),
            seconds=_number(case.get("time")),
            outcome=outcome,
            is_collection=is_collection,
            failures=tuple(failures),
        )


def _name(case: Any) -> tuple[str | None, str]:
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
        (at for at, each in enumerate(parts, 1) if re.fullmatch(r"test_\w*|\w+_test", each)),
        len([each for each in parts if not each[:1].isupper()]) or len(parts),
    )
    path = "/".join(parts[:ends]) + ".py"
    return path, "::".join([path, *parts[ends:], name])


def _evidence(cases: list[_Case]) -> RunEvidence:
    failures: list[TestFailure] = []
    collection: list[CollectionFailure] = []
    for case in cases:
        for phase, message, text in case.failures:
            if case.is_collection:
                collection.append(_collection_failure(case, text))
            else:
                failures.append(_failure(case, phase, message, text))
    outcomes = [case.outcome for case in cases]
    tests = [case for case in cases if not case.is_collection]
    failed = bool(failures or collection)
    code = 1 if failures else 2 if collection else 0 if tests else 5
    return RunEvidence(
        exit=ProcessExit(code=code if cases or not failed else 1, source="none"),
        counts=Counts(
            collected=len(tests),
            passed=outcomes.count("passed") + outcomes.count("flaky"),
            failed=outcomes.count("failed"),
            errors=sum(1 for each in failures if each.phase != "call") + len(collection),
            skipped=outcomes.count("skipped"),
            xfailed=outcomes.count("xfailed"),
            flaky=outcomes.count("flaky"),
        ),
        failures=tuple(failures),
        collection_failures=tuple(collection),
        tests=tuple(
            TestRun(
                nodeid=case.nodeid,
                outcome=case.outcome,
                start_seconds=None,
                duration_seconds=case.seconds,
            )
            for case in tests
        ),
    )


def _failure(case: _Case, phase: Phase, message: str, text: str) -> TestFailure:
    return TestFailure(
        nodeid=case.nodeid,
        phase=phase,
        message=message[:MAX_MESSAGE] or _last_line(text),
        exception=_exception(message, text),
        location=_location(case, text),
        traceback=text[:MAX_TRACEBACK] or None,
        traceback_truncated=len(text) > MAX_TRACEBACK,
        duration_seconds=case.seconds,
    )


def _collection_failure(case: _Case, text: str) -> CollectionFailure:
    said = [line[2:].strip() for line in text.splitlines() if line.startswith("E ")]
    message = said[-1] if said else _last_line(text)
    return CollectionFailure(
        nodeid=case.path or case.nodeid,
        message=message[:MAX_MESSAGE],
        exception=_exception(message, text),
        location=_location(case, text),
        traceback=text[:MAX_TRACEBACK] or None,
        traceback_truncated=len(text) > MAX_TRACEBACK,
    )


def _exception(message: str, text: str) -> RaisedException | None:
    """Return the exception that pytest's message begins with, or the text's last lines show."""
    first = message.partition("\n")[0].removeprefix('failed on setup with "')
    first = first.removeprefix('failed on teardown with "')
    found = _EXCEPTION.match(first)
    if found is None and first.startswith("assert "):
        return RaisedException(
            type="AssertionError", module="builtins", message=message[:MAX_MESSAGE]
        )
    if found is None:
        found = _EXCEPTION.search(_last_line(text).rpartition(": ")[2])
        if found is None or not _is_name_of_exception(found[1]):
            return None
        return _raised(found[1], message)
    if not _is_name_of_exception(found[1]):
        return None
    return _raised(found[1], message[message.find(found[1]) + len(found[1]) :].lstrip(": "))


def _is_name_of_exception(name: str) -> bool:
    last = name.rpartition(".")[2]
    return last[:1].isupper() or last.endswith(("error", "timeout"))


def _raised(name: str, message: str) -> RaisedException:
    module, _, last = name.rpartition(".")
    return RaisedException(type=last, module=module or "builtins", message=message[:MAX_MESSAGE])


def _location(case: _Case, text: str) -> Location | None:
    places = _PLACE.findall(text)
    if places:
        path, line = places[-1]
        return Location(path=path.replace("\\", "/"), line=max(1, int(line)))
    return Location(path=case.path, line=case.line) if case.path else None


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:MAX_MESSAGE] if lines else ""


def _line(found: str | None) -> int | None:
    """Return a line counted from 1; pytest's `line` is counted from 0."""
    return int(found) + 1 if found and re.fullmatch(r"[0-9]{1,7}", found) else None


def _number(found: str | None) -> float | None:
    try:
        number = float((found or "").replace(",", ""))
    except ValueError:
        return None
    return number if 0 <= number < 1e9 else None
