"""Compare two runs of a task class, paired by case, and read those that a user names.

Why the pairs are bounded as they are: docs/bench/compare-runs.md.
"""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Final

from pydantic import ValidationError

from pytest_failure_taxonomy.bench import models
from pytest_failure_taxonomy.bench.answers import add_exactly
from pytest_failure_taxonomy.bench.bounds import (
    ALPHA,
    BY_HAND,
    difference_interval_95,
    grouped,
    holm,
    mcnemar_p_value,
    units_of,
)
from pytest_failure_taxonomy.bench.kept.reader import KeptRun, read_run
from pytest_failure_taxonomy.bench.kept.runs import (
    find_run,
    find_runs,
    report_of,
    run_paths,
    session_of,
)
from pytest_failure_taxonomy.bench.models import BenchRunReport
from pytest_failure_taxonomy.bench.report import (
    DistinctCase,
    difference_words,
    distinct_name_of,
)
from pytest_failure_taxonomy.documents.content import (
    parse_json,
    read_content,
    why_no_file,
)
from pytest_failure_taxonomy.documents.problems import WrongError, shown
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.option_files import LATEST, RUN_SUFFIX
from pytest_failure_taxonomy.taxonomy.values import value
from pytest_failure_taxonomy.taxonomy.words import listed

NOT_COMPLETE: Final = "none: a run is not complete"

_ONLY_COMMON: Final = "--only-common compares the cases that both have"
_MAX_NAMES: Final = 5
_SAME: Final = 1e-9
_FLIPS: Final[dict[int, models.Flip | None]] = {
    -1: "now_fails",
    0: None,
    1: "now_passes",
}
_UNKNOWN: Final = models.BenchDigests(taxonomy=None, rubric=None)


@value
class ComparedRun:
    """A run of a task class as a comparison needs it, from any kind of file."""

    where: str
    """The file, for messages."""
    run_id: str
    task_class: str
    system: str = ""
    """The label of the system, where one pytest run had several."""
    cases: Mapping[str, DistinctCase]
    """By the id of the distinct case."""
    missing: int = 0
    """Scheduled runs of cases that have no score."""
    was_picked: bool = False
    """Somebody chose the cases."""
    digests: models.BenchDigests = _UNKNOWN
    """What the cases were judged by."""

    @property
    def name(self) -> str:
        """The name of the class, with the label of the system if there is one."""
        return models.name_with_system(self.task_class, self.system)

    @property
    def missing_words(self) -> str:
        """How many runs have no score."""
        cases = "case has" if self.missing == 1 else "cases have"
        return f"{self.missing} {cases} no score"


@value
class CasePair:
    """A case as the older and the newer run have it."""

    name: str
    old: DistinctCase
    new: DistinctCase

    @property
    def difference(self) -> float:
        """By how much its mean score has changed."""
        return self.new.mean - self.old.mean

    @property
    def flip(self) -> int:
        """1 if most of its runs pass now and did not before, -1 the other way, else 0."""
        return (self.new.passed > 1 / 2) - (self.old.passed > 1 / 2)

    @property
    def cluster(self) -> str | None:
        """Its cluster: that of the newer run, as the class may name clusters since."""
        return self.new.cluster or self.old.cluster

    @property
    def change(self) -> models.CaseChange | None:
        """How its score or its passing has changed; `None` if they have not."""
        passing = self.new.passed - self.old.passed
        if abs(self.difference) <= _SAME and abs(passing) <= _SAME:
            return None
        return models.CaseChange(
            case_id=self.name,
            old_score=self.old.mean,
            new_score=self.new.mean,
            old_passed=self.old.passed,
            new_passed=self.new.passed,
            flip=_FLIPS[self.flip],
        )


def pair_cases(old: ComparedRun, new: ComparedRun) -> list[CasePair]:
    """Return the cases that both runs have, sorted by their ids."""
    names = sorted(old.cases.keys() & new.cases.keys())
    return [
        CasePair(name=name, old=old.cases[name], new=new.cases[name]) for name in names
    ]


