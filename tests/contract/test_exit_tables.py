"""The published tables from exit codes and stages to failure reasons, row by row.

Every table here is written out by hand. None is derived from the code that it checks.
"""

from __future__ import annotations

import json
from itertools import product
from typing import Final

import pytest

from pytest_failure_taxonomy import FailureReason, Stage, primary_reason
from pytest_failure_taxonomy.taxonomy.evidence import (
    Attribution,
    ProcessExit,
    RaisedException,
    RunEvidence,
    TestFailure,
)
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.judgement import exit_code_from_returncode

CODES: Final = (
    "SETUP_FAILED",
    "SETUP_TIMEOUT",
    "BASELINE_NOT_FAILING",
    "TIMEOUT",
    "SANDBOX_ERROR",
    "GIT_CLONE_FAILED",
    "GIT_CHECKOUT_FAILED",
    "TOOL_ERROR",
    "TESTS_FAILED",
    "AGENT_GAVE_UP",
    "LLM_ERROR",
    "NO_TESTS_COLLECTED",
    "INTERNAL_ERROR",
    "INTERRUPTED",
    "UNKNOWN",
)

PRECEDENCE: Final = (
    (1, "GIT_CLONE_FAILED"),
    (2, "GIT_CHECKOUT_FAILED"),
    (3, "SETUP_TIMEOUT"),
    (4, "SETUP_FAILED"),
    (5, "BASELINE_NOT_FAILING"),
    (6, "SANDBOX_ERROR"),
    (7, "LLM_ERROR"),
    (8, "TOOL_ERROR"),
    (9, "TIMEOUT"),
    (10, "AGENT_GAVE_UP"),
    (11, "TESTS_FAILED"),
    (12, "NO_TESTS_COLLECTED"),
    (13, "INTERNAL_ERROR"),
    (14, "INTERRUPTED"),
    (15, "UNKNOWN"),
)

PYTEST_EXIT_CODES: Final = (
    (0, None),
    (1, "TESTS_FAILED"),
    (2, "INTERRUPTED"),
    (3, "INTERNAL_ERROR"),
    (4, "INTERNAL_ERROR"),
    (5, "NO_TESTS_COLLECTED"),
    (124, "TIMEOUT"),
    (137, "TIMEOUT"),
)

OTHER_EXIT_CODES: Final = (
    -11,
    -9,
    -1,
    6,
    7,
    42,
    125,
    126,
    127,
    128,
    130,
    134,
    139,
    143,
    255,
    256,
)

STAGES: Final = (
    "git_clone",
    "git_checkout",
    "setup",
    "baseline_run",
    "agent_run",
    "final_test",
)

# One row a stage; the columns are exit codes.
STAGE_COLUMNS: Final = (0, 1, 2, 3, 4, 5, 6, 124, 128, 137, 139)
STAGE_TABLE: Final = {
    "git_clone": (
        None,
        "GIT_CLONE_FAILED",
        "GIT_CLONE_FAILED",
        "GIT_CLONE_FAILED",
        "GIT_CLONE_FAILED",
        "GIT_CLONE_FAILED",
        "GIT_CLONE_FAILED",
        "TIMEOUT",
        "GIT_CLONE_FAILED",
        "TIMEOUT",
        "GIT_CLONE_FAILED",
    ),
    "git_checkout": (
        None,
        "GIT_CHECKOUT_FAILED",
        "GIT_CHECKOUT_FAILED",
        "GIT_CHECKOUT_FAILED",
        "GIT_CHECKOUT_FAILED",
        "GIT_CHECKOUT_FAILED",
        "GIT_CHECKOUT_FAILED",
        "TIMEOUT",
        "GIT_CHECKOUT_FAILED",
        "TIMEOUT",
        "GIT_CHECKOUT_FAILED",
    ),
    "setup": (
        None,
        "SETUP_FAILED",
        "SETUP_FAILED",
        "SETUP_FAILED",
        "SETUP_FAILED",
        "SETUP_FAILED",
        "SETUP_FAILED",
        "SETUP_TIMEOUT",
        "SETUP_FAILED",
        "SETUP_TIMEOUT",
        "SETUP_FAILED",
    ),
    "baseline_run": (
        "BASELINE_NOT_FAILING",
        None,
        None,
        None,
        None,
        None,
        None,
        "TIMEOUT",
        None,
        "TIMEOUT",
        None,
    ),
    "agent_run": (
        None,
        "TESTS_FAILED",
        "INTERRUPTED",
        "INTERNAL_ERROR",
        "INTERNAL_ERROR",
        "NO_TESTS_COLLECTED",
        "UNKNOWN",
        "TIMEOUT",
        "UNKNOWN",
        "TIMEOUT",
        "UNKNOWN",
    ),
    "final_test": (
        None,
        "TESTS_FAILED",
        "INTERRUPTED",
        "INTERNAL_ERROR",
        "INTERNAL_ERROR",
        "NO_TESTS_COLLECTED",
        "UNKNOWN",
        "TIMEOUT",
        "UNKNOWN",
        "TIMEOUT",
        "UNKNOWN",
    ),
}
STAGE_CELLS: Final = tuple(
    (stage, exit_code, expected)
    for stage, row in STAGE_TABLE.items()
    for exit_code, expected in zip(STAGE_COLUMNS, row, strict=True)
)


