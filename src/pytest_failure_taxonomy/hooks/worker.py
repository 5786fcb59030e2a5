"""The recorder on an xdist worker: only what the controller can't see by itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.hooks.exceptions import message_of
from pytest_failure_taxonomy.hooks.failures import MAX_NOTED, ExceptionMemory
from pytest_failure_taxonomy.hooks.guard import Faults, guarded, guarded_hook
from pytest_failure_taxonomy.hooks.integrity import IntegrityCheck
from pytest_failure_taxonomy.hooks.origin import own_place_of
from pytest_failure_taxonomy.redaction.secrets import NodeIds, Secrets
from pytest_failure_taxonomy.survive import layout
from pytest_failure_taxonomy.survive.folder import worker_folder
from pytest_failure_taxonomy.survive.layout import DONE, IN_CALL, IN_TEARDOWN, STARTED
from pytest_failure_taxonomy.survive.writer import DiskRecord, Record, StackDump
from pytest_failure_taxonomy.system.process import peak_rss_bytes
from pytest_failure_taxonomy.taxonomy.evidence import Change
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict

OUTPUT_KEY: Final = "failure_taxonomy"
"""The key of this plugin in xdist's `workerinput` and `workeroutput`."""
_ENDED: Final = {name: 1 + index for index, name in enumerate(layout.COUNTERS)}
"""How a test has ended, as a byte; 0 means that it has not."""
_NEAR: Final = 100
"""How many tests after the last one are searched for the next."""


