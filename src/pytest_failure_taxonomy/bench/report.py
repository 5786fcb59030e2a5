"""The report of a run: its figures, its gate, and both in words.

The repetitions of a case are reduced to one number by unbiased estimators of what k runs would do:

| reducer  | of a case with c passes in n runs               | computed as              |
|----------|-------------------------------------------------|--------------------------|
| mean     | the mean score                                  |                          |
| majority | whether more than half of the n runs passed     | 1 or 0                   |
| pass@k   | the chance that one of k runs passes            | 1 - C(n-c, k) / C(n, k)  |
| pass^k   | the chance that all of k runs pass              | C(c, k) / C(n, k)        |
| best@k   | the expected best score of k runs               | mean best of all subsets |

pass@k is from Chen et al., "Evaluating Large Language Models Trained on Code" (arXiv:2107.03374);
pass^k from Yao et al., "tau-bench" (arXiv:2406.12045). best@k extends pass@k to scores: of n sorted
scores the i-th is the best in C(i-1, k-1) of the C(n, k) subsets. Each is the mean over all subsets
of k runs, which is why it has no bias (Hoeffding's U-statistics).
"""

from __future__ import annotations

import math
import re
import secrets
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from pytest_failure_taxonomy.bench import models
from pytest_failure_taxonomy.bench.bounds import (
    BY_HAND,
    FEWEST_SCORES,
    INCOMPLETE,
    lower_bound_95,
    standard_error,
    units_of,
)
from pytest_failure_taxonomy.documents.problems import shown
from pytest_failure_taxonomy.taxonomy.values import value
from pytest_failure_taxonomy.taxonomy.words import (
    cost_words,
    counted,
    listed,
    seconds_words,
)

RIGHT_REDUCERS: Final = "write mean, majority, pass@K, pass^K or best@K"
_NAME: Final = re.compile(
    r"mean|majority|(pass@|pass\^|best@)([1-9][0-9]{0,3})", re.ASCII
)


_LOST: Final = models.BenchScore(passed=False, score=0.0)
"""Counts for a run of a case that was started and has no score."""


@value
class DistinctCase:
    """A distinct case that was started, with its runs."""

    runs: list[models.BenchScore]
    """At least one."""
    tags: tuple[str, ...] = ()
    cluster: str | None = None
    digest: str | None = None
    """Of the case as it was asked; `None` if unknown."""

    @property
    def mean(self) -> float:
        """The mean score, a run that did not pass counted as 0."""
        return statistics.fmean(run.counted_score for run in self.runs)

    @property
    def passed(self) -> float:
        """The share of the runs that passed."""
        return sum(run.passed for run in self.runs) / len(self.runs)


def is_reducer(name: str) -> bool:
    """Return whether there is a reducer of that name."""
    return _NAME.fullmatch(name) is not None


