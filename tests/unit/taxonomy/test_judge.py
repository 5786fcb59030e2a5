"""What the judge makes of the evidence of a run."""

from __future__ import annotations

import copy
from typing import Any, Final, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.taxonomy import classification
from pytest_failure_taxonomy.taxonomy.classification import (
    is_timeout,
    judge_run_error,
    judge_test_failures,
)
from pytest_failure_taxonomy.taxonomy.evidence import (
    Attribution,
    CollectionFailure,
    Counts,
    ErrorOrigin,
    InFlightTest,
    Interruption,
    Output,
    OutputLine,
    Phase,
    ProcessExit,
    RaisedException,
    RaisingFrame,
    RunError,
    RunEvidence,
    SeenMarker,
    TestFailure,
    Unrecorded,
    WorkerEnd,
)
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.judgement import (
    MAX_EVIDENCE,
    CodeOwner,
    Evidence,
    FailureReason,
    FailureType,
    Judgement,
    Stage,
    known_kinds,
)
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict

A: Final = "test_cart.py::test_a"
B: Final = "test_cart.py::test_b"

SANDBOX: Final = (FailureReason.SANDBOX_ERROR, "sandbox.docker")
SAID: Final = Attribution(
    reason=FailureReason.SANDBOX_ERROR, kind="sandbox.docker", source="hook"
)
PHASES: Final[tuple[Phase, ...]] = get_args(Phase)
ORIGINS: Final[tuple[ErrorOrigin, ...]] = get_args(ErrorOrigin)
OWN_FAILURE_STAGES: Final = (Stage.GIT_CLONE, Stage.GIT_CHECKOUT, Stage.SETUP)
TEST_STAGES: Final = (Stage.AGENT_RUN, Stage.FINAL_TEST)


def ours(reason: FailureReason) -> Attribution:
    """Return what a rule says that gives a kind of its own."""
    return Attribution(reason=reason, kind="ours.patch", source="rule")


def classified(failure: TestFailure) -> tuple[FailureReason, str]:
    """Return reason and kind of one failed test."""
    [judged] = judge_test_failures([failure])
    return judged.reason, judged.kind


def ended(exit_code: int | None = 1, **seen: Any) -> RunEvidence:
    """Return the evidence of a run that pytest itself ended."""
    return RunEvidence(exit=ProcessExit(code=exit_code, source="pytest"), **seen)


def failed(nodeid: str = A, phase: Phase = "call", **how: Any) -> TestFailure:
    """Return the failure of one test, by an assertion unless told otherwise."""
    how.setdefault("exception", raised("AssertionError", "builtins"))
    return TestFailure(
        nodeid=nodeid, phase=phase, message=how.pop("message", "assert 0"), **how
    )


def raised(
    kind: str, module: str, message: str = "assert 0", raised_in: str = "test_cart"
) -> RaisedException:
    """Return the description of an exception."""
    return RaisedException(
        type=kind, module=module, message=message, raised_in=raised_in
    )


def timed_out(
    nodeid: str = A, message: str = "Timeout (>1.0s) from pytest-timeout."
) -> TestFailure:
    """Return the failure of a test that pytest-timeout's signal method ended."""
    exception = raised(
        "Failed", "_pytest.outcomes", message, raised_in="pytest_timeout"
    )
    return failed(nodeid, message=f"Failed: {message}", exception=exception)


def crashed(nodeid: str = A, worker: str = "gw0", **how: Any) -> TestFailure:
    """Return the report that xdist makes up for the test of a worker that went down."""
    message = f"worker {worker!r} crashed while running {nodeid!r}"
    return failed(
        nodeid, message=message, exception=None, crashed=True, worker=worker, **how
    )


def died(identifier: str = "gw0", **how: Any) -> WorkerEnd:
    """Return the end of an xdist worker that went down in the middle of its session."""
    return WorkerEnd(id=identifier, tests=3, ending="died", **how)


def uncollected(nodeid: str = "test_cart.py") -> CollectionFailure:
    """Return the failure to collect a node."""
    return CollectionFailure(
        nodeid=nodeid, message="ImportError: no module named 'cart'"
    )


def stop(exception: Any, message: str = "") -> Interruption:
    """Return what ended a session early."""
    return Interruption(exception=exception, message=message)


def held(judgement: Judgement) -> list[tuple[str, str, int]]:
    """Return reason, kind and count of every reason that holds, in their order."""
    return [(each.reason.value, each.kind, each.count) for each in judgement.reasons]


def verdict_of(judgement: Judgement) -> tuple[str, str] | None:
    """Return reason and kind of the verdict, `None` for success."""
    verdict = judgement.verdict
    return None if verdict is None else (verdict.reason.value, verdict.kind)


# Success


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param(Counts(collected=2, passed=2), id="passed"),
        pytest.param(
            Counts(collected=2, skipped=1, xfailed=1), id="skipped-and-xfailed"
        ),
        pytest.param(Counts(collected=1, passed=1, rerun=2, flaky=1), id="flaky"),
        pytest.param(Counts(collected=1, passed=1, warnings=30), id="warnings"),
    ],
)
@pytest.mark.parametrize("stage", [*OWN_FAILURE_STAGES, *TEST_STAGES])
def test_success_has_no_verdict(stage: Stage, counts: Counts) -> None:
    """Exit code 0 with nothing that failed is success in every stage but the baseline."""
    expected = Judgement(exit_reason=None, verdict=None, reasons=())
    assert judge(ended(0, stage=stage, counts=counts)) == expected


def test_a_green_run_has_no_verdict_whatever_the_recorder_has_made_of_it() -> None:
    """Where pytest answered 0 and left nothing undone, what says otherwise is a fault of ours."""
    judgement = judge(
        ended(0, failures=(failed(),), counts=Counts(collected=1, failed=1))
    )
    assert (judgement.exit_reason, judgement.verdict, judgement.reasons) == (
        None,
        None,
        (),
    )
    assert judgement.faults == (
        "pytest ended with exit code 0, so this is no verdict: assert 0: test_a (test.failed)",
    )


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param({"failures": (crashed(),)}, id="crash"),
        pytest.param({"workers": (died(),)}, id="dead-worker"),
        pytest.param(
            {"errors": (RunError(origin="internal", message="boom"),)}, id="error"
        ),
        pytest.param({"interruptions": (stop("Exit", "enough"),)}, id="pytest.exit"),
        pytest.param({"failures": (failed(),), "not_run": (B,)}, id="unfinished"),
        pytest.param(
            {
                "failures": (failed(),),
                "in_flight": (
                    InFlightTest(nodeid=B, phase="call", elapsed_seconds=1.0),
                ),
            },
            id="in-flight",
        ),
        pytest.param({"stage": Stage.BASELINE_RUN}, id="baseline"),
        pytest.param({"finished": False}, id="session-not-finished"),
    ],
)
def test_exit_code_0_alone_makes_no_run_green(seen: dict[str, Any]) -> None:
    """What crashed, was interrupted or left unfinished is a verdict with exit code 0, too."""
    judgement = judge(ended(0, **seen))
    assert judgement.verdict is not None
    assert judgement.faults == ()


@pytest.mark.parametrize("exit_code", [1, 2, 5, 137, None])
def test_the_verdict_of_a_failed_test_does_not_depend_on_the_exit_code(
    exit_code: int | None,
) -> None:
    """Evidence explains the exit code, so that the code adds no reason of its own."""
    assert held(judge(ended(exit_code, failures=(failed(),)))) == [
        ("TESTS_FAILED", "test.failed", 1)
    ]


# The exit code's own answer


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        pytest.param(ended(0), None, id="0"),
        pytest.param(ended(1), "TESTS_FAILED", id="1"),
        pytest.param(ended(None), None, id="not-known"),
        pytest.param(
            ended(2, collection_failures=(uncollected(),)), "INTERRUPTED", id="2"
        ),
        pytest.param(ended(2, stage=Stage.SETUP), "SETUP_FAILED", id="setup"),
        pytest.param(ended(5, stage=Stage.BASELINE_RUN), None, id="baseline"),
        pytest.param(
            ended(2, stage=Stage.SETUP, interruptions=(stop("KeyboardInterrupt"),)),
            "INTERRUPTED",
            id="setup-ctrl-c",
        ),
        pytest.param(
            ended(
                2, stage=Stage.BASELINE_RUN, interruptions=(stop("KeyboardInterrupt"),)
            ),
            "INTERRUPTED",
            id="baseline-ctrl-c",
        ),
        pytest.param(
            ended(42, interruptions=(stop("Exit", "enough"),)),
            "UNKNOWN",
            id="pytest.exit",
        ),
    ],
)
def test_the_exit_reason_is_the_tables_answer(
    run: RunEvidence, expected: str | None
) -> None:
    """The exit reason is what the stage's table says, with Ctrl+C as its exception."""
    assert judge(run).exit_reason == expected


# Collection errors


@pytest.mark.parametrize("exit_code", [1, 2])
@pytest.mark.parametrize(
    "interruptions",
    [
        pytest.param((), id="not-stopped"),
        pytest.param((stop("Interrupted", "1 error during collection"),), id="stopped"),
    ],
)
def test_a_collection_error_is_internal(
    exit_code: int, interruptions: tuple[Interruption, ...]
) -> None:
    """A collection error is INTERNAL_ERROR with exit code 1 and 2, and never INTERRUPTED."""
    run = ended(
        exit_code, collection_failures=(uncollected(),), interruptions=interruptions
    )
    judgement = judge(run)
    assert held(judgement) == [("INTERNAL_ERROR", "collection.error", 1)]
    assert judgement.verdict is not None
    assert judgement.verdict.nodeid == "test_cart.py"


def test_failed_tests_precede_a_collection_error() -> None:
    """With failed tests beside it TESTS_FAILED wins, and the collection error stays."""
    run = ended(
        1,
        failures=(failed(),),
        collection_failures=(uncollected(), uncollected("b.py")),
    )
    judgement = judge(run)
    assert held(judgement) == [
        ("TESTS_FAILED", "test.failed", 1),
        ("INTERNAL_ERROR", "collection.error", 2),
    ]
    assert judgement.reasons[1].nodeids == ("test_cart.py", "b.py")


