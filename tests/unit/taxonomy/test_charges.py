"""Whom a failure is charged to in a score."""

from __future__ import annotations

import re
from typing import Any, Final, get_args

import pytest

from pytest_failure_taxonomy.taxonomy.causes import gather_causes, join_causes
from pytest_failure_taxonomy.taxonomy.charges import charge_of, charges, one_charge
from pytest_failure_taxonomy.taxonomy.evidence import Attribution, Counts, ProcessExit
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.judgement import (
    CauseOwner,
    ChargedTo,
    CodeOwner,
    FailureReason,
    Finding,
    Stage,
    known_kinds,
)
from tests.helpers.reports import make_failure, make_run

CASES: Final[tuple[Any, ...]] = (
    # kind, reason, stage, owner, raised, charged to
    ("test.failed", "TESTS_FAILED", "final_test", "test", "AssertionError", "subject"),
    ("test.failed", "TESTS_FAILED", "final_test", "project", "KeyError", "subject"),
    ("test.failed", "TESTS_FAILED", "final_test", None, "", "subject"),
    ("integrity.exit_status", "TESTS_FAILED", "final_test", None, "", "subject"),
    (
        "test.failed",
        "TESTS_FAILED",
        "baseline_run",
        "test",
        "AssertionError",
        "verifier",
    ),
    ("test.failed", "TESTS_FAILED", "setup", "test", "AssertionError", "environment"),
    ("test.failed", "TESTS_FAILED", "agent_run", "test", "AssertionError", "subject"),
    (
        "test.failed",
        "TESTS_FAILED",
        "final_test",
        "environment",
        "OSError",
        "environment",
    ),
    (
        "test.failed",
        "TESTS_FAILED",
        "final_test",
        "plugin",
        "rubric.timeout",
        "verifier",
    ),
    (
        "test.failed",
        "TESTS_FAILED",
        "final_test",
        "plugin",
        "RateLimitError",
        "environment",
    ),
    (
        "test.setup_error",
        "TESTS_FAILED",
        "final_test",
        "test",
        "FixtureLookupError",
        "verifier",
    ),
    (
        "test.setup_error",
        "TESTS_FAILED",
        "final_test",
        "plugin",
        "KeyError",
        "verifier",
    ),
    (
        "test.setup_error",
        "TESTS_FAILED",
        "final_test",
        "conftest",
        "TypeError",
        "ambiguous",
    ),
    (
        "test.setup_error",
        "TESTS_FAILED",
        "final_test",
        "project",
        "TypeError",
        "subject",
    ),
    ("test.failed", "TESTS_FAILED", "final_test", None, "simulated", "subject"),
    ("test.setup_error", "TESTS_FAILED", "final_test", "test", "simulated", "verifier"),
    ("test.failed", "TESTS_FAILED", "final_test", "test", "of_run", "verifier"),
    ("test.xpass_strict", "TESTS_FAILED", "final_test", None, "", "verifier"),
    ("test.crashed", "TESTS_FAILED", "final_test", None, "", "ambiguous"),
    ("test.timeout", "TIMEOUT", "final_test", "test", "Failed", "ambiguous"),
    ("test.timeout", "TIMEOUT", "final_test", "project", "Failed", "subject"),
    ("process.timeout", "TIMEOUT", "final_test", None, "", "ambiguous"),
    ("process.timeout", "TIMEOUT", "agent_run", None, "", "subject"),
    ("process.killed", "TIMEOUT", "final_test", None, "", "ambiguous"),
    ("process.oom", "SANDBOX_ERROR", "final_test", None, "", "ambiguous"),
    ("process.oom", "SANDBOX_ERROR", "setup", None, "", "environment"),
    ("worker.crashed", "SANDBOX_ERROR", "final_test", None, "", "ambiguous"),
    ("process.terminated", "INTERRUPTED", "agent_run", None, "", "environment"),
    ("interrupt.exit", "INTERRUPTED", "final_test", None, "", "ambiguous"),
    ("coverage.failed", "TESTS_FAILED", "final_test", None, "", "ambiguous"),
    (
        "collection.error",
        "INTERNAL_ERROR",
        "final_test",
        "test",
        "SyntaxError",
        "verifier",
    ),
    (
        "collection.error",
        "INTERNAL_ERROR",
        "final_test",
        "test",
        "ImportError",
        "ambiguous",
    ),
    (
        "collection.error",
        "INTERNAL_ERROR",
        "final_test",
        "project",
        "SyntaxError",
        "subject",
    ),
    (
        "conftest.error",
        "INTERNAL_ERROR",
        "final_test",
        "conftest",
        "relative",
        "verifier",
    ),
    ("usage.error", "INTERNAL_ERROR", "final_test", None, "", "verifier"),
    ("usage.error", "INTERNAL_ERROR", "agent_run", None, "", "subject"),
    ("tests.none_collected", "NO_TESTS_COLLECTED", "final_test", None, "", "verifier"),
    ("tests.none_run", "NO_TESTS_COLLECTED", "final_test", None, "", "ambiguous"),
    ("sandbox.docker", "SANDBOX_ERROR", "agent_run", None, "", "environment"),
    ("llm.rate_limited", "LLM_ERROR", "agent_run", "dependency", "", "environment"),
    ("llm.authentication", "LLM_ERROR", "agent_run", "dependency", "", "verifier"),
    ("llm.context_exceeded", "LLM_ERROR", "agent_run", None, "", "subject"),
    ("llm.bad_request", "LLM_ERROR", "agent_run", None, "", "ambiguous"),
    ("tool.syntax", "TOOL_ERROR", "final_test", None, "", "verifier"),
    ("tool.command_missing", "TOOL_ERROR", "final_test", None, "", "environment"),
    ("tool.git", "TOOL_ERROR", "final_test", None, "", "ambiguous"),
    ("git.clone_failed", "GIT_CLONE_FAILED", "git_clone", None, "", "environment"),
    (
        "git.checkout_failed",
        "GIT_CHECKOUT_FAILED",
        "git_checkout",
        None,
        "",
        "verifier",
    ),
    ("git.checkout_failed", "GIT_CHECKOUT_FAILED", "final_test", None, "", "ambiguous"),
    ("stage.setup_failed", "SETUP_FAILED", "setup", None, "", "environment"),
    (
        "stage.baseline_not_failing",
        "BASELINE_NOT_FAILING",
        "baseline_run",
        None,
        "",
        "verifier",
    ),
    ("marker.max_turns", "AGENT_GAVE_UP", "agent_run", None, "", "subject"),
    ("bench.gate", "TESTS_FAILED", "final_test", None, "", "subject"),
    ("bench.lost", "TESTS_FAILED", "final_test", None, "", "ambiguous"),
    (
        *("bench.lost", "TESTS_FAILED", "final_test", None),
        *("CaseLostToEnvironmentError", "environment"),
    ),
    ("shard.missing", "UNKNOWN", "final_test", None, "", "environment"),
    ("rule.interrupted", "INTERRUPTED", "final_test", None, "", "environment"),
    (
        "rule.no_tests_collected",
        "NO_TESTS_COLLECTED",
        "final_test",
        None,
        "",
        "verifier",
    ),
    ("rule.tests_failed", "TESTS_FAILED", "final_test", "test", "", "subject"),
    ("rule.timeout", "TIMEOUT", "final_test", None, "", "ambiguous"),
)


