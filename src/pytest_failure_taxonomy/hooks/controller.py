"""The recorder on the controller of an xdist run: how its workers ran and ended."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypedDict

import pytest

from pytest_failure_taxonomy.hooks.guard import guarded, guarded_hook
from pytest_failure_taxonomy.hooks.integrity import IntegrityCheck
from pytest_failure_taxonomy.hooks.progress import faulthandler_exit_seconds
from pytest_failure_taxonomy.hooks.session import (
    SessionRecorder,
    is_of_forked_test,
    is_of_mismatch,
)
from pytest_failure_taxonomy.hooks.worker import OUTPUT_KEY
from pytest_failure_taxonomy.survive import observed
from pytest_failure_taxonomy.survive.facts import (
    WorkerState,
    growth_of_test,
    limits_of_test,
    stall_of_worker,
)
from pytest_failure_taxonomy.survive.folder import worker_folder
from pytest_failure_taxonomy.survive.reader import read_worker
from pytest_failure_taxonomy.system.files import Folder
from pytest_failure_taxonomy.system.process import (
    oom_events_file,
    peak_rss_of_children,
    read_oom_count,
)
from pytest_failure_taxonomy.taxonomy import evidence
from pytest_failure_taxonomy.taxonomy.judgement import CRASH_SIGNALS, signal_name
from pytest_failure_taxonomy.taxonomy.order import digest_of

if TYPE_CHECKING:
    from pytest_failure_taxonomy.taxonomy.mismatch import (
        CollectedVariant,
        CollectionMismatch,
    )

MAX_WAIT_SECONDS: Final = 0.25
"""How long to wait for the exit status of a worker that has died. Its pipe breaks
before it exits, and a worker with a broken conftest file does not exit at all."""

_SIGKILL: Final = 9


class _Seen(TypedDict, total=False):
    """What is known of how a worker ended: fields of its `WorkerEnd`."""

    activity: evidence.RunningActivity | None
    changes: tuple[evidence.Change, ...]
    crashed_on: str | None
    error: str | None
    limit: evidence.TimeLimit | None
    oom_kill: evidence.OomKill | None
    out_of_memory: bool
    peak_rss_bytes: int | None
    process_id: int | None
    stall: evidence.Stall | None
    traces: evidence.Traces | None


class _Worker:
    """What is known of one worker."""

    def __init__(self, node: Any) -> None:
        self.node = node
        self.tests = 0
        self.has_exited = False
        """Whether `pytest.exit` ended its session, which xdist takes for a Ctrl+C."""
        self.returncode: int | None = None
        self.ready_ns = 0
        self.seen: _Seen = {}

    def end(self) -> evidence.WorkerEnd:
        """Return how the worker ended; `finished` if it has not ended yet."""
        returncode = (
            _returncode(self.node, 0) if self.returncode is None else self.returncode
        )
        signal = None
        if returncode is not None and returncode < 0:
            signal = signal_name(-returncode)
        error = self.seen.get("error")
        ending: Literal["finished", "died", "interrupted", "exited"] = "finished"
        if self.has_exited:
            ending = "exited"
        elif error == "keyboard-interrupt":
            ending = "interrupted"
        elif error is not None or signal in CRASH_SIGNALS:
            ending = "died"
        return evidence.WorkerEnd(
            id=self.node.gateway.id,
            tests=self.tests,
            exit_code=None if signal else returncode,
            signal=signal,
            ending=ending,
            **self.seen,
        )


class TracesOfWorkers(Protocol):
    """Reads what workers leave when they die."""

    shows_crashes: bool
    """Whether the stacks of a crash in a worker's record are shown to the user."""

    def follow(
        self, worker: str, process_id: int, folder: Folder, capture: tuple[int, int]
    ) -> None:
        """Open the files of a worker."""

    def read(self, worker: str, end: evidence.ProcessExit) -> evidence.Traces | None:
        """Return what a dead worker left; once only."""


