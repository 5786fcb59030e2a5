"""The time limits that a test was under when its process ended."""

from __future__ import annotations

import pytest

from pytest_failure_taxonomy.survive.facts import Timer, limits_of_test
from pytest_failure_taxonomy.taxonomy.evidence import TimeLimit

TEST = "test_cart.py::test_a"
TIMER = Timer(armed_ns=7_000_000_000, budget_seconds=4.0, method="thread")
OF_TIMER = TimeLimit(
    owner="pytest-timeout (thread)",
    budget_seconds=4.0,
    elapsed_seconds=3.0,
    nodeid=TEST,
)
OF_FAULTHANDLER = TimeLimit(
    owner="faulthandler_timeout", budget_seconds=5.0, elapsed_seconds=3.5, nodeid=TEST
)


@pytest.mark.parametrize(
    ("timer", "faulthandler_seconds", "expected"),
    [
        (None, None, ()),
        (None, 0.0, ()),
        (TIMER, None, (OF_TIMER,)),
        (None, 5.0, (OF_FAULTHANDLER,)),
        (TIMER, 5.0, (OF_TIMER, OF_FAULTHANDLER)),
    ],
)
def test_the_limits_of_a_test(
    timer: Timer | None,
    faulthandler_seconds: float | None,
    expected: tuple[TimeLimit, ...],
) -> None:
    """A timer runs from when it was armed, faulthandler's limit from the start of the test."""
    limits = limits_of_test(
        TEST,
        elapsed_seconds=3.5,
        ended_ns=10_000_000_000,
        timer=timer,
        faulthandler_seconds=faulthandler_seconds,
    )
    assert limits == expected