class RunnerGaveUpError(Exception):
    """Stand for whatever a harness may raise around a stage."""


class PressedTwice(KeyboardInterrupt):
    """Stand for a library's own way to pass Ctrl+C on."""


def test_each_published_code_is_a_member() -> None:
    """Every code of the table is a member whose value, text and JSON are its own name."""
    for code in CODES:
        reason = FailureReason[code]
        assert (reason.value, str(reason), json.dumps(reason)) == (
            code,
            code,
            f'"{code}"',
        )


def test_there_are_no_other_codes() -> None:
    """The fifteen codes are all there are, and none of them stands for success."""
    assert {reason.name for reason in FailureReason} == set(CODES)
    assert len(FailureReason) == 15


def test_precedence() -> None:
    """Every code has the precedence number that the table gives it."""
    assert (
        tuple((FailureReason[code].precedence, code) for _, code in PRECEDENCE)
        == PRECEDENCE
    )


def test_the_lower_precedence_number_is_primary() -> None:
    """Of any two reasons the one with the lower number is the primary one, in either order."""
    for (rank, code), (other_rank, other_code) in product(PRECEDENCE, repeat=2):
        expected = FailureReason[code if rank <= other_rank else other_code]
        pair = (FailureReason[code], FailureReason[other_code])
        assert primary_reason(pair) is expected, pair
        assert primary_reason(reversed(pair)) is expected, pair


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        pytest.param([], None, id="nothing"),
        pytest.param([None], None, id="one-success"),
        pytest.param([None, None], None, id="successes"),
        pytest.param([None, "UNKNOWN"], "UNKNOWN", id="success-beside-the-last"),
        pytest.param(
            ["TESTS_FAILED", None, "SETUP_FAILED"], "SETUP_FAILED", id="success-between"
        ),
        pytest.param(["TIMEOUT", "TIMEOUT"], "TIMEOUT", id="twice-the-same"),
        pytest.param(CODES, "GIT_CLONE_FAILED", id="all"),
    ],
)
def test_success_counts_for_nothing_among_reasons(
    reasons: list[str | None], expected: str | None
) -> None:
    """`None` stands for success and never hides a failure; of nothing but successes comes none."""
    held = iter(
        [None if reason is None else FailureReason[reason] for reason in reasons]
    )
    assert primary_reason(held) == expected


def test_pytest_exit_codes() -> None:
    """Every exit code of the table has the reason that stands beside it."""
    assert tuple(
        (code, FailureReason.from_pytest_exit_code(code))
        for code, _ in PYTEST_EXIT_CODES
    ) == (PYTEST_EXIT_CODES)


def test_other_exit_codes_are_unknown() -> None:
    """An exit code that the table does not list is UNKNOWN, a signal's 128 + n included."""
    found = {
        code: FailureReason.from_pytest_exit_code(code) for code in OTHER_EXIT_CODES
    }
    assert found == dict.fromkeys(OTHER_EXIT_CODES, FailureReason.UNKNOWN)


def test_stage_and_exit_code() -> None:
    """Stage and exit code together have the reason of the stage-aware mapping."""
    for stage, exit_code, expected in STAGE_CELLS:
        assert FailureReason.from_stage(stage, exit_code) == expected, (
            stage,
            exit_code,
        )
        assert FailureReason.from_stage(Stage(stage), exit_code) == expected, (
            stage,
            exit_code,
        )


