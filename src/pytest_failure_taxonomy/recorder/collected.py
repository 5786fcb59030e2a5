"""Which tests each xdist worker collected: what differs is kept, and nothing of what agrees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest

    from pytest_failure_taxonomy.taxonomy.mismatch import CollectedVariant, CollectionMismatch

_WORDS_OF_XDIST: Final = "Different tests were collected between "
"""How the reports begin by which xdist's schedulers refuse to start, one for each worker that
differs from the first; it is the same in all versions since 1.2."""


class CollectedTests:
    """Compare the node ids of each worker with those of the first one.

    Those of the first are kept, and a digest of each other list: sixty workers may have a hundred
    thousand tests each.
    """

    def __init__(self) -> None:
        self._nodeids: Sequence[str] | None = None
        self._workers: list[str] = []
        """Those that agree with the first."""
        self._others: dict[bytes, list[str]] = {}
        """The workers of each other list, by its digest."""
        self._variants: list[CollectedVariant] = []

    def add(self, worker: str, nodeids: Sequence[str]) -> None:
        """Add what a worker collected."""
        if self._nodeids is None:
            self._nodeids = nodeids
        if self._nodeids is nodeids or self._nodeids == nodeids:
            self._workers.append(worker)
            return
        from pytest_failure_taxonomy.taxonomy.mismatch import MAX_VARIANTS, compare_collections

        digest = _digest(nodeids)
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
            workers=_sorted(self._workers),
            tests=len(self._nodeids),
            variants=tuple(
                replace(variant, workers=_sorted(each))
                for variant, each in zip(self._variants, workers, strict=False)
            ),
            variants_omitted=len(workers) - listed,
            workers_omitted=sum(map(len, workers[listed:])),
        )


def is_of_mismatch(report: pytest.CollectReport) -> bool:
    """Tell whether xdist says by a report that its workers collected different tests.

    The report is one of a node that could not be collected, and the node is a worker.
    """
    return isinstance(report.longrepr, str) and report.longrepr.startswith(_WORDS_OF_XDIST)


def _digest(nodeids: Sequence[str]) -> bytes:
    from hashlib import blake2b

    digest = blake2b(digest_size=16)
    for nodeid in nodeids:
        digest.update(nodeid.encode("utf-8", "surrogatepass") + b"\0")
    return digest.digest()


def _sorted(workers: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(workers, key=lambda worker: (len(worker), worker)))
