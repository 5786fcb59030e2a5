"""What a history says of the causes of a run, and what that means for a retry."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_failure_taxonomy.history import VERDICT
from pytest_failure_taxonomy.history.recording import amendment_of
from pytest_failure_taxonomy.report.amend import amend
from pytest_failure_taxonomy.report.load import decode_report
from pytest_failure_taxonomy.report.model import CODEC
from pytest_failure_taxonomy.report.summary import summarise
from pytest_failure_taxonomy.taxonomy.evidence import Interruption, RaisedException
from pytest_failure_taxonomy.taxonomy.judgement import GroupHistory
from tests.helpers.reports import (
    NO_HISTORY,
    assert_valid_report,
    make_failure,
    make_report,
    make_run,
)


def a_report(*names: str, **seen: Any) -> dict[str, Any]:
    """Return the report of a run in which tests failed, two of each name, by one cause a name."""
    failures = [
        make_failure(
            nodeid=f"t.py::test_{name}_{number}",
            exception=RaisedException(
                type=f"{name.title()}Error", module="app", message=name
            ),
        )
        for name in names
        for number in range(2)
    ]
    return make_report(make_run(failures=tuple(failures), **seen))


def a_state(state: str, runs: int = 1) -> dict[str, Any]:
    """Return what a history says of one group."""
    first_seen = None if state == "new" else f"2026-11-0{runs}T00:00:00Z"
    return {**NO_HISTORY, "state": state, "first_seen": first_seen, "runs": runs}


def amend_by(report: dict[str, Any], states: dict[str, Any]) -> None:
    """Write into a report what a history says of it."""
    histories = {
        name: CODEC.decode(GroupHistory, state) for name, state in states.items()
    }
    decoded = decode_report(report)
    amendment = amendment_of(decoded, histories, {})
    report.update(CODEC.encode(amend(decoded, amendment)))


def told(
    report: dict[str, Any], **states: str
) -> list[tuple[str, str | None, bool | None]]:
    """Let a history say something of groups, by names; return what is said of the causes."""
    by_fingerprint = {
        group["fingerprint"]: a_state(states[name])
        for group in report["groups"]
        for name in states
        if f"test_{name}_0" in group["nodeids"][0]
    }
    amend_by(report, by_fingerprint)
    assert_valid_report(report)
    return [
        (
            each["what"].partition("Error")[0],
            (each["history"] or {}).get("state"),
            each["retryable"],
        )
        for each in report["causes"]
    ]


def test_what_is_new_comes_first_and_what_is_flaky_last() -> None:
    """A failure that was there before is no news."""
    report = a_report("a", "b", "c", "d")
    assert told(report, a="flaky", b="known", c="came_back", d="new") == [
        ("D", "new", False),
        ("C", "came_back", False),
        ("B", "known", False),
        ("A", "flaky", True),
    ]
    assert (report["verdict"]["retryable"], report["verdict"]["recovery_action"]) == (
        False,
        "escalate",
    )


def test_what_has_changed_is_said_below_its_cause() -> None:
    """In the words for people it stands in one line; nothing is said where nothing changed."""
    report = a_report("a", "b")
    changes = [["numpy 2.3.1 -> 2.4.0", "+ new 1.0"], []]
    states = {
        group["fingerprint"]: {**a_state("new"), "distributions_changed": changed}
        for group, changed in zip(report["groups"], changes, strict=True)
    }
    amend_by(report, states)
    below = [cause.below for cause in summarise(decode_report(report)).causes]
    assert below == [("since the last pass: numpy 2.3.1 -> 2.4.0, + new 1.0",), ()]


def test_a_retry_can_help_where_every_cause_is_flaky() -> None:
    """Each failed test is known to pass now and then."""
    report = a_report("a", "b")
    assert report["verdict"]["retryable"] is False
    told(report, a="flaky", b="flaky")
    verdict = report["verdict"]
    assert (verdict["retryable"], verdict["recovery_action"]) == (True, "retry")
    assert verdict["nodeid"] == "t.py::test_a_0"


@pytest.mark.parametrize(
    ("states", "state", "runs"),
    [
        (("new", "known"), "known", 2),
        (("new", "came_back"), "came_back", 2),
        (("known", "flaky"), "known", 2),
        (("flaky", "flaky"), "flaky", 2),
        (("new", "flaky"), "new", 2),
    ],
)
def test_a_cause_of_several_groups_is_as_old_as_the_oldest(
    states: tuple[str, str], state: str, runs: int
) -> None:
    """It is known if one of its groups is, and flaky only if all are."""
    report = a_report("a", "b")
    cause, other = report["causes"]
    cause["fingerprints"] += other["fingerprints"]
    report["causes"] = [cause]
    said = {
        group["fingerprint"]: a_state(each, runs)
        for runs, (group, each) in enumerate(
            zip(report["groups"], states, strict=True), 1
        )
    }
    amend_by(report, said)
    (cause,) = report["causes"]
    assert (cause["history"]["state"], cause["history"]["runs"]) == (state, runs)
    assert_valid_report(report)


def test_an_ending_has_the_history_of_the_verdict() -> None:
    """No group of failures has it."""
    stop = Interruption(exception="KeyboardInterrupt", message="")
    report = make_report(
        make_run(interruptions=(stop,), exit=make_run(failures=()).exit)
    )
    amend_by(report, {VERDICT: {**a_state("known"), "first_commit": None}})
    assert [each["history"]["state"] for each in report["causes"]] == ["known"]
    assert_valid_report(report)