@pytest.mark.parametrize(
    ("kind", "reason", "stage", "owner", "raised", "charge_to"), CASES
)
def test_whom_it_is_charged_to(
    kind: str, reason: str, stage: str, owner: Any, raised: str, charge_to: str
) -> None:
    """The first row that fits decides."""
    assert (
        charge_of(kind, FailureReason(reason), Stage(stage), owner, raised) == charge_to
    )


CALLED_BY_PROJECT: Final[tuple[Any, ...]] = (
    "collection.error",
    FailureReason.INTERNAL_ERROR,
    Stage.FINAL_TEST,
    "dependency",
    "PydanticUserError",
    "project",
)


def test_a_library_that_refuses_what_the_project_asks() -> None:
    """Whose line called it decides while a test file is loaded, not that it was loaded."""
    assert charge_of(*CALLED_BY_PROJECT) == "subject"
    by_test = (*CALLED_BY_PROJECT[:-1], "test")
    assert charge_of(*by_test) == "verifier"


def test_each_row_decides_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """None stands behind one that takes all it could say."""
    numbered = [{**row, "charge_to": number} for number, row in enumerate(charges())]
    monkeypatch.setattr(
        "pytest_failure_taxonomy.taxonomy.charges.charges", lambda: numbered
    )
    decided: set[Any] = {
        charge_of(kind, FailureReason(reason), Stage(stage), owner, raised)
        for kind, reason, stage, owner, raised, _ in CASES
    }
    decided.add(charge_of(*CALLED_BY_PROJECT))
    assert decided == set(range(len(numbered)))


