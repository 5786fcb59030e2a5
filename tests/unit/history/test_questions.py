"""What the history answers, on each database."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from pytest_failure_taxonomy.errors import HistoryError
from pytest_failure_taxonomy.history import History
from pytest_failure_taxonomy.history.branches import wilson_interval
from pytest_failure_taxonomy.history.questions import (
    Wanted,
    count_periods,
    find_flaky,
    find_new_tests,
    find_since,
    find_since_of_test,
    find_top,
    list_runs,
    prune,
    states_of,
)
from pytest_failure_taxonomy.history.versions import changed_versions
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.past_runs import TEST, a_report

A, B = f"{TEST}test_a", f"{TEST}test_b"


def add(history: History, *reports: FailureReport) -> None:
    """Add reports, each of which has to be new."""
    for report in reports:
        assert history.add(report)


@pytest.fixture
def three_runs(history: History) -> History:
    """Return a history of a pass, a failure on main and two failures on another branch."""
    add(
        history,
        a_report(1, test_a="passed", test_b="passed"),
        a_report(2, failing=(A,)),
        a_report(30, failing=(A, B), branch="feature/[1]_%", project="farm"),
    )
    return history


@pytest.mark.parametrize(
    ("wanted", "runs"),
    [
        ({}, [30, 2, 1]),
        ({"reason": "TESTS_FAILED"}, [30, 2]),
        ({"kind": "test.*"}, [30, 2]),
        ({"kind": "sandbox.*"}, []),
        ({"branch": "main"}, [2, 1]),
        ({"branch": "feature/[1]_%"}, [30]),
        ({"branch": "feature/*_%"}, [30]),
        ({"branch": "feature-*"}, []),
        ({"nodeid": "*test_a"}, [30, 2]),
        ({"nodeid": B}, [30]),
        ({"project": "shop"}, [2, 1]),
        ({"stage": "setup"}, []),
        ({"since": datetime(2026, 11, 1, 2)}, [30, 2]),  # noqa: DTZ001 - UTC, as the tables have it
        ({"until": datetime(2026, 11, 1, 2)}, [1]),  # noqa: DTZ001 - likewise
    ],
)
def test_runs_are_chosen(
    three_runs: History, wanted: dict[str, Any], runs: list[int]
) -> None:
    """Each filter finds what it names, and its special characters are the pattern's alone."""
    found = list_runs(three_runs, Wanted(**wanted))
    assert [int(row.id, 16) for row in found] == runs


def test_what_fails_most(three_runs: History) -> None:
    """Causes are counted by runs, with the failures and the time that they took."""
    (farm, shop) = sorted(find_top(three_runs), key=lambda row: -row.failures)
    assert (farm.runs, farm.failures, farm.seconds) == (1, 2, 0.5)
    assert (shop.runs, shop.failures, shop.kind) == (1, 1, "test.failed")
    assert find_top(three_runs, Wanted(project="shop")) == [shop]
    assert find_top(three_runs, Wanted(nodeid="*test_b")) == [farm]
    assert find_top(three_runs, Wanted(kind="sandbox.*")) == []


def outcomes_of(history: History, outcomes: str, **given: Any) -> None:
    """Add runs in which one test passed (P), failed (F) or passed on a rerun (R)."""
    words = {"P": "passed", "F": "failed", "R": "flaky"}
    for number, each in enumerate(outcomes, 1):
        add(history, a_report(number, test_a=words[each], **given))


@pytest.mark.parametrize(
    ("outcomes", "given", "expected"),
    [
        ("PPFFF", {}, None),
        ("PPFFPP", {}, None),  # made and fixed
        ("PFPF", {}, (2, 4, 0, 3)),
        ("PPPPPPPPPFPPPF", {}, (2, 14, 0, 3)),  # passes before the first failure count
        ("PF", {"commit": "c" * 40}, (1, 2, 1, 1)),
        ("PR", {}, (1, 2, 0, 0)),
        ("FFF", {"commit": "c" * 40}, None),
    ],
)
def test_flaky_tests(
    history: History,
    outcomes: str,
    given: dict[str, Any],
    expected: tuple[int, ...] | None,
) -> None:
    """A test is flaky by one commit, by a rerun, or by its changes of mind."""
    outcomes_of(history, outcomes, **given)
    found = [
        (row.failures, row.runs, row.commits, row.changes)
        for row in find_flaky(history)
    ]
    assert found == ([] if expected is None else [expected])


