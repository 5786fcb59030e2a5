"""The published table of kinds: each kind that this version gives, and the reason it refines.

The table is written out by hand, with the least evidence that shows each kind.
"""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from pytest_failure_taxonomy import FailureReason, Stage
from pytest_failure_taxonomy.taxonomy.classification import name_libraries
from pytest_failure_taxonomy.taxonomy.evidence import (
    Activity,
    CollectionFailure,
    Counts,
    ErrorOrigin,
    InFlightTest,
    IntegrityFinding,
    Interruption,
    MemoryPressure,
    Output,
    OutputLine,
    Phase,
    ProcessExit,
    RaisedException,
    RunError,
    RunEvidence,
    SeenStall,
    Stall,
    StallState,
    TestFailure,
    TimeLimit,
    ToolCause,
    ToolMessage,
    WorkerEnd,
)
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.judgement import known_kinds, make_marker_finding
from pytest_failure_taxonomy.taxonomy.mismatch import (
    CollectedVariant,
    CollectionMismatch,
)
from pytest_failure_taxonomy.taxonomy.values import replace

TEST: Final = "test_cart.py::test_total"


def ended(exit_code: int | None, **seen: Any) -> RunEvidence:
    """Return the evidence of a run that pytest itself ended."""
    return RunEvidence(exit=ProcessExit(code=exit_code, source="pytest"), **seen)


def ended_stage(stage: str, exit_code: int, **seen: Any) -> RunEvidence:
    """Return the evidence of a stage's run."""
    return ended(exit_code, stage=Stage(stage), **seen)


def failed(phase: Phase, **how: Any) -> RunEvidence:
    """Return the evidence of a run in which one test failed."""
    return ended(1, failures=(TestFailure(nodeid=TEST, phase=phase, **how),))


def broken(origin: ErrorOrigin, exit_code: int) -> RunEvidence:
    """Return the evidence of a run that met one error outside of its tests."""
    return ended(exit_code, errors=(RunError(origin=origin, message="it broke"),))


def stopped(exception: Any, message: str, exit_code: int) -> RunEvidence:
    """Return the evidence of a run that something stopped."""
    stop = Interruption(exception=exception, message=message)
    return ended(exit_code, interruptions=(stop,))


ASSERTION: Final = RaisedException(
    type="AssertionError",
    module="builtins",
    message="assert 3 == 4",
    bases=("builtins.AssertionError", "builtins.Exception", "builtins.BaseException"),
    raised_in="test_cart",
)
TIME_IS_UP: Final = RaisedException(
    type="Failed",
    module="_pytest.outcomes",
    message="Timeout (>1.0s) from pytest-timeout.",
    bases=("_pytest.outcomes.Failed", "_pytest.outcomes.OutcomeException"),
    raised_in="pytest_timeout",
)
SYNTAX_ERROR: Final = CollectionFailure(
    nodeid="test_cart.py", message="SyntaxError: invalid syntax"
)
NO_MEMORY: Final = RaisedException(
    type="MemoryError",
    module="builtins",
    message="",
    bases=("builtins.MemoryError", "builtins.Exception"),
    memory=MemoryPressure(limit="RLIMIT_AS", used_bytes=99, limit_bytes=100),
)
DEAD_WORKER: Final = WorkerEnd(
    id="gw0", tests=3, signal="SIGSEGV", crashed_on=TEST, ending="died"
)

KINDS_THAT_TESTS_GIVE: Final = (
    (
        "test.failed",
        "TESTS_FAILED",
        failed("call", message="assert 3 == 4", exception=ASSERTION),
    ),
    (
        "test.setup_error",
        "TESTS_FAILED",
        failed("setup", message="assert 3 == 4", exception=ASSERTION),
    ),
    (
        "test.teardown_error",
        "TESTS_FAILED",
        failed("teardown", message="assert 3 == 4", exception=ASSERTION),
    ),
    (
        "test.xpass_strict",
        "TESTS_FAILED",
        failed("call", message="[XPASS(strict)] bug 12"),
    ),
    (
        "test.timeout",
        "TIMEOUT",
        failed("call", message="Failed: Timeout", exception=TIME_IS_UP),
    ),
    (
        "worker.crashed",
        "TESTS_FAILED",
        failed(
            "call", message=f"worker 'gw0' crashed while running '{TEST}'", crashed=True
        ),
    ),
    (
        "test.crashed",
        "TESTS_FAILED",
        failed("call", message="running the test CRASHED", crashed=True, forked=True),
    ),
    ("worker.crashed", "TESTS_FAILED", ended(1, workers=(DEAD_WORKER,))),
    (
        "sandbox.memory",
        "SANDBOX_ERROR",
        failed("call", message="", exception=NO_MEMORY),
    ),
)