# What stops a session


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        pytest.param({"failures": (failed(),)}, "test.failed", id="failure"),
        pytest.param(
            {"collection_failures": (uncollected(),)},
            "collection.error",
            id="collection-error",
        ),
        pytest.param({"workers": (died(),)}, "worker.crashed", id="worker-death"),
        pytest.param(
            {"errors": (RunError(origin="internal", message="boom"),)},
            "internal.error",
            id="internal-error",
        ),
    ],
)
def test_a_stop_that_something_explains_adds_nothing(
    cause: dict[str, Any], expected: str
) -> None:
    """After a failure that pytest stops for, its own `Interrupted` is no further reason."""
    judgement = judge(
        ended(2, interruptions=(stop("Interrupted", "stopping"),), **cause)
    )
    assert [each.kind for each in judgement.reasons] == [expected]


def test_a_stop_that_nothing_explains_is_a_reason() -> None:
    """A stop of pytest that nothing explains is INTERRUPTED, with the words it was given."""
    run = ended(2, interruptions=(stop("Interrupted", "the disk is full"),))
    verdict = judge(run).verdict
    assert verdict is not None
    assert (verdict.reason, verdict.kind) == (
        FailureReason.INTERRUPTED,
        "interrupt.stopped",
    )
    assert verdict.evidence == (Evidence(source="session", detail="the disk is full"),)


def test_a_finished_worker_explains_no_stop() -> None:
    """A worker that came to its end is no cause for the controller to stop."""
    worker = WorkerEnd(id="gw0", tests=2, exit_code=0)
    run = ended(2, workers=(worker,), interruptions=(stop("Interrupted", "enough"),))
    assert held(judge(run)) == [("INTERRUPTED", "interrupt.stopped", 1)]


def test_ctrl_c_names_the_test_that_was_running() -> None:
    """Ctrl+C is INTERRUPTED and names the first test in flight, even beside later ones."""
    run = ended(
        2,
        interruptions=(stop("KeyboardInterrupt"),),
        in_flight=(
            InFlightTest(nodeid=A, phase="call", elapsed_seconds=2.0),
            InFlightTest(nodeid=B, phase="setup", elapsed_seconds=0.5),
        ),
    )
    verdict = judge(run).verdict
    assert verdict is not None
    assert (verdict.kind, verdict.nodeid) == ("interrupt.keyboard", A)
    assert verdict.evidence == (
        Evidence(source="session", detail=f"{A}: KeyboardInterrupt"),
    )


def test_ctrl_c_between_tests_names_none() -> None:
    """Ctrl+C with no test in flight has no node id."""
    verdict = judge(ended(2, interruptions=(stop("KeyboardInterrupt"),))).verdict
    assert verdict is not None
    assert verdict.nodeid is None


def test_ctrl_c_stays_beside_failed_tests() -> None:
    """A test that failed before Ctrl+C wins by precedence; the interrupt stays listed."""
    run = ended(2, failures=(failed(),), interruptions=(stop("KeyboardInterrupt"),))
    judgement = judge(run)
    assert held(judgement) == [
        ("TESTS_FAILED", "test.failed", 1),
        ("INTERRUPTED", "interrupt.keyboard", 1),
    ]
    assert judgement.exit_reason is FailureReason.INTERRUPTED


def test_xdist_passes_ctrl_c_on_in_its_own_words() -> None:
    """An `Interrupted` of xdist that speaks of a keyboard interrupt is Ctrl+C, no mere stop."""
    words = "<WorkerController gw0> received keyboard-interrupt"
    run = ended(2, stage=Stage.SETUP, interruptions=(stop("Interrupted", words),))
    judgement = judge(run)
    assert held(judgement) == [("INTERRUPTED", "interrupt.keyboard", 1)]
    assert judgement.exit_reason is FailureReason.INTERRUPTED


@pytest.mark.parametrize(
    "words",
    [
        "KeyError: <WorkerController gw0> (xdist/dsession.py:138, in pytest_runtestloop)",
        "OSError: cannot send to <Channel id=1 closed> (execnet/gateway_base.py:951, in send)",
        "AssertionError (xdist/scheduler/load.py:173, in mark_test_pending)",
    ],
)
def test_what_xdist_stumbles_over_is_no_error_of_its_own(words: str) -> None:
    """Where another error has ended the session, xdist's follows from it; alone it counts."""
    stumbled = RunError(origin="internal", message=words)
    first = RunError(
        origin="internal", message="ValueError: hook broke (conftest.py:2, in hook)"
    )
    assert held(judge(ended(3, errors=(first, stumbled)))) == [
        ("INTERNAL_ERROR", "internal.error", 1)
    ]
    assert held(judge(ended(3, errors=(stumbled,)))) == [
        ("INTERNAL_ERROR", "internal.error", 1)
    ]


def test_ctrl_c_in_a_worker_is_no_crash() -> None:
    """A worker that got Ctrl+C interrupted the run, though xdist reports its test as crashed."""
    words = "<WorkerController gw0> received keyboard-interrupt"
    run = ended(
        2,
        failures=(crashed(B),),
        interruptions=(stop("Interrupted", words),),
        in_flight=(
            InFlightTest(nodeid=A, phase="call", elapsed_seconds=1.0, worker="gw1"),
        ),
        workers=(WorkerEnd(id="gw0", tests=2, ending="interrupted", crashed_on=B),),
    )
    judgement = judge(run)
    assert held(judgement) == [("INTERRUPTED", "interrupt.keyboard", 1)]
    assert judgement.exit_reason is FailureReason.INTERRUPTED
    assert judgement.verdict is not None
    assert judgement.verdict.nodeid == B
    assert judgement.verdict.evidence == (
        Evidence(
            source="xdist worker",
            detail=f"worker gw0 was interrupted from the keyboard while it ran {B}",
        ),
    )


def test_a_worker_that_crashed_stays_one_beside_ctrl_c_in_another() -> None:
    """Ctrl+C in one worker does not excuse the death of another."""
    run = ended(
        2,
        failures=(crashed(A, "gw0"), crashed(B, "gw1")),
        workers=(
            died("gw0", signal="SIGSEGV", crashed_on=A),
            WorkerEnd(id="gw1", tests=2, ending="interrupted", crashed_on=B),
        ),
    )
    assert held(judge(run)) == [
        ("TESTS_FAILED", "worker.crashed", 1),
        ("INTERRUPTED", "interrupt.keyboard", 1),
    ]


@pytest.mark.parametrize("exit_code", [0, 1, 2, 42])
@pytest.mark.parametrize("stage", [*OWN_FAILURE_STAGES, *TEST_STAGES])
def test_pytest_exit_is_an_interrupt_whatever_it_returns(
    stage: Stage, exit_code: int
) -> None:
    """`pytest.exit` is INTERRUPTED with any return code, 0 included, in every such stage."""
    run = ended(exit_code, stage=stage, interruptions=(stop("Exit", "no licence"),))
    judgement = judge(run)
    assert held(judgement) == [("INTERRUPTED", "interrupt.exit", 1)]
    assert judgement.verdict is not None
    assert judgement.verdict.evidence[0].detail == "no licence"


# Timeouts


@pytest.mark.parametrize(
    "message",
    [
        pytest.param("Timeout >1.0s", id="before-2.4"),
        pytest.param("Timeout (>1.0s) from pytest-timeout.", id="since-2.4"),
        pytest.param("something else altogether", id="some-day"),
    ],
)
def test_a_timeout_is_known_by_the_module_that_raised_it(message: str) -> None:
    """pytest-timeout's failure is TIMEOUT in whichever words it is said."""
    failure = timed_out(message=message)
    assert is_timeout(failure)
    assert classified(failure) == (FailureReason.TIMEOUT, "test.timeout")
    assert held(judge(ended(1, failures=(failure,)))) == [
        ("TIMEOUT", "test.timeout", 1)
    ]


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(
            failed(
                message="Failed: Timeout >1.0s",
                exception=raised("Failed", "_pytest.outcomes", "Timeout >1.0s"),
            ),
            id="pytest.fail-by-the-test",
        ),
        pytest.param(
            failed(
                message="Failed: Timeout (>1.0s) from pytest-timeout.",
                exception=raised(
                    "Failed", "_pytest.outcomes", "Timeout (>1.0s) from pytest-timeout."
                ),
            ),
            id="pytest.fail-with-the-new-words",
        ),
        pytest.param(
            failed(
                message="TimeoutError", exception=raised("TimeoutError", "builtins", "")
            ),
            id="timeout-error-of-the-test",
        ),
        pytest.param(
            failed(
                exception=raised(
                    "ValueError", "builtins", "bad", raised_in="pytest_timeout"
                )
            ),
            id="bug-in-pytest-timeout",
        ),
        pytest.param(
            failed(message="Failed: Timeout >1.0s", exception=None), id="text-alone"
        ),
    ],
)
def test_words_alone_make_no_timeout(failure: TestFailure) -> None:
    """A test that only talks of a timeout has failed like any other."""
    assert not is_timeout(failure)
    assert classified(failure) == (FailureReason.TESTS_FAILED, "test.failed")


def test_a_timeout_precedes_failed_tests() -> None:
    """A test that timed out makes the run a TIMEOUT, however many others failed."""
    judgement = judge(ended(1, failures=(failed(A), failed("t.py::c"), timed_out(B))))
    assert held(judgement) == [
        ("TIMEOUT", "test.timeout", 1),
        ("TESTS_FAILED", "test.failed", 2),
    ]