def test_a_row_names_what_there_is() -> None:
    """Reasons, stages and owners are known; each says why; the last one is about anything."""
    owners = (*get_args(CodeOwner), "environment")
    assert set(owners) == {
        each for part in get_args(CauseOwner) for each in get_args(part) or [part]
    }
    for row in charges():
        assert set(row) <= {
            "kinds",
            "reasons",
            "stages",
            "owners",
            "raised",
            "callers",
            "charge_to",
            "why",
        }
        assert row["charge_to"] in get_args(ChargedTo)
        assert set(row.get("reasons", "").split()) <= {*FailureReason}
        assert set(row.get("stages", "").split()) <= {*Stage}
        assert set(row.get("owners", "").split()) <= {*owners}
        assert set(row.get("callers", "").split()) <= {*owners}
        assert row["why"]
    assert set(charges()[-1]) == {"charge_to", "why"}


def test_every_kind_is_thought_of() -> None:
    """No kind of ours comes down to the last row, or to those that go by the reason alone."""
    named = {each for row in charges() for each in row.get("kinds", "").split()}
    rows = {
        *named,
        *(kind for kind in known_kinds() if f"{kind.partition('.')[0]}.*" in named),
    }
    by_stage = {kind for kind in known_kinds() if kind.startswith("stage.setup_")}
    assert set(known_kinds()) - rows == by_stage
    assert all(re.fullmatch(r"[a-z_]+\.([a-z_]+|\*)", each) for each in named)


def test_one_for_several() -> None:
    """Two that differ are ambiguous; what was not asked says nothing."""
    assert one_charge(["subject", "subject"]) == "subject"
    assert one_charge(["subject", None]) == "subject"
    assert one_charge(["subject", "verifier"]) == "ambiguous"
    assert one_charge([None]) is None


def said(charge_to: str | None) -> Attribution:
    """Return what a rule says."""
    reason = FailureReason.TESTS_FAILED
    return Attribution(reason=reason, kind="test.x", source="rule", charge_to=charge_to)


def test_a_rule_decides_over_the_table() -> None:
    """For the failures that it matches; a cause of others besides is ambiguous."""
    for rules, charge_to in (
        (["environment"], "environment"),
        ([None], "subject"),
        (["verifier", None], "ambiguous"),
    ):
        failures = [
            make_failure(nodeid=f"t.py::{number}", attributed=said(rule))
            for number, rule in enumerate(rules)
        ]
        run = make_run(
            failures=failures, counts=Counts(collected=3, failed=len(failures))
        )
        judgement = judge(run)
        assert [each.charge_to for each in judgement.causes] == [charge_to]
        assert judgement.verdict is not None
        assert judgement.verdict.charge_to == charge_to


def test_the_verdict_is_charged_to_whom_all_causes_are() -> None:
    """A crash after failures explains nothing of them, and nobody can tell whose it is."""
    run = make_run(
        failures=(make_failure(),),
        counts=Counts(collected=3, failed=1),
        exit=ProcessExit(code=139, source="watcher", signal="SIGSEGV", observed=True),
        finished=False,
    )
    judgement = judge(run)
    charged = {cause.kind: cause.charge_to for cause in judgement.causes}
    assert charged == {"process.crashed": "ambiguous", "test.failed": "subject"}
    assert judgement.verdict is not None
    assert judgement.verdict.charge_to == "ambiguous"


def test_a_cause_of_several_stages() -> None:
    """Each run has charged it by its own stage."""
    found = Finding(
        reason=FailureReason.TESTS_FAILED, kind="test.failed", source="x", detail="x"
    )
    runs = [gather_causes([found], stage) for stage in (Stage.SETUP, Stage.FINAL_TEST)]
    assert [cause.charge_to for run in runs for cause in run] == [
        "environment",
        "subject",
    ]
    assert [cause.charge_to for cause in join_causes(sum(runs, ()))] == ["ambiguous"]
