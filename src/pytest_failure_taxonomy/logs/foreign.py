"""What the files of other programs tell of a run, and the report that can be made of that.

Each reader, such as `junit.py`, turns its file into evidence; what that means is said by the same
judge as for a run of our own. None of these files knows what a process died of, so that
such a report is `reconstructed`; its notes say what else can't be known.
"""

from __future__ import annotations

import builtins
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pytest_failure_taxonomy.documents.content import (
    parse_json,
    read_input,
    refusal,
)
from pytest_failure_taxonomy.documents.problems import WrongError
from pytest_failure_taxonomy.report import build
from pytest_failure_taxonomy.report.build import JSONObject
from pytest_failure_taxonomy.taxonomy import evidence as ev
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.values import replace, value
from pytest_failure_taxonomy.text import cap, first_line, safe_text

if TYPE_CHECKING:
    from pytest_failure_taxonomy.redaction import Redaction

MAX_MESSAGE: Final = 4_000
MAX_TRACEBACK: Final = 32_000
OWN_SCHEMA: Final = "urn:pytest-failure-taxonomy:"
_EXCEPTION: Final = re.compile(r"((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:: |\Z)")
_PLACE: Final = re.compile(r"^(?!E |> )(\S.*?):([0-9]{1,7}): ", re.MULTILINE)
_MOST_SECONDS: Final = 1e9
_MOST_LINES: Final = 10**7
_SUM_OF_SUBTESTS: Final = re.compile(r"contains [0-9]+ failed subtest")


PHASES: Final[Mapping[str, ev.Phase]] = {
    "setup": "setup",
    "call": "call",
    "teardown": "teardown",
}
OUTCOMES: Final[Mapping[str, ev.TestOutcome]] = {
    "passed": "passed",
    "failed": "failed",
    "error": "error",
    "skipped": "skipped",
    "xfailed": "xfailed",
    "xpassed": "xpassed",
}
"""Words of pytest's that all its plugins use as they are."""
_COUNTED_ALONE: Final[tuple[ev.TestOutcome, ...]] = (
    "skipped",
    "xfailed",
    "xpassed",
    "flaky",
)
"""Outcomes that are counted under their own name, each test once."""


@value
class ForeignRun:
    """All that a file tells of one run."""

    evidence: ev.RunEvidence
    content: bytes
    """The file itself, or what else tells it from all other runs: its digest is the run's id."""
    started_at: datetime
    duration_seconds: float | None = None
    rootdir: str = ""
    environment: Mapping[str, Any] = MappingProxyType({})
    """Fields of `Environment` that the file tells."""
    attempt: ev.Attempt | None = None
    notes: tuple[str, ...] = ()
    """What can't be known, in words."""


class Failed(NamedTuple):
    """What a file says of one failed phase of a test, or of one of its subtests."""

    phase: ev.Phase
    message: str
    """Without what the format itself adds to it."""
    text: str
    """The traceback, as pytest or another program shows it; may be empty."""
    place: ev.Location | None = None
    """Where it was raised, if the file says so apart from the text."""
    crashed: bool = False
    is_subtest: bool = False


Attempted = tuple[ev.TestRun, Sequence[ev.TestFailure]]
"""A test with the failures of its last attempt."""


def report_from(
    source: str,
    path: Path,
    *,
    rootdir: Path,
    environment: ev.Environment,
    redaction: Redaction | None = None,
) -> JSONObject:
    """Return the JSON object of the report that a file of another program allows.

    Args:
        source: what has written it, such as `reportlog`: each has a module with a function
            `read_run`.
        path: the file. Its digest is the run's id, so that one file gives one report.
        rootdir: the root directory of its tests, if the file doesn't say it.
        environment: what is known of where they ran, such as the commit.
        redaction: removes secrets from every text.

    Raises:
        ReportError: it can't be read, is no such file, or names a test twice.
    """
    name = f"pytest_failure_taxonomy.logs.{source.replace('-', '_')}"
    told: ForeignRun = import_module(name).read_run(path)
    return report_of(
        told, rootdir=rootdir, environment=environment, redaction=redaction
    )


