"""Distribute cases to xdist's workers in units, and leave every other run as it is.

pytest-xdist 3.8 ignores the groups of `--dist loadgroup` on pytest 9.2 (its issue 1386), so this
uses its hook for schedulers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pytest
from xdist.scheduler import (  # type: ignore[import-untyped]  # xdist ships no types
    LoadScopeScheduling,
    Scheduling,
)
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]  # likewise

_RESERVE: Final = 2
"""Tests that a worker is to have beside the one that it runs."""

FindUnits = Callable[[Sequence[str], int], Mapping[str, str]]
"""Gives the unit of each node id that is a case's, from all node ids and the count of workers."""


class ChosenScheduling:
    """The scheduler that pytest-xdist would use, until a worker has collected a case."""

    def __init__(self, default: Scheduling, find_units: FindUnits, config: Any, log: Any) -> None:
        self._chosen = default
        self._find_units = find_units
        self._config = config
        self._log = log
        self._is_decided = False

    @property  # type: ignore[misc]  # what asks for the scheduler's class means the chosen one's
    def __class__(self) -> type:
        return type(self._chosen)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chosen, name)

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """Choose by the first collection that comes in, and hand it on."""
        if not self._is_decided:
            self._is_decided = True
            self._choose(collection)
        self._chosen.add_node_collection(node, collection)

    def _choose(self, collection: Sequence[str]) -> None:
        default = self._chosen
        count = int(getattr(default, "numnodes", 0)) or len(default.nodes)
        units = self._find_units(collection, count)
        if not units:
            return
        scheduling = UnitScheduling(self._config, self._log, units, default)
        for node in default.nodes:
            scheduling.add_node(node)
        self._config.pluginmanager.register(scheduling)
        self._chosen = scheduling


class UnitScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
    """Gives each unit of cases to one worker, and all other tests as their own scheduler would."""

    def __init__(
        self, config: Any, log: Any, units: Mapping[str, str], default: Scheduling
    ) -> None:
        super().__init__(config, log)
        self._units = units
        self._scope_of_others = getattr(default, "_split_scope", None)
        self._crashed: set[str] = set()
        self._reported: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember which cases have a result: xdist hears a moment later that they are done.

        A worker that another case takes down in that moment must not have them run again.
        """
        if report.nodeid in self._units and (report.when == "call" or report.failed):
            self._reported.add(report.nodeid)

    def _split_scope(self, nodeid: str) -> str:
        unit = self._units.get(nodeid)
        if unit is not None:
            return unit
        if self._scope_of_others is None:
            return nodeid
        return str(self._scope_of_others(nodeid))

    def remove_node(self, node: WorkerController) -> str | None:
        """Take a worker out; of one that crashed, have what it leaves run elsewhere.

        When a unit's worker crashes for the first time, several of its cases were running and none
        can be blamed. Its rest is run one by one then (see `running.py`), and the next crash is
        that of the case that was running. That one is not run again, nor is any other test on
        which a worker crashed: pytest-xdist's own scheduler of scopes would do so without end.
        """
        workload = self.assigned_work.pop(node)
        for unit in workload.values():
            unit.update(dict.fromkeys(unit.keys() & self._reported, True))
        crashed_on = _first_pending(workload)
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
        """Give a worker work, until it has some in reserve: it runs none before it has the next.

        pytest-xdist's own gives one unit at a time, and waits for the end of a test before it
        gives more. With units of one test a worker that joins late waits for ever.
        """
        if node.shutting_down or node not in self.registered_collections:
            return
        while self.workqueue and self._pending_of(self.assigned_work[node]) <= _RESERVE:
            try:
                self._assign_work_unit(node)
            except OSError:  # it has died, and its work comes back when that is noticed
                return
        if not self.workqueue:
            node.shutdown()


def _first_pending(workload: Mapping[str, Mapping[str, bool]]) -> str | None:
    """Return the test that a worker was running, or would have run next."""
    pending = (
        nodeid for unit in workload.values() for nodeid, is_done in unit.items() if not is_done
    )
    return next(pending, None)
