"""What the controller of an xdist run records of its workers."""

from __future__ import annotations

import subprocess
from collections import Counter
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.recorder.guard import Faults, guarded
from pytest_failure_taxonomy.recorder.session import SessionRecorder
from pytest_failure_taxonomy.recorder.worker import OUTPUT_KEY
from pytest_failure_taxonomy.taxonomy.evidence import WorkerEnd
from pytest_failure_taxonomy.taxonomy.signals import CRASH_SIGNALS, signal_name

MAX_WAIT_SECONDS: Final = 0.25
"""How long to wait for the exit status of a worker that went down. Its pipe breaks before the
system lets go of it; but a worker with a broken conftest does not exit at all."""


class ControllerRecorder:
    """A plugin that follows the workers of an xdist run."""

    def __init__(self, config: pytest.Config, session: SessionRecorder, faults: Faults) -> None:
        self.faults = faults
        self._session = session
        self._each = config.getoption("dist", "no") == "each"
        self._nodes: dict[str, Any] = {}
        self._started: Counter[str] = Counter()
        self._errors: dict[str, str] = {}
        self._returncodes: dict[str, int | None] = {}
        self._crashed_on: dict[str, str] = {}

    @pytest.hookimpl(optionalhook=True)
    @guarded
    def pytest_configure_node(self, node: Any) -> None:
        """Record that a worker is about to be."""
        self._nodes[node.gateway.id] = node

    @pytest.hookimpl(optionalhook=True)
    @guarded
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """Record which tests are selected; every worker collects the same ones."""
        del node
        progress = self._session.progress
        if self._each:
            progress.select([*progress.nodeids, *ids])
        elif not progress.nodeids:
            progress.select(list(ids))

    @pytest.hookimpl(tryfirst=True)
    @guarded
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record which worker ran a test, and take off what its report carries."""
        self._session.exceptions.receive_from(report)
        node = getattr(report, "node", None)
        if node is None:
            return
        worker = node.gateway.id
        if report.when == "setup":
            self._started[worker] += 1
            self._session.progress.assign_worker(report.nodeid, worker)
        elif report.when not in ("call", "teardown"):
            self._crashed_on[worker] = report.nodeid

    @pytest.hookimpl(tryfirst=True)
    @guarded
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Take off what a worker's report carries."""
        self._session.exceptions.receive_from(report)

    @pytest.hookimpl(optionalhook=True)
    @guarded
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Record how a worker ended."""
        worker = node.gateway.id
        output = (getattr(node, "workeroutput", None) or {}).get(OUTPUT_KEY, {})
        if "deselected" in output:  # every worker deselects the same ones
            self._session.progress.set_deselected(output["deselected"])
        for fault in output.get("faults", ()):
            self.faults.note(fault)
        if error:
            self._errors[worker] = str(error)
            self._returncodes[worker] = _returncode(node, MAX_WAIT_SECONDS)

    def ends(self) -> tuple[WorkerEnd, ...]:
        """Return how each worker ended, sorted by id; call it when the session is over."""
        workers = sorted(self._nodes, key=lambda worker: (len(worker), worker))
        return tuple(self._end_of(worker) for worker in workers)

    def _end_of(self, worker: str) -> WorkerEnd:
        returncode = self._returncodes.get(worker)
        if returncode is None:
            returncode = _returncode(self._nodes[worker], 0)
        signal = signal_name(-returncode) if returncode is not None and returncode < 0 else None
        error = self._errors.get(worker)
        if error == "keyboard-interrupt":
            ending = "interrupted"
        elif error is not None or signal in CRASH_SIGNALS:
            ending = "died"
        else:
            ending = "finished"
        return WorkerEnd(
            id=worker,
            tests=self._started[worker],
            exit_code=returncode if returncode is not None and returncode >= 0 else None,
            signal=signal,
            crashed_on=self._crashed_on.get(worker),
            ending=ending,  # type: ignore[arg-type]  # one of the three above
            error=error,
        )


def _returncode(node: Any, wait_seconds: float) -> int | None:
    """Return the status of a worker's process, or `None` while it runs or where there is none.

    xdist and execnet have no public way to ask; a worker on another host has no process here.
    """
    try:
        popen = node.gateway._io.popen  # noqa: SLF001
        return int(popen.wait(timeout=wait_seconds) if wait_seconds else popen.poll())
    except (AttributeError, TypeError, OSError, subprocess.TimeoutExpired):
        return None
