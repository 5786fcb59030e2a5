"""What a report says of the run that is to be repeated."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from pytest_failure_taxonomy.prove.experiment import Experiments
from pytest_failure_taxonomy.prove.recorded import order_before, setup_of
from pytest_failure_taxonomy.report.load import decode_report
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.taxonomy.order import Order
from tests.helpers.reports import make_context, make_failure, make_report, make_run


@pytest.mark.parametrize(
    ("args", "kept"),
    [
        (["--why", "-p", "no:randomly", "tests"], ["-p", "no:randomly", "tests"]),
        (["--why-history", "-p", "no:randomly"], ["-p", "no:randomly"]),
        (["--why-history", "h.db", "tests"], ["tests"]),
        (["--why-history=h.db", "tests"], ["tests"]),
        (["--why-prove", "5m", "--failure-taxonomy-report", "-r.json", "-x"], ["-x"]),
        (["--why-history"], []),
    ],
)
def test_the_options_of_the_run_without_ours(args: list[str], kept: list[str]) -> None:
    """Ours go with their values, as pytest reads them; an optional value may not be there."""
    run = make_run(failures=(make_failure(),))
    report = make_report(run, context=make_context(args=tuple(args)))
    assert [*setup_of(decode_report(report)).args] == kept


@pytest.mark.parametrize(
    ("digest", "workers", "expected"),
    [
        ("d", {"gw0": "2 0", "gw1": "1"}, ("c",)),
        ("d", {"main": "0-2"}, ()),
        (
            "d",
            {"main": "9 2 7 0"},
            ("c",),
        ),  # numbers of no test: somebody has changed it
        ("d", {"main": "1"}, None),
        ("other", {"main": "2 0"}, None),
    ],
)
def test_what_ran_before(
    digest: str, workers: dict[str, str], expected: tuple[str, ...] | None
) -> None:
    """It is known where the same tests are collected."""
    order = Mock(spec=Order, digest=digest, workers=workers)
    report = Mock(spec=FailureReport, order=order)
    experiments = Mock(spec=Experiments, digest="d", nodeids=("a", "b", "c"))
    assert order_before(report, experiments, "a") == expected