@pytest.mark.parametrize("phase", PHASES)
def test_a_timeout_is_one_in_every_phase(phase: Phase) -> None:
    """pytest-timeout limits setup and teardown too."""
    failure = replace(timed_out(), phase=phase)
    assert classified(failure) == (FailureReason.TIMEOUT, "test.timeout")


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(
            ended(1, should_fail="session-timeout: 0.5 sec exceeded"), id="in-process"
        ),
        pytest.param(
            ended(
                2,
                interruptions=(
                    stop("Interrupted", "session-timeout: 0.5 sec exceeded"),
                ),
            ),
            id="passed-on-by-xdist",
        ),
    ],
)
def test_the_sessions_time_limit_is_a_timeout(run: RunEvidence) -> None:
    """pytest-timeout's session limit is TIMEOUT, under xdist too, and no mere stop."""
    judgement = judge(run)
    assert held(judgement) == [("TIMEOUT", "session.timeout", 1)]
    assert judgement.verdict is not None
    assert judgement.verdict.evidence[0].detail == "session-timeout: 0.5 sec exceeded"


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(
            ended(
                1, failures=(failed(),), should_fail="session-timeout: 9 sec exceeded"
            ),
            id="in-process",
        ),
        pytest.param(
            ended(
                2,
                failures=(failed(),),
                interruptions=(stop("Interrupted", "session-timeout: 9 sec exceeded"),),
            ),
            id="passed-on-by-xdist",
        ),
    ],
)
def test_the_sessions_time_limit_stays_beside_failed_tests(run: RunEvidence) -> None:
    """A failed test does not explain the session's time limit away."""
    assert held(judge(run)) == [
        ("TIMEOUT", "session.timeout", 1),
        ("TESTS_FAILED", "test.failed", 1),
    ]


def test_another_reason_to_fail_the_session_is_quoted() -> None:
    """A plugin's `shouldfail` without a failed test is a changed exit status, with its words."""
    verdict = judge(ended(1, should_fail="coverage 79% < 80%")).verdict
    assert verdict is not None
    assert (verdict.reason, verdict.kind) == (
        FailureReason.TESTS_FAILED,
        "exit_status.changed",
    )
    assert verdict.evidence[0].detail == "coverage 79% < 80%"


# Phases and strict xfail


@pytest.mark.parametrize(
    ("phase", "kind"),
    [
        pytest.param("setup", "test.setup_error", id="setup"),
        pytest.param("call", "test.failed", id="call"),
        pytest.param("teardown", "test.teardown_error", id="teardown"),
    ],
)
def test_the_phase_makes_the_kind(phase: Phase, kind: str) -> None:
    """A failure is TESTS_FAILED in every phase, and the kind says which."""
    assert classified(failed(phase=phase)) == (FailureReason.TESTS_FAILED, kind)


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        pytest.param(
            failed(message="[XPASS(strict)] bug 12", exception=None),
            "test.xpass_strict",
            id="xpass",
        ),
        pytest.param(
            failed(message="[XPASS(strict)]", exception=None),
            "test.xpass_strict",
            id="no-reason",
        ),
        pytest.param(
            failed(
                message="[XPASS(strict)] is what the report should say",
                exception=raised(
                    "AssertionError", "builtins", "[XPASS(strict)] is what"
                ),
            ),
            "test.failed",
            id="same-words-but-raised",
        ),
        pytest.param(
            failed(message="no [XPASS(strict)]", exception=None),
            "test.failed",
            id="not-at-the-head",
        ),
    ],
)
def test_a_strict_xpass_is_told_from_words_of_a_test(
    failure: TestFailure, kind: str
) -> None:
    """A strict xpass has pytest's words and no exception; a test can say the words, too."""
    assert classified(failure) == (FailureReason.TESTS_FAILED, kind)


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(failed(attributed=SAID), id="failed"),
        pytest.param(replace(timed_out(), attributed=SAID), id="timed-out"),
        pytest.param(crashed(attributed=SAID), id="crashed"),
        pytest.param(failed(phase="setup", attributed=SAID), id="setup-error"),
    ],
)
def test_who_knows_better_decides(failure: TestFailure) -> None:
    """A reason and kind that somebody who knows has given come before all that can be inferred."""
    assert classified(failure) == SANDBOX
    assert verdict_of(judge(ended(1, failures=(failure,)))) == SANDBOX


def test_who_knows_better_decides_on_a_dead_worker_too() -> None:
    """A crashed test with a reason of its own keeps it, and the worker's death stays beside it."""
    run = ended(
        1,
        failures=(crashed(attributed=SAID),),
        workers=(died(signal="SIGKILL", crashed_on=A),),
    )
    assert held(judge(run)) == [
        ("SANDBOX_ERROR", "sandbox.docker", 1),
        ("TESTS_FAILED", "worker.crashed", 1),
    ]


@pytest.mark.parametrize(
    "kind", ["sandbox.bubblewrap", "ours.{count}", "ours.{broken", "ours.{0}"]
)
def test_a_kind_that_is_not_ours_is_put_in_words(kind: str) -> None:
    """A kind from elsewhere stays as it is, and the message says what was raised."""
    attributed = Attribution(reason=FailureReason.TOOL_ERROR, kind=kind, source="rule")
    once = judge(ended(1, failures=(failed(attributed=attributed),))).verdict
    assert once is not None
    assert once.kind == kind
    assert once.message == "1 test failed: assert 0: test_a"
    assert once.retryable is None
    both = (failed(A, attributed=attributed), failed(B, attributed=attributed))
    twice = judge(ended(1, failures=both)).verdict
    assert twice is not None
    assert twice.message == "2 tests failed: assert 0: first test_a"


@pytest.mark.parametrize("origin", ORIGINS)
def test_an_error_outside_of_tests_is_internal(origin: ErrorOrigin) -> None:
    """An error of pytest, a call, a conftest or a plugin is INTERNAL_ERROR of its own kind."""
    error = RunError(origin=origin, message="it broke")
    judged = judge_run_error(error)
    assert (judged.reason, judged.kind) == (
        FailureReason.INTERNAL_ERROR,
        f"{origin}.error",
    )
    verdict = judge(ended(3, errors=(error,))).verdict
    assert verdict is not None
    assert verdict.evidence == (Evidence(source=f"{origin} error", detail="it broke"),)


# Workers


@pytest.mark.parametrize(
    ("worker", "words"),
    [
        pytest.param(
            died(signal="SIGSEGV", crashed_on=A),
            f"died of SIGSEGV while it ran {A}",
            id="signal",
        ),
        pytest.param(
            died(exit_code=3, crashed_on=A),
            f"exited with code 3 while it ran {A}",
            id="code",
        ),
        pytest.param(
            died(exit_code=0, crashed_on=A),
            f"exited with code 0 while it ran {A}",
            id="code-0",
        ),
        pytest.param(
            died(error="Not properly terminated", crashed_on=A),
            f"went down: Not properly terminated while it ran {A}",
            id="xdists-words",
        ),
        pytest.param(died(), "went down: no exit status is known", id="nothing-known"),
        pytest.param(died(signal="SIGKILL"), "died of SIGKILL", id="no-test"),
    ],
)
@pytest.mark.parametrize(
    "has_report", [True, False], ids=["with-report", "without-report"]
)
def test_a_dead_worker_fails_the_run_once(
    worker: WorkerEnd, words: str, has_report: bool
) -> None:
    """A worker's death is one reason, with its status, whether xdist reported its test or not."""
    failures = (crashed(),) if has_report and worker.crashed_on else ()
    judgement = judge(ended(1, failures=failures, workers=(worker,)))
    assert held(judgement) == [("TESTS_FAILED", "worker.crashed", 1)]
    assert judgement.verdict is not None
    assert judgement.verdict.nodeid == worker.crashed_on
    assert judgement.verdict.evidence == (
        Evidence(source="xdist worker", detail=f"worker gw0 {words}"),
    )


def test_a_crash_report_alone_is_enough() -> None:
    """A crash that only xdist's report tells of counts, too."""
    judgement = judge(ended(1, failures=(crashed(),)))
    assert held(judgement) == [("TESTS_FAILED", "worker.crashed", 1)]
    assert judgement.verdict is not None
    assert judgement.verdict.nodeid == A


def test_a_crash_report_is_told_only_by_a_worker_that_went_down() -> None:
    """A worker that finished, or died of another test, does not speak for a crash report."""
    finished = WorkerEnd(id="gw0", tests=2, exit_code=0, crashed_on=A)
    run = ended(
        1, failures=(crashed(A),), workers=(finished, died("gw1", crashed_on=B))
    )
    judgement = judge(run)
    assert held(judgement) == [("TESTS_FAILED", "worker.crashed", 2)]
    assert judgement.reasons[0].nodeids == (A, B)


def test_a_test_that_kills_two_workers_counts_twice() -> None:
    """One test that took two workers down is two deaths and one node id."""
    run = ended(
        1,
        failures=(crashed(A, "gw0"), crashed(A, "gw2")),
        workers=(
            died("gw0", signal="SIGSEGV", crashed_on=A),
            died("gw2", crashed_on=A),
        ),
    )
    judgement = judge(run)
    assert held(judgement) == [("TESTS_FAILED", "worker.crashed", 2)]
    assert judgement.reasons[0].nodeids == (A,)


def test_a_worker_that_dies_after_its_tests_is_not_green() -> None:
    """A worker that crashes on its way out fails the run, although pytest answers 0."""
    run = ended(
        0, counts=Counts(collected=3, passed=3), workers=(died(signal="SIGSEGV"),)
    )
    assert verdict_of(judge(run)) == ("TESTS_FAILED", "worker.crashed")


@pytest.mark.parametrize("exit_code", [1, 9])
def test_a_worker_that_exits_otherwise_after_its_session_is_green(
    exit_code: int,
) -> None:
    """All results of a worker are there once its session is over; to pytest the run passed."""
    worker = WorkerEnd(id="gw0", tests=3, exit_code=exit_code)
    run = ended(0, counts=Counts(collected=3, passed=3), workers=(worker,))
    assert judge(run).verdict is None


def test_workers_that_die_while_collecting_are_not_an_empty_suite() -> None:
    """Exit code 5 of dead workers is their death, not a lack of tests."""
    run = ended(
        5, workers=(died("gw0", signal="SIGSEGV"), died("gw1", signal="SIGSEGV"))
    )
    assert held(judge(run)) == [("TESTS_FAILED", "worker.crashed", 2)]


