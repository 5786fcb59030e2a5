"""Shards of a task class, and what their reports are together."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.models import (
    BenchCase,
    BenchRunReport,
    BenchScore,
    GateSettings,
    RunPlan,
    TaskClass,
)
from pytest_failure_taxonomy.bench.report import aggregate
from pytest_failure_taxonomy.bench.sharding import (
    digests_of,
    ids_of_shard,
    join_shards,
    parse_shard,
    shard_of_run,
)
from pytest_failure_taxonomy.errors import BenchError
from tests.helpers.bench_scores import make_score

SCORES = st.builds(
    make_score,
    st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    passed=st.booleans(),
    codes=st.sampled_from([{}, {"answer.wrong": "block"}, {"answer.slow": "warn"}]),
    cost_usd=st.sampled_from([0.0, 0.125, 2.5]),
)
ENDS = st.one_of(st.just("lost"), st.just("not run"), SCORES)
GATES = st.none() | st.builds(
    GateSettings,
    lower_bound_95=st.none() | st.sampled_from([0.1, 0.5]),
    min_passed_cases=st.none() | st.integers(min_value=1, max_value=6),
)


def make_class(names: int, repeat: int = 1) -> TaskClass:
    """Return a class of cases, each with its repetitions."""
    single = [BenchCase(case_id=f"c{name}") for name in range(names)]
    numbers = range(1, repeat + 1)
    cases = tuple(
        case if repeat == 1 else case.as_repetition(number)
        for case in single
        for number in numbers
    )
    return TaskClass(
        name="vuln", breakdown_keys=frozenset(), failure_mode_taxonomy={}, cases=cases
    )


def report_of(plan: RunPlan, ends: dict[str, Any]) -> BenchRunReport:
    """Return the report of a plan whose cases end as given."""
    chosen = {case.case_id: ends[case.case_id] for case in plan.cases}
    scored = [
        (case_id, end) for case_id, end in chosen.items() if isinstance(end, BenchScore)
    ]
    started = {case_id for case_id, end in chosen.items() if end != "not run"}
    return aggregate(
        plan,
        scored,
        run_id=f"run-{plan.cases[0].case_id}",
        started=started,
        digests=digests_of(plan.task_class, plan.cases),
    )


def shards_of(
    task_class: TaskClass, total: int, ends: dict[str, Any] | None = None, **more: Any
) -> list[dict[str, Any]]:
    """Return the report of each shard that has a case."""
    found = []
    for index in range(1, total + 1):
        ids = ids_of_shard(task_class, index, total)
        cases = tuple(case for case in task_class.cases if case.case_id in ids)
        if cases:
            shard = shard_of_run(task_class, "bench/vuln", index, total)
            plan = RunPlan(task_class=task_class, cases=cases, shard=shard, **more)
            known = ends or {case.case_id: make_score() for case in cases}
            found.append(report_of(plan, known).model_dump(mode="json"))
    return found


@settings(deadline=None)  # the first example imports scipy
@given(
    st.data(),
    st.integers(min_value=1, max_value=8),
    st.integers(min_value=1, max_value=3),
    GATES,
)
def test_joined_shards_are_the_whole_run(
    data: st.DataObject, names: int, repeat: int, gate: GateSettings | None
) -> None:
    """Any split, joined in any order, has the figures and the gate of one run of all cases."""
    task_class = make_class(names, repeat)
    ends = {case.case_id: data.draw(ENDS) for case in task_class.cases}
    whole = report_of(
        RunPlan(task_class=task_class, cases=task_class.cases, gate=gate), ends
    )
    total = data.draw(st.integers(min_value=1, max_value=names))
    reports = data.draw(st.permutations(shards_of(task_class, total, ends, gate=gate)))
    (joined,) = join_shards(reports)
    expected = whole.model_dump(mode="json")
    for each in (joined, expected):
        del each["run_id"]
        deviation = each.pop("score_stddev")
        each["deviates"] = None if deviation is None else round(deviation, 12)
    assert math.isclose(joined.pop("total_cost_usd"), expected.pop("total_cost_usd"))
    assert joined == expected


@given(st.integers(1, 20), st.integers(1, 4), st.integers(1, 8))
def test_each_case_is_in_one_shard(names: int, repeat: int, total: int) -> None:
    """All repetitions of a case are in the same one, and no shard is bigger by more than one."""
    task_class = make_class(names, repeat)
    shards = [ids_of_shard(task_class, index, total) for index in range(1, total + 1)]
    assert sorted(case_id for ids in shards for case_id in ids) == sorted(
        case.case_id for case in task_class.cases
    )
    distinct = [{case_id.partition("#")[0] for case_id in ids} for ids in shards]
    assert sum(map(len, distinct)) == names
    assert max(map(len, distinct)) - min(map(len, distinct)) <= 1


def test_joined_shards_say_how_far_their_rubric_agrees_with_people() -> None:
    """Where no shard knows, nothing is said; they have one rubric."""
    first, second = shards_of(make_class(6), 2)
    measured = {"value": 0.9, "low": 0.8, "high": 1.0, "n": 40}
    unknown = dict.fromkeys(
        ["true_positive_rate", "true_negative_rate", "kappa", "rubric"]
    )
    second["rubric_agreement"] = {
        "task_class": "vuln",
        "measured_at": "2026-11-23T12:00:00Z",
        "base_rate": 1.0,
        "agreement": measured,
        "wrongly_passed": [],
        "wrongly_failed": ["a"],
    } | unknown
    (joined,) = join_shards([first, second])
    assert joined["rubric_agreement"]["agreement"] == measured
    assert join_shards([first])[0]["rubric_agreement"] is None


def test_joined_shards_used_what_all_of_them_did() -> None:
    """And what one has a cap on is told, though none used it."""
    first, second = shards_of(make_class(6), 2)
    first["usage"], second["usage"] = {"tokens": 3.0}, {"tokens": 4.0, "calls": 0.0}
    (joined,) = join_shards([first, second])
    assert joined["usage"] == {"tokens": 7.0, "calls": 0.0}


def test_a_missing_shard_leaves_the_gate_open() -> None:
    """The joined report is incomplete, and says which shard is missing."""
    gate = GateSettings(min_passed_cases=1)
    first, _, third = shards_of(make_class(9), 3, gate=gate)
    (joined,) = join_shards([third, first])
    assert not joined["complete"]
    assert joined["stopped"] == "shard 2 of 3 is missing"
    assert joined["gate"] == {
        "verdict": "INCOMPLETE",
        "reasons": ["shard 2 of 3 is missing"],
    }
    assert joined["counts"]["scheduled"] == 6
    assert joined["shard"] is None


@pytest.mark.parametrize("number", [0, 1])
def test_the_reducers_of_any_shard_count(number: int) -> None:
    """Also if the report of another shard doesn't tell them."""
    reports = shards_of(make_class(6, 2), 2)
    reports[number] = changed(reports[number], reducers=["pass@2"])
    (joined,) = join_shards(reports)
    (reduced,) = joined["reduced"]
    assert (reduced["name"], reduced["value"], reduced["lower_bound_95"]["n"]) == (
        "pass@2",
        1.0,
        6,
    )