MISMATCH: Final = CollectionMismatch(
    workers=("gw0",),
    tests=1,
    variants=(
        CollectedVariant(workers=("gw1",), tests=2, added=(TEST,), added_count=1),
    ),
)
USED_UP: Final = TimeLimit(owner="timeout", budget_seconds=10.0, elapsed_seconds=9.9)


def died(code: int, signal: str | None, **seen: Any) -> RunEvidence:
    """Return a run whose process ended before its session."""
    end = ProcessExit(code=code, signal=signal, observed=True, source="watcher", **seen)
    return RunEvidence(finished=False, exit=end)


def bare(code: int) -> RunEvidence:
    """Return a run of which nothing but the exit code is known."""
    end = ProcessExit(code=code, observed=True, source="supervisor")
    return RunEvidence(recorded=False, exit=end)


KINDS_THAT_RUNS_GIVE: Final = (
    (
        "session.timeout",
        "TIMEOUT",
        ended(1, should_fail="session-timeout: 60.0 sec exceeded"),
    ),
    (
        "process.vanished",
        "UNKNOWN",
        RunEvidence(finished=False, exit=ProcessExit(code=None, source="none")),
    ),
    ("process.timeout", "TIMEOUT", died(143, "SIGTERM", enforced_limit_seconds=5.0)),
    ("process.timeout", "TIMEOUT", died(143, "SIGTERM", sender="timeout")),
    ("process.timeout", "TIMEOUT", died(137, "SIGKILL", limits=(USED_UP,))),
    ("process.killed", "TIMEOUT", died(137, "SIGKILL")),
    ("process.oom", "SANDBOX_ERROR", died(137, "SIGKILL", out_of_memory=True)),
    ("process.terminated", "INTERRUPTED", died(143, "SIGTERM")),
    ("process.terminated", "INTERRUPTED", died(129, "SIGHUP")),
    ("process.crashed", "UNKNOWN", died(139, "SIGSEGV")),
    ("process.crashed", "UNKNOWN", died(134, "SIGABRT")),
    ("process.exited", "UNKNOWN", died(0, None)),
    ("process.exited", "UNKNOWN", died(7, None)),
    (
        "collection.error",
        "INTERNAL_ERROR",
        ended(2, collection_failures=(SYNTAX_ERROR,)),
    ),
    ("collection.mismatch", "INTERNAL_ERROR", ended(1, mismatch=MISMATCH)),
    ("conftest.error", "INTERNAL_ERROR", broken("conftest", 4)),
    ("usage.error", "INTERNAL_ERROR", broken("usage", 4)),
    ("plugin.error", "INTERNAL_ERROR", broken("plugin", 1)),
    ("internal.error", "INTERNAL_ERROR", broken("internal", 3)),
    ("tests.none_collected", "NO_TESTS_COLLECTED", ended(5)),
    (
        "tests.all_deselected",
        "NO_TESTS_COLLECTED",
        ended(5, counts=Counts(deselected=7)),
    ),
    ("interrupt.keyboard", "INTERRUPTED", stopped("KeyboardInterrupt", "", 2)),
    ("interrupt.exit", "INTERRUPTED", stopped("Exit", "enough", 2)),
    ("interrupt.exit", "INTERRUPTED", stopped("Exit", "enough", 0)),
    ("interrupt.exit", "INTERRUPTED", stopped("Exit", "enough", 42)),
    ("interrupt.stopped", "INTERRUPTED", stopped("Interrupted", "disk is full", 2)),
    (
        "warnings.exceeded",
        "UNKNOWN",
        ended(6, counts=Counts(collected=3, passed=3, warnings=9)),
    ),
    (
        "bench.gate",
        "TESTS_FAILED",
        ended(1, gate="the gate of bench mail failed"),
    ),
    (
        "coverage.failed",
        "TESTS_FAILED",
        ended(1, coverage="coverage 55.00 % is below the required 99 %"),
    ),
)

