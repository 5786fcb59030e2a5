"""Node ids without the secrets in them, as the record and the report show them.

pytest, xdist and other plugins use the real node ids, and so does all code that compares a node id
with theirs. Each mark has a digest of the whole node id, so that two node ids stay different:
`test_login[[REDACTED:github-token 3f2a9c41b0]]`. See docs/decisions/0016.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from pytest_failure_taxonomy.recorder.secrets import Secrets, digest
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict

T = TypeVar("T")

_SEARCHED_AT_ONCE: Final = 10_000
"""Characters of node ids that are searched together."""
_FIELDS: Final = frozenset({"nodeid", "crashed_on", "not_run", "other_nodeid", "lacking", "added"})
"""The fields of values that hold node ids."""


class NodeIds:
    """The node ids of a run that hold a secret, and what is shown in their place."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._shown: dict[str, str] = {}
        self._real: dict[str, str] = {}
        self._searched_at = secrets.state
        """What was known to be secret when all node ids were searched."""

    def shown_of_all(self, nodeids: Sequence[str]) -> Sequence[str]:
        """Return the node ids of all selected tests as they are to be shown, in their order."""
        self._search(nodeids)
        self._searched_at = self._secrets.state
        if not self._shown:
            return nodeids
        return [self._shown.get(each, each) for each in nodeids]

    def shown(self, nodeid: str) -> str:
        """Return a node id as it is to be shown."""
        if nodeid not in self._shown:
            self._search((nodeid,))
        return self._shown.get(nodeid, nodeid)

    def real(self, shown: str) -> str:
        """Return the real node id of one that another process has recorded as it is shown."""
        return self._real.get(shown, shown)

    def named(self, one: T) -> T:
        """Return a value with all node ids in it as they are shown; they are searched first."""
        self._search(dict.fromkeys(_nodeids_in(one)))
        changed: T = self._changed(one) if self._shown else one
        return changed

    def selected(self, one: T) -> T:
        """Return a value as `named` does, but without a search: its tests were selected."""
        changed: T = self._changed(one) if self._shown else one
        return changed

    def settled(self, one: T) -> T:
        """Return a value at the end of a run; search again if more has become known since."""
        if self._secrets.state != self._searched_at:
            return self.named(one)
        return self.selected(one)

    def _search(self, nodeids: Iterable[str]) -> None:
        together: list[str] = []
        parts: list[str] = []
        length = 0
        file = ""
        for nodeid in nodeids:
            together.append(nodeid)
            before, bracket, name = nodeid.partition("[")
            if not bracket:
                before, _, name = nodeid.rpartition("::")
            if before != file:  # many tests are of one function, or of one file
                parts.append(before)
                length += len(before)
                file = before
            parts.append(name)
            length += len(name)
            if length > _SEARCHED_AT_ONCE:
                self._search_together(together, parts)
                together, parts, length, file = [], [], 0, ""
        self._search_together(together, parts)

    def _search_together(self, nodeids: list[str], parts: list[str]) -> None:
        texts = nodeids if self._secrets.patterns else parts
        if self._secrets.holds_none_at_all(texts):
            return
        for nodeid in nodeids:
            redacted = nodeid if nodeid in self._shown else self._secrets.redact(nodeid)
            if redacted != nodeid:
                marked = _with_digest(redacted, digest(nodeid, self._secrets.key))
                self._shown[nodeid] = marked
                self._real[marked] = nodeid

    def _changed(self, one: Any) -> Any:
        changes: dict[str, Any] = {}
        for name, each in to_dict(one).items():
            if isinstance(each, str):
                if name in _FIELDS:
                    changes[name] = self._shown.get(each, each)
            elif isinstance(each, tuple):
                if name in _FIELDS:
                    changes[name] = tuple(self._shown.get(item, item) for item in each)
                elif each and _is_value(each[0]):
                    changes[name] = tuple(self._changed(item) for item in each)
            elif _is_value(each):
                changes[name] = self._changed(each)
        return replace(one, **changes) if changes else one


def _is_value(one: object) -> bool:
    return hasattr(one, "__slots__") and not isinstance(one, str)


def _nodeids_in(one: Any) -> Iterator[str]:
    for name, each in to_dict(one).items():
        if isinstance(each, str):
            if name in _FIELDS:
                yield each
        elif isinstance(each, tuple):
            if name in _FIELDS:
                yield from each
            elif each and _is_value(each[0]):
                for item in each:
                    yield from _nodeids_in(item)
        elif _is_value(each):
            yield from _nodeids_in(each)


def _with_digest(redacted: str, digits: str) -> str:
    """Return a redacted node id with a digest in each of its marks."""
    from pytest_failure_taxonomy.redaction.marks import MARK

    return MARK.sub(lambda mark: f"{mark.group()[:-1]} {digits}]", redacted)