def needed_runs(name: str) -> int:
    """Return how many runs of a case a reducer needs.

    Raises:
        ValueError: There is no such reducer.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"there is no reducer {name!r}; {RIGHT_REDUCERS}")
    return int(found[2] or 1)


def reduce_case(name: str, runs: Sequence[models.BenchScore]) -> float:
    """Return what a reducer makes of the runs of one case, from 0 to 1.

    Args:
        name: The reducer, such as `pass@3`.
        runs: At least as many as the reducer needs.
    """
    k, n, passed = needed_runs(name), len(runs), sum(run.passed for run in runs)
    scores = sorted(run.counted_score for run in runs)
    if name == "majority":
        return float(2 * passed > n)
    subsets = math.comb(n, k)
    if name.startswith("pass@"):
        return 1 - math.comb(n - passed, k) / subsets
    if name.startswith("pass^"):
        return math.comb(passed, k) / subsets
    if name.startswith("best@"):
        terms = (math.comb(i, k - 1) / subsets * each for i, each in enumerate(scores))
        return min(1.0, math.fsum(terms))
    return math.fsum(scores) / n


def reduce_runs(
    names: Sequence[str], cases: Sequence[DistinctCase], why_none: str = ""
) -> tuple[models.ReducedScore, ...]:
    """Return the mean of each reducer over distinct cases, with what it proves.

    The runs of a case stay together: the bound is over one number for each distinct case.

    Args:
        names: The reducers.
        cases: The distinct cases that were started.
        why_none: Why the cases are no sample; there is no bound then.
    """
    reduced = []
    for name in names:
        k, n, mean = needed_runs(name), len(cases), None
        short = sum(len(case.runs) < k for case in cases)
        if short or not cases:
            why = (
                f"{short} of {n} cases ran fewer than {k} times"
                if cases
                else "no case ran"
            )
            bound = models.LowerBound(value=None, method=f"none: {why}", n=n)
            proven: dict[str, Any] = {"lower_bound_95": bound}
        else:
            values = [reduce_case(name, case.runs) for case in cases]
            mean, proven = math.fsum(values) / n, _proven_by(cases, why_none, values)
        reduced.append(models.ReducedScore(name=name, value=mean, **proven))
    return tuple(reduced)


def _proven_by(
    cases: Sequence[DistinctCase], why_none: str, values: Sequence[float] | None = None
) -> dict[str, Any]:
    """Return standard error and lower bound of a mean, by the names that all reports have for them.

    Args:
        cases: The distinct cases: repetitions of a case are not independent.
        why_none: Why the cases are no sample.
        values: A number for each case; by default, its mean score.
    """
    values = [case.mean for case in cases] if values is None else values
    clusters = [case.cluster for case in cases]
    return {
        "standard_error": None if why_none else standard_error(values, clusters),
        "lower_bound_95": lower_bound_95(values, why_none, clusters),
    }


def scores_by_tag(
    cases: Iterable[DistinctCase], why_none: str = ""
) -> tuple[models.TagScores, ...]:
    """Return the scores of the cases of each tag, sorted by tag.

    Args:
        cases: The distinct cases that were started.
        why_none: Why the cases are no sample; there is no bound then.
    """
    by_tag: dict[str, list[DistinctCase]] = {}
    for case in cases:
        for tag in case.tags:
            by_tag.setdefault(tag, []).append(case)
    found = []
    for tag, tagged in sorted(by_tag.items()):
        runs = [run for case in tagged for run in case.runs]
        found.append(
            models.TagScores(
                tag=tag,
                n=len(runs),
                passed=sum(run.passed for run in runs),
                mean_score=statistics.fmean(run.counted_score for run in runs),
                **_proven_by(tagged, why_none),
            )
        )
    return tuple(found)


def scores_by_key(
    cases: Sequence[DistinctCase], why_none: str = ""
) -> tuple[models.KeyScores, ...]:
    """Return the scores on each key, sorted by key.

    A case that failed without any breakdown, because the system gave no answer or none that could
    be read, counts as 0 on each key: else the figures would be best where most answers are useless.
    A key that the rubric left out of a breakdown doesn't count, since that case has no such part.

    Args:
        cases: The distinct cases that were started.
        why_none: Why the cases are no sample; there is no standard error then.
    """
    # Repetitions of a case are alike, as the cases of a cluster are.
    of_cases = units_of([case.cluster for case in cases])
    runs = [
        (unit, run)
        for unit, case in zip(of_cases, cases, strict=True)
        for run in case.runs
    ]
    found = []
    for key in sorted({key for _, run in runs for key in run.breakdown}):
        given = [
            (unit, run.breakdown.get(key, 0.0))
            for unit, run in runs
            if key in run.breakdown or not (run.breakdown or run.passed)
        ]
        units, numbers = zip(*given, strict=True)
        found.append(
            models.KeyScores(
                key=key,
                n=len(given),
                mean=statistics.fmean(numbers),
                standard_error=None if why_none else standard_error(numbers, units),
                least=min(numbers),
            )
        )
    return tuple(found)


def aggregate(
    plan: models.RunPlan,
    per_case: Iterable[tuple[str, models.BenchScore]],
    *,
    run_id: str | None = None,
    started: Collection[str] | None = None,
    stopped: str | None = None,
    lost_to: Mapping[str, str] = MappingProxyType({}),
    lost_cost_usd: float = 0.0,
    usages: Iterable[Mapping[str, float]] = (),
    is_part: bool = False,
    digests: models.BenchDigests | None = None,
    system: str | None = None,
    system_label: str = "",
) -> models.BenchRunReport:
    """Return the report of a run; the order of the scores doesn't matter.

    A case that failed counts as 0, and so does a case that was started and has no score because its
    process was lost. A case that was never started counts in no average, and makes the report
    incomplete.

    Args:
        plan: The plan of the run; its gate, if any, is evaluated.
        per_case: The id and the score of each graded case.
        run_id: The id of the run; a new one by default.
        started: The ids of the cases that were started; those with a score always count as started.
        stopped: Why cases were not started.
        lost_to: The kind of the provider's failure for each case that never got through.
        lost_cost_usd: What cases without a score cost, in US dollars.
        usages: What calls of the system told besides the cost, by name.
        is_part: Whether more cases are missing, of which the plan doesn't know.
        digests: What the cases were judged by.
        system: The system under test, with its version.
        system_label: Which of several systems of one pytest run it is.

    Raises:
        ValueError: A case is not part of the plan, or has two scores.
    """
    unsorted: dict[str, models.BenchScore] = {}
    for case_id, score in per_case:
        if case_id in unsorted:
            raise ValueError(f"two scores for the case {case_id!r}; a case has one")
        unsorted[case_id] = score
    scores = dict(sorted(unsorted.items()))
    begun = sorted({*(started or ()), *scores})
    unknown = sorted(set(begun) - {case.case_id for case in plan.cases})
    if unknown:
        raise ValueError(
            f"no case of the plan has the id {', '.join(map(repr, unknown))}"
        )
    runs = {key: scores.get(key, _LOST) for key in begun}
    passed = sum(run.passed for run in runs.values())
    values = [run.counted_score for run in runs.values()]
    is_repeated = any(case.repetition > 1 for case in plan.cases)
    groups: dict[str, DistinctCase] = {}
    for case in plan.cases:
        key = case.case_id
        if key in runs:
            name = key.removesuffix(f"#{case.repetition}") if is_repeated else key
            new = DistinctCase(runs=[], tags=case.tags, cluster=case.cluster)
            groups.setdefault(name, new).runs.append(runs[key])
    distinct = list(groups.values())
    modes = [mode for score in scores.values() for mode in score.failure_modes]
    losses = Counter(kind for key, kind in lost_to.items() if key in scores)
    usage: dict[str, float] = {}
    for amounts in usages:
        for name, amount in amounts.items():
            usage[name] = usage.get(name, 0.0) + amount
    is_complete = len(scores) == len(plan.cases) and not is_part
    why_none = BY_HAND if plan.is_selection else "" if is_complete else INCOMPLETE
    report = models.BenchRunReport(
        run_id=secrets.token_hex(16) if run_id is None else run_id,
        task_class=plan.task_class.name,
        per_case=tuple(scores.items()),
        complete=is_complete,
        counts=models.Counts(
            scheduled=len(plan.cases),
            started=len(begun),
            graded=len(scores),
            lost=len(begun) - len(scores),
            passed=passed,
            not_run=len(plan.cases) - len(begun),
        ),
        mean_score=statistics.fmean(values) if values else None,
        **_proven_by(distinct, why_none),
        # It computes with fractions, so the order does not change a digit.
        score_stddev=statistics.stdev(values) if len(values) > 1 else None,
        passed_count=passed,
        total_cost_usd=math.fsum(
            [lost_cost_usd, *(score.cost_usd for score in scores.values())]
        ),
        usage=usage,
        stopped=stopped,
        lost_to_provider=tuple(
            models.ProviderLoss(kind=kind, cases=count)
            for kind, count in sorted(losses.items())
        ),
        block_severity_failure_modes=tuple(
            sorted({mode.code for mode in modes if mode.severity == "block"})
        ),
        gate=None,
        reduced=reduce_runs(plan.task_class.settings.reducers, distinct, why_none),
        by_tag=scores_by_tag(distinct, why_none),
        by_breakdown_key=scores_by_key(distinct, why_none),
        clusters={
            name: each.cluster
            for name, each in groups.items()
            if each.cluster is not None
        },
        digests=digests,
        system=system,
        shard=None
        if plan.shard is None
        else models.BenchShard(
            **plan.shard.model_dump(),
            scheduled=tuple(
                models.ShardCase(
                    case_id=case.case_id, repetition=case.repetition, tags=case.tags
                )
                for case in plan.cases
            ),
            unscored=tuple(case_id for case_id in begun if case_id not in scores),
            lost_cost_usd=lost_cost_usd,
            is_selection=plan.is_selection,
            gate=plan.gate,
            reducers=plan.task_class.settings.reducers,
        ),
        system_label=system_label,
    )
    if plan.gate is None:
        return report
    result = evaluate_gate(report, plan.gate, is_selection=plan.is_selection)
    return report.model_copy(update={"gate": result})


_REPETITION: Final = re.compile(r"#[0-9]+\Z")


def distinct_name_of(report: models.BenchRunReport) -> Callable[[str], str]:
    """Return what takes the number of a repetition from the id of a case, where it has one.

    Else `fix#2` is not the second run of the case `fix`, but a case of its own.
    """
    is_repeated = report.lower_bound_95.n != report.counts.started
    return partial(_REPETITION.sub, "") if is_repeated else str


def evaluate_gate(
    report: models.BenchRunReport,
    settings: models.GateSettings | None = None,
    *,
    is_selection: bool = False,
) -> models.GateResult:
    """Return whether a run is good enough.

    Another failure or a lost case never turns `FAIL` into `PASS`.

    Args:
        report: The report of the run; its own `gate` is ignored.
        settings: The requirements; by default, a case must pass and no failure mode may block.
        is_selection: Whether the user chose some of the class's cases; that is `INCOMPLETE`.

    Returns:
        `FAIL` if the run is not good enough, `INCOMPLETE` if cases are missing, else `PASS`, with
        the most important reason first. Where cases are missing, only a failure mode that blocks is
        `FAIL`: more cases could mend the rest. A shard alone is always `INCOMPLETE`.
    """
    missing = _missing(report)
    settings = settings or models.GateSettings()
    if is_selection:
        settings = (
            models.GateSettings()
        )  # what the class has to reach, some of its cases have not
    elif missing:
        settings = settings.model_copy(
            update={"lower_bound_95": None}
        )  # there is no bound
    failing = tuple(_failures(report, settings))
    if report.shard is not None:
        part = f"shard {report.shard.index} of {report.shard.total} of the class; merge the reports"
        missing = (part, *missing)
    elif is_selection:
        missing = (
            "not all cases of the class were selected; a gate needs them all",
            *missing,
        )
    elif report.block_severity_failure_modes:
        return models.GateResult(verdict="FAIL", reasons=(*failing, *missing))
    if missing:
        return models.GateResult(verdict="INCOMPLETE", reasons=(*missing, *failing))
    return models.GateResult(verdict="FAIL" if failing else "PASS", reasons=failing)


def _failures(
    report: models.BenchRunReport, settings: models.GateSettings
) -> Iterator[str]:
    """Yield why the cases that ran are not good enough, the most important reason first."""
    if report.block_severity_failure_modes:
        blocked = sum(
            any(mode.severity == "block" for mode in score.failure_modes)
            for _, score in report.per_case
        )
        of_all = f"{blocked} of {counted(report.counts.scheduled, 'case')}"
        codes = _codes_words(report, "block")
        yield f"{of_all} ended with a failure mode of severity block: {codes}"
    asked, bound = settings.lower_bound_95, report.lower_bound_95
    if asked is not None and bound.value is None:
        why = bound.method.removeprefix("none: ")
        yield f"there is no lower bound to compare with {asked:g}: {why}"
    elif asked is not None and bound.value is not None and bound.value < asked:
        yield f"the lower bound {cut_share(bound.value)} is below {asked:g}"
    # Cases that failed don't count: otherwise a class with one case too few would pass as soon as
    # it got another one that fails.
    needed = max(settings.min_passed_cases or 1, 1 if asked is None else FEWEST_SCORES)
    name_of = distinct_name_of(
        report
    )  # repetitions count once, where other counts have each
    unit = "case" if name_of is str else "distinct case"
    passed = len(
        {name_of(case_id) for case_id, score in report.per_case if score.passed}
    )
    if passed < needed == 1:
        yield "no case passed"
    elif passed < needed:
        yield f"{counted(passed, unit)} passed; at least {needed} are needed"


def _missing(report: models.BenchRunReport) -> tuple[str, ...]:
    """Return how many cases have no score, and why."""
    counts = report.counts
    of_all = f"of {counted(counts.scheduled, 'case')}"
    reasons = []
    if report.stopped and not counts.not_run:
        reasons.append(report.stopped)
    if counts.lost:
        reasons.append(f"{counts.lost} {of_all} started and left no score")
    if counts.not_run:
        # As older reports say it.
        capped = models.COST_CAP if report.run_id.startswith(models.PARTIAL) else ""
        why = f": {why}" if (why := report.stopped or capped) else ""
        verb = "was" if counts.not_run == 1 else "were"
        reasons.append(f"{counts.not_run} {of_all} {verb} not run{why}")
    if not reasons and not report.complete:
        reasons.append("the run is not complete")
    return tuple(reasons)


def _codes_words(report: models.BenchRunReport, severity: str) -> str:
    """Return the codes of a severity with their number of cases, the most frequent first."""
    found = Counter(
        code
        for _, score in report.per_case
        for code in {
            mode.code for mode in score.failure_modes if mode.severity == severity
        }
    )
    ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{code} ({count})" for code, count in ranked)


def cut_share(share: float) -> str:
    """Return a share with three digits, truncated: 0.9496 has not reached 0.950."""
    # Rounded to twelve digits first, so that 0.3, stored as 0.29999999999999998, stays 0.300.
    return f"{share:.12f}"[:5]


def mean_words(mean: float, error: float | None = None) -> str:
    """Return a mean, rounded once, with its standard error, if that is not 0.

    What is not 1 is not shown as 1, nor as 0 what is not 0.
    """
    text = f"{mean:.3f}"
    if 0 < mean < 1:
        text = min(max(text, "0.001"), "0.999")
    return f"{text} ± {error:.3f}" if error and error >= 0.0005 else text


_MAX_FLIPS: Final = 5
_MAX_PAIRS: Final = 10
"""Pairs of systems that are listed."""
_SLOWEST: Final = 3
"""Cases that are listed as the slowest."""


def summary_lines(
    report: models.BenchRunReport, *, test: str = "", detail: bool = False
) -> list[str]:
    """Return the lines of one task class: the first names it, the others are indented.

    Args:
        report: The report of its run.
        test: The test that ran it; empty for the items of the class.
        detail: Whether to list failure modes of severity `warn` and `info`, too.
    """
    counts, part = report.counts, ""
    outcome = ", ".join(
        [f"{counts.passed} of {counts.scheduled} passed", *_missing_words(report)]
    )
    if report.mean_score is not None:
        # What a stop has left over says nothing of the whole class.
        of = "" if report.complete else f" of the {counts.started} that were started"
        mean = mean_words(report.mean_score, report.standard_error)
        outcome += f"; mean {mean}{of}; {_bound(report.lower_bound_95)}"
    if report.shard is not None:
        part = f", shard {report.shard.index} of {report.shard.total}"
    return [
        f"bench {name_with_system(report)}{test and f' in {test}'}{part}: {outcome}",
        *(f"  {line}" for line in _facts(report, detail=detail)),
    ]


def table_of_systems(
    reports: Sequence[models.BenchRunReport], *, test: str = "", has_pairs: bool = True
) -> list[str]:
    """Return a table of the systems that one task class was run with, a row for each.

    Args:
        reports: The reports of the class's runs, at least one.
        test: The test that ran it; empty for the items of the class.
        has_pairs: Whether to say below it how the systems differ, too.
    """
    rows = [("system", "passed", "mean", "at least", "cost", "time of a case", "gate")]
    for report in reports:
        counts, bound = report.counts, report.lower_bound_95.value
        measured = [score.system_ms for _, score in report.per_case if score.system_ms]
        cells = (
            report.system_label,
            f"{counts.passed} of {counts.scheduled}",
            "-"
            if report.mean_score is None
            else mean_words(report.mean_score, report.standard_error)
            + (f" of {counts.started}" if counts.not_run else ""),
            "-" if bound is None else cut_share(bound),
            cost_words(report.total_cost_usd),
            seconds_words(math.fsum(measured) / len(measured) / 1_000)
            if measured
            else "",
            "" if report.gate is None else report.gate.verdict,
        )
        rows.append(cells)
    # What no system has, such as a cost, needs no column.
    used = [n for n, column in enumerate(zip(*rows, strict=True)) if any(column[1:])]
    widths = {n: max(len(row[n]) for row in rows) for n in used}
    title = (
        f"bench {reports[0].task_class}{test and f' in {test}'}: {len(reports)} systems"
    )
    lines = ("  ".join(row[n].ljust(widths[n]) for n in used) for row in rows)
    pairs = _lines_of_pairs(reports) if has_pairs else ()
    return [title, *(f"  {line.rstrip()}" for line in lines), *pairs]


def lines_of_system(
    report: models.BenchRunReport, *, detail: bool = False, brief: bool = False
) -> list[str]:
    """Return what the table of systems does not say of one, the first line with its label.

    Args:
        report: The report of its run.
        detail: Whether to list failure modes of severity `warn` and `info`, too.
        brief: Whether to say only why it is not good enough, in a single line; none if it is.
    """
    if brief:
        why = (
            "; ".join(report.gate.reasons)
            if report.gate is not None
            else report.stopped
        )
        return [f"  {report.system_label}: {why}"] if why else []
    bound = report.lower_bound_95
    lines = (
        [f"cases: {', '.join(missing)}"] if (missing := _missing_words(report)) else []
    )
    if bound.value is None and report.mean_score is not None:
        lines.append(_bound(bound))
    lines += _facts(report, detail=detail, has_cost=False)
    return [f"  {report.system_label}:", *(f"    {line}" for line in lines)]


def _lines_of_pairs(reports: Sequence[models.BenchRunReport]) -> Iterator[str]:
    """Yield how the systems of one task class differ, those pairs first that do beyond doubt."""
    pairs = [each for report in reports for each in report.other_systems]
    pairs.sort(key=lambda found: found.finding == "undecided")
    for found in pairs[:_MAX_PAIRS]:
        words = f"{difference_words(found)}, {found.finding}{adjusted_words(found)}"
        # The table's means count cases without a score; this difference can't.
        is_whole = found.interval_95.low is not None
        both = "" if is_whole else f" ({counted(found.n, 'case')} with both scores)"
        yield f"  {found.old_system_label} -> {found.new_system_label}{both}: {words}"
    if len(pairs) > _MAX_PAIRS:
        proven = sum(found.finding != "undecided" for found in pairs)
        yield f"  {proven} of {len(pairs)} pairs of systems differ beyond doubt; the report has all"


def adjusted_words(found: models.BenchComparison) -> str:
    """Return that a finding is that of one of several comparisons, if it is; else nothing."""
    if found.comparisons == 1 or found.adjusted_p is None:
        return ""
    return f" (Holm's p = {found.adjusted_p:.2g} for {found.comparisons} comparisons)"


def name_with_system(report: models.BenchRunReport) -> str:
    """Return the name of a run's class, with the label of its system if there are several."""
    return report.task_class + (
        f"[{report.system_label}]" if report.system_label else ""
    )