def test_a_shard_alone_has_no_verdict() -> None:
    """Its gate is incomplete, even if its cases are good or bad enough."""
    (first, *_) = shards_of(make_class(9), 3, gate=GateSettings(min_passed_cases=9))
    assert first["gate"]["verdict"] == "INCOMPLETE"
    assert first["gate"]["reasons"][0] == "shard 1 of 3 of the class; merge the reports"


def test_shards_of_an_earlier_version_have_no_digest_of_their_cases() -> None:
    """Then it is not known of the joined report, either."""
    first, second = shards_of(make_class(4), 2)
    del first["digests"]["cases"]
    (joined,) = join_shards([first, second])
    assert joined["digests"]["cases"] is None
    (joined,) = join_shards([{**first, "digests": None}, second])
    assert joined["digests"] is None


def changed(report: dict[str, Any], **shard: Any) -> dict[str, Any]:
    """Return a report whose shard differs."""
    return {**report, "shard": {**report["shard"], **shard}}


def test_what_does_not_belong_together() -> None:
    """Each problem is one line that says what to merge instead."""
    first, second = shards_of(make_class(4), 2)
    for reports, words in (
        (
            [first, second, first],
            ["shard 1 of 2 is there twice; merge one report of each"],
        ),
        (
            [first, changed(second, total=3)],
            ["these are shards of 2 and 3; merge those of one run"],
        ),
        (
            [first, changed(second, rubric_digest="0", taxonomy_digest="0")],
            [
                "the shards differ in their rubric; merge those of one commit",
                "the shards differ in their taxonomy; merge those of one commit",
            ],
        ),
        (
            [
                first,
                changed(second, gate={"lower_bound_95": 0.5, "min_passed_cases": None}),
            ],
            ["the shards differ in their gate; merge those of one commit"],
        ),
    ):
        with pytest.raises(BenchError) as caught:
            join_shards(reports)
        assert str(caught.value).splitlines() == [
            f"bench bench/vuln: {each}" for each in words
        ]


def test_classes_and_tests_are_joined_apart() -> None:
    """Each folder, and each test that runs the cases of a class, has a report of its own."""
    reports = shards_of(make_class(4), 2)
    others = [
        changed(each, source="bench/other in tests/test_it.py::test_it")
        for each in reports
    ]
    assert len(join_shards([*reports, *others])) == 2


@pytest.mark.parametrize(
    "given", ["0/3", "4/3", "a/b", "1", "1/", "1/0", "-1/2", "1/100001", "", "²/³"]
)
def test_a_bad_shard_is_refused(given: str) -> None:
    """The message shows a good one."""
    with pytest.raises(BenchError) as caught:
        parse_shard(given, "--bench-shard")
    assert str(caught.value) == (
        f"--bench-shard: {given!r} is no part of a bench; give one such as 2/4"
    )


def test_a_good_shard() -> None:
    """Index and number of shards, and one of one, too."""
    assert parse_shard("2/4", "x") == (2, 4)
    assert parse_shard("1/1", "x") == (1, 1)