KINDS_THAT_THE_EXIT_CODE_GIVES: Final = (
    ("test.failed", "TESTS_FAILED", bare(1)),
    ("command.failed", "TESTS_FAILED", replace(bare(1), is_pytest=False)),
    ("command.failed", "INTERRUPTED", bare(2)),
    ("command.failed", "UNKNOWN", bare(77)),
    (
        "exit_status.changed",
        "TESTS_FAILED",
        ended(1, counts=Counts(collected=2, passed=2)),
    ),
    (
        "exit_status.changed",
        "INTERRUPTED",
        ended(2, counts=Counts(collected=2, passed=2)),
    ),
    (
        "exit_status.changed",
        "INTERNAL_ERROR",
        ended(3, counts=Counts(collected=2, passed=2)),
    ),
    (
        "exit_status.changed",
        "INTERNAL_ERROR",
        ended(4, counts=Counts(collected=2, passed=2)),
    ),
    (
        "exit_status.changed",
        "NO_TESTS_COLLECTED",
        ended(5, counts=Counts(collected=2, passed=2)),
    ),
    ("exit_status.changed", "UNKNOWN", ended(7, counts=Counts(collected=2, passed=2))),
    ("exit_status.changed", "UNKNOWN", ended(42, counts=Counts(collected=2, passed=2))),
    (
        "exit_status.changed",
        "TIMEOUT",
        ended(124, counts=Counts(collected=2, passed=2)),
    ),
    (
        "exit_status.changed",
        "TIMEOUT",
        ended(137, counts=Counts(collected=2, passed=2)),
    ),
    (
        "exit_status.changed",
        "UNKNOWN",
        ended(139, counts=Counts(collected=2, passed=2)),
    ),
)

KINDS_THAT_STAGES_GIVE: Final = (
    ("stage.git_clone_failed", "GIT_CLONE_FAILED", ended_stage("git_clone", 128)),
    (
        "stage.git_checkout_failed",
        "GIT_CHECKOUT_FAILED",
        ended_stage("git_checkout", 1),
    ),
    ("stage.setup_failed", "SETUP_FAILED", ended_stage("setup", 2)),
    ("stage.setup_timeout", "SETUP_TIMEOUT", ended_stage("setup", 124)),
    ("stage.setup_timeout", "SETUP_TIMEOUT", ended_stage("setup", 137)),
    (
        "stage.baseline_not_failing",
        "BASELINE_NOT_FAILING",
        ended_stage("baseline_run", 0, counts=Counts(collected=2, passed=2)),
    ),
    ("stage.timeout", "TIMEOUT", ended_stage("git_clone", 124)),
    ("stage.timeout", "TIMEOUT", ended_stage("git_checkout", 137)),
)


def raised(name: str, message: str = "") -> RunEvidence:
    """Return a run in which a test failed on the exception of a library."""
    module, _, kind = name.rpartition(".")
    exception = RaisedException(
        type=kind, module=module, message=message, bases=(name,)
    )
    return name_libraries(failed("call", message=message, exception=exception))


def git(command: str) -> RunEvidence:
    """Return a run in which a git command failed."""
    words = f"Command '['git', '{command}']' returned non-zero exit status 128."
    return raised("subprocess.CalledProcessError", words)