def test_runs_before_a_test_are_none_of_its_own(history: History) -> None:
    """Neither do runs count in which it did not exist yet, of another project, or cut short."""
    add(history, a_report(1, test_b="passed"))
    for number in range(2, 5):
        add(history, a_report(number, test_a="passed", test_b="passed"))
    add(history, a_report(5, project="other", test_b="passed"))
    short = a_report(6, test_b="passed")
    add(history, replace(short, summary=replace(short.summary, not_run=1)))
    for number, outcome in enumerate(("failed", "passed", "failed"), 7):
        add(history, a_report(number, test_a=outcome, test_b="passed"))
    (row,) = find_flaky(history)
    assert (row.failures, row.runs) == (2, 6)


def test_branches_do_not_make_a_test_flaky(history: History) -> None:
    """A test that fails on one branch and passes on another has not changed its mind."""
    for number in range(1, 7):
        outcome, branch = (("passed", "main"), ("failed", "broken"))[number % 2]
        add(history, a_report(number, test_a=outcome, branch=branch))
    assert find_flaky(history) == []


def test_advice_on_a_flaky_test(history: History) -> None:
    """What surely fails often is worth a quarantine."""
    outcomes_of(history, "PFPFPFPF")
    (row,) = find_flaky(history)
    assert (row.nodeid, row.advice) == (A, "quarantine")
    assert 0.2 < row.low < row.rate == 0.5 < row.high < 0.8
    assert find_flaky(history, Wanted(nodeid="*test_b")) == []


@pytest.mark.parametrize(
    ("failures", "runs", "low", "high"),
    [
        (0, 0, 0.0, 1.0),
        (0, 10, 0.0, 0.2775),
        (1, 10, 0.0179, 0.4042),
        (10, 10, 0.7225, 1.0),
    ],
)
def test_wilsons_interval(failures: int, runs: int, low: float, high: float) -> None:
    """The bounds are those that SciPy's `proportion_ci(method="wilson")` gives."""
    assert wilson_interval(failures, runs) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(
    ("earlier", "branch", "state", "runs"),
    [
        ([], "main", "new", 0),
        ([("F", "main")], "main", "known", 1),
        ([("P", "main"), ("F", "main"), ("F", "main")], "main", "known", 2),
        ([("F", "main"), ("P", "main")], "main", "came_back", 1),
        ([("F", "other"), ("P", "main")], "main", "known", 1),
        ([("F", "main"), ("P", "other")], "main", "known", 1),
        (
            [("F", "main"), ("P", "main"), ("F", "main"), ("P", "main")],
            "main",
            "flaky",
            2,
        ),
    ],
)
def test_states_of_groups(
    history: History, earlier: list[tuple[str, str]], branch: str, state: str, runs: int
) -> None:
    """New, known, come back on this branch, or flaky; whether or not the run is there itself."""
    words = {"P": "passed", "F": "failed"}
    for number, (outcome, at) in enumerate(earlier, 1):
        add(history, a_report(number, test_a=words[outcome], branch=at))
    report = a_report(20, test_a="failed", branch=branch)
    (before,) = states_of(history, report).values()
    assert (before.state, before.runs) == (state, runs)
    add(history, report, a_report(21, test_a="failed", branch=branch))
    assert list(states_of(history, report).values()) == [before]
    if state == "came_back":
        assert before.last_passed_commit == f"{2:040x}"
        assert before.first_commit == f"{1:040x}"


