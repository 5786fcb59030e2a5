"""How far a rubric agrees with people's labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scipy")

from pytest_failure_taxonomy.bench.models import (
    OracleExample,
    RubricAgreement,
    TaskClass,
)
from pytest_failure_taxonomy.bench.oracle import keep, measure, with_agreement
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
        name="vuln",
        breakdown_keys=frozenset(),
        failure_mode_taxonomy={},
        oracle=tuple(oracle),
    )
    scores = {
        f"e{number}": make_score(score) for number, (_, score) in enumerate(labelled)
    }
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
    assert (positive.value, positive.n, negative.value, negative.n) == (
        0.8,
        25,
        0.6,
        25,
    )
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
    with pytest.raises(
        BenchError, match=r"can't be written \(.*\); name another --storage"
    ):
        keep(agreement(8, 8), tmp_path / "file")
