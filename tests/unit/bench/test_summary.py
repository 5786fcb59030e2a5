"""The lines that a terminal shows of a run."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_failure_taxonomy.bench.models import GateSettings
from pytest_failure_taxonomy.bench.summary import duration, summary_lines
from tests.helpers.bench_scores import make_run, make_score

PASSED = make_score(1.0)


def test_a_run_with_everything_fits_in_a_few_lines() -> None:
    """Outcome, blocking codes, slowest cases, cost and gate, in this order."""
    report = make_run(
        [make_score(1.0, cost_usd=0.02, wall_clock_ms=100.0 * i) for i in range(57)]
        + [make_score(0, codes={"sut.timeout": "block", "slow": "warn"}, wall_clock_ms=300_000.0)]
        * 2
        + [make_score(0, codes={"validator.tests_failed": "block", "note": "info"})],
        gate=GateSettings(lower_bound_95=0.9),
    )
    assert summary_lines(report) == [
        "bench vuln: 57 of 60 passed; mean 0.950; at least 0.875 (95 %, clopper-pearson, n=60)",
        "  block: sut.timeout (2), validator.tests_failed (1)",
        "  slowest: c057 5 min 00 s, c058 5 min 00 s, c056 5.6 s",
        "  cost: $1.14",
        (
            "  gate: FAIL: 3 of 60 cases ended with a failure mode of severity block: "
            "sut.timeout (2), validator.tests_failed (1); the lower bound 0.875 is below 0.9"
        ),
    ]
    detailed = summary_lines(report, slowest=1, detail=True)
    assert detailed[1:5] == [
        "  block: sut.timeout (2), validator.tests_failed (1)",
        "  warn: slow (2)",
        "  info: note (1)",
        "  slowest: c057 5 min 00 s",
    ]


def test_a_run_without_trouble_is_one_line() -> None:
    """No line stands there to say nothing."""
    lines = summary_lines(make_run([make_score(0.5)] * 6))
    assert lines == ["bench vuln: 6 of 6 passed; mean 0.500; at least 0.303 (95 %, gaffke, n=6)"]


@pytest.mark.parametrize(
    ("run", "first"),
    [
        (
            {"scores": [PASSED] * 57, "not_run": 3},
            "57 of 60 passed, 3 not run; mean 1.000; at least 0.948 (95 %, clopper-pearson, n=57)",
        ),
        (
            {"scores": [PASSED] * 3, "lost": 1, "not_run": 2},
            "3 of 6 passed, 1 lost, 2 not run; mean 0.750; no lower bound: fewer than 5 cases",
        ),
        ({"scores": [], "not_run": 2}, "0 of 2 passed, 2 not run"),
        ({"scores": []}, "0 of 0 passed"),
    ],
)
def test_what_is_missing_stands_in_the_first_line(run: dict[str, Any], first: str) -> None:
    """Cases that were lost or not run are said where the passed ones are counted."""
    assert summary_lines(make_run(**run))[0] == f"bench vuln: {first}"


def test_a_gate_that_passes_says_so() -> None:
    """A passed gate has no reasons and no colon."""
    lines = summary_lines(make_run([PASSED] * 6, gate=GateSettings(lower_bound_95=0.5)))
    assert lines[-1] == "  gate: PASS"


def test_no_share_is_shown_higher_than_it_is() -> None:
    """A mean of 0.9996 has not reached 1.000, and 0.3 is not 0.299."""
    assert "mean 0.999;" in summary_lines(make_run([PASSED] * 4 + [make_score(0.998)]))[0]
    assert "mean 0.300;" in summary_lines(make_run([make_score(0.3)] * 5))[0]


@pytest.mark.parametrize(
    ("wall_clock_ms", "words"),
    [
        (0.001, "<0.1 ms"),
        (0.12, "0.1 ms"),
        (0.949, "0.9 ms"),
        (1.0, "1 ms"),
        (999.0, "999 ms"),
        (999.9, "1.0 s"),
        (12_400.0, "12.4 s"),
        (59_949.0, "59.9 s"),
        (59_951.0, "1 min 00 s"),
        (300_000.0, "5 min 00 s"),
        (3_599_900.0, "1 h 00 min"),
        (7_380_000.0, "2 h 03 min"),
    ],
)
def test_durations_have_the_unit_that_fits(wall_clock_ms: float, words: str) -> None:
    """Short and long durations are read at a glance."""
    assert duration(wall_clock_ms) == words


@pytest.mark.parametrize(
    ("cost_usd", "words"),
    [(0.00001, "<$0.0001"), (0.0123, "$0.0123"), (1.234, "$1.23"), (1234.5, "$1,234.50")],
)
def test_costs_have_the_digits_that_count(cost_usd: float, words: str) -> None:
    """Small costs keep four digits, large ones cents; none has no line."""
    assert summary_lines(make_run([make_score(cost_usd=cost_usd)]))[-1] == f"  cost: {words}"
    assert not any("cost" in line for line in summary_lines(make_run([PASSED])))
