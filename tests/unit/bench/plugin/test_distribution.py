"""Which tests a crashed worker leaves to others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]  # xdist ships no types

from pytest_failure_taxonomy.bench.plugin.distribution import UnitScheduling

CASES = [
    "bench/echo/cases/a.jsonl::a",
    "bench/echo/cases/a.jsonl::b",
    "test_it.py::test_other",
]
UNITS = {CASES[0]: "echo 1", CASES[1]: "echo 1"}


class Node:
    """A worker that does nothing."""

    shutting_down = False
    config = None

    class gateway:  # noqa: N801 - xdist's name
        """Where it would run."""

        id = "gw0"

    def __init__(self) -> None:
        self.sent: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        """Take work."""
        self.sent += indices

    def shutdown(self) -> None:
        """Take no more."""


def scheduling_on(node: Node) -> Any:
    """Return a scheduling whose one worker has all of the tests."""
    option = SimpleNamespace(loadscopereorder=False)
    config = SimpleNamespace(getvalue=lambda _: ["popen"], option=option)
    scheduling = UnitScheduling(
        config, Producer("scheduling", enabled=False), UNITS, object()
    )
    scheduling.add_node(node)
    scheduling.add_node_collection(node, CASES)
    scheduling.schedule()
    return scheduling


def report_of(nodeid: str, when: str, outcome: str) -> pytest.TestReport:
    """Return a report as a worker sends it."""
    return pytest.TestReport(
        nodeid,
        ("a", 1, "a"),
        {},
        outcome,  # type: ignore[arg-type]
        None,
        when,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("told", "left"),
    [
        ([], CASES[:2]),
        ([(CASES[0], "call", "passed")], CASES[1:2]),
        ([(CASES[0], "setup", "passed")], CASES[:2]),
        ([(CASES[0], "setup", "failed")], CASES[1:2]),
    ],
)
def test_a_case_that_was_reported_is_not_run_again(
    told: list[tuple[str, str, str]], left: list[str]
) -> None:
    """The worker died before it could say that the case is done; its result is there."""
    node = Node()
    scheduling = scheduling_on(node)
    for each in told:
        scheduling.pytest_runtest_logreport(report_of(*each))
    assert scheduling.remove_node(node) is None
    (unit,) = (unit for name, unit in scheduling.workqueue.items() if name == "echo 1")
    assert [nodeid for nodeid, is_done in unit.items() if not is_done] == left
