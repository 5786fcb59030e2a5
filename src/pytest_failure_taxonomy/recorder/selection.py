"""Which of the selected tests have started, in memory that does not grow with those that passed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence


class Selection:
    """Follow the tests of a run through the order in which they were selected.

    Tests start in that order, or nearly so under xdist; so a cursor says it all, with the few that
    started ahead of it beside it.
    """

    def __init__(self, nodeids: Sequence[str] = ()) -> None:
        self._nodeids = nodeids
        self._cursor = 0
        self._ahead: Counter[str] = Counter()

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodeids)

    def __len__(self) -> int:
        return len(self._nodeids)

    def start(self, nodeid: str) -> None:
        """Take note that a test has started."""
        nodeids = self._nodeids
        cursor = self._cursor
        if cursor < len(nodeids) and nodeids[cursor] == nodeid:
            self._cursor = cursor + 1
        else:
            self._ahead[nodeid] += 1
        if self._ahead:
            self._catch_up()

    def not_started(self) -> tuple[str, ...]:
        """Return the node ids of the tests that never started, in the order of selection."""
        ahead = self._ahead.copy()
        waiting = []
        for nodeid in self._nodeids[self._cursor :]:
            if ahead[nodeid] > 0:
                ahead[nodeid] -= 1
            else:
                waiting.append(nodeid)
        return tuple(waiting)

    def _catch_up(self) -> None:
        """Move the cursor over the tests that have started ahead of it."""
        nodeids, ahead = self._nodeids, self._ahead
        while self._cursor < len(nodeids) and nodeids[self._cursor] in ahead:
            nodeid = nodeids[self._cursor]
            ahead[nodeid] -= 1
            if not ahead[nodeid]:
                del ahead[nodeid]
            self._cursor += 1