class WorkerRecorder:
    """A plugin that describes exceptions on the worker that raised them."""

    def __init__(self, config: pytest.Config) -> None:
        self.faults = Faults(config, is_worker=True)
        workerinput: dict[str, Any] = config.workerinput  # type: ignore[attr-defined]
        self._given = workerinput.get(OUTPUT_KEY, {})
        """What the controller says of its record."""
        self.record = Record()
        folder = self._given.get("folder")
        if folder is not None and os.path.isdir(
            folder
        ):  # else the worker is on another machine
            own = Path(folder) / worker_folder(workerinput["workerid"])
            try:
                self.record = DiskRecord(own)
            except OSError as error:
                self.record = Record(
                    f"no record could be kept: {error.strerror or error}"
                )
        self._asked = StackDump()
        if self._given.get("watcher") is not None:
            self._asked.begin_when_asked(self.record, self._given["watcher"])
        self._config = config
        self._exceptions = ExceptionMemory(config, self.faults)
        self._ledger = self._exceptions.ledger
        self._ledger.tell = self._write_change
        self._ledger.tell_peak = self.record.set_peak
        if self.record.folder is not None:
            self._ledger.record = self.record.folder.parent
        if self._given:
            self._ledger.secrets = Secrets(self._given["patterns"], self._given["key"])
        self.integrity = IntegrityCheck(
            config, self.faults, is_certified=bool(self._given.get("certify"))
        )
        self._deselected = 0
        self._empty: list[str] = []
        self._nodeids: list[str] = []
        self._next = 0
        self._ending = _ENDED["passed"]
        self._shown: dict[str, str] = {}
        self._exit: dict[str, object] | None = None

    def hand_over(self, descriptors: Mapping[str, int]) -> bool:
        """Tell the controller where to find what this worker captures.

        Returns:
            Whether the controller reads the file with the stacks of a crash.
        """
        self.record.set_capture(
            descriptors.get(layout.STDOUT, 0), descriptors.get(layout.STDERR, 0)
        )
        return self.record.folder is not None and bool(self._given.get("shows_crashes"))

    @guarded_hook(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Record which test runs here; the controller learns it later, or never."""
        self.record.numbers.counters[STARTED] += 1
        self._ledger.start(nodeid)
        self.record.set_current(self._shown.get(nodeid, nodeid))
        self._ending = _ENDED["passed"]

    @guarded_hook(tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[Any]
    ) -> None:
        """Keep the exception of a test until its report comes by."""
        self._exceptions.see_test(item, call)

    @guarded
    def pytest_assertrepr_compare(self, op: str, left: object, right: object) -> None:
        """Compare the sides of a failing assertion; leave its words to others."""
        self._exceptions.see_comparison(op, left, right)

    @guarded_hook(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Attach its described exception to a failed report; record the phase."""
        outcome = report.outcome
        when = report.when
        if outcome == "failed":
            self._ending = _ENDED["failed" if when == "call" else "errors"]
            self._exceptions.send_with(report)
        elif hasattr(report, "wasxfail"):
            self._ending = _ENDED["xfailed" if outcome == "skipped" else "xpassed"]
        elif outcome == "skipped":
            self._ending = _ENDED["skipped"]
        if when != "teardown":
            is_called = outcome == "passed" and when == "setup"
            self.record.set_byte(
                layout.CURRENT_STATE_AT, IN_CALL if is_called else IN_TEARDOWN
            )

    @guarded
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Record how a test ended; forget exceptions that no report asked for."""
        numbers = self.record.numbers
        index = 0
        if self._nodeids:
            try:
                index = self._nodeids.index(nodeid, self._next, self._next + _NEAR)
            except ValueError:
                index = self._indices[nodeid]
            numbers.states[index] = self._ending
            self._next = index + 1
        numbers.page[layout.CURRENT_STATE_AT] = DONE
        self.record.keep(index)
        self._exceptions.forget()
        self._ledger.finish(nodeid)

    @guarded_hook(trylast=True)
    def pytest_exception_interact(
        self,
        node: pytest.Item | pytest.Collector,
        call: pytest.CallInfo[Any],
        report: pytest.TestReport | pytest.CollectReport,
    ) -> None:
        """Keep the exception of a collector until its report comes by."""
        if isinstance(node, pytest.Collector):
            self._exceptions.see_collector(node, call, report)

    @guarded_hook(tryfirst=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Attach the described exception to the report of a failed collection."""
        if report.failed:
            self._exceptions.send_with(report)
        elif report.passed and not report.result:
            self._empty.append(report.nodeid)

    @guarded_hook(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Make room for how the tests end, and find the node ids that hold a secret.

        The controller makes the same digests of them.
        """
        self._asked.begin_to_tell_tasks(self.record)
        if self.record.folder is not None:
            names = NodeIds(Secrets(self._given["patterns"], self._given["key"]))
            nodeids = self._nodeids = [item.nodeid for item in session.items]
            self.record.make_room(len(nodeids))
            shown = names.show_all(nodeids)
            self._shown = {
                real: shown_id
                for real, shown_id in zip(nodeids, shown, strict=True)
                if shown_id != real
            }

    @cached_property
    def _indices(self) -> dict[str, int]:
        """Made where a scheduler gives a worker tests that are far from each other."""
        return {nodeid: index for index, nodeid in enumerate(self._nodeids)}

    @guarded
    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Count the tests that options deselected; the controller never sees them."""
        self._deselected += len(items)

    @guarded
    def pytest_keyboard_interrupt(
        self, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> None:
        """Keep a `pytest.exit`: the controller only sees a test that never ends."""
        error = excinfo.value
        if issubclass(type(error), pytest.exit.Exception):
            where = own_place_of(error, self._config.rootpath)
            place = where and [where.path, where.line]
            self._exit = {"message": message_of(error), "place": place}

    @guarded
    def pytest_sessionfinish(self) -> None:
        """Send the controller what was counted, and what failed here."""
        config: Any = self._config  # `workeroutput` is xdist's
        output: dict[str, object] = config.workeroutput
        output[OUTPUT_KEY] = {
            "deselected": self._deselected,
            "empty": self._empty[:MAX_NOTED],
            "exit": self._exit,
            "refusal": self._refusal(),
            "changes": [to_dict(change) for change in self._ledger.changes()],
            "faults": self.faults.messages,
            "peak_rss_bytes": peak_rss_bytes(),
            "integrity": self._integrity(),
        }

    def _integrity(self) -> dict[str, object]:
        """Return what made results on this worker, as xdist can send it."""
        sent: dict[str, object] = {}
        with self.faults.catch("the check of integrity"):
            findings, entered = self.integrity.conclude()
            sent["findings"] = [
                {**to_dict(finding), "where": finding.where and to_dict(finding.where)}
                for finding in findings
            ]
            sent["entered"] = entered and to_dict(entered)
        return sent

    def _write_change(self, change: Change) -> None:
        nodeid = self._shown.get(change.nodeid, change.nodeid)
        self.record.write("change", change=replace(change, nodeid=nodeid))

    def _refusal(self) -> str | None:
        """Return the usage error that ends the session of this worker, if there is one.

        Only workers check node ids and expressions. The controller just sees workers
        without tests.
        """
        error = sys.exception()  # pytest calls this hook while such an error propagates
        if error is None or not issubclass(type(error), pytest.UsageError):
            return None
        from pytest_failure_taxonomy.hooks.startup_errors import words_of_usage_error

        return words_of_usage_error(error, self._config)