def compared_run(
    report: BenchRunReport, where: str, digests: Mapping[str, str] | None = None
) -> ComparedRun:
    """Return a report as a run to compare.

    Args:
        report: The report of a run.
        where: What to call it in messages, such as the path of its file.
        digests: Of its cases, by id; those of repetitions are equal.
    """
    counts = report.counts
    name_of = distinct_name_of(report)
    digests = {name_of(case_id): digest for case_id, digest in (digests or {}).items()}
    runs: dict[str, list[models.BenchScore]] = {}
    for case_id, score in report.per_case:
        runs.setdefault(name_of(case_id), []).append(score)
    cases = {}
    for name, scores in sorted(runs.items()):
        cluster = report.clusters.get(name)
        digest = digests.get(name)
        cases[name] = DistinctCase(runs=scores, digest=digest, cluster=cluster)
    return ComparedRun(
        where=where,
        run_id=report.run_id,
        task_class=report.task_class,
        system=report.system_label,
        cases=cases,
        missing=counts.scheduled - counts.graded,
        was_picked=report.lower_bound_95.method == BY_HAND,
        digests=report.digests or _UNKNOWN,
    )


# Whether two runs may be compared.


def compare(
    old: Sequence[ComparedRun], new: Sequence[ComparedRun], *, only_common: bool = False
) -> list[models.BenchComparison]:
    """Return how the runs of each class and system differ, in the order of the newer.

    Where both have a single run of a class, these are compared, whatever their systems.

    Args:
        old: The earlier runs, of at least one task class.
        new: The later ones.
        only_common: Compare the cases that both runs of a class have, and leave out the
            others.

    Raises:
        BenchError: Runs must not be compared; the message has a line for each reason.
    """
    problems = [*repeated_classes(old), *repeated_classes(new)]
    if problems:
        raise BenchError("\n".join(problems))
    pairs = []
    for run in new:
        before = [each for each in old if each.task_class == run.task_class]
        is_single = (
            len(before) == 1 == sum(each.task_class == run.task_class for each in new)
        )
        pairs += [
            (each, run) for each in before if is_single or each.system == run.system
        ]
    if not pairs:
        what = f"is of {names_in_words(run.name for run in new)}, and {old[0].where} of"
        what += f" {names_in_words(run.name for run in old)}"
        right = "give two runs of one task class, by the same systems"
        raise BenchError(f"{new[0].where}: {what}; {right}")
    for one, other in pairs:
        problems += refusals(one, other, only_common=only_common)
    if problems:
        raise BenchError("\n".join(problems))
    return adjusted([compare_runs(one, other) for one, other in pairs])


def repeated_classes(runs: Sequence[ComparedRun]) -> list[str]:
    """Return which classes have several runs of one system."""
    counts = Counter(run.name for run in runs)
    problems = []
    for name, count in counts.items():
        if count > 1:
            what = f"has {count} runs of {shown(name)}"
            problems.append(f"{runs[0].where}: {what}; give a file with one of them")
    return problems


def refusals(
    old: ComparedRun,
    new: ComparedRun,
    *,
    only_common: bool = False,
    right: str = _ONLY_COMMON,
) -> list[str]:
    """Return why two runs of a class must not be compared; empty if they may be.

    Args:
        old: The earlier run.
        new: The later one.
        only_common: A run may lack cases of the other.
        right: What would be right where one does.
    """
    where = f"{new.where}: {shown(new.name)}"
    reasons = []
    for name in ("taxonomy", "rubric"):
        before, now = getattr(old.digests, name), getattr(new.digests, name)
        if before is not None and now is not None and before != now:
            what = f"the {name} is not that of {old.where}"
            reasons.append(f"{where}: {what}; grade both runs with one {name}")
    if what := _changed_cases(old, new):
        reasons.append(f"{where}: {what}; run both with the same cases")
    only_old = old.cases.keys() - new.cases.keys()
    only_new = new.cases.keys() - old.cases.keys()
    incomplete = [run for run in (old, new) if run.missing]
    if len(only_new) == len(new.cases):
        what = f"no case is in {old.where}, too"
        reasons.append(f"{where}: {what}; give two runs of the same cases")
    elif only_common:
        pass
    elif incomplete:
        # The mean of the other cases is no mean of the class.
        for run in incomplete:
            what = f"is not complete, {run.missing_words}"
            reasons.append(f"{run.where}: {shown(run.name)}: {what}; {right}")
    else:
        if only_old:
            reasons.append(f"{where}: lacks {_cases(only_old)} of {old.where}; {right}")
        if only_new:
            what = f"has {_cases(only_new)} that {old.where} lacks"
            reasons.append(f"{where}: {what}; {right}")
    return reasons