# Exit codes that only the code tells of


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        pytest.param(
            ended(5),
            [("NO_TESTS_COLLECTED", "tests.none_collected", 1)],
            id="none-collected",
        ),
        pytest.param(
            ended(5, counts=Counts(deselected=4)),
            [("NO_TESTS_COLLECTED", "tests.all_deselected", 1)],
            id="all-deselected",
        ),
        pytest.param(
            ended(5, counts=Counts(collected=4, passed=4, deselected=1)),
            [("NO_TESTS_COLLECTED", "exit_status.changed", 1)],
            id="tests-ran",
        ),
        pytest.param(
            ended(6, counts=Counts(collected=1, passed=1, warnings=2)),
            [("UNKNOWN", "warnings.exceeded", 1)],
            id="warnings",
        ),
        pytest.param(
            ended(6, failures=(failed(),)),
            [("TESTS_FAILED", "test.failed", 1)],
            id="explained",
        ),
        pytest.param(ended(None), [], id="not-known"),
    ],
)
def test_the_exit_code_speaks_where_nothing_else_does(
    run: RunEvidence, expected: list[tuple[str, str, int]]
) -> None:
    """An exit code is a reason only where no evidence explains it."""
    assert held(judge(run)) == expected


# A run without an end


def test_a_run_without_an_end_has_failed() -> None:
    """Nothing recorded of the end is UNKNOWN and only likely, never success."""
    exit_unknown = ProcessExit(code=None, source="none")
    run = RunEvidence(
        finished=False, exit=exit_unknown, counts=Counts(collected=3, passed=2)
    )
    judgement = judge(run)
    assert held(judgement) == [("UNKNOWN", "process.vanished", 1)]
    assert judgement.verdict is not None
    assert judgement.verdict.confidence == "likely"
    assert judgement.exit_reason is None


@pytest.mark.parametrize("stage", list(Stage))
def test_a_run_without_an_end_has_failed_in_every_stage(stage: Stage) -> None:
    """No stage makes an unfinished run a success, the baseline included."""
    run = RunEvidence(
        stage=stage, finished=False, exit=ProcessExit(code=None, source="none")
    )
    assert verdict_of(judge(run)) == ("UNKNOWN", "process.vanished")


def test_what_was_seen_before_a_run_vanished_counts() -> None:
    """A failure seen before is the verdict, and that the end is missing stays listed."""
    exit_unknown = ProcessExit(code=None, source="none")
    judgement = judge(
        RunEvidence(finished=False, exit=exit_unknown, failures=(failed(),))
    )
    assert held(judgement) == [
        ("TESTS_FAILED", "test.failed", 1),
        ("UNKNOWN", "process.vanished", 1),
    ]
    assert judgement.verdict is not None
    assert judgement.verdict.confidence == "certain"


# The baseline

RAN: Final = Counts(collected=2, passed=1, failed=1)


@pytest.mark.parametrize("is_strict", [True, False], ids=["strict", "not-strict"])
def test_a_failing_baseline_is_valid(is_strict: bool) -> None:
    """Failing tests and exit code 1 are what a baseline is for: no verdict, no reason, no note."""
    run = ended(
        1,
        stage=Stage.BASELINE_RUN,
        strict_baseline=is_strict,
        failures=(failed(), timed_out(B)),
        counts=RAN,
    )
    judgement = judge(run)
    assert (judgement.exit_reason, judgement.verdict, judgement.reasons) == (
        None,
        None,
        (),
    )
    assert (judgement.notes, judgement.faults) == ((), ())


@pytest.mark.parametrize("is_strict", [True, False], ids=["strict", "not-strict"])
def test_a_baseline_that_the_environment_failed_is_none(is_strict: bool) -> None:
    """Tests have to fail by themselves; where Docker failed them that is the one reason told."""
    run = ended(
        1,
        stage=Stage.BASELINE_RUN,
        strict_baseline=is_strict,
        failures=(failed(), timed_out(B), failed(attributed=SAID)),
        counts=RAN,
    )
    judgement = judge(run)
    assert judgement.exit_reason is None
    assert [(held.reason, held.count) for held in judgement.reasons] == [
        (SAID.reason, 1)
    ]
    assert judgement.verdict is not None
    assert judgement.verdict.reason is SAID.reason


@pytest.mark.parametrize("is_strict", [True, False], ids=["strict", "not-strict"])
def test_a_passing_baseline_is_an_invalid_task(is_strict: bool) -> None:
    """Tests that pass before the fix make the task invalid."""
    counts = Counts(collected=2, passed=2)
    run = ended(0, stage=Stage.BASELINE_RUN, strict_baseline=is_strict, counts=counts)
    judgement = judge(run)
    assert held(judgement) == [
        ("BASELINE_NOT_FAILING", "stage.baseline_not_failing", 1)
    ]
    assert judgement.exit_reason is FailureReason.BASELINE_NOT_FAILING
    assert judgement.notes == ()


@pytest.mark.parametrize(
    ("run", "strict_verdict"),
    [
        pytest.param(
            ended(2, collection_failures=(uncollected(),)),
            ("INTERNAL_ERROR", "collection.error"),
            id="collection-error",
        ),
        pytest.param(
            ended(3, errors=(RunError(origin="internal", message="boom"),)),
            ("INTERNAL_ERROR", "internal.error"),
            id="internal-error",
        ),
        pytest.param(
            ended(4, errors=(RunError(origin="usage", message="no such path"),)),
            ("INTERNAL_ERROR", "usage.error"),
            id="usage-error",
        ),
        pytest.param(
            ended(5), ("NO_TESTS_COLLECTED", "tests.none_collected"), id="no-tests"
        ),
        pytest.param(
            ended(5, counts=Counts(deselected=3)),
            ("NO_TESTS_COLLECTED", "tests.all_deselected"),
            id="all-deselected",
        ),
        pytest.param(ended(139), ("UNKNOWN", "exit_status.changed"), id="segfault"),
    ],
)
def test_a_baseline_without_a_test_that_ran(
    run: RunEvidence, strict_verdict: tuple[str, str]
) -> None:
    """It is valid with a note that names the exit code; a strict baseline says what it was."""
    lax = judge(replace(run, stage=Stage.BASELINE_RUN))
    assert (lax.exit_reason, lax.verdict, lax.reasons) == (None, None, ())
    assert len(lax.notes) == 1
    assert f"exit code {run.exit.code}" in lax.notes[0]
    strict = judge(replace(run, stage=Stage.BASELINE_RUN, strict_baseline=True))
    assert verdict_of(strict) == strict_verdict
    assert strict.notes == ()


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param(Counts(collected=1, failed=1), id="failed"),
        pytest.param(Counts(collected=1, passed=1), id="passed"),
        pytest.param(Counts(collected=1, xfailed=1), id="xfailed"),
        pytest.param(Counts(collected=1, xpassed=1), id="xpassed"),
    ],
)
def test_a_baseline_in_which_a_test_ran_needs_no_note(counts: Counts) -> None:
    """A test that ran, in whichever way it ended, makes the note superfluous."""
    assert judge(ended(1, stage=Stage.BASELINE_RUN, counts=counts)).notes == ()


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param(Counts(), id="nothing"),
        pytest.param(Counts(collected=2, skipped=2), id="skipped"),
        pytest.param(Counts(collected=2, errors=2), id="setup-errors"),
    ],
)
def test_a_baseline_in_which_no_test_ran_gets_a_note(counts: Counts) -> None:
    """Skipped tests and tests that never got past their setup did not run."""
    judgement = judge(ended(1, stage=Stage.BASELINE_RUN, counts=counts))
    assert judgement.verdict is None
    assert judgement.notes == (
        "baseline: no test ran, yet exit code 1 counts as a failing baseline",
    )


@pytest.mark.parametrize("is_strict", [True, False], ids=["strict", "not-strict"])
def test_ctrl_c_makes_no_valid_baseline(is_strict: bool) -> None:
    """A baseline that was interrupted has shown nothing, although its exit code is not 0."""
    run = ended(
        2,
        stage=Stage.BASELINE_RUN,
        strict_baseline=is_strict,
        interruptions=(stop("KeyboardInterrupt"),),
        counts=RAN,
    )
    judgement = judge(run)
    assert held(judgement) == [("INTERRUPTED", "interrupt.keyboard", 1)]
    assert judgement.exit_reason is FailureReason.INTERRUPTED


def test_ctrl_c_in_a_worker_makes_no_valid_baseline() -> None:
    """The same holds where only an xdist worker tells of it."""
    worker = WorkerEnd(id="gw0", tests=1, ending="interrupted", crashed_on=A)
    run = ended(
        2,
        stage=Stage.BASELINE_RUN,
        failures=(crashed(),),
        workers=(worker,),
        counts=RAN,
    )
    assert verdict_of(judge(run)) == ("INTERRUPTED", "interrupt.keyboard")


@pytest.mark.parametrize("is_strict", [True, False], ids=["strict", "not-strict"])
@pytest.mark.parametrize("exit_code", [124, 137])
def test_a_time_limit_makes_no_valid_baseline(exit_code: int, is_strict: bool) -> None:
    """A baseline that a time limit ended is a TIMEOUT, even if tests had failed by then."""
    run = ended(
        exit_code,
        stage=Stage.BASELINE_RUN,
        strict_baseline=is_strict,
        failures=(failed(),),
        counts=RAN,
    )
    judgement = judge(run)
    assert verdict_of(judgement) == ("TIMEOUT", "stage.timeout")
    assert judgement.exit_reason is FailureReason.TIMEOUT


def test_strictness_concerns_the_baseline_alone() -> None:
    """The strict reading of a baseline changes no other stage."""
    for stage in (*OWN_FAILURE_STAGES, *TEST_STAGES):
        run = ended(5, stage=stage)
        assert judge(replace(run, strict_baseline=True)) == judge(run)


# The stages before any test