def _facts(
    report: models.BenchRunReport, *, detail: bool, has_cost: bool = True
) -> list[str]:
    """Return the other facts of a run, a line for each, which begins with its name."""
    severities = ("block", "warn", "info") if detail else ("block",)
    facts = [(severity, _codes_words(report, severity)) for severity in severities]
    for reduced in report.reduced:
        if reduced.value is None:
            words = f"not known: {reduced.lower_bound_95.method.removeprefix('none: ')}"
        else:
            mean = mean_words(reduced.value, reduced.standard_error)
            words = f"{mean}; {_bound(reduced.lower_bound_95)}"
        facts.append((reduced.name, words))
    for tag in report.by_tag if detail else ():
        mean = mean_words(tag.mean_score, tag.standard_error)
        words = (
            f"{tag.passed} of {tag.n} passed; mean {mean}; {_bound(tag.lower_bound_95)}"
        )
        facts.append((f"tag {tag.tag}", words))
    for key in report.by_breakdown_key if detail else ():
        mean = mean_words(key.mean, key.standard_error)
        facts.append(
            (f"key {key.key}", f"mean {mean}, least {key.least:.3f}, n={key.n}")
        )
    facts.append(("partial credit", _partial_words(report)))
    facts.append(("judge", _agreement_words(report.rubric_agreement)))
    times_ms = {
        case_id: score.system_ms
        for case_id, score in report.per_case
        if score.system_ms
    }
    slowest = sorted(times_ms, key=lambda case_id: (-times_ms[case_id], case_id))[
        :_SLOWEST
    ]
    times = (
        f"{case_id} {seconds_words(times_ms[case_id] / 1_000)}" for case_id in slowest
    )
    facts.append(("slowest", ", ".join(times)))
    facts.append(("stopped", report.stopped or ""))
    facts.append(("cost", cost_words(report.total_cost_usd) if has_cost else ""))
    usage = (f"{shown(name)} {amount:,.12g}" for name, amount in report.usage.items())
    facts.append(("usage", ", ".join(usage)))
    if report.baseline is not None:
        found = report.baseline
        said = [
            f"mean {difference_words(found)}, {found.finding}{adjusted_words(found)}"
        ]
        for flip, verb in (("now_fails", "no longer pass"), ("now_passes", "now pass")):
            names = [each.case_id for each in found.changes if each.flip == flip]
            if names:
                verbs = f"{verb}es" if len(names) == 1 else verb
                said.append(f"{len(names)} {verbs}: {listed(names, _MAX_FLIPS)}")
        facts.append(("baseline", "; ".join(said)))
    if report.gate is not None:
        reasons = "; ".join(report.gate.reasons)
        facts.append(
            ("gate", report.gate.verdict + (f": {reasons}" if reasons else ""))
        )
    elif blocked := sum(
        score.passed and any(mode.severity == "block" for mode in score.failure_modes)
        for _, score in report.per_case
    ):
        passed = "1 case passed" if blocked == 1 else f"{blocked} cases passed"
        facts.append(
            ("no gate", f"{passed} with a code of severity block; a gate would fail")
        )
    return [f"{name}: {words}" for name, words in facts if words]