def _changed_cases(old: ComparedRun, new: ComparedRun) -> str:
    """Return which cases both runs have and asked otherwise, in words; '' for none."""
    changed = []
    for pair in pair_cases(old, new):
        digests = {pair.old.digest, pair.new.digest}
        if None not in digests and len(digests) > 1:
            changed.append(pair.name)
    if changed:
        verb = "was" if len(changed) == 1 else "were"
        return f"{_cases(changed)} {verb} changed since {old.where}"
    if _have_comparable_digests(old, new) and old.digests.cases != new.digests.cases:
        return f"cases were changed since {old.where}"
    return ""


def _have_comparable_digests(old: ComparedRun, new: ComparedRun) -> bool:
    """Return whether the runs' digests differ only if a case was changed."""
    is_known = None not in (old.digests.cases, new.digests.cases)
    have_same_ids = (
        not old.missing and not new.missing and old.cases.keys() == new.cases.keys()
    )
    return is_known and have_same_ids


def _cases(names: Collection[str]) -> str:
    count = len(names)
    cases = "the case" if count == 1 else f"{count} cases"
    return f"{cases} {names_in_words(names)}"


def names_in_words(names: Iterable[str]) -> str:
    """Return names, of cases or runs, in one line: the first ones, sorted."""
    return listed(list(map(shown, sorted(names))), _MAX_NAMES)


# What the comparison says.


def compare_runs(old: ComparedRun, new: ComparedRun) -> models.BenchComparison:
    """Return how two runs differ over the cases that both have, at least one.

    Repetitions of a case are averaged first: the distinct case is what is paired.
    """
    pairs = pair_cases(old, new)
    old_scores = [score for pair in pairs for score in pair.old.runs]
    new_scores = [score for pair in pairs for score in pair.new.runs]
    differences = [pair.difference for pair in pairs]
    changes = [change for pair in pairs if (change := pair.change) is not None]
    changes.sort(
        key=lambda change: (change.new_score - change.old_score, change.case_id)
    )
    # Cases that were picked by hand, or left over by a cap or a crash, prove nothing of
    # others.
    why = BY_HAND if old.was_picked or new.was_picked else ""
    if old.missing or new.missing:
        why = NOT_COMPLETE
    clusters = [pair.cluster for pair in pairs]
    interval = difference_interval_95(differences, why, clusters)
    # Of a cluster that has several flips, most of them count, once.
    net: Counter[object] = Counter()
    for unit, pair in zip(units_of(clusters), pairs, strict=True):
        net[unit] += pair.flip
    worse = sum(flips < 0 for flips in net.values())
    better = sum(flips > 0 for flips in net.values())
    return models.BenchComparison(
        task_class=new.task_class,
        old_system_label=old.system,
        new_system_label=new.system,
        old=old.where,
        old_run_id=old.run_id,
        new_run_id=new.run_id,
        n=len(pairs),
        only_old=tuple(sorted(old.cases.keys() - new.cases.keys())),
        only_new=tuple(sorted(new.cases.keys() - old.cases.keys())),
        not_checked=_not_checked(old, new, pairs),
        old_mean=fmean(pair.old.mean for pair in pairs),
        new_mean=fmean(pair.new.mean for pair in pairs),
        difference=fmean(differences),
        interval_95=interval,
        adjusted_p=interval.p_value,
        finding=_finding(interval, interval.p_value),
        mcnemar_p=mcnemar_p_value(worse, better),
        changes=tuple(changes),
        old_cost_usd=add_exactly(*(score.cost_usd for score in old_scores)),
        new_cost_usd=add_exactly(*(score.cost_usd for score in new_scores)),
        old_mean_ms=fmean(score.wall_clock_ms for score in old_scores),
        new_mean_ms=fmean(score.wall_clock_ms for score in new_scores),
        old_system_ms=_mean_system_ms(old_scores),
        new_system_ms=_mean_system_ms(new_scores),
    )


