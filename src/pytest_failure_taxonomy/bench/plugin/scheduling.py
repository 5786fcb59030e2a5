"""Distribute cases to xdist's workers in units, and leave every other run as it is.

pytest-xdist 3.8 ignores the groups of `--dist loadgroup` on pytest 9.2 (its issue 1386), so this
uses its hook for schedulers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdist.scheduler import (  # type: ignore[import-untyped]  # xdist ships no types
    LoadScopeScheduling,
    Scheduling,
)
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]  # likewise

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
        can be blamed. Its rest is run one by one then (see `session.py`), and the next crash is
        that of the case that was running. That one is not run again.
        """
        workload = self.assigned_work[node]
        crashed_on: str | None = super().remove_node(node)
        if crashed_on is None:
            return None
        scope = self._split_scope(crashed_on)
        if crashed_on in self._units and scope not in self._crashed:
            self._crashed.add(scope)
            return None
        self._finish(workload, scope, crashed_on)
        return crashed_on

    def _finish(self, workload: Any, scope: str, nodeid: str) -> None:
        """Keep a test that has crashed its worker from being run again."""
        workload[scope][nodeid] = True
        if all(workload[scope].values()):
            self.workqueue.pop(scope, None)
