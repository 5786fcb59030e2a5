"""Which failures of a run are one and the same."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_failure_taxonomy.report.limits import JSONObject, Limits
from pytest_failure_taxonomy.taxonomy.classification import classify_test_failure
from pytest_failure_taxonomy.taxonomy.evidence import (
    CollectionFailure,
    RaisedException,
    RunEvidence,
    TestFailure,
)
from pytest_failure_taxonomy.taxonomy.fingerprints import Grouping, fingerprint_of, title_of
from pytest_failure_taxonomy.taxonomy.reasons import FailureReason

_COLLECTION: tuple[str, str] = (FailureReason.INTERNAL_ERROR, "collection.error")


def fingerprints_of(failures: Sequence[TestFailure]) -> list[str]:
    """Return the fingerprint of each failed test.

    A test that is nothing more than the sum of its subtests has that of the first one that failed.
    """
    of_subtests: dict[str, str] = {}
    found = []
    for failure in failures:
        fingerprint = of_subtests.get(failure.nodeid) if failure.part == "sum" else None
        if fingerprint is None:
            fingerprint = _fingerprint_of_test(failure)
        if failure.part == "subtest":
            of_subtests.setdefault(failure.nodeid, fingerprint)
        found.append(fingerprint)
    return found


def _fingerprint_of_test(failure: TestFailure) -> str:
    _, kind = classify_test_failure(failure)
    return _fingerprint(failure.exception, failure.message, kind, failure.nodeid)


def groups_as_json(
    run: RunEvidence, fingerprints: Sequence[str], limits: Limits
) -> list[JSONObject]:
    """Return the field `groups`: of all failures, also of those that are not listed.

    Nodes that could not be collected are in it, too. A test that is nothing more than the sum of
    its subtests is not counted beside them.

    Args:
        run: what was seen.
        fingerprints: of its failed tests.
        limits: the caps of the report.
    """
    grouping = Grouping()
    with_subtests = {each.nodeid for each in run.failures if each.part == "subtest"}
    for failure, fingerprint in zip(run.failures, fingerprints, strict=True):
        if failure.part == "sum" and failure.nodeid in with_subtests:
            continue
        title = _title(failure) if grouping.is_new(fingerprint) else ""
        grouping.add(fingerprint, failure.nodeid, *classify_test_failure(failure), title=title)
    for failed in run.collection_failures:
        fingerprint = _fingerprint(failed.exception, failed.message, _COLLECTION[1], failed.nodeid)
        grouping.add(fingerprint, failed.nodeid, *_COLLECTION, title=_title(failed))
    return [
        {
            "fingerprint": group.fingerprint,
            "reason": str(group.reason),
            "kind": group.kind,
            "title": limits.message(group.title),
            "count": group.count,
            "nodeids": limits.nodeids(group.nodeids),
        }
        for group in limits.groups(grouping.groups())
    ]


def _fingerprint(raised: RaisedException | None, message: str, kind: str, nodeid: str) -> str:
    if raised is None:
        return fingerprint_of("", "", message, None, kind, nodeid=nodeid)
    return fingerprint_of(
        raised.type, raised.module, raised.message, raised.origin, kind, nodeid=nodeid
    )


def _title(failure: TestFailure | CollectionFailure) -> str:
    raised = failure.exception
    if raised is None:
        return title_of("", failure.message, None)
    return title_of(raised.type, raised.message, raised.origin)
