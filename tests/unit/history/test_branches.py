"""How tests are on each branch, and what they were called before, on each database."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_failure_taxonomy.errors import HistoryError
from pytest_failure_taxonomy.history import History
from pytest_failure_taxonomy.history.questions import (
    Wanted,
    find_flaky,
    find_since,
    find_since_of_test,
    find_states,
    list_runs,
    states_of,
)
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.past_runs import TEST, a_report

A, B = f"{TEST}test_a", f"{TEST}test_b"
WORDS = {"P": "passed", "F": "failed", "R": "flaky"}


def add(history: History, ends: str, branch: str = "main", begin: int = 1) -> None:
    """Add runs in which one test passed (P), failed (F) or passed on a rerun (R)."""
    for number, end in enumerate(ends, begin):
        assert history.add(a_report(number, test_a=WORDS[end], branch=branch))


@pytest.mark.parametrize(
    ("ends", "state", "since"),
    [
        ("PPFFF", "broken", 3),
        ("F", "broken", 1),
        ("PPFFPP", "healthy again", 5),
        ("PFPF", "flaky", 2),
        ("PFPFPPP", "flaky", 2),
        ("PFPF" + 25 * "P", "healthy again", 5),
        ("PFPPPFPPPPFPPPPPPPPP" + 6 * "F", "broken", 21),
        ("PFPPPFPPPPFPPPPPPPPP" + 2 * "F", "flaky", 2),
        ("PRPP", "flaky", 2),
        ("PR" + 80 * "P", "healthy again", 3),
        ("PPP", None, 0),
    ],
)
def test_states_of_a_test(
    history: History, ends: str, state: str | None, since: int
) -> None:
    """Broken, flaky or healthy again; a flaky test is either only where chance won't do it."""
    add(history, ends)
    rows = [(row.state, int(row.since_run, 16)) for row in find_states(history)]
    assert rows == ([] if state is None else [(state, since)])
    flaky = [row.nodeid for row in find_flaky(history)]
    assert flaky == ([A] if state == "flaky" else [])


def test_changes_are_not_added_up(history: History) -> None:
    """Two changes on each of three branches are three faults that were made and fixed."""
    for place, branch in enumerate(("main", "one", "two")):
        add(history, "PFP", branch, 10 * place)
    assert find_flaky(history) == []
    states = {row.branch: (row.state, row.changes) for row in find_states(history)}
    assert states == dict.fromkeys(("main", "one", "two"), ("healthy again", 2))
    add(history, "FPF", "main", 40)
    (row,) = find_flaky(history)
    assert (row.branches, row.failures, row.runs, row.changes) == (("main",), 3, 6, 5)
    assert find_flaky(history, Wanted(branch="one")) == []


def test_a_branch_that_is_broken_is_no_flake(history: History) -> None:
    """A report's failure is flaky where its test is flaky, but not where it is broken."""
    add(history, "PFPFPF", "main", 1)
    add(history, "FFF", "dev", 10)

    def state_on(branch: str) -> str:
        report = a_report(50, test_a="failed", branch=branch)
        (state,) = states_of(history, report).values()
        return state.state

    assert [state_on(branch) for branch in ("main", "dev", "new")] == [
        "flaky",
        "known",
        "flaky",
    ]


def test_green_runs_that_name_no_test_are_passes(history: History) -> None:
    """A test that failed is healthy again after a run that succeeded and was as big."""
    add(history, "F")
    green = replace(a_report(2, test_a="passed"), tests=None)
    assert history.add(replace(green, run=replace(green.run, stage="setup")))
    other = a_report(4, test_a="passed", project="farm")
    assert history.add(replace(other, tests=None))
    assert [row.state for row in find_states(history)] == ["broken"]
    assert history.add(replace(a_report(3, test_a="passed"), tests=None))
    assert [row.state for row in find_states(history)] == ["healthy again"]


