"""Classify each failure by itself: its reason and kind, its failure type and its fingerprint."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from pytest_failure_taxonomy.taxonomy.deaths import is_used_up
from pytest_failure_taxonomy.taxonomy.evidence import CollectionFailure, RunError, TestFailure
from pytest_failure_taxonomy.taxonomy.judgement import FailureJudgement
from pytest_failure_taxonomy.taxonomy.reasons import (
    PHASE_KINDS,
    FailureType,
    known_kinds,
    reason_of,
)

MAX_TEXT_READ: Final = 20_000
"""Characters of a log's text that are searched for a failure type."""

_LASTING: Final = frozenset({FailureType.VERIFICATION_FAILED, FailureType.BROKEN_BUILD})
"""Types of failures that running the same again does not mend."""

_SERVICES: Final = ("sandbox.", "llm.", "tool.", "git.")
"""How the kinds begin that stand for the failure of a service or a tool."""


_BUILD: Final = FailureType.BROKEN_BUILD
_CHECK: Final = FailureType.VERIFICATION_FAILED
_UNKNOWN: Final = FailureType.UNKNOWN

EXCEPTIONS: Final[Mapping[str, FailureType]] = MappingProxyType(
    {
        "builtins.SyntaxError": _BUILD,
        "builtins.ImportError": _BUILD,
        "_pytest.fixtures.FixtureLookupError": _BUILD,  # ours: a test asks for what isn't there
        "builtins.AssertionError": _CHECK,
        "builtins.Failed": _CHECK,  # as pytest's own outcome calls itself
        "_pytest.outcomes.Failed": _CHECK,
        "urllib.error.HTTPError": _CHECK,  # ours: a server answered, with another status
    }
)
"""The failure types of exception classes and their subclasses."""

ENVIRONMENT_EXCEPTIONS: Final = frozenset(
    {
        "builtins.ConnectionError",
        "builtins.KeyboardInterrupt",
        "builtins.MemoryError",
        "builtins.PermissionError",
        "builtins.TimeoutError",
        "socket.gaierror",
        "socket.timeout",
        "subprocess.TimeoutExpired",
        "ssl.SSLError",
        "aiohttp.client_exceptions.ClientConnectionError",
        "http.client.RemoteDisconnected",
        "httpx.TransportError",
        "requests.exceptions.ConnectionError",
        "requests.exceptions.Timeout",
        "urllib.error.URLError",
        "urllib3.exceptions.MaxRetryError",
        "urllib3.exceptions.NewConnectionError",
    }
)
"""Classes that stand for a fault of the machine or the network, whatever their message: `UNKNOWN`.

Another approach to the code does not help; running it again may, or a human.
"""

ENVIRONMENT_ERRNOS: Final = frozenset({12, 23, 24, 28, 30, 122})
"""No memory, too many open files, a full or read-only disk, an exhausted quota; Linux's numbers."""

WRAPPERS: Final = frozenset({"_pytest.nodes.CollectError", "_pytest.nodes.Collector.CollectError"})
"""Classes that only wrap another failure, which their text names."""

_ERRNO: Final = re.compile(r"\[Errno (\d{1,5})\]")

NEAR_LIMIT_SHARE: Final = 0.9
"""How much of a limit must be used for a `MemoryError` to be the limit's doing. A test that asks
for more than any machine has gets one, too, and that is the test's own failure."""


