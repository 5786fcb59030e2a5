"""How many cases a gate needs, and which loss a number of pairs can show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from math import comb
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scipy")

import numpy as np

from pytest_failure_taxonomy.bench.bounds import (
    difference_interval_95,
    lower_bound_95,
    proves,
)
from pytest_failure_taxonomy.bench.models import GateSettings
from pytest_failure_taxonomy.bench.planning import (
    as_in_pairs,
    cases_needed,
    chance_of_finding,
    chance_of_gate,
    independent_runs,
    least_loss,
    no_case_better,
    plan,
    shares_of,
    with_mean,
)
from pytest_failure_taxonomy.errors import BenchError
from tests.contract.test_docs import section, table

DOCS = Path(__file__).parents[3] / "docs" / "bench"
SCORES = [0.0, 0.5, 0.6, 0.7, 0.7, 0.8, 0.9, 0.9, 1.0, 1.0]


def gate(bound: float | None = 0.8, passes: int | None = None) -> GateSettings:
    """Return a gate."""
    return GateSettings(lower_bound_95=bound, min_passed_cases=passes)


def passing(share: float) -> dict[float, float]:
    """Return the shares of scores of 0 and 1."""
    return {0.0: 1 - share, 1.0: share}


def drawn(rng: np.random.Generator, n: int) -> list[float]:
    """Return n of the scores, drawn at random."""
    return [float(score) for score in rng.choice(SCORES, n)]


@pytest.mark.parametrize("n", [1, 4, 5, 14, 30])
@pytest.mark.parametrize(
    "asked", [gate(), gate(0.0), gate(1.0), gate(None), gate(0.5, 12)]
)
def test_the_chance_to_pass_a_gate_is_the_sum_over_all_samples(
    n: int, asked: GateSettings
) -> None:
    """It counts each number of passes by which the bound and the number of passes suffice."""
    chance = 0.0
    for passes in range(n + 1):
        bound = lower_bound_95([1.0] * passes + [0.0] * (n - passes)).value
        is_proven = asked.lower_bound_95 is None or (
            passes >= 5 and bound is not None and bound >= asked.lower_bound_95
        )
        if is_proven and passes >= (asked.min_passed_cases or 1):
            chance += comb(n, passes) * 0.9**passes * 0.1 ** (n - passes)
    assert chance_of_gate(passing(0.9), n, asked) == pytest.approx(chance)


@pytest.mark.parametrize(
    ("bound", "truth", "needed"),
    [(0.8, 1.0, 14), (0.9, 1.0, 29), (0.95, 1.0, 59), (0.8, 0.9, 94), (0.9, 0.95, 203)],
)
def test_from_the_planned_number_on_a_gate_passes(
    bound: float, truth: float, needed: int
) -> None:
    """No greater number has less than the chance, although one case more can lower it."""
    assert cases_needed(passing(truth), gate(bound), 0.8) == needed
    chances = [
        chance_of_gate(passing(truth), n, gate(bound))
        for n in range(needed - 1, 3 * needed)
    ]
    assert chances[0] < 0.8 <= min(chances[1:])


def test_some_gates_need_too_many_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the truth does not exceed is never proven; what it hardly exceeds takes very many."""
    monkeypatch.setattr("pytest_failure_taxonomy.bench.planning.MOST_CASES", 128)
    assert plan(gate(0.8), [], 0.8, truths=[0.8, 0.85])["cases_needed"] == [
        {"truth": 0.8, "cases": None, "is_never": True},
        {"truth": 0.85, "cases": None, "is_never": False},
    ]