def test_since_when_on_a_branch(history: History) -> None:
    """The streak, the last pass and the first run are those of the branch that is asked for."""
    add(history, "PF", "main", 1)
    add(history, "FPF", "dev", 10)
    for branch, first, passed in (("main", 2, 1), ("dev", 10, 11), ("m*", 2, 1)):
        (row,) = find_since_of_test(history, A, branch=branch)
        assert (int(row.first_run, 16), row.last_passed_run) == (
            first,
            f"{passed:032x}",
        )
        assert find_since(history, row.fingerprint, branch=branch).first_run == (
            row.first_run
        )
    with pytest.raises(HistoryError, match=r"no run on x had it; .*: dev, main$"):
        find_since(history, row.fingerprint, branch="x")
    with pytest.raises(HistoryError, match="known on x; it has no pass"):
        find_since_of_test(history, A, branch="x")


def test_exact_node_ids_come_before_parts(history: History) -> None:
    """What is exactly a test's node id means that test alone, failed or not."""
    names = ("t.py::test", "t.py::test_more", "t.py::test[*]", "t.py::test[x]")
    for number, name in enumerate(names[1:], 1):
        assert history.add(a_report(number, failing=(name,)))
    assert history.add(a_report(9, file="t.py", test="passed"))
    with pytest.raises(HistoryError, match=r"t.py::test passed last: .* 09:00"):
        find_since_of_test(history, names[0])
    (row,) = find_since_of_test(history, names[2])
    assert row.nodeid == names[2]
    found = list_runs(history, Wanted(nodeid=names[2]))
    assert [int(row.id, 16) for row in found] == [2]
    assert len(list_runs(history, Wanted(nodeid="t.py::test[[]*"))) == 0
    assert len(list_runs(history, Wanted(nodeid="t.py::test*"))) == 3


def moved(number: int, file: str, branch: str = "main", **tests: Any) -> FailureReport:
    """Return the report of a run whose tests are in a file."""
    return a_report(number, file=file, branch=branch, **tests)


def test_a_renamed_file_keeps_its_tests_histories(history: History) -> None:
    """Its tests go on under their new names, with what was seen under the old ones."""
    for number, end in enumerate("PFPF", 1):
        history.add(moved(number, "old.py", test_a=WORDS[end], test_b="passed"))
    for number, end in enumerate("PFP", 5):
        history.add(moved(number, "new.py", test_a=WORDS[end], test_b="passed"))
    (row,) = find_flaky(history)
    assert (row.nodeid, row.failures, row.runs) == ("new.py::test_a", 3, 7)
    assert [row.runs for row in find_states(history)] == [7]
    for asked in ("new.py::test_a", "old.py::test_a", "test_a"):
        (since,) = find_since_of_test(history, asked)
        assert (since.nodeid, since.runs) == ("new.py::test_a", 3)
        assert since.last_passed_run == f"{5:032x}"


@pytest.mark.parametrize(
    ("runs", "joined"),
    [
        ([("old", "FP"), ("new", "PF")], True),
        # A copy: both are there at once, or the old one comes back.
        ([("old", "FP"), ("new", "P"), ("old", "P"), ("new", "F")], False),
        # Something else ran in between.
        ([("old", "FP"), ("other", "P"), ("new", "PF")], False),
    ],
)
def test_what_counts_as_a_rename(
    history: History, runs: list[tuple[str, str]], joined: bool
) -> None:
    """Only a file whose tests went in the very run in which another's came, for good."""
    number = 0
    for file, ends in runs:
        for end in ends:
            number += 1
            tests = {"test_z" if file == "other" else "test_a": WORDS[end]}
            history.add(moved(number, f"{file}.py", **tests))
    assert (
        [row.nodeid for row in find_states(history)] == ["new.py::test_a"]
    ) is joined


def test_renames_that_are_not_clear(history: History) -> None:
    """A test that two others could be goes on as neither; nor does one whose file stays."""
    history.add(moved(1, "old.py", test_a="failed"))
    both = moved(2, "new.py", test_a="passed")
    others = moved(2, "other.py", test_a="failed")
    assert both.tests is not None
    assert others.tests is not None
    history.add(replace(others, tests=(*both.tests, *others.tests)))
    assert len(find_states(history)) == 2
    history.add(moved(10, "a.py", "dev", test_a="failed", test_b="passed"))
    moved_one = moved(11, "b.py", "dev", test_a="failed")
    stays = moved(11, "a.py", "dev", test_b="passed")
    assert moved_one.tests is not None
    assert stays.tests is not None
    history.add(replace(moved_one, tests=(*moved_one.tests, *stays.tests)))
    assert len(find_states(history, Wanted(branch="dev"))) == 2