@pytest.mark.parametrize(
    ("stage", "exit_code", "expected"),
    [
        pytest.param(
            Stage.GIT_CLONE,
            128,
            [("GIT_CLONE_FAILED", "stage.git_clone_failed", 1)],
            id="clone",
        ),
        pytest.param(
            Stage.GIT_CHECKOUT,
            1,
            [("GIT_CHECKOUT_FAILED", "stage.git_checkout_failed", 1)],
            id="checkout",
        ),
        pytest.param(
            Stage.SETUP, 2, [("SETUP_FAILED", "stage.setup_failed", 1)], id="setup"
        ),
        pytest.param(
            Stage.SETUP,
            137,
            [("SETUP_TIMEOUT", "stage.setup_timeout", 1)],
            id="setup-killed",
        ),
        pytest.param(
            Stage.GIT_CLONE, 124, [("TIMEOUT", "stage.timeout", 1)], id="clone-hangs"
        ),
        pytest.param(Stage.GIT_CHECKOUT, 0, [], id="checkout-done"),
    ],
)
def test_a_stage_before_the_tests_has_a_reason_of_its_own(
    stage: Stage, exit_code: int, expected: list[tuple[str, str, int]]
) -> None:
    """Any exit code but 0 means the stage's own failure, and a changed exit status is not added."""
    assert held(judge(ended(exit_code, stage=stage))) == expected


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        pytest.param(
            Stage.GIT_CLONE, ("GIT_CLONE_FAILED", "stage.git_clone_failed"), id="clone"
        ),
        pytest.param(
            Stage.GIT_CHECKOUT,
            ("GIT_CHECKOUT_FAILED", "stage.git_checkout_failed"),
            id="checkout",
        ),
        pytest.param(Stage.SETUP, ("SETUP_FAILED", "stage.setup_failed"), id="setup"),
    ],
)
def test_what_failed_in_a_stage_stays_beside_its_reason(
    stage: Stage, expected: tuple[str, str]
) -> None:
    """The stage's reason comes first by precedence; the failed check stays in the reasons."""
    judgement = judge(ended(1, stage=stage, failures=(failed(),)))
    assert held(judgement) == [(*expected, 1), ("TESTS_FAILED", "test.failed", 1)]


@pytest.mark.parametrize("stage", OWN_FAILURE_STAGES)
def test_a_broken_environment_says_more_than_the_stage(stage: Stage) -> None:
    """Where evidence names the sandbox, the stage's name adds no reason that would hide it."""
    run = ended(1, stage=stage, failures=(failed(attributed=SAID),))
    assert held(judge(run)) == [("SANDBOX_ERROR", "sandbox.docker", 1)]


@pytest.mark.parametrize("stage", OWN_FAILURE_STAGES)
def test_ctrl_c_says_more_than_the_stage(stage: Stage) -> None:
    """A stage that was interrupted has not failed of itself."""
    run = ended(2, stage=stage, interruptions=(stop("KeyboardInterrupt"),))
    assert held(judge(run)) == [("INTERRUPTED", "interrupt.keyboard", 1)]


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param({"failures": (timed_out(),)}, id="test-timeout"),
        pytest.param(
            {"should_fail": "session-timeout: 9 sec exceeded"}, id="session-timeout"
        ),
    ],
)
def test_a_timeout_seen_in_the_setup_is_a_setup_timeout(seen: dict[str, Any]) -> None:
    """Exit code 1 is SETUP_TIMEOUT where evidence says that time ran out."""
    judgement = judge(ended(1, stage=Stage.SETUP, **seen))
    assert verdict_of(judgement) == ("SETUP_TIMEOUT", "stage.setup_timeout")
    assert [reason for reason, _, _ in held(judgement)] == ["SETUP_TIMEOUT", "TIMEOUT"]


@pytest.mark.parametrize("stage", TEST_STAGES)
def test_a_stage_that_runs_tests_adds_nothing(stage: Stage) -> None:
    """The agent's run and the final test are judged by their tests."""
    assert held(judge(ended(1, stage=stage, failures=(failed(),)))) == [
        ("TESTS_FAILED", "test.failed", 1)
    ]


# Grouping, order, counts


def test_failures_are_grouped_by_reason_and_kind() -> None:
    """Failures of one reason and kind are counted together, in order of occurrence."""
    run = ended(
        1, failures=(failed(B), failed(A, "setup"), failed(A), failed(B, "teardown"))
    )
    judgement = judge(run)
    assert held(judgement) == [
        ("TESTS_FAILED", "test.failed", 2),
        ("TESTS_FAILED", "test.setup_error", 1),
        ("TESTS_FAILED", "test.teardown_error", 1),
    ]
    assert judgement.reasons[0].nodeids == (B, A)


def test_one_kind_with_two_reasons_is_two_groups() -> None:
    """A kind from elsewhere that comes with two reasons is held apart by reason."""
    first = failed(A, attributed=ours(FailureReason.TOOL_ERROR))
    second = failed(B, attributed=ours(FailureReason.LLM_ERROR))
    assert held(judge(ended(1, failures=(first, second)))) == [
        ("LLM_ERROR", "ours.patch", 1),
        ("TOOL_ERROR", "ours.patch", 1),
    ]


def test_within_a_reason_the_most_frequent_kind_comes_first() -> None:
    """Of equal precedence the kind with most tests is the verdict, else the table's first."""
    more = judge(ended(1, failures=(failed(A), failed(A, "setup"), failed(B, "setup"))))
    assert [each.kind for each in more.reasons] == ["test.setup_error", "test.failed"]
    even = judge(ended(1, failures=(failed(A, "setup"), failed(A))))
    assert [each.kind for each in even.reasons] == ["test.failed", "test.setup_error"]


def test_subtests_make_no_kind_more_frequent() -> None:
    """One test with three failed subtests is one test; two whose setup fails are more."""
    parts = tuple(failed(A, part="subtest") for _ in range(3))
    judgement = judge(
        ended(1, failures=(*parts, failed(A, "setup"), failed(B, "setup")))
    )
    assert held(judgement) == [
        ("TESTS_FAILED", "test.setup_error", 2),
        ("TESTS_FAILED", "test.failed", 1),
    ]


def test_kinds_that_are_not_ours_follow_by_name() -> None:
    """Kinds of a user's rules have no place in the table, and yet an order of their own."""
    later = Attribution(reason=FailureReason.TESTS_FAILED, kind="ours.z", source="rule")
    first = replace(later, kind="ours.a")
    failures = (
        failed(A, attributed=later),
        failed("t.py::c", attributed=first),
        failed(B),
    )
    kinds = [each.kind for each in judge(ended(1, failures=failures)).reasons]
    assert kinds == ["test.failed", "ours.a", "ours.z"]


def test_reasons_stand_in_order_of_precedence_not_of_number() -> None:
    """A single finding of a lower precedence number comes before many of a higher one."""
    run = ended(
        1,
        failures=(*(failed(f"t.py::t{number}") for number in range(9)), timed_out(B)),
        collection_failures=(uncollected(),),
        errors=(RunError(origin="plugin", message="boom"),),
        interruptions=(stop("Exit", "enough"),),
    )
    assert held(judge(run)) == [
        ("TIMEOUT", "test.timeout", 1),
        ("TESTS_FAILED", "test.failed", 9),
        ("INTERNAL_ERROR", "collection.error", 1),
        ("INTERNAL_ERROR", "plugin.error", 1),
        ("INTERRUPTED", "interrupt.exit", 1),
    ]


def test_a_test_is_counted_once() -> None:
    """A test that failed twice is one test and one node id."""
    judgement = judge(ended(1, failures=(failed(A), failed(B), failed(A))))
    assert judgement.reasons[0].count == 2
    assert judgement.reasons[0].nodeids == (A, B)


@pytest.mark.parametrize(
    ("parts", "count"),
    [
        pytest.param(["test"], 1, id="none"),
        pytest.param(["subtest"], 1, id="of-unittest"),
        pytest.param(["subtest", "sum"], 1, id="one"),
        pytest.param(["subtest"] * 3 + ["test"], 4, id="three-and-own"),
    ],
)
def test_the_message_counts_tests(parts: list[Any], count: int) -> None:
    """However many subtests of a test fail, it is one test; the cause counts them."""
    judgement = judge(ended(1, failures=tuple(failed(A, part=part) for part in parts)))
    assert judgement.verdict is not None
    assert judgement.verdict.message == "1 test failed: assert 0: test_a"
    assert [cause.count for cause in judgement.causes] == [count]


def test_the_message_names_the_files_that_could_not_be_collected() -> None:
    """What is wrong with the one, or how many there are."""

    def message_of(names: str) -> str:
        run = ended(
            2,
            collection_failures=tuple(uncollected(f"test_{name}.py") for name in names),
        )
        verdict = judge(run).verdict
        assert verdict is not None
        return verdict.message

    def said_of(name: str) -> str:
        return f"test_{name}.py: ImportError: no module named 'cart'"

    assert message_of("a") == said_of("a")
    assert message_of("ab") == "2 test files can't be collected, 2 causes"


def test_a_test_that_ran_out_of_memory_is_told_so() -> None:
    """MemoryError has no message of its own; the reason stays that the test failed."""
    exception = replace(
        raised("MemoryError", "builtins", ""),
        bases=("builtins.MemoryError", "builtins.Exception", "builtins.BaseException"),
    )
    verdict = judge(ended(1, failures=(failed(A, exception=exception),))).verdict
    assert verdict is not None
    assert (verdict.reason, verdict.kind) == ("TESTS_FAILED", "test.failed")
    assert (
        verdict.message
        == "1 test failed: more memory was requested than is available: test_a"
    )


@pytest.mark.parametrize(
    ("number", "quoted"), [(1, 1), (9, 9), (10, 10), (11, 10), (25, 10)]
)
def test_a_verdict_quotes_so_much_evidence_and_no_more(
    number: int, quoted: int
) -> None:
    """Evidence is capped at the first pieces; the count and the node ids are not."""
    nodeids = tuple(f"test_many.py::test_{index}" for index in range(number))
    judgement = judge(ended(1, failures=tuple(failed(nodeid) for nodeid in nodeids)))
    assert judgement.verdict is not None
    assert judgement.verdict.evidence == tuple(
        Evidence(source="test report", detail=f"{nodeid}: call failed: assert 0")
        for nodeid in nodeids[:quoted]
    )
    assert judgement.reasons[0].count == number
    assert judgement.reasons[0].nodeids == nodeids