def report_of(
    told: ForeignRun,
    *,
    rootdir: Path,
    environment: ev.Environment,
    redaction: Redaction | None = None,
) -> JSONObject:
    """Return the JSON object of the report of a run; takes the same as `report_from`."""
    run = told.evidence
    context = ev.RunContext(
        id=blake2b(told.content, digest_size=16).hexdigest(),
        started_at=told.started_at.astimezone(UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z"),
        duration_seconds=told.duration_seconds,
        args=(),
        rootdir=told.rootdir or str(rootdir),
        environment=replace(environment, **told.environment),
        attempt=told.attempt,
    )
    report = build.build_report(
        run, judge(run), context, completeness="reconstructed", redaction=redaction
    )
    report["notes"] = [*report["notes"], *told.notes]
    return report


def evidence_of_tests(
    end: ev.ProcessExit,
    tests: Sequence[Attempted],
    collection_failures: Sequence[ev.CollectionFailure] = (),
    *,
    not_run: Sequence[str] = (),
    counted: Mapping[str, int] = MappingProxyType({}),
    **others: Any,
) -> ev.RunEvidence:
    """Return the evidence of a run of which a file lists the tests.

    Args:
        end: how pytest ended.
        tests: those that ran or were skipped.
        collection_failures: what could not be collected.
        not_run: node ids of the tests that never started.
        counted: counts that the tests don't tell, such as `rerun`.
        **others: further fields of the evidence.
    """
    outcomes = Counter(test.outcome for test, _ in tests)
    failed = errors = only_teardown = 0
    for (
        test,
        failures,
    ) in tests:  # as pytest's last line: a test may have passed and have an error
        in_call = sum(each.phase == "call" for each in failures)
        failed += max(in_call, test.outcome == "failed")
        errors += max(len(failures) - in_call, test.outcome == "error")
        phases = {each.phase for each in failures}
        only_teardown += test.outcome == "error" and phases == {"teardown"}
    return ev.RunEvidence(
        exit=end,
        counts=ev.Counts(
            collected=len(tests) + len(not_run),
            passed=outcomes["passed"] + outcomes["flaky"] + only_teardown,
            failed=failed,
            errors=errors + len(collection_failures),
            **{name: outcomes[name] for name in _COUNTED_ALONE},
            **counted,
        ),
        failures=tuple(failure for _, failures in tests for failure in failures),
        collection_failures=tuple(collection_failures),
        not_run=tuple(not_run),
        tests=tuple(test for test, _ in tests),
        **others,
    )


def attempted(
    run: ev.TestRun,
    failed: Iterable[Failed],
    *,
    path: str | None,
    line: int | None = None,
    attempts: int = 1,
) -> Attempted:
    """Return a test with what failed in its last attempt.

    Args:
        run: the test.
        failed: its phases and subtests that failed.
        path: of the test's file.
        line: of the test in it.
        attempts: how often it was tried.
    """
    failures = []
    for phase, message, text, place, crashed, is_subtest in failed:
        is_sum = message == text and _SUM_OF_SUBTESTS.match(message)
        failure = ev.TestFailure(
            nodeid=run.nodeid,
            phase=phase,
            message=message[:MAX_MESSAGE] or last_line(text),
            exception=exception_of(message, text),
            part="subtest" if is_subtest else "sum" if is_sum else "test",
            crashed=crashed,
            location=place or place_in(text, path, line),
            traceback=cap(text, MAX_TRACEBACK) or None,
            traceback_truncated=len(text) > MAX_TRACEBACK,
            duration_seconds=run.duration_seconds,
            attempts=attempts,
            worker=run.worker,
        )
        failures.append(failure)
    return run, failures


def collection_failure_of(
    nodeid: str, text: str, line: int | None = None
) -> ev.CollectionFailure:
    """Return a file or another collector that could not be collected."""
    said = [each[2:].strip() for each in text.splitlines() if each.startswith("E ")]
    message = said[-1] if said else last_line(text)
    return ev.CollectionFailure(
        nodeid=nodeid,
        message=message[:MAX_MESSAGE],
        exception=exception_of(message, text),
        location=place_in(text, nodeid.partition("::")[0], line),
        traceback=cap(text, MAX_TRACEBACK) or None,
        traceback_truncated=len(text) > MAX_TRACEBACK,
    )


def exception_of(message: str, text: str) -> ev.RaisedException | None:
    """Return the exception that a message begins with, or a traceback's last line names.

    A bare `assert` stands for the AssertionError that it is. Names without a capital letter at
    their end are taken for words, unless they end as those of exceptions do.
    """
    first, words = message.partition("\n")[0], message
    found = _EXCEPTION.match(first)
    if found is not None:
        words = message[found.end(1) :].lstrip(": ")
    elif not first.startswith("assert "):
        found = _EXCEPTION.search(last_line(text).rpartition(": ")[2])
        if found is None:
            return None
    module, _, name = (found[1] if found else "AssertionError").rpartition(".")
    if not (name[:1].isupper() or name.endswith(("error", "timeout"))):
        return None
    # The classes of Python's own exceptions, which no file names.
    known = getattr(builtins, name, None) if module in ("", "builtins") else None
    if not isinstance(known, type) or not issubclass(known, BaseException):
        known = object
    return ev.RaisedException(
        type=name,
        module=module or "builtins",
        message=words[:MAX_MESSAGE],
        bases=tuple(
            f"{each.__module__}.{each.__qualname__}" for each in known.__mro__[:-1]
        ),
    )


def place_in(text: str, path: str | None, line: int | None) -> ev.Location | None:
    """Return the last place that a traceback of pytest's shows, else the given one."""
    places = _PLACE.findall(text)
    if places:
        found, number = places[-1]
        return ev.Location(path=found.replace("\\", "/"), line=max(1, int(number)))
    return ev.Location(path=path, line=line) if path else None


def last_line(text: str) -> str:
    """Return the last line of a text that holds anything."""
    lines = text.strip().splitlines()
    return lines[-1][:MAX_MESSAGE] if lines else ""


def read_document(path: Path, right: str) -> tuple[bytes, dict[str, Any]]:
    """Return the content of a file that should be one JSON object, and the object.

    Args:
        path: of the file.
        right: what would be right, for the message of the error.

    Raises:
        ReportError: it can't be read, is none, or is known to be of another format.
    """
    content = read_input(path, right)
    try:
        document = parse_json(content)
    except WrongError as error:
        raise refusal(path, error.what, hint_for(content) or right) from None
    if not isinstance(document, dict):
        raise refusal(path, "it is no JSON object", right)
    return content, document


def hint_for(content: bytes) -> str:
    """Say which format a file looks like, and what to do with it; nothing if it is not known."""
    head = content[:65536].lstrip(b"\xef\xbb\xbf \t\r\n")
    if head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ")):
        return "it is compressed; unpack it first"
    if head.startswith(b"<"):
        return "it looks like XML; for JUnit give --from junit"
    for mark, words in _LOOKS.items():
        if mark in head:
            return words
    return ""


_LOOKS: Final[Mapping[bytes, str]] = {
    OWN_SCHEMA.encode(): "it looks like a report of this program; give --to FORMAT for that",
    b'"$report_type"': "it looks like a file of pytest-reportlog; give --from reportlog",
    b'"reportFormat"': "it looks like CTRF; give --from ctrf",
}


def text_at(holder: Mapping[str, Any], name: str) -> str:
    """Return a text of an object of anybody's; empty where there is none."""
    found = holder.get(name)
    return found if isinstance(found, str) else ""


def number_at(holder: Mapping[str, Any], name: str) -> float | None:
    """Return a number of an object of anybody's that can be a time or a duration in seconds."""
    found = holder.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return float(found) if 0 <= found < _MOST_SECONDS * 1000 else None


def line_at(holder: Mapping[str, Any], name: str) -> int | None:
    """Return a line of an object of anybody's, counted from 1."""
    line = holder.get(name)
    return line if type(line) is int and 1 <= line < _MOST_LINES else None


def count_at(holder: Mapping[str, Any], name: str) -> int:
    """Return a count of an object of anybody's; 0 where there is none."""
    found = number_at(holder, name)
    return int(found) if found is not None and found < _MOST_SECONDS else 0


def exit_code_of(
    tests: Sequence[Attempted], collectors: Sequence[ev.CollectionFailure]
) -> int:
    """Return the exit code that pytest must have had, where a file doesn't say it."""
    if any(failures or test.outcome in ("failed", "error") for test, failures in tests):
        return 1
    return 2 if collectors else 0 if tests else 5


def refuse_duplicates(names: Iterable[str], path: Path) -> None:
    """Refuse a file that names a test twice: it holds two runs, and nobody can tell them apart.

    Raises:
        ReportError: there is such a test.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            what = f"it has the test {safe_text(first_line(name), 200)} twice, as two runs would"
            raise refusal(path, what, "give the file of one run")
        seen.add(name)


def time_from(seconds: float | None, path: Path) -> datetime:
    """Return a time that a file says in seconds since 1970; where it can't be, the file's own."""
    if seconds is not None:
        try:
            return datetime.fromtimestamp(seconds, UTC)
        except (ValueError, OverflowError, OSError):
            pass
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError:  # it has just been removed
        return datetime.fromtimestamp(0, UTC)
