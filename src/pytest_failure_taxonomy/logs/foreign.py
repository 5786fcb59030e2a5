"""Make a report from another program's file about a run.

Each reader, such as `junit.py`, turns its file into evidence, and the judge of our own
runs decides what that means. None of these files knows what a process died of, so such
a report is `reconstructed`; its notes say what else can't be known.
"""

from __future__ import annotations

import builtins
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_failure_taxonomy.documents.content import (
    parse_json,
    read_input,
    refusal,
)
from pytest_failure_taxonomy.documents.problems import WrongError
from pytest_failure_taxonomy.logs.printed_exceptions import bases_of
from pytest_failure_taxonomy.report import build
from pytest_failure_taxonomy.report.model import FailureReport
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
_MAX_SECONDS: Final = 1e9
MAX_LINES: Final = 10**7
_SUM_OF_SUBTESTS: Final = re.compile(r"contains [0-9]+ failed subtest")

FAILED: Final = ("failed", "error")
"""Outcomes of tests that failed."""
PHASES: Final[Mapping[str, ev.Phase]] = {
    "setup": "setup",
    "call": "call",
    "teardown": "teardown",
}
_HINTS: Final[Mapping[bytes, str]] = {
    OWN_SCHEMA.encode(): (
        "it looks like a report of this program; give --to FORMAT for that"
    ),
    b'"$report_type"': (
        "it looks like a file of pytest-reportlog; give --from reportlog"
    ),
    b'"reportFormat"': "it looks like CTRF; give --from ctrf",
}
"""What to do with a file of another format, by a text that such files have."""

Scalar = str | int | float | bool | None


class ForeignObject:
    """A JSON object that anybody may have written: any field may be missing.

    No other code looks at its fields. A field of a wrong type counts as a missing one.
    """

    __slots__ = ("_fields",)

    def __init__(self, parsed: object = None) -> None:
        """Take what was parsed; anything but an object counts as an empty one."""
        self._fields: dict[str, object] = parsed if isinstance(parsed, dict) else {}

    def __bool__(self) -> bool:
        return bool(self._fields)

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def field(self, name: str) -> object:
        """Return a field as it is, None if it is missing."""
        return self._fields.get(name)

    def text(self, name: str) -> str:
        """Return a text, else an empty one."""
        field = self._fields.get(name)
        return field if isinstance(field, str) else ""

    def boolean(self, name: str) -> bool | None:
        """Return true or false, else None."""
        field = self._fields.get(name)
        return field if isinstance(field, bool) else None

    def number(self, name: str) -> float | None:
        """Return a number that can be a time or a duration, in (milli)seconds."""
        field = self._fields.get(name)
        if isinstance(field, bool) or not isinstance(field, int | float):
            return None
        return float(field) if 0 <= field < _MAX_SECONDS * 1000 else None

    def count(self, name: str) -> int:
        """Return a count, else 0."""
        number = self.number(name) or 0
        return int(number) if number < _MAX_SECONDS else 0

    def line(self, name: str) -> int | None:
        """Return a line of a file, counted from 1."""
        line = self._fields.get(name)
        return line if type(line) is int and 1 <= line < MAX_LINES else None

    def child(self, name: str) -> ForeignObject:
        """Return an object, else an empty one."""
        return ForeignObject(self._fields.get(name))

    def items(self, name: str) -> list[object]:
        """Return a list as it is, else an empty one."""
        field = self._fields.get(name)
        return field if isinstance(field, list) else []

    def children(self, name: str) -> list[ForeignObject]:
        """Return the objects in a list."""
        items = self.items(name)
        return [ForeignObject(item) for item in items if isinstance(item, dict)]

    def texts(self, name: str) -> list[str]:
        """Return the texts in a list."""
        return [item for item in self.items(name) if isinstance(item, str)]