@pytest.mark.slow
def test_a_planned_number_of_drawn_cases_passes() -> None:
    """Runs that another generator draws from the scores pass as often as was planned."""
    needed = cases_needed(shares_of(SCORES), gate(0.5), 0.8)
    assert needed is not None
    rng = np.random.default_rng(7)
    bounds = [lower_bound_95(drawn(rng, needed)).value or 0.0 for _ in range(400)]
    assert sum(bound >= 0.5 for bound in bounds) / 400 >= 0.8
    fewer = [lower_bound_95(drawn(rng, needed // 2)).value or 0.0 for _ in range(400)]
    assert sum(bound >= 0.5 for bound in fewer) / 400 < 0.8


@pytest.mark.parametrize("least", [0.0, 0.3, 0.55, 0.7, 0.9, 1.0])
def test_a_bound_is_asked_for_as_it_is_computed(least: float) -> None:
    """Whether scores prove a value is whether their bound reaches it."""
    rng = np.random.default_rng(3)
    for n in (5, 20, 60):
        scores = drawn(rng, n)
        bound = lower_bound_95(scores).value
        assert bound is not None
        assert proves(Counter(scores), least) == (bound >= least)


def test_the_scores_of_a_run_are_tilted_to_another_mean() -> None:
    """The shares of its scores change as little as they can; a mean beyond them is refused."""
    tilted = with_mean(shares_of(SCORES), 0.9)
    assert tilted.keys() == shares_of(SCORES).keys()
    assert sum(tilted.values()) == pytest.approx(1)
    assert sum(score * share for score, share in tilted.items()) == pytest.approx(0.9)
    ratio = [tilted[score] / share for score, share in shares_of(SCORES).items()]
    assert ratio == sorted(ratio)
    assert with_mean(shares_of(SCORES), 1.0) == {1.0: 1.0}
    assert with_mean(shares_of([1.0, 1.0]), 0.9) == passing(0.9)
    with pytest.raises(
        BenchError,
        match=r"--truth: 0.95 can't be the mean, because the scores are from 0.2 to 0.9; ",
    ):
        plan(gate(), [], 0.8, truths=[0.95], scores=[0.2, 0.9])


@pytest.mark.nightly
@pytest.mark.parametrize("worse", [0.05, 0.3, 0.7])
@pytest.mark.parametrize("better", [0.0, 0.1, 0.3])
def test_the_chance_to_find_a_loss_is_that_of_the_interval(
    worse: float, better: float
) -> None:
    """It is the sum over all pairs whose interval lies below 0."""
    n, same, chance = 12, 1 - worse - better, 0.0
    for losses in range(n + 1):
        for gains in range(n + 1 - losses):
            rest = n - losses - gains
            pairs = [-1.0] * losses + [1.0] * gains + [0.0] * rest
            high = difference_interval_95(pairs).high
            if high is not None and high < 0:
                ways = comb(n, losses) * comb(n - losses, gains)
                chance += ways * worse**losses * better**gains * same**rest
    assert chance_of_finding({-1.0: worse, 0.0: same, 1.0: better}, n) == pytest.approx(
        chance
    )


def test_the_least_loss_is_shown_and_a_smaller_one_is_not() -> None:
    """Six flips in one direction are the fewest that prove a loss."""
    found = least_loss(no_case_better, 60, 0.8, 0.9)
    assert found == 0.129
    assert chance_of_finding(no_case_better(found - 0.001), 60) < 0.8
    assert least_loss(no_case_better, 5, 0.8, 1.0) is None
    assert least_loss(no_case_better, 6, 0.8, 1.0) == 0.964
    assert least_loss(partial(independent_runs, passing(0.9)), 60, 0.8, 0.9) == 0.22
    assert least_loss(partial(independent_runs, passing(1.0)), 60, 0.8, 1.0) == found


def test_pairs_of_two_runs_vary_as_they_did() -> None:
    """The loss is that asked for, whichever run was better; what never differed proves nothing."""
    shares = as_in_pairs(shares_of([0.0] * 8 + [1.0, 1.0]), 0.3)
    assert shares.keys() == {-1.0, 0.0, 1.0}
    assert shares[1.0] - shares[-1.0] == pytest.approx(-0.3)
    (able,) = plan(None, [40], 0.8, scores=[1.0] * 3, differences=[0.0] * 3)[
        "with_cases"
    ]
    assert able["least_loss"] is None
    assert able["chance_of_gate"] is None


@pytest.mark.slow
def test_a_loss_of_drawn_pairs_is_found() -> None:
    """Of pairs that another generator draws, as many show the loss as was planned."""
    differences = partial(as_in_pairs, shares_of([-0.2, 0.0, 0.0, 0.1, 0.3]))
    loss = least_loss(differences, 40, 0.8, 0.3)
    assert loss is not None
    shares, rng = differences(loss), np.random.default_rng(5)
    samples: Any = (
        rng.choice([*shares], 40, p=[*shares.values()]).tolist() for _ in range(300)
    )
    highs = [difference_interval_95(sample).high for sample in samples]
    assert sum(high is not None and high < 0 for high in highs) / 300 == pytest.approx(
        0.8, abs=0.06
    )


@pytest.mark.nightly
def test_the_tables_of_the_docs_are_what_is_planned() -> None:
    """Each number of cases and each loss on the pages is computed again."""
    page = section((DOCS / "scores.md").read_text("utf-8"), "How many cases")
    for bound, *cells in table(page):
        for truth, cell in zip((0.85, 0.9, 0.95, 0.98, 1.0), cells, strict=True):
            asked = gate(float(bound))
            is_never = truth <= float(bound)
            assert (
                cell == "never"
                if is_never
                else int(cell) == cases_needed(passing(truth), asked, 0.8)
            )
    page = section(
        (DOCS / "compare-runs.md").read_text("utf-8"), "Which loss pairs can show"
    )
    kinds: list[Callable[[float], Mapping[float, float]]] = [
        no_case_better,
        partial(independent_runs, passing(0.9)),
    ]
    for kind, (_, *cells) in zip(kinds, table(page), strict=True):
        for n, cell in zip((20, 60, 100, 200, 1000), cells, strict=True):
            assert float(cell) == least_loss(kind, n, 0.8, 0.9)


@pytest.mark.slow
@pytest.mark.nightly
def test_many_different_scores_are_planned_by_in_hundredths() -> None:
    """Each sample would take too long otherwise; the mean stays that of the run."""
    scores = [number / 997 for number in range(998)]
    assert len(shares_of(scores)) == 101
    (able,) = plan(gate(0.2), [50], 0.8, scores=scores)["with_cases"]
    assert able["truth"] == pytest.approx(0.5)
    assert (able["chance_of_gate"] or 0) > 0.9