def test_the_stage_table_is_complete() -> None:
    """The six stages are all there are, in the order of an attempt."""
    assert tuple(STAGE_TABLE) == STAGES
    assert tuple(stage.value for stage in Stage) == STAGES


@pytest.mark.parametrize(
    ("exception", "expected"),
    [
        pytest.param(KeyboardInterrupt(), "INTERRUPTED", id="ctrl-c"),
        pytest.param(KeyboardInterrupt, "INTERRUPTED", id="ctrl-c-by-type"),
        pytest.param(PressedTwice(), "INTERRUPTED", id="subclass-of-ctrl-c"),
        pytest.param(RunnerGaveUpError("no"), "UNKNOWN", id="error"),
        pytest.param(RunnerGaveUpError, "UNKNOWN", id="error-by-type"),
        pytest.param(TimeoutError(), "UNKNOWN", id="timeout-error"),
        pytest.param(SystemExit(2), "UNKNOWN", id="system-exit"),
    ],
)
def test_an_exception_decides_before_the_exit_code(
    exception: BaseException | type[BaseException], expected: str
) -> None:
    """An exception comes first in every stage: Ctrl+C is INTERRUPTED, all else UNKNOWN."""
    for cell in product(STAGES, (0, 1, 2, 124, 137)):
        assert FailureReason.from_stage(*cell, exception) == expected, cell
        assert FailureReason.from_stage(*cell, exception=exception) == expected, cell


def test_a_time_limit_decides_before_the_stage() -> None:
    """124 and 137 come second: SETUP_TIMEOUT in the setup, TIMEOUT in every other stage."""
    for stage, exit_code in product(STAGES, (124, 137)):
        expected = "SETUP_TIMEOUT" if stage == "setup" else "TIMEOUT"
        assert FailureReason.from_stage(stage, exit_code) == expected, (
            stage,
            exit_code,
        )


@pytest.mark.parametrize(
    ("exit_code", "stage", "expected"),
    [
        pytest.param(1, "baseline_run", None, id="valid-baseline"),
        pytest.param(0, "baseline_run", "BASELINE_NOT_FAILING", id="invalid-task"),
        pytest.param(1, "setup", "SETUP_FAILED", id="pip-install-fails"),
        pytest.param(124, "setup", "SETUP_TIMEOUT", id="setup-takes-too-long"),
        pytest.param(124, "agent_run", "TIMEOUT", id="tests-hang"),
        pytest.param(128, "git_clone", "GIT_CLONE_FAILED", id="bad-git-url"),
        pytest.param(124, "git_clone", "TIMEOUT", id="git-clone-hangs"),
    ],
)
def test_scenario(exit_code: int, stage: str, expected: str | None) -> None:
    """Every scenario that names an exit code and a stage ends as the table says."""
    assert FailureReason.from_stage(stage, exit_code) == expected


def test_scenario_user_presses_ctrl_c() -> None:
    """Ctrl+C with exit code 2 is INTERRUPTED in any stage, said by the exception argument."""
    found = {
        FailureReason.from_stage(stage, 2, KeyboardInterrupt()) for stage in STAGES
    }
    assert found == {FailureReason.INTERRUPTED}


@pytest.mark.parametrize("stage", [stage.value for stage in Stage])
def test_scenario_docker_fails_to_start(stage: str) -> None:
    """Docker that does not start is SANDBOX_ERROR in any stage, unless pytest answered 0.

    Then a rerun or a plugin has made up for it, and a green run has no verdict; but a baseline has.
    """
    docker = RaisedException(
        type="DockerException",
        module="docker.errors",
        message="Error while fetching server API version: Connection refused",
        bases=(
            "docker.errors.DockerException",
            "builtins.Exception",
            "builtins.BaseException",
        ),
    )
    failure = TestFailure(
        nodeid="test_box.py::test_in_a_container",
        phase="setup",
        message="docker.errors.DockerException: Error while fetching server API version",
        exception=docker,
        attributed=Attribution(
            reason=FailureReason.SANDBOX_ERROR, kind="sandbox.docker", source="hook"
        ),
    )
    for exit_code in (0, 1, 2, 3, 4, 5, 124, 125, 137, 139):
        run = RunEvidence(
            stage=Stage(stage),
            exit=ProcessExit(code=exit_code, source="pytest"),
            failures=(failure,),
        )
        verdict = judge(run).verdict
        if exit_code == 0 and stage != Stage.BASELINE_RUN:
            assert verdict is None
        else:
            assert verdict is not None, exit_code
            assert (verdict.reason, verdict.kind) == (
                "SANDBOX_ERROR",
                "sandbox.docker",
            ), exit_code