def _partial_words(report: models.BenchRunReport) -> str:
    """Return how many scores count 0 because their cases failed; '' where there are none."""
    scored = sum(score.score > score.counted_score for _, score in report.per_case)
    return (
        f"{counted(scored, 'failed case')} scored above 0; each counts 0"
        if scored
        else ""
    )


def _agreement_words(found: models.RubricAgreement | None) -> str:
    """Return how far the rubric agrees with people, in one line; '' where that is not known."""
    if found is None:
        return ""
    if found.is_stale:
        return f"stale: the rubric has changed since {found.measured_at}; run bench judge again"
    words = f"agrees with {found.agreement.value:.3f} of {found.agreement.n} labels"
    rates = {
        "kappa": found.kappa,
        "true positive rate": found.true_positive_rate
        and found.true_positive_rate.value,
        "true negative rate": found.true_negative_rate
        and found.true_negative_rate.value,
    }
    parts = (f"{name} {each:.3f}" for name, each in rates.items() if each is not None)
    return ", ".join([words, *parts])


def _missing_words(report: models.BenchRunReport) -> list[str]:
    """Return how many cases have no score, and how many never got through to the provider."""
    counts, words = report.counts, []
    if counts.lost:
        words.append(f"{counts.lost} lost")
    if counts.not_run:
        words.append(f"{counts.not_run} not run")
    if report.lost_to_provider:
        cases = sum(each.cases for each in report.lost_to_provider)
        kinds = ", ".join(each.kind for each in report.lost_to_provider)
        words.append(f"{cases} of {counts.scheduled} lost to the provider ({kinds})")
    return words


def _bound(bound: models.LowerBound) -> str:
    """Return the lower bound with its method, or why there is none."""
    if bound.value is None:
        return f"no lower bound: {bound.method.removeprefix('none: ')}"
    return f"at least {cut_share(bound.value)} (95 %, {bound.method}, {_units(bound)})"


def _units(found: models.LowerBound | models.DifferenceInterval) -> str:
    """Return how many cases a figure is computed from, and their clusters if they have some."""
    return f"n={found.n}" + (
        f" in {found.clusters} clusters" if found.clusters is not None else ""
    )


def difference_words(found: models.BenchComparison) -> str:
    """Return the difference of two means and its interval in words."""
    difference = f"changed by {signed(found.difference)}"
    interval = found.interval_95
    if interval.low is None or interval.high is None:
        return f"{difference} (no interval: {interval.method.removeprefix('none: ')})"
    return (
        f"{difference} (95 % between {signed(interval.low)} and {signed(interval.high)},"
        f" {_units(interval)})"
    )


def signed(number: float) -> str:
    """Return a difference with three digits and its sign; what is not 0 never looks like 0."""
    text = f"{number:+.3f}"
    if number and float(text) == 0:
        return "<+0.001" if number > 0 else ">-0.001"
    return text if number else "0.000"
