"""Remember exceptions between the hook that sees them and the one that sees the report.

pytest's reports say how a failure reads, not of which type it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.recorder import longrepr
from pytest_failure_taxonomy.recorder.attribution import Attributor
from pytest_failure_taxonomy.recorder.describe import (
    cause_of,
    describe_exception,
    missing_fixtures_beside,
    place_of,
    quotes_a_traceback,
    words_of_refusal,
)
from pytest_failure_taxonomy.recorder.origin import OriginFinder
from pytest_failure_taxonomy.recorder.secrets import changed_secrets
from pytest_failure_taxonomy.recorder.sent import attribution_from, raised_from, sent_of
from pytest_failure_taxonomy.taxonomy.evidence import Attribution, Location, RaisedException
from pytest_failure_taxonomy.taxonomy.values import replace

_ATTRIBUTE: Final = "_failure_taxonomy"
"""Name under which a worker's report carries its description to the controller."""

Report = pytest.TestReport | pytest.CollectReport


class ExceptionMemory:
    """Keep what was raised until its report comes by."""

    def __init__(
        self,
        rootdir: Path,
        attributor: Attributor,
        learn: Callable[[dict[str, str]], None] = lambda _: None,
    ) -> None:
        """Remember nothing yet.

        Args:
            rootdir: of the run.
            attributor: asks who knows why a test failed.
            learn: on the controller, called with what may be secret in a worker's environment.
        """
        self._rootdir = rootdir
        self._attributor = attributor
        self._learn = learn
        self._environment = dict(os.environ)
        self._origins = OriginFinder(rootdir)
        self._raised: dict[tuple[str, str], tuple[pytest.Item, pytest.CallInfo[Any]]] = {}
        self._collecting: dict[str, tuple[RaisedException, Location | None]] = {}
        self._received: tuple[Report, dict[str, Any]] | None = None

    def see_test(self, node: pytest.Item, call: pytest.CallInfo[Any]) -> None:
        """Hold what a phase of a test raised."""
        # Not the exception: that of a unittest is put into the call by a hook that runs later.
        self._raised[node.nodeid, call.when] = node, call

    def take_test(
        self, report: pytest.TestReport
    ) -> tuple[RaisedException | None, Attribution | None]:
        """Return what failed a test and what is said of it, and let go of the exception."""
        sent = self._sent_with(report)
        if sent is not None:
            return raised_from(sent["exception"]), attribution_from(sent["attributed"])
        node, call = self._raised.pop((report.nodeid, str(report.when)), (None, None))
        # pytest-forked puts its own words there, of a process that is no more.
        error = None if call is None else getattr(call.excinfo, "value", None)
        if node is None or error is None:
            return None, None
        return self.explain_test(node, error, report)

    def explain_test(
        self, node: pytest.Item, error: BaseException, report: pytest.TestReport
    ) -> tuple[RaisedException, Attribution | None]:
        """Describe what failed a test, and ask who knows why."""
        raised = describe_exception(error, self._origins)
        said = longrepr.words_for_people(report.longrepr)
        if said:
            others = missing_fixtures_beside(error)
            raised = replace(raised, message="; ".join([said, *others]))
        return raised, self._attributor.ask(node, error, str(report.when))

    def describe_error(self, error: BaseException) -> RaisedException | None:
        """Describe what is behind an error that left pytest or a plugin's hook.

        xdist passes a worker's error on as text, whose own type is known by that text alone.
        """
        cause = cause_of(error)
        if isinstance(cause, pytest.UsageError) and isinstance(cause.__cause__, ImportError):
            cause = cause.__cause__  # of a plugin that is not there
        if quotes_a_traceback(cause):
            return None
        return describe_exception(cause, self._origins)

    def forget(self) -> None:
        """Let go of exceptions that failed no test: skips, expected failures, reruns."""
        if self._raised:
            self._raised.clear()

    def see_collector(self, node: pytest.Collector, call: pytest.CallInfo[Any]) -> None:
        """Remember why a node could not be collected."""
        if call.excinfo is None:
            return
        error = cause_of(call.excinfo.value)
        described = describe_exception(error, self._origins)
        said = words_of_refusal(call.excinfo.value)
        if said:
            described = replace(described, message=said)
        self._collecting[node.nodeid] = described, place_of(error, self._rootdir)

    def take_collector(
        self, report: pytest.CollectReport
    ) -> tuple[RaisedException | None, Location | None]:
        """Return what is known of why a node could not be collected."""
        sent = self._sent_with(report)
        if sent is not None:
            place = sent["place"]
            return raised_from(sent["exception"]), place and Location(path=place[0], line=place[1])
        return self._collecting.pop(report.nodeid, (None, None))

    def send_with(self, report: Report) -> None:
        """On a worker: let a report carry what was raised to the controller."""
        place: Location | None = None
        said: Attribution | None = None
        if isinstance(report, pytest.TestReport):
            exception, said = self.take_test(report)
        else:
            exception, place = self.take_collector(report)
        sent = {
            "exception": sent_of(exception),
            "place": place and [place.path, place.line],
            "attributed": sent_of(said),
            "environment": changed_secrets(self._environment),
        }
        setattr(report, _ATTRIBUTE, sent)

    def receive_from(self, report: Report) -> None:
        """On the controller: take off what a report carries, before any other plugin sees it."""
        sent = report.__dict__.pop(_ATTRIBUTE, None)
        self._received = None if sent is None else (report, sent)
        if sent is not None:
            self._learn(sent["environment"])

    def _sent_with(self, report: Report) -> dict[str, Any] | None:
        received = self._received
        return received[1] if received is not None and received[0] is report else None
