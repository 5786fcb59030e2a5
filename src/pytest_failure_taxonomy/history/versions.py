"""What is installed in other versions than before; needs no extra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pytest_failure_taxonomy.taxonomy.values import value
from pytest_failure_taxonomy.taxonomy.words import and_more

MAX_CHANGES: Final = 4
"""Distributions that are named of those that have changed."""


@value
class Change:
    """A distribution that is not as it was."""

    name: str
    old: str | None
    """The version before; `None` if it was not there."""
    new: str | None
    """The version now; `None` if it is not there any more."""

    def __str__(self) -> str:
        if self.old is None:
            return f"+ {self.name} {self.new}"
        if self.new is None:
            return f"- {self.name} {self.old}"
        return f"{self.name} {self.old} -> {self.new}"


def find_changes(before: Sequence[str], now: Sequence[str]) -> list[Change]:
    """Return the changes by name: other versions, then what is new, then what is gone.

    Args:
        before: `name-version` of each distribution.
        now: likewise.
    """
    # The last hyphen: names may have some themselves.
    old = dict(name.rpartition("-")[::2] for name in before)
    new = dict(name.rpartition("-")[::2] for name in now)
    changes = [
        Change(name=name, old=old.get(name), new=new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]
    changes.sort(key=lambda change: (change.new is None, change.old is None))
    return changes


def changed_versions(
    before: Sequence[str], now: Sequence[str]
) -> tuple[str, ...] | None:
    """Return changes in words: `numpy 2.3.1 -> 2.4.0`, `+ new 1.0`, `- old 1.0`.

    Args:
        before: `name-version` of each distribution; empty where that is not known.
        now: likewise.
    """
    if not before or not now:
        return None
    changes = [str(change) for change in find_changes(before, now)]
    more = and_more(len(changes) - MAX_CHANGES).strip()
    del changes[MAX_CHANGES:]
    if more:
        changes.append(more)
    return tuple(changes)
