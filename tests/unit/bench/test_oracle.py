"""How far a rubric agrees with people's labels, and what that makes of a pass rate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scipy")

import numpy as np

from pytest_failure_taxonomy.bench.models import OracleExample, RubricAgreement, TaskClass
from pytest_failure_taxonomy.bench.oracle import (
    corrected_pass_rate,
    keep,
    measure,
    with_agreement,
)
from pytest_failure_taxonomy.errors import BenchError
from tests.helpers.bench_scores import make_run, make_score


def agreement(
    both_pass: int, both_fail: int, wrongly_passed: int = 0, wrongly_failed: int = 0
) -> RubricAgreement:
    """Return what is measured of so many outputs."""
    kinds: Any = (
        ("pass", 1.0, both_pass),
        ("fail", 0.0, both_fail),
        ("fail", 1.0, wrongly_passed),
        ("pass", 0.0, wrongly_failed),
    )
    labelled = [(label, score) for label, score, count in kinds for _ in range(count)]
    oracle = [
        OracleExample(example_id=f"e{number}", case_id="c", label=label)
        for number, (label, _) in enumerate(labelled)
    ]
    oracle.append(OracleExample(example_id="gold", case_id="c", expect="gold"))
    task_class = TaskClass(
        name="vuln", breakdown_keys=frozenset(), failure_mode_taxonomy={}, oracle=tuple(oracle)
    )
    scores = {f"e{number}": make_score(score) for number, (_, score) in enumerate(labelled)}
    return measure(task_class, scores)


def test_the_figures_by_hand() -> None:
    """They are those of the textbook's table: 20 and 15 alike, 5 and 10 not (Cohen 1960)."""
    found = agreement(20, 15, wrongly_passed=10, wrongly_failed=5)
    assert found.agreement.value == 0.7
    assert found.kappa == pytest.approx(0.4)
    assert found.base_rate == 0.5
    positive, negative = found.true_positive_rate, found.true_negative_rate
    assert positive is not None
    assert negative is not None
    assert (positive.value, positive.n, negative.value, negative.n) == (0.8, 25, 0.6, 25)
    # Of Clopper and Pearson, as R's binom.test has them.
    assert (positive.low, positive.high) == pytest.approx((0.5930, 0.9317), abs=1e-4)
    assert (negative.low, negative.high) == pytest.approx((0.3867, 0.7887), abs=1e-4)
    assert found.wrongly_passed == tuple(f"e{number}" for number in range(35, 45))
    assert found.wrongly_failed == tuple(f"e{number}" for number in range(45, 50))


def test_agreement_that_chance_explains() -> None:
    """A rubric that passes all has a kappa of 0, however often people do; or none, if always."""
    assert agreement(95, 0, wrongly_passed=5).kappa == 0
    found = agreement(8, 0)
    assert found.kappa is None
    assert found.true_negative_rate is None
    assert found.agreement.low == pytest.approx(0.025 ** (1 / 8))


def test_the_corrected_rate_by_hand() -> None:
    """Of 80 %, 0.9 of what is right and 0.2 of what is wrong: 6/7 are right."""
    found = agreement(90, 80, wrongly_passed=20, wrongly_failed=10)
    corrected = corrected_pass_rate(found, 0.8, 100)
    assert not isinstance(corrected, str)
    rate, low, high = corrected
    assert rate == pytest.approx(6 / 7)
    assert (low, high) == pytest.approx((0.7159, 0.9919), abs=1e-4)
    assert corrected_pass_rate(found, 0.0, 40)[:2] == (0.0, 0.0)
    assert corrected_pass_rate(found, 1.0, 40)[2] == 1.0


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (agreement(8, 0), "people fail none of the labelled outputs"),
        (agreement(0, 8), "people pass none of the labelled outputs"),
        (
            agreement(5, 5, wrongly_passed=5, wrongly_failed=5),
            "the rubric passes what people fail as often as what they pass",
        ),
    ],
)
def test_some_rates_can_not_be_corrected(found: RubricAgreement, why: str) -> None:
    """Why not is said."""
    assert corrected_pass_rate(found, 1.0, 9) == why


def test_labels_that_prove_nothing_leave_the_whole_interval() -> None:
    """The rubric may be no better than chance."""
    found = agreement(2, 6, wrongly_passed=94)
    assert corrected_pass_rate(found, 1.0, 9) == (1.0, 0.0, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("truth", "positive", "negative"), [(0.7, 0.9, 0.8), (0.95, 0.97, 0.9)])
def test_the_interval_holds_the_true_rate(truth: float, positive: float, negative: float) -> None:
    """In about 95 % of trials, labels and runs being drawn; the page has it exactly."""
    rng, held, trials = np.random.default_rng(11), 0, 300
    for _ in range(trials):
        right, wrong = int(rng.binomial(40, positive)), int(rng.binomial(40, negative))
        found = agreement(right, wrong, wrongly_passed=40 - wrong, wrongly_failed=40 - right)
        share = truth * positive + (1 - truth) * (1 - negative)
        passes = int(rng.binomial(100, share))
        corrected = corrected_pass_rate(found, passes / 100, 100)
        assert not isinstance(corrected, str)
        held += corrected[1] <= truth <= corrected[2]
    assert held / trials >= 0.93


def test_a_kept_agreement_is_stale_for_another_rubric(tmp_path: Path) -> None:
    """A report gets what was measured of its class; what can't be read is not there."""
    report = make_run([make_score()])
    assert with_agreement(report, tmp_path) == report
    path = keep(agreement(8, 8), tmp_path / "new")
    found = with_agreement(report, tmp_path / "new").rubric_agreement
    assert found is not None
    assert found.is_stale
    path.write_text("{}", encoding="utf-8")
    assert with_agreement(report, tmp_path / "new") == report
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(BenchError, match=r"can't be written \(.*\); name another --storage"):
        keep(agreement(8, 8), tmp_path / "file")