@value
class ForeignRun:
    """All that a file says of one run."""

    evidence: ev.RunEvidence
    content: bytes
    """What tells the run from all others; its digest is the run's id."""
    started_at: datetime
    duration_seconds: float | None = None
    pytest_version: str = ""
    """Empty where the environment has it."""
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
) -> FailureReport:
    """Return the report of another program's file.

    Args:
        source: what has written it, such as `reportlog`: each has a module with a
            function `read_run`.
        path: the file. Its digest is the run's id, so that one file gives one report.
        rootdir: the root directory of its tests.
        environment: what is known of where they ran, such as the commit.
        redaction: removes secrets from every text.

    Raises:
        ReportError: it can't be read, is no such file, or names a test twice.
    """
    name = f"pytest_failure_taxonomy.logs.{source.replace('-', '_')}"
    run: ForeignRun = import_module(name).read_run(path)
    return report_of(run, rootdir=rootdir, environment=environment, redaction=redaction)


def report_of(
    run: ForeignRun,
    *,
    rootdir: Path,
    environment: ev.Environment,
    redaction: Redaction | None = None,
) -> FailureReport:
    """Return the report of a run; takes the same as `report_from`."""
    started_at = run.started_at.astimezone(UTC).isoformat(timespec="milliseconds")
    pytest_version = run.pytest_version or environment.pytest
    context = ev.RunContext(
        id=blake2b(run.content, digest_size=16).hexdigest(),
        started_at=started_at.replace("+00:00", "Z"),
        duration_seconds=run.duration_seconds,
        args=(),
        rootdir=str(rootdir),
        environment=replace(environment, pytest=pytest_version),
        attempt=run.attempt,
    )
    report = build.build_report(
        run.evidence,
        judge(run.evidence),
        context,
        completeness="reconstructed",
        redaction=redaction,
    )
    return replace(report, notes=(*report.notes, *run.notes))


def evidence_of_tests(
    end: ev.ProcessExit,
    tests: Sequence[Attempted],
    collection_failures: Sequence[ev.CollectionFailure] = (),
    *,
    rerun: int = 0,
) -> ev.RunEvidence:
    """Return the evidence of a run of which a file lists the tests.

    Args:
        end: how pytest ended.
        tests: those that ran or were skipped.
        collection_failures: what could not be collected.
        rerun: how often tests were run again.
    """
    outcomes = Counter(test.outcome for test, _ in tests)
    passed = outcomes["passed"] + outcomes["flaky"]
    failed = 0
    errors = len(collection_failures)
    # As in pytest's last line, where a test may both pass and have an error.
    for test, failures in tests:
        phases = [failure.phase for failure in failures]
        in_call = phases.count("call")
        failed += max(in_call, test.outcome == "failed")
        errors += max(len(phases) - in_call, test.outcome == "error")
        passed += test.outcome == "error" and {*phases} == {"teardown"}
    return ev.RunEvidence(
        exit=end,
        counts=ev.Counts(
            collected=len(tests),
            passed=passed,
            failed=failed,
            errors=errors,
            skipped=outcomes["skipped"],
            xfailed=outcomes["xfailed"],
            xpassed=outcomes["xpassed"],
            flaky=outcomes["flaky"],
            rerun=rerun,
        ),
        failures=tuple(failure for _, failures in tests for failure in failures),
        collection_failures=tuple(collection_failures),
        tests=tuple(test for test, _ in tests),
    )