def judge_test_failures(
    failures: Sequence[TestFailure], *, reads_text: bool = False
) -> tuple[FailureJudgement, ...]:
    """Return the judgement of each failed test, in their order.

    Failures that are judged alike share one object, so that many failures take little memory. A
    test that failed only because its subtests did has the fingerprint of the first of them.

    Args:
        failures: all of a run.
        reads_text: the text of a failure may tell its type, too, as in a log, where text is all
            there is.
    """
    if not failures:
        return ()
    # Imported here, because a run without failures needs no fingerprint.
    from pytest_failure_taxonomy.taxonomy.fingerprints import fingerprint_of_failure

    of_subtests: dict[str, str] = {}
    known: dict[tuple[object, ...], FailureJudgement] = {}
    judged = []
    for failure in failures:
        said = failure.attributed
        timed_out = is_timeout(failure)
        if said is None:
            kind = _kind_of(failure, timed_out=timed_out)
            reason = reason_of(kind)
        else:
            reason, kind = said.reason, said.kind
        failure_type = _type_of_test_failure(failure, kind)
        if reads_text:
            failure_type = _type_with_text(failure_type, failure)
        if said is not None:
            retryable = said.retryable
        else:
            fails_again = failure_type in _LASTING and kind in _PLAIN_KINDS
            retryable = False if fails_again else None
        fingerprint = of_subtests.get(failure.nodeid) if failure.part == "sum" else None
        if fingerprint is None:
            fingerprint = fingerprint_of_failure(failure, kind)
        if failure.part == "subtest":
            of_subtests.setdefault(failure.nodeid, fingerprint)
        rule = None if said is None else said.rule
        key = (reason, kind, failure_type, retryable, rule, timed_out, fingerprint)
        one = known.get(key)
        if one is None:
            one = known[key] = FailureJudgement(
                reason=reason,
                kind=kind,
                failure_type=failure_type,
                retryable=retryable,
                rule=rule,
                timed_out=timed_out,
                fingerprint=fingerprint,
            )
        judged.append(one)
    return tuple(judged)


def judge_collection_failures(
    failures: Sequence[CollectionFailure], *, reads_text: bool = False
) -> tuple[FailureJudgement, ...]:
    """Return the judgement of each node that could not be collected, in their order."""
    if not failures:
        return ()
    from pytest_failure_taxonomy.taxonomy.fingerprints import fingerprint_of_failure

    kind = "collection.error"
    judged = []
    for failure in failures:
        raised = failure.exception
        if raised is None:
            failure_type = _type_at_head(failure.message) or FailureType.BROKEN_BUILD
        else:
            failure_type = failure_type_of(
                raised.type, raised.module, raised.bases, raised.message, collecting=True
            )
        if reads_text:
            failure_type = _type_with_text(failure_type, failure)
        judged.append(
            FailureJudgement(
                reason=reason_of(kind),
                kind=kind,
                failure_type=failure_type,
                fingerprint=fingerprint_of_failure(failure, kind),
            )
        )
    return tuple(judged)


def judge_run_error(error: RunError) -> FailureJudgement:
    """Return the judgement of an error outside of the tests and of collection.

    A conftest that could not be loaded is broken code. Of anything else the exception alone can say
    so: what pytest refuses is no failed check, whatever words it uses.
    """
    raised = error.exception
    is_conftest = error.origin == "conftest"
    if raised is not None:
        found: FailureType | None = failure_type_of(
            raised.type, raised.module, raised.bases, raised.message, collecting=is_conftest
        )
    else:
        found = _type_at_head(error.message)
    if is_conftest:
        found = found or FailureType.BROKEN_BUILD
    elif found is not FailureType.BROKEN_BUILD:
        found = FailureType.UNKNOWN
    kind = f"{error.origin}.error"
    return FailureJudgement(reason=reason_of(kind), kind=kind, failure_type=found)


def is_timeout(failure: TestFailure) -> bool:
    """Tell whether pytest-timeout ended this test.

    Its thread method ends the process, too, and leaves no message; then the test has used up its
    limit. Its signal method calls `pytest.fail` from its own module. The wording can't be relied
    on: it changed in pytest-timeout 2.4.
    """
    if failure.crashed:
        return is_used_up(failure.limit)
    raised = failure.exception
    return raised is not None and raised.type == "Failed" and raised.raised_in == "pytest_timeout"


def is_strict_xpass(failure: TestFailure) -> bool:
    """Tell whether the test failed by passing: no exception, and pytest's own wording."""
    return failure.exception is None and failure.message.startswith("[XPASS(strict)]")


