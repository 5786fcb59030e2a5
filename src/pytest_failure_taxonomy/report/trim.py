"""Cut a report to a size, as where a disk has little room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pytest_failure_taxonomy.report.build import JSONObject, with_nodeids

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


def cut_to_fit(
    report: JSONObject, size: int, size_of: Callable[[JSONObject], int]
) -> JSONObject | None:
    """Return as much of a report as fits into a number of bytes; `None` where none does.

    What other plugins have added goes first, then the later tracebacks, then the later entries of
    all lists.

    Args:
        report: a whole one; it is left as it is.
        size: bytes.
        size_of: how many bytes a report takes.
    """
    # Left out first is what has no cap: extensions and the cases of a bench. So is what
    # experiments alone need, if it is large.
    left_out = sorted(report["extensions"])
    left_out += ["bench"] if report["bench"] else []
    environment = report["environment"]
    of_experiments = {
        "order": report["order"],
        "distributions": environment["distributions"],
    }
    if size_of(of_experiments) > size // 8:
        left_out += of_experiments
        environment = {**environment, "distributions": None}
        report = {**report, "order": None, "environment": environment}
    fault = f"{_CUT}; it lacks {', '.join(left_out)}" if left_out else _CUT
    faults = [*report["faults"], fault]
    report = {**report, "bench": [], "faults": faults, "extensions": {}}
    steps: list[tuple[int | None, int | None]] = [(None, None)]
    steps += [(tracebacks, None) for tracebacks in _TRIM_STEPS]
    steps += [(0, entries) for entries in _TRIM_STEPS]
    for tracebacks, entries in steps:
        part = _with_fewer(report, tracebacks, entries)
        if size_of(part) <= size:
            return part
    return None


def is_cut(report: JSONObject) -> bool:
    """Tell whether a report is one that was cut to fit."""
    return any(fault.startswith(_CUT) for fault in report["faults"])


def _with_fewer(
    report: JSONObject, tracebacks: int | None, entries: int | None
) -> JSONObject:
    """Return a report with so many tracebacks and entries in each list; `None` for all."""
    limits = dict(report["limits"])
    part = dict(report)
    for name in _TRIMMED_LISTS:
        listed = report[name][:entries]
        limits[f"{name}_omitted"] += len(report[name]) - len(listed)
        if tracebacks is not None:
            for place, entry in enumerate(listed[tracebacks:], tracebacks):
                if entry.get("traceback") is not None:
                    limits["tracebacks_omitted"] += 1
                    listed[place] = {**entry, "traceback": None}
        part[name] = listed
    if entries is not None:
        part["not_run"] = [report["not_run"]]
        for name in ("not_run", "reasons", "groups", "causes"):
            for row in part[name]:
                limits["nodeids_omitted"] += len(row["nodeids"][entries:])
            part[name] = with_nodeids(part[name], entries)
        (part["not_run"],) = part["not_run"]
    return {**part, "limits": limits}
