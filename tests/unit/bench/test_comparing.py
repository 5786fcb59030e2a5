"""Comparisons of two runs: what is refused, what is paired, what is said."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.bounds import BY_HAND
from pytest_failure_taxonomy.bench.comparing import (
    NOT_COMPLETE,
    ComparedRun,
    compare,
    compare_systems,
    compare_with_baseline,
    compared_run,
    evaluate_against_baseline,
)
from pytest_failure_taxonomy.bench.models import (
    BenchComparison,
    BenchDigests,
    BenchRunReport,
    GateSettings,
)
from pytest_failure_taxonomy.bench.report import (
    DistinctCase,
    aggregate,
    summary_lines,
    table_of_systems,
)
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.bench_scores import make_plan, make_run, make_score

PASSED, FAILED = make_score(1.0), make_score(0.0)
RIGHT = "--only-common compares the cases that both have"


def run_of(*scores: float, where: str = "new.json", **more: Any) -> ComparedRun:
    """Return a run of cases c000, c001 …"""
    return compared_run(
        make_run([make_score(score) for score in scores], **more), where
    )


def judged_by(run: ComparedRun, **digests: str) -> ComparedRun:
    """Return a run with other digests."""
    return replace(run, digests=run.digests.model_copy(update=digests))


def compared(old: ComparedRun, new: ComparedRun, **more: Any) -> BenchComparison:
    """Return the comparison of two runs of one class."""
    (found,) = compare([old], [new], **more)
    return found


def refusal(old: ComparedRun, new: ComparedRun, **more: Any) -> list[str]:
    """Return the lines of the error that refuses two runs."""
    with pytest.raises(BenchError) as caught:
        compare([old], [new], **more)
    return str(caught.value).splitlines()


def test_flips_are_named_and_the_difference_is_paired() -> None:
    """Each case is compared with itself; the greatest loss comes first."""
    old = run_of(1, 1, 0, 0.5, 1, 1, where="old.json")
    found = compared(old, run_of(1, 0, 1, 0.75, 1, 0))
    assert [(each.case_id, each.flip) for each in found.changes] == [
        ("c001", "now_fails"),
        ("c005", "now_fails"),
        ("c003", None),
        ("c002", "now_passes"),
    ]
    assert found.difference == pytest.approx((-1 - 1 + 0.25 + 1) / 6)
    assert (found.old_mean, found.new_mean) == (4.5 / 6, 3.75 / 6)
    assert found.mcnemar_p == 1.0
    assert (found.n, found.finding) == (6, "undecided")
    assert found.not_checked == ("taxonomy", "rubric", "cases")


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [(1.0, 0.0, "worse"), (0.0, 1.0, "better"), (1.0, 1.0, "undecided")],
)
def test_what_an_interval_on_one_side_of_0_means(
    old: float, new: float, finding: str
) -> None:
    """Worse or better beyond doubt is what the whole interval says."""
    stays = [1.0] * 20
    found = compared(run_of(*[old] * 6, *stays), run_of(*[new] * 6, *stays))
    assert found.finding == finding


def test_a_failed_case_counts_0_whatever_its_score() -> None:
    """A case that keeps its score and fails now has lost all of it."""
    old = compared_run(make_run([make_score(0.8)] * 5), "old.json")
    new = compared_run(make_run([make_score(0.8, passed=False)] * 5), "new.json")
    found = compared(old, new)
    assert found.difference == pytest.approx(-0.8)
    assert {each.flip for each in found.changes} == {"now_fails"}


def test_repetitions_are_averaged_before_they_are_paired() -> None:
    """Cases are the pairs, not their runs, and the numbers of runs may differ."""
    thrice = [f"c{case:03}#{number}" for case in range(6) for number in (1, 2, 3)]
    scores = [
        (name, make_score(0.0 if name.endswith("#3") else 1.0)) for name in thrice
    ]
    old = compared_run(aggregate(make_plan(thrice), scores), "old.json")
    found = compared(old, run_of(0, 1, 1, 1, 1, 1))
    assert found.n == found.interval_95.n == 6
    assert found.old_mean == pytest.approx(2 / 3)
    assert (found.changes[0].case_id, found.changes[0].flip) == ("c000", "now_fails")
    assert found.changes[0].old_passed == pytest.approx(2 / 3)


def test_cost_and_time_stand_beside_it() -> None:
    """Costs are added up, times averaged over the runs of cases."""
    old = [make_score(cost_usd=0.1, wall_clock_ms=100, system_ms=30)] * 5
    new = [make_score(cost_usd=0.2, wall_clock_ms=50, system_ms=40)] * 5
    found = compared(compared_run(make_run(old), "o"), compared_run(make_run(new), "n"))
    assert (found.old_cost_usd, found.new_cost_usd) == pytest.approx((0.5, 1.0))
    assert (found.old_mean_ms, found.new_mean_ms) == (100, 50)
    assert (found.old_system_ms, found.new_system_ms) == (30, 40)
    some = [*new[1:], make_score()]
    found = compared(
        compared_run(make_run(old), "o"), compared_run(make_run(some), "n")
    )
    assert (found.old_system_ms, found.new_system_ms) == (30, None)


# Refusals.


@pytest.mark.parametrize("what", ["taxonomy", "rubric"])
def test_another_taxonomy_or_rubric_is_refused(what: str) -> None:
    """Scores by other measures are not comparable; an unknown one is told, not refused."""
    old, new = run_of(*[1] * 5, where="old.json"), run_of(*[1] * 5)
    assert refusal(judged_by(old, **{what: "a"}), judged_by(new, **{what: "b"})) == [
        f"new.json: vuln: the {what} is not that of old.json; grade both runs with one {what}"
    ]
    assert what in compared(judged_by(old, **{what: "a"}), new).not_checked
    same = compared(judged_by(old, **{what: "a"}), judged_by(new, **{what: "a"}))
    assert what not in same.not_checked


def test_a_changed_case_is_refused() -> None:
    """A case with the same id and another content is another case, whatever is asked for."""

    def digested(run: ComparedRun, *digests: str) -> ComparedRun:
        pairs = zip(run.cases.items(), digests, strict=True)
        return replace(
            run, cases={name: replace(case, digest=d) for (name, case), d in pairs}
        )

    old = digested(run_of(*[1] * 5, where="old.json"), *"aaaaa")
    new = digested(run_of(*[1] * 5), *"aabba")
    what = (
        "2 cases c002, c003 were changed since old.json; run both with the same cases"
    )
    assert refusal(old, new, only_common=True) == [f"new.json: vuln: {what}"]
    assert (
        "cases" not in compared(old, digested(run_of(*[1] * 5), *"aaaaa")).not_checked
    )


def test_changed_cases_of_reports_are_refused() -> None:
    """A report has one digest of all its cases, which says that some were changed, not which."""
    old, new = run_of(*[1] * 5, where="old.json"), run_of(*[1] * 5)
    what = "cases were changed since old.json; run both with the same cases"
    old, changed = judged_by(old, cases="a"), judged_by(new, cases="b")
    assert refusal(old, changed) == [f"new.json: vuln: {what}"]
    assert "cases" not in compared(old, judged_by(new, cases="a")).not_checked
    assert "cases" in compared(old, new).not_checked


def test_one_digest_of_other_cases_says_nothing_of_the_common_ones() -> None:
    """Runs that lack cases of each other have other digests, and may have changed nothing."""
    old = judged_by(run_of(*[1] * 6, where="old.json"), cases="a")
    more = judged_by(run_of(*[1] * 8), cases="b")
    capped = judged_by(run_of(*[1] * 6, not_run=1), cases="b")
    for new in (more, capped):
        assert "cases" in compared(old, new, only_common=True).not_checked


def test_cases_that_one_run_lacks_are_refused_unless_they_are_left_out() -> None:
    """Two means over different cases are no comparison; those in common are, if it is said."""
    old, new = run_of(*[1] * 6, where="old.json"), run_of(*[1] * 8)
    assert refusal(old, new) == [
        f"new.json: vuln: has 2 cases c006, c007 that old.json lacks; {RIGHT}"
    ]
    assert refusal(new, old) == [
        f"old.json: vuln: lacks 2 cases c006, c007 of new.json; {RIGHT}"
    ]
    found = compared(old, new, only_common=True)
    assert (found.n, found.only_old, found.only_new) == (6, (), ("c006", "c007"))
    assert found.interval_95.low is not None


def test_a_run_that_is_not_complete_has_no_interval() -> None:
    """What a cap or a crash has left over is no sample of the class."""
    old, new = run_of(*[1] * 8, where="old.json"), run_of(*[1] * 6, not_run=1, lost=1)
    assert refusal(old, new) == [
        f"new.json: vuln: is not complete, 2 cases have no score; {RIGHT}"
    ]
    found = compared(old, new, only_common=True)
    assert (found.interval_95.low, found.interval_95.method) == (None, NOT_COMPLETE)
    assert found.finding == "undecided"


def test_cases_that_were_picked_have_no_interval() -> None:
    """The same picked cases may be compared; they prove nothing of the others."""
    found = compared(
        run_of(*[1] * 6, is_selection=True), run_of(*[0] * 6, is_selection=True)
    )
    assert (found.difference, found.finding) == (-1.0, "undecided")
    assert found.interval_95.method == BY_HAND


def test_runs_without_a_common_case_or_class_are_refused() -> None:
    """There is nothing to pair."""
    old = run_of(*[1] * 5, where="old.json")
    other = replace(run_of(1), cases={"x": DistinctCase(runs=[PASSED])})
    assert refusal(old, other, only_common=True) == [
        "new.json: vuln: no case is in old.json, too; give two runs of the same cases"
    ]
    (said,) = refusal(old, replace(run_of(1), task_class="mail"))
    right = "give two runs of one task class, by the same systems"
    assert said == f"new.json: is of mail, and old.json of vuln; {right}"


def test_two_runs_of_a_class_in_one_file_are_refused() -> None:
    """Nobody can know which of them is meant."""
    run = run_of(*[1] * 5)
    with pytest.raises(
        BenchError, match=r"^new.json: has 2 runs of vuln; give a file with one"
    ):
        compare([run], [run, run])


def test_classes_are_paired_by_name() -> None:
    """Each class that both files have is compared, in the newer one's order."""
    mail, vuln = replace(run_of(*[1] * 5), task_class="mail"), run_of(*[0] * 5)
    found = compare([vuln, replace(vuln, task_class="old")], [mail, vuln])
    assert [each.task_class for each in found] == ["vuln"]
    assert [each.task_class for each in compare([vuln, mail], [mail, vuln])] == [
        "mail",
        "vuln",
    ]


