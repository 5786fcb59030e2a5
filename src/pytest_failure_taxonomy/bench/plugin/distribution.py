"""Distribute cases to xdist's workers in units; runs without cases keep their scheduler.

pytest-xdist 3.8 ignores the groups of `--dist loadgroup` on pytest 9.2 (its issue 1386), so this
uses xdist's hook for schedulers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling, Scheduling  # type: ignore[import-untyped]  # xdist ships no types
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]  # likewise

_RESERVE: Final = 2
"""Tests that a worker should have queued besides the one that it runs."""

FindUnits = Callable[[Sequence[str], int], Mapping[str, str]]
"""Maps the node ids of cases to units, given all node ids and the number of workers."""


class ChosenScheduling:
    """Delegates to the scheduler of the user's options, or to ours if there are cases."""

    def __init__(
        self, default: Scheduling, find_units: FindUnits, config: Any, log: Any
    ) -> None:
        self._chosen = default
        self._find_units = find_units
        self._config = config
        self._log = log
        self._is_decided = False

    @property  # type: ignore[misc]  # whoever asks for the class means the chosen scheduler's
    def __class__(self) -> type:
        return type(self._chosen)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chosen, name)

    def add_node_collection(
        self, node: WorkerController, collection: Sequence[str]
    ) -> None:
        """Choose a scheduler by the first collection that arrives, and hand the collection on."""
        if not self._is_decided:
            self._is_decided = True
            default = self._chosen
            count = int(getattr(default, "numnodes", 0)) or len(default.nodes)
            units = self._find_units(collection, count)
            if units:
                self._chosen = UnitScheduling(self._config, self._log, units, default)
                for each in default.nodes:
                    self._chosen.add_node(each)
                self._config.pluginmanager.register(self._chosen)
        self._chosen.add_node_collection(node, collection)


class UnitScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
    """Gives each unit of cases to one worker, and splits other tests as xdist would."""

    def __init__(
        self, config: Any, log: Any, units: Mapping[str, str], default: Scheduling
    ) -> None:
        super().__init__(config, log)
        self._units = units
        self._scope_of_others = getattr(default, "_split_scope", str)
        self._crashed: set[str] = set()
        self._reported: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record which cases have a result: xdist learns only later that they are done.

        If another case crashes the worker in between, they must not run again.
        """
        if report.nodeid in self._units and (report.when == "call" or report.failed):
            self._reported.add(report.nodeid)

    def _split_scope(self, nodeid: str) -> str:
        return self._units.get(nodeid) or str(self._scope_of_others(nodeid))

    def remove_node(self, node: WorkerController) -> str | None:
        """Remove a worker; if it crashed, run its remaining tests on other workers.

        When a unit's worker crashes for the first time, several cases were running, and none of
        them can be blamed. The rest of the unit then runs one by one (see `scheduler.py`), and the
        next crash is due to the case that was running. That case is not run again, nor is any other
        test that crashed a worker: xdist's own scheduler of scopes would repeat it endlessly.
        """
        workload = self.assigned_work.pop(node)
        for unit in workload.values():
            unit.update(dict.fromkeys(unit.keys() & self._reported, True))
        pending = (
            nodeid
            for unit in workload.values()
            for nodeid, is_done in unit.items()
            if not is_done
        )
        crashed_on = next(
            pending, None
        )  # it was running that, or would have run it next
        if crashed_on is None:
            return None
        scope = self._split_scope(crashed_on)
        is_certain = crashed_on not in self._units or scope in self._crashed
        self._crashed.add(scope)
        if is_certain:
            workload[scope][crashed_on] = True
        left = {name: unit for name, unit in workload.items() if not all(unit.values())}
        self.workqueue.update(left)
        for each in self.nodes:
            self._reschedule(each)
        return crashed_on if is_certain else None

    def _reschedule(self, node: WorkerController) -> None:
        """Assign work until the worker has a reserve: it starts a test only if it has the next.

        xdist's own method assigns one unit at a time, and more when a test has ended. With units of
        a single test, a worker that joins late would wait forever.
        """
        if node.shutting_down or node not in self.registered_collections:
            return
        while self.workqueue and self._pending_of(self.assigned_work[node]) <= _RESERVE:
            try:
                self._assign_work_unit(node)
            except OSError:  # the worker died; its work returns when xdist notices
                return
        if not self.workqueue:
            node.shutdown()