def test_usage_example_pytest_exit_code() -> None:
    """The published call for a pytest exit code gives what is published for it."""
    assert FailureReason.from_pytest_exit_code(1) is FailureReason.TESTS_FAILED


def test_usage_example_setup_fails() -> None:
    """The published call for a failing setup gives what is published for it."""
    assert FailureReason.from_stage("setup", 1) is FailureReason.SETUP_FAILED


def test_usage_example_setup_timeout() -> None:
    """The published call for a setup that takes too long gives what is published for it."""
    assert FailureReason.from_stage("setup", 124) is FailureReason.SETUP_TIMEOUT


def test_usage_example_valid_baseline() -> None:
    """The published call for a valid baseline gives what is published for it."""
    assert FailureReason.from_stage("baseline_run", 1) is None


def test_usage_example_precedence() -> None:
    """The published comparison by precedence picks the primary reason."""
    reason1, reason2 = FailureReason.SETUP_FAILED, FailureReason.TESTS_FAILED
    primary = reason1 if reason1.precedence < reason2.precedence else reason2
    assert primary is FailureReason.SETUP_FAILED
    assert primary is primary_reason([reason2, reason1])


def test_settled_codes_are_unknown_where_tests_run() -> None:
    """The codes that are settled as UNKNOWN are so by both tables, -9 as it stands included."""
    for exit_code in (-9, 6, 7, 125, 130, 139, 143):
        assert FailureReason.from_pytest_exit_code(exit_code) is FailureReason.UNKNOWN
        for stage in ("agent_run", "final_test"):
            assert (
                FailureReason.from_stage(stage, exit_code) is FailureReason.UNKNOWN
            ), exit_code


def test_settled_setup_with_exit_code_2() -> None:
    """Exit code 2 of a setup is no Ctrl+C: without an exception it is SETUP_FAILED."""
    assert FailureReason.from_stage("setup", 2) is FailureReason.SETUP_FAILED


def test_settled_baseline_without_tests() -> None:
    """A baseline in which nothing was collected is valid by the table."""
    assert FailureReason.from_stage("baseline_run", 5) is None


@pytest.mark.parametrize(
    "stage", ["deploy", "", "SETUP", "Setup", " setup", "final-test", "call"]
)
@pytest.mark.parametrize(
    "exception", [None, KeyboardInterrupt()], ids=["plain", "ctrl-c"]
)
def test_settled_unknown_stage(stage: str, exception: BaseException | None) -> None:
    """An unknown stage raises a ValueError that names it and the six, exception or not."""
    with pytest.raises(ValueError, match="unknown stage") as caught:
        FailureReason.from_stage(stage, 0, exception)
    assert repr(stage) in str(caught.value)
    for known in STAGES:
        assert known in str(caught.value)


@pytest.mark.parametrize(
    ("returncode", "exit_code", "expected"),
    [
        pytest.param(-1, 129, "UNKNOWN", id="SIGHUP"),
        pytest.param(-2, 130, "UNKNOWN", id="SIGINT"),
        pytest.param(-6, 134, "UNKNOWN", id="SIGABRT"),
        pytest.param(-9, 137, "TIMEOUT", id="SIGKILL"),
        pytest.param(-11, 139, "UNKNOWN", id="SIGSEGV"),
        pytest.param(-15, 143, "UNKNOWN", id="SIGTERM"),
        pytest.param(0, 0, None, id="success"),
        pytest.param(1, 1, "TESTS_FAILED", id="no-signal"),
        pytest.param(124, 124, "TIMEOUT", id="gnu-timeout"),
        pytest.param(137, 137, "TIMEOUT", id="already-as-a-shell-says"),
    ],
)
def test_settled_negative_return_codes(
    returncode: int, exit_code: int, expected: str | None
) -> None:
    """A return code -n becomes 128 + n before a table is asked; others stay as they are."""
    assert exit_code_from_returncode(returncode) == exit_code
    assert FailureReason.from_pytest_exit_code(exit_code) == expected