def test_of_several_comparisons_each_has_to_prove_more() -> None:
    """Six flips prove a loss alone, and not beside another class; the intervals stay."""
    old, new = run_of(*[1] * 20), run_of(*[0] * 6, *[1] * 14)
    alone = compared(old, new)
    assert (alone.finding, alone.comparisons, alone.adjusted_p) == ("worse", 1, 0.03125)
    both = compare(
        [old, replace(old, task_class="mail")], [new, replace(old, task_class="mail")]
    )
    assert [each.finding for each in both] == ["undecided", "undecided"]
    assert [each.adjusted_p for each in both] == pytest.approx([0.0625, 1.0])
    assert {each.comparisons for each in both} == {2}
    assert both[0].interval_95 == alone.interval_95
    seven = replace(run_of(*[0] * 7, *[1] * 13), task_class="mail")
    both = compare([old, replace(old, task_class="mail")], [new, seven])
    assert [each.finding for each in both] == ["worse", "worse"]


def test_systems_of_one_class_are_compared_by_pairs() -> None:
    """Each pair once, from the ones before; other classes and single runs are left alone."""
    reports = [report_of(20, 0), report_of(12, 8), report_of(12, 8), report_of(5, 0)]
    labelled = [
        each.model_copy(update={"system_label": label})
        for each, label in zip(reports, ["a", "b", "c", "d"], strict=True)
    ]
    first, second, third, other = compare_systems(
        labelled, ["vuln", "vuln", "vuln", None]
    )
    assert first.other_systems == other.other_systems == ()
    (against_a,) = second.other_systems
    assert (against_a.old_system_label, against_a.new_system_label) == ("a", "b")
    assert against_a.difference == pytest.approx(-0.4)
    assert (against_a.comparisons, against_a.finding) == (3, "worse")
    assert [each.finding for each in third.other_systems] == ["worse", "undecided"]
    *_, a_b, a_c, b_c = table_of_systems([first, second, third])
    assert re.fullmatch(
        r"  a -> b: changed by -0\.400 \(95 % between -0\.\d+ and -0\.\d+, n=20\), worse"
        r" \(Holm's p = 0\.023 for 3 comparisons\)",
        a_b,
    )
    assert a_c.startswith("  a -> c: ")
    assert b_c.startswith("  b -> c: changed by 0.000 ")


