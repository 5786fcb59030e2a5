"""The report of a run: its figures, its gate, and both in words.

The repetitions of a case are reduced to one number by unbiased estimators of what k
runs would do:

| reducer  | of a case with c passes in n runs               | computed as              |
|----------|-------------------------------------------------|--------------------------|
| mean     | the mean score                                  |                          |
| majority | whether more than half of the n runs passed     | 1 or 0                   |
| pass@k   | the chance that one of k runs passes            | 1 - C(n-c, k) / C(n, k)  |
| pass^k   | the chance that all of k runs pass              | C(c, k) / C(n, k)        |
| best@k   | the expected best score of k runs               | mean best of all subsets |

pass@k is from Chen et al., "Evaluating Large Language Models Trained on Code"
(arXiv:2107.03374); pass^k from Yao et al., "tau-bench" (arXiv:2406.12045). best@k
extends pass@k to scores: of n sorted scores the i-th is the best in C(i-1, k-1) of the
C(n, k) subsets. Each is the mean over all subsets of k runs, which is why it has no
bias (Hoeffding's U-statistics).
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
from pytest_failure_taxonomy.bench.answers import add_exactly
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
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"there is no reducer {name!r}; {RIGHT_REDUCERS}")
    return int(match[2] or 1)


def reduce_case(name: str, runs: Sequence[models.BenchScore]) -> float:
    """Return what a reducer makes of the runs of one case, from 0 to 1.

    Args:
        name: The reducer, such as `pass@3`.
        runs: At least as many as the reducer needs.
    """
    k = needed_runs(name)
    n = len(runs)
    passed = sum(run.passed for run in runs)
    scores = sorted(run.counted_score for run in runs)
    if name == "majority":
        return float(2 * passed > n)
    subsets = math.comb(n, k)
    if name.startswith("pass@"):
        return 1 - math.comb(n - passed, k) / subsets
    if name.startswith("pass^"):
        return math.comb(passed, k) / subsets
    if name.startswith("best@"):
        terms = (
            math.comb(rank, k - 1) / subsets * score
            for rank, score in enumerate(scores)
        )
        return min(1.0, math.fsum(terms))
    return math.fsum(scores) / n


def reduce_runs(
    names: Sequence[str], cases: Sequence[DistinctCase], why_none: str = ""
) -> tuple[models.ReducedScore, ...]:
    """Return the mean of each reducer over distinct cases, with what it proves.

    The runs of a case stay together: the bound is over one number for each distinct
    case.

    Args:
        names: The reducers.
        cases: The distinct cases that were started.
        why_none: Why the cases are no sample; there is no bound then.
    """
    return tuple(_reduce_all(name, cases, why_none) for name in names)


def _reduce_all(
    name: str, cases: Sequence[DistinctCase], why_none: str
) -> models.ReducedScore:
    n = len(cases)
    needed = needed_runs(name)
    short = sum(len(case.runs) < needed for case in cases)
    why_unknown = ""
    if not cases:
        why_unknown = "no case ran"
    elif short:
        why_unknown = f"{short} of {n} cases ran fewer than {needed} times"
    if why_unknown:
        bound = models.LowerBound(value=None, method=f"none: {why_unknown}", n=n)
        return models.ReducedScore(name=name, value=None, lower_bound_95=bound)
    values = [reduce_case(name, case.runs) for case in cases]
    return models.ReducedScore(
        name=name,
        value=math.fsum(values) / n,
        **_prove(cases, why_none, values),
    )


def _prove(
    cases: Sequence[DistinctCase], why_none: str, values: Sequence[float] | None = None
) -> dict[str, Any]:
    """Return standard error and lower bound of a mean, by the names that figures have.

    Args:
        cases: The distinct cases: repetitions of a case are not independent.
        why_none: Why the cases are no sample.
        values: A number for each case; by default, its mean score.
    """
    if values is None:
        values = [case.mean for case in cases]
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
    scores = []
    for tag, tagged in sorted(by_tag.items()):
        runs = [run for case in tagged for run in case.runs]
        mean = statistics.fmean(run.counted_score for run in runs)
        scores.append(
            models.TagScores(
                tag=tag,
                n=len(runs),
                passed=sum(run.passed for run in runs),
                mean_score=mean,
                **_prove(tagged, why_none),
            )
        )
    return tuple(scores)


def scores_by_key(
    cases: Sequence[DistinctCase], why_none: str = ""
) -> tuple[models.KeyScores, ...]:
    """Return the scores on each key, sorted by key.

    A case that failed without any breakdown, because the system gave no answer or none
    that could be read, counts as 0 on each key: else the figures would be best where
    most answers are useless. A key that the rubric left out of a breakdown doesn't
    count, since that case has no such part.

    Args:
        cases: The distinct cases that were started.
        why_none: Why the cases are no sample; there is no standard error then.
    """
    runs = []
    # Repetitions of a case are alike, as the cases of a cluster are.
    units_of_cases = units_of([case.cluster for case in cases])
    for unit, case in zip(units_of_cases, cases, strict=True):
        runs += [(unit, run) for run in case.runs]
    scores = []
    for key in sorted({key for _, run in runs for key in run.breakdown}):
        counting = [
            (unit, run.breakdown.get(key, 0.0))
            for unit, run in runs
            if key in run.breakdown or not (run.breakdown or run.passed)
        ]
        units, parts = zip(*counting, strict=True)
        scores.append(
            models.KeyScores(
                key=key,
                n=len(parts),
                mean=statistics.fmean(parts),
                standard_error=None if why_none else standard_error(parts, units),
                least=min(parts),
            )
        )
    return tuple(scores)


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
    """Return the report of a run, whatever the order of the scores.

    A failed case counts as 0, and so does a case that was started and has no score because its
    process was lost. A case that was never started counts in no average, and makes the report
    incomplete.

    Args:
        plan: The plan of the run; its gate, if any, is evaluated.
        per_case: The id and the score of each graded case.
        run_id: The id of the run; a new one by default.
        started: The ids of the cases that were started; those with a score always count
            as started.
        stopped: Why cases were not started.
        lost_to: The kind of the failure for each case that never got through to the
            provider; and for each without a score that was lost to the environment.
        lost_cost_usd: What cases without a score cost, in US dollars.
        usages: What calls of the system told besides the cost, by name.
        is_part: Whether more cases are missing, of which the plan doesn't know.
        digests: What the cases were judged by.
        system: The system under test, with its version.
        system_label: Which of several systems of one pytest run it is.

    Raises:
        ValueError: A case is not part of the plan, or has two scores.
    """
    scores = _sort_scores(per_case)
    begun = sorted({*(started or ()), *scores})
    unknown = sorted(set(begun) - {case.case_id for case in plan.cases})
    if unknown:
        names = ", ".join(map(repr, unknown))
        raise ValueError(f"no case of the plan has the id {names}")
    unscored = [case_id for case_id in begun if case_id not in scores]
    is_complete = len(scores) == len(plan.cases) and not is_part
    why_none = "" if is_complete else INCOMPLETE
    if plan.is_selection:
        why_none = BY_HAND
    runs = {case_id: scores.get(case_id, _LOST) for case_id in begun}
    passed = sum(run.passed for run in runs.values())
    costs = [score.cost_usd for score in scores.values()]
    to_provider = [lost_to[case_id] for case_id in scores if case_id in lost_to]
    to_environment = [lost_to[case_id] for case_id in unscored if case_id in lost_to]
    report = models.BenchRunReport(
        run_id=secrets.token_hex(16) if run_id is None else run_id,
        task_class=plan.task_class.name,
        per_case=tuple(scores.items()),
        complete=is_complete,
        counts=models.Counts(
            scheduled=len(plan.cases),
            started=len(begun),
            graded=len(scores),
            lost=len(unscored),
            passed=passed,
            not_run=len(plan.cases) - len(begun),
        ),
        **_compute_figures(plan, runs, why_none),
        passed_count=passed,
        total_cost_usd=add_exactly(lost_cost_usd, *costs),
        usage=_sum_usages(usages),
        stopped=stopped,
        lost_to_provider=count_losses(Counter(to_provider)),
        lost_to_environment=count_losses(Counter(to_environment)),
        block_severity_failure_modes=_blocking_codes(scores.values()),
        gate=None,
        digests=digests,
        system=system,
        shard=_report_shard(plan, unscored, lost_cost_usd),
        system_label=system_label,
    )
    if plan.gate is None:
        return report
    result = evaluate_gate(report, plan.gate, is_selection=plan.is_selection)
    return report.model_copy(update={"gate": result})


def _compute_figures(
    plan: models.RunPlan, runs: Mapping[str, models.BenchScore], why_none: str
) -> dict[str, Any]:
    """Return the figures of the cases that were started, by the names of the report.

    Args:
        plan: The plan of the run.
        runs: The score of each case that was started, by id.
        why_none: Why the cases are no sample.
    """
    groups = _group_runs(plan.cases, runs)
    cases = list(groups.values())
    values = [run.counted_score for run in runs.values()]
    return {
        "mean_score": statistics.fmean(values) if values else None,
        # It computes with fractions, so the order does not change a digit.
        "score_stddev": statistics.stdev(values) if len(values) > 1 else None,
        **_prove(cases, why_none),
        "reduced": reduce_runs(plan.task_class.settings.reducers, cases, why_none),
        "by_tag": scores_by_tag(cases, why_none),
        "by_breakdown_key": scores_by_key(cases, why_none),
        "clusters": {
            name: case.cluster
            for name, case in groups.items()
            if case.cluster is not None
        },
    }


def _blocking_codes(scores: Iterable[models.BenchScore]) -> tuple[str, ...]:
    modes = [mode for score in scores for mode in score.failure_modes]
    return tuple(sorted({mode.code for mode in modes if mode.severity == "block"}))


def _sort_scores(
    per_case: Iterable[tuple[str, models.BenchScore]],
) -> dict[str, models.BenchScore]:
    scores: dict[str, models.BenchScore] = {}
    for case_id, score in per_case:
        if case_id in scores:
            raise ValueError(f"two scores for the case {case_id!r}; a case has one")
        scores[case_id] = score
    return dict(sorted(scores.items()))


def _group_runs(
    cases: Sequence[models.BenchCase], runs: Mapping[str, models.BenchScore]
) -> dict[str, DistinctCase]:
    """Return the distinct cases among those that ran, by their ids."""
    is_repeated = any(case.repetition > 1 for case in cases)
    groups: dict[str, DistinctCase] = {}
    for case in cases:
        name = case.case_id
        if name not in runs:
            continue
        if is_repeated:
            name = name.removesuffix(f"#{case.repetition}")
        if name not in groups:
            groups[name] = DistinctCase(runs=[], tags=case.tags, cluster=case.cluster)
        groups[name].runs.append(runs[case.case_id])
    return groups


def _sum_usages(usages: Iterable[Mapping[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for usage in usages:
        for name, amount in usage.items():
            sums[name] = add_exactly(sums.get(name, 0.0), amount)
    return sums


def count_losses(counts: Mapping[str, int]) -> tuple[models.ProviderLoss, ...]:
    """Return how many cases were lost to each kind of failure, sorted by kind."""
    return tuple(
        models.ProviderLoss(kind=kind, cases=count)
        for kind, count in sorted(counts.items())
    )


def _report_shard(
    plan: models.RunPlan, unscored: Sequence[str], lost_cost_usd: float
) -> models.BenchShard | None:
    if plan.shard is None:
        return None
    scheduled = [
        models.ShardCase(
            case_id=case.case_id, repetition=case.repetition, tags=case.tags
        )
        for case in plan.cases
    ]
    return models.BenchShard(
        **plan.shard.model_dump(),
        scheduled=tuple(scheduled),
        unscored=tuple(unscored),
        lost_cost_usd=lost_cost_usd,
        is_selection=plan.is_selection,
        gate=plan.gate,
        reducers=plan.task_class.settings.reducers,
    )


_REPETITION: Final = re.compile(r"#[0-9]+\Z")


def distinct_name_of(report: models.BenchRunReport) -> Callable[[str], str]:
    """Return what takes the number of a repetition from the id of a case.

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
        settings: The requirements; by default, a case must pass and no failure mode may
            block.
        is_selection: Whether the user chose some of the class's cases; that is
            `INCOMPLETE`.

    Returns:
        `FAIL` if the run is not good enough, `INCOMPLETE` if cases are missing, else
        `PASS`, with the most important reason first. Where cases are missing, only a
        failure mode that blocks is `FAIL`: more cases could fix the rest. A shard
        alone is always `INCOMPLETE`.
    """
    missing = _missing(report)
    settings = settings or models.GateSettings()
    if is_selection:
        # What the class has to reach, some of its cases have not.
        settings = models.GateSettings()
    elif missing:
        # There is no bound.
        settings = settings.model_copy(update={"lower_bound_95": None})
    failing = tuple(_failures(report, settings))
    if report.shard is not None:
        part = f"{_shard_words(report.shard)} of the class; merge the reports"
        missing = (part, *missing)
    elif is_selection:
        picked = "not all cases of the class were selected; a gate needs them all"
        missing = (picked, *missing)
    elif report.block_severity_failure_modes:
        return models.GateResult(verdict="FAIL", reasons=(*failing, *missing))
    if missing:
        return models.GateResult(verdict="INCOMPLETE", reasons=(*missing, *failing))
    return models.GateResult(verdict="FAIL" if failing else "PASS", reasons=failing)


def _failures(
    report: models.BenchRunReport, settings: models.GateSettings
) -> Iterator[str]:
    """Yield why the cases that ran are not good enough, the gravest reason first."""
    scores = report.per_case
    if report.block_severity_failure_modes:
        blocked = sum(score.is_blocked for _, score in scores)
        of_all = f"{blocked} of {counted(report.counts.scheduled, 'case')}"
        codes = _codes_words(report, "block")
        yield f"{of_all} ended with a failure mode of severity block: {codes}"
    asked = settings.lower_bound_95
    bound = report.lower_bound_95
    fewest = settings.min_passed_cases or 1
    if asked is not None:
        fewest = max(fewest, FEWEST_SCORES)
        if bound.value is None:
            why = bound.why_none
            yield f"there is no lower bound to compare with {asked:g}: {why}"
        elif bound.value < asked:
            yield f"the lower bound {cut_share(bound.value)} is below {asked:g}"
    # Cases that failed don't count: otherwise a class with one case too few would pass
    # as soon as it got another one that fails. Repetitions count once, where other
    # counts have each.
    name_of = distinct_name_of(report)
    unit = "case" if name_of is str else "distinct case"
    passed = len({name_of(case_id) for case_id, score in scores if score.passed})
    if passed < fewest == 1:
        yield "no case passed"
    elif passed < fewest:
        yield f"{counted(passed, unit)} passed; at least {fewest} are needed"


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
        why = report.stopped
        if not why and report.run_id.startswith(models.PARTIAL):
            why = models.COST_CAP  # as older reports say it
        verb = "was" if counts.not_run == 1 else "were"
        words = f"{counts.not_run} {of_all} {verb} not run"
        reasons.append(f"{words}: {why}" if why else words)
    if not reasons and not report.complete:
        reasons.append("the run is not complete")
    return tuple(reasons)


def _codes_words(report: models.BenchRunReport, severity: str) -> str:
    """Return the codes of a severity and their cases, the most frequent first."""
    cases: Counter[str] = Counter()
    for _, score in report.per_case:
        modes = score.failure_modes
        cases.update({mode.code for mode in modes if mode.severity == severity})
    ranked = sorted(cases.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{code} ({count})" for code, count in ranked)


def cut_share(share: float) -> str:
    """Return a share with three digits, truncated: 0.9496 has not reached 0.950."""
    # Rounded to twelve digits first, so that 0.3, stored as 0.29999999999999998, stays
    # 0.300.
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
    counts = report.counts
    passed = f"{counts.passed} of {counts.scheduled} passed"
    outcome = ", ".join([passed, *_missing_words(report)])
    if report.mean_score is not None:
        mean = mean_words(report.mean_score, report.standard_error)
        if not report.complete:
            # What a stop has left over says nothing of the whole class.
            mean += f" of the {counts.started} that were started"
        outcome += f"; mean {mean}; {_bound(report.lower_bound_95)}"
    head = _head_words(report.name, test)
    if report.shard is not None:
        head += f", {_shard_words(report.shard)}"
    facts = _facts(report, detail=detail)
    return [f"{head}: {outcome}", *(f"  {line}" for line in facts)]


def _head_words(name: str, test: str) -> str:
    return f"bench {name} in {test}" if test else f"bench {name}"


def _shard_words(shard: models.RunShard) -> str:
    return f"shard {shard.index} of {shard.total}"


_COLUMNS: Final = (
    "system",
    "passed",
    "mean",
    "at least",
    "cost",
    "time of a case",
    "gate",
)


def table_of_systems(
    reports: Sequence[models.BenchRunReport], *, test: str = "", has_pairs: bool = True
) -> list[str]:
    """Return a table of the systems that one task class was run with, a row for each.

    Args:
        reports: The reports of the class's runs, at least one.
        test: The test that ran it; empty for the items of the class.
        has_pairs: Whether to say below it how the systems differ, too.
    """
    rows: list[tuple[str, ...]] = [_COLUMNS]
    rows += map(_row_of_system, reports)
    columns = list(zip(*rows, strict=True))
    # What no system has, such as a cost, needs no column.
    used = [number for number, column in enumerate(columns) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    title = f"{_head_words(reports[0].task_class, test)}: {len(reports)} systems"
    lines = [title]
    for row in rows:
        line = "  ".join(row[number].ljust(widths[number]) for number in used)
        lines.append(f"  {line.rstrip()}")
    if has_pairs:
        lines += _lines_of_pairs(reports)
    return lines


def _row_of_system(report: models.BenchRunReport) -> tuple[str, ...]:
    counts = report.counts
    bound = report.lower_bound_95.value
    mean = "-"
    if report.mean_score is not None:
        mean = mean_words(report.mean_score, report.standard_error)
        if counts.not_run:
            mean += f" of {counts.started}"
    times_ms = [score.system_ms for _, score in report.per_case if score.system_ms]
    seconds = math.fsum(times_ms) / len(times_ms) / 1_000 if times_ms else None
    return (
        report.system_label,
        f"{counts.passed} of {counts.scheduled}",
        mean,
        "-" if bound is None else cut_share(bound),
        cost_words(report.total_cost_usd),
        seconds_words(seconds),
        "" if report.gate is None else report.gate.verdict,
    )


def lines_of_system(
    report: models.BenchRunReport, *, detail: bool = False, brief: bool = False
) -> list[str]:
    """Return what the table of systems does not say of one, its label first.

    Args:
        report: The report of its run.
        detail: Whether to list failure modes of severity `warn` and `info`, too.
        brief: Whether to say only why it is not good enough, in a single line; none if
            it is.
    """
    head = f"  {report.system_label}:"
    if brief:
        gate = report.gate
        why = report.stopped if gate is None else "; ".join(gate.reasons)
        return [f"{head} {why}"] if why else []
    lines = []
    missing = ", ".join(_missing_words(report))
    if missing:
        lines.append(f"cases: {missing}")
    bound = report.lower_bound_95
    if bound.value is None and report.mean_score is not None:
        lines.append(_bound(bound))
    lines += _facts(report, detail=detail, has_cost=False)
    return [head, *(f"    {line}" for line in lines)]


def _lines_of_pairs(reports: Sequence[models.BenchRunReport]) -> Iterator[str]:
    """Yield how the systems of a class differ, those first that do beyond doubt."""
    pairs = [pair for report in reports for pair in report.other_systems]
    pairs.sort(key=lambda pair: pair.finding == "undecided")
    for pair in pairs[:_MAX_PAIRS]:
        systems = f"{pair.old_system_label} -> {pair.new_system_label}"
        if pair.interval_95.low is None:
            # The table's means count cases without a score; this difference can't.
            systems += f" ({counted(pair.n, 'case')} with both scores)"
        yield f"  {systems}: {_finding_words(pair)}"
    if len(pairs) > _MAX_PAIRS:
        proven = sum(pair.finding != "undecided" for pair in pairs)
        of_all = f"{proven} of {len(pairs)} pairs of systems"
        yield f"  {of_all} differ beyond doubt; the report has all"


def _finding_words(found: models.BenchComparison) -> str:
    return f"{difference_words(found)}, {found.finding}{adjusted_words(found)}"


def adjusted_words(found: models.BenchComparison) -> str:
    """Return of how many comparisons a finding is one; '' for a single one."""
    if found.comparisons == 1 or found.adjusted_p is None:
        return ""
    return f" (Holm's p = {found.adjusted_p:.2g} for {found.comparisons} comparisons)"


def _facts(
    report: models.BenchRunReport, *, detail: bool, has_cost: bool = True
) -> list[str]:
    """Return the other facts of a run, a line for each, which begins with its name."""
    facts = [("block", _codes_words(report, "block"))]
    if detail:
        facts += [(name, _codes_words(report, name)) for name in ("warn", "info")]
    facts += [(reduced.name, _reduced_words(reduced)) for reduced in report.reduced]
    if detail:
        facts += [(f"tag {tag.tag}", _tag_words(tag)) for tag in report.by_tag]
        facts += [(f"key {k.key}", _key_words(k)) for k in report.by_breakdown_key]
    facts.append(("partial credit", _partial_words(report)))
    facts.append(("judge", _agreement_words(report.rubric_agreement)))
    facts.append(("slowest", _slowest_words(report)))
    facts.append(("stopped", report.stopped or ""))
    if has_cost:
        facts.append(("cost", cost_words(report.total_cost_usd)))
    usage = (f"{shown(name)} {amount:,.12g}" for name, amount in report.usage.items())
    facts.append(("usage", ", ".join(usage)))
    facts.append(("baseline", _baseline_words(report.baseline)))
    facts.append(_gate_fact(report))
    return [f"{name}: {words}" for name, words in facts if words]


def _reduced_words(reduced: models.ReducedScore) -> str:
    bound = reduced.lower_bound_95
    if reduced.value is None:
        return f"not known: {bound.why_none}"
    return f"{mean_words(reduced.value, reduced.standard_error)}; {_bound(bound)}"


def _tag_words(tag: models.TagScores) -> str:
    mean = mean_words(tag.mean_score, tag.standard_error)
    return f"{tag.passed} of {tag.n} passed; mean {mean}; {_bound(tag.lower_bound_95)}"


def _key_words(key: models.KeyScores) -> str:
    mean = mean_words(key.mean, key.standard_error)
    return f"mean {mean}, least {key.least:.3f}, n={key.n}"


def _slowest_words(report: models.BenchRunReport) -> str:
    """Return the cases for which the system took longest."""
    times_ms = [
        (-score.system_ms, case_id)
        for case_id, score in report.per_case
        if score.system_ms
    ]
    return ", ".join(
        f"{case_id} {seconds_words(-time_ms / 1_000)}"
        for time_ms, case_id in sorted(times_ms)[:_SLOWEST]
    )


def _baseline_words(found: models.BenchComparison | None) -> str:
    """Return how a run differs from its baseline; '' without one."""
    if found is None:
        return ""
    parts = [f"mean {_finding_words(found)}"]
    verbs = {
        "now_fails": ("no longer passes", "no longer pass"),
        "now_passes": ("now passes", "now pass"),
    }
    for flip, (singular, plural) in verbs.items():
        names = [case.case_id for case in found.changes if case.flip == flip]
        if names:
            verb = singular if len(names) == 1 else plural
            parts.append(f"{len(names)} {verb}: {listed(names, _MAX_FLIPS)}")
    return "; ".join(parts)


def _gate_fact(report: models.BenchRunReport) -> tuple[str, str]:
    """Return what the gate says, or that one would fail."""
    gate = report.gate
    if gate is not None:
        reasons = "; ".join(gate.reasons)
        return "gate", f"{gate.verdict}: {reasons}" if reasons else gate.verdict
    blocked = sum(score.passed and score.is_blocked for _, score in report.per_case)
    if not blocked:
        return "no gate", ""
    cases = counted(blocked, "case")
    return "no gate", f"{cases} passed with a code of severity block; a gate would fail"


def _partial_words(report: models.BenchRunReport) -> str:
    """Return how many scores count 0 because their cases failed; '' for none."""
    scored = sum(score.score > score.counted_score for _, score in report.per_case)
    if not scored:
        return ""
    return f"{counted(scored, 'failed case')} scored above 0; each counts 0"


def _agreement_words(found: models.RubricAgreement | None) -> str:
    """Return how far the rubric agrees with people; '' where that is not known."""
    if found is None:
        return ""
    if found.is_stale:
        what = f"the rubric has changed since {found.measured_at}"
        return f"stale: {what}; run bench judge again"
    parts = [f"agrees with {found.agreement.value:.3f} of {found.agreement.n} labels"]
    if found.kappa is not None:
        parts.append(f"kappa {found.kappa:.3f}")
    for name in ("true_positive_rate", "true_negative_rate"):
        rate = getattr(found, name)
        if rate is not None:
            parts.append(f"{name.replace('_', ' ')} {rate.value:.3f}")
    return ", ".join(parts)


def _missing_words(report: models.BenchRunReport) -> list[str]:
    """Return how many cases have no score, or failed at the provider."""
    counts = report.counts
    words = []
    owed = report.lost_to_environment
    owed_cases = sum(loss.cases for loss in owed)
    if counts.lost > owed_cases:
        words.append(f"{counts.lost - owed_cases} lost")
    if owed:
        kinds = ", ".join(loss.kind for loss in owed)
        words.append(f"{owed_cases} lost (environment: {kinds})")
    if counts.not_run:
        words.append(f"{counts.not_run} not run")
    losses = report.lost_to_provider
    if losses:
        cases = sum(loss.cases for loss in losses)
        kinds = ", ".join(loss.kind for loss in losses)
        words.append(f"{cases} failed at the provider ({kinds})")
    return words


def _bound(bound: models.LowerBound) -> str:
    """Return the lower bound with its method, or why there is none."""
    if bound.value is None:
        return f"no lower bound: {bound.why_none}"
    return f"at least {cut_share(bound.value)} (95 %, {bound.method}, {_units(bound)})"


def _units(found: models.LowerBound | models.DifferenceInterval) -> str:
    """Return how many cases, in how many clusters, a figure is computed from."""
    if found.clusters is None:
        return f"n={found.n}"
    return f"n={found.n} in {found.clusters} clusters"


def difference_words(found: models.BenchComparison) -> str:
    """Return the difference of two means and its interval in words."""
    difference = f"changed by {signed(found.difference)}"
    interval = found.interval_95
    if interval.low is None or interval.high is None:
        return f"{difference} (no interval: {interval.why_none})"
    ends = f"{signed(interval.low)} and {signed(interval.high)}"
    return f"{difference} (95 % between {ends}, {_units(interval)})"


def signed(number: float) -> str:
    """Return a difference with sign and three digits; only 0 looks like 0."""
    text = f"{number:+.3f}"
    if number and float(text) == 0:
        return "<+0.001" if number > 0 else ">-0.001"
    return text if number else "0.000"