def test_reports_that_name_no_passing_tests(history: History) -> None:
    """Then a successful run with as many tests counts as a pass of them all; a smaller doesn't."""
    small = a_report(2)
    five = replace(small.summary, collected=5)
    whole = replace(a_report(3), summary=five)
    failing, again = (
        replace(report, summary=replace(report.summary, collected=5))
        for report in (a_report(1, failing=(A,)), a_report(9, failing=(A,)))
    )
    add(history, failing, small)
    (state,) = states_of(history, a_report(9, failing=(A,))).values()
    assert state.state == "came_back"  # it has one test itself
    assert [each.state for each in states_of(history, again).values()] == ["known"]
    add(history, whole)
    assert [each.state for each in states_of(history, again).values()] == ["came_back"]


OLD, NEW = ("attrs-25.1", "numpy-2.3.1"), ("attrs-25.1", "numpy-2.4.0")


@pytest.mark.parametrize(
    ("earlier", "state", "commit", "changed"),
    [
        ([], "new", None, None),
        ([("P", OLD)], "new", 1, ("numpy 2.3.1 -> 2.4.0",)),
        ([("P", NEW)], "new", 1, ()),
        ([("P", None)], "new", 1, None),
        ([("P", OLD), ("P", NEW)], "new", 2, ()),
        ([("P", OLD), ("F", NEW)], "known", 1, ("numpy 2.3.1 -> 2.4.0",)),
        (
            [("P", (NEW[1], "old-1")), ("F", OLD)],
            "known",
            1,
            ("+ attrs 25.1", "- old 1"),
        ),
    ],
)
def test_what_has_changed_since_the_last_pass(
    history: History,
    earlier: list[tuple[str, tuple[str, ...] | None]],
    state: str,
    commit: int | None,
    changed: tuple[str, ...] | None,
) -> None:
    """A failure that is new has a last pass, too, and that is when it tells most."""
    for number, (outcome, installed) in enumerate(earlier, 1):
        word = "passed" if outcome == "P" else "failed"
        add(history, a_report(number, test_a=word, installed=installed))
    add(history, a_report(30, test_a="passed"))  # later, which does not count
    (found,) = states_of(history, a_report(20, test_a="failed", installed=NEW)).values()
    assert (found.state, found.distributions_changed) == (state, changed)
    assert found.last_passed_commit == (None if commit is None else f"{commit:040x}")


def test_reports_that_name_no_passing_tests_tell_what_has_changed(
    history: History,
) -> None:
    """A run that succeeded stands for the passes of all."""
    add(history, a_report(1, installed=OLD))
    (found,) = states_of(history, a_report(2, failing=(A,), installed=NEW)).values()
    assert (found.state, found.last_passed_commit) == ("new", f"{1:040x}")
    assert found.distributions_changed == ("numpy 2.3.1 -> 2.4.0",)


def test_how_what_is_installed_has_changed() -> None:
    """Python counts, as any distribution does; of many changes the first are named."""
    before = [
        "python-3.12.1",
        "jaraco.text-1.0",
        *(f"a{number}-1" for number in range(6)),
    ]
    now = ["python-3.13.0", "jaraco.text-1.0"]
    assert changed_versions(["python-3.12.1"], ["python-3.13.0"]) == (
        "python 3.12.1 -> 3.13.0",
    )
    assert changed_versions(before, before) == ()
    assert changed_versions([], now) is changed_versions(now, []) is None
    assert changed_versions(before, now) == (
        "python 3.12.1 -> 3.13.0",
        *("- a0 1", "- a1 1", "- a2 1", "and 3 more"),
    )


def test_projects_are_apart(history: History) -> None:
    """Another project's failure of the same name is no earlier one."""
    add(history, a_report(1, failing=(A,), project="farm"))
    (state,) = states_of(history, a_report(2, failing=(A,))).values()
    assert state.state == "new"


def test_since_when(history: History) -> None:
    """The first run, the streak that goes on, and the last commit before it."""
    for number, outcome in enumerate("PFPPFF", 1):
        add(history, a_report(number, test_a={"P": "passed", "F": "failed"}[outcome]))
    (group,) = a_report(9, failing=(A,)).groups
    found = find_since(history, group.fingerprint[:6])
    assert (found.first_commit, found.streak_commit) == (f"{2:040x}", f"{5:040x}")
    assert (found.last_passed_commit, found.runs, found.branches) == (
        f"{4:040x}",
        3,
        ("main",),
    )
    with pytest.raises(HistoryError, match="no failure of that fingerprint is known"):
        find_since(history, "0123abcd")
    with pytest.raises(HistoryError, match="no failure of that fingerprint"):
        find_since(history, "%")