def type_in_text(text: str) -> FailureType:
    """Return the failure type that a log's text tells."""
    from pytest_failure_taxonomy.taxonomy.failure_text import classify_failure

    return classify_failure(text[:MAX_TEXT_READ], "")


def failure_type_of(
    exception_type: str,
    module: str,
    bases: Sequence[str],
    text: str,
    *,
    collecting: bool = False,
) -> FailureType:
    """Return the failure type of an exception in a report.

    The first of its classes that is listed decides. Any other exception failed a test, whatever its
    message says: the code runs and does not pass. During collection it means that the code can't
    even be loaded. The text is read only if the exception wraps another one, and then only for the
    exceptions that its tracebacks name.

    Args:
        exception_type: The class's qualified name.
        module: The module that the class says it is from.
        bases: Dotted names of its classes, itself first; may be empty.
        text: The message or the traceback.
        collecting: The failure is a collection error, not a test's.
    """
    otherwise = _BUILD if collecting else _CHECK
    names = tuple(bases) or (f"{module}.{exception_type}",)
    for name in names:
        if name in EXCEPTIONS:
            return EXCEPTIONS[name]
        if name in ENVIRONMENT_EXCEPTIONS:
            return _UNKNOWN
        if name in WRAPPERS:
            return _type_at_head(text) or otherwise
    errno = _ERRNO.search(text[:MAX_TEXT_READ]) if "builtins.OSError" in names else None
    return _UNKNOWN if errno is not None and int(errno[1]) in ENVIRONMENT_ERRNOS else otherwise


def _type_at_head(text: str) -> FailureType | None:
    # Imported here, because most exceptions tell their type by their class.
    from pytest_failure_taxonomy.taxonomy.failure_text import failure_type_at_head

    return failure_type_at_head(text)


_PLAIN_KINDS: Final = frozenset(PHASE_KINDS.values())
"""Kinds of a test that failed by itself, whose failure type says whether it would fail again."""


def _kind_of(failure: TestFailure, *, timed_out: bool) -> str:
    if timed_out:
        return "test.timeout"
    if failure.stall is not None and failure.stall.is_ended:
        return "test.stalled"
    if failure.crashed:
        return "test.crashed" if failure.forked else "worker.crashed"
    memory = None if failure.exception is None else failure.exception.memory
    if memory is not None and memory.used_bytes >= NEAR_LIMIT_SHARE * memory.limit_bytes:
        return "sandbox.memory"
    return "test.xpass_strict" if is_strict_xpass(failure) else PHASE_KINDS[failure.phase]


def _type_of_test_failure(failure: TestFailure, kind: str) -> FailureType:
    """Return the failure type that the exception says, or else the kind."""
    if failure.attributed is not None and kind in known_kinds() and kind.startswith(_SERVICES):
        is_too_long = kind == "llm.context_exceeded"
        return FailureType.CONTEXT_EXHAUSTED if is_too_long else FailureType.UNKNOWN
    if kind == "sandbox.memory":
        return FailureType.UNKNOWN
    raised = failure.exception
    if raised is not None:
        return failure_type_of(raised.type, raised.module, raised.bases, raised.message)
    if kind == "test.xpass_strict":
        return FailureType.VERIFICATION_FAILED
    if failure.crashed:
        return FailureType.UNKNOWN
    by_kind = FailureType.VERIFICATION_FAILED if kind == "test.failed" else FailureType.UNKNOWN
    return _type_at_head(failure.message) or by_kind


def _type_with_text(
    failure_type: FailureType, failure: TestFailure | CollectionFailure
) -> FailureType:
    """Return the failure type, by the failure's text where that says more.

    A log names an exception without its module and its bases, so the one at the text's head may be
    known better than by `failure_type`; the words count where nothing else does.
    """
    raised = failure.exception
    text = failure.message if raised is None else f"{raised.type}: {raised.message}"
    at_head = _type_at_head(text)
    if at_head is not None and at_head is not FailureType.UNKNOWN:
        return at_head
    return type_in_text(text) if failure_type is FailureType.UNKNOWN else failure_type