# The gate.


def report_of(passed: int, failed: int, **more: Any) -> BenchRunReport:
    """Return the report of a run, the passed cases first."""
    return make_run([PASSED] * passed + [FAILED] * failed, **more)


def judged(report: BenchRunReport, *baseline: ComparedRun) -> tuple[str, str, str]:
    """Return the verdict, the first reason and the problem of a run with a baseline."""
    found, problem = evaluate_against_baseline(
        report, compare_with_baseline(report, baseline)
    )
    gate = found.gate
    assert gate is not None
    return gate.verdict, gate.reasons[0] if gate.reasons else "", problem


def test_a_loss_beyond_doubt_fails_the_gate() -> None:
    """Six flips of twenty fail it, five don't: McNemar's test at 5 %."""
    baseline = run_of(*[1] * 20, where="base.json")
    verdict, reason, problem = judged(report_of(14, 6), baseline)
    assert (verdict, problem) == ("FAIL", "")
    assert reason.startswith(
        "worse than the baseline: the mean changed by -0.300 (95 % between -0."
    )
    assert judged(report_of(15, 5), baseline)[0] == "PASS"
    assert judged(report_of(20, 0), baseline)[0] == "PASS"


def test_the_comparison_is_in_the_report_and_its_lines() -> None:
    """The report has what the gate was decided by; the terminal has it in one line."""
    run = report_of(18, 2)
    found = compare_with_baseline(run, [run_of(*[1] * 20)])
    report, _ = evaluate_against_baseline(run, found)
    assert report.baseline is not None
    assert [each.case_id for each in report.baseline.changes] == ["c018", "c019"]
    (line,) = [
        each for each in summary_lines(report) if each.startswith("  baseline: ")
    ]
    assert line.endswith(", n=20), undecided; 2 no longer pass: c018, c019")