class ControllerRecorder:
    """A plugin that records what the workers of an xdist run do.

    What a worker does arrives late: it sends an event, and the controller's loop calls
    the hooks when it comes to that. So at any moment a worker may be some events ahead,
    and three ends need more than the reports:

    - A worker that dies takes the reports with it that it had not sent. xdist then
      makes up a failed report for the test that it takes to have been running, with a
      phase of its own (`when` is `???`). Which test and phase it really was stands in
      the worker's state file, as does what it had counted.
    - A controller that is interrupted reads no more events. `catch_up` asks the state
      files instead.
    - A worker that dies after its session sends nothing: `ends` looks at all of them.

    With `--dist each`, or after `--reruns`, a test starts more than once, so a report
    belongs to the attempt of its own worker.
    """

    def __init__(
        self,
        config: pytest.Config,
        session: SessionRecorder,
        traces: TracesOfWorkers,
        watcher_id: int | None,
        integrity: IntegrityCheck,
    ) -> None:
        self.faults = session.faults
        self._traces = traces
        self._session = session
        self._record = session.record
        session.progress.is_distributed = True
        self._each = config.getoption("dist", "no") == "each"
        self._workers: dict[str, _Worker] = {}
        self._collected = CollectedTests()
        self._watcher_id = watcher_id
        self._integrity = integrity
        # xdist passes the options of the controller on to its workers, `-o` included.
        self._faulthandler_seconds = faulthandler_exit_seconds(config)
        self._oom_file = oom_events_file()
        self._oom_kills = read_oom_count(self._oom_file)
        self._peak_of_children = peak_rss_of_children()

    @guarded_hook(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Record a new worker, and tell it where the record is."""
        worker = self._workers[node.gateway.id] = _Worker(node)
        self._session.progress.add_worker(node.gateway.id)
        self._session.log.write("worker", worker=worker.end())
        folder = self._record.folder
        secrets = self._session.secrets
        node.workerinput[OUTPUT_KEY] = {
            "folder": folder and str(folder),
            "key": secrets.key,
            "patterns": list(secrets.patterns),
            "watcher": self._watcher_id,
            "shows_crashes": self._traces.shows_crashes,
            "certify": self._integrity.is_certified,
        }

    @guarded_hook(optionalhook=True)
    def pytest_testnodeready(self, node: Any) -> None:
        """Record the process of a new worker, and open what it leaves if it dies."""
        worker = node.gateway.id
        popen = _popen_of(node)
        if popen is not None:
            connected = self._workers[worker]
            connected.seen["process_id"] = int(popen.pid)
            connected.ready_ns = time.monotonic_ns()
            self._session.log.write("worker", worker=connected.end())
        with suppress(OSError), self._record.opened() as folder:
            state = read_worker(folder, worker)
            with folder.open_folder(worker_folder(worker)) as inner:
                self._traces.follow(worker, state.process_id, inner, state.capture)

    @guarded_hook(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """Record the first worker's selection, and how those of others differ."""
        progress = self._session.progress
        if self._each:
            progress.select([*progress.nodeids, *ids], is_more=True)
            return
        nodeids = list(ids)
        self._collected.add(node.gateway.id, nodeids)
        if not progress.nodeids:
            progress.select(nodeids)

    @guarded_hook(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record which worker ran a test, and receive what its report carries."""
        self._session.exceptions.receive_from(report)
        node = getattr(report, "node", None)
        if node is None or report.when in ("call", "teardown"):
            return
        worker = self._workers[node.gateway.id]
        if report.when == "setup":
            worker.tests += 1
            self._session.progress.assign_worker(report.nodeid, node.gateway.id)
        elif not is_of_forked_test(
            report
        ):  # xdist's own report of a worker that has died
            worker.seen["crashed_on"] = report.nodeid
            self._session.progress.assign_worker(report.nodeid, node.gateway.id)
            end = self._session.death = worker.end()
            self._session.log.write("worker", worker=end)

    @guarded_hook(tryfirst=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Receive what a worker's report carries, or xdist's error of all workers."""
        self._session.exceptions.receive_from(report)
        if is_of_mismatch(report):
            mismatch = self._collected.mismatch()
            if mismatch is not None:
                self._session.log.add_mismatch(mismatch)

    @guarded_hook(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Record how a worker ended."""
        output = (getattr(node, "workeroutput", None) or {}).get(OUTPUT_KEY, {})
        if "deselected" in output:  # all workers deselect the same tests
            self._session.progress.set_deselected(output["deselected"])
            self._session.empty = output["empty"]
        worker = self._workers[node.gateway.id]
        facts = worker.seen
        if "peak_rss_bytes" in output:
            facts["peak_rss_bytes"] = output["peak_rss_bytes"]
        if output.get("exit") and not worker.has_exited:
            worker.has_exited = True
            place = output["exit"]["place"]  # it ends that worker alone
            where = None
            if place is not None:
                where = evidence.Location(path=place[0], line=place[1])
            self._session.interrupt("Exit", output["exit"]["message"], where)
        if output.get("refusal"):
            refusal = evidence.RunError(origin="usage", message=output["refusal"])
            self._session.log.add_error(refusal)
        self._integrity.add_of_worker(output.get("integrity", {}))
        if output.get("changes"):
            changes = [evidence.Change(**change) for change in output["changes"]]
            facts["changes"] = tuple(changes)
        for fault in output.get("faults", ()):
            self.faults.note(fault)
        if error and not worker.has_exited:
            facts["error"] = str(error)
            self._see_death(worker)
            self._session.log.write("worker", worker=worker.end())

    def _see_death(self, worker: _Worker) -> None:
        name = worker.node.gateway.id
        facts = worker.seen
        state = self._state_of(name)
        if state.test is not None:  # the limit that was nearest
            now_ns = time.monotonic_ns()
            limits = limits_of_test(
                self._session.nodeids.find_real(state.test.nodeid),
                elapsed_seconds=(now_ns - state.test.start_ns) / 1e9,
                ended_ns=now_ns,
                timer=state.timer,
                faulthandler_seconds=self._faulthandler_seconds,
            )
            facts["limit"] = max(limits, key=lambda limit: limit.share, default=None)
        facts["activity"] = state.activity
        worker.returncode = _returncode(worker.node, MAX_WAIT_SECONDS)
        kills = read_oom_count(self._oom_file)
        if kills is not None and self._oom_kills is not None:
            facts["out_of_memory"] = kills > self._oom_kills
            self._oom_kills = kills
        process_id = facts.get("process_id")
        with suppress(OSError), self._record.opened() as folder:
            facts["stall"] = stall_of_worker(observed.read_observed(folder), name)
            memory = observed.read_memory(folder)
            facts["peak_rss_bytes"] = (
                None if memory is None else memory.peak_of(process_id)
            )
        # The system tells the peak of all children so far: one that raises it has that
        # peak.
        peak = peak_rss_of_children()
        if peak > self._peak_of_children:
            self._peak_of_children = facts["peak_rss_bytes"] = peak
        growth: list[evidence.Change] = []
        if state.test is not None:
            growth += growth_of_test(
                state.test.nodeid, state.peak_bytes, facts.get("peak_rss_bytes")
            )
        facts["changes"] = (*state.changes, *growth)
        if worker.returncode == -_SIGKILL and process_id is not None:
            now_ns = time.monotonic_ns()
            facts["oom_kill"] = observed.oom_kill_of(
                process_id, worker.ready_ns, now_ns
            )
        self._read_traces(worker)

    def _read_traces(self, worker: _Worker) -> None:
        end = worker.end()
        exit_seen = evidence.ProcessExit(
            code=end.exit_code,
            signal=end.signal,
            source="xdist",
        )
        worker.seen["traces"] = self._traces.read(end.id, exit_seen) or end.traces

    @guarded
    def catch_up(self) -> None:
        """Read which tests the workers have started from their records.

        The controller of an interrupted run no longer receives their reports.
        """
        for worker in self._workers:
            test = self._state_of(worker).test
            if test is not None:
                nodeid = self._session.nodeids.find_real(test.nodeid)
                self._session.progress.start_unheard(
                    nodeid, test.phase, test.start_ns, worker
                )

    def ends(self) -> tuple[evidence.WorkerEnd, ...]:
        """Return how each worker ended, sorted by id. Call it after the session."""
        workers = [self._workers[name] for name in _sort_workers(self._workers)]
        for worker in workers:
            if worker.end().ending == "died":  # maybe after its session
                self._read_traces(worker)
        return tuple(worker.end() for worker in workers)

    def _state_of(self, worker: str) -> WorkerState:
        """Return what a worker recorded about itself, as far as it can be read."""
        with suppress(OSError), self._record.opened() as folder:
            return read_worker(folder, worker)
        return WorkerState()


def _returncode(node: Any, wait_seconds: float) -> int | None:
    """Return the return code of a worker; `None` if it runs or is on another host.

    Neither xdist nor execnet has a public way to ask for it.
    """
    try:
        popen = _popen_of(node)
        return int(popen.wait(timeout=wait_seconds) if wait_seconds else popen.poll())
    except (AttributeError, TypeError, OSError, subprocess.TimeoutExpired):
        return None


def _popen_of(node: Any) -> Any:
    """Return the `Popen` of a worker; `None` if it runs on another host."""
    return getattr(getattr(node.gateway, "_io", None), "popen", None)


class CollectedTests:
    """Compare the node ids of each worker with those of the first one.

    Those of the first are kept, and a digest of each other list: sixty workers may have
    a hundred thousand tests each.
    """

    def __init__(self) -> None:
        self._nodeids: Sequence[str] | None = None
        self._workers: list[str] = []
        """Those that agree with the first."""
        self._others: dict[str, list[str]] = {}
        """The workers of each other list, by its digest."""
        self._variants: list[CollectedVariant] = []

    def add(self, worker: str, nodeids: Sequence[str]) -> None:
        """Add what a worker collected."""
        if self._nodeids is None:
            self._nodeids = nodeids
        if self._nodeids is nodeids or self._nodeids == nodeids:
            self._workers.append(worker)
            return
        from pytest_failure_taxonomy.taxonomy.mismatch import (
            MAX_VARIANTS,
            compare_collections,
        )

        digest = digest_of(nodeids)
        if digest not in self._others and len(self._variants) < MAX_VARIANTS:
            self._variants.append(compare_collections(self._nodeids, nodeids, ()))
        self._others.setdefault(digest, []).append(worker)

    def mismatch(self) -> CollectionMismatch | None:
        """Return how the workers disagree; `None` if they don't."""
        if not self._variants or self._nodeids is None:
            return None
        from pytest_failure_taxonomy.taxonomy.mismatch import CollectionMismatch
        from pytest_failure_taxonomy.taxonomy.values import replace

        workers = list(self._others.values())
        listed = len(self._variants)
        return CollectionMismatch(
            workers=_sort_workers(self._workers),
            tests=len(self._nodeids),
            variants=tuple(
                replace(variant, workers=_sort_workers(names))
                for variant, names in zip(self._variants, workers, strict=False)
            ),
            variants_omitted=len(workers) - listed,
            workers_omitted=sum(map(len, workers[listed:])),
        )


def _sort_workers(workers: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(workers, key=lambda worker: (len(worker), worker)))