@pytest.mark.parametrize(
    ("run", "source", "detail"),
    [
        pytest.param(
            ended(1, failures=(failed(phase="setup"),)),
            "test report",
            f"{A}: setup failed: assert 0",
            id="failure",
        ),
        pytest.param(
            ended(2, collection_failures=(uncollected(),)),
            "collection report",
            "test_cart.py: ImportError: no module named 'cart'",
            id="collection",
        ),
        pytest.param(
            ended(1, should_fail="session-timeout: 5 sec exceeded"),
            "session.shouldfail",
            "session-timeout: 5 sec exceeded",
            id="session-timeout",
        ),
        pytest.param(
            RunEvidence(finished=False, exit=ProcessExit(code=None, source="none")),
            "report",
            "the end of the run was not recorded",
            id="vanished",
        ),
        pytest.param(ended(5), "collection", "0 tests collected", id="none-collected"),
        pytest.param(
            ended(5, counts=Counts(deselected=4)),
            "collection",
            "4 deselected, 0 left",
            id="all-deselected",
        ),
        pytest.param(
            ended(6, counts=Counts(warnings=3)),
            "exit status",
            "warnings: 3",
            id="warnings",
        ),
        pytest.param(ended(7), "exit status", "exit code 7", id="exit-code"),
        pytest.param(
            ended(2, stage=Stage.SETUP),
            "stage",
            "setup ended with exit code 2",
            id="stage",
        ),
    ],
)
def test_evidence_says_where_it_was_seen(
    run: RunEvidence, source: str, detail: str
) -> None:
    """Each piece of evidence names its source and quotes what was seen there."""
    verdict = judge(run).verdict
    assert verdict is not None
    assert verdict.evidence == (Evidence(source=source, detail=detail),)


def test_a_verdict_speaks_of_its_own_reason_alone() -> None:
    """The evidence is that of the primary reason; all else is said over all causes."""
    run = ended(
        1, failures=(failed(A), timed_out(B)), collection_failures=(uncollected(),)
    )
    verdict = judge(run).verdict
    assert verdict is not None
    assert verdict.message == "2 tests failed, 1 file can't be collected, 3 causes"
    assert (verdict.retryable, verdict.nodeid) == (False, "test_cart.py")
    assert verdict.confidence == "certain"
    assert verdict.ambiguous == ()
    assert [each.source for each in verdict.evidence] == ["test report"]


@pytest.mark.parametrize(
    ("run", "retryable"),
    [
        pytest.param(ended(1, failures=(timed_out(),)), True, id="timeout"),
        pytest.param(
            ended(2, collection_failures=(uncollected(),)), False, id="collection"
        ),
        pytest.param(ended(1, failures=(failed(),)), False, id="failed-test"),
        pytest.param(ended(128, stage=Stage.GIT_CLONE), True, id="clone"),
    ],
)
def test_a_verdict_says_whether_a_retry_could_help(
    run: RunEvidence, retryable: bool | None
) -> None:
    """A retry can help, cannot, or nothing speaks either way."""
    verdict = judge(run).verdict
    assert verdict is not None
    assert verdict.retryable is retryable


@pytest.mark.parametrize(
    ("number", "message"),
    [(1, "1 test failed: assert 0: t0"), (31, "31 tests failed: assert 0: first t0")],
)
def test_a_verdict_counts_in_words(number: int, message: str) -> None:
    """The message is singular for one failure and has the number for more."""
    failures = tuple(failed(f"t.py::t{index}") for index in range(number))
    verdict = judge(ended(1, failures=failures)).verdict
    assert verdict is not None
    assert verdict.message == message


# The judge as a function

NODEIDS: Final = st.sampled_from(
    [A, B, "test_b.py::test_[{0}]", "tests/test_ü.py::C::test_x", ""]
)
TEXTS: Final = st.sampled_from(
    [
        "",
        "assert 0",
        "[XPASS(strict)] bug",
        "Timeout >1.0s",
        "session-timeout: 1 sec exceeded",
        "<WorkerController gw0> received keyboard-interrupt",
        "{count} {",
    ]
)
REASONS: Final = st.sampled_from(list(FailureReason))
KIND_NAMES: Final = st.one_of(
    st.sampled_from(
        [*(kind for kind in known_kinds() if "marker" not in kind), "ours.{x}"]
    ),
    st.text(min_size=1, max_size=8),
)
EXIT_CODES: Final = st.sampled_from([None, 0, 1, 2, 3, 4, 5, 6, 42, 124, 128, 137, 139])

EXCEPTIONS: Final = st.builds(
    RaisedException,
    type=st.sampled_from(["AssertionError", "Failed", "KeyboardInterrupt"]),
    module=st.just("builtins"),
    message=TEXTS,
    raised_in=st.sampled_from(["", "test_cart", "pytest_timeout"]),
)
FAILURES: Final = st.builds(
    TestFailure,
    nodeid=NODEIDS,
    phase=st.sampled_from(PHASES),
    message=TEXTS,
    exception=st.none() | EXCEPTIONS,
    crashed=st.booleans(),
    attributed=st.none()
    | st.builds(
        Attribution,
        reason=REASONS,
        kind=KIND_NAMES,
        source=st.just("rule"),
        retryable=st.none() | st.booleans(),
    ),
    marker=st.none() | st.builds(SeenMarker, name=st.just("MAX_TURNS"), reason=REASONS),
    worker=st.none() | st.just("gw0"),
)
WORKERS: Final = st.builds(
    WorkerEnd,
    id=st.sampled_from(["gw0", "gw1"]),
    tests=st.integers(min_value=0, max_value=3),
    exit_code=st.none() | st.just(1),
    signal=st.none() | st.just("SIGSEGV"),
    crashed_on=st.none() | NODEIDS,
    ending=st.sampled_from(["finished", "died", "interrupted"]),
    error=st.none() | st.just("Not properly terminated"),
)
NUMBERS: Final = st.integers(min_value=0, max_value=3)
COUNTS: Final = st.builds(
    Counts,
    collected=NUMBERS,
    deselected=NUMBERS,
    passed=NUMBERS,
    failed=NUMBERS,
    errors=NUMBERS,
    skipped=NUMBERS,
    warnings=NUMBERS,
)


