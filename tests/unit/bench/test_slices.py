"""Scores by tag and by key of the breakdown."""

from __future__ import annotations

import pytest

from pytest_failure_taxonomy.bench.bounds import BY_HAND, TOO_FEW, lower_bound_95
from pytest_failure_taxonomy.bench.models import BenchScore
from pytest_failure_taxonomy.bench.report import (
    DistinctCase,
    scores_by_key,
    scores_by_tag,
)
from tests.helpers.bench_scores import make_score


def case(*scores: float, tags: str) -> DistinctCase:
    """Return a case with a run for each score."""
    return DistinctCase(
        tags=tuple(tags.split()), runs=[make_score(score) for score in scores]
    )


def test_each_tag_has_the_figures_of_its_cases() -> None:
    """A case with two tags counts in both, one without in none; tags are sorted."""
    cases = [
        case(1, tags="web slow"),
        case(0, tags="web"),
        case(0.5, tags=""),
        *[case(1, tags="a")] * 5,
    ]
    a, slow, web = scores_by_tag(cases)
    assert (a.tag, a.n, a.passed, a.mean_score) == ("a", 5, 5, 1.0)
    assert a.lower_bound_95 == lower_bound_95([1.0] * 5)
    assert (slow.tag, slow.n, slow.passed, slow.mean_score) == ("slow", 1, 1, 1.0)
    assert (web.tag, web.n, web.passed, web.mean_score) == ("web", 2, 1, 0.5)
    assert web.lower_bound_95.method == TOO_FEW


def test_repetitions_count_in_the_mean_and_once_in_the_bound() -> None:
    """A tag with four cases of two runs each has eight runs and no bound."""
    (scores,) = scores_by_tag([case(1, 0, tags="x")] * 4)
    assert (scores.n, scores.passed, scores.mean_score) == (8, 4, 0.5)
    assert (scores.lower_bound_95.value, scores.lower_bound_95.n) == (None, 4)


def test_picked_cases_have_no_bound() -> None:
    """What was picked by hand proves nothing of a tag either."""
    (scores,) = scores_by_tag([case(1, tags="x")] * 9, BY_HAND)
    assert (scores.lower_bound_95.value, scores.lower_bound_95.method) == (
        None,
        BY_HAND,
    )


def test_each_key_has_the_figures_of_the_cases_that_have_it() -> None:
    """A case that failed without a breakdown counts as 0, one whose breakdown lacks the key not."""
    runs = [
        BenchScore(passed=passed, score=0.0, breakdown=breakdown)
        for passed, breakdown in (
            (True, {"right": 1.0, "found": 0.5}),
            (False, {"right": 0.25}),
            (True, {}),
        )
    ]
    cases = [DistinctCase(runs=[run]) for run in runs]
    found, right = scores_by_key(cases)
    assert (found.key, found.n, found.mean, found.least) == ("found", 1, 0.5, 0.5)
    assert (right.key, right.n, right.mean, right.least) == ("right", 2, 0.625, 0.25)
    assert found.standard_error is None
    assert right.standard_error == pytest.approx(0.375)
    assert scores_by_key(cases, BY_HAND)[1].standard_error is None
    unread = DistinctCase(runs=[BenchScore(passed=False, score=0.0)])
    found, right = scores_by_key([*cases, unread])
    assert (found.n, found.mean, found.least) == (2, 0.25, 0.0)
    assert (right.n, right.least) == (3, 0.0)
    assert right.mean == pytest.approx(1.25 / 3)
    assert scores_by_key([unread]) == ()
    assert scores_by_key([]) == ()
