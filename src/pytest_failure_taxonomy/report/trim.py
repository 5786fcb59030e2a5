"""Cut a report to a size, for example for a disk that is nearly full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pytest_failure_taxonomy.report.build import cut_nodeids
from pytest_failure_taxonomy.report.model import FailureReport, Limits
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict

_CUT: Final = "there was no room on the disk for the whole report"
"""Start of the fault that says what is missing and why."""

_TRIM_STEPS: Final = (500, 200, 100, 50, 20, 10, 5, 2, 1, 0)
"""How many entries of each list are kept, tried one after the other."""

_TRIMMED_LISTS: Final = (
    "failures",
    "collection_errors",
    "internal_errors",
    "groups",
    "causes",
)
"""Lists of a report of which `limits` counts what they lack, as in `failures_omitted`."""
_WITH_TRACEBACKS: Final = _TRIMMED_LISTS[:3]


def cut_to_fit(
    report: FailureReport, size: int, size_of: Callable[[FailureReport], int]
) -> FailureReport | None:
    """Return as much of a report as fits into a number of bytes; `None` where none does.

    What other plugins have added goes first, then the later tracebacks, then the later entries of
    all lists.

    Args:
        report: a whole one.
        size: bytes.
        size_of: how many bytes a report takes.
    """
    # Omitted first is what has no cap: extensions and the cases of a bench.
    omitted = sorted(report.extensions)
    if report.bench:
        omitted.append("bench")
    if report.changes:
        omitted.append("changes")
    part = replace(report, bench=(), extensions={}, changes=())
    # So is what experiments alone need, if it is large.
    environment = replace(part.environment, distributions=None)
    smaller = replace(part, order=None, environment=environment)
    saved = size_of(part) - size_of(smaller)
    if saved > size // 8:
        omitted += ["order", "distributions"]
        part = smaller
    fault = _CUT
    if omitted:
        fault += f"; it lacks {', '.join(omitted)}"
    part = replace(part, faults=(*part.faults, fault))
    steps: list[tuple[int | None, int | None]] = [(None, None)]
    steps += [(tracebacks, None) for tracebacks in _TRIM_STEPS]
    steps += [(0, entries) for entries in _TRIM_STEPS]
    for tracebacks, entries in steps:
        cut = _cut_lists(part, tracebacks, entries)
        if size_of(cut) <= size:
            return cut
    return None


def is_cut(report: FailureReport) -> bool:
    """Tell whether a report is one that was cut to fit."""
    return any(fault.startswith(_CUT) for fault in report.faults)


def _cut_lists(
    report: FailureReport, tracebacks: int | None, entries: int | None
) -> FailureReport:
    """Return a report with so many tracebacks and entries in each list; `None` for all."""
    limits = to_dict(report.limits)
    lists: dict[str, Any] = {}
    for name in _TRIMMED_LISTS:
        whole = getattr(report, name)
        lists[name] = listed = list(whole[:entries])
        limits[f"{name}_omitted"] += len(whole) - len(listed)
        if tracebacks is None or name not in _WITH_TRACEBACKS:
            continue
        for place, entry in enumerate(listed[tracebacks:], tracebacks):
            if entry.traceback is not None:
                limits["tracebacks_omitted"] += 1
                listed[place] = replace(entry, traceback=None)
    if entries is not None:
        lists |= {"not_run": [report.not_run], "reasons": report.reasons}
        for name in ("not_run", "reasons", "groups", "causes"):
            for entry in lists[name]:
                limits["nodeids_omitted"] += len(entry.nodeids[entries:])
            lists[name] = [cut_nodeids(entry, entries) for entry in lists[name]]
        (not_run,) = lists.pop("not_run")
        report = replace(report, not_run=not_run)
    fields = {name: tuple(listed) for name, listed in lists.items()}
    return replace(report, limits=Limits(**limits), **fields)