def few(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """Return a strategy for tuples of none to three values."""
    return st.lists(values, max_size=3).map(tuple)


RUNS: Final = st.builds(
    RunEvidence,
    stage=st.sampled_from(list(Stage)),
    strict_baseline=st.booleans(),
    finished=st.booleans(),
    exit=st.builds(ProcessExit, code=EXIT_CODES, source=st.just("pytest")),
    should_fail=TEXTS,
    counts=COUNTS,
    failures=few(FAILURES),
    collection_failures=few(
        st.builds(CollectionFailure, nodeid=NODEIDS, message=TEXTS)
    ),
    errors=few(st.builds(RunError, origin=st.sampled_from(ORIGINS), message=TEXTS)),
    interruptions=few(
        st.builds(
            Interruption,
            exception=st.sampled_from(["KeyboardInterrupt", "Exit", "Interrupted"]),
            message=TEXTS,
        )
    ),
    in_flight=few(
        st.builds(
            InFlightTest,
            nodeid=NODEIDS,
            phase=st.sampled_from(PHASES),
            elapsed_seconds=st.just(1.0),
        )
    ),
    workers=few(WORKERS),
)


@pytest.mark.slow
@settings(deadline=None)
@given(run=RUNS)
def test_the_verdict_is_the_first_reason(run: RunEvidence) -> None:
    """Whatever was seen, the verdict is the first reason that was not only told by a marker.

    There is none without a reason. A service that failed only a few tests may step back.
    """
    judgement = judge(run)
    if not judgement.reasons:
        assert judgement.verdict is None
        return
    seen = [each for each in judgement.reasons if not each.kind.startswith("marker.")]
    first = (*seen, judgement.reasons[0])[0]
    assert judgement.verdict is not None
    leads = judgement.verdict.reason, judgement.verdict.kind
    held = {(reason.reason, reason.kind): reason for reason in (*seen, first)}
    assert leads in held
    if not any(isinstance(found.failure, TestFailure) for found in first.findings):
        assert leads == (first.reason, first.kind)
    nodeids = {next(iter(cause.nodeids), None) for cause in judgement.causes}
    assert judgement.verdict.nodeid in nodeids
    assert (
        1
        <= len(judgement.verdict.evidence)
        <= min(len(held[leads].findings), MAX_EVIDENCE)
    )


@pytest.mark.slow
@settings(deadline=None)
@given(
    run=RUNS,
    stage=st.sampled_from([each for each in Stage if each != Stage.BASELINE_RUN]),
)
def test_a_green_run_has_no_verdict(run: RunEvidence, stage: Stage) -> None:
    """Whatever was recorded of tests and files, a run that ended well with 0 has no verdict."""
    green = replace(
        run,
        stage=stage,
        finished=True,
        exit=ProcessExit(code=0, source="pytest"),
        in_flight=(),
        errors=(),
        interruptions=(),
        failures=tuple(replace(each, crashed=False) for each in run.failures),
        workers=tuple(each for each in run.workers if each.ending == "finished"),
    )
    judgement = judge(green)
    assert (judgement.verdict, judgement.reasons) == (None, ())
    if green.failures or green.collection_failures:
        assert judgement.faults


@pytest.mark.slow
@settings(deadline=None)
@given(run=RUNS)
def test_the_verdict_has_the_lowest_precedence_number(run: RunEvidence) -> None:
    """Whatever was seen, the reasons stand in order of precedence."""
    ranks = [each.reason.precedence for each in judge(run).reasons]
    assert ranks == sorted(ranks)


@pytest.mark.slow
@settings(deadline=None)
@given(run=RUNS)
def test_reasons_and_kinds_are_held_once(run: RunEvidence) -> None:
    """Whatever was seen, each pair of reason and kind stands once, and its node ids once each."""
    reasons = judge(run).reasons
    pairs = [(each.reason, each.kind) for each in reasons]
    assert len(pairs) == len(set(pairs))
    for each in reasons:
        assert len(each.nodeids) == len(set(each.nodeids)) <= each.count


@pytest.mark.slow
@settings(deadline=None)
@given(run=RUNS, failure=FAILURES, data=st.data())
def test_one_failure_more_never_makes_a_success(
    run: RunEvidence, failure: TestFailure, data: st.DataObject
) -> None:
    """Outside of a baseline a run with a failure has failed, wherever the failure is put.

    Where pytest itself ended with exit code 0 the contradiction is told instead.
    """
    stage = data.draw(st.sampled_from([*OWN_FAILURE_STAGES, *TEST_STAGES]))
    at = data.draw(st.integers(min_value=0, max_value=len(run.failures)))
    failures = (*run.failures[:at], failure, *run.failures[at:])
    judgement = judge(replace(run, stage=stage, failures=failures))
    assert judgement.verdict is not None or (run.exit.code == 0 and judgement.faults)


@pytest.mark.slow
@settings(deadline=None)
@given(run=RUNS)
def test_an_unfinished_run_is_never_a_success(run: RunEvidence) -> None:
    """Whatever was seen of it and in any stage, a run without an end has a verdict."""
    assert judge(replace(run, finished=False)).verdict is not None


@pytest.mark.slow
@settings(deadline=None)
@given(run=RUNS)
def test_the_exit_reason_depends_on_the_exit_alone(run: RunEvidence) -> None:
    """Failures change the verdict and never what the exit code says."""
    bare = replace(run, failures=(), collection_failures=(), errors=(), in_flight=())
    assert judge(run).exit_reason == judge(bare).exit_reason


@settings(deadline=None)
@given(run=RUNS)
def test_the_judge_is_pure(run: RunEvidence) -> None:
    """The same evidence gets the same judgement, and stays as it was."""
    before = copy.deepcopy(run)
    first = judge(run)
    assert run == before
    assert judge(before) == first == judge(run)
    assert hash(judge(before)) == hash(first)


def test_a_judgement_cannot_be_changed() -> None:
    """All that the judge returns is frozen, down to the evidence."""
    judgement = judge(ended(1, failures=(failed(),)))
    reason = judgement.reasons[0]
    assert judgement.verdict is not None
    parts = (
        judgement,
        judgement.verdict,
        judgement.verdict.evidence[0],
        reason,
        reason.findings[0],
    )
    for part in parts:
        name = next(iter(to_dict(part)))
        with pytest.raises(AttributeError):
            setattr(part, name, None)


# Each failure's own judgement


def test_every_failure_has_its_own_judgement() -> None:
    """Failures, collection failures and errors are judged one by one, in their order."""
    run = ended(
        1,
        failures=(
            failed(A),
            timed_out(B),
            failed(A, attributed=ours(FailureReason.TOOL_ERROR)),
        ),
        collection_failures=(
            CollectionFailure(nodeid="t.py", message="SyntaxError: no"),
        ),
        errors=(RunError(origin="plugin", message="it broke"),),
    )
    judgement = judge(run)
    assert [(each.kind, each.timed_out) for each in judgement.failures] == [
        ("test.failed", False),
        ("test.timeout", True),
        ("ours.patch", False),
    ]
    assert [each.kind for each in judgement.collection_failures] == ["collection.error"]
    assert [each.kind for each in judgement.errors] == ["plugin.error"]
    judged = (*judgement.failures, *judgement.collection_failures)
    assert {each.fingerprint for each in judged} == {
        group.fingerprint for group in judgement.groups
    }


def test_each_failure_is_classified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a failure's type costs time, so it is read once, whoever needs it."""
    asked: list[str] = []

    def failure_type_of(raised: RaisedException, **_: object) -> FailureType:
        asked.append(raised.type)
        return FailureType.VERIFICATION_FAILED

    monkeypatch.setattr(classification, "failure_type_of", failure_type_of)
    judge(
        ended(1, failures=tuple(failed(f"t.py::test_{number}") for number in range(5)))
    )
    assert len(asked) == 5


def test_failures_that_are_judged_alike_share_one_object() -> None:
    """So that many failures take little memory."""
    judgement = judge(ended(1, failures=(failed(A), failed(A), failed(A))))
    assert len({id(each) for each in judgement.failures}) == 1


@pytest.mark.parametrize("code", [5, 6, 124])
def test_a_marker_in_the_whole_output_hides_nothing(code: int) -> None:
    """It is one more reason beside what the exit code says, and not the verdict."""
    run = ended(code)
    marker = SeenMarker(name="MAX_TURNS", reason=FailureReason.AGENT_GAVE_UP)
    without, judgement = judge(run), judge(replace(run, marker=marker))
    kinds = [each.kind for each in without.reasons]
    assert kinds
    assert sorted(each.kind for each in judgement.reasons) == sorted(
        [*kinds, "marker.max_turns"]
    )
    assert judgement.verdict == without.verdict


def test_a_marker_is_nothing_to_a_success() -> None:
    """What did not fail has no marker."""
    marker = SeenMarker(name="MAX_TURNS", reason=FailureReason.AGENT_GAVE_UP)
    judgement = judge(ended(0, marker=marker))
    assert (judgement.verdict, judgement.reasons) == (None, ())


# A log's lines


def test_the_lines_of_a_log_tell_the_type_that_nothing_else_does() -> None:
    """The text of what decided is read where the evidence has no failure type; it comes second."""
    line = OutputLine(3, "ModuleNotFoundError: No module named 'x'")
    output = Output(by_subject={"internal": (line,)}, others=(OutputLine(9, "?"),))
    error = RunError(origin="internal", message="it broke")
    judgement = judge(ended(3, errors=(error,), output=output))
    assert judgement.verdict is not None
    assert judgement.verdict.failure_type is FailureType.BROKEN_BUILD
    assert judgement.lines == (line,)
    judgement = judge(ended(1, failures=(failed(),), output=output))
    assert judgement.verdict is not None
    assert judgement.verdict.failure_type is FailureType.VERIFICATION_FAILED


@pytest.mark.parametrize(
    ("session_code", "code", "kinds"),
    [
        pytest.param(1, 3, ["test.failed"], id="a-failed-session-that-left-otherwise"),
        pytest.param(0, 3, ["test.failed", "exit_status.changed"], id="a-green-one"),
    ],
)
def test_another_status_after_a_session_that_had_failed(
    session_code: int, code: int, kinds: list[str]
) -> None:
    """What a session failed for still holds, and no plugin has to have changed its status."""
    end = ProcessExit(code=code, source="watcher", session_code=session_code)
    judgement = judge(RunEvidence(exit=end, failures=(failed(),)))
    assert [held.kind for held in judgement.reasons] == kinds


def test_a_log_names_exceptions_without_their_modules() -> None:
    """An import that failed in a test is a broken build in a log as it is in a report."""
    missing = RaisedException(
        type="ModuleNotFoundError", module="", message="No module named 'x'"
    )
    run = ended(1, failures=(failed(exception=missing),), output=Output(by_subject={}))
    [judged] = judge(run).failures
    assert judged.failure_type is FailureType.BROKEN_BUILD


def raised_by(owner: CodeOwner | None) -> RaisedException:
    """Return an exception that was raised in somebody's code."""
    frame = owner and RaisingFrame(
        owner=owner, package=None, module="m", function="f", path="m.py", line=1
    )
    return RaisedException(type="KeyError", module="builtins", message="x", frame=frame)


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        ([], None),
        ([None], None),
        (["project"], "project"),
        (["plugin", "project", "plugin"], "plugin"),
        (["plugin", "dependency"], "dependency"),
        (["dependency", "plugin"], "dependency"),
        ([None, None, "test"], "test"),
    ],
)
def test_the_owner_of_most_failures(
    owners: list[CodeOwner | None], expected: str | None
) -> None:
    """A verdict and a group have it; of as many, the first in the documented order."""
    failures = [
        failed(f"test_cart.py::test_{index}", exception=raised_by(owner))
        for index, owner in enumerate(owners)
    ]
    judgement = judge(ended(failures=tuple(failures) or (failed(),)))
    assert judgement.verdict is not None
    assert judgement.verdict.owner == expected
    assert [group.owner for group in judgement.groups][:1] == [expected]


def test_other_reasons_do_not_count_for_the_owner() -> None:
    """Failures of another reason or kind are not the verdict's."""
    other = failed(B, exception=raised_by("plugin"), phase="setup")
    run = ended(
        failures=(
            failed(exception=raised_by("project")),
            other,
            replace(other, nodeid=A),
        )
    )
    verdict = judge(run).verdict
    assert verdict is not None
    assert verdict.owner == ("project" if verdict.kind == "test.failed" else "plugin")
    error = RunError(origin="internal", message="no", exception=raised_by("dependency"))
    verdict = judge(ended(3, errors=(error,))).verdict
    assert verdict is not None
    assert verdict.owner == "dependency"


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("is_pytest", [True, False], ids=["pytest", "other"])
def test_a_limit_of_ours_counts_as_exit_code_124(stage: Stage, is_pytest: bool) -> None:
    """In each stage it is the table's answer; the end of a pytest says more where that is asked."""
    end = ProcessExit(
        code=143, signal="SIGTERM", source="supervisor", enforced_limit_seconds=1.0
    )
    judgement = judge(
        RunEvidence(
            stage=stage,
            exit=end,
            finished=False,
            recorded=is_pytest,
            is_pytest=is_pytest,
        )
    )
    is_plain = stage in (Stage.AGENT_RUN, Stage.FINAL_TEST)
    kind = "process.timeout" if is_pytest and is_plain else "stage.timeout"
    expected = ("TIMEOUT", kind)
    if stage is Stage.SETUP:
        expected = ("SETUP_TIMEOUT", "stage.setup_timeout")
    assert verdict_of(judgement) == expected
    assert judgement.exit_reason is FailureReason.from_stage(stage, 124)