def test_since_when_a_test_fails(history: History) -> None:
    """Its own runs and passes count, of the cause of its latest failure; a part of its id does."""
    outcomes = {"P": "passed", "F": "failed"}
    for number, (one, other) in enumerate(zip("PFPFF", "FFFFF", strict=True), 1):
        add(history, a_report(number, test_a=outcomes[one], test_b=outcomes[other]))
    (found,) = find_since_of_test(history, A)
    assert (found.nodeid, found.runs) == (A, 3)
    assert (found.first_commit, found.streak_commit) == (f"{2:040x}", f"{4:040x}")
    assert found.last_passed_commit == f"{3:040x}"
    assert find_since_of_test(history, "test_a") == (found,)
    with pytest.raises(
        HistoryError, match=r"several tests have this name: .*test_a.*test_b"
    ):
        find_since_of_test(history, "test_")
    add(history, a_report(6, test_c="passed"))
    passed = rf"test_c: no failure of such a test is known; {TEST}test_c passed last: .*, commit 0*6"
    with pytest.raises(HistoryError, match=passed):
        find_since_of_test(history, "test_c")
    with pytest.raises(
        HistoryError, match="test_d: no failure of such a test is known, and no pas"
    ):
        find_since_of_test(history, "test_d")


def test_a_fingerprint_of_two_projects(three_runs: History) -> None:
    """Both are named; the project's name chooses."""
    fingerprint = find_top(three_runs)[0].fingerprint
    with pytest.raises(
        HistoryError,
        match=r"several fingerprints begin like this: .*(shop|farm).*--project",
    ):
        find_since(three_runs, fingerprint)
    assert find_since(three_runs, fingerprint, project="farm").branches == (
        "feature/[1]_%",
    )


@pytest.mark.parametrize(
    ("by", "begins"),
    [
        ("day", ["2026-11-01", "2026-11-02"]),
        ("week", ["2026-10-26", "2026-11-02"]),
        ("month", ["2026-11"]),
    ],
)
def test_reasons_over_time(three_runs: History, by: str, begins: list[str]) -> None:
    """Runs are counted by day, by week from Monday on, or by month."""
    periods = count_periods(three_runs, by=by)
    assert [each.begins for each in periods] == begins
    assert sum(each.runs for each in periods) == 3
    assert sum(each.reasons.get("TESTS_FAILED", 0) for each in periods) == 2
    assert sum(each.minutes_lost for each in periods) == pytest.approx(2 * 12.5 / 60)


def test_pruning(three_runs: History) -> None:
    """Old runs go, with the tests that no run has had since; causes are counted again."""
    before = datetime(2026, 11, 2)  # noqa: DTZ001 - UTC, as the tables have it
    assert prune(three_runs, before=before, dry_run=True) == 2
    assert len(list_runs(three_runs)) == 3
    assert prune(three_runs, before=before) == 2
    (left,) = list_runs(three_runs)
    assert left.project == "farm"
    assert [row.runs for row in find_top(three_runs)] == [1]
    assert prune(three_runs, before=before) == 0


def test_new_tests_are_those_that_no_earlier_run_of_the_project_has_had(
    history: History,
) -> None:
    """The run itself may be in the history already; later runs and other projects don't count."""
    run = a_report(5, test_a="passed", test_b="passed")
    with pytest.raises(HistoryError) as caught:
        find_new_tests(history, run, [A, B])
    assert str(caught.value) == (
        "history: it has no run of shop before that of the report, so every test would be new; add "
        "earlier ones by: failure-taxonomy history add REPORT"
    )
    add(history, a_report(1, test_a="passed"), run)
    add(
        history,
        a_report(2, test_b="passed", project="farm"),
        a_report(9, test_c="passed"),
    )
    unknown = f"{TEST}test_c"
    assert find_new_tests(history, run, [unknown, B, A]) == [unknown, B]
    assert find_new_tests(history, a_report(12), [unknown, B, A]) == []
