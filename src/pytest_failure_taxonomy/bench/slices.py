"""The scores of a run by tag, and by key of the breakdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from pytest_failure_taxonomy.bench.bounds import lower_bound_95
from pytest_failure_taxonomy.bench.reducers import CaseRun
from pytest_failure_taxonomy.bench.run_figures import KeyScores, TagScores
from pytest_failure_taxonomy.taxonomy.values import value


@value
class TaggedCase:
    """A distinct case that was started, with its runs."""

    tags: tuple[str, ...]
    runs: Sequence[CaseRun]
    """At least one."""


def scores_by_tag(cases: Iterable[TaggedCase], *, was_picked: bool) -> tuple[TagScores, ...]:
    """Return the scores of the cases of each tag, sorted by tag.

    Args:
        cases: The distinct cases that were started.
        was_picked: Whether somebody chose the cases; there is no bound then.
    """
    by_tag: dict[str, list[TaggedCase]] = {}
    for case in cases:
        for tag in case.tags:
            by_tag.setdefault(tag, []).append(case)
    return tuple([_of_tag(tag, by_tag[tag], was_picked=was_picked) for tag in sorted(by_tag)])


def _of_tag(tag: str, cases: Sequence[TaggedCase], *, was_picked: bool) -> TagScores:
    runs = [run for case in cases for run in case.runs]
    means = [_mean([run.score for run in case.runs]) for case in cases]
    return TagScores(
        tag=tag,
        n=len(runs),
        passed=sum(run.passed for run in runs),
        mean_score=_mean([run.score for run in runs]),
        lower_bound_95=lower_bound_95(means, was_picked=was_picked),
    )


def scores_by_key(breakdowns: Iterable[Mapping[str, float]]) -> tuple[KeyScores, ...]:
    """Return the scores on each key, sorted by key; a case without the key doesn't count."""
    by_key: dict[str, list[float]] = {}
    for breakdown in breakdowns:
        for key, number in breakdown.items():
            by_key.setdefault(key, []).append(number)
    return tuple(
        [
            KeyScores(key=key, n=len(given), mean=_mean(given), least=min(given))
            for key, given in sorted(by_key.items())
        ]
    )


def _mean(numbers: Sequence[float]) -> float:
    """Return the mean; numbers too large to be added are divided first."""
    try:
        return math.fsum(numbers) / len(numbers)
    except OverflowError:
        return math.fsum(number / len(numbers) for number in numbers)