@pytest.mark.parametrize("stage", Stage)
def test_ctrl_c_of_a_command_is_an_interruption_in_each_stage(stage: Stage) -> None:
    """Whether it dies of the signal, or catches it and leaves with any exit code."""
    caught = Interruption(exception="KeyboardInterrupt", message="Ctrl+C")
    for seen in (
        {
            "exit": ProcessExit(code=130, signal="SIGINT", source="supervisor"),
            "finished": False,
        },
        {"exit": ProcessExit(code=1, source="supervisor"), "interruptions": (caught,)},
    ):
        run: dict[str, Any] = seen
        judgement = judge(
            RunEvidence(stage=stage, recorded=False, is_pytest=False, **run)
        )
        assert verdict_of(judgement) == ("INTERRUPTED", "interrupt.keyboard")
        assert judgement.exit_reason is FailureReason.INTERRUPTED


# Which reason leads, and what it shows


@pytest.mark.parametrize(
    ("failures", "kind"),
    [
        pytest.param([failed(A, attributed=SAID)], "sandbox.docker", id="alone"),
        pytest.param(
            [failed(A, attributed=SAID), failed(B)], "test.failed", id="a half"
        ),
        pytest.param(
            [failed(A, attributed=SAID), failed(B, attributed=SAID), failed("t.py::c")],
            "sandbox.docker",
            id="more than a half",
        ),
        pytest.param(
            [crashed(A, attributed=SAID), failed(B), failed("t.py::c")],
            "sandbox.docker",
            id="a test that crashed",
        ),
        pytest.param(
            [timed_out(A), failed(B), failed("t.py::c")],
            "test.timeout",
            id="a reason of the test's own",
        ),
    ],
)
def test_a_service_that_failed_few_tests_does_not_lead(
    failures: list[TestFailure], kind: str
) -> None:
    """At most half of the failed tests are not what the run failed of; a crash is."""
    verdict = judge(ended(1, failures=tuple(failures))).verdict
    assert verdict is not None
    assert verdict.kind == kind


@pytest.mark.parametrize(
    ("stage", "kind"),
    [
        (Stage.SETUP, "stage.setup_timeout"),
        (Stage.GIT_CLONE, "stage.timeout"),
        (Stage.FINAL_TEST, "process.timeout"),
    ],
)
def test_what_threads_did_at_the_time_limit_is_evidence(
    stage: Stage, kind: str
) -> None:
    """Whichever name the limit has in the stage; other verdicts have no use for it."""
    end = ProcessExit(
        code=None, source="supervisor", enforced_limit_seconds=9.0, stacks="in wait"
    )
    stacks = Evidence(source="stacks at SIGTERM", detail="in wait")
    verdict = judge(RunEvidence(exit=end, stage=stage, finished=False)).verdict
    assert verdict is not None
    assert verdict.kind == kind
    assert verdict.evidence[-1] == stacks
    code = replace(end, code=1, enforced_limit_seconds=None)
    other = judge(RunEvidence(exit=code, failures=(failed(),))).verdict
    assert other is not None
    assert stacks not in other.evidence


@pytest.mark.parametrize(
    ("lacking", "kind"),
    [
        ({"failures": 2}, "test.failed"),
        ({"collection_failures": 2}, "collection.error"),
        ({"errors": 2}, "internal.error"),
        ({"interruptions": 2}, "interrupt.stopped"),
    ],
)
def test_what_was_only_counted_is_likely(lacking: dict[str, int], kind: str) -> None:
    """It could be of another reason, and what a retry does for it nobody knows."""
    judgement = judge(ended(1, unrecorded=Unrecorded(**lacking)))
    assert [(each.kind, each.count) for each in judgement.reasons] == [(kind, 2)]
    verdict = judgement.verdict
    assert verdict is not None
    assert (verdict.confidence, verdict.retryable is True) == ("likely", False)
    detail = "2 counted, but what happened could not be recorded"
    assert verdict.evidence == (Evidence(source="record", detail=detail),)


def test_findings_of_one_test_count_once() -> None:
    """A test that failed in two ways is one; evidence names it, up to a number of them."""
    twice = (failed(A), failed(A, message="again"))
    judgement = judge(ended(1, failures=twice))
    assert held(judgement) == [("TESTS_FAILED", "test.failed", 1)]
    many = [failed(f"t.py::t{number}") for number in range(MAX_EVIDENCE + 1)]
    verdict = judge(ended(1, failures=tuple(many))).verdict
    assert verdict is not None
    details = [evidence.detail for evidence in verdict.evidence]
    assert details == [
        f"t.py::t{number}: call failed: assert 0" for number in range(MAX_EVIDENCE)
    ]


PASSED_ON: Final = "<WorkerController gw0> received keyboard-interrupt"


def test_pytest_exit_in_a_worker_is_no_ctrl_c() -> None:
    """The words of xdist are those of Ctrl+C; the exit explains the test that it ended."""
    left = WorkerEnd(id="gw0", tests=1, ending="exited", crashed_on=A)
    stops = (stop("Exit", "enough"), stop("Interrupted", PASSED_ON))
    run = ended(2, failures=(crashed(A),), workers=(left,), interruptions=stops)
    judgement = judge(run)
    assert held(judgement) == [("INTERRUPTED", "interrupt.exit", 1)]
    [cause] = judgement.causes
    assert cause.fingerprints == (judgement.failures[0].fingerprint,)
    beside = (*stops, stop("KeyboardInterrupt"))
    judgement = judge(replace(run, interruptions=beside))
    explained = [cause.fingerprints for cause in judgement.causes]
    assert explained == [(judgement.failures[0].fingerprint,), ()]


@pytest.mark.parametrize("code", [5, 6])
def test_a_run_of_tests_has_more_to_say_than_none_collected(code: int) -> None:
    """Exit code 5 of a run that collected tests is somebody else's; 6 is of warnings."""
    kinds = {5: "exit_status.changed", 6: "warnings.exceeded"}
    judgement = judge(ended(code, counts=Counts(collected=1, passed=1)))
    assert [each.kind for each in judgement.reasons] == [kinds[code]]


@pytest.mark.parametrize(("code", "is_told"), [(0, True), (1, False)])
def test_a_refusal_explains_a_pytest_that_left_with_0(
    code: int, *, is_told: bool
) -> None:
    """What stops pytest before its plugins can end it with 0; another code has others."""
    refusal = RunError(origin="usage", message="no such option")
    run = ended(code, finished=False, early_refusal=refusal)
    kinds = [reason.kind for reason in judge(run).reasons]
    assert kinds == ["usage.error"] * is_told + ["process.exited"]


@pytest.mark.parametrize(
    ("known", "kind", "details"),
    [
        pytest.param(
            {"counts": Counts(skipped=2)},
            "tests.none_collected",
            ["0 tests collected, 2 skipped"],
            id="all skipped",
        ),
        pytest.param(
            {"nothing_ran": "no files"},
            "tests.none_collected",
            ["0 tests collected, no files"],
            id="nothing there",
        ),
        pytest.param(
            {"counts": Counts(deselected=3)},
            "tests.all_deselected",
            ["3 deselected, 0 left"],
            id="all deselected",
        ),
    ],
)
def test_why_nothing_was_run(
    known: dict[str, Any], kind: str, details: list[str]
) -> None:
    """Exit code 5 says that no test was run, and the counts say why."""
    verdict = judge(ended(5, **known)).verdict
    assert verdict is not None
    assert verdict.kind == kind
    assert [evidence.detail for evidence in verdict.evidence] == details


@pytest.mark.parametrize(
    ("known", "kind"),
    [
        pytest.param({"coverage": "79 % < 80 %"}, "coverage.failed", id="coverage"),
        pytest.param({"gate": "0.7 < 0.8"}, "bench.gate", id="gate"),
        pytest.param({"coverage": "79 %", "gate": "0.7"}, "bench.gate", id="both"),
        pytest.param({"should_fail": "enough"}, "exit_status.changed", id="other"),
    ],
)
def test_who_has_made_the_exit_code_is_the_verdict(
    known: dict[str, str], kind: str
) -> None:
    """Where no test failed it is named, in its own words; a bench comes before coverage."""
    verdict = judge(ended(1, **known)).verdict
    assert verdict is not None
    assert verdict.kind == kind
    assert verdict.evidence[0].detail == [*known.values()][-1]


@pytest.mark.parametrize("has_error", [True, False])
def test_a_log_whose_exit_code_nobody_knows(*, has_error: bool) -> None:
    """Its line of an error is the verdict; without one there is none."""
    line = OutputLine(4, "  error: it broke ")
    output = Output(by_subject={}, error=line if has_error else None)
    run = RunEvidence(
        exit=ProcessExit(code=None, source="log"), recorded=False, output=output
    )
    verdict = judge(run).verdict
    if not has_error:
        assert verdict is None
        return
    assert verdict is not None
    assert (verdict.kind, verdict.confidence) == ("command.failed", "likely")
    assert verdict.evidence[0].detail == "error: it broke"


@pytest.mark.parametrize(("code", "tests"), [(0, []), (1, [(3, "x")]), (124, [])])
def test_tests_that_failed_under_another_runner(
    code: int, tests: list[tuple[int, str]]
) -> None:
    """They are told where the command failed of them: not of nothing, nor of its limit."""
    output = Output(by_subject={}, failed_tests=3, test_names=("x",))
    exit_of_it = ProcessExit(code=code, source="log")
    seen: dict[str, Any] = {"recorded": False, "is_pytest": False, "output": output}
    reasons = judge(RunEvidence(exit=exit_of_it, **seen)).reasons
    failed_tests = [reason for reason in reasons if reason.kind == "test.failed"]
    assert [
        (reason.count, reason.findings[0].nodeid) for reason in failed_tests
    ] == tests
