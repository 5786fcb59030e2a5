"""The order of a run: numbers as ranges, and what they are numbers of."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.report.build import build_report
from pytest_failure_taxonomy.report.load import as_json
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.order import (
    INDEX_BITS,
    LAST_WORKER,
    MAX_STARTS,
    Order,
    Plan,
    digest_of,
    order_of,
    read_ranges,
    write_ranges,
)
from pytest_failure_taxonomy.taxonomy.values import to_dict
from tests.helpers.reports import (
    assert_valid_report,
    make_context,
    make_full_run,
    make_run,
)

NODEIDS = [f"test_it.py::test_{name}" for name in "abcd"]


def made(
    starts: list[int], nodeids: list[str] = NODEIDS, tests: int = 4
) -> Order | None:
    """Return the order of starts by two workers of which the names are known."""
    plan = Plan(
        tests=tests, digest=digest_of(nodeids[:tests]), hash=0, distribution="load"
    )
    return order_of(starts, ["main", "gw1", "gw10"], nodeids, plan)


def start(worker: int, index: int) -> int:
    """Return the number that stands for a start."""
    return worker << INDEX_BITS | index + 1


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([7], "7"),
        ([0, 1, 2, 60, 62, 63], "0-2 60 62-63"),
        ([3, 2, 1, 0], "3 2 1 0"),
        ([1, 2, 0, 1], "1-2 0-1"),
    ],
)
def test_numbers_are_written_as_ranges(numbers: list[int], text: str) -> None:
    """Consecutive numbers take no more room than their first and last."""
    assert write_ranges(numbers) == text
    assert read_ranges(text) == numbers


@given(st.lists(st.integers(0, 300), max_size=50))
def test_ranges_are_read_as_they_were_written(numbers: list[int]) -> None:
    """Any order comes back."""
    assert read_ranges(write_ranges(numbers)) == numbers


@pytest.mark.parametrize(
    "text", ["x", "3-1", "0-999999999999", f"0-{MAX_STARTS}", "1--2"]
)
def test_what_is_no_order_is_refused(text: str) -> None:
    """A report of anybody's can't make a reader use up the memory."""
    with pytest.raises(ValueError, match=text[0]):
        read_ranges(text)


def test_a_digest_tells_lists_apart() -> None:
    """It depends on each node id, on their order and on where one ends; any text has one."""
    lists = [[], ["a"], ["a", "b"], ["b", "a"], ["ab"], ["\udc80"], ["ä"]]
    digests = [digest_of(nodeids) for nodeids in lists]
    assert len(set(digests)) == len(lists)
    assert all(re.fullmatch("[0-9a-f]{16}", digest) for digest in digests)


def test_starts_are_told_by_worker() -> None:
    """Each worker has its own order; a second start of a test, and holes, count for nothing."""
    order = made([start(2, 3), start(1, 0), 0, start(2, 1), start(1, 1), start(2, 3)])
    assert order is not None
    assert order.workers == {"gw1": "0-1", "gw10": "3 1"}
    assert list(order.workers) == ["gw1", "gw10"]
    assert (order.tests, order.digest, order.truncated) == (
        4,
        digest_of(NODEIDS),
        False,
    )
    assert (order.seeds, order.distribution) == ({"hash": 0}, "load")


def test_each_worker_runs_all_tests() -> None:
    """With `--dist each` the lists of all workers are one after the other, and are one list."""
    order = made([start(1, 0), start(2, 5), start(1, 2)], [*NODEIDS, *NODEIDS])
    assert order is not None
    assert order.workers == {"gw1": "0 2", "gw10": "1"}
    assert made([start(1, 0)], [*NODEIDS, *reversed(NODEIDS)]) is None


@pytest.mark.parametrize("starts", [[], [0, 0]])
def test_nothing_has_started(starts: list[int]) -> None:
    """A run that did not come to its tests has no order."""
    assert made(starts) is None
    assert made([start(0, 0)], [], 0) is None


def test_an_order_that_is_not_whole_says_so() -> None:
    """So it is with too many starts, with too many workers, and with a damaged record."""
    many = [f"t{number}" for number in range(MAX_STARTS + 1)]
    order = made([start(0, number) for number in range(len(many))], many, len(many))
    assert order is not None
    assert (order.workers, order.truncated) == ({"main": f"0-{MAX_STARTS - 1}"}, True)
    for unknown in (start(LAST_WORKER, 1), start(7, 1), start(0, 4)):
        order = made([start(0, 2), unknown])
        assert order is not None
        assert (order.workers, order.truncated) == ({"main": "2"}, True)


def test_a_report_has_it_where_something_failed() -> None:
    """It is not cut or searched as texts are."""
    numbers = write_ranges(range(0, 40_000, 2))
    order = Order(
        workers={"gw1": numbers},
        tests=40_000,
        digest="0123456789abcdef",
        seeds={"hash": 0, "randomly": 7},
        distribution="load",
        truncated=False,
    )
    fields = {
        name: getattr(make_full_run(), name) for name in ("failures", "exit", "workers")
    }
    run = make_run(**fields, order=order)
    report = as_json(build_report(run, judge(run), make_context()))
    assert_valid_report(report)
    assert report["order"] == to_dict(order)
    passed = make_run(order=order)
    assert build_report(passed, judge(passed), make_context()).order is None
