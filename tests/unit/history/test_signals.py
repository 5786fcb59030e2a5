"""What may make a test flaky, by what the runs in which it failed have in common."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from pytest_failure_taxonomy.history import History
from pytest_failure_taxonomy.history.questions import find_flaky
from pytest_failure_taxonomy.history.signals import Seen, suspicions_of
from pytest_failure_taxonomy.prove.rates import Count, make_proof
from pytest_failure_taxonomy.report.amend import amend
from pytest_failure_taxonomy.taxonomy.amendments import Amendment
from tests.helpers.past_runs import a_mixed_report

BEGIN = datetime(2026, 3, 1)  # noqa: DTZ001 - UTC, as the tables have it; a Sunday
WRONG = "AssertionError: assert 1 == 2"


def seen(
    is_bad: Callable[[int], bool], *, runs: int = 400, raised: str = WRONG, **other: Any
) -> list[Seen]:
    """Return a test's runs, one each hour; `other` gives fields, by the number where it is called.

    Args:
        is_bad: whether it failed in the run of a number.
        runs: how many there are.
        raised: what it raised.
        other: fields of the runs.
    """
    plain: dict[str, Any] = {
        "at": lambda number: BEGIN + timedelta(hours=number),
        "branch": "main",
        "run_seconds": 100.0,
        "collected": 50,
        "job": None,
        "seconds": 0.2,
    }
    return [
        Seen(
            has_failed=is_bad(number),
            raised=raised if is_bad(number) else "",
            **{
                name: of(number) if callable(of) else of
                for name, of in (plain | other).items()
            },
        )
        for number in range(runs)
    ]


def often(number: int) -> bool:
    """Fail at no time in particular."""
    return number % 37 in (5, 23)


@pytest.mark.parametrize(
    ("runs", "type_", "evidence"),
    [
        (
            seen(lambda n: n % 24 == 3),
            "axis.time",
            "fails only between 03:00 and 04:00 UTC: 17 of 17 failures match, but only 17 of 400 runs",
        ),
        (
            seen(lambda n: n % 24 in (23, 0) and n % 7 > 1),
            "axis.time",
            "fails only between 23:00 and 01:00 UTC: 24 of 24 failures match, but only 33 of 400 runs",
        ),
        (
            seen(lambda n: n // 24 % 7 == 2 and n % 3 == 0),
            "axis.time",
            "fails only on Tuesdays: 22 of 22 failures match, but only 64 of 400 runs",
        ),
        (
            seen(
                lambda n: (n + 1) % 31 == 0,
                runs=310,
                at=lambda n: BEGIN + timedelta(days=n),
            ),
            None,  # no day of the months that are longer or shorter than March
            None,
        ),
        (
            seen(
                lambda n: (BEGIN + timedelta(days=n + 1)).day == 1,
                runs=310,
                at=lambda n: BEGIN + timedelta(days=n),
            ),
            "axis.time",
            "fails only on the last day of a month: 10 of 10 failures match, but only 10 of 310 runs",
        ),
        (
            seen(
                often,
                run_seconds=lambda n: (
                    300.0 if often(n) or n % 5 == 0 else 100.0 + n % 9
                ),
            ),
            "axis.load",
            "fails only where the other tests take more than",
        ),
        (
            seen(often, seconds=lambda n: 5.1 if often(n) else 0.2),
            "axis.load",
            "fails only where it takes more than 1.0 s: 22 of 22 failures match, but only 22 of 400 runs",
        ),
        (
            seen(often, collected=lambda n: 50 if often(n) or n % 4 == 0 else 5),
            "order.polluted",
            "fails only in runs of most of the tests: 22 of 22 failures match, ",
        ),
        (
            seen(often, collected=lambda n: 5 if often(n) or n % 4 == 0 else 50),
            "order.brittle",
            "fails only in runs of less than half of the tests: 22 of 22 failures match, ",
        ),
        (
            seen(often, job=lambda n: "win" if often(n) or n % 4 == 0 else "linux"),
            "environment",
            "fails only in the CI job win: 22 of 22 failures match, ",
        ),
        (
            seen(
                often,
                raised="ConnectionResetError: [Errno 104] Connection reset by peer",
            ),
            "axis.network",
            "raises ConnectionResetError: 22 of 22 failures",
        ),
        (
            seen(often, raised="Failed: Timeout (>5.0s) from pytest-timeout."),
            "axis.load",
            "raises Failed: 22 of 22 failures",
        ),
        (
            seen(often, raised="AssertionError: assert ['b', 'a'] == ['a', 'b']"),
            "axis.hash_seed",
            "what it compares has the same elements in another order: 22 of 22 failures",
        ),
        (
            seen(often, raised="OSError: [Errno 98] Address already in use"),
            "axis.parallel",
            "raises OSError: 22 of 22 failures",
        ),
        (
            # What a test raises is seen of the failure itself, that it takes long around it.
            seen(
                often,
                raised="ReadTimeout: timed out",
                seconds=lambda n: 5.1 if often(n) else 0.2,
            ),
            "axis.network",
            "raises ReadTimeout: 22 of 22 failures",
        ),
        # A run takes a little longer where something failed.
        (seen(often, run_seconds=lambda n: 140.0 if often(n) else 100.0), None, None),
        # Nothing is said of a test that fails at any time, of one that failed all of one day, and
        # of failures that are too few.
        (seen(often), None, None),
        (seen(lambda n: 100 <= n < 112), None, None),
        (seen(lambda n: n in (27, 51), raised="ConnectionError: refused"), None, None),
        (seen(lambda n: True), None, None),
        ([], None, None),
    ],
)
def test_suspicions(runs: list[Seen], type_: str | None, evidence: str | None) -> None:
    """What all failures have in common, and few other runs, is told with its numbers."""
    found = suspicions_of(runs)
    assert [each.type for each in found[:1]] == ([] if type_ is None else [type_])
    if evidence is not None:
        assert found[0].evidence.startswith(evidence)
        assert found[0].chance <= 0.05


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_said_of_a_test_that_fails_by_chance(seed: int) -> None:
    """With all signals together; `tests/benchmarks/suspicions.py` says how often that is wrong."""
    draw = random.Random(seed)  # noqa: S311 - the same each time
    rate = draw.choice([0.03, 0.1, 0.3])
    bad = {number for number in range(300) if draw.random() < rate}
    runs = seen(
        bad.__contains__,
        runs=300,
        run_seconds=lambda _: draw.gauss(300, 40),
        collected=lambda _: draw.choice([1000, 1000, 100]),
        job=lambda _: draw.choice(["linux", "windows", None]),
        seconds=lambda _: max(0.1, draw.gauss(2, 0.5)),
    )
    assert suspicions_of(runs) == []


def test_types_of_flaky_tests_in_a_history(history: History) -> None:
    """What is proven counts more than what is suspected; what speaks for it is told of both."""
    reports = []
    for number in range(120):
        refused = "ConnectionRefusedError: refused" if number % 24 == 3 else None
        slow = WRONG if number % 11 == 0 else None
        reports.append(
            a_mixed_report(
                number,
                {"test_net": refused, "test_slow": slow, "test_good": None},
                seconds={"test_slow": 3.0 if slow else 0.1},
            )
        )
    for report in reports:
        assert history.add(report)
    found = {row.nodeid.rpartition("_")[2]: row for row in find_flaky(history)}
    assert (found["slow"].type, found["slow"].status) == ("axis.load", "suspected")
    assert found["slow"].evidence == (
        "fails only where it takes more than 1.0 s: 11 of 11 failures match, but only 11 of 120 runs"
    )
    assert (found["net"].type, found["net"].status) == ("axis.network", "suspected")
    assert found["net"].evidence == "raises ConnectionRefusedError: 5 of 5 failures"
    told = reports[3]
    without = Count(runs=5)
    proof = make_proof("axis.network", "proven", Count(failed=5, runs=5), without)
    (key,) = [cause.key for cause in told.causes if "refused" in cause.what]
    history.add(amend(told, Amendment(proofs={key: proof})))
    row = next(each for each in find_flaky(history) if each.nodeid.endswith("net"))
    assert (row.type, row.status, row.proof) == (
        "axis.network",
        "proven",
        "axis.network",
    )
    assert row.evidence is not None
    assert row.evidence.startswith("the network decides, proven")
