"""Gather failures of one fingerprint."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_failure_taxonomy.taxonomy.values import value


@value
class Group:
    """Failures that are one and the same, as far as that can be told."""

    fingerprint: str
    reason: str
    """Of most of them, like the kind."""
    kind: str
    title: str
    """One line, of the first of them."""
    count: int
    """Failures; a test can fail twice, in call and teardown or in subtests."""
    nodeids: tuple[str, ...]
    """Each once, in the order of the failures."""


class Grouping:
    """Add up failures one at a time, so that nothing need be kept of them but their node ids."""

    def __init__(self) -> None:
        self._titles: dict[str, str] = {}
        self._kinds: dict[str, dict[tuple[str, str], int]] = {}
        self._nodeids: dict[str, dict[str, None]] = {}

    def is_new(self, fingerprint: str) -> bool:
        """Tell whether a failure would be the first of its group, the one that needs a title."""
        return fingerprint not in self._titles

    def add(self, fingerprint: str, nodeid: str, reason: str, kind: str, title: str = "") -> None:
        """Add one failure; the title counts for the first of a group alone."""
        if fingerprint not in self._titles:
            self._titles[fingerprint] = title
            self._kinds[fingerprint] = {}
            self._nodeids[fingerprint] = {}
        kinds = self._kinds[fingerprint]
        kinds[reason, kind] = kinds.get((reason, kind), 0) + 1
        self._nodeids[fingerprint][nodeid] = None

    def groups(self) -> list[Group]:
        """Return the groups, biggest first, then in the order of their first failures."""
        found = [self._group(fingerprint) for fingerprint in self._titles]
        return sorted(found, key=lambda group: -group.count)

    def _group(self, fingerprint: str) -> Group:
        kinds = self._kinds[fingerprint]
        reason, kind = max(kinds, key=lambda each: kinds[each])  # of equals, the first
        return Group(
            fingerprint=fingerprint,
            reason=reason,
            kind=kind,
            title=self._titles[fingerprint],
            count=sum(kinds.values()),
            nodeids=tuple(self._nodeids[fingerprint]),
        )


def group_failures(failures: Iterable[tuple[str, str, str, str, str]]) -> list[Group]:
    """Return groups of failures, given as fingerprint, node id, reason, kind and title of each."""
    grouping = Grouping()
    for failure in failures:
        grouping.add(*failure)
    return grouping.groups()