def describe_attempt(
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
    for phase, message, text, crashed, is_subtest in failed:
        part: ev.Part = "subtest" if is_subtest else "test"
        if message == text and _SUM_OF_SUBTESTS.match(message) and not is_subtest:
            part = "sum"
        failure = ev.TestFailure(
            nodeid=run.nodeid,
            phase=phase,
            message=message[:MAX_MESSAGE] or last_line(text),
            exception=exception_of(message, text),
            part=part,
            crashed=crashed,
            location=find_place(text, path, line),
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
    message = last_line(text)
    for text_line in text.splitlines():
        if text_line.startswith("E "):
            message = text_line[2:].strip()
    return ev.CollectionFailure(
        nodeid=nodeid,
        message=message[:MAX_MESSAGE],
        exception=exception_of(message, text),
        location=find_place(text, nodeid.partition("::")[0], line),
        traceback=cap(text, MAX_TRACEBACK) or None,
        traceback_truncated=len(text) > MAX_TRACEBACK,
    )


def exception_of(message: str, text: str) -> ev.RaisedException | None:
    """Return the exception that begins a message, or ends a traceback.

    A bare `assert` stands for its AssertionError. A name is taken for a word unless its
    last part has a capital letter, or ends as the names of exceptions do.
    """
    first = message.partition("\n")[0]
    dotted, words = "AssertionError", message
    if match := _EXCEPTION.match(first):
        dotted = match[1]
        words = message[match.end(1) :].lstrip(": ")
    elif not first.startswith("assert "):
        match = _EXCEPTION.search(last_line(text).rpartition(": ")[2])
        if match is None:
            return None
        dotted = match[1]
    module, _, name = dotted.rpartition(".")
    module = module or "builtins"
    if not (name[:1].isupper() or name.endswith(("error", "timeout"))):
        return None
    # No file names the base classes; those of Python's own exceptions are known.
    bases: tuple[str, ...] = ()
    cls = getattr(builtins, name, None)
    is_exception = isinstance(cls, type) and issubclass(cls, BaseException)
    if module == "builtins" and is_exception:
        bases = bases_of(f"builtins.{name}")
    return ev.RaisedException(
        type=name, module=module, message=words[:MAX_MESSAGE], bases=bases
    )


def find_place(text: str, path: str | None, line: int | None) -> ev.Location | None:
    """Return the last place in a traceback of pytest's, else `path` and `line`."""
    places = _PLACE.findall(text)
    if places:
        path, number = places[-1]
        path, line = path.replace("\\", "/"), max(1, int(number))
    return ev.Location(path=path, line=line) if path else None


def last_line(text: str) -> str:
    """Return the last line of a text that isn't blank."""
    lines = text.strip().splitlines()
    return lines[-1][:MAX_MESSAGE] if lines else ""


def read_document(path: Path, right: str) -> tuple[bytes, ForeignObject]:
    """Return the content of a file that should be one JSON object, and the object.

    Args:
        path: of the file.
        right: what would be right, for the message of the error.

    Raises:
        ReportError: it can't be read, is no object, or is of another known format.
    """
    content = read_input(path, right)
    try:
        document = parse_json(content)
    except WrongError as error:
        raise refusal(path, error.what, hint_for(content) or right) from None
    if not isinstance(document, dict):
        raise refusal(path, "it is no JSON object", right)
    return content, ForeignObject(document)


def hint_for(content: bytes) -> str:
    """Return what to do with a file of another known format; empty for other files."""
    head = content[:65536].lstrip(b"\xef\xbb\xbf \t\r\n")
    if head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ")):
        return "it is compressed; unpack it first"
    if head.startswith(b"<"):
        return "it looks like XML; for JUnit give --from junit"
    for mark, hint in _HINTS.items():
        if mark in head:
            return hint
    return ""


def exit_code_of(
    tests: Sequence[Attempted], collectors: Sequence[ev.CollectionFailure]
) -> int:
    """Return the exit code that pytest must have had, where a file doesn't have it."""
    if any(failures or test.outcome in FAILED for test, failures in tests):
        return 1
    if collectors:
        return 2
    return 0 if tests else 5


def seconds_between(start: float | None, stop: float | None) -> float | None:
    """Return how long something took; `None` if a time is missing."""
    if start is None or stop is None:
        return None
    return max(0.0, stop - start)


def refuse_duplicates(names: Iterable[str], path: Path) -> None:
    """Refuse a file that names a test twice, because its two runs can't be told apart.

    Raises:
        ReportError: there is such a test.
    """
    earlier: set[str] = set()
    for name in names:
        if name in earlier:
            test = safe_text(first_line(name), 200)
            what = f"it has the test {test} twice, as two runs would"
            raise refusal(path, what, "give the file of one run")
        earlier.add(name)


def choose_time(seconds: float | None, path: Path) -> datetime:
    """Return the time at so many seconds since 1970; else the file's own time."""
    if seconds is not None:
        with suppress(ValueError, OverflowError, OSError):
            return datetime.fromtimestamp(seconds, UTC)
    with suppress(OSError):  # the file may have just been removed
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return datetime.fromtimestamp(0, UTC)
