"""Reduce the repetitions of a case to one number: unbiased estimators of what k runs would do.

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
from collections.abc import Sequence
from typing import Final

from pytest_failure_taxonomy.bench.bounds import lower_bound_95
from pytest_failure_taxonomy.bench.run_figures import LowerBound, ReducedScore
from pytest_failure_taxonomy.taxonomy.values import value

RIGHT_REDUCERS: Final = "write mean, majority, pass@K, pass^K or best@K"
_NAME: Final = re.compile(r"mean|majority|(pass@|pass\^|best@)([1-9][0-9]{0,3})", re.ASCII)


@value
class CaseRun:
    """One run of a case; one that was lost has failed."""

    score: float
    """0 where it did not pass."""
    passed: bool


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


def reduce_case(name: str, runs: Sequence[CaseRun]) -> float:
    """Return what a reducer makes of the runs of one case, from 0 to 1.

    Args:
        name: The reducer, such as `pass@3`.
        runs: At least as many as the reducer needs.
    """
    k, n, passed = needed_runs(name), len(runs), sum(run.passed for run in runs)
    scores = sorted(run.score for run in runs)
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
    names: Sequence[str], cases: Sequence[Sequence[CaseRun]], *, was_picked: bool
) -> tuple[ReducedScore, ...]:
    """Return the mean of each reducer over distinct cases, with its lower bound.

    The runs of a case stay together: the bound is over one number for each distinct case.

    Args:
        names: The reducers.
        cases: The runs of each distinct case, at least one.
        was_picked: Whether somebody chose the cases; there is no bound then.
    """
    return tuple([_reduce(name, cases, was_picked=was_picked) for name in names])


def _reduce(name: str, cases: Sequence[Sequence[CaseRun]], *, was_picked: bool) -> ReducedScore:
    k, n = needed_runs(name), len(cases)
    short = sum(len(runs) < k for runs in cases)
    if short or not cases:
        why = f"{short} of {n} cases ran fewer than {k} times" if cases else "no case ran"
        bound = LowerBound(value=None, method=f"none: {why}", n=n)
        return ReducedScore(name=name, value=None, lower_bound_95=bound)
    values = [reduce_case(name, runs) for runs in cases]
    bound = lower_bound_95(values, was_picked=was_picked)
    return ReducedScore(name=name, value=math.fsum(values) / n, lower_bound_95=bound)
