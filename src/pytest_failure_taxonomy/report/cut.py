"""Make a report smaller where the disk has no room for all of it: the verdict stays, details go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pytest_failure_taxonomy.report.build import OWN_NAME
from pytest_failure_taxonomy.report.limits import JSONObject

CUT: Final = "there was no room on the disk for the whole report"
"""How the fault begins that says what is missing and why."""

_KEPT: Final = (500, 200, 100, 50, 20, 10, 5, 2, 1, 0)
"""How many entries of each list are kept, tried one after the other."""

_LISTS: Final = (
    ("failures", "failures_omitted"),
    ("collection_errors", "collection_errors_omitted"),
    ("internal_errors", "internal_errors_omitted"),
    ("groups", "groups_omitted"),
)
"""Lists of a report and the fields of `limits` that count what they lack."""


def cut_to_fit(
    report: JSONObject, size: int, size_of: Callable[[JSONObject], int]
) -> JSONObject | None:
    """Return as much of a report as fits into so many bytes; `None` where no report does.

    What other plugins have added goes first, then the later tracebacks, then the later entries of
    all lists.

    Args:
        report: a whole one; it is left as it is.
        size: bytes.
        size_of: how many bytes a report takes.
    """
    report = _without_foreign(report)
    for tracebacks, entries in (
        *((kept, None) for kept in (None, *_KEPT)),
        *((0, kept) for kept in _KEPT),
    ):
        part = _with_fewer(report, tracebacks, entries)
        if size_of(part) <= size:
            return part
    return None


def is_cut(report: JSONObject) -> bool:
    """Tell whether a report is one that was cut to fit."""
    own = report["extensions"].get(OWN_NAME, {})
    return any(fault.startswith(CUT) for fault in own.get("faults", ()))


def _without_foreign(report: JSONObject) -> JSONObject:
    """Leave out what has no cap: other plugins' extensions and the cases of a bench."""
    extensions = report["extensions"]
    own = dict(extensions.get(OWN_NAME, {}))
    left_out = [*sorted(extensions.keys() - {OWN_NAME}), *(["bench"] if report["bench"] else [])]
    fault = f"{CUT}; it lacks {', '.join(left_out)}" if left_out else CUT
    own["faults"] = [*own.get("faults", ()), fault]
    return {**report, "bench": [], "extensions": {OWN_NAME: own}}


def _with_fewer(report: JSONObject, tracebacks: int | None, entries: int | None) -> JSONObject:
    """Return a report with so many tracebacks and entries in each list; `None` for all."""
    limits = dict(report["limits"])
    part = dict(report)
    for name, omitted in _LISTS:
        kept = report[name][:entries]
        limits[omitted] += len(report[name]) - len(kept)
        part[name] = [
            _without_traceback(each, index, tracebacks) for index, each in enumerate(kept)
        ]
        limits["tracebacks_omitted"] += sum(
            before.get("traceback") is not None and after["traceback"] is None
            for before, after in zip(kept, part[name], strict=True)
        )
    if entries is not None:
        nodeids = [report["not_run"], *report["reasons"], *part["groups"]]
        limits["nodeids_omitted"] += sum(len(each["nodeids"][entries:]) for each in nodeids)
        part["not_run"] = _with_fewer_nodeids(report["not_run"], entries)
        for name in ("reasons", "groups"):
            part[name] = [_with_fewer_nodeids(each, entries) for each in part[name]]
    return {**part, "limits": limits}


def _without_traceback(entry: JSONObject, index: int, kept: int | None) -> JSONObject:
    if kept is None or index < kept or "traceback" not in entry:
        return entry
    return {**entry, "traceback": None}


def _with_fewer_nodeids(entry: JSONObject, kept: int) -> JSONObject:
    return {**entry, "nodeids": entry["nodeids"][:kept]}
