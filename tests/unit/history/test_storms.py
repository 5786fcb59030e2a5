"""A run that the environment failed as a whole tells nothing of its tests, on each database."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_failure_taxonomy.history import History, open_history
from pytest_failure_taxonomy.history.questions import find_flaky, list_runs, states_of
from pytest_failure_taxonomy.history.recording import ask_history
from pytest_failure_taxonomy.history.tables import storm_of
from pytest_failure_taxonomy.report.model import FailureReport
from tests.helpers.past_runs import TEST, a_mixed_report

REFUSED = "ConnectionRefusedError: [Errno 111] Connection refused"
WRONG = "AssertionError: assert 1 == 2"


def a_run(
    number: int, *, refused: int = 0, wrong: int = 0, tests: int = 20, **given: Any
) -> FailureReport:
    """Return the report of a run: some tests can't connect, some more are wrong, others pass."""
    raised = [REFUSED] * refused + [WRONG] * wrong + [None] * (tests - refused - wrong)
    named = {f"test_{place}": each for place, each in enumerate(raised)}
    return a_mixed_report(number, named, **given)


@pytest.mark.parametrize(
    ("given", "tests"),
    [
        ({"refused": 20}, 20),
        ({"refused": 11, "wrong": 9}, 11),
        ({"refused": 10}, 0),  # half of them is not most
        ({"refused": 9, "tests": 9}, 0),  # too few to tell it from chance
        ({"refused": 10, "tests": 10}, 10),
        ({"wrong": 20}, 0),  # the code may be wrong
        ({}, 0),
    ],
)
def test_what_a_storm_is(given: dict[str, Any], tests: int) -> None:
    """More than half of the tests, ten at least, failed of one cause of the environment."""
    cause, count = storm_of(a_run(1, **given))
    assert count == tests
    assert (cause is not None) == bool(tests)


def test_storms_are_left_out_of_rates(history: History) -> None:
    """Neither its failures nor its passes count, and it is listed as a storm."""
    for number in range(1, 13):
        wrong = number % 4 == 0
        refused = 15 if number in (5, 9) else 0
        history.add(a_run(number, wrong=int(wrong), refused=refused, commit="c" * 40))
    rows = find_flaky(history)
    assert [(row.nodeid, row.failures, row.runs) for row in rows] == [
        (f"{TEST}test_0", 3, 10)
    ]
    storms = list_runs(history, storms=True)
    assert [(int(run.id, 16), run.storm_tests) for run in storms] == [(9, 15), (5, 15)]
    assert storms[0].storm.startswith("the connection was refused")
    assert [run.storm_tests for run in list_runs(history, limit=5)] == [
        None,
        None,
        None,
        15,
        None,
    ]


def test_what_only_storms_had_is_new_to_other_runs(history: History) -> None:
    """To another storm it is known; what failed beside it is known to all."""
    history.add(a_run(1))
    history.add(a_run(2, refused=15, wrong=2))

    def states(**given: Any) -> dict[str, tuple[str, int]]:
        report = a_run(30, **given)
        titles = {group.fingerprint: group.title[:10] for group in report.groups}
        found = states_of(history, report)
        return {
            titles[name]: (state.state, state.runs) for name, state in found.items()
        }

    known, new = ("known", 1), ("new", 0)
    assert states(refused=1, wrong=1) == {REFUSED[:10]: new, WRONG[:10]: known}
    assert states(refused=15) == {REFUSED[:10]: known}
    history.add(a_run(3, refused=1))
    assert states(refused=1) == {REFUSED[:10]: known}


def test_a_recorded_run_is_a_storm(history_url: str) -> None:
    """A run that is recorded at its end is one, too."""
    report = a_run(1, refused=12)
    assert ask_history(report, history_url).problem == ""
    with open_history(history_url) as history:
        assert [run.storm_tests for run in list_runs(history, storms=True)] == [12]