def _not_checked(
    old: ComparedRun, new: ComparedRun, pairs: Sequence[CasePair]
) -> tuple[models.Checked, ...]:
    names: list[models.Checked] = ["taxonomy", "rubric"]
    unknown: list[models.Checked] = [
        name
        for name in names
        if None in (getattr(old.digests, name), getattr(new.digests, name))
    ]
    is_known = all(pair.old.digest and pair.new.digest for pair in pairs)
    if not (is_known or _have_comparable_digests(old, new)):
        unknown.append("cases")
    return tuple(unknown)


def _mean_system_ms(scores: Sequence[models.BenchScore]) -> float | None:
    """Return the mean time of the system; `None` if that of one case is not known."""
    measured = [score.system_ms for score in scores if score.system_ms is not None]
    return fmean(measured) if len(measured) == len(scores) else None


def _finding(
    interval: models.DifferenceInterval, adjusted_p: float | None
) -> models.Finding:
    if interval.low is None or interval.high is None:
        return "undecided"
    if adjusted_p is None or adjusted_p >= ALPHA:
        return "undecided"
    if interval.high < 0:
        return "worse"
    return "better" if interval.low > 0 else "undecided"


def adjusted(found: Sequence[models.BenchComparison]) -> list[models.BenchComparison]:
    """Return comparisons that are made together, with what they prove together.

    The more there are, the likelier is a chance finding: the pairs of five equal
    systems gave one in 18 % of runs. The intervals stay, each for itself.
    """
    intervals = [comparison.interval_95 for comparison in found]
    tested = [each.p_value for each in intervals if each.p_value is not None]
    adjusted_ps = iter(holm(tested))
    changed = []
    for comparison, interval in zip(found, intervals, strict=True):
        if interval.p_value is None:
            changed.append(comparison)
            continue
        p_value = next(adjusted_ps)
        changes = {
            "comparisons": len(tested),
            "adjusted_p": p_value,
            "finding": _finding(interval, p_value),
        }
        changed.append(comparison.model_copy(update=changes))
    return changed


def compare_systems(
    reports: Sequence[BenchRunReport], classes: Sequence[object]
) -> list[BenchRunReport]:
    """Return the reports of a pytest run, the systems of each class compared by pairs.

    Args:
        reports: The reports.
        classes: What the reports are of; equal for those of one class, `None` for one
            by itself.
    """
    runs = [compared_run(report, _THIS_RUN) for report in reports]
    pairs = [
        (before, now)
        for now, name in enumerate(classes)
        for before in range(now)
        if name is not None
        and name == classes[before]
        and runs[before].cases.keys() & runs[now].cases.keys()
    ]
    comparisons = adjusted(
        [compare_runs(runs[before], runs[now]) for before, now in pairs]
    )
    others: list[list[models.BenchComparison]] = [[] for _ in reports]
    for (_, now), comparison in zip(pairs, comparisons, strict=True):
        others[now].append(comparison)
    return [
        report.model_copy(update={"other_systems": tuple(of_report)})
        for report, of_report in zip(reports, others, strict=True)
    ]


_NEW_BASELINE: Final = "make a baseline of the cases as they are now"
_THIS_RUN: Final = "this run"
PICKED: Final = "not all cases of the class were selected; the baseline needs them all"
_RANK: Final = {"PASS": 0, "INCOMPLETE": 1, "FAIL": 2}