KINDS_THAT_LIBRARIES_GIVE: Final = (
    ("sandbox.docker", "SANDBOX_ERROR", raised("docker.errors.APIError")),
    (
        "sandbox.kubernetes",
        "SANDBOX_ERROR",
        raised("kubernetes.client.exceptions.ApiException"),
    ),
    ("sandbox.podman", "SANDBOX_ERROR", raised("podman.errors.exceptions.APIError")),
    (
        "sandbox.testcontainers",
        "SANDBOX_ERROR",
        raised("testcontainers.core.exceptions.ContainerStartException"),
    ),
    (
        "sandbox.worker_lost",
        "SANDBOX_ERROR",
        raised("distributed.scheduler.KilledWorker"),
    ),
    (
        "bench.lost",
        "TESTS_FAILED",
        raised("pytest_failure_taxonomy.bench.plugin.items.CaseWithoutScoreError"),
    ),
    ("llm.rate_limited", "LLM_ERROR", raised("openai.RateLimitError")),
    (
        "llm.quota_exceeded",
        "LLM_ERROR",
        raised("openai.RateLimitError", "insufficient_quota"),
    ),
    ("llm.timeout", "LLM_ERROR", raised("openai.APITimeoutError")),
    ("llm.unavailable", "LLM_ERROR", raised("anthropic.APIConnectionError")),
    ("llm.authentication", "LLM_ERROR", raised("anthropic.AuthenticationError")),
    (
        "llm.context_exceeded",
        "LLM_ERROR",
        raised("openai.BadRequestError", "context_length_exceeded"),
    ),
    ("llm.bad_request", "LLM_ERROR", raised("openai.BadRequestError")),
    ("llm.error", "LLM_ERROR", raised("openai.OpenAIError")),
    ("git.clone_failed", "GIT_CLONE_FAILED", git("clone")),
    ("git.checkout_failed", "GIT_CHECKOUT_FAILED", git("checkout")),
    ("tool.git", "TOOL_ERROR", git("fetch")),
)


def told(tool: str, cause: ToolCause) -> RunEvidence:
    """Return the end of a command whose output says why it failed."""
    message = ToolMessage(tool=tool, cause=cause, line=OutputLine(1, "it is so"))
    return ended(1, recorded=False, is_pytest=False, tool_message=message)


KINDS_THAT_TOOLS_GIVE: Final = (
    ("sandbox.disk_full", "SANDBOX_ERROR", told("disk", "disk")),
    ("sandbox.service_down", "SANDBOX_ERROR", told("redis", "service")),
    ("tool.command_missing", "TOOL_ERROR", told("uv", "command")),
    ("tool.permission", "TOOL_ERROR", told("./run.sh", "permission")),
    ("tool.syntax", "TOOL_ERROR", told("shell", "syntax")),
    ("tool.package_index", "TOOL_ERROR", told("pip", "network")),
    ("tool.install_failed", "TOOL_ERROR", told("pip", "build")),
    ("tool.patch_failed", "TOOL_ERROR", told("patch", "patch")),
    ("tool.git", "TOOL_ERROR", told("git", "missing")),
    (
        "tests.none_run",
        "NO_TESTS_COLLECTED",
        ended(0, counts=Counts(skipped=2, collected=2), output=Output(by_subject={})),
    ),
)


def marked(name: str, reason: str) -> RunEvidence:
    """Return a command's end of which a marker tells more than its exit code."""
    return RunEvidence(
        stage=Stage.AGENT_RUN,
        recorded=False,
        exit=ProcessExit(code=None, source="none"),
        settled=(make_marker_finding(name, FailureReason(reason)),),
    )


KINDS_THAT_MARKERS_GIVE: Final = (
    ("marker.max_turns", "AGENT_GAVE_UP", marked("MAX_TURNS", "AGENT_GAVE_UP")),
    ("marker.test_failure", "TESTS_FAILED", marked("TEST_FAILURE", "TESTS_FAILED")),
    ("marker.unknown", "UNKNOWN", marked("UNKNOWN", "UNKNOWN")),
)

KINDS_OF_INTEGRITY: Final = (
    *("assertion_replaced", "code_replaced", "early_exit", "environment_changed"),
    *("exit_status", "files_changed", "outcome_rewritten", "pytest_replaced"),
    *("record_changed", "test_replaced", "test_skipped", "tests_removed"),
)


