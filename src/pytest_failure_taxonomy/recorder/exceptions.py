"""Remember exceptions between the hook that sees them and the one that sees the report.

pytest's reports say how a failure reads, not of which type it was.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.recorder.describe import (
    as_json,
    cause_of,
    describe_exception,
    from_json,
    place_of,
)
from pytest_failure_taxonomy.taxonomy.evidence import Location, RaisedException

_ATTRIBUTE: Final = "_failure_taxonomy"
"""Name under which a worker's report carries its description to the controller."""

Report = pytest.TestReport | pytest.CollectReport


class ExceptionMemory:
    """Keep what was raised until its report comes by."""

    def __init__(self, rootdir: Path) -> None:
        self._rootdir = rootdir
        self._raised: dict[tuple[str, str], BaseException] = {}
        self._collecting: dict[str, tuple[RaisedException, Location | None]] = {}
        self._received: tuple[Report, dict[str, Any]] | None = None

    def see_test(self, node: pytest.Item, call: pytest.CallInfo[Any]) -> None:
        """Hold what a phase of a test raised."""
        if call.excinfo is not None:
            self._raised[node.nodeid, call.when] = call.excinfo.value

    def take_test(self, report: pytest.TestReport) -> RaisedException | None:
        """Return a description of what failed a test, and let go of the exception."""
        sent = self._sent_with(report)
        if sent is not None:
            return from_json(sent["exception"])
        error = self._raised.pop((report.nodeid, str(report.when)), None)
        return None if error is None else describe_exception(error)

    def forget(self) -> None:
        """Let go of exceptions that failed no test: skips, expected failures, reruns."""
        if self._raised:
            self._raised.clear()

    def see_collector(self, node: pytest.Collector, call: pytest.CallInfo[Any]) -> None:
        """Remember why a node could not be collected."""
        if call.excinfo is None:
            return
        error = cause_of(call.excinfo.value)
        self._collecting[node.nodeid] = describe_exception(error), place_of(error, self._rootdir)

    def take_collector(
        self, report: pytest.CollectReport
    ) -> tuple[RaisedException | None, Location | None]:
        """Return what is known of why a node could not be collected."""
        sent = self._sent_with(report)
        if sent is not None:
            place = sent["place"]
            return from_json(sent["exception"]), place and Location(path=place[0], line=place[1])
        return self._collecting.pop(report.nodeid, (None, None))

    def send_with(self, report: Report) -> None:
        """On a worker: let a report carry what was raised to the controller."""
        place: Location | None = None
        if isinstance(report, pytest.TestReport):
            exception = self.take_test(report)
        else:
            exception, place = self.take_collector(report)
        sent = {"exception": as_json(exception), "place": place and [place.path, place.line]}
        setattr(report, _ATTRIBUTE, sent)

    def receive_from(self, report: Report) -> None:
        """On the controller: take off what a report carries, before any other plugin sees it."""
        sent = report.__dict__.pop(_ATTRIBUTE, None)
        self._received = None if sent is None else (report, sent)

    def _sent_with(self, report: Report) -> dict[str, Any] | None:
        received = self._received
        return received[1] if received is not None and received[0] is report else None
