"""The models of a run's figures beside its mean: bounds, reducers, slices, a comparison."""

# Without `from __future__ import annotations`: pydantic needs the annotations as they are.

from typing import Annotated, Literal, TypeVar

from pydantic import Field

from pytest_failure_taxonomy.documents.closed_model import ClosedModel

_T = TypeVar("_T")
# Strict validation rejects a list for a tuple; here lists are accepted because JSON has no tuples.
_Listed = Annotated[tuple[_T, ...], Field(strict=False)]
_NotNegative = Annotated[float, Field(ge=0)]
_Count = Annotated[int, Field(ge=0)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Difference = Annotated[float, Field(ge=-1, le=1)]

Finding = Literal["worse", "better", "undecided"]
Checked = Literal["taxonomy", "rubric", "cases"]


class LowerBound(ClosedModel):
    """The one-sided 95 % lower confidence bound of the mean score."""

    value: float | None
    """The bound; null where there is none."""
    method: str
    """How it was computed, or why there is none."""
    n: _Count
    """Scores that it was computed from."""


class DifferenceInterval(ClosedModel):
    """The two-sided 95 % confidence interval of a mean of paired differences."""

    low: _Difference | None
    """Its lower end; null where there is none."""
    high: _Difference | None
    """Its upper end; null where there is none."""
    method: str
    """How it was computed, or why there is none."""
    n: _Count
    """Pairs that it was computed from."""


class ReducedScore(ClosedModel):
    """What one reducer makes of the repetitions of all cases."""

    name: str
    """The reducer, as `bench.yaml` names it."""
    value: float | None
    """The mean over the distinct cases; null where a case has fewer runs than it needs."""
    lower_bound_95: LowerBound
    """The lower bound of that mean; each distinct case counts once."""


class TagScores(ClosedModel):
    """The scores of the cases that have a tag."""

    tag: str
    """The tag."""
    n: _Count
    """Cases with this tag that were started."""
    passed: _Count
    """Cases among them that passed."""
    mean_score: float
    """Their mean score, one that failed or was lost counted as 0."""
    lower_bound_95: LowerBound
    """The lower bound of that mean; each distinct case counts once."""


class KeyScores(ClosedModel):
    """The scores on one key of the breakdown."""

    key: str
    """The key."""
    n: _Count
    """Cases whose breakdown has the key."""
    mean: float
    """The mean of their scores on it."""
    least: float
    """The least of them."""


class ProviderLoss(ClosedModel):
    """Cases that never got through to the provider of the system, for one kind of its failures."""

    kind: str
    """The kind, such as `llm.rate_limited`."""
    cases: Annotated[int, Field(ge=1)]
    """How many cases were lost to it."""


class BenchDigests(ClosedModel):
    """What the cases of a run were judged by, as SHA-256 in hex."""

    taxonomy: str | None
    """Of the failure modes with their severities, and of the breakdown keys; null if unknown."""
    rubric: str | None
    """Of `rubric.py` and the Python files beside it; null if unknown."""
    system: str | None = None
    """Of the system under test, or of its version as given; null if unknown."""
    cases: str | None = None
    """One of all distinct cases that were to run, of 128 bits; null if unknown."""


class CaseChange(ClosedModel):
    """A case that came to another result than before."""

    case_id: str
    """The case; its repetitions are averaged."""
    old_score: _Share
    """Its score before, 0 where it did not pass."""
    new_score: _Share
    """Its score now, 0 where it does not pass."""
    old_passed: _Share
    """The share of its runs that passed before."""
    new_passed: _Share
    """The share of its runs that pass now."""
    flip: Literal["now_fails", "now_passes"] | None
    """Whether the case, by most of its runs, fails or passes otherwise than before."""


class BenchComparison(ClosedModel):
    """How two runs of a task class differ, paired by case."""

    task_class: str
    """The class's name."""
    old_system_label: str = ""
    """Which of several systems of one pytest run the older run was of; empty for a single one."""
    new_system_label: str = ""
    """Which of several systems of one pytest run the newer run was of; empty for a single one."""
    old: str
    """Where the older run was read from."""
    old_run_id: str
    """The id of the older run."""
    new_run_id: str
    """The id of the newer run."""
    n: _Count
    """Cases that both runs have."""
    only_old: _Listed[str]
    """Cases that only the older run has, sorted; they count in no figure here."""
    only_new: _Listed[str]
    """Cases that only the newer run has, sorted; they count in no figure here."""
    not_checked: _Listed[Checked]
    """What could not be checked to be equal, because one of the runs doesn't say."""
    old_mean: _Share
    """The mean score of the older run over these cases."""
    new_mean: _Share
    """The mean score of the newer run over these cases."""
    difference: _Difference
    """The newer mean less the older one."""
    interval_95: DifferenceInterval
    """What the pairs prove of the true difference."""
    finding: Finding
    """`worse` or `better` where the interval lies wholly on one side of 0."""
    mcnemar_p: _Share
    """Two-sided p value of McNemar's exact test of the flips."""
    changes: _Listed[CaseChange]
    """The cases whose score or passing changed, the greatest loss first."""
    old_cost_usd: _NotNegative
    """What these cases cost in the older run, each repetition counted."""
    new_cost_usd: _NotNegative
    """What these cases cost in the newer run, each repetition counted."""
    old_mean_ms: _NotNegative
    """How long a case took in the older run on average, in milliseconds."""
    new_mean_ms: _NotNegative
    """How long a case took in the newer run on average, in milliseconds."""