def certified(name: str, exit_code: int) -> RunEvidence:
    """Return the evidence of a run that is to be certified and can't be."""
    found = IntegrityFinding(
        kind=f"integrity.{name}", nodeids=(), where=None, hook=None, detail="was seen"
    )
    return ended(exit_code, integrity=(found,), is_certified=True)


KINDS_THAT_CERTIFYING_GIVES: Final = tuple(
    (f"integrity.{name}", "TESTS_FAILED", certified(name, exit_code))
    for name in KINDS_OF_INTEGRITY
    for exit_code in (0, 1)
)

TABLE: Final = (
    *KINDS_THAT_CERTIFYING_GIVES,
    *KINDS_THAT_TESTS_GIVE,
    *KINDS_THAT_RUNS_GIVE,
    *KINDS_THAT_THE_EXIT_CODE_GIVES,
    *KINDS_THAT_STAGES_GIVE,
    *KINDS_THAT_LIBRARIES_GIVE,
    *KINDS_THAT_TOOLS_GIVE,
    *KINDS_THAT_MARKERS_GIVE,
)

# Of these, no row of the table has a single reason.
REASON_LEFT_TO_A_TABLE: Final = (
    "command.failed",
    "exit_status.changed",
    "stage.git_clone_failed",
    "stage.git_checkout_failed",
    "stage.setup_failed",
    "stage.setup_timeout",
    "stage.baseline_not_failing",
    "stage.timeout",
)


def test_evidence_of_a_kind_is_judged_to_be_it() -> None:
    """The least evidence that shows a kind gets this kind and its reason, once, and no other."""
    for kind, reason, run in TABLE:
        judgement = judge(run)
        where = f"{kind} in {run.stage} with exit code {run.exit.code}"
        assert judgement.verdict is not None, where
        assert (judgement.verdict.kind, judgement.verdict.reason) == (kind, reason), (
            where
        )
        assert [(held.kind, held.reason, held.count) for held in judgement.reasons] == [
            (kind, FailureReason[reason], 1)
        ], where


BLOCKED: Final = Stall(
    state="blocked", seconds=61.0, where="acquire (tests/x.py:6)", stack=None
)


def stalled(what: Activity | None, *, state: StallState = "blocked") -> dict[str, Any]:
    """Return the evidence of a stall: of an activity, or of a test for `None`."""
    stall = replace(BLOCKED, state=state)
    if what is not None:
        return {"stalls": (SeenStall(what=what, stall=stall),)}
    running = InFlightTest(nodeid=TEST, phase="call", elapsed_seconds=70.0, stall=stall)
    return {"in_flight": (running,)}


STALLS: Final[dict[Activity | None, str]] = {
    None: "test.stalled",
    "collection": "collection.stalled",
    "session": "session.stalled",
    "controller": "session.stalled",
    "shutdown": "shutdown.stalled",
}


def test_what_is_only_noted_is_no_verdict() -> None:
    """Findings fail a run only if it is to be certified."""
    for name in KINDS_OF_INTEGRITY:
        judgement = judge(replace(certified(name, 0), is_certified=False))
        assert (judgement.verdict, judgement.reasons) == (None, ())


@pytest.mark.parametrize("what", STALLS)
@pytest.mark.parametrize(
    ("end", "also"),
    [
        pytest.param(died(143, "SIGTERM"), "process.terminated", id="SIGTERM"),
        pytest.param(died(129, "SIGHUP"), "process.terminated", id="SIGHUP"),
        pytest.param(died(137, "SIGKILL"), "process.killed", id="SIGKILL"),
        pytest.param(
            died(143, "SIGTERM", sender="timeout"), "process.timeout", id="timeout"
        ),
        pytest.param(
            stopped("KeyboardInterrupt", "", 2), "interrupt.keyboard", id="Ctrl+C"
        ),
    ],
)
def test_a_stall_comes_before_the_end_that_somebody_put_to_it(
    what: Activity | None, end: RunEvidence, also: str
) -> None:
    """Why the run was ended says more than how; it is likely, and the place is in the message."""
    judgement = judge(replace(end, **stalled(what)))
    assert judgement.verdict is not None
    assert (judgement.verdict.kind, judgement.verdict.reason) == (
        STALLS[what],
        "TIMEOUT",
    )
    assert judgement.verdict.confidence == "likely"
    assert "blocked in acquire (tests/x.py:6) for 61 s" in judgement.verdict.message
    assert [held.kind for held in judgement.reasons] == [STALLS[what], also]