def compare_with_baseline(
    report: BenchRunReport,
    baseline: Sequence[ComparedRun],
    digests: Mapping[str, str] | None = None,
) -> models.BenchComparison | str:
    """Return how a run differs from an earlier one, or why they can't be compared.

    Args:
        report: The report of the newer run.
        baseline: The older runs of the same class and system, at least one.
        digests: Of the cases of the newer run, by id.
    """
    new = compared_run(report, _THIS_RUN, digests)
    if new.was_picked:
        return PICKED
    if new.missing:
        return f"this run is not complete: {new.missing_words}"
    if reasons := repeated_classes(baseline) or refusals(
        baseline[0], new, right=_NEW_BASELINE
    ):
        subject = f"{_THIS_RUN}: {shown(new.name)}: "
        return "; ".join(each.removeprefix(subject) for each in reasons)
    return compare_runs(baseline[0], new)


def evaluate_against_baseline(
    report: BenchRunReport, found: models.BenchComparison | str
) -> tuple[BenchRunReport, str]:
    """Return a report whose gate asks for no loss against an earlier run, too.

    With it comes why nothing could be compared, though the user chose no cases, or '';
    the gate has it, too.

    The gate fails where a loss was found. Where there is nothing to compare, a loss
    could not be
    seen: it is `INCOMPLETE`, unless it fails for another reason. No baseline makes a
        gate pass that
    would not pass without it.

    Args:
        report: The report of the newer run.
        found: What `compare_with_baseline` says, adjusted for the other runs of the
            pytest run.
    """
    verdict, reason, why_not = "PASS", "", ""
    if found == PICKED:
        verdict, reason = "INCOMPLETE", PICKED
    elif isinstance(found, str):
        why_not = found
    else:
        report = report.model_copy(update={"baseline": found})
        if found.interval_95.low is None:
            why_not = found.interval_95.why_none
        elif found.finding == "worse":
            verdict = "FAIL"
            reason = f"worse than the baseline: the mean {difference_words(found)}"
    if why_not:
        verdict = "INCOMPLETE"
        reason = f"can't be compared with the baseline: {why_not}"
    before = report.gate or models.GateResult(verdict="PASS", reasons=())
    reasons = [*before.reasons, reason] if reason else [*before.reasons]
    if _RANK[verdict] > _RANK[before.verdict]:
        reasons = [reason, *before.reasons]  # what decides comes first
    else:
        verdict = before.verdict
    gate = models.GateResult.model_validate({"verdict": verdict, "reasons": reasons})
    return report.model_copy(update={"gate": gate}), reason if why_not else ""


_MAX_BYTES: Final = 256 * 1024 * 1024
_RIGHT: Final = (
    "give a kept run, a file of --bench-json, or a report of --failure-taxonomy"
)


def read_earlier_runs(
    given: str, storage: Path, *, folder: Path | None = None
) -> list[ComparedRun]:
    """Return the runs of task classes that a user names, in their order, at least one.

    Args:
        given: The path of what `--bench-json` has written, of the report of a pytest
            run, whose field `bench` is read, or of a kept run's file. Or the id of a
            kept run, its beginning, or `latest`; where one pytest run has kept several
            runs, these stand for all of them.
        storage: Where runs are kept.
        folder: What a path is relative to; by default, the current folder.

    Raises:
        BenchError: There is no such file or run, or it has no run of a task class.
    """
    path = (folder or Path()) / given
    if path.name.endswith(RUN_SUFFIX) and why_no_file(path) is None:
        return [_compared_kept(read_run(path, has_outputs=False))]
    is_there = False
    with suppress(
        OSError, ValueError
    ):  # a name that is too long, or has a null character
        is_there = path.exists()
    found = [] if is_there else find_runs(given, run_paths(storage))
    if len({session_of(path) for path in found}) > 1 or (given == LATEST and not found):
        find_run(given, storage)  # which says what is wrong
    if found:
        kept = [read_run(each, has_outputs=False) for each in found]
        # What tests have run by themselves is in question only where they have run
        # everything.
        items = [run for run in kept if not run.header.test]
        return [_compared_kept(run) for run in items or kept]
    where = shown(os.fspath(path))
    try:
        content = parse_json(read_content(path, _MAX_BYTES).removeprefix(BOM_UTF8))
    except WrongError as error:
        raise BenchError(f"{where}: {error.what}; {_RIGHT}") from None
    reports = content.get("bench") if isinstance(content, dict) else content
    if not isinstance(reports, list):
        raise BenchError(f"{where}: has no runs of task classes; {_RIGHT}")
    if not reports:
        raise BenchError(f"{where}: no task class ran; {_RIGHT} of a run with cases")
    try:
        return [
            compared_run(BenchRunReport.model_validate(each), where) for each in reports
        ]
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(map(str, problem["loc"]))
        what = shown(f"{place}: {problem['msg']}" if place else problem["msg"])
        raise BenchError(
            f"{where}: no run of a task class ({what}); {_RIGHT}"
        ) from None


