"""What sort of recovery a failure in a report takes, and whether a retry could help."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.taxonomy.classification import (
    judge_collection_failures,
    judge_run_error,
)
from pytest_failure_taxonomy.taxonomy.evidence import (
    Attribution,
    CollectionFailure,
    ErrorOrigin,
    ProcessExit,
    RaisedException,
    RunError,
    RunEvidence,
    TestFailure,
)
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.judgement import (
    FailureReason,
    FailureType,
    Finding,
    Verdict,
    known_kinds,
)

BUILD, CHECK, UNKNOWN, CONTEXT = (
    FailureType.BROKEN_BUILD,
    FailureType.VERIFICATION_FAILED,
    FailureType.UNKNOWN,
    FailureType.CONTEXT_EXHAUSTED,
)
IMPORT_ERROR: Final = "builtins.ModuleNotFoundError", "builtins.ImportError"
FIXTURE: Final = ("_pytest.fixtures.FixtureLookupError", "builtins.LookupError")
CONNECTION: Final = ("builtins.ConnectionRefusedError", "builtins.ConnectionError")
PHRASE: Final = "expected assertion: test failed by a syntax error of the context"
"""Has a phrase of each type."""


def raised(*bases: str, message: str = PHRASE) -> RaisedException:
    """Return an exception of these classes."""
    module, _, name = bases[0].rpartition(".")
    return RaisedException(type=name, module=module, message=message, bases=bases)


def failed(
    *bases: str, phase: Any = "call", message: str = PHRASE, kind: str = "", **how: Any
) -> TestFailure:
    """Return a failed test: by an exception, or without one; attributed where a kind is given."""
    reason = (
        known_kinds()[kind].reason
        if kind in known_kinds()
        else FailureReason.TESTS_FAILED
    )
    said = (
        Attribution(reason=reason, kind=kind, source="rule", **how)
        if kind and reason
        else None
    )
    return TestFailure(
        nodeid="test_a.py::test_a",
        phase=phase,
        message=message,
        exception=raised(*bases) if bases else None,
        attributed=said,
    )


def verdict_of(**seen: Any) -> Verdict:
    """Return the verdict of a run that pytest itself ended."""
    verdict = judge(
        RunEvidence(exit=ProcessExit(code=1, source="pytest"), **seen)
    ).verdict
    assert verdict is not None
    return verdict


TESTS: Final = (
    pytest.param(
        failed("builtins.AssertionError"), CHECK, False, "escalate", id="assertion"
    ),
    pytest.param(
        failed("_pytest.outcomes.Failed"), CHECK, False, "escalate", id="pytest.fail"
    ),
    pytest.param(
        failed("builtins.ValueError"), CHECK, False, "escalate", id="exception"
    ),
    pytest.param(failed(*IMPORT_ERROR), BUILD, False, "escalate", id="import"),
    pytest.param(
        failed(*FIXTURE, phase="setup"), BUILD, False, "escalate", id="fixture"
    ),
    pytest.param(failed(*CONNECTION), UNKNOWN, None, "retry", id="connection"),
    pytest.param(failed(), CHECK, False, "escalate", id="no-exception"),
    pytest.param(
        failed(phase="setup"), UNKNOWN, None, "retry", id="setup-without-exception"
    ),
    pytest.param(
        failed(message="ImportError: no x"),
        BUILD,
        False,
        "escalate",
        id="head-of-a-message",
    ),
    pytest.param(
        failed(message="[XPASS(strict)] ImportError: no x"),
        CHECK,
        False,
        "escalate",
        id="xpass",
    ),
    pytest.param(
        failed("builtins.ValueError", kind="llm.context_exceeded"),
        CONTEXT,
        False,
        "escalate",
        id="context",
    ),
    pytest.param(
        failed("builtins.ValueError", kind="llm.rate_limited"),
        UNKNOWN,
        True,
        "retry",
        id="rate",
    ),
    pytest.param(
        failed("builtins.ValueError", kind="sandbox.docker"),
        UNKNOWN,
        None,
        "retry",
        id="docker",
    ),
    pytest.param(
        failed("builtins.AssertionError", kind="ours.x"),
        CHECK,
        None,
        "retry",
        id="rule-is-silent",
    ),
    pytest.param(
        failed("builtins.AssertionError", kind="ours.x", retryable=True),
        CHECK,
        True,
        "retry",
        id="rule-says-flaky",
    ),
    pytest.param(
        failed(*IMPORT_ERROR, kind="ours.x", retryable=True),
        BUILD,
        True,
        "retry",
        id="rule-build",
    ),
)


@pytest.mark.parametrize(("failure", "failure_type", "retryable", "action"), TESTS)
def test_a_failed_test(
    failure: TestFailure, failure_type: FailureType, retryable: bool | None, action: str
) -> None:
    """Its exception says what a failed test takes, else its kind does; no phrase in it does."""
    verdict = verdict_of(failures=(failure,))
    assert verdict.failure_type is failure_type
    assert verdict.retryable is retryable
    assert verdict.recovery_action == action


@pytest.mark.parametrize(
    ("exception", "message", "failure_type"),
    [
        (raised(*IMPORT_ERROR), PHRASE, BUILD),
        (raised("builtins.KeyError"), PHRASE, BUILD),
        (raised(*CONNECTION), PHRASE, UNKNOWN),
        (raised("_pytest.nodes.CollectError"), PHRASE, BUILD),
        (None, PHRASE, BUILD),
        (None, "TimeoutError: no answer", UNKNOWN),
    ],
)
def test_a_node_that_could_not_be_collected(
    exception: RaisedException | None, message: str, failure_type: FailureType
) -> None:
    """It is a broken build, unless its exception speaks of the machine or the network."""
    failure = CollectionFailure(
        nodeid="test_a.py", message=message, exception=exception
    )
    [judged] = judge_collection_failures([failure])
    assert judged.failure_type is failure_type


@pytest.mark.parametrize(
    ("exception", "message", "elsewhere", "in_conftest"),
    [
        (raised("pytest.UsageError"), PHRASE, UNKNOWN, BUILD),
        (raised("builtins.AssertionError"), PHRASE, UNKNOWN, CHECK),
        (raised("builtins.KeyError"), PHRASE, UNKNOWN, BUILD),
        (raised(*IMPORT_ERROR), PHRASE, BUILD, BUILD),
        (raised("builtins.SyntaxError"), PHRASE, BUILD, BUILD),
        (raised(*CONNECTION), PHRASE, UNKNOWN, UNKNOWN),
        (None, "SyntaxError: invalid syntax", BUILD, BUILD),
        (
            None,
            "Wrong expression passed to '-k': and and: expected end",
            UNKNOWN,
            BUILD,
        ),
        (None, "AssertionError: assert 0", UNKNOWN, CHECK),
    ],
)
def test_an_error_outside_of_tests(
    exception: RaisedException | None,
    message: str,
    elsewhere: FailureType,
    in_conftest: FailureType,
) -> None:
    """What pytest refuses and what breaks in it is unknown, unless its exception says more."""

    def type_of(origin: ErrorOrigin) -> FailureType:
        error = RunError(origin=origin, message=message, exception=exception)
        return judge_run_error(error).failure_type

    origins: tuple[ErrorOrigin, ...] = ("usage", "internal", "plugin")
    assert {type_of(origin) for origin in origins} == {elsewhere}
    assert type_of("conftest") is in_conftest


@pytest.mark.parametrize("kind", sorted({*known_kinds(), "ours.patch"}))
def test_action_and_retryable_agree(kind: str) -> None:
    """Whatever the kind and the type: no retry where it can't help, and one where it can."""
    reason = known_kinds()[kind].reason if kind in known_kinds() else None
    for failure_type, said in product([*FailureType, None], [True, False, None]):
        finding = Finding(
            reason=reason or FailureReason.UNKNOWN,
            kind=kind,
            source="test",
            detail="",
            retryable=said,
            failure_type=failure_type,
        )
        verdict = verdict_of(settled=(finding,))
        assert (verdict.reason, verdict.kind) == (finding.reason, kind)
        if verdict.retryable is False:
            assert verdict.recovery_action != "retry"
        elif verdict.retryable:
            assert verdict.recovery_action in ("retry", "continue")