@pytest.mark.parametrize("what", STALLS)
@pytest.mark.parametrize(
    "end",
    [
        pytest.param(died(139, "SIGSEGV"), id="SIGSEGV"),
        pytest.param(died(137, "SIGKILL", out_of_memory=True), id="out of memory"),
        pytest.param(ended(0), id="success"),
    ],
)
def test_a_stall_is_no_reason_where_something_else_ended_the_run(
    what: Activity | None, end: RunEvidence
) -> None:
    """Whatever took long did not make it crash, run out of memory or pass."""
    judgement = judge(replace(end, **stalled(what)))
    assert {held.kind for held in judgement.reasons}.isdisjoint(STALLS.values())


@pytest.mark.parametrize(
    ("state", "others_move", "confidence"),
    [
        ("blocked", False, "certain"),
        ("frozen", False, "certain"),
        ("blocked", True, "likely"),
        ("polling", False, "likely"),
    ],
)
def test_only_what_does_not_move_at_all_is_ended_with_certainty(
    state: StallState, confidence: str, *, others_move: bool
) -> None:
    """What polls may come to an end, and beside other threads that move, the one may be waited for.

    What is ended is told as that, so that `failure-taxonomy run` can tell it from other kills.
    """
    running = stalled(None, state=state)["in_flight"][0]
    stall = replace(running.stall, is_ended=True, others_move=others_move)
    judgement = judge(
        replace(died(137, "SIGKILL"), in_flight=(replace(running, stall=stall),))
    )
    assert judgement.verdict is not None
    assert (judgement.verdict.kind, judgement.verdict.confidence) == (
        "test.stalled",
        confidence,
    )
    assert judgement.verdict.evidence[0].source == "--failure-taxonomy-end-stalled"


@pytest.mark.parametrize("what", STALLS)
def test_what_is_busy_is_no_reason(what: Activity | None) -> None:
    """A test that computes takes long and is not stuck."""
    judgement = judge(replace(died(143, "SIGTERM"), **stalled(what, state="busy")))
    assert [held.kind for held in judgement.reasons] == ["process.terminated"]


def test_every_kind_of_this_version_is_in_the_table() -> None:
    """The tables and the code know the same kinds."""
    others = {"shard.missing"}  # by `failure-taxonomy merge`, of no run
    others |= {
        "agent.gave_up",
        "sandbox.failed",
    }  # by `convert --from`, as a harness says it
    assert {row[0] for row in TABLE} | {*STALLS.values()} | others == set(known_kinds())


def test_a_kind_is_lower_case_and_dotted() -> None:
    """A kind's name is lower-case words joined by one dot, and is the key it stands under."""
    for kind, row in known_kinds().items():
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*\.[a-z]+(_[a-z]+)*", kind)
        assert row.name == kind


def test_a_kind_has_one_reason_of_its_own() -> None:
    """The row of a kind names the reason that it refines."""
    expected = {
        kind: reason
        for kind, reason, _ in (*KINDS_THAT_TESTS_GIVE[:-1], *KINDS_THAT_RUNS_GIVE)
    }
    assert {kind: known_kinds()[kind].reason for kind in expected} == expected


def test_some_kinds_leave_the_reason_to_a_table() -> None:
    """A kind of the exit table or of a stage names no reason of its own."""
    assert [
        kind
        for kind in REASON_LEFT_TO_A_TABLE
        if known_kinds()[kind].reason is not None
    ] == []


def test_a_kind_is_put_in_words() -> None:
    """A kind says in words what happened, once and often, with the number filled in."""
    for kind, row in known_kinds().items():
        assert row.phrase(1) == row.one, kind
        assert "{" not in row.phrase(1) + row.phrase(23), kind
        assert (row.one == row.many) or ("23" in row.phrase(23)), kind