def read_earlier_run(given: str, storage: Path, name: str = "") -> ComparedRun:
    """Return the one run that a user names, which has to be a sample.

    Args:
        given: What names it.
        storage: Where runs are kept.
        name: The task class; by default, the only one.

    Raises:
        BenchError: There is no such run, or there are several, or cases of its class
            are missing.
    """
    runs = read_earlier_runs(given, storage)
    runs = [run for run in runs if name in ("", run.task_class)]
    if len(runs) != 1:
        what = f"has {len(runs)} runs" + (f" of {shown(name)}" if name else "")
        raise BenchError(
            f"{shown(given)}: {what}; name one, by the path of its file or its id"
        )
    (run,) = runs
    if run.missing or run.was_picked or not run.cases:
        what = "has not run all cases of its class, and those that it has are no sample"
        raise BenchError(f"{run.where}: {what}; give a run that has")
    return run


def scores_of_units(run: ComparedRun) -> list[float]:
    """Return the mean score of each cluster, and of each case that is in none."""
    cases = run.cases.values()
    groups = grouped([case.mean for case in cases], [case.cluster for case in cases])
    return [fmean(group) for group in groups]


def differences_of_units(old: ComparedRun, new: ComparedRun) -> list[float]:
    """Return by how much the score of each unit that both runs have has changed.

    Raises:
        BenchError: They must not be compared.
    """
    problems = refusals(old, new, only_common=True)
    if problems:
        raise BenchError("\n".join(problems))
    pairs = pair_cases(old, new)
    differences = [pair.difference for pair in pairs]
    groups = grouped(differences, [pair.new.cluster for pair in pairs])
    return [fmean(group) for group in groups]


def _compared_kept(run: KeptRun) -> ComparedRun:
    digests = {case.case_id: case.digest for case in run.scheduled()}
    return compared_run(report_of(run), shown(os.fspath(run.path)), digests)


def latest_runs(paths: Sequence[Path]) -> Callable[[BenchRunReport], list[ComparedRun]]:
    """Return what finds the latest kept run that can be a report's baseline.

    It is in a list, which is empty for none. Runs that are not complete and those of
    picked cases are passed over, and so is the report's own run, which may have been
    continued.

    Args:
        paths: The files of the runs, the oldest first.
    """
    header_of = cache(lambda path: KeptRun(path).header)

    def find(report: BenchRunReport) -> list[ComparedRun]:
        own = (report.task_class, report.system_label)
        for path in reversed(paths):
            with suppress(BenchError):
                header = header_of(path)
                is_whole = not header.test and header.shard is None
                is_own = header.run_id == report.run_id.removeprefix(models.PARTIAL)
                if (
                    is_whole
                    and not is_own
                    and (header.task_class, header.system.label) == own
                ):
                    found = _compared_kept(read_run(path, has_outputs=False))
                    if not found.missing and not found.was_picked:
                        return [found]
        return []

    return find
