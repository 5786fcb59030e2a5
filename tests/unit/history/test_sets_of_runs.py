"""The history is a function of the set of runs: the order of adding changes no answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.errors import HistoryError
from pytest_failure_taxonomy.history import History, open_history
from pytest_failure_taxonomy.history.attempts import attempts_of
from pytest_failure_taxonomy.history.questions import (
    count_periods,
    find_flaky,
    find_new_tests,
    find_since,
    find_since_of_test,
    find_states,
    find_top,
    list_runs,
    proofs_of,
    states_of,
)
from pytest_failure_taxonomy.prove.rates import Count, make_proof
from pytest_failure_taxonomy.report.amend import amend
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.taxonomy.amendments import Amendment
from pytest_failure_taxonomy.taxonomy.evidence import Attempt
from pytest_failure_taxonomy.taxonomy.judgement import ProofType
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.past_runs import a_report

NAMES: Final = ("a", "b", "c")
NODEIDS: Final = tuple(f"tests/{file}.py::test_{x}" for file in "xy" for x in NAMES)
MESSAGES: Final = ("assert 3 == 4", "assert 5 == 6", "ValueError: no")


class Run(NamedTuple):
    """What is drawn of a run."""

    hour: int
    branch: str
    commit: str
    file: str
    ends: str
    """How its tests ended, by the first letters; a dot for one that it did not have."""
    message: str
    names_tests: bool
    installed: tuple[str, ...] | None
    approach: str | None
    proof: tuple[ProofType, int] | None
    """What is proven of its cause, by how many runs."""


class Addition(NamedTuple):
    """Which run is added, by which of the two writers, and whether a transaction ends before."""

    run: int
    writer: int
    begins: bool
    is_torn: bool
    """Its process died, and this is how far it got."""


# Times, branches, commits and messages are few, so that they meet.
RUNS: Final = st.builds(
    Run,
    hour=st.integers(0, 12),
    branch=st.sampled_from(("main", "main", "main", "dev")),
    commit=st.sampled_from("abcdef"),
    file=st.sampled_from(("x", "x", "y")),
    ends=st.text("ppfrs.", min_size=3, max_size=3),
    message=st.sampled_from(MESSAGES),
    names_tests=st.booleans(),
    installed=st.sampled_from((None, ("a-1",), ("a-2",))),
    approach=st.sampled_from((None, None, "one", "two")),
    proof=st.none()
    | st.tuples(st.sampled_from(("flaky", "axis.time")), st.integers(5, 6)),
)


@st.composite
def sets_of_runs(draw: st.DrawFn) -> tuple[list[Run], list[Addition]]:
    """Draw runs, and how they are added: in some order, split, twice, by two writers."""
    runs = draw(st.lists(RUNS, min_size=1, max_size=10))
    numbers = st.integers(0, len(runs) - 1)
    again = draw(st.lists(numbers, max_size=3))
    additions = [
        Addition(run, draw(st.integers(0, 1)), draw(st.booleans()), False)
        for run in draw(st.permutations([*range(len(runs)), *again]))
    ]
    for run in draw(st.lists(numbers, max_size=2)):
        torn = Addition(run, 0, True, True)
        additions.insert(draw(st.integers(0, len(additions))), torn)
    return runs, additions


def make_report(number: int, run: Run) -> FailureReport:
    """Return the report of a run that was drawn."""
    words = {"p": "passed", "f": "failed", "r": "flaky", "s": "skipped"}
    tests: dict[str, Any] = {
        f"test_{x}": words[end]
        for x, end in zip(NAMES, run.ends, strict=True)
        if end in words
    }
    report = a_report(
        run.hour,
        message=run.message,
        branch=run.branch,
        commit=run.commit * 40,
        installed=run.installed,
        file=f"tests/{run.file}.py",
        **tests,
    )
    report = replace(report, run=replace(report.run, id=f"{number:032x}"))
    if not run.names_tests:
        report = replace(report, tests=None)
    if run.approach is not None:
        attempt = Attempt(subtask="s", approach=run.approach)
        report = replace(report, attempt=attempt)
    if report.causes and run.proof is not None:
        type_, times = run.proof
        proof = make_proof(type_, "proven", Count(failed=5, runs=times))
        report = amend(report, Amendment(proofs={report.causes[0].key: proof}))
    return report


@contextmanager
def two_writers() -> Iterator[tuple[History, History]]:
    """Open one new history twice."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "h.db"
        yield (
            stack.enter_context(open_history(path)),
            stack.enter_context(open_history(path)),
        )


