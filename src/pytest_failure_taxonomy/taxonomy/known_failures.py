"""Say which failures of a run are known, and which entries of the list say so no longer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from pytest_failure_taxonomy.taxonomy.values import value

MAX_TOLD: Final = 5
"""How many entries of one sort are told."""


@value
class KnownFailure:
    """One entry: failures that are known, by their node ids or their cause."""

    line: int
    nodeid: str | None = None
    """A pattern: `*` stands for any text, `?` for one character, brackets for themselves."""
    fingerprint: str | None = None
    """The first characters of a group's fingerprint, six or more."""
    owner: str | None = None
    link: str | None = None
    expires: str | None = None
    """The last day on which it counts, such as `2026-12-31`."""

    @property
    def words(self) -> str:
        """What it lists and whose it is, for messages."""
        name = self.nodeid if self.fingerprint is None else f"fingerprint {self.fingerprint}"
        of = ", ".join(filter(None, (self.owner, self.link)))
        return f"{name} ({of})" if of else str(name)

    def lists(self, nodeid: str, fingerprint: str | None) -> bool:
        """Tell whether it lists a failure."""
        if self.fingerprint is not None:
            return fingerprint is not None and fingerprint.startswith(self.fingerprint)
        return self.is_of(nodeid)

    def is_of(self, nodeid: str) -> bool:
        """Tell whether a test's node id matches its pattern."""
        if self.nodeid is None:
            return False
        pattern = re.escape(self.nodeid).replace(r"\*", ".*").replace(r"\?", ".")
        return re.fullmatch(pattern, nodeid, re.DOTALL) is not None


@value
class KnownInRun:
    """What a file of known failures makes of the failures of one run."""

    unlisted: tuple[str, ...]
    """Node ids of failures that no entry lists that still counts."""
    notes: tuple[str, ...]
    """Entries that have expired or that no longer fail, in words."""


def compare_with_known(
    known: Sequence[KnownFailure],
    failures: Iterable[tuple[str, str | None]],
    *,
    today: str,
    passed: Sequence[str] | None,
    unseen: Sequence[str] = (),
    name: str,
) -> KnownInRun:
    """Say which failures of a run are listed, and which entries no longer say what is.

    Args:
        known: the entries.
        failures: node id and fingerprint of each.
        today: the date in local time, such as `2026-12-31`.
        passed: the node ids of the tests that passed; `None` if that is not known.
        unseen: the node ids of what was to run and did not.
        name: of the file, as the notes show it.
    """
    valid = [each for each in known if each.expires is None or each.expires >= today]
    expired = [each for each in known if each.expires is not None and each.expires < today]
    unlisted: dict[str, None] = {}
    met: set[int] = set()
    for nodeid, fingerprint in failures:
        found = [each.line for each in known if each.lists(nodeid, fingerprint)]
        met.update(found)
        if not any(each.lists(nodeid, fingerprint) for each in valid):
            unlisted[nodeid] = None
    gone = [
        each
        for each in valid
        if each.line not in met
        and passed is not None
        and any(map(each.is_of, passed))
        and not any(map(each.is_of, unseen))
    ]
    notes = [
        f"{name}:{each.line}: expired on {each.expires}: {each.words}"
        for each in expired[:MAX_TOLD]
    ]
    notes += [f"{name}:{each.line}: fails no more: {each.words}" for each in gone[:MAX_TOLD]]
    return KnownInRun(unlisted=tuple(unlisted), notes=tuple(notes))
