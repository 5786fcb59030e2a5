"""How often systems pass, and what of that is not their own doing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from pytest_failure_taxonomy.errors import HistoryError
from pytest_failure_taxonomy.history import History
from pytest_failure_taxonomy.history.questions import Wanted
from pytest_failure_taxonomy.history.rates import compare_systems, count_rates
from pytest_failure_taxonomy.taxonomy.evidence import Attempt
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.past_runs import a_report

HOWS = ("left out", "passed")
_numbers = count(1)


def add(
    history: History, task: str, system: str, end: str | None, **given: Any
) -> None:
    """Add a trial: of whom its failure is charged to, `passed`, or `None` for an old report."""
    report = a_report(
        next(_numbers), test_a="passed" if end == "passed" else "failed", **given
    )
    if report.verdict is not None:
        charged: Any = end
        verdict = replace(report.verdict, charge_to=charged)
        report = replace(report, verdict=verdict)
    history.add(replace(report, attempt=Attempt(subtask=task, approach=system)))


def fill(history: History, **ends: Sequence[str | None]) -> None:
    """Add a trial of each system at each of the tasks 0, 1 and so on."""
    for system, each in ends.items():
        for task, end in enumerate(each):
            add(history, str(task), system, end)


# The bounds are those of scipy.stats.binomtest(passed, trials).proportion_ci(method="exact").
@pytest.mark.parametrize(
    ("ends", "bounds", "without", "at_most"),
    [
        (
            6 * ["passed"] + 4 * ["subject"],
            (0.262378, 0.878447),
            (0.6, 0.262378, 0.878447),
            0.6,
        ),
        (
            ["passed"] * 6 + ["environment"] * 3 + ["verifier"],
            (0.262378, 0.878447),
            (1.0, 0.540742, 1.0),
            1.0,
        ),
        (
            [
                *4 * ["passed"],
                *2 * ["environment"],
                "ambiguous",
                None,
                *2 * ["subject"],
            ],
            (0.121552, 0.737622),
            (0.5, 0.157013, 0.842987),
            0.8,
        ),
        (5 * ["subject"], (0.0, 0.521824), (0.0, 0.0, 0.521824), 0.0),
        (["environment"], (0.0, 0.975), (None, None, None), 1.0),
    ],
)
def test_the_rate_of_a_system(
    history: History,
    ends: list[str | None],
    bounds: tuple[float, float],
    without: tuple[float | None, ...],
    at_most: float,
) -> None:
    """It has exact bounds, with all failures and without those that are surely not its own."""
    fill(history, agent=ends)
    (row,) = count_rates(history)
    assert (row.task, row.system, row.trials) == (None, "agent", len(ends))
    assert row.passed == ends.count("passed")
    assert row.unknown == ends.count(None)
    for name in ("subject", "environment", "verifier", "ambiguous"):
        assert getattr(row, name) == ends.count(name)
    assert (row.low, row.high) == pytest.approx(bounds, abs=1e-6)
    found = (row.rate_without, row.low_without, row.high_without)
    assert found == pytest.approx(without, abs=1e-6)
    assert row.at_most == pytest.approx(at_most)


def test_trials_of_one_task_tell_less_of_other_tasks(history: History) -> None:
    """A system's bounds are those of its tasks, however often each was tried."""
    for task in range(6):
        for _ in range(5):
            add(history, str(task), "agent", "passed" if task < 3 else "subject")
    (row,) = count_rates(history)
    # As of 3 of 6, and not of 15 of 30, which would be 0.313 to 0.687.
    assert (row.low, row.high) == pytest.approx((0.118117, 0.881883), abs=1e-6)
    tasks = count_rates(history, by="task", limit=4)
    assert [(each.task, each.system, each.rate) for each in tasks] == [
        ("0", None, 1.0),
        ("1", None, 1.0),
        ("2", None, 1.0),
        ("3", None, 0.0),
    ]
    assert tasks[0].low == pytest.approx(0.478176, abs=1e-6)
    both = count_rates(history, Wanted(project="shop"), by="both", limit=1)
    assert (both[0].task, both[0].system, both[0].trials) == ("0", "agent", 5)
    assert count_rates(history, Wanted(project="farm")) == []


def test_without_scipy_there_are_rates_and_no_bounds(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra of the history doesn't bring it."""
    fill(history, agent=["passed", "subject"])
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    (row,) = count_rates(history)
    assert (row.rate, row.low, row.high) == (0.5, None, None)


def test_what_the_environment_explains(history: History) -> None:
    """It explains all of a difference that is gone without it."""
    fill(
        history,
        first=["passed"] * 8 + ["environment"] * 6 + ["subject"] * 6,
        second=["passed"] * 14 + ["subject"] * 6,
    )
    plain, left_out, passed, low, high = compare_systems(
        history, first="first", second="second"
    )
    assert (plain.charged_to, plain.counted, plain.tasks) == (None, "failed", 20)
    assert (plain.first_failures, plain.second_failures) == (12, 6)
    assert plain.difference == pytest.approx(0.3)
    assert plain.low is not None
    assert 0 < plain.low < 0.3
    assert (plain.explained, plain.share) == (None, None)
    assert (left_out.counted, left_out.tasks) == ("left out", 14)
    assert (left_out.first_failures, left_out.second_failures) == (6, 0)
    assert (left_out.difference, left_out.explained_low) == (0.0, None)
    assert (passed.counted, passed.tasks, passed.difference) == ("passed", 20, 0.0)
    for row in (left_out, passed):
        assert (row.explained, row.share) == pytest.approx((0.3, 1.0))
    # That six of twenty trials failed by the environment is itself no certain figure.
    assert (passed.explained_low, passed.explained_high) == (plain.low, plain.high)
    assert (low.counted, low.difference, low.share) == ("first passed", 0.0, None)
    assert (high.counted, high.share) == ("second passed", None)
    assert high.difference == pytest.approx(0.3)


def test_each_charge_and_all_of_them(history: History) -> None:
    """Each is counted in two ways, all of them together in four."""
    fill(
        history,
        a=["verifier", "ambiguous", None, "passed", "subject", "passed"],
        b=["passed", "passed", "passed", "passed", "passed", "passed"],
    )
    rows = compare_systems(history, first="a", second="b")
    assert [(row.charged_to, row.counted) for row in rows] == [
        (None, "failed"),
        *(
            (name, how)
            for name in ("verifier", "ambiguous", "unknown", "all")
            for how in HOWS
        ),
        ("all", "first passed"),
        ("all", "second passed"),
    ]
    assert all(row.share is None for row in rows)  # four of six may be chance
    assert rows[-3].difference == pytest.approx(1 / 6)
    assert (rows[-3].first_failures, rows[-3].second_failures) == (3, 0)


def test_a_lack_of_tasks_is_told(history: History) -> None:
    """Only tasks that both have tried are compared, and a few prove nothing."""
    fill(history, a=["passed", "environment"], b=["passed", "passed", "passed"])
    add(history, "other", "c", "passed")
    rows = compare_systems(history, first="a", second="b")
    assert (rows[0].tasks, rows[0].only_first, rows[0].only_second) == (2, 0, 1)
    assert (rows[0].low, rows[0].method) == (None, "none: fewer than 5 cases")
    with pytest.raises(
        HistoryError, match="a, c: no task was tried by both; give two systems"
    ):
        compare_systems(history, first="a", second="c")
    with pytest.raises(
        HistoryError, match="d: this system has no trial; systems with trials: a, b, c"
    ):
        compare_systems(history, first="a", second="d")