def answers(history: History, asked: Sequence[FailureReport]) -> dict[str, Any]:
    """Return the answers to all questions, those about reports included."""
    answers: dict[str, Any] = {
        "runs": [tuple(row) for row in list_runs(history)],
        "top": find_top(history),
        "top together": find_top(history, each=False),
        "stats": count_periods(history),
        "flaky": find_flaky(history),
        "flaky together": find_flaky(history, each=False),
        "states": find_states(history, limit=100),
        "attempts": attempts_of(history, "s"),
    }
    for row in answers["top"]:
        answers[row.fingerprint] = find_since(history, row.fingerprint)
    for nodeid in NODEIDS:
        try:
            answers[nodeid] = find_since_of_test(history, nodeid)
        except HistoryError as error:
            answers[nodeid] = str(error)
    for report in asked:
        try:
            new = find_new_tests(history, report, NODEIDS)
        except HistoryError as error:
            new = [str(error)]
        states, proofs = states_of(history, report), proofs_of(history, report)
        answers[report.run.id] = new, states, proofs
    return answers


FIXED: Final = (
    Run(1, "main", "a", "x", "pfp", MESSAGES[0], True, None, "one", None),
    Run(2, "main", "b", "x", "fpp", MESSAGES[1], True, ("a-1",), "two", ("flaky", 5)),
    Run(
        2, "main", "b", "x", "pfr", MESSAGES[2], True, ("a-2",), None, ("axis.time", 5)
    ),
    Run(3, "dev", "c", "x", "ffp", MESSAGES[0], False, None, None, None),
    Run(4, "main", "d", "y", "fpp", MESSAGES[0], True, None, "one", None),
)


@pytest.mark.parametrize("order", ["01234", "43210", "20413", "0011223344", "3142031"])
def test_the_order_of_adding_changes_no_answer(order: str) -> None:
    """Of a few runs that each question says something of."""
    reports = [make_report(number, run) for number, run in enumerate(FIXED)]
    found = []
    for numbers in (range(len(FIXED)), map(int, order)):
        with two_writers() as writers:
            for place, number in enumerate(numbers):
                writers[place % 2].add(reports[number])
            found.append(answers(writers[0], reports))
    assert found[0] == found[1]


@settings(max_examples=60, phases=set(Phase) - {Phase.shrink})
@given(sets_of_runs())
def test_answers_depend_on_the_set_of_runs_alone(
    drawn: tuple[list[Run], list[Addition]],
) -> None:
    """Any order of adding, any split, two writers and runs that come twice: the same answers."""
    runs, additions = drawn
    reports = [make_report(number, run) for number, run in enumerate(runs)]
    with two_writers() as (history, _):
        for report in sorted(reports, key=lambda report: report.run.started_at):
            assert history.add(report)
        expected = answers(history, reports)
    batches: list[list[Addition]] = []
    for addition in additions:
        if addition.begins or not batches or batches[-1][0].writer != addition.writer:
            batches.append([])
        batches[-1].append(addition)
    with two_writers() as writers:
        for batch in batches:
            with writers[batch[0].writer].adding() as add:
                for addition in batch:
                    report = reports[addition.run]
                    if addition.is_torn:
                        report = replace(report, completeness="reconstructed")
                    add(report, "report")
        assert answers(writers[0], reports) == expected
        assert answers(writers[1], reports) == expected