def test_a_baseline_that_can_not_be_compared_leaves_the_gate_incomplete() -> None:
    """Other cases, another rubric, too few cases: a loss could not be seen, and that is told."""
    verdict, reason, problem = judged(
        report_of(6, 0), run_of(*[1] * 5, where="base.json")
    )
    assert verdict == "INCOMPLETE"
    assert (
        reason
        == problem
        == (
            "can't be compared with the baseline: has the case c005 that base.json lacks; "
            "make a baseline of the cases as they are now"
        )
    )
    few = judged(report_of(4, 0), run_of(*[1] * 4))
    assert few[1:] == ("can't be compared with the baseline: fewer than 5 cases",) * 2
    digests = BenchDigests(taxonomy="a", rubric="b")
    report = report_of(6, 0).model_copy(update={"digests": digests})
    verdict, reason, _ = judged(
        report, judged_by(run_of(*[1] * 6, where="base.json"), rubric="c")
    )
    why = "the rubric is not that of base.json; grade both runs with one rubric"
    assert (verdict, reason) == (
        "INCOMPLETE",
        f"can't be compared with the baseline: {why}",
    )
    twice = [run_of(*[1] * 6, where="base.json")] * 2
    assert "has 2 runs of vuln" in judged(report_of(6, 0), *twice)[1]


def test_a_selection_is_incomplete_and_no_problem() -> None:
    """Who picks cases learns that the gate waits for all of them; the exit code stays."""
    verdict, reason, problem = judged(
        report_of(6, 0, is_selection=True), run_of(*[1] * 6)
    )
    assert (verdict, problem) == ("INCOMPLETE", "")
    assert reason.startswith("not all cases of the class were selected")


def test_a_gate_that_fails_for_itself_still_fails() -> None:
    """A run that is no worse than a bad baseline is not good enough for that."""
    settings_of_gate = GateSettings(lower_bound_95=0.9)
    report = report_of(0, 10, gate=settings_of_gate)
    verdict, reason, _ = judged(report, run_of(*[0] * 10))
    assert verdict == "FAIL"
    assert "lower bound" in reason
    worse = judged(report_of(20, 10, gate=GateSettings()), run_of(*[1] * 30))
    assert worse[0] == "FAIL"


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=5, max_size=12),
    st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=5, max_size=12),
    st.data(),
)
def test_one_more_failure_never_lets_a_gate_pass(
    before: list[float], after: list[float], data: st.DataObject
) -> None:
    """A case that fails instead of passing can't turn FAIL into PASS."""
    n = min(len(before), len(after))
    baseline, index = (
        run_of(*before[:n]),
        data.draw(st.integers(min_value=0, max_value=n - 1)),
    )
    worse = [0.0 if place == index else score for place, score in enumerate(after[:n])]
    runs = [
        make_run([make_score(score) for score in scores])
        for scores in (after[:n], worse)
    ]
    verdicts = [judged(run, baseline)[0] for run in runs]
    assert verdicts != ["FAIL", "PASS"]
